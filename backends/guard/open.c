/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening, closing and describing a guard.  Nothing else runs on it during open and
 * close.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backends/guard/guard.h"
#include "backends/guard/stream.h"

#define STAGING_BYTES ((size_t)256 << 10)

/* The inner backend's groups that the guard hands on.  Sharing needs whole allocations of the inner one,
 * and captured memory is the graph's: neither is guarded. */
#define HANDED_ON                                                                                 \
	(SOMA_BACKEND_STREAM_ORDERED | SOMA_BACKEND_USE_TRACKING | SOMA_BACKEND_HOST_ACCESSIBLE | \
	 SOMA_BACKEND_LOST | SOMA_BACKEND_STREAMS | SOMA_BACKEND_FILLS | SOMA_BACKEND_SCANS |     \
	 SOMA_BACKEND_SPANS | SOMA_BACKEND_POOL | SOMA_BACKEND_PEERS | SOMA_BACKEND_STEPS)

/* The inner backend's answer, without groups whose ops it lacks. */
static enum soma_status
query_inner(struct soma_backend *g, struct soma_backend_info *info)
{
	enum soma_status status = g->ops->query(g->inner, info);
	const struct soma_backend_inner *inner = g->host->inner;

	if (status == SOMA_STATUS_OK && SOMA_BACKEND_HAS(info, capabilities) &&
	    SOMA_BACKEND_HAS(inner, capabilities))
		info->capabilities &= inner->capabilities | SOMA_BACKEND_LOST;
	return status;
}

enum soma_status
guard_query(struct soma_backend *g, struct soma_backend_info *info)
{
	enum soma_status status = query_inner(g, info);

	if (status == SOMA_STATUS_OK && SOMA_BACKEND_HAS(info, capabilities)) {
		info->capabilities =
			(info->capabilities & HANDED_ON) | SOMA_BACKEND_USES | SOMA_BACKEND_GUARD;
		if (!g->off)
			info->capabilities |= SOMA_BACKEND_KEEPS_FREED;
	}
	return status;
}

static enum soma_status
check_inner(struct soma_backend *g)
{
	uint64_t have = g->info.capabilities;

	if (have & SOMA_BACKEND_KEEPS_FREED)
		return guard_fail(g->host, SOMA_STATUS_NOT_SUPPORTED,
				  "guard: the backend inside keeps freed memory itself; one that does not "
				  "was expected");
	if (!g->direct && !(have & SOMA_BACKEND_FILLS))
		return guard_fail(
			g->host, SOMA_STATUS_NOT_SUPPORTED,
			"guard: the backend inside has neither memory that the host reaches nor fills "
			"and copies");
	return SOMA_STATUS_OK;
}

static bool
init_locks(struct soma_backend *g)
{
	return pthread_mutex_init(&g->lock, NULL) == 0 && pthread_mutex_init(&g->probe_lock, NULL) == 0 &&
	       pthread_cond_init(&g->changed, NULL) == 0;
}

static enum soma_status
init_records(struct soma_backend *g)
{
	if (clocks_init(&g->clocks, g->host) && lane_prepare(g, CLOCKS_HOST) &&
	    blocks_init(&g->blocks, g->host) &&
	    stacks_init(&g->stacks, g->host, (uint32_t)g->options.backtrace))
		return SOMA_STATUS_OK;
	return guard_fail(g->host, SOMA_STATUS_OUT_OF_HOST_MEMORY, "guard: no memory for records");
}

/* The guard's own stream, and the legacy stream's lane, which the clocks must know from the start. */
static enum soma_status
init_streams(struct soma_backend *g)
{
	struct soma_backend_stream *legacy;
	enum soma_status status;

	if (!g->streams)
		return SOMA_STATUS_OK;
	status = g->ops->stream_create(g->inner, SOMA_BACKEND_STREAM_NON_BLOCKING, &g->own);
	if (status == SOMA_STATUS_OK)
		status = g->ops->event_create(g->inner, 0, &g->edge);
	if (status == SOMA_STATUS_OK)
		status = stream_default(g, SOMA_BACKEND_STREAM_LEGACY, &legacy);
	return status == SOMA_STATUS_NOT_SUPPORTED && g->edge != NULL ? SOMA_STATUS_OK : status;
}

static enum soma_status
init_staging(struct soma_backend *g)
{
	enum soma_status status = SOMA_STATUS_OK;

	if (!g->direct) {
		status = g->ops->staging_alloc(g->inner, STAGING_BYTES, &g->staging);
		g->staging_size = status == SOMA_STATUS_OK ? STAGING_BYTES : 0;
	}
	return status;
}

static void
give_streams(struct soma_backend *g)
{
	while (g->all_events != NULL)
		event_destroy(g, g->all_events);
	while (g->all_streams != NULL)
		stream_destroy(g, g->all_streams);
	for (uint32_t i = 0; i < g->lane_room; i++) {
		if (g->lanes[i] == NULL)
			continue;
		if (g->lanes[i]->marker != NULL)
			g->ops->event_destroy(g->inner, g->lanes[i]->marker);
		g->host->free(g->host->context, g->lanes[i], sizeof *g->lanes[i]);
	}
	if (g->lanes != NULL)
		g->host->free(g->host->context, g->lanes, g->lane_room * sizeof *g->lanes);
	if (g->edge != NULL)
		g->ops->event_destroy(g->inner, g->edge);
	if (g->own != NULL)
		g->ops->stream_destroy(g->inner, g->own);
	/* What may be written yet is the inner backend's to give back, when it has waited. */
	if (g->staging != NULL && (!g->staging_busy || g->ops->synchronize(g->inner) == SOMA_STATUS_OK))
		g->ops->staging_free(g->inner, g->staging, g->staging_size);
}

/* In reverse order of guard_open(); what was not reached is zero.  In a forked child the inner
 * backend is left alone, and the streams' records go with the arena. */
static void
fini(struct soma_backend *g)
{
	bool child = atomic_load(&g->disabled);

	if (!g->off)
		mapped_close(g);
	if (!child)
		give_streams(g);
	if (!g->off) {
		reporter_close(g);
		stacks_fini(&g->stacks);
		blocks_fini(&g->blocks);
	}
	if (!child)
		clocks_fini(&g->clocks);
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->probe_lock);
	pthread_mutex_destroy(&g->lock);
	g->host->free(g->host->context, g, sizeof *g);
}

static enum soma_status
init(struct soma_backend *g, const struct soma_backend_open *how)
{
	enum soma_status status = guard_options_read(&g->options, how);

	if (status == SOMA_STATUS_OK)
		status = query_inner(g, &g->info);
	if (status != SOMA_STATUS_OK)
		return status;
	g->direct = (g->info.capabilities & SOMA_BACKEND_HOST_ACCESSIBLE) != 0;
	g->streams = (g->info.capabilities & SOMA_BACKEND_STREAMS) != 0;
	g->ordered = (g->info.capabilities & SOMA_BACKEND_STREAM_ORDERED) != 0;
	guard_options_resolve(&g->options, g->direct, g->info.total);
	g->off = g->options.mode == GUARD_OFF;
	if (g->off) {
		if (!clocks_init(&g->clocks, g->host))
			return guard_fail(g->host, SOMA_STATUS_OUT_OF_HOST_MEMORY,
					  "guard: no memory for records");
		return SOMA_STATUS_OK;
	}
	status = check_inner(g);
	if (status == SOMA_STATUS_OK)
		status = init_records(g);
	if (status == SOMA_STATUS_OK)
		status = reporter_open(g);
	if (status == SOMA_STATUS_OK)
		status = init_streams(g);
	if (status == SOMA_STATUS_OK)
		status = init_staging(g);
	return status == SOMA_STATUS_OK ? mapped_open(g) : status;
}

enum soma_status
guard_open(const struct soma_backend_open *how, struct soma_backend **self)
{
	const struct soma_backend_host *host = how->host;

	if (host->inner == NULL)
		return guard_fail(host, SOMA_STATUS_INVALID_VALUE,
				  "guard: it goes around another backend, as in guard:host");
	struct soma_backend *g = host->alloc(host->context, sizeof *g, 64);
	if (g == NULL)
		return guard_fail(host, SOMA_STATUS_OUT_OF_HOST_MEMORY, "guard: no memory to open");
	memset(g, 0, sizeof *g);
	g->host = host;
	g->ops = host->inner->ops;
	g->inner = host->inner->self;
	g->info.size = sizeof g->info;
	g->device = how->device;
	if (!init_locks(g)) {
		host->free(host->context, g, sizeof *g);
		return guard_fail(host, SOMA_STATUS_OUT_OF_HOST_MEMORY, "guard: no memory for a lock");
	}
	enum soma_status status = init(g, how);
	if (status != SOMA_STATUS_OK) {
		fini(g);
		return status;
	}
	fork_enter(g);
	*self = g;
	return SOMA_STATUS_OK;
}

/* ---- closing ------------------------------------------------------------------------- */

/* Whether the inner backend still answers; after a sticky error, or without its driver, only
 * the guard's own records are looked at. */
static bool
is_alive(struct soma_backend *g)
{
	struct soma_backend_info info = { .size = sizeof info };

	if (g->ops->query(g->inner, &info) != SOMA_STATUS_OK || (info.capabilities & SOMA_BACKEND_LOST))
		return false;
	return !g->streams || g->ops->synchronize(g->inner) == SOMA_STATUS_OK;
}

static void
give_blocks(struct soma_backend *g)
{
	for (struct block *block = g->blocks.oldest; block != NULL; block = block->newer) {
		if (block->state == BLOCK_TOMBSTONE)
			continue;
		if (block->range == 0) {
			g->ops->free(g->inner, block->outer, block->outer_size, NULL);
			continue;
		}
		if (block->resident)
			mapped_vacate(g, block);
		mapped_release(g, block);
	}
}

static void
tell_suppressed(struct soma_backend *g)
{
	char text[96];
	uint64_t count = atomic_load(&g->reporter.suppressed);

	if (count == 0)
		return;
	snprintf(text, sizeof text, "guard: %" PRIu64 " reports beyond report_limit were only counted",
		 count);
	g->host->log(g->host->context, SOMA_BACKEND_LOG_WARNING, text);
}

void
guard_close(struct soma_backend *g)
{
	bool idle = guard_is_idle(g);

	fork_leave(g);
	if (!idle) {
		bool alive = is_alive(g);
		if (alive) {
			pthread_mutex_lock(&g->lock);
			for (uint32_t i = 0; i < g->clocks.count; i++)
				clocks_wait(&g->clocks, CLOCKS_HOST, &g->clocks.lanes[i].now);
			pthread_mutex_unlock(&g->lock);
			lane_settle_all(g, false);
			scan_all(g, "scan at shutdown", UINT64_MAX);
		}
		leak_report(g);
		tell_suppressed(g);
	}
	if (!g->off && !atomic_load(&g->disabled))
		give_blocks(g);
	fini(g);
}

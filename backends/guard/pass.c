/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops that the guard hands on: fills, copies, scans, spans, attributes, peers, steps; and
 * the table of all ops, and the module.  Of a fill or copy it notes only that something was
 * written there, which nobody else may have declared.
 */
#include "backends/guard/guard.h"
#include "backends/guard/stream.h"

static void
note_write(struct soma_backend *g, uint64_t to, enum soma_status status)
{
	if (status != SOMA_STATUS_OK || guard_is_idle(g))
		return;
	pthread_mutex_lock(&g->lock);
	struct block *block = blocks_find(&g->blocks, to);
	if (block != NULL)
		block->unread = false;
	else
		g->loose_write_seq = ++g->clocks.seq;
	pthread_mutex_unlock(&g->lock);
}

static enum soma_status
fill8(struct soma_backend *g, uint64_t ptr, uint8_t value, uint64_t count, struct soma_backend_stream *stream)
{
	enum soma_status status = g->ops->fill8(g->inner, ptr, value, count, inner_stream(stream));

	note_write(g, ptr, status);
	return status;
}

static enum soma_status
fill32(struct soma_backend *g, uint64_t ptr, uint32_t value, uint64_t count,
       struct soma_backend_stream *stream)
{
	enum soma_status status = g->ops->fill32(g->inner, ptr, value, count, inner_stream(stream));

	note_write(g, ptr, status);
	return status;
}

static enum soma_status
copy(struct soma_backend *g, uint64_t to, uint64_t from, uint64_t bytes, struct soma_backend_stream *stream)
{
	enum soma_status status = g->ops->copy(g->inner, to, from, bytes, inner_stream(stream));

	note_write(g, to, status);
	return status;
}

static enum soma_status
copy_from_host(struct soma_backend *g, uint64_t to, const void *from, uint64_t bytes,
	       struct soma_backend_stream *stream)
{
	enum soma_status status = g->ops->copy_from_host(g->inner, to, from, bytes, inner_stream(stream));

	note_write(g, to, status);
	return status;
}

static enum soma_status
copy_to_host(struct soma_backend *g, void *to, uint64_t from, uint64_t bytes,
	     struct soma_backend_stream *stream)
{
	return g->ops->copy_to_host(g->inner, to, from, bytes, inner_stream(stream));
}

static enum soma_status
staging_alloc(struct soma_backend *g, size_t size, void **memory)
{
	return g->ops->staging_alloc(g->inner, size, memory);
}

static void
staging_free(struct soma_backend *g, void *memory, size_t size)
{
	g->ops->staging_free(g->inner, memory, size);
}

static enum soma_status
scan(struct soma_backend *g, struct soma_backend_scan *ranges, size_t count,
     struct soma_backend_stream *stream)
{
	return g->ops->scan(g->inner, ranges, count, inner_stream(stream));
}

static enum soma_status
span_reserve(struct soma_backend *g, uint64_t size, uint64_t alignment, uint64_t *address)
{
	return g->ops->span_reserve(g->inner, size, alignment, address);
}

static enum soma_status
span_map(struct soma_backend *g, uint64_t address, uint64_t size)
{
	return g->ops->span_map(g->inner, address, size);
}

static enum soma_status
span_unmap(struct soma_backend *g, uint64_t address, uint64_t size)
{
	return g->ops->span_unmap(g->inner, address, size);
}

static enum soma_status
span_release(struct soma_backend *g, uint64_t address, uint64_t size)
{
	return g->ops->span_release(g->inner, address, size);
}

static enum soma_status
pool_get(struct soma_backend *g, enum soma_backend_attribute attribute, uint64_t *value)
{
	return g->ops->pool_get(g->inner, attribute, value);
}

static enum soma_status
pool_set(struct soma_backend *g, enum soma_backend_attribute attribute, uint64_t value)
{
	return g->ops->pool_set(g->inner, attribute, value);
}

static enum soma_status
pool_trim(struct soma_backend *g, uint64_t keep)
{
	return g->ops->pool_trim(g->inner, keep);
}

static enum soma_status
peer_can_access(struct soma_backend *g, int device, bool *can)
{
	return g->ops->peer_can_access(g->inner, device, can);
}

static enum soma_status
peer_set_access(struct soma_backend *g, int device, enum soma_backend_access access)
{
	return g->ops->peer_set_access(g->inner, device, access);
}

static enum soma_status
stream_step(struct soma_backend *g, struct soma_backend_stream *stream, uint64_t count, uint64_t *ran)
{
	return g->ops->stream_step(g->inner, stream->inner, count, ran);
}

static enum soma_status
stream_position(struct soma_backend *g, struct soma_backend_stream *stream, uint64_t *queued, uint64_t *run)
{
	return g->ops->stream_position(g->inner, stream->inner, queued, run);
}

static enum soma_status
device_count(const struct soma_backend_host *host, int *count)
{
	if (host->inner != NULL && host->inner->ops->device_count != NULL)
		return host->inner->ops->device_count(host, count);
	*count = 1;
	return SOMA_STATUS_OK;
}

/* ---- the guard's own group --------------------------------------------------------- */

static enum soma_status
guard_settle(struct soma_backend *g)
{
	if (!guard_is_idle(g)) {
		lane_settle_all(g, true);
		quarantine_trim(g);
	}
	return SOMA_STATUS_OK;
}

static enum soma_status
guard_drain(struct soma_backend *g, uint64_t keep)
{
	if (!guard_is_idle(g)) {
		lane_settle_all(g, true);
		quarantine_drain(g,
				 (struct quarantine_bounds){ UINT64_MAX, keep, keep == 0 ? 0 : UINT64_MAX });
	}
	return SOMA_STATUS_OK;
}

static enum soma_status
guard_stats(struct soma_backend *g, struct soma_backend_guard_stats *stats)
{
	struct soma_backend_guard_stats all = { .size = stats->size };

	pthread_mutex_lock(&g->lock);
	all.reports = atomic_load(&g->reporter.count);
	all.live_blocks = g->live_count;
	all.retired_blocks = g->retired_count;
	all.retired_bytes = g->retired_requested;
	all.quarantined_blocks = g->quarantine.count;
	all.quarantined_bytes = g->quarantine.requested;
	all.condemned_blocks = g->condemned.count;
	all.condemned_bytes = g->condemned.requested;
	pthread_mutex_unlock(&g->lock);
	__builtin_memcpy(stats, &all, all.size < sizeof all ? all.size : sizeof all);
	return SOMA_STATUS_OK;
}

static enum soma_status
guard_listen(struct soma_backend *g,
	     void (*listener)(void *context, const struct soma_backend_guard_report *report), void *context)
{
	pthread_mutex_lock(&g->reporter.mutex);
	g->reporter.listener = listener;
	g->reporter.listener_context = context;
	g->reporter.listened = true;
	pthread_mutex_unlock(&g->reporter.mutex);
	return SOMA_STATUS_OK;
}

const struct soma_backend_ops guard_ops = {
	.size = sizeof(struct soma_backend_ops),
	.open = guard_open,
	.close = guard_close,
	.query = guard_query,
	.alloc = guard_alloc,
	.free = guard_free,
	.device_count = device_count,
	.stream_create = stream_create,
	.stream_default = stream_default,
	.stream_wrap = stream_wrap,
	.stream_destroy = stream_destroy,
	.stream_info = stream_info,
	.stream_query = stream_query,
	.stream_synchronize = stream_synchronize,
	.synchronize = guard_synchronize,
	.event_create = event_create,
	.event_destroy = event_destroy,
	.event_record = event_record,
	.event_wait = event_wait,
	.event_query = event_query,
	.event_synchronize = event_synchronize,
	.fill8 = fill8,
	.fill32 = fill32,
	.copy = copy,
	.copy_from_host = copy_from_host,
	.copy_to_host = copy_to_host,
	.staging_alloc = staging_alloc,
	.staging_free = staging_free,
	.scan = scan,
	.span_reserve = span_reserve,
	.span_map = span_map,
	.span_unmap = span_unmap,
	.span_release = span_release,
	.pool_get = pool_get,
	.pool_set = pool_set,
	.pool_trim = pool_trim,
	.peer_can_access = peer_can_access,
	.peer_set_access = peer_set_access,
	.block_use = guard_use,
	.block_name = guard_name,
	.guard_settle = guard_settle,
	.guard_drain = guard_drain,
	.guard_scan = guard_scan,
	.guard_stats = guard_stats,
	.guard_listen = guard_listen,
	.stream_step = stream_step,
	.stream_position = stream_position,
	.block_stale = guard_stale,
	.stream_name = stream_name,
};

SOMA_BACKEND_EXPORT const struct soma_backend_module soma_backend_module = {
	.abi = SOMA_BACKEND_ABI,
	.size = sizeof(struct soma_backend_module),
	.name = "guard",
	.version = "1.0",
	.description = "finds memory and ordering errors in the use of another backend",
	.ops = &guard_ops,
	.options = guard_option_table,
	.wraps = 1,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Figures, attributes, trimming; and what the backend does for other devices and processes. */
#include <string.h>

#include "lib/base/error.h"
#include "lib/model/driven.h"
#include "lib/pool/handles.h"
#include "lib/pool/segments.h"
#include "lib/pool/streams.h"
#include "lib/pool/twin.h"
#include "lib/resource/terminal.h"

/* ---- figures ------------------------------------------------------------------------- */

static void
fill_stats(struct soma_pool *pool, struct soma_pool_stats *stats)
{
	struct soma_model_stats model;

	soma_model_stats(pool->model, &model, sizeof model);
	stats->reserved = model.reserved;
	stats->reserved_high = model.reserved_high;
	stats->used = model.used;
	stats->used_high = model.used_high;
	stats->active = model.active;
	stats->peak_active = model.peak_active;
	stats->live_count = model.live_count;
	stats->free_block_count = model.free_block_count;
	stats->pending_free_count = model.pending_free_count;
	stats->segment_count = model.segment_count;
	stats->segments_acquired = model.segments_acquired;
	stats->segments_released = model.segments_released;
	stats->alloc_count = model.alloc_count;
	stats->free_count = model.free_count;
	stats->wait_count = model.wait_count;
	stats->graph_count = pool->graphs;
	stats->handle_count = pool->carved - pool->spare_count;
}

enum soma_status
soma_pool_stats(struct soma_pool *pool, struct soma_pool_stats *stats)
{
	enum soma_status status;

	if (stats->size < sizeof *stats)
		return soma__fail(INVALID_VALUE,
				  "pool statistics: the size field is %" PRIu64 ", expected %" PRIu64,
				  stats->size, sizeof *stats);
	status = soma__pool_enter(pool);
	if (status != SOMA_STATUS_OK)
		return status;
	soma__handles_collect(pool);
	fill_stats(pool, stats);
	soma__pool_leave(pool);
	return SOMA_STATUS_OK;
}

static void
reset_twins_peaks(struct soma_pool *pool)
{
	soma__pool_step_out(pool);
	(void)soma__twin_reset_peaks(pool);
	soma__pool_step_in(pool);
}

void
soma_pool_reset_peaks(struct soma_pool *pool)
{
	if (soma__twin_enter(pool) != SOMA_STATUS_OK)
		return;
	soma_model_reset_peaks(pool->model);
	if (__builtin_expect(pool->twin != NULL, 0))
		reset_twins_peaks(pool);
	soma__twin_end(pool);
	soma__pool_leave(pool);
}

/* Where the resource places the blocks it is the backend's pool that has the memory. */
enum soma_status
soma_pool_trim(struct soma_pool *pool, uint64_t keep)
{
	enum soma_status status = soma__twin_enter(pool);

	if (status != SOMA_STATUS_OK)
		return status;
	if (pool->resource != NULL)
		(void)soma__pool_poll(pool);
	status = soma_model_trim_to(pool->model, keep);
	if (!pool->placed && pool->resource != NULL && status == SOMA_STATUS_OK) {
		soma__pool_step_out(pool);
		status = soma_resource_trim_to(pool->resource, keep);
		soma__pool_step_in(pool);
	}
	if (__builtin_expect(pool->twin != NULL, 0) && status == SOMA_STATUS_OK) {
		soma__twin_note(pool, (struct soma__twin_operation){ .op = SOMA__TWIN_TRIM, .size = keep });
		soma__twin_compare(pool);
	}
	soma__twin_end(pool);
	soma__segments_leave(pool);
	return status;
}

/* ---- attributes ------------------------------------------------------------------------ */

static unsigned
reuse_of(enum soma_pool_attribute attribute)
{
	switch (attribute) {
	case SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES:
		return SOMA_REUSE_FOLLOW_EVENTS;
	case SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC:
		return SOMA_REUSE_OPPORTUNISTIC;
	case SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		return SOMA_REUSE_INTERNAL;
	default:
		return 0;
	}
}

static enum soma_status
no_attribute(enum soma_pool_attribute attribute)
{
	return soma__fail(INVALID_VALUE, "there is no attribute %" PRIu64 " of pools", (uint64_t)attribute);
}

static enum soma_status
get_locked(struct soma_pool *pool, enum soma_pool_attribute attribute, uint64_t *value)
{
	switch (attribute) {
	case SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC:
	case SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*value = (soma_model_policy(pool->model)->reuse & reuse_of(attribute)) != 0;
		return SOMA_STATUS_OK;
	case SOMA_POOL_RELEASE_THRESHOLD:
		*value = pool->threshold;
		return SOMA_STATUS_OK;
	case SOMA_POOL_RESERVED_CURRENT:
		*value = soma_model_reserved(pool->model);
		return SOMA_STATUS_OK;
	case SOMA_POOL_RESERVED_HIGH:
		*value = soma_model_reserved_high(pool->model);
		return SOMA_STATUS_OK;
	case SOMA_POOL_USED_CURRENT:
		*value = soma_model_used(pool->model);
		return SOMA_STATUS_OK;
	case SOMA_POOL_USED_HIGH:
		*value = soma_model_used_high(pool->model);
		return SOMA_STATUS_OK;
	}
	return no_attribute(attribute);
}

enum soma_status
soma_pool_get_attribute(struct soma_pool *pool, enum soma_pool_attribute attribute, uint64_t *value)
{
	enum soma_status status = soma__pool_enter(pool);

	if (status != SOMA_STATUS_OK)
		return status;
	status = get_locked(pool, attribute, value);
	soma__pool_leave(pool);
	return status;
}

static enum soma_status
set_reuse(struct soma_pool *pool, enum soma_pool_attribute attribute, uint64_t value)
{
	unsigned bit = reuse_of(attribute), reuse = soma_model_policy(pool->model)->reuse;

	if (value > 1)
		return soma__fail(INVALID_VALUE,
				  "reuse attribute %" PRIu64 " set to %" PRIu64 ": expected 0 or 1",
				  (uint64_t)attribute, value);
	if (value == 1 && pool->per_stream && bit != SOMA_REUSE_OPPORTUNISTIC)
		return soma__fail(NOT_SUPPORTED,
				  "the policy has a pool for each stream: blocks do not go from one "
				  "stream to another by order");
	return soma__model_set_reuse(pool->model, value == 1 ? reuse | bit : reuse & ~bit);
}

static enum soma_status
reset_high(struct soma_pool *pool, enum soma_pool_attribute attribute, uint64_t value)
{
	if (value != 0)
		return soma__fail(INVALID_VALUE, "a peak can be set to 0 and nothing else, not %" PRIu64,
				  value);
	soma__model_reset_peak(pool->model, attribute == SOMA_POOL_RESERVED_HIGH);
	return SOMA_STATUS_OK;
}

static enum soma_status
set_threshold(struct soma_pool *pool, uint64_t value)
{
	pool->threshold = value;
	soma_model_set_release_threshold(pool->model, value);
	return SOMA_STATUS_OK;
}

static enum soma_status
set_locked(struct soma_pool *pool, enum soma_pool_attribute attribute, uint64_t value)
{
	switch (attribute) {
	case SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC:
	case SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		return set_reuse(pool, attribute, value);
	case SOMA_POOL_RELEASE_THRESHOLD:
		return set_threshold(pool, value);
	case SOMA_POOL_RESERVED_HIGH:
	case SOMA_POOL_USED_HIGH:
		return reset_high(pool, attribute, value);
	case SOMA_POOL_RESERVED_CURRENT:
	case SOMA_POOL_USED_CURRENT:
		return soma__fail(INVALID_VALUE,
				  "attribute %" PRIu64 " is a current value: it can only be read",
				  (uint64_t)attribute);
	}
	return no_attribute(attribute);
}

/* What the backend refuses the model has as before. */
static enum soma_status
set_both(struct soma_pool *pool, enum soma_pool_attribute attribute, uint64_t value)
{
	uint64_t before = 0;
	enum soma_status status;

	(void)get_locked(pool, attribute, &before);
	status = set_locked(pool, attribute, value);
	if (status != SOMA_STATUS_OK)
		return status;
	soma__pool_step_out(pool);
	status = soma__twin_set(pool, attribute, value);
	soma__pool_step_in(pool);
	if (status != SOMA_STATUS_OK && attribute <= SOMA_POOL_RELEASE_THRESHOLD)
		(void)set_locked(pool, attribute, before);
	return status;
}

enum soma_status
soma_pool_set_attribute(struct soma_pool *pool, enum soma_pool_attribute attribute, uint64_t value)
{
	enum soma_status status = soma__twin_enter(pool);

	if (status != SOMA_STATUS_OK)
		return status;
	status = __builtin_expect(pool->twin != NULL, 0) ? set_both(pool, attribute, value)
							 : set_locked(pool, attribute, value);
	soma__twin_end(pool);
	soma__pool_leave(pool);
	return status;
}

/* ---- other devices and processes ---------------------------------------------------------- */

static enum soma_status
set_peer(struct soma__terminal *terminal, int device, bool enable)
{
	bool can = false;
	enum soma_status status = terminal->ops->peer_can_access(terminal->self, device, &can);

	if (status != SOMA_STATUS_OK)
		return status;
	if (!can)
		return soma__fail(NOT_SUPPORTED,
				  "device %" PRId64 " cannot reach the memory of device %" PRId64,
				  (uint64_t)device, (uint64_t)terminal->device);
	return terminal->ops->peer_set_access(
		terminal->self, device, enable ? SOMA_BACKEND_ACCESS_READ_WRITE : SOMA_BACKEND_ACCESS_NONE);
}

static enum soma_status
peer_access(struct soma_pool *pool, int device, bool enable)
{
	if (device < 0 || device == pool->device)
		return soma__fail(INVALID_VALUE,
				  "device %" PRId64 ": expected another device than the pool's",
				  (uint64_t)device);
	if (pool->resource == NULL)
		return soma__fail(NOT_SUPPORTED, "a pool alone has no memory that another device could use");
	if (!soma__terminal_can(pool->resource->terminal, SOMA_BACKEND_PEERS))
		return soma__fail(NOT_SUPPORTED, "the backend has no peers");
	return set_peer(pool->resource->terminal, device, enable);
}

enum soma_status
soma_pool_peer_access(struct soma_pool *pool, int device, bool enable)
{
	enum soma_status status = soma__pool_enter(pool);

	if (status != SOMA_STATUS_OK)
		return status;
	soma__pool_step_out(pool);
	status = peer_access(pool, device, enable);
	soma__pool_step_in(pool);
	soma__pool_leave(pool);
	return status;
}

static enum soma_status
export_pool(struct soma_pool *pool, enum soma_pool_handle kind, int *descriptor)
{
	struct soma__terminal *terminal;

	if (kind == SOMA_POOL_HANDLE_NONE) {
		*descriptor = -1;
		return SOMA_STATUS_OK;
	}
	if (kind != SOMA_POOL_HANDLE_POSIX_FD)
		return soma__fail(INVALID_VALUE, "handle kind %" PRIu64 ": expected SOMA_POOL_HANDLE_*",
				  (uint64_t)kind);
	if (pool->resource == NULL)
		return soma__fail(NOT_SUPPORTED, "a pool alone has no memory to export");
	if (pool->placed)
		return soma__fail(NOT_SUPPORTED,
				  "the pool's memory is segments of a resource: only a backend's own "
				  "pool (placement=backend) can be exported");
	terminal = pool->resource->terminal;
	if (!soma__terminal_can(terminal, SOMA_BACKEND_EXPORTS))
		return soma__fail(NOT_SUPPORTED, "the backend exports nothing");
	return terminal->ops->export_pool(terminal->self, SOMA_BACKEND_HANDLE_POSIX_FD, descriptor);
}

enum soma_status
soma_pool_export(struct soma_pool *pool, enum soma_pool_handle kind, int *descriptor)
{
	enum soma_status status = soma__pool_enter(pool);

	if (status != SOMA_STATUS_OK)
		return status;
	soma__pool_step_out(pool);
	status = export_pool(pool, kind, descriptor);
	soma__pool_step_in(pool);
	soma__pool_leave(pool);
	return status;
}

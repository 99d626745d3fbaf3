/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freeing, and giving handles back.
 *
 * Where the resource places blocks a free is the resource's first, without the mutex (the handle is FREEING
 * then), and the model's after it.  The resource's cannot be taken back, so the model's must not fail:
 * without memory for its records the free is owed, and told to the model by the next call that has some.
 */
#include "lib/base/error.h"
#include "lib/model/driven.h"
#include "lib/pool/handles.h"
#include "lib/pool/segments.h"
#include "lib/pool/streams.h"
#include "lib/pool/twin.h"
#include "lib/resource/parts.h"

/* How a block is freed. */
struct freeing {
	uint64_t stream;
	bool now;     /* in no order; `stream` is not looked at */
	bool release; /* and the handle is given back */
};

static enum soma_status
refuse_state(const struct soma_allocation *handle)
{
	if (atomic_load_explicit(&handle->state, memory_order_relaxed) == SOMA__HANDLE_UNUSED)
		return soma__fail(INVALID_VALUE, "the handle was released before");
	return soma__fail(USE_AFTER_FREE, "the block at 0x%" PRIx64 " was freed before", handle->ptr);
}

/* ---- the model's part, with the mutex held ------------------------------------------------- */

/* In no order: on the stream that is the host's own, and then it has executed. */
static enum soma_status
free_in_model_now(struct soma_pool *pool, uint64_t ptr)
{
	enum soma_status status = soma_model_free(pool->model, ptr, pool->host_stream);

	/* Without memory it becomes known with the next one. */
	if (status == SOMA_STATUS_OK)
		(void)soma__model_observe(pool->model, pool->host_stream, UINT64_MAX, false);
	return status;
}

/* The block is no longer live. */
static inline void
end_block(struct soma_pool *pool, struct soma_allocation *handle, bool release)
{
	soma__handle_leave(pool, handle);
	if (release && !handle->owed)
		soma__handle_put(pool, handle);
	else
		atomic_store_explicit(&handle->state, SOMA__HANDLE_FREED, memory_order_release);
	handle->released = release;
}

/* ---- placed by the pool ---------------------------------------------------------------------- */

static inline enum soma_status
free_in_model(struct soma_pool *pool, const struct soma_allocation *handle, const struct freeing *how)
{
	struct soma__pool_stream *found = NULL;
	uint64_t model;
	enum soma_status status;

	if (__builtin_expect(how->now, 0))
		return free_in_model_now(pool, handle->ptr);
	status = soma__pool_stream(pool, how->stream, &found, &model);
	if (__builtin_expect(status == SOMA_STATUS_OK, 1))
		status = soma__pool_stream_not_captured(pool, found);
	if (__builtin_expect(status == SOMA_STATUS_OK, 1))
		status = soma_model_free(pool->model, handle->ptr, model);
	if (status == SOMA_STATUS_OK && found != NULL)
		found->dirty = true;
	return status;
}

/* Waits will be queued on it. */
static enum soma_status
check_free_stream(struct soma_pool *pool, const struct freeing *how)
{
	struct soma__pool_stream *found = NULL;
	uint64_t model;
	enum soma_status status = SOMA_STATUS_OK;

	if (how->now)
		return SOMA_STATUS_OK;
	status = soma__pool_stream(pool, how->stream, &found, &model);
	return status == SOMA_STATUS_OK ? soma__pool_stream_may_order(pool, found) : status;
}

/* The free comes after the uses that were recorded of the block.  Where that order cannot be queued it is waited
 * for, so the mutex is let go meanwhile. */
static __attribute__((noinline)) enum soma_status
free_named(struct soma_pool *pool, struct soma_allocation *handle, const struct freeing *how)
{
	enum soma_status status = check_free_stream(pool, how);

	if (status != SOMA_STATUS_OK)
		return status;
	atomic_store_explicit(&handle->state, SOMA__HANDLE_FREEING, memory_order_relaxed);
	soma__pool_unlock(pool);
	status = soma__part_leave(pool->resource, handle->id, how->now ? NULL : &how->stream);
	soma__pool_lock(pool);
	atomic_store_explicit(&handle->state, SOMA__HANDLE_LIVE, memory_order_relaxed);
	if (status != SOMA_STATUS_OK)
		return status;
	status = free_in_model(pool, handle, how);
	if (status != SOMA_STATUS_OK) {
		soma__part_stay(pool->resource, handle->id);
		return status;
	}
	soma__part_end(pool->resource, handle->id);
	handle->named = false;
	return SOMA_STATUS_OK;
}

static inline enum soma_status
free_placed(struct soma_pool *pool, struct soma_allocation *handle, const struct freeing *how)
{
	enum soma_status status = __builtin_expect(handle->named, 0) ? free_named(pool, handle, how)
								     : free_in_model(pool, handle, how);

	if (__builtin_expect(status == SOMA_STATUS_OK, 1))
		end_block(pool, handle, how->release);
	return status;
}

/* ---- placed by the resource -------------------------------------------------------------------- */

static enum soma_status
begin_free_block(struct soma_pool *pool, struct soma_allocation *handle, const struct freeing *how)
{
	struct soma__pool_stream *found;
	uint64_t model;
	enum soma_status status;

	if (how->now)
		return SOMA_STATUS_OK;
	status = soma__pool_stream(pool, how->stream, &found, &model);
	if (status == SOMA_STATUS_OK && !handle->graph)
		status = soma__pool_stream_not_captured(pool, found);
	return status;
}

static enum soma_status
free_in_resource(struct soma_pool *pool, const struct soma_allocation *handle, const struct freeing *how)
{
	const struct soma_block block = {
		.size = sizeof block, .ptr = handle->device_ptr, .stream = handle->stream, .id = handle->id
	};

	if (how->now)
		return soma__resource_deallocate_now(pool->resource, &block);
	return soma__resource_deallocate_on(pool->resource, &block, how->stream);
}

/* False: no memory.  A stream that was destroyed meanwhile does not matter to the account. */
static bool
tell_model(struct soma_pool *pool, struct soma_allocation *handle, const struct freeing *how)
{
	struct soma__pool_stream *found = how->now ? NULL : soma__pool_stream_find(pool, how->stream);
	enum soma_status status = SOMA_STATUS_INVALID_VALUE;

	if (found != NULL)
		status = soma_model_free(pool->model, handle->ptr, found->model);
	if (status == SOMA_STATUS_OK)
		found->dirty = true;
	else if (status == SOMA_STATUS_INVALID_VALUE)
		status = free_in_model_now(pool, handle->ptr);
	return status == SOMA_STATUS_OK;
}

static void
end_free_block(struct soma_pool *pool, struct soma_allocation *handle, const struct freeing *how)
{
	if (handle->graph) {
		pool->graphs--;
	} else if (!tell_model(pool, handle, how)) {
		handle->owed = true;
		handle->next = pool->owed;
		pool->owed = handle;
	}
	end_block(pool, handle, how->release);
}

void
soma__pool_settle(struct soma_pool *pool)
{
	while (pool->owed != NULL) {
		struct soma_allocation *handle = pool->owed;
		if (free_in_model_now(pool, handle->ptr) != SOMA_STATUS_OK)
			return;
		pool->owed = handle->next;
		handle->owed = false;
		if (handle->released)
			soma__handle_put(pool, handle);
	}
}

/* The handle may be spare by now, and is what it was as long as the mutex is held. */
static void
tell_twin(struct soma_pool *pool, const struct soma_allocation *handle, const struct freeing *how)
{
	soma__twin_note(pool,
			(struct soma__twin_operation){ .op = how->now ? SOMA__TWIN_FREE_NOW : SOMA__TWIN_FREE,
						       .stream = how->now ? handle->stream : how->stream,
						       .event_stream = handle->stream,
						       .ptr = handle->ptr,
						       .size = handle->size,
						       .generation = handle->id.generation });
}

/* With the mutex held, which is let go meanwhile. */
static enum soma_status
free_block(struct soma_pool *pool, struct soma_allocation *handle, const struct freeing *how)
{
	enum soma_status status = begin_free_block(pool, handle, how);

	if (status != SOMA_STATUS_OK)
		return status;
	atomic_store_explicit(&handle->state, SOMA__HANDLE_FREEING, memory_order_relaxed);
	soma__pool_unlock(pool);
	soma__twin_begin(pool);
	status = free_in_resource(pool, handle, how);
	soma__pool_lock(pool);
	if (status != SOMA_STATUS_OK)
		atomic_store_explicit(&handle->state, SOMA__HANDLE_LIVE, memory_order_relaxed);
	else
		end_free_block(pool, handle, how);
	if (__builtin_expect(pool->twin != NULL, 0) && status == SOMA_STATUS_OK && !handle->graph)
		tell_twin(pool, handle, how);
	soma__twin_end(pool);
	return status;
}

/* ---- both ------------------------------------------------------------------------------------------ */

/* With the mutex held; it is let go in the end. */
static inline enum soma_status
free_locked(struct soma_pool *pool, struct soma_allocation *handle, const struct freeing *how)
{
	enum soma_status status;

	if (__builtin_expect(atomic_load_explicit(&handle->state, memory_order_relaxed) != SOMA__HANDLE_LIVE,
			     0))
		status = refuse_state(handle);
	else if (pool->placement == SOMA_PLACEMENT_BACKEND)
		status = free_block(pool, handle, how);
	else
		status = free_placed(pool, handle, how);
	soma__pool_leave(pool);
	return status;
}

static enum soma_status
free_one(struct soma_allocation *handle, const struct freeing *how)
{
	struct soma_pool *pool = handle->pool;

	soma__pool_lock(pool);
	return free_locked(pool, handle, how);
}

enum soma_status
soma_pool_free(struct soma_allocation *allocation, uint64_t stream)
{
	if (allocation == NULL)
		return SOMA_STATUS_OK;
	return free_one(allocation, &(struct freeing){ .stream = stream });
}

enum soma_status
soma_pool_free_now(struct soma_allocation *allocation)
{
	if (allocation == NULL)
		return SOMA_STATUS_OK;
	return free_one(allocation, &(struct freeing){ .now = true });
}

enum soma_status
soma_pool_free_ptr(struct soma_pool *pool, uint64_t ptr, uint64_t stream)
{
	struct soma_allocation *handle;

	if (ptr == 0)
		return SOMA_STATUS_OK;
	soma__pool_lock(pool);
	handle = soma__handle_find(pool, ptr);
	if (handle != NULL)
		return free_locked(pool, handle, &(struct freeing){ .stream = stream, .release = true });
	soma__pool_unlock(pool);
	return soma__fail(INVALID_VALUE, "0x%" PRIx64 " is not the address of a live block of this pool",
			  ptr);
}

/* ---- giving handles back ------------------------------------------------------------------------------ */

/* A pool that is destroyed waits for its handles; and an owed one is still needed. */
static enum soma_status
release_slowly(struct soma_pool *pool, struct soma_allocation *handle)
{
	enum soma_status status = SOMA_STATUS_OK;
	bool last;

	soma__pool_lock(pool);
	if (atomic_load_explicit(&handle->state, memory_order_relaxed) != SOMA__HANDLE_FREED)
		status = refuse_state(handle);
	else if (handle->owed)
		handle->released = true;
	else
		soma__handle_put(pool, handle);
	last = pool->gone && pool->spare_count == pool->carved;
	soma__pool_unlock(pool);
	if (last)
		soma__pool_bury(pool);
	return status;
}

enum soma_status
soma_allocation_release(struct soma_allocation *allocation)
{
	struct soma_pool *pool;

	if (allocation == NULL)
		return SOMA_STATUS_OK;
	pool = allocation->pool;
	switch (atomic_load_explicit(&allocation->state, memory_order_acquire)) {
	case SOMA__HANDLE_LIVE:
		return free_one(allocation,
				&(struct freeing){ .stream = allocation->stream, .release = true });
	case SOMA__HANDLE_FREED:
		break;
	default:
		return refuse_state(allocation);
	}
	if (pool->placement == SOMA_PLACEMENT_BACKEND || !soma__handle_return(pool, allocation))
		return release_slowly(pool, allocation);
	return SOMA_STATUS_OK;
}

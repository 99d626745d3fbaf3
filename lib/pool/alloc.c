/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocating.  Where the pool places blocks it is the model and the mutex.  Where the resource does, the
 * resource comes first and without the mutex, so that its failure leaves the model as it was.
 */
#include "lib/base/error.h"
#include "lib/model/driven.h"
#include "lib/pool/handles.h"
#include "lib/pool/segments.h"
#include "lib/pool/streams.h"
#include "lib/pool/twin.h"

static inline void
fill(struct soma_allocation *handle, const struct soma_model_alloc *made, uint64_t stream,
     uint64_t device_ptr)
{
	handle->ptr = made->ptr;
	handle->device_ptr = device_ptr;
	handle->size = made->size;
	handle->stream = stream;
	handle->model_stream = made->stream;
	handle->ready_seq = made->ready_seq;
	handle->graph = false;
	atomic_store_explicit(&handle->state, SOMA__HANDLE_LIVE, memory_order_release);
}

/* With the mutex held: what every allocation needs. */
static inline enum soma_status
begin(struct soma_pool *pool, uint64_t stream, struct soma__pool_stream **found, uint64_t *model,
      struct soma_allocation **handle)
{
	enum soma_status status;

	if (__builtin_expect(pool->destroyed, 0))
		return soma__pool_refuse_destroyed();
	if (pool->placed)
		soma__pool_learn_sometimes(pool, stream);
	status = soma__pool_stream(pool, stream, found, model);
	if (__builtin_expect(status != SOMA_STATUS_OK, 0))
		return status;
	*handle = soma__handle_take(pool);
	return *handle != NULL ? SOMA_STATUS_OK : SOMA_STATUS_OUT_OF_HOST_MEMORY;
}

/* ---- placed by the pool ------------------------------------------------------------------ */

static inline enum soma_status
allocate_placed(struct soma_pool *pool, uint64_t size, uint64_t stream, struct soma_allocation **out)
{
	struct soma__pool_stream *found = NULL;
	struct soma_allocation *handle = NULL;
	struct soma_model_alloc made;
	uint64_t model = 0;
	enum soma_status status = begin(pool, stream, &found, &model, &handle);

	if (__builtin_expect(status != SOMA_STATUS_OK, 0))
		return status;
	status = soma__pool_stream_not_captured(pool, found);
	if (__builtin_expect(status == SOMA_STATUS_OK, 1))
		status = soma_model_alloc(pool->model, size, model, &made);
	if (__builtin_expect(status == SOMA__STATUS_DEFERRED, 0))
		status = soma__pool_grow(pool, size, stream, &made);
	if (__builtin_expect(status != SOMA_STATUS_OK, 0)) {
		soma__handle_put(pool, handle);
		return status;
	}
	fill(handle, &made, stream, pool->resource != NULL ? made.ptr : 0);
	soma__handle_enter(pool, handle);
	*out = handle;
	return SOMA_STATUS_OK;
}

/* ---- placed by the resource ----------------------------------------------------------------- */

/* A graph's block: it has a handle, and no place in the model. */
static void
fill_graph(struct soma_pool *pool, struct soma_allocation *handle, const struct soma_block *block)
{
	const struct soma_model_alloc made = { .ptr = block->ptr, .size = block->bytes };

	fill(handle, &made, block->stream, block->ptr);
	handle->graph = true;
	handle->id = block->id;
	pool->graphs++;
	soma__handle_enter(pool, handle);
}

static enum soma_status
enter_block(struct soma_pool *pool, struct soma_allocation *handle, const struct soma_block *block)
{
	struct soma__pool_stream *found;
	struct soma_model_alloc made;
	uint64_t model;
	enum soma_status status;

	if (pool->destroyed)
		return soma__pool_refuse_destroyed();
	soma__pool_learn_sometimes(pool, block->stream);
	status = soma__pool_stream(pool, block->stream, &found, &model);
	if (status == SOMA_STATUS_OK)
		status = soma_model_alloc(pool->model, block->bytes, model, &made);
	if (status == SOMA__STATUS_DEFERRED)
		status = soma__pool_grow(pool, block->bytes, block->stream, &made);
	if (status != SOMA_STATUS_OK)
		return status;
	fill(handle, &made, block->stream, block->ptr);
	handle->id = block->id;
	soma__handle_enter(pool, handle);
	return SOMA_STATUS_OK;
}

static enum soma_status
begin_block(struct soma_pool *pool, uint64_t stream, bool *graph, struct soma_allocation **handle)
{
	struct soma__pool_stream *found = NULL;
	uint64_t model;
	enum soma_status status;

	soma__pool_lock(pool);
	status = begin(pool, stream, &found, &model, handle);
	if (status == SOMA_STATUS_OK && pool->captures) {
		status = soma__order_capture(pool->resource, found->place, graph);
		if (status != SOMA_STATUS_OK)
			soma__handle_put(pool, *handle);
	}
	if (status == SOMA_STATUS_OK)
		soma__pool_step_out(pool);
	else
		soma__pool_unlock(pool);
	return status;
}

/* `made`: the resource has.  A graph's block is in no figure. */
static void
tell_twin(struct soma_pool *pool, const struct soma_request *request, const struct soma_allocation *handle,
	  bool made, enum soma_status status)
{
	if (status != SOMA_STATUS_OK)
		soma__twin_failed(pool, request->bytes, request->stream, made);
	else if (!handle->graph)
		soma__twin_note(pool, (struct soma__twin_operation){ .op = SOMA__TWIN_ALLOC,
								     .stream = request->stream,
								     .ptr = handle->ptr,
								     .size = handle->size,
								     .generation = handle->id.generation });
}

/* What the model is certain to refuse the resource need not be troubled with. */
static enum soma_status
refuse_large(const struct soma_pool *pool, uint64_t size)
{
	soma__fail_sizes(OUT_OF_DEVICE_MEMORY, "%s do not fit into a pool of at most %s", size, pool->max_size);
	soma__error_sizes(size, 0, 0, pool->max_size);
	return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
}

/* The mutex is taken.  What the model does not take goes back by its own stream, which may have been destroyed
 * meanwhile. */
static enum soma_status
make_block(struct soma_pool *pool, const struct soma_request *request, bool graph,
	   struct soma_allocation *handle)
{
	struct soma_block block = { .size = sizeof block };
	enum soma_status status = soma_resource_materialize(pool->resource, request, &block);
	bool made = status == SOMA_STATUS_OK;

	soma__pool_step_in(pool);
	if (made && graph)
		fill_graph(pool, handle, &block);
	else if (made)
		status = enter_block(pool, handle, &block);
	if (__builtin_expect(pool->twin != NULL, 0))
		tell_twin(pool, request, handle, made, status);
	if (__builtin_expect(status == SOMA_STATUS_OK, 1))
		return SOMA_STATUS_OK;
	if (made) {
		soma__pool_step_out(pool);
		(void)soma_resource_deallocate(pool->resource, &block);
		soma__pool_step_in(pool);
	}
	soma__handle_put(pool, handle);
	return status;
}

/* On a stream that is captured the backend refuses, if it does not make a graph's blocks. */
static enum soma_status
allocate_block(struct soma_pool *pool, uint64_t size, uint64_t stream, struct soma_allocation **out)
{
	const struct soma_request request = {
		.size = sizeof request, .bytes = size, .stream = stream, .tag = pool->tag
	};
	struct soma_allocation *handle = NULL;
	bool graph = false;
	enum soma_status status;

	if (pool->max_size != 0 && size > pool->max_size)
		return refuse_large(pool, size);
	status = begin_block(pool, stream, &graph, &handle);
	if (status != SOMA_STATUS_OK)
		return status;
	soma__twin_begin(pool);
	status = make_block(pool, &request, graph, handle);
	soma__twin_end(pool);
	soma__pool_leave(pool);
	if (status == SOMA_STATUS_OK)
		*out = handle;
	return status;
}

enum soma_status
soma_pool_alloc(struct soma_pool *pool, uint64_t size, uint64_t stream, struct soma_allocation **allocation)
{
	enum soma_status status;

	if (pool->placement == SOMA_PLACEMENT_BACKEND)
		return allocate_block(pool, size, stream, allocation);
	soma__pool_lock(pool);
	status = allocate_placed(pool, size, stream, allocation);
	soma__segments_leave(pool);
	return status;
}

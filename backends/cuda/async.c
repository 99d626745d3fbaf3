/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module async: blocks of a memory pool of its own, in the order of streams.  What may be taken again and
 * when is the driver's to decide, by the pool's attributes.
 *
 * A block leaves the table before the driver may give out its address again, and comes back if the driver
 * refuses the free.
 */
#include "backends/cuda/async.h"

#include <inttypes.h>

/* ---- opening and closing ------------------------------------------------------------- */

static enum soma_status
open_pool(struct soma_backend *self, const struct async_options *options)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = async_pool_open(self, options);
	cuda_leave(&scope);
	return status;
}

static enum soma_status
async_open(const struct soma_backend_open *how, struct soma_backend **out)
{
	struct async_options options;
	struct soma_backend *self;
	enum soma_status status = async_options_read(how, &options);

	if (status == SOMA_STATUS_OK)
		status = cuda_device_open(how, "async", &self);
	if (status != SOMA_STATUS_OK)
		return status;
	self->captures = options.captures;
	self->capabilities |= SOMA_BACKEND_STREAM_ORDERED | SOMA_BACKEND_POOL | SOMA_BACKEND_PEERS |
			      (options.captures ? (uint64_t)SOMA_BACKEND_CAPTURE : 0) |
			      (options.exports ? (uint64_t)SOMA_BACKEND_EXPORTS : 0);
	status = open_pool(self, &options);
	if (status != SOMA_STATUS_OK) {
		cuda_device_close(self);
		return status;
	}
	*out = self;
	return SOMA_STATUS_OK;
}

/* Memory of a graph is the graph's: it may never have been there. */
static void
give_back(void *context, const struct block *block)
{
	struct soma_backend *self = context;

	if (block->kind != BLOCK_GRAPH)
		CUDA_GIVE(self, cuMemFreeAsync, block->ptr, self->own);
}

static void
async_close(struct soma_backend *self)
{
	struct cuda_scope scope;

	if (cuda_device_drain(self) && cuda_enter_closing(self, &scope)) {
		blocks_walk(&self->blocks, give_back, self);
		CUDA_GIVE(self, cuStreamSynchronize, self->own);
		async_imports_close(self);
		CUDA_GIVE(self, cuMemPoolDestroy, self->pool);
		cuda_leave(&scope);
	}
	if (!self->forked)
		async_imports_close(self);
	cuda_device_close(self);
}

static enum soma_status
async_device_count(const struct soma_backend_host *host, int *count)
{
	return cuda_device_count(host, "async", count);
}

/* ---- blocks --------------------------------------------------------------------------- */

static enum soma_status
refuse_capture(struct soma_backend *self, const struct soma_backend_stream *stream)
{
	return cuda_refuse(self->host, SOMA_STATUS_STREAM_MISUSE,
			   "async: stream %" PRIu64 " is in a capture: with async.capture=graph the graph "
			   "would own the memory",
			   stream->id);
}

/* A call that answers with an error of earlier work may have done its own all the same. */
static enum soma_status
allocate(struct cuda_scope *scope, uint64_t size, CUstream stream, CUdeviceptr *ptr)
{
	struct soma_backend *self = scope->self;
	CUresult result = self->driver->cuMemAllocFromPoolAsync(ptr, size, self->pool, stream);

	if (__builtin_expect(result != CUDA_SUCCESS, 0) && *ptr == 0 && cuda_enter_late(scope, result))
		result = self->driver->cuMemAllocFromPoolAsync(ptr, size, self->pool, stream);
	if (result == CUDA_SUCCESS)
		return SOMA_STATUS_OK;
	enum soma_status status = cuda_failed_alloc(self, result, "cuMemAllocFromPoolAsync", size);
	if (*ptr != 0 && !cuda_is_lost(self))
		(void)self->driver->cuMemFreeAsync(*ptr, stream);
	return status;
}

/* Within a scope. */
static enum soma_status
take(struct cuda_scope *scope, uint64_t size, struct soma_backend_stream *stream, CUdeviceptr *ptr)
{
	struct soma_backend *self = scope->self;
	bool capturing;
	enum soma_status status = cuda_is_capturing(scope, stream, &capturing);

	if (status == SOMA_STATUS_OK && capturing && !self->captures)
		status = refuse_capture(self, stream);
	if (status != SOMA_STATUS_OK)
		return status;
	status = allocate(scope, size, cuda_handle(self, stream), ptr);
	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_finish(self, stream);
	if (status == SOMA_STATUS_OK &&
	    !blocks_add(&self->blocks, *ptr, size, NULL, capturing ? BLOCK_GRAPH : BLOCK_OWN))
		status = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (status != SOMA_STATUS_OK && !cuda_is_lost(self))
		(void)self->driver->cuMemFreeAsync(*ptr, cuda_handle(self, stream));
	return status;
}

static enum soma_status
async_alloc(struct soma_backend *self, uint64_t size, uint64_t alignment, struct soma_backend_stream *stream,
	    uint64_t *ptr)
{
	struct cuda_scope scope;
	CUdeviceptr taken = 0;
	enum soma_status status = cuda_enter_stream(self, stream, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_check_request(self, size, alignment);
	if (status == SOMA_STATUS_OK)
		status = take(&scope, size, stream, &taken);
	cuda_leave(&scope);
	if (status == SOMA_STATUS_OK)
		*ptr = taken;
	return status;
}

/* On a capturing stream only a graph's memory can be freed, and that only where a graph may have it. */
static enum soma_status
check_free(struct cuda_scope *scope, const struct block *block, const struct soma_backend_stream *stream,
	   bool *capturing)
{
	struct soma_backend *self = scope->self;
	enum soma_status status = cuda_is_capturing(scope, stream, capturing);

	if (stream == NULL)
		status = cuda_meet_errors(scope);
	if (status != SOMA_STATUS_OK || !*capturing)
		return status;
	if (!self->captures)
		return refuse_capture(self, stream);
	if (block->kind == BLOCK_GRAPH)
		return SOMA_STATUS_OK;
	return cuda_refuse(self->host, SOMA_STATUS_STREAM_MISUSE,
			   "async: 0x%" PRIx64 " is the pool's and cannot be freed on stream %" PRIu64
			   ", which is in a capture",
			   block->ptr, stream->id);
}

/* Within a scope. */
static enum soma_status
give(struct cuda_scope *scope, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream,
     bool *capturing)
{
	struct soma_backend *self = scope->self;
	struct block block;

	if (!blocks_take(&self->blocks, ptr, size, NULL, &block))
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "async: no block of %" PRIu64 " bytes is at 0x%" PRIx64, size, ptr);
	enum soma_status status = check_free(scope, &block, stream, capturing);
	if (status == SOMA_STATUS_OK)
		status = cuda_free_memory(scope, ptr, cuda_handle(self, stream), true);
	if (status == SOMA_STATUS_OK)
		blocks_gone(&self->blocks, ptr);
	else
		blocks_restore(&self->blocks, &block);
	return status;
}

static enum soma_status
async_free(struct soma_backend *self, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	bool capturing;
	enum soma_status status = cuda_enter_stream(self, stream, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = give(&scope, ptr, size, stream, &capturing);
	cuda_leave(&scope);
	return status;
}

/* What the free found out about the stream goes for the event as well. */
static enum soma_status
async_free_recorded(struct soma_backend *self, uint64_t ptr, uint64_t size,
		    struct soma_backend_stream *stream, struct soma_backend_event *event, bool *recorded)
{
	struct cuda_scope scope;
	bool capturing;
	enum soma_status status = cuda_enter_stream(self, stream, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = give(&scope, ptr, size, stream, &capturing);
	if (status == SOMA_STATUS_OK)
		*recorded = cuda_event_record_in(&scope, event, stream, capturing) == SOMA_STATUS_OK;
	cuda_leave(&scope);
	return status;
}

/* ---- the module -------------------------------------------------------------------------- */

static const struct soma_backend_ops ops = {
	.size = sizeof ops,
	.open = async_open,
	.close = async_close,
	.query = cuda_device_query,
	.alloc = async_alloc,
	.free = async_free,
	.device_count = async_device_count,
	CUDA_SHARED_OPS,
	.free_recorded = async_free_recorded,
	.pool_get = async_pool_get,
	.pool_set = async_pool_set,
	.pool_trim = async_pool_trim,
	.export_pool = async_export_pool,
	.export_block = async_export_block,
	.import_pool = async_import_pool,
	.import_block = async_import_block,
	.import_free = async_import_free,
	.import_close = async_import_close,
	.peer_can_access = async_peer_can_access,
	.peer_set_access = async_peer_set_access,
};

SOMA_BACKEND_EXPORT const struct soma_backend_module soma_backend_module = {
	.abi = SOMA_BACKEND_ABI,
	.size = sizeof soma_backend_module,
	.name = "async",
	.version = "1",
	.description = "a CUDA device's memory, from a pool in stream order",
	.ops = &ops,
	.options = async_option_table,
};

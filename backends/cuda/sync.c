/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module sync: blocks of cuMemAlloc, for devices without pools and for comparison.  A free waits for its
 * stream first.  Events order real work here as well, so uses can be tracked.
 */
#include "backends/cuda/device.h"

#include <inttypes.h>

static void
give_back(void *context, const struct block *block)
{
	struct soma_backend *self = context;

	CUDA_GIVE(self, cuMemFree, block->ptr);
}

static void
sync_close(struct soma_backend *self)
{
	struct cuda_scope scope;

	if (cuda_device_drain(self) && cuda_enter_closing(self, &scope)) {
		blocks_walk(&self->blocks, give_back, self);
		cuda_leave(&scope);
	}
	cuda_device_close(self);
}

static enum soma_status
sync_open(const struct soma_backend_open *how, struct soma_backend **self)
{
	struct soma_backend *opened;
	enum soma_status status = cuda_device_open(how, "sync", &opened);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_event_create(opened, 0, &opened->behind);
	if (status == SOMA_STATUS_OK)
		*self = opened;
	else
		sync_close(opened);
	return status;
}

static enum soma_status
sync_device_count(const struct soma_backend_host *host, int *count)
{
	return cuda_device_count(host, "sync", count);
}

/* A call that answers with an error of earlier work may have done its own all the same. */
static enum soma_status
allocate(struct soma_backend *self, uint64_t size, CUdeviceptr *ptr)
{
	CUresult result = self->driver->cuMemAlloc(ptr, size);

	if (result == CUDA_SUCCESS)
		return SOMA_STATUS_OK;
	enum soma_status status = cuda_failed_alloc(self, result, "cuMemAlloc", size);
	if (*ptr != 0 && !cuda_is_lost(self))
		(void)self->driver->cuMemFree(*ptr);
	return status;
}

/* Within a scope. */
static enum soma_status
take(struct soma_backend *self, uint64_t size, CUdeviceptr *ptr)
{
	enum soma_status status = allocate(self, size, ptr);

	if (status != SOMA_STATUS_OK)
		return status;
	if (blocks_add(&self->blocks, *ptr, size, NULL, BLOCK_OWN))
		return SOMA_STATUS_OK;
	(void)self->driver->cuMemFree(*ptr);
	return SOMA_STATUS_OUT_OF_HOST_MEMORY;
}

static enum soma_status
sync_alloc(struct soma_backend *self, uint64_t size, uint64_t alignment, struct soma_backend_stream *stream,
	   uint64_t *ptr)
{
	struct cuda_scope scope;
	CUdeviceptr taken = 0;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_check_request(self, size, alignment);
	if (status == SOMA_STATUS_OK)
		status = cuda_refuse_capturing(&scope, stream, "cuMemAlloc");
	if (status == SOMA_STATUS_OK)
		status = take(self, size, &taken);
	cuda_leave(&scope);
	if (status == SOMA_STATUS_OK)
		*ptr = taken;
	return status;
}

/* A stream without work is waited for at once; on a blocking one the legacy stream's work comes before the free all
 * the same, and an event comes after that.  Within a scope. */
static enum soma_status
wait_for(struct soma_backend *self, const struct soma_backend_stream *stream)
{
	enum soma_status status = SOMA_STATUS_OK;

	if ((stream->flags & SOMA_BACKEND_STREAM_NON_BLOCKING) == 0)
		status = CUDA_CALL(self, cuEventRecord, self->behind->handle, stream->handle);
	return status == SOMA_STATUS_OK ? CUDA_CALL_SYNC(self, cuStreamSynchronize, stream->handle) : status;
}

/* Within a scope. */
static enum soma_status
give(struct cuda_scope *scope, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	struct soma_backend *self = scope->self;
	struct block block;
	enum soma_status status = cuda_refuse_capturing(scope, stream, "cuMemFree");

	if (status != SOMA_STATUS_OK)
		return status;
	if (!blocks_take(&self->blocks, ptr, size, NULL, &block))
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "sync: no block of %" PRIu64 " bytes is at 0x%" PRIx64, size, ptr);
	if (stream != NULL)
		status = wait_for(self, stream);
	else
		status = cuda_meet_errors(scope);
	if (status == SOMA_STATUS_OK)
		status = cuda_free_memory(scope, ptr, NULL, false);
	if (status == SOMA_STATUS_OK)
		blocks_gone(&self->blocks, ptr);
	else
		blocks_restore(&self->blocks, &block);
	return status;
}

static enum soma_status
sync_free(struct soma_backend *self, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_stream(self, stream, &scope);

	if (status == SOMA_STATUS_OK)
		status = cuda_relax(&scope);
	if (status != SOMA_STATUS_OK)
		return status;
	status = give(&scope, ptr, size, stream);
	cuda_leave(&scope);
	return status;
}

static const struct soma_backend_ops ops = {
	.size = sizeof ops,
	.open = sync_open,
	.close = sync_close,
	.query = cuda_device_query,
	.alloc = sync_alloc,
	.free = sync_free,
	.device_count = sync_device_count,
	CUDA_SHARED_OPS,
};

SOMA_BACKEND_EXPORT const struct soma_backend_module soma_backend_module = {
	.abi = SOMA_BACKEND_ABI,
	.size = sizeof soma_backend_module,
	.name = "sync",
	.version = "1",
	.description = "a CUDA device's memory by cuMemAlloc, whose frees wait",
	.ops = &ops,
};

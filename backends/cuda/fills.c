/* SPDX-License-Identifier: Apache-2.0 */
/* Fills and copies on streams, and pinned memory of the host.  Without a stream they go to the backend's own,
 * which is waited for. */
#include "backends/cuda/device.h"

#include <inttypes.h>

static enum soma_status
enter_on(struct soma_backend *self, struct cuda_scope *scope, const struct soma_backend_stream *stream)
{
	enum soma_status status = cuda_enter(self, scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_check_thread(scope, stream);
	if (status != SOMA_STATUS_OK)
		cuda_leave(scope);
	return status;
}

/* What is left to do after queueing: the end of every function here. */
static enum soma_status
done(struct soma_backend *self, struct cuda_scope *scope, const struct soma_backend_stream *stream,
     enum soma_status status)
{
	if (status == SOMA_STATUS_OK)
		status = cuda_finish(self, stream);
	cuda_leave(scope);
	return status;
}

enum soma_status
cuda_fill8(struct soma_backend *self, uint64_t ptr, uint8_t value, uint64_t count,
	   struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	enum soma_status status = enter_on(self, &scope, stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (count > 0)
		status = CUDA_CALL(self, cuMemsetD8Async, ptr, value, count, cuda_handle(self, stream));
	return done(self, &scope, stream, status);
}

enum soma_status
cuda_fill32(struct soma_backend *self, uint64_t ptr, uint32_t value, uint64_t count,
	    struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	enum soma_status status = enter_on(self, &scope, stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if ((ptr & 3) != 0)
		status = cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				     "%s: fill32 at 0x%" PRIx64 ": a multiple of 4 was expected", self->name,
				     ptr);
	else if (count > 0)
		status = CUDA_CALL(self, cuMemsetD32Async, ptr, value, count, cuda_handle(self, stream));
	return done(self, &scope, stream, status);
}

enum soma_status
cuda_copy(struct soma_backend *self, uint64_t to, uint64_t from, uint64_t bytes,
	  struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	enum soma_status status = enter_on(self, &scope, stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (bytes > 0)
		status = CUDA_CALL(self, cuMemcpyDtoDAsync, to, from, bytes, cuda_handle(self, stream));
	return done(self, &scope, stream, status);
}

enum soma_status
cuda_copy_from_host(struct soma_backend *self, uint64_t to, const void *from, uint64_t bytes,
		    struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	enum soma_status status = enter_on(self, &scope, stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (bytes > 0)
		status = CUDA_CALL(self, cuMemcpyHtoDAsync, to, from, bytes, cuda_handle(self, stream));
	return done(self, &scope, stream, status);
}

enum soma_status
cuda_copy_to_host(struct soma_backend *self, void *to, uint64_t from, uint64_t bytes,
		  struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	enum soma_status status = enter_on(self, &scope, stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (bytes > 0)
		status = CUDA_CALL(self, cuMemcpyDtoHAsync, to, from, bytes, cuda_handle(self, stream));
	return done(self, &scope, stream, status);
}

/* ---- staging memory ------------------------------------------------------------------- */

struct staging {
	struct cuda_link link;
	void *memory;
};

/* The driver's "out of memory" is the host's here. */
static enum soma_status
pin(struct soma_backend *self, size_t size, void **memory)
{
	char text[256];
	CUresult result = self->driver->cuMemHostAlloc(memory, size,
						       CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);

	if (result != CUDA_SUCCESS && *memory != NULL) /* an error of earlier work */
		CUDA_GIVE(self, cuMemFreeHost, *memory);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return cuda_refuse(
			self->host, SOMA_STATUS_OUT_OF_HOST_MEMORY, "%s: %zu bytes: %s", self->name, size,
			cuda_result_text(self->driver, result, "cuMemHostAlloc", text, sizeof text));
	return result == CUDA_SUCCESS ? SOMA_STATUS_OK : cuda_failed(self, result, "cuMemHostAlloc");
}

enum soma_status
cuda_staging_alloc(struct soma_backend *self, size_t size, void **memory)
{
	const struct soma_backend_host *host = self->host;
	struct staging *staging = host->alloc(host->context, sizeof *staging, 0);
	struct cuda_scope scope;
	enum soma_status status;

	if (staging == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	staging->memory = NULL;
	status = cuda_enter_relaxed(self, &scope);
	if (status == SOMA_STATUS_OK) {
		status = pin(self, size, &staging->memory);
		cuda_leave(&scope);
	}
	if (status != SOMA_STATUS_OK) {
		host->free(host->context, staging, sizeof *staging);
		return status;
	}
	cuda_link_add(self, &self->staging, &staging->link);
	*memory = staging->memory;
	return SOMA_STATUS_OK;
}

static struct staging *
find_staging(struct soma_backend *self, const void *memory)
{
	struct staging *found = NULL;

	pthread_mutex_lock(&self->lists);
	for (struct cuda_link *at = self->staging.next; at != &self->staging && found == NULL; at = at->next)
		if (((struct staging *)(void *)at)->memory == memory)
			found = (struct staging *)(void *)at;
	pthread_mutex_unlock(&self->lists);
	return found;
}

/* False: it is the driver's still, and close tries once more. */
static bool
unpin(struct soma_backend *self, const struct staging *staging)
{
	struct cuda_scope scope;

	if (cuda_is_lost(self))
		return true;
	if (cuda_enter_relaxed(self, &scope) != SOMA_STATUS_OK)
		return false;
	enum soma_status status = CUDA_CALL(self, cuMemFreeHost, staging->memory);
	cuda_leave(&scope);
	return status == SOMA_STATUS_OK;
}

void
cuda_staging_free(struct soma_backend *self, void *memory, size_t size)
{
	(void)size;
	if (self->forked)
		return;
	struct staging *staging = find_staging(self, memory);
	if (staging == NULL)
		return;
	bool given = unpin(self, staging);
	if (!given && !self->closing)
		return;
	if (!given)
		(void)unpin(self, staging);
	cuda_link_remove(self, &staging->link);
	self->host->free(self->host->context, staging, sizeof *staging);
}

void
cuda_staging_close(struct soma_backend *self)
{
	while (self->staging.next != &self->staging)
		cuda_staging_free(self, ((struct staging *)(void *)self->staging.next)->memory, 0);
}

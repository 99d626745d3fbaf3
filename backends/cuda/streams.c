/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: the backend's own, default ones, and those that somebody else made.  The driver's ids tell them
 * apart, since it gives handles again.
 *
 * A stream in a capture is never synchronised with or queried: the driver would spoil the capture.
 */
#include "backends/cuda/device.h"

#include <inttypes.h>
#include <string.h>

/* ---- whose they are ------------------------------------------------------------------- */

/* What another thread would record, wait for or free by this handle is of a stream of its own, and says nothing of
 * the one that was meant. */
enum soma_status
cuda_check_thread_slow(struct cuda_scope *scope, const struct soma_backend_stream *stream)
{
	struct soma_backend *self = scope->self;
	unsigned long long id = 0;
	enum soma_status status = CUDA_CALL_ON(scope, cuStreamGetId, stream->handle, &id);

	if (status != SOMA_STATUS_OK || id == stream->id)
		return status;
	return cuda_refuse(self->host, SOMA_STATUS_STREAM_MISUSE,
			   "%s: stream %" PRIu64 " is the per-thread default stream of another thread, which "
			   "alone can name it",
			   self->name, stream->id);
}

/* ---- captures ----------------------------------------------------------------------- */

enum soma_status
cuda_refuse_capturing(struct cuda_scope *scope, const struct soma_backend_stream *stream, const char *what)
{
	struct soma_backend *self = scope->self;
	bool capturing;
	enum soma_status status = cuda_is_capturing(scope, stream, &capturing);

	if (status != SOMA_STATUS_OK || !capturing)
		return status;
	return cuda_refuse(self->host, SOMA_STATUS_STREAM_MISUSE,
			   "%s: stream %" PRIu64 " is in a capture, where %s is not possible", self->name,
			   stream->id, what);
}

/* ---- making and giving back ------------------------------------------------------------ */

/* Reads what the driver knows of the handle.  Within a scope. */
static enum soma_status
read_handle(struct soma_backend *self, struct soma_backend_stream *stream)
{
	unsigned long long id = 0;
	unsigned flags = 0;
	enum soma_status status = CUDA_CALL(self, cuStreamGetId, stream->handle, &id);

	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL(self, cuStreamGetFlags, stream->handle, &flags);
	stream->id = id;
	stream->flags = flags & CU_STREAM_NON_BLOCKING ? SOMA_BACKEND_STREAM_NON_BLOCKING : 0;
	if (stream->handle == CU_STREAM_PER_THREAD)
		stream->flags |= SOMA_BACKEND_STREAM_OF_THREAD;
	return status;
}

/* Another device's stream would be used in the wrong context. */
static enum soma_status
check_context(struct soma_backend *self, const struct soma_backend_stream *stream)
{
	CUcontext context = NULL;
	enum soma_status status = CUDA_CALL(self, cuStreamGetCtx, stream->handle, &context);

	if (status != SOMA_STATUS_OK || context == self->context)
		return status;
	return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
			   "%s: the stream 0x%" PRIx64 " is not of the primary context of device %d",
			   self->name, (uint64_t)(uintptr_t)stream->handle, self->ordinal);
}

/* handle NULL: a new one with `flags`. */
static enum soma_status
fill(struct soma_backend *self, struct soma_backend_stream *stream, CUstream handle, unsigned flags)
{
	enum soma_status status = SOMA_STATUS_OK;

	*stream = (struct soma_backend_stream){ .handle = handle,
						.owned = handle == NULL,
						.named = handle != CU_STREAM_LEGACY &&
							 handle != CU_STREAM_PER_THREAD };
	if (stream->owned)
		status = CUDA_CALL(self, cuStreamCreate, &stream->handle, flags);
	else if (stream->named)
		status = check_context(self, stream);
	if (status == SOMA_STATUS_OK)
		status = read_handle(self, stream);
	/* Also when the driver made it and answered with an error of earlier work. */
	if (status != SOMA_STATUS_OK && stream->owned && stream->handle != NULL)
		CUDA_GIVE(self, cuStreamDestroy, stream->handle);
	return status;
}

static enum soma_status
make(struct soma_backend *self, CUstream handle, unsigned flags, struct soma_backend_stream **out)
{
	const struct soma_backend_host *host = self->host;
	struct soma_backend_stream *stream = host->alloc(host->context, sizeof *stream, 0);
	struct cuda_scope scope;
	enum soma_status status;

	if (stream == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = cuda_enter_relaxed(self, &scope);
	if (status == SOMA_STATUS_OK) {
		status = fill(self, stream, handle, flags);
		cuda_leave(&scope);
	}
	if (status != SOMA_STATUS_OK) {
		host->free(host->context, stream, sizeof *stream);
		return status;
	}
	cuda_link_add(self, &self->streams, &stream->link);
	*out = stream;
	return SOMA_STATUS_OK;
}

enum soma_status
cuda_stream_create(struct soma_backend *self, unsigned flags, struct soma_backend_stream **stream)
{
	if ((flags & ~(unsigned)SOMA_BACKEND_STREAM_NON_BLOCKING) != 0)
		return cuda_refuse(self->host, SOMA_STATUS_NOT_SUPPORTED,
				   "%s: stream flags 0x%x: only 0x1 is known", self->name, flags);
	return make(self, NULL, flags != 0 ? CU_STREAM_NON_BLOCKING : 0, stream);
}

enum soma_status
cuda_stream_default(struct soma_backend *self, enum soma_backend_stream_kind kind,
		    struct soma_backend_stream **stream)
{
	switch (kind) {
	case SOMA_BACKEND_STREAM_LEGACY:
		return make(self, CU_STREAM_LEGACY, 0, stream);
	case SOMA_BACKEND_STREAM_PER_THREAD:
		return make(self, CU_STREAM_PER_THREAD, 0, stream);
	}
	return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE, "%s: there is no default stream of kind %d",
			   self->name, (int)kind);
}

/* The handle 0 is the legacy stream's too. */
enum soma_status
cuda_stream_wrap(struct soma_backend *self, uint64_t native, struct soma_backend_stream **stream)
{
	CUstream handle = native == 0 ? CU_STREAM_LEGACY : (CUstream)(uintptr_t)native;

	return make(self, handle, 0, stream);
}

/* False: it is the driver's still, and close tries once more. */
static bool
give_handle(struct soma_backend *self, const struct soma_backend_stream *stream)
{
	struct cuda_scope scope;

	if (!stream->owned || cuda_is_lost(self))
		return true;
	if (cuda_enter_relaxed(self, &scope) != SOMA_STATUS_OK)
		return false;
	enum soma_status status = CUDA_CALL(self, cuStreamDestroy, stream->handle);
	cuda_leave(&scope);
	return status == SOMA_STATUS_OK;
}

void
cuda_stream_destroy(struct soma_backend *self, struct soma_backend_stream *stream)
{
	if (self->forked)
		return;
	/* What is in the list can be asked for captures. */
	cuda_link_remove(self, &stream->link);
	bool given = give_handle(self, stream);

	if (!given && !self->closing) {
		cuda_link_add(self, &self->streams, &stream->link);
		return;
	}
	if (!given)
		(void)give_handle(self, stream);
	self->host->free(self->host->context, stream, sizeof *stream);
}

void
cuda_streams_close(struct soma_backend *self)
{
	while (self->streams.next != &self->streams)
		cuda_stream_destroy(self, (struct soma_backend_stream *)(void *)self->streams.next);
}

/* ---- asking and waiting ------------------------------------------------------------------ */

enum soma_status
cuda_stream_info(struct soma_backend *self, struct soma_backend_stream *stream,
		 struct soma_backend_stream_info *info)
{
	CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t capture_id = 0;
	struct cuda_scope scope;
	enum soma_status status = cuda_enter(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_check_thread(&scope, stream);
	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL(self, cuStreamGetCaptureInfo, stream->handle, &state, &capture_id, NULL,
				   NULL, NULL);
	cuda_leave(&scope);
	if (status != SOMA_STATUS_OK)
		return status;
	struct soma_backend_stream_info all = {
		.size = info->size,
		.id = stream->id,
		.native = (uint64_t)(uintptr_t)stream->handle,
		.flags = stream->flags,
		.capture = (uint32_t)state,
		.capture_id = state == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : capture_id,
	};
	memcpy(info, &all, info->size < sizeof all ? info->size : sizeof all);
	return SOMA_STATUS_OK;
}

enum soma_status
cuda_stream_query(struct soma_backend *self, struct soma_backend_stream *stream, bool *done)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_refuse_capturing(&scope, stream, "asking whether it is done");
	if (status == SOMA_STATUS_OK) {
		CUresult result = self->driver->cuStreamQuery(stream->handle);
		if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
			status = cuda_failed_sync(self, result, "cuStreamQuery");
		else
			*done = result == CUDA_SUCCESS;
	}
	cuda_leave(&scope);
	return status;
}

enum soma_status
cuda_stream_synchronize(struct soma_backend *self, struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_refuse_capturing(&scope, stream, "waiting for it");
	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL_SYNC(self, cuStreamSynchronize, stream->handle);
	cuda_leave(&scope);
	return status;
}

/* The first of our streams that is in a capture; 0: none is.  The legacy stream is asked first, which knows of every
 * blocking one. */
static CUresult
find_capturing(struct soma_backend *self, uint64_t *id)
{
	CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult result = self->driver->cuStreamIsCapturing(CU_STREAM_LEGACY, &state);

	*id = 0;
	pthread_mutex_lock(&self->lists);
	for (struct cuda_link *at = self->streams.next;
	     at != &self->streams && result == CUDA_SUCCESS && *id == 0; at = at->next) {
		const struct soma_backend_stream *stream = (struct soma_backend_stream *)(void *)at;
		result = self->driver->cuStreamIsCapturing(stream->handle, &state);
		*id = state != CU_STREAM_CAPTURE_STATUS_NONE ? stream->id : 0;
	}
	pthread_mutex_unlock(&self->lists);
	return result;
}

/* To wait for a context spoils every capture in it, in whatever mode. */
static enum soma_status
refuse_captures(struct soma_backend *self)
{
	uint64_t id;
	CUresult result = find_capturing(self, &id);

	if (result != CUDA_SUCCESS)
		return cuda_failed(self, result, "cuStreamIsCapturing");
	if (id == 0)
		return SOMA_STATUS_OK;
	return cuda_refuse(self->host, SOMA_STATUS_STREAM_MISUSE,
			   "%s: stream %" PRIu64 " is in a capture, which waiting for the device would spoil",
			   self->name, id);
}

enum soma_status
cuda_synchronize(struct soma_backend *self)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = refuse_captures(self);
	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL_SYNC(self, cuCtxSynchronize);
	cuda_leave(&scope);
	return status;
}

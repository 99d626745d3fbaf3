/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events for order, without times.  One that was recorded in a capture is remembered as such: asking the
 * driver about it would spoil the capture.
 */
#include "backends/cuda/device.h"

enum soma_status
cuda_event_create(struct soma_backend *self, unsigned flags, struct soma_backend_event **out)
{
	const struct soma_backend_host *host = self->host;
	struct soma_backend_event *event;
	struct cuda_scope scope;
	enum soma_status status;

	if (flags != 0)
		return cuda_refuse(host, SOMA_STATUS_NOT_SUPPORTED, "%s: event flags 0x%x: 0 was expected",
				   self->name, flags);
	event = host->alloc(host->context, sizeof *event, 0);
	if (event == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	*event = (struct soma_backend_event){ 0 };
	status = cuda_enter_relaxed(self, &scope);
	if (status == SOMA_STATUS_OK) {
		status = CUDA_CALL(self, cuEventCreate, &event->handle, CU_EVENT_DISABLE_TIMING);
		if (status != SOMA_STATUS_OK && event->handle != NULL) /* an error of earlier work */
			CUDA_GIVE(self, cuEventDestroy, event->handle);
		cuda_leave(&scope);
	}
	if (status != SOMA_STATUS_OK) {
		host->free(host->context, event, sizeof *event);
		return status;
	}
	cuda_link_add(self, &self->events, &event->link);
	*out = event;
	return SOMA_STATUS_OK;
}

/* False: it is the driver's still, and close tries once more. */
static bool
give_handle(struct soma_backend *self, const struct soma_backend_event *event)
{
	struct cuda_scope scope;

	if (cuda_is_lost(self))
		return true;
	if (cuda_enter_relaxed(self, &scope) != SOMA_STATUS_OK)
		return false;
	enum soma_status status = CUDA_CALL(self, cuEventDestroy, event->handle);
	cuda_leave(&scope);
	return status == SOMA_STATUS_OK;
}

void
cuda_event_destroy(struct soma_backend *self, struct soma_backend_event *event)
{
	if (self->forked)
		return;
	bool given = give_handle(self, event);

	if (!given && !self->closing)
		return;
	if (!given)
		(void)give_handle(self, event);
	cuda_link_remove(self, &event->link);
	self->host->free(self->host->context, event, sizeof *event);
}

void
cuda_events_close(struct soma_backend *self)
{
	while (self->events.next != &self->events)
		cuda_event_destroy(self, (struct soma_backend_event *)(void *)self->events.next);
}

enum soma_status
cuda_event_record(struct soma_backend *self, struct soma_backend_event *event,
		  struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	bool capturing;
	enum soma_status status = cuda_enter_stream(self, stream, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_is_capturing(&scope, stream, &capturing);
	if (status == SOMA_STATUS_OK)
		status = cuda_event_record_in(&scope, event, stream, capturing);
	cuda_leave(&scope);
	return status;
}

enum soma_status
cuda_event_wait(struct soma_backend *self, struct soma_backend_event *event,
		struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_stream(self, stream, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_check_thread(&scope, stream);
	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL_ON(&scope, cuStreamWaitEvent, stream->handle, event->handle, 0);
	cuda_leave(&scope);
	return status;
}

static enum soma_status
refuse_captured(struct soma_backend *self, const struct soma_backend_event *event)
{
	if (!atomic_load_explicit(&event->captured, memory_order_acquire))
		return SOMA_STATUS_OK;
	return cuda_refuse(self->host, SOMA_STATUS_STREAM_MISUSE,
			   "%s: the event was recorded in a capture: it is the graph's, and never done",
			   self->name);
}

enum soma_status
cuda_event_query(struct soma_backend *self, struct soma_backend_event *event, bool *done)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = refuse_captured(self, event);
	if (status == SOMA_STATUS_OK) {
		CUresult result = self->driver->cuEventQuery(event->handle);
		if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
			status = cuda_failed_sync(self, result, "cuEventQuery");
		else
			*done = result == CUDA_SUCCESS;
	}
	cuda_leave(&scope);
	return status;
}

enum soma_status
cuda_event_synchronize(struct soma_backend *self, struct soma_backend_event *event)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = refuse_captured(self, event);
	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL_SYNC(self, cuEventSynchronize, event->handle);
	cuda_leave(&scope);
	return status;
}

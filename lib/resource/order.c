/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of a terminal for pools: see the header.  No lock of its own. */
#include "lib/resource/order.h"

#include "lib/base/error.h"
#include "lib/resource/terminal.h"

uint64_t
soma__order_capabilities(const struct soma_resource *resource)
{
	return resource->terminal->capabilities;
}

struct soma__stream *
soma__order_stream(struct soma_resource *resource, uint64_t id)
{
	struct soma__stream *stream;

	if (soma__stream_open(&resource->terminal->streams, id, &stream) != SOMA_STATUS_OK)
		return NULL;
	return stream;
}

bool
soma__order_was(struct soma_resource *resource, uint64_t id)
{
	return soma__stream_was(&resource->terminal->streams, id);
}

/* Whoever has the stream may destroy it meanwhile.  NOT_FOUND, not recorded: it is destroyed, or there are no
 * streams to ask. */
static enum soma_status
look(struct soma_resource *resource, struct soma__stream *stream, struct soma_backend_stream_info *info)
{
	struct soma__terminal *terminal = resource->terminal;
	uint64_t id = atomic_load_explicit(&stream->id, memory_order_acquire);
	enum soma_status status = SOMA_STATUS_NOT_FOUND;

	*info = (struct soma_backend_stream_info){ .size = sizeof *info };
	if (terminal->ops->stream_info == NULL || !soma__stream_pin(&terminal->streams, stream, id))
		return status;
	if (stream->handle != NULL)
		status = terminal->ops->stream_info(terminal->self, stream->handle, info);
	soma__stream_unpin(&terminal->streams, stream, id);
	return status;
}

bool
soma__order_is_blocking(struct soma_resource *resource, struct soma__stream *stream)
{
	struct soma_backend_stream_info info;

	return look(resource, stream, &info) != SOMA_STATUS_OK ||
	       (info.flags & SOMA_BACKEND_STREAM_NON_BLOCKING) == 0;
}

enum soma_status
soma__order_capture(struct soma_resource *resource, struct soma__stream *stream, bool *capturing)
{
	struct soma_backend_stream_info info;
	enum soma_status status = look(resource, stream, &info);

	*capturing = status == SOMA_STATUS_OK && info.capture != SOMA_BACKEND_CAPTURE_NONE;
	return status == SOMA_STATUS_NOT_FOUND ? SOMA_STATUS_OK : status;
}

bool
soma__order_native(struct soma_resource *resource, uint64_t id, uint64_t *native)
{
	struct soma__streams *streams = &resource->terminal->streams;
	struct soma__stream *stream = soma__stream_find(streams, id);
	struct soma_backend_stream_info info;
	bool known;

	/* The pin holds the id, too. */
	if (stream == NULL || !soma__stream_pin(streams, stream, id))
		return false;
	known = look(resource, stream, &info) == SOMA_STATUS_OK;
	soma__stream_unpin(streams, stream, id);
	if (known)
		*native = info.native;
	return known;
}

enum soma_status
soma__order_mark(struct soma_resource *resource, uint64_t id, struct soma__event **event)
{
	enum soma_status status = soma__stream_now(&resource->terminal->streams, id, event);

	if (status == SOMA_STATUS_OK && *event != NULL)
		soma__resource_tell_order(resource, SOMA__RECORDED, id, (*event)->number);
	else if (status == SOMA_STATUS_OK)
		soma__resource_tell_synchronized(resource, id);
	return status;
}

enum soma_status
soma__order_wait(struct soma_resource *resource, uint64_t id, struct soma__event *event)
{
	struct soma__terminal *terminal = resource->terminal;
	struct soma__stream *stream;
	enum soma_status status;

	if (event == NULL)
		return SOMA_STATUS_OK;
	status = soma__stream_open(&terminal->streams, id, &stream);
	if (status != SOMA_STATUS_OK)
		return status;
	if (!soma__stream_pin(&terminal->streams, stream, id))
		return soma__stream_missing(id);
	status = terminal->ops->event_wait(terminal->self, event->handle, stream->handle);
	soma__stream_unpin(&terminal->streams, stream, id);
	if (status == SOMA_STATUS_OK)
		soma__resource_tell_order(resource, SOMA__WAITED, id, event->number);
	return status;
}

enum soma_status
soma__order_finish(struct soma_resource *resource, uint64_t id)
{
	enum soma_status status = soma__stream_wait_for_all(&resource->terminal->streams, id);

	if (status == SOMA_STATUS_OK)
		soma__resource_tell_synchronized(resource, id);
	return status;
}

bool
soma__order_is_done(struct soma_resource *resource, struct soma__event *event)
{
	return event == NULL || soma__event_done(&resource->terminal->events, event);
}

void
soma__order_drop(struct soma_resource *resource, struct soma__event *event)
{
	soma__event_drop(&resource->terminal->events, event);
}

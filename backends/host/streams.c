/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events as the library calls them, over lanes.  An event's mutex covers what it
 * stands for, and is never held while anything runs. */
#include "backends/host/host.h"

#include <inttypes.h>
#include <string.h>

#include "backends/host/error.h"

static enum soma_status
made(struct soma_backend_stream *lane, struct soma_backend_stream **stream)
{
	if (lane == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	*stream = lane;
	return SOMA_STATUS_OK;
}

enum soma_status
host_stream_create(struct soma_backend *self, unsigned flags, struct soma_backend_stream **stream)
{
	if ((flags & ~(unsigned)SOMA_BACKEND_STREAM_NON_BLOCKING) != 0)
		return host_fail(self->host, SOMA_STATUS_NOT_SUPPORTED,
				 "stream flags 0x%x: only 0x1 is known", flags);
	return made(lane_open(&self->lanes, flags != 0 ? LANE_NON_BLOCKING : LANE_BLOCKING), stream);
}

enum soma_status
host_stream_default(struct soma_backend *self, enum soma_backend_stream_kind kind,
		    struct soma_backend_stream **stream)
{
	switch (kind) {
	case SOMA_BACKEND_STREAM_LEGACY:
		return made(lane_find(&self->lanes, self->lanes.legacy->native), stream);
	case SOMA_BACKEND_STREAM_PER_THREAD:
		return made(lane_of_thread(&self->lanes), stream);
	}
	return host_fail(self->host, SOMA_STATUS_INVALID_VALUE, "there is no default stream of kind %d",
			 (int)kind);
}

/* The only foreign streams here are those that another part of the program has made of this
 * same backend. */
enum soma_status
host_stream_wrap(struct soma_backend *self, uint64_t native, struct soma_backend_stream **stream)
{
	struct soma_backend_stream *lane = lane_find(&self->lanes, native);

	if (lane == NULL)
		return host_fail(self->host, SOMA_STATUS_NOT_FOUND, "no stream has the handle %" PRIu64,
				 native);
	*stream = lane;
	return SOMA_STATUS_OK;
}

void
host_stream_destroy(struct soma_backend *self, struct soma_backend_stream *stream)
{
	lane_close(&self->lanes, stream);
}

enum soma_status
host_stream_info(struct soma_backend *self, struct soma_backend_stream *stream,
		 struct soma_backend_stream_info *info)
{
	(void)self;
	struct soma_backend_stream_info all = {
		.size = info->size,
		.id = atomic_load(&stream->id),
		.native = stream->native,
		.flags = atomic_load(&stream->kind) == LANE_NON_BLOCKING ? SOMA_BACKEND_STREAM_NON_BLOCKING
									 : 0,
		.capture = SOMA_BACKEND_CAPTURE_NONE,
	};
	memcpy(info, &all, info->size < sizeof all ? info->size : sizeof all);
	return SOMA_STATUS_OK;
}

enum soma_status
host_stream_query(struct soma_backend *self, struct soma_backend_stream *stream, bool *done)
{
	*done = stream == self->lanes.legacy ? lanes_blocking_done(&self->lanes) : lane_is_done(stream);
	return SOMA_STATUS_OK;
}

/* Freed memory above the threshold goes at a synchronisation and at no other time. */
static void
apply_threshold(struct soma_backend *self)
{
	heap_trim(&self->heap, atomic_load_explicit(&self->heap.threshold, memory_order_relaxed));
}

/* Waiting for the legacy stream is waiting for the blocking streams too: a record brings their
 * order with it. */
enum soma_status
host_stream_synchronize(struct soma_backend *self, struct soma_backend_stream *stream)
{
	uint64_t position = atomic_load_explicit(&stream->queued, memory_order_acquire);

	if (stream == self->lanes.legacy) {
		struct op *op = lane_op(&self->lanes, stream);
		if (op == NULL)
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
		op->item.kind = ITEM_RECORD;
		position = lane_put(&self->lanes, stream, &op->item);
	}
	lane_drive(&self->lanes, stream, position);
	apply_threshold(self);
	return SOMA_STATUS_OK;
}

enum soma_status
host_synchronize(struct soma_backend *self)
{
	lanes_drive_all(&self->lanes);
	apply_threshold(self);
	return SOMA_STATUS_OK;
}

enum soma_status
host_stream_step(struct soma_backend *self, struct soma_backend_stream *stream, uint64_t count, uint64_t *ran)
{
	uint64_t n = lane_step(&self->lanes, stream, count);

	if (ran != NULL)
		*ran = n;
	return SOMA_STATUS_OK;
}

enum soma_status
host_stream_position(struct soma_backend *self, struct soma_backend_stream *stream, uint64_t *queued,
		     uint64_t *run)
{
	(void)self;
	pthread_mutex_lock(&stream->queue);
	uint64_t base = stream->base;
	pthread_mutex_unlock(&stream->queue);
	*run = atomic_load_explicit(&stream->run, memory_order_acquire) - base;
	*queued = atomic_load_explicit(&stream->queued, memory_order_acquire) - base;
	return SOMA_STATUS_OK;
}

/* ---- events ------------------------------------------------------------------- */

enum soma_status
host_event_create(struct soma_backend *self, unsigned flags, struct soma_backend_event **event)
{
	if (flags != 0)
		return host_fail(self->host, SOMA_STATUS_NOT_SUPPORTED, "event flags 0x%x: none is known",
				 flags);
	*event = event_open(&self->lanes);
	return *event == NULL ? SOMA_STATUS_OUT_OF_HOST_MEMORY : SOMA_STATUS_OK;
}

void
host_event_destroy(struct soma_backend *self, struct soma_backend_event *event)
{
	event_close(&self->lanes, event);
}

enum soma_status
host_event_record(struct soma_backend *self, struct soma_backend_event *event,
		  struct soma_backend_stream *stream)
{
	struct op *op = lane_op(&self->lanes, stream);

	if (op == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	op->item.kind = ITEM_RECORD;
	uint64_t position = lane_put(&self->lanes, stream, &op->item);
	pthread_mutex_lock(&event->mutex);
	event->lane = stream;
	event->position = position;
	pthread_mutex_unlock(&event->mutex);
	return SOMA_STATUS_OK;
}

/* What the event stands for; false: nothing, or something that has run. */
static bool
is_pending(struct soma_backend_event *event, struct soma_backend_stream **lane, uint64_t *position)
{
	pthread_mutex_lock(&event->mutex);
	*lane = event->lane;
	*position = event->position;
	pthread_mutex_unlock(&event->mutex);
	return *lane != NULL && atomic_load_explicit(&(*lane)->run, memory_order_acquire) < *position;
}

enum soma_status
host_event_wait(struct soma_backend *self, struct soma_backend_event *event,
		struct soma_backend_stream *stream)
{
	struct soma_backend_stream *lane;
	uint64_t position;

	if (!is_pending(event, &lane, &position) || lane == stream)
		return SOMA_STATUS_OK;
	struct op *op = lane_op(&self->lanes, stream);
	if (op == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	op->item.kind = ITEM_WAIT;
	op->from = (uintptr_t)lane;
	op->bytes = position;
	lane_put(&self->lanes, stream, &op->item);
	return SOMA_STATUS_OK;
}

enum soma_status
host_event_query(struct soma_backend *self, struct soma_backend_event *event, bool *done)
{
	struct soma_backend_stream *lane;
	uint64_t position;

	(void)self;
	*done = !is_pending(event, &lane, &position);
	return SOMA_STATUS_OK;
}

enum soma_status
host_event_synchronize(struct soma_backend *self, struct soma_backend_event *event)
{
	struct soma_backend_stream *lane;
	uint64_t position;

	if (is_pending(event, &lane, &position))
		lane_drive(&self->lanes, lane, position);
	return SOMA_STATUS_OK;
}

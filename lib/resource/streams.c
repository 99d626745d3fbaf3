/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: made, found, marked and destroyed.  The table's mutex is for making and destroying, each stream's own for
 * its end and its marks.  Pending frees are in pending.c.
 */
#include "lib/resource/streams.h"

#include <string.h>

#include <soma/model.h>

#include "lib/base/error.h"

/* Destroyed streams that a new one looks at, to take the place of one whose work is done. */
#define LOOKS 8

/* ---- slots ------------------------------------------------------------------------- */

/* Under the table's mutex: the slot may be had. */
static void
put_closed(struct soma__streams *streams, struct soma__stream *stream)
{
	stream->next_closed = NULL;
	if (streams->closed++ > 0)
		streams->closed_last->next_closed = stream;
	else
		streams->closed_first = stream;
	streams->closed_last = stream;
}

/* There is one. */
static struct soma__stream *
take_closed(struct soma__streams *streams)
{
	struct soma__stream *stream = streams->closed_first;

	streams->closed_first = stream->next_closed;
	streams->closed--;
	return stream;
}

static bool
is_full(const struct soma__streams *streams)
{
	return atomic_load_explicit(&streams->slots, memory_order_relaxed) >=
	       SOMA__STREAMS_CHUNK * SOMA__STREAMS_CHUNKS;
}

/* A new slot, not visible yet. */
static struct soma__stream *
add_slot(struct soma__streams *streams)
{
	uint32_t slot = atomic_load_explicit(&streams->slots, memory_order_relaxed);
	struct soma__stream *_Atomic *place = &streams->chunk[slot / SOMA__STREAMS_CHUNK];
	struct soma__stream *stream;

	if (is_full(streams)) {
		soma__fail(OUT_OF_HOST_MEMORY, "too many streams: %" PRIu64 " exist", slot);
		return NULL;
	}
	if (atomic_load_explicit(place, memory_order_relaxed) == NULL) {
		stream = soma__arena_calloc(streams->arena, SOMA__STREAMS_CHUNK * sizeof *stream, 64);
		if (stream == NULL)
			return NULL;
		atomic_store_explicit(place, stream, memory_order_release);
	}
	stream = soma__stream_at(streams, slot);
	atomic_store_explicit(&stream->id, slot, memory_order_relaxed);
	pthread_mutex_init(&stream->mutex, NULL);
	stream->destroyed = true;
	atomic_store_explicit(&streams->slots, slot + 1, memory_order_release);
	return stream;
}

/* Destroyed, nothing pending, and all its work known to be done. */
static bool
is_over(struct soma__streams *streams, struct soma__stream *stream)
{
	struct soma__event *done = NULL;
	bool over;

	pthread_mutex_lock(&stream->mutex);
	over = stream->destroyed && stream->handle == NULL && stream->head == NULL;
	if (over && stream->final != NULL) {
		over = soma__event_done(streams->events, stream->final);
		if (over) {
			done = stream->final;
			stream->final = NULL;
		}
	}
	pthread_mutex_unlock(&stream->mutex);
	soma__event_drop(streams->events, done);
	return over;
}

/* Those that are not over go to the end, so that the next time others are looked at. */
static struct soma__stream *
take_slot(struct soma__streams *streams)
{
	uint32_t looks = is_full(streams) || streams->closed < LOOKS ? streams->closed : LOOKS;

	for (uint32_t i = 0; i < looks; i++) {
		struct soma__stream *stream = take_closed(streams);
		if (is_over(streams, stream)) {
			atomic_fetch_add_explicit(&stream->id, SOMA__STREAM_SLOT_MASK + 1,
						  memory_order_release);
			return stream;
		}
		put_closed(streams, stream);
	}
	return add_slot(streams);
}

/* ---- making and destroying -------------------------------------------------------------- */

static enum soma_status
make_handle(struct soma__streams *streams, unsigned flags, const uint64_t *native,
	    struct soma_backend_stream **handle)
{
	const struct soma_backend_ops *ops = streams->events->ops;
	struct soma_backend *self = streams->events->self;

	if (native != NULL)
		return ops->stream_wrap(self, *native, handle);
	return ops->stream_create(
		self, flags & SOMA_STREAM_NON_BLOCKING ? SOMA_BACKEND_STREAM_NON_BLOCKING : 0, handle);
}

/* A backend that makes reports is to call the stream what the program does. */
static void
name_handle(struct soma__streams *streams, struct soma_backend_stream *handle, uint64_t id)
{
	if (streams->events->ops->stream_name != NULL)
		streams->events->ops->stream_name(streams->events->self, handle, id);
}

static enum soma_status
create_locked(struct soma__streams *streams, unsigned flags, const uint64_t *native, uint64_t *id)
{
	struct soma__stream *stream = take_slot(streams);
	struct soma_backend_stream *handle = NULL;
	enum soma_status status;

	if (stream == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = make_handle(streams, flags, native, &handle);
	if (status != SOMA_STATUS_OK) {
		put_closed(streams, stream);
		return status;
	}
	name_handle(streams, handle, atomic_load_explicit(&stream->id, memory_order_relaxed));
	pthread_mutex_lock(&stream->mutex);
	stream->handle = handle;
	stream->destroyed = false;
	atomic_store_explicit(&stream->pins, 1, memory_order_release);
	pthread_mutex_unlock(&stream->mutex);
	*id = atomic_load_explicit(&stream->id, memory_order_relaxed);
	return SOMA_STATUS_OK;
}

enum soma_status
soma__stream_create(struct soma__streams *streams, unsigned flags, const uint64_t *native, uint64_t *id)
{
	enum soma_status status;

	if (!streams->have_streams)
		return soma__fail(NOT_SUPPORTED, "the backend has no streams");
	if (flags & ~(unsigned)SOMA_STREAM_NON_BLOCKING)
		return soma__fail(INVALID_VALUE, "stream flags 0x%" PRIx64 ": expected SOMA_STREAM_*", flags);
	pthread_mutex_lock(&streams->mutex);
	status = create_locked(streams, flags, native, id);
	pthread_mutex_unlock(&streams->mutex);
	return status;
}

/* A stream without work is waited for at once, though the legacy stream's work may come before what was freed on it:
 * so that is waited for, too. */
static enum soma_status
wait_for_all(struct soma__streams *streams, struct soma__stream *stream)
{
	const struct soma_backend_ops *ops = streams->events->ops;
	struct soma__stream *legacy = soma__stream_at(streams, 0);
	enum soma_status status = ops->stream_synchronize(streams->events->self, stream->handle);

	if (status == SOMA_STATUS_OK && stream != legacy)
		status = ops->stream_synchronize(streams->events->self, legacy->handle);
	return status;
}

enum soma_status
soma__stream_wait_for_all(struct soma__streams *streams, uint64_t id)
{
	struct soma__stream *stream;
	enum soma_status status = soma__stream_open(streams, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (!soma__stream_pin(streams, stream, id))
		return soma__stream_missing(id);
	if (stream->handle != NULL)
		status = wait_for_all(streams, stream);
	soma__stream_unpin(streams, stream, id);
	return status;
}

/* All its work as an event, or waited for when there is none to be had. */
static enum soma_status
finalise(struct soma__streams *streams, struct soma__stream *stream, struct soma__event **final)
{
	*final = NULL;
	if (soma__event_record(streams->events, stream->handle, final) == SOMA_STATUS_OK)
		return SOMA_STATUS_OK;
	return wait_for_all(streams, stream);
}

/* Nobody has a pin any more.  Frees that were queued since the stream was destroyed belong to its work, too, so
 * its end is marked anew; if that cannot be, what was marked before stays. */
static void
give_handle(struct soma__streams *streams, struct soma__stream *stream)
{
	struct soma_backend_stream *handle;
	struct soma__event *final, *before = NULL, *mark;
	bool marked = finalise(streams, stream, &final) == SOMA_STATUS_OK;

	pthread_mutex_lock(&stream->mutex);
	if (marked) {
		before = stream->final;
		stream->final = final;
	}
	handle = stream->handle;
	stream->handle = NULL;
	mark = stream->mark;
	stream->mark = NULL;
	pthread_mutex_unlock(&stream->mutex);
	soma__event_drop(streams->events, before);
	soma__event_drop(streams->events, mark);
	streams->events->ops->stream_destroy(streams->events->self, handle);
	pthread_mutex_lock(&streams->mutex);
	put_closed(streams, stream);
	pthread_mutex_unlock(&streams->mutex);
}

void
soma__stream_unpin(struct soma__streams *streams, struct soma__stream *stream, uint64_t id)
{
	if (id != 0 && atomic_fetch_sub_explicit(&stream->pins, 1, memory_order_acq_rel) == 1)
		give_handle(streams, stream);
}

/* Of several threads that destroy a stream one comes first. */
static enum soma_status
close_stream(struct soma__stream *stream, uint64_t id, struct soma__event *final)
{
	enum soma_status status = SOMA_STATUS_OK;

	pthread_mutex_lock(&stream->mutex);
	if (stream->destroyed || atomic_load_explicit(&stream->id, memory_order_relaxed) != id) {
		status = soma__stream_missing(id);
	} else {
		stream->final = final;
		stream->destroyed = true;
	}
	pthread_mutex_unlock(&stream->mutex);
	return status;
}

/* Pinned.  No lock is held over finalise(), which may have to wait for the stream. */
static enum soma_status
destroy_pinned(struct soma__streams *streams, struct soma__stream *stream, uint64_t id)
{
	struct soma__event *final;
	enum soma_status status = finalise(streams, stream, &final);

	if (status == SOMA_STATUS_OK) {
		status = close_stream(stream, id, final);
		if (status != SOMA_STATUS_OK)
			soma__event_drop(streams->events, final);
	}
	/* The one that it has from its making. */
	if (status == SOMA_STATUS_OK)
		soma__stream_unpin(streams, stream, id);
	return status;
}

enum soma_status
soma__stream_destroy(struct soma__streams *streams, uint64_t id)
{
	struct soma__stream *stream;
	enum soma_status status = soma__stream_open(streams, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (id == 0)
		return soma__fail(INVALID_VALUE, "the legacy default stream cannot be destroyed");
	if (!soma__stream_pin(streams, stream, id))
		return soma__stream_missing(id);
	status = destroy_pinned(streams, stream, id);
	soma__stream_unpin(streams, stream, id);
	return status;
}

enum soma_status
soma__streams_init(struct soma__streams *streams, struct soma__events *events, struct soma__arena *arena,
		   bool have_streams)
{
	struct soma_backend_stream *handle = NULL;
	enum soma_status status = SOMA_STATUS_OK;
	struct soma__stream *legacy;

	memset(streams, 0, sizeof *streams);
	streams->events = events;
	streams->arena = arena;
	streams->have_streams = have_streams;
	if (have_streams)
		status = events->ops->stream_default(events->self, SOMA_BACKEND_STREAM_LEGACY, &handle);
	if (status != SOMA_STATUS_OK)
		return status;
	legacy = add_slot(streams);
	if (legacy == NULL) {
		if (handle != NULL)
			events->ops->stream_destroy(events->self, handle);
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	legacy->destroyed = false;
	legacy->handle = handle;
	if (handle != NULL)
		name_handle(streams, handle, 0);
	pthread_mutex_init(&streams->mutex, NULL);
	return SOMA_STATUS_OK;
}

void
soma__streams_fini(struct soma__streams *streams)
{
	uint32_t count = atomic_load(&streams->slots);

	for (uint32_t i = 0; i < count; i++) {
		struct soma__stream *stream = soma__stream_at(streams, i);
		if (stream->handle != NULL)
			streams->events->ops->stream_destroy(streams->events->self, stream->handle);
		soma__event_drop(streams->events, stream->final);
		soma__event_drop(streams->events, stream->mark);
		for (struct soma__record *r = stream->head; r != NULL; r = r->queued)
			soma__event_drop(streams->events, r->passed);
		for (struct soma__event *next, *event = stream->spare; event != NULL; event = next) {
			next = event->next;
			soma__event_drop(streams->events, event);
		}
		pthread_mutex_destroy(&stream->mutex);
	}
	pthread_mutex_destroy(&streams->mutex);
}

/* ---- finding --------------------------------------------------------------------------- */

enum soma_status
soma__stream_missing(uint64_t id)
{
	return soma__fail(STREAM_MISUSE, "there is no stream %" PRIu64 " (destroyed, or never created)", id);
}

/* Under the mutex: an event at the stream's present end.  It is the one of the latest mark, if that is free again. */
static enum soma_status
record_mark(struct soma__streams *streams, struct soma__stream *stream, struct soma__event **event)
{
	enum soma_status status;

	*event = NULL;
	if (stream->mark != NULL && soma__event_is_only(stream->mark)) {
		status = soma__event_renew(streams->events, stream->handle, stream->mark);
	} else {
		soma__event_drop(streams->events, stream->mark);
		stream->mark = NULL;
		status = soma__event_record(streams->events, stream->handle, &stream->mark);
	}
	if (status == SOMA_STATUS_OK)
		*event = soma__event_share_first(stream->mark);
	return status;
}

enum soma_status
soma__stream_now(struct soma__streams *streams, uint64_t id, struct soma__event **event)
{
	struct soma__stream *stream = soma__stream_find(streams, id);
	enum soma_status status = SOMA_STATUS_OK;

	*event = NULL;
	if (stream == NULL)
		return SOMA_STATUS_OK;
	pthread_mutex_lock(&stream->mutex);
	if (stream->destroyed && stream->handle == NULL)
		*event = soma__event_share(stream->final);
	else if (stream->handle != NULL)
		status = record_mark(streams, stream, event);
	pthread_mutex_unlock(&stream->mutex);
	return status;
}

/* Number and event together under the mutex: so the numbers are in the order of the events. */
struct soma__mark
soma__stream_mark(struct soma__streams *streams, struct soma__stream *stream)
{
	struct soma__mark mark = { 0 };

	pthread_mutex_lock(&stream->mutex);
	if (stream->handle != NULL)
		(void)record_mark(streams, stream, &mark.event);
	mark.number = ++stream->marks;
	pthread_mutex_unlock(&stream->mutex);
	return mark;
}

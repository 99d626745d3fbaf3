/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's pending frees, in the order in which it comes to them, each with an event behind it.  The events of
 * those that are done are kept for the next ones.  What is done about a free that is over is the terminal's
 * business.  Everything here is under the stream's mutex.
 */
#include "lib/resource/streams.h"

/* Events that a stream keeps. */
#define SPARES_MAX 128

static struct soma__event *
take_spare(struct soma__stream *stream)
{
	struct soma__event *event = stream->spare;

	stream->spare = event->next;
	stream->spare_count--;
	return event;
}

/* Under the mutex.  Nobody else has a reference to a free's event. */
static void
keep_spare(struct soma__streams *streams, struct soma__stream *stream, struct soma__event *event)
{
	if (event == NULL)
		return;
	if (stream->spare_count >= SPARES_MAX) {
		soma__event_drop(streams->events, event);
		return;
	}
	event->next = stream->spare;
	stream->spare = event;
	stream->spare_count++;
}

/* Under the mutex.  NULL: there is none to be had. */
static struct soma__event *
spare_or_new(struct soma__streams *streams, struct soma__stream *stream)
{
	return stream->spare != NULL ? take_spare(stream) : soma__event_take(streams->events);
}

/* Under the mutex, which then saves the pool's: an event behind the free.  NULL: there is none to be had. */
static struct soma__event *
event_behind(struct soma__streams *streams, struct soma__stream *stream)
{
	struct soma__event *event = stream->handle != NULL ? spare_or_new(streams, stream) : NULL;

	if (event == NULL || soma__event_renew(streams->events, stream->handle, event) == SOMA_STATUS_OK)
		return event;
	keep_spare(streams, stream, event);
	return NULL;
}

/* Written under the mutex alone, read without. */
static void
add_pending(struct soma__stream *stream, uint64_t bytes, uint64_t count)
{
	uint64_t old_bytes = atomic_load_explicit(&stream->pending_bytes, memory_order_relaxed);
	uint64_t old_count = atomic_load_explicit(&stream->pending_count, memory_order_relaxed);

	atomic_store_explicit(&stream->pending_bytes, old_bytes + bytes, memory_order_relaxed);
	atomic_store_explicit(&stream->pending_count, old_count + count, memory_order_release);
}

/* Under the mutex.  Without an event of its own the record goes when a later one does, or when reaping
 * finds an event for it. */
static void
push_record(struct soma__stream *stream, struct soma__record *record, struct soma__event *passed)
{
	record->queued = NULL;
	record->passed = passed;
	if (stream->tail != NULL)
		stream->tail->queued = record;
	else
		stream->head = record;
	stream->tail = record;
	add_pending(stream, record->bytes, 1);
}

void
soma__stream_retire(struct soma__streams *streams, struct soma__stream *stream, struct soma__record *record)
{
	pthread_mutex_lock(&stream->mutex);
	push_record(stream, record, event_behind(streams, stream));
	pthread_mutex_unlock(&stream->mutex);
}

bool
soma__stream_free_begin(struct soma__streams *streams, struct soma__stream *stream, uint64_t id,
			struct soma__event **event)
{
	pthread_mutex_lock(&stream->mutex);
	if (stream->destroyed || atomic_load_explicit(&stream->id, memory_order_relaxed) != id) {
		pthread_mutex_unlock(&stream->mutex);
		return false;
	}
	*event = spare_or_new(streams, stream);
	return true;
}

void
soma__stream_free_end(struct soma__streams *streams, struct soma__stream *stream, struct soma__record *record,
		      struct soma__event *event, bool recorded)
{
	if (record != NULL)
		push_record(stream, record, recorded ? event : NULL);
	if (record == NULL || !recorded)
		keep_spare(streams, stream, event);
	pthread_mutex_unlock(&stream->mutex);
}

/* Under the mutex. */
static bool
has_passed(struct soma__streams *streams, struct soma__stream *stream, struct soma__record *record)
{
	struct soma__event *event = record->passed;

	if (event == NULL && stream->destroyed && stream->handle == NULL)
		event = stream->final;
	else if (event == NULL &&
		 soma__event_record(streams->events, stream->handle, &event) == SOMA_STATUS_OK)
		record->passed = event;
	else if (event == NULL)
		return false;
	return event == NULL || soma__event_done(streams->events, event);
}

/* Under the mutex: the last record that the stream has passed; all before it are passed, too. */
static struct soma__record *
last_passed(struct soma__streams *streams, struct soma__stream *stream)
{
	struct soma__record *last = NULL;

	if (has_passed(streams, stream, stream->tail))
		return stream->tail;
	for (struct soma__record *r = stream->head; r != stream->tail; r = r->queued) {
		if (r->passed == NULL)
			continue;
		if (!soma__event_done(streams->events, r->passed))
			break;
		last = r;
	}
	return last;
}

struct soma__record *
soma__stream_passed(struct soma__streams *streams, struct soma__stream *stream)
{
	struct soma__record *first = NULL, *last = NULL;
	uint64_t bytes = 0, count = 0;

	if (atomic_load_explicit(&stream->pending_count, memory_order_acquire) == 0)
		return NULL;
	pthread_mutex_lock(&stream->mutex);
	if (stream->head != NULL)
		last = last_passed(streams, stream);
	if (last != NULL) {
		first = stream->head;
		stream->head = last->queued;
		if (stream->head == NULL)
			stream->tail = NULL;
		last->queued = NULL;
		for (struct soma__record *r = first; r != NULL; r = r->queued) {
			keep_spare(streams, stream, r->passed);
			r->passed = NULL;
			bytes += r->bytes;
			count++;
		}
		add_pending(stream, -bytes, -count);
	}
	pthread_mutex_unlock(&stream->mutex);
	return first;
}

uint64_t
soma__stream_pending_of(struct soma__stream *stream, const struct soma__account *tenant)
{
	uint64_t bytes = 0;

	if (atomic_load_explicit(&stream->pending_count, memory_order_acquire) == 0)
		return 0;
	pthread_mutex_lock(&stream->mutex);
	for (struct soma__record *r = stream->head; r != NULL; r = r->queued)
		bytes += soma__account_is_charged(r->tenant, tenant) ? r->bytes : 0;
	pthread_mutex_unlock(&stream->mutex);
	return bytes;
}

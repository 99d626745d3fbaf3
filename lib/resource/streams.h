/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal's streams by their ids, and the frees that are pending on each.
 *
 * An id is (times the slot was used before) << 20 | slot, so it is never given twice.  Slot 0 is the
 * legacy default stream.  A destroyed stream's slot is used again only when all that was
 * queued on it is known to be done: an id that is not found stands for a stream that is complete.
 *
 * A stream's mutex is held while an event is recorded behind a free, over the op free_recorded, and while events are
 * queried, none of which waits; so pending frees are in the stream's order.  Not held while frees are
 * completed, nor while a stream is waited for.
 *
 * Using a stream while it is being destroyed is the caller's error; freeing its blocks is not: a free pins the
 * stream, and the handle is the backend's again when it is destroyed and nobody pins it.  Its end is marked
 * then, for the second time, because of what those frees have queued.
 */
#ifndef SOMA_LIB_RESOURCE_STREAMS_H
#define SOMA_LIB_RESOURCE_STREAMS_H

#include <pthread.h>
#include <stdatomic.h>

#include <soma/backend.h>

#include "lib/resource/events.h"
#include "lib/resource/ledger.h"

#define SOMA__STREAMS_CHUNK 64u
#define SOMA__STREAMS_CHUNKS 1024u
#define SOMA__STREAM_SLOT_BITS 20
#define SOMA__STREAM_SLOT_MASK (((uint64_t)1 << SOMA__STREAM_SLOT_BITS) - 1)

struct soma__stream {
	_Atomic uint64_t id;
	struct soma_backend_stream *handle; /* NULL: the backend has no streams */
	pthread_mutex_t mutex;
	_Atomic uint32_t pins;  /* 1 until it is destroyed, and 1 for each free under way; slot 0: unused */
	_Atomic bool destroyed; /* written under mutex */
	struct soma__event *final; /* mutex; destroyed: all its work; NULL: that is done */
	uint64_t marks;            /* mutex; how many there were */
	struct soma__event *mark;  /* mutex; the latest one's, to be recorded anew when nobody else has it */
	struct soma__record *head; /* mutex; the pending frees, oldest first */
	struct soma__record *tail;
	struct soma__event *spare; /* mutex; of frees that were completed, for the next ones */
	uint32_t spare_count;
	_Atomic uint64_t pending_bytes; /* written under mutex */
	_Atomic uint64_t pending_count;
	struct soma__stream *next_closed; /* streams->mutex */
};

struct soma__streams {
	struct soma__events *events;
	struct soma__arena *arena;
	bool have_streams;
	pthread_mutex_t mutex;  /* making; what follows, but for reading */
	_Atomic uint32_t slots; /* that exist */
	uint32_t closed;        /* of these: without a handle, so that a new stream may have one that is over */
	struct soma__stream *closed_first, *closed_last;
	struct soma__stream *_Atomic chunk[SOMA__STREAMS_CHUNKS];
};

enum soma_status soma__streams_init(struct soma__streams *streams, struct soma__events *events,
				    struct soma__arena *arena, bool have_streams);
/* Gives back the handles; what is pending is forgotten. */
void soma__streams_fini(struct soma__streams *streams);

/* native: NULL for a stream of its own. */
enum soma_status soma__stream_create(struct soma__streams *streams, unsigned flags, const uint64_t *native,
				     uint64_t *id);
enum soma_status soma__stream_destroy(struct soma__streams *streams, uint64_t id);

/* False: it is destroyed, or becomes so right now.  Until the pin is taken back the handle stays valid. */
static inline bool soma__stream_pin(struct soma__streams *streams, struct soma__stream *stream, uint64_t id);
void soma__stream_unpin(struct soma__streams *streams, struct soma__stream *stream, uint64_t id);

/*
 * An event that covers all work queued on the stream until now, with a reference for the caller;
 * NULL: all of it is done.
 */
enum soma_status soma__stream_now(struct soma__streams *streams, uint64_t id, struct soma__event **event);

/* Waits for all work that a free on the stream comes after, where an event of it cannot be had. */
enum soma_status soma__stream_wait_for_all(struct soma__streams *streams, uint64_t id);

/* The end of a stream's work at some moment. */
struct soma__mark {
	struct soma__event *event; /* NULL: there was none to be had; all work of the stream, then */
	uint64_t number;           /* of two marks of a stream the later one has the larger number */
};

/* With a reference for the caller. */
struct soma__mark soma__stream_mark(struct soma__streams *streams, struct soma__stream *stream);

/* The free of this record has been queued on the stream: it is retired from now on. */
void soma__stream_retire(struct soma__streams *streams, struct soma__stream *stream,
			 struct soma__record *record);

/*
 * For a free that records its event itself: the stream is locked until _end, so its handle needs no pin.  False: it
 * is destroyed.  event NULL: there is none to be had.  record NULL: the free failed.
 */
bool soma__stream_free_begin(struct soma__streams *streams, struct soma__stream *stream, uint64_t id,
			     struct soma__event **event);
void soma__stream_free_end(struct soma__streams *streams, struct soma__stream *stream,
			   struct soma__record *record, struct soma__event *event, bool recorded);

/* Takes the records off whose frees the stream has passed: a list by `queued`. */
struct soma__record *soma__stream_passed(struct soma__streams *streams, struct soma__stream *stream);

/* Bytes of the stream's pending frees that are charged to this tenant. */
uint64_t soma__stream_pending_of(struct soma__stream *stream, const struct soma__account *tenant);

static inline struct soma__stream *
soma__stream_at(struct soma__streams *streams, uint32_t slot)
{
	struct soma__stream *chunk =
		atomic_load_explicit(&streams->chunk[slot / SOMA__STREAMS_CHUNK], memory_order_acquire);

	return &chunk[slot % SOMA__STREAMS_CHUNK];
}

/* NULL: gone, and all its work done; or never there. */
static inline struct soma__stream *
soma__stream_find(struct soma__streams *streams, uint64_t id)
{
	uint64_t slot = id & SOMA__STREAM_SLOT_MASK;
	struct soma__stream *stream;

	if (slot >= atomic_load_explicit(&streams->slots, memory_order_acquire))
		return NULL;
	stream = soma__stream_at(streams, (uint32_t)slot);
	return atomic_load_explicit(&stream->id, memory_order_acquire) == id ? stream : NULL;
}

/* Whether the id was ever given: there is, or was, such a stream. */
static inline bool
soma__stream_was(struct soma__streams *streams, uint64_t id)
{
	uint64_t slot = id & SOMA__STREAM_SLOT_MASK;

	return slot < atomic_load_explicit(&streams->slots, memory_order_acquire) &&
	       id <= atomic_load_explicit(&soma__stream_at(streams, (uint32_t)slot)->id,
					  memory_order_acquire);
}

static inline bool
soma__stream_pin(struct soma__streams *streams, struct soma__stream *stream, uint64_t id)
{
	uint32_t pins;

	if (id == 0)
		return true;
	pins = atomic_load_explicit(&stream->pins, memory_order_relaxed);
	do {
		if (pins == 0 || atomic_load_explicit(&stream->destroyed, memory_order_relaxed))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&stream->pins, &pins, pins + 1, memory_order_acquire,
							memory_order_relaxed));
	if (atomic_load_explicit(&stream->id, memory_order_relaxed) == id)
		return true;
	soma__stream_unpin(streams, stream, id); /* the slot has another stream by now */
	return false;
}

/* Records that there is no such stream. */
enum soma_status soma__stream_missing(uint64_t id);

/* The same, for new work: STREAM_MISUSE when it is destroyed or was never there. */
static inline enum soma_status
soma__stream_open(struct soma__streams *streams, uint64_t id, struct soma__stream **stream)
{
	struct soma__stream *found = soma__stream_find(streams, id);

	*stream = found;
	if (found == NULL || atomic_load_explicit(&found->destroyed, memory_order_relaxed))
		return soma__stream_missing(id);
	return SOMA_STATUS_OK;
}

#endif

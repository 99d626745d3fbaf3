/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a backend, counted and used again: a use or a free takes one from the pool and whoever
 * drops the last reference puts it back.  Recording an event anew does not touch waits that
 * were queued on it before, so it may go back while those are pending.
 *
 * Any thread; `mutex` is held over no call to the backend.
 */
#ifndef SOMA_LIB_RESOURCE_EVENTS_H
#define SOMA_LIB_RESOURCE_EVENTS_H

#include <pthread.h>
#include <stdatomic.h>

#include <soma/backend.h>

#include "lib/arena/arena.h"

struct soma__event {
	struct soma_backend_event *handle;
	_Atomic uint32_t references;
	uint64_t number;          /* tells it from the others, in traces; from 1 */
	struct soma__event *next; /* in the pool */
};

struct soma__events {
	const struct soma_backend_ops *ops;
	struct soma_backend *self;
	struct soma__arena *arena;
	pthread_mutex_t mutex;
	struct soma__event *pool; /* mutex */
	_Atomic uint64_t created; /* events that exist */
};

void soma__events_init(struct soma__events *events, const struct soma_backend_inner *backend,
		       struct soma__arena *arena);
/* Destroys all that are in the pool. */
void soma__events_fini(struct soma__events *events);

/* An event that stands for nothing yet, with one reference; NULL: there is none to be had. */
struct soma__event *soma__event_take(struct soma__events *events);

/* A new event at the stream's present end, with one reference. */
enum soma_status soma__event_record(struct soma__events *events, struct soma_backend_stream *stream,
				    struct soma__event **event);

/* The same with an event that the caller alone has a reference to; it stays the caller's on failure, too. */
enum soma_status soma__event_renew(struct soma__events *events, struct soma_backend_stream *stream,
				   struct soma__event *event);

static inline struct soma__event *
soma__event_share(struct soma__event *event)
{
	if (event != NULL)
		atomic_fetch_add_explicit(&event->references, 1, memory_order_relaxed);
	return event;
}

/* Whether the caller's reference is the only one; then it stays so. */
static inline bool
soma__event_is_only(const struct soma__event *event)
{
	return atomic_load_explicit(&event->references, memory_order_acquire) == 1;
}

/* A second reference where there is one: nobody else counts meanwhile. */
static inline struct soma__event *
soma__event_share_first(struct soma__event *event)
{
	atomic_store_explicit(&event->references, 2, memory_order_relaxed);
	return event;
}

/* NULL is allowed. */
void soma__event_drop(struct soma__events *events, struct soma__event *event);

/* False, too, when the backend cannot say. */
bool soma__event_done(struct soma__events *events, struct soma__event *event);

#endif

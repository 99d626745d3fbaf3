/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of events.  It keeps every event that was ever needed at once: as many as
 * there were pending frees and outstanding uses.
 */
#include "lib/resource/events.h"

#include <string.h>

void
soma__events_init(struct soma__events *events, const struct soma_backend_inner *backend,
		  struct soma__arena *arena)
{
	memset(events, 0, sizeof *events);
	events->ops = backend->ops;
	events->self = backend->self;
	events->arena = arena;
	pthread_mutex_init(&events->mutex, NULL);
}

void
soma__events_fini(struct soma__events *events)
{
	for (struct soma__event *event = events->pool; event != NULL; event = event->next)
		events->ops->event_destroy(events->self, event->handle);
	events->pool = NULL;
	pthread_mutex_destroy(&events->mutex);
}

static struct soma__event *
take_pooled(struct soma__events *events)
{
	pthread_mutex_lock(&events->mutex);
	struct soma__event *event = events->pool;
	if (event != NULL)
		events->pool = event->next;
	pthread_mutex_unlock(&events->mutex);
	return event;
}

static void
put_pooled(struct soma__events *events, struct soma__event *event)
{
	pthread_mutex_lock(&events->mutex);
	event->next = events->pool;
	events->pool = event;
	pthread_mutex_unlock(&events->mutex);
}

static enum soma_status
create_event(struct soma__events *events, struct soma__event **out)
{
	struct soma__event *event = soma__arena_calloc(events->arena, sizeof *event, 0);
	enum soma_status status;

	if (event == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = events->ops->event_create(events->self, 0, &event->handle);
	if (status != SOMA_STATUS_OK) {
		soma__arena_free(events->arena, event, sizeof *event);
		return status;
	}
	event->number = atomic_fetch_add_explicit(&events->created, 1, memory_order_relaxed) + 1;
	*out = event;
	return SOMA_STATUS_OK;
}

static enum soma_status
take_event(struct soma__events *events, struct soma__event **out)
{
	struct soma__event *event = take_pooled(events);
	enum soma_status status = event == NULL ? create_event(events, &event) : SOMA_STATUS_OK;

	if (status != SOMA_STATUS_OK)
		return status;
	atomic_store_explicit(&event->references, 1, memory_order_relaxed);
	*out = event;
	return SOMA_STATUS_OK;
}

struct soma__event *
soma__event_take(struct soma__events *events)
{
	struct soma__event *event = NULL;

	(void)take_event(events, &event);
	return event;
}

enum soma_status
soma__event_record(struct soma__events *events, struct soma_backend_stream *stream, struct soma__event **out)
{
	struct soma__event *event;
	enum soma_status status = take_event(events, &event);

	if (status != SOMA_STATUS_OK)
		return status;
	status = events->ops->event_record(events->self, event->handle, stream);
	if (status == SOMA_STATUS_OK)
		*out = event;
	else
		put_pooled(events, event);
	return status;
}

enum soma_status
soma__event_renew(struct soma__events *events, struct soma_backend_stream *stream, struct soma__event *event)
{
	return events->ops->event_record(events->self, event->handle, stream);
}

void
soma__event_drop(struct soma__events *events, struct soma__event *event)
{
	/* The only reference is the caller's: nobody is left who could share it. */
	if (event == NULL || (!soma__event_is_only(event) &&
			      atomic_fetch_sub_explicit(&event->references, 1, memory_order_acq_rel) != 1))
		return;
	put_pooled(events, event);
}

bool
soma__event_done(struct soma__events *events, struct soma__event *event)
{
	bool done = false;

	return events->ops->event_query(events->self, event->handle, &done) == SOMA_STATUS_OK && done;
}

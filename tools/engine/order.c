/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks.  An array for each, as long as it needs to be: the streams of one trace
 * are few.
 */
#include "tools/engine/order.h"

#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

struct handle_entry {
	struct table_key key; /* handle */
	uint32_t stream;
};

struct event_entry {
	struct table_key key; /* handle of the event */
	struct clock clock;
};

static void
widen(struct clock *clock, size_t count)
{
	if (clock->count >= count)
		return;
	clock->at = xreallocarray(clock->at, count, sizeof *clock->at);
	memset(&clock->at[clock->count], 0, (count - clock->count) * sizeof *clock->at);
	clock->count = count;
}

static void
join(struct clock *clock, const struct clock *other)
{
	widen(clock, other->count);
	for (size_t i = 0; i < other->count; i++)
		if (other->at[i] > clock->at[i])
			clock->at[i] = other->at[i];
}

static void
copy(struct clock *clock, const struct clock *other)
{
	widen(clock, other->count);
	if (other->count > 0)
		memcpy(clock->at, other->at, other->count * sizeof *clock->at);
	for (size_t i = other->count; i < clock->count; i++)
		clock->at[i] = 0;
}

void
order_init(struct order *order)
{
	*order = (struct order){ 0 };
	table_init(&order->handles, sizeof(struct handle_entry));
	table_init(&order->events, sizeof(struct event_entry));
}

void
order_fini(struct order *order)
{
	struct event_entry *event;
	size_t cursor = 0;

	while ((event = table_next(&order->events, &cursor)) != NULL)
		free(event->clock.at);
	for (size_t i = 0; i < order->count; i++)
		free(order->streams[i].clock.at);
	free(order->streams);
	free(order->host.at);
	table_fini(&order->handles);
	table_fini(&order->events);
}

/* SIZE_MAX: too many. */
static size_t
make_stream(struct order *order, uint64_t handle, bool blocking)
{
	struct handle_entry *entry;
	struct order_stream *stream;

	if (order->count == ORDER_STREAMS_MAX)
		return SIZE_MAX;
	order->streams = xgrow(order->streams, &order->room, order->count, sizeof *order->streams);
	stream = &order->streams[order->count];
	*stream = (struct order_stream){ .handle = handle, .blocking = blocking };
	copy(&stream->clock, &order->host);
	widen(&stream->clock, order->count + 1);
	order->blocking += blocking;
	entry = table_add(&order->handles, handle);
	entry->stream = (uint32_t)order->count;
	return order->count++;
}

static size_t
stream_of(struct order *order, uint64_t handle)
{
	const struct handle_entry *entry = table_find(&order->handles, handle);

	return entry != NULL ? entry->stream : make_stream(order, handle, false);
}

/* The legacy stream is ordered with every blocking one, both ways. */
static void
join_legacy(struct order *order, size_t stream)
{
	const struct handle_entry *legacy = table_find(&order->handles, 0);

	if (order->blocking == 0 || legacy == NULL)
		return;
	if (order->streams[stream].blocking) {
		join(&order->streams[stream].clock, &order->streams[legacy->stream].clock);
		return;
	}
	if (stream != legacy->stream)
		return;
	for (size_t i = 0; i < order->count; i++)
		if (order->streams[i].blocking)
			join(&order->streams[stream].clock, &order->streams[i].clock);
}

/* Later work of the stream comes after all that it must. */
static size_t
reach(struct order *order, uint64_t handle)
{
	size_t stream = stream_of(order, handle);

	if (stream == SIZE_MAX)
		return SIZE_MAX;
	join(&order->streams[stream].clock, &order->host);
	join_legacy(order, stream);
	return stream;
}

bool
order_step(struct order *order, uint64_t handle, struct epoch *epoch)
{
	size_t stream = reach(order, handle);

	if (stream == SIZE_MAX)
		return false;
	widen(&order->streams[stream].clock, stream + 1);
	*epoch = (struct epoch){ (uint32_t)stream, ++order->streams[stream].clock.at[stream] };
	return true;
}

bool
order_is_before(const struct order *order, struct epoch before, struct epoch now)
{
	const struct clock *clock = &order->streams[now.stream].clock;

	return before.stream < clock->count && before.tick <= clock->at[before.stream];
}

uint64_t
order_handle(const struct order *order, struct epoch epoch)
{
	return order->streams[epoch.stream].handle;
}

static bool
on_record(struct order *order, const struct trace_event *event)
{
	size_t stream = reach(order, event->stream);
	struct event_entry *entry = table_find(&order->events, event->ptr);

	if (stream == SIZE_MAX)
		return false;
	if (entry == NULL)
		entry = table_add(&order->events, event->ptr);
	copy(&entry->clock, &order->streams[stream].clock);
	order->edges++;
	return true;
}

static bool
on_wait(struct order *order, const struct trace_event *event)
{
	size_t stream = reach(order, event->stream);
	const struct event_entry *entry = table_find(&order->events, event->ptr);

	if (stream == SIZE_MAX)
		return false;
	order->edges++;
	if (entry != NULL)
		join(&order->streams[stream].clock, &entry->clock);
	else
		order->unknown_events++;
	return true;
}

static bool
on_sync(struct order *order, const struct trace_event *event, bool device)
{
	size_t stream;

	order->edges++;
	if (device) {
		for (size_t i = 0; i < order->count; i++)
			join(&order->host, &order->streams[i].clock);
		return true;
	}
	stream = reach(order, event->stream);
	if (stream != SIZE_MAX)
		join(&order->host, &order->streams[stream].clock);
	return stream != SIZE_MAX;
}

static void
forget_handle(struct order *order, uint64_t handle)
{
	struct handle_entry *entry = table_find(&order->handles, handle);

	if (entry == NULL || handle == 0)
		return;
	table_remove(&order->handles, entry);
}

bool
order_see(struct order *order, const struct trace_reader *reader, const struct trace_event *event)
{
	const char *detail = trace_name_text(reader, event->detail);

	switch (event->op) {
	case TRACE_RECORD:
		return on_record(order, event);
	case TRACE_WAIT:
		return on_wait(order, event);
	case TRACE_SYNC:
		return on_sync(order, event, strcmp(detail, "device") == 0);
	case TRACE_STREAM_CREATE:
		forget_handle(order, event->stream);
		if (table_find(&order->handles, event->stream) != NULL)
			return true;
		return make_stream(order, event->stream,
				   event->stream != 0 && strcmp(detail, "blocking") == 0) != SIZE_MAX;
	case TRACE_STREAM_DESTROY:
		forget_handle(order, event->stream);
		return true;
	default:
		return true;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the trace, for all devices at once: which one is asked for may be known at
 * the end only.  What is wrong in the trace is counted as the replay counts it (run.c).
 */
#include "tools/engine/census.h"

#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

struct census_block {
	struct table_key key; /* ptr; the tag is the holder */
	uint64_t size, event, time_ns;
	bool pending; /* freed; `event` and `time_ns` are of the free */
};

struct counting {
	struct census census;
	struct table blocks, streams;
	struct census_holder *holders; /* by name */
	size_t holder_room;
	bool goes_back;
};

struct countings {
	struct counting *at;
	size_t count, room;
};

static struct counting *
counting_of(struct countings *all, int32_t device)
{
	struct counting *counting;

	for (size_t i = 0; i < all->count; i++)
		if (all->at[i].census.device == device)
			return &all->at[i];
	all->at = xgrow(all->at, &all->room, all->count, sizeof *all->at);
	counting = &all->at[all->count++];
	memset(counting, 0, sizeof *counting);
	counting->census.device = device;
	table_init(&counting->blocks, sizeof(struct census_block));
	table_init(&counting->streams, sizeof(struct census_stream));
	return counting;
}

static struct census_holder *
holder_of(struct counting *counting, trace_name name)
{
	size_t room = counting->holder_room;

	if (name >= room) {
		while (name >= room)
			room = room > 0 ? 2 * room : 64;
		counting->holders = xreallocarray(counting->holders, room, sizeof *counting->holders);
		memset(&counting->holders[counting->holder_room], 0,
		       (room - counting->holder_room) * sizeof *counting->holders);
		counting->holder_room = room;
	}
	return &counting->holders[name];
}

static struct census_stream *
stream_of(struct counting *counting, uint64_t handle)
{
	struct census_stream *stream = table_find(&counting->streams, handle);

	return stream != NULL ? stream : table_add(&counting->streams, handle);
}

/* The block is not live any more; its life ends here. */
static void
end_life(struct counting *counting, const struct census_block *block, const struct trace_event *event)
{
	struct census *census = &counting->census;
	struct census_holder *holder = holder_of(counting, block->key.tag);

	holder->live--;
	holder->live_bytes -= block->size;
	census->live--;
	census->live_bytes -= block->size;
	spread_add(&census->life_events, census->events - block->event);
	if (!counting->goes_back && event->time_ns >= block->time_ns)
		spread_add(&census->life_ns, event->time_ns - block->time_ns);
}

static void
on_alloc(struct counting *counting, const struct trace_event *event)
{
	struct census *census = &counting->census;
	struct census_holder *holder = holder_of(counting, event->holder);
	struct census_stream *stream = stream_of(counting, event->stream);
	struct census_block *block = table_find(&counting->blocks, event->ptr);

	census->allocs++;
	stream->allocs++;
	if (event->ptr == 0 || event->size == 0) {
		census->ignored++;
		return;
	}
	if (block != NULL) {
		census->overwritten++;
		if (!block->pending)
			end_life(counting, block, event);
		table_remove(&counting->blocks, block);
	}
	block = table_add(&counting->blocks, event->ptr);
	block->key.tag = event->holder;
	block->size = event->size;
	block->event = census->events;
	block->time_ns = event->time_ns;
	stream->bytes += event->size;
	holder->allocs++;
	holder->bytes += event->size;
	holder->live++;
	holder->live_bytes += event->size;
	census->bytes += event->size;
	census->live_bytes += event->size;
	if (++census->live > census->most_live)
		census->most_live = census->live;
	spread_add(&census->sizes, event->size);
}

static void
on_free(struct counting *counting, const struct trace_event *event)
{
	struct census_block *block = table_find(&counting->blocks, event->ptr);

	counting->census.frees++;
	stream_of(counting, event->stream)->frees++;
	if (event->ptr == 0)
		return;
	if (block == NULL || block->pending) {
		counting->census.unknown_frees++;
		return;
	}
	end_life(counting, block, event);
	if (!event->deferred) {
		table_remove(&counting->blocks, block);
		return;
	}
	block->pending = true;
	block->event = counting->census.events;
	block->time_ns = event->time_ns;
}

static void
on_completed(struct counting *counting, const struct trace_event *event)
{
	struct census_block *block = table_find(&counting->blocks, event->ptr);
	struct census *census = &counting->census;

	if (block == NULL || !block->pending)
		return;
	spread_add(&census->delay_events, census->events - block->event);
	if (!counting->goes_back && event->time_ns >= block->time_ns)
		spread_add(&census->delay_ns, event->time_ns - block->time_ns);
	table_remove(&counting->blocks, block);
}

static void
see_time(struct counting *counting, const struct trace_event *event)
{
	struct census *census = &counting->census;

	if (census->events == 0)
		census->first_ns = event->time_ns;
	else if (event->time_ns < census->last_ns)
		counting->goes_back = true;
	census->last_ns = event->time_ns;
}

static void
see_event(struct counting *counting, const struct trace_event *event)
{
	see_time(counting, event);
	switch (event->op) {
	case TRACE_ALLOC:
		on_alloc(counting, event);
		break;
	case TRACE_FREE:
		on_free(counting, event);
		break;
	case TRACE_FREE_COMPLETED:
		on_completed(counting, event);
		break;
	case TRACE_ALLOC_FAILED:
	case TRACE_OOM:
		counting->census.recorded_failed++;
		break;
	default:
		break;
	}
	counting->census.events++;
}

/* ---- the answer ------------------------------------------------------------- */

static int
streams_by_bytes(const void *left, const void *right)
{
	const struct census_stream *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->key.key < b->key.key ? -1 : a->key.key > b->key.key;
}

static int
holders_by_bytes(const void *left, const void *right)
{
	const struct census_holder *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
}

static void
list_streams(struct counting *counting)
{
	struct census *census = &counting->census;
	struct census_stream *stream;
	size_t cursor = 0;

	census->streams = xcalloc(counting->streams.count, sizeof *census->streams);
	while ((stream = table_next(&counting->streams, &cursor)) != NULL)
		census->streams[census->stream_count++] = *stream;
	if (census->stream_count > 0)
		qsort(census->streams, census->stream_count, sizeof *census->streams, streams_by_bytes);
}

static void
list_holders(struct counting *counting)
{
	struct census *census = &counting->census;

	for (size_t name = 0; name < counting->holder_room; name++) {
		if (counting->holders[name].allocs == 0)
			continue;
		counting->holders[name].name = (trace_name)name;
		counting->holders[census->holder_count++] = counting->holders[name];
	}
	census->holders = counting->holders;
	counting->holders = NULL;
	if (census->holder_count > 0)
		qsort(census->holders, census->holder_count, sizeof *census->holders, holders_by_bytes);
}

static struct counting *
choose(struct countings *all, int32_t device)
{
	struct counting *best = NULL;

	for (size_t i = 0; i < all->count; i++) {
		struct counting *one = &all->at[i];

		if (device != CENSUS_DEVICE_ANY) {
			if (one->census.device == device)
				return one;
		} else if (best == NULL || one->census.allocs > best->census.allocs ||
			   (one->census.allocs == best->census.allocs &&
			    one->census.device < best->census.device)) {
			best = one;
		}
	}
	return best;
}

static void
finish(struct counting *counting, struct census *census)
{
	list_streams(counting);
	list_holders(counting);
	counting->census.has_times =
		!counting->goes_back && counting->census.last_ns > counting->census.first_ns;
	*census = counting->census;
}

enum trace_result
census_take(struct trace_reader *reader, int32_t device, struct census *census, struct trace_error *error)
{
	struct countings all = { 0 };
	struct counting *chosen;
	struct trace_event event;
	enum trace_result result;

	*census = (struct census){ 0 };
	while ((result = trace_next(reader, &event, error)) == TRACE_OK)
		see_event(counting_of(&all, event.device), &event);
	if (all.count == 0 && device == CENSUS_DEVICE_ANY)
		counting_of(&all, 0);
	chosen = choose(&all, device);
	if (chosen != NULL && result != TRACE_ERROR)
		finish(chosen, census);
	for (size_t i = 0; i < all.count; i++) {
		table_fini(&all.at[i].blocks);
		table_fini(&all.at[i].streams);
		free(all.at[i].holders);
	}
	free(all.at);
	if (result == TRACE_END)
		return chosen != NULL ? TRACE_OK : TRACE_END;
	return result;
}

void
census_fini(struct census *census)
{
	free(census->streams);
	free(census->holders);
	*census = (struct census){ 0 };
}

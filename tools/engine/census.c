/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass for all devices at once, since which one is asked for may be known at the end
 * only.  A snapshot takes a survey before it, for what was there at the start.
 */
#include "tools/engine/census.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <soma/model.h>

#include "tools/engine/rewind.h"
#include "tools/engine/run.h"
#include "tools/engine/survey.h"
#include "tools/engine/table.h"
#include "tools/xalloc.h"

struct census_block {
	struct table_key key; /* ptr; the tag is the holder */
	uint64_t size;
	uint64_t event, time_ns; /* of the allocation; PENDING: of the free */
	uint32_t stream;         /* index of its account */
	bool pending;
};

struct stream_index {
	struct table_key key; /* handle; the tag is the account's index */
};

struct counting {
	struct census census;
	struct table blocks, streams;
	uint64_t last_stream;
	uint32_t last_index;
	uint64_t last_time;
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
	counting->census.peak_event = CENSUS_AT_START;
	counting->census.most_live_event = CENSUS_AT_START;
	table_init(&counting->blocks, sizeof(struct census_block));
	table_init(&counting->streams, sizeof(struct stream_index));
	return counting;
}

static uint32_t
stream_of(struct counting *counting, uint64_t handle)
{
	struct accounts *streams = &counting->census.streams;
	struct stream_index *found;

	if (streams->count > 0 && handle == counting->last_stream)
		return counting->last_index;
	found = table_find(&counting->streams, handle);
	if (found == NULL) {
		found = table_add(&counting->streams, handle);
		found->key.tag = (uint32_t)streams->count;
		accounts_need(streams, streams->count)->key = handle;
	}
	counting->last_stream = handle;
	counting->last_index = found->key.tag;
	return found->key.tag;
}

/* ---- blocks ---------------------------------------------------------------- */

static void
note_peaks(struct census *census, uint64_t event)
{
	if (census->live > census->most_live) {
		census->most_live = census->live;
		census->most_live_event = event;
	}
	if (census->live_bytes <= census->peak_bytes)
		return;
	census->peak_bytes = census->live_bytes;
	census->peak_event = event;
	accounts_mark_peak(&census->holders);
	accounts_mark_peak(&census->streams);
}

static struct census_block *
begin_life(struct counting *counting, uint64_t ptr, uint64_t size, uint64_t stream, trace_name holder)
{
	struct census_block *block = table_add(&counting->blocks, ptr);

	block->key.tag = holder;
	block->stream = stream_of(counting, stream);
	block->size = size > SOMA_MODEL_ADDRESS_MAX ? 0 : size;
	counting->census.too_big += size > SOMA_MODEL_ADDRESS_MAX;
	counting->census.live++;
	counting->census.live_bytes += block->size;
	return block;
}

static void
enter_accounts(struct counting *counting, const struct census_block *block, uint64_t event, uint64_t counted)
{
	struct census *census = &counting->census;

	accounts_enter(&census->holders, block->key.tag, block->size, event, counted);
	accounts_enter(&census->streams, block->stream, block->size, event, counted);
	census->holders.at[block->key.tag].key = block->key.tag;
	note_peaks(census, event);
}

/* The block is not live any more. */
static void
end_life(struct counting *counting, const struct census_block *block, const struct trace_event *event)
{
	struct census *census = &counting->census;

	accounts_leave(&census->holders, block->key.tag, block->size, 1);
	accounts_leave(&census->streams, block->stream, block->size, 1);
	census->live--;
	census->live_bytes -= block->size;
	census->freed_bytes = account_add(census->freed_bytes, block->size);
	if (block->event == CENSUS_AT_START)
		return;
	spread_add(&census->life_events, census->events - block->event);
	if (event->time_ns >= block->time_ns)
		spread_add(&census->life_ns, event->time_ns - block->time_ns);
}

/* ---- events ---------------------------------------------------------------- */

static void
on_alloc(struct counting *counting, const struct trace_event *event)
{
	struct census *census = &counting->census;
	struct census_block *block = table_find(&counting->blocks, event->ptr);

	census->allocs++;
	if (event->ptr == 0 || event->size == 0) {
		census->ignored++;
		return;
	}
	if (block != NULL) {
		census->overwritten++;
		census->pending -= block->pending;
		if (!block->pending)
			end_life(counting, block, event);
		table_remove(&counting->blocks, block);
	}
	block = begin_life(counting, event->ptr, event->size, event->stream, event->holder);
	block->event = census->events;
	block->time_ns = event->time_ns;
	census->bytes = account_add(census->bytes, event->size);
	spread_add(&census->sizes, event->size);
	enter_accounts(counting, block, event->index, 1);
}

static void
add_delay(struct counting *counting, const struct census_block *block, uint64_t events, uint64_t from,
	  uint64_t to)
{
	struct census *census = &counting->census;

	spread_add(&census->delay_events, events);
	if (to < from)
		return;
	spread_add(&census->delay_ns, to - from);
	accounts_delay(&census->streams, block->stream, to - from);
}

static void
on_free(struct counting *counting, const struct trace_event *event)
{
	struct census_block *block = table_find(&counting->blocks, event->ptr);
	struct census *census = &counting->census;

	census->frees++;
	if (event->ptr == 0)
		return;
	if (block == NULL || block->pending) {
		census->unknown_frees++;
		return;
	}
	end_life(counting, block, event);
	census->stray_frees += event->stream != census->streams.at[block->stream].key;
	if (!event->deferred) {
		if (event->completed)
			add_delay(counting, block, 0, event->time_ns, event->completed_ns);
		table_remove(&counting->blocks, block);
		return;
	}
	census->pending++;
	block->pending = true;
	block->event = census->events;
	block->time_ns = event->time_ns;
}

static void
on_completed(struct counting *counting, const struct trace_event *event)
{
	struct census_block *block = table_find(&counting->blocks, event->ptr);
	struct census *census = &counting->census;

	if (block == NULL || !block->pending)
		return;
	census->pending--;
	if (block->event != CENSUS_AT_START)
		add_delay(counting, block, census->events - block->event, block->time_ns, event->time_ns);
	table_remove(&counting->blocks, block);
}

static void
see_time(struct counting *counting, const struct trace_event *event)
{
	struct census *census = &counting->census;

	if (census->events == 0)
		census->first_ns = census->last_ns = event->time_ns;
	else if (event->time_ns < counting->last_time)
		census->backwards++;
	counting->last_time = event->time_ns;
	if (event->time_ns < census->first_ns)
		census->first_ns = event->time_ns;
	if (event->time_ns > census->last_ns)
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
	case TRACE_USE:
		counting->census.uses++;
		break;
	default:
		break;
	}
	counting->census.events++;
}

/* ---- what was there before ------------------------------------------------------ */

static void
begin_block(struct counting *counting, const struct start_block *known, uint64_t stream)
{
	struct census *census = &counting->census;
	struct census_block *block = begin_life(counting, known->ptr, known->size, stream, known->holder);

	census->start_blocks++;
	census->start_bytes = account_add(census->start_bytes, block->size);
	block->event = CENSUS_AT_START;
	enter_accounts(counting, block, CENSUS_AT_START, 0);
	if (!known->pending)
		return;
	block->pending = true;
	census->pending++;
	census->start_pending++;
	census->start_pending_bytes = account_add(census->start_pending_bytes, block->size);
	census->live--;
	census->live_bytes -= block->size;
	accounts_leave(&census->holders, block->key.tag, block->size, 0);
	accounts_leave(&census->streams, block->stream, block->size, 0);
}

/* At the start all that is there is the peak, whatever came first. */
static void
begin_with(struct counting *counting, const struct start *start)
{
	struct census *census = &counting->census;

	for (size_t i = 0; i < start->block_count; i++)
		if (table_find(&counting->blocks, start->blocks[i].ptr) == NULL)
			begin_block(counting, &start->blocks[i],
				    start->segments[start->blocks[i].segment].stream);
	for (size_t i = 0; i < census->holders.count; i++)
		census->holders.at[i].most_bytes = census->holders.at[i].live_bytes;
	for (size_t i = 0; i < census->streams.count; i++)
		census->streams.at[i].most_bytes = census->streams.at[i].live_bytes;
	census->most_live = census->live;
	census->peak_bytes = census->live_bytes;
	accounts_mark_peak(&census->holders);
	accounts_mark_peak(&census->streams);
}

/* Chooses the device, too: the one that is counted then. */
static enum trace_result
rewind_snapshot(struct countings *all, struct trace_reader *reader, int32_t *device,
		struct trace_error *error)
{
	struct survey survey;
	struct survey_device *chosen = NULL;
	struct start start = { 0 };
	enum trace_result result = survey_run(&survey, reader, NULL, NULL, error);

	if (result == TRACE_OK &&
	    replay_choose_device(&survey, trace_snapshot(reader), *device, &chosen, error) != SOMA_STATUS_OK)
		result = TRACE_END;
	if (result == TRACE_OK) {
		*device = chosen->device;
		counting_of(all, *device)->census.device_count = survey.device_count;
		if (!survey.rewinds || survey_is_whole(&survey, *device))
			start_rebuild(&start, chosen, trace_snapshot(reader), soma_policy_preset("pytorch"));
		begin_with(counting_of(all, *device), &start);
		result = trace_rewind(reader, error);
	}
	start_fini(&start);
	survey_fini(&survey);
	return result;
}

/* ---- the answer ------------------------------------------------------------- */

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
countings_fini(struct countings *all)
{
	for (size_t i = 0; i < all->count; i++) {
		table_fini(&all->at[i].blocks);
		table_fini(&all->at[i].streams);
		census_fini(&all->at[i].census);
	}
	free(all->at);
}

/* The census moves out of `all`. */
static enum trace_result
finish(struct countings *all, int32_t device, struct census *census, struct trace_error *error)
{
	struct counting *chosen;

	if (all->count == 0)
		counting_of(all, device == CENSUS_DEVICE_ANY ? 0 : device);
	chosen = choose(all, device);
	if (chosen == NULL) {
		snprintf(error->text, sizeof error->text, "the trace has no device %" PRId32, device);
		return TRACE_END;
	}
	accounts_finish(&chosen->census.holders);
	accounts_finish(&chosen->census.streams);
	if (chosen->census.device_count == 0)
		chosen->census.device_count = all->count;
	*census = chosen->census;
	chosen->census = (struct census){ 0 };
	return TRACE_OK;
}

enum trace_result
census_take(struct trace_reader *reader, int32_t device, struct census *census, struct trace_error *error)
{
	struct countings all = { 0 };
	struct trace_event event;
	enum trace_result result = TRACE_OK;
	bool rewinds = trace_snapshot(reader) != NULL;

	*census = (struct census){ 0 };
	if (rewinds)
		result = rewind_snapshot(&all, reader, &device, error);
	while (result == TRACE_OK && (result = trace_next(reader, &event, error)) == TRACE_OK)
		if (!rewinds || event.device == device)
			see_event(counting_of(&all, event.device), &event);
	if (result == TRACE_TRUNCATED || (result == TRACE_END && !(rewinds && all.count == 0))) {
		struct trace_error where = *error;
		bool truncated = result == TRACE_TRUNCATED;

		result = finish(&all, device, census, error);
		if (!trace_has_clock(reader))
			census->last_ns = census->first_ns;
		census->truncated = truncated;
		census->truncation = where;
	}
	countings_fini(&all);
	return result;
}

void
census_fini(struct census *census)
{
	accounts_fini(&census->holders);
	accounts_fini(&census->streams);
	*census = (struct census){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass that follows blocks from their allocation to their free, as the replay does: an
 * allocation at an address that is still live frees what was there.  What the trace says failed
 * lives for a moment, as a trial has it.
 */
#include "tools/engine/lives.h"

#include <stdlib.h>

#include "tools/engine/session.h"
#include "tools/engine/table.h"
#include "tools/xalloc.h"

struct life {
	struct table_key key; /* ptr */
	uint64_t lower, size;
	bool pending;
};

struct reading {
	struct lives *lives;
	struct table blocks;
	uint64_t alignment;
	size_t count_max;
	uint64_t now;
	bool began; /* something did at this moment: what ends now ends at the next one */
	uint64_t requested, rounded; /* live */
};

uint64_t
lives_round(uint64_t size, uint64_t alignment)
{
	uint64_t over = size % alignment, sum;

	if (over == 0)
		return size;
	return __builtin_add_overflow(size, alignment - over, &sum) ? size : sum;
}

static void
begin(struct reading *reading, uint64_t event, uint64_t ptr, uint64_t size)
{
	struct life *life = table_add(&reading->blocks, ptr);
	struct lives *lives = reading->lives;

	reading->began = true;
	life->lower = reading->now;
	life->size = size;
	reading->requested += size;
	reading->rounded += lives_round(size, reading->alignment);
	if (reading->requested > lives->peak_requested)
		lives->peak_requested = reading->requested;
	if (reading->rounded > lives->peak_rounded) {
		lives->peak_rounded = reading->rounded;
		lives->peak_rounded_event = event;
	}
	if (reading->rounded > lives->peak_wanted)
		lives->peak_wanted = reading->rounded;
}

static void
end_use(struct reading *reading, struct life *life)
{
	if (life->pending)
		return;
	life->pending = true;
	reading->requested -= life->size;
	reading->rounded -= lives_round(life->size, reading->alignment);
}

/* Something that began at `lower` ends. */
static void
keep(struct reading *reading, uint64_t lower, uint64_t size)
{
	struct lives *lives = reading->lives;
	struct pack_item item = { .lower = lower, .size = size };

	reading->now += reading->began;
	reading->began = false;
	item.upper = reading->now;
	if (lives->count == reading->count_max)
		lives->complete = false;
	if (!lives->complete)
		return;
	lives->items = xgrow(lives->items, &lives->room, lives->count, sizeof *lives->items);
	lives->items[lives->count++] = item;
}

/* Its addresses are free. */
static void
end(struct reading *reading, struct life *life, bool remove)
{
	keep(reading, life->lower, life->size);
	end_use(reading, life);
	if (remove)
		table_remove(&reading->blocks, life);
}

static void
see_failure(struct reading *reading, const struct trace_event *event)
{
	struct lives *lives = reading->lives;
	uint64_t wanted;

	if (event->size == 0)
		return;
	replay_recorded_add(&lives->recorded, event->index, event->size);
	if (__builtin_add_overflow(reading->rounded, lives_round(event->size, reading->alignment), &wanted))
		wanted = UINT64_MAX;
	if (wanted > lives->peak_wanted)
		lives->peak_wanted = wanted;
	reading->began = true;
	keep(reading, reading->now, event->size);
}

static void
see_event(struct reading *reading, const struct trace_event *event)
{
	struct life *life = table_find(&reading->blocks, event->ptr);

	switch (event->op) {
	case TRACE_ALLOC:
		if (event->ptr == 0 || event->size == 0)
			break;
		if (life != NULL)
			end(reading, life, true);
		begin(reading, event->index, event->ptr, event->size);
		break;
	case TRACE_FREE:
		if (life == NULL || life->pending)
			break;
		if (event->deferred)
			end_use(reading, life);
		else
			end(reading, life, true);
		break;
	case TRACE_FREE_COMPLETED:
		if (life != NULL && life->pending)
			end(reading, life, true);
		break;
	case TRACE_ALLOC_FAILED:
	case TRACE_OOM:
		see_failure(reading, event);
		break;
	default:
		break;
	}
}

static void
begin_with(struct reading *reading, const struct start *start)
{
	for (size_t i = 0; i < start->block_count; i++) {
		const struct start_block *block = &start->blocks[i];

		begin(reading, REPLAY_AT_START, block->ptr, block->size);
		if (block->pending)
			end_use(reading, table_find(&reading->blocks, block->ptr));
	}
}

static enum trace_result
read_events(struct reading *reading, struct trace_reader *reader, int32_t device, struct trace_error *error)
{
	struct trace_event event;
	enum trace_result result = trace_rewind(reader, error);
	struct life *life;
	size_t cursor = 0;

	if (result != TRACE_OK)
		return result;
	while ((result = trace_next(reader, &event, error)) == TRACE_OK)
		if (event.device == device)
			see_event(reading, &event);
	while ((life = table_next(&reading->blocks, &cursor)) != NULL)
		end(reading, life, false);
	return result == TRACE_ERROR ? TRACE_ERROR : TRACE_OK;
}

/* A hash table gives its entries in no order that means anything. */
static int
by_life(const void *left, const void *right)
{
	const struct pack_item *a = left, *b = right;

	if (a->lower != b->lower)
		return a->lower < b->lower ? -1 : 1;
	if (a->upper != b->upper)
		return a->upper < b->upper ? -1 : 1;
	return a->size < b->size ? -1 : a->size > b->size;
}

enum soma_status
lives_read(struct replay_session *session, int32_t wanted, uint64_t alignment, size_t count_max,
	   struct lives *lives, struct trace_error *error)
{
	struct reading reading = { .lives = lives, .alignment = alignment, .count_max = count_max };
	struct start start = { 0 };
	struct survey_device *device;
	enum soma_status status = session_device(session, wanted, &device, error);

	*lives = (struct lives){ .complete = true, .peak_rounded_event = REPLAY_AT_START };
	if (status != SOMA_STATUS_OK)
		return status;
	table_init(&reading.blocks, sizeof(struct life));
	if (!session->survey.rewinds || survey_is_whole(&session->survey, device->device))
		start_rebuild(&start, device, trace_snapshot(session->reader), soma_policy_preset("pytorch"));
	begin_with(&reading, &start);
	if (read_events(&reading, session->reader, device->device, error) == TRACE_ERROR)
		status = SOMA_STATUS_PARSE;
	if (lives->count > 0)
		qsort(lives->items, lives->count, sizeof *lives->items, by_life);
	table_fini(&reading.blocks);
	start_fini(&start);
	return status;
}

void
lives_fini(struct lives *lives)
{
	free(lives->items);
	*lives = (struct lives){ 0 };
}

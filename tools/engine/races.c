/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks and what was done to them last.  A freed block is remembered until something else
 * is allocated where it was: whoever does that must come after the free, and after the uses
 * that the free itself did not wait for.
 */
#include "tools/engine/races.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

/* One operation, remembered. */
struct access {
	struct epoch epoch;
	struct race_side side;
};

struct block {
	uint64_t ptr, size;
	trace_name holder;
	struct access alloc, write, free;
	struct access *reads; /* the latest of each stream since the write */
	size_t read_count, read_room;
	bool written, freed, completed;
};

struct finding {
	struct races *races;
	struct order order;
	size_t max;
	struct block **blocks; /* by address; they do not overlap */
	size_t count, room;
};

const char *
race_text(enum race_kind kind)
{
	static const char *const texts[] = {
#define X(name, text, problem) text,
		RACE_MAP(X)
#undef X
	};

	return texts[kind];
}

const char *
race_problem(enum race_kind kind)
{
	static const char *const problems[] = {
#define X(name, text, problem) problem,
		RACE_MAP(X)
#undef X
	};

	return problems[kind];
}

static void
report(struct finding *finding, enum race_kind kind, const struct block *block, const struct access *first,
       const struct access *second)
{
	struct races *races = finding->races;

	if (races->count++ >= finding->max)
		return;
	races->at = xgrow(races->at, &races->room, races->kept, sizeof *races->at);
	races->at[races->kept++] =
		(struct race){ kind, block->ptr, block->holder, first->side, second->side };
}

static bool
is_before(const struct finding *finding, const struct access *first, const struct access *second)
{
	return order_is_before(&finding->order, first->epoch, second->epoch);
}

/* ---- blocks by address ------------------------------------------------------ */

/* The first that ends above the address. */
static size_t
place_of(const struct finding *finding, uint64_t address)
{
	size_t low = 0, high = finding->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct block *block = finding->blocks[middle];

		if (block->ptr + block->size <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct block *
block_at(const struct finding *finding, uint64_t ptr)
{
	size_t place = place_of(finding, ptr);

	if (place < finding->count && finding->blocks[place]->ptr <= ptr)
		return finding->blocks[place];
	return NULL;
}

static void
drop(struct block *block)
{
	free(block->reads);
	free(block);
}

static void
remove_range(struct finding *finding, size_t from, size_t to)
{
	if (from == to)
		return;
	memmove(&finding->blocks[from], &finding->blocks[to],
		(finding->count - to) * sizeof(struct block *));
	finding->count -= to - from;
}

static void
insert(struct finding *finding, size_t place, struct block *block)
{
	finding->blocks = xgrow(finding->blocks, &finding->room, finding->count, sizeof(struct block *));
	memmove(&finding->blocks[place + 1], &finding->blocks[place],
		(finding->count - place) * sizeof(struct block *));
	finding->blocks[place] = block;
	finding->count++;
}

/* ---- rules ------------------------------------------------------------------- */

/* The accesses that `now` must come after: the first one that it does not is told. */
static bool
judge_accesses(struct finding *finding, enum race_kind kind, const struct block *block, bool reads,
	       const struct access *now)
{
	if (block->written && !is_before(finding, &block->write, now)) {
		report(finding, kind, block, &block->write, now);
		return false;
	}
	for (size_t i = 0; reads && i < block->read_count; i++) {
		if (!is_before(finding, &block->reads[i], now)) {
			report(finding, kind, block, &block->reads[i], now);
			return false;
		}
	}
	return true;
}

static void
judge_reuse(struct finding *finding, const struct block *old, const struct access *now)
{
	if (old->completed)
		return;
	if (!old->freed)
		return; /* the trace lacks its free: the replay counts that */
	if (!is_before(finding, &old->free, now))
		report(finding, RACE_REUSE, old, &old->free, now);
	else
		judge_accesses(finding, RACE_REUSE_IN_USE, old, true, now);
}

static bool
step(struct finding *finding, const struct trace_event *event, struct access *access)
{
	access->side = (struct race_side){ event->op, event->index, event->stream, event->detail };
	return order_step(&finding->order, event->stream, &access->epoch);
}

static bool
on_alloc(struct finding *finding, const struct trace_event *event)
{
	struct block *block;
	struct access now;
	size_t from, to;

	if (!step(finding, event, &now))
		return false;
	if (event->ptr == 0 || event->size == 0 || event->size > UINT64_MAX - event->ptr)
		return true;
	from = to = place_of(finding, event->ptr);
	for (; to < finding->count && finding->blocks[to]->ptr < event->ptr + event->size; to++) {
		judge_reuse(finding, finding->blocks[to], &now);
		drop(finding->blocks[to]);
	}
	remove_range(finding, from, to);
	block = xcalloc(1, sizeof *block);
	*block = (struct block){ .ptr = event->ptr, .size = event->size, .holder = event->holder, .alloc = now };
	insert(finding, from, block);
	return true;
}

static void
note_read(struct block *block, const struct access *now)
{
	for (size_t i = 0; i < block->read_count; i++) {
		if (block->reads[i].epoch.stream == now->epoch.stream) {
			block->reads[i] = *now;
			return;
		}
	}
	block->reads = xgrow(block->reads, &block->read_room, block->read_count, sizeof *block->reads);
	block->reads[block->read_count++] = *now;
}

static void
judge_use(struct finding *finding, struct block *block, bool writes, const struct access *now)
{
	if (block->freed)
		report(finding, RACE_USE_AFTER_FREE, block, &block->free, now);
	else if (!is_before(finding, &block->alloc, now))
		report(finding, RACE_USE_BEFORE_READY, block, &block->alloc, now);
	else
		judge_accesses(finding, RACE_STREAM_RACE, block, writes, now);
	if (block->freed)
		return;
	if (writes) {
		block->write = *now;
		block->written = true;
		block->read_count = 0;
	} else {
		note_read(block, now);
	}
}

static bool
on_use(struct finding *finding, const struct trace_reader *reader, const struct trace_event *event)
{
	struct block *block = block_at(finding, event->ptr);
	struct access now;

	finding->races->uses++;
	if (!step(finding, event, &now))
		return false;
	if (block == NULL)
		finding->races->unknown_uses++;
	else
		judge_use(finding, block, strcmp(trace_name_text(reader, event->detail), "read") != 0, &now);
	return true;
}

static void
forget_accesses(struct block *block)
{
	block->written = false;
	block->read_count = 0;
}

/* A deferred free is ordered by whoever defers it; it counts until it has completed. */
static bool
on_free(struct finding *finding, const struct trace_event *event)
{
	struct block *block = block_at(finding, event->ptr);
	struct access now;

	if (!step(finding, event, &now))
		return false;
	if (block == NULL || block->ptr != event->ptr || block->freed)
		return true;
	block->free = now;
	block->freed = true;
	if (event->deferred)
		return true;
	if (!is_before(finding, &block->alloc, &now))
		report(finding, RACE_FREE_UNORDERED, block, &block->alloc, &now);
	else if (!judge_accesses(finding, RACE_FREE_IN_USE, block, true, &now))
		forget_accesses(block); /* told once */
	return true;
}

static void
on_completed(struct finding *finding, const struct trace_event *event)
{
	struct block *block = block_at(finding, event->ptr);

	if (block != NULL && block->ptr == event->ptr && block->freed)
		block->completed = true;
}

static bool
see_event(struct finding *finding, const struct trace_reader *reader, const struct trace_event *event)
{
	switch (event->op) {
	case TRACE_ALLOC:
		return on_alloc(finding, event);
	case TRACE_USE:
		return on_use(finding, reader, event);
	case TRACE_FREE:
		return on_free(finding, event);
	case TRACE_FREE_COMPLETED:
		on_completed(finding, event);
		return true;
	default:
		return order_see(&finding->order, reader, event);
	}
}

static enum trace_result
too_many_streams(const struct trace_event *event, struct trace_error *error)
{
	snprintf(error->text, sizeof error->text,
		 "event %llu: more than %d streams, which is more than this can put in order",
		 (unsigned long long)event->index, ORDER_STREAMS_MAX);
	return TRACE_ERROR;
}

enum trace_result
races_find(struct trace_reader *reader, int32_t device, size_t max, struct races *races,
	   struct trace_error *error)
{
	struct finding finding = { .races = races, .max = max };
	struct trace_event event;
	enum trace_result result;

	*races = (struct races){ .device = device };
	order_init(&finding.order);
	while ((result = trace_next(reader, &event, error)) == TRACE_OK) {
		if (event.device == device && !see_event(&finding, reader, &event)) {
			result = too_many_streams(&event, error);
			break;
		}
	}
	races->edges = finding.order.edges;
	races->unknown_events = finding.order.unknown_events;
	races->judged = races->uses > 0 || races->edges > 0;
	if (!races->judged)
		races->count = races->kept = 0;
	for (size_t i = 0; i < finding.count; i++)
		drop(finding.blocks[i]);
	free(finding.blocks);
	order_fini(&finding.order);
	return result == TRACE_END ? TRACE_OK : result;
}

void
races_fini(struct races *races)
{
	free(races->at);
	*races = (struct races){ 0 };
}

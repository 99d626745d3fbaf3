/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass that looks only at allocations behind blocks of inferred size, and at the
 * ends of those blocks.
 */
#include "tools/engine/gaps.h"

#include <stdlib.h>

#include "tools/xalloc.h"

/* Free memory behind a block, in which a remainder may hide. */
struct gap {
	struct start_block *block;
	uint64_t begin, end;
	uint64_t remainder_max;
	bool open; /* nothing has been allocated in it, and the block is live */
};

struct gaps {
	struct gap *at; /* in address order */
	size_t count, room;
	size_t open;
	uint64_t alignment;
};

static void
collect(struct gaps *gaps, struct start *start, const struct soma_policy *policy)
{
	for (size_t i = 0; i < start->block_count; i++) {
		struct start_block *block = &start->blocks[i];
		uint64_t split_min = policy->pools[start->segments[block->segment].pool].split_min;
		uint64_t begin = block->ptr + block->capacity, end = start_block_limit(start, i);

		if (!block->inferred || split_min <= policy->alignment || end - begin < split_min)
			continue;
		gaps->at = xgrow(gaps->at, &gaps->room, gaps->count, sizeof *gaps->at);
		gaps->at[gaps->count++] = (struct gap){ block, begin, end, split_min - 1, true };
	}
	gaps->open = gaps->count;
}

/* The one whose block or free memory has the address; blocks are apart. */
static struct gap *
gap_at(const struct gaps *gaps, uint64_t address)
{
	size_t low = 0, high = gaps->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct gap *gap = &gaps->at[middle];

		if (address < gap->block->ptr)
			high = middle;
		else if (address >= gap->end)
			low = middle + 1;
		else
			return gap;
	}
	return NULL;
}

static void
see_alloc(struct gaps *gaps, struct gap *gap, uint64_t ptr)
{
	if (ptr < gap->begin)
		return;
	if (ptr - gap->begin <= gap->remainder_max && (ptr - gap->begin) % gaps->alignment == 0)
		gap->block->capacity += ptr - gap->begin;
	gap->open = false;
	gaps->open--;
}

static void
see_event(struct gaps *gaps, const struct trace_event *event)
{
	bool ends = (event->op == TRACE_FREE && !event->deferred) || event->op == TRACE_FREE_COMPLETED;
	struct gap *gap = ends || event->op == TRACE_ALLOC ? gap_at(gaps, event->ptr) : NULL;

	if (gap == NULL || !gap->open)
		return;
	if (event->op == TRACE_ALLOC) {
		see_alloc(gaps, gap, event->ptr);
	} else if (event->ptr == gap->block->ptr) {
		gap->open = false;
		gaps->open--;
	}
}

enum trace_result
gaps_find(struct start *start, int32_t device, const struct soma_policy *policy, struct trace_reader *reader,
	  struct trace_error *error)
{
	struct gaps gaps = { .alignment = policy->alignment };
	struct trace_event event;
	enum trace_result result = TRACE_OK;

	collect(&gaps, start, policy);
	if (gaps.open > 0)
		result = trace_rewind(reader, error);
	while (result == TRACE_OK && gaps.open > 0) {
		result = trace_next(reader, &event, error);
		if (result == TRACE_OK && event.device == device)
			see_event(&gaps, &event);
	}
	free(gaps.at);
	return result == TRACE_ERROR ? TRACE_ERROR : TRACE_OK;
}

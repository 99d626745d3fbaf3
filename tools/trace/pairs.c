/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of one size are a list, the latest first.  What is kept grows with live blocks.
 */
#include "tools/trace/pairs.h"

#define ADDRESS_FIRST ((uint64_t)1 << 44)
#define GRANULE ((uint64_t)512)

void
trace_pairs_fini(struct trace_pairs *pairs)
{
	trace_map_fini(&pairs->by_size);
	trace_map_fini(&pairs->below);
	pairs->used = 0;
}

static uint64_t
invent(struct trace_pairs *pairs, uint64_t size)
{
	uint64_t address = ADDRESS_FIRST + pairs->used;

	pairs->used += (size / GRANULE + 1) * GRANULE;
	return address;
}

static uint64_t
key_of(const struct trace_event *event)
{
	return event->size | (uint64_t)event->device << 48;
}

bool
trace_pairs_alloc(struct trace_pairs *pairs, struct trace_event *event)
{
	struct trace_map_entry *latest = trace_map_need(&pairs->by_size, key_of(event)), *below;

	event->ptr = invent(pairs, event->size);
	below = latest != NULL ? trace_map_need(&pairs->below, event->ptr) : NULL;
	if (below == NULL)
		return false;
	below->number = latest->number;
	latest->number = event->ptr;
	return true;
}

void
trace_pairs_free(struct trace_pairs *pairs, struct trace_event *event)
{
	struct trace_map_entry *latest = trace_map_find(&pairs->by_size, key_of(event)), *below;

	if (latest == NULL) {
		event->ptr = invent(pairs, event->size);
		return;
	}
	event->ptr = latest->number;
	below = trace_map_find(&pairs->below, event->ptr);
	latest->number = below->number;
	if (latest->number == 0)
		trace_map_remove(&pairs->by_size, latest);
	trace_map_remove(&pairs->below, below);
}

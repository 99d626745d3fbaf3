/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace to cycle.  Pointers become slots, the lowest free one first in last-freed
 * order, so that a peer needs no lookup of its own.
 */
#include "bench/trace_ops.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/trace/trace.h"

struct block {
	int32_t device;
	uint64_t ptr;
	uint32_t slot;
};

struct cycle {
	struct bench_op *ops;
	size_t count, room;
	void *blocks;    /* tsearch: live blocks by (device, ptr) */
	uint32_t *spare; /* slots that are free again */
	size_t spare_count, spare_room;
	uint32_t slot_count;
};

static void *
grown(void *array, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return array;
	*room = *room == 0 ? 1024 : *room * 2;
	array = realloc(array, *room * size);
	if (array == NULL) {
		fputs("bench: no memory for the trace\n", stderr);
		exit(1);
	}
	return array;
}

static int
compare(const void *left, const void *right)
{
	const struct block *a = left, *b = right;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return a->ptr < b->ptr ? -1 : a->ptr > b->ptr;
}

static void
put(struct cycle *cycle, uint32_t slot, uint64_t granules)
{
	cycle->ops = grown(cycle->ops, cycle->count, &cycle->room, sizeof *cycle->ops);
	cycle->ops[cycle->count++] = (struct bench_op){ slot, (uint32_t)granules };
}

static void
put_free(struct cycle *cycle, struct block *block)
{
	put(cycle, block->slot, 0);
	cycle->spare = grown(cycle->spare, cycle->spare_count, &cycle->spare_room, sizeof *cycle->spare);
	cycle->spare[cycle->spare_count++] = block->slot;
	tdelete(block, &cycle->blocks, compare);
	free(block);
}

static struct block *
find(struct cycle *cycle, const struct trace_event *event)
{
	struct block key = { .device = event->device, .ptr = event->ptr };
	struct block **found = tfind(&key, &cycle->blocks, compare);

	return found != NULL ? *found : NULL;
}

static void
take_event(struct cycle *cycle, const struct trace_event *event)
{
	struct block *block;

	if (event->op != TRACE_ALLOC && event->op != TRACE_FREE)
		return;
	block = find(cycle, event);
	if (block != NULL)
		put_free(cycle, block);
	if (event->op != TRACE_ALLOC || event->size == 0)
		return;
	block = malloc(sizeof *block);
	if (block == NULL)
		exit(1);
	*block = (struct block){ event->device, event->ptr,
				 cycle->spare_count > 0 ? cycle->spare[--cycle->spare_count]
							: cycle->slot_count++ };
	if (tsearch(block, &cycle->blocks, compare) == NULL)
		exit(1);
	put(cycle, block->slot, (event->size + BENCH_GRANULE - 1) / BENCH_GRANULE);
}

static void
close_cycle(struct cycle *cycle)
{
	while (cycle->blocks != NULL)
		put_free(cycle, *(struct block **)cycle->blocks);
	free(cycle->spare);
}

struct bench_op *
trace_ops_read(const char *path, size_t *count)
{
	struct trace_reader *reader;
	struct trace_error error;
	struct trace_event event;
	struct cycle cycle = { 0 };
	enum trace_result result = trace_open(path, NULL, &reader, &error);

	if (result == TRACE_OK) {
		while ((result = trace_next(reader, &event, &error)) == TRACE_OK)
			take_event(&cycle, &event);
		trace_close(reader);
	}
	close_cycle(&cycle);
	if (result == TRACE_END && cycle.count > 0) {
		*count = cycle.count;
		return cycle.ops;
	}
	fprintf(stderr, "bench: %s\n", result == TRACE_END ? "the trace allocates nothing" : error.text);
	free(cycle.ops);
	return NULL;
}

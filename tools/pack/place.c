/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First fit and best fit by address.  The placed items are one array by offset: going
 * through it in order and skipping those of other times is faster than keeping, for every
 * item, a list of those it meets.
 */
#include "tools/pack/place.h"

#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

void
placer_init(struct placer *placer, size_t count, uint64_t steps_max)
{
	*placer = (struct placer){ .steps_max = steps_max };
	placer->at = xcalloc(count, sizeof *placer->at);
	placer->offsets = xcalloc(count, sizeof *placer->offsets);
}

void
placer_fini(struct placer *placer)
{
	free(placer->at);
	free(placer->offsets);
}

/* The lowest offset that is free for all of the item's life. */
static uint64_t
first_fit(struct placer *placer, const struct pack_item *item)
{
	const struct placed *at = placer->at;
	uint64_t top = 0;
	size_t i;

	for (i = 0; i < placer->count; i++) {
		if (at[i].lower >= item->upper || at[i].upper <= item->lower)
			continue;
		if (at[i].offset >= top && at[i].offset - top >= item->size)
			break;
		if (at[i].end > top)
			top = at[i].end;
	}
	placer->steps += i + 1;
	return top;
}

/* The lowest of the smallest gaps that hold it. */
static uint64_t
best_fit(struct placer *placer, const struct pack_item *item)
{
	const struct placed *at = placer->at;
	uint64_t top = 0, best = 0, least = UINT64_MAX;

	for (size_t i = 0; i < placer->count; i++) {
		if (at[i].lower >= item->upper || at[i].upper <= item->lower)
			continue;
		if (at[i].offset > top && at[i].offset - top >= item->size && at[i].offset - top < least) {
			least = at[i].offset - top;
			best = top;
		}
		if (at[i].end > top)
			top = at[i].end;
	}
	placer->steps += placer->count + 1;
	return least != UINT64_MAX ? best : top;
}

static void
insert(struct placer *placer, const struct pack_item *item, uint64_t offset)
{
	size_t low = 0, high = placer->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (placer->at[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	memmove(&placer->at[low + 1], &placer->at[low], (placer->count - low) * sizeof *placer->at);
	placer->at[low] = (struct placed){ offset, offset + item->size, item->lower, item->upper };
	placer->count++;
}

static void
forget_ended(struct placer *placer, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < placer->count; i++)
		if (placer->at[i].upper > now)
			placer->at[kept++] = placer->at[i];
	placer->count = kept;
}

uint64_t
placer_run(struct placer *placer, const struct pack_item *items, const uint32_t *order, size_t count,
	   uint64_t limit)
{
	uint64_t height = 0;

	placer->count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct pack_item *item = &items[order[i]];
		uint64_t offset;

		if (placer->by_start)
			forget_ended(placer, item->lower);
		offset = placer->best_fit ? best_fit(placer, item) : first_fit(placer, item);
		if (offset + item->size > limit || placer->steps > placer->steps_max)
			return UINT64_MAX;
		if (offset + item->size > height)
			height = offset + item->size;
		placer->offsets[order[i]] = offset;
		insert(placer, item, offset);
	}
	return height;
}

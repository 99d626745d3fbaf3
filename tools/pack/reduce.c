/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items of one size, each of which begins when the one before ends, become one: they
 * share a place.  An item that meets every other one has its addresses for itself, so it may as
 * well lie at the bottom, and is no part of the problem.
 */
#include "tools/pack/reduce.h"

#include <stdlib.h>

#include "tools/xalloc.h"

struct key {
	uint64_t size, time;
	uint32_t item;
};

static int
by_key(const void *left, const void *right)
{
	const struct key *a = left, *b = right;

	if (a->size != b->size)
		return a->size < b->size ? -1 : 1;
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return a->item < b->item ? -1 : a->item > b->item;
}

static struct key *
sorted_keys(const struct pack_item *items, size_t count, bool ends)
{
	struct key *keys = xcalloc(count, sizeof *keys);

	for (size_t i = 0; i < count; i++)
		keys[i] = (struct key){ items[i].size, ends ? items[i].upper : items[i].lower, (uint32_t)i };
	if (count > 0)
		qsort(keys, count, sizeof *keys, by_key);
	return keys;
}

#define NONE UINT32_MAX

/* before[i]: the item that i follows in its place.  Each has one follower at most. */
static void
find_chains(const struct pack_item *items, size_t count, uint32_t *before)
{
	struct key *starts = sorted_keys(items, count, false), *ends = sorted_keys(items, count, true);
	size_t e = 0;

	for (size_t s = 0; s < count; s++) {
		before[starts[s].item] = NONE;
		while (e < count && (ends[e].size < starts[s].size ||
				     (ends[e].size == starts[s].size && ends[e].time < starts[s].time)))
			e++;
		if (e < count && ends[e].size == starts[s].size && ends[e].time == starts[s].time)
			before[starts[s].item] = ends[e++].item;
	}
	free(starts);
	free(ends);
}

/* Items by their start, so that what is followed comes first. */
static void
join_chains(struct reduced *reduced, const struct pack_item *items, size_t count)
{
	uint32_t *before = xcalloc(count, sizeof *before);
	struct key *order = xcalloc(count, sizeof *order);

	find_chains(items, count, before);
	for (size_t i = 0; i < count; i++)
		order[i] = (struct key){ items[i].lower, 0, (uint32_t)i };
	if (count > 0)
		qsort(order, count, sizeof *order, by_key);
	for (size_t i = 0; i < count; i++) {
		uint32_t item = order[i].item;

		if (before[item] == NONE) {
			reduced->into[item] = (uint32_t)reduced->count;
			reduced->items[reduced->count++] = items[item];
		} else {
			reduced->into[item] = reduced->into[before[item]];
			reduced->items[reduced->into[item]].upper = items[item].upper;
		}
	}
	free(before);
	free(order);
}

/* What begins before every end, and ends after every beginning. */
static void
take_base(struct reduced *reduced, size_t count)
{
	uint64_t first_end = UINT64_MAX, last_start = 0;
	uint32_t *now = xcalloc(reduced->count, sizeof *now);
	size_t kept = 0, low = 0;

	for (size_t i = 0; i < reduced->count; i++) {
		if (reduced->items[i].upper < first_end)
			first_end = reduced->items[i].upper;
		if (reduced->items[i].lower > last_start)
			last_start = reduced->items[i].lower;
	}
	for (size_t i = 0; i < reduced->count; i++) {
		const struct pack_item item = reduced->items[i];

		if (item.lower < first_end && item.upper > last_start) {
			now[i] = (uint32_t)(count + low);
			reduced->bases[low++] = reduced->base;
			reduced->base += item.size;
		} else {
			now[i] = (uint32_t)kept;
			reduced->items[kept++] = item;
		}
	}
	for (size_t i = 0; i < count; i++)
		reduced->into[i] = now[reduced->into[i]];
	reduced->count = kept;
	free(now);
}

void
reduced_init(struct reduced *reduced, const struct pack_item *items, size_t count)
{
	*reduced = (struct reduced){ .items = xcalloc(count, sizeof *reduced->items) };
	reduced->into = xcalloc(count, sizeof *reduced->into);
	reduced->bases = xcalloc(count, sizeof *reduced->bases);
	join_chains(reduced, items, count);
	take_base(reduced, count);
}

void
reduced_fini(struct reduced *reduced)
{
	free(reduced->items);
	free(reduced->into);
	free(reduced->bases);
}

void
reduced_expand(const struct reduced *reduced, struct pack_item *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t into = reduced->into[i];

		items[i].offset = into < count ? reduced->base + reduced->items[into].offset
					       : reduced->bases[into - count];
	}
}

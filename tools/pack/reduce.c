/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes of one size, each of which begins when the one before ends, become one: they
 * share a place.  Boxes of one lifetime are put on each other.  One that meets every other one has
 * its addresses for itself, so it may as well lie at the bottom, and is no part of the problem.
 */
#include "tools/pack/reduce.h"

#include <stdlib.h>

#include "tools/xalloc.h"

#define NONE UINT32_MAX

/* What becomes of each box. */
struct joining {
	uint32_t *now;   /* its new box, or REDUCED_BASE */
	uint64_t *above; /* how far above the bottom of that */
	size_t count;    /* of the new boxes */
};

static struct joining
joining_begin(const struct reduced *reduced)
{
	return (struct joining){ .now = xcalloc(reduced->count, sizeof(uint32_t)),
				 .above = xcalloc(reduced->count, sizeof(uint64_t)) };
}

/* The new boxes are in the items' front. */
static void
joining_end(struct joining *joining, struct reduced *reduced, size_t whole)
{
	for (size_t i = 0; i < whole; i++) {
		uint32_t box = reduced->into[i];

		if (box == REDUCED_BASE)
			continue;
		reduced->within[i] += joining->above[box];
		reduced->into[i] = joining->now[box];
	}
	reduced->count = joining->count;
	free(joining->now);
	free(joining->above);
}

/* ---- chains --------------------------------------------------------------------- */

struct key {
	uint64_t first, second;
	uint32_t item;
};

static int
by_key(const void *left, const void *right)
{
	const struct key *a = left, *b = right;

	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	if (a->second != b->second)
		return a->second < b->second ? -1 : 1;
	return a->item < b->item ? -1 : a->item > b->item;
}

static void
sort(struct key *keys, size_t count)
{
	if (count > 0)
		qsort(keys, count, sizeof *keys, by_key);
}

static struct key *
by_size_and_time(const struct reduced *reduced, bool ends)
{
	struct key *keys = xcalloc(reduced->count, sizeof *keys);

	for (size_t i = 0; i < reduced->count; i++) {
		const struct pack_item *item = &reduced->items[i];

		keys[i] = (struct key){ item->size, ends ? item->upper : item->lower, (uint32_t)i };
	}
	sort(keys, reduced->count);
	return keys;
}

static struct key *
by_life(const struct reduced *reduced)
{
	struct key *keys = xcalloc(reduced->count, sizeof *keys);

	for (size_t i = 0; i < reduced->count; i++)
		keys[i] = (struct key){ reduced->items[i].lower, reduced->items[i].upper, (uint32_t)i };
	sort(keys, reduced->count);
	return keys;
}

/* before[i]: the box that i follows in its place.  Each has one follower at most. */
static void
find_chains(const struct reduced *reduced, uint32_t *before)
{
	struct key *starts = by_size_and_time(reduced, false), *ends = by_size_and_time(reduced, true);
	size_t e = 0, count = reduced->count;

	for (size_t s = 0; s < count; s++) {
		before[starts[s].item] = NONE;
		while (e < count && (ends[e].first < starts[s].first ||
				     (ends[e].first == starts[s].first && ends[e].second < starts[s].second)))
			e++;
		if (e < count && ends[e].first == starts[s].first && ends[e].second == starts[s].second)
			before[starts[s].item] = ends[e++].item;
	}
	free(starts);
	free(ends);
}

/* Boxes by their start, so that what is followed comes first. */
static void
join_chains(struct reduced *reduced, size_t whole)
{
	struct joining joining = joining_begin(reduced);
	uint32_t *before = xcalloc(reduced->count, sizeof *before);
	struct pack_item *joined = xcalloc(reduced->count, sizeof *joined);
	struct key *order = by_life(reduced);

	find_chains(reduced, before);
	for (size_t i = 0; i < reduced->count; i++) {
		uint32_t box = order[i].item;

		if (before[box] == NONE) {
			joining.now[box] = (uint32_t)joining.count;
			joined[joining.count++] = reduced->items[box];
		} else {
			joining.now[box] = joining.now[before[box]];
			joined[joining.now[box]].upper = reduced->items[box].upper;
		}
	}
	free(reduced->items);
	reduced->items = joined;
	joining_end(&joining, reduced, whole);
	free(before);
	free(order);
}

/* ---- groups --------------------------------------------------------------------- */

static void
join_groups(struct reduced *reduced, size_t whole)
{
	struct joining joining = joining_begin(reduced);
	struct pack_item *joined = xcalloc(reduced->count, sizeof *joined);
	struct key *order = by_life(reduced);

	for (size_t i = 0; i < reduced->count; i++) {
		uint32_t box = order[i].item;
		const struct pack_item *item = &reduced->items[box];

		if (i == 0 || order[i].first != order[i - 1].first || order[i].second != order[i - 1].second) {
			joined[joining.count] = *item;
			joined[joining.count++].size = 0;
		}
		joining.now[box] = (uint32_t)joining.count - 1;
		joining.above[box] = joined[joining.count - 1].size;
		joined[joining.count - 1].size += item->size;
	}
	free(reduced->items);
	reduced->items = joined;
	joining_end(&joining, reduced, whole);
	free(order);
}

/* ---- the base ------------------------------------------------------------------- */

/* What begins before every end, and ends after every beginning. */
static void
take_base(struct reduced *reduced, size_t whole)
{
	struct joining joining = joining_begin(reduced);
	uint64_t first_end = UINT64_MAX, last_start = 0;

	for (size_t i = 0; i < reduced->count; i++) {
		if (reduced->items[i].upper < first_end)
			first_end = reduced->items[i].upper;
		if (reduced->items[i].lower > last_start)
			last_start = reduced->items[i].lower;
	}
	for (size_t i = 0; i < reduced->count; i++) {
		const struct pack_item item = reduced->items[i];

		if (item.lower < first_end && item.upper > last_start) {
			joining.now[i] = REDUCED_BASE;
			joining.above[i] = reduced->base;
			reduced->base += item.size;
		} else {
			joining.now[i] = (uint32_t)joining.count;
			reduced->items[joining.count++] = item;
		}
	}
	joining_end(&joining, reduced, whole);
}

void
reduced_init(struct reduced *reduced, const struct pack_item *items, size_t count, bool groups)
{
	size_t before;

	*reduced = (struct reduced){ .items = xcalloc(count, sizeof *reduced->items), .count = count };
	reduced->into = xcalloc(count, sizeof *reduced->into);
	reduced->within = xcalloc(count, sizeof *reduced->within);
	for (size_t i = 0; i < count; i++) {
		reduced->items[i] = items[i];
		reduced->into[i] = (uint32_t)i;
	}
	do {
		before = reduced->count;
		join_chains(reduced, count);
		if (groups)
			join_groups(reduced, count);
	} while (reduced->count < before);
	take_base(reduced, count);
}

void
reduced_fini(struct reduced *reduced)
{
	free(reduced->items);
	free(reduced->into);
	free(reduced->within);
}

void
reduced_expand(const struct reduced *reduced, struct pack_item *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t into = reduced->into[i];

		items[i].offset = reduced->within[i];
		if (into != REDUCED_BASE)
			items[i].offset += reduced->base + reduced->items[into].offset;
	}
}

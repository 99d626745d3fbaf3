/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of a packing and the check of one: both sweep over time.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/pack/pack.h"
#include "tools/xalloc.h"

/* One end of a life.  At the same moment ends come before beginnings. */
struct edge {
	uint64_t time;
	uint32_t item;
	bool begins;
};

static int
by_time(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	if (a->begins != b->begins)
		return a->begins ? 1 : -1;
	return a->item < b->item ? -1 : a->item > b->item;
}

static struct edge *
edges_of(const struct pack_item *items, size_t count)
{
	struct edge *edges = xcalloc(count, 2 * sizeof *edges);

	for (size_t i = 0; i < count; i++) {
		edges[2 * i] = (struct edge){ items[i].lower, (uint32_t)i, true };
		edges[2 * i + 1] = (struct edge){ items[i].upper, (uint32_t)i, false };
	}
	if (count > 0)
		qsort(edges, 2 * count, sizeof *edges, by_time);
	return edges;
}

uint64_t
pack_bound(const struct pack_item *items, size_t count)
{
	struct edge *edges = edges_of(items, count);
	uint64_t live = 0, most = 0;

	for (size_t i = 0; i < 2 * count; i++) {
		live += edges[i].begins ? items[edges[i].item].size : 0 - items[edges[i].item].size;
		if (live > most)
			most = live;
	}
	free(edges);
	return most;
}

/* What lives now, by offset. */
struct row {
	const struct pack_item *items;
	uint32_t *at;
	size_t count;
};

static size_t
place_of(const struct row *row, uint64_t offset)
{
	size_t low = 0, high = row->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (row->items[row->at[middle]].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool
meets(const struct row *row, size_t place, uint32_t item)
{
	const struct pack_item *a, *b = &row->items[item];

	if (place >= row->count)
		return false;
	a = &row->items[row->at[place]];
	return a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

/* The neighbours are enough: those in the row do not overlap each other. */
static bool
begin(struct row *row, uint32_t item, size_t *a)
{
	size_t place = place_of(row, row->items[item].offset);

	if (meets(row, place, item) || (place > 0 && meets(row, --place, item))) {
		*a = row->at[place];
		return false;
	}
	place = place_of(row, row->items[item].offset);
	memmove(&row->at[place + 1], &row->at[place], (row->count - place) * sizeof *row->at);
	row->at[place] = item;
	row->count++;
	return true;
}

static void
end(struct row *row, uint32_t item)
{
	size_t place = place_of(row, row->items[item].offset);

	row->count--;
	memmove(&row->at[place], &row->at[place + 1], (row->count - place) * sizeof *row->at);
}

bool
pack_check(const struct pack_item *items, size_t count, uint64_t height, size_t *a, size_t *b)
{
	struct edge *edges = edges_of(items, count);
	struct row row = { .items = items, .at = xcalloc(count + 1, sizeof *row.at) };
	bool good = true;

	for (size_t i = 0; good && i < 2 * count; i++) {
		uint32_t item = edges[i].item;

		*a = *b = item;
		if (!edges[i].begins)
			end(&row, item);
		else
			good = items[item].size <= height && items[item].offset <= height - items[item].size &&
			       begin(&row, item, a);
	}
	free(row.at);
	free(edges);
	return good;
}

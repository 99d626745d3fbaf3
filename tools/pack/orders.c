/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders to place items in: by what is likely to be hard.
 */
#include "tools/pack/orders.h"

#include <stdlib.h>

#include "tools/xalloc.h"

struct rank {
	double key; /* the larger first */
	uint64_t size, lower;
	uint32_t item;
};

static double
size_key(const struct pack_item *item, double load)
{
	(void)load;
	return (double)item->size;
}

static double
life_key(const struct pack_item *item, double load)
{
	(void)load;
	return (double)(item->upper - item->lower);
}

static double
area_key(const struct pack_item *item, double load)
{
	(void)load;
	return (double)(item->upper - item->lower) * (double)item->size;
}

static double
load_key(const struct pack_item *item, double load)
{
	(void)item;
	return load;
}

static double
load_size_key(const struct pack_item *item, double load)
{
	return load * (double)item->size;
}

static double
start_key(const struct pack_item *item, double load)
{
	(void)load;
	return -(double)item->lower;
}

const struct pack_order pack_orders[PACK_ORDERS] = {
	{ "by start", start_key, true },
	{ "by size", size_key, false },
	{ "by lifetime", life_key, false },
	{ "by area", area_key, false },
	{ "by load", load_key, false },
	{ "by load and size", load_size_key, false },
};

static int
by_key(const void *left, const void *right)
{
	const struct rank *a = left, *b = right;

	if (a->key != b->key)
		return a->key > b->key ? -1 : 1;
	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	if (a->lower != b->lower)
		return a->lower < b->lower ? -1 : 1;
	return a->item < b->item ? -1 : a->item > b->item;
}

static int
by_value(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

static size_t
moment_of(const struct profile *profile, uint64_t time)
{
	size_t low = 0, high = profile->count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (profile->times[middle] <= time)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void
sum_loads(struct profile *profile, const struct pack_item *items, size_t count)
{
	profile->loads = xcalloc(profile->count + 1, sizeof(uint64_t));
	for (size_t i = 0; i < count; i++) {
		profile->loads[moment_of(profile, items[i].lower)] += items[i].size;
		profile->loads[moment_of(profile, items[i].upper)] -= items[i].size;
	}
	for (size_t i = 1; i < profile->count; i++)
		profile->loads[i] += profile->loads[i - 1];
}

/* count is not 0. */
void
profile_init(struct profile *profile, const struct pack_item *items, size_t count)
{
	size_t n = 0;

	*profile = (struct profile){ .times = xcalloc(count, 2 * sizeof(uint64_t)) };
	for (size_t i = 0; i < count; i++) {
		profile->times[2 * i] = items[i].lower;
		profile->times[2 * i + 1] = items[i].upper;
	}
	qsort(profile->times, 2 * count, sizeof(uint64_t), by_value);
	for (size_t i = 0; i < 2 * count; i++)
		if (n == 0 || profile->times[i] != profile->times[n - 1])
			profile->times[n++] = profile->times[i];
	profile->count = n;
	sum_loads(profile, items, count);
	while ((size_t)1 << (profile->levels + 1) <= n)
		profile->levels++;
	profile->highest = xcalloc(profile->levels + 1, sizeof *profile->highest);
	profile->highest[0] = profile->loads;
	for (unsigned level = 1; level <= profile->levels; level++) {
		size_t half = (size_t)1 << (level - 1);
		uint64_t *below = profile->highest[level - 1], *row = xcalloc(n, sizeof *row);

		for (size_t i = 0; i + 2 * half <= n; i++)
			row[i] = below[i] > below[i + half] ? below[i] : below[i + half];
		profile->highest[level] = row;
	}
}

void
profile_fini(struct profile *profile)
{
	for (unsigned level = 0; level <= profile->levels; level++)
		free(profile->highest[level]);
	free(profile->highest);
	free(profile->times);
}

/* The highest sum within the item's life. */
static uint64_t
load_of(const struct profile *profile, const struct pack_item *item)
{
	size_t from = moment_of(profile, item->lower), to = moment_of(profile, item->upper);
	unsigned level = 63U - (unsigned)__builtin_clzll(to - from);
	const uint64_t *row = profile->highest[level];
	size_t last = to - ((size_t)1 << level);

	return row[from] > row[last] ? row[from] : row[last];
}

void
pack_sort(const struct pack_item *items, size_t count, const struct profile *profile,
	  const struct pack_order *order, uint32_t *indices)
{
	struct rank *ranks = xcalloc(count, sizeof *ranks);

	for (size_t i = 0; i < count; i++)
		ranks[i] = (struct rank){ order->key(&items[i], (double)load_of(profile, &items[i])),
					  items[i].size, items[i].lower, (uint32_t)i };
	if (count > 0)
		qsort(ranks, count, sizeof *ranks, by_key);
	for (size_t i = 0; i < count; i++)
		indices[i] = ranks[i].item;
	free(ranks);
}

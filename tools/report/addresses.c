/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the address space that a replay used.
 */
#include "tools/report/addresses.h"

#include <stdlib.h>

#include "tools/xalloc.h"

/* All gaps together take at most this part of the axis, and each at most that. */
#define GAPS_SHARE 0.15
#define GAP_SHARE 0.006

static int
lower_first(const void *left, const void *right)
{
	const struct address_part *a = left, *b = right;

	return a->from < b->from ? -1 : a->from > b->from;
}

static uint64_t
end_of(uint64_t address, uint64_t size)
{
	return size < UINT64_MAX - address ? address + size : UINT64_MAX;
}

static size_t
collect(struct address_part *parts, const struct scene *scene)
{
	size_t count = 0;

	for (size_t i = 0; i < scene->blocks.count; i++) {
		const struct scene_block *block = &scene->blocks.at[i];

		parts[count++] = (struct address_part){ block->ptr, end_of(block->ptr, block->size), 0 };
	}
	for (size_t i = 0; i < scene->span_count; i++) {
		const struct scene_span *span = &scene->span[i];

		parts[count++] = (struct address_part){ span->address, end_of(span->address, span->size), 0 };
	}
	return count;
}

/* Those that touch or overlap become one. */
static size_t
join(struct address_part *parts, size_t count)
{
	size_t used = 0;

	if (count > 0)
		qsort(parts, count, sizeof *parts, lower_first);
	for (size_t i = 0; i < count; i++)
		if (used == 0 || parts[i].from > parts[used - 1].to)
			parts[used++] = parts[i];
		else if (parts[i].to > parts[used - 1].to)
			parts[used - 1].to = parts[i].to;
	return used;
}

static double
gap_limit(const struct addresses *addresses)
{
	double sum = 0, share;

	for (size_t i = 0; i < addresses->count; i++)
		sum += (double)(addresses->parts[i].to - addresses->parts[i].from);
	share = addresses->count > 1 ? GAPS_SHARE / (double)(addresses->count - 1) : 0;
	return sum * (share < GAP_SHARE ? share : GAP_SHARE);
}

void
addresses_make(struct addresses *addresses, const struct scene *scene)
{
	struct address_part *parts = xcalloc(scene->blocks.count + scene->span_count + 1, sizeof *parts);
	double limit, at = 0;

	*addresses = (struct addresses){ .parts = parts, .count = join(parts, collect(parts, scene)) };
	limit = gap_limit(addresses);
	for (size_t i = 0; i < addresses->count; i++) {
		double gap = i > 0 ? (double)(parts[i].from - parts[i - 1].to) : 0;

		at += gap < limit ? gap : limit;
		parts[i].at = at;
		at += (double)(parts[i].to - parts[i].from);
	}
	addresses->length = at > 0 ? at : 1;
}

void
addresses_fini(struct addresses *addresses)
{
	free(addresses->parts);
	*addresses = (struct addresses){ .count = 0 };
}

double
addresses_at(const struct addresses *addresses, uint64_t address)
{
	size_t low = 0, high = addresses->count;
	const struct address_part *part;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (addresses->parts[middle].from <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return 0;
	part = &addresses->parts[low - 1];
	return part->at + (double)((address < part->to ? address : part->to) - part->from);
}

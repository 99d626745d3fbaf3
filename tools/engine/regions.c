/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A balanced tree of disjoint ranges: two ranges that overlap compare as equal, so looking one
 * up finds whatever it overlaps.
 */
#include "tools/engine/regions.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

static int
by_place(const void *left, const void *right)
{
	const struct region *a = left, *b = right;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	if (a->end <= b->start)
		return -1;
	return a->start >= b->end;
}

static void
unlink_freed(struct regions *regions, struct region *region)
{
	*(region->older != NULL ? &region->older->newer : &regions->oldest) = region->newer;
	*(region->newer != NULL ? &region->newer->older : &regions->newest) = region->older;
	regions->freed_count--;
}

static void
enter(struct regions *regions, struct region *region)
{
	xchecked(tsearch(region, &regions->tree, by_place));
}

void
regions_remove(struct regions *regions, struct region *region)
{
	tdelete(region, &regions->tree, by_place);
	if (region->freed)
		unlink_freed(regions, region);
	free(region->reads);
	free(region);
}

void
regions_fini(struct regions *regions)
{
	while (regions->tree != NULL)
		regions_remove(regions, *(struct region **)regions->tree);
}

struct region *
regions_find(const struct regions *regions, int32_t device, uint64_t start, uint64_t end)
{
	const struct region wanted = { .device = device, .start = start, .end = end };
	struct region **found = tfind(&wanted, &regions->tree, by_place);

	return found != NULL ? *found : NULL;
}

struct region *
regions_add(struct regions *regions, int32_t device, uint64_t start, uint64_t end)
{
	struct region *region = xcalloc(1, sizeof *region);

	region->device = device;
	region->start = start;
	region->end = end;
	enter(regions, region);
	return region;
}

void
regions_free(struct regions *regions, struct region *region)
{
	region->freed = true;
	region->older = regions->newest;
	region->newer = NULL;
	*(regions->newest != NULL ? &regions->newest->newer : &regions->oldest) = region;
	regions->newest = region;
	regions->freed_count++;
}

/* The part behind the cut, as old as the one in front. */
static void
split(struct regions *regions, struct region *front, uint64_t start, uint64_t end)
{
	struct region *back = xcalloc(1, sizeof *back);

	*back = *front;
	back->start = start;
	back->end = end;
	back->reads = NULL;
	back->read_room = 0;
	if (front->read_count > 0) {
		back->reads = xreallocarray(NULL, front->read_count, sizeof *back->reads);
		memcpy(back->reads, front->reads, front->read_count * sizeof *back->reads);
		back->read_room = front->read_count;
	}
	back->older = front;
	*(front->newer != NULL ? &front->newer->older : &regions->newest) = back;
	front->newer = back;
	regions->freed_count++;
	enter(regions, back);
}

/* Ranges that shrink keep their place in the tree. */
void
regions_cut(struct regions *regions, struct region *region, uint64_t start, uint64_t end)
{
	uint64_t old_end = region->end;

	if (region->start < start) {
		region->end = start;
		if (old_end > end)
			split(regions, region, end, old_end);
	} else if (old_end > end) {
		region->start = end;
	} else {
		regions_remove(regions, region);
	}
}

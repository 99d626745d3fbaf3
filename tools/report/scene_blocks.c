/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of a replay, or the largest of them by bytes times time.
 *
 * Twice as many as are wanted are collected, then half of them dropped; from then on what is
 * smaller than all that were kept is not collected at all.
 */
#include <stdlib.h>

#include "tools/report/scene.h"
#include "tools/xalloc.h"

/* One that comes and goes with the same event has some area too. */
static double
area_of(const struct scene_block *block, uint64_t end)
{
	uint64_t x1 = block->x1 != SCENE_AT_END ? block->x1 : end;
	uint64_t time = x1 > block->x0 ? x1 - block->x0 : 0;

	return (double)block->size * ((double)time + 1);
}

static int
larger_first(const void *left, const void *right)
{
	const struct scene_block *a = left, *b = right;

	if (a->area != b->area)
		return a->area > b->area ? -1 : 1;
	if (a->event != b->event)
		return a->event < b->event ? -1 : 1;
	return a->ptr < b->ptr ? -1 : a->ptr > b->ptr;
}

static int
earlier_first(const void *left, const void *right)
{
	const struct scene_block *a = left, *b = right;

	/* What was there at the start has the number that is no event. */
	if (a->event + 1 != b->event + 1)
		return a->event + 1 < b->event + 1 ? -1 : 1;
	return a->ptr < b->ptr ? -1 : a->ptr > b->ptr;
}

static void
drop_smaller(struct scene *scene)
{
	struct scene_blocks *blocks = &scene->blocks;

	if (blocks->count <= scene->blocks_max)
		return;
	qsort(blocks->at, blocks->count, sizeof *blocks->at, larger_first);
	blocks->count = scene->blocks_max;
	scene->least_area = blocks->count > 0 ? blocks->at[blocks->count - 1].area : 0;
}

void
scene_blocks_add(struct scene *scene, const struct scene_block *block, uint64_t end)
{
	struct scene_blocks *blocks = &scene->blocks;
	double area = area_of(block, end);

	blocks->seen++;
	blocks->seen_area += area;
	if (area < scene->least_area || scene->blocks_max == 0)
		return;
	blocks->at = xgrow(blocks->at, &blocks->room, blocks->count, sizeof *blocks->at);
	blocks->at[blocks->count] = *block;
	blocks->at[blocks->count++].area = area;
	if (blocks->count >= 2 * scene->blocks_max)
		drop_smaller(scene);
}

void
scene_blocks_finish(struct scene *scene, uint64_t end)
{
	struct scene_blocks *blocks = &scene->blocks;
	const struct scene_live *live;
	size_t cursor = 0;

	while ((live = table_next(&scene->live, &cursor)) != NULL)
		scene_blocks_add(scene, &live->block, end);
	drop_smaller(scene);
	blocks->area = 0;
	for (size_t i = 0; i < blocks->count; i++)
		blocks->area += blocks->at[i].area;
	if (blocks->count > 0)
		qsort(blocks->at, blocks->count, sizeof *blocks->at, earlier_first);
}

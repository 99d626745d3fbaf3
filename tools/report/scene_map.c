/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory at a moment, and what was reserved over time.
 */
#include <stdlib.h>

#include "tools/report/scene.h"
#include "tools/xalloc.h"

struct walk {
	struct scene *scene;
	struct scene_map *map;
	enum scene_when when;
	const struct watch_at *at;
	bool inside; /* a part without holes has begun */
	uint64_t stream;
	unsigned pool;
};

static struct scene_segment *
segment_of(struct walk *walk, const struct soma_extent *extent)
{
	struct scene_map *map = walk->map;

	if (!walk->inside) {
		map->segments =
			xgrow(map->segments, &map->segment_room, map->segment_count, sizeof *map->segments);
		map->segments[map->segment_count++] =
			(struct scene_segment){ .address = extent->address,
						.stream = watch_handle(walk->at, walk->stream),
						.pool = walk->pool,
						.first = map->extent_count };
		walk->inside = true;
	}
	return &map->segments[map->segment_count - 1];
}

static void
note_live(struct walk *walk, struct scene_extent *shown)
{
	struct scene_live *live = table_find(&walk->scene->live, shown->address);

	shown->block.ptr = shown->address;
	if (live == NULL)
		return;
	shown->block = live->block;
	live->shown[walk->when] = (uint32_t)walk->map->extent_count;
	walk->map->blocks++;
}

static void
add_extent(struct walk *walk, const struct soma_extent *extent, enum scene_kind kind)
{
	struct scene_map *map = walk->map;
	struct scene_segment *segment = segment_of(walk, extent);
	struct scene_extent *shown;

	map->extents = xgrow(map->extents, &map->extent_room, map->extent_count, sizeof *map->extents);
	shown = &map->extents[map->extent_count++];
	*shown = (struct scene_extent){ .kind = kind, .address = extent->address, .size = extent->size };
	segment->size += extent->size;
	segment->count++;
	if (kind == EXTENT_LIVE)
		note_live(walk, shown);
}

static bool
visit(void *context, const struct soma_extent *extent)
{
	struct walk *walk = context;

	switch (extent->kind) {
	case SOMA_EXTENT_SEGMENT:
		walk->stream = extent->stream;
		walk->pool = extent->pool;
		walk->inside = false;
		break;
	case SOMA_EXTENT_HOLE:
		walk->inside = false;
		break;
	case SOMA_EXTENT_LIVE:
		add_extent(walk, extent, EXTENT_LIVE);
		break;
	case SOMA_EXTENT_PENDING:
		add_extent(walk, extent, EXTENT_PENDING);
		break;
	case SOMA_EXTENT_FREE:
		add_extent(walk, extent, EXTENT_FREE);
		break;
	}
	return true;
}

void
scene_map_take(struct scene *scene, enum scene_when when, const struct watch_at *at)
{
	struct scene_map *map = &scene->maps[when];
	struct walk walk = { .scene = scene, .map = map, .when = when, .at = at };

	scene_map_fini(map);
	if (scene->extents_max == 0)
		return;
	map->taken = true;
	map->event = at->event;
	map->x = at->x - scene->series[SCENE_HOLDER].x_first;
	map->live = watch_live(at);
	map->reserved = watch_reserved(at);
	watch_walk(at, visit, &walk);
}

void
scene_map_freed(struct scene *scene, const struct scene_live *live)
{
	for (int when = 0; when < SCENE_WHEN_COUNT; when++) {
		struct scene_map *map = &scene->maps[when];

		if (live->shown[when] == 0 || live->shown[when] > map->extent_count)
			continue;
		map->extents[live->shown[when] - 1].block.x1 = live->block.x1;
		map->extents[live->shown[when] - 1].block.freed = live->block.freed;
	}
}

static bool
is_small(const struct scene_extent *extent, uint64_t least)
{
	return extent->kind == EXTENT_SMALL || extent->size < least;
}

static void
join(struct scene_extent *small, const struct scene_extent *next)
{
	uint64_t blocks = next->kind == EXTENT_SMALL ? next->blocks : next->kind == EXTENT_LIVE;

	if (small->kind != EXTENT_SMALL)
		small->blocks = small->kind == EXTENT_LIVE;
	small->kind = EXTENT_SMALL;
	small->size += next->size;
	small->blocks += blocks;
}

/* Neighbours within a segment that are both smaller than `least` become one. */
static void
join_smaller(struct scene_map *map, uint64_t least)
{
	size_t used = 0;

	for (size_t i = 0; i < map->segment_count; i++) {
		struct scene_segment *segment = &map->segments[i];
		size_t first = used;

		for (size_t j = segment->first; j < segment->first + segment->count; j++) {
			const struct scene_extent *next = &map->extents[j];

			if (used > first && is_small(next, least) && is_small(&map->extents[used - 1], least))
				join(&map->extents[used - 1], next);
			else
				map->extents[used++] = *next;
		}
		segment->first = first;
		segment->count = used - first;
	}
	map->extent_count = used;
}

/* With each doubling there are fewer; in the end there is one in each segment. */
void
scene_map_finish(struct scene *scene, struct scene_map *map)
{
	for (unsigned bit = 9; bit < 64 && map->extent_count > scene->extents_max; bit++)
		join_smaller(map, (uint64_t)1 << bit);
	for (size_t i = 0; i < map->extent_count; i++)
		if (map->extents[i].kind == EXTENT_SMALL) {
			map->merged += map->extents[i].blocks;
			map->merged_bytes += map->extents[i].size;
		}
}

void
scene_map_fini(struct scene_map *map)
{
	free(map->segments);
	free(map->extents);
	*map = (struct scene_map){ .taken = false };
}

/* ---- what was reserved ------------------------------------------------------ */

struct look {
	struct scene_span *at;
	size_t count, room;
	bool inside;
};

static bool
look_at(void *context, const struct soma_extent *extent)
{
	struct look *look = context;

	if (extent->kind == SOMA_EXTENT_SEGMENT || extent->kind == SOMA_EXTENT_HOLE) {
		look->inside = false;
		return true;
	}
	if (!look->inside) {
		look->at = xgrow(look->at, &look->room, look->count, sizeof *look->at);
		look->at[look->count++] = (struct scene_span){ .address = extent->address };
		look->inside = true;
	}
	look->at[look->count - 1].size += extent->size;
	return true;
}

static void
close_span(struct scene *scene, struct scene_span span, uint64_t x)
{
	span.x1 = x;
	scene->span = xgrow(scene->span, &scene->span_room, scene->span_count, sizeof *scene->span);
	scene->span[scene->span_count++] = span;
}

/* Those that are as they were go on; others end, or begin. */
static void
compare(struct scene *scene, struct look *look, uint64_t x)
{
	size_t old = 0;

	for (size_t i = 0; i < look->count; i++) {
		struct scene_span *span = &look->at[i];

		for (; old < scene->open_count && scene->open[old].address < span->address; old++)
			close_span(scene, scene->open[old], x);
		span->x0 = x;
		if (old == scene->open_count || scene->open[old].address != span->address)
			continue;
		if (scene->open[old].size == span->size)
			span->x0 = scene->open[old].x0;
		else
			close_span(scene, scene->open[old], x);
		old++;
	}
	for (; old < scene->open_count; old++)
		close_span(scene, scene->open[old], x);
}

void
scene_spans_look(struct scene *scene, const struct watch_at *at, uint64_t x)
{
	double share = (double)x / (double)scene->series[SCENE_HOLDER].x_span;
	size_t sample = (size_t)(share * SCENE_SAMPLES);
	struct look look = { .count = 0 };

	if (scene->ranking || sample == scene->sample)
		return;
	scene->sample = sample;
	watch_walk(at, look_at, &look);
	compare(scene, &look, x);
	free(scene->open);
	scene->open = look.at;
	scene->open_count = look.count;
	scene->open_room = look.room;
}

void
scene_spans_finish(struct scene *scene, uint64_t x)
{
	for (size_t i = 0; i < scene->open_count; i++)
		close_span(scene, scene->open[i], x);
	scene->open_count = 0;
}

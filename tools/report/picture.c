/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pictures need, say and leave out; not how they are drawn.
 */
#include "tools/report/picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tools/units.h"

/* A still picture is 1200 wide; a page can be zoomed into. */
#define STILL_COLUMNS 1200
#define STILL_BLOCKS 12000
#define STILL_EXTENTS 200000
#define PAGE_COLUMNS 2400
#define PAGE_BLOCKS 100000
#define PAGE_EXTENTS 50000

const char *const picture_kind_names[] = { "timeline", "map", "memory", "sizes", NULL };

enum picture_format
picture_format_of(const char *path)
{
	const char *dot = strrchr(path, '.');

	if (dot == NULL)
		return PICTURE_NONE;
	if (strcasecmp(dot, ".svg") == 0)
		return PICTURE_SVG;
	if (strcasecmp(dot, ".png") == 0)
		return PICTURE_PNG;
	return strcasecmp(dot, ".html") == 0 || strcasecmp(dot, ".htm") == 0 ? PICTURE_HTML : PICTURE_NONE;
}

void
picture_wish(struct scene *scene, enum picture_format format, enum picture_kind kind, const uint64_t *event)
{
	bool page = format == PICTURE_HTML, memory = page || kind == PICTURE_MEMORY;

	scene->columns = page ? PAGE_COLUMNS : kind == PICTURE_TIMELINE ? STILL_COLUMNS : 0;
	scene->blocks_max = page ? PAGE_BLOCKS : memory ? STILL_BLOCKS : 0;
	scene->spans = memory;
	/* Of another kind the moment is shown as a line. */
	scene->extents_max = page ? PAGE_EXTENTS : STILL_EXTENTS;
	scene->event_is_wanted = event != NULL;
	if (event != NULL)
		scene->event = *event;
}

char *
picture_when(char *buffer, const struct picture *picture, enum scene_when when)
{
	static const char *const names[] = { "at the peak", "out of memory", "at an event", "at the end" };
	uint64_t event = picture->scene->maps[when].event;

	if (when == SCENE_END)
		snprintf(buffer, PICTURE_WHEN_MAX, "%s", names[when]);
	else if (event == REPLAY_AT_START)
		snprintf(buffer, PICTURE_WHEN_MAX, "%s, before the first event", names[when]);
	else if (when == SCENE_EVENT)
		snprintf(buffer, PICTURE_WHEN_MAX, "at event %" PRIu64, event);
	else
		snprintf(buffer, PICTURE_WHEN_MAX, "%s, event %" PRIu64, names[when], event);
	return buffer;
}

bool
picture_failure(const struct picture *picture, struct picture_failure *failure)
{
	const struct replay_result *result = picture->report->result;
	const struct scene_map *map = &picture->scene->maps[SCENE_OOM];
	uint64_t origin = picture->scene->series[SCENE_HOLDER].x_first;

	if (result->oom.happened)
		*failure = (struct picture_failure){ false, result->oom.x - origin, result->oom.event,
						     result->oom.requested };
	else if (result->recorded_oom.happened && map->taken)
		*failure = (struct picture_failure){ true, map->x, map->event, result->recorded_oom.requested };
	else
		return false;
	return true;
}

bool
picture_is_of_peak(const struct picture *picture)
{
	return picture->kind != PICTURE_MAP || picture->when == SCENE_PEAK;
}

uint64_t
picture_held(const struct picture *picture, uint64_t bytes[SERIES_LAYERS])
{
	const struct layers *layers = &picture->scene->layers[picture->by];
	const struct scene_map *map = &picture->scene->maps[picture->when];

	for (size_t i = 0; i < SERIES_LAYERS; i++)
		bytes[i] = picture_is_of_peak(picture) && i < layers->count ? layers->at[i].bytes : 0;
	if (picture_is_of_peak(picture))
		return picture->report->result->peak_live_requested;
	for (size_t i = 0; i < map->extent_count; i++) {
		const struct scene_extent *extent = &map->extents[i];
		size_t layer = extent->kind == EXTENT_LIVE ? scene_layer(layers, extent->block.key[picture->by])
							   : LAYER_OTHER;

		if (layer != LAYER_OTHER)
			bytes[layer] += extent->block.size;
	}
	return map->live;
}

static void
note_blocks(char *buffer, const struct scene_blocks *blocks)
{
	char kept[UNITS_MAX], seen[UNITS_MAX];
	double share = blocks->seen_area > 0 ? 100 * blocks->area / blocks->seen_area : 100;

	if (blocks->count == blocks->seen)
		snprintf(buffer, PICTURE_NOTE_MAX, "all %s", units_plural(seen, blocks->seen, "block"));
	else
		snprintf(buffer, PICTURE_NOTE_MAX,
			 "%s of %s blocks, those of most bytes \xc3\x97 time: %.1f %% of it",
			 units_count(kept, blocks->count), units_count(seen, blocks->seen), share);
}

char *
picture_note(char *buffer, const struct picture *picture)
{
	const struct scene_map *map = &picture->scene->maps[picture->when];
	char count[UNITS_MAX], size[UNITS_MAX];

	buffer[0] = '\0';
	if (picture->kind == PICTURE_MEMORY)
		note_blocks(buffer, &picture->scene->blocks);
	else if (picture->kind == PICTURE_MAP && map->merged > 0)
		snprintf(buffer, PICTURE_NOTE_MAX, "not told apart: %s in %s",
			 units_plural(count, map->merged, "small block"), units_bytes(size, map->merged_bytes));
	return buffer;
}

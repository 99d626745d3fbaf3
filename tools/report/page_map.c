/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory at moments, as data of a page.
 */
#include <inttypes.h>

#include "tools/report/page.h"
#include "tools/units.h"

#define EXTENT_GETTER(field)                                                 \
	static uint64_t extent_##field(const void *things, size_t i)         \
	{                                                                    \
		return ((const struct scene_extent *)things)[i].block.field; \
	}

EXTENT_GETTER(size)
EXTENT_GETTER(x0)
EXTENT_GETTER(x1)
EXTENT_GETTER(event)
EXTENT_GETTER(freed)

static uint64_t
extent_address(const void *things, size_t i)
{
	return ((const struct scene_extent *)things)[i].address;
}

static uint64_t
extent_room(const void *things, size_t i)
{
	return ((const struct scene_extent *)things)[i].size;
}

static uint64_t
extent_kind(const void *things, size_t i)
{
	return ((const struct scene_extent *)things)[i].kind;
}

static uint64_t
extent_blocks(const void *things, size_t i)
{
	return ((const struct scene_extent *)things)[i].blocks;
}

static void
put_extent_names(struct page *page, const struct scene_map *map, enum scene_by by)
{
	page_key(page, scene_by_names[by]);
	putc('[', page->out);
	for (size_t i = 0; i < map->extent_count; i++) {
		const struct scene_extent *extent = &map->extents[i];

		if (i > 0)
			putc(',', page->out);
		if (extent->kind == EXTENT_LIVE)
			page_number(page, page_name(page, by, extent->block.key[by]));
		else
			fputs("-1", page->out);
	}
	putc(']', page->out);
}

static void
put_extents(struct page *page, const struct scene_map *map)
{
	const struct scene_extent *extents = map->extents;
	size_t count = map->extent_count;

	page_key(page, "extents");
	page_begin(page, '{');
	page_put_column(page, "kind", extent_kind, extents, count);
	page_put_column(page, "ptr", extent_address, extents, count);
	page_put_column(page, "room", extent_room, extents, count);
	page_put_column(page, "size", extent_size, extents, count);
	page_put_column(page, "x0", extent_x0, extents, count);
	page_put_column(page, "x1", extent_x1, extents, count);
	page_put_column(page, "event", extent_event, extents, count);
	page_put_column(page, "freed", extent_freed, extents, count);
	for (int by = 0; by < SCENE_BY_COUNT; by++)
		put_extent_names(page, map, (enum scene_by)by);
	page_end(page, '}');
	page_put_column(page, "small", extent_blocks, extents, count);
}

static void
put_segments(struct page *page, const struct scene_map *map)
{
	bool rows = page->picture->report->result->policy->pool_count > 1;
	char stream[UNITS_MAX];

	page_key(page, "segments");
	page_begin(page, '[');
	for (size_t i = 0; i < map->segment_count; i++) {
		const struct scene_segment *segment = &map->segments[i];

		page_separate(page);
		fprintf(page->out, "[%" PRIu64 ",%" PRIu64 ",\"%s\",\"%s\",%zu,%zu]", segment->address, segment->size,
			scene_stream_text(stream, segment->stream),
			!rows ? "" : segment->pool > 0 ? "large blocks" : "small blocks", segment->first, segment->count);
	}
	page_end(page, ']');
}

static void
put_map(struct page *page, enum scene_when when)
{
	const struct scene_map *map = &page->picture->scene->maps[when];
	struct picture of_map = *page->picture;
	char buffer[PICTURE_NOTE_MAX];

	of_map.kind = PICTURE_MAP;
	of_map.when = when;
	page_separate(page);
	page_begin(page, '{');
	page_put_text(page, "name", picture_when(buffer, page->picture, when));
	page_put_text(page, "note", picture_note(buffer, &of_map));
	page_put_number(page, "peak", when == SCENE_PEAK);
	page_put_number(page, "x", map->x);
	page_put_number(page, "live", map->live);
	page_put_number(page, "reserved", map->reserved);
	page_put_number(page, "blocks", map->blocks);
	put_segments(page, map);
	put_extents(page, map);
	page_end(page, '}');
}

void
page_put_maps(struct page *page)
{
	size_t shown = 0, chosen = 0;

	page_key(page, "maps");
	page_begin(page, '[');
	for (int when = 0; when < SCENE_WHEN_COUNT; when++) {
		if (!page->picture->scene->maps[when].taken)
			continue;
		if (when == (int)page->picture->when)
			chosen = shown;
		put_map(page, (enum scene_when)when);
		shown++;
	}
	page_end(page, ']');
	page_put_number(page, "when", chosen);
}

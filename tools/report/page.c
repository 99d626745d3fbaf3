/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture as a page: the template (tools/report/page), with the data in it.
 *
 * The data is a JSON text without '<', '>' and '&', so it cannot end the element that it is in,
 * whatever holders are called.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/addresses.h"
#include "tools/report/page_template.h"
#include "tools/report/picture.h"
#include "tools/units.h"
#include "tools/xalloc.h"

/* Names that the page refers to, by numbers of its own. */
struct names {
	const struct scene *scene;
	enum scene_by by;
	bool began_before;
	uint32_t *number; /* by key; 0: none yet, else the number and 1 */
	size_t room;
	uint32_t *keys; /* by number */
	size_t count, key_room;
};

struct writer {
	FILE *out;
	const struct picture *picture;
	struct names names[SCENE_BY_COUNT];
	bool first; /* of the array or object that is being written */
};

/* ---- values ----------------------------------------------------------------- */

static void
text(FILE *out, const char *string)
{
	json_t *value = json_string(string);
	char *quoted = value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;

	if (quoted == NULL)
		fputs("\"?\"", out);
	for (const char *c = quoted; c != NULL && *c != '\0'; c++)
		if (*c == '<' || *c == '>' || *c == '&')
			fprintf(out, "\\u%04x", (unsigned)*c);
		else
			putc(*c, out);
	free(quoted);
	json_decref(value);
}

/* Events and times without a number are -1. */
static void
number(FILE *out, uint64_t value)
{
	if (value == UINT64_MAX)
		fputs("-1", out);
	else
		fprintf(out, "%" PRIu64, value);
}

static void
separate(struct writer *w)
{
	if (!w->first)
		fputs(",\n", w->out);
	w->first = false;
}

static void
key(struct writer *w, const char *name)
{
	separate(w);
	fprintf(w->out, "\"%s\":", name);
}

static void
begin(struct writer *w, char bracket)
{
	putc(bracket, w->out);
	w->first = true;
}

static void
end(struct writer *w, char bracket)
{
	putc(bracket, w->out);
	w->first = false;
}

static void
put_number(struct writer *w, const char *name, uint64_t value)
{
	key(w, name);
	number(w->out, value);
}

static void
put_text(struct writer *w, const char *name, const char *value)
{
	key(w, name);
	text(w->out, value);
}

/* A column: `get` of each of `count` things. */
typedef uint64_t getter(const void *things, size_t index);

static void
put_column(struct writer *w, const char *name, getter *get, const void *things, size_t count)
{
	key(w, name);
	putc('[', w->out);
	for (size_t i = 0; i < count; i++) {
		if (i > 0)
			putc(',', w->out);
		number(w->out, get(things, i));
	}
	putc(']', w->out);
}

/* ---- names ------------------------------------------------------------------- */

static uint32_t
name_number(struct names *names, uint32_t of)
{
	size_t room = names->room;

	if (of >= room) {
		while (room <= of)
			room = room > 0 ? 2 * room : 64;
		names->number = xreallocarray(names->number, room, sizeof *names->number);
		memset(names->number + names->room, 0, (room - names->room) * sizeof *names->number);
		names->room = room;
	}
	if (names->number[of] == 0) {
		names->keys = xgrow(names->keys, &names->key_room, names->count, sizeof *names->keys);
		names->keys[names->count++] = of;
		names->number[of] = (uint32_t)names->count;
	}
	return names->number[of] - 1;
}

static void
put_names(struct writer *w)
{
	key(w, "names");
	begin(w, '{');
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		struct names *names = &w->names[by];

		key(w, scene_by_names[by]);
		begin(w, '[');
		for (size_t i = 0; i < names->count; i++) {
			char *name = scene_name(names->scene, names->by, names->keys[i], names->began_before);

			separate(w);
			text(w->out, name);
			free(name);
		}
		end(w, ']');
	}
	end(w, '}');
}

static void
put_layers(struct writer *w)
{
	key(w, "layers");
	begin(w, '{');
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		const struct layers *layers = &w->picture->scene->layers[by];

		key(w, scene_by_names[by]);
		begin(w, '[');
		for (size_t i = 0; i < layers->count; i++) {
			separate(w);
			begin(w, '{');
			put_text(w, "name", layers->at[i].name);
			put_number(w, "id", name_number(&w->names[by], layers->at[i].key));
			put_number(w, "bytes", layers->at[i].bytes);
			end(w, '}');
		}
		end(w, ']');
	}
	end(w, '}');
}

/* ---- over time ----------------------------------------------------------------- */

static uint64_t
column_live(const void *things, size_t i)
{
	return ((const struct series *)things)->columns[i].live;
}

static uint64_t
column_reserved(const void *things, size_t i)
{
	return ((const struct series *)things)->columns[i].reserved;
}

static void
put_series_layers(struct writer *w, enum scene_by by)
{
	const struct series *series = &w->picture->scene->series[by];

	key(w, scene_by_names[by]);
	begin(w, '[');
	for (size_t layer = 0; layer < series->layer_count; layer++) {
		separate(w);
		putc('[', w->out);
		for (size_t i = 0; i < series->column_count; i++)
			fprintf(w->out, "%s%" PRIu64, i > 0 ? "," : "", series->columns[i].layer[layer]);
		putc(']', w->out);
	}
	end(w, ']');
}

static void
put_series(struct writer *w)
{
	const struct series *series = &w->picture->scene->series[SCENE_HOLDER];

	key(w, "series");
	begin(w, '{');
	put_column(w, "live", column_live, series, series->column_count);
	put_column(w, "reserved", column_reserved, series, series->column_count);
	for (int by = 0; by < SCENE_BY_COUNT; by++)
		put_series_layers(w, (enum scene_by)by);
	end(w, '}');
}

/* ---- blocks ---------------------------------------------------------------------- */

#define BLOCK_GETTER(field)                                      \
	static uint64_t block_##field(const void *things, size_t i) \
	{                                                        \
		return ((const struct scene_block *)things)[i].field; \
	}                                                        \
	static uint64_t extent_##field(const void *things, size_t i) \
	{                                                        \
		return ((const struct scene_extent *)things)[i].block.field; \
	}

BLOCK_GETTER(size)
BLOCK_GETTER(x0)
BLOCK_GETTER(x1)
BLOCK_GETTER(event)
BLOCK_GETTER(freed)

static uint64_t
block_ptr(const void *things, size_t i)
{
	return ((const struct scene_block *)things)[i].ptr;
}

static void
put_blocks(struct writer *w)
{
	const struct scene_blocks *blocks = &w->picture->scene->blocks;

	key(w, "blocks");
	begin(w, '{');
	put_number(w, "seen", blocks->seen);
	put_column(w, "ptr", block_ptr, blocks->at, blocks->count);
	put_column(w, "size", block_size, blocks->at, blocks->count);
	put_column(w, "x0", block_x0, blocks->at, blocks->count);
	put_column(w, "x1", block_x1, blocks->at, blocks->count);
	put_column(w, "event", block_event, blocks->at, blocks->count);
	put_column(w, "freed", block_freed, blocks->at, blocks->count);
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		key(w, scene_by_names[by]);
		putc('[', w->out);
		for (size_t i = 0; i < blocks->count; i++)
			fprintf(w->out, "%s%" PRIu32, i > 0 ? "," : "",
				name_number(&w->names[by], blocks->at[i].key[by]));
		putc(']', w->out);
	}
	end(w, '}');
}

#define SPAN_GETTER(field)                                       \
	static uint64_t span_##field(const void *things, size_t i) \
	{                                                        \
		return ((const struct scene_span *)things)[i].field; \
	}

SPAN_GETTER(address)
SPAN_GETTER(size)
SPAN_GETTER(x0)
SPAN_GETTER(x1)

static void
put_spans(struct writer *w)
{
	const struct scene *scene = w->picture->scene;

	key(w, "spans");
	begin(w, '{');
	put_column(w, "address", span_address, scene->span, scene->span_count);
	put_column(w, "size", span_size, scene->span, scene->span_count);
	put_column(w, "x0", span_x0, scene->span, scene->span_count);
	put_column(w, "x1", span_x1, scene->span, scene->span_count);
	end(w, '}');
}

static void
put_parts(struct writer *w)
{
	struct addresses addresses;

	addresses_make(&addresses, w->picture->scene);
	key(w, "parts");
	begin(w, '[');
	for (size_t i = 0; i < addresses.count; i++) {
		separate(w);
		fprintf(w->out, "[%" PRIu64 ",%" PRIu64 ",%.0f]", addresses.parts[i].from, addresses.parts[i].to,
			addresses.parts[i].at);
	}
	end(w, ']');
	key(w, "length");
	fprintf(w->out, "%.0f", addresses.length);
	addresses_fini(&addresses);
}

/* ---- the memory at moments ---------------------------------------------------------- */

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
put_extent_names(struct writer *w, const struct scene_map *map, enum scene_by by)
{
	key(w, scene_by_names[by]);
	putc('[', w->out);
	for (size_t i = 0; i < map->extent_count; i++) {
		const struct scene_extent *extent = &map->extents[i];

		if (i > 0)
			putc(',', w->out);
		if (extent->kind == EXTENT_LIVE)
			number(w->out, name_number(&w->names[by], extent->block.key[by]));
		else
			fputs("-1", w->out);
	}
	putc(']', w->out);
}

static void
put_extents(struct writer *w, const struct scene_map *map)
{
	const struct scene_extent *extents = map->extents;
	size_t count = map->extent_count;

	key(w, "extents");
	begin(w, '{');
	put_column(w, "kind", extent_kind, extents, count);
	put_column(w, "ptr", extent_address, extents, count);
	put_column(w, "room", extent_room, extents, count);
	put_column(w, "size", extent_size, extents, count);
	put_column(w, "x0", extent_x0, extents, count);
	put_column(w, "x1", extent_x1, extents, count);
	put_column(w, "event", extent_event, extents, count);
	put_column(w, "freed", extent_freed, extents, count);
	for (int by = 0; by < SCENE_BY_COUNT; by++)
		put_extent_names(w, map, (enum scene_by)by);
	end(w, '}');
	put_column(w, "small", extent_blocks, extents, count);
}

static void
put_segments(struct writer *w, const struct scene_map *map)
{
	bool rows = w->picture->report->result->policy->pool_count > 1;
	char stream[UNITS_MAX];

	key(w, "segments");
	begin(w, '[');
	for (size_t i = 0; i < map->segment_count; i++) {
		const struct scene_segment *segment = &map->segments[i];

		separate(w);
		fprintf(w->out, "[%" PRIu64 ",%" PRIu64 ",\"%s\",\"%s\",%zu,%zu]", segment->address, segment->size,
			scene_stream_text(stream, segment->stream),
			!rows ? "" : segment->pool > 0 ? "large blocks" : "small blocks", segment->first, segment->count);
	}
	end(w, ']');
}

static void
put_map(struct writer *w, enum scene_when when)
{
	const struct scene_map *map = &w->picture->scene->maps[when];
	struct picture of_map = *w->picture;
	char buffer[PICTURE_NOTE_MAX];

	of_map.kind = PICTURE_MAP;
	of_map.when = when;
	separate(w);
	begin(w, '{');
	put_text(w, "name", picture_when(buffer, w->picture, when));
	put_text(w, "note", picture_note(buffer, &of_map));
	put_number(w, "x", map->x);
	put_number(w, "live", map->live);
	put_number(w, "reserved", map->reserved);
	put_number(w, "blocks", map->blocks);
	put_segments(w, map);
	put_extents(w, map);
	end(w, '}');
}

static void
put_maps(struct writer *w)
{
	size_t shown = 0, chosen = 0;

	key(w, "maps");
	begin(w, '[');
	for (int when = 0; when < SCENE_WHEN_COUNT; when++) {
		if (!w->picture->scene->maps[when].taken)
			continue;
		if (when == (int)w->picture->when)
			chosen = shown;
		put_map(w, (enum scene_when)when);
		shown++;
	}
	end(w, ']');
	put_number(w, "when", chosen);
}

/* ---- sizes ---------------------------------------------------------------------------- */

static void
put_buckets(struct writer *w, const char *name, const uint64_t *buckets, unsigned first, unsigned count)
{
	if (name != NULL)
		key(w, name);
	else
		separate(w);
	putc('[', w->out);
	for (unsigned i = 0; i < count; i++)
		fprintf(w->out, "%s%" PRIu64, i > 0 ? "," : "", buckets[first + i]);
	putc(']', w->out);
}

static void
put_bucket_layers(struct writer *w, const char *name, const uint64_t (*layers)[SCENE_SIZES], unsigned first,
		  unsigned count)
{
	key(w, name);
	begin(w, '[');
	for (size_t layer = 0; layer <= LAYER_OTHER; layer++)
		put_buckets(w, NULL, layers[layer], first, count);
	end(w, ']');
}

static void
put_sizes(struct writer *w)
{
	const struct scene_sizes *sizes = &w->picture->scene->sizes;
	unsigned first = SCENE_SIZES, last = 0, count;

	for (unsigned i = 0; i < SCENE_SIZES; i++)
		if (sizes->count[i] > 0) {
			first = first < i ? first : i;
			last = i;
		}
	first = first < SCENE_SIZES ? first : 0;
	count = last - first + 1;
	key(w, "sizes");
	begin(w, '{');
	put_number(w, "first", first);
	put_buckets(w, "count", sizes->count, first, count);
	put_buckets(w, "bytes", sizes->bytes, first, count);
	key(w, "layers");
	begin(w, '{');
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		key(w, scene_by_names[by]);
		begin(w, '{');
		put_bucket_layers(w, "count", sizes->layer_count[by], first, count);
		put_bucket_layers(w, "bytes", sizes->layer_bytes[by], first, count);
		end(w, '}');
	}
	end(w, '}');
	end(w, '}');
}

/* ---- all of it --------------------------------------------------------------------------- */

static uint64_t
since_origin(const struct writer *w, uint64_t x)
{
	uint64_t first = w->picture->scene->series[SCENE_HOLDER].x_first;

	return x > first ? x - first : 0;
}

static void
put_moments(struct writer *w)
{
	const struct replay_result *result = w->picture->report->result;

	key(w, "peak");
	begin(w, '{');
	put_number(w, "x", since_origin(w, result->peak_x));
	put_number(w, "event", result->peak_event);
	put_number(w, "live", result->peak_live_requested);
	put_number(w, "reserved", result->peak_reserved);
	end(w, '}');
	key(w, "oom");
	if (!result->oom.happened) {
		fputs("null", w->out);
		return;
	}
	begin(w, '{');
	put_number(w, "x", since_origin(w, result->oom.x));
	put_number(w, "event", result->oom.event);
	put_number(w, "requested", result->oom.requested);
	put_text(w, "reason", replay_oom_text(result->oom.reason));
	end(w, '}');
}

static void
put_words(struct writer *w)
{
	const struct picture *picture = w->picture;
	const struct replay_result *result = picture->report->result;
	const char *slash = strrchr(picture->report->path, '/');
	struct picture memory = *picture;
	char live[UNITS_MAX], reserved[UNITS_MAX], share[UNITS_MAX], events[UNITS_MAX], buffer[400];

	put_text(w, "title", slash != NULL ? slash + 1 : picture->report->path);
	snprintf(buffer, sizeof buffer,
		 "%s, %s; policy %s, device %d: peak %s live, %s reserved, utilisation %s", result->format,
		 units_plural(events, result->counts.events, "event"), result->policy->name, (int)result->device,
		 units_bytes(live, result->peak_live_requested), units_bytes(reserved, result->peak_reserved),
		 units_percent(share, result->peak_live_requested, result->peak_reserved));
	put_text(w, "summary", buffer);
	put_text(w, "kind", picture_kind_names[picture->kind]);
	put_text(w, "by", scene_by_names[picture->by]);
	put_number(w, "capacity", picture->report->options->capacity);
	memory.kind = PICTURE_MEMORY;
	key(w, "notes");
	begin(w, '{');
	put_text(w, "memory", picture_note(buffer, &memory));
	end(w, '}');
}

static void
put_axis(struct writer *w)
{
	const struct series *series = &w->picture->scene->series[SCENE_HOLDER];

	key(w, "axis");
	begin(w, '{');
	key(w, "time");
	fputs(series->by_time ? "true" : "false", w->out);
	put_number(w, "span", series->x_span);
	end(w, '}');
}

bool
picture_json(FILE *out, const struct picture *picture)
{
	const struct replay_counts *counts = &picture->report->result->counts;
	bool began_before = counts->start_blocks > 0 && counts->allocs > 0;
	struct writer writer = { .out = out, .picture = picture }, *w = &writer;

	for (int by = 0; by < SCENE_BY_COUNT; by++)
		w->names[by] = (struct names){ .scene = picture->scene, .by = (enum scene_by)by,
					       .began_before = began_before };
	begin(w, '{');
	put_words(w);
	put_axis(w);
	put_moments(w);
	put_layers(w);
	put_series(w);
	put_blocks(w);
	put_spans(w);
	put_parts(w);
	put_maps(w);
	put_sizes(w);
	/* Last: by now all that are needed have their numbers. */
	put_names(w);
	end(w, '}');
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		free(w->names[by].number);
		free(w->names[by].keys);
	}
	return ferror(out) == 0;
}

bool
picture_page(FILE *out, const struct picture *picture)
{
	static const char marker[] = "@DATA@";
	const char *template = (const char *)page_template;
	const char *at = strstr(template, marker);

	fwrite(template, 1, (size_t)(at - template), out);
	picture_json(out, picture);
	fputs(at + sizeof marker - 1, out);
	return fflush(out) == 0 && ferror(out) == 0;
}

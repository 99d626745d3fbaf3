/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture as a page: the template (tools/report/page), with the data in it.
 *
 * The data is a JSON text without '<', '>' and '&', so it cannot end the element that it is in,
 * whatever holders are called.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/addresses.h"
#include "tools/report/page.h"
#include "tools/report/page_template.h"
#include "tools/units.h"

static void
put_layers(struct page *page)
{
	page_key(page, "layers");
	page_begin(page, '{');
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		const struct layers *layers = &page->picture->scene->layers[by];

		page_key(page, scene_by_names[by]);
		page_begin(page, '[');
		for (size_t i = 0; i < layers->count; i++) {
			page_separate(page);
			page_begin(page, '{');
			page_put_text(page, "name", layers->at[i].name);
			page_put_number(page, "id", page_name(page, (enum scene_by)by, layers->at[i].key));
			page_put_number(page, "bytes", layers->at[i].bytes);
			page_end(page, '}');
		}
		page_end(page, ']');
	}
	page_end(page, '}');
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
put_series_layers(struct page *page, enum scene_by by)
{
	const struct series *series = &page->picture->scene->series[by];

	page_key(page, scene_by_names[by]);
	page_begin(page, '[');
	for (size_t layer = 0; layer < series->layer_count; layer++) {
		page_separate(page);
		putc('[', page->out);
		for (size_t i = 0; i < series->column_count; i++)
			fprintf(page->out, "%s%" PRIu64, i > 0 ? "," : "", series->columns[i].layer[layer]);
		putc(']', page->out);
	}
	page_end(page, ']');
}

static void
put_series(struct page *page)
{
	const struct series *series = &page->picture->scene->series[SCENE_HOLDER];

	page_key(page, "series");
	page_begin(page, '{');
	page_put_column(page, "live", column_live, series, series->column_count);
	page_put_column(page, "reserved", column_reserved, series, series->column_count);
	for (int by = 0; by < SCENE_BY_COUNT; by++)
		put_series_layers(page, (enum scene_by)by);
	page_end(page, '}');
}

/* ---- blocks ---------------------------------------------------------------------- */

#define BLOCK_GETTER(field)                                      \
	static uint64_t block_##field(const void *things, size_t i) \
	{                                                        \
		return ((const struct scene_block *)things)[i].field; \
	}                                                        \

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
put_blocks(struct page *page)
{
	const struct scene_blocks *blocks = &page->picture->scene->blocks;

	page_key(page, "blocks");
	page_begin(page, '{');
	page_put_number(page, "seen", blocks->seen);
	page_put_column(page, "ptr", block_ptr, blocks->at, blocks->count);
	page_put_column(page, "size", block_size, blocks->at, blocks->count);
	page_put_column(page, "x0", block_x0, blocks->at, blocks->count);
	page_put_column(page, "x1", block_x1, blocks->at, blocks->count);
	page_put_column(page, "event", block_event, blocks->at, blocks->count);
	page_put_column(page, "freed", block_freed, blocks->at, blocks->count);
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		page_key(page, scene_by_names[by]);
		putc('[', page->out);
		for (size_t i = 0; i < blocks->count; i++)
			fprintf(page->out, "%s%" PRIu32, i > 0 ? "," : "",
				page_name(page, (enum scene_by)by, blocks->at[i].key[by]));
		putc(']', page->out);
	}
	page_end(page, '}');
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
put_spans(struct page *page)
{
	const struct scene *scene = page->picture->scene;

	page_key(page, "spans");
	page_begin(page, '{');
	page_put_column(page, "address", span_address, scene->span, scene->span_count);
	page_put_column(page, "size", span_size, scene->span, scene->span_count);
	page_put_column(page, "x0", span_x0, scene->span, scene->span_count);
	page_put_column(page, "x1", span_x1, scene->span, scene->span_count);
	page_end(page, '}');
}

static void
put_parts(struct page *page)
{
	struct addresses addresses;

	addresses_make(&addresses, page->picture->scene);
	page_key(page, "parts");
	page_begin(page, '[');
	for (size_t i = 0; i < addresses.count; i++) {
		page_separate(page);
		fprintf(page->out, "[%" PRIu64 ",%" PRIu64 ",%.0f]", addresses.parts[i].from, addresses.parts[i].to,
			addresses.parts[i].at);
	}
	page_end(page, ']');
	page_key(page, "length");
	fprintf(page->out, "%.0f", addresses.length);
	addresses_fini(&addresses);
}

/* ---- sizes ---------------------------------------------------------------------------- */

static void
put_buckets(struct page *page, const char *name, const uint64_t *buckets, unsigned first, unsigned count)
{
	if (name != NULL)
		page_key(page, name);
	else
		page_separate(page);
	putc('[', page->out);
	for (unsigned i = 0; i < count; i++)
		fprintf(page->out, "%s%" PRIu64, i > 0 ? "," : "", buckets[first + i]);
	putc(']', page->out);
}

static void
put_bucket_layers(struct page *page, const char *name, const uint64_t (*layers)[SCENE_SIZES], unsigned first,
		  unsigned count)
{
	page_key(page, name);
	page_begin(page, '[');
	for (size_t layer = 0; layer <= LAYER_OTHER; layer++)
		put_buckets(page, NULL, layers[layer], first, count);
	page_end(page, ']');
}

static void
put_sizes(struct page *page)
{
	const struct scene_sizes *sizes = &page->picture->scene->sizes;
	unsigned first = SCENE_SIZES, last = 0, count;

	for (unsigned i = 0; i < SCENE_SIZES; i++)
		if (sizes->count[i] > 0) {
			first = first < i ? first : i;
			last = i;
		}
	first = first < SCENE_SIZES ? first : 0;
	count = last - first + 1;
	page_key(page, "sizes");
	page_begin(page, '{');
	page_put_number(page, "first", first);
	put_buckets(page, "count", sizes->count, first, count);
	put_buckets(page, "bytes", sizes->bytes, first, count);
	page_key(page, "layers");
	page_begin(page, '{');
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		page_key(page, scene_by_names[by]);
		page_begin(page, '{');
		put_bucket_layers(page, "count", sizes->layer_count[by], first, count);
		put_bucket_layers(page, "bytes", sizes->layer_bytes[by], first, count);
		page_end(page, '}');
	}
	page_end(page, '}');
	page_end(page, '}');
}

/* ---- all of it --------------------------------------------------------------------------- */

static uint64_t
since_origin(const struct page *page, uint64_t x)
{
	uint64_t first = page->picture->scene->series[SCENE_HOLDER].x_first;

	return x > first ? x - first : 0;
}

static void
put_moments(struct page *page)
{
	const struct replay_result *result = page->picture->report->result;
	struct picture_failure failure;

	page_key(page, "peak");
	page_begin(page, '{');
	page_put_number(page, "x", since_origin(page, result->peak_x));
	page_put_number(page, "event", result->peak_event);
	page_put_number(page, "live", result->peak_live_requested);
	page_put_number(page, "reserved", result->peak_reserved);
	page_end(page, '}');
	page_key(page, "oom");
	if (!picture_failure(page->picture, &failure)) {
		fputs("null", page->out);
		return;
	}
	page_begin(page, '{');
	page_put_number(page, "x", failure.x);
	page_put_number(page, "event", failure.event);
	page_put_number(page, "requested", failure.requested);
	page_put_text(page, "reason", failure.recorded ? "recorded" : replay_oom_text(result->oom.reason));
	page_end(page, '}');
}

static void
put_words(struct page *page)
{
	const struct picture *picture = page->picture;
	const struct replay_result *result = picture->report->result;
	const char *slash = strrchr(picture->report->path, '/');
	struct picture memory = *picture;
	char live[UNITS_MAX], reserved[UNITS_MAX], share[UNITS_MAX], events[UNITS_MAX], buffer[400];

	page_put_text(page, "title", slash != NULL ? slash + 1 : picture->report->path);
	snprintf(buffer, sizeof buffer,
		 "%s, %s; policy %s, device %d: peak %s live, %s reserved, utilisation %s", result->format,
		 units_plural(events, result->counts.events, "event"), result->policy->name, (int)result->device,
		 units_bytes(live, result->peak_live_requested), units_bytes(reserved, result->peak_reserved),
		 units_percent(share, result->peak_live_requested, result->peak_reserved));
	page_put_text(page, "summary", buffer);
	page_put_text(page, "kind", picture_kind_names[picture->kind]);
	page_put_text(page, "by", scene_by_names[picture->by]);
	page_put_number(page, "capacity", picture->report->options->capacity);
	memory.kind = PICTURE_MEMORY;
	page_key(page, "notes");
	page_begin(page, '{');
	page_put_text(page, "memory", picture_note(buffer, &memory));
	page_end(page, '}');
}

static void
put_axis(struct page *page)
{
	const struct series *series = &page->picture->scene->series[SCENE_HOLDER];

	page_key(page, "axis");
	page_begin(page, '{');
	page_key(page, "time");
	fputs(series->by_time ? "true" : "false", page->out);
	page_key(page, "clock");
	fputs(trace_has_clock(page->picture->report->reader) ? "true" : "false", page->out);
	page_put_number(page, "span", series->x_span);
	page_end(page, '}');
}

bool
picture_json(FILE *out, const struct picture *picture)
{
	struct page pages = { .out = out, .picture = picture }, *page = &pages;

	for (int by = 0; by < SCENE_BY_COUNT; by++)
		page->names[by] = (struct page_names){ .scene = picture->scene, .by = (enum scene_by)by };
	page_begin(page, '{');
	put_words(page);
	put_axis(page);
	put_moments(page);
	put_layers(page);
	put_series(page);
	put_blocks(page);
	put_spans(page);
	put_parts(page);
	page_put_maps(page);
	put_sizes(page);
	/* Last: by now all that are needed have their numbers. */
	page_put_names(page);
	page_end(page, '}');
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		free(page->names[by].number);
		free(page->names[by].keys);
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

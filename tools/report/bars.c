/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory at a moment: a bar for each segment, in address order, all at one scale.
 *
 * Bars follow each other like the words of a text: as many on a line as fit, and one that is
 * longer than a line goes on with the next.  The scale is the largest at which all lines
 * fit.  With few segments each has a line of its own, or several when there are very few.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/report/plot.h"
#include "tools/units.h"
#include "tools/xalloc.h"

#define LINES_MAX 38
#define LINE_GAP 0.28  /* of a line's height */
#define LINE_MAX 40.0  /* pixels */
#define BAR_GAP 3.0    /* between bars of a line, in pixels */
#define BAR_LEAST 2.0
#define BORDER_FROM 5.0 /* blocks of this width get a border */

/* From so many segments on, if each has a line, none goes on with the next. */
#define FEW 4

struct bars {
	const struct plot *plot;
	const struct scene_map *map;
	double scale; /* pixels a byte */
	bool apart;   /* each begins a line */
	double pitch; /* from line to line */
	size_t left_out;
};

static double
bar_width(const struct bars *bars, uint64_t size)
{
	double width = (double)size * bars->scale;

	return width > BAR_LEAST ? width : BAR_LEAST;
}

/* Where the index-th bar begins; `x` and `line` are where the one before ended. */
static void
place_next(const struct bars *bars, uint64_t size, double *x, size_t *line)
{
	double room = bars->plot->width, width = bar_width(bars, size);

	if (*x > 0 && (bars->apart || *x + width > room)) {
		*x = 0;
		++*line;
	}
}

static void
advance(const struct bars *bars, uint64_t size, double *x, size_t *line)
{
	double room = bars->plot->width, width = bar_width(bars, size);

	for (; width > room; width -= room)
		++*line;
	*x += width + BAR_GAP;
}

static size_t
count_lines(const struct bars *bars)
{
	double x = 0;
	size_t line = 0;

	for (size_t i = 0; i < bars->map->segment_count && line < SIZE_MAX / 2; i++) {
		double width = bar_width(bars, bars->map->segments[i].size);

		place_next(bars, bars->map->segments[i].size, &x, &line);
		if (width / bars->plot->width > 4 * LINES_MAX)
			return SIZE_MAX;
		advance(bars, bars->map->segments[i].size, &x, &line);
	}
	return line + 1;
}

static uint64_t
largest(const struct scene_map *map)
{
	uint64_t size = 1;

	for (size_t i = 0; i < map->segment_count; i++)
		size = map->segments[i].size > size ? map->segments[i].size : size;
	return size;
}

/* The largest scale, by halves of the last digit: more lines with each. */
static void
choose_scale(struct bars *bars)
{
	bool whole = bars->apart && bars->map->segment_count >= FEW;
	double low = 0, high = (whole ? 1 : LINES_MAX) * bars->plot->width / (double)largest(bars->map);

	for (int i = 0; i < 60; i++) {
		bars->scale = (low + high) / 2;
		if (count_lines(bars) <= LINES_MAX)
			low = bars->scale;
		else
			high = bars->scale;
	}
	bars->scale = low;
}

static struct color
color_of(const struct bars *bars, const struct scene_extent *extent)
{
	const struct layers *layers = bars->plot->layers;

	switch (extent->kind) {
	case EXTENT_FREE:
		return plot_held;
	case EXTENT_PENDING:
		return plot_pending;
	case EXTENT_SMALL:
		return plot_other;
	case EXTENT_LIVE:
		break;
	}
	return plot_layer_color(scene_layer(layers, extent->block.key[layers->by]));
}

/* A part of the bar that begins at (x, line), on one line or more. */
static void
draw_part(const struct bars *bars, double x, size_t line, double from, double to, struct color color)
{
	const struct plot *plot = bars->plot;
	double height = bars->pitch * (1 - LINE_GAP);

	from += x;
	to += x;
	for (; from >= plot->width; from -= plot->width, to -= plot->width)
		line++;
	while (to - from > 1e-9) {
		double end = to < plot->width ? to : plot->width;

		cairo_rectangle(plot->cr, plot->left + from, plot->top + bars->pitch * (double)line, end - from,
				height);
		plot_set_color(plot, color);
		cairo_fill_preserve(plot->cr);
		cairo_set_source_rgb(plot->cr, 1, 1, 1);
		cairo_set_line_width(plot->cr, end - from >= BORDER_FROM ? 0.7 : 0);
		if (end - from >= BORDER_FROM)
			cairo_stroke(plot->cr);
		cairo_new_path(plot->cr);
		to -= plot->width;
		from = 0;
		line++;
	}
}

/* What ends less than half a pixel behind what was drawn last is passed over. */
static void
draw_bar(const struct bars *bars, const struct scene_segment *segment, double x, size_t line)
{
	double width = bar_width(bars, segment->size), drawn = 0;
	double scale = width / (double)(segment->size > 0 ? segment->size : 1);

	draw_part(bars, x, line, 0, width, plot_held);
	for (size_t i = segment->first; i < segment->first + segment->count; i++) {
		const struct scene_extent *extent = &bars->map->extents[i];
		double from = (double)(extent->address - segment->address) * scale;
		double to = from + (double)extent->size * scale;

		if (to - drawn < 0.5)
			continue;
		draw_part(bars, x, line, from > drawn ? from : drawn, to, color_of(bars, extent));
		drawn = to;
	}
}

/* A line's label is the address of the first byte in it that begins a bar. */
static void
draw_label(const struct bars *bars, size_t line, uint64_t address)
{
	const struct plot *plot = bars->plot;
	char text[32];

	snprintf(text, sizeof text, "%" PRIx64, address);
	plot_set_font(plot, FONT_SMALL - 3, false);
	plot_set_color(plot, plot_faint);
	plot_text(plot, plot->left - 8, plot->top + bars->pitch * (double)line + bars->pitch * (1 - LINE_GAP) / 2 + 4,
		  1, text);
}

static void
draw_all(const struct bars *bars)
{
	double x = 0;
	size_t line = 0;

	for (size_t i = 0; i < bars->map->segment_count; i++) {
		const struct scene_segment *segment = &bars->map->segments[i];

		place_next(bars, segment->size, &x, &line);
		if (line >= LINES_MAX)
			break;
		if (x <= 0)
			draw_label(bars, line, segment->address);
		draw_bar(bars, segment, x, line);
		advance(bars, segment->size, &x, &line);
	}
}

static void
draw_scale(const struct bars *bars)
{
	const struct plot *plot = bars->plot;
	unsigned power = 0;
	char text[UNITS_MAX];
	double y = plot->top + plot->height + 26, width;

	while ((double)((uint64_t)1 << power) * bars->scale < 60 && power < 62)
		power++;
	width = (double)((uint64_t)1 << power) * bars->scale;
	plot_set_color(plot, plot_ink);
	cairo_set_line_width(plot->cr, 1.2);
	cairo_move_to(plot->cr, plot->left, y - 5);
	cairo_line_to(plot->cr, plot->left, y);
	cairo_line_to(plot->cr, plot->left + width, y);
	cairo_line_to(plot->cr, plot->left + width, y - 5);
	cairo_stroke(plot->cr);
	plot_set_font(plot, FONT_TEXT, false);
	plot_text(plot, plot->left + width + 10, y + 4, 0, units_power(text, power));
	plot_set_font(plot, FONT_SMALL - 2, false);
	plot_set_color(plot, plot_faint);
	plot_text(plot, plot->left - 8, plot->top - 10, 1, "address");
}

static void
say_left_out(const struct plot *plot, size_t left_out, uint64_t bytes)
{
	char count[UNITS_MAX], size[UNITS_MAX], text[128];

	snprintf(text, sizeof text, "not shown: %s with %s", units_plural(count, left_out, "smaller segment"),
		 units_bytes(size, bytes));
	plot_set_font(plot, FONT_TEXT, false);
	plot_set_color(plot, plot_alarm);
	plot_text(plot, plot->left + plot->width, plot->top + plot->height + 30, 1, text);
}

static int
larger_first(const void *left, const void *right)
{
	const struct scene_segment *a = left, *b = right;

	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return a->address < b->address ? -1 : 1;
}

static int
lower_first(const void *left, const void *right)
{
	const struct scene_segment *a = left, *b = right;

	return a->address < b->address ? -1 : 1;
}

/* So many segments that each would be too thin: the largest, which is said. */
static void
draw_largest(const struct plot *plot, const struct scene_map *map, struct bars *bars)
{
	size_t most = (size_t)(LINES_MAX * plot->width / (BAR_LEAST + BAR_GAP) / 2);
	struct scene_map part = *map;
	uint64_t bytes = 0;

	part.segments = xcalloc(map->segment_count, sizeof *part.segments);
	for (size_t i = 0; i < map->segment_count; i++)
		part.segments[i] = map->segments[i];
	qsort(part.segments, part.segment_count, sizeof *part.segments, larger_first);
	for (size_t i = most; i < map->segment_count; i++)
		bytes += part.segments[i].size;
	part.segment_count = most;
	qsort(part.segments, part.segment_count, sizeof *part.segments, lower_first);
	bars->map = &part;
	choose_scale(bars);
	draw_all(bars);
	say_left_out(plot, map->segment_count - most, bytes);
	free(part.segments);
}

void
plot_draw_bars(const struct plot *plot)
{
	const struct scene_map *map = &plot->picture->scene->maps[plot->picture->when];
	struct bars bars = { .plot = plot, .map = map, .apart = map->segment_count <= LINES_MAX };
	size_t lines;

	bars.pitch = plot->height / LINES_MAX;
	if (map->segment_count == 0) {
		plot_set_font(plot, FONT_TEXT, false);
		plot_set_color(plot, plot_faint);
		plot_text(plot, plot->left + plot->width / 2, plot->top + plot->height / 2, 0.5,
			  "nothing is reserved at this moment");
		return;
	}
	choose_scale(&bars);
	lines = count_lines(&bars);
	if (lines > LINES_MAX) {
		draw_largest(plot, map, &bars);
	} else {
		bars.pitch = plot->height / (double)lines < LINE_MAX ? plot->height / (double)lines : LINE_MAX;
		draw_all(&bars);
	}
	draw_scale(&bars);
}

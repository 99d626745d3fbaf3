/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The legend, in the order in which things lie above each other in the picture.
 */
#include <stdio.h>

#include "tools/report/plot.h"
#include "tools/units.h"

#define SWATCH 16.0
#define ENTRY_HEIGHT 44.0
#define NAME_MAX_LENGTH 120

struct legend {
	const struct plot *plot;
	double x, y, width;
};

/* Shortened until it fits. */
static void
fitted_text(const struct legend *legend, double x, double y, const char *text)
{
	char buffer[4 * NAME_MAX_LENGTH + 1];
	double room = legend->x + legend->width - x;
	size_t length = NAME_MAX_LENGTH;

	report_shorten(buffer, sizeof buffer, text, length);
	while (length > 8 && plot_text_width(legend->plot, buffer) > room)
		report_shorten(buffer, sizeof buffer, text, --length);
	plot_text(legend->plot, x, y, 0, buffer);
}

static void
entry_text(struct legend *legend, const char *name, const char *note)
{
	double x = legend->x + SWATCH + 10;

	plot_set_font(legend->plot, FONT_SMALL, false);
	plot_set_color(legend->plot, plot_ink);
	fitted_text(legend, x, legend->y + 13, name);
	plot_set_color(legend->plot, plot_faint);
	fitted_text(legend, x, legend->y + 31, note);
	legend->y += ENTRY_HEIGHT;
}

static void
area_entry(struct legend *legend, struct color color, const char *name, const char *note)
{
	cairo_t *cr = legend->plot->cr;

	cairo_rectangle(cr, legend->x, legend->y, SWATCH, SWATCH);
	plot_set_color(legend->plot, color);
	cairo_fill_preserve(cr);
	plot_set_color(legend->plot, plot_faint);
	cairo_set_line_width(cr, 0.7);
	cairo_stroke(cr);
	entry_text(legend, name, note);
}

static void
line_entry(struct legend *legend, double width, const char *name, const char *note)
{
	cairo_t *cr = legend->plot->cr;

	plot_set_color(legend->plot, plot_ink);
	cairo_set_line_width(cr, width);
	cairo_move_to(cr, legend->x, legend->y + SWATCH / 2);
	cairo_line_to(cr, legend->x + SWATCH, legend->y + SWATCH / 2);
	cairo_stroke(cr);
	entry_text(legend, name, note);
}

static char *
share_note(const struct legend *legend, char *buffer, size_t size, uint64_t bytes, uint64_t all)
{
	char amount[UNITS_MAX], share[UNITS_MAX];

	snprintf(buffer, size, "%s %s, %s", units_bytes(amount, bytes),
		 picture_is_of_peak(legend->plot->picture) ? "at the peak" : "then",
		 units_percent(share, bytes, all));
	return buffer;
}

/* Blocks of no layer may be seen though they hold nothing at the peak. */
static bool
has_others(const struct plot *plot)
{
	const uint64_t *count = plot->picture->scene->sizes.layer_count[plot->layers->by][LAYER_OTHER];

	for (unsigned i = 0; i < SCENE_SIZES; i++)
		if (count[i] > 0)
			return true;
	return false;
}

static void
layer_entries(struct legend *legend)
{
	const struct layers *layers = legend->plot->layers;
	uint64_t held[SERIES_LAYERS], all = picture_held(legend->plot->picture, held), rest = all;
	char note[128], name[64];

	for (size_t i = 0; i < layers->count; i++)
		rest -= held[i] < rest ? held[i] : rest;
	snprintf(name, sizeof name, "all other %ss", scene_by_names[layers->by]);
	if (rest > 0 || layers->count == 0 || has_others(legend->plot))
		area_entry(legend, plot_other, layers->count > 0 ? name : "live",
			   share_note(legend, note, sizeof note, rest, all));
	for (size_t i = layers->count; i > 0; i--)
		area_entry(legend, plot_layer_color(i - 1), layers->at[i - 1].name,
			   share_note(legend, note, sizeof note, held[i - 1], all));
}

static void
timeline_entries(struct legend *legend)
{
	const struct replay_result *result = legend->plot->report->result;
	char size[UNITS_MAX], note[128];

	snprintf(note, sizeof note, "peak %s", units_bytes(size, result->peak_reserved));
	line_entry(legend, 2.5, "reserved", note);
	snprintf(note, sizeof note, "%s at the peak of live bytes",
		 units_bytes(size, result->at_peak.free_but_held));
	area_entry(legend, plot_held, "free but held", note);
}

static void
bar_entries(struct legend *legend)
{
	const struct picture *picture = legend->plot->picture;
	const struct scene_map *map = &picture->scene->maps[picture->when];
	uint64_t free_bytes = 0, pending = 0;
	char size[UNITS_MAX], note[128];

	for (size_t i = 0; i < map->extent_count; i++) {
		free_bytes += map->extents[i].kind == EXTENT_FREE ? map->extents[i].size : 0;
		pending += map->extents[i].kind == EXTENT_PENDING ? map->extents[i].size : 0;
	}
	snprintf(note, sizeof note, "%s", units_bytes(size, free_bytes));
	area_entry(legend, plot_held, "free but held", note);
	snprintf(note, sizeof note, "%s", units_bytes(size, pending));
	if (pending > 0)
		area_entry(legend, plot_pending, "freed, not known to have executed", note);
}

void
plot_draw_legend(const struct plot *plot, double x, double y, double width)
{
	struct legend legend = { plot, x, y, width };
	char note[PICTURE_NOTE_MAX];

	switch (plot->picture->kind) {
	case PICTURE_TIMELINE:
		timeline_entries(&legend);
		break;
	case PICTURE_MAP:
		bar_entries(&legend);
		break;
	case PICTURE_MEMORY:
		area_entry(&legend, plot_held, "reserved", "and not live");
		break;
	case PICTURE_SIZES:
		break;
	}
	layer_entries(&legend);
	picture_note(note, plot->picture);
	plot_set_font(plot, FONT_SMALL, false);
	plot_set_color(plot, plot_faint);
	plot_paragraph(plot, x, legend.y + 24, width, note);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of the sizes of all blocks: how many there were, and how many bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/report/plot.h"
#include "tools/units.h"

#define PANEL_GAP 40.0
#define BAR_SHARE 0.82 /* of the distance between bars */
#define LABEL_GAP 12.0
#define FONT_VALUE (FONT_SMALL - 2)
#define HEADROOM 1.14         /* for the value above the highest bar */
#define HEADROOM_UPRIGHT 1.28

struct panel {
	const struct plot *plot;
	const char *title;
	const uint64_t *all;                         /* by bucket */
	const uint64_t (*by_layer)[SCENE_SIZES];
	double top, height;
	unsigned first, count; /* buckets */
	bool bytes;
	bool upright; /* the values */
};

static double
pitch_of(const struct panel *panel)
{
	double pitch = panel->plot->width / panel->count;

	return pitch < 90 ? pitch : 90;
}

static uint64_t
highest(const struct panel *panel)
{
	uint64_t most = 1;

	for (unsigned i = 0; i < panel->count; i++)
		most = panel->all[panel->first + i] > most ? panel->all[panel->first + i] : most;
	return most;
}

/* Short: it has to fit over a bar. */
static void
value_text(char *text, size_t size, const struct panel *panel, uint64_t value)
{
	if (panel->bytes && value >= 1024)
		text[strcspn(units_bytes(text, value), "i")] = '\0'; /* "6.36 G" */
	else if (panel->bytes)
		units_bytes(text, value);
	else if (value < 100000)
		units_count(text, value);
	else if (value < 10000000)
		snprintf(text, size, "%" PRIu64 "k", value / 1000);
	else
		snprintf(text, size, "%" PRIu64 "M", value / 1000000);
}

/* Whether every value fits over its own bar, with nothing of its neighbours': else all are upright. */
static bool
values_fit(const struct panel *panel)
{
	char text[UNITS_MAX];

	plot_set_font(panel->plot, FONT_VALUE, false);
	for (unsigned i = 0; i < panel->count; i++) {
		value_text(text, sizeof text, panel, panel->all[panel->first + i]);
		if (panel->all[panel->first + i] > 0 && plot_text_width(panel->plot, text) > pitch_of(panel) - 2)
			return false;
	}
	return true;
}

static void
draw_value(const struct panel *panel, double x, double y, uint64_t value)
{
	const struct plot *plot = panel->plot;
	char text[UNITS_MAX];

	if (value == 0)
		return;
	value_text(text, sizeof text, panel, value);
	plot_set_font(plot, FONT_VALUE, false);
	plot_set_color(plot, plot_faint);
	if (!panel->upright) {
		plot_text(plot, x, y, 0.5, text);
		return;
	}
	cairo_save(plot->cr);
	cairo_translate(plot->cr, x + FONT_VALUE / 3, y);
	cairo_rotate(plot->cr, -1.5707963);
	plot_text(plot, 0, 0, 0, text);
	cairo_restore(plot->cr);
}

static void
draw_bar(const struct panel *panel, unsigned index, double scale)
{
	const struct plot *plot = panel->plot;
	double pitch = pitch_of(panel), x = plot->left + pitch * (index + (1 - BAR_SHARE) / 2);
	double y = panel->top + panel->height;

	for (size_t layer = 0; layer <= LAYER_OTHER; layer++) {
		double height = (double)panel->by_layer[layer][panel->first + index] * scale;

		y -= height;
		if (height > 0)
			plot_rectangle(plot, x, y, pitch * BAR_SHARE, height, plot_layer_color(layer));
	}
	draw_value(panel, x + pitch * BAR_SHARE / 2, y - 5, panel->all[panel->first + index]);
}

/* How many bars are between two labels, so that the widest of them has room. */
static unsigned
label_step(const struct panel *panel)
{
	double widest = 0;
	char text[UNITS_MAX];

	for (unsigned i = 0; i <= panel->count; i++) {
		double width = plot_text_width(panel->plot, units_power(text, panel->first + i));

		widest = width > widest ? width : widest;
	}
	return (unsigned)((widest + LABEL_GAP) / pitch_of(panel)) + 1;
}

static void
draw_sizes_axis(const struct panel *panel)
{
	const struct plot *plot = panel->plot;
	char text[UNITS_MAX];

	plot_set_font(plot, FONT_SMALL - 1, false);
	plot_set_color(plot, plot_ink);
	for (unsigned i = 0, step = label_step(panel); i <= panel->count; i += step)
		plot_text(plot, plot->left + pitch_of(panel) * i, panel->top + panel->height + 19, 0.5,
			  units_power(text, panel->first + i));
}

static void
draw_panel(struct panel *panel)
{
	const struct plot *plot = panel->plot;
	double scale;

	panel->upright = !values_fit(panel);
	scale = panel->height / ((double)highest(panel) * (panel->upright ? HEADROOM_UPRIGHT : HEADROOM));
	for (unsigned i = 0; i < panel->count; i++)
		draw_bar(panel, i, scale);
	plot_set_color(plot, plot_ink);
	cairo_set_line_width(plot->cr, 1.2);
	cairo_move_to(plot->cr, plot->left, panel->top);
	cairo_line_to(plot->cr, plot->left, panel->top + panel->height);
	cairo_line_to(plot->cr, plot->left + plot->width, panel->top + panel->height);
	cairo_stroke(plot->cr);
	draw_sizes_axis(panel);
	plot_set_font(plot, FONT_TEXT, false);
	plot_set_color(plot, plot_ink);
	cairo_save(plot->cr);
	cairo_translate(plot->cr, plot->left - 18, panel->top + panel->height / 2);
	cairo_rotate(plot->cr, -1.5707963);
	plot_text(plot, 0, 0, 0.5, panel->title);
	cairo_restore(plot->cr);
}

static void
find_buckets(struct panel *panel)
{
	unsigned last = 0;

	panel->first = SCENE_SIZES;
	for (unsigned i = 0; i < SCENE_SIZES; i++)
		if (panel->all[i] > 0) {
			panel->first = panel->first < i ? panel->first : i;
			last = i;
		}
	panel->first = panel->first < SCENE_SIZES ? panel->first : 0;
	panel->count = last - panel->first + 1;
}

void
plot_draw_sizes(const struct plot *plot)
{
	const struct scene_sizes *sizes = &plot->picture->scene->sizes;
	enum scene_by by = plot->layers->by;
	double height = (plot->height - PANEL_GAP) / 2;
	struct panel counts = { .plot = plot,
				.title = "blocks",
				.all = sizes->count,
				.by_layer = sizes->layer_count[by],
				.top = plot->top,
				.height = height };
	struct panel bytes;

	find_buckets(&counts);
	bytes = counts;
	bytes.title = "bytes";
	bytes.all = sizes->bytes;
	bytes.by_layer = sizes->layer_bytes[by];
	bytes.top = plot->top + height + PANEL_GAP;
	bytes.bytes = true;
	draw_panel(&counts);
	draw_panel(&bytes);
	plot_set_font(plot, FONT_TEXT, false);
	plot_text(plot, plot->left + plot->width / 2, plot->top + plot->height + 50, 0.5,
		  "size requested, over all blocks of the trace");
}

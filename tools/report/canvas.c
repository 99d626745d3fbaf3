/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours, text and coordinates of the picture.
 */
#include "tools/report/plot.h"

#include <stdio.h>
#include <string.h>

const struct color plot_ink = { 0.10, 0.11, 0.13 };
const struct color plot_faint = { 0.36, 0.38, 0.41 };
const struct color plot_alarm = { 0.80, 0.10, 0.12 };
const struct color plot_held = { 0.93, 0.94, 0.95 };
const struct color plot_other = { 0.73, 0.75, 0.78 };
const struct color plot_pending = { 0.98, 0.87, 0.62 };

/* Paul Tol's "bright" scheme and two more: told apart with any kind of colour vision. */
static const struct color layers[SERIES_LAYERS] = {
	{ 0.27, 0.47, 0.67 }, /* blue */
	{ 0.40, 0.80, 0.93 }, /* cyan */
	{ 0.13, 0.53, 0.20 }, /* green */
	{ 0.80, 0.73, 0.27 }, /* yellow */
	{ 0.93, 0.40, 0.47 }, /* red */
	{ 0.67, 0.20, 0.47 }, /* purple */
	{ 0.40, 0.76, 0.65 }, /* mint */
	{ 0.20, 0.13, 0.53 }, /* indigo */
};

struct color
plot_layer_color(size_t layer)
{
	return layer < SERIES_LAYERS ? layers[layer] : plot_other;
}

void
plot_set_color(const struct plot *plot, struct color color)
{
	cairo_set_source_rgb(plot->cr, color.red, color.green, color.blue);
}

void
plot_set_font(const struct plot *plot, double size, bool bold)
{
	cairo_select_font_face(plot->cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
			       bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
	cairo_set_font_size(plot->cr, size);
}

void
plot_rectangle(const struct plot *plot, double x, double y, double width, double height, struct color color)
{
	cairo_rectangle(plot->cr, x, y, width, height);
	plot_set_color(plot, color);
	cairo_fill(plot->cr);
}

double
plot_text_width(const struct plot *plot, const char *text)
{
	cairo_text_extents_t extents;

	cairo_text_extents(plot->cr, text, &extents);
	return extents.x_advance;
}

void
plot_text(const struct plot *plot, double x, double y, double align, const char *text)
{
	cairo_move_to(plot->cr, x - align * plot_text_width(plot, text), y);
	cairo_show_text(plot->cr, text);
	cairo_new_path(plot->cr);
}

#define LINE_HEIGHT 18.0
#define LINE_MAX_LENGTH 256

double
plot_paragraph(const struct plot *plot, double x, double y, double width, const char *text)
{
	char line[LINE_MAX_LENGTH] = "";
	size_t used = 0;

	while (*text != '\0') {
		size_t word = strcspn(text, " "), gap = used > 0;

		if (used + gap + word >= sizeof line)
			break;
		snprintf(line + used, sizeof line - used, "%s%.*s", gap ? " " : "", (int)word, text);
		if (gap && plot_text_width(plot, line) > width) {
			line[used] = '\0';
			plot_text(plot, x, y, 0, line);
			y += LINE_HEIGHT;
			used = 0;
			continue;
		}
		used += gap + word;
		text += word;
		text += strspn(text, " ");
	}
	plot_text(plot, x, y, 0, line);
	return y + LINE_HEIGHT;
}

double
plot_x(const struct plot *plot, uint64_t x)
{
	const struct series *series = plot->series;
	double share = x > series->x_first ? (double)(x - series->x_first) / (double)series->x_span : 0;

	return plot->left + plot->width * (share < 1 ? share : 1);
}

double
plot_y(const struct plot *plot, double bytes)
{
	return plot->top + plot->height * (1 - bytes / plot->y_max);
}

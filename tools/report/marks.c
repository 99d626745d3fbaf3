/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the picture points at: the peak, the capacity, and where memory ran out.
 * Lines first, then the labels, so that no line crosses a text.
 */
#include <stdio.h>

#include "tools/report/plot.h"
#include "tools/units.h"

#define BOX_HEIGHT (FONT_TEXT + 10)

/* Dark dashes on a light line: seen on every colour. */
static void
dashed_line(const struct plot *plot, double x0, double y0, double x1, double y1, struct color color)
{
	static const double dashes[] = { 6, 4 };

	cairo_move_to(plot->cr, x0, y0);
	cairo_line_to(plot->cr, x1, y1);
	cairo_set_source_rgba(plot->cr, 1, 1, 1, 0.75);
	cairo_set_line_width(plot->cr, 2.4);
	cairo_stroke_preserve(plot->cr);
	plot_set_color(plot, color);
	cairo_set_line_width(plot->cr, 1.6);
	cairo_set_dash(plot->cr, dashes, 2, 0);
	cairo_stroke(plot->cr);
	cairo_set_dash(plot->cr, NULL, 0, 0);
}

/* Centred on x and standing on y, kept between the axes. */
static void
boxed_text(const struct plot *plot, double x, double y, const char *text, struct color color)
{
	double width = plot_text_width(plot, text) + 12;
	double left = x - width / 2, right_edge = plot->left + plot->width;

	if (left + width > right_edge)
		left = right_edge - width;
	if (left < plot->left + 4)
		left = plot->left + 4;
	cairo_rectangle(plot->cr, left, y - BOX_HEIGHT, width, BOX_HEIGHT);
	cairo_set_source_rgb(plot->cr, 1, 1, 1);
	cairo_fill_preserve(plot->cr);
	plot_set_color(plot, color);
	cairo_set_line_width(plot->cr, 1);
	cairo_stroke(plot->cr);
	plot_text(plot, left + 6, y - 8, 0, text);
}

static bool
shows_capacity(const struct plot *plot)
{
	uint64_t capacity = plot->report->options->capacity;

	return capacity > 0 && (double)capacity <= plot->y_max;
}

static double
capacity_y(const struct plot *plot)
{
	return plot_y(plot, (double)plot->report->options->capacity);
}

/* Above what is reserved at most, and clear of the capacity's line. */
static double
peak_label_y(const struct plot *plot)
{
	double y = plot_y(plot, (double)plot->report->result->peak_reserved) - 8;

	if (shows_capacity(plot) && y - BOX_HEIGHT - 4 < capacity_y(plot))
		return capacity_y(plot) - 6;
	return y;
}

static double
failure_x(const struct plot *plot, const struct picture_failure *failure)
{
	return plot_x(plot, plot->series->x_first + failure->x);
}

static void
draw_lines(const struct plot *plot)
{
	const struct replay_result *result = plot->report->result;
	double bottom = plot->top + plot->height;
	double peak = plot_x(plot, result->peak_x);
	struct picture_failure failure;

	if (shows_capacity(plot))
		dashed_line(plot, plot->left, capacity_y(plot), plot->left + plot->width, capacity_y(plot),
			    plot_alarm);
	dashed_line(plot, peak, peak_label_y(plot), peak, bottom, plot_ink);
	if (picture_failure(plot->picture, &failure))
		dashed_line(plot, failure_x(plot, &failure), plot->top, failure_x(plot, &failure), bottom,
			    plot_alarm);
}

static void
draw_peak(const struct plot *plot)
{
	const struct replay_result *result = plot->report->result;
	double x = plot_x(plot, result->peak_x);
	char size[UNITS_MAX], text[96];

	cairo_new_path(plot->cr);
	cairo_arc(plot->cr, x, plot_y(plot, (double)result->peak_live_requested), 5.5, 0, 6.2832);
	cairo_set_source_rgb(plot->cr, 1, 1, 1);
	cairo_fill_preserve(plot->cr);
	plot_set_color(plot, plot_ink);
	cairo_set_line_width(plot->cr, 2);
	cairo_stroke(plot->cr);
	snprintf(text, sizeof text, "peak live %s", units_bytes(size, result->peak_live_requested));
	plot_set_font(plot, FONT_TEXT, true);
	boxed_text(plot, x, peak_label_y(plot), text, plot_ink);
}

/* At the end that the peak is not at. */
static void
draw_capacity(const struct plot *plot)
{
	bool peak_is_right = plot_x(plot, plot->report->result->peak_x) > plot->left + plot->width / 2;
	char size[UNITS_MAX], text[96];

	if (!shows_capacity(plot))
		return;
	snprintf(text, sizeof text, "capacity %s", units_bytes(size, plot->report->options->capacity));
	plot_set_font(plot, FONT_TEXT, false);
	plot_set_color(plot, plot_alarm);
	plot_text(plot, peak_is_right ? plot->left + 8 : plot->left + plot->width - 4, capacity_y(plot) - 7,
		  peak_is_right ? 0 : 1, text);
}

static void
draw_failure(const struct plot *plot)
{
	struct picture_failure failure;
	char size[UNITS_MAX], text[96];

	if (!picture_failure(plot->picture, &failure))
		return;
	snprintf(text, sizeof text, "%s: %s requested", failure.recorded ? "recorded failure" : "out of memory",
		 units_bytes(size, failure.requested));
	plot_set_font(plot, FONT_TEXT, true);
	boxed_text(plot, failure_x(plot, &failure), plot->top + plot->height - 12, text, plot_alarm);
}

void
plot_draw_marks(const struct plot *plot)
{
	draw_lines(plot);
	draw_capacity(plot);
	draw_failure(plot);
	draw_peak(plot);
}

void
plot_draw_moment(const struct plot *plot, uint64_t x, const char *text)
{
	double at = plot_x(plot, plot->series->x_first + x);

	dashed_line(plot, at, plot->top, at, plot->top + plot->height, plot_ink);
	plot_set_font(plot, FONT_TEXT, true);
	boxed_text(plot, at, plot->top - 2, text, plot_ink);
}

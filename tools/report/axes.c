/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The axes: round ticks in the unit that people would choose, with a grid.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/report/plot.h"
#include "tools/units.h"

#define Y_TICKS 6
#define X_TICKS 8
#define HEADROOM 1.12 /* for the peak's label */

double
plot_nice_step(double span, unsigned count)
{
	double raw = span / count;
	double power = pow(10, floor(log10(raw)));

	if (raw <= power)
		return power;
	if (raw <= 2 * power)
		return 2 * power;
	if (raw <= 5 * power)
		return 5 * power;
	return 10 * power;
}

struct unit {
	const char *name;
	double size;
};

static struct unit
unit_of_bytes(double bytes)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	size_t power = 0;
	double size = 1;

	/* 1.5 GiB reads better than 1536 MiB; 0.7 GiB does not. */
	while (bytes / size >= 1024 && power + 1 < sizeof names / sizeof names[0]) {
		size *= 1024;
		power++;
	}
	return (struct unit){ names[power], size };
}

static struct unit
unit_of_time(double ns)
{
	static const struct unit units[] = { { "h", 3600e9 }, { "min", 60e9 }, { "s", 1e9 },
					     { "ms", 1e6 },   { "µs", 1e3 },   { "ns", 1 } };
	size_t i = 0;

	/* 90 s reads better than 1.5 min; 1.5 s better than 1500 ms. */
	while (i + 1 < sizeof units / sizeof units[0] && ns < (i < 2 ? 2 : 1) * units[i].size)
		i++;
	return units[i];
}

double
plot_nice_max(uint64_t bytes)
{
	return bytes > 0 ? (double)bytes * HEADROOM : 1;
}

/* As many decimals as the step has, so that all labels of an axis look alike. */
static int
decimals_of(double step)
{
	int decimals = 0;

	for (; decimals < 6 && fabs(step - round(step)) > 1e-6 * step; decimals++)
		step *= 10;
	return decimals;
}

/* Over the areas, so that heights can be read there. */
void
plot_grid_line(const struct plot *plot, double y)
{
	cairo_set_source_rgba(plot->cr, plot_ink.red, plot_ink.green, plot_ink.blue, 0.13);
	cairo_set_line_width(plot->cr, 1);
	cairo_move_to(plot->cr, plot->left, y);
	cairo_line_to(plot->cr, plot->left + plot->width, y);
	cairo_stroke(plot->cr);
}

void
plot_y_title(const struct plot *plot, const char *text)
{
	plot_set_font(plot, FONT_TEXT, false);
	plot_set_color(plot, plot_ink);
	cairo_save(plot->cr);
	cairo_translate(plot->cr, 28, plot->top + plot->height / 2);
	cairo_rotate(plot->cr, -M_PI / 2);
	plot_text(plot, 0, 0, 0.5, text);
	cairo_restore(plot->cr);
}

static void
draw_y_axis(const struct plot *plot)
{
	struct unit unit = unit_of_bytes(plot->y_max / HEADROOM);
	double step = plot_nice_step(plot->y_max / unit.size, Y_TICKS);
	char text[64];

	plot_set_font(plot, FONT_TEXT, false);
	for (unsigned i = 0; i * step * unit.size <= plot->y_max; i++) {
		double y = plot_y(plot, i * step * unit.size);

		plot_grid_line(plot, y);
		snprintf(text, sizeof text, "%.*f", decimals_of(step), i * step);
		plot_set_color(plot, plot_ink);
		plot_text(plot, plot->left - 10, y + 5, 1, text);
	}
	snprintf(text, sizeof text, "memory (%s)", unit.name);
	plot_y_title(plot, text);
}

static void
x_label(char *buffer, size_t size, double value, double step, bool counts)
{
	char count[UNITS_MAX];

	if (!counts)
		snprintf(buffer, size, "%.*f", decimals_of(step), value);
	else
		snprintf(buffer, size, "%s", units_count(count, (uint64_t)value));
}

static void
x_tick(const struct plot *plot, double x, const char *text)
{
	double bottom = plot->top + plot->height;

	plot_set_color(plot, plot_ink);
	cairo_set_line_width(plot->cr, 1);
	cairo_move_to(plot->cr, x, bottom);
	cairo_line_to(plot->cr, x, bottom + 6);
	cairo_stroke(plot->cr);
	plot_text(plot, x, bottom + 23, 0.5, text);
}

void
plot_draw_x_axis(const struct plot *plot)
{
	const struct series *series = plot->series;
	double span = (double)series->x_span;
	bool counts = !series->by_time || !trace_has_clock(plot->report->reader);
	struct unit unit = counts ? (struct unit){ "events", 1 } : unit_of_time(span);
	double step = plot_nice_step(span / unit.size, X_TICKS);
	char text[64];

	if (counts && step < 1)
		step = 1;
	plot_set_font(plot, FONT_TEXT, false);
	for (unsigned i = 0; i * step * unit.size <= span; i++) {
		x_label(text, sizeof text, i * step, step, counts);
		x_tick(plot, plot->left + plot->width * (i * step * unit.size / span), text);
	}
	if (counts)
		snprintf(text, sizeof text, series->by_time ? "time (moments of the trace)" : "events");
	else
		snprintf(text, sizeof text, "time (%s)", unit.name);
	plot_text(plot, plot->left + plot->width / 2, plot->top + plot->height + 50, 0.5, text);
}

void
plot_draw_frame(const struct plot *plot)
{
	plot_set_color(plot, plot_ink);
	cairo_set_line_width(plot->cr, 1.2);
	cairo_move_to(plot->cr, plot->left, plot->top);
	cairo_line_to(plot->cr, plot->left, plot->top + plot->height);
	cairo_line_to(plot->cr, plot->left + plot->width, plot->top + plot->height);
	cairo_stroke(plot->cr);
}

void
plot_draw_axes(const struct plot *plot)
{
	draw_y_axis(plot);
	plot_draw_x_axis(plot);
	plot_draw_frame(plot);
}

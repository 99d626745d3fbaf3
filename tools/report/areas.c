/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The curves: live bytes stacked by holder, and reserved above them.
 */
#include "tools/report/plot.h"

/* Sum of the first `layers` layers; all live bytes for more than there are. */
static double
stacked(const struct series *series, const struct series_column *column, size_t layers)
{
	uint64_t sum = 0;

	if (layers > series->layer_count)
		return (double)column->live;
	for (size_t i = 0; i < layers; i++)
		sum += column->layer[i];
	return (double)(sum < column->live ? sum : column->live);
}

#define RESERVED_LEVEL SIZE_MAX

static double
level(const struct series *series, const struct series_column *column, size_t layers)
{
	return layers == RESERVED_LEVEL ? (double)column->reserved : stacked(series, column, layers);
}

/* The outline of one level, in steps, from left to right. */
static void
trace_level(const struct plot *plot, size_t layers)
{
	const struct series *series = plot->series;
	double step = plot->width / (double)series->column_count, last = 0;

	for (size_t i = 0; i < series->column_count; i++) {
		double bytes = level(series, &series->columns[i], layers);
		double x = plot->left + step * (double)i;

		if (i > 0 && bytes == last)
			continue;
		if (i > 0)
			cairo_line_to(plot->cr, x, plot_y(plot, last));
		cairo_line_to(plot->cr, x, plot_y(plot, bytes));
		last = bytes;
	}
	cairo_line_to(plot->cr, plot->left + plot->width, plot_y(plot, last));
}

static void
fill_level(const struct plot *plot, size_t layers, struct color color)
{
	double bottom = plot->top + plot->height;

	cairo_move_to(plot->cr, plot->left, bottom);
	trace_level(plot, layers);
	cairo_line_to(plot->cr, plot->left + plot->width, bottom);
	cairo_close_path(plot->cr);
	plot_set_color(plot, color);
	cairo_fill(plot->cr);
}

static void
stroke_level(const struct plot *plot, size_t layers, double width)
{
	cairo_new_path(plot->cr);
	trace_level(plot, layers);
	plot_set_color(plot, plot_ink);
	cairo_set_line_width(plot->cr, width);
	cairo_stroke(plot->cr);
}

/* From the highest level down: each covers the lower part of the one before, so that
 * no seams show. */
void
plot_draw_areas(const struct plot *plot)
{
	size_t layers = plot->series->layer_count;

	fill_level(plot, RESERVED_LEVEL, plot_held);
	fill_level(plot, layers + 1, plot_other);
	for (size_t i = layers; i > 0; i--)
		fill_level(plot, i, plot_layer_color(i - 1));
	stroke_level(plot, layers + 1, 1);
	stroke_level(plot, RESERVED_LEVEL, 2);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of a replay, as SVG or PNG.
 */
#include "tools/report/plot.h"

#include <cairo-svg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tools/units.h"

/* A PNG is drawn larger than its logical size, so that text stays sharp. */
#define PNG_SCALE 1.5

enum plot_format
plot_format_of(const char *path)
{
	const char *dot = strrchr(path, '.');

	if (dot == NULL)
		return PLOT_NONE;
	if (strcasecmp(dot, ".svg") == 0)
		return PLOT_SVG;
	return strcasecmp(dot, ".png") == 0 ? PLOT_PNG : PLOT_NONE;
}

static void
draw_title(const struct plot *plot)
{
	const struct report *report = plot->report;
	const struct replay_result *result = report->result;
	const char *slash = strrchr(report->path, '/');
	char peak[UNITS_MAX], reserved[UNITS_MAX], share[UNITS_MAX], text[256];

	plot_set_color(plot, plot_ink);
	plot_set_font(plot, FONT_TITLE, true);
	plot_text(plot, plot->left, 38, 0, slash != NULL ? slash + 1 : report->path);
	snprintf(text, sizeof text, "policy %s, device %d: peak %s live, %s reserved, utilisation %s",
		 result->policy->name, (int)result->device, units_bytes(peak, result->peak_live_requested),
		 units_bytes(reserved, result->peak_reserved),
		 units_percent(share, result->peak_live_requested, result->peak_reserved));
	plot_set_font(plot, FONT_TEXT, false);
	plot_set_color(plot, plot_faint);
	plot_text(plot, plot->left, 62, 0, text);
}

/* The highest thing to be seen; a capacity far above everything is left out. */
static uint64_t
highest(const struct report *report)
{
	uint64_t reserved = report->result->peak_reserved, capacity = report->options->capacity;

	return capacity > reserved && capacity < reserved + reserved / 2 ? capacity : reserved;
}

static void
draw(cairo_t *cr, const struct report *report)
{
	struct plot plot = {
		.cr = cr,
		.report = report,
		.series = &report->result->series,
		.left = 96,
		.top = 84,
		.width = 810,
		.height = PLOT_HEIGHT - 84 - 76,
		.y_max = plot_nice_max(highest(report)),
	};

	cairo_set_source_rgb(cr, 1, 1, 1);
	cairo_paint(cr);
	draw_title(&plot);
	plot_draw_areas(&plot);
	plot_draw_axes(&plot);
	plot_draw_marks(&plot);
	plot_draw_legend(&plot, plot.left + plot.width + 28, plot.top + 4,
			 PLOT_WIDTH - plot.left - plot.width - 44);
}

static cairo_status_t
draw_on(cairo_surface_t *surface, double scale, const struct report *report)
{
	cairo_t *cr = cairo_create(surface);
	cairo_status_t status;

	cairo_scale(cr, scale, scale);
	draw(cr, report);
	status = cairo_status(cr);
	cairo_destroy(cr);
	return status;
}

const char *
report_plot(const char *path, const struct report *report)
{
	bool svg = plot_format_of(path) == PLOT_SVG;
	cairo_surface_t *surface =
		svg ? cairo_svg_surface_create(path, PLOT_WIDTH, PLOT_HEIGHT)
		    : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(PLOT_WIDTH * PNG_SCALE),
						 (int)(PLOT_HEIGHT * PNG_SCALE));
	cairo_status_t status = draw_on(surface, svg ? 1 : PNG_SCALE, report);

	if (status == CAIRO_STATUS_SUCCESS && !svg)
		status = cairo_surface_write_to_png(surface, path);
	cairo_surface_finish(surface);
	if (status == CAIRO_STATUS_SUCCESS)
		status = cairo_surface_status(surface);
	cairo_surface_destroy(surface);
	return status == CAIRO_STATUS_SUCCESS ? NULL : cairo_status_to_string(status);
}

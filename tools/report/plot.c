/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of a replay, as SVG or PNG.
 */
#include "tools/report/plot.h"

#include <cairo-svg.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tools/units.h"
#include "tools/xalloc.h"

/* A PNG is drawn larger than its logical size, so that text stays sharp. */
#define PNG_SCALE 1.5

#define TITLE_MAX_LENGTH 90

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
	char peak[UNITS_MAX], reserved[UNITS_MAX], share[UNITS_MAX], text[4 * TITLE_MAX_LENGTH + 1];

	plot_set_color(plot, plot_ink);
	plot_set_font(plot, FONT_TITLE, true);
	report_shorten(text, sizeof text, slash != NULL ? slash + 1 : report->path, TITLE_MAX_LENGTH);
	plot_text(plot, plot->left, 38, 0, text);
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

/* ---- the file ------------------------------------------------------------ */

static cairo_status_t
write_bytes(void *file, const unsigned char *data, unsigned length)
{
	return fwrite(data, 1, length, file) == length ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

static cairo_status_t
write_picture(FILE *file, bool svg, const struct report *report)
{
	cairo_surface_t *surface =
		svg ? cairo_svg_surface_create_for_stream(write_bytes, file, PLOT_WIDTH, PLOT_HEIGHT)
		    : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(PLOT_WIDTH * PNG_SCALE),
						 (int)(PLOT_HEIGHT * PNG_SCALE));
	cairo_status_t status = draw_on(surface, svg ? 1 : PNG_SCALE, report);

	if (status == CAIRO_STATUS_SUCCESS && !svg)
		status = cairo_surface_write_to_png_stream(surface, write_bytes, file);
	cairo_surface_finish(surface);
	if (status == CAIRO_STATUS_SUCCESS)
		status = cairo_surface_status(surface);
	cairo_surface_destroy(surface);
	return status;
}

static const char *
write_file(const char *path, bool svg, const struct report *report)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
	cairo_status_t status;
	const char *problem;

	if (file == NULL)
		return strerror(errno);
	errno = 0;
	status = write_picture(file, svg, report);
	if (fclose(file) == 0 && status == CAIRO_STATUS_SUCCESS)
		return NULL;
	problem = status == CAIRO_STATUS_SUCCESS || status == CAIRO_STATUS_WRITE_ERROR
			  ? strerror(errno != 0 ? errno : EIO)
			  : cairo_status_to_string(status);
	unlink(path);
	return problem;
}

/* Written beside its place and then renamed: what stands there is a whole picture, or
 * what was there before. */
const char *
report_plot(const char *path, const struct report *report)
{
	size_t size = strlen(path) + 32;
	char *beside = xcalloc(size, 1);
	const char *problem;

	snprintf(beside, size, "%s.%ld.tmp", path, (long)getpid());
	problem = write_file(beside, plot_format_of(path) == PLOT_SVG, report);
	if (problem == NULL && rename(beside, path) != 0) {
		problem = strerror(errno);
		unlink(beside);
	}
	free(beside);
	return problem;
}

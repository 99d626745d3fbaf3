/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture as a file: the canvas of SVG and PNG, and the writing of all of them.
 */
#include "tools/report/plot.h"

#include <cairo-svg.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/units.h"
#include "tools/xalloc.h"

/* A PNG is drawn larger than its logical size, so that text stays sharp. */
#define PNG_SCALE 1.5

#define TITLE_MAX_LENGTH 90

#define TOP 84.0    /* of the axes, below the title */
#define BOTTOM 76.0 /* below them */
#define LABEL 26.0  /* above them, where there is a label */

static void
describe(const struct plot *plot, char *text, size_t size)
{
	const struct replay_result *result = plot->report->result;
	const struct picture *picture = plot->picture;
	const struct scene_map *map = &picture->scene->maps[picture->when];
	char peak[UNITS_MAX], reserved[UNITS_MAX], share[UNITS_MAX], count[UNITS_MAX], when[PICTURE_WHEN_MAX];

	if (picture->kind == PICTURE_MAP)
		snprintf(text, size, "policy %s, device %d, %s: %s live, %s reserved in %s",
			 result->policy->name, (int)result->device, picture_when(when, picture, picture->when),
			 units_bytes(peak, map->live), units_bytes(reserved, map->reserved),
			 units_plural(count, map->segment_count, "segment"));
	else
		snprintf(text, size, "policy %s, device %d: peak %s live, %s reserved, utilisation %s",
			 result->policy->name, (int)result->device,
			 units_bytes(peak, result->peak_live_requested),
			 units_bytes(reserved, result->peak_reserved),
			 units_percent(share, result->peak_live_requested, result->peak_reserved));
}

static void
draw_title(const struct plot *plot)
{
	const struct report *report = plot->report;
	const char *slash = strrchr(report->path, '/');
	char text[4 * TITLE_MAX_LENGTH + 1];

	plot_set_color(plot, plot_ink);
	plot_set_font(plot, FONT_TITLE, true);
	report_shorten(text, sizeof text, slash != NULL ? slash + 1 : report->path, TITLE_MAX_LENGTH);
	plot_text(plot, plot->left, 38, 0, text);
	describe(plot, text, sizeof text);
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

/* A failure is, in every timeline. */
static bool
is_marked(const struct picture *picture, uint64_t event)
{
	struct picture_failure failure;

	return picture_failure(picture, &failure) && failure.event == event;
}

/* Whether a line is drawn at the moment, with its label above the axes. */
static bool
marks_moment(const struct picture *picture)
{
	const struct scene_map *map = &picture->scene->maps[picture->when];

	if (!map->taken)
		return false;
	return picture->kind == PICTURE_MEMORY ||
	       (picture->kind == PICTURE_TIMELINE &&
		(picture->when == SCENE_EVENT || picture->when == SCENE_END ||
		 (picture->when == SCENE_OOM && !is_marked(picture, map->event))));
}

static void
draw_timeline(const struct plot *plot)
{
	const struct picture *picture = plot->picture;
	char when[PICTURE_WHEN_MAX];

	plot_draw_areas(plot);
	plot_draw_axes(plot);
	plot_draw_marks(plot);
	if (marks_moment(picture))
		plot_draw_moment(plot, picture->scene->maps[picture->when].x,
				 picture_when(when, picture, picture->when));
}

typedef void draw_function(const struct plot *plot);

static draw_function *const draw_functions[] = {
	[PICTURE_TIMELINE] = draw_timeline,
	[PICTURE_MAP] = plot_draw_bars,
	[PICTURE_MEMORY] = plot_draw_memory,
	[PICTURE_SIZES] = plot_draw_sizes,
};

static void
draw(cairo_t *cr, const struct picture *picture)
{
	struct plot plot = {
		.cr = cr,
		.picture = picture,
		.report = picture->report,
		.series = &picture->scene->series[picture->by],
		.layers = &picture->scene->layers[picture->by],
		.left = 96,
		.top = TOP,
		.width = 810,
		.height = PLOT_HEIGHT - TOP - BOTTOM,
		.y_max = plot_nice_max(highest(picture->report)),
	};

	if (marks_moment(picture) || picture->kind == PICTURE_MAP) {
		plot.top += LABEL;
		plot.height -= LABEL;
	}
	cairo_set_source_rgb(cr, 1, 1, 1);
	cairo_paint(cr);
	draw_title(&plot);
	draw_functions[picture->kind](&plot);
	plot_draw_legend(&plot, plot.left + plot.width + 28, plot.top + 4,
			 PLOT_WIDTH - plot.left - plot.width - 44);
}

static cairo_status_t
draw_on(cairo_surface_t *surface, double scale, const struct picture *picture)
{
	cairo_t *cr = cairo_create(surface);
	cairo_status_t status;

	cairo_scale(cr, scale, scale);
	draw(cr, picture);
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
write_still(FILE *file, bool svg, const struct picture *picture)
{
	cairo_surface_t *surface =
		svg ? cairo_svg_surface_create_for_stream(write_bytes, file, PLOT_WIDTH, PLOT_HEIGHT)
		    : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(PLOT_WIDTH * PNG_SCALE),
						 (int)(PLOT_HEIGHT * PNG_SCALE));
	cairo_status_t status = draw_on(surface, svg ? 1 : PNG_SCALE, picture);

	if (status == CAIRO_STATUS_SUCCESS && !svg)
		status = cairo_surface_write_to_png_stream(surface, write_bytes, file);
	cairo_surface_finish(surface);
	if (status == CAIRO_STATUS_SUCCESS)
		status = cairo_surface_status(surface);
	cairo_surface_destroy(surface);
	return status;
}

static const char *
write_as(FILE *file, enum picture_format format, const struct picture *picture)
{
	cairo_status_t status;

	if (format == PICTURE_HTML)
		return picture_page(file, picture) ? NULL : strerror(errno != 0 ? errno : EIO);
	status = write_still(file, format == PICTURE_SVG, picture);
	if (status == CAIRO_STATUS_SUCCESS)
		return NULL;
	return status == CAIRO_STATUS_WRITE_ERROR ? strerror(errno != 0 ? errno : EIO)
						  : cairo_status_to_string(status);
}

static const char *
write_file(const char *path, enum picture_format format, const struct picture *picture)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
	const char *problem;

	if (file == NULL)
		return strerror(errno);
	errno = 0;
	problem = write_as(file, format, picture);
	if (fclose(file) != 0 && problem == NULL)
		problem = strerror(errno);
	if (problem != NULL)
		unlink(path);
	return problem;
}

/* Written beside its place and then renamed: what stands there is a whole picture, or
 * what was there before. */
const char *
picture_write(const char *path, const struct picture *picture)
{
	size_t size = strlen(path) + 32;
	char *beside = xcalloc(size, 1);
	const char *problem;

	snprintf(beside, size, "%s.%ld.tmp", path, (long)getpid());
	problem = write_file(beside, picture_format_of(path), picture);
	if (problem == NULL && rename(beside, path) != 0) {
		problem = strerror(errno);
		unlink(beside);
	}
	free(beside);
	return problem;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a picture: what is on the canvas, and who draws it.  Everything is
 * in logical units of one canvas size, whatever the file's format.
 */
#ifndef SOMA_TOOLS_REPORT_PLOT_H
#define SOMA_TOOLS_REPORT_PLOT_H

#include <cairo.h>

#include "tools/report/picture.h"

struct color {
	double red, green, blue;
};

struct plot {
	cairo_t *cr;
	const struct picture *picture;
	const struct report *report;
	const struct series *series; /* its axis, and for a timeline its columns */
	const struct layers *layers;
	double left, top, width, height; /* of the area between the axes */
	double y_max;                    /* bytes at its upper edge */
};

#define PLOT_WIDTH 1280.0
#define PLOT_HEIGHT 720.0

#define FONT_TITLE 21.0
#define FONT_TEXT 15.0
#define FONT_SMALL 13.5

extern const struct color plot_ink, plot_faint, plot_alarm, plot_held, plot_other, plot_pending;

/* The colour of a layer; of all others for LAYER_OTHER. */
struct color plot_layer_color(size_t layer);

/* canvas.c */
void plot_set_color(const struct plot *plot, struct color color);
void plot_set_font(const struct plot *plot, double size, bool bold);
double plot_text_width(const struct plot *plot, const char *text);
/* align: 0 starts at x, 0.5 is centred on it, 1 ends there. */
void plot_text(const struct plot *plot, double x, double y, double align, const char *text);
/* Broken between words into lines of at most `width`.  The baseline below the last. */
double plot_paragraph(const struct plot *plot, double x, double y, double width, const char *text);
double plot_x(const struct plot *plot, uint64_t x);
void plot_rectangle(const struct plot *plot, double x, double y, double width, double height,
		    struct color color);
double plot_y(const struct plot *plot, double bytes);

/* axes.c */
double plot_nice_max(uint64_t bytes);
void plot_draw_axes(const struct plot *plot);
void plot_draw_x_axis(const struct plot *plot);
void plot_draw_frame(const struct plot *plot);
void plot_y_title(const struct plot *plot, const char *text);
void plot_grid_line(const struct plot *plot, double y);
/* The least of 1, 2, 5 times a power of ten that gives at most `count` steps. */
double plot_nice_step(double span, unsigned count);

/* areas.c */
void plot_draw_areas(const struct plot *plot);

/* marks.c */
void plot_draw_marks(const struct plot *plot);
/* A line from top to bottom at a moment, and what it is. */
void plot_draw_moment(const struct plot *plot, uint64_t x, const char *text);

/* legend.c */
void plot_draw_legend(const struct plot *plot, double x, double y, double width);

/* memory.c: addresses by time */
void plot_draw_memory(const struct plot *plot);

/* bars.c: the memory at a moment */
void plot_draw_bars(const struct plot *plot);

/* sizes.c: a histogram */
void plot_draw_sizes(const struct plot *plot);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every block as a rectangle: its addresses by its lifetime, over what was reserved.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/report/addresses.h"
#include "tools/report/plot.h"
#include "tools/units.h"

#define LEAST_SIDE 0.6     /* what is smaller would not be seen */
#define LABEL_DISTANCE 19.0 /* of addresses at the axis */
#define STEP_DISTANCE 60.0  /* of those within a part */
#define BORDER_FROM 4.0     /* blocks of this height and width get a border */

struct memory {
	const struct plot *plot;
	struct addresses addresses;
};

static double
y_of(const struct memory *memory, uint64_t address)
{
	const struct plot *plot = memory->plot;

	return plot->top + plot->height * (1 - addresses_at(&memory->addresses, address) / memory->addresses.length);
}

/* Whether it is large enough for a border. */
static bool
add_rectangle(const struct memory *memory, uint64_t address, uint64_t size, uint64_t x0, uint64_t x1)
{
	const struct plot *plot = memory->plot;
	uint64_t origin = plot->series->x_first;
	uint64_t to = size < UINT64_MAX - address ? address + size : UINT64_MAX;
	double left = plot_x(plot, origin + x0);
	double right = x1 == SCENE_AT_END ? plot->left + plot->width : plot_x(plot, origin + x1);
	double bottom = y_of(memory, address), top = y_of(memory, to);

	if (right - left < LEAST_SIDE)
		right = left + LEAST_SIDE;
	if (bottom - top < LEAST_SIDE)
		top = bottom - LEAST_SIDE;
	cairo_rectangle(plot->cr, left, top, right - left, bottom - top);
	return right - left >= BORDER_FROM && bottom - top >= BORDER_FROM;
}

static void
fill(const struct plot *plot, struct color color)
{
	plot_set_color(plot, color);
	cairo_fill(plot->cr);
}

static void
draw_reserved(const struct memory *memory)
{
	const struct scene *scene = memory->plot->picture->scene;

	for (size_t i = 0; i < scene->span_count; i++)
		add_rectangle(memory, scene->span[i].address, scene->span[i].size, scene->span[i].x0,
			      scene->span[i].x1);
	fill(memory->plot, plot_held);
}

/* A layer at a time: one path each, and few changes of colour in the file. */
static void
draw_layer(const struct memory *memory, size_t layer)
{
	const struct plot *plot = memory->plot;
	const struct scene_blocks *blocks = &plot->picture->scene->blocks;

	for (size_t i = 0; i < blocks->count; i++) {
		const struct scene_block *block = &blocks->at[i];
		bool border;

		if (scene_layer(plot->layers, block->key[plot->layers->by]) != layer)
			continue;
		border = add_rectangle(memory, block->ptr, block->size, block->x0, block->x1);
		plot_set_color(plot, plot_layer_color(layer));
		if (border) {
			cairo_fill_preserve(plot->cr);
			cairo_set_source_rgb(plot->cr, 1, 1, 1);
			cairo_set_line_width(plot->cr, 0.5);
			cairo_stroke(plot->cr);
		} else {
			cairo_fill(plot->cr);
		}
	}
}

/* Labels an address unless one below is too near, which is at *last. */
static void
draw_address(const struct memory *memory, uint64_t address, double *last)
{
	const struct plot *plot = memory->plot;
	double y = y_of(memory, address);
	char text[32];

	if (*last - y < LABEL_DISTANCE)
		return;
	*last = y;
	snprintf(text, sizeof text, "%" PRIx64, address);
	plot_set_color(plot, plot_ink);
	plot_text(plot, plot->left - 8, y + 1, 1, text);
}

/* The least power of two that is `distance` high. */
static uint64_t
step_of(const struct memory *memory, double distance)
{
	double scale = memory->plot->height / memory->addresses.length;
	uint64_t step = 1;

	while ((double)step * scale < distance && step < UINT64_MAX / 4)
		step *= 2;
	return step;
}

/* Where parts begin, and round ones within; from the bottom up, as there is room. */
static void
draw_addresses(const struct memory *memory)
{
	const struct plot *plot = memory->plot;
	double last = plot->top + plot->height + LABEL_DISTANCE;
	uint64_t step = step_of(memory, STEP_DISTANCE);

	plot_set_font(plot, FONT_SMALL - 3, false);
	for (size_t i = 0; i < memory->addresses.count; i++) {
		const struct address_part *part = &memory->addresses.parts[i];

		plot_grid_line(plot, y_of(memory, part->from));
		draw_address(memory, part->from, &last);
		for (uint64_t at = (part->from / step + 1) * step; at < part->to; at += step)
			draw_address(memory, at, &last);
	}
	plot_set_color(plot, plot_faint);
	plot_text(plot, plot->left - 8, plot->top - 10, 1, "address (hex)");
}

void
plot_draw_memory(const struct plot *plot)
{
	const struct picture *picture = plot->picture;
	struct memory memory = { .plot = plot };
	char when[PICTURE_WHEN_MAX];

	addresses_make(&memory.addresses, picture->scene);
	cairo_save(plot->cr);
	cairo_rectangle(plot->cr, plot->left, plot->top, plot->width, plot->height);
	cairo_clip(plot->cr);
	draw_reserved(&memory);
	for (size_t layer = 0; layer <= LAYER_OTHER; layer++)
		draw_layer(&memory, LAYER_OTHER - layer);
	cairo_restore(plot->cr);
	draw_addresses(&memory);
	plot_draw_x_axis(plot);
	plot_draw_frame(plot);
	if (picture->scene->maps[picture->when].taken)
		plot_draw_moment(plot, picture->scene->maps[picture->when].x,
				 picture_when(when, picture, picture->when));
	addresses_fini(&memory.addresses);
}

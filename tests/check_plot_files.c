/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures as files: whole, of their format, bounded; of tiny, strange and large traces.
 */
#include "tests/plot_fixture.h"

#include <cairo.h>

#include "tools/answer.h"

static char *
read_all(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	char *text;

	ck_assert_msg(file != NULL, "no %s", path);
	fseek(file, 0, SEEK_END);
	*size = (size_t)ftell(file);
	rewind(file);
	text = calloc(*size + 1, 1);
	ck_assert_uint_eq(fread(text, 1, *size, file), *size);
	fclose(file);
	return text;
}

static uint32_t
big_endian(const char *bytes)
{
	const unsigned char *b = (const unsigned char *)bytes;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Elements are closed in the order of XML, and attributes have no stray '<'. */
static void
check_xml(const char *text)
{
	char open[64][32];
	size_t depth = 0;

	for (const char *c = strchr(text, '<'); c != NULL; c = strchr(c + 1, '<')) {
		const char *end = strchr(c, '>');
		char name[32] = "";

		ck_assert_msg(end != NULL, "no end of %.40s", c);
		ck_assert_msg(memchr(c + 1, '<', (size_t)(end - c - 1)) == NULL, "'<' in %.60s", c);
		sscanf(c + 1 + (c[1] == '/'), "%31[^ />\n]", name);
		if (c[1] == '?' || c[1] == '!' || end[-1] == '/')
			continue;
		if (c[1] != '/') {
			ck_assert_uint_lt(depth, 64);
			strcpy(open[depth++], name);
			continue;
		}
		ck_assert_uint_gt(depth, 0);
		ck_assert_str_eq(open[--depth], name);
	}
	ck_assert_uint_eq(depth, 0);
}

static void
check_file(const char *path)
{
	size_t size;
	char *text = read_all(path, &size);

	switch (picture_format_of(path)) {
	case PICTURE_SVG:
		ck_assert_mem_eq(text, "<?xml", 5);
		check_xml(text);
		break;
	case PICTURE_PNG:
		ck_assert_mem_eq(text, "\x89PNG\r\n\x1a\n", 8);
		ck_assert_uint_eq(big_endian(text + 16), 1920);
		ck_assert_uint_eq(big_endian(text + 20), 1080);
		ck_assert_mem_eq(text + size - 8, "IEND", 4);
		break;
	case PICTURE_HTML:
		ck_assert_mem_eq(text, "<!DOCTYPE html>", 15);
		ck_assert_ptr_nonnull(strstr(text, "</html>\n"));
		ck_assert_ptr_null(strstr(text, "@DATA@"));
		ck_assert_ptr_null(strstr(text, "@include"));
		ck_assert_ptr_null(strstr(text, "http://"));
		ck_assert_ptr_null(strstr(text, "https://"));
		break;
	case PICTURE_NONE:
		ck_abort();
	}
	free(text);
	unlink(path);
}

/* All kinds, by all, in all formats, at all moments that there are. */
static void
draw_all(struct taken *taken)
{
	static const char *const paths[] = { "check_plot.svg", "check_plot.png", "check_plot.html" };
	struct report report = report_of(taken);
	struct picture picture = { .report = &report, .scene = &taken->scene };

	for (unsigned i = 0; i < 3 * 4 * SCENE_BY_COUNT; i++) {
		const char *path = paths[i % 3], *problem;

		picture.kind = (enum picture_kind)(i / 3 % 4);
		picture.by = (enum scene_by)(i / 12);
		picture.when = taken->scene.maps[SCENE_EVENT].taken && i % 2 ? SCENE_EVENT : SCENE_END;
		problem = picture_write(path, &picture);
		ck_assert_msg(problem == NULL, "%s", problem);
		check_file(path);
	}
}

START_TEST(every_kind_is_written_in_every_format)
{
	struct taken taken;
	uint64_t event = 2;

	take(&taken, LINES, options_for(NULL), &event);
	draw_all(&taken);
	take_end(&taken);
}
END_TEST

START_TEST(tiny_and_strange_traces_are_drawn)
{
	static const char *const cases[] = {
		"",
		"1,,mark,0,0,,,start,,\n",
		"1,,alloc,0,1,0x1000,1,,,\n",
		"1,,alloc,0,1,0x1000,1,,,\n1,,free,0,1,0x1000,,,,\n",
		"1,,free,0,1,0x1000,,,,\n",
		"9,,alloc,0,1,0x1000,600,a,,\n1,,alloc,0,1,0x2000,600,b,,\n", /* time goes back */
		"1,,alloc,0,1,0x1000,70368744177664,big,,\n2,,alloc,0,1,0x2000,1,small,,\n",
		"1,,alloc,0,1,0x1000,18446744073709551615,too big,,\n",
		"1,,alloc,0,1,0x1000,600,a,,\n2,,alloc,0,1,0x1000,600,over it,,\n",
		"18446744073709551615,,alloc,0,18446744073709551615,0x1000,600,a,,\n",
	};
	static const char *const policies[] = { "cuda", "pytorch", "soma" };

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct taken taken;

		take(&taken, cases[i], options_for(policies[i % 3]), NULL);
		draw_all(&taken);
		take_end(&taken);
	}
}
END_TEST

START_TEST(a_large_trace_makes_a_bounded_picture)
{
	char *lines = many_lines(30000);
	struct taken taken;
	struct report report;
	struct picture picture;
	size_t size;
	char *text;

	take(&taken, lines, options_for("soma"), NULL);
	scene_fini(&taken.scene);
	replay_result_fini(&taken.result);
	ck_assert_int_eq(trace_rewind(taken.reader, &taken.error), TRACE_OK);
	take_reader(&taken, PICTURE_SVG, PICTURE_MEMORY, NULL, false);
	ck_assert_uint_lt(taken.scene.blocks.count, 30000);
	report = report_of(&taken);
	picture = (struct picture){ .report = &report, .scene = &taken.scene, .kind = PICTURE_MEMORY };
	ck_assert_ptr_null(picture_write("check_plot.svg", &picture));
	text = read_all("check_plot.svg", &size);
	ck_assert_uint_lt(size, 8 * MIB);
	free(text);
	picture.kind = PICTURE_MAP;
	ck_assert_ptr_null(picture_write("check_plot.svg", &picture));
	free(read_all("check_plot.svg", &size));
	ck_assert_uint_lt(size, 16 * MIB);
	check_file("check_plot.svg");
	take_end(&taken);
	free(lines);
}
END_TEST

START_TEST(a_page_that_cannot_be_written_says_why)
{
	struct taken taken;
	struct report report;
	struct picture picture;

	take(&taken, LINES, options_for(NULL), NULL);
	report = report_of(&taken);
	picture = (struct picture){ .report = &report, .scene = &taken.scene };
	ck_assert_str_eq(picture_write("no/such/folder/x.html", &picture), "No such file or directory");
	if (access("/dev/full", W_OK) == 0) {
		FILE *full = fopen("/dev/full", "w");

		ck_assert(!picture_page(full, &picture));
		fclose(full);
	}
	take_end(&taken);
}
END_TEST

/* ---- a histogram's pixels ---- */

#define BUCKETS 28

/* Of sizes from 1 byte on, a bar for each power of two, and blocks enough for long values. */
static char *
lines_of_all_sizes(void)
{
	char *text = malloc(BUCKETS * 1100 * 64), *to = text;

	ck_assert_ptr_nonnull(text);
	for (unsigned i = 0, at = 1; i < BUCKETS; i++)
		for (unsigned n = i % 2 ? 1003 : 2; n > 0; n--, at++)
			to += sprintf(to, "%u,,alloc,0,1,0x%x00000000,%u,a%u,,\n", at, at, 1u << i, i % 3);
	return text;
}

static bool
is_white(cairo_surface_t *picture, int x, int y)
{
	size_t row = (size_t)y * (size_t)cairo_image_surface_get_stride(picture);
	const unsigned char *pixel = cairo_image_surface_get_data(picture) + row + 4 * (size_t)x;

	return pixel[0] == 255 && pixel[1] == 255 && pixel[2] == 255;
}

static unsigned
count_dark(cairo_surface_t *picture, int left, int right, int y)
{
	unsigned count = 0;

	for (int x = left; x < right; x++)
		count += !is_white(picture, x, y);
	return count;
}

/* As plot.c and sizes.c place them: a panel from `top` on, bars of the same width from the left. */
static void
check_panel(cairo_surface_t *picture, double top)
{
	double pitch = 1.5 * 810 / BUCKETS;

	for (int i = 0; i < BUCKETS; i++) {
		int left = (int)(1.5 * 96 + pitch * i + 2), right = (int)(1.5 * 96 + pitch * (i + 1) - 1);
		int y = (int)(1.5 * top), bottom = (int)(1.5 * (top + 260) - 3);

		while (y < bottom && count_dark(picture, left, right, y) == 0)
			y++;
		/* The highest thing over a bar is its value, which is narrower than the bar. */
		ck_assert_int_lt(y, bottom);
		ck_assert_uint_lt(count_dark(picture, left, right, y), (unsigned)(0.6 * pitch));
		for (int line = (int)(1.5 * top); i > 0 && line < bottom; line++)
			ck_assert_msg(is_white(picture, left - 2, line), "bar %d: something runs into it at %d", i, line);
	}
}

START_TEST(every_bar_of_a_histogram_has_its_value_and_none_runs_into_another)
{
	struct taken taken;
	char *lines = lines_of_all_sizes();

	take(&taken, lines, options_for(NULL), NULL);
	struct report report = report_of(&taken);
	struct picture picture = { .report = &report, .scene = &taken.scene, .kind = PICTURE_SIZES };
	ck_assert_ptr_null(picture_write("check_sizes.png", &picture));
	cairo_surface_t *surface = cairo_image_surface_create_from_png("check_sizes.png");
	ck_assert_int_eq(cairo_image_surface_get_width(surface), 1920);
	check_panel(surface, 84);
	check_panel(surface, 84 + 260 + 40);
	cairo_surface_destroy(surface);
	unlink("check_sizes.png");
	take_end(&taken);
	free(lines);
}
END_TEST

START_TEST(the_format_is_by_the_name)
{
	ck_assert_int_eq(picture_format_of("a.svg"), PICTURE_SVG);
	ck_assert_int_eq(picture_format_of("a.PNG"), PICTURE_PNG);
	ck_assert_int_eq(picture_format_of("a.b.html"), PICTURE_HTML);
	ck_assert_int_eq(picture_format_of("a.pdf"), PICTURE_NONE);
	ck_assert_int_eq(picture_format_of("html"), PICTURE_NONE);
}
END_TEST

START_TEST(an_output_that_is_the_trace_is_told_from_one_that_is_not)
{
	ck_assert(answer_is_same_file("/proc/self/exe", "/proc/self/exe"));
	ck_assert(!answer_is_same_file("/proc/self/exe", "/bin/sh"));
	ck_assert(!answer_is_same_file("check_plot.none", "check_plot.none"));
	/* No regular file: nothing is lost. */
	ck_assert(!answer_is_same_file("/dev/null", "/dev/null"));
}
END_TEST

UNIT_MAIN("plot_files", every_bar_of_a_histogram_has_its_value_and_none_runs_into_another,
	  every_kind_is_written_in_every_format, tiny_and_strange_traces_are_drawn,
	  a_large_trace_makes_a_bounded_picture, a_page_that_cannot_be_written_says_why,
	  the_format_is_by_the_name, an_output_that_is_the_trace_is_told_from_one_that_is_not)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reports: the JSON object's keys and values, the text's lines, the picture's
 * file, quantities.
 */
#include <sys/stat.h>

#include "tests/report_fixture.h"
#include "tools/units.h"

static uint64_t
integer_at(const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	ck_assert_msg(json_is_integer(value), "%s is no integer", key);
	return (uint64_t)json_integer_value(value);
}

static void
check_keys(const json_t *object, const char *const *keys)
{
	size_t count = 0;

	for (; keys[count] != NULL; count++)
		ck_assert_msg(json_object_get(object, keys[count]) != NULL, "no key %s", keys[count]);
	ck_assert_uint_eq(json_object_size(object), count);
}

START_TEST(the_object_has_all_its_keys_and_no_others)
{
	static const char *const top[] = { "peak_live_requested",
					   "peak_reserved",
					   "utilisation",
					   "allocs",
					   "frees",
					   "segments",
					   "rounding_waste",
					   "free_but_held",
					   "largest_free",
					   "stranded_by_stream",
					   "parity",
					   "oom",
					   "recorded_oom",
					   "holders",
					   "counts",
					   "settings",
					   NULL };
	static const char *const parity[] = { "recorded",          "reproduced",
					      "segments_recorded", "segments_reproduced",
					      "first_difference",  NULL };
	static const char *const settings[] = { "trace",
						"format",
						"device",
						"upper",
						"expandable_segments",
						"policy",
						"capacity",
						"release_threshold",
						"complete",
						NULL };
	struct replayed replayed;
	json_t *object;

	replay_lines(&replayed, SEGMENTS, options_for(NULL));
	object = json_of(&replayed);
	check_keys(object, top);
	check_keys(json_object_get(object, "parity"), parity);
	check_keys(json_object_get(object, "settings"), settings);
	json_decref(object);
	replayed_end(&replayed);
	replay_lines(&replayed, "", options_for("strict"));
	object = json_of(&replayed);
	check_keys(object, top);
	ck_assert(json_is_null(json_object_get(object, "parity")));
	ck_assert(json_is_null(json_object_get(object, "oom")));
	ck_assert(json_is_null(json_object_get(object, "recorded_oom")));
	ck_assert(json_is_array(json_object_get(object, "holders")));
	ck_assert_double_eq(json_number_value(json_object_get(object, "utilisation")), 0);
	json_decref(object);
	replayed_end(&replayed);
}
END_TEST

START_TEST(the_object_has_exact_bytes)
{
	struct replayed replayed;
	json_t *object, *holder;

	replay_lines(&replayed, SEGMENTS, options_for(NULL));
	object = json_of(&replayed);
	ck_assert_uint_eq(integer_at(object, "peak_live_requested"), 1500);
	ck_assert_uint_eq(integer_at(object, "peak_reserved"), 2097152);
	ck_assert_uint_eq(integer_at(object, "rounding_waste"), 548);
	ck_assert_uint_eq(integer_at(object, "free_but_held"), 2097152 - 2048);
	ck_assert_uint_eq(integer_at(object, "allocs"), 2);
	ck_assert_uint_eq(integer_at(object, "frees"), 1);
	ck_assert_uint_eq(integer_at(object, "segments"), 1);
	ck_assert_double_eq_tol(json_number_value(json_object_get(object, "utilisation")), 1500.0 / 2097152,
				1e-12);
	ck_assert_uint_eq(integer_at(json_object_get(object, "parity"), "reproduced"), 2);
	holder = json_array_get(json_object_get(object, "holders"), 1);
	ck_assert_str_eq(json_string_value(json_object_get(holder, "name")), "layer \"one\"");
	ck_assert_uint_eq(integer_at(holder, "bytes"), 600);
	json_decref(object);
	replayed_end(&replayed);
}
END_TEST

START_TEST(out_of_memory_and_a_difference_are_objects)
{
	struct replay_options options = options_for("pytorch");
	struct replayed replayed;
	json_t *object, *oom, *difference;

	options.capacity = 2 * MIB;
	replay_lines(&replayed, SEGMENTS "5,,alloc,0,1,0x7f0000400000,3145728,,,\n", options);
	object = json_of(&replayed);
	oom = json_object_get(object, "oom");
	ck_assert_uint_eq(integer_at(oom, "event"), 4);
	ck_assert_uint_eq(integer_at(oom, "requested"), 3145728);
	ck_assert_uint_eq(integer_at(oom, "short_by"), 20 * 1048576);
	ck_assert_str_eq(json_string_value(json_object_get(oom, "reason")), "truly too big");
	ck_assert_uint_eq(json_object_size(oom), 4);
	difference = json_object_get(json_object_get(object, "parity"), "first_difference");
	ck_assert_uint_eq(integer_at(difference, "event"), 4);
	ck_assert_str_eq(json_string_value(json_object_get(difference, "recorded")), "0x7f0000400000");
	ck_assert(json_is_null(json_object_get(difference, "got")));
	json_decref(object);
	replayed_end(&replayed);
}
END_TEST

/* ---- the text ------------------------------------------------------------- */

START_TEST(the_text_says_peak_parity_and_verdict)
{
	static const char *const lines[] = {
		"dir/some.trace\n",
		"  soma-csv, device 0, 4 events on 1 stream\n",
		"  policy pytorch, capacity unlimited, release threshold keep everything, frees",
		", frees complete: free\n",
		"  Peak live requested       1.46 KiB  at event 2\n",
		"  Peak reserved             2.00 MiB\n",
		"  Rounding waste               548 B\n",
		"\n2 of 2 recorded addresses reproduced, 1 of 1 recorded segment\n",
		"No capacity was set, and nothing failed.\n",
	};
	struct replayed replayed;
	char *text;

	replay_lines(&replayed, SEGMENTS, options_for(NULL));
	text = text_of(&replayed);
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
		ck_assert_msg(strstr(text, lines[i]) != NULL, "no line %sin\n%s", lines[i], text);
	free(text);
	replayed_end(&replayed);
}
END_TEST

START_TEST(the_text_says_out_of_memory_and_why)
{
	struct replay_options options = options_for("strict");
	struct replayed replayed;
	char *text;

	options.capacity = 1024;
	replay_lines(&replayed, "1,,alloc,0,1,0x1000,4096,,,\n", options);
	text = text_of(&replayed);
	ck_assert_msg(strstr(text, "Out of memory at event 0: 4.00 KiB requested, 3.00 KiB short: "
				   "truly too big\n") != NULL,
		      "%s", text);
	free(text);
	replayed_end(&replayed);
}
END_TEST

#define RECORDED "1,,alloc,0,1,0x1000,4096,,,\n2,,oom,0,1,,67108864,,,1048576\n3,,oom,0,1,,512,,,0\n"

/* The first one; the replay's own verdict stands beside it, and means what it does elsewhere. */
START_TEST(a_recorded_failure_is_told_and_is_none_of_the_replay)
{
	static const char recorded[] =
		"\nThe trace records a failure at event 1: out of memory, 64.0 MiB requested (soma oom says why).\n";
	struct replay_options options = options_for("strict");
	struct replayed replayed;
	json_t *object;
	char *text;

	replay_lines(&replayed, RECORDED, options);
	text = text_of(&replayed);
	ck_assert_msg(strstr(text, recorded) != NULL, "%s", text);
	ck_assert_msg(strstr(text, "\nNo capacity was set, and nothing failed in the replay.\n") != NULL, "%s", text);
	free(text);
	object = json_of(&replayed);
	ck_assert(json_is_null(json_object_get(object, "oom")));
	ck_assert_uint_eq(integer_at(json_object_get(object, "recorded_oom"), "event"), 1);
	ck_assert_uint_eq(integer_at(json_object_get(object, "recorded_oom"), "requested"), 67108864);
	json_decref(object);
	replayed_end(&replayed);
	options.capacity = 1024;
	replay_lines(&replayed, RECORDED, options);
	text = text_of(&replayed);
	ck_assert_msg(strstr(text, recorded) != NULL, "%s", text);
	ck_assert_msg(strstr(text, "\nOut of memory at event 0: 4.00 KiB requested") != NULL, "%s", text);
	free(text);
	replayed_end(&replayed);
}
END_TEST

/* ---- the picture --------------------------------------------------------- */

static void
check_picture(const char *path, const char *begins, size_t length)
{
	struct replayed replayed;
	char start[16] = "";
	FILE *file;

	replay_lines(&replayed, SEGMENTS, options_for(NULL));
	ck_assert_ptr_null(draw(&replayed, path));
	file = fopen(path, "rb");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fread(start, 1, length, file), length);
	ck_assert_mem_eq(start, begins, length);
	fseek(file, 0, SEEK_END);
	ck_assert_int_gt(ftell(file), 10000);
	fclose(file);
	unlink(path);
	replayed_end(&replayed);
}

START_TEST(a_picture_is_written_in_the_format_of_its_name)
{
	check_picture("check_report.svg", "<?xml", 5);
	check_picture("check_report.PNG", "\x89PNG", 4);
	ck_assert_int_eq(picture_format_of("picture.pdf"), PICTURE_NONE);
	ck_assert_int_eq(picture_format_of("svg"), PICTURE_NONE);
}
END_TEST

START_TEST(a_picture_that_cannot_be_written_says_why)
{
	struct replayed replayed;

	replay_lines(&replayed, SEGMENTS, options_for(NULL));
	ck_assert_ptr_nonnull(draw(&replayed, "no/such/folder/x.png"));
	ck_assert_ptr_nonnull(draw(&replayed, "no/such/folder/x.svg"));
	replayed_end(&replayed);
}
END_TEST

/* Who has the picture open, or has a good one there, keeps it. */
START_TEST(a_picture_that_fails_leaves_what_was_there)
{
	struct replayed replayed;

	replay_lines(&replayed, SEGMENTS, options_for(NULL));
	ck_assert_int_eq(mkdir("check_report.folder.svg", 0777), 0);
	ck_assert_ptr_nonnull(draw(&replayed, "check_report.folder.svg"));
	ck_assert_int_eq(rmdir("check_report.folder.svg"), 0);
	ck_assert_int_eq(system("test -z \"$(ls | grep 'check_report.folder')\""), 0);
	replayed_end(&replayed);
}
END_TEST

/* ---- quantities ---------------------------------------------------------- */

START_TEST(quantities_read_well)
{
	char buffer[UNITS_MAX];

	ck_assert_str_eq(units_bytes(buffer, 0), "0 B");
	ck_assert_str_eq(units_bytes(buffer, 1023), "1023 B");
	ck_assert_str_eq(units_bytes(buffer, 1024), "1.00 KiB");
	ck_assert_str_eq(units_bytes(buffer, 1783664516), "1.66 GiB");
	ck_assert_str_eq(units_bytes(buffer, UINT64_MAX), "16.0 EiB");
	ck_assert_str_eq(units_count(buffer, 999), "999");
	ck_assert_str_eq(units_count(buffer, 1234567), "1,234,567");
	ck_assert_str_eq(units_percent(buffer, 1, 3), "33.3 %");
	ck_assert_str_eq(units_percent(buffer, 1, 0), "-");
	ck_assert_str_eq(units_exact(buffer, 1024), "1.00 KiB");
	ck_assert_str_eq(units_exact(buffer, 1783664516), "1.66 GiB (1783664516 bytes)");
	ck_assert_str_eq(units_part(buffer, 0, 1, "limit"), "0 of 1 limit");
	ck_assert_str_eq(units_part(buffer, 1, 2, "limit"), "1 of 2 limits");
	ck_assert_str_eq(units_plural(buffer, 1, "block"), "1 block");
	ck_assert_str_eq(units_plural(buffer, 1000, "block"), "1,000 blocks");
}
END_TEST

START_TEST(times_have_the_unit_that_fits)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} rows[] = {
		{ 0, "0 ns" },
		{ 95, "95 ns" },
		{ 999, "999 ns" },
		{ 1000, "1 us" },
		{ 16252927, "16.3 ms" },
		{ 683515478, "684 ms" },
		{ 999499, "999 us" },
		{ 999600, "1 ms" },
		{ 1500000000, "1.5 s" },
		{ 7200000000000, "7200 s" },
	};
	char buffer[UNITS_MAX];

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		ck_assert_str_eq(units_time(buffer, rows[i].ns), rows[i].text);
}
END_TEST

START_TEST(rates_have_no_exponent)
{
	static const struct {
		double rate;
		const char *text;
	} rows[] = {
		{ 0, "0" },
		{ 3e-9, "0.0000000030" },
		{ 0.0251, "0.025" },
		{ 0.9, "0.90" },
		{ 1, "1.00" },
		{ 9.996, "10.0" },
		{ 37.11, "37.1" },
		{ 99.94, "99.9" },
		{ 99.96, "100" },
		{ 11700.4, "11,700" },
		{ 3e18, "3,000,000,000,000,000,000" },
		{ 1e300, "9,223,372,036,854,775,807" },
	};
	char buffer[UNITS_MAX];

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		ck_assert_str_eq(units_rate(buffer, rows[i].rate), rows[i].text);
}
END_TEST

UNIT_MAIN("report", rates_have_no_exponent, times_have_the_unit_that_fits,
	  the_object_has_all_its_keys_and_no_others, the_object_has_exact_bytes,
	  out_of_memory_and_a_difference_are_objects, the_text_says_peak_parity_and_verdict,
	  the_text_says_out_of_memory_and_why,
	  a_recorded_failure_is_told_and_is_none_of_the_replay,
	  a_picture_is_written_in_the_format_of_its_name,
	  a_picture_that_cannot_be_written_says_why, a_picture_that_fails_leaves_what_was_there,
	  quantities_read_well)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reports: the JSON object's keys and values, the text's lines, the picture's
 * file, names and quantities.
 */
#include <jansson.h>
#include <sys/stat.h>

#include "tests/replay_fixture.h"
#include "tools/report/picture.h"
#include "tools/units.h"

#define SEGMENTS                                                          \
	"1000000,,segment_alloc,0,1,0x7f0000000000,2097152,,,\n"          \
	"2000000,,alloc,0,1,0x7f0000000000,600,\"layer \"\"one\"\"\",,\n" \
	"3000000,,alloc,0,1,0x7f0000000400,900,two,,\n"                   \
	"4000000,,free,0,1,0x7f0000000000,,,,\n"

static struct report
report_of(const struct replayed *replayed)
{
	return (struct report){ "dir/some.trace", replayed->reader, &replayed->options, &replayed->result };
}

static json_t *
json_of(const struct replayed *replayed)
{
	struct report report = report_of(replayed);
	FILE *file = tmpfile();
	json_error_t error;
	json_t *object;

	ck_assert_ptr_nonnull(file);
	ck_assert(report_json(file, &report));
	rewind(file);
	object = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
	ck_assert_msg(object != NULL, "%s", error.text);
	fclose(file);
	return object;
}

static char *
text_of(const struct replayed *replayed)
{
	struct report report = report_of(replayed);
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(file);
	report_text(file, &report);
	fclose(file);
	return text;
}

/* Draws the timeline; NULL, or what went wrong. */
static const char *
draw(const struct replayed *replayed, const char *path)
{
	struct report report = report_of(replayed);
	struct scene scene = { .columns = 0 };
	struct picture picture = { .report = &report, .scene = &scene };
	struct replay_result result;
	struct trace_error error;
	const char *problem;

	ck_assert_int_eq(trace_rewind(replayed->reader, &error), TRACE_OK);
	picture_wish(&scene, PICTURE_SVG, PICTURE_TIMELINE, NULL);
	ck_assert_int_eq(scene_take(&scene, replayed->reader, replayed->options, false, &result, &error),
			 SOMA_STATUS_OK);
	problem = picture_write(path, &picture);
	replay_result_fini(&result);
	scene_fini(&scene);
	return problem;
}

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

START_TEST(a_name_that_is_no_utf8_is_still_json)
{
	struct replayed replayed;
	json_t *object, *holder;

	replay_lines(&replayed, "1,,alloc,0,1,0x1000,600,caf\xe9,,\n", options_for("cuda"));
	object = json_of(&replayed);
	holder = json_array_get(json_object_get(object, "holders"), 0);
	ck_assert_str_eq(json_string_value(json_object_get(holder, "name")), "caf?");
	json_decref(object);
	replayed_end(&replayed);
}
END_TEST

/* ---- names that are no text ---------------------------------------------- */

/* Valid UTF-8, as jansson sees it, without what commands a terminal. */
static void
check_clean(const char *text)
{
	json_t *string = json_string(text);

	ck_assert_msg(string != NULL, "no UTF-8: %s", text);
	json_decref(string);
	for (; *text != '\0'; text++)
		ck_assert_msg((*text & 0xe0) != 0 || *text == '\n', "a control character: %s", text);
}

static void
check_all_reports(const struct replayed *replayed)
{
	char *text = text_of(replayed);
	const char *problem;

	check_clean(text);
	free(text);
	json_decref(json_of(replayed));
	problem = draw(replayed, "check_report_names.svg");
	ck_assert_msg(problem == NULL, "%s", problem);
	unlink("check_report_names.svg");
}

/* The lines of one block whose tag is `begin` and `count` times `part`. */
static void
check_reports_of_tag(const char *begin, const char *part, size_t count)
{
	struct replay_options options = options_for("cuda");
	struct replayed replayed;
	char *lines = NULL;
	size_t size;
	FILE *file = open_memstream(&lines, &size);

	ck_assert_ptr_nonnull(file);
	fprintf(file, "1,,alloc,0,1,0x1000,600,\"%s", begin);
	while (count-- > 0)
		fputs(part, file);
	fputs("\",,\n", file);
	fclose(file);
	options.columns = 100;
	replay_lines(&replayed, lines, options);
	free(lines);
	check_all_reports(&replayed);
	replayed_end(&replayed);
}

START_TEST(names_of_any_bytes_are_reported_as_clean_text)
{
	static const char *const parts[] = {
		"\x80",              /* a continuation alone */
		"\xff",              /* never a byte of UTF-8 */
		"\xc3",              /* a character that does not go on */
		"\xc0\xaf",          /* two bytes for one */
		"\xe0\x80\xaf",      /* three */
		"\xf0\x80\x80\xaf",  /* four */
		"\xed\xa0\x80",      /* half of a surrogate pair */
		"\xf4\x90\x80\x80",  /* above U+10FFFF */
		"\x1b[31m",          /* a colour */
		"\xc2\x9b\x33\x31m", /* the same in C1 */
		"\a",                /* a bell */
		"\n",                /* a line of its own */
		"\xe2\x80\xae",      /* text that runs to the left */
		"\xc3\xa9",          /* nothing wrong but the length */
	};

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		check_reports_of_tag("a", parts[i], 1);
		check_reports_of_tag("a", parts[i], 4000);
	}
}
END_TEST

START_TEST(what_is_no_character_is_a_question_mark)
{
	static const char *const cases[][2] = {
		{ "plain (file.py:7)", "plain (file.py:7)" },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ "a\x80\x80z", "a??z" },
		{ "a\xc3", "a?" },
		{ "a\xe2\x82", "a??" },
		{ "\xc0\xaf", "??" },
		{ "\xed\xa0\x80", "???" },
		{ "\x1b[1m\x7f", "?[1m?" },
		{ "\xc2\x9b", "?" },
		{ "\xe2\x80\xae", "?" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char *clean = report_clean(cases[i][0]);

		ck_assert_str_eq(clean, cases[i][1]);
		free(clean);
	}
}
END_TEST

START_TEST(a_long_name_is_whole_in_the_object)
{
	char lines[1200], tag[1001];
	struct replayed replayed;
	json_t *object, *holder;

	memset(tag, 'x', sizeof tag - 1);
	tag[sizeof tag - 1] = '\0';
	snprintf(lines, sizeof lines, "1,,alloc,0,1,0x1000,600,\xff%s,,\n", tag);
	tag[0] = 'x';
	replay_lines(&replayed, lines, options_for("cuda"));
	object = json_of(&replayed);
	holder = json_array_get(json_object_get(object, "holders"), 0);
	ck_assert_uint_eq(json_string_length(json_object_get(holder, "name")), 1001);
	json_decref(object);
	replayed_end(&replayed);
}
END_TEST

/* Any byte anywhere in the tags of a trace: the same in every run. */
START_TEST(random_changes_of_tags_are_reported_as_clean_text)
{
	struct replay_options options = options_for(NULL);
	uint64_t random = 20240301;

	options.columns = 20;
	for (unsigned i = 0; i < 400; i++) {
		char lines[] =
			SEGMENTS "5,,alloc,0,1,0x7f0000000800,700,\xe2\x82\xac \xf0\x9f\x98\x80 name,,\n";
		struct replayed replayed;
		char *at = strstr(lines, "name") - 9;

		for (unsigned changes = 0; changes < 3; changes++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			at[(random >> 40) % 13] = (char)((random >> 33) % 255 + 1);
		}
		replay_lines_raw(&replayed, lines, options);
		if (replayed.status == SOMA_STATUS_OK)
			check_all_reports(&replayed);
		else
			check_clean(replayed.error.text);
		replayed_end(&replayed);
	}
}
END_TEST

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
		"\n2 of 2 recorded addresses reproduced, 1 of 1 recorded segments\n",
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

/* ---- names and quantities ------------------------------------------------ */

START_TEST(names_are_shortened_in_the_middle_by_whole_characters)
{
	char buffer[64];

	char small[8];

	ck_assert_str_eq(report_shorten(small, sizeof small, "abcdefghijklmnop", 12), "abc...k");
	ck_assert_str_eq(report_shorten(small, sizeof small, "abcde\xe2\x82\xac", 12), "abcde");
	ck_assert_str_eq(report_shorten(buffer, sizeof buffer, "short", 2), "");
	ck_assert_str_eq(report_shorten(buffer, sizeof buffer, "short", 10), "short");
	ck_assert_str_eq(report_shorten(buffer, sizeof buffer, "abcdefghijklmnop", 12), "abc...klmnop");
	ck_assert_str_eq(report_shorten(buffer, sizeof buffer,
					"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 6),
			 "\xc3\xa9...\xc3\xa9\xc3\xa9");
	ck_assert_str_eq(report_shorten(buffer, sizeof buffer, "\xc3\xa9\xc3\xa9\xc3\xa9", 3),
			 "\xc3\xa9\xc3\xa9\xc3\xa9");
}
END_TEST

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
	ck_assert_str_eq(units_plural(buffer, 1, "block"), "1 block");
	ck_assert_str_eq(units_plural(buffer, 1000, "block"), "1,000 blocks");
}
END_TEST

UNIT_MAIN("report", the_object_has_all_its_keys_and_no_others, the_object_has_exact_bytes,
	  out_of_memory_and_a_difference_are_objects, a_name_that_is_no_utf8_is_still_json,
	  names_of_any_bytes_are_reported_as_clean_text, what_is_no_character_is_a_question_mark,
	  a_long_name_is_whole_in_the_object, random_changes_of_tags_are_reported_as_clean_text,
	  the_text_says_peak_parity_and_verdict, the_text_says_out_of_memory_and_why,
	  a_picture_is_written_in_the_format_of_its_name, a_picture_that_cannot_be_written_says_why,
	  a_picture_that_fails_leaves_what_was_there, names_are_shortened_in_the_middle_by_whole_characters,
	  quantities_read_well)

/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are no text, or too long, in the object, the text and the picture. */
#include "tests/report_fixture.h"

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

START_TEST(names_are_shortened_in_the_middle_by_whole_characters)
{
	char buffer[64], small[8];

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

UNIT_MAIN("report names", a_name_that_is_no_utf8_is_still_json, names_of_any_bytes_are_reported_as_clean_text,
	  what_is_no_character_is_a_question_mark, a_long_name_is_whole_in_the_object,
	  random_changes_of_tags_are_reported_as_clean_text,
	  names_are_shortened_in_the_middle_by_whole_characters)

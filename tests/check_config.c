/* SPDX-License-Identifier: Apache-2.0 */
/* lib/base: configuration strings and the table behind them. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/nearest.h"
#include "lib/base/options.h"
#include "tests/unit.h"

struct conf {
	unsigned backend;
	uint64_t budget;
	bool eager;
	uint32_t depth;
	uint64_t seed;
	double share;
	char *trace;
	char *name;
};

static const char *const backends[] = { "auto", "async", "sync", "host", NULL };

static const struct soma__option table[] = {
	{ "backend", "auto", "where memory comes from", offsetof(struct conf, backend), soma__option_choice,
	  backends },
	{ "budget", "0", "bytes at most; 0: unlimited", offsetof(struct conf, budget), soma__option_size,
	  NULL },
	{ "eager", "yes", "reserve at once", offsetof(struct conf, eager), soma__option_bool, NULL },
	{ "guard.depth", "16", "frames kept", offsetof(struct conf, depth), soma__option_u32, NULL },
	{ "guard.seed", NULL, "of the sampling", offsetof(struct conf, seed), soma__option_u64, NULL },
	{ "share", "90%", "of the device", offsetof(struct conf, share), soma__option_fraction, NULL },
	{ "trace", NULL, "file to write", offsetof(struct conf, trace), soma__option_string, NULL },
	{ "name", "unnamed", "for reports", offsetof(struct conf, name), soma__option_string, NULL },
	{ 0 },
};

static struct conf conf;

static void
init(void)
{
	memset(&conf, 0, sizeof conf);
	ck_assert_int_eq(soma__config_init(table, &conf), SOMA_STATUS_OK);
}

static void
accept(const char *text)
{
	enum soma_status status = soma__config_parse(table, "conf", text, &conf);

	ck_assert_msg(status == SOMA_STATUS_OK, "\"%s\": %s", text, soma_error_last()->text);
}

/* It must be refused with exactly this text. */
static void
refuse(const char *text, const char *expected)
{
	soma_error_clear();
	ck_assert_int_eq(soma__config_parse(table, "conf", text, &conf), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(soma_error_last()->text, expected);
}

START_TEST(defaults_come_from_the_table)
{
	init();
	ck_assert_uint_eq(conf.backend, 0);
	ck_assert_uint_eq(conf.budget, 0);
	ck_assert(conf.eager);
	ck_assert_uint_eq(conf.depth, 16);
	ck_assert(conf.share == 0.9);
	ck_assert_ptr_null(conf.trace);
	ck_assert_str_eq(conf.name, "unnamed");
	soma__config_fini(table, &conf);
	ck_assert_ptr_null(conf.name);
}
END_TEST

START_TEST(a_string_sets_what_it_names)
{
	init();
	accept("backend=host,budget=1.5GiB,eager=off,guard.depth=4294967295,guard.seed=18446744073709551615,"
	       "share=0.25,trace=a=b.csv,name=");
	ck_assert_uint_eq(conf.backend, 3);
	ck_assert_uint_eq(conf.budget, UINT64_C(3) << 29);
	ck_assert(!conf.eager);
	ck_assert_uint_eq(conf.depth, UINT32_MAX);
	ck_assert_uint_eq(conf.seed, UINT64_MAX);
	ck_assert(conf.share == 0.25);
	ck_assert_str_eq(conf.trace, "a=b.csv");
	ck_assert_str_eq(conf.name, "");
	/* A later string goes on top. */
	accept("");
	accept("name=later");
	ck_assert_str_eq(conf.name, "later");
	ck_assert_uint_eq(conf.backend, 3);
	soma__config_fini(table, &conf);
}
END_TEST

START_TEST(an_unknown_key_names_its_place_and_the_nearest)
{
	init();
	refuse("bakend=host", "conf, character 1: there is no option \"bakend\"; the nearest is \"backend\"");
	refuse("budget=1,gaurd.depth=1",
	       "conf, character 10: there is no option \"gaurd.depth\"; the nearest is \"guard.depth\"");
	refuse("Trace=x", "conf, character 1: there is no option \"Trace\"; the nearest is \"trace\"");
	refuse("zebra", "conf, character 1: a key=value was expected, such as backend=zebra");
	refuse("trac", "conf, character 1: there is no option \"trac\"; the nearest is \"trace\"");
	refuse("zebra=x", "conf, character 1: there is no option \"zebra\"; see soma.conf(5)");
	refuse("traces=x", "conf, character 1: there is no option \"traces\"; the nearest is \"trace\"");
	soma__config_fini(table, &conf);
}
END_TEST

START_TEST(a_malformed_string_says_where)
{
	init();
	refuse("backend=host,", "conf, character 14: a key=value was expected here");
	refuse(",backend=host", "conf, character 1: a key=value was expected here");
	refuse("=3", "conf, character 1: a key=value was expected here");
	refuse("eager", "conf, character 1: eager has no value; write eager=VALUE");
	refuse("share=1,eager=1,share=0", "conf, character 17: share is given twice");
	soma__config_fini(table, &conf);
}
END_TEST

START_TEST(a_bad_value_says_what_was_expected)
{
	init();
	refuse("eager=maybe", "conf, character 7: eager: \"maybe\" is not yes or no");
	refuse("eager=1,backend=gpu",
	       "conf, character 17: backend: \"gpu\" is not one of auto, async, sync, host");
	refuse("guard.depth=4294967296",
	       "conf, character 13: guard.depth: \"4294967296\" is not a whole number from 0 to 4294967295");
	refuse("guard.seed=18446744073709551616",
	       "conf, character 12: guard.seed: \"18446744073709551616\" is "
	       "not a whole number from 0 to 18446744073709551615");
	refuse("share=1.01", "conf, character 7: share: \"1.01\" is not a fraction from 0 to 1 (0% to 100%)");
	refuse("share=x%", "conf, character 7: share: \"x%\" is not a fraction such as 0.9 or 90%");
	refuse("budget=99999999999999999999",
	       "conf, character 8: budget: \"99999999999999999999\" is more bytes than 64 bits count");
	soma__config_fini(table, &conf);
}
END_TEST

START_TEST(a_refused_value_leaves_its_field)
{
	static const char *const bad[] = {
		"guard.depth=",   "guard.depth=-1", "guard.depth=+1", "guard.depth= 1", "guard.depth=0x10",
		"guard.depth=1 ", "guard.seed=",    "guard.seed=1.0", "eager=",         "eager=2",
		"share=",         "share=.",        "share=1..0",     "share=-0",       "share=1e-1",
		"share=nan",      "share=%",        "share=101%",     "backend=",       "backend=Host",
		"budget=",        "budget=-1",
	};
	struct conf before;

	init();
	accept("guard.depth=7,guard.seed=8,share=.5,backend=sync,budget=9");
	before = conf;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		ck_assert_msg(soma__config_parse(table, "conf", bad[i], &conf) == SOMA_STATUS_INVALID_VALUE,
			      "\"%s\" was accepted", bad[i]);
		ck_assert_msg(memcmp(&before, &conf, sizeof conf) == 0, "\"%s\" changed something", bad[i]);
	}
	soma__config_fini(table, &conf);
}
END_TEST

START_TEST(a_value_too_long_is_refused)
{
	char text[6000] = "trace=";

	init();
	memset(text + 6, 'x', 4095);
	accept(text);
	ck_assert_uint_eq(strlen(conf.trace), 4095);
	memset(text + 6, 'x', 4096);
	refuse(text, "conf, character 7: trace: a value of 4096 bytes is too long (at most 4095)");
	memset(text, 'k', 5990);
	text[5990] = '\0';
	ck_assert_int_eq(soma__config_parse(table, "conf", text, &conf), SOMA_STATUS_INVALID_VALUE);
	soma__config_fini(table, &conf);
}
END_TEST

static char others_text[256];

static enum soma_status
take_other(void *context, const char *key, const char *value)
{
	size_t length = strlen(others_text);

	ck_assert_ptr_eq(context, &conf);
	if (strcmp(value, "bad") == 0)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	snprintf(others_text + length, sizeof others_text - length, "[%s][%s]", key, value);
	return SOMA_STATUS_OK;
}

START_TEST(a_pattern_has_known_letters_alone)
{
	static const struct soma__option option = { .name = "path" };
	char *field = NULL;

	ck_assert_int_eq(soma__option_pattern(&option, "a-%d-%p-%%d", &field), SOMA_STATUS_OK);
	ck_assert_str_eq(field, "a-%d-%p-%%d");
	ck_assert_int_eq(soma__option_pattern(&option, "%%%s", &field), SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(soma_error_last()->text, "\"%s\" in \"%%%s\": expected %d, %p or %%");
	ck_assert_int_eq(soma__option_pattern(&option, "%", &field), SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(field, "a-%d-%p-%%d");
	free(field);
}
END_TEST

START_TEST(keys_with_a_dot_go_to_others)
{
	const struct soma__option_others others = { .take = take_other, .context = &conf };
	char text[300];

	init();
	others_text[0] = '\0';
	ck_assert_int_eq(
		soma__config_parse_with(table, "conf", "x.y=1,guard.depth=3,a.b.c=,budget=4", &conf, &others),
		SOMA_STATUS_OK);
	ck_assert_str_eq(others_text, "[x.y][1][a.b.c][]");
	ck_assert_uint_eq(conf.depth, 3);
	ck_assert_uint_eq(conf.budget, 4);
	ck_assert_int_eq(soma__config_parse_with(table, "conf", "x.y=bad,budget=5", &conf, &others),
			 SOMA_STATUS_OUT_OF_HOST_MEMORY);
	ck_assert_uint_eq(conf.budget, 4);
	ck_assert_int_eq(soma__config_parse_with(table, "conf", "x.y", &conf, &others),
			 SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(soma_error_last()->text, "conf, character 1: x.y has no value; write x.y=VALUE");
	ck_assert_int_eq(soma__config_parse_with(table, "conf", "x.y=1,x.y=2", &conf, &others),
			 SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(soma_error_last()->text, "conf, character 7: x.y is given twice");
	/* No name is as long as this. */
	memset(text, 'k', sizeof text);
	memcpy(text + 130, ".z=1", 5);
	ck_assert_int_eq(soma__config_parse_with(table, "conf", text, &conf, &others),
			 SOMA_STATUS_INVALID_VALUE);
	soma__config_fini(table, &conf);
}
END_TEST

START_TEST(a_key_is_found_in_its_string)
{
	ck_assert_uint_eq(soma__config_place("budget=1,x.y=2,x=3", "budget"), 1);
	ck_assert_uint_eq(soma__config_place("budget=1,x.y=2,x=3", "x.y"), 10);
	ck_assert_uint_eq(soma__config_place("budget=1,x.y=2,x=3", "x"), 16);
	ck_assert_uint_eq(soma__config_place("budget=1,x.y=2,x=3", "y"), 0);
	ck_assert_uint_eq(soma__config_place("", "y"), 0);
}
END_TEST

START_TEST(the_table_prints_every_option)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	soma__config_print(table, out);
	fclose(out);
	ck_assert_ptr_nonnull(strstr(text, "backend      auto     where memory comes from\n"));
	ck_assert_ptr_nonnull(strstr(text, "guard.seed   -        of the sampling\n"));
	size_t lines = 0;
	for (const char *p = text; *p != '\0'; p++)
		lines += *p == '\n';
	ck_assert_uint_eq(lines, 8);
	free(text);
}
END_TEST

START_TEST(a_default_that_does_not_parse_is_an_error)
{
	static const struct soma__option broken[] = {
		{ "name", "x", "", offsetof(struct conf, name), soma__option_string, NULL },
		{ "eager", "perhaps", "", offsetof(struct conf, eager), soma__option_bool, NULL },
		{ 0 },
	};

	ck_assert_int_eq(soma__config_init(broken, &conf), SOMA_STATUS_INVALID_VALUE);
	ck_assert_ptr_null(conf.name);
}
END_TEST

START_TEST(the_environment_is_soma_conf)
{
	unsetenv("SOMA_CONF");
	ck_assert_ptr_null(soma__config_environment());
	setenv("SOMA_CONF", "budget=1", 1);
	ck_assert_str_eq(soma__config_environment(), "budget=1");
}
END_TEST

START_TEST(distance_counts_edits)
{
	static const struct {
		const char *a, *b;
		size_t distance;
	} rows[] = {
		{ "", "", 0 },
		{ "", "abc", 3 },
		{ "abc", "", 3 },
		{ "abc", "abc", 0 },
		{ "abc", "abd", 1 },
		{ "abc", "ab", 1 },
		{ "ab", "abc", 1 },
		{ "ab", "ba", 1 },
		{ "ca", "abc", 3 },
		{ "kitten", "sitting", 3 },
		{ "budegt", "budget", 1 },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		ck_assert_uint_eq(soma__name_distance(rows[i].a, strlen(rows[i].a), rows[i].b),
				  rows[i].distance);
}
END_TEST

UNIT_MAIN("config", defaults_come_from_the_table, a_string_sets_what_it_names,
	  an_unknown_key_names_its_place_and_the_nearest, a_malformed_string_says_where,
	  a_bad_value_says_what_was_expected, a_refused_value_leaves_its_field, a_value_too_long_is_refused,
	  a_pattern_has_known_letters_alone, keys_with_a_dot_go_to_others, a_key_is_found_in_its_string,
	  the_table_prints_every_option, a_default_that_does_not_parse_is_an_error,
	  the_environment_is_soma_conf, distance_counts_edits)

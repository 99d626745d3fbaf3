/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that the guard calls fails once; what an operator may set; what reports look like. */
#include "config.h"

#include "tests/check_guard_support.h"
#include "tests/unit.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- everything that can fail, fails once -------------------------------------------------- */

/* Whatever fails, what succeeded is undone by close, and the report is no lie. */
static void
scenario(struct fixture *f)
{
	struct soma_backend_stream *streams[3] = { NULL };
	struct soma_backend_event *event = NULL;
	uint64_t ptr[12] = { 0 }, damaged;

	for (unsigned i = 0; i < 3; i++)
		if (f->ops->stream_create(f->g, i % 2, &streams[i]) != SOMA_STATUS_OK)
			streams[i] = NULL;
	if (f->ops->event_create(f->g, 0, &event) != SOMA_STATUS_OK)
		event = NULL;
	for (unsigned i = 0; i < 12; i++)
		if (f->ops->alloc(f->g, 100 * i + 1, 0, streams[i % 3], &ptr[i]) != SOMA_STATUS_OK)
			ptr[i] = 0;
	for (unsigned i = 0; i < 12; i++)
		if (ptr[i] != 0)
			use(f, (void *)(uintptr_t)ptr[i], 2, streams[i % 3]);
	if (event != NULL && streams[0] != NULL && streams[1] != NULL &&
	    f->ops->event_record(f->g, event, streams[0]) == SOMA_STATUS_OK)
		f->ops->event_wait(f->g, event, streams[1]);
	f->ops->guard_scan(f->g, &damaged);
	for (unsigned i = 0; i < 12; i++)
		if (ptr[i] != 0)
			ck_assert_int_eq(f->ops->free(f->g, ptr[i], 100 * i + 1, streams[i % 3]),
					 SOMA_STATUS_OK);
	f->ops->synchronize(f->g);
	f->ops->guard_settle(f->g);
	f->ops->guard_drain(f->g, 0);
	if (streams[1] != NULL)
		f->ops->stream_destroy(f->g, streams[1]);
	if (event != NULL)
		f->ops->event_destroy(f->g, event);
}

/* Runs it with the n-th call failing; false: fewer calls than that were made. */
static bool
run_failing(enum inner_kind kind, _Atomic int64_t *fail_in, int64_t n)
{
	struct fixture *f = calloc(1, sizeof *f);
	const char *options[] = { "quarantine_blocks", "5", NULL };

	atomic_store(fail_in, n);
	bool opened = fixture_try(f, kind, options);
	if (opened)
		scenario(f);
	bool fired = atomic_exchange(fail_in, -1) < 0;
	if (opened) {
		EXPECT(f);
		f->ops->synchronize(f->g);
		drain(f);
		fixture_close(f);
	} else {
		ck_assert_int_eq(atomic_load(&table_live), 0);
		ck_assert_int_eq(atomic_load(&toy_live), 0);
	}
	fixture_forget_reports(f);
	free(f);
	return fired;
}

START_TEST(any_inner_operation_may_fail)
{
	for (int kind = INNER_DIRECT; kind <= INNER_COPIES; kind++) {
		int64_t n = 0;
		while (run_failing((enum inner_kind)kind, &toy_fail_in, n))
			n++;
		ck_assert_int_gt(n, 30);
		ck_assert_int_eq(atomic_load(&toy_early), 0);
	}
}
END_TEST

START_TEST(any_allocation_of_records_may_fail)
{
	for (int kind = 0; kind < INNER_KINDS; kind++) {
		int64_t n = 0;
		while (run_failing((enum inner_kind)kind, &table_fail_in, n))
			n++;
		ck_assert_int_gt(n, 10);
	}
}
END_TEST

/* ---- options and reports --------------------------------------------------------------------- */

static void
refused(const char *key, const char *value, const char *part)
{
	struct fixture *f = calloc(1, sizeof *f);
	const char *options[] = { key, value, NULL };

	ck_assert_msg(!fixture_try(f, INNER_DIRECT, options), "%s=%s was taken", key, value);
	ck_assert_msg(strstr(f->error, part) != NULL, "%s=%s: %s", key, value, f->error);
	ck_assert_int_eq(atomic_load(&table_live), 0);
	free(f);
}

START_TEST(bad_options_are_refused_by_name)
{
	refused("quarantine_byte", "1", "the nearest is \"guard.quarantine_bytes\"");
	refused("mode", "fast", "guard.mode: \"fast\" is not one of off, canary, full");
	refused("redzone_left", "9M", "at most 8388608");
	refused("redzone_left", "much", "a size such as");
	refused("quarantine_blocks", "-1", "a whole number");
	refused("vmm_sample", "1/0", "1/N");
	refused("poison_free", "maybe", "yes or no");
	refused("output", "/nonexistent/file", "guard.output");
}
END_TEST

START_TEST(switched_off_it_only_hands_on)
{
	const char *options[] = { "mode", "off", NULL };
	struct fixture f;

	fixture_open(&f, INNER_DIRECT, options);
	struct soma_backend_info info = { .size = sizeof info };
	ck_assert_int_eq(f.ops->query(f.g, &info), SOMA_STATUS_OK);
	ck_assert(!(info.capabilities & SOMA_BACKEND_KEEPS_FREED));
	struct soma_backend_stream *stream = make_stream(&f, 0);
	unsigned char *p = take(&f, 100, stream);
	use(&f, p, 1, NULL);
	give(&f, p, 100, stream);
	EXPECT(&f);
	fixture_close(&f);
}
END_TEST

START_TEST(reports_are_json_too)
{
	struct fixture f;

	fixture_open(&f, INNER_DIRECT, NULL);
	struct soma_backend_stream *a = make_stream(&f, 1), *b = make_stream(&f, 1);
	unsigned char *p = take(&f, 1000, a);
	ck_assert_int_eq(f.ops->block_name(f.g, (uintptr_t)p, 9, "a \"tag\"\\\n\x80"), SOMA_STATUS_OK);
	use(&f, p, 2, b);
	p[1000] ^= 1;
	give(&f, p, 1000, a);
	sync_stream(&f, a);
	f.ops->free(f.g, 12345, 1, a);
	EXPECT(&f, "use-before-ready", "oob-write-after", "foreign-free");
	for (unsigned i = 0; i < 3; i++) {
		json_error_t error;
		json_t *json = json_loads(f.reports[i].json, 0, &error);
		ck_assert_msg(json != NULL, "%s: %s", error.text, f.reports[i].json);
		ck_assert_str_eq(json_string_value(json_object_get(json, "kind")), f.reports[i].kind);
		ck_assert_ptr_null(strchr(f.reports[i].json, '\n'));
		json_t *damage = json_object_get(json, "damage");
		ck_assert_int_eq(damage != NULL, i == 1);
		if (damage != NULL)
			ck_assert_int_eq(json_integer_value(json_object_get(damage, "first")), 1000);
		json_decref(json);
	}
	fixture_close(&f);
	fixture_forget_reports(&f);
}
END_TEST

START_TEST(reports_beyond_the_limit_are_only_counted)
{
	const char *options[] = { "report_limit", "2", NULL };
	struct fixture f;

	fixture_open(&f, INNER_DIRECT, options);
	for (uint64_t i = 0; i < 5; i++)
		f.ops->free(f.g, 4096 + i, 1, NULL);
	EXPECT(&f, "foreign-free", "foreign-free");
	struct soma_backend_guard_stats stats = { .size = sizeof stats };
	ck_assert_int_eq(f.ops->guard_stats(f.g, &stats), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats.reports, 5);
	fixture_close(&f);
	fixture_forget_reports(&f);
}
END_TEST

START_TEST(confirmed_races_are_errors_and_others_warnings)
{
	const char *options[] = { "race", "confirm", NULL };

	for (int over = 0; over < 2; over++) {
		struct fixture f;
		fixture_open(&f, INNER_HOST, options);
		struct soma_backend_stream *a = make_stream(&f, 1), *b = make_stream(&f, 1);
		struct soma_backend_event *event = make_event(&f);
		unsigned char *p = take(&f, 100, a);
		/* Something that is still queued on a, or nothing. */
		if (!over)
			ck_assert_int_eq(f.ops->event_record(f.g, event, a), SOMA_STATUS_OK);
		ck_assert_int_eq(use(&f, p, 2, b), over ? SOMA_STATUS_OK : SOMA_STATUS_STREAM_MISUSE);
		EXPECT(&f, "use-before-ready");
		EXPECT_TEXT(&f, 0, over ? "WARNING" : "ERROR");
		give(&f, p, 100, a);
		fixture_close(&f);
		fixture_forget_reports(&f);
	}
}
END_TEST

START_TEST(damage_is_found_at_shutdown_before_the_leak)
{
	for (int kind = 0; kind < INNER_KINDS; kind++) {
		struct fixture f;
		fixture_open(&f, (enum inner_kind)kind, NULL);
		struct soma_backend_stream *stream = make_stream(&f, 0);
		unsigned char *live = take(&f, 100, stream), *freed = take(&f, 100, stream),
			      *queued = take(&f, 100, stream);
		live[100] ^= 1;
		give(&f, freed, 100, stream);
		sync_stream(&f, stream);
		freed[3] ^= 1;
		give(&f, queued, 100, stream);
		queued[-7] ^= 1;
		fixture_close(&f);
		EXPECT(&f, "oob-write-before", "oob-write-after", "write-after-free", "leak");
		fixture_forget_reports(&f);
	}
}
END_TEST

static void
read_file(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "r");

	ck_assert_ptr_nonnull(file);
	text[fread(text, 1, size - 1, file)] = '\0';
	fclose(file);
	unlink(path);
}

START_TEST(reports_go_to_files)
{
	const char *options[] = { "on_error",          "report", "output", "guard-output.txt", "json",
				  "guard-output.json", NULL };
	char text[16384];
	struct fixture f;

	unlink("guard-output.txt");
	unlink("guard-output.json");
	fixture_open(&f, INNER_DIRECT, options);
	f.ops->free(f.g, 4096, 1, NULL);
	f.ops->free(f.g, 8192, 1, NULL);
	/* And to the listener. */
	EXPECT(&f, "foreign-free", "foreign-free");
	fixture_close(&f);
	fixture_forget_reports(&f);
	read_file("guard-output.txt", text, sizeof text);
	ck_assert_ptr_nonnull(strstr(text, "soma-guard: ERROR foreign-free  address 0x1000"));
	ck_assert_ptr_nonnull(strstr(text, "soma-guard: ERROR foreign-free  address 0x2000"));
	read_file("guard-output.json", text, sizeof text);
	char *second = strchr(text, '\n') + 1;
	json_t *json = json_loads(second, 0, NULL);
	ck_assert_str_eq(json_string_value(json_object_get(json, "ptr")), "0x2000");
	json_decref(json);
}
END_TEST

UNIT_MAIN("guard failures", any_inner_operation_may_fail, any_allocation_of_records_may_fail,
	  bad_options_are_refused_by_name, switched_off_it_only_hands_on, reports_are_json_too,
	  reports_beyond_the_limit_are_only_counted, confirmed_races_are_errors_and_others_warnings,
	  damage_is_found_at_shutdown_before_the_leak, reports_go_to_files)

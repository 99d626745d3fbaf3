/* SPDX-License-Identifier: Apache-2.0 */
/* Damage to memory, hostile programs, and what an operator may set. */
#include "config.h"

#include "tests/check_guard_support.h"
#include "tests/unit.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/guard/guard.h"

static void
for_each_kind(void (*body)(struct fixture *f), const char *const *options)
{
	for (int kind = 0; kind < INNER_KINDS; kind++) {
		struct fixture *f = calloc(1, sizeof *f);
		fixture_open(f, (enum inner_kind)kind, options);
		body(f);
		fixture_close(f);
		fixture_forget_reports(f);
		free(f);
	}
}

static void
damage_and_see(struct fixture *f, uint64_t size, int64_t offset)
{
	unsigned char *p = take(f, size, NULL);
	char where[64];

	p[offset] ^= 0x55;
	give(f, p, size, NULL);
	EXPECT(f, offset < 0 ? "oob-write-before" : "oob-write-after");
	snprintf(where, sizeof where, "first bad byte: offset %+lld ", (long long)offset);
	EXPECT_TEXT(f, 0, where);
	EXPECT_TEXT(f, 0, "; 1 bad bytes, span");
	fixture_forget_reports(f);
}

static void
damage_every_byte(struct fixture *f)
{
	static const uint64_t sizes[] = { 1, 255, 256, 1001, 8192 };

	for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct layout layout;
		ck_assert(layout_of(&f->g->options, sizes[i], 0, &layout));
		ck_assert_uint_ge(layout.left, 256);
		ck_assert_uint_ge(layout.outer - layout.left - sizes[i], 256);
		for (uint64_t at = 0; at < layout.left; at++)
			damage_and_see(f, sizes[i], (int64_t)at - (int64_t)layout.left);
		for (uint64_t at = sizes[i]; at < layout.outer - layout.left; at++)
			damage_and_see(f, sizes[i], (int64_t)at);
	}
}

START_TEST(damage_of_every_redzone_byte_is_found)
{
	const char *options[] = { "report_limit", "1000000", "backtrace", "0", NULL };

	for_each_kind(damage_every_byte, options);
}
END_TEST

static void
damage_every_freed_byte(struct fixture *f)
{
	for (uint64_t size = 1; size < 70; size++) {
		for (uint64_t at = 0; at < size; at++) {
			unsigned char *p = take(f, size, NULL);
			give(f, p, size, NULL);
			p[at] ^= 0x55;
			drain(f);
			EXPECT(f, "write-after-free");
			ck_assert_uint_eq(f->reports[0].ptr, (uintptr_t)p);
			fixture_forget_reports(f);
		}
	}
}

START_TEST(damage_of_every_freed_byte_is_found)
{
	const char *options[] = { "report_limit", "1000000", "backtrace", "0", NULL };

	for_each_kind(damage_every_freed_byte, options);
}
END_TEST

START_TEST(redzones_grow_with_the_block)
{
	struct guard_options options = { .redzone_left = 256, .redzone_right_max = 4096 };
	struct layout layout;

	ck_assert(layout_of(&options, 16, 0, &layout));
	ck_assert_uint_eq(layout.outer, 768);
	ck_assert(layout_of(&options, 16 << 10, 0, &layout));
	ck_assert_uint_eq(layout.outer, 256 + (16 << 10) + 1024);
	ck_assert(layout_of(&options, 17 << 10, 0, &layout));
	ck_assert_uint_eq(layout.outer, 256 + (17 << 10) + 2048);
	ck_assert(layout_of(&options, 1 << 20, 0, &layout));
	ck_assert_uint_eq(layout.outer, 256 + (1 << 20) + 4096);
	ck_assert(layout_of(&options, 64, 4096, &layout));
	ck_assert_uint_eq(layout.left, 4096);
	ck_assert(!layout_of(&options, UINT64_MAX - 100, 0, &layout));
}
END_TEST

START_TEST(patterns_are_nans_and_differ)
{
	for (uint64_t generation = 1; generation < 1000; generation++) {
		uint32_t zone = pattern_of(generation, PATTERN_REDZONE);
		float single;
		memcpy(&single, &zone, 4);
		ck_assert(single != single);
		ck_assert_uint_eq(zone & 0xfff0ff80u, 0xfff0ff80u);
		ck_assert_uint_gt(zone & 0x7f, 0);
	}
	ck_assert_uint_ne(pattern_of(5, PATTERN_REDZONE), pattern_of(5, PATTERN_FREED));
	ck_assert_uint_ne(pattern_of(5, PATTERN_REDZONE), pattern_of(6, PATTERN_REDZONE));
}
END_TEST

/* ---- hostile programs ---------------------------------------------------------------------- */

static void
write_far(struct fixture *f)
{
	unsigned char *p = take(f, 4096, NULL), *q = take(f, 4096, NULL), *r = take(f, 4096, NULL);

	memset(p, 0, 4096 + 256);
	memset(q - 256, 0, 256 + 4096);
	memset(r, 0, 4096);
	give(f, p, 4096, NULL);
	give(f, q, 4096, NULL);
	give(f, r, 4096, NULL);
	EXPECT(f, "oob-write-after", "oob-write-before");
	EXPECT_TEXT(f, 0, "256 bad bytes, span [+4096,+4351]");
	EXPECT_TEXT(f, 1, "256 bad bytes, span [-256,-1]");
}

static void
use_after_free_with_reuse(struct fixture *f)
{
	unsigned char *p = take(f, 512, NULL);

	give(f, p, 512, NULL);
	drain(f);
	unsigned char *again = NULL;
	for (int i = 0; i < 64 && again != p; i++)
		again = take(f, 512, NULL);
	if (again == p) {
		/* The new block hides the tombstone: this free is right, the next one is not. */
		give(f, p, 512, NULL);
		EXPECT(f);
		ck_assert_int_eq(f->ops->free(f->g, (uintptr_t)p, 512, NULL), SOMA_STATUS_INVALID_VALUE);
		EXPECT(f, "double-free");
	}
}

static void
interior_and_wrong_size(struct fixture *f)
{
	unsigned char *p = take(f, 512, NULL);

	ck_assert_int_eq(f->ops->free(f->g, (uintptr_t)p + 256, 256, NULL), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(f->ops->free(f->g, (uintptr_t)p - 256, 512, NULL), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(f->ops->free(f->g, (uintptr_t)p, 513, NULL), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(use(f, p + 8, 2, NULL), SOMA_STATUS_INVALID_VALUE);
	give(f, p, 512, NULL);
	EXPECT(f, "foreign-free", "foreign-free", "wrong-size-free", "foreign-use");
}

START_TEST(hostile_programs_are_reported)
{
	for_each_kind(write_far, NULL);
	for_each_kind(use_after_free_with_reuse, NULL);
	for_each_kind(interior_and_wrong_size, NULL);
}
END_TEST

struct racer {
	struct fixture *f;
	pthread_barrier_t *barrier;
	uint64_t ptr;
	unsigned wins;
};

static void *
race_to_free(void *argument)
{
	struct racer *racer = argument;

	for (int i = 0; i < 200; i++) {
		pthread_barrier_wait(racer->barrier);
		uint64_t ptr = __atomic_load_n(&racer[0].ptr, __ATOMIC_RELAXED);
		if (racer->f->ops->free(racer->f->g, ptr, 64, NULL) == SOMA_STATUS_OK)
			racer->wins++;
		pthread_barrier_wait(racer->barrier);
	}
	return NULL;
}

static void
double_free_at_once(struct fixture *f)
{
	pthread_barrier_t barrier;
	pthread_t threads[2];
	struct racer racers[2] = { { f, &barrier, 0, 0 }, { f, &barrier, 0, 0 } };

	pthread_barrier_init(&barrier, NULL, 3);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, race_to_free, &racers[i]);
	for (unsigned i = 0; i < 200; i++) {
		uint64_t ptr = (uintptr_t)take(f, 64, NULL);
		__atomic_store_n(&racers[0].ptr, ptr, __ATOMIC_RELAXED);
		__atomic_store_n(&racers[1].ptr, ptr, __ATOMIC_RELAXED);
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		ck_assert_uint_eq(racers[0].wins + racers[1].wins, i + 1);
		ck_assert_uint_eq(f->report_count, i + 1);
		ck_assert_str_eq(f->reports[i].kind, "double-free");
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
}

START_TEST(of_two_frees_at_once_one_is_reported)
{
	const char *options[] = { "report_limit", "1000", "backtrace", "0", NULL };

	for_each_kind(double_free_at_once, options);
}
END_TEST

/* ---- threads ----------------------------------------------------------------------------- */

static void *
churn(void *argument)
{
	struct fixture *f = argument;
	struct soma_backend_stream *stream;
	uint64_t damaged;

	ck_assert_int_eq(f->ops->stream_create(f->g, 1, &stream), SOMA_STATUS_OK);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t size = 16 + i * 37 % 3000, ptr;
		ck_assert_int_eq(f->ops->alloc(f->g, size, 0, i % 3 ? stream : NULL, &ptr), SOMA_STATUS_OK);
		memset((void *)(uintptr_t)ptr, (int)i, size);
		ck_assert_int_eq(use(f, (void *)(uintptr_t)ptr, 3, stream), SOMA_STATUS_OK);
		ck_assert_int_eq(f->ops->free(f->g, ptr, size, stream), SOMA_STATUS_OK);
		if (i % 50 == 0)
			ck_assert_int_eq(f->ops->stream_synchronize(f->g, stream), SOMA_STATUS_OK);
		if (i % 400 == 0)
			ck_assert_int_eq(f->ops->guard_scan(f->g, &damaged), SOMA_STATUS_OK);
		if (i % 500 == 0)
			ck_assert_int_eq(f->ops->guard_drain(f->g, 0), SOMA_STATUS_OK);
	}
	f->ops->stream_destroy(f->g, stream);
	return NULL;
}

static void
churn_in_threads(struct fixture *f)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, churn, f);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(f->ops->synchronize(f->g), SOMA_STATUS_OK);
	drain(f);
	struct soma_backend_guard_stats stats = { .size = sizeof stats };
	ck_assert_int_eq(f->ops->guard_stats(f->g, &stats), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats.live_blocks + stats.retired_blocks + stats.quarantined_blocks, 0);
	ck_assert_uint_eq(f->released_count, 8000);
	EXPECT(f);
}

START_TEST(threads_that_do_right_are_not_reported)
{
	const char *small[] = { "quarantine_blocks", "100", "tombstones", "50", NULL };
	const char *full[] = { "mode", "full", NULL };

	for_each_kind(churn_in_threads, small);
	for_each_kind(churn_in_threads, full);
}
END_TEST

/* ---- callbacks that call back ------------------------------------------------------------------ */

static unsigned called;

/* Does everything to the guard that it can, while it reports. */
static void
busy_listener(void *context, const struct soma_backend_guard_report *report)
{
	struct fixture *f = context;
	uint64_t damaged;

	if (strcmp(report->kind, "leak") == 0 || called++ > 20)
		return;
	f->ops->free(f->g, report->ptr, 200, NULL);
	f->ops->guard_scan(f->g, &damaged);
	f->ops->guard_drain(f->g, 0);
	take(f, 200, NULL);
}

static void
busy_released(void *context, uint64_t ptr, uint64_t size)
{
	struct fixture *f = context;

	(void)ptr;
	if (atomic_fetch_add(&f->released_count, 1) < 50)
		take(f, size, NULL);
}

static void
call_back(struct fixture *f)
{
	unsigned char *p[10];

	f->host.released = busy_released;
	f->ops->guard_listen(f->g, busy_listener, f);
	called = 0;
	for (unsigned i = 0; i < 10; i++) {
		p[i] = take(f, 200, NULL);
		p[i][200 + i] ^= 1;
	}
	ck_assert_uint_gt(scan_now(f), 0);
	for (unsigned i = 0; i < 50; i++) {
		give(f, take(f, 200, NULL), 200, NULL);
		drain(f);
	}
	ck_assert_uint_ge(called, 10);
	ck_assert_uint_ge(f->released_count, 50);
}

START_TEST(callbacks_may_call_any_op)
{
	for_each_kind(call_back, NULL);
}
END_TEST

/* ---- streams that come and go --------------------------------------------------------------- */

static void
short_streams(struct fixture *f)
{
	for (unsigned i = 0; i < 2000; i++) {
		struct soma_backend_stream *stream = make_stream(f, i % 2);
		unsigned char *p = take(f, 100, stream);
		give(f, p, 100, stream);
		f->ops->stream_destroy(f->g, stream);
		/* The work gets done, and nobody tells the guard. */
		if (i % 10 == 0)
			ck_assert_int_eq(f->inner_ops->synchronize(f->inner.self), SOMA_STATUS_OK);
	}
	ck_assert_uint_lt(f->g->clocks.count, 200);
	f->inner_ops->synchronize(f->inner.self);
	drain(f);
	ck_assert_uint_eq(f->released_count, 2000);
	EXPECT(f);
}

START_TEST(streams_that_are_gone_keep_neither_blocks_nor_lanes)
{
	for_each_kind(short_streams, NULL);
}
END_TEST

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
			ck_assert_int_eq(f->ops->free(f->g, ptr[i], 100 * i + 1, streams[i % 3]), SOMA_STATUS_OK);
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

START_TEST(an_error_aborts_by_default)
{
	struct fixture f;
	const char *options[] = { "on_error", "abort", NULL };

	fixture_open(&f, INNER_DIRECT, options);
	f.ops->free(f.g, 4096, 1, NULL);
}
END_TEST

/* The abort is what is expected; it cannot be in the common list. */
int
main(void)
{
	const TTest *const tests[] = { damage_of_every_redzone_byte_is_found, damage_of_every_freed_byte_is_found,
				       redzones_grow_with_the_block, patterns_are_nans_and_differ,
				       hostile_programs_are_reported, of_two_frees_at_once_one_is_reported,
				       threads_that_do_right_are_not_reported, callbacks_may_call_any_op,
				       streams_that_are_gone_keep_neither_blocks_nor_lanes, any_inner_operation_may_fail,
				       any_allocation_of_records_may_fail, bad_options_are_refused_by_name,
				       switched_off_it_only_hands_on, reports_are_json_too,
				       reports_beyond_the_limit_are_only_counted,
				       confirmed_races_are_errors_and_others_warnings };
	Suite *suite = suite_create("guard abort");
	TCase *tcase = tcase_create("abort");

	tcase_add_test_raise_signal(tcase, an_error_aborts_by_default, SIGABRT);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return unit_run("guard memory", tests, sizeof tests / sizeof tests[0]) != 0 || failed != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Damage to memory, hostile programs, and programs with threads. */
#include "config.h"

#include "tests/check_guard_support.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>

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
	ck_assert_uint_eq(layout.zone, 4096);
	ck_assert(layout_of(&options, 64, 1 << 30, &layout));
	ck_assert_uint_eq(layout.left, 1 << 30);
	ck_assert_uint_eq(layout.zone, 64 << 10);
	options.redzone_left = 1 << 20;
	ck_assert(layout_of(&options, 64, 0, &layout));
	ck_assert_uint_eq(layout.zone, 1 << 20);
	options.redzone_left = 256;
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
	for (uint64_t generation = 0; generation < 100000; generation++)
		for (int salt = PATTERN_REDZONE; salt <= PATTERN_FREED; salt++)
			ck_assert_uint_ne(pattern_of(generation, (enum pattern_salt)salt), UINT32_MAX);
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

UNIT_MAIN("guard memory", damage_of_every_redzone_byte_is_found, damage_of_every_freed_byte_is_found,
	  redzones_grow_with_the_block, patterns_are_nans_and_differ, hostile_programs_are_reported,
	  of_two_frees_at_once_one_is_reported, threads_that_do_right_are_not_reported,
	  callbacks_may_call_any_op, streams_that_are_gone_keep_neither_blocks_nor_lanes)

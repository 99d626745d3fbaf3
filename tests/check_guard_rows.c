/* SPDX-License-Identifier: Apache-2.0 */
/* What the guard must find, and what it must not, case by case, around each inner backend.  Cases that end a
 * process are in check_guard_ends.c. */
#include "config.h"

#include "tests/guard_case.h"

#include <string.h>

CASE(row_01_write_just_past_the_end)
{
	unsigned char *p = take(f, 1000, s.a);

	p[1000] = 7;
	give(f, p, 1000, s.a);
	sync_stream(f, s.a);
	EXPECT(f, "oob-write-after");
	EXPECT_TEXT(f, 0, "offset +1000 (0 past end)");
	EXPECT_TEXT(f, 0, "got 07");
}

CASE(row_02_write_just_before_the_start)
{
	unsigned char *p = take(f, 1024, s.a);

	p[-1] = 7;
	give(f, p, 1024, s.a);
	sync_stream(f, s.a);
	EXPECT(f, "oob-write-before");
	EXPECT_TEXT(f, 0, "offset -1 (1 before start)");
}

CASE(row_03_write_of_the_last_redzone_byte)
{
	unsigned char *p = take(f, 1024, s.a);

	p[1024 + 255] = 7;
	give(f, p, 1024, s.a);
	sync_stream(f, s.a);
	EXPECT(f, "oob-write-after");
	EXPECT_TEXT(f, 0, "offset +1279 (255 past end)");
}

CASE(row_04_two_damaged_blocks_are_two_reports)
{
	unsigned char *p = take(f, 64, s.a), *q = take(f, 64, s.b), *r = take(f, 64, s.a);

	p[64] = 1;
	r[-5] = 1;
	ck_assert_uint_eq(scan_now(f), 2);
	EXPECT(f, "oob-write-after", "oob-write-before");
	ck_assert_uint_eq(f->reports[0].ptr, (uintptr_t)p);
	ck_assert_uint_eq(f->reports[1].ptr, (uintptr_t)r);
	ck_assert_uint_eq(scan_now(f), 0);
	give(f, p, 64, s.a);
	give(f, q, 64, s.b);
	give(f, r, 64, s.a);
	EXPECT(f, "oob-write-after", "oob-write-before");
}

static void
expect_double_free(struct fixture *f, unsigned char *p, struct soma_backend_stream *stream, const char *state)
{
	ck_assert_int_eq(f->ops->free(f->g, (uintptr_t)p, 100, stream), SOMA_STATUS_INVALID_VALUE);
	EXPECT(f, "double-free");
	EXPECT_TEXT(f, 0, state);
	EXPECT_TEXT(f, 0, "\n free: stream ");
}

CASE(row_05_double_free)
{
	unsigned char *p = take(f, 100, s.a);

	give(f, p, 100, s.a);
	expect_double_free(f, p, s.a, "state retired");
}

CASE(row_06_double_free_in_quarantine)
{
	unsigned char *p = take(f, 100, s.a);

	give(f, p, 100, s.a);
	sync_stream(f, s.a);
	expect_double_free(f, p, s.a, "state quarantined");
}

CASE(row_07_double_free_of_a_tombstone)
{
	unsigned char *p = take(f, 100, s.a);

	give(f, p, 100, s.a);
	sync_stream(f, s.a);
	drain(f);
	expect_double_free(f, p, s.a, "state freed");
}

CASE(row_08_foreign_free)
{
	unsigned char *p = take(f, 100, s.a);

	ck_assert_int_eq(f->ops->free(f->g, (uintptr_t)&p, 8, s.a), SOMA_STATUS_INVALID_VALUE);
	EXPECT(f, "foreign-free");
	ck_assert_int_eq(f->ops->free(f->g, (uintptr_t)p + 16, 84, s.a), SOMA_STATUS_INVALID_VALUE);
	EXPECT(f, "foreign-free", "foreign-free");
	EXPECT_TEXT(f, 1, "at offset +16 of block");
	give(f, p, 100, s.a);
}

CASE(row_11_write_after_free)
{
	unsigned char *p = take(f, 100, s.a);

	give(f, p, 100, s.a);
	sync_stream(f, s.a);
	p[8] = 0x5a;
	drain(f);
	EXPECT(f, "write-after-free");
	EXPECT_TEXT(f, 0, "offset +8 ");
	EXPECT_TEXT(f, 0, "got 5a");
}

CASE(row_12_damage_is_reported_once_and_the_address_not_reused)
{
	unsigned char *p = take(f, 100, s.a);

	give(f, p, 100, s.a);
	sync_stream(f, s.a);
	p[8] = 0x5a;
	ck_assert_uint_eq(scan_now(f), 1);
	ck_assert_uint_eq(scan_now(f), 0);
	drain(f);
	for (int i = 0; i < 50; i++)
		ck_assert_ptr_ne(take(f, 100, NULL), p);
	EXPECT(f, "write-after-free");
	struct soma_backend_guard_stats stats = { .size = sizeof stats };
	ck_assert_int_eq(f->ops->guard_stats(f->g, &stats), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats.condemned_blocks, 1);
	ck_assert_uint_eq(stats.live_blocks, 50);
}

CASE(row_13_use_after_free)
{
	unsigned char *p = take(f, 100, s.a);

	give(f, p, 100, s.a);
	ck_assert_int_eq(use(f, p, WRITE, s.a), SOMA_STATUS_USE_AFTER_FREE);
	EXPECT(f, "use-after-free");
}

CASE(row_14_leak_with_tag_and_stack)
{
	unsigned char *p = take(f, 100, s.a);

	ck_assert_int_eq(f->ops->block_name(f->g, (uintptr_t)p, 77, "kv"), SOMA_STATUS_OK);
	f->ops->close(f->g);
	EXPECT(f, "leak");
	EXPECT_TEXT(f, 0, "gen 77 tag \"kv\"");
	EXPECT_TEXT(f, 0, "\n alloc: stream ");
#ifdef SOMA_WITH_LIBDW
	EXPECT_TEXT(f, 0, "row_14");
#endif
	/* Something to close for run_case(). */
	struct soma_backend_open how = { .size = sizeof how, .host = &f->host };
	ck_assert_int_eq(f->ops->open(&how, &f->g), SOMA_STATUS_OK);
}

CASE(row_15_read_before_any_write)
{
	unsigned char *p = take(f, 100, s.a), *q = take(f, 100, s.a);

	use(f, p, READ, s.a);
	EXPECT(f, "uninitialised-read");
	ck_assert_int_eq(use(f, q, WRITE, s.a), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, q, READ, s.a), SOMA_STATUS_OK);
	EXPECT(f, "uninitialised-read");
	give(f, p, 100, s.a);
	give(f, q, 100, s.a);
}

CASE(row_16_use_before_ready)
{
	unsigned char *p = take(f, 100, s.a);

	ck_assert_int_eq(use(f, p, WRITE, s.b), SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "use-before-ready");
	EXPECT_TEXT(f, 0, "never waited for stream");
	give(f, p, 100, s.a);
}

CASE(row_18_use_after_a_synchronisation_of_another_stream)
{
	unsigned char *p = take(f, 100, s.a);

	sync_stream(f, s.b);
	ck_assert_int_eq(use(f, p, WRITE, s.b), SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "use-before-ready");
	give(f, p, 100, s.a);
}

CASE(row_20_legacy_stream_does_not_order_a_non_blocking_one)
{
	struct soma_backend_stream *legacy = legacy_stream(f);
	unsigned char *p = take(f, 100, legacy);

	ck_assert_int_eq(use(f, p, WRITE, s.a), SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "use-before-ready");
	give(f, p, 100, legacy);
}

CASE(row_21_free_unordered)
{
	unsigned char *p = take(f, 100, s.a);

	give(f, p, 100, s.b);
	EXPECT(f, "free-unordered");
	/* And the memory waits for both streams. */
	struct soma_backend_guard_stats stats = { .size = sizeof stats };
	ck_assert_int_eq(f->ops->guard_settle(f->g), SOMA_STATUS_OK);
	ck_assert_int_eq(f->ops->guard_stats(f->g, &stats), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats.retired_blocks, 1);
	sync_stream(f, s.b);
	ck_assert_int_eq(f->ops->guard_stats(f->g, &stats), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats.quarantined_blocks, 1);
}

CASE(row_22_stream_races)
{
	unsigned char *p = take(f, 100, s.a), *q = take(f, 100, s.a);

	order(f, s.a, s.b);
	order(f, s.a, s.c);
	ck_assert_int_eq(use(f, p, WRITE, s.a), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, p, READ, s.b), SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "stream-race");
	EXPECT_TEXT(f, 0, " write seq ");
	EXPECT_TEXT(f, 0, " read seq ");
	EXPECT_TEXT(f, 0, "missing: stream ");

	ck_assert_int_eq(use(f, q, WRITE, s.b), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, q, READ, s.b), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, q, WRITE, s.c), SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "stream-race", "stream-race");
	ck_assert_int_eq(f->ops->synchronize(f->g), SOMA_STATUS_OK);
	give(f, p, 100, s.a);
	give(f, q, 100, s.a);
}

CASE(row_23_exact_fit_is_clean)
{
	for (uint64_t size = 1; size < 600; size++) {
		unsigned char *p = take(f, size, s.a);
		memset(p, 0xee, size);
		give(f, p, size, s.a);
	}
	sync_stream(f, s.a);
	drain(f);
	f->ops->close(f->g);
	EXPECT(f);
	struct soma_backend_open how = { .size = sizeof how, .host = &f->host };
	ck_assert_int_eq(f->ops->open(&how, &f->g), SOMA_STATUS_OK);
}

CASE(row_25_what_a_synchronisation_orders)
{
	unsigned char *p = take(f, 100, s.a);

	sync_stream(f, s.a);
	ck_assert_int_eq(use(f, p, WRITE, s.b), SOMA_STATUS_OK);
	ck_assert_int_eq(f->ops->synchronize(f->g), SOMA_STATUS_OK);
	struct soma_backend_stream *late = make_stream(f, NON_BLOCKING);
	ck_assert_int_eq(use(f, p, WRITE, late), SOMA_STATUS_OK);
	give(f, p, 100, late);
	EXPECT(f);
}

CASE(row_26_legacy_and_blocking_streams_in_turn)
{
	struct soma_backend_stream *legacy = legacy_stream(f), *x = make_stream(f, 0), *y = make_stream(f, 0);
	unsigned char *p = take(f, 100, x);

	ck_assert_int_eq(use(f, p, WRITE, legacy), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, p, WRITE, y), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, p, READ, legacy), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, p, WRITE, x), SOMA_STATUS_OK);
	give(f, p, 100, legacy);
	EXPECT(f);
}

CASE(row_27_ordered_write_then_reads)
{
	unsigned char *p = take(f, 100, s.a);

	ck_assert_int_eq(use(f, p, WRITE, s.a), SOMA_STATUS_OK);
	order(f, s.a, s.b);
	order(f, s.a, s.c);
	ck_assert_int_eq(use(f, p, READ, s.b), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, p, READ, s.c), SOMA_STATUS_OK);
	order(f, s.b, s.a);
	order(f, s.c, s.a);
	give(f, p, 100, s.a);
	EXPECT(f);
}

CASE_WITH(row_28_reuse_and_churn_are_clean, "quarantine_bytes", "4K")
{
	for (int i = 0; i < 100; i++) {
		unsigned char *p = take(f, 100, s.a), *q = take(f, 3000, s.b);
		memset(p, 1, 100);
		memset(q, 1, 3000);
		give(f, p, 100, s.a);
		give(f, q, 3000, s.b);
		sync_stream(f, s.a);
		sync_stream(f, s.b);
	}
	give(f, NULL, 0, s.a);
	EXPECT(f);
	ck_assert_uint_gt(f->released_count, 150);
}

START_TEST(row_32_a_full_quarantine_gives_way)
{
	for (int kind = INNER_DIRECT; kind <= INNER_COPIES; kind++) {
		struct fixture f;
		fixture_open(&f, (enum inner_kind)kind, NULL);
		struct soma_backend_stream *stream = make_stream(&f, 0);
		atomic_store(&toy_limit, 1 << 20);
		for (int i = 0; i < 100; i++) {
			unsigned char *p = take(&f, 100 << 10, stream);
			give(&f, p, 100 << 10, stream);
			sync_stream(&f, stream);
		}
		struct soma_backend_guard_stats stats = { .size = sizeof stats };
		ck_assert_int_eq(f.ops->guard_stats(f.g, &stats), SOMA_STATUS_OK);
		ck_assert_uint_gt(stats.quarantined_blocks, 1);
		unsigned char *all = take(&f, 900 << 10, stream);
		uint64_t ptr;
		ck_assert_int_eq(f.ops->alloc(f.g, 900 << 10, 0, stream, &ptr),
				 SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
		give(&f, all, 900 << 10, stream);
		EXPECT(&f);
		fixture_close(&f);
		atomic_store(&toy_limit, 0);
	}
}
END_TEST

UNIT_MAIN("guard rows", row_01_write_just_past_the_end, row_02_write_just_before_the_start,
	  row_03_write_of_the_last_redzone_byte, row_04_two_damaged_blocks_are_two_reports,
	  row_05_double_free, row_06_double_free_in_quarantine, row_07_double_free_of_a_tombstone,
	  row_08_foreign_free, row_11_write_after_free,
	  row_12_damage_is_reported_once_and_the_address_not_reused, row_13_use_after_free,
	  row_14_leak_with_tag_and_stack, row_15_read_before_any_write, row_16_use_before_ready,
	  row_18_use_after_a_synchronisation_of_another_stream,
	  row_20_legacy_stream_does_not_order_a_non_blocking_one, row_21_free_unordered, row_22_stream_races,
	  row_23_exact_fit_is_clean, row_25_what_a_synchronisation_orders,
	  row_26_legacy_and_blocking_streams_in_turn, row_27_ordered_write_then_reads,
	  row_28_reuse_and_churn_are_clean, row_32_a_full_quarantine_gives_way)

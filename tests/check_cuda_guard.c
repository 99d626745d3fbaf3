/* SPDX-License-Identifier: Apache-2.0 */
/* What the guard must find around async and sync, in memory that it reaches by the driver alone. */
#include "tests/cuda_guard_fixture.h"

/* ---- memory ------------------------------------------------------------------------ */

CASE(row_01_write_just_past_the_end)
{
	uint64_t p = take(1000, a);

	poke(p + 1000, a);
	give(p, 1000, a);
	sync_stream(a);
	EXPECT("oob-write-after");
	EXPECT_TEXT("offset +1000 (0 past end)");
	EXPECT_TEXT("got 07");
}

CASE(row_02_write_just_before_the_start)
{
	uint64_t p = take(1024, a);

	poke(p - 1, a);
	give(p, 1024, a);
	sync_stream(a);
	EXPECT("oob-write-before");
}

CASE(row_03_write_of_the_last_redzone_byte)
{
	uint64_t p = take(1024, a);

	poke(p + 1024 + 255, a);
	give(p, 1024, a);
	sync_stream(a);
	EXPECT("oob-write-after");
}

CASE(row_04_two_damaged_blocks_are_two_reports)
{
	uint64_t p = take(64, a), q = take(64, b), r = take(64, a);

	poke(p + 64, a);
	poke(r - 5, a);
	ck_assert_uint_eq(scan_now(), 2);
	EXPECT("oob-write-after", "oob-write-before");
	ck_assert_uint_eq(scan_now(), 0);
	give(p, 64, a);
	give(q, 64, b);
	give(r, 64, a);
	EXPECT("oob-write-after", "oob-write-before");
}

CASE(a_scan_looks_at_many_blocks_at_once)
{
	enum { COUNT = 200 };
	uint64_t p[COUNT], launches = fake.calls("cuLaunchKernel");
	bool scans = (query().capabilities & SOMA_BACKEND_SCANS) != 0;

	for (int i = 0; i < COUNT; i++)
		p[i] = take(100, a);
	poke(p[150] + 100, a);
	ck_assert_uint_eq(scan_now(), 1);
	if (scans)
		ck_assert_uint_le(fake.calls("cuLaunchKernel") - launches, 6);
	else
		ck_assert_uint_eq(fake.calls("cuLaunchKernel"), launches);
	for (int i = 0; i < COUNT; i++)
		give(p[i], 100, a);
	sync_stream(a);
	EXPECT("oob-write-after");
}

CASE(rows_05_to_07_double_free)
{
	uint64_t p = take(100, a);

	give(p, 100, a);
	ck_assert_int_eq(ops->free(self, p, 100, a), SOMA_STATUS_INVALID_VALUE);
	EXPECT("double-free");
	EXPECT_TEXT("state retired");
	sync_stream(a);
	ck_assert_int_eq(ops->free(self, p, 100, a), SOMA_STATUS_INVALID_VALUE);
	EXPECT_TEXT("state quarantined");
	drain();
	ck_assert_int_eq(ops->free(self, p, 100, a), SOMA_STATUS_INVALID_VALUE);
	EXPECT("double-free", "double-free", "double-free");
	EXPECT_TEXT("state freed");
}

CASE(row_08_foreign_free)
{
	ck_assert_int_eq(ops->free(self, 0x1000, 8, a), SOMA_STATUS_INVALID_VALUE);
	EXPECT("foreign-free");
}

CASE(row_11_write_after_free)
{
	uint64_t p = take(1000, a);

	give(p, 1000, a);
	sync_stream(a);
	poke(p + 8, b);
	sync_stream(b);
	drain();
	EXPECT("write-after-free");
	EXPECT_TEXT("offset +8");
	EXPECT_TEXT("got 07");
}

CASE(row_12_one_report_and_the_address_is_not_used_again)
{
	uint64_t p = take(1000, a);

	give(p, 1000, a);
	sync_stream(a);
	poke(p + 8, a);
	ck_assert_uint_eq(scan_now(), 1);
	ck_assert_uint_eq(scan_now(), 0);
	drain();
	EXPECT("write-after-free");
	uint64_t q = take(1000, a);
	ck_assert_uint_ne(p, q);
	give(q, 1000, a);
}

CASE(row_14_a_leak_is_told_at_the_end)
{
	uint64_t p = take(1000, a);

	OK(ops->block_name(self, p, 5, "weights"));
	soma__backend_close(backend);
	EXPECT("leak");
	EXPECT_TEXT("weights");
	open_guard("guard:sync", NULL, NULL);
}

CASE(row_15_read_of_what_was_never_written)
{
	uint64_t p = take(1000, a);

	OK(use(p, READ, a));
	EXPECT("uninitialised-read");
	EXPECT_TEXT("WARNING");
	give(p, 1000, a);
}

CASE(row_23_what_fits_is_fine)
{
	uint64_t p = take(1000, a);

	OK(ops->fill8(self, p, 1, 1000, a));
	give(p, 1000, a);
	EXPECT();
}

CASE_IN(FAKE_STEPPED, row_28_a_small_quarantine_turns_over, "guard.quarantine_bytes", "4K")
{
	for (int i = 0; i < 100; i++) {
		uint64_t p = take(500, a);
		poke(p + 499, a);
		give(p, 500, a);
		if (i % 10 == 9)
			sync_stream(a);
	}
	give(0, 0, a);
	EXPECT();
}

/* ---- order ------------------------------------------------------------------------------ */

CASE(row_13_use_after_free)
{
	uint64_t p = take(1000, a);

	give(p, 1000, a);
	ck_assert_int_eq(use(p, WRITE, a), SOMA_STATUS_USE_AFTER_FREE);
	EXPECT("use-after-free");
}

/* What sync gives is ready at once, for every stream. */
CASE(rows_16_to_20_use_before_ready)
{
	struct soma_backend_stream *legacy;
	uint64_t p = take(100, a), q = take(100, a), r;
	enum soma_status status = is_async ? SOMA_STATUS_STREAM_MISUSE : SOMA_STATUS_OK;

	ck_assert_int_eq(use(p, WRITE, b), status);
	sync_stream(b);
	ck_assert_int_eq(use(q, WRITE, b), status);
	OK(ops->stream_default(self, SOMA_BACKEND_STREAM_LEGACY, &legacy));
	r = take(100, legacy);
	ck_assert_int_eq(use(r, WRITE, c), status);
	if (is_async)
		EXPECT("use-before-ready", "use-before-ready", "use-before-ready");
	else
		EXPECT();
	order(b, a);
	order(c, legacy);
	give(p, 100, a);
	give(q, 100, a);
	give(r, 100, legacy);
	OK(ops->synchronize(self));
}

CASE(row_21_free_on_a_stream_that_is_not_ordered)
{
	uint64_t p = take(1000, a);

	OK(use(p, WRITE, a));
	OK(ops->fill8(self, p, 1, 1000, a));
	give(p, 1000, b);
	EXPECT("free-unordered");
	OK(ops->guard_settle(self));
	drain();
	ck_assert_uint_ne(fake.live(FAKE_ALLOCATIONS), 0);
	OK(ops->synchronize(self));
}

CASE(row_22_races)
{
	uint64_t p = take(100, a);

	order(a, b);
	order(a, c);
	OK(use(p, WRITE, a));
	ck_assert_int_eq(use(p, READ, b), SOMA_STATUS_STREAM_MISUSE);
	order(a, b);
	order(a, c);
	OK(use(p, READ, b));
	ck_assert_int_eq(use(p, WRITE, c), SOMA_STATUS_STREAM_MISUSE);
	EXPECT("stream-race", "stream-race");
	order(b, a);
	give(p, 100, a);
	OK(ops->synchronize(self));
}

CASE(rows_25_to_27_what_is_ordered_is_fine)
{
	struct soma_backend_stream *legacy, *blocking, *late;
	uint64_t p = take(100, a), q;

	OK(use(p, WRITE, a));
	order(a, b);
	order(a, c);
	OK(use(p, READ, b));
	OK(use(p, READ, c));
	OK(ops->synchronize(self));
	late = stream_new();
	OK(use(p, WRITE, late));
	sync_stream(late);
	give(p, 100, a);
	OK(ops->stream_default(self, SOMA_BACKEND_STREAM_LEGACY, &legacy));
	OK(ops->stream_create(self, 0, &blocking));
	q = take(100, legacy);
	OK(use(q, WRITE, blocking));
	OK(use(q, READ, legacy));
	OK(use(q, WRITE, blocking));
	give(q, 100, legacy);
	EXPECT();
}

CUDA_MAIN("cuda guard", row_01_write_just_past_the_end, row_02_write_just_before_the_start,
	  row_03_write_of_the_last_redzone_byte, row_04_two_damaged_blocks_are_two_reports,
	  a_scan_looks_at_many_blocks_at_once, rows_05_to_07_double_free, row_08_foreign_free,
	  row_11_write_after_free, row_12_one_report_and_the_address_is_not_used_again,
	  row_14_a_leak_is_told_at_the_end, row_15_read_of_what_was_never_written, row_23_what_fits_is_fine,
	  row_28_a_small_quarantine_turns_over, row_13_use_after_free, rows_16_to_20_use_before_ready,
	  row_21_free_on_a_stream_that_is_not_ordered, row_22_races, rows_25_to_27_what_is_ordered_is_fine)

/* SPDX-License-Identifier: Apache-2.0 */
/* What the guard must find around async and sync, in memory that it reaches by the driver alone. */
#include "tests/cuda_guard_fixture.h"

static void
open_again(void)
{
	open_guard("guard:sync", NULL, NULL);
}

static void
touch(uint64_t ptr, uint64_t bytes, uint8_t value, struct soma_backend_stream *stream)
{
	OK(ops->fill8(self, ptr, value, bytes, stream));
}

/* The guard goes by use(); what copies bring back is check_cuda_memory's. */
#define look(ptr, bytes, value, stream) (void)0
#define read_bytes(ptr, bytes, stream) (void)0
#define mismatches() 0

#define ROW(name) CASE(name)
#define ROW_WITH(name, option, value) CASE_IN(FAKE_STEPPED, name, option, value)
#define SAME(is, expected) ck_assert_int_eq(is, expected)
#define SIZES 1001
#define STANDS_STILL true
#include "tests/guard_device_rows.h"

/* ---- what the stand-in's controls show --------------------------------------------------- */

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

CUDA_MAIN("cuda guard", row_01_write_just_past_the_end, row_02_write_just_before_the_start,
	  row_03_write_of_the_last_redzone_byte, row_04_two_damaged_blocks_are_two_reports,
	  a_scan_looks_at_many_blocks_at_once, rows_05_to_07_double_free, row_08_foreign_free,
	  row_11_write_after_free, row_12_one_report_and_the_address_is_not_used_again,
	  row_14_a_leak_is_told_at_the_end, row_15_read_of_what_was_never_written, row_23_what_fits_is_fine,
	  row_28_a_small_quarantine_turns_over, row_13_use_after_free, rows_16_to_20_use_before_ready,
	  row_21_free_on_a_stream_that_is_not_ordered, row_22_races, rows_25_to_27_what_is_ordered_is_fine)

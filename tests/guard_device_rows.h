/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the guard's specification around async and sync: what it must find, and what it must not.  Two programs have
 * them, by including this where what follows is defined: check_cuda_guard over the stand-in, and gpu/rows on a GPU.
 * What only one of them can do is a case of its own there.
 *
 *   ROW(name), ROW_WITH(name, option, value)    begin a case; the guard is open, with the words of guard_words.h
 *   SAME(is, expected)
 *   SIZES                                       how many sizes are tried
 *   STANDS_STILL                                whether nothing runs until the host waits
 *   is_async, open_again(), poke(at, stream)
 *   touch(ptr, bytes, value, stream)            work of the program's that writes
 *   look(ptr, bytes, value, stream)             and that compares; mismatches() has how often that failed
 *   read_bytes(ptr, bytes, stream)              and that reads anything
 */

/* ---- memory -------------------------------------------------------------------------------- */

ROW(row_01_write_just_past_the_end)
{
	uint64_t p = take(1000, a);

	poke(p + 1000, a);
	give(p, 1000, a);
	sync_stream(a);
	EXPECT("oob-write-after");
	EXPECT_TEXT("offset +1000 (0 past end)");
	EXPECT_TEXT("got 07");
}

ROW(row_02_write_just_before_the_start)
{
	uint64_t p = take(1024, a);

	poke(p - 1, a);
	give(p, 1024, a);
	sync_stream(a);
	EXPECT("oob-write-before");
}

ROW(row_03_write_of_the_last_redzone_byte)
{
	uint64_t p = take(1024, a);

	poke(p + 1024 + 255, a);
	give(p, 1024, a);
	sync_stream(a);
	EXPECT("oob-write-after");
}

ROW(row_04_two_damaged_blocks_are_two_reports)
{
	uint64_t p = take(64, a), q = take(64, b), r = take(64, a);

	poke(p + 64, a);
	poke(r - 5, a);
	SAME(scan_now(), 2);
	EXPECT("oob-write-after", "oob-write-before");
	SAME(scan_now(), 0);
	give(p, 64, a);
	give(q, 64, b);
	give(r, 64, a);
	EXPECT("oob-write-after", "oob-write-before");
}

ROW(rows_05_to_07_double_free)
{
	uint64_t p = take(100, a);

	give(p, 100, a);
	SAME(ops->free(self, p, 100, a), SOMA_STATUS_INVALID_VALUE);
	EXPECT("double-free");
	if (STANDS_STILL)
		EXPECT_TEXT("state retired");
	sync_stream(a);
	SAME(ops->free(self, p, 100, a), SOMA_STATUS_INVALID_VALUE);
	EXPECT_TEXT("state quarantined");
	drain();
	SAME(ops->free(self, p, 100, a), SOMA_STATUS_INVALID_VALUE);
	EXPECT("double-free", "double-free", "double-free");
	EXPECT_TEXT("state freed");
}

ROW(row_08_foreign_free)
{
	SAME(ops->free(self, 0x1000, 8, a), SOMA_STATUS_INVALID_VALUE);
	EXPECT("foreign-free");
}

ROW(row_11_write_after_free)
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

ROW(row_12_one_report_and_the_address_is_not_used_again)
{
	uint64_t p = take(1000, a), q;

	give(p, 1000, a);
	sync_stream(a);
	poke(p + 8, a);
	SAME(scan_now(), 1);
	SAME(scan_now(), 0);
	drain();
	EXPECT("write-after-free");
	q = take(1000, a);
	SAME(p != q, true);
	give(q, 1000, a);
}

/* Closed here, so that the report is seen; another one is opened for the end. */
ROW(row_14_a_leak_is_told_at_the_end)
{
	uint64_t p = take(1000, a);

	OK(ops->block_name(self, p, 5, "weights"));
	soma__backend_close(backend);
	EXPECT("leak");
	EXPECT_TEXT("weights");
	open_again();
}

ROW(row_15_read_of_what_was_never_written)
{
	uint64_t p = take(1000, a);

	OK(use(p, READ, a));
	read_bytes(p, 1000, a);
	EXPECT("uninitialised-read");
	EXPECT_TEXT("WARNING");
	give(p, 1000, a);
}

ROW(row_23_what_fits_is_fine)
{
	for (uint64_t size = 1; size < SIZES; size++) {
		uint64_t p = take(size, a);
		touch(p, size, 0xee, a);
		give(p, size, a);
	}
	sync_stream(a);
	drain();
	EXPECT();
}

ROW_WITH(row_28_a_small_quarantine_turns_over, "guard.quarantine_bytes", "4K")
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

/* ---- order --------------------------------------------------------------------------------- */

ROW(row_13_use_after_free)
{
	uint64_t p = take(1000, a);

	give(p, 1000, a);
	SAME(use(p, WRITE, a), SOMA_STATUS_USE_AFTER_FREE);
	EXPECT("use-after-free");
}

/* What sync gives is ready at once, for every stream. */
ROW(rows_16_to_20_use_before_ready)
{
	struct soma_backend_stream *legacy = legacy_stream();
	enum soma_status status = is_async ? SOMA_STATUS_STREAM_MISUSE : SOMA_STATUS_OK;
	uint64_t p = take(100, a), q = take(100, a), r;

	SAME(use(p, WRITE, b), status);
	sync_stream(b);
	SAME(use(q, WRITE, b), status);
	r = take(100, legacy);
	SAME(use(r, WRITE, c), status);
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

ROW(row_22_races)
{
	uint64_t p = take(100, a);

	order(a, b);
	order(a, c);
	OK(use(p, WRITE, a));
	touch(p, 100, 1, a);
	SAME(use(p, READ, b), SOMA_STATUS_STREAM_MISUSE);
	EXPECT_TEXT("missing: stream ");
	order(a, b);
	order(a, c);
	OK(use(p, READ, b));
	read_bytes(p, 100, b);
	SAME(use(p, WRITE, c), SOMA_STATUS_STREAM_MISUSE);
	EXPECT("stream-race", "stream-race");
	order(b, a);
	give(p, 100, a);
	OK(ops->synchronize(self));
}

ROW(rows_25_to_27_what_is_ordered_is_fine)
{
	struct soma_backend_stream *legacy = legacy_stream(), *blocking, *late;
	uint64_t p = take(100, a), q;

	OK(ops->stream_create(self, 0, &blocking));
	OK(use(p, WRITE, a));
	touch(p, 100, 1, a);
	order(a, b);
	order(a, c);
	OK(use(p, READ, b));
	OK(use(p, READ, c));
	look(p, 100, 1, b);
	look(p, 100, 1, c);
	OK(ops->synchronize(self));
	late = stream_new();
	OK(use(p, WRITE, late));
	touch(p, 100, 2, late);
	sync_stream(late);
	give(p, 100, a);
	q = take(100, legacy);
	OK(use(q, WRITE, blocking));
	touch(q, 100, 3, blocking);
	OK(use(q, READ, legacy));
	look(q, 100, 3, legacy);
	OK(use(q, WRITE, blocking));
	touch(q, 100, 4, blocking);
	give(q, 100, legacy);
	SAME(mismatches(), 0);
	EXPECT();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* async and sync: blocks, fills, scans and spans. */
#include "tests/cuda_fixture.h"

/* ---- blocks ------------------------------------------------------------------------- */

START_TEST(a_request_that_makes_no_sense_is_refused)
{
	for (size_t i = 0; i < BOTH; i++) {
		start(both[i], FAKE_IMMEDIATE);
		uint64_t ptr = 77;
		REFUSED(INVALID_VALUE, "0 bytes", ops->alloc(self, 0, 0, NULL, &ptr));
		REFUSED(INVALID_VALUE, "power of two", ops->alloc(self, 10, 3, NULL, &ptr));
		REFUSED(NOT_SUPPORTED, "alignment of 512", ops->alloc(self, 10, 512, NULL, &ptr));
		ck_assert_uint_eq(ptr, 77);
		OK(ops->alloc(self, 10, 256, NULL, &ptr));
		ck_assert_uint_eq(ptr % 256, 0);
		give(ptr, 10, NULL);
		close_backend();
		fake.restart();
	}
}
END_TEST

START_TEST(a_request_that_does_not_fit_says_what_there_is)
{
	for (size_t i = 0; i < BOTH; i++) {
		start(both[i], FAKE_IMMEDIATE);
		struct soma_backend_info info = query();
		uint64_t ptr;
		REFUSED(OUT_OF_DEVICE_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY",
			ops->alloc(self, info.total + 1, 0, NULL, &ptr));
		const struct soma_error *error = soma_error_last();
		ck_assert_int_eq(error->driver_code, CUDA_ERROR_OUT_OF_MEMORY);
		ck_assert_uint_eq(error->requested, info.total + 1);
		ck_assert_uint_eq(error->limit, info.total);
		ck_assert_uint_eq(error->current + error->remaining, info.total);
		close_backend();
		fake.restart();
	}
}
END_TEST

START_TEST(a_free_of_what_is_no_block_is_told_and_has_no_effect)
{
	for (size_t i = 0; i < BOTH; i++) {
		start(both[i], FAKE_IMMEDIATE);
		struct soma_backend_stream *stream = stream_new();
		uint64_t ptr = take(1000, stream);
		REFUSED(INVALID_VALUE, "no block of 1000 bytes", ops->free(self, ptr + 256, 1000, stream));
		REFUSED(INVALID_VALUE, "no block of 999 bytes", ops->free(self, ptr, 999, stream));
		REFUSED(INVALID_VALUE, "no block", ops->free(self, 0, 1000, stream));
		REFUSED(INVALID_VALUE, "no block", ops->free(self, 0x123400, 1000, NULL));
		give(ptr, 1000, stream);
		REFUSED(INVALID_VALUE, "no block", ops->free(self, ptr, 1000, stream));
		close_backend();
		fake.restart();
	}
}
END_TEST

START_TEST(the_table_of_blocks_keeps_thousands_apart)
{
	enum { COUNT = 20000 };
	static uint64_t ptr[COUNT];

	start("async", FAKE_IMMEDIATE);
	for (int i = 0; i < COUNT; i++)
		ptr[i] = take((uint64_t)i % 5 + 1, NULL);
	for (int i = 0; i < COUNT; i += 2)
		give(ptr[i], (uint64_t)i % 5 + 1, NULL);
	for (int i = 0; i < COUNT; i += 2)
		REFUSED(INVALID_VALUE, "no block", ops->free(self, ptr[i], (uint64_t)i % 5 + 1, NULL));
	for (int i = 1; i < COUNT; i += 2)
		give(ptr[i], (uint64_t)i % 5 + 1, NULL);
	close_backend();
}
END_TEST

START_TEST(async_neither_waits_to_give_nor_to_take)
{
	start("async", FAKE_STEPPED);
	struct soma_backend_stream *stream = stream_new();
	uint64_t ptr = take(1000, stream);

	OK(ops->fill8(self, ptr, 1, 1000, stream));
	give(ptr, 1000, stream);
	ck_assert_uint_ge(fake.pending(native(stream)), 2);
	ck_assert_uint_eq(take(1000, stream), ptr);
	OK(ops->fill8(self, ptr, 2, 1000, stream));
	give(ptr, 1000, stream);
	OK(ops->stream_synchronize(self, stream));
	close_backend();
}
END_TEST

START_TEST(without_a_stream_the_memory_is_ready)
{
	start("async", FAKE_STEPPED);
	struct soma_backend_stream *a = stream_new();
	uint64_t ptr = take(1000, NULL);

	OK(ops->fill8(self, ptr, 1, 1000, a));
	fake.run_all();
	OK(ops->stream_synchronize(self, a));
	give(ptr, 1000, NULL);
	close_backend();
}
END_TEST

START_TEST(sync_waits_for_the_stream_of_a_free)
{
	start("sync", FAKE_STEPPED);
	struct soma_backend_stream *stream = stream_new();
	uint64_t ptr = take(1000, stream);

	OK(ops->fill8(self, ptr, 1, 1000, stream));
	ck_assert_uint_ne(fake.pending(native(stream)), 0);
	give(ptr, 1000, stream);
	ck_assert_uint_eq(fake.pending(native(stream)), 0);
	close_backend();
}
END_TEST

START_TEST(close_gives_back_what_is_left)
{
	for (size_t i = 0; i < BOTH; i++) {
		start(both[i], FAKE_STEPPED);
		struct soma_backend_stream *stream = stream_new();
		uint64_t span;
		void *memory;
		for (int j = 0; j < 100; j++) {
			uint64_t ptr = take(1000 * (uint64_t)j + 1, stream);
			OK(ops->fill8(self, ptr, 1, 1, stream));
		}
		OK(ops->event_record(self, event_new(), stream));
		OK(ops->staging_alloc(self, 100, &memory));
		OK(ops->span_reserve(self, 8 * MB, 0, &span));
		OK(ops->span_map(self, span + 2 * MB, 4 * MB));
		close_backend();
		fake.restart();
	}
}
END_TEST

/* ---- fills, copies, scans ---------------------------------------------------------------- */

START_TEST(fills_and_copies_do_what_they_say)
{
	for (size_t i = 0; i < 2 * BOTH; i++) {
		start(both[i % 2], FAKE_STEPPED);
		struct soma_backend_stream *stream = i < 2 ? NULL : stream_new();
		unsigned char *memory;
		uint64_t from = take(4096, stream), to = take(4096, stream);
		OK(ops->staging_alloc(self, 4096, (void **)&memory));
		for (int j = 0; j < 4096; j++)
			memory[j] = (unsigned char)(j * 7);
		OK(ops->copy_from_host(self, from, memory, 4096, stream));
		OK(ops->fill8(self, from + 1, 0xab, 3, stream));
		OK(ops->fill32(self, from + 8, 0x01020304, 2, stream));
		OK(ops->copy(self, to, from, 4096, stream));
		if (stream != NULL)
			OK(ops->stream_synchronize(self, stream));
		memset(memory, 0, 4096);
		OK(ops->copy_to_host(self, memory, to, 4096, stream));
		if (stream != NULL)
			OK(ops->stream_synchronize(self, stream));
		static const unsigned char head[] = { 0, 0xab, 0xab, 0xab, 28, 35, 42, 49,
						      4, 3,    2,    1,    4,  3,  2,  1 };
		ck_assert_mem_eq(memory, head, sizeof head);
		ck_assert_int_eq(memory[4095], (unsigned char)(4095 * 7));
		REFUSED(INVALID_VALUE, "a multiple of 4", ops->fill32(self, from + 2, 0, 1, stream));
		OK(ops->fill8(self, from, 0, 0, stream));
		OK(ops->copy(self, from, to, 0, stream));
		give(from, 4096, stream);
		give(to, 4096, stream);
		if (stream != NULL)
			OK(ops->stream_synchronize(self, stream));
		ops->staging_free(self, memory, 4096);
		close_backend();
		fake.restart();
	}
}
END_TEST

START_TEST(a_scan_finds_the_first_bad_byte_and_counts)
{
	start("async", FAKE_STEPPED);
	struct soma_backend_stream *stream = stream_new();
	struct soma_backend_scan *ranges;
	uint64_t ptr = take(1 * MB, stream);

	OK(ops->staging_alloc(self, 3 * sizeof *ranges, (void **)&ranges));
	OK(ops->fill32(self, ptr, 0xfff0ff81, MB / 4, stream));
	ranges[0] = (struct soma_backend_scan){ .ptr = ptr, .bytes = MB, .pattern = 0xfff0ff81 };
	ranges[1] = (struct soma_backend_scan){ .ptr = ptr + 3, .bytes = 6, .pattern = 0xfff0ff81 };
	ranges[2] = (struct soma_backend_scan){ .ptr = ptr + 1001, .bytes = 1001, .pattern = 0xfff0ff81 };
	OK(ops->scan(self, ranges, 3, stream));
	OK(ops->stream_synchronize(self, stream));
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(ranges[i].first_bad, SOMA_BACKEND_SCAN_CLEAN);
		ck_assert_uint_eq(ranges[i].bad_count, 0);
	}
	OK(ops->fill8(self, ptr + 1500, 1, 3, stream));
	OK(ops->fill8(self, ptr + 2002, 1, 1, stream));
	OK(ops->scan(self, ranges, 3, stream));
	OK(ops->stream_synchronize(self, stream));
	ck_assert_uint_eq(ranges[0].first_bad, 1500);
	ck_assert_uint_eq(ranges[0].bad_count, 4);
	ck_assert_uint_eq(ranges[1].first_bad, SOMA_BACKEND_SCAN_CLEAN);
	ck_assert_uint_eq(ranges[2].first_bad, 499);
	ck_assert_uint_eq(ranges[2].bad_count, 3);
	OK(ops->scan(self, ranges, 3, NULL));
	ck_assert_uint_eq(ranges[0].first_bad, 1500);
	give(ptr, MB, stream);
	close_backend();
}
END_TEST

START_TEST(a_scan_takes_more_ranges_than_one_launch)
{
	enum { COUNT = 5000 };
	struct soma_backend_scan *ranges;

	start("sync", FAKE_IMMEDIATE);
	uint64_t ptr = take(COUNT, NULL);
	OK(ops->staging_alloc(self, COUNT * sizeof *ranges, (void **)&ranges));
	OK(ops->fill8(self, ptr, 5, COUNT, NULL));
	OK(ops->fill8(self, ptr + COUNT - 1, 6, 1, NULL));
	for (uint64_t i = 0; i < COUNT; i++)
		ranges[i] = (struct soma_backend_scan){ .ptr = ptr + i, .bytes = 1, .pattern = 0x05050505 };
	OK(ops->scan(self, ranges, COUNT, NULL));
	for (int i = 0; i < COUNT - 1; i++)
		ck_assert_uint_eq(ranges[i].bad_count, 0);
	ck_assert_uint_eq(ranges[COUNT - 1].bad_count, 1);
	ck_assert_uint_eq(ranges[COUNT - 1].first_bad, 0);
	ops->staging_free(self, ranges, COUNT * sizeof *ranges);
	give(ptr, COUNT, NULL);
	close_backend();
}
END_TEST

START_TEST(pinned_memory_that_is_short_is_the_hosts)
{
	void *memory;

	start("async", FAKE_IMMEDIATE);
	ck_assert(fake.fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY));
	REFUSED(OUT_OF_HOST_MEMORY, "cuMemHostAlloc", ops->staging_alloc(self, 100, &memory));
	close_backend();
}
END_TEST

/* ---- spans ---------------------------------------------------------------------------- */

START_TEST(any_part_of_a_span_is_mapped_and_unmapped)
{
	for (size_t i = 0; i < BOTH; i++) {
		start(both[i], FAKE_IMMEDIATE);
		uint64_t span, taken = fake.device_taken(0);
		OK(ops->span_reserve(self, 16 * MB, 0, &span));
		ck_assert_uint_eq(fake.device_taken(0), taken);
		OK(ops->span_map(self, span, 8 * MB));
		OK(ops->fill8(self, span + 2 * MB, 1, 2 * MB, NULL));
		ck_assert_uint_eq(fake.device_taken(0), taken + 8 * MB);
		OK(ops->span_unmap(self, span + 2 * MB, 4 * MB));
		ck_assert_uint_eq(fake.device_taken(0), taken + 4 * MB);
		OK(ops->span_map(self, span + 4 * MB, 2 * MB));
		OK(ops->span_map(self, span + 14 * MB, 2 * MB));
		OK(ops->fill8(self, span + 4 * MB, 1, 2 * MB, NULL));
		REFUSED(INVALID_VALUE, "is mapped", ops->span_map(self, span + 2 * MB, 4 * MB));
		REFUSED(INVALID_VALUE, "is not mapped", ops->span_unmap(self, span, 4 * MB));
		REFUSED(INVALID_VALUE, "not wholly unmapped", ops->span_release(self, span, 16 * MB));
		OK(ops->span_unmap(self, span, 2 * MB));
		OK(ops->span_unmap(self, span + 4 * MB, 4 * MB));
		OK(ops->span_unmap(self, span + 14 * MB, 2 * MB));
		ck_assert_uint_eq(fake.device_taken(0), taken);
		REFUSED(INVALID_VALUE, "no span", ops->span_release(self, span, 14 * MB));
		OK(ops->span_release(self, span, 16 * MB));
		close_backend();
		fake.restart();
	}
}
END_TEST

START_TEST(what_is_no_part_of_a_span_is_refused)
{
	uint64_t span, other;

	start("async", FAKE_IMMEDIATE);
	OK(ops->span_reserve(self, 4 * MB, 8 * MB, &span));
	ck_assert_uint_eq(span % (8 * MB), 0);
	REFUSED(INVALID_VALUE, "multiples of", ops->span_reserve(self, 3 * MB, 0, &other));
	REFUSED(INVALID_VALUE, "multiples of", ops->span_reserve(self, 0, 0, &other));
	REFUSED(INVALID_VALUE, "no power of two", ops->span_reserve(self, 2 * MB, 3, &other));
	REFUSED(INVALID_VALUE, "multiples of", ops->span_map(self, span + 1, 2 * MB));
	REFUSED(INVALID_VALUE, "not within a reserved span", ops->span_map(self, span, 6 * MB));
	REFUSED(INVALID_VALUE, "not within a reserved span", ops->span_unmap(self, span - 2 * MB, 2 * MB));
	OK(ops->span_release(self, span, 4 * MB));
	REFUSED(INVALID_VALUE, "not within a reserved span", ops->span_map(self, span, 2 * MB));
	close_backend();
}
END_TEST

START_TEST(a_map_that_fails_half_way_leaves_nothing_mapped)
{
	static const char *const entries[] = { "cuMemCreate", "cuMemMap", "cuMemSetAccess" };
	uint64_t span;

	start("async", FAKE_IMMEDIATE);
	OK(ops->span_reserve(self, 8 * MB, 0, &span));
	for (size_t i = 0; i < 3; i++) {
		ck_assert(fake.fail(entries[i], i == 2 ? 1 : 3, CUDA_ERROR_OUT_OF_MEMORY));
		REFUSED(OUT_OF_DEVICE_MEMORY, entries[i], ops->span_map(self, span, 8 * MB));
		ck_assert_uint_eq(fake.live(FAKE_MAPPINGS), 0);
		ck_assert_uint_eq(fake.live(FAKE_HANDLES), 0);
		OK(ops->span_map(self, span, 8 * MB));
		OK(ops->span_unmap(self, span, 8 * MB));
	}
	OK(ops->span_map(self, span, 8 * MB));
	ck_assert(fake.fail("cuMemUnmap", 3, CUDA_ERROR_UNKNOWN));
	REFUSED(DRIVER, "cuMemUnmap", ops->span_unmap(self, span, 8 * MB));
	OK(ops->span_unmap(self, span, 8 * MB));
	OK(ops->span_release(self, span, 8 * MB));
	close_backend();
}
END_TEST

/* What was mapped before the failure cannot be taken back either: it is not the caller's all the same. */
START_TEST(a_map_whose_roll_back_fails_has_had_no_effect)
{
	uint64_t span;

	start("async", FAKE_IMMEDIATE);
	OK(ops->span_reserve(self, 8 * MB, 0, &span));
	uint64_t taken = fake.device_taken(0);
	for (int times = 1; times <= 2; times++) {
		/* The unmap is tried twice; the second time round both fail, by an error of earlier work. */
		ck_assert(fake.fail("cuMemSetAccess", 1, CUDA_ERROR_OUT_OF_MEMORY));
		ck_assert(fake.fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN));
		ck_assert(times == 1 || fake.fail(NULL, 12, CUDA_ERROR_UNKNOWN));
		REFUSED(OUT_OF_DEVICE_MEMORY, "cuMemSetAccess", ops->span_map(self, span, 4 * MB));
		fake.fail_none();
		REFUSED(INVALID_VALUE, "is not mapped", ops->span_unmap(self, span, 4 * MB));
		OK(ops->span_map(self, span, 8 * MB));
		OK(ops->fill8(self, span, 1, 8 * MB, NULL));
		OK(ops->span_unmap(self, span, 8 * MB));
		ck_assert_uint_eq(fake.device_taken(0), taken);
		ck_assert_uint_eq(fake.live(FAKE_MAPPINGS), 0);
	}
	OK(ops->span_release(self, span, 8 * MB));
	close_backend();
}
END_TEST

CUDA_MAIN("cuda memory", a_request_that_makes_no_sense_is_refused,
	  a_request_that_does_not_fit_says_what_there_is,
	  a_free_of_what_is_no_block_is_told_and_has_no_effect, the_table_of_blocks_keeps_thousands_apart,
	  async_neither_waits_to_give_nor_to_take, without_a_stream_the_memory_is_ready,
	  sync_waits_for_the_stream_of_a_free, close_gives_back_what_is_left,
	  fills_and_copies_do_what_they_say, a_scan_finds_the_first_bad_byte_and_counts,
	  a_scan_takes_more_ranges_than_one_launch, pinned_memory_that_is_short_is_the_hosts,
	  any_part_of_a_span_is_mapped_and_unmapped, what_is_no_part_of_a_span_is_refused,
	  a_map_that_fails_half_way_leaves_nothing_mapped, a_map_whose_roll_back_fails_has_had_no_effect)

/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks, fills, scans, spans, the pool, sharing, and a device that is lost. */
#include "tests/cuda_fixture.h"

#include <fcntl.h>
#include <stdlib.h>

static const char *const both[] = { "async", "sync" };
#define BOTH (sizeof both / sizeof both[0])

static void
start(const char *name, enum fake_mode mode)
{
	start_fake();
	fake.mode(mode, 1, 0);
	open_backend(name);
}

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

/* ---- the pool ---------------------------------------------------------------------------- */

START_TEST(attributes_are_the_pools)
{
	uint64_t value;

	start("async", FAKE_IMMEDIATE);
	uint64_t ptr = take(1000, NULL);
	ck_assert_uint_ge(attribute(SOMA_BACKEND_USED_CURRENT), 1000);
	ck_assert_uint_ge(attribute(SOMA_BACKEND_RESERVED_CURRENT), 1000);
	give(ptr, 1000, NULL);
	OK(ops->synchronize(self));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 0);
	ck_assert_uint_ge(attribute(SOMA_BACKEND_USED_HIGH), 1000);
	OK(ops->pool_set(self, SOMA_BACKEND_USED_HIGH, 0));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_HIGH), 0);
	REFUSED(INVALID_VALUE, "a peak", ops->pool_set(self, SOMA_BACKEND_RESERVED_HIGH, 1));
	REFUSED(INVALID_VALUE, "only be read", ops->pool_set(self, SOMA_BACKEND_USED_CURRENT, 0));
	REFUSED(INVALID_VALUE, "only be read", ops->pool_set(self, SOMA_BACKEND_RESERVED_CURRENT, 0));
	REFUSED(INVALID_VALUE, "0 or 1", ops->pool_set(self, SOMA_BACKEND_REUSE_ALLOW_OPPORTUNISTIC, 2));
	REFUSED(NOT_SUPPORTED, "no attribute 9", ops->pool_get(self, (enum soma_backend_attribute)9, &value));
	REFUSED(NOT_SUPPORTED, "no attribute 0", ops->pool_set(self, (enum soma_backend_attribute)0, 0));
	OK(ops->pool_set(self, SOMA_BACKEND_REUSE_ALLOW_OPPORTUNISTIC, 0));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_REUSE_ALLOW_OPPORTUNISTIC), 0);
	OK(ops->pool_set(self, SOMA_BACKEND_RELEASE_THRESHOLD, 5 * MB));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RELEASE_THRESHOLD), 5 * MB);
	close_backend();
}
END_TEST

START_TEST(a_trim_gives_back_what_is_free_and_seen)
{
	start("async", FAKE_IMMEDIATE);
	struct soma_backend_stream *stream = stream_new();
	uint64_t kept = take(1 * MB, stream), ptr = take(100 * MB, stream);

	give(ptr, 100 * MB, stream);
	OK(ops->synchronize(self));
	ck_assert_uint_ge(attribute(SOMA_BACKEND_RESERVED_CURRENT), 100 * MB);
	OK(ops->pool_trim(self, 0));
	ck_assert_uint_lt(attribute(SOMA_BACKEND_RESERVED_CURRENT), 100 * MB);
	ck_assert_uint_ge(attribute(SOMA_BACKEND_RESERVED_CURRENT), 1 * MB);
	give(kept, 1 * MB, stream);
	close_backend();
}
END_TEST

/* ---- sharing --------------------------------------------------------------------------- */

START_TEST(nothing_is_exported_that_was_not_opened_for_it)
{
	struct soma_backend_exported name;
	struct soma_backend_import *import;
	int descriptor = -1;

	start("async", FAKE_IMMEDIATE);
	uint64_t ptr = take(1000, NULL);
	REFUSED(NOT_SUPPORTED, "async.export=on",
		ops->export_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, &descriptor));
	REFUSED(NOT_SUPPORTED, "async.export=on", ops->export_block(self, ptr, &name));
	REFUSED(NOT_SUPPORTED, "async.export=on",
		ops->import_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, 0, &import));
	close_backend();
}
END_TEST

START_TEST(an_exported_block_is_read_through_its_import)
{
	struct soma_backend_exported name;
	struct soma_backend_import *import;
	unsigned char bytes[4];
	int descriptor;
	uint64_t there;

	start_fake();
	open_with("async", "async.export", "on");
	ck_assert_uint_ne(query().capabilities & SOMA_BACKEND_EXPORTS, 0);
	uint64_t ptr = take(1000, NULL);
	OK(ops->fill8(self, ptr, 0x42, 1000, NULL));
	REFUSED(NOT_SUPPORTED, "kind 2",
		ops->export_pool(self, (enum soma_backend_handle_kind)2, &descriptor));
	OK(ops->export_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, &descriptor));
	ck_assert_int_ne(fcntl(descriptor, F_GETFD), -1);
	REFUSED(INVALID_VALUE, "no block of the pool", ops->export_block(self, ptr + 256, &name));
	OK(ops->export_block(self, ptr, &name));
	OK(ops->import_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, descriptor, &import));
	OK(ops->import_block(self, import, &name, &there));
	OK(ops->copy_to_host(self, bytes, there, 4, NULL));
	ck_assert_int_eq(bytes[3], 0x42);
	REFUSED(INVALID_VALUE, "no block", ops->free(self, there, 1000, NULL));
	REFUSED(INVALID_VALUE, "no block of this import", ops->import_free(self, import, ptr, NULL));
	OK(ops->import_free(self, import, there, NULL));
	OK(ops->import_block(self, import, &name, &there));
	OK(ops->synchronize(self));
	OK(ops->import_free(self, import, there, stream_new()));
	ops->import_close(self, import);
	OK(ops->import_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, descriptor, &import));
	OK(ops->import_block(self, import, &name, &there));
	close(descriptor);
	close_backend();
}
END_TEST

START_TEST(another_device_gets_access_if_it_can)
{
	bool can;

	start_fake();
	fake.devices(3);
	fake.device_peer(1, 0, true);
	fake.device_peer(2, 0, false);
	open_backend("async");
	OK(ops->peer_can_access(self, 0, &can));
	ck_assert(can);
	OK(ops->peer_can_access(self, 1, &can));
	ck_assert(can);
	OK(ops->peer_can_access(self, 2, &can));
	ck_assert(!can);
	OK(ops->peer_set_access(self, 1, SOMA_BACKEND_ACCESS_READ_WRITE));
	OK(ops->peer_set_access(self, 1, SOMA_BACKEND_ACCESS_NONE));
	OK(ops->peer_set_access(self, 0, SOMA_BACKEND_ACCESS_READ_WRITE));
	REFUSED(NOT_SUPPORTED, "device 2 cannot reach",
		ops->peer_set_access(self, 2, SOMA_BACKEND_ACCESS_READ_WRITE));
	REFUSED(INVALID_VALUE, "its own memory", ops->peer_set_access(self, 0, SOMA_BACKEND_ACCESS_NONE));
	REFUSED(INVALID_VALUE, "access 1", ops->peer_set_access(self, 1, SOMA_BACKEND_ACCESS_READ));
	REFUSED(NOT_FOUND, "no device 3", ops->peer_can_access(self, 3, &can));
	close_backend();
}
END_TEST

/* ---- errors of earlier work ------------------------------------------------------------------ */

/* Every op refuses, and the driver hears nothing of it. */
static void
expect_lost(struct soma_backend_stream *stream, struct soma_backend_event *event, uint64_t ptr, void *memory)
{
	uint64_t calls = fake.calls(NULL), value;
	struct soma_backend_stream *new_stream;
	struct soma_backend_event *new_event;
	struct soma_backend_stream_info info = { .size = sizeof info };
	bool flag;

	REFUSED(DRIVER, "beyond use", ops->alloc(self, 10, 0, stream, &value));
	ck_assert_int_eq(soma_error_last()->driver_code, CUDA_ERROR_ILLEGAL_ADDRESS);
	REFUSED(DRIVER, "beyond use", ops->free(self, ptr, 1000, stream));
	REFUSED(DRIVER, "beyond use", ops->stream_create(self, 0, &new_stream));
	REFUSED(DRIVER, "beyond use", ops->stream_info(self, stream, &info));
	REFUSED(DRIVER, "beyond use", ops->stream_query(self, stream, &flag));
	REFUSED(DRIVER, "beyond use", ops->stream_synchronize(self, stream));
	REFUSED(DRIVER, "beyond use", ops->synchronize(self));
	REFUSED(DRIVER, "beyond use", ops->event_create(self, 0, &new_event));
	REFUSED(DRIVER, "beyond use", ops->event_record(self, event, stream));
	REFUSED(DRIVER, "beyond use", ops->event_wait(self, event, stream));
	REFUSED(DRIVER, "beyond use", ops->event_query(self, event, &flag));
	REFUSED(DRIVER, "beyond use", ops->event_synchronize(self, event));
	REFUSED(DRIVER, "beyond use", ops->fill8(self, ptr, 0, 1, NULL));
	REFUSED(DRIVER, "beyond use", ops->fill32(self, ptr, 0, 1, stream));
	REFUSED(DRIVER, "beyond use", ops->copy(self, ptr, ptr + 4, 1, stream));
	REFUSED(DRIVER, "beyond use", ops->copy_to_host(self, memory, ptr, 1, stream));
	REFUSED(DRIVER, "beyond use", ops->copy_from_host(self, ptr, memory, 1, stream));
	REFUSED(DRIVER, "beyond use", ops->scan(self, memory, 0, stream));
	REFUSED(DRIVER, "beyond use", ops->span_reserve(self, 2 * MB, 0, &value));
	if (ops->pool_get != NULL) {
		REFUSED(DRIVER, "beyond use", ops->pool_get(self, SOMA_BACKEND_USED_CURRENT, &value));
		REFUSED(DRIVER, "beyond use", ops->pool_trim(self, 0));
		REFUSED(DRIVER, "beyond use", ops->peer_can_access(self, 0, &flag));
	}
	ck_assert_uint_ne(query().capabilities & SOMA_BACKEND_LOST, 0);
	ck_assert_uint_eq(query().free, 0);
	ops->stream_destroy(self, stream);
	ops->event_destroy(self, event);
	ops->staging_free(self, memory, 100);
	ck_assert_uint_eq(fake.calls(NULL), calls);
}

START_TEST(a_lost_device_is_left_alone)
{
	for (size_t i = 0; i < BOTH; i++) {
		start(both[i], FAKE_IMMEDIATE);
		struct soma_backend_stream *stream = stream_new();
		struct soma_backend_event *event = event_new();
		uint64_t ptr = take(1000, stream);
		void *memory;
		OK(ops->staging_alloc(self, 100, &memory));
		fake.sticky(0, CUDA_ERROR_ILLEGAL_ADDRESS);
		REFUSED(DRIVER, "CUDA_ERROR_ILLEGAL_ADDRESS", ops->synchronize(self));
		ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "beyond use from now on"));
		expect_lost(stream, event, ptr, memory);
		uint64_t calls = fake.calls(NULL);
		soma__backend_close(backend);
		ck_assert_uint_eq(fake.calls(NULL), calls);
		fake.restart();
	}
}
END_TEST

START_TEST(an_error_of_earlier_work_is_told_once)
{
	start("async", FAKE_IMMEDIATE);
	struct soma_backend_stream *stream = stream_new();
	uint64_t ptr = take(1000, stream), more = 0, used = attribute(SOMA_BACKEND_USED_CURRENT);

	fake.deferred(0, 701);
	REFUSED(DRIVER, "of work that was queued before", ops->stream_synchronize(self, stream));
	OK(ops->stream_synchronize(self, stream));
	for (int works = 0; works < 2; works++) {
		fake.deferred_calls_work(works != 0);
		fake.deferred(0, 701);
		REFUSED(DRIVER, "of work that was queued before", ops->alloc(self, 500, 0, stream, &more));
		ck_assert_uint_eq(more, 0);
		OK(ops->synchronize(self));
		ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), used);
	}
	give(ptr, 1000, stream);
	ck_assert_uint_eq(query().capabilities & SOMA_BACKEND_LOST, 0);
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
	  a_map_that_fails_half_way_leaves_nothing_mapped, attributes_are_the_pools,
	  a_trim_gives_back_what_is_free_and_seen, nothing_is_exported_that_was_not_opened_for_it,
	  an_exported_block_is_read_through_its_import, another_device_gets_access_if_it_can,
	  a_lost_device_is_left_alone, an_error_of_earlier_work_is_told_once)

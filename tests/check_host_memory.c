/* SPDX-License-Identifier: Apache-2.0 */
/* backends/host: blocks, limits, the pool, fills and scans; and memory that runs out. */
#include "config.h"

#include <string.h>
#include <sys/resource.h>

#include "lib/arena/arena.h"
#include "tests/backend_fixture.h"

/* ---- blocks ---------------------------------------------------------------------- */

START_TEST(blocks_are_aligned_and_do_not_overlap)
{
	enum { COUNT = 3000 };
	static uint64_t ptr[COUNT], size[COUNT];
	unsigned seed = 1;

	open_host(NULL, NULL);
	for (unsigned i = 0; i < COUNT; i++) {
		uint64_t alignment = i % 2 == 0 ? 0 : (uint64_t)1 << rand_r(&seed) % 16;
		size[i] = 1 + (uint64_t)rand_r(&seed) % (i % 10 == 0 ? 200000 : 6000);
		OK(ops->alloc(host, size[i], alignment, NULL, &ptr[i]));
		ck_assert_uint_eq(ptr[i] % (alignment > 256 ? alignment : 256), 0);
		memset(at(ptr[i]), (int)i, size[i]);
	}
	for (unsigned i = 0; i < COUNT; i++)
		for (uint64_t j = 0; j < size[i]; j++)
			if (at(ptr[i])[j] != (unsigned char)i)
				ck_abort_msg("block %u of %lu bytes is overwritten", i,
					     (unsigned long)size[i]);
	for (unsigned i = 0; i < COUNT; i++)
		OK(ops->free(host, ptr[i], size[i], NULL));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 0);
	OK(ops->pool_trim(host, 0));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_CURRENT), 0);
	close_host();
}
END_TEST

START_TEST(every_alignment_is_honoured_at_every_kind_of_size)
{
	const uint64_t sizes[] = { 1, 700, 5000, 33000, 3 * MIB, 9 * MIB };

	open_host(NULL, NULL);
	for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		for (uint64_t alignment = 1; alignment <= 64 * MIB; alignment *= 2) {
			uint64_t ptr[2];
			for (int j = 0; j < 2; j++) {
				OK(ops->alloc(host, sizes[i], alignment, NULL, &ptr[j]));
				ck_assert_uint_eq(ptr[j] % alignment, 0);
				at(ptr[j])[0] = at(ptr[j])[sizes[i] - 1] = 1;
			}
			for (int j = 0; j < 2; j++)
				OK(ops->free(host, ptr[j], sizes[i], NULL));
		}
	close_host();
}
END_TEST

START_TEST(sizes_and_alignments_that_make_no_sense_are_refused)
{
	uint64_t ptr = 77;

	open_host(NULL, NULL);
	ck_assert_int_eq(ops->alloc(host, 0, 0, NULL, &ptr), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(ops->alloc(host, 16, 3, NULL, &ptr), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(ops->alloc(host, UINT64_MAX, 0, NULL, &ptr), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_int_eq(ops->alloc(host, (uint64_t)1 << 50, 0, NULL, &ptr),
			 SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_int_eq(ops->alloc(host, 1, (uint64_t)1 << 63, NULL, &ptr),
			 SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_uint_eq(ptr, 77);
	close_host();
}
END_TEST

/* ---- limits ------------------------------------------------------------------------ */

START_TEST(the_size_is_a_limit_and_a_refusal_has_the_figures)
{
	struct soma_backend_info info = { .size = sizeof info };
	uint64_t a, b, none;

	open_host("host.size", "20M");
	OK(ops->query(host, &info));
	ck_assert_uint_eq(info.total, 20 * MIB);
	ck_assert_uint_le(info.free, 20 * MIB);
	OK(ops->alloc(host, 10 * MIB, 0, NULL, &a));
	OK(ops->alloc(host, 7 * MIB, 0, NULL, &b));
	ck_assert_int_eq(ops->alloc(host, 4 * MIB, 0, NULL, &none), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	const struct soma_error *error = soma_error_last();
	ck_assert_uint_eq(error->requested, 4 * MIB);
	ck_assert_uint_eq(error->limit, 20 * MIB);
	ck_assert_uint_eq(error->current, 17 * MIB);
	ck_assert_uint_eq(error->remaining, 3 * MIB);
	ck_assert_ptr_nonnull(strstr(error->text, "backend host: "));
	OK(ops->free(host, b, 7 * MIB, NULL));
	OK(ops->alloc(host, 10 * MIB, 0, NULL, &b));
	close_host();
}
END_TEST

START_TEST(slabs_that_are_kept_empty_do_not_stand_in_the_way)
{
	uint64_t ptr;

	open_host("host.size", "8M");
	for (uint64_t size = 256; size <= 32 * KIB; size *= 2) {
		OK(ops->alloc(host, size, 0, NULL, &ptr));
		OK(ops->free(host, ptr, size, NULL));
	}
	OK(ops->alloc(host, 8 * MIB, 0, NULL, &ptr));
	OK(ops->free(host, ptr, 8 * MIB, NULL));
	close_host();
}
END_TEST

START_TEST(options_are_read_and_refused)
{
	open_host("host.release_threshold", "all");
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RELEASE_THRESHOLD), UINT64_MAX);
	close_host();
	open_host("host.huge_pages", "off");
	take(40 * MIB, NULL);
	close_host();
	ck_assert_int_eq(try_open("host.huge_pages", "maybe"), SOMA_STATUS_INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "huge_pages=maybe"));
	ck_assert_int_eq(try_open("host.release_threshold", "-1"), SOMA_STATUS_INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "release_threshold=-1"));
}
END_TEST

/* Sanitizers need all the address space there is. */
#ifndef SOMA_SANITIZERS
START_TEST(address_space_that_runs_out_is_told_and_passes)
{
	uint64_t first, none;
	struct rlimit limit, tight;

	open_host(NULL, NULL);
	OK(ops->alloc(host, 4 * MIB, 0, NULL, &first));
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
	tight = limit;
	tight.rlim_cur = 64 * MIB;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &tight), 0);
	ck_assert_int_eq(ops->alloc(host, 900 * MIB, 0, NULL, &none), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_uint_eq(soma_error_last()->requested, 900 * MIB);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 4 * MIB);
	OK(ops->alloc(host, 900 * MIB, 0, NULL, &none));
	close_host();
}
END_TEST
#endif

/* ---- the pool ---------------------------------------------------------------------- */

START_TEST(used_counts_what_was_asked_for_until_the_free_has_run)
{
	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new();
	uint64_t p = take(1000, a), q = take(50000, a);

	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 51000);
	OK(ops->free(host, p, 1000, a));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 51000);
	OK(ops->stream_synchronize(host, a));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 50000);
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_HIGH), 51000);
	ck_assert_int_eq(ops->pool_set(host, SOMA_BACKEND_USED_HIGH, 5), SOMA_STATUS_INVALID_VALUE);
	OK(ops->pool_set(host, SOMA_BACKEND_USED_HIGH, 0));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_HIGH), 50000);
	ck_assert_int_eq(ops->pool_set(host, SOMA_BACKEND_USED_CURRENT, 0), SOMA_STATUS_INVALID_VALUE);
	uint64_t value;
	ck_assert_int_eq(ops->pool_get(host, SOMA_BACKEND_REUSE_ALLOW_OPPORTUNISTIC, &value),
			 SOMA_STATUS_NOT_SUPPORTED);
	OK(ops->free(host, q, 50000, a));
	close_host();
}
END_TEST

START_TEST(memory_above_the_threshold_goes_at_a_synchronisation_only)
{
	open_host("host.release_threshold", "40M");
	struct soma_backend_stream *a = stream_new();
	uint64_t ptr[4];

	for (int i = 0; i < 4; i++)
		ptr[i] = take(20 * MIB, a);
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_CURRENT), 80 * MIB);
	for (int i = 0; i < 4; i++)
		OK(ops->free(host, ptr[i], 20 * MIB, a));
	OK(ops->stream_step(host, a, 4, NULL));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 0);
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_CURRENT), 80 * MIB);
	OK(ops->stream_synchronize(host, a));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_CURRENT), 40 * MIB);
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_HIGH), 80 * MIB);
	close_host();
}
END_TEST

START_TEST(a_trim_never_goes_below_what_is_to_be_kept)
{
	open_host("host.release_threshold", "all");
	uint64_t a = take(20 * MIB, NULL), b = take(30 * MIB, NULL), small = take(100, NULL);

	ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_CURRENT), (20 + 30 + 32) * MIB);
	OK(ops->pool_trim(host, 0));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_CURRENT), (20 + 30 + 32) * MIB);
	OK(ops->free(host, a, 20 * MIB, NULL));
	OK(ops->free(host, b, 30 * MIB, NULL));
	OK(ops->pool_trim(host, 60 * MIB));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_CURRENT), (30 + 32) * MIB);
	OK(ops->pool_trim(host, 100 * MIB));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_CURRENT), (30 + 32) * MIB);
	OK(ops->free(host, small, 100, NULL));
	OK(ops->pool_trim(host, 0));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_CURRENT), 0);
	close_host();
}
END_TEST

/* ---- fills, copies, scans ------------------------------------------------------------- */

START_TEST(fills_and_copies_are_done_in_the_streams_order)
{
	char out[16] = "";

	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new();
	uint64_t p = take(16, a), q = take(16, a);
	void *staging;

	OK(ops->staging_alloc(host, 16, &staging));
	memcpy(staging, "staging memory", 15);
	OK(ops->copy_from_host(host, p, staging, 16, a));
	OK(ops->copy(host, q, p, 16, a));
	OK(ops->fill8(host, p, 'x', 16, a));
	OK(ops->copy_to_host(host, out, q, 16, a));
	ck_assert_str_eq(out, "");
	OK(ops->stream_synchronize(host, a));
	ck_assert_str_eq(out, "staging memory");
	ck_assert_mem_eq(at(p), "xxxxxxxxxxxxxxxx", 16);
	ops->staging_free(host, staging, 16);
	OK(ops->fill32(host, p, 0x64636261, 4, NULL));
	ck_assert_mem_eq(at(p), "abcdabcdabcdabcd", 16);
	ck_assert_int_eq(ops->fill32(host, p + 2, 0, 1, NULL), SOMA_STATUS_INVALID_VALUE);
	OK(ops->fill8(host, p, 0, 0, a));
	close_host();
}
END_TEST

/* Scans [p + from, p + from + bytes) with one byte changed, at every place or none. */
static void
scan_one(uint64_t p, uint64_t from, uint64_t bytes, uint64_t changed)
{
	struct soma_backend_scan scan = { .ptr = p + from, .bytes = bytes, .pattern = 0xfff1f082 };

	OK(ops->fill32(host, p, 0xfff1f082, 32, NULL));
	at(p)[changed] ^= 0x40;
	OK(ops->scan(host, &scan, 1, NULL));
	bool inside = changed >= from && changed < from + bytes;
	ck_assert_uint_eq(scan.bad_count, inside);
	ck_assert_uint_eq(scan.first_bad, inside ? changed - from : SOMA_BACKEND_SCAN_CLEAN);
}

START_TEST(a_scan_finds_every_changed_byte_at_any_alignment)
{
	open_host(NULL, NULL);
	uint64_t p = take(128, NULL);

	for (uint64_t from = 0; from < 9; from++)
		for (uint64_t bytes = 1; bytes < 40; bytes++)
			for (uint64_t changed = 0; changed < 60; changed++)
				scan_one(p, from, bytes, changed);
	struct soma_backend_scan two[2] = { { .ptr = p, .bytes = 100, .pattern = 7 },
					    { .ptr = p + 1, .bytes = 2, .pattern = 0xfff1f082 } };
	OK(ops->fill32(host, p, 0xfff1f082, 32, NULL));
	OK(ops->scan(host, two, 2, NULL));
	ck_assert_uint_eq(two[0].first_bad, 0);
	ck_assert_uint_eq(two[0].bad_count, 100);
	ck_assert_uint_eq(two[1].bad_count, 0);
	close_host();
}
END_TEST

/* ---- the Nth allocation of records ------------------------------------------------------- */

/* Every op that may need a record; stops at the first that fails. */
static enum soma_status
scenario(void)
{
	const uint64_t sizes[] = { 1, 300, 20000, 50000, 10 * MIB };
	struct soma_backend_stream *a = NULL, *legacy = NULL;
	struct soma_backend_event *event = NULL;
	uint64_t ptr[5] = { 0 }, span = 0;
	void *staging = NULL;
	enum soma_status status;

	status = ops->stream_create(host, 0, &a);
	if (status == SOMA_STATUS_OK)
		status = ops->stream_default(host, SOMA_BACKEND_STREAM_PER_THREAD, &legacy);
	if (status == SOMA_STATUS_OK)
		status = ops->event_create(host, 0, &event);
	for (int i = 0; status == SOMA_STATUS_OK && i < 5; i++)
		status = ops->alloc(host, sizes[i], 0, a, &ptr[i]);
	if (status == SOMA_STATUS_OK)
		status = ops->staging_alloc(host, 64, &staging);
	if (status == SOMA_STATUS_OK)
		status = ops->fill8(host, ptr[0], 1, 1, a);
	if (status == SOMA_STATUS_OK)
		status = ops->event_record(host, event, a);
	if (status == SOMA_STATUS_OK)
		status = ops->event_wait(host, event, legacy);
	if (status == SOMA_STATUS_OK)
		status = ops->span_reserve(host, MIB, 0, &span);
	/* From here on nothing needs memory. */
	if (span != 0)
		OK(ops->span_release(host, span, MIB));
	for (int i = 0; i < 5; i++)
		if (ptr[i] != 0)
			OK(ops->free(host, ptr[i], sizes[i], a));
	if (staging != NULL)
		ops->staging_free(host, staging, 64);
	if (event != NULL)
		ops->event_destroy(host, event);
	if (a != NULL)
		ops->stream_destroy(host, a);
	if (legacy != NULL)
		ops->stream_destroy(host, legacy);
	OK(ops->synchronize(host));
	return status;
}

START_TEST(every_allocation_of_records_may_fail)
{
	enum soma_status status = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	unsigned long nth;

	for (nth = 1; status != SOMA_STATUS_OK; nth++) {
		open_host("host.size", "24M");
		soma__arena_fail_nth(nth);
		status = scenario();
		soma__arena_fail_nth(0);
		if (status != SOMA_STATUS_OK)
			ck_assert_int_eq(status, SOMA_STATUS_OUT_OF_HOST_MEMORY);
		ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 0);
		OK(ops->pool_trim(host, 0));
		ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_CURRENT), 0);
		/* It works again, with nothing lost to the failure: not of the limit either. */
		OK(scenario());
		OK(ops->free(host, take(24 * MIB, NULL), 24 * MIB, NULL));
		ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 0);
		close_host();
	}
	ck_assert_uint_ge(nth, 12);
}
END_TEST

UNIT_MAIN("host_memory", blocks_are_aligned_and_do_not_overlap,
	  every_alignment_is_honoured_at_every_kind_of_size,
	  sizes_and_alignments_that_make_no_sense_are_refused,
	  the_size_is_a_limit_and_a_refusal_has_the_figures,
	  slabs_that_are_kept_empty_do_not_stand_in_the_way, options_are_read_and_refused,
#ifndef SOMA_SANITIZERS
	  address_space_that_runs_out_is_told_and_passes,
#endif
	  used_counts_what_was_asked_for_until_the_free_has_run,
	  memory_above_the_threshold_goes_at_a_synchronisation_only,
	  a_trim_never_goes_below_what_is_to_be_kept, fills_and_copies_are_done_in_the_streams_order,
	  a_scan_finds_every_changed_byte_at_any_alignment, every_allocation_of_records_may_fail)

/* SPDX-License-Identifier: Apache-2.0 */
/* lib/arena: what it gives, what it costs, and that all of it goes back. */
#include "config.h"

#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/arena_fixture.h"

static void *
take(struct soma__arena *arena, size_t size, size_t alignment)
{
	void *p = soma__arena_alloc(arena, size, alignment);

	ck_assert_ptr_nonnull(p);
	return p;
}

START_TEST(memory_is_aligned_as_asked)
{
	struct soma__arena *arena = new_arena();

	for (size_t alignment = 1; alignment <= 4 * MIB; alignment *= 2) {
		uintptr_t p = (uintptr_t)take(arena, alignment + 1, alignment);
		ck_assert_uint_eq(p % alignment, 0);
	}
	for (size_t size = 0; size < 40; size++)
		ck_assert_uint_eq((uintptr_t)take(arena, size, 0) % 16, 0);
	soma__arena_destroy(arena);
}
END_TEST

START_TEST(cleared_memory_is_zero_after_reuse)
{
	static const size_t sizes[] = { 16, 4000, 5 * KIB, 100 * KIB, 3 * MIB, 20 * MIB };
	struct soma__arena *arena = new_arena();

	/* The last rounds run after the arena went huge. */
	for (size_t i = 0; i < 3 * 6; i++) {
		size_t size = sizes[i % 6];
		void *beside = take(arena, 64 * KIB, 0);
		char *p = take(arena, size, 0);
		memset(p, 0xa5, size);
		soma__arena_free(arena, p, size);
		p = soma__arena_calloc(arena, size, 0);
		ck_assert_ptr_nonnull(p);
		ck_assert(is_zero(p, size));
		memset(p, 0x5a, size);
		soma__arena_free(arena, beside, 64 * KIB);
	}
	soma__arena_destroy(arena);
}
END_TEST

START_TEST(an_empty_arena_is_small)
{
	soma__arena_destroy(new_arena());
	struct soma__arena *arena = new_arena();
	struct soma_memory_info info = info_of(arena);

	ck_assert_uint_gt(info.resident, 0);
	ck_assert_uint_le(info.resident, 64 * KIB);
	ck_assert_uint_eq(info.huge, 0);
	ck_assert_str_eq(info.page_kind, "plain");
	soma__arena_destroy(arena);
}
END_TEST

START_TEST(a_small_owner_stays_on_plain_pages)
{
	struct soma__arena *arena = new_arena();

	for (int i = 0; i < 30; i++)
		memset(take(arena, 100 * KIB, 0), 1, 100 * KIB);
	struct soma_memory_info info = info_of(arena);
	ck_assert_uint_eq(info.huge, 0);
	ck_assert_uint_ge(info.resident, 30 * 100 * KIB);
	ck_assert_uint_le(info.resident, 30 * 100 * KIB + 1 * MIB);
	soma__arena_destroy(arena);
}
END_TEST

START_TEST(a_large_owner_is_on_huge_pages)
{
	struct soma__arena *arena = new_arena();

	for (int i = 0; i < 320; i++)
		memset(take(arena, 100 * KIB, 0), 1, 100 * KIB);
	struct soma_memory_info info = info_of(arena);
	ck_assert_uint_ge(info.resident, 320 * 100 * KIB);
	if (can_be_huge()) {
		ck_assert_str_ne(info.page_kind, "plain");
		ck_assert_uint_ge(info.huge, 320 * 100 * KIB / 2);
	}
	soma__arena_destroy(arena);
}
END_TEST

START_TEST(huge_pages_can_be_switched_off)
{
	soma__arena_set_huge_pages(false);
	struct soma__arena *arena = new_arena();
	soma__arena_set_huge_pages(true);

	memset(take(arena, 20 * MIB, 0), 1, 20 * MIB);
	struct soma_memory_info info = info_of(arena);
	ck_assert_uint_ge(info.resident, 20 * MIB);
	ck_assert_uint_eq(info.huge, 0);
	soma__arena_destroy(arena);
}
END_TEST

/* Small records and large ones, enough for the table of chunks to be replaced. */
static void
fill(struct soma__arena *arena, void **records, size_t count, size_t size)
{
	for (size_t i = 0; i < count; i++) {
		records[i] = take(arena, size, 0);
		memset(records[i], 1, size);
	}
	memset(take(arena, 3 * MIB, 2 * MIB), 1, 3 * MIB);
	take(arena, 200 * MIB, 0);
}

START_TEST(destroying_gives_every_byte_back)
{
	static void *records[100000];
	int even = 0;

	/* The first round makes what jemalloc keeps for the whole process: a table of
	 * the addresses that it ever saw, which a later round can extend, but not each. */
	for (int round = 0; round < 4; round++) {
		size_t mappings_before, mappings_during, mappings_after;
		uint64_t before = address_space(&mappings_before);
		struct soma__arena *arena = new_arena();
		fill(arena, records, 100000, 100);
		/* The addresses of a table are more than it has used, with access or without. */
		grown_table(arena, grown_table(arena, NULL, 0, 300 * KIB), 300 * KIB, 9 * MIB);
		grown_table(arena, NULL, 0, 5 * MIB);
		uint64_t mapped = info_of(arena).mapped;
		ck_assert_uint_ge(address_space(&mappings_during), before + mapped);
		soma__arena_destroy(arena);
		even += address_space(&mappings_after) == before && mappings_after == mappings_before;
	}
	ck_assert_int_ge(even, 2);
}
END_TEST

START_TEST(freed_memory_goes_back)
{
	static void *records[400000];
	struct soma__arena *arena = new_arena();

	for (size_t i = 0; i < 400000; i++)
		memset(records[i] = take(arena, 64, 0), 1, 64);
	void *large = take(arena, 30 * MIB, 0);
	memset(large, 1, 30 * MIB);
	ck_assert_uint_ge(info_of(arena).resident, 400000 * 64 + 30 * MIB);
	soma__arena_free(arena, large, 30 * MIB);
	ck_assert_uint_lt(info_of(arena).resident, 400000 * 64 + 8 * MIB);
	for (size_t i = 0; i < 400000; i++)
		soma__arena_free(arena, records[i], 64);
	ck_assert_uint_lt(info_of(arena).resident, 6 * MIB);
	soma__arena_destroy(arena);
}
END_TEST

START_TEST(many_arenas_come_and_go)
{
	struct soma__arena *arenas[50];
	size_t mappings;
	int even = 0;

	for (int round = 0; round < 20; round++) {
		uint64_t before = address_space(&mappings);
		for (int i = 0; i < 50; i++)
			memset(take(arenas[i] = new_arena(), 10 * KIB, 0), i, 10 * KIB);
		for (int i = 0; i < 50; i++)
			soma__arena_destroy(arenas[(i * 7) % 50]);
		even += address_space(&mappings) == before;
	}
	ck_assert_int_ge(even, 15);
	soma__arena_destroy(NULL);
}
END_TEST

/* Creates, allocates three times, destroys; what it came to. */
static enum soma_status
use_arena(void)
{
	struct soma__arena *arena;
	enum soma_status status = soma__arena_create(&arena);

	if (status != SOMA_STATUS_OK)
		return status;
	for (int i = 0; i < 3 && status == SOMA_STATUS_OK; i++)
		if ((i == 1 ? soma__arena_calloc(arena, 100, 0) : soma__arena_alloc(arena, 100, 64)) == NULL)
			status = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	soma__arena_destroy(arena);
	return status;
}

START_TEST(the_nth_allocation_fails_once)
{
	soma__arena_fail_nth(0);
	ck_assert_int_eq(use_arena(), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma__arena_fail_nth(0), 4);
	for (unsigned long nth = 1; nth <= 4; nth++) {
		soma_error_clear();
		soma__arena_fail_nth(nth);
		ck_assert_int_eq(use_arena(), SOMA_STATUS_OUT_OF_HOST_MEMORY);
		ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_OUT_OF_HOST_MEMORY);
		ck_assert_uint_eq(soma__arena_fail_nth(0), nth);
		ck_assert_int_eq(use_arena(), SOMA_STATUS_OK);
		soma__arena_fail_nth(0);
	}
	soma__arena_fail_nth(5);
	ck_assert_int_eq(use_arena(), SOMA_STATUS_OK);
}
END_TEST

START_TEST(a_size_that_cannot_be_is_refused)
{
	struct soma__arena *arena = new_arena();

	ck_assert_ptr_null(soma__arena_alloc(arena, SIZE_MAX, 0));
	ck_assert_ptr_null(soma__arena_alloc(arena, SIZE_MAX / 2, 4 * MIB));
	ck_assert_ptr_null(soma__arena_calloc(arena, SIZE_MAX / 16 + 1, 0));
	ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_OUT_OF_HOST_MEMORY);
	ck_assert_uint_eq(soma_error_last()->requested, SIZE_MAX / 16 + 1);
	memset(take(arena, 1000, 0), 1, 1000);
	soma__arena_destroy(arena);
}
END_TEST

#ifndef SOMA_SANITIZERS /* whose shadow memory does not go with a limit */
START_TEST(a_full_address_space_is_an_error_and_passes)
{
	struct soma__arena *arena = new_arena();
	size_t count = 0;
	static void *records[10000];

	limit_address_space(50 * MIB);
	soma_error_clear();
	while ((records[count] = soma__arena_alloc(arena, 100 * KIB, 0)) != NULL)
		memset(records[count++], 1, 100 * KIB);
	ck_assert_uint_ge(count, 200);
	ck_assert_uint_le(count, 520);
	ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_OUT_OF_HOST_MEMORY);
	ck_assert_ptr_null(soma__arena_alloc(arena, 60 * MIB, 0));
	for (size_t i = 0; i < count; i++)
		soma__arena_free(arena, records[i], 100 * KIB);
	for (size_t i = 0; i < count; i++)
		take(arena, 100 * KIB, 0);
	soma__arena_destroy(arena);
	ck_assert_int_eq(use_arena(), SOMA_STATUS_OK);
}
END_TEST

START_TEST(no_room_for_an_arena_is_an_error)
{
	struct soma__arena *arena = NULL;

	ck_assert_int_eq(use_arena(), SOMA_STATUS_OK);
	/* Room for a page, then for more and more of what creating takes. */
	for (size_t more = 4 * KIB; more < 3 * MIB; more += 256 * KIB) {
		limit_address_space(more);
		soma_error_clear();
		ck_assert_int_eq(soma__arena_create(&arena), SOMA_STATUS_OUT_OF_HOST_MEMORY);
		ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_OUT_OF_HOST_MEMORY);
		ck_assert_ptr_null(arena);
	}
	limit_address_space(64 * MIB);
	ck_assert_int_eq(use_arena(), SOMA_STATUS_OK);
}
END_TEST

START_TEST(no_room_for_the_first_arena_of_a_process_is_an_error)
{
	struct soma__arena *arena = NULL;

	limit_address_space(64 * KIB);
	ck_assert_int_eq(soma__arena_create(&arena), SOMA_STATUS_OUT_OF_HOST_MEMORY);
	limit_address_space(64 * MIB);
	ck_assert_int_eq(use_arena(), SOMA_STATUS_OK);
}
END_TEST
#endif

#define THREADS 4

static void *
churn(void *context)
{
	struct soma__arena *arena = context;
	unsigned char *records[200] = { 0 };
	size_t sizes[200] = { 0 };
	unsigned random = (unsigned)(uintptr_t)&random;

	for (int i = 0; i < 20000; i++) {
		random = random * 1664525 + 1013904223;
		size_t at = (random >> 8) % 200;
		for (size_t b = 0; b < sizes[at]; b += 61)
			if (records[at][b] != (unsigned char)at)
				return context;
		soma__arena_free(arena, records[at], sizes[at]);
		sizes[at] = (random >> 16) % 97 == 0 ? 300 * KIB : 16 + (random >> 12) % 2000;
		records[at] = soma__arena_alloc(arena, sizes[at], 0);
		if (records[at] == NULL)
			return context;
		memset(records[at], (int)at, sizes[at]);
	}
	for (size_t at = 0; at < 200; at++)
		soma__arena_free(arena, records[at], sizes[at]);
	return NULL;
}

START_TEST(threads_share_an_arena)
{
	struct soma__arena *arena = new_arena();
	pthread_t threads[THREADS];
	void *result;

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, arena), 0);
	for (int i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &result), 0);
		ck_assert_ptr_null(result);
	}
	soma__arena_destroy(arena);
}
END_TEST

static int
count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	ck_assert_ptr_nonnull(tasks);
	for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
		count += entry->d_name[0] != '.';
	closedir(tasks);
	return count;
}

START_TEST(no_thread_is_started)
{
	int before = count_threads(); /* a sanitizer may have its own */
	struct soma__arena *arena = new_arena();

	for (int i = 0; i < 1000; i++) {
		void *p = take(arena, 50 * KIB, 0);
		if (i % 2 != 0)
			soma__arena_free(arena, p, 50 * KIB);
	}
	ck_assert_int_eq(count_threads(), before);
	soma__arena_destroy(arena);
}
END_TEST

UNIT_MAIN("arena", memory_is_aligned_as_asked, cleared_memory_is_zero_after_reuse, an_empty_arena_is_small,
	  a_small_owner_stays_on_plain_pages, a_large_owner_is_on_huge_pages, huge_pages_can_be_switched_off,
	  destroying_gives_every_byte_back, freed_memory_goes_back, many_arenas_come_and_go,
	  the_nth_allocation_fails_once, a_size_that_cannot_be_is_refused,
#ifndef SOMA_SANITIZERS
	  a_full_address_space_is_an_error_and_passes, no_room_for_an_arena_is_an_error,
	  no_room_for_the_first_arena_of_a_process_is_an_error,
#endif
	  threads_share_an_arena, no_thread_is_started)

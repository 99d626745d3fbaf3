/* SPDX-License-Identifier: Apache-2.0 */
/* lib/arena: tables, which grow where they are. */
#include "config.h"

#include <sys/mman.h>

#include "tests/arena_fixture.h"

/* Can small pages be made a huge one?  Since Linux 6.1. */
static bool
can_collapse(void)
{
	const size_t size = 2 * MIB;
	char *p = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *chunk = p + (size - (uintptr_t)p % size) % size;

	ck_assert_ptr_ne(p, MAP_FAILED);
	chunk[0] = 1;
	bool can = can_be_huge() && madvise(chunk, size, 25 /* MADV_COLLAPSE */) == 0;
	munmap(p, 2 * size);
	return can;
}

/* From the first kilobyte on: out of jemalloc, through the small stage, and beyond. */
START_TEST(a_table_keeps_what_it_has_while_it_grows)
{
	struct soma__arena *arena = new_arena();
	unsigned char *table = NULL;
	size_t size = 0, moves = 0;

	while (size < 40 * MIB) {
		size_t wanted = size + size / 3 + KIB;
		unsigned char *before = table;

		table = grown_table(arena, table, size, wanted);
		moves += size > MIB && table != before;
		size = wanted;
	}
	ck_assert_uint_le(moves, 2);
	soma__arena_free_table(arena, table, size);
	soma__arena_free_table(arena, NULL, 0);
	ck_assert_uint_lt(info_of(arena).resident, MIB);
	soma__arena_destroy(arena);
}
END_TEST

/* Its addresses: what a table of 256 KiB can have without moving. */
START_TEST(a_table_that_outgrows_its_addresses_moves)
{
	struct soma__arena *arena = new_arena();
	unsigned char *table = grown_table(arena, NULL, 0, 256 * KIB);
	unsigned char *same = soma__arena_grow_table(arena, table, 256 * KIB, 60 * MIB), *moved;

	ck_assert_ptr_eq(same, table);
	moved = soma__arena_grow_table(arena, same, 60 * MIB, 70 * MIB);
	ck_assert_ptr_nonnull(moved);
	ck_assert_ptr_ne(moved, same);
	for (size_t i = 0; i < 256 * KIB; i += 1021)
		ck_assert_uint_eq(moved[i], (unsigned char)(i * 7 + 1));
	ck_assert(is_zero((char *)moved + 256 * KIB, 70 * MIB - 256 * KIB));
	soma__arena_destroy(arena);
}
END_TEST

/* Neither when it is new and large, nor when it moves with what was never written. */
START_TEST(a_table_takes_no_memory_where_nothing_was_written)
{
	struct soma__arena *arena = new_arena();
	unsigned char *large = soma__arena_grow_table(arena, NULL, 0, 40 * MIB), *same, *moved;
	unsigned char *table = grown_table(arena, NULL, 0, 256 * KIB);

	ck_assert_ptr_nonnull(large);
	same = soma__arena_grow_table(arena, table, 256 * KIB, 60 * MIB);
	ck_assert_ptr_eq(same, table);
	moved = soma__arena_grow_table(arena, same, 60 * MIB, 70 * MIB);
	ck_assert_ptr_nonnull(moved);
	ck_assert_uint_eq(moved[1021], (unsigned char)(1021 * 7 + 1));
	ck_assert_uint_lt(info_of(arena).resident, 10 * MIB);
	soma__arena_free_table(arena, moved, 70 * MIB);
	soma__arena_free_table(arena, large, 40 * MIB);
	soma__arena_destroy(arena);
}
END_TEST

START_TEST(a_table_that_will_not_grow_takes_no_addresses_for_that)
{
	static const size_t sizes[] = { 100, 10 * KIB, 300 * KIB, 9 * MIB };
	struct soma__arena *arena = new_arena();

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		size_t mappings;
		uint64_t before = address_space(&mappings);
		char *table = soma__arena_full_table(arena, sizes[i]);

		ck_assert_ptr_nonnull(table);
		ck_assert_uint_eq((uintptr_t)table % 64, 0);
		ck_assert(is_zero(table, sizes[i]));
		/* A chunk that is not full, and what jemalloc takes for a small one. */
		ck_assert_uint_le(address_space(&mappings) - before, sizes[i] + 16 * MIB);
		memset(table, 1, sizes[i]);
		soma__arena_free_table(arena, table, sizes[i]);
	}
	soma__arena_fail_nth(1);
	ck_assert_ptr_null(soma__arena_full_table(arena, 100));
	ck_assert_ptr_null(soma__arena_full_table(arena, SIZE_MAX / 2));
	soma__arena_destroy(arena);
}
END_TEST

START_TEST(a_large_table_is_on_huge_pages_and_wastes_little)
{
	struct soma__arena *arena = new_arena();
	unsigned char *tables[3] = { NULL };
	size_t size = 0;

	while (size < 21 * MIB) {
		size_t wanted = size + size / 8 + KIB;

		for (int i = 0; i < 3; i++) {
			tables[i] = soma__arena_grow_table(arena, tables[i], size, wanted);
			ck_assert_ptr_nonnull(tables[i]);
			memset(tables[i] + size, 1, wanted - size);
		}
		size = wanted;
		struct soma_memory_info info = info_of(arena);
		ck_assert_uint_ge(info.resident, 3 * size);
		ck_assert_uint_le(info.resident, 3 * size + 3 * size / 4 + MIB);
		ck_assert_uint_ge(info.mapped, info.resident);
		if (can_collapse() && size > 16 * MIB)
			ck_assert_uint_ge(info.huge, 3 * size);
		if (3 * size < 4 * MIB - MIB)
			ck_assert_uint_eq(info.huge, 0);
	}
	soma__arena_destroy(arena);
}
END_TEST

/* More of them than the first table of chunks has room for, given back in another order. */
START_TEST(tables_come_and_go_beside_each_other)
{
	static unsigned char *tables[300];
	struct soma__arena *arena = new_arena();
	size_t mappings;
	uint64_t before = address_space(&mappings);

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < 300; i++)
			tables[i] = grown_table(arena, NULL, 0, 256 * KIB + i * 4 * KIB);
		for (size_t i = 0; i < 300; i++) {
			size_t at = i * 7 % 300, size = 256 * KIB + at * 4 * KIB;

			tables[at] = grown_table(arena, tables[at], size, size + 3 * MIB);
			soma__arena_free_table(arena, tables[at], size + 3 * MIB);
		}
		ck_assert_uint_lt(info_of(arena).resident, MIB);
	}
	ck_assert_uint_lt(address_space(&mappings), before + 4 * MIB);
	soma__arena_destroy(arena);
}
END_TEST

START_TEST(a_table_that_cannot_grow_stays_as_it_is)
{
	static const size_t sizes[] = { KIB, 200 * KIB, 300 * KIB, 5 * MIB };
	struct soma__arena *arena = new_arena();

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		unsigned char *table = grown_table(arena, NULL, 0, sizes[i]);

		soma_error_clear();
		soma__arena_fail_nth(1);
		ck_assert_ptr_null(soma__arena_grow_table(arena, table, sizes[i], 2 * sizes[i]));
		ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_OUT_OF_HOST_MEMORY);
		ck_assert_uint_eq(soma__arena_fail_nth(0), 1);
		ck_assert_ptr_null(soma__arena_grow_table(arena, table, sizes[i], SIZE_MAX - 5));
		ck_assert_ptr_null(soma__arena_grow_table(arena, table, sizes[i], SIZE_MAX / 2));
		table = grown_table(arena, table, sizes[i], 2 * sizes[i]);
		soma__arena_free_table(arena, table, 2 * sizes[i]);
	}
	soma__arena_destroy(arena);
}
END_TEST

#ifndef SOMA_SANITIZERS /* whose shadow memory does not go with a limit */

/* A table has addresses to grow into where there are any, and no more where there are not. */
START_TEST(a_table_in_a_full_address_space_grows_as_far_as_it_goes)
{
	struct soma__arena *arena = new_arena();
	size_t size = 300 * KIB;
	unsigned char *table, *larger;

	limit_address_space(20 * MIB);
	table = grown_table(arena, NULL, 0, size);
	while ((larger = soma__arena_grow_table(arena, table, size, size + MIB)) != NULL) {
		for (size_t i = 0; i < 300 * KIB; i += 1021)
			ck_assert_uint_eq(larger[i], (unsigned char)(i * 7 + 1));
		table = larger;
		size += MIB;
	}
	ck_assert_uint_ge(size, 6 * MIB);
	ck_assert_uint_lt(size, 20 * MIB);
	soma__arena_free_table(arena, table, size);
	soma__arena_free_table(arena, grown_table(arena, NULL, 0, 9 * MIB), 9 * MIB);
	soma__arena_destroy(arena);
}
END_TEST

/* Many small ones, and room for what else the process wants. */
START_TEST(tables_leave_addresses_to_others_where_they_are_limited)
{
	struct soma__arena *arena = new_arena();
	void *others;

	limit_address_space(48 * MIB);
	for (int i = 0; i < 8; i++)
		grown_table(arena, NULL, 0, 300 * KIB);
	others = mmap(NULL, 16 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(others, MAP_FAILED);
	munmap(others, 16 * MIB);
	soma__arena_destroy(arena);
}
END_TEST

#endif

UNIT_MAIN("tables", a_table_keeps_what_it_has_while_it_grows, a_table_that_outgrows_its_addresses_moves,
	  a_table_takes_no_memory_where_nothing_was_written,
	  a_table_that_will_not_grow_takes_no_addresses_for_that,
	  a_large_table_is_on_huge_pages_and_wastes_little, tables_come_and_go_beside_each_other,
#ifndef SOMA_SANITIZERS
	  a_table_in_a_full_address_space_grows_as_far_as_it_goes,
	  tables_leave_addresses_to_others_where_they_are_limited,
#endif
	  a_table_that_cannot_grow_stays_as_it_is)

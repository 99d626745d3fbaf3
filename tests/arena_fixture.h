/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of lib/arena begin with: an arena, what it costs, and tables with a pattern in them. */
#ifndef SOMA_TESTS_ARENA_FIXTURE_H
#define SOMA_TESTS_ARENA_FIXTURE_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/arena/arena.h"
#include "tests/unit.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static inline struct soma__arena *
new_arena(void)
{
	struct soma__arena *arena = NULL;

	ck_assert_int_eq(soma__arena_create(&arena), SOMA_STATUS_OK);
	ck_assert_ptr_nonnull(arena);
	return arena;
}

static inline struct soma_memory_info
info_of(const struct soma__arena *arena)
{
	struct soma_memory_info info;

	ck_assert_int_eq(soma__arena_info(arena, &info), SOMA_STATUS_OK);
	return info;
}

static inline bool
is_zero(const char *p, size_t size)
{
	return size == 0 || (p[0] == 0 && memcmp(p, p + 1, size - 1) == 0);
}

/* The process's address space in bytes, and how many mappings it consists of. */
static inline uint64_t
address_space(size_t *mappings)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[4096];
	uint64_t start, end, sum = 0;

	ck_assert_ptr_nonnull(file);
	for (*mappings = 0; fgets(line, sizeof line, file) != NULL; (*mappings)++) {
		ck_assert_int_eq(sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end), 2);
		sum += end - start;
	}
	fclose(file);
	return sum;
}

/* What "transparent huge pages" are set to here: can MADV_HUGEPAGE give any? */
static inline bool
can_be_huge(void)
{
	char text[128] = "";
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");

	if (file == NULL)
		return false;
	if (fgets(text, sizeof text, file) == NULL)
		text[0] = '\0';
	fclose(file);
	return strstr(text, "[never]") == NULL && strchr(text, '[') != NULL;
}

/* Leaves room for `more` bytes of address space. */
static inline void
limit_address_space(size_t more)
{
	size_t mappings;
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = address_space(&mappings) + more;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

/* The table [0, old) has its pattern; grows it, and writes what is new. */
static inline unsigned char *
grown_table(struct soma__arena *arena, unsigned char *table, size_t old, size_t size)
{
	table = soma__arena_grow_table(arena, table, old, size);
	ck_assert_ptr_nonnull(table);
	ck_assert_uint_eq((uintptr_t)table % 64, 0);
	for (size_t i = 0; i < old; i += 1021)
		ck_assert_uint_eq(table[i], (unsigned char)(i * 7 + 1));
	ck_assert(is_zero((char *)table + old, size - old));
	for (size_t i = (old + 1020) / 1021 * 1021; i < size; i += 1021)
		table[i] = (unsigned char)(i * 7 + 1);
	return table;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* backends/host: spans, which pages are mapped when, and what close unmaps. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/backend_fixture.h"

static sigjmp_buf on_fault;

static void
jump(int signal)
{
	(void)signal;
	siglongjmp(on_fault, 1);
}

static bool
faults(uint64_t address)
{
	const struct sigaction action = { .sa_handler = jump };
	struct sigaction before;
	volatile bool faulted = true;

	ck_assert_int_eq(sigaction(SIGSEGV, &action, &before), 0);
	if (sigsetjmp(on_fault, 1) == 0) {
		*(volatile unsigned char *)at(address) = 1;
		faulted = false;
	}
	ck_assert_int_eq(sigaction(SIGSEGV, &before, NULL), 0);
	return faulted;
}

static bool
is_mapped(uint64_t address)
{
	return msync(at(address), 4096, MS_ASYNC) == 0 || errno != ENOMEM;
}

START_TEST(a_span_faults_where_nothing_is_mapped)
{
	struct soma_backend_info info = { .size = sizeof info };
	uint64_t span;

	open_host(NULL, NULL);
	OK(ops->query(host, &info));
	uint64_t page = info.span_granularity;
	OK(ops->span_reserve(host, 8 * page, MIB, &span));
	ck_assert_uint_eq(span % MIB, 0);
	ck_assert(faults(span));
	OK(ops->span_map(host, span + 2 * page, 3 * page));
	memset(at(span + 2 * page), 1, 3 * page);
	ck_assert(faults(span + 2 * page - 1));
	ck_assert(faults(span + 5 * page));
	OK(ops->span_unmap(host, span + 3 * page, page));
	ck_assert(faults(span + 3 * page));
	ck_assert_uint_eq(at(span + 4 * page)[0], 1);
	ck_assert_int_eq(ops->span_release(host, span, 7 * page), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(ops->span_release(host, span + page, 7 * page), SOMA_STATUS_INVALID_VALUE);
	OK(ops->span_unmap(host, span + 2 * page, page));
	ck_assert_int_eq(ops->span_release(host, span, 8 * page), SOMA_STATUS_INVALID_VALUE);
	ck_assert_uint_eq(at(span + 4 * page)[0], 1);
	OK(ops->span_unmap(host, span + 4 * page, page));
	OK(ops->span_release(host, span, 8 * page));
	ck_assert_int_eq(ops->span_release(host, span, 8 * page), SOMA_STATUS_INVALID_VALUE);
	ck_assert(!is_mapped(span));
	close_host();
}
END_TEST

/* Every way to map and unmap pages of a span, beside a plain account of which are mapped. */
START_TEST(nothing_is_mapped_or_unmapped_twice)
{
	enum { PAGES = 12 };
	bool mapped[PAGES] = { false };
	struct soma_backend_info before = { .size = sizeof before }, after = before;
	unsigned seed = 1;
	uint64_t span;

	open_host("host.size", "64M");
	OK(ops->query(host, &before));
	uint64_t page = before.span_granularity;
	OK(ops->span_reserve(host, PAGES * page, 0, &span));
	for (int i = 0; i < 20000; i++) {
		seed = seed * 1664525u + 1013904223u;
		unsigned from = (seed >> 8) % PAGES, count = 1 + (seed >> 16) % (PAGES - from), is = 0;
		bool map = (seed >> 24) % 2 != 0;
		for (unsigned k = 0; k < count; k++)
			is += mapped[from + k];
		bool possible = map ? is == 0 : is == count;
		enum soma_status status = map ? ops->span_map(host, span + from * page, count * page)
					      : ops->span_unmap(host, span + from * page, count * page);
		ck_assert_int_eq(status, possible ? SOMA_STATUS_OK : SOMA_STATUS_INVALID_VALUE);
		for (unsigned k = 0; k < count && possible; k++) {
			mapped[from + k] = map;
			if (map)
				at(span + (from + k) * page)[0] = (unsigned char)k;
		}
	}
	uint64_t left = 0;
	for (unsigned k = 0; k < PAGES; k++)
		left += mapped[k];
	OK(ops->query(host, &after));
	ck_assert_uint_eq(before.free - after.free, left * page);
	for (unsigned k = 0; k < PAGES; k++)
		if (mapped[k])
			OK(ops->span_unmap(host, span + k * page, page));
	OK(ops->query(host, &after));
	ck_assert_uint_eq(before.free, after.free);
	OK(ops->span_release(host, span, PAGES * page));
	close_host();
}
END_TEST

START_TEST(spans_are_checked_and_count_against_the_limit)
{
	uint64_t span, none;

	open_host("host.size", "4M");
	ck_assert_int_eq(ops->span_reserve(host, 100, 0, &none), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(ops->span_reserve(host, 0, 0, &none), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(ops->span_reserve(host, MIB, 3 * MIB, &none), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(ops->span_reserve(host, (uint64_t)1 << 60, 0, &none),
			 SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	OK(ops->span_reserve(host, 16 * MIB, 0, &span));
	ck_assert_int_eq(ops->span_map(host, span + 1, MIB), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(ops->span_unmap(host, span + 1, MIB), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(ops->span_map(host, span + 15 * MIB, 2 * MIB), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(ops->span_map(host, span - MIB, 2 * MIB), SOMA_STATUS_INVALID_VALUE);
	void *other = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(other, MAP_FAILED);
	*(unsigned char *)other = 77;
	ck_assert_int_eq(ops->span_unmap(host, (uintptr_t)other, MIB), SOMA_STATUS_INVALID_VALUE);
	ck_assert_uint_eq(*(unsigned char *)other, 77);
	munmap(other, MIB);
	OK(ops->span_map(host, span + 15 * MIB, MIB));
	OK(ops->span_unmap(host, span + 15 * MIB, MIB));
	ck_assert_int_eq(ops->span_map(host, span, 5 * MIB), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_uint_eq(soma_error_last()->limit, 4 * MIB);
	OK(ops->span_map(host, span, 3 * MIB));
	ck_assert_int_eq(ops->alloc(host, 2 * MIB, 0, NULL, &none), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	OK(ops->span_unmap(host, span, 3 * MIB));
	OK(ops->alloc(host, 2 * MIB, 0, NULL, &none));
	/* What is left goes with the backend. */
	close_host();
	ck_assert(!is_mapped(span));
}
END_TEST

START_TEST(closing_unmaps_blocks_that_live_still)
{
	open_host(NULL, NULL);
	uint64_t small = take(100, NULL), large = take(40 * MIB, NULL), idle = take(20 * MIB, NULL);

	OK(ops->free(host, idle, 20 * MIB, NULL));
	ck_assert(is_mapped(small) && is_mapped(large) && is_mapped(idle));
	close_host();
	ck_assert(!is_mapped(small));
	ck_assert(!is_mapped(large));
	ck_assert(!is_mapped(idle));
}
END_TEST

UNIT_MAIN("host spans", a_span_faults_where_nothing_is_mapped, nothing_is_mapped_or_unmapped_twice,
	  spans_are_checked_and_count_against_the_limit, closing_unmaps_blocks_that_live_still)

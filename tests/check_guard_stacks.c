/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks by themselves: the same ones are one, different ones are not, however they were captured. */
#include "tests/unit.h"

#include <string.h>

#include "backends/guard/stacks.h"
#include "backends/guard/symbols.h"

static void *
alloc(void *context, size_t size, size_t alignment)
{
	(void)context;
	(void)alignment;
	return malloc(size);
}

static void
give(void *context, void *memory, size_t size)
{
	(void)context;
	(void)size;
	free(memory);
}

static const struct soma_backend_host host = { .size = sizeof host, .alloc = alloc, .free = give };
static struct stacks stacks;
static volatile unsigned none;

/* Stands for an op of the guard. */
__attribute__((noinline)) static uint32_t
capture(void)
{
	uint32_t id = STACKS_HERE(&stacks);

	return id + none;
}

__attribute__((noinline)) static uint32_t
by_one_way(void)
{
	return capture() + none;
}

/* Has the same frame as by_one_way() for capture(), and other callers. */
__attribute__((noinline)) static uint32_t
by_another_way(void)
{
	return capture() + none;
}

__attribute__((noinline)) static uint32_t
through(uint32_t (*way)(void))
{
	return way() + none;
}

__attribute__((noinline)) static uint32_t
deep(unsigned levels)
{
	return (levels == 0 ? capture() : deep(levels - 1)) + none;
}

START_TEST(the_same_stack_is_one_and_others_are_not)
{
	uint32_t ids[6];

	ck_assert(stacks_init(&stacks, &host, 16));
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 2; i++) {
			ids[2 * i] = through(by_one_way);
			ids[2 * i + 1] = through(by_another_way);
		}
		ck_assert_uint_ne(ids[0], ids[1]);
		ck_assert_uint_ne(ids[2], ids[3]);
		ck_assert_uint_ne(ids[0], STACK_NONE);
	}
	/* One place, many times: one stack. */
	uint32_t first = STACK_NONE;
	for (unsigned i = 0; i < 1000; i++) {
		uint32_t id = through(by_one_way);
		ck_assert(first == STACK_NONE || id == first);
		first = id;
	}
	stacks_fini(&stacks);
}
END_TEST

START_TEST(depths_differ_until_the_limit)
{
	void *const *frames;

	ck_assert(stacks_init(&stacks, &host, 8));
	uint32_t ids[4] = { 0 };
	for (unsigned i = 0; i < 40; i++) {
		uint32_t id = deep(i % 4);
		ck_assert(ids[i % 4] == 0 || ids[i % 4] == id);
		ids[i % 4] = id;
		for (unsigned j = 0; j < i % 4; j++)
			ck_assert_uint_ne(ids[j], id);
	}
	ck_assert_uint_eq(stacks_frames(&stacks, deep(100), &frames), 8);
	ck_assert_uint_eq(stacks_frames(&stacks, STACK_NONE, &frames), 0);
	stacks_fini(&stacks);
}
END_TEST

START_TEST(without_frames_nothing_is_captured)
{
	ck_assert(stacks_init(&stacks, &host, 0));
	ck_assert_uint_eq(capture(), STACK_NONE);
	stacks_fini(&stacks);
}
END_TEST

START_TEST(the_first_frame_is_the_caller)
{
	void *const *frames;
	char text[256];

	ck_assert(stacks_init(&stacks, &host, 16));
	uint32_t id = by_one_way();
	ck_assert_uint_gt(stacks_frames(&stacks, id, &frames), 1);
	ck_assert((uintptr_t)frames[0] - (uintptr_t)by_one_way < 256);
	struct symbols *symbols = symbols_open();
	symbols_name(symbols, frames[0], text, sizeof text);
	symbols_close(symbols);
	ck_assert_ptr_nonnull(strstr(text, "check_guard_stacks"));
	stacks_fini(&stacks);
}
END_TEST

UNIT_MAIN("guard stacks", the_same_stack_is_one_and_others_are_not, depths_differ_until_the_limit,
	  without_frames_nothing_is_captured, the_first_frame_is_the_caller)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy `soma` call for call: what its segment source is told, and when.  The random
 * comparison with the oracle is in check_oracle.c.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <soma/soma.h>

#include "tests/model_fixture.h"
#include "tests/unit.h"

#define PAGE (2 * MIB)
#define LARGE ((uint64_t)1 << 45) /* where this source has the range for large blocks ... */
#define SMALL ((uint64_t)1 << 44) /* ... and the one for small ones */

/* Writes down the calls, in pages from the range's front: "map L0+2 unmap L0+1 ". */
struct book {
	char calls[512];
	unsigned refuse_reserve; /* from this call on, from 1; 0: never */
	unsigned refuse_maps;    /* so many */
	uint64_t ranges[2];      /* addresses to give: by pool */
	unsigned reserved, released;
	uint64_t mapped;
};

static void
write_down(struct book *book, const char *what, uint64_t address, uint64_t size)
{
	size_t length = strlen(book->calls);
	bool large = address >= book->ranges[1];

	snprintf(book->calls + length, sizeof book->calls - length, "%s %c%u+%u ", what, large ? 'L' : 'S',
		 (unsigned)((address - book->ranges[large]) / PAGE), (unsigned)(size / PAGE));
}

static enum soma_status
reserve(void *context, unsigned pool, uint64_t size, uint64_t *address)
{
	struct book *book = context;

	ck_assert_uint_eq(size, soma_policy_preset("soma")->pools[pool].segment_size);
	if (++book->reserved == book->refuse_reserve)
		return SOMA_STATUS_DRIVER;
	*address = book->ranges[pool];
	return SOMA_STATUS_OK;
}

static void
release_range(void *context, uint64_t address, uint64_t size)
{
	struct book *book = context;

	(void)address, (void)size;
	book->released++;
}

static enum soma_status
map(void *context, uint64_t address, uint64_t size)
{
	struct book *book = context;

	write_down(book, book->refuse_maps > 0 ? "refused" : "map", address, size);
	if (book->refuse_maps > 0) {
		book->refuse_maps--;
		return SOMA_STATUS_DRIVER;
	}
	book->mapped += size;
	return SOMA_STATUS_OK;
}

static void
unmap(void *context, uint64_t address, uint64_t size)
{
	struct book *book = context;

	write_down(book, "unmap", address, size);
	book->mapped -= size;
}

static enum soma_status
try_model(struct book *book, uint64_t max, struct soma_model **model)
{
	struct soma_segment_source source = {
		.size = sizeof source,
		.context = book,
		.release = release_range,
		.reserve = reserve,
		.map = map,
		.unmap = unmap,
	};
	struct soma_policy policy = *soma_policy_preset("soma");
	struct soma_model_limits limits = {
		.size = sizeof limits,
		.max_pool_size = max,
		.release_threshold = UINT64_MAX,
		.policy = &policy,
		.segments = &source,
	};

	policy.reuse = SOMA_REUSE_SAME_STREAM | SOMA_REUSE_OPPORTUNISTIC;
	if (book->ranges[0] == 0)
		book->ranges[0] = SMALL;
	if (book->ranges[1] == 0)
		book->ranges[1] = LARGE;
	return soma_model_create(&limits, model);
}

static struct soma_model *
model_with(struct book *book, uint64_t max)
{
	struct soma_model *model = NULL;

	ck_ok(try_model(book, max, &model));
	return model;
}

static void
expect_calls(struct book *book, const char *calls)
{
	ck_assert_str_eq(book->calls, calls);
	book->calls[0] = '\0';
}

static void
execute(struct soma_model *model, uint64_t stream)
{
	struct soma_model_position position;

	ck_ok(soma_model_position(model, stream, &position));
	ck_ok(soma_model_advance(model, stream, position.submitted));
}

static void
free_and_execute(struct soma_model *model, uint64_t ptr, uint64_t stream)
{
	ck_ok(soma_model_free(model, ptr, stream));
	execute(model, stream);
}

START_TEST(pages_are_mapped_when_a_block_first_needs_them)
{
	struct book book = { 0 };
	struct soma_model *m = model_with(&book, 0);

	expect_calls(&book, "");
	ck_assert_uint_eq(alloc(m, 3 * MIB, 0).ptr, LARGE);
	expect_calls(&book, "map L0+2 ");
	alloc(m, MIB, 0); /* small: of the other range */
	expect_calls(&book, "map S0+1 ");
	alloc(m, MIB + 1, 0);
	expect_calls(&book, "map L2+1 "); /* what the second page has left, and one more */
	alloc(m, MIB, 0);
	expect_calls(&book, "");
	ck_assert_uint_eq(soma_model_reserved(m), 4 * PAGE);
	ck_assert_uint_eq(soma_model_reserved(m), book.mapped);
	ck_assert_uint_eq(soma_model_map_count(m), 3);
	ck_assert_uint_eq(soma_model_pages_mapped(m), 4);
	soma_model_destroy(m);
}
END_TEST

START_TEST(free_pages_move_only_at_the_maximum_and_once_their_last_use_has_executed)
{
	struct book book = { 0 };
	struct soma_model *m = model_with(&book, 5 * PAGE);
	uint64_t s = stream_of(m), t = stream_of(m);
	struct soma_model_alloc a = alloc(m, 2 * PAGE, s);

	alloc(m, 2 * PAGE, s);
	expect_calls(&book, "map L0+2 map L2+2 ");
	ck_ok(soma_model_free(m, a.ptr, s));
	ck_assert_int_eq(try_alloc(m, 3 * PAGE, t), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	expect_calls(&book, "");
	execute(m, s);
	ck_assert_uint_eq(alloc(m, 3 * PAGE, t).ptr, LARGE + 4 * PAGE);
	expect_calls(&book, "unmap L0+2 map L4+3 ");
	ck_assert_uint_eq(soma_model_steal_count(m), 1);
	ck_assert_uint_eq(soma_model_pages_stolen(m), 2);
	ck_assert_uint_eq(soma_model_reserved(m), 5 * PAGE);
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_hole_is_filled_where_it_needs_the_fewest_pages)
{
	struct book book = { 0 };
	struct soma_model *m = model_with(&book, 0);
	struct soma_model_alloc a = alloc(m, 4 * PAGE, 0), b, c;

	alloc(m, PAGE, 0);
	b = alloc(m, 8 * PAGE, 0);
	alloc(m, PAGE, 0);
	free_and_execute(m, a.ptr, 0);
	free_and_execute(m, b.ptr, 0);
	ck_ok(soma_model_trim_to(m, 2 * PAGE));
	expect_calls(&book, "map L0+4 map L4+1 map L5+8 map L13+1 unmap L5+8 unmap L0+4 ");
	c = alloc(m, 3 * PAGE, 0);
	expect_calls(&book, "map L0+3 ");
	free_and_execute(m, c.ptr, 0);
	ck_assert_uint_eq(alloc(m, 4 * PAGE, 0).ptr, LARGE); /* behind three free pages */
	expect_calls(&book, "map L3+1 ");
	soma_model_destroy(m);
}
END_TEST

START_TEST(what_trimming_unmaps_keeps_its_addresses)
{
	struct book book = { 0 };
	struct soma_model *m = model_with(&book, 0);
	struct soma_model_alloc a = alloc(m, 4 * PAGE, 0);

	alloc(m, PAGE, 0);
	free_and_execute(m, a.ptr, 0);
	ck_ok(soma_model_trim_to(m, 2 * PAGE + 1));
	expect_calls(&book, "map L0+4 map L4+1 unmap L2+2 "); /* never below what is to be kept */
	ck_ok(soma_model_trim_to(m, 0));
	expect_calls(&book, "unmap L0+2 ");
	ck_assert_uint_eq(soma_model_segments_released(m), 2);
	ck_assert_uint_eq(soma_model_steal_count(m), 0);
	ck_assert_uint_eq(alloc(m, 4 * PAGE, 0).ptr, a.ptr);
	expect_calls(&book, "map L0+4 ");
	soma_model_destroy(m);
}
END_TEST

/* Three pages free, one live, three free, one live. */
static struct soma_model *
model_with_free_pages(struct book *book)
{
	struct soma_model *m = model_with(book, 0);
	uint64_t part[4];

	for (unsigned i = 0; i < 4; i++)
		part[i] = alloc(m, i % 2 == 0 ? 3 * PAGE : PAGE, 0).ptr;
	free_and_execute(m, part[0], 0);
	free_and_execute(m, part[2], 0);
	expect_calls(book, "map L0+3 map L3+1 map L4+3 map L7+1 ");
	return m;
}

START_TEST(a_refused_map_is_made_up_for_by_free_pages)
{
	struct book book = { 0 };
	struct soma_model *m = model_with_free_pages(&book);

	book.refuse_maps = 1;
	ck_assert_int_eq(try_alloc(m, 7 * PAGE, 0), SOMA_STATUS_DRIVER); /* there are six */
	expect_calls(&book, "refused L8+7 ");
	ck_assert_str_eq(soma_error_last()->text,
			 "the segment source refused to map 14680064 bytes at 0x200001000000");
	book.refuse_maps = 1;
	ck_assert_uint_eq(alloc(m, 4 * PAGE, 0).ptr, LARGE + 8 * PAGE);
	expect_calls(&book, "refused L8+4 unmap L4+3 unmap L2+1 map L8+4 ");
	ck_assert_uint_eq(soma_model_steal_count(m), 2);
	ck_assert_uint_eq(soma_model_pages_stolen(m), 4);
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_map_refused_twice_changes_nothing_but_that_pages_are_unmapped)
{
	struct book book = { 0 };
	struct soma_model *m = model_with_free_pages(&book);
	uint64_t position = submitted(m, 0);

	book.refuse_maps = 2;
	ck_assert_int_eq(try_alloc(m, 4 * PAGE, 0), SOMA_STATUS_DRIVER);
	expect_calls(&book, "refused L8+4 unmap L4+3 unmap L2+1 refused L8+4 ");
	ck_assert_uint_eq(submitted(m, 0), position);
	ck_assert_uint_eq(soma_model_live_count(m), 2);
	ck_assert_uint_eq(soma_model_reserved(m), 4 * PAGE);
	ck_assert_uint_eq(soma_model_reserved(m), book.mapped);
	ck_assert_uint_eq(alloc(m, 2 * PAGE, 0).ptr, LARGE);
	expect_calls(&book, "");
	soma_model_destroy(m);
}
END_TEST

START_TEST(ranges_that_are_refused_or_wrong_are_given_back)
{
	static const uint64_t wrong[] = { 1, LARGE + MIB, LARGE + PAGE, LARGE - PAGE,
					  SOMA_MODEL_ADDRESS_MAX };
	struct soma_model *m = NULL;

	for (unsigned at = 1; at <= 2; at++) {
		struct book book = { .refuse_reserve = at };

		ck_assert_int_eq(try_model(&book, 0, &m), SOMA_STATUS_DRIVER);
		ck_assert_uint_eq(book.reserved, at);
		ck_assert_uint_eq(book.released, at - 1);
	}
	for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct book book = { .ranges[0] = wrong[i] };

		ck_invalid(try_model(&book, 0, &m));
		ck_assert_uint_eq(book.released, 2);
	}
	ck_assert_ptr_null(m);
}
END_TEST

START_TEST(destroying_unmaps_everything_and_gives_the_ranges_back)
{
	struct book book = { 0 };
	struct soma_model *m = model_with(&book, 0);
	struct soma_model_alloc a = alloc(m, 3 * PAGE, 0);

	alloc(m, PAGE, 0);
	alloc(m, 512, 0);
	free_and_execute(m, a.ptr, 0);
	ck_ok(soma_model_trim_to(m, 4 * PAGE));
	book.calls[0] = '\0';
	soma_model_destroy(m);
	expect_calls(&book, "unmap L0+2 unmap L3+1 unmap S0+1 ");
	ck_assert_uint_eq(book.mapped, 0);
	ck_assert_uint_eq(book.released, 2);
}
END_TEST

/* Step 6 looks at 32 blocks of a list: the one behind them is found by growing, which then
 * maps nothing. */
START_TEST(the_end_that_is_large_enough_needs_no_page)
{
	struct book book = { 0 };
	struct soma_model *m = model_with(&book, 0);
	uint64_t part[33], last;

	for (unsigned i = 0; i < 33; i++) {
		part[i] = alloc(m, (uint64_t)200 * 512, 0).ptr;
		alloc(m, 512, 0);
	}
	alloc(m, (uint64_t)(2 * 4096 - 33 * 201 - 201) * 512, 0);
	last = alloc(m, (uint64_t)201 * 512, 0).ptr;
	expect_calls(&book, "map S0+1 map S1+1 ");
	free_and_execute(m, last, 0);
	for (unsigned i = 0; i < 33; i++)
		free_and_execute(m, part[i], 0);
	ck_assert_uint_eq(alloc(m, (uint64_t)201 * 512, 0).ptr, last);
	expect_calls(&book, "");
	ck_assert_uint_eq(soma_model_segments_acquired(m), 2);
	soma_model_destroy(m);
}
END_TEST

static enum soma_status
no_segment(void *context, uint64_t stream, uint64_t size, uint64_t *address)
{
	(void)context, (void)stream, (void)size, (void)address;
	return SOMA_STATUS_DRIVER;
}

START_TEST(a_source_from_before_there_were_pages_serves_segments_alone)
{
	struct book book = { 0 };
	struct soma_segment_source source = {
		.size = offsetof(struct soma_segment_source, reserve),
		.context = &book,
		.acquire = no_segment,
		.release = release_range,
	};
	struct soma_model_limits limits = {
		.size = sizeof limits,
		.policy = soma_policy_preset("cuda"),
		.segments = &source,
	};
	struct soma_model *m = NULL;

	ck_ok(soma_model_create(&limits, &m));
	ck_assert_int_eq(try_alloc(m, 512, 0), SOMA_STATUS_DRIVER);
	soma_model_destroy(m);
	limits.policy = soma_policy_preset("soma");
	ck_invalid(soma_model_create(&limits, &m));
}
END_TEST

UNIT_MAIN("mapped", pages_are_mapped_when_a_block_first_needs_them,
	  free_pages_move_only_at_the_maximum_and_once_their_last_use_has_executed,
	  a_hole_is_filled_where_it_needs_the_fewest_pages, what_trimming_unmaps_keeps_its_addresses,
	  a_refused_map_is_made_up_for_by_free_pages,
	  a_map_refused_twice_changes_nothing_but_that_pages_are_unmapped,
	  ranges_that_are_refused_or_wrong_are_given_back,
	  destroying_unmaps_everything_and_gives_the_ranges_back, the_end_that_is_large_enough_needs_no_page,
	  a_source_from_before_there_were_pages_serves_segments_alone)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offline packing: small instances whose answers are known, the check that judges them, and
 * random ones.
 */
#include <inttypes.h>
#include <string.h>

#include "tests/unit.h"
#include "tools/pack/pack.h"

#define STEPS ((uint64_t)20 * 1000 * 1000)

static void
check_packing(struct pack_item *items, size_t count, uint64_t bound, uint64_t height)
{
	struct pack_result result;
	size_t a, b;

	pack_run(items, count, STEPS, NULL, &result);
	ck_assert(result.packed);
	ck_assert_uint_eq(result.bound, bound);
	ck_assert_uint_eq(result.height, height);
	ck_assert(pack_check(items, count, result.height, &a, &b));
}

START_TEST(nothing_needs_nothing)
{
	struct pack_result result;

	pack_run(NULL, 0, STEPS, NULL, &result);
	ck_assert(result.packed);
	ck_assert_uint_eq(result.height, 0);
	ck_assert_uint_eq(result.bound, 0);
}
END_TEST

START_TEST(items_of_different_times_share_a_place)
{
	struct pack_item items[] = { { 0, 10, 100, 0 }, { 10, 20, 80, 0 }, { 5, 15, 7, 0 } };

	check_packing(items, 3, 107, 107);
}
END_TEST

/* Placed by start, the last one finds 4 free in two pieces of 2. */
START_TEST(an_order_by_start_is_not_the_answer)
{
	struct pack_item items[] = {
		{ 0, 2, 2, 0 }, { 0, 4, 2, 0 }, { 0, 2, 2, 0 }, { 2, 4, 4, 0 },
	};

	check_packing(items, 4, 6, 6);
}
END_TEST

START_TEST(what_lives_through_everything_is_below_it)
{
	struct pack_item items[] = { { 0, 100, 50, 0 }, { 10, 20, 5, 0 }, { 20, 30, 6, 0 }, { 0, 100, 3, 0 } };

	check_packing(items, 4, 59, 59);
	ck_assert_uint_ge(items[1].offset, 53);
	ck_assert_uint_ge(items[2].offset, 53);
}
END_TEST

START_TEST(an_overlap_is_found)
{
	struct pack_item items[] = { { 0, 10, 100, 0 }, { 5, 15, 10, 90 }, { 10, 20, 100, 0 } };
	size_t a = 9, b = 9;

	ck_assert(!pack_check(items, 3, 1000, &a, &b));
	ck_assert_uint_eq(a + b, 1);
	items[1].offset = 100;
	ck_assert(pack_check(items, 3, 110, &a, &b));
	ck_assert(!pack_check(items, 3, 109, &a, &b));
	ck_assert_uint_eq(a, 1);
	ck_assert_uint_eq(b, 1);
}
END_TEST

START_TEST(sizes_beyond_any_address_are_not_packed)
{
	struct pack_item items[] = { { 0, 1, UINT64_MAX / 2, 0 }, { 0, 1, UINT64_MAX / 2, 0 } };
	struct pack_result result;

	pack_run(items, 2, STEPS, NULL, &result);
	ck_assert(!result.packed);
}
END_TEST

START_TEST(too_few_steps_give_no_packing)
{
	struct pack_item items[64];
	struct pack_result result;

	for (size_t i = 0; i < 64; i++)
		items[i] = (struct pack_item){ i, i + 30, 10 + i % 7, 0 };
	pack_run(items, 64, 10, NULL, &result);
	ck_assert(!result.packed);
}
END_TEST

/* Two of one lifetime on each other, and two that follow them: as one box each they share a place. */
START_TEST(what_has_one_lifetime_keeps_together)
{
	struct pack_item items[] = {
		{ 0, 10, 3, 0 }, { 0, 10, 4, 0 }, { 10, 20, 2, 0 }, { 10, 20, 5, 0 }, { 5, 15, 1, 0 },
	};

	check_packing(items, 5, 8, 8);
}
END_TEST

static uint64_t state;

static uint64_t
below(uint64_t limit)
{
	state = state * 6364136223846793005U + 1442695040888963407U;
	return (state >> 33) % limit;
}

static size_t
random_items(struct pack_item *items, uint64_t seed)
{
	size_t count;

	state = seed;
	count = 1 + below(120);
	for (size_t i = 0; i < count; i++) {
		uint64_t lower = below(200);

		items[i] = (struct pack_item){ lower, lower + 1 + below(i % 5 == 0 ? 200 : 30),
					       1 + below(1000), 0 };
	}
	return count;
}

/* Every pair is looked at: the slow and sure way. */
static bool
any_overlap(const struct pack_item *items, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; j < count; j++)
			if (items[i].lower < items[j].upper && items[j].lower < items[i].upper &&
			    items[i].offset < items[j].offset + items[j].size &&
			    items[j].offset < items[i].offset + items[i].size)
				return true;
	return false;
}

START_TEST(random_packings_hold_and_are_the_same_every_time)
{
	struct pack_item items[128], again[128];
	struct pack_result result, second;
	_Atomic uint64_t spent = 0;
	size_t a, b;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		size_t count = random_items(items, seed);

		memcpy(again, items, sizeof items);
		pack_run(items, count, STEPS / 10, NULL, &result);
		ck_assert(result.packed);
		ck_assert(!any_overlap(items, count));
		ck_assert(pack_check(items, count, result.height, &a, &b));
		ck_assert_uint_ge(result.height, result.bound);
		ck_assert_uint_le(result.height, result.bound + result.bound / 4);
		pack_run(again, count, STEPS / 10, &spent, &second);
		ck_assert_uint_eq(second.height, result.height);
		ck_assert_uint_eq(spent, second.steps);
		ck_assert_mem_eq(items, again, count * sizeof *items);
	}
}
END_TEST

START_TEST(the_check_agrees_with_looking_at_every_pair)
{
	struct pack_item items[128];
	size_t a, b, bad = 0;

	for (uint64_t seed = 1; seed <= 3000; seed++) {
		size_t count = random_items(items, seed) % 12 + 1;

		for (size_t i = 0; i < count; i++)
			items[i].offset = below(12000);
		ck_assert_int_eq(pack_check(items, count, UINT64_MAX, &a, &b), !any_overlap(items, count));
		bad += any_overlap(items, count);
	}
	ck_assert_uint_gt(bad, 100);
	ck_assert_uint_lt(bad, 2900);
}
END_TEST

UNIT_MAIN("pack", nothing_needs_nothing, items_of_different_times_share_a_place,
	  an_order_by_start_is_not_the_answer, what_lives_through_everything_is_below_it, an_overlap_is_found,
	  sizes_beyond_any_address_are_not_packed, too_few_steps_give_no_packing,
	  what_has_one_lifetime_keeps_together, random_packings_hold_and_are_the_same_every_time,
	  the_check_agrees_with_looking_at_every_pair)

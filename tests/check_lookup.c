/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pointer lookup against a plain array: also where many granules have one line, where
 * hashes are equal in all that a line holds of them, and while the table grows.  Looks inside.
 */
#include <stdlib.h>

#include "lib/arena/arena.h"
#include "lib/model/lookup.h"
#include "tests/unit.h"

#define HASH_BITS SOMA__ADDRESS_BITS
#define HASH_MASK (((uint64_t)1 << HASH_BITS) - 1)

struct fixture {
	struct soma__arena *arena;
	struct soma__slab blocks;
	struct soma__lookup lookup;
};

static struct fixture
set_up(void)
{
	struct fixture f = { 0 };

	ck_assert_int_eq(soma__arena_create(&f.arena), SOMA_STATUS_OK);
	soma__slab_init(&f.blocks, sizeof(struct soma__block), 1 << 20);
	ck_assert(soma__slab_reserve(&f.blocks, f.arena, 100000));
	return f;
}

static void
tear_down(struct fixture *f)
{
	soma__arena_destroy(f->arena);
}

/* The granule whose hash this is. */
static uint64_t
granule_hashed(uint64_t hash)
{
	uint64_t odd = soma__lookup_hash(1) >> (64 - HASH_BITS), inverse = odd, shifted, granule = 0;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - odd * inverse;
	shifted = hash * inverse & HASH_MASK;
	for (int i = 0; i < HASH_BITS / 5; i++)
		granule = shifted ^ granule >> 5;
	ck_assert_uint_eq(soma__lookup_hash(granule) >> (64 - HASH_BITS), hash);
	return granule;
}

static uint32_t
put(struct fixture *f, uint64_t granule)
{
	uint32_t name = soma__slab_take(&f->blocks, sizeof(struct soma__block), SOMA__NAME_UNIT);
	struct soma__block *block = soma__lookup_block(&f->blocks, name);

	*block = (struct soma__block){ .head = soma__block_head(granule, 1, SOMA__BLOCK_LIVE) };
	ck_assert(soma__lookup_reserve(&f->lookup, &f->blocks, f->arena));
	soma__lookup_put(&f->lookup, granule, name);
	return name;
}

/* Of the entry of a block, marked or not. */
static uint32_t
place_of(const struct fixture *f, uint32_t link)
{
	return soma__lookup_recall(&f->lookup, &f->blocks,
				   soma__block_address(soma__lookup_block(&f->blocks, link)));
}

static void
take_out(struct fixture *f, uint32_t link)
{
	uint64_t granule = soma__block_address(soma__lookup_block(&f->blocks, link));

	soma__lookup_remove(&f->lookup, place_of(f, link), granule);
	soma__slab_give(&f->blocks, soma__link_record(link), SOMA__NAME_UNIT);
}

/* The live block there, or 0. */
static uint32_t
found(const struct fixture *f, uint64_t granule)
{
	const uint32_t *link = soma__lookup_live(&f->lookup, &f->blocks, granule);

	return link != NULL ? *link : 0;
}

static uint64_t
random_next(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *state >> 33;
}

#define GRANULES 4000

static void
expect_exactly(const struct fixture *f, const uint64_t *granules, const uint32_t *names)
{
	for (int i = 0; i < GRANULES; i++) {
		ck_assert_uint_eq(found(f, granules[i]), names[i]);
		if (names[i] != 0)
			ck_assert_uint_eq(*soma__lookup_link(&f->lookup, place_of(f, names[i])), names[i]);
	}
}

/* Puts and takes out the granules at random, looking at all of them now and then. */
static void
compare(uint64_t (*granule)(int i), int steps)
{
	static uint64_t granules[GRANULES];
	static uint32_t names[GRANULES];
	struct fixture f = set_up();
	uint64_t state = 1;

	for (int i = 0; i < GRANULES; i++) {
		granules[i] = granule(i);
		names[i] = 0;
	}
	ck_assert(soma__lookup_reserve(&f.lookup, &f.blocks, f.arena));
	for (int step = 0; step < steps; step++) {
		uint64_t i = random_next(&state) % GRANULES;

		if (names[i] == 0) {
			names[i] = put(&f, granules[i]);
		} else if (random_next(&state) % 4 != 0 || step > steps / 2) {
			take_out(&f, names[i]);
			names[i] = 0;
		}
		if (step % 1000 == 0)
			expect_exactly(&f, granules, names);
	}
	expect_exactly(&f, granules, names);
	for (int i = 0; i < GRANULES; i++)
		if (names[i] != 0)
			take_out(&f, names[i]);
	ck_assert_uint_eq(f.lookup.used, 0);
	tear_down(&f);
}

static uint64_t
in_a_row(int i)
{
	return (uint64_t)i + 1;
}

START_TEST(what_was_put_is_found_and_nothing_else)
{
	compare(in_a_row, 100000);
}
END_TEST

/* All in the first line, whatever the table's size. */
static uint64_t
in_one_line(int i)
{
	return granule_hashed((uint64_t)i + 1);
}

START_TEST(a_line_of_everything_spills_over_and_comes_back)
{
	compare(in_one_line, 20000);
}
END_TEST

/* Half at the end of the last line's hashes, half at the beginning of the first's. */
static uint64_t
around_the_end(int i)
{
	return granule_hashed(((uint64_t)i - GRANULES / 2) & HASH_MASK);
}

START_TEST(the_last_line_spills_into_the_first)
{
	compare(around_the_end, 20000);
}
END_TEST

/* Their lower 31 bits, which are all that a line has of them, are of 8 kinds. */
static uint64_t
alike(int i)
{
	return granule_hashed(((uint64_t)(i / 8) << 31 | (uint64_t)(i % 8)) & HASH_MASK);
}

START_TEST(granules_whose_hashes_look_alike_are_told_apart)
{
	compare(alike, 50000);
}
END_TEST

/* Of the granules whose lower 31 bits are those of one of these hashes, how many are found? */
static unsigned
count_alike(const struct fixture *f, uint64_t hash, uint64_t count)
{
	unsigned seen = 0;

	for (uint64_t i = 0; i < count; i++)
		for (uint64_t upper = 1; upper < 512; upper++)
			seen += found(f, granule_hashed((hash + i + (upper << 31)) & HASH_MASK)) != 0;
	return seen;
}

/* In a large table the records are not asked, until entries are far behind their own lines. */
START_TEST(a_large_table_takes_no_granule_for_another)
{
	const uint64_t hash = HASH_MASK / 3;
	struct fixture f = set_up();

	for (uint64_t i = 1; i <= 12000; i++)
		put(&f, i);
	ck_assert(!f.lookup.ask);
	ck_assert_uint_eq(count_alike(&f, soma__lookup_hash(4000) >> (64 - HASH_BITS), 1), 0);
	for (uint64_t i = 0; i < 60; i++) {
		put(&f, granule_hashed(hash + i));
		ck_assert_uint_eq(count_alike(&f, hash, i + 1), 0);
	}
	ck_assert(f.lookup.ask);
	tear_down(&f);
}
END_TEST

/* Its entries move by what their lines say of their hashes, those of the last line that stand in the
 * first included. */
START_TEST(everything_is_found_after_each_growth_of_a_large_table)
{
	static uint64_t granules[80000];
	static uint32_t names[80000];
	struct fixture f = set_up();
	uint64_t state = 7;
	unsigned grown = 0;

	for (unsigned i = 0; i < 80000; i++) {
		uint32_t lines = f.lookup.count;
		uint64_t random = random_next(&state);

		granules[i] = i % 100 == 0 && i < 1200 ? granule_hashed(HASH_MASK - i)
						       : i << 20 | (random & 0xfffff);
		names[i] = put(&f, granules[i]);
		if (i < 30000 || f.lookup.count == lines)
			continue;
		ck_assert(!f.lookup.ask);
		grown++;
		for (unsigned j = 0; j <= i; j++) {
			ck_assert_uint_eq(found(&f, granules[j]), names[j]);
			ck_assert_uint_eq(*soma__lookup_link(&f.lookup, place_of(&f, names[j])), names[j]);
		}
	}
	ck_assert_uint_ge(grown, 3);
	for (unsigned i = 0; i < 80000; i++)
		take_out(&f, names[i]);
	ck_assert_uint_eq(f.lookup.used, 0);
	for (unsigned number = 0; number < f.lookup.count; number++)
		ck_assert_uint_eq(f.lookup.passed[number], 0);
	tear_down(&f);
}
END_TEST

static unsigned
displaced(const struct fixture *f, const uint32_t *names, unsigned count)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct soma__block *block = soma__lookup_block(&f->blocks, names[i]);
		uint64_t hash = soma__lookup_hash(soma__block_address(block));

		sum += place_of(f, names[i]) / SOMA__LINE_WORDS != soma__lookup_line(&f->lookup, hash);
	}
	return sum;
}

/* As many programs have them: small blocks side by side at the fronts of segments.  (So many that the
 * table is three fifths full.) */
START_TEST(grids_of_granules_are_spread_over_the_lines)
{
	static const struct {
		uint64_t segment, step;
		unsigned blocks;
	} grids[] = {
		{ 1 << 12, 1, 256 }, { 1 << 12, 3, 64 }, { 1 << 12, 1, 16 }, { 1 << 13, 1, 256 },
		{ 1 << 16, 1, 1 },   { 40960, 1, 1 },    { 81920, 512, 4 },  { 1 << 13, 2, 512 },
	};
	static uint32_t names[17000];

	for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
		struct fixture f = set_up();

		for (unsigned i = 0; i < 17000; i++)
			names[i] = put(&f, ((uint64_t)1 << 36) + i / grids[g].blocks * grids[g].segment +
						   i % grids[g].blocks * grids[g].step);
		ck_assert_uint_lt(displaced(&f, names, 17000), 17000 / 20);
		tear_down(&f);
	}
}
END_TEST

START_TEST(a_mark_hides_the_entry_and_stays_while_the_table_grows)
{
	static uint32_t names[20000];
	struct fixture f = set_up();

	for (uint64_t i = 0; i < 20000; i++) {
		names[i] = put(&f, 100 + i);
		if (i % 2 == 0)
			*soma__lookup_live(&f.lookup, &f.blocks, 100 + i) |= SOMA__LINK_FREED;
	}
	for (uint64_t i = 0; i < 20000; i++)
		ck_assert_uint_eq(found(&f, 100 + i), i % 2 == 0 ? 0 : names[i]);
	for (uint64_t i = 0; i < 20000; i++) {
		uint32_t link = i % 2 == 0 ? names[i] | SOMA__LINK_FREED : names[i];

		ck_assert_uint_eq(*soma__lookup_link(&f.lookup, place_of(&f, link)), link);
		if (i % 4 == 0) {
			*soma__lookup_link(&f.lookup, place_of(&f, link)) = names[i];
			ck_assert_uint_eq(found(&f, 100 + i), names[i]);
			link = names[i];
		}
		take_out(&f, link);
	}
	ck_assert_uint_eq(f.lookup.used, 0);
	tear_down(&f);
}
END_TEST

UNIT_MAIN("lookup", what_was_put_is_found_and_nothing_else, a_line_of_everything_spills_over_and_comes_back,
	  the_last_line_spills_into_the_first, granules_whose_hashes_look_alike_are_told_apart,
	  a_large_table_takes_no_granule_for_another, everything_is_found_after_each_growth_of_a_large_table,
	  grids_of_granules_are_spread_over_the_lines, a_mark_hides_the_entry_and_stays_while_the_table_grows)

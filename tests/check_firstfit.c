/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First fit against a map of units, each in a gap or not: what is found, and after every so many
 * operations the whole tree, node by node.  A unit is so many granules that sizes come to be
 * on both sides of SOMA__GAP_COARSE.  Looks inside.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/arena/arena.h"
#include "lib/model/firstfit.h"
#include "tests/unit.h"

struct fixture {
	struct soma__arena *arena;
	struct soma__slab blocks;
	struct soma__firstfit gaps;
	uint64_t unit;    /* granules */
	uint32_t units;   /* of the map */
	bool *gap;        /* by unit; two more */
	uint32_t *record; /* by the unit where a gap begins; the last one stands for all if there are none */
	bool records;
	uint64_t random;
};

/* Check writes a line for each of its own assertions, and here are millions. */
#define EXPECT(condition) ((condition) ? (void)0 : ck_abort_msg("%s", #condition))

#define ORIGIN 1000 /* units before the map */

static void
set_up(struct fixture *f, uint32_t units, uint64_t unit, bool records)
{
	*f = (struct fixture){ .unit = unit, .units = units, .records = records, .random = units + unit };
	ck_assert_int_eq(soma__arena_create(&f->arena), SOMA_STATUS_OK);
	soma__slab_init(&f->blocks, sizeof(struct soma__block), 1 << 24);
	ck_assert(soma__slab_reserve(&f->blocks, f->arena, units + 2));
	soma__firstfit_init(&f->gaps, &f->blocks);
	f->gap = calloc(units + 2, sizeof *f->gap);
	f->record = calloc(units + 2, sizeof *f->record);
	ck_assert(f->gap != NULL && f->record != NULL);
}

static void
tear_down(struct fixture *f)
{
	soma__arena_destroy(f->arena);
	free(f->gap);
	free(f->record);
}

static uint32_t
random_below(struct fixture *f, uint32_t bound)
{
	f->random = f->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)((f->random >> 32) * bound >> 32);
}

static uint64_t
address_of(const struct fixture *f, uint32_t unit)
{
	return (ORIGIN + unit) * f->unit;
}

static struct soma__block *
block_at(const struct fixture *f, uint32_t record)
{
	return soma__slab_at(&f->blocks, record, SOMA__NAME_UNIT);
}

static uint32_t
new_record(struct fixture *f)
{
	return f->records ? soma__slab_take(&f->blocks, sizeof(struct soma__block), SOMA__NAME_UNIT) : 0;
}

static void
drop_record(struct fixture *f, uint32_t record)
{
	if (f->records)
		soma__slab_give(&f->blocks, record, SOMA__NAME_UNIT);
}

/* ---- the map ---- */

static uint32_t
run_end(const struct fixture *f, uint32_t from)
{
	while (f->gap[from])
		from++;
	return from;
}

static uint32_t
run_begin(const struct fixture *f, uint32_t unit)
{
	while (unit > 0 && f->gap[unit - 1])
		unit--;
	return unit;
}

static uint32_t
next_run(const struct fixture *f, uint32_t from)
{
	const bool *found = memchr(f->gap + from, true, f->units - from);

	return found != NULL ? (uint32_t)(found - f->gap) : f->units;
}

/* The lowest run of so many units; f->units if there is none. */
static uint32_t
lowest_run(const struct fixture *f, uint32_t count)
{
	uint32_t begin = next_run(f, 0), end;

	for (; begin < f->units; begin = next_run(f, end)) {
		end = run_end(f, begin);
		if (end - begin >= count)
			return begin;
	}
	return f->units;
}

/* ---- the tree against the map ---- */

struct audit {
	const struct fixture *f;
	uint32_t unit; /* up to which it agrees */
	uint32_t nodes;
};

static void audit_node(struct audit *audit, uint32_t name, uint32_t level, uint64_t from, uint64_t to);

static void
audit_gap(struct audit *audit, const struct soma__firstfit_node *leaf, uint32_t name, uint32_t slot)
{
	const struct fixture *f = audit->f;
	struct soma__spot spot = { .node = name, .slot = slot };
	uint32_t begin = next_run(f, audit->unit), end = run_end(f, begin);

	EXPECT(begin < f->units);
	EXPECT(soma__firstfit_address(&f->gaps, spot) == address_of(f, begin));
	EXPECT(soma__firstfit_granules(&f->gaps, spot) == (end - begin) * f->unit);
	EXPECT(leaf->below[slot] == f->record[begin]);
	if (f->records)
		EXPECT(block_at(f, f->record[begin])->node == name);
	audit->unit = end;
}

static void
audit_child(struct audit *audit, const struct soma__firstfit_node *node, uint32_t name, uint32_t slot,
	    uint32_t level, uint64_t from, uint64_t to)
{
	const struct soma__firstfit_node *child = soma__firstfit_at(&audit->f->gaps, node->below[slot]);

	EXPECT(child->parent == name);
	EXPECT(child->slot == slot);
	EXPECT(child->bound == node->most[slot]);
	if (slot > 0)
		from = node->place[slot];
	if (slot + 1 < node->count)
		to = node->place[slot + 1];
	audit_node(audit, node->below[slot], level - 1, from, to);
}

/* What is below begins in [from, to). */
static void
audit_node(struct audit *audit, uint32_t name, uint32_t level, uint64_t from, uint64_t to)
{
	const struct soma__firstfit_node *node = soma__firstfit_at(&audit->f->gaps, name);
	uint32_t most = 0;

	audit->nodes++;
	EXPECT(node->count >= 1);
	EXPECT(node->count <= SOMA__FIRSTFIT_WIDTH);
	for (uint32_t slot = 0; slot < node->count; slot++) {
		most = node->most[slot] > most ? node->most[slot] : most;
		if (level > 0) {
			audit_child(audit, node, name, slot, level, from, to);
			continue;
		}
		EXPECT(node->place[slot] >= from && node->place[slot] < to);
		audit_gap(audit, node, name, slot);
	}
	for (uint32_t slot = node->count; slot < SOMA__FIRSTFIT_WIDTH; slot++) {
		EXPECT(node->most[slot] == 0);
		EXPECT(node->below[slot] == 0);
		EXPECT(node->place[slot] == UINT64_MAX);
	}
	EXPECT(node->bound == most);
}

static void
audit(const struct fixture *f)
{
	const struct soma__firstfit *gaps = &f->gaps;
	struct audit audit = { .f = f };

	if (gaps->root != 0) {
		EXPECT(soma__firstfit_at(gaps, gaps->root)->parent == 0);
		EXPECT(gaps->height == 0 || soma__firstfit_at(gaps, gaps->root)->count > 1);
		audit_node(&audit, gaps->root, gaps->height, 0, UINT64_MAX);
	}
	EXPECT(next_run(f, audit.unit) == f->units);
	/* No node is lost; the first of the slab is none. */
	EXPECT(gaps->nodes.fresh - gaps->nodes.free_count == (audit.nodes + (gaps->nodes.fresh != 0)));
}

/* ---- operations on both ---- */

static struct soma__spot
spot_at(const struct fixture *f, uint32_t begin)
{
	struct soma__spot spot = soma__firstfit_beside(&f->gaps, address_of(f, begin), false);

	EXPECT(spot.node != 0);
	EXPECT(soma__firstfit_address(&f->gaps, spot) == address_of(f, begin));
	if (f->records) {
		struct soma__spot of = soma__firstfit_of(&f->gaps, block_at(f, f->record[begin])->node,
							 address_of(f, begin));

		EXPECT(of.node == spot.node && of.slot == spot.slot);
	}
	return spot;
}

static void
forget(struct fixture *f, uint32_t begin)
{
	soma__firstfit_remove(&f->gaps, spot_at(f, begin));
	drop_record(f, f->record[begin]);
	f->record[begin] = 0;
}

/* Units [from, to) become a gap, or part of what is beside them. */
static void
give(struct fixture *f, uint32_t from, uint32_t to)
{
	uint32_t begin = run_begin(f, from), end;
	bool before = begin != from, behind = f->gap[to];

	EXPECT(soma__firstfit_reserve(&f->gaps, f->arena, 1));
	for (uint32_t unit = from; unit < to; unit++)
		f->gap[unit] = true;
	end = run_end(f, begin);
	if (before && behind)
		forget(f, to);
	if (before) {
		soma__firstfit_extend(&f->gaps, spot_at(f, begin), address_of(f, begin),
				      (end - begin) * f->unit);
	} else if (behind) {
		soma__firstfit_extend(&f->gaps, spot_at(f, to), address_of(f, begin),
				      (end - begin) * f->unit);
		f->record[begin] = f->record[to];
		f->record[to] = 0;
	} else {
		f->record[begin] = new_record(f);
		soma__firstfit_insert(&f->gaps, address_of(f, begin), (end - begin) * f->unit,
				      f->record[begin]);
	}
}

/* What lies around a unit that is in no gap. */
static void
look_around(const struct fixture *f, uint32_t unit)
{
	struct soma__spot before = soma__firstfit_beside(&f->gaps, address_of(f, unit), false);
	struct soma__spot behind = soma__firstfit_beside(&f->gaps, address_of(f, unit), true);
	uint32_t next = next_run(f, unit), last = unit;

	while (last > 0 && !f->gap[last])
		last--;
	EXPECT((before.node != 0) == f->gap[last]);
	if (f->gap[last])
		EXPECT(soma__firstfit_address(&f->gaps, before) == address_of(f, run_begin(f, last)));
	EXPECT((behind.node != 0) == (next < f->units));
	if (next < f->units)
		EXPECT(soma__firstfit_address(&f->gaps, behind) == address_of(f, next));
}

static void
give_some(struct fixture *f, uint32_t most)
{
	uint32_t from = random_below(f, f->units), to = from, end = from + 1 + random_below(f, most);

	if (f->gap[from])
		return;
	look_around(f, from);
	while (to < f->units && to < end && !f->gap[to])
		to++;
	give(f, from, to);
}

/* The front of the lowest gap that holds so many units. */
static void
take(struct fixture *f, uint32_t count)
{
	uint64_t granules = count * f->unit - random_below(f, f->unit < 3 ? (uint32_t)f->unit : 3);
	struct soma__spot spot = soma__firstfit_lowest(&f->gaps, granules);
	uint32_t begin = lowest_run(f, count), end;

	EXPECT((spot.node != 0) == (begin < f->units));
	if (begin == f->units)
		return;
	EXPECT(soma__firstfit_address(&f->gaps, spot) == address_of(f, begin));
	EXPECT(soma__firstfit_record(&f->gaps, spot) == f->record[begin]);
	end = run_end(f, begin);
	if (end - begin == count) {
		forget(f, begin);
	} else {
		soma__firstfit_cut(&f->gaps, spot, count * f->unit);
		f->record[begin + count] = f->record[begin];
		f->record[begin] = 0;
	}
	memset(f->gap + begin, 0, count);
}

static void
forget_some(struct fixture *f)
{
	uint32_t begin = next_run(f, random_below(f, f->units));

	if (begin == f->units)
		return;
	begin = run_begin(f, begin);
	forget(f, begin);
	memset(f->gap + begin, 0, run_end(f, begin) - begin);
}

/* Steps of which so many of 8 give; of the others, few forget instead of taking. */
static void
walk(struct fixture *f, uint32_t steps, uint32_t giving, uint32_t most, uint32_t audit_every)
{
	for (uint32_t step = 1; step <= steps; step++) {
		if (random_below(f, 8) < giving)
			give_some(f, most);
		else if (random_below(f, 8) == 0)
			forget_some(f);
		else
			take(f, 1 + random_below(f, most));
		if (step % audit_every == 0)
			audit(f);
	}
	audit(f);
}

static void
compare(uint32_t units, uint64_t unit, bool records, uint32_t steps, uint32_t audit_every)
{
	struct fixture f;

	set_up(&f, units, unit, records);
	for (uint32_t round = 0; round < 3; round++) {
		walk(&f, steps, 7, 2, audit_every);
		walk(&f, steps, 4, 4, audit_every);
		walk(&f, steps, 1, 3, audit_every);
		walk(&f, steps, 5, 50, audit_every);
	}
	while (lowest_run(&f, 1) != f.units)
		take(&f, 1);
	audit(&f);
	EXPECT(f.gaps.root == 0);
	tear_down(&f);
}

/* ---- tests ---- */

START_TEST(few_gaps_are_as_the_map_has_them)
{
	for (uint32_t units = 3; units < 100; units += 7)
		compare(units, 1, units % 2 != 0, 500, 1);
}
END_TEST

START_TEST(many_gaps_are_as_the_map_has_them)
{
	compare(3000, 1, true, 5000, 50);
	compare(3000, 3, false, 5000, 50);
	compare(60000, 1, true, 40000, 4000);
}
END_TEST

START_TEST(sizes_that_are_no_word_are_told_apart)
{
	compare(500, ((uint64_t)1 << 28) + 1, true, 2000, 20);
	compare(300, ((uint64_t)1 << 30) + 1, false, 2000, 20);
	compare(300, ((uint64_t)1 << 30) - 1, true, 2000, 20);
	compare(700, SOMA__GAP_COARSE / 4 + 11, false, 2000, 20);
}
END_TEST

/* Gaps come at one end and go at the other: nodes that lose all they have must not stay. */
START_TEST(nodes_do_not_pile_up_behind_a_window)
{
	struct fixture f;
	uint32_t most = 0;

	set_up(&f, 60000, 1, true);
	for (uint32_t unit = 0; unit < f.units; unit += 2) {
		give(&f, unit, unit + 1);
		if (unit >= 4000)
			take(&f, 1);
		if (f.gaps.nodes.fresh > most)
			most = f.gaps.nodes.fresh;
		if (unit % 1000 == 0)
			audit(&f);
	}
	ck_assert_uint_le(most, 2000 / 8);
	tear_down(&f);
}
END_TEST

/* Every leaf is full, as it is when each gap of it got one behind it. */
static void
fill(struct fixture *f)
{
	for (uint32_t pass = 0; pass < 8; pass += 4)
		for (uint32_t unit = pass; unit < f->units; unit += 8)
			give(f, unit, unit + 1);
	audit(f);
}

/* Not so few that slabs, which grow by more than is asked for, would hide it. */
START_TEST(insertions_take_no_more_nodes_than_is_said)
{
	static const uint32_t counts[] = { 1, 2, 31, 500, 10000 };
	struct fixture f;

	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		uint32_t nodes, limit, stride;

		set_up(&f, 80000, 1, true);
		fill(&f);
		nodes = f.gaps.nodes.fresh;
		limit = soma__firstfit_nodes(&f.gaps, counts[i]);
		ck_assert(soma__firstfit_reserve(&f.gaps, f.arena, counts[i]));
		ck_assert_uint_ge(soma__slab_spare(&f.gaps.nodes), limit);
		stride = f.units / counts[i] / 8 * 8;
		for (uint32_t n = 0; n < counts[i]; n++) {
			uint32_t unit = n * stride + 2;

			f.gap[unit] = true;
			f.record[unit] = new_record(&f);
			soma__firstfit_insert(&f.gaps, address_of(&f, unit), 1, f.record[unit]);
		}
		ck_assert_uint_le(f.gaps.nodes.fresh - nodes, limit);
		ck_assert_uint_gt(f.gaps.nodes.fresh, nodes);
		audit(&f);
		tear_down(&f);
	}
}
END_TEST

START_TEST(a_reservation_that_fails_changes_nothing)
{
	struct fixture f;
	uint32_t gaps = 0;

	set_up(&f, 20000, 1, true);
	for (uint32_t unit = 0; unit < f.units; unit += 2) {
		while (soma__slab_spare(&f.gaps.nodes) < 3 * (f.gaps.height + 3)) {
			soma__arena_fail_nth(1);
			ck_assert(!soma__firstfit_reserve(&f.gaps, f.arena, 3));
			audit(&f);
			ck_assert(soma__firstfit_reserve(&f.gaps, f.arena, 3));
			gaps++;
		}
		give(&f, unit, unit + 1);
	}
	ck_assert_uint_ge(gaps, 3);
	audit(&f);
	tear_down(&f);
}
END_TEST

UNIT_MAIN("firstfit", few_gaps_are_as_the_map_has_them, many_gaps_are_as_the_map_has_them,
	  sizes_that_are_no_word_are_told_apart, nodes_do_not_pile_up_behind_a_window,
	  insertions_take_no_more_nodes_than_is_said, a_reservation_that_fails_changes_nothing)

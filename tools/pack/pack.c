/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for a low packing: several orders, each placed by first and by best fit; then
 * the best one is pressed under lower and lower limits by ejection.  First with what has one lifetime
 * kept together, and then, where that was not good, with all that excludes.
 */
#include "tools/pack/pack.h"

#include <stdlib.h>
#include <string.h>

#include "tools/pack/eject.h"
#include "tools/pack/orders.h"
#include "tools/pack/place.h"
#include "tools/pack/reduce.h"
#include "tools/xalloc.h"

/* One way of ejecting is tried for this long: many short tries find more than a long one.  Every
 * third begins with nothing placed, so that the search is not caught near one packing. */
#define STEPS_A_TRY ((uint64_t)30 * 1000 * 1000)
#define FRESH_EVERY 3

/* Within this part of the bound it is good enough; and within the other one once a third of the
 * steps is used. */
#define GOOD_ENOUGH 1000
#define GOOD_ENOUGH_LATER 100

/* Of the steps, how many are for groups; and what their packing is above the bound for the rest to
 * be of use. */
#define STEPS_OF_GROUPS(steps) ((steps) / 4 * 3)
#define POOR 30

struct search {
	struct reduced reduced;
	struct placer placer;
	struct pack_result *result; /* bound and height are of the reduced */
	uint64_t steps, steps_max;
	_Atomic uint64_t *spent; /* may be NULL */
	uint64_t spent_before;   /* in searches before this one */
};

static void
note_steps(struct search *search, uint64_t steps)
{
	search->steps = steps;
	if (search->spent != NULL)
		*search->spent = search->spent_before + steps;
}

static void
keep(struct search *search, uint64_t height, const uint64_t *offsets, const char *how)
{
	search->result->packed = true;
	search->result->height = height;
	search->result->order = how;
	for (size_t i = 0; i < search->reduced.count; i++)
		search->reduced.items[i].offset = offsets[i];
}

static bool
is_done(const struct search *search)
{
	const struct pack_result *result = search->result;
	uint64_t whole = result->bound + search->reduced.base;
	uint64_t part = search->steps > search->steps_max / 3 ? GOOD_ENOUGH_LATER : GOOD_ENOUGH;

	return search->steps > search->steps_max ||
	       (result->packed && result->height - result->bound <= whole / part);
}

static void
try_order(struct search *search, const struct pack_order *order, const uint32_t *indices)
{
	const struct reduced *reduced = &search->reduced;

	search->placer.by_start = order->by_start;
	for (unsigned fit = 0; fit < 2 && !is_done(search); fit++) {
		uint64_t limit = search->result->packed ? search->result->height - 1 : UINT64_MAX - 1, height;

		search->placer.best_fit = fit == 1;
		search->result->tried++;
		height = placer_run(&search->placer, reduced->items, indices, reduced->count, limit);
		note_steps(search, search->placer.steps);
		if (height != UINT64_MAX)
			keep(search, height, search->placer.offsets, order->name);
	}
}

static void
try_orders(struct search *search)
{
	uint32_t *indices = xcalloc(search->reduced.count, sizeof *indices);
	struct profile profile;

	placer_init(&search->placer, search->reduced.count, search->steps_max);
	profile_init(&profile, search->reduced.items, search->reduced.count);
	for (size_t o = 0; o < PACK_ORDERS && !is_done(search); o++) {
		pack_sort(search->reduced.items, search->reduced.count, &profile, &pack_orders[o], indices);
		try_order(search, &pack_orders[o], indices);
	}
	profile_fini(&profile);
	placer_fini(&search->placer);
	free(indices);
}

static uint64_t
height_of(const struct reduced *reduced, const uint64_t *offsets)
{
	uint64_t height = 0;

	for (size_t i = 0; i < reduced->count; i++)
		if (offsets[i] + reduced->items[i].size > height)
			height = offsets[i] + reduced->items[i].size;
	return height;
}

static void
try_way(struct search *search, struct eject *eject, unsigned way, uint64_t *offsets)
{
	struct pack_result *result = search->result;
	uint64_t end = search->steps + STEPS_A_TRY, steps = search->steps;

	if (end > search->steps_max)
		end = search->steps_max;
	while (!is_done(search)) {
		uint64_t limit = result->height - 1 - (result->height - 1 - result->bound) / 30;
		bool found;

		result->tried++;
		found = eject_run(eject, way, limit, offsets, &steps, end);
		note_steps(search, steps);
		if (!found)
			return;
		keep(search, height_of(&search->reduced, offsets), offsets, "by ejection");
	}
}

static void
press(struct search *search)
{
	struct eject *eject = eject_create(search->reduced.items, search->reduced.count);
	uint64_t *offsets = xcalloc(search->reduced.count, sizeof *offsets);

	for (unsigned way = 0; eject != NULL && !is_done(search); way++) {
		bool fresh = way % FRESH_EVERY == FRESH_EVERY - 1;

		for (size_t i = 0; i < search->reduced.count; i++)
			offsets[i] = fresh ? EJECT_NOWHERE : search->reduced.items[i].offset;
		try_way(search, eject, way, offsets);
	}
	free(offsets);
	eject_destroy(eject);
}

static bool
is_too_large(const struct pack_item *items, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		if (__builtin_add_overflow(sum, items[i].size, &sum) || sum > INT64_MAX)
			return true;
	return count > UINT32_MAX / 4;
}

static void
run(struct search *search)
{
	struct pack_result *result = search->result;

	result->bound = pack_bound(search->reduced.items, search->reduced.count);
	if (search->reduced.count == 0) {
		result->packed = true;
		result->order = "all at once";
	} else {
		try_orders(search);
	}
	if (result->packed && !is_done(search))
		press(search);
	result->bound += search->reduced.base;
	result->height += search->reduced.base;
	result->steps = search->steps;
}

/* Into the items' offsets, if it is lower than what *best has. */
static void
run_once(struct pack_item *items, size_t count, uint64_t steps, bool groups, _Atomic uint64_t *spent,
	 struct pack_result *best)
{
	struct pack_result result = { .order = "" };
	struct search search = {
		.result = &result, .steps_max = steps, .spent = spent, .spent_before = best->steps
	};

	reduced_init(&search.reduced, items, count, groups);
	run(&search);
	result.tried += best->tried;
	result.steps += best->steps;
	if (result.packed && (!best->packed || result.height < best->height)) {
		reduced_expand(&search.reduced, items, count);
		*best = result;
	}
	best->bound = result.bound;
	best->tried = result.tried;
	best->steps = result.steps;
	reduced_fini(&search.reduced);
}

void
pack_run(struct pack_item *items, size_t count, uint64_t steps, _Atomic uint64_t *spent,
	 struct pack_result *result)
{
	*result = (struct pack_result){ .order = "" };
	if (is_too_large(items, count))
		return;
	run_once(items, count, STEPS_OF_GROUPS(steps), true, spent, result);
	if (result->packed && result->height - result->bound <= result->bound / POOR)
		return;
	run_once(items, count, steps - STEPS_OF_GROUPS(steps), false, spent, result);
}

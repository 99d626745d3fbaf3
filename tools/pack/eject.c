/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guided ejection.  Every item has a weight, which grows each time that it finds no free
 * place: what is hard to place is ejected less and less.  Places looked at are those that
 * touch an item above or below, or an end of the room; the one that ejects the least
 * weight is taken, and of free ones the tightest.
 *
 * Weights are in 1024ths, so that sums are exact.
 */
#include "tools/pack/eject.h"

#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

#define PAIRS_MAX ((size_t)8 << 20)
#define NOWHERE EJECT_NOWHERE
#define WEIGHT_ONE 1024.0

static const struct way {
	double share;       /* of its size or area in an item's first weight, beside 1 */
	double growth;      /* of a weight, in ones or, where relative, in first weights */
	bool area;          /* size x neighbours instead of size */
	bool relative;
	bool largest_first; /* of those that wait; else any */
} ways[EJECT_WAYS] = {
	{ 1, 0.2, true, true, false }, { 1, 1, true, false, false },   { 3, 1, false, false, false },
	{ 1, 0.02, false, true, false }, { 1, 0.2, false, false, false }, { 1, 1, false, false, true },
};

/* An end of a placed neighbour, with the weights of this and all lower ones. */
struct edge {
	uint64_t at, weights;
};

struct eject {
	const struct pack_item *items;
	size_t count;
	size_t *first;              /* of the item's neighbours in the lists; one more at the end */
	uint32_t *by_start, *by_end; /* in the order they were in last: nearly sorted */
	uint64_t *offsets;          /* NOWHERE: waits in the queue */
	uint64_t *weights, *growths;
	uint32_t *queue;
	size_t waiting;
	struct edge *starts, *ends;
	const struct way *way;
	uint64_t limit, random, steps;
};

static bool
meet(const struct pack_item *a, const struct pack_item *b)
{
	return a->lower < b->upper && b->lower < a->upper;
}

static bool
find_pairs(struct eject *eject)
{
	const struct pack_item *items = eject->items;
	size_t n = 0, room = 0;

	for (size_t i = 0; i < eject->count; i++) {
		eject->first[i] = n;
		for (size_t j = 0; j < eject->count; j++) {
			if (i == j || !meet(&items[i], &items[j]))
				continue;
			if (n == PAIRS_MAX)
				return false;
			eject->by_start = xgrow(eject->by_start, &room, n, sizeof *eject->by_start);
			eject->by_start[n++] = (uint32_t)j;
		}
	}
	eject->first[eject->count] = n;
	eject->by_end = xcalloc(n, sizeof *eject->by_end);
	if (n > 0)
		memcpy(eject->by_end, eject->by_start, n * sizeof *eject->by_end);
	return true;
}

struct eject *
eject_create(const struct pack_item *items, size_t count)
{
	struct eject *eject;

	if (count > PAIRS_MAX / 256)
		return NULL;
	eject = xcalloc(1, sizeof *eject);
	*eject = (struct eject){ .items = items, .count = count, .random = 88172645463325252U };
	eject->first = xcalloc(count + 1, sizeof *eject->first);
	eject->offsets = xcalloc(count, sizeof *eject->offsets);
	eject->weights = xcalloc(count, sizeof *eject->weights);
	eject->growths = xcalloc(count, sizeof *eject->growths);
	eject->queue = xcalloc(count, sizeof *eject->queue);
	eject->starts = xcalloc(count + 1, sizeof *eject->starts);
	eject->ends = xcalloc(count + 1, sizeof *eject->ends);
	if (find_pairs(eject))
		return eject;
	eject_destroy(eject);
	return NULL;
}

void
eject_destroy(struct eject *eject)
{
	if (eject == NULL)
		return;
	free(eject->first);
	free(eject->by_start);
	free(eject->by_end);
	free(eject->offsets);
	free(eject->weights);
	free(eject->growths);
	free(eject->queue);
	free(eject->starts);
	free(eject->ends);
	free(eject);
}

static uint64_t
random_next(struct eject *eject)
{
	eject->random ^= eject->random << 13;
	eject->random ^= eject->random >> 7;
	eject->random ^= eject->random << 17;
	return eject->random;
}

static uint64_t
end_of(const struct eject *eject, uint32_t item)
{
	return eject->offsets[item] != NOWHERE ? eject->offsets[item] + eject->items[item].size : NOWHERE;
}

/* The placed neighbours by their starts or ends.  The list is put into order, too: the
 * next time little will have changed. */
static size_t
gather(struct eject *eject, uint32_t item, uint32_t *list, bool ends, struct edge *edges)
{
	size_t first = eject->first[item], count = eject->first[item + 1] - first, n = 0;
	uint64_t sum = 0;

	list += first;
	for (size_t i = 0; i < count; i++) {
		uint32_t other = list[i];
		uint64_t at = ends ? end_of(eject, other) : eject->offsets[other];
		size_t j = i;

		for (; j > 0 && edges[j - 1].at > at; j--) {
			edges[j] = edges[j - 1];
			list[j] = list[j - 1];
		}
		eject->steps += i - j;
		edges[j].at = at;
		list[j] = other;
	}
	for (; n < count && edges[n].at != NOWHERE; n++)
		edges[n].weights = sum += eject->weights[list[n]];
	eject->steps += 3 * count;
	return n;
}

struct choice {
	uint64_t cost;  /* the weights that it ejects */
	uint64_t slack; /* the room that is left beside it */
	uint64_t offset;
	unsigned ties;
};

/*
 * The offset, with `below` neighbours that end at or below it, and `above` the index of
 * the first that starts at its end or above.
 */
static void
consider(struct eject *eject, uint64_t offset, uint64_t size, size_t below, size_t above, size_t near,
	 struct choice *best)
{
	uint64_t started = above > 0 ? eject->starts[above - 1].weights : 0;
	uint64_t ended = below > 0 ? eject->ends[below - 1].weights : 0, cost = started - ended;
	uint64_t ceiling = above < near ? eject->starts[above].at : eject->limit;
	uint64_t floor = below > 0 ? eject->ends[below - 1].at : 0;
	uint64_t slack = ceiling - (offset + size) + (offset - floor);

	if (cost > best->cost || (cost == best->cost && slack > best->slack))
		return;
	if (cost == best->cost && slack == best->slack) {
		if (random_next(eject) % ++best->ties != 0)
			return;
	} else {
		best->ties = 1;
	}
	best->cost = cost;
	best->slack = slack;
	best->offset = offset;
}

static struct choice
choose(struct eject *eject, size_t near, uint64_t size)
{
	struct choice best = { .cost = UINT64_MAX, .slack = UINT64_MAX };
	size_t below = 0, above = 0;

	/* On the floor, and on each end. */
	for (size_t i = 0; i <= near; i++) {
		uint64_t offset = i > 0 ? eject->ends[i - 1].at : 0;

		if (offset > eject->limit - size)
			break;
		while (below < near && eject->ends[below].at <= offset)
			below++;
		while (above < near && eject->starts[above].at < offset + size)
			above++;
		consider(eject, offset, size, below, above, near, &best);
	}
	/* Under each start, and under the limit. */
	below = above = 0;
	for (size_t i = 0; i <= near; i++) {
		uint64_t end = i < near ? eject->starts[i].at : eject->limit;

		if (end < size)
			continue;
		while (below < near && eject->ends[below].at <= end - size)
			below++;
		while (above < near && eject->starts[above].at < end)
			above++;
		consider(eject, end - size, size, below, above, near, &best);
	}
	eject->steps += 6 * near + 6;
	return best;
}

static void
wait_for_place(struct eject *eject, uint32_t item)
{
	eject->offsets[item] = NOWHERE;
	eject->queue[eject->waiting++] = item;
}

static uint32_t
take_waiting(struct eject *eject)
{
	size_t index = random_next(eject) % eject->waiting;
	uint32_t item;

	for (size_t i = 0; eject->way->largest_first && i < eject->waiting; i++)
		if (eject->items[eject->queue[i]].size > eject->items[eject->queue[index]].size)
			index = i;
	item = eject->queue[index];
	eject->queue[index] = eject->queue[--eject->waiting];
	return item;
}

static void
place(struct eject *eject, uint32_t item)
{
	uint64_t size = eject->items[item].size;
	size_t near = gather(eject, item, eject->by_start, false, eject->starts);
	struct choice choice;

	gather(eject, item, eject->by_end, true, eject->ends);
	choice = choose(eject, near, size);
	eject->offsets[item] = choice.offset;
	if (choice.cost == 0)
		return;
	eject->weights[item] += eject->growths[item];
	for (size_t p = eject->first[item]; p < eject->first[item + 1]; p++) {
		uint32_t other = eject->by_start[p];

		if (eject->offsets[other] < choice.offset + size && choice.offset < end_of(eject, other))
			wait_for_place(eject, other);
	}
}

static double
merit_of(const struct eject *eject, size_t item)
{
	double size = (double)eject->items[item].size;

	return eject->way->area ? size * (double)(eject->first[item + 1] - eject->first[item]) : size;
}

static void
begin(struct eject *eject, uint64_t limit, const uint64_t *offsets)
{
	const struct way *way = eject->way;
	double sum = 0;

	eject->limit = limit;
	eject->waiting = 0;
	for (size_t i = 0; i < eject->count; i++)
		sum += merit_of(eject, i) + 1e-9;
	for (size_t i = 0; i < eject->count; i++) {
		double weight = 1 + way->share * merit_of(eject, i) * (double)eject->count / sum;

		eject->weights[i] = (uint64_t)(weight * WEIGHT_ONE);
		eject->growths[i] = 1 + (uint64_t)(way->growth * (way->relative ? weight : 1) * WEIGHT_ONE);
		eject->offsets[i] = offsets[i];
	}
	for (size_t i = 0; i < eject->count; i++)
		if (offsets[i] > limit - eject->items[i].size)
			wait_for_place(eject, (uint32_t)i);
}

bool
eject_run(struct eject *eject, unsigned way, uint64_t limit, uint64_t *offsets, uint64_t *steps,
	  uint64_t steps_max)
{
	for (size_t i = 0; i < eject->count; i++)
		if (eject->items[i].size > limit)
			return false;
	eject->way = &ways[way % EJECT_WAYS];
	eject->steps = *steps;
	begin(eject, limit, offsets);
	while (eject->waiting > 0 && eject->steps <= steps_max)
		place(eject, take_waiting(eject));
	*steps = eject->steps;
	if (eject->waiting > 0)
		return false;
	memcpy(offsets, eject->offsets, eject->count * sizeof *offsets);
	return true;
}

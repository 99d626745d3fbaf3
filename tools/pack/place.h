/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placing items one after the other, in a given order.
 */
#ifndef SOMA_TOOLS_PACK_PLACE_H
#define SOMA_TOOLS_PACK_PLACE_H

#include "tools/pack/pack.h"

/* What is placed, by ascending offset. */
struct placed {
	uint64_t offset, end;
	uint64_t lower, upper;
};

struct placer {
	struct placed *at; /* `room` of them */
	size_t count;
	uint64_t *offsets; /* of the items, by their index */
	bool best_fit;     /* the smallest gap that holds it, else the lowest */
	bool by_start;     /* the order is by `lower`: what has ended is forgotten */
	uint64_t steps, steps_max;
};

void placer_init(struct placer *placer, size_t count, uint64_t steps_max);
void placer_fini(struct placer *placer);

/*
 * Places all items in the order (of indices).  UINT64_MAX when the height would pass
 * `limit`, or the steps are used up; else the height, and the offsets are set.
 */
uint64_t placer_run(struct placer *placer, const struct pack_item *items, const uint32_t *order, size_t count,
		    uint64_t limit);

#endif

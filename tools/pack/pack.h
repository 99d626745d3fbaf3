/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offline packing: every block's lifetime and size is known beforehand, and each gets an
 * address so that no two that live at the same time overlap.  The least height is a hard
 * problem; this gives a good one, and the bound that no packing can be below.
 *
 * Deterministic: what limits the search is a count of steps, not a clock.  Knows nothing of
 * traces; one thread.
 */
#ifndef SOMA_TOOLS_PACK_PACK_H
#define SOMA_TOOLS_PACK_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack_item {
	uint64_t lower, upper; /* it lives in [lower, upper); upper is greater */
	uint64_t size;         /* not 0 */
	uint64_t offset;       /* the answer */
};

/* Steps that take about three seconds. */
#define PACK_STEPS_DEFAULT ((uint64_t)3000 * 1000 * 1000)

struct pack_result {
	uint64_t bound;  /* the largest sum of sizes that live at once */
	uint64_t height; /* of the packing in the items' offsets; not below the bound */
	bool packed;     /* false: more items than the steps allow to place even once */
	const char *order; /* what the best packing was made by, for people */
	uint64_t tried;  /* packings */
	uint64_t steps;
};

/* Sizes that add up to 2^63 or more are not packed.  spent, which may be NULL, has the steps so far while it
 * runs, for other threads. */
void pack_run(struct pack_item *items, size_t count, uint64_t steps, _Atomic uint64_t *spent,
	      struct pack_result *result);

/* The bound alone. */
uint64_t pack_bound(const struct pack_item *items, size_t count);

/*
 * The check of a packing, which shares nothing with making it: no two items that live at
 * the same time overlap, and none reaches above the height.  On failure *a and *b are the
 * indices of the two (or of one, twice).
 */
bool pack_check(const struct pack_item *items, size_t count, uint64_t height, size_t *a, size_t *b);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders in which items are placed, and what they look at.
 */
#ifndef SOMA_TOOLS_PACK_ORDERS_H
#define SOMA_TOOLS_PACK_ORDERS_H

#include "tools/pack/pack.h"

/* Sums of live sizes, by time: loads[i] holds from times[i] on. */
struct profile {
	uint64_t *times, *loads;
	size_t count;
	unsigned levels;
	uint64_t **highest; /* [level][i]: of loads[i .. i + 2^level) */
};

void profile_init(struct profile *profile, const struct pack_item *items, size_t count);
void profile_fini(struct profile *profile);

struct pack_order {
	const char *name;
	double (*key)(const struct pack_item *item, double load); /* the larger first */
	bool by_start;
};

#define PACK_ORDERS 6

extern const struct pack_order pack_orders[PACK_ORDERS];

void pack_sort(const struct pack_item *items, size_t count, const struct profile *profile,
	       const struct pack_order *order, uint32_t *indices);

#endif

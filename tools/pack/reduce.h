/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A smaller instance with the same bound, whose packings are packings of the whole.
 */
#ifndef SOMA_TOOLS_PACK_REDUCE_H
#define SOMA_TOOLS_PACK_REDUCE_H

#include "tools/pack/pack.h"

struct reduced {
	struct pack_item *items;
	size_t count;
	uint64_t base;  /* what lies below all of these: items that meet every other */
	uint32_t *into; /* by the whole's index: this one's, or count + its place in the base */
	uint64_t *bases; /* of those in the base, by place */
};

void reduced_init(struct reduced *reduced, const struct pack_item *items, size_t count);
void reduced_fini(struct reduced *reduced);

/* Gives the whole the offsets of the reduced one. */
void reduced_expand(const struct reduced *reduced, struct pack_item *items, size_t count);

#endif

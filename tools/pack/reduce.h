/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A smaller instance with the same bound, whose packings are packings of the whole: boxes of
 * items that keep together.
 */
#ifndef SOMA_TOOLS_PACK_REDUCE_H
#define SOMA_TOOLS_PACK_REDUCE_H

#include "tools/pack/pack.h"

struct reduced {
	struct pack_item *items; /* the boxes */
	size_t count;
	uint64_t base;    /* what lies below all of these: items that meet every other */
	uint32_t *into;   /* by the whole's index: the box, or REDUCED_BASE */
	uint64_t *within; /* its offset in the box or in the base */
};

#define REDUCED_BASE UINT32_MAX

/* groups: items of one lifetime are one box, too.  That makes hard instances easier, and excludes
 * some packings. */
void reduced_init(struct reduced *reduced, const struct pack_item *items, size_t count, bool groups);
void reduced_fini(struct reduced *reduced);

/* Gives the whole the offsets of its boxes. */
void reduced_expand(const struct reduced *reduced, struct pack_item *items, size_t count);

#endif

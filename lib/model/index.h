/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shelf: the index over free blocks that one kind of allocation may take.
 *
 * `good`: 64 linear classes per doubling of the size, each in 16 address regions, all
 * of them lists with the block put there last in front; bitmaps find the first class,
 * and in it the lowest region, that has a block: no step depends on how many blocks
 * there are.  `best`: the same classes, each an ordered tree by (size, address).
 *
 * Sizes and addresses are in granules, relative to nothing.  The shelf names blocks by
 * their free nodes (state.h), of which it uses the two list links and the place.
 * Memory is taken by soma__shelf_reserve() alone.
 */
#ifndef SOMA_LIB_MODEL_INDEX_H
#define SOMA_LIB_MODEL_INDEX_H

#include <soma/model.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/model/slab.h"
#include "lib/model/tree.h"

#define SOMA__CLASSES_PER_GROUP 64
#define SOMA__REGIONS 16
/* Groups for sizes up to 2^40 granules: one of the exact sizes below 64 and one for
 * each doubling from there on. */
#define SOMA__GROUPS 36

struct soma__bins { /* one group of `good` */
	uint64_t classes; /* those that have a block */
	uint16_t regions[SOMA__CLASSES_PER_GROUP];
	uint32_t head[SOMA__CLASSES_PER_GROUP][SOMA__REGIONS];
};

struct soma__trees { /* one group of `best` */
	uint64_t classes;
	uint32_t root[SOMA__CLASSES_PER_GROUP];
};

struct soma__shelf {
	uint64_t groups;      /* those that have a block */
	uint64_t promised;    /* granules on it or on their way to it: see soma__shelf_reserve() */
	uint32_t group_count; /* groups that have memory */
	bool best;
	union {
		struct soma__bins *bins[SOMA__GROUPS];
		struct soma__trees *trees[SOMA__GROUPS];
	};
};

/* What a shelf works on: the slabs of its model. */
struct soma__index {
	struct soma__arena *arena;
	struct soma__slab nodes; /* struct soma__node */
	struct soma__slab trees; /* struct soma__tree_node */
	uint64_t base;           /* granule from which regions count */
	unsigned region_shift;
};

static inline unsigned
soma__class_floor(uint64_t granules)
{
	unsigned shift;

	if (granules < SOMA__CLASSES_PER_GROUP)
		return (unsigned)granules;
	shift = 63U - (unsigned)__builtin_clzll(granules) - 6U;
	return SOMA__CLASSES_PER_GROUP * (shift + 1) + ((unsigned)(granules >> shift) & 63U);
}

/* The lowest class of which every block holds `granules`. */
static inline unsigned
soma__class_ceiling(uint64_t granules)
{
	unsigned shift;

	if (granules < SOMA__CLASSES_PER_GROUP)
		return (unsigned)granules;
	shift = 63U - (unsigned)__builtin_clzll(granules) - 6U;
	return soma__class_floor(granules + ((uint64_t)1 << shift) - 1);
}

/* Makes room for blocks of up to `granules`.  False without memory. */
bool soma__shelf_reserve(struct soma__index *index, struct soma__shelf *shelf, uint64_t granules);

void soma__shelf_put(struct soma__index *index, struct soma__shelf *shelf, uint32_t node, uint64_t address,
		     uint64_t granules);

/* address and granules are those that it was put with. */
void soma__shelf_remove(struct soma__index *index, struct soma__shelf *shelf, uint32_t node, uint64_t address,
			uint64_t granules);

/* The node of the block to use for a request; 0 if there is none. */
uint32_t soma__shelf_find(const struct soma__index *index, const struct soma__shelf *shelf, uint64_t granules);

/* The last in the shelf's order (the largest): what a release takes first. */
uint32_t soma__shelf_last(const struct soma__index *index, const struct soma__shelf *shelf);

#endif

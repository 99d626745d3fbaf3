/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shelf: the index over free blocks that one kind of allocation may take.
 *
 * `good`: 64 linear classes per doubling of the size, each in 8 address regions, all
 * of them lists with the block put there last in front; bitmaps find the first class,
 * and in it the lowest region, that has a block: no step depends on how many blocks
 * there are.  The rest of the block that was split last, the open one, is in no list until
 * another block is split or put into its class: the next request often takes it out again,
 * and what was taken from it often comes back, as on a stack.  `best`: the same classes,
 * each an ordered tree by (size, address).
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

#include "lib/model/block.h"
#include "lib/model/slab.h"
#include "lib/model/tree.h"

enum soma__node_state {
	SOMA__NODE_COMPLETE, /* on its home shelf */
	SOMA__NODE_PENDING,  /* on the own shelf of the stream that freed it */
	SOMA__NODE_PARKED,   /* pending, on no shelf */
};

/* 48 bits count the operations of a stream for half a year at 50 ns each. */
#define SOMA__POSITION_MAX (((uint64_t)1 << 48) - 4)

/* What only free blocks need; 32 bytes. */
struct soma__node {
	uint32_t shelf_previous, shelf_next; /* the list of a class and region */
	uint32_t older, newer;               /* pending: its stream's frees by position */
	uint32_t block;
	/* The state and the shelf in one word, so that one comparison tells whether two
	 * blocks may join.  COMPLETE: its home shelf; else the freeing stream's own. */
	uint32_t tag;
	uint64_t position : 48; /* pending: of the latest free */
	uint64_t place : 16;    /* on a shelf of `good`: class and region */
};

static inline uint32_t
soma__tag(enum soma__node_state state, uint32_t shelf)
{
	return shelf << 2 | state;
}

static inline enum soma__node_state
soma__node_state(const struct soma__node *node)
{
	return (enum soma__node_state)(node->tag & 3);
}

static inline uint32_t
soma__node_shelf(const struct soma__node *node)
{
	return node->tag >> 2;
}

#define SOMA__CLASSES_PER_GROUP 64
#define SOMA__REGIONS 8
#define SOMA__LISTS (SOMA__CLASSES_PER_GROUP * SOMA__REGIONS) /* of a group */
/* Groups for sizes up to 2^40 granules: one of the exact sizes below 64 and one for
 * each doubling from there on. */
#define SOMA__GROUPS 36
#define SOMA__NO_PLACE UINT16_MAX

struct soma__bins {       /* one group of `good` */
	uint64_t classes; /* those that have a block */
	uint8_t regions[SOMA__CLASSES_PER_GROUP];
	uint32_t latest[SOMA__CLASSES_PER_GROUP]; /* put last; it may be gone */
	uint32_t head[SOMA__LISTS];
};

struct soma__trees { /* one group of `best` */
	uint64_t classes;
	uint32_t root[SOMA__CLASSES_PER_GROUP];
};

struct soma__shelf {
	uint64_t groups;      /* those that have a block */
	uint32_t group_count; /* groups that have memory */
	uint32_t tag;         /* of the nodes that are on it */
	/* `good`: the open block's node, or 0; its place while it is in no list, or 0 (no place is 0). */
	uint32_t open;
	uint32_t open_place;
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

static inline struct soma__node *
soma__node_at(const struct soma__index *index, uint32_t node)
{
	return soma__slab_at(&index->nodes, node, SOMA__NAME_UNIT);
}

static inline uint32_t
soma__node_take(struct soma__index *index)
{
	return soma__slab_take(&index->nodes, sizeof(struct soma__node), SOMA__NAME_UNIT);
}

static inline void
soma__node_give(struct soma__index *index, uint32_t node)
{
	soma__slab_give(&index->nodes, node, SOMA__NAME_UNIT);
}

/* How far sizes are rounded in the class of this one: 0 below 128 granules. */
static inline unsigned
soma__class_shift(uint64_t granules)
{
	return 63U - (unsigned)__builtin_clzll(granules | SOMA__CLASSES_PER_GROUP) - 6U;
}

/* HACKING, "Shelf order", without its case distinction: sizes are random, and so a
 * branch on them is one that no processor predicts. */
static inline unsigned
soma__class_floor(uint64_t granules)
{
	unsigned shift = soma__class_shift(granules);

	return SOMA__CLASSES_PER_GROUP * shift + (unsigned)(granules >> shift);
}

/* The lowest class of which every block holds `granules`.  (Where rounding up comes to the next
 * power of two, its class is the same by either shift.) */
static inline unsigned
soma__class_ceiling(uint64_t granules)
{
	unsigned shift = soma__class_shift(granules);

	return SOMA__CLASSES_PER_GROUP * shift + (unsigned)((granules + ((uint64_t)1 << shift) - 1) >> shift);
}

/* Makes room for blocks of up to `granules`.  False without memory. */
bool soma__shelf_reserve(struct soma__index *index, struct soma__shelf *shelf, uint64_t granules);

/* Smaller blocks have their room. */
static inline uint64_t
soma__shelf_limit(const struct soma__shelf *shelf)
{
	return shelf->group_count != 0 ? (uint64_t)SOMA__CLASSES_PER_GROUP << (shelf->group_count - 1) : 0;
}

static inline unsigned
soma__region(const struct soma__index *index, uint64_t address)
{
	uint64_t region;

	if (address < index->base)
		return 0;
	region = (address - index->base) >> index->region_shift;
	return region < SOMA__REGIONS ? (unsigned)region : SOMA__REGIONS - 1;
}

static inline unsigned
soma__place(const struct soma__index *index, uint64_t address, uint64_t granules)
{
	return soma__class_floor(granules) * SOMA__REGIONS + soma__region(index, address);
}

/* The node is the one put last into the class of its place. */
static HOT void
soma__bins_note(struct soma__index *index, struct soma__shelf *shelf, uint32_t name, unsigned place)
{
	shelf->bins[place / SOMA__LISTS]->latest[place % SOMA__LISTS / SOMA__REGIONS] = name;
	soma__node_at(index, name)->place = (uint16_t)place;
}

/* Puts it into its list. */
static HOT void
soma__bins_link(struct soma__index *index, struct soma__shelf *shelf, uint32_t name, unsigned place)
{
	unsigned group = place / SOMA__LISTS, list = place % SOMA__LISTS;
	unsigned slot = list / SOMA__REGIONS, region = list % SOMA__REGIONS;
	struct soma__bins *bins = shelf->bins[group];
	struct soma__node *node = soma__node_at(index, name);
	uint32_t next = bins->head[list];

	node->shelf_previous = 0;
	node->shelf_next = next;
	bins->head[list] = name;
	/* Node 0 is nobody's: writing to it costs less than asking. */
	soma__node_at(index, next)->shelf_previous = name;
	bins->regions[slot] |= (uint8_t)(1U << region);
	bins->classes |= (uint64_t)1 << slot;
	shelf->groups |= (uint64_t)1 << group;
}

/* What is in no list yet is put into its own: nothing that anybody can see. */
static HOT void
soma__bins_settle(struct soma__index *index, struct soma__shelf *shelf)
{
	if (shelf->open_place != 0)
		soma__bins_link(index, shelf, shelf->open, shelf->open_place);
	shelf->open_place = 0;
}

static HOT void
soma__bins_put(struct soma__index *index, struct soma__shelf *shelf, uint32_t name, uint64_t address,
	       uint64_t granules)
{
	unsigned place = soma__place(index, address, granules);

	/* What was put into the class before has to be behind this one. */
	if (__builtin_expect(place / SOMA__REGIONS == shelf->open_place / SOMA__REGIONS, 0))
		soma__bins_settle(index, shelf);
	soma__bins_note(index, shelf, name, place);
	soma__bins_link(index, shelf, name, place);
}

/* Is this the open block, and in no list? */
static HOT bool
soma__shelf_has_aside(const struct soma__shelf *shelf, uint32_t name)
{
	return shelf->open_place != 0 && shelf->open == name;
}

/* The open block, in no list, has this place and size now. */
static HOT void
soma__bins_move(struct soma__index *index, struct soma__shelf *shelf, uint64_t address, uint64_t granules)
{
	unsigned place = soma__place(index, address, granules);

	shelf->open_place = place;
	soma__bins_note(index, shelf, shelf->open, place);
}

/* The same for the rest of a block that was split: it becomes the open one. */
static HOT void
soma__bins_open(struct soma__index *index, struct soma__shelf *shelf, uint32_t name, uint64_t address,
		uint64_t granules)
{
	soma__bins_settle(index, shelf);
	shelf->open = name;
	soma__bins_move(index, shelf, address, granules);
}

static HOT void
soma__bins_remove(struct soma__index *index, struct soma__shelf *shelf, uint32_t name)
{
	struct soma__node *node = soma__node_at(index, name);
	uint32_t previous = node->shelf_previous, next = node->shelf_next;
	unsigned place = node->place, list = place % SOMA__LISTS;
	unsigned group = place / SOMA__LISTS, slot = list / SOMA__REGIONS, region = list % SOMA__REGIONS;
	struct soma__bins *bins = shelf->bins[group];

	node->place = SOMA__NO_PLACE;
	soma__node_at(index, next)->shelf_previous = previous;
	if (previous != 0) {
		soma__node_at(index, previous)->shelf_next = next;
		return;
	}
	bins->head[list] = next;
	/* Whether a list is empty now is as good as random: clear the bits without asking. */
	bins->regions[slot] &= (uint8_t) ~((unsigned)(next == 0) << region);
	bins->classes &= ~((uint64_t)(bins->regions[slot] == 0) << slot);
	shelf->groups &= ~((uint64_t)(bins->classes == 0) << group);
}

/* Takes out the open block. */
static HOT void
soma__bins_close(struct soma__index *index, struct soma__shelf *shelf)
{
	if (shelf->open_place == 0)
		soma__bins_remove(index, shelf, shelf->open);
	soma__node_at(index, shelf->open)->place = SOMA__NO_PLACE;
	shelf->open = shelf->open_place = 0;
}

/* Bits of `bits` from position `from` (0 to 64) on. */
static inline uint64_t
soma__bits_from(uint64_t bits, unsigned from)
{
	return from < 64 ? bits & (~(uint64_t)0 << from) : 0;
}

/*
 * Where a request's own class, rounding down, is not the one in which every block holds it:
 * the block put there last, which is the one that was freed last if it is of this size; 0
 * if there is none.  The caller has to look whether it is large enough.
 */
static inline uint32_t
soma__bins_latest(const struct soma__index *index, const struct soma__shelf *shelf, uint64_t granules)
{
	unsigned class = soma__class_floor(granules), group = class / SOMA__CLASSES_PER_GROUP;
	const struct soma__node *node;
	uint32_t name;

	if (class == soma__class_ceiling(granules) || group >= shelf->group_count)
		return 0;
	name = shelf->bins[group]->latest[class % SOMA__CLASSES_PER_GROUP];
	node = soma__node_at(index, name);
	/* Unless it went, and its node may serve another block. */
	return node->place / SOMA__REGIONS == class && node->tag == shelf->tag ? name : 0;
}

/* The first in the lists from the class on, and its place; 0 if there is none. */
static HOT uint32_t
soma__bins_first(const struct soma__shelf *shelf, unsigned class, unsigned *place)
{
	unsigned group = class / SOMA__CLASSES_PER_GROUP, slot, list;
	const struct soma__bins *bins;
	uint64_t classes = 0;

	if (group < shelf->group_count)
		classes = shelf->bins[group]->classes & (~(uint64_t)0 << class % SOMA__CLASSES_PER_GROUP);
	if (classes == 0) {
		uint64_t groups = soma__bits_from(shelf->groups, group + 1);

		if (groups == 0)
			return 0;
		group = (unsigned)__builtin_ctzll(groups);
		classes = shelf->bins[group]->classes;
	}
	bins = shelf->bins[group];
	slot = (unsigned)__builtin_ctzll(classes);
	list = slot * SOMA__REGIONS + (unsigned)__builtin_ctz(bins->regions[slot]);
	*place = group * SOMA__LISTS + list;
	return bins->head[list];
}

static HOT uint32_t
soma__bins_find(const struct soma__shelf *shelf, uint64_t granules)
{
	unsigned class = soma__class_ceiling(granules), place = UINT32_MAX;
	uint32_t name = soma__bins_first(shelf, class, &place);

	/* The open block, if it is in a class from that one on: it was put there last. */
	return shelf->open_place - class * SOMA__REGIONS <= place - class * SOMA__REGIONS ? shelf->open : name;
}

void soma__trees_put(struct soma__index *index, struct soma__shelf *shelf, uint32_t node, uint64_t address,
		     uint64_t granules);
void soma__trees_remove(struct soma__index *index, struct soma__shelf *shelf, uint64_t address,
			uint64_t granules);
uint32_t soma__trees_find(const struct soma__index *index, const struct soma__shelf *shelf,
			  uint64_t granules);

static inline void
soma__shelf_put(struct soma__index *index, struct soma__shelf *shelf, uint32_t node, uint64_t address,
		uint64_t granules)
{
	if (shelf->best)
		soma__trees_put(index, shelf, node, address, granules);
	else
		soma__bins_put(index, shelf, node, address, granules);
}

/* The rest of a block that was split. */
static inline void
soma__shelf_open(struct soma__index *index, struct soma__shelf *shelf, uint32_t node, uint64_t address,
		 uint64_t granules)
{
	if (shelf->best)
		soma__trees_put(index, shelf, node, address, granules);
	else
		soma__bins_open(index, shelf, node, address, granules);
}

/* Whoever goes through the lists himself calls this before; NULL is a shelf with nothing on it. */
static inline void
soma__shelf_settle(struct soma__index *index, struct soma__shelf *shelf)
{
	if (shelf != NULL && !shelf->best)
		soma__bins_settle(index, shelf);
}

/* address and granules are those that it was put with. */
static inline void
soma__shelf_remove(struct soma__index *index, struct soma__shelf *shelf, uint32_t node, uint64_t address,
		   uint64_t granules)
{
	if (shelf->best)
		soma__trees_remove(index, shelf, address, granules);
	else if (__builtin_expect(node == shelf->open, 0))
		soma__bins_close(index, shelf);
	else
		soma__bins_remove(index, shelf, node);
}

/* The last in the shelf's order (the largest): what a release takes first. */
uint32_t soma__shelf_last(struct soma__index *index, struct soma__shelf *shelf);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First fit: gaps in address order, of which the lowest that is large enough is found in one
 * descent.
 *
 * A tree of wide nodes.  A leaf has the sizes of its gaps side by side, and a node above it the
 * largest one below each child: so one look at a node, a few instructions without a
 * branch, finds where to go on.  A gap that is cut, or joined with what lies beside it, stays
 * where it is, and its record knows the leaf: so nothing is searched for to change it.
 *
 * Gaps neither overlap nor touch.  Addresses and sizes are granules.  Nothing fails after
 * soma__firstfit_reserve().
 */
#ifndef SOMA_LIB_MODEL_FIRSTFIT_H
#define SOMA_LIB_MODEL_FIRSTFIT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/arena/arena.h"
#include "lib/model/block.h"
#include "lib/model/slab.h"
#include "lib/model/words.h"

#define SOMA__FIRSTFIT_WIDTH SOMA__WORDS
#define SOMA__FIRSTFIT_UNIT 64 /* of their names */

/* Nine cache lines.  Of a leaf: the gaps by address; above: the children. */
struct __attribute__((aligned(64))) soma__firstfit_node {
	uint32_t most[SOMA__FIRSTFIT_WIDTH];  /* how large (soma__gap_size); 0: nothing here */
	uint32_t below[SOMA__FIRSTFIT_WIDTH]; /* a gap's record, or the child; 0 behind the last */
	/* Where it begins, and above what size leaves out; of a child, what its gaps do not
	 * begin before and those of the children before it do.  All ones behind the last.  The first is never
	 * asked for. */
	uint64_t place[SOMA__FIRSTFIT_WIDTH];
	uint32_t parent, slot; /* 0: the root */
	uint32_t count;
	uint32_t bound; /* the most of all: what the parent has for this node */
};

struct soma__firstfit {
	struct soma__slab nodes;
	struct soma__slab *blocks; /* of the records */
	uint32_t root;             /* 0: no gaps */
	uint32_t height;           /* levels above the leaves */
};

/* One gap; node 0: none. */
struct soma__spot {
	uint32_t node, slot;
};

/* `blocks`: the slab of what a gap's record is, if it has one; its `node` is kept. */
void soma__firstfit_init(struct soma__firstfit *gaps, struct soma__slab *blocks);

/* How many nodes so many insertions take at most. */
uint32_t soma__firstfit_nodes(const struct soma__firstfit *gaps, uint32_t count);

/* Makes sure that so many gaps can be inserted.  False without memory. */
bool soma__firstfit_reserve(struct soma__firstfit *gaps, struct soma__arena *arena, uint32_t count);

/* A new gap; record 0: it has none. */
void soma__firstfit_insert(struct soma__firstfit *gaps, uint64_t address, uint64_t granules, uint32_t record);
void soma__firstfit_remove(struct soma__firstfit *gaps, struct soma__spot spot);

/* The gap becomes larger in front, behind or both. */
void soma__firstfit_extend(struct soma__firstfit *gaps, struct soma__spot spot, uint64_t address,
			   uint64_t granules);

/* The front of a gap is taken, and something is left. */
void soma__firstfit_cut(struct soma__firstfit *gaps, struct soma__spot spot, uint64_t granules);

/* The lowest gap of at least `granules`, which are not 0. */
struct soma__spot soma__firstfit_lowest(const struct soma__firstfit *gaps, uint64_t granules);

/* The gap that begins at this address, in the leaf that its record knows. */
struct soma__spot soma__firstfit_of(const struct soma__firstfit *gaps, uint32_t node, uint64_t address);

/* The last gap that begins at this address or before it; `behind`: the first that begins behind it. */
struct soma__spot soma__firstfit_beside(const struct soma__firstfit *gaps, uint64_t address, bool behind);

/* ---- what a spot says ---- */

/*
 * A size's word.  From SOMA__GAP_COARSE on the lower bits of the size are left out, and stand
 * below the address in `place`.
 */
#define SOMA__GAP_COARSE ((uint32_t)1 << 30)
#define SOMA__GAP_REST_BITS 11

static inline uint32_t
soma__gap_size(uint64_t granules)
{
	if (__builtin_expect(granules >= SOMA__GAP_COARSE, 0))
		return SOMA__WORD_MIN + SOMA__GAP_COARSE + (uint32_t)(granules >> SOMA__GAP_REST_BITS);
	return SOMA__WORD_MIN + (uint32_t)granules;
}

static inline uint64_t
soma__gap_place(uint64_t address, uint64_t granules)
{
	uint64_t rest = granules & (((uint64_t)1 << SOMA__GAP_REST_BITS) - 1);

	return address << SOMA__GAP_REST_BITS | (granules >= SOMA__GAP_COARSE ? rest : 0);
}

static inline struct soma__firstfit_node *
soma__firstfit_at(const struct soma__firstfit *gaps, uint32_t node)
{
	return soma__slab_at(&gaps->nodes, node, SOMA__FIRSTFIT_UNIT);
}

static inline uint64_t
soma__firstfit_address(const struct soma__firstfit *gaps, struct soma__spot spot)
{
	return soma__firstfit_at(gaps, spot.node)->place[spot.slot] >> SOMA__GAP_REST_BITS;
}

static inline uint64_t
soma__firstfit_granules(const struct soma__firstfit *gaps, struct soma__spot spot)
{
	const struct soma__firstfit_node *leaf = soma__firstfit_at(gaps, spot.node);
	uint32_t size = leaf->most[spot.slot] - SOMA__WORD_MIN;

	if (__builtin_expect(size < SOMA__GAP_COARSE, 1))
		return size;
	return (uint64_t)(size - SOMA__GAP_COARSE) << SOMA__GAP_REST_BITS |
	       (leaf->place[spot.slot] & (((uint64_t)1 << SOMA__GAP_REST_BITS) - 1));
}

static inline uint32_t
soma__firstfit_record(const struct soma__firstfit *gaps, struct soma__spot spot)
{
	return soma__firstfit_at(gaps, spot.node)->below[spot.slot];
}

#endif

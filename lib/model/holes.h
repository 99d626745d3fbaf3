/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holes of mapped ranges: page-aligned parts without memory, as blocks of their range.
 *
 * What may be placed at a hole is what fits its reach: the complete free block before it,
 * if there is one, the hole, and the complete free block behind it.  Two trees a range
 * find, of all holes whose reach is large enough, the one with the fewest pages and the one with
 * the most whole pages free before it; between equals, the smallest reach, then the
 * lowest address.  One of the two needs the fewest pages mapped, or one page more.
 *
 * Free blocks beside a hole are marked, so that whoever changes one knows without
 * looking at its neighbours.  Nothing here fails: each hole takes two tree nodes, which
 * must have been reserved.
 */
#ifndef SOMA_LIB_MODEL_HOLES_H
#define SOMA_LIB_MODEL_HOLES_H

#include "lib/model/state.h"

/* Marks of a complete free block, in its node's `position`, which needs it for nothing else. */
enum soma__beside {
	SOMA__BESIDE_HOLE_BEFORE = 1,
	SOMA__BESIDE_HOLE_BEHIND = 2,
};

/* What is around a hole; granules. */
struct soma__reach {
	uint32_t front, back; /* the complete free blocks; 0: none */
	uint64_t start, hole, hole_end, end;
};

static inline bool
soma__is_hole(const struct soma_model *model, uint32_t block)
{
	return block != 0 && soma__block_kind(soma__block_at(model, block)) == SOMA__BLOCK_HOLE;
}

static inline bool
soma__is_complete(const struct soma_model *model, uint32_t name)
{
	return soma__is_free(model, name) &&
	       soma__node_state(soma__node_at(&model->index, soma__block_at(model, name)->node)) ==
		       SOMA__NODE_COMPLETE;
}

struct soma__reach soma__hole_reach(const struct soma_model *model, uint32_t hole);

/* A hole beside this block went; the block may be none, or not complete. */
static inline void
soma__hole_unmark(struct soma_model *model, uint32_t block, enum soma__beside beside)
{
	if (soma__is_complete(model, block))
		soma__node_at(&model->index, soma__block_at(model, block)->node)->position &=
			~(uint64_t)beside;
}

/* A block of no account becomes a hole, and the opposite. */
void soma__hole_add(struct soma_model *model, uint32_t block);
void soma__hole_remove(struct soma_model *model, uint32_t hole);

/* The hole, or what is beside it, changed. */
void soma__hole_refresh(struct soma_model *model, uint32_t hole);

/* The hole with the fewest pages, or with the most whole pages before it, whose reach
 * holds this much; 0 if none does. */
uint32_t soma__hole_smallest(const struct soma_model *model, unsigned pool, uint64_t granules);
uint32_t soma__hole_behind_most(const struct soma_model *model, unsigned pool, uint64_t granules);

#endif

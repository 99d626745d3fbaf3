/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOMA_SEGMENTS_MAPPED: an address range for each size pool, whose pages have memory only
 * where blocks are, or were.  HACKING, "Growing, mapped", has the rules.
 *
 * A range is a segment that grows at its end, in whole pages.  A block in it lies on mapped
 * pages; what has none is a hole (holes.h).  Here is what every complete free block of
 * such a range goes through in place of keep.h's functions: filing and taking also see
 * to the holes beside it and to the account of pages that could be stolen.
 * Pending blocks are nothing special.
 */
#ifndef SOMA_LIB_MODEL_MAPPED_H
#define SOMA_LIB_MODEL_MAPPED_H

#include "lib/model/holes.h"
#include "lib/model/keep.h"
#include "lib/model/segments.h"

/* Reserves the ranges; part of creating a model. */
enum soma_status soma__mapped_create(struct soma_model *model);

/* Unmaps everything and gives the ranges back to the source; nothing without one. */
void soma__mapped_destroy(struct soma_model *model);

enum soma__growth soma__mapped_grow(struct soma_model *model, struct soma__stream *stream, unsigned pool,
				    uint64_t granules, uint32_t *block);

bool soma__mapped_reserve_growth(struct soma_model *model, unsigned pool, uint64_t granules);

/* Records for unmapping this many pages. */
bool soma__mapped_reserve_release(struct soma_model *model, uint64_t pages);

/* Unmaps free pages down to `keep` bytes; true if anything went. */
bool soma__mapped_release(struct soma_model *model, uint64_t keep);

/* The twins of soma__block_complete() and soma__block_unshelve(). */
void soma__mapped_complete(struct soma_model *model, uint32_t block);
void soma__mapped_unshelve(struct soma_model *model, uint32_t block);

static inline uint64_t
soma__page_bytes(const struct soma_model *model)
{
	return soma__bytes(model, (uint64_t)1 << model->mapped.page_shift);
}

/* The whole pages within [address, end). */
static inline uint64_t
soma__whole_pages(const struct soma_model *model, uint64_t address, uint64_t end)
{
	unsigned shift = model->mapped.page_shift;
	uint64_t first = (address + ((uint64_t)1 << shift) - 1) >> shift, last = end >> shift;

	return last > first ? last - first : 0;
}

/* A complete neighbour joins: it leaves its place.  Tells which holes it was beside. */
static HOT unsigned
soma__mapped_absorb(struct soma_model *model, const struct soma__keep *keep, uint32_t neighbour,
		    uint64_t address, uint64_t end)
{
	const struct soma__block *block = soma__block_at(model, neighbour);
	unsigned beside = (unsigned)soma__node_at(&model->index, block->node)->position;

	model->mapped.idle_pages -= soma__whole_pages(model, address, end);
	soma__keep_out(model, keep, block, address, end);
	soma__keep_drop(model, keep, block->node);
	return beside;
}

/* Files a block whose node it has as a complete one: soma__keep_file(). */
static HOT void
soma__mapped_file(struct soma_model *model, uint32_t name, uint32_t node_name)
{
	const struct soma__block *block = soma__block_at(model, name);
	unsigned pool = soma__segment_at(model, soma__block_segment(block))->pool, beside = 0;
	const struct soma__keep keep = { .shelf = model->shared[pool], .state = SOMA__NODE_COMPLETE };
	const uint32_t tag = soma__tag(SOMA__NODE_COMPLETE, pool);
	uint64_t address = soma__block_address(block), end = soma__block_end(model, block);
	uint32_t previous = block->previous, next = block->next;

	if (soma__keep_joins(model, tag, 0, previous)) {
		uint64_t start = soma__block_address(soma__block_at(model, previous));

		beside = soma__mapped_absorb(model, &keep, previous, start, address) &
			 SOMA__BESIDE_HOLE_BEFORE;
		soma__block_erase(model, name);
		name = previous;
		address = start;
	} else if (soma__is_hole(model, previous)) {
		beside = SOMA__BESIDE_HOLE_BEFORE;
	}
	if (soma__keep_joins(model, tag, 0, next)) {
		uint64_t back_end = soma__sized_end(model, soma__block_at(model, next));

		beside |= soma__mapped_absorb(model, &keep, next, end, back_end) & SOMA__BESIDE_HOLE_BEHIND;
		soma__block_erase(model, next);
		end = back_end;
	} else if (soma__is_hole(model, next)) {
		beside |= SOMA__BESIDE_HOLE_BEHIND;
	}
	soma__node_at(&model->index, node_name)->tag = tag;
	soma__node_at(&model->index, node_name)->position = beside;
	model->mapped.idle_pages += soma__whole_pages(model, address, end);
	soma__keep_in(model, &keep, name, node_name, address, end, false);
	if (beside & SOMA__BESIDE_HOLE_BEFORE)
		soma__hole_refresh(model, soma__block_at(model, name)->previous);
	if (beside & SOMA__BESIDE_HOLE_BEHIND)
		soma__hole_refresh(model, soma__block_at(model, name)->next);
}

/* `name` was taken from the front of a complete block that was beside holes; what is left
 * of it, if anything, has the node. */
void soma__mapped_taken(struct soma_model *model, uint32_t name, uint32_t node_name, unsigned beside);

/* Takes from the front of a complete free block: soma__keep_take(). */
static HOT uint32_t
soma__mapped_take(struct soma_model *model, unsigned pool, uint32_t node_name, uint64_t granules)
{
	const struct soma__keep keep = { .shelf = model->shared[pool], .state = SOMA__NODE_COMPLETE };
	const struct soma__node *node = soma__node_at(&model->index, node_name);
	const struct soma__block *block = soma__block_at(model, node->block);
	uint64_t address = soma__block_address(block), end = soma__sized_end(model, block);
	unsigned beside = (unsigned)node->position;
	uint32_t name = soma__keep_take(model, &keep, pool, node_name, granules);

	model->mapped.idle_pages -=
		soma__whole_pages(model, address, end) -
		soma__whole_pages(model, soma__block_end(model, soma__block_at(model, name)), end);
	if (__builtin_expect(beside != 0, 0))
		soma__mapped_taken(model, name, node_name, beside);
	return name;
}

#endif

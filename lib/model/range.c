/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The range: one segment that grows at its end, and whose released parts are hole blocks.
 * What can fail for want of records is reserved before anything changes.  Not
 * thread-safe, like the model.
 */
#include "lib/model/range.h"

#include "lib/model/blocks.h"
#include "lib/model/holes.h"
#include "lib/model/keep.h"
#include "lib/model/reserve.h"
#include "lib/model/space.h"

bool
soma__range_create(struct soma_model *model)
{
	struct soma__segment *segment;

	if (!soma__slab_reserve(&model->segment_slab, model->arena, 1) || !soma__shelf_make(model, 0, 1))
		return false;
	model->range = soma__slab_take(&model->segment_slab, sizeof(struct soma__segment),
				       sizeof(struct soma__segment));
	segment = soma__segment_at(model, model->range);
	*segment = (struct soma__segment){ .address = model->index.base, .end = model->index.base };
	return true;
}

/* The hole of this block. */
static struct soma__spot
hole_of(const struct soma_model *model, uint32_t name)
{
	const struct soma__block *block = soma__block_at(model, name);

	return soma__firstfit_of(&model->holes, block->node, soma__block_address(block));
}

static HOT uint32_t
take_hole(struct soma_model *model, struct soma__spot hole, uint64_t granules)
{
	struct soma__firstfit *holes = &model->holes;
	uint32_t name = soma__firstfit_record(holes, hole);

	__builtin_prefetch(soma__block_at(model, name), 1);
	soma__lookup_fetch(&model->lookup, soma__firstfit_address(holes, hole));
	if (soma__firstfit_granules(holes, hole) > granules) {
		soma__firstfit_cut(holes, hole, granules);
		name = soma__block_cut_front(model, name, granules);
	} else {
		soma__firstfit_remove(holes, hole);
		soma__block_set_kind(soma__block_at(model, name), SOMA__BLOCK_LIVE);
	}
	soma__reserve_add(model, granules);
	model->stats.active += soma__bytes(model, granules);
	return name;
}

uint32_t
soma__range_take_hole(struct soma_model *model, uint64_t granules)
{
	struct soma__spot hole = soma__firstfit_lowest(&model->holes, granules);

	if (hole.node == 0 || soma__reserve_exceeds(model, granules))
		return 0;
	model->stats.segments_acquired++;
	return take_hole(model, hole, granules);
}

/* The free block before the end that the stream may use, if it is smaller than wanted. */
static uint32_t
usable_last(const struct soma_model *model, const struct soma__stream *stream, uint64_t granules)
{
	uint32_t last = soma__segment_at(model, model->range)->last;
	const struct soma__block *block = soma__block_at(model, last);
	const struct soma__node *node;

	if (last == 0 || soma__block_kind(block) != SOMA__BLOCK_FREE ||
	    soma__block_granules(model, block) >= granules)
		return 0;
	node = soma__node_at(&model->index, block->node);
	if (soma__node_state(node) == SOMA__NODE_COMPLETE ||
	    node->tag == soma__tag(SOMA__NODE_PENDING, soma__own_shelf(model, soma__stream_slot(stream), 0)))
		return last;
	return 0;
}

static enum soma__growth
grow_at_end(struct soma_model *model, struct soma__stream *stream, uint64_t granules, uint32_t *block)
{
	struct soma__segment *range = soma__segment_at(model, model->range);
	uint32_t last = usable_last(model, stream, granules);
	uint64_t missing = granules, active = granules;

	if (last != 0)
		missing -= soma__block_granules(model, soma__block_at(model, last));
	if (soma__reserve_refuses(model, missing) || missing > SOMA__ADDRESS_END(model) - range->end)
		return SOMA__GROWTH_REFUSED;
	if (!soma__shelf_make(model, 0, range->end + missing - range->address))
		return SOMA__GROWTH_NO_RECORDS;
	if (last != 0) {
		const struct soma__node *node =
			soma__node_at(&model->index, soma__block_at(model, last)->node);

		if (soma__node_state(node) == SOMA__NODE_PENDING)
			active = missing;
		soma__block_unshelve(model, last);
		*block = last;
	} else {
		*block = soma__block_insert(model, model->range, range->last, range->end);
	}
	range->end += missing;
	soma__reserve_set_top(model, range->end);
	soma__reserve_add(model, missing);
	model->stats.active += soma__bytes(model, active);
	model->stats.segment_count = 1;
	return SOMA__GROWTH_DONE;
}

/* The last block of the range, and a hole before it, are given up. */
static void
lower_end(struct soma_model *model, uint32_t name)
{
	struct soma__segment *range = soma__segment_at(model, model->range);
	uint32_t previous = soma__block_at(model, name)->previous;

	range->end = soma__block_address(soma__block_at(model, name));
	soma__block_erase(model, name);
	if (soma__is_hole(model, previous)) {
		range->end = soma__block_address(soma__block_at(model, previous));
		soma__firstfit_remove(&model->holes, hole_of(model, previous));
		soma__block_erase(model, previous);
	}
	soma__reserve_set_top(model, range->end);
	if (range->end == range->address)
		model->stats.segment_count = 0;
}

/* A block of no account becomes a hole, or part of those beside it, or the end of the range.  Needs a
 * gap. */
static HOT void
make_hole(struct soma_model *model, uint32_t name)
{
	struct soma__firstfit *holes = &model->holes;
	struct soma__block *block = soma__block_at(model, name), *behind;
	uint32_t previous = block->previous, next = block->next;
	uint64_t address = soma__block_address(block), end;
	struct soma__spot spot;

	if (next == 0) {
		lower_end(model, name);
		return;
	}
	behind = soma__block_at(model, next);
	end = soma__block_address(behind);
	if (soma__is_hole(model, previous)) {
		soma__block_erase(model, name);
		if (soma__block_kind(behind) == SOMA__BLOCK_HOLE) {
			spot = hole_of(model, next);
			end += soma__firstfit_granules(holes, spot);
			soma__firstfit_remove(holes, spot);
			soma__block_erase(model, next);
		}
		spot = hole_of(model, previous);
		address = soma__block_address(soma__block_at(model, previous));
		soma__firstfit_extend(holes, spot, address, end - address);
	} else if (soma__block_kind(behind) == SOMA__BLOCK_HOLE) {
		spot = hole_of(model, next);
		soma__firstfit_extend(holes, spot, address,
				      end - address + soma__firstfit_granules(holes, spot));
		behind->head -= end - address;
		soma__block_erase(model, name);
	} else {
		soma__block_set_kind(block, SOMA__BLOCK_HOLE);
		soma__firstfit_insert(holes, address, end - address, name);
	}
}

bool
soma__range_release(struct soma_model *model, uint64_t keep)
{
	uint64_t excess =
		model->stats.reserved > keep ? (model->stats.reserved - keep) >> model->granule_shift : 0;
	bool released = false;

	while (excess > 0) {
		uint32_t node = soma__shelf_last(&model->index, soma__shelf_at(model, 0));
		uint32_t name, hole;
		uint64_t granules;

		if (node == 0)
			break;
		name = hole = soma__node_at(&model->index, node)->block;
		granules = soma__block_granules(model, soma__block_at(model, name));
		soma__block_unshelve(model, name);
		if (granules > excess) {
			uint64_t end = soma__block_end(model, soma__block_at(model, name));

			hole = soma__block_insert(model, model->range, name, end - excess);
			granules = excess;
		}
		make_hole(model, hole);
		if (hole != name)
			soma__block_complete(model, name);
		excess -= granules;
		model->stats.reserved -= soma__bytes(model, granules);
		model->stats.segments_released++;
		released = true;
	}
	return released;
}

/* ---- completed and released in one ---- */

/* A neighbour whose free is known to have executed, too: it is about to be completed. */
static HOT bool
is_due(const struct soma_model *model, uint32_t name)
{
	const struct soma__block *block = soma__block_at(model, name);
	const struct soma__node *node;

	if (soma__block_kind(block) != SOMA__BLOCK_FREE)
		return false;
	node = soma__node_at(&model->index, block->node);
	return node->position <
	       soma__released(model, model->streams[soma__shelf_slot(model, soma__node_shelf(node))]);
}

/* Blocks that lie beside each other would be one when they are released.  So each counts, but for
 * what it has in common with those that come later. */
static HOT void
release(struct soma_model *model, struct soma__stream *stream, uint32_t node_name)
{
	const struct soma__node *node = soma__node_at(&model->index, node_name);
	uint32_t name = node->block;
	const struct soma__block *block = soma__block_at(model, name);
	uint64_t address = soma__block_address(block), end = soma__sized_end(model, block);

	if (soma__node_state(node) == SOMA__NODE_PARKED && !stream->followed) {
		model->parked--;
	} else {
		const struct soma__keep keep = soma__keep_of(model, node);

		soma__keep_out(model, &keep, block, address, end);
		model->parked -= keep.state == SOMA__NODE_PARKED;
	}
	model->stats.active -= soma__bytes(model, end - address);
	model->stats.reserved -= soma__bytes(model, end - address);
	model->stats.segments_released +=
		(uint64_t)1 - is_due(model, block->previous) - is_due(model, block->next);
	soma__node_give(&model->index, node_name);
	make_hole(model, name);
}

void
soma__range_complete(struct soma_model *model, struct soma__stream *stream)
{
	uint64_t released = soma__released(model, stream);
	uint32_t name = stream->oldest, count = 0;

	if (name == 0)
		return;
	for (; name != 0; count++) {
		const struct soma__node *node = soma__node_at(&model->index, name);
		uint32_t newer = node->newer;

		if (node->position >= released)
			break;
		release(model, stream, name);
		name = newer;
	}
	stream->pending_count -= count;
	model->stats.pending_free_count -= count;
	soma__pending_begin(model, stream, name);
}

enum soma__growth
soma__range_grow(struct soma_model *model, struct soma__stream *stream, uint64_t granules, uint32_t *block)
{
	struct soma__spot hole;

	if (!soma__blocks_reserve(model))
		return SOMA__GROWTH_NO_RECORDS;
	hole = soma__firstfit_lowest(&model->holes, granules);
	if (hole.node == 0)
		return grow_at_end(model, stream, granules, block);
	if (soma__reserve_refuses(model, granules))
		return SOMA__GROWTH_REFUSED;
	*block = take_hole(model, hole, granules);
	return SOMA__GROWTH_DONE;
}

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

static enum soma__growth
grow_into_hole(struct soma_model *model, uint32_t hole, uint64_t granules, uint32_t *block)
{
	uint64_t address = soma__hole_address(model, hole);

	if (soma__reserve_refuses(model, granules))
		return SOMA__GROWTH_REFUSED;
	*block = soma__tree_at(&model->index.trees, hole)->record;
	if (soma__hole_granules(model, hole) > granules) {
		uint32_t rest = soma__block_insert(model, model->range, *block, address + granules);

		soma__block_set_kind(soma__block_at(model, rest), SOMA__BLOCK_HOLE);
		soma__tree_at(&model->index.trees, hole)->record = rest;
	}
	soma__hole_take(model, hole, granules);
	soma__block_set_kind(soma__block_at(model, *block), SOMA__BLOCK_LIVE);
	soma__reserve_add(model, granules);
	model->stats.active += soma__bytes(model, granules);
	return SOMA__GROWTH_DONE;
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
		soma__hole_remove_at(model, range->end);
		soma__block_erase(model, previous);
	}
	soma__reserve_set_top(model, range->end);
	if (range->end == range->address)
		model->stats.segment_count = 0;
}

/* A free block of the range becomes a hole.  Needs one tree node. */
static void
make_hole(struct soma_model *model, uint32_t name)
{
	struct soma__block *block = soma__block_at(model, name);
	uint32_t previous = block->previous, next = block->next;
	uint64_t address = soma__block_address(block);

	if (next == 0) {
		lower_end(model, name);
		return;
	}
	if (soma__is_hole(model, next)) {
		soma__hole_remove_at(model, soma__block_address(soma__block_at(model, next)));
		soma__block_erase(model, next);
	}
	if (!soma__is_hole(model, previous)) {
		soma__block_set_kind(block, SOMA__BLOCK_HOLE);
		soma__hole_put(model, address, soma__block_granules(model, block), name);
		return;
	}
	soma__block_erase(model, name);
	block = soma__block_at(model, previous);
	address = soma__block_address(block);
	soma__hole_change(model, address, address, soma__block_granules(model, block));
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

enum soma__growth
soma__range_grow(struct soma_model *model, struct soma__stream *stream, uint64_t granules, uint32_t *block)
{
	uint32_t hole;

	if (!soma__blocks_reserve(model))
		return SOMA__GROWTH_NO_RECORDS;
	hole = soma__hole_lowest(model, granules);
	if (hole != 0)
		return grow_into_hole(model, hole, granules, block);
	return grow_at_end(model, stream, granules, block);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing and releasing.  What can fail for want of host memory is reserved before
 * anything changes and before a segment source is asked.  Not thread-safe, like the
 * model.
 */
#include "lib/model/segments.h"

#include "lib/base/error.h"
#include "lib/model/blocks.h"
#include "lib/model/clock.h"
#include "lib/model/keep.h"

#define ADDRESS_MAX(model) (SOMA_MODEL_ADDRESS_MAX >> (model)->granule_shift)

static uint64_t
reserved(const struct soma_model *model)
{
	return model->stats.reserved >> model->granule_shift;
}

static void
add_reserved(struct soma_model *model, uint64_t granules)
{
	struct soma_model_stats *stats = &model->stats;

	stats->reserved += soma__bytes(model, granules);
	if (stats->reserved > stats->reserved_high)
		stats->reserved_high = stats->reserved;
}

static bool
exceeds_max(const struct soma_model *model, uint64_t granules)
{
	return granules > model->max || reserved(model) > model->max - granules;
}

/* Regions are an eighth to a sixteenth of the span from the base to the top. */
static void
set_top(struct soma_model *model, uint64_t top)
{
	uint64_t span = top > model->index.base ? top - model->index.base : 1;
	unsigned bits = 63U - (unsigned)__builtin_clzll(span);

	model->top = top;
	model->index.region_shift = bits > 3 ? bits - 3 : 0;
}

/* ---- holes: ordered by address, the value being ~size ---- */

static void
put_hole(struct soma_model *model, uint32_t tree, uint64_t address, uint64_t granules, uint32_t block)
{
	*soma__tree_at(&model->index.trees, tree) = (struct soma__tree_node){
		.record = block, .minor = address, .value = ~granules };
	soma__tree_insert(&model->index.trees, &model->holes, tree);
}

/* Takes the front of the lowest hole of at least `granules`; false if there is none.
 * *rest is 0 where the hole is used up, else what is left of it, *block the hole's. */
static bool
take_hole(struct soma_model *model, uint64_t granules, uint64_t *address, uint64_t *rest, uint32_t *block)
{
	uint32_t tree = soma__tree_at_least_below(&model->index.trees, model->holes, 0, 0, ~granules + 1);
	const struct soma__tree_node *node = soma__tree_at(&model->index.trees, tree);

	if (tree == 0)
		return false;
	*address = node->minor;
	*rest = ~node->value - granules;
	*block = node->record;
	soma__tree_remove(&model->index.trees, &model->holes, 0, *address);
	if (*rest != 0)
		put_hole(model, tree, *address + granules, *rest, *block);
	else
		soma__tree_give(&model->index.trees, tree);
	return true;
}

static bool
has_hole(const struct soma_model *model, uint64_t granules)
{
	return soma__tree_at_least_below(&model->index.trees, model->holes, 0, 0, ~granules + 1) != 0;
}

/* ---- the virtual space of a segmented pool ---- */

static bool
space_has(const struct soma_model *model, uint64_t granules)
{
	return has_hole(model, granules) || granules <= ADDRESS_MAX(model) - model->space_end;
}

static uint64_t
space_take(struct soma_model *model, uint64_t granules)
{
	uint64_t address, rest;
	uint32_t block;

	if (take_hole(model, granules, &address, &rest, &block))
		return address;
	address = model->space_end;
	model->space_end += granules;
	return address;
}

/* Needs one tree node. */
static void
space_give(struct soma_model *model, uint64_t address, uint64_t granules)
{
	struct soma__slab *trees = &model->index.trees;
	uint32_t tree = soma__tree_at_most(trees, model->holes, 0, address);

	if (tree != 0 && soma__tree_at(trees, tree)->minor + ~soma__tree_at(trees, tree)->value == address) {
		granules += ~soma__tree_at(trees, tree)->value;
		address = soma__tree_at(trees, tree)->minor;
		soma__tree_give(trees, soma__tree_remove(trees, &model->holes, 0, address));
	}
	tree = soma__tree_at_least(trees, model->holes, 0, address);
	if (tree != 0 && soma__tree_at(trees, tree)->minor == address + granules) {
		granules += ~soma__tree_at(trees, tree)->value;
		soma__tree_give(trees, soma__tree_remove(trees, &model->holes, 0,
							 soma__tree_at(trees, tree)->minor));
	}
	if (address + granules == model->space_end)
		model->space_end = address;
	else
		put_hole(model, soma__tree_take(trees), address, granules, 0);
}

/* The adopted segment's addresses leave the space; it overlaps no segment.  Needs two
 * tree nodes. */
static void
space_adopt(struct soma_model *model, uint64_t address, uint64_t end)
{
	struct soma__slab *trees = &model->index.trees;
	uint32_t tree;
	uint64_t hole, hole_end;

	if (end <= model->index.base)
		return;
	if (address < model->index.base)
		address = model->index.base;
	if (address >= model->space_end) {
		if (address > model->space_end)
			put_hole(model, soma__tree_take(trees), model->space_end, address - model->space_end, 0);
		model->space_end = end;
		return;
	}
	tree = soma__tree_at_most(trees, model->holes, 0, address);
	hole = soma__tree_at(trees, tree)->minor;
	hole_end = hole + ~soma__tree_at(trees, tree)->value;
	soma__tree_give(trees, soma__tree_remove(trees, &model->holes, 0, hole));
	if (hole < address)
		put_hole(model, soma__tree_take(trees), hole, address - hole, 0);
	if (end < hole_end)
		put_hole(model, soma__tree_take(trees), end, hole_end - end, 0);
}

/* ---- segments ---- */

uint32_t
soma__segment_beginning(const struct soma_model *model, uint64_t address)
{
	uint32_t tree = soma__tree_at_least(&model->index.trees, model->segments, 0, address);

	if (tree == 0 || soma__tree_at(&model->index.trees, tree)->minor != address)
		return 0;
	return soma__tree_at(&model->index.trees, tree)->record;
}

uint32_t
soma__segment_holding(const struct soma_model *model, uint64_t address, uint64_t end)
{
	uint32_t tree = soma__tree_at_most(&model->index.trees, model->segments, 0, address);
	uint32_t segment = model->range;

	if (segment != 0 && address < soma__segment_at(model, segment)->address)
		return 0;
	if (segment == 0 && tree == 0)
		return 0;
	if (segment == 0)
		segment = soma__tree_at(&model->index.trees, tree)->record;
	return end <= soma__segment_at(model, segment)->end ? segment : 0;
}

static bool
overlaps_segment(const struct soma_model *model, uint64_t address, uint64_t end)
{
	uint32_t tree = soma__tree_at_most(&model->index.trees, model->segments, 0, end - 1);

	if (tree == 0)
		return false;
	return soma__segment_at(model, soma__tree_at(&model->index.trees, tree)->record)->end > address;
}

void
soma__segment_set_idle(struct soma_model *model, uint32_t name, bool idle)
{
	struct soma__segment *segment = soma__segment_at(model, name);
	uint64_t granules = segment->end - segment->address;

	if (soma__is_range(model))
		return;
	segment->idle = idle;
	if (!idle) {
		soma__tree_remove(&model->index.trees, &model->idle, granules, segment->address);
		return;
	}
	*soma__tree_at(&model->index.trees, segment->idle_tree) = (struct soma__tree_node){
		.record = name, .major = granules, .minor = segment->address };
	soma__tree_insert(&model->index.trees, &model->idle, segment->idle_tree);
}

static uint32_t
home_shelf(const struct soma_model *model, const struct soma__stream *stream, unsigned pool)
{
	return model->policy.per_stream ? soma__own_shelf(model, soma__stream_slot(stream), pool) : pool;
}

/* Records for one new segment.  They come on top of what operations count on. */
static bool
reserve_segment(struct soma_model *model, uint32_t home, uint64_t granules)
{
	model->headroom = 0;
	return soma__blocks_refill(model) && soma__slab_reserve(&model->segment_slab, model->arena, 1) &&
	       soma__shelf_make(model, home, granules);
}

/* Needs what reserve_segment() reserved. */
static uint32_t
add_segment(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t address,
	    uint64_t granules)
{
	uint32_t name = soma__slab_take(&model->segment_slab, sizeof(struct soma__segment));
	struct soma__segment *segment = soma__segment_at(model, name);

	*segment = (struct soma__segment){
		.home = home_shelf(model, stream, pool),
		.tree = soma__tree_take(&model->index.trees),
		.idle_tree = soma__tree_take(&model->index.trees),
		.pool = pool,
		.stream = stream->id,
		.address = address,
		.end = address + granules,
	};
	*soma__tree_at(&model->index.trees, segment->tree) =
		(struct soma__tree_node){ .record = name, .minor = address };
	soma__tree_insert(&model->index.trees, &model->segments, segment->tree);
	if (model->policy.per_stream)
		stream->segment_count++;
	if (segment->end > model->top)
		set_top(model, segment->end);
	model->stats.segment_count++;
	add_reserved(model, granules);
	soma__block_complete(model, soma__block_insert(model, name, 0, address));
	return name;
}

/* Granules of a new segment for a request; 0 when there can be none. */
static uint64_t
segment_granules(const struct soma_model *model, unsigned pool, uint64_t granules)
{
	const struct soma_policy_pool *row = &model->policy.pools[pool];
	uint64_t bytes = soma__bytes(model, granules), over;

	if (bytes <= row->segment_max)
		return row->segment_size >> model->granule_shift;
	over = bytes % row->segment_step;
	if (over != 0 && bytes > UINT64_MAX - (row->segment_step - over))
		return 0;
	return (over != 0 ? bytes + (row->segment_step - over) : bytes) >> model->granule_shift;
}

static enum soma_status
acquire(struct soma_model *model, const struct soma__stream *stream, uint64_t granules, uint64_t *address)
{
	uint64_t bytes = soma__bytes(model, granules), at;
	enum soma_status status;

	if (!model->has_source) {
		if (!space_has(model, granules))
			return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
		*address = space_take(model, granules);
		return SOMA_STATUS_OK;
	}
	status = model->source.acquire(model->source.context, stream->id, bytes, &at);
	if (status != SOMA_STATUS_OK)
		return soma__error(status, "the segment source refused %" PRIu64 " bytes",
				   (struct soma__error_args){ .arg = { bytes } });
	if (at == 0 || at % model->policy.alignment != 0 || at > SOMA_MODEL_ADDRESS_MAX - bytes ||
	    overlaps_segment(model, at >> model->granule_shift, (at >> model->granule_shift) + granules)) {
		model->source.release(model->source.context, at, bytes);
		return soma__fail(INVALID_VALUE,
				  "the segment source gave 0x%" PRIx64 " for %" PRIu64
				  " bytes, which is misaligned, out of range or overlaps another segment",
				  at, bytes);
	}
	*address = at >> model->granule_shift;
	return SOMA_STATUS_OK;
}

static enum soma__growth
grow_segment(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules,
	     uint32_t *block)
{
	uint64_t size = segment_granules(model, pool, granules), address = 0;
	uint32_t first;

	if (size == 0 || exceeds_max(model, size))
		return SOMA__GROWTH_REFUSED;
	if (!reserve_segment(model, home_shelf(model, stream, pool), size))
		return SOMA__GROWTH_NO_RECORDS;
	model->refusal = acquire(model, stream, size, &address);
	if (model->refusal != SOMA_STATUS_OK)
		return SOMA__GROWTH_REFUSED;
	first = soma__segment_at(model, add_segment(model, stream, pool, address, size))->first;
	*block = soma__block_take(model, soma__block_at(model, first)->node, granules);
	return SOMA__GROWTH_DONE;
}

enum soma_status
soma__segment_adopt(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t address,
		    uint64_t granules)
{
	if (overlaps_segment(model, address, address + granules))
		return soma__fail(INVALID_VALUE, "the segment at 0x%" PRIx64 " overlaps another one",
				  soma__bytes(model, address));
	if (exceeds_max(model, granules))
		return soma__fail(OUT_OF_DEVICE_MEMORY,
				  "a segment of %" PRIu64 " bytes would pass the pool's maximum",
				  soma__bytes(model, granules));
	if (!reserve_segment(model, home_shelf(model, stream, pool), granules))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (!model->has_source)
		space_adopt(model, address, address + granules);
	add_segment(model, stream, pool, address, granules);
	return SOMA_STATUS_OK;
}

void
soma__segment_release(struct soma_model *model, uint32_t name)
{
	struct soma__segment *segment = soma__segment_at(model, name);
	struct soma__slab *trees = &model->index.trees;
	struct soma__stream *stream = soma__stream_find(model, segment->stream);
	uint64_t address = segment->address, granules = segment->end - address;

	soma__block_unshelve(model, segment->first);
	soma__block_erase(model, segment->first);
	soma__tree_give(trees, soma__tree_remove(trees, &model->segments, 0, address));
	soma__tree_give(trees, segment->idle_tree);
	soma__slab_give(&model->segment_slab, name, sizeof(struct soma__segment));
	model->stats.segment_count--;
	model->stats.segments_released++;
	model->stats.reserved -= soma__bytes(model, granules);
	if (model->policy.per_stream && stream != NULL) {
		stream->segment_count--;
		soma__stream_settle(model, stream);
	}
	if (model->has_source)
		model->source.release(model->source.context, soma__bytes(model, address),
				      soma__bytes(model, granules));
	else if (address + granules > model->index.base)
		space_give(model, address < model->index.base ? model->index.base : address,
			   address < model->index.base ? address + granules - model->index.base : granules);
}

static bool
release_segments(struct soma_model *model, uint64_t keep)
{
	bool released = false;

	while (model->stats.reserved > keep) {
		uint64_t excess = (model->stats.reserved - keep) >> model->granule_shift;
		uint32_t tree = soma__tree_at_most(&model->index.trees, model->idle, excess, UINT64_MAX);

		if (tree == 0)
			break;
		soma__segment_release(model, soma__tree_at(&model->index.trees, tree)->record);
		released = true;
	}
	return released;
}

/* ---- the range ---- */

bool
soma__range_create(struct soma_model *model)
{
	struct soma__segment *segment;

	if (!soma__slab_reserve(&model->segment_slab, model->arena, 1) || !soma__shelf_make(model, 0, 1))
		return false;
	model->range = soma__slab_take(&model->segment_slab, sizeof(struct soma__segment));
	segment = soma__segment_at(model, model->range);
	*segment = (struct soma__segment){ .address = model->index.base, .end = model->index.base };
	return true;
}

static enum soma__growth
grow_into_hole(struct soma_model *model, uint64_t granules, uint32_t *block)
{
	uint64_t address, rest;

	if (exceeds_max(model, granules))
		return SOMA__GROWTH_REFUSED;
	take_hole(model, granules, &address, &rest, block);
	if (rest != 0) {
		uint32_t hole = soma__block_insert(model, model->range, *block, address + granules);

		soma__block_set_kind(soma__block_at(model, hole), SOMA__BLOCK_HOLE);
		soma__tree_at(&model->index.trees,
			      soma__tree_at_least(&model->index.trees, model->holes, 0, address + granules))
			->record = hole;
	}
	soma__block_set_kind(soma__block_at(model, *block), SOMA__BLOCK_LIVE);
	add_reserved(model, granules);
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

	if (last == 0 || soma__block_kind(block) != SOMA__BLOCK_FREE || soma__block_granules(model, block) >= granules)
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
	if (exceeds_max(model, missing) || missing > ADDRESS_MAX(model) - range->end)
		return SOMA__GROWTH_REFUSED;
	if (!soma__shelf_make(model, 0, range->end + missing - range->address))
		return SOMA__GROWTH_NO_RECORDS;
	if (last != 0) {
		const struct soma__node *node =
			soma__node_at(&model->index, soma__block_at(model, last)->node);

		if (soma__node_state(node) == SOMA__NODE_PENDING) {
			soma__shelf_at(model, soma__node_shelf(node))->promised -= granules - missing;
			active = missing;
		}
		soma__block_unshelve(model, last);
		*block = last;
	} else {
		*block = soma__block_insert(model, model->range, range->last, range->end);
	}
	range->end += missing;
	set_top(model, range->end);
	add_reserved(model, missing);
	model->stats.active += soma__bytes(model, active);
	model->stats.segment_count = 1;
	return SOMA__GROWTH_DONE;
}

/* A free block of the range becomes a hole.  Needs one tree node. */
static void
make_hole(struct soma_model *model, uint32_t name)
{
	struct soma__slab *trees = &model->index.trees;
	struct soma__block *block = soma__block_at(model, name);
	struct soma__segment *range = soma__segment_at(model, model->range);

	if (block->previous != 0 && soma__block_kind(soma__block_at(model, block->previous)) == SOMA__BLOCK_HOLE) {
		uint32_t previous = block->previous;

		soma__tree_give(trees, soma__tree_remove(trees, &model->holes, 0,
							 soma__block_address(soma__block_at(model, previous))));
		soma__block_erase(model, name);
		name = previous;
		block = soma__block_at(model, name);
	}
	if (block->next == 0) {
		range->end = soma__block_address(block);
		soma__block_erase(model, name);
		set_top(model, range->end);
		if (range->end == range->address)
			model->stats.segment_count = 0;
		return;
	}
	if (soma__block_kind(soma__block_at(model, block->next)) == SOMA__BLOCK_HOLE) {
		soma__tree_give(trees, soma__tree_remove(trees, &model->holes, 0,
							 soma__block_address(soma__block_at(model, block->next))));
		soma__block_erase(model, block->next);
	}
	soma__block_set_kind(block, SOMA__BLOCK_HOLE);
	put_hole(model, soma__tree_take(trees), soma__block_address(block), soma__block_granules(model, block),
		 name);
}

static bool
release_range(struct soma_model *model, uint64_t keep)
{
	uint64_t excess = model->stats.reserved > keep ? (model->stats.reserved - keep) >> model->granule_shift : 0;
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

/* ---- both ---- */

bool
soma__segments_reserve_growth(struct soma_model *model, const struct soma__stream *stream, unsigned pool,
			      uint64_t granules)
{
	uint64_t size;

	if (soma__is_range(model))
		return soma__blocks_reserve(model) &&
		       soma__shelf_make(model, 0, model->top - model->index.base + granules);
	size = segment_granules(model, pool, granules);
	return size == 0 || reserve_segment(model, home_shelf(model, stream, pool), size);
}

enum soma__growth
soma__segments_grow(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules,
		    uint32_t *block)
{
	enum soma__growth growth;

	model->refusal = SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	if (!soma__is_range(model)) {
		growth = grow_segment(model, stream, pool, granules, block);
	} else {
		if (!soma__blocks_reserve(model))
			return SOMA__GROWTH_NO_RECORDS;
		growth = has_hole(model, granules) ? grow_into_hole(model, granules, block) :
						     grow_at_end(model, stream, granules, block);
	}
	if (growth == SOMA__GROWTH_DONE)
		model->stats.segments_acquired++;
	return growth;
}

bool
soma__segments_reserve_release(struct soma_model *model)
{
	uint64_t blocks = soma__is_range(model) ?
		model->stats.free_block_count + model->stats.pending_free_count : model->stats.segment_count;

	model->headroom = 0;
	return soma__slab_reserve(&model->index.trees, model->arena,
				  (uint32_t)blocks + 2 * model->unfiled + SOMA__RECORDS_PER_OPERATION) &&
	       soma__blocks_refill(model);
}

bool
soma__segments_release(struct soma_model *model, uint64_t keep)
{
	return soma__is_range(model) ? release_range(model, keep) : release_segments(model, keep);
}

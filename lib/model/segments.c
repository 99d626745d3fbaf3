/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments of a segmented pool, and growing and releasing for both kinds.  What can fail
 * for want of host memory is reserved before anything changes and before a segment
 * source is asked.  Not thread-safe, like the model.
 */
#include "lib/model/segments.h"

#include "lib/base/error.h"
#include "lib/model/blocks.h"
#include "lib/model/cache.h"
#include "lib/model/clock.h"
#include "lib/model/keep.h"
#include "lib/model/mapped.h"
#include "lib/model/range.h"
#include "lib/model/reserve.h"
#include "lib/model/space.h"

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

	if (model->policy.segments != SOMA_SEGMENTS_STEP)
		return;
	segment->idle = idle;
	if (!idle) {
		soma__tree_remove(&model->index.trees, &model->idle, granules, segment->address);
		return;
	}
	segment->idle_since = model->searches;
	*soma__tree_at(&model->index.trees, segment->idle_tree) =
		(struct soma__tree_node){ .record = name, .major = granules, .minor = segment->address };
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
	uint32_t name = soma__slab_take(&model->segment_slab, sizeof(struct soma__segment),
					sizeof(struct soma__segment));
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
		soma__reserve_set_top(model, segment->end);
	model->stats.segment_count++;
	soma__reserve_add(model, granules);
	soma__block_complete(model, soma__block_insert(model, name, 0, address));
	return name;
}

/* Granules of a new segment for a request; 0 when there can be none. */
static uint64_t
segment_granules(const struct soma_model *model, unsigned pool, uint64_t granules)
{
	const struct soma_policy_pool *row = &model->policy.pools[pool];
	uint64_t bytes = soma__bytes(model, granules), over = bytes % row->segment_step;

	if (bytes <= row->segment_max)
		bytes = row->segment_size;
	else if (over != 0)
		bytes += row->segment_step - over; /* neither is above ADDRESS_MAX */
	return bytes <= SOMA_MODEL_ADDRESS_MAX ? bytes >> model->granule_shift : 0;
}

static enum soma_status
acquire(struct soma_model *model, const struct soma__stream *stream, uint64_t granules, uint64_t *address)
{
	uint64_t bytes = soma__bytes(model, granules), at, serial;
	enum soma_status status;

	if (!model->has_source) {
		if (!soma__space_has(model, granules))
			return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
		*address = soma__space_take(model, granules);
		return SOMA_STATUS_OK;
	}
	serial = soma__error_serial();
	status = model->source.acquire(model->source.context, stream->id, bytes, &at);
	if (status == SOMA__STATUS_DEFERRED)
		return status;
	if (status != SOMA_STATUS_OK && soma__error_serial() != serial)
		return status; /* it has said why itself */
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

	if (size == 0 || soma__reserve_refuses(model, size))
		return SOMA__GROWTH_REFUSED;
	if (!reserve_segment(model, home_shelf(model, stream, pool), size))
		return SOMA__GROWTH_NO_RECORDS;
	model->refusal = acquire(model, stream, size, &address);
	if (model->refusal == SOMA__STATUS_DEFERRED)
		return SOMA__GROWTH_DEFERRED;
	if (model->refusal != SOMA_STATUS_OK)
		return SOMA__GROWTH_REFUSED;
	first = soma__segment_at(model, add_segment(model, stream, pool, address, size))->first;
	if (soma__cache_is_oversize(model, granules))
		granules = size;
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
	if (soma__reserve_refuses(model, granules))
		return soma__fail_sizes(OUT_OF_DEVICE_MEMORY, "a segment of %s would pass the pool's maximum",
					soma__bytes(model, granules));
	if (!reserve_segment(model, home_shelf(model, stream, pool), granules) ||
	    (!model->has_source && !soma__firstfit_reserve(&model->holes, model->arena, 2)))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (!model->has_source)
		soma__space_adopt(model, address, address + granules);
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
		soma__space_give(model, address < model->index.base ? model->index.base : address,
				 address < model->index.base ? address + granules - model->index.base
							     : granules);
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

/* ---- segments and range ---- */

bool
soma__segments_reserve_growth(struct soma_model *model, const struct soma__stream *stream, unsigned pool,
			      uint64_t granules)
{
	uint64_t size;

	if (soma__is_range(model))
		return soma__blocks_reserve(model) &&
		       soma__shelf_make(model, 0, model->top - model->index.base + granules);
	if (model->is_mapped)
		return soma__mapped_reserve_growth(model, pool, granules);
	size = segment_granules(model, pool, granules);
	return size == 0 || reserve_segment(model, home_shelf(model, stream, pool), size);
}

enum soma__growth
soma__segments_grow(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules,
		    uint32_t *block)
{
	enum soma__growth growth;

	model->refusal = SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	if (model->held)
		return SOMA__GROWTH_DEFERRED;
	if (model->is_mapped) {
		growth = soma__mapped_grow(model, stream, pool, granules, block);
		model->headroom = 0; /* holes take records that were counted on */
		return growth;
	}
	if (soma__is_range(model))
		growth = soma__range_grow(model, stream, granules, block);
	else
		growth = grow_segment(model, stream, pool, granules, block);
	if (growth == SOMA__GROWTH_DONE)
		model->stats.segments_acquired++;
	return growth;
}

bool
soma__segments_reserve_release(struct soma_model *model)
{
	uint64_t holes = 0;

	if (model->is_mapped)
		return soma__mapped_reserve_release(model, UINT64_MAX);
	if (soma__is_range(model))
		holes = model->stats.free_block_count + model->stats.pending_free_count + model->queue.length;
	else if (!model->has_source)
		holes = model->stats.segment_count;
	model->headroom = 0;
	return soma__firstfit_reserve(&model->holes, model->arena, (uint32_t)holes) &&
	       soma__blocks_refill(model);
}

bool
soma__segments_release(struct soma_model *model, uint64_t keep)
{
	model->headroom = 0; /* holes take records that were counted on */
	if (model->is_mapped)
		return soma__mapped_release(model, keep);
	return soma__is_range(model) ? soma__range_release(model, keep) : release_segments(model, keep);
}

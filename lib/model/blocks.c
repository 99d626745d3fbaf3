/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a block's record.  Every change keeps these true: blocks of a segment
 * are linked in address order without gaps; a free block has one node, which is on one
 * shelf unless parked, and in its stream's list unless complete; two neighbours that
 * could join are joined.  Not thread-safe, like the model.
 */
#include "lib/model/blocks.h"

#include "lib/model/keep.h"
#include "lib/model/mapped.h"

/* Refilled for at least this many, so that it is done rarely. */
#define RECORDS_AT_ONCE (64 * SOMA__RECORDS_PER_OPERATION)

bool
soma__blocks_refill(struct soma_model *model)
{
	struct soma__arena *arena = model->arena;
	uint32_t spare;

	/* What frees on their way to a shelf will need is not spare. */
	if (!soma__slab_reserve(&model->blocks, arena, RECORDS_AT_ONCE) ||
	    !soma__slab_reserve(&model->index.nodes, arena, RECORDS_AT_ONCE + soma__unfiled(model)) ||
	    !soma__slab_reserve(&model->index.trees, arena, RECORDS_AT_ONCE + 2 * soma__unfiled(model)))
		return false;
	spare = soma__slab_spare(&model->blocks);
	if (spare > soma__slab_spare(&model->index.nodes) - soma__unfiled(model))
		spare = soma__slab_spare(&model->index.nodes) - soma__unfiled(model);
	if (spare > soma__slab_spare(&model->index.trees) - 2 * soma__unfiled(model))
		spare = soma__slab_spare(&model->index.trees) - 2 * soma__unfiled(model);
	model->headroom = spare / SOMA__RECORDS_PER_OPERATION - 1; /* this one has its records, too */
	return true;
}

bool
soma__shelf_make(struct soma_model *model, uint32_t shelf, uint64_t granules)
{
	uint32_t pool = soma__shelf_pool(model, shelf);
	struct soma__shelf **made = &model->shared[pool];
	bool own = shelf >> model->pool_shift != 0;

	if (own)
		made = &model->streams[soma__shelf_slot(model, shelf)]->own[pool];
	if (*made == NULL) {
		*made = soma__arena_calloc(model->arena, sizeof **made, 64);
		if (*made == NULL)
			return false;
		(*made)->best = model->policy.fit == SOMA_FIT_BEST;
		(*made)->tag = soma__tag(
			own && !model->policy.per_stream ? SOMA__NODE_PENDING : SOMA__NODE_COMPLETE, shelf);
	}
	return soma__shelf_reserve(&model->index, *made, granules);
}

/* ---- the life of a block ---- */

void
soma__block_unshelve(struct soma_model *model, uint32_t name)
{
	struct soma__block *block = soma__block_at(model, name);
	struct soma__keep keep = soma__keep_of(model, soma__node_at(&model->index, block->node));

	soma__keep_out(model, &keep, block, soma__block_address(block), soma__block_end(model, block));
	soma__keep_drop(model, &keep, block->node);
	soma__block_set_kind(block, SOMA__BLOCK_LIVE);
}

static HOT void
file_complete(struct soma_model *model, uint32_t name, uint32_t node_name)
{
	struct soma__node *node = soma__node_at(&model->index, node_name);
	const struct soma__block *block = soma__block_at(model, name);
	struct soma__keep keep;

	node->tag = soma__tag(SOMA__NODE_COMPLETE, soma__segment_at(model, soma__block_segment(block))->home);
	keep = soma__keep_of(model, node);
	model->stats.free_block_count++;
	soma__keep_file(model, &keep, name, node_name, soma__block_address(block),
			soma__block_end(model, block));
}

void
soma__block_complete(struct soma_model *model, uint32_t name)
{
	file_complete(model, name, soma__node_take(&model->index));
}

uint32_t
soma__block_take(struct soma_model *model, uint32_t node_name, uint64_t granules)
{
	const struct soma__node *node = soma__node_at(&model->index, node_name);
	const struct soma__keep keep = soma__keep_of(model, node);
	uint32_t segment = soma__block_segment(soma__block_at(model, node->block));
	unsigned pool = soma__segment_at(model, segment)->pool;

	if (model->is_mapped && keep.state == SOMA__NODE_COMPLETE)
		return soma__mapped_take(model, pool, node_name, granules);
	return soma__keep_take(model, &keep, pool, node_name, granules);
}

/* A pending block's free is known to have executed.  `mapped` is a constant to each
 * caller, so that no other policy pays for the question. */
static HOT void
complete(struct soma_model *model, struct soma__stream *stream, uint32_t node_name, const bool mapped)
{
	struct soma__node *node = soma__node_at(&model->index, node_name);
	const struct soma__block *block = soma__block_at(model, node->block);
	const struct soma__keep keep = soma__keep_of(model, node);
	uint64_t address = soma__block_address(block), end = soma__block_end(model, block);

	soma__keep_out(model, &keep, block, address, end);
	soma__pending_unlink(model, stream, node_name);
	if (keep.state == SOMA__NODE_PARKED)
		model->parked--;
	stream->pending_count--;
	model->stats.pending_free_count--;
	model->stats.active -= soma__bytes(model, end - address);
	if (mapped) {
		model->stats.free_block_count++;
		soma__mapped_file(model, node->block, node_name);
	} else {
		file_complete(model, node->block, node_name);
	}
}

static __attribute__((noinline)) void
complete_mapped(struct soma_model *model, struct soma__stream *stream, uint64_t released)
{
	while (stream->oldest != 0 && soma__node_at(&model->index, stream->oldest)->position < released)
		complete(model, stream, stream->oldest, true);
}

void
soma__stream_complete(struct soma_model *model, struct soma__stream *stream)
{
	uint64_t released = soma__released(model, stream);

	if (model->is_mapped) {
		complete_mapped(model, stream, released);
		return;
	}
	while (stream->oldest != 0 && soma__node_at(&model->index, stream->oldest)->position < released)
		complete(model, stream, stream->oldest, false);
}

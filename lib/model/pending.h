/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pending frees of a stream: in the order of their positions always, and by (size,
 * address) for streams that another one was ever ordered after ("followed"), so that
 * "the best fit among the frees before position s" is one descent.
 *
 * A node that is handed in must have its state, shelf and position set.
 */
#ifndef SOMA_LIB_MODEL_PENDING_H
#define SOMA_LIB_MODEL_PENDING_H

#include "lib/model/state.h"

/* The stream has a pending node now, and none any more. */
static inline void
soma__pending_first(struct soma_model *model, struct soma__stream *stream, uint32_t node)
{
	stream->oldest = node;
	stream->pending_previous = 0;
	stream->pending_next = model->with_pending;
	if (model->with_pending != 0)
		model->streams[model->with_pending - 1]->pending_previous = soma__stream_slot(stream) + 1;
	model->with_pending = soma__stream_slot(stream) + 1;
}

static inline void
soma__pending_none(struct soma_model *model, struct soma__stream *stream)
{
	if (stream->pending_previous != 0)
		model->streams[stream->pending_previous - 1]->pending_next = stream->pending_next;
	else
		model->with_pending = stream->pending_next;
	if (stream->pending_next != 0)
		model->streams[stream->pending_next - 1]->pending_previous = stream->pending_previous;
}

/* Appends the node of the stream's latest free. */
static inline void
soma__pending_link(struct soma_model *model, struct soma__stream *stream, uint32_t name)
{
	struct soma__node *node = soma__node_at(&model->index, name);

	node->older = stream->newest;
	node->newer = 0;
	if (stream->newest != 0)
		soma__node_at(&model->index, stream->newest)->newer = name;
	else
		soma__pending_first(model, stream, name);
	stream->newest = name;
}

static inline void
soma__pending_unlink(struct soma_model *model, struct soma__stream *stream, uint32_t name)
{
	struct soma__node *node = soma__node_at(&model->index, name);

	if (node->older != 0)
		soma__node_at(&model->index, node->older)->newer = node->newer;
	else
		stream->oldest = node->newer;
	if (node->newer != 0)
		soma__node_at(&model->index, node->newer)->older = node->older;
	else
		stream->newest = node->older;
	if (stream->oldest == 0)
		soma__pending_none(model, stream);
}

/* The nodes before this one went (0: all). */
static inline void
soma__pending_begin(struct soma_model *model, struct soma__stream *stream, uint32_t name)
{
	stream->oldest = name;
	if (name != 0) {
		soma__node_at(&model->index, name)->older = 0;
		return;
	}
	stream->newest = 0;
	soma__pending_none(model, stream);
}

void soma__pending_file_followed(struct soma_model *model, struct soma__stream *stream, uint32_t node,
				 uint64_t address, uint64_t granules);
void soma__pending_unfile_followed(struct soma_model *model, struct soma__stream *stream, uint32_t node,
				   uint64_t address, uint64_t granules);

/* The block of a pending node came to, or is about to leave, this place and size. */
static inline void
soma__pending_file(struct soma_model *model, struct soma__stream *stream, uint32_t node, uint64_t address,
		   uint64_t granules)
{
	if (stream->followed)
		soma__pending_file_followed(model, stream, node, address, granules);
}

static inline void
soma__pending_unfile(struct soma_model *model, struct soma__stream *stream, uint32_t node, uint64_t address,
		     uint64_t granules)
{
	if (stream->followed)
		soma__pending_unfile_followed(model, stream, node, address, granules);
}

/* The node of the stream's latest free. */
static HOT uint32_t
soma__pending_node(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t position,
		   enum soma__node_state state)
{
	uint32_t node_name = soma__node_take(&model->index);
	struct soma__node *node = soma__node_at(&model->index, node_name);

	node->tag = soma__tag(state, soma__own_shelf(model, soma__stream_slot(stream), pool));
	node->position = position & (((uint64_t)1 << 48) - 1);
	soma__pending_link(model, stream, node_name);
	return node_name;
}

/* The block of the stream's latest free, of no account any more, becomes a free one on no shelf. */
static HOT void
soma__pending_park(struct soma_model *model, struct soma__stream *stream, uint32_t name, uint64_t position)
{
	struct soma__block *block = soma__block_at(model, name);
	uint32_t pool = soma__segment_at(model, soma__block_segment(block))->pool;
	uint32_t node = soma__pending_node(model, stream, pool, position, SOMA__NODE_PARKED);

	soma__node_at(&model->index, node)->block = name;
	block->node = node;
	soma__block_set_kind(block, SOMA__BLOCK_FREE);
	soma__pending_file(model, stream, node, soma__block_address(block),
			   soma__sized_granules(model, block));
}

/* From now on keeps the stream's pending frees by size as well.  False without memory. */
bool soma__pending_follow(struct soma_model *model, struct soma__stream *stream);

/* Of the stream's pending blocks of a pool with positions below `limit` and at least
 * `granules`, the tree node of the one with the least (size, address); 0 if none.  The
 * stream must be followed. */
uint32_t soma__pending_best(const struct soma_model *model, const struct soma__stream *stream, unsigned pool,
			    uint64_t granules, uint64_t limit);

#endif

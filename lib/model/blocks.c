/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a block's record.  Every change keeps these true: blocks of a segment
 * are linked in address order without gaps; a free block has one node, which is on one
 * shelf unless parked, and in its stream's list unless complete; two neighbours that
 * could join are joined.  Not thread-safe, like the model.
 */
#include "lib/model/blocks.h"

#include "lib/model/clock.h"
#include "lib/model/pending.h"
#include "lib/model/segments.h"

bool
soma__blocks_refill(struct soma_model *model)
{
	struct soma__arena *arena = model->arena;
	uint32_t spare;

	/* What frees on their way to a shelf will need is not spare. */
	if (!soma__slab_reserve(&model->blocks, arena, SOMA__RECORDS_PER_OPERATION) ||
	    !soma__slab_reserve(&model->index.nodes, arena, SOMA__RECORDS_PER_OPERATION + model->unfiled) ||
	    !soma__slab_reserve(&model->index.trees, arena, SOMA__RECORDS_PER_OPERATION + 2 * model->unfiled))
		return false;
	spare = soma__slab_spare(&model->blocks);
	if (spare > soma__slab_spare(&model->index.nodes) - model->unfiled)
		spare = soma__slab_spare(&model->index.nodes) - model->unfiled;
	if (spare > soma__slab_spare(&model->index.trees) - 2 * model->unfiled)
		spare = soma__slab_spare(&model->index.trees) - 2 * model->unfiled;
	model->headroom = spare / SOMA__RECORDS_PER_OPERATION - 1; /* this one has its records, too */
	return true;
}

bool
soma__shelf_make(struct soma_model *model, uint32_t shelf, uint64_t granules)
{
	uint32_t pool = soma__shelf_pool(model, shelf);
	struct soma__shelf **made = &model->shared[pool];

	if (shelf >> model->pool_shift != 0)
		made = &model->streams[soma__shelf_slot(model, shelf)]->own[pool];
	if (*made == NULL) {
		*made = soma__arena_calloc(model->arena, sizeof **made, 64);
		if (*made == NULL)
			return false;
		(*made)->best = model->policy.fit == SOMA_FIT_BEST;
	}
	return soma__shelf_reserve(&model->index, *made, granules);
}

/* ---- address order ---- */

uint32_t
soma__block_insert(struct soma_model *model, uint32_t segment_name, uint32_t previous, uint64_t address)
{
	uint32_t name = soma__slab_take(&model->blocks, sizeof(struct soma__block));
	struct soma__block *block = soma__block_at(model, name);
	struct soma__segment *segment = soma__segment_at(model, segment_name);
	uint32_t next = previous ? soma__block_at(model, previous)->next : segment->first;

	block->head = soma__block_head(address, segment_name, SOMA__BLOCK_LIVE);
	block->previous = previous;
	block->next = next;
	if (previous != 0)
		soma__block_at(model, previous)->next = name;
	else
		segment->first = name;
	if (next != 0)
		soma__block_at(model, next)->previous = name;
	else
		segment->last = name;
	return name;
}

void
soma__block_erase(struct soma_model *model, uint32_t name)
{
	struct soma__block *block = soma__block_at(model, name);

	if (block->previous != 0)
		soma__block_at(model, block->previous)->next = block->next;
	else
		soma__segment_at(model, soma__block_segment(block))->first = block->next;
	if (block->next != 0)
		soma__block_at(model, block->next)->previous = block->previous;
	else
		soma__segment_at(model, soma__block_segment(block))->last = block->previous;
	soma__slab_give(&model->blocks, name, sizeof(struct soma__block));
}

/* ---- nodes ---- */

/* Where a free block is kept: its shelf (none for a parked one, whatever this says) and,
 * unless it is complete, the stream that freed it. */
struct keep {
	struct soma__shelf *shelf;
	struct soma__stream *stream;
	enum soma__node_state state;
};

static HOT struct keep
keep_of(const struct soma_model *model, const struct soma__node *node)
{
	uint32_t shelf = soma__node_shelf(node);
	struct keep keep = { .shelf = soma__shelf_at(model, shelf), .state = soma__node_state(node) };

	if (keep.state != SOMA__NODE_COMPLETE)
		keep.stream = model->streams[soma__shelf_slot(model, shelf)];
	return keep;
}

/* The block [address, end) goes where its node's state says. */
static HOT void
shelve(struct soma_model *model, const struct keep *keep, uint32_t name, uint32_t node_name, uint64_t address,
       uint64_t end)
{
	struct soma__block *block = soma__block_at(model, name);

	soma__block_set_kind(block, SOMA__BLOCK_FREE);
	block->node = node_name;
	soma__node_at(&model->index, node_name)->block = name;
	if (keep->state != SOMA__NODE_PARKED)
		soma__shelf_put(&model->index, keep->shelf, node_name, address, end - address);
	if (keep->state != SOMA__NODE_COMPLETE)
		soma__pending_file(model, keep->stream, node_name, address, end - address);
	else if (block->previous == 0 && block->next == 0)
		soma__segment_set_idle(model, soma__block_segment(block), true);
}

/* The opposite; the node keeps its state. */
static HOT void
unshelve(struct soma_model *model, const struct keep *keep, const struct soma__block *block, uint64_t address,
	 uint64_t end)
{
	if (keep->state != SOMA__NODE_PARKED)
		soma__shelf_remove(&model->index, keep->shelf, block->node, address, end - address);
	if (keep->state != SOMA__NODE_COMPLETE)
		soma__pending_unfile(model, keep->stream, block->node, address, end - address);
	else if (block->previous == 0 && block->next == 0)
		soma__segment_set_idle(model, soma__block_segment(block), false);
}

/* The node goes away: one free block less. */
static HOT void
drop_node(struct soma_model *model, const struct keep *keep, uint32_t node_name)
{
	if (keep->state == SOMA__NODE_COMPLETE) {
		model->stats.free_block_count--;
	} else {
		soma__pending_unlink(model, keep->stream, node_name);
		keep->stream->pending_count--;
		model->stats.pending_free_count--;
		if (keep->state == SOMA__NODE_PARKED)
			model->unfiled--;
		if (!keep->stream->accepts)
			soma__stream_settle(model, keep->stream);
	}
	soma__slab_give(&model->index.nodes, node_name, sizeof(struct soma__node));
}

void
soma__block_unshelve(struct soma_model *model, uint32_t name)
{
	struct soma__block *block = soma__block_at(model, name);
	struct keep keep = keep_of(model, soma__node_at(&model->index, block->node));

	unshelve(model, &keep, block, soma__block_address(block), soma__block_end(model, block));
	drop_node(model, &keep, block->node);
	soma__block_set_kind(block, SOMA__BLOCK_LIVE);
}

/* Can this neighbour join a block whose node has the tag? */
static HOT bool
can_join(const struct soma_model *model, uint32_t tag, uint64_t barrier, uint32_t neighbour)
{
	const struct soma__block *block = soma__block_at(model, neighbour);
	const struct soma__node *node;

	if (neighbour == 0 || soma__block_kind(block) != SOMA__BLOCK_FREE)
		return false;
	node = soma__node_at(&model->index, block->node);
	return node->tag == tag && node->position >= barrier;
}

/* Joins the block with its neighbours, then puts it on its shelf.  What joins is kept
 * in the same place.  (A complete node's position is stale, and the barrier 0.) */
static HOT void
file(struct soma_model *model, const struct keep *keep, uint32_t name, uint32_t node_name, uint64_t address,
     uint64_t end, uint64_t barrier)
{
	uint32_t tag = soma__node_at(&model->index, node_name)->tag;
	const struct soma__block *block = soma__block_at(model, name);
	uint32_t previous = block->previous, next = block->next;

	if (can_join(model, tag, barrier, previous)) {
		const struct soma__block *front = soma__block_at(model, previous);
		uint64_t start = soma__block_address(front);

		unshelve(model, keep, front, start, address);
		drop_node(model, keep, front->node);
		soma__block_erase(model, name);
		name = previous;
		address = start;
	}
	if (can_join(model, tag, barrier, next)) {
		const struct soma__block *back = soma__block_at(model, next);
		uint64_t back_end = soma__block_end(model, back);

		unshelve(model, keep, back, end, back_end);
		drop_node(model, keep, back->node);
		soma__block_erase(model, next);
		end = back_end;
	}
	shelve(model, keep, name, node_name, address, end);
}

static HOT void
file_complete(struct soma_model *model, uint32_t name, uint32_t node_name)
{
	struct soma__node *node = soma__node_at(&model->index, node_name);
	const struct soma__block *block = soma__block_at(model, name);
	struct keep keep;

	node->tag = soma__tag(SOMA__NODE_COMPLETE, soma__segment_at(model, soma__block_segment(block))->home);
	keep = keep_of(model, node);
	model->stats.free_block_count++;
	file(model, &keep, name, node_name, soma__block_address(block), soma__block_end(model, block), 0);
}

void
soma__block_complete(struct soma_model *model, uint32_t name)
{
	file_complete(model, name, soma__slab_take(&model->index.nodes, sizeof(struct soma__node)));
}

/* The node of the stream's latest free. */
static HOT uint32_t
pending_node(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t position,
	     enum soma__node_state state)
{
	uint32_t node_name = soma__slab_take(&model->index.nodes, sizeof(struct soma__node));
	struct soma__node *node = soma__node_at(&model->index, node_name);

	node->tag = soma__tag(state, soma__own_shelf(model, soma__stream_slot(stream), pool));
	node->position = position & (((uint64_t)1 << 48) - 1);
	soma__pending_link(model, stream, node_name);
	return node_name;
}

void
soma__block_park(struct soma_model *model, struct soma__stream *stream, uint32_t name, uint64_t position)
{
	const struct soma__block *block = soma__block_at(model, name);
	unsigned pool = soma__segment_at(model, soma__block_segment(block))->pool;
	const struct keep keep = { .stream = stream, .state = SOMA__NODE_PARKED };

	shelve(model, &keep, name, pending_node(model, stream, pool, position, keep.state),
	       soma__block_address(block), soma__block_end(model, block));
}

void
soma__block_pend(struct soma_model *model, struct soma__stream *stream, uint32_t name, uint64_t position)
{
	const struct soma__block *block = soma__block_at(model, name);
	unsigned pool = soma__segment_at(model, soma__block_segment(block))->pool;
	const struct keep keep = { .shelf = stream->own[pool], .stream = stream, .state = SOMA__NODE_PENDING };
	uint64_t address = soma__block_address(block), end = soma__block_end(model, block);

	keep.shelf->promised += end - address;
	file(model, &keep, name, pending_node(model, stream, pool, position, keep.state), address, end,
	     stream->barrier);
}

uint32_t
soma__block_take(struct soma_model *model, uint32_t node_name, uint64_t granules)
{
	struct soma__node *node = soma__node_at(&model->index, node_name);
	const struct keep keep = keep_of(model, node);
	uint32_t name = node->block;
	struct soma__block *block = soma__block_at(model, name);
	uint64_t address = soma__block_address(block), end = soma__block_end(model, block);
	uint64_t left = end - address - granules;
	uint32_t segment = soma__block_segment(block);

	unshelve(model, &keep, block, address, end);
	if (left == 0 ||
	    soma__bytes(model, left) < model->policy.pools[soma__segment_at(model, segment)->pool].split_min) {
		granules += left;
		left = 0;
	}
	if (keep.state == SOMA__NODE_COMPLETE)
		model->stats.active += soma__bytes(model, granules);
	else if (keep.state == SOMA__NODE_PENDING)
		keep.shelf->promised -= granules;
	soma__block_set_kind(block, SOMA__BLOCK_LIVE);
	if (left != 0)
		shelve(model, &keep, soma__block_insert(model, segment, name, address + granules), node_name,
		       address + granules, end);
	else
		drop_node(model, &keep, node_name);
	return name;
}

void
soma__block_join_run(struct soma_model *model, uint32_t first, uint64_t end, uint32_t latest)
{
	const struct keep own = keep_of(model, soma__node_at(&model->index, latest));
	uint64_t start = soma__block_address(soma__block_at(model, first)), address = start;
	uint32_t name = first;

	while (address < end) {
		const struct soma__block *block = soma__block_at(model, name);
		uint32_t node = block->node, next = block->next;
		const struct keep keep = keep_of(model, soma__node_at(&model->index, node));
		uint64_t block_end = soma__block_end(model, block);

		unshelve(model, &keep, block, address, block_end);
		if (keep.state == SOMA__NODE_COMPLETE) {
			model->stats.active += soma__bytes(model, block_end - address);
			own.shelf->promised += block_end - address;
		}
		if (node != latest)
			drop_node(model, &keep, node);
		if (name != first)
			soma__block_erase(model, name);
		name = next;
		address = block_end;
	}
	shelve(model, &own, first, latest, start, end);
}

/* A pending block's free is known to have executed. */
static void
complete(struct soma_model *model, struct soma__stream *stream, uint32_t node_name)
{
	struct soma__node *node = soma__node_at(&model->index, node_name);
	const struct soma__block *block = soma__block_at(model, node->block);
	const struct keep keep = keep_of(model, node);
	uint64_t address = soma__block_address(block), end = soma__block_end(model, block);

	unshelve(model, &keep, block, address, end);
	soma__pending_unlink(model, stream, node_name);
	if (keep.state == SOMA__NODE_PENDING)
		keep.shelf->promised -= end - address;
	else
		model->unfiled--;
	stream->pending_count--;
	model->stats.pending_free_count--;
	model->stats.active -= soma__bytes(model, end - address);
	file_complete(model, node->block, node_name);
}

void
soma__stream_complete(struct soma_model *model, struct soma__stream *stream)
{
	uint64_t released = soma__released(model, stream);

	while (stream->oldest != 0 && soma__node_at(&model->index, stream->oldest)->position < released)
		complete(model, stream, stream->oldest);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where free blocks are kept, and the steps that every free and allocation is made of:
 * joining neighbours, putting on a shelf, taking from one, splitting.  Inline, because
 * the caller knows the state and the shelf: what is left in each caller is only what
 * applies there.  blocks.h is the interface for everything else.
 */
#ifndef SOMA_LIB_MODEL_KEEP_H
#define SOMA_LIB_MODEL_KEEP_H

#include "lib/model/clock.h"
#include "lib/model/pending.h"
#include "lib/model/segments.h"
#include "lib/model/state.h"

/* ---- address order ---- */

/* A new live block after `previous` (0: at the segment's front). */
static HOT uint32_t
soma__block_insert(struct soma_model *model, uint32_t segment_name, uint32_t previous, uint64_t address)
{
	uint32_t name = soma__slab_take(&model->blocks, sizeof(struct soma__block), SOMA__NAME_UNIT);
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

/* A block is cut at `granules`; the part behind, which is as free as it was, gets a record. */
static HOT uint32_t
soma__block_split(struct soma_model *model, uint32_t name, uint64_t granules)
{
	uint32_t rest_name = soma__slab_take(&model->blocks, sizeof(struct soma__block), SOMA__NAME_UNIT);
	struct soma__block *rest = soma__block_at(model, rest_name), *block = soma__block_at(model, name);
	uint32_t next = block->next;

	rest->head = block->head + granules;
	rest->previous = name;
	rest->next = next;
	block->next = rest_name;
	if (next != 0)
		soma__block_at(model, next)->previous = rest_name;
	else
		soma__segment_at(model, soma__block_segment(block))->last = rest_name;
	return rest_name;
}

/* A new live block of the front of another, whose record stays that of the rest.  (What is written to the
 * block before it nobody waits for; to read it would be to wait.) */
static HOT uint32_t
soma__block_cut_front(struct soma_model *model, uint32_t rest_name, uint64_t granules)
{
	uint32_t name = soma__slab_take(&model->blocks, sizeof(struct soma__block), SOMA__NAME_UNIT);
	struct soma__block *block = soma__block_at(model, name), *rest = soma__block_at(model, rest_name);
	uint32_t previous = rest->previous;

	block->head = rest->head;
	soma__block_set_kind(block, SOMA__BLOCK_LIVE);
	block->previous = previous;
	block->next = rest_name;
	rest->previous = name;
	rest->head += granules;
	if (previous != 0)
		soma__block_at(model, previous)->next = name;
	else
		soma__segment_at(model, soma__block_segment(rest))->first = name;
	return name;
}

/* Takes the record of a block out; its addresses fall to the block before it. */
static HOT void
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
	soma__slab_give(&model->blocks, name, SOMA__NAME_UNIT);
}

/* ---- keeping ---- */

/* Where a free block is kept: its shelf (none for a parked one, whatever this says) and,
 * unless it is complete, the stream that freed it. */
struct soma__keep {
	struct soma__shelf *shelf;
	struct soma__stream *stream;
	enum soma__node_state state;
};

static HOT struct soma__keep
soma__keep_of(const struct soma_model *model, const struct soma__node *node)
{
	uint32_t shelf = soma__node_shelf(node);
	struct soma__keep keep = { .shelf = soma__shelf_at(model, shelf), .state = soma__node_state(node) };

	if (keep.state != SOMA__NODE_COMPLETE)
		keep.stream = model->streams[soma__shelf_slot(model, shelf)];
	return keep;
}

/* The free block [address, end) goes where its node's state says; `open`: as its shelf's open one. */
static HOT void
soma__keep_put(struct soma_model *model, const struct soma__keep *keep, uint32_t name, uint32_t node_name,
	       uint64_t address, uint64_t end, const bool open)
{
	struct soma__block *block = soma__block_at(model, name);

	block->node = node_name;
	soma__block_set_size(block, end - address);
	soma__node_at(&model->index, node_name)->block = name;
	if (keep->state != SOMA__NODE_PARKED && open)
		soma__shelf_open(&model->index, keep->shelf, node_name, address, end - address);
	else if (keep->state != SOMA__NODE_PARKED)
		soma__shelf_put(&model->index, keep->shelf, node_name, address, end - address);
	if (keep->state != SOMA__NODE_COMPLETE)
		soma__pending_file(model, keep->stream, node_name, address, end - address);
	else if (block->previous == 0 && block->next == 0)
		soma__segment_set_idle(model, soma__block_segment(block), true);
}

static HOT void
soma__keep_in(struct soma_model *model, const struct soma__keep *keep, uint32_t name, uint32_t node_name,
	      uint64_t address, uint64_t end, const bool open)
{
	soma__block_set_kind(soma__block_at(model, name), SOMA__BLOCK_FREE);
	soma__keep_put(model, keep, name, node_name, address, end, open);
}

/* The opposite; the node keeps its state. */
static HOT void
soma__keep_out(struct soma_model *model, const struct soma__keep *keep, const struct soma__block *block,
	       uint64_t address, uint64_t end)
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
soma__keep_drop(struct soma_model *model, const struct soma__keep *keep, uint32_t node_name)
{
	if (keep->state == SOMA__NODE_COMPLETE) {
		model->stats.free_block_count--;
	} else {
		soma__pending_unlink(model, keep->stream, node_name);
		keep->stream->pending_count--;
		model->stats.pending_free_count--;
		if (keep->state == SOMA__NODE_PARKED)
			model->parked--;
		if (!soma__stream_accepts(keep->stream))
			soma__stream_settle(model, keep->stream);
	}
	soma__node_give(&model->index, node_name);
}

/* Can this neighbour join a block whose node has the tag? */
static HOT bool
soma__keep_joins(const struct soma_model *model, uint32_t tag, uint64_t barrier, uint32_t neighbour)
{
	const struct soma__node *node;

	if (!soma__is_free(model, neighbour))
		return false;
	node = soma__node_at(&model->index, soma__block_at(model, neighbour)->node);
	return node->tag == tag && (barrier == 0 || node->position >= barrier);
}

/* What a block is part of once it is joined. */
struct soma__joined {
	uint32_t name;
	uint32_t node; /* of a neighbour that it joined; 0: it joined none */
	uint64_t address, end;
};

/* Joins the block [address, end) with those neighbours that have the tag; they leave their
 * place.  Of two the node of the one before is kept, and the other goes. */
static HOT struct soma__joined
soma__keep_join(struct soma_model *model, const struct soma__keep *keep, uint32_t tag, uint64_t barrier,
		uint32_t name, uint64_t address, uint64_t end)
{
	struct soma__joined joined = { .name = name, .address = address, .end = end };
	const struct soma__block *block = soma__block_at(model, name);
	uint32_t previous = block->previous, next = block->next;

	if (soma__keep_joins(model, tag, barrier, previous)) {
		const struct soma__block *front = soma__block_at(model, previous);

		joined.address = soma__block_address(front);
		soma__keep_out(model, keep, front, joined.address, address);
		joined.node = front->node;
		soma__block_erase(model, name);
		joined.name = previous;
	}
	if (soma__keep_joins(model, tag, barrier, next)) {
		const struct soma__block *back = soma__block_at(model, next);

		joined.end = soma__sized_end(model, back);
		soma__keep_out(model, keep, back, end, joined.end);
		if (joined.node != 0)
			soma__keep_drop(model, keep, back->node);
		else
			joined.node = back->node;
		soma__block_erase(model, next);
	}
	return joined;
}

/* Joins a complete block, which has its node, and puts it on its home shelf.  (A complete node's
 * position is stale, and so there is no barrier.) */
static HOT void
soma__keep_file(struct soma_model *model, const struct soma__keep *keep, uint32_t name, uint32_t node_name,
		uint64_t address, uint64_t end)
{
	uint32_t tag = soma__node_at(&model->index, node_name)->tag;
	struct soma__joined joined = soma__keep_join(model, keep, tag, 0, name, address, end);

	if (joined.node != 0)
		soma__keep_drop(model, keep, joined.node);
	soma__keep_in(model, keep, joined.name, node_name, joined.address, joined.end, false);
}

/* The stream's latest free joined the block of this node. */
static HOT void
soma__pending_renew(struct soma_model *model, struct soma__stream *stream, uint32_t node_name,
		    uint64_t position)
{
	if (stream->newest != node_name) {
		soma__pending_unlink(model, stream, node_name);
		soma__pending_link(model, stream, node_name);
	}
	soma__node_at(&model->index, node_name)->position = position & (((uint64_t)1 << 48) - 1);
}

/* The stream's free of a block [address, end): joined with its neighbours, then pending on its
 * own shelf.  The segment's pool is known to the caller, who read it for the shelf's sake.
 * A neighbour's node is kept: it only moves to the end of the stream's list. */
static HOT void
soma__keep_pending(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint32_t name,
		   uint64_t address, uint64_t end, uint64_t position, const bool open)
{
	const struct soma__keep keep = { .shelf = stream->own[pool],
					 .stream = stream,
					 .state = SOMA__NODE_PENDING };
	uint32_t tag = soma__tag(keep.state, soma__own_shelf(model, soma__stream_slot(stream), pool));
	struct soma__joined joined = soma__keep_join(model, &keep, tag, stream->barrier, name, address, end);

	if (joined.node == 0) {
		joined.node = soma__pending_node(model, stream, pool, position, keep.state);
		stream->pending_count++;
		model->stats.pending_free_count++;
	} else {
		soma__pending_renew(model, stream, joined.node, position);
	}
	soma__keep_in(model, &keep, joined.name, joined.node, joined.address, joined.end, open);
}

/* The open block, which is in no list, began at `before` and now begins elsewhere: its front was taken, or
 * came back.  It keeps record and node. */
static HOT void
soma__keep_moved(struct soma_model *model, const struct soma__keep *keep, uint32_t name, uint64_t before,
		 uint64_t end)
{
	struct soma__block *open = soma__block_at(model, name);
	uint64_t address = soma__block_address(open);

	if (keep->state != SOMA__NODE_COMPLETE)
		soma__pending_unfile(model, keep->stream, open->node, before, end - before);
	soma__block_set_size(open, end - address);
	soma__bins_move(&model->index, keep->shelf, address, end - address);
	if (keep->state != SOMA__NODE_COMPLETE)
		soma__pending_file(model, keep->stream, open->node, address, end - address);
}

static HOT uint32_t
soma__keep_cut(struct soma_model *model, const struct soma__keep *keep, uint32_t name, uint64_t address,
	       uint64_t granules, uint64_t end)
{
	const struct soma__block *open = soma__block_at(model, name);
	uint32_t taken;

	if (keep->state == SOMA__NODE_COMPLETE && open->previous == 0 && open->next == 0)
		soma__segment_set_idle(model, soma__block_segment(open), false);
	taken = soma__block_cut_front(model, name, granules);
	soma__keep_moved(model, keep, name, address, end);
	return taken;
}

/* The live block before the open one of the stream's own shelf joins it, and nothing else. */
static HOT void
soma__keep_give_back(struct soma_model *model, struct soma__stream *stream, struct soma__shelf *shelf,
		     uint32_t name, uint64_t position)
{
	const struct soma__keep keep = { .shelf = shelf, .stream = stream, .state = SOMA__NODE_PENDING };
	const struct soma__block *block = soma__block_at(model, name);
	uint32_t next = block->next;
	struct soma__block *open = soma__block_at(model, next);
	uint64_t before = soma__block_address(open), end = soma__sized_end(model, open);

	open->head -= before - soma__block_address(block);
	soma__pending_renew(model, stream, shelf->open, position);
	soma__keep_moved(model, &keep, next, before, end);
	soma__block_erase(model, name);
}

/* Takes `granules` from the front of a free block of size pool `pool`; what is left
 * stays free if the policy splits it, else all is taken.  Returns the block, live. */
static HOT uint32_t
soma__keep_take(struct soma_model *model, const struct soma__keep *keep, unsigned pool, uint32_t node_name,
		uint64_t granules)
{
	uint32_t name = soma__node_at(&model->index, node_name)->block;
	struct soma__block *block = soma__block_at(model, name);
	uint64_t address = soma__block_address(block), end = soma__sized_end(model, block);
	uint64_t left = end - address - granules;
	bool splits = left != 0 && soma__bytes(model, left) >= model->policy.pools[pool].split_min;

	soma__lookup_fetch(&model->lookup, address);
	if (splits && keep->state != SOMA__NODE_PARKED && soma__shelf_has_aside(keep->shelf, node_name)) {
		if (keep->state == SOMA__NODE_COMPLETE)
			model->stats.active += soma__bytes(model, granules);
		return soma__keep_cut(model, keep, name, address, granules, end);
	}
	soma__keep_out(model, keep, block, address, end);
	if (splits) {
		uint32_t rest = soma__block_split(model, name, granules);

		soma__keep_put(model, keep, rest, node_name, address + granules, end, true);
	} else {
		granules += left;
		soma__keep_drop(model, keep, node_name);
	}
	soma__block_set_kind(block, SOMA__BLOCK_LIVE);
	if (keep->state == SOMA__NODE_COMPLETE)
		model->stats.active += soma__bytes(model, granules);
	return name;
}

#endif

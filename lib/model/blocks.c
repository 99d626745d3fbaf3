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

/* An operation makes at most this many records of a kind, beyond those that frees on
 * their way to a shelf will need. */
#define RECORDS_PER_OPERATION 4

bool
soma__blocks_reserve(struct soma_model *model)
{
	uint32_t queued = model->queue_tail - model->queue_head;
	struct soma__arena *arena = model->arena;

	return soma__slab_reserve(&model->blocks, arena, RECORDS_PER_OPERATION) &&
	       soma__slab_reserve(&model->index.nodes, arena, RECORDS_PER_OPERATION + queued) &&
	       soma__slab_reserve(&model->index.trees, arena, RECORDS_PER_OPERATION + 2 * model->unfiled);
}

static bool
lengthen_shelves(struct soma_model *model, uint32_t shelf)
{
	uint32_t old = model->shelf_slots, slots = old ? old : 8;
	struct soma__shelf **shelves;

	while (slots <= shelf)
		slots *= 2;
	shelves = soma__arena_calloc(model->arena, slots * sizeof(struct soma__shelf *), 0);
	if (shelves == NULL)
		return false;
	for (uint32_t i = 0; i < old; i++)
		shelves[i] = model->shelves[i];
	soma__arena_free(model->arena, model->shelves, old * sizeof(struct soma__shelf *));
	model->shelves = shelves;
	model->shelf_slots = slots;
	return true;
}

bool
soma__shelf_make(struct soma_model *model, uint32_t shelf, uint64_t granules)
{
	if (shelf >= model->shelf_slots && !lengthen_shelves(model, shelf))
		return false;
	if (model->shelves[shelf] == NULL) {
		struct soma__shelf *made = soma__arena_calloc(model->arena, sizeof *made, 64);

		if (made == NULL)
			return false;
		made->best = model->policy.fit == SOMA_FIT_BEST;
		model->shelves[shelf] = made;
	}
	return soma__shelf_reserve(&model->index, model->shelves[shelf], granules);
}

/* ---- address order ---- */

uint32_t
soma__block_insert(struct soma_model *model, uint32_t segment_name, uint32_t previous, uint64_t address)
{
	uint32_t name = soma__slab_take(&model->blocks);
	struct soma__block *block = soma__block_at(model, name);
	struct soma__segment *segment = soma__segment_at(model, segment_name);
	uint32_t next = previous ? soma__block_at(model, previous)->next : segment->first;

	*block = (struct soma__block){
		.segment = segment_name & (((uint32_t)1 << SOMA__SEGMENT_BITS) - 1), .kind = SOMA__BLOCK_LIVE,
		.previous = previous, .next = next };
	soma__block_set_address(block, address);
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
		soma__segment_at(model, block->segment)->first = block->next;
	if (block->next != 0)
		soma__block_at(model, block->next)->previous = block->previous;
	else
		soma__segment_at(model, block->segment)->last = block->previous;
	soma__slab_give(&model->blocks, name);
}

/* ---- nodes ---- */

static struct soma__stream *
pending_stream(const struct soma_model *model, const struct soma__node *node)
{
	return model->streams[soma__shelf_slot(model, node->shelf)];
}

/* The block, wherever it just came from, is put where its node's state says. */
static void
shelve(struct soma_model *model, uint32_t name, uint32_t node_name)
{
	struct soma__block *block = soma__block_at(model, name);
	struct soma__node *node = soma__node_at(&model->index, node_name);
	uint64_t address = soma__block_address(block);
	uint64_t granules = soma__block_end(model, block) - address;

	block->kind = SOMA__BLOCK_FREE;
	block->node = node_name;
	node->block = name;
	if (node->state != SOMA__NODE_PARKED)
		soma__shelf_put(&model->index, soma__shelf_at(model, node->shelf), node_name, address, granules);
	if (node->state == SOMA__NODE_COMPLETE) {
		if (block->previous == 0 && block->next == 0)
			soma__segment_set_idle(model, block->segment, true);
	} else {
		soma__pending_file(model, pending_stream(model, node), node_name, address, granules);
	}
}

/* The opposite; the node keeps its state. */
static void
unshelve(struct soma_model *model, const struct soma__block *block)
{
	uint32_t node_name = block->node;
	const struct soma__node *node = soma__node_at(&model->index, node_name);
	uint64_t address = soma__block_address(block);
	uint64_t granules = soma__block_end(model, block) - address;

	if (node->state != SOMA__NODE_PARKED)
		soma__shelf_remove(&model->index, soma__shelf_at(model, node->shelf), node_name, address,
				   granules);
	if (node->state == SOMA__NODE_COMPLETE) {
		if (block->previous == 0 && block->next == 0)
			soma__segment_set_idle(model, block->segment, false);
	} else {
		soma__pending_unfile(model, pending_stream(model, node), node_name, address, granules);
	}
}

/* The node goes away: one free block less. */
static void
drop_node(struct soma_model *model, uint32_t node_name)
{
	const struct soma__node *node = soma__node_at(&model->index, node_name);

	if (node->state == SOMA__NODE_COMPLETE) {
		model->stats.free_block_count--;
	} else {
		struct soma__stream *stream = pending_stream(model, node);

		soma__pending_unlink(model, stream, node_name);
		stream->pending_count--;
		model->stats.pending_free_count--;
		if (node->state == SOMA__NODE_PARKED)
			model->unfiled--;
		if (!stream->accepts)
			soma__stream_settle(model, stream);
	}
	soma__slab_give(&model->index.nodes, node_name);
}

void
soma__block_unshelve(struct soma_model *model, uint32_t name)
{
	struct soma__block *block = soma__block_at(model, name);

	unshelve(model, block);
	drop_node(model, block->node);
	block->kind = SOMA__BLOCK_LIVE;
}

/* Can a free block join the one that `node` is being made for? */
static bool
can_join(const struct soma_model *model, const struct soma__node *node, uint64_t barrier, uint32_t neighbour)
{
	const struct soma__block *block;
	const struct soma__node *other;

	if (neighbour == 0)
		return false;
	block = soma__block_at(model, neighbour);
	if (block->kind != SOMA__BLOCK_FREE)
		return false;
	other = soma__node_at(&model->index, block->node);
	return other->state == node->state && other->shelf == node->shelf &&
	       (other->state == SOMA__NODE_COMPLETE || other->position >= barrier);
}

/* Joins the block with its neighbours, then puts it on its shelf. */
static void
file(struct soma_model *model, uint32_t name, uint32_t node_name, uint64_t barrier)
{
	const struct soma__node *node = soma__node_at(&model->index, node_name);
	uint32_t previous = soma__block_at(model, name)->previous, next;

	if (can_join(model, node, barrier, previous)) {
		soma__block_unshelve(model, previous);
		soma__block_erase(model, name);
		name = previous;
	}
	next = soma__block_at(model, name)->next;
	if (can_join(model, node, barrier, next)) {
		soma__block_unshelve(model, next);
		soma__block_erase(model, next);
	}
	shelve(model, name, node_name);
}

static void
file_complete(struct soma_model *model, uint32_t name, uint32_t node_name)
{
	struct soma__node *node = soma__node_at(&model->index, node_name);
	uint32_t segment = soma__block_at(model, name)->segment;

	node->state = SOMA__NODE_COMPLETE;
	node->shelf = soma__segment_at(model, segment)->home & 0xffffffU;
	model->stats.free_block_count++;
	file(model, name, node_name, 0);
}

void
soma__block_complete(struct soma_model *model, uint32_t name)
{
	file_complete(model, name, soma__slab_take(&model->index.nodes));
}

static uint32_t
pending_node(struct soma_model *model, struct soma__stream *stream, uint32_t name, uint64_t position,
	     enum soma__node_state state)
{
	uint32_t node_name = soma__slab_take(&model->index.nodes);
	struct soma__node *node = soma__node_at(&model->index, node_name);
	const struct soma__segment *segment =
		soma__segment_at(model, soma__block_at(model, name)->segment);

	node->state = state;
	node->shelf = soma__own_shelf(model, soma__stream_slot(stream), segment->pool) & 0xffffffU;
	node->position = position & (((uint64_t)1 << 48) - 1);
	soma__pending_link(model, stream, node_name);
	return node_name;
}

void
soma__block_park(struct soma_model *model, struct soma__stream *stream, uint32_t name, uint64_t position)
{
	shelve(model, name, pending_node(model, stream, name, position, SOMA__NODE_PARKED));
}

void
soma__block_pend(struct soma_model *model, struct soma__stream *stream, uint32_t name, uint64_t position)
{
	uint32_t node_name = pending_node(model, stream, name, position, SOMA__NODE_PENDING);

	soma__shelf_at(model, soma__node_at(&model->index, node_name)->shelf)->promised +=
		soma__block_granules(model, soma__block_at(model, name));
	file(model, name, node_name, stream->barrier);
}

uint32_t
soma__block_take(struct soma_model *model, uint32_t node_name, uint64_t granules)
{
	struct soma__node *node = soma__node_at(&model->index, node_name);
	uint32_t name = node->block;
	struct soma__block *block = soma__block_at(model, name);
	struct soma__segment *segment = soma__segment_at(model, block->segment);
	uint64_t address = soma__block_address(block);
	uint64_t left = soma__block_end(model, block) - address - granules;

	unshelve(model, block);
	if (left == 0 || soma__bytes(model, left) < model->policy.pools[segment->pool].split_min) {
		granules += left;
		left = 0;
	}
	if (node->state == SOMA__NODE_COMPLETE)
		model->stats.active += soma__bytes(model, granules);
	else if (node->state == SOMA__NODE_PENDING)
		soma__shelf_at(model, node->shelf)->promised -= granules;
	block->kind = SOMA__BLOCK_LIVE;
	if (left != 0)
		shelve(model, soma__block_insert(model, block->segment, name, address + granules), node_name);
	else
		drop_node(model, node_name);
	return name;
}

void
soma__block_join_run(struct soma_model *model, uint32_t first, uint64_t end, uint32_t latest)
{
	struct soma__shelf *own = soma__shelf_at(model, soma__node_at(&model->index, latest)->shelf);
	uint32_t name = first;

	while (name != 0 && soma__block_address(soma__block_at(model, name)) < end) {
		struct soma__block *block = soma__block_at(model, name);
		uint32_t node = block->node, next = block->next;
		uint64_t granules = soma__block_granules(model, block);

		unshelve(model, block);
		if (soma__node_at(&model->index, node)->state == SOMA__NODE_COMPLETE) {
			model->stats.active += soma__bytes(model, granules);
			own->promised += granules;
		}
		if (node != latest)
			drop_node(model, node);
		if (name != first)
			soma__block_erase(model, name);
		name = next;
	}
	shelve(model, first, latest);
}

void
soma__stream_complete(struct soma_model *model, struct soma__stream *stream)
{
	uint64_t released = soma__released(model, stream);

	while (stream->oldest != 0) {
		uint32_t node_name = stream->oldest;
		struct soma__node *node = soma__node_at(&model->index, node_name);
		uint32_t name = node->block;
		const struct soma__block *block = soma__block_at(model, name);
		uint64_t granules = soma__block_granules(model, block);

		if (node->position >= released)
			break;
		unshelve(model, block);
		soma__pending_unlink(model, stream, node_name);
		if (node->state == SOMA__NODE_PENDING)
			soma__shelf_at(model, node->shelf)->promised -= granules;
		else
			model->unfiled--;
		stream->pending_count--;
		model->stats.pending_free_count--;
		model->stats.active -= soma__bytes(model, granules);
		file_complete(model, name, node_name);
	}
}

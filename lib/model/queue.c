/* SPDX-License-Identifier: Apache-2.0 */
/* Queued frees: see the header.  Nothing here fails.  Not thread-safe, like the model. */
#include "lib/model/queue.h"

#include "lib/model/blocks.h"

static struct soma__queued *
at(const struct soma_model *model, uint32_t number)
{
	return &model->queue[number & (model->queue_slots - 1)];
}

void
soma__queue_push(struct soma_model *model, const struct soma__stream *stream, uint32_t block, uint64_t position)
{
	*at(model, model->queue_tail++) = (struct soma__queued){
		.block = block,
		.slot = (uint32_t)(stream->id & 0xfffff),
		.position = position,
	};
	model->unfiled++;
	__builtin_prefetch(soma__block_at(model, block), 1);
}

void
soma__queue_unsettled(const struct soma_model *model, uint64_t *used, uint64_t *capacity)
{
	*used = *capacity = 0;
	for (uint32_t i = model->queue_settled; i != model->queue_tail; i++) {
		const struct soma__block *block = soma__block_at(model, at(model, i)->block);
		uint64_t bytes = soma__bytes(model, soma__block_granules(model, block));

		*capacity += bytes;
		*used += bytes - block->waste;
	}
}

void
soma__queue_settle(struct soma_model *model)
{
	uint64_t used, capacity;

	soma__queue_unsettled(model, &used, &capacity);
	model->stats.used -= used;
	model->stats.capacity -= capacity;
	model->queue_settled = model->queue_tail;
}

static const struct soma__block *
queued_block(const struct soma_model *model, uint32_t offset)
{
	return soma__block_at(model, at(model, model->queue_head + offset)->block);
}

static void
fetch_node(const struct soma_model *model, uint32_t neighbour)
{
	const struct soma__block *block = soma__block_at(model, neighbour);

	if (neighbour == 0 || soma__block_kind(block) != SOMA__BLOCK_FREE)
		return;
	__builtin_prefetch(soma__node_at(&model->index, block->node), 1);
	__builtin_prefetch(soma__block_at(model, block->next), 1);
}

static void
fetch_lists(const struct soma_model *model, uint32_t neighbour)
{
	const struct soma__block *block = soma__block_at(model, neighbour);
	const struct soma__node *node;

	if (neighbour == 0 || soma__block_kind(block) != SOMA__BLOCK_FREE)
		return;
	node = soma__node_at(&model->index, block->node);
	__builtin_prefetch(soma__node_at(&model->index, node->shelf_previous), 1);
	__builtin_prefetch(soma__node_at(&model->index, node->shelf_next), 1);
	__builtin_prefetch(soma__node_at(&model->index, node->older), 1);
	__builtin_prefetch(soma__node_at(&model->index, node->newer), 1);
}

/* Asks for what filing will touch, in rounds of misses taken together: the neighbours of
 * the blocks, the nodes of those that are free, the nodes beside those on their lists. */
static void
fetch(const struct soma_model *model, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		__builtin_prefetch(soma__block_at(model, queued_block(model, i)->previous), 1);
		__builtin_prefetch(soma__block_at(model, queued_block(model, i)->next), 1);
	}
	for (uint32_t i = 0; i < count; i++) {
		fetch_node(model, queued_block(model, i)->previous);
		fetch_node(model, queued_block(model, i)->next);
	}
	for (uint32_t i = 0; i < count; i++) {
		fetch_lists(model, queued_block(model, i)->previous);
		fetch_lists(model, queued_block(model, i)->next);
	}
}

void
soma__queue_file(struct soma_model *model, uint32_t count)
{
	if (count == 0)
		return;
	if (count > 1)
		fetch(model, count);
	if (model->queue_settled - model->queue_head < count)
		soma__queue_settle(model);
	for (uint32_t i = 0; i < count; i++) {
		const struct soma__queued *free = at(model, model->queue_head++);

		model->unfiled--;
		soma__lookup_remove(&model->lookup, &model->blocks,
				    soma__block_address(soma__block_at(model, free->block)), free->block);
		soma__block_pend(model, model->streams[free->slot], free->block, free->position);
	}
}

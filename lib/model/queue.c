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

/* Asks for the neighbours of the blocks that are about to be filed, then for the nodes
 * of those that are free: two rounds of misses, each taken at once. */
static void
fetch(const struct soma_model *model, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct soma__block *block = soma__block_at(model, at(model, model->queue_head + i)->block);

		__builtin_prefetch(soma__block_at(model, block->previous), 1);
		__builtin_prefetch(soma__block_at(model, block->next), 1);
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct soma__block *block = soma__block_at(model, at(model, model->queue_head + i)->block);
		const struct soma__block *previous = soma__block_at(model, block->previous);
		const struct soma__block *next = soma__block_at(model, block->next);

		if (block->previous != 0 && soma__block_kind(previous) == SOMA__BLOCK_FREE)
			__builtin_prefetch(soma__node_at(&model->index, previous->node), 1);
		if (block->next != 0 && soma__block_kind(next) == SOMA__BLOCK_FREE) {
			__builtin_prefetch(soma__node_at(&model->index, next->node), 1);
			__builtin_prefetch(soma__block_at(model, next->next), 1);
		}
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
		soma__block_pend(model, model->streams[free->slot], free->block, free->position);
	}
}

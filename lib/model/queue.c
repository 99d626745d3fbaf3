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
soma__queue_push(struct soma_model *model, const struct soma__stream *stream, uint32_t block,
		 uint64_t position)
{
	*at(model, model->queue_tail++) = (struct soma__queued){
		.block = block,
		.slot = soma__stream_slot(stream),
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

#define FETCH_MAX 32

/* Asks for what filing will touch, in rounds of misses taken together: the buckets and
 * neighbours of the blocks, the nodes of those that are free, the nodes beside those on their lists.
 * Index 0 stands for what is not there: asking for it costs less than a branch.  (Inline
 * because a call to a function that only fetches has no effect that a compiler knows of:
 * it would be dropped.) */
static HOT void
fetch(const struct soma_model *model, uint32_t count)
{
	uint32_t names[2 * FETCH_MAX];

	for (uint32_t i = 0; i < count; i++) {
		const struct soma__block *block =
			soma__block_at(model, at(model, model->queue_head + i)->block);

		soma__lookup_fetch(&model->lookup, soma__block_address(block));
		names[2 * i] = block->previous;
		names[2 * i + 1] = block->next;
		__builtin_prefetch(soma__block_at(model, block->previous), 1);
		__builtin_prefetch(soma__block_at(model, block->next), 1);
	}
	for (uint32_t i = 0; i < 2 * count; i++) {
		const struct soma__block *block = soma__block_at(model, names[i]);
		bool is_free = soma__block_kind(block) == SOMA__BLOCK_FREE;

		names[i] = is_free ? block->node : 0;
		__builtin_prefetch(soma__node_at(&model->index, names[i]), 1);
		__builtin_prefetch(soma__block_at(model, is_free ? block->next : 0), 1);
	}
	for (uint32_t i = 0; i < 2 * count; i++) {
		const struct soma__node *node = soma__node_at(&model->index, names[i]);

		__builtin_prefetch(soma__node_at(&model->index, node->shelf_previous), 1);
		__builtin_prefetch(soma__node_at(&model->index, node->shelf_next), 1);
		__builtin_prefetch(soma__node_at(&model->index, node->older), 1);
		__builtin_prefetch(soma__node_at(&model->index, node->newer), 1);
	}
}

/* Files the oldest, for which everything was fetched. */
static void
file_oldest(struct soma_model *model)
{
	const struct soma__queued *free = at(model, model->queue_head++);

	model->unfiled--;
	soma__lookup_remove(&model->lookup, &model->blocks,
			    soma__block_address(soma__block_at(model, free->block)), free->block);
	soma__block_pend(model, model->streams[free->slot], free->block, free->position);
}

void
soma__queue_file(struct soma_model *model, uint32_t count)
{
	if (count == 0)
		return;
	if (model->queue_settled - model->queue_head < count)
		soma__queue_settle(model);
	while (count > 0) {
		uint32_t some = count < FETCH_MAX ? count : FETCH_MAX;

		if (some > 1)
			fetch(model, some);
		for (uint32_t i = 0; i < some; i++)
			file_oldest(model);
		count -= some;
	}
}

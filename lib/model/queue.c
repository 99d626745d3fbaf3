/* SPDX-License-Identifier: Apache-2.0 */
/* Queued frees: see the header.  Only creating fails.  Not thread-safe, like the model. */
#include "lib/model/queue.h"

#include "lib/model/keep.h"

_Static_assert(sizeof(struct soma__queued) == 32, "an entry is half a cache line");
_Static_assert(SOMA_POLICY_POOLS_MAX <= 2, "a key has one bit for the size pool");

bool
soma__queue_create(struct soma_model *model)
{
	struct soma__queue *queue = &model->queue;
	uint32_t count = 2;

	while (count < 2 * model->policy.batch)
		count *= 2;
	queue->mask = count - 1;
	queue->shift = 64U - 2U - (unsigned)__builtin_ctz(count);
	queue->ring = soma__arena_calloc(model->arena, count * sizeof *queue->ring, 64);
	queue->latest = soma__arena_calloc(model->arena, (size_t)4 * count * sizeof *queue->latest, 64);
	return queue->ring != NULL && queue->latest != NULL;
}

static void
settle_until(struct soma_model *model, uint32_t number)
{
	struct soma__queue *queue = &model->queue;

	for (; (int32_t)(number - queue->settled) > 0; queue->settled++) {
		const struct soma__block *block =
			soma__block_at(model, soma__queue_at(queue, queue->settled)->block);

		soma__discharge(model, block, soma__sized_granules(model, block));
	}
}

void
soma__queue_settle(struct soma_model *model)
{
	settle_until(model, model->queue.next);
}

static HOT void
offer_next(struct soma_model *model)
{
	struct soma__queue *queue = &model->queue;
	uint32_t number = queue->offered++;
	bool settled = queue->settled != number;

	queue->settled += !settled;
	soma__queue_offer(model, soma__queue_at(queue, number), number, settled);
}

void
soma__queue_offer_all_but(struct soma_model *model, uint32_t lag)
{
	while (model->queue.next - model->queue.offered > lag)
		offer_next(model);
}

enum soma_status
soma__queue_wait(struct soma_model *model)
{
	struct soma__queue *queue = &model->queue;
	uint32_t waiting = queue->next - queue->offered;

	__builtin_prefetch(soma__block_at(model, soma__queue_at(queue, queue->next - 1)->block), 1);
	if (waiting > SOMA__QUEUE_LAG && queue->allocs != model->stats.alloc_count)
		offer_next(model);
	queue->allocs = model->stats.alloc_count;
	return soma__queue_file_if_due(model);
}

enum soma_status
soma__queue_catch_up(struct soma_model *model)
{
	soma__queue_offer_all_but(model, 0);
	return soma__queue_file_if_due(model);
}

enum soma_status
soma__queue_file_batch(struct soma_model *model)
{
	soma__queue_file(model, model->queue.oldest + model->policy.batch);
	return SOMA_STATUS_OK;
}

void
soma__queue_unsettled(const struct soma_model *model, uint64_t *used, uint64_t *capacity)
{
	const struct soma__queue *queue = &model->queue;

	*used = *capacity = 0;
	for (uint32_t number = queue->settled; number != queue->next; number++) {
		const struct soma__block *block = soma__block_at(model, soma__queue_at(queue, number)->block);
		uint64_t bytes = soma__bytes(model, soma__sized_granules(model, block));

		*capacity += bytes;
		*used += bytes - block->waste;
	}
}

bool
soma__queue_grow_lookup(struct soma_model *model)
{
	struct soma__queue *queue = &model->queue;

	if (!soma__lookup_grow(&model->lookup, &model->blocks, model->arena))
		return false;
	for (uint32_t number = queue->oldest; number != queue->next; number++) {
		struct soma__queued *queued = soma__queue_at(queue, number);
		uint64_t address = soma__block_address(soma__block_at(model, queued->block));

		if (queued->key != SOMA__QUEUE_SERVED)
			queued->place = soma__lookup_recall(&model->lookup, &model->blocks, address);
	}
	return true;
}

#define FETCH_MAX 32

/* Asks for what filing will touch, in rounds of misses taken together: the lookup's lines and
 * neighbours of the blocks, the nodes of those that are free, the nodes beside those on their lists.
 * Name 0 stands for what is not there: asking for it costs less than a branch.  (Inline
 * because a call to a function that only fetches has no effect that a compiler knows of:
 * it would be dropped.) */
static HOT void
fetch(const struct soma_model *model, const struct soma__queued *const queued[], uint32_t count)
{
	uint32_t names[2 * FETCH_MAX];

	for (uint32_t i = 0; i < count; i++) {
		const struct soma__block *block = soma__block_at(model, queued[i]->block);

		__builtin_prefetch(soma__lookup_link(&model->lookup, queued[i]->place), 1);
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

static HOT void
file(struct soma_model *model, const struct soma__queued *queued)
{
	struct soma__block *block = soma__block_at(model, queued->block);
	unsigned pool = soma__segment_at(model, soma__block_segment(block))->pool;

	soma__lookup_remove(&model->lookup, queued->place, soma__block_address(block));
	soma__keep_pending(model, model->streams[soma__queued_slot(queued)], pool, queued->block,
			   soma__block_address(block), soma__sized_end(model, block), queued->position, false);
}

void
soma__queue_file(struct soma_model *model, uint32_t until)
{
	struct soma__queue *queue = &model->queue;
	const struct soma__queued *queued[FETCH_MAX];

	if ((int32_t)(until - queue->offered) > 0) {
		settle_until(model, until);
		queue->offered = until;
	}
	while (queue->oldest != until) {
		uint32_t count = 0;

		while (count < FETCH_MAX && queue->oldest != until) {
			queued[count] = soma__queue_at(queue, queue->oldest++);
			count += queued[count]->key != SOMA__QUEUE_SERVED;
		}
		if (count > 1 && !soma__queue_few_live(model))
			fetch(model, queued, count);
		queue->length -= count;
		for (uint32_t i = 0; i < count; i++)
			file(model, queued[i]);
	}
}

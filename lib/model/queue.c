/* SPDX-License-Identifier: Apache-2.0 */
/* Queued frees: see the header.  Only creating fails.  Not thread-safe, like the model. */
#include "lib/model/queue.h"

#include "lib/model/blocks.h"

_Static_assert(sizeof(struct soma__queued) == 32, "an entry is half a cache line");
_Static_assert(2 * SOMA_POLICY_BATCH_MAX < UINT16_MAX, "names of entries are 16 bits");
_Static_assert(SOMA_POLICY_POOLS_MAX <= 2, "a key has one bit for the size pool");

bool
soma__queue_create(struct soma_model *model)
{
	struct soma__queue *queue = &model->queue;
	uint32_t count = 2 * model->policy.batch + 1, heads = 4;

	while (heads < 2 * count)
		heads *= 2;
	queue->shift = 64U - (unsigned)__builtin_ctz(heads);
	queue->entries = soma__arena_calloc(model->arena, count * sizeof *queue->entries, 64);
	queue->heads = soma__arena_calloc(model->arena, heads * sizeof *queue->heads, 64);
	if (queue->entries == NULL || queue->heads == NULL)
		return false;
	for (uint32_t name = count - 1; name > 0; name--) {
		queue->entries[name].newer = queue->spare;
		queue->spare = (uint16_t)name;
	}
	return true;
}

/* Reads the block: its size, for the key, and what leaves the accounts. */
static HOT void
measure(struct soma_model *model, struct soma__queued *entry)
{
	const struct soma__block *block = soma__block_at(model, entry->block);
	uint64_t granules = soma__block_granules(model, block), capacity = soma__bytes(model, granules);

	entry->key = soma__queue_key(
		entry->slot, soma__segment_at(model, soma__block_segment(block))->pool, granules);
	model->stats.capacity -= capacity;
	model->stats.used -= capacity - block->waste;
}

static HOT void
offer(struct soma_model *model, uint16_t name)
{
	struct soma__queued *entry = soma__queue_at(model, name);
	uint16_t *head = soma__queue_head(model, entry->key);

	entry->offered = true;
	entry->chain_previous = 0;
	entry->chain_next = *head;
	soma__queue_at(model, *head)->chain_previous = name;
	*head = name;
}

static void
offer_next_waiting(struct soma_model *model)
{
	struct soma__queue *queue = &model->queue;
	uint16_t name = queue->first_waiting;
	struct soma__queued *entry = soma__queue_at(model, name);

	if (entry->key == 0)
		measure(model, entry);
	queue->first_waiting = entry->newer;
	queue->waiting--;
	offer(model, name);
}

/* The newest entry waits; others may have waited long enough. */
static __attribute__((noinline)) void
wait_and_offer(struct soma_model *model, uint16_t name, bool few)
{
	struct soma__queue *queue = &model->queue;

	if (queue->first_waiting == 0)
		queue->first_waiting = name;
	queue->waiting++;
	if (few) {
		while (queue->waiting > 0)
			offer_next_waiting(model);
		queue->asked = 0;
		return;
	}
	__builtin_prefetch(soma__block_at(model, soma__queue_at(model, name)->block), 1);
	if (queue->asked == 0)
		queue->asked = name;
	if (queue->waiting > SOMA__QUEUE_LAG / 2) {
		const struct soma__queued *half = soma__queue_at(model, queue->asked);

		__builtin_prefetch(soma__block_at(model, soma__block_at(model, half->block)->next), 1);
		queue->asked = half->newer;
	}
	if (queue->waiting > SOMA__QUEUE_LAG)
		offer_next_waiting(model);
}

void
soma__queue_push(struct soma_model *model, const struct soma__stream *stream, uint32_t block,
		 uint64_t position)
{
	struct soma__queue *queue = &model->queue;
	uint16_t name = queue->spare;
	struct soma__queued *entry = soma__queue_at(model, name);
	bool few = model->stats.live_count - 1 <= model->policy.batch_above;

	queue->spare = entry->newer;
	*entry = (struct soma__queued){ .block = block,
					.slot = soma__stream_slot(stream),
					.position = position & (((uint64_t)1 << 48) - 1),
					.older = queue->newest };
	if (queue->newest != 0)
		soma__queue_at(model, queue->newest)->newer = name;
	else
		queue->oldest = name;
	queue->newest = name;
	queue->length++;
	model->unfiled++;
	if (few && queue->waiting == 0) {
		measure(model, entry);
		offer(model, name);
	} else {
		wait_and_offer(model, name, few);
	}
}

void
soma__queue_unsettled(const struct soma_model *model, uint64_t *used, uint64_t *capacity)
{
	*used = *capacity = 0;
	for (uint32_t name = model->queue.first_waiting; name != 0; name = soma__queue_at(model, name)->newer) {
		const struct soma__queued *entry = soma__queue_at(model, name);
		const struct soma__block *block = soma__block_at(model, entry->block);
		uint64_t bytes = soma__bytes(model, soma__block_granules(model, block));

		if (entry->key != 0)
			continue;
		*capacity += bytes;
		*used += bytes - block->waste;
	}
}

void
soma__queue_settle(struct soma_model *model)
{
	for (uint32_t name = model->queue.first_waiting; name != 0; name = soma__queue_at(model, name)->newer) {
		struct soma__queued *entry = soma__queue_at(model, name);

		if (entry->key == 0)
			measure(model, entry);
	}
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
	uint32_t names[2 * FETCH_MAX], entry = model->queue.oldest;

	for (uint32_t i = 0; i < count; i++, entry = soma__queue_at(model, entry)->newer) {
		const struct soma__block *block = soma__block_at(model, soma__queue_at(model, entry)->block);

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

static void
file_oldest(struct soma_model *model)
{
	uint32_t name = model->queue.oldest;
	struct soma__queued *entry = soma__queue_at(model, name);

	if (entry->key == 0)
		measure(model, entry);
	soma__queue_remove(model, name);
	soma__lookup_remove(&model->lookup, &model->blocks,
			    soma__block_address(soma__block_at(model, entry->block)), entry->block);
	soma__block_pend(model, model->streams[entry->slot], entry->block, entry->position);
}

void
soma__queue_file(struct soma_model *model, uint32_t count)
{
	while (count > 0) {
		uint32_t some = count < FETCH_MAX ? count : FETCH_MAX;

		if (some > 1 && model->stats.live_count > model->policy.batch_above)
			fetch(model, some);
		for (uint32_t i = 0; i < some; i++)
			file_oldest(model);
		count -= some;
	}
}

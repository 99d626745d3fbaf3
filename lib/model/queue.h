/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of freed blocks that are not filed yet (HACKING, "Queue").
 *
 * A program frees and allocates the same sizes again and again: a block that is still
 * in the queue serves a request of its very size without being joined with its
 * neighbours and split from them again.  The others are filed in batches, when every
 * record that filing touches was asked for and is here: past some number of blocks each
 * would be a cache miss.  A free itself touches only the pointer lookup's bucket then;
 * even its accounts are settled a few frees later, and readers subtract what is not
 * settled yet.
 *
 * Entries are in a list by age, and once they are offered in a hash table by stream,
 * size pool and size.
 */
#ifndef SOMA_LIB_MODEL_QUEUE_H
#define SOMA_LIB_MODEL_QUEUE_H

#include "lib/model/state.h"

/* With more than policy.batch_above blocks live, so many more frees come before one is
 * offered: by then its records are here.  Its neighbour is asked for at half of that. */
#define SOMA__QUEUE_LAG 8

bool soma__queue_create(struct soma_model *model);

static inline bool
soma__queue_exists(const struct soma_model *model)
{
	return model->queue.entries != NULL;
}

static inline uint32_t
soma__queue_length(const struct soma_model *model)
{
	return model->queue.length;
}

static inline struct soma__queued *
soma__queue_at(const struct soma_model *model, uint32_t name)
{
	return &model->queue.entries[name];
}

/* What an entry is found by; not 0, since no block is empty. */
static inline uint64_t
soma__queue_key(uint32_t slot, unsigned pool, uint64_t granules)
{
	return (uint64_t)slot << (SOMA__ADDRESS_BITS + 1) | (uint64_t)pool << SOMA__ADDRESS_BITS | granules;
}

static inline uint16_t *
soma__queue_head(const struct soma_model *model, uint64_t key)
{
	return &model->queue.heads[key * UINT64_C(0x9e3779b97f4a7c15) >> model->queue.shift];
}

/* Takes an entry out of the queue. */
static HOT void
soma__queue_remove(struct soma_model *model, uint32_t name)
{
	struct soma__queue *queue = &model->queue;
	struct soma__queued *entry = soma__queue_at(model, name);

	if (entry->offered) {
		if (entry->chain_previous != 0)
			soma__queue_at(model, entry->chain_previous)->chain_next = entry->chain_next;
		else
			*soma__queue_head(model, entry->key) = entry->chain_next;
		/* Entry 0 is nobody's: writing to it costs less than asking. */
		soma__queue_at(model, entry->chain_next)->chain_previous = entry->chain_previous;
	} else {
		queue->waiting--;
		if (queue->first_waiting == name)
			queue->first_waiting = entry->newer;
		if (queue->asked == name)
			queue->asked = entry->newer;
	}
	if (entry->older != 0)
		soma__queue_at(model, entry->older)->newer = entry->newer;
	else
		queue->oldest = entry->newer;
	if (entry->newer != 0)
		soma__queue_at(model, entry->newer)->older = entry->older;
	else
		queue->newest = entry->older;
	entry->newer = queue->spare;
	queue->spare = (uint16_t)name;
	queue->length--;
	model->unfiled--;
}

/* The latest queued free of the stream that is offered and has this very size: its entry, or 0. */
static HOT uint32_t
soma__queue_find(const struct soma_model *model, const struct soma__stream *stream, unsigned pool,
		 uint64_t granules)
{
	uint64_t key = soma__queue_key(soma__stream_slot(stream), pool, granules);
	uint32_t name = *soma__queue_head(model, key);

	while (name != 0 && soma__queue_at(model, name)->key != key)
		name = soma__queue_at(model, name)->chain_next;
	return name;
}

/* Takes that block out again, for an allocation; 0 if there is none. */
static HOT uint32_t
soma__queue_take(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules)
{
	uint32_t name;

	if (soma__queue_length(model) == 0)
		return 0;
	name = soma__queue_find(model, stream, pool, granules);
	if (name == 0)
		return 0;
	soma__queue_remove(model, name);
	stream->pending_count--;
	model->stats.pending_free_count--;
	return soma__queue_at(model, name)->block;
}

/* The nodes and trees that filing needs must have been reserved. */
void soma__queue_push(struct soma_model *model, const struct soma__stream *stream, uint32_t block,
		      uint64_t position);

/* Files the `count` oldest. */
void soma__queue_file(struct soma_model *model, uint32_t count);

static inline void
soma__queue_file_all(struct soma_model *model)
{
	soma__queue_file(model, soma__queue_length(model));
}

/* Brings stats.used and stats.capacity up to date. */
void soma__queue_settle(struct soma_model *model);

/* What settling would subtract. */
void soma__queue_unsettled(const struct soma_model *model, uint64_t *used, uint64_t *capacity);

#endif

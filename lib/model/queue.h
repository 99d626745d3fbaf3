/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of freed blocks that are not filed yet (HACKING, "Queue").
 *
 * A program frees and allocates the same sizes again and again: a block that is still
 * in the queue serves a request of its very size without being joined with its
 * neighbours and split from them again.  The others are filed in batches, when every
 * record that filing touches was asked for and is here: past some number of blocks each
 * would be a cache miss.  A free itself touches only the pointer lookup's line then;
 * even its accounts are settled a few frees later, and readers subtract what is not
 * settled yet.
 *
 * The queue is a ring in which frees keep the place of their number.  Those offered are
 * found by a hash of stream, size pool and size: of each hash the latest, and from each
 * the one before it.  What is filed leaves at the old end, where such a chain ends, and
 * so nothing has to be taken out of the chains for it: a number that does not wait any
 * more is their end.
 */
#ifndef SOMA_LIB_MODEL_QUEUE_H
#define SOMA_LIB_MODEL_QUEUE_H

#include "lib/model/state.h"

/* With more than policy.batch_above blocks live, so many more frees come before one is
 * offered: by then its record is here. */
#define SOMA__QUEUE_LAG 8

bool soma__queue_create(struct soma_model *model);

static inline bool
soma__queue_exists(const struct soma_model *model)
{
	return model->queue.ring != NULL;
}

static HOT struct soma__queued *
soma__queue_at(const struct soma__queue *queue, uint32_t number)
{
	return &queue->ring[number & queue->mask];
}

/* What an entry is found by: the stream's part, and all of it. */
static HOT uint64_t
soma__queue_stream_key(uint32_t slot)
{
	return (uint64_t)slot << (SOMA__ADDRESS_BITS + 1);
}

static HOT uint64_t
soma__queue_key(uint64_t stream_key, unsigned pool, uint64_t granules)
{
	return stream_key | (uint64_t)pool << SOMA__ADDRESS_BITS | granules;
}

#define SOMA__QUEUE_SERVED UINT64_MAX /* in place of a key: the block is live again */

static HOT uint32_t
soma__queued_slot(const struct soma__queued *queued)
{
	return (uint32_t)(queued->key >> (SOMA__ADDRESS_BITS + 1));
}

static HOT uint32_t *
soma__queue_latest(const struct soma__queue *queue, uint64_t key)
{
	return &queue->latest[key * UINT64_C(0x9e3779b97f4a7c15) >> queue->shift];
}

/* The latest queued free of the stream that is offered and whose block has this very size, for an
 * allocation; NULL if there is none. */
static HOT const struct soma__queued *
soma__queue_take(struct soma__queue *queue, const struct soma__stream *stream, unsigned pool,
		 uint64_t granules)
{
	uint64_t key = soma__queue_key(stream->queue_key, pool, granules);
	uint32_t before = queue->next - queue->oldest, *link = soma__queue_latest(queue, key);

	/* Each is before the one that names it, or is the number of a free long gone. */
	for (uint32_t age; (age = *link - queue->oldest) < before; before = age) {
		struct soma__queued *queued = soma__queue_at(queue, *link);

		if (queued->key == key) {
			*link = queued->earlier;
			queued->key = SOMA__QUEUE_SERVED;
			queue->length--;
			return queued;
		}
		link = &queued->earlier;
	}
	return NULL;
}

static HOT bool
soma__queue_few_live(const struct soma_model *model)
{
	return model->stats.live_count <= model->policy.batch_above;
}

/* Reads the block, and has it found by what it is; `settled`: it left the accounts before. */
static HOT void
soma__queue_offer(struct soma_model *model, struct soma__queued *queued, uint32_t number, bool settled)
{
	const struct soma__block *block = soma__block_at(model, queued->block);
	uint64_t granules = soma__sized_granules(model, block);
	unsigned pool = soma__segment_at(model, soma__block_segment(block))->pool;
	uint64_t key = soma__queue_key(queued->key, pool, granules);
	uint32_t *latest = soma__queue_latest(&model->queue, key);

	queued->key = key;
	queued->earlier = *latest;
	*latest = number;
	if (!settled)
		soma__discharge(model, block, granules);
}

/* Offers what is to be offered, but the last `lag`. */
void soma__queue_offer_all_but(struct soma_model *model, uint32_t lag);

/* Before the queue is searched: of many frees in a row, with many blocks live, none is offered until
 * then, and those that are filed before anybody asks for one not at all. */
static HOT void
soma__queue_offer_due(struct soma_model *model)
{
	if (model->queue.next - model->queue.offered > SOMA__QUEUE_LAG)
		soma__queue_offer_all_but(model, SOMA__QUEUE_LAG);
}

/* What follows when the latest free is not to be offered at once, or others before it are to be,
 * too; and when a batch is due.  These return OK. */
enum soma_status soma__queue_wait(struct soma_model *model);
enum soma_status soma__queue_catch_up(struct soma_model *model);
enum soma_status soma__queue_file_batch(struct soma_model *model);

static HOT enum soma_status
soma__queue_file_if_due(struct soma_model *model)
{
	const struct soma__queue *queue = &model->queue;

	return queue->next - queue->oldest == 2 * model->policy.batch ? soma__queue_file_batch(model)
								      : SOMA_STATUS_OK;
}

/* The block of a link in the pointer lookup was freed.  The nodes and trees that filing
 * needs must have been reserved.  Returns OK. */
static HOT enum soma_status
soma__queue_push(struct soma_model *model, const struct soma__stream *stream, uint32_t *link,
		 uint64_t position)
{
	struct soma__queue *queue = &model->queue;
	uint32_t number = queue->next++;
	struct soma__queued *queued = soma__queue_at(queue, number);

	queued->block = *link;
	queued->place = soma__lookup_place(&model->lookup, link);
	queued->key = stream->queue_key;
	queued->position = position;
	*link |= SOMA__LINK_FREED;
	queue->length++;
	if (!soma__queue_few_live(model))
		return soma__queue_wait(model);
	if (queue->offered != number)
		return soma__queue_catch_up(model);
	soma__queue_offer(model, queued, number, false);
	queue->offered = queue->settled = number + 1;
	return soma__queue_file_if_due(model);
}

/* Files the oldest, up to this number. */
void soma__queue_file(struct soma_model *model, uint32_t until);

static inline void
soma__queue_file_all(struct soma_model *model)
{
	soma__queue_file(model, model->queue.next);
}

/* Makes sure that one more entry fits into the pointer lookup: queued frees know the places of theirs. */
bool soma__queue_grow_lookup(struct soma_model *model);

static HOT bool
soma__queue_reserve_entry(struct soma_model *model)
{
	return model->lookup.used < model->lookup.grow_at || soma__queue_grow_lookup(model);
}

/* Brings stats.used and stats.capacity up to date. */
void soma__queue_settle(struct soma_model *model);

/* What settling would subtract. */
void soma__queue_unsettled(const struct soma_model *model, uint64_t *used, uint64_t *capacity);

#endif

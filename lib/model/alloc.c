/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points that every allocation and free goes through.  Records are reserved
 * before anything changes; a host allocation is made only when they run out.
 */
#include <soma/model.h>

#include "lib/base/error.h"
#include "lib/model/blocks.h"
#include "lib/model/clock.h"
#include "lib/model/keep.h"
#include "lib/model/place.h"
#include "lib/model/queue.h"
#include "lib/model/range.h"
#include "lib/model/state.h"

static unsigned
pool_of(const struct soma_model *model, uint64_t bytes)
{
	unsigned pool = 0;

	while (bytes > model->policy.pools[pool].request_max)
		pool++;
	return pool;
}

static enum soma_status
out_of_device_memory(const struct soma_model *model, uint64_t size)
{
	uint64_t limit = model->max_pool_size, reserved = model->stats.reserved;
	uint64_t remaining = limit > reserved ? limit - reserved : 0;

	soma__fail_sizes(OUT_OF_DEVICE_MEMORY, "%s do not fit: %s reserved, %s left of %s", size, reserved,
			 remaining, limit);
	soma__error_sizes(size, reserved, remaining, limit);
	return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
}

static HOT uint64_t
granules_of(const struct soma_model *model, uint64_t size)
{
	return (size + (model->policy.alignment - 1)) >> model->granule_shift;
}

static __attribute__((noinline)) enum soma_status
raise_used_high(struct soma_model *model)
{
	struct soma_model_stats *stats = &model->stats;

	soma__queue_settle(model);
	if (stats->used > stats->used_high)
		stats->used_high = stats->used;
	return SOMA_STATUS_OK;
}

/* The block of so many granules became the allocation: counts it and takes its position. */
static HOT enum soma_status
commit(struct soma_model *model, struct soma__stream *stream, uint64_t size, struct soma__block *block,
       uint64_t granules, struct soma_model_alloc *alloc)
{
	struct soma_model_stats *stats = &model->stats;
	uint64_t capacity = soma__bytes(model, granules);

	block->waste = (uint32_t)(capacity - size);
	stats->used += size;
	stats->capacity += capacity;
	stats->live_count++;
	stats->alloc_count++;
	alloc->ptr = soma__bytes(model, soma__block_address(block));
	alloc->size = size;
	alloc->capacity = capacity;
	alloc->stream = stream->id;
	alloc->ready_seq = stream->submitted++;
	return __builtin_expect(stats->used > stats->used_high, 0) ? raise_used_high(model) : SOMA_STATUS_OK;
}

/* The lookup still knows it as freed. */
static HOT enum soma_status
commit_queued(struct soma_model *model, struct soma__stream *stream, uint64_t size,
	      const struct soma__queued *queued, struct soma_model_alloc *alloc)
{
	struct soma__block *block = soma__block_at(model, queued->block);

	*soma__lookup_link(&model->lookup, queued->place) = queued->block;
	alloc->wait_stream = alloc->wait_seq = 0;
	return commit(model, stream, size, block, soma__sized_granules(model, block), alloc);
}

static HOT enum soma_status
commit_placed(struct soma_model *model, struct soma__stream *stream, uint64_t size, uint32_t name,
	      struct soma_model_alloc *alloc)
{
	struct soma_model_stats *stats = &model->stats;
	struct soma__block *block = soma__block_at(model, name);
	uint64_t granules = soma__block_granules(model, block);

	soma__lookup_put(&model->lookup, soma__block_address(block), name);
	soma__block_set_size(block, granules);
	if (stats->active > stats->peak_active)
		stats->peak_active = stats->active;
	return commit(model, stream, size, block, granules, alloc);
}

/* No block was found for it. */
static __attribute__((noinline)) enum soma_status
refuse(const struct soma_model *model, uint64_t size, enum soma_status status)
{
	if (status != SOMA_STATUS_OUT_OF_DEVICE_MEMORY)
		return status;
	return model->refusal == SOMA_STATUS_OUT_OF_DEVICE_MEMORY ? out_of_device_memory(model, size)
								  : model->refusal;
}

static HOT bool
reserve(struct soma_model *model)
{
	return soma__blocks_reserve(model) && soma__queue_reserve_entry(model);
}

static __attribute__((noinline)) enum soma_status
alloc_elsewhere(struct soma_model *model, struct soma__stream *stream, uint64_t size,
		struct soma_model_alloc *alloc)
{
	struct soma__placement placement = { 0 };
	uint64_t granules = granules_of(model, size);
	unsigned pool = pool_of(model, soma__bytes(model, granules));
	enum soma_status status = soma__place_elsewhere(model, stream, pool, granules, &placement);

	if (status != SOMA_STATUS_OK)
		return refuse(model, size, status);
	if (placement.wait_seq != 0) {
		stream->submitted++;
		model->stats.wait_count++;
	}
	alloc->wait_stream = placement.wait_stream;
	alloc->wait_seq = placement.wait_seq;
	return commit_placed(model, stream, size, placement.block, alloc);
}

/* What the queue does not have. */
static __attribute__((noinline)) enum soma_status
alloc_placed(struct soma_model *model, struct soma__stream *stream, uint64_t size,
	     struct soma_model_alloc *alloc)
{
	uint64_t granules = granules_of(model, size);
	unsigned pool = pool_of(model, soma__bytes(model, granules));
	uint32_t name;

	if (!reserve(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	name = soma__range_only_grows(model) ? soma__range_take_hole(model, granules)
					     : soma__place_shelved(model, stream, pool, granules);
	if (name == 0)
		return alloc_elsewhere(model, stream, size, alloc);
	alloc->wait_stream = alloc->wait_seq = 0;
	return commit_placed(model, stream, size, name, alloc);
}

static HOT const struct soma__queued *
take_queued(struct soma_model *model, const struct soma__stream *stream, uint64_t size)
{
	uint64_t granules = granules_of(model, size);

	if (model->queue.length == 0)
		return NULL;
	soma__queue_offer_due(model);
	return soma__queue_take(&model->queue, stream, pool_of(model, soma__bytes(model, granules)),
				granules);
}

/* On a stream of the legacy order, which it joins; not if the allocation fails. */
static enum soma_status
alloc_ordered(struct soma_model *model, struct soma__stream *stream, uint64_t size,
	      struct soma_model_alloc *alloc)
{
	const struct soma__queued *queued;
	enum soma_status status;
	uint32_t joins;

	if (!soma__clock_reserve_legacy(model, stream))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	joins = stream->clock.join_count;
	soma__clock_join_legacy(model, stream);
	joins = stream->clock.join_count - joins;
	queued = take_queued(model, stream, size);
	status = queued != NULL ? commit_queued(model, stream, size, queued, alloc)
				: alloc_placed(model, stream, size, alloc);
	if (status == SOMA_STATUS_OK)
		soma__clock_submit_ordered(model, stream);
	else
		soma__clock_undo(stream, joins);
	return status;
}

/* All but the ordinary case. */
static __attribute__((noinline)) enum soma_status
alloc_otherwise(struct soma_model *model, uint64_t size, uint64_t id, struct soma_model_alloc *alloc)
{
	struct soma__stream *stream;
	enum soma_status status;

	if (size == 0)
		return soma__fail(INVALID_VALUE, "an allocation of 0 bytes");
	status = soma__stream_accepting(model, id, &stream);
	if (status != SOMA_STATUS_OK)
		return status;
	if (size > SOMA_MODEL_ADDRESS_MAX)
		return out_of_device_memory(model, size);
	return alloc_ordered(model, stream, size, alloc);
}

enum soma_status
soma_model_alloc(struct soma_model *model, uint64_t size, uint64_t id, struct soma_model_alloc *alloc)
{
	struct soma__stream *stream = soma__stream_taking(model, id);
	const struct soma__queued *queued;

	if (__builtin_expect(size - 1 >= SOMA_MODEL_ADDRESS_MAX || stream == NULL || stream->ordered, 0))
		return alloc_otherwise(model, size, id, alloc);
	queued = take_queued(model, stream, size);
	if (queued == NULL)
		return alloc_placed(model, stream, size, alloc);
	return commit_queued(model, stream, size, queued, alloc);
}

static __attribute__((noinline)) bool
make_own_shelves(struct soma_model *model, struct soma__stream *stream, uint64_t granules)
{
	uint64_t least = UINT64_MAX >> model->granule_shift;

	for (unsigned pool = 0; pool < model->policy.pool_count; pool++) {
		if (!soma__shelf_make(model, soma__own_shelf(model, soma__stream_slot(stream), pool),
				      granules))
			return false;
		if (soma__shelf_limit(stream->own[pool]) < least)
			least = soma__shelf_limit(stream->own[pool]);
	}
	stream->shelved = soma__bytes(model, least);
	return true;
}

/* Room on the own shelves for whatever a block may join there: no more than is reserved. */
static HOT bool
reserve_own_shelves(struct soma_model *model, struct soma__stream *stream)
{
	return model->stats.reserved < stream->shelved ||
	       make_own_shelves(model, stream, model->stats.reserved >> model->granule_shift);
}

/* The granule that the pointer is in; for one out of range, any. */
static HOT uint64_t
granule_of(const struct soma_model *model, uint64_t ptr)
{
	return ptr >> model->granule_shift & (((uint64_t)1 << SOMA__ADDRESS_BITS) - 1);
}

static HOT bool
begins_at(const struct soma_model *model, uint64_t granule, uint64_t ptr)
{
	return granule << model->granule_shift == ptr;
}

/* The link, in the pointer lookup, of the live block at this pointer, or NULL. */
static uint32_t *
find_live(const struct soma_model *model, uint64_t ptr)
{
	uint64_t granule = granule_of(model, ptr);

	if (!begins_at(model, granule, ptr))
		return NULL;
	return soma__lookup_live(&model->lookup, &model->blocks, granule);
}

static HOT void
count_free(struct soma_model *model)
{
	model->stats.live_count--;
	model->stats.free_count++;
}

/* The allocation with this link leaves the accounts and the lookup; its block, as it was. */
static HOT const struct soma__block *
end_allocation(struct soma_model *model, const uint32_t *link)
{
	const struct soma__block *block = soma__block_at(model, *link);

	soma__discharge(model, block, soma__sized_granules(model, block));
	soma__lookup_remove(&model->lookup, soma__lookup_place(&model->lookup, link),
			    soma__block_address(block));
	return block;
}

/* Without a queue. */
static void
free_now(struct soma_model *model, struct soma__stream *stream, const uint32_t *link)
{
	uint32_t name = *link;
	const struct soma__block *block = end_allocation(model, link);
	const struct soma__segment *segment = soma__segment_at(model, soma__block_segment(block));
	uint64_t address = soma__block_address(block), end = soma__sized_end(model, block);
	bool same = (model->policy.reuse & SOMA_REUSE_SAME_STREAM) != 0;
	uint64_t position = stream->submitted++;

	if (same && !model->policy.per_stream) {
		soma__keep_pending(model, stream, segment->pool, name, address, end, position, false);
	} else if (same && segment->stream == stream->id) {
		model->stats.active -= soma__bytes(model, end - address);
		soma__block_complete(model, name);
	} else {
		stream->pending_count++;
		model->stats.pending_free_count++;
		model->parked++;
		soma__pending_park(model, stream, name, position);
	}
}

/* The stream's shelf if the block ends where the open block of that begins, and can join it. */
static HOT struct soma__shelf *
shelf_open_behind(const struct soma_model *model, const struct soma__stream *stream,
		  const struct soma__block *block)
{
	struct soma__shelf *own = stream->own[soma__segment_at(model, soma__block_segment(block))->pool];
	const struct soma__node *open = soma__node_at(&model->index, own->open);

	return own->open != 0 && open->block == block->next && open->position >= stream->barrier ? own : NULL;
}

/* The shelf with the open block that the freed one joins at once: HACKING, "Queue". */
static HOT struct soma__shelf *
shelf_without_queue(const struct soma_model *model, const struct soma__stream *stream, uint32_t name)
{
	if (model->queue.next != model->queue.oldest || !soma__queue_few_live(model))
		return NULL;
	return shelf_open_behind(model, stream, soma__block_at(model, name));
}

static __attribute__((noinline)) enum soma_status
free_before_open(struct soma_model *model, struct soma__stream *stream, struct soma__shelf *shelf,
		 const uint32_t *link)
{
	uint32_t name = *link;
	const struct soma__block *block = end_allocation(model, link);
	uint64_t address = soma__block_address(block), end = soma__sized_end(model, block);
	uint64_t position = stream->submitted++;
	unsigned pool = soma__segment_at(model, soma__block_segment(block))->pool;

	if (soma__shelf_has_aside(shelf, shelf->open) && !soma__is_free(model, block->previous))
		soma__keep_give_back(model, stream, shelf, name, position);
	else
		soma__keep_pending(model, stream, pool, name, address, end, position, true);
	return SOMA_STATUS_OK;
}

/* With a queue. */
static HOT enum soma_status
free_queued(struct soma_model *model, struct soma__stream *stream, uint32_t *link)
{
	struct soma__shelf *shelf = shelf_without_queue(model, stream, *link);

	if (shelf != NULL)
		return free_before_open(model, stream, shelf, link);
	return soma__queue_push(model, stream, link, stream->submitted++);
}

/* What the free of a live block needs; nothing fails after it. */
static bool
reserve_free(struct soma_model *model, struct soma__stream *stream)
{
	bool shelved = (model->policy.reuse & SOMA_REUSE_SAME_STREAM) != 0 && !model->policy.per_stream;

	return soma__blocks_reserve(model) && (!shelved || reserve_own_shelves(model, stream)) &&
	       (!stream->ordered || soma__clock_reserve_legacy(model, stream));
}

/* A live block, in whatever state the model is. */
static __attribute__((noinline)) enum soma_status
free_found(struct soma_model *model, struct soma__stream *stream, uint32_t *link)
{
	if (!reserve_free(model, stream))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (stream->ordered) {
		soma__clock_join_legacy(model, stream);
		soma__clock_submit_ordered(model, stream);
	}
	count_free(model);
	if (soma__queue_exists(model))
		return free_queued(model, stream, link);
	free_now(model, stream, link);
	return SOMA_STATUS_OK;
}

/* What was not found at first sight. */
static __attribute__((noinline)) enum soma_status
free_searched(struct soma_model *model, uint64_t ptr, uint64_t id)
{
	struct soma__stream *stream;
	enum soma_status status;
	uint32_t *link;

	if (ptr == 0)
		return SOMA_STATUS_OK;
	status = soma__stream_accepting(model, id, &stream);
	if (status != SOMA_STATUS_OK)
		return status;
	link = find_live(model, ptr);
	if (link == NULL)
		return soma__fail(INVALID_VALUE, "0x%" PRIx64 " is not the address of a live block", ptr);
	return free_found(model, stream, link);
}

enum soma_status
soma_model_free(struct soma_model *model, uint64_t ptr, uint64_t id)
{
	struct soma__stream *stream = soma__stream_taking(model, id);
	uint64_t granule = granule_of(model, ptr);
	uint32_t *link;

	if (__builtin_expect(stream == NULL, 0))
		return free_searched(model, ptr, id);
	link = soma__lookup_first(&model->lookup, &model->blocks, granule);
	if (__builtin_expect(link == NULL || !begins_at(model, granule, ptr), 0))
		return free_searched(model, ptr, id);
	if (__builtin_expect(stream->ordered || model->stats.reserved >= stream->shelved ||
				     model->headroom == 0 || !soma__queue_exists(model),
			     0))
		return free_found(model, stream, link);
	model->headroom--;
	count_free(model);
	return free_queued(model, stream, link);
}

bool
soma_model_is_live(const struct soma_model *model, uint64_t ptr)
{
	return find_live(model, ptr) != NULL;
}

bool
soma_model_is_ready_same_stream(const struct soma_model *model, const struct soma_model_alloc *alloc)
{
	const struct soma__stream *stream = soma__stream_find(model, alloc->stream);

	if (stream == NULL)
		return soma__stream_is_gone(model, alloc->stream);
	return stream->executed > alloc->ready_seq;
}

bool
soma_model_is_ready_cross_stream(const struct soma_model *model, const struct soma_model_alloc *alloc,
				 uint64_t consumer, uint64_t wait_seq)
{
	if (consumer == alloc->stream)
		return soma_model_is_ready_same_stream(model, alloc);
	return wait_seq > alloc->ready_seq;
}

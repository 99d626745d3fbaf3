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

/* The placement became an allocation: marks it, counts it and takes its positions. */
static HOT void
commit(struct soma_model *model, struct soma__stream *stream, uint64_t size,
       const struct soma__placement *placement, struct soma_model_alloc *alloc)
{
	struct soma_model_stats *stats = &model->stats;
	struct soma__block *block = soma__block_at(model, placement->block);
	uint64_t address = soma__block_address(block);
	uint64_t capacity = soma__bytes(model, soma__block_end(model, block) - address);

	if (placement->queued)
		*soma__lookup_link(&model->lookup, &model->blocks, address) = placement->block;
	else
		soma__lookup_put(&model->lookup, block, address, placement->block);
	block->waste = (uint32_t)(capacity - size);
	stats->used += size;
	stats->capacity += capacity;
	stats->live_count++;
	stats->alloc_count++;
	if (stats->used > stats->used_high) {
		soma__queue_settle(model);
		if (stats->used > stats->used_high)
			stats->used_high = stats->used;
	}
	if (stats->active > stats->peak_active)
		stats->peak_active = stats->active;
	if (placement->wait_seq != 0) {
		soma__clock_submit(model, stream);
		stats->wait_count++;
	}
	*alloc = (struct soma_model_alloc){
		.ptr = soma__bytes(model, address),
		.size = size,
		.capacity = capacity,
		.stream = stream->id,
		.ready_seq = soma__clock_submit(model, stream),
		.wait_stream = placement->wait_stream,
		.wait_seq = placement->wait_seq,
	};
}

static HOT enum soma_status
place_ordered(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules,
	      struct soma__placement *placement)
{
	placement->block = soma__queue_take(model, stream, pool, granules);
	placement->queued = placement->block != 0;
	if (placement->queued)
		return SOMA_STATUS_OK;
	return soma__place(model, stream, pool, granules, placement);
}

static HOT enum soma_status
place(struct soma_model *model, struct soma__stream *stream, uint64_t size, struct soma__placement *placement)
{
	uint64_t granules = (size + (model->policy.alignment - 1)) >> model->granule_shift;
	unsigned pool = pool_of(model, soma__bytes(model, granules));
	uint32_t joins;
	enum soma_status status;

	if (!stream->ordered)
		return place_ordered(model, stream, pool, granules, placement);
	if (!soma__clock_reserve_legacy(model, stream))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	joins = stream->clock.join_count;
	soma__clock_join_legacy(model, stream);
	joins = stream->clock.join_count - joins;
	status = place_ordered(model, stream, pool, granules, placement);
	if (status != SOMA_STATUS_OK)
		soma__clock_undo(stream, joins);
	return status;
}

enum soma_status
soma_model_alloc(struct soma_model *model, uint64_t size, uint64_t id, struct soma_model_alloc *alloc)
{
	struct soma__placement placement = { 0 };
	struct soma__stream *stream;
	enum soma_status status;

	if (size == 0)
		return soma__fail(INVALID_VALUE, "an allocation of 0 bytes");
	status = soma__stream_accepting(model, id, &stream);
	if (status != SOMA_STATUS_OK)
		return status;
	if (size > SOMA_MODEL_ADDRESS_MAX)
		return out_of_device_memory(model, size);
	if (!soma__blocks_reserve(model) ||
	    !soma__lookup_reserve(&model->lookup, &model->blocks, model->arena))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = place(model, stream, size, &placement);
	if (status == SOMA_STATUS_OK) {
		commit(model, stream, size, &placement, alloc);
		return SOMA_STATUS_OK;
	}
	if (status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY && model->refusal == SOMA_STATUS_OUT_OF_DEVICE_MEMORY)
		return out_of_device_memory(model, size);
	return status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY ? model->refusal : status;
}

/* The link in the pointer lookup that names the live block at this pointer; NULL if there is none. */
static HOT uint32_t *
find_live(const struct soma_model *model, uint64_t ptr)
{
	if (ptr >= SOMA_MODEL_ADDRESS_MAX || (ptr & (model->policy.alignment - 1)) != 0)
		return NULL;
	return soma__lookup_live(&model->lookup, &model->blocks, ptr >> model->granule_shift);
}

static void
charge_free(struct soma_model *model, const struct soma__block *block, uint64_t granules)
{
	uint64_t capacity = soma__bytes(model, granules);

	model->stats.capacity -= capacity;
	model->stats.used -= capacity - block->waste;
}

static __attribute__((noinline)) bool
make_own_shelves(struct soma_model *model, struct soma__stream *stream, uint64_t granules)
{
	uint64_t least = UINT64_MAX;

	for (unsigned pool = 0; pool < model->policy.pool_count; pool++) {
		if (!soma__shelf_make(model, soma__own_shelf(model, soma__stream_slot(stream), pool), granules))
			return false;
		if (soma__shelf_limit(stream->own[pool]) < least)
			least = soma__shelf_limit(stream->own[pool]);
	}
	stream->shelved = least;
	return true;
}

/* Room on the own shelves for whatever a block may join there: no more than is reserved. */
static HOT bool
reserve_own_shelves(struct soma_model *model, struct soma__stream *stream)
{
	uint64_t granules = model->stats.reserved >> model->granule_shift;

	return granules < stream->shelved || make_own_shelves(model, stream, granules);
}

static void
count_pending(struct soma_model *model, struct soma__stream *stream)
{
	stream->pending_count++;
	model->stats.pending_free_count++;
}

/* The legacy stream's implicit order; the last thing that can fail. */
static HOT bool
join_order(struct soma_model *model, struct soma__stream *stream)
{
	if (!stream->ordered)
		return true;
	if (!soma__clock_reserve_legacy(model, stream))
		return false;
	soma__clock_join_legacy(model, stream);
	return true;
}

/* The free joins the queue, and as much of the queue is filed as is due. */
static HOT enum soma_status
free_queued(struct soma_model *model, struct soma__stream *stream, uint32_t *link)
{
	uint32_t block = *link;

	if (!reserve_own_shelves(model, stream) || !join_order(model, stream))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	*link |= SOMA__LINK_FREED;
	count_pending(model, stream);
	soma__queue_push(model, stream, block, soma__clock_submit(model, stream));
	if (soma__queue_length(model) == 2 * model->policy.batch)
		soma__queue_file(model, model->policy.batch);
	return SOMA_STATUS_OK;
}

static HOT enum soma_status
free_now(struct soma_model *model, struct soma__stream *stream, uint32_t name)
{
	const struct soma__block *block = soma__block_at(model, name);
	const struct soma__segment *segment = soma__segment_at(model, soma__block_segment(block));
	uint64_t address = soma__block_address(block), end = soma__block_end(model, block);
	uint64_t granules = end - address, position;
	bool same = (model->policy.reuse & SOMA_REUSE_SAME_STREAM) != 0;
	bool shelved = same && !model->policy.per_stream;
	bool own = model->policy.per_stream && same && segment->stream == stream->id;

	if ((shelved && !reserve_own_shelves(model, stream)) || !join_order(model, stream))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	charge_free(model, block, granules);
	soma__lookup_remove(&model->lookup, &model->blocks, address, name);
	position = soma__clock_submit(model, stream);
	if (own) {
		model->stats.active -= soma__bytes(model, granules);
		soma__block_complete(model, name);
		return SOMA_STATUS_OK;
	}
	count_pending(model, stream);
	if (shelved) {
		soma__keep_pending(model, stream, segment->pool, name, address, end, position);
	} else {
		model->unfiled++;
		soma__block_park(model, stream, name, position);
	}
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_free(struct soma_model *model, uint64_t ptr, uint64_t id)
{
	struct soma__stream *stream;
	enum soma_status status;
	uint32_t *link;

	if (ptr == 0)
		return SOMA_STATUS_OK;
	status = soma__stream_accepting(model, id, &stream);
	if (status != SOMA_STATUS_OK)
		return status;
	if (!soma__blocks_reserve(model)) /* first: it moves the records, and the link may be in one */
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	link = find_live(model, ptr);
	if (link == NULL)
		return soma__fail(INVALID_VALUE, "0x%" PRIx64 " is not the address of a live block", ptr);
	if (soma__queue_exists(model))
		status = free_queued(model, stream, link);
	else
		status = free_now(model, stream, *link);
	if (status != SOMA_STATUS_OK)
		return status;
	model->stats.live_count--;
	model->stats.free_count++;
	return SOMA_STATUS_OK;
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

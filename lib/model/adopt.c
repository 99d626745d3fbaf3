/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points for a state that did not come about by allocating: segments and blocks
 * at given addresses, for replays that begin in mid-run.
 */
#include <soma/model.h>

#include "lib/base/error.h"
#include "lib/model/blocks.h"
#include "lib/model/clock.h"
#include "lib/model/keep.h"
#include "lib/model/mapped.h"
#include "lib/model/queue.h"
#include "lib/model/segments.h"
#include "lib/model/state.h"

enum soma_status
soma_model_adopt_segment(struct soma_model *model, uint64_t id, unsigned pool, uint64_t address,
			 uint64_t size)
{
	struct soma__stream *stream;
	enum soma_status status = soma__stream_accepting(model, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (model->policy.segments != SOMA_SEGMENTS_STEP || pool >= model->policy.pool_count)
		return soma__fail(INVALID_VALUE, "the policy has no segments of a size pool %" PRIu64, pool);
	if (address == 0 || size == 0 || (address | size) % model->policy.alignment != 0 ||
	    size > SOMA_MODEL_ADDRESS_MAX || address > SOMA_MODEL_ADDRESS_MAX - size)
		return soma__fail(INVALID_VALUE,
				  "a segment at 0x%" PRIx64 " of %" PRIu64
				  " bytes is empty, misaligned or out of range",
				  address, size);
	return soma__segment_adopt(model, stream, pool, address >> model->granule_shift,
				   size >> model->granule_shift);
}

/* The free block that holds [address, end).  Looked for at the segment's front, then from
 * its end: it is there when blocks are adopted in descending or ascending order. */
static uint32_t
free_block_holding(const struct soma_model *model, uint64_t address, uint64_t end)
{
	uint32_t segment = soma__segment_holding(model, address, end), name;
	const struct soma__block *block;

	if (segment == 0)
		return 0;
	name = soma__segment_at(model, segment)->first;
	if (end > soma__block_end(model, soma__block_at(model, name)))
		name = soma__segment_at(model, segment)->last;
	while (soma__block_address(soma__block_at(model, name)) > address)
		name = soma__block_at(model, name)->previous;
	block = soma__block_at(model, name);
	if (soma__block_kind(block) != SOMA__BLOCK_FREE || soma__block_end(model, block) < end ||
	    soma__node_state(soma__node_at(&model->index, block->node)) != SOMA__NODE_COMPLETE)
		return 0;
	return name;
}

static void
complete(struct soma_model *model, uint32_t name)
{
	if (model->is_mapped)
		soma__mapped_complete(model, name);
	else
		soma__block_complete(model, name);
}

/* Cuts [address, address + granules) out of a complete free block. */
static uint32_t
carve(struct soma_model *model, uint32_t name, uint64_t address, uint64_t granules)
{
	uint32_t segment = soma__block_segment(soma__block_at(model, name)), carved = name;
	uint64_t begin = soma__block_address(soma__block_at(model, name));
	uint64_t end = soma__block_end(model, soma__block_at(model, name));

	if (model->is_mapped)
		soma__mapped_unshelve(model, name);
	else
		soma__block_unshelve(model, name);
	if (begin < address) {
		carved = soma__block_insert(model, segment, name, address);
		complete(model, name);
	}
	if (address + granules < end)
		complete(model, soma__block_insert(model, segment, carved, address + granules));
	return carved;
}

enum soma_status
soma_model_adopt_block(struct soma_model *model, uint64_t ptr, uint64_t size, uint64_t capacity)
{
	uint64_t address = ptr >> model->granule_shift, granules = capacity >> model->granule_shift;
	struct soma_model_stats *stats = &model->stats;
	uint32_t name = 0;

	if ((ptr | capacity) % model->policy.alignment == 0 && size >= 1 && size <= capacity &&
	    capacity - size <= UINT32_MAX && ptr < SOMA_MODEL_ADDRESS_MAX &&
	    capacity <= SOMA_MODEL_ADDRESS_MAX)
		name = free_block_holding(model, address, address + granules);
	if (name == 0)
		return soma__fail(INVALID_VALUE,
				  "0x%" PRIx64 ": %" PRIu64 " bytes in a block of %" PRIu64
				  " are not part of one free block",
				  ptr, size, capacity);
	if (!soma__blocks_reserve(model) || !soma__queue_reserve_entry(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	name = carve(model, name, address, granules);
	soma__lookup_put(&model->lookup, address, name);
	soma__block_set_size(soma__block_at(model, name), granules);
	soma__block_at(model, name)->waste = (uint32_t)(capacity - size);
	stats->live_count++;
	stats->active += capacity;
	stats->capacity += capacity;
	stats->used += size;
	soma__queue_settle(model);
	if (stats->used > stats->used_high)
		stats->used_high = stats->used;
	if (stats->active > stats->peak_active)
		stats->peak_active = stats->active;
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_release_segment(struct soma_model *model, uint64_t address)
{
	uint32_t segment = 0;

	if (address % model->policy.alignment == 0 && model->policy.segments == SOMA_SEGMENTS_STEP)
		segment = soma__segment_beginning(model, address >> model->granule_shift);
	if (segment == 0)
		return soma__fail(NOT_FOUND, "there is no segment at 0x%" PRIx64, address);
	if (!soma__segment_at(model, segment)->idle)
		return soma__fail(INVALID_VALUE, "the segment at 0x%" PRIx64 " is not wholly free", address);
	if (!soma__segments_reserve_release(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	soma__segment_release(model, segment);
	return SOMA_STATUS_OK;
}

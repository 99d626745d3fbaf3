/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments of a snapshot: what the allocator held when it was taken.  Each is
 * taken out of the pickle as soon as it is complete.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/trace/memory.h"
#include "tools/trace/snapshot.h"

#define SMALL_SEGMENT ((uint64_t)2 << 20)

static const uint64_t zero;

static bool
block_state(struct snapshot_reader *sr, const struct snapshot_fields *fields, enum trace_block_state *state)
{
	const struct pickle_value *value = fields->at[KEY_STATE];

	if (value == NULL || value->type != PICKLE_TEXT)
		return snapshot_refuse(sr, fields, "\"state\" is %s",
				       value == NULL ? "missing" : "not a text");
	switch (value->name) {
	case WORD_ACTIVE_ALLOCATED:
		*state = TRACE_BLOCK_LIVE;
		return true;
	case WORD_ACTIVE_PENDING_FREE:
	case WORD_ACTIVE_AWAITING_FREE:
		*state = TRACE_BLOCK_PENDING;
		return true;
	case WORD_INACTIVE:
		*state = TRACE_BLOCK_FREE;
		return true;
	default:
		return snapshot_refuse(
			sr, fields,
			"\"state\" is \"%.60s\", expected active_allocated, active_pending_free, "
			"active_awaiting_free or inactive",
			snapshot_text(sr, value->name));
	}
}

/* The 2.0 form: the newest allocation in a block comes first in its history. */
static bool
block_history(struct snapshot_reader *sr, struct snapshot_fields *fields, struct trace_block *block)
{
	const struct pickle_value *value = fields->at[KEY_HISTORY];
	struct snapshot_fields history;

	if (value == NULL)
		return true;
	if (!snapshot_plain(value, PICKLE_LIST))
		return snapshot_refuse(sr, fields, "\"history\" is not a list of its own");
	if (value->object->count == 0)
		return true;
	value->object->busy = true;
	snprintf(history.place, sizeof history.place, "the history of %.40s", fields->place);
	if (!snapshot_fields(sr, &value->object->item[0], &history))
		return false;
	if (fields->at[KEY_REQUESTED_SIZE] == NULL &&
	    !snapshot_number(sr, &history, KEY_REAL_SIZE, NULL, &block->requested))
		return false;
	if (fields->at[KEY_FRAMES] == NULL &&
	    !snapshot_holder(sr, &history, history.at[KEY_FRAMES], &block->holder))
		return false;
	pickle_take(&sr->vm, value->object->item[0].object, USE_TAKEN, 0);
	pickle_take(&sr->vm, value->object, USE_TAKEN, 0);
	return true;
}

/* `expected`: where the block before it ended. */
static bool
read_block(struct snapshot_reader *sr, const struct pickle_value *value, struct snapshot_fields *fields,
	   uint64_t expected, struct trace_block *block)
{
	if (!snapshot_fields(sr, value, fields) ||
	    !snapshot_number(sr, fields, KEY_SIZE, NULL, &block->size) ||
	    !snapshot_number(sr, fields, KEY_ADDRESS, &expected, &block->address) ||
	    !snapshot_number(sr, fields, KEY_REQUESTED_SIZE, &block->size, &block->requested) ||
	    !block_state(sr, fields, &block->state) ||
	    !snapshot_holder(sr, fields, fields->at[KEY_FRAMES], &block->holder) ||
	    !block_history(sr, fields, block))
		return false;
	if (block->state != TRACE_BLOCK_FREE && fields->at[KEY_REQUESTED_SIZE] != NULL &&
	    block->requested > block->size)
		return snapshot_refuse(sr, fields,
				       "\"requested_size\" is %" PRIu64 ", but \"size\" only %" PRIu64,
				       block->requested, block->size);
	if (block->address != expected)
		return snapshot_refuse(sr, fields, "\"address\" is 0x%" PRIx64 ", expected 0x%" PRIx64,
				       block->address, expected);
	pickle_take(&sr->vm, value->object, USE_TAKEN, 0);
	return true;
}

static bool
read_blocks(struct snapshot_reader *sr, const struct snapshot_fields *fields, struct pickle_object *list,
	    uint64_t number, struct trace_segment *segment)
{
	struct snapshot_fields block;
	uint64_t address = segment->address;

	list->busy = true;
	segment->blocks = trace_zeroed(list->count * sizeof *segment->blocks);
	if (segment->blocks == NULL) {
		trace_no_memory(sr->reader);
		return false;
	}
	for (uint32_t i = 0; i < list->count; i++) {
		snprintf(block.place, sizeof block.place, "block %u of segment %" PRIu64, i, number);
		if (!read_block(sr, &list->item[i], &block, address, &segment->blocks[i]))
			return false;
		if (segment->blocks[i].size > segment->address + segment->size - address)
			return snapshot_refuse(sr, &block,
					       "the block is larger than what is left of its segment");
		address += segment->blocks[i].size;
	}
	segment->block_count = list->count;
	if (address != segment->address + segment->size)
		return snapshot_refuse(sr, fields,
				       "\"total_size\" is %" PRIu64 ", but its blocks make %" PRIu64,
				       segment->size, address - segment->address);
	pickle_take(&sr->vm, list, USE_TAKEN, 0);
	return true;
}

/* One that was made from a profile (_memory_viz.py) has no type: what a segment of that size
 * would be. */
static bool
read_type(struct snapshot_reader *sr, const struct snapshot_fields *fields, struct trace_segment *segment)
{
	const struct pickle_value *type = fields->at[KEY_SEGMENT_TYPE];
	const struct pickle_value *expandable = fields->at[KEY_IS_EXPANDABLE];

	if (type != NULL &&
	    (type->type != PICKLE_TEXT || (type->name != WORD_LARGE && type->name != WORD_SMALL)))
		return snapshot_refuse(sr, fields,
				       "\"segment_type\" is something else, expected \"large\" or \"small\"");
	segment->small = type != NULL ? type->name == WORD_SMALL : segment->size <= SMALL_SEGMENT;
	if (expandable != NULL && expandable->type != PICKLE_BOOL)
		return snapshot_refuse(sr, fields, "\"is_expandable\" is not a truth value");
	segment->expandable = expandable != NULL && expandable->number != 0;
	return true;
}

static bool
read_segment(struct snapshot_reader *sr, const struct snapshot_fields *fields, uint64_t number,
	     struct trace_segment *segment)
{
	const struct pickle_value *blocks = fields->at[KEY_BLOCKS];
	uint64_t device;
	bool has_pool;

	if (!snapshot_number(sr, fields, KEY_DEVICE, &zero, &device) ||
	    !snapshot_number(sr, fields, KEY_ADDRESS, NULL, &segment->address) ||
	    !snapshot_number(sr, fields, KEY_TOTAL_SIZE, NULL, &segment->size) ||
	    !snapshot_number(sr, fields, KEY_STREAM, &zero, &segment->stream) ||
	    !read_type(sr, fields, segment) ||
	    !snapshot_pool(sr, fields, KEY_SEGMENT_POOL_ID, segment->pool, &has_pool))
		return false;
	if (device > INT32_MAX)
		return snapshot_refuse(sr, fields, "\"device\" is %" PRIu64 ", too large", device);
	segment->device = (int32_t)device;
	if (segment->size > UINT64_MAX - segment->address)
		return snapshot_refuse(sr, fields,
				       "\"total_size\" is %" PRIu64 ", past the end of the address space",
				       segment->size);
	if (blocks == NULL || !snapshot_plain(blocks, PICKLE_LIST))
		return snapshot_refuse(sr, fields, "\"blocks\" is %s",
				       blocks == NULL ? "missing" : "not a list of its own");
	return read_blocks(sr, fields, blocks->object, number, segment);
}

/* In a second pass the segments are known. */
static bool
keep_segment(struct snapshot_reader *sr, const struct trace_segment *segment)
{
	if (sr->open) {
		trace_release(segment->blocks);
		return true;
	}
	if (!trace_reserve((void **)&sr->snapshot.segments, &sr->segment_capacity,
			   sr->snapshot.segment_count + 1, sizeof *segment))
		return false;
	sr->snapshot.segments[sr->snapshot.segment_count++] = *segment;
	return true;
}

bool
snapshot_segment(struct snapshot_reader *sr, struct pickle_value *value, uint64_t number)
{
	struct trace_segment segment = { 0 };
	struct snapshot_fields fields;

	snprintf(fields.place, sizeof fields.place, "segment %" PRIu64, number);
	if (!snapshot_fields(sr, value, &fields))
		return false;
	if (!read_segment(sr, &fields, number, &segment)) {
		trace_release(segment.blocks);
		return false;
	}
	if (!keep_segment(sr, &segment)) {
		trace_release(segment.blocks);
		trace_no_memory(sr->reader);
		return false;
	}
	pickle_take(&sr->vm, value->object, USE_TAKEN, 0);
	return true;
}

void
snapshot_segments_free(struct snapshot_reader *sr)
{
	for (size_t i = 0; i < sr->snapshot.segment_count; i++)
		trace_release(sr->snapshot.segments[i].blocks);
	trace_release(sr->snapshot.segments);
	sr->snapshot.segments = NULL;
	sr->snapshot.segment_count = sr->segment_capacity = 0;
}

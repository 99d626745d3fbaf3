/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules for rewinding a snapshot.  Nothing here touches a model.
 */
#include "tools/engine/rewind.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/xalloc.h"

static void
add_segment(struct start *start, struct start_segment segment)
{
	start->segments =
		xgrow(start->segments, &start->segment_room, start->segment_count, sizeof *start->segments);
	start->segments[start->segment_count++] = segment;
}

static void
add_block(struct start *start, struct start_block block)
{
	start->blocks = xgrow(start->blocks, &start->block_room, start->block_count, sizeof *start->blocks);
	start->blocks[start->block_count++] = block;
}

/* What a problem is said of: the field of a snapshot, or the column of a soma trace. */
struct named {
	const char *address, *size, *taken, *requested;
};

static const struct named in_snapshot = { "\"address\"", "\"total_size\"", "\"size\"", "\"requested_size\"" };
static const struct named in_lines = { "\"ptr\"", "\"size\"", "what it takes", "\"size\"" };

struct problem {
	const char *of, *text, *to, *by; /* "OF is TEXT", "OF is TEXT TO BY" */
};

/* Why a model cannot have such a segment; of == NULL: it can. */
static struct problem
segment_problem(uint64_t address, uint64_t size, uint64_t alignment, const struct named *named)
{
	if (address == 0 || address % alignment != 0)
		return (struct problem){ named->address, "not a multiple of the block alignment, or 0", "",
					 "" };
	if (size == 0 || size % alignment != 0)
		return (struct problem){ named->size, "not a multiple of the block alignment, or 0", "", "" };
	if (size > SOMA_MODEL_ADDRESS_MAX || address > SOMA_MODEL_ADDRESS_MAX - size)
		return (struct problem){ named->address, "above 2^48", "", "" };
	return (struct problem){ .of = NULL };
}

static struct problem
block_problem(const struct start_block *block, uint64_t alignment, const struct named *named)
{
	if (block->ptr % alignment != 0)
		return (struct problem){ named->address, "not a multiple of the block alignment", "", "" };
	if (block->capacity % alignment != 0)
		return (struct problem){ named->taken, "not a multiple of the block alignment", "", "" };
	if (block->size > block->capacity)
		return (struct problem){ named->requested, "greater than ", named->taken, "" };
	if (block->capacity - block->size > UINT32_MAX)
		return (struct problem){ named->requested, "less than ", named->taken, " by 4 GiB or more" };
	return (struct problem){ .of = NULL };
}

static bool
refuse(struct trace_error *error, const char *what, uint64_t address, const struct problem *problem)
{
	snprintf(error->text, sizeof error->text, "%s at 0x%" PRIx64 ": %s is %s%s%s", what, address,
		 problem->of, problem->text, problem->to, problem->by);
	return false;
}

bool
start_check(const struct start *start, uint64_t alignment, struct trace_error *error)
{
	const struct named *named = start->by_lines ? &in_lines : &in_snapshot;
	struct problem problem;

	for (size_t i = 0; i < start->segment_count; i++) {
		const struct start_segment *segment = &start->segments[i];

		problem = segment_problem(segment->address, segment->size, alignment, named);
		if (problem.of != NULL)
			return refuse(error, "the segment", segment->address, &problem);
	}
	for (size_t i = 0; i < start->block_count; i++) {
		problem = block_problem(&start->blocks[i], alignment, named);
		if (problem.of != NULL)
			return refuse(error, "the block", start->blocks[i].ptr, &problem);
	}
	return true;
}

/* ---- expandable segments: what was mapped, in units of 2 MiB ------------------ */

static struct start_segment
start_of_final(const struct trace_segment *final, uint64_t address, uint64_t size)
{
	return (struct start_segment){
		.address = address,
		.size = size,
		.stream = final->stream,
		.pool = final->small ? 0 : 1,
		.expandable = final->expandable,
		.has_pool = true,
		.private_pool = { final->pool[0], final->pool[1] },
	};
}

/* What no event maps was there all the time. */
static void
add_final_parts(struct start *start, const struct survey_device *device, const struct trace_segment *final)
{
	uint64_t begin = final->address, end = final->address + final->size;

	for (uint64_t at = begin; at < end; at += SURVEY_UNIT) {
		if (table_find(&device->units, at) == NULL)
			continue;
		if (at > begin)
			add_segment(start, start_of_final(final, begin, at - begin));
		begin = at + SURVEY_UNIT;
	}
	if (begin < end)
		add_segment(start, start_of_final(final, begin, end - begin));
}

/* What an event unmaps first.  A part of the small pool is seldom a multiple of 20 MiB. */
static void
add_unmapped_parts(struct start *start, const struct survey_device *device)
{
	const struct survey_segment *unit;
	size_t cursor = 0;

	while ((unit = table_next(&device->units, &cursor)) != NULL)
		if (unit->at_start)
			add_segment(start, (struct start_segment){
						   .address = unit->key.key,
						   .size = SURVEY_UNIT,
						   .stream = unit->stream,
						   .pool = unit->size % (10 * SURVEY_UNIT) == 0 ? 1 : 0,
						   .expandable = true,
						   .has_pool = unit->has_pool,
						   .private_pool = { unit->pool[0], unit->pool[1] },
					   });
}

static bool
are_one(const struct start_segment *a, const struct start_segment *b)
{
	return a->expandable && b->expandable && a->address + a->size == b->address &&
	       a->stream == b->stream && a->pool == b->pool && a->private_pool[0] == b->private_pool[0] &&
	       a->private_pool[1] == b->private_pool[1];
}

/* Parts that touch are one. */
static void
join_parts(struct start *start)
{
	size_t kept = 0;

	for (size_t i = 0; i < start->segment_count; i++) {
		if (kept > 0 && are_one(&start->segments[kept - 1], &start->segments[i]))
			start->segments[kept - 1].size += start->segments[i].size;
		else
			start->segments[kept++] = start->segments[i];
	}
	start->segment_count = kept;
}

static void
add_final_segments(struct start *start, const struct survey_device *device,
		   const struct trace_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->segment_count; i++) {
		const struct trace_segment *final = &snapshot->segments[i];

		if (final->device != device->device)
			continue;
		if (final->expandable)
			add_final_parts(start, device, final);
		else if (table_find(&device->segments, final->address) == NULL)
			add_segment(start, start_of_final(final, final->address, final->size));
	}
}

/* A segment that is gone at the end: a small one is known by its size. */
static void
add_freed_segments(struct start *start, const struct survey_device *device, const struct soma_policy *policy)
{
	const struct survey_segment *segment;
	size_t cursor = 0;

	while ((segment = table_next(&device->segments, &cursor)) != NULL) {
		if (!segment->at_start ||
		    segment_problem(segment->key.key, segment->size, policy->alignment, &in_snapshot).of !=
			    NULL)
			continue;
		add_segment(start, (struct start_segment){
					   .address = segment->key.key,
					   .size = segment->size,
					   .stream = segment->stream,
					   .pool = segment->size == policy->pools[0].segment_size ? 0 : 1,
					   .has_pool = segment->has_pool,
					   .private_pool = { segment->pool[0], segment->pool[1] },
				   });
	}
}

static void
add_final_blocks(struct start *start, const struct survey_device *device, const struct trace_segment *segment)
{
	for (size_t i = 0; i < segment->block_count; i++) {
		const struct trace_block *block = &segment->blocks[i];

		if (block->state == TRACE_BLOCK_FREE || block->size == 0 ||
		    table_find(&device->live, block->address) != NULL)
			continue;
		add_block(start, (struct start_block){
					 .ptr = block->address,
					 .size = block->requested > 0 ? block->requested : block->size,
					 .capacity = block->size,
					 .holder = block->holder,
					 .pending = block->state == TRACE_BLOCK_PENDING,
				 });
	}
}

static void
add_orphans(struct start *start, const struct survey_device *device, const struct soma_policy *policy)
{
	for (size_t i = 0; i < device->orphan_count; i++) {
		const struct survey_orphan *orphan = &device->orphans[i];
		uint64_t capacity;

		if (orphan->size == 0 || orphan->ptr % policy->alignment != 0 ||
		    __builtin_add_overflow(orphan->size, policy->alignment - 1, &capacity))
			continue;
		add_block(start, (struct start_block){
					 .ptr = orphan->ptr,
					 .size = orphan->size,
					 .capacity = capacity & ~(policy->alignment - 1),
					 .inferred = true,
					 .pending = orphan->pending,
				 });
	}
}

/* What a block takes of which only is said what was requested: nothing of what is behind it. */
static uint64_t
capacity_of(const struct trace_segment *segment, size_t index, const struct soma_policy *policy)
{
	const struct trace_block *block = &segment->blocks[index];
	uint64_t limit =
		(index + 1 < segment->block_count ? block[1].address : segment->address + segment->size) -
		block->address;
	uint64_t capacity;

	if (block->size > 0)
		return block->size;
	if (__builtin_add_overflow(block->requested, policy->alignment - 1, &capacity))
		return limit;
	capacity &= ~(policy->alignment - 1);
	return capacity < limit ? capacity : limit;
}

/* A segment that was there at the start, as the trace says: nothing of it is left out. */
static void
add_known(struct start *start, const struct trace_segment *segment, const struct soma_policy *policy)
{
	add_segment(start, start_of_final(segment, segment->address, segment->size));
	for (size_t i = 0; i < segment->block_count; i++) {
		const struct trace_block *block = &segment->blocks[i];

		add_block(start, (struct start_block){
					 .ptr = block->address,
					 .size = block->requested > 0 ? block->requested : block->size,
					 .capacity = capacity_of(segment, i, policy),
					 .holder = block->holder,
					 .inferred = block->size == 0,
					 .pending = block->state == TRACE_BLOCK_PENDING,
				 });
	}
}

static int
by_segment_address(const void *left, const void *right)
{
	const struct start_segment *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

/* Of two that claim one address the one that the snapshot knows comes first. */
static int
by_block_address(const void *left, const void *right)
{
	const struct start_block *a = left, *b = right;

	if (a->ptr != b->ptr)
		return a->ptr < b->ptr ? -1 : 1;
	return (int)a->inferred - (int)b->inferred;
}

/* Segments that overlap an earlier one cannot have been there with it. */
static void
drop_overlapping_segments(struct start *start)
{
	size_t kept = 0;
	uint64_t end = 0;

	for (size_t i = 0; i < start->segment_count; i++) {
		struct start_segment segment = start->segments[i];

		if (segment.size == 0 || segment.address < end ||
		    __builtin_add_overflow(segment.address, segment.size, &end))
			continue;
		start->segments[kept++] = segment;
	}
	start->segment_count = kept;
}

/* Finds each block's segment; one that lies in none, or over another, is no block
 * that was there. */
static void
place_blocks(struct start *start)
{
	size_t kept = 0, s = 0;
	uint64_t end = 0;

	for (size_t i = 0; i < start->block_count; i++) {
		struct start_block block = start->blocks[i];
		const struct start_segment *segment;

		while (s < start->segment_count &&
		       block.ptr - start->segments[s].address >= start->segments[s].size &&
		       block.ptr >= start->segments[s].address)
			s++;
		if (s == start->segment_count)
			break;
		segment = &start->segments[s];
		if (block.ptr < segment->address || block.ptr < end ||
		    block.capacity > segment->size - (block.ptr - segment->address))
			continue;
		block.segment = s;
		end = block.ptr + block.capacity;
		start->blocks[kept++] = block;
	}
	start->block_count = kept;
}

uint64_t
start_block_limit(const struct start *start, size_t index)
{
	const struct start_block *block = &start->blocks[index];
	const struct start_segment *segment = &start->segments[block->segment];
	bool last = index + 1 == start->block_count || block[1].segment != block->segment;

	return last ? segment->address + segment->size : block[1].ptr;
}

/* A remainder that was too small to be split off belongs to the block before it. */
static void
give_remainders(struct start *start, const struct soma_policy *policy)
{
	for (size_t i = 0; i < start->block_count; i++) {
		struct start_block *block = &start->blocks[i];
		uint64_t gap = start_block_limit(start, i) - (block->ptr + block->capacity);

		if (block->inferred && gap < policy->pools[start->segments[block->segment].pool].split_min)
			block->capacity += gap;
	}
}

static void
rewind_end(struct start *start, const struct survey_device *device, const struct trace_snapshot *snapshot,
	   const struct soma_policy *policy)
{
	add_final_segments(start, device, snapshot);
	add_freed_segments(start, device, policy);
	add_unmapped_parts(start, device);
	for (size_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device->device)
			add_final_blocks(start, device, &snapshot->segments[i]);
	add_orphans(start, device, policy);
}

void
start_rebuild(struct start *start, const struct survey_device *device, const struct trace_snapshot *snapshot,
	      const struct soma_policy *policy)
{
	*start = (struct start){ 0 };
	if (snapshot == NULL)
		return;
	start->by_lines = snapshot->at_start;
	if (!snapshot->at_start)
		rewind_end(start, device, snapshot, policy);
	for (size_t i = 0; snapshot->at_start && i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device->device)
			add_known(start, &snapshot->segments[i], policy);
	if (start->segment_count > 0)
		qsort(start->segments, start->segment_count, sizeof *start->segments, by_segment_address);
	drop_overlapping_segments(start);
	join_parts(start);
	if (start->block_count > 0)
		qsort(start->blocks, start->block_count, sizeof *start->blocks, by_block_address);
	place_blocks(start);
	give_remainders(start, policy);
}

void
start_fini(struct start *start)
{
	free(start->segments);
	free(start->blocks);
	*start = (struct start){ 0 };
}

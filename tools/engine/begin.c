/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that a replay starts from.  Where the recorded segments are followed they
 * are adopted as they were; under another policy the blocks that were live are
 * allocated first, in address order.
 */
#include "tools/engine/blocks.h"

#include <inttypes.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "tools/engine/expandable.h"
#include "tools/xalloc.h"

static enum soma_status
stream_of_segment(struct run *run, const struct start_segment *segment, uint64_t *stream)
{
	size_t group = segment->has_pool ? streams_group_of_pool(&run->streams, segment->private_pool)
					 : streams_group(&run->streams, segment->address);

	return streams_get(&run->streams, segment->stream, group, stream);
}

static bool
has_room(const struct run *run, uint64_t size)
{
	uint64_t capacity = run->plan->options->capacity;

	return capacity == 0 || (size <= capacity && streams_reserved(&run->streams) <= capacity - size);
}

/* What a snapshot was rewound to may be wrong there; lines say what was. */
static enum soma_status
adopt_expandable(struct run *run, const struct start_segment *segment, uint64_t stream, bool *adopted)
{
	*adopted = expandable_adopt_segment(run->streams.expandable, stream, segment->pool == 0,
					    segment->expandable, segment->address, segment->size);
	run->result->counts.start_segments += *adopted;
	if (*adopted || !run->plan->start->by_lines)
		return SOMA_STATUS_OK;
	return soma__error_text(
		SOMA_STATUS_NOT_SUPPORTED,
		"the segment at 0x%" PRIx64 " of %" PRIu64
		" bytes cannot have been there: expected whole units of %s MiB that no other one has",
		segment->address, segment->size, segment->pool == 0 ? "2" : "20");
}

/* One that the capacity has no room for is left out. */
static enum soma_status
adopt_segment(struct run *run, size_t index, bool *adopted)
{
	const struct start_segment *segment = &run->plan->start->segments[index];
	uint64_t stream;
	enum soma_status status;

	if (!has_room(run, segment->size)) {
		uint64_t wanted = streams_reserved(&run->streams) + segment->size;

		run->least_refused = wanted < run->least_refused ? wanted : run->least_refused;
		run->result->parity.disturbed = true;
		return SOMA_STATUS_OK;
	}
	status = stream_of_segment(run, segment, &stream);
	if (status == SOMA_STATUS_OK && run->streams.expandable != NULL)
		return adopt_expandable(run, segment, stream, &adopted[index]);
	if (status == SOMA_STATUS_OK)
		status = soma_model_adopt_segment(run->model, stream, segment->pool, segment->address,
						  segment->size);
	if (status != SOMA_STATUS_OK)
		return status;
	source_adopted(&run->source, segment->address, segment->size);
	run->result->counts.start_segments++;
	adopted[index] = true;
	return SOMA_STATUS_OK;
}

/* First the segments with blocks in them: the others are only a cache. */
static enum soma_status
adopt_segments(struct run *run, bool *adopted)
{
	const struct start *start = run->plan->start;
	bool *used = xcalloc(start->segment_count, sizeof *used);
	enum soma_status status = SOMA_STATUS_OK;

	for (size_t i = 0; i < start->block_count; i++)
		used[start->blocks[i].segment] = true;
	for (size_t i = 0; status == SOMA_STATUS_OK && i < start->segment_count; i++)
		if (used[i])
			status = adopt_segment(run, i, adopted);
	for (size_t i = 0; status == SOMA_STATUS_OK && i < start->segment_count; i++)
		if (!used[i])
			status = adopt_segment(run, i, adopted);
	free(used);
	return status;
}

static enum soma_status
adopt_block(struct run *run, const struct start_block *block, uint64_t stream)
{
	enum soma_status status = SOMA_STATUS_OK;

	if (run->streams.expandable == NULL)
		status = soma_model_adopt_block(run->model, block->ptr, block->size, block->capacity);
	else if (!expandable_adopt_block(run->streams.expandable, block->ptr, block->size, block->capacity))
		return SOMA_STATUS_OK;
	if (status == SOMA_STATUS_OK) {
		run_enter(run, block->ptr, block->ptr, block->size, block->holder);
		watch_enter(run, block->ptr, block->size, stream, block->holder);
	}
	return status;
}

static enum soma_status
begin_block(struct run *run, const struct start_block *block, const bool *adopted)
{
	const struct start_segment *segment = &run->plan->start->segments[block->segment];
	uint64_t stream;
	enum soma_status status = stream_of_segment(run, segment, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (!run->plan->follow_segments)
		status = run_alloc(run, REPLAY_AT_START, block->ptr, block->size, stream, block->holder);
	else if (adopted[block->segment])
		status = adopt_block(run, block, stream);
	else
		run_no_room(run, REPLAY_AT_START, block->ptr, block->size, stream);
	if (status == SOMA_STATUS_OK && block->pending)
		status = run_free_later(run, block->ptr, stream);
	return status;
}

static enum soma_status
begin(struct run *run, bool *adopted)
{
	const struct start *start = run->plan->start;
	enum soma_status status = SOMA_STATUS_OK;
	uint64_t stream = 0;

	if (run->plan->follow_segments)
		status = adopt_segments(run, adopted);
	for (size_t i = 0; status == SOMA_STATUS_OK && i < start->block_count && !run_is_over(run); i++)
		status = begin_block(run, &start->blocks[i], adopted);
	if (status == SOMA_STATUS_OK && start->segment_count > 0)
		status = stream_of_segment(run, &start->segments[0], &stream);
	if (status == SOMA_STATUS_OK)
		run_note_peak(run, REPLAY_AT_START, stream);
	return status;
}

enum soma_status
run_begin(struct run *run)
{
	bool *adopted = xcalloc(run->plan->start->segment_count, sizeof *adopted);
	enum soma_status status = begin(run, adopted);

	free(adopted);
	run->result->counts.start_blocks = run->plan->start->block_count;
	return status == SOMA_STATUS_OK ? status : run_fail(run, REPLAY_AT_START, status);
}

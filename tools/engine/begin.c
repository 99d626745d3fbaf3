/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that a replay starts from.  Where the recorded segments are followed they
 * are adopted as they were; under another policy the blocks that were live are
 * allocated first, in address order.
 */
#include "tools/engine/run.h"

static enum soma_status
stream_of_segment(struct run *run, const struct start_segment *segment, uint64_t *stream)
{
	size_t group = streams_group(&run->streams, segment->address);

	return streams_get(&run->streams, segment->stream, group, stream);
}

static enum soma_status
adopt_segment(struct run *run, const struct start_segment *segment)
{
	uint64_t stream;
	enum soma_status status = stream_of_segment(run, segment, &stream);

	if (status == SOMA_STATUS_OK)
		status = soma_model_adopt_segment(run->model, stream, segment->pool, segment->address,
						  segment->size);
	if (status == SOMA_STATUS_OK)
		source_adopted(&run->source, segment->address, segment->size);
	return status;
}

static enum soma_status
adopt_block(struct run *run, const struct start_block *block)
{
	enum soma_status status = soma_model_adopt_block(run->model, block->ptr, block->size, block->capacity);

	if (status == SOMA_STATUS_OK)
		run_enter(run, block->ptr, block->ptr, block->size, block->holder);
	return status;
}

static enum soma_status
begin_block(struct run *run, const struct start_block *block)
{
	const struct start_segment *segment = &run->plan->start->segments[block->segment];
	uint64_t stream;
	enum soma_status status = stream_of_segment(run, segment, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	status = run->plan->follow_segments ? adopt_block(run, block)
					    : run_alloc(run, REPLAY_AT_START, block->ptr, block->size, stream,
							block->holder);
	if (status == SOMA_STATUS_OK && block->pending)
		status = run_free_later(run, block->ptr, stream);
	return status;
}

enum soma_status
run_begin(struct run *run)
{
	const struct start *start = run->plan->start;
	enum soma_status status = SOMA_STATUS_OK;
	uint64_t stream = 0;

	for (size_t i = 0; status == SOMA_STATUS_OK && run->plan->follow_segments && i < start->segment_count; i++)
		status = adopt_segment(run, &start->segments[i]);
	for (size_t i = 0; status == SOMA_STATUS_OK && i < start->block_count; i++)
		status = begin_block(run, &start->blocks[i]);
	if (status == SOMA_STATUS_OK && start->segment_count > 0)
		status = stream_of_segment(run, &start->segments[0], &stream);
	if (status == SOMA_STATUS_OK)
		run_note_peak(run, REPLAY_AT_START, stream);
	return status == SOMA_STATUS_OK ? status : run_fail(run, REPLAY_AT_START, status);
}

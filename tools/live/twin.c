/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps as calls of a soma_model.
 */
#include "tools/live/twin.h"

#include <stdlib.h>

#include "tools/xalloc.h"

#define NO_STREAM UINT64_MAX

enum soma_status
twin_init(struct twin *twin, const struct program *program, const struct soma_policy *policy,
	  uint64_t release_threshold, enum replay_complete complete)
{
	const struct soma_model_limits limits = {
		.size = sizeof limits,
		.release_threshold = release_threshold,
		.policy = policy != NULL ? policy : soma_policy_preset("cuda"),
	};

	*twin = (struct twin){ .program = program, .complete = complete };
	twin->streams = xcalloc(program->stream_count, sizeof *twin->streams);
	twin->markers = xcalloc(program->marker_count, sizeof *twin->markers);
	twin->blocks = xcalloc(program->block_count, sizeof *twin->blocks);
	for (uint32_t i = program->legacy; i < program->stream_count; i++)
		twin->streams[i] = NO_STREAM;
	return soma_model_create(&limits, &twin->model);
}

void
twin_fini(struct twin *twin)
{
	soma_model_destroy(twin->model);
	free(twin->streams);
	free(twin->markers);
	free(twin->blocks);
	*twin = (struct twin){ 0 };
}

static enum soma_status
alloc(struct twin *twin, const struct step *step)
{
	struct soma_model_alloc made;
	enum soma_status status = soma_model_alloc(twin->model, step->size, twin->streams[step->stream], &made);

	if (status == SOMA_STATUS_OK)
		twin->blocks[step->block] = (struct twin_block){ .ptr = made.ptr };
	return status;
}

static enum soma_status
end_block(struct twin *twin, const struct step *step)
{
	struct twin_block *block = &twin->blocks[step->block];
	uint64_t stream = twin->streams[step->stream];
	struct soma_model_position position;

	if (block->ptr == 0)
		return SOMA_STATUS_OK;
	enum soma_status status = soma_model_free(twin->model, block->ptr, stream);
	block->ptr = 0;
	if (status == SOMA_STATUS_OK)
		status = soma_model_position(twin->model, stream, &position);
	if (status != SOMA_STATUS_OK)
		return status;
	block->stream = stream;
	block->seq = position.submitted;
	if (step->later || twin->complete != REPLAY_COMPLETE_FREE)
		return SOMA_STATUS_OK;
	return soma_model_advance(twin->model, stream, position.submitted);
}

/* A stream that is gone has executed everything. */
static enum soma_status
complete(struct twin *twin, const struct step *step)
{
	struct twin_block *block = &twin->blocks[step->block];

	if (twin->complete == REPLAY_COMPLETE_FREE && block->seq != 0 &&
	    soma_model_advance(twin->model, block->stream, block->seq) == SOMA_STATUS_OUT_OF_HOST_MEMORY)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	*block = (struct twin_block){ 0 };
	return SOMA_STATUS_OK;
}

static enum soma_status
record(struct twin *twin, const struct step *step)
{
	struct twin_marker *marker = &twin->markers[step->marker];

	marker->stream = twin->streams[step->stream];
	return soma_model_record_event(twin->model, marker->stream, &marker->seq);
}

static enum soma_status
destroy(struct twin *twin, uint32_t number)
{
	uint64_t stream = twin->streams[number];

	if (stream == NO_STREAM || stream == 0)
		return SOMA_STATUS_OK;
	twin->streams[number] = NO_STREAM;
	return soma_model_stream_destroy(twin->model, stream);
}

enum soma_status
twin_step(struct twin *twin, const struct step *step)
{
	const struct twin_marker *marker;

	switch ((enum step_op)step->op) {
	case STEP_ALLOC:
		return alloc(twin, step);
	case STEP_FREE:
		return end_block(twin, step);
	case STEP_COMPLETED:
		return complete(twin, step);
	case STEP_USE:
		return SOMA_STATUS_OK;
	case STEP_RECORD:
		return record(twin, step);
	case STEP_WAIT:
		marker = &twin->markers[step->marker];
		return soma_model_wait_event(twin->model, twin->streams[step->stream], marker->stream,
					     marker->seq);
	case STEP_SYNC:
		return twin->complete == REPLAY_COMPLETE_NEVER
			       ? SOMA_STATUS_OK
			       : soma_model_synchronize(twin->model, twin->streams[step->stream]);
	case STEP_SYNC_ALL:
		return twin->complete == REPLAY_COMPLETE_NEVER ? SOMA_STATUS_OK
							       : soma_model_synchronize_all(twin->model);
	case STEP_TRIM:
		return soma_model_trim_to(twin->model, step->size);
	case STEP_CREATE:
		return soma_model_stream_create(twin->model, step->flags, &twin->streams[step->stream]);
	case STEP_DESTROY:
		return destroy(twin, step->stream);
	}
	return SOMA_STATUS_OK;
}

enum soma_status
twin_clear(struct twin *twin)
{
	enum soma_status status = SOMA_STATUS_OK;

	for (uint32_t i = 0; status == SOMA_STATUS_OK && i < twin->program->block_count; i++) {
		if (twin->blocks[i].ptr != 0)
			status = soma_model_free(twin->model, twin->blocks[i].ptr, 0);
		twin->blocks[i] = (struct twin_block){ 0 };
	}
	if (status == SOMA_STATUS_OK)
		status = soma_model_synchronize_all(twin->model);
	for (uint32_t i = 0; status == SOMA_STATUS_OK && i < twin->program->stream_count; i++)
		status = destroy(twin, i);
	return status;
}

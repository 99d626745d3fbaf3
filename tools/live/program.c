/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was there before the trace began and what it has, in two passes over it.  The trace's
 * own mistakes are passed over and counted, as in the replay through a model alone.
 */
#include "tools/live/program.h"

#include <stdlib.h>
#include <string.h>

#include "tools/engine/run.h"
#include "tools/live/programmer.h"
#include "tools/xalloc.h"

void
program_fini(struct program *program)
{
	free(program->steps);
	*program = (struct program){ 0 };
}

/* A block of the start is made on its segment's stream. */
static void
put_start(struct programmer *p, const struct start *start)
{
	for (size_t i = 0; i < start->block_count; i++) {
		const struct start_block *block = &start->blocks[i];
		const struct trace_event event = { .op = TRACE_ALLOC,
						   .index = REPLAY_AT_START,
						   .ptr = block->ptr,
						   .size = block->size,
						   .stream = start->segments[block->segment].stream,
						   .holder = block->holder };
		struct trace_event end = event;
		end.op = TRACE_FREE;
		end.deferred = true;
		programmer_put(p, &event);
		if (block->pending)
			programmer_put(p, &end);
	}
	p->program->counts = (struct program_counts){ .start_blocks = start->block_count };
}

static enum trace_result
put_events(struct programmer *p, int32_t device, struct trace_error *error)
{
	struct trace_event event;
	enum trace_result got;

	while ((got = trace_next(p->reader, &event, error)) == TRACE_OK)
		if (event.device == device) {
			p->program->counts.events++;
			programmer_put(p, &event);
		}
	return got;
}

static enum soma_status
read_device(struct program *program, struct trace_reader *reader, const struct survey *survey,
	    const struct survey_device *device, uint64_t scale, struct trace_error *error)
{
	bool unknown = survey->rewinds && !survey_is_whole(survey, device->device);
	struct start start;
	struct programmer p;
	enum trace_result got;

	start_rebuild(&start, device, unknown ? NULL : trace_snapshot(reader), soma_policy_preset("pytorch"));
	programmer_init(&p, program, reader, scale, device->has_blocking);
	put_start(&p, &start);
	got = trace_rewind(reader, error);
	if (got == TRACE_OK)
		got = put_events(&p, device->device, error);
	programmer_fini(&p);
	start_fini(&start);
	return got == TRACE_ERROR ? SOMA_STATUS_PARSE : SOMA_STATUS_OK;
}

enum soma_status
program_read(struct program *program, struct trace_reader *reader, int32_t wanted, uint64_t scale,
	     struct trace_error *error)
{
	struct survey survey;
	struct survey_device *device;
	enum soma_status status = SOMA_STATUS_PARSE;

	*program = (struct program){ .peak_event = REPLAY_AT_START };
	if (survey_run(&survey, reader, NULL, NULL, error) == TRACE_OK)
		status = replay_choose_device(&survey, trace_snapshot(reader), wanted, &device, error);
	if (status == SOMA_STATUS_OK) {
		program->device = device->device;
		program->device_count = survey.device_count;
		program->format = trace_format(reader);
		program->auto_policy = replay_auto_policy(device, reader);
		program->truncated = survey.truncated;
		program->truncation = survey.truncation;
		status = read_device(program, reader, &survey, device, scale, error);
	}
	survey_fini(&survey);
	if (status != SOMA_STATUS_OK)
		program_fini(program);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* soma's own trace as an output: see writer.c; and what was there at its start. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/trace/output.h"
#include "tools/trace/somacsv.h"

static void
put_start_block(struct trace_output *output, const struct trace_segment *segment,
		const struct trace_block *block)
{
	const struct trace_event event = { .op = TRACE_ALLOC,
					   .device = segment->device,
					   .stream = segment->stream,
					   .ptr = block->address,
					   .size = block->requested,
					   .has_pool = output->pools,
					   .pool = { segment->pool[0], segment->pool[1] } };
	char detail[64];

	snprintf(detail, sizeof detail, TRACE_SOMA_START ";%" PRIu64 "%s", block->size,
		 block->state == TRACE_BLOCK_PENDING ? ";" TRACE_SOMA_PENDING : "");
	trace_writer_put(output->state, &event, trace_name_text(output->reader, block->holder), detail);
}

static void
put_start(struct trace_output *output, const struct trace_segment *segment)
{
	const struct trace_event event = { .op = segment->expandable ? TRACE_SEGMENT_MAP
								     : TRACE_SEGMENT_ALLOC,
					   .device = segment->device,
					   .stream = segment->stream,
					   .ptr = segment->address,
					   .size = segment->size,
					   .has_pool = output->pools,
					   .pool = { segment->pool[0], segment->pool[1] } };

	trace_writer_put(output->state, &event, "",
			 segment->small ? TRACE_SOMA_START ";" TRACE_SOMA_SMALL : TRACE_SOMA_START);
	for (size_t i = 0; i < segment->block_count; i++)
		put_start_block(output, segment, &segment->blocks[i]);
}

static enum trace_result
soma_open(struct trace_output *output, const char *path, struct trace_error *error)
{
	struct trace_writer *writer;
	enum trace_result result = trace_writer_open(path, &writer, error);

	output->state = writer;
	if (result == TRACE_OK && output->pools)
		trace_writer_with_pools(writer);
	for (size_t i = 0; result == TRACE_OK && output->start != NULL && i < output->start->segment_count;
	     i++)
		put_start(output, &output->start->segments[i]);
	output->lost[LOSS_SNAPSHOT] = output->start_lost;
	return result;
}

static void
soma_put(struct trace_output *output, const struct trace_event *event, const char *holder, const char *detail)
{
	trace_writer_put(output->state, event, holder, detail);
}

static enum trace_result
soma_close(struct trace_output *output, struct trace_error *error)
{
	return trace_writer_close(output->state, error);
}

const struct trace_output_format trace_output_soma = {
	.name = "soma",
	.ending = ".csv",
	.holds_start = true,
	.open = soma_open,
	.put = soma_put,
	.close = soma_close,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* soma's own trace as an output: see writer.c. */
#include "tools/trace/output.h"

static enum trace_result
soma_open(struct trace_output *output, const char *path, struct trace_error *error)
{
	const struct trace_snapshot *snapshot = trace_snapshot(output->reader);
	struct trace_writer *writer;
	enum trace_result result = trace_writer_open(path, &writer, error);

	output->state = writer;
	if (result == TRACE_OK && output->pools)
		trace_writer_with_pools(writer);
	if (snapshot != NULL)
		output->lost[LOSS_SNAPSHOT] = snapshot->segment_count;
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
	.open = soma_open,
	.put = soma_put,
	.close = soma_close,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing whatever the format.
 */
#include "tools/trace/output.h"

#include <string.h>

/* The longer of two endings that fit comes first. */
static const struct trace_output_format *const output_formats[] = {
	&trace_output_rmm,  &trace_output_placement, &trace_output_chrome,
	&trace_output_json, &trace_output_soma,
};

#define FORMAT_COUNT (sizeof output_formats / sizeof output_formats[0])

const char *
trace_loss_text(enum trace_loss loss)
{
	static const char *const text[] = {
#define X(name, text) [LOSS_##name] = text,
		TRACE_LOSS_MAP(X)
#undef X
	};

	return text[loss];
}

const struct trace_output_format *
trace_output_named(const char *name)
{
	for (size_t i = 0; i < FORMAT_COUNT; i++)
		if (strcmp(output_formats[i]->name, name) == 0)
			return output_formats[i];
	return NULL;
}

static bool
ends_in(const char *text, size_t length, const char *ending)
{
	size_t size = strlen(ending);

	return length > size && memcmp(text + length - size, ending, size) == 0;
}

const struct trace_output_format *
trace_output_of_path(const char *path)
{
	size_t length = strlen(path);

	if (ends_in(path, length, ".gz"))
		length -= 3;
	for (size_t i = 0; i < FORMAT_COUNT; i++)
		if (ends_in(path, length, output_formats[i]->ending))
			return output_formats[i];
	return NULL;
}

enum trace_result
trace_output_open_sink(struct trace_output *output, const char *path, struct trace_error *error)
{
	return trace_sink_open(path, &output->sink, error);
}

enum trace_result
trace_output_open_blocks(struct trace_output *output, const char *path, const char *head,
			 struct trace_error *error)
{
	const struct trace_snapshot *snapshot = trace_snapshot(output->reader);
	enum trace_result result = trace_output_open_sink(output, path, error);

	if (snapshot != NULL)
		output->lost[LOSS_SNAPSHOT] = snapshot->segment_count;
	if (result == TRACE_OK)
		trace_sink_string(output->sink, head);
	return result;
}

enum trace_result
trace_output_close_sink(struct trace_output *output, struct trace_error *error)
{
	return trace_sink_close(output->sink, error);
}

enum trace_result
trace_output_open(struct trace_output *output, const struct trace_output_format *format, const char *path,
		  struct trace_error *error)
{
	output->format = format;
	return format->open(output, path, error);
}

void
trace_output_put(struct trace_output *output, const struct trace_event *event)
{
	if (output->no_memory)
		return;
	if (output->format->one_device && event->device != output->device) {
		output->lost[LOSS_DEVICES]++;
	} else {
		trace_output_lose(output, LOSS_COMPLETED, event->completed); /* none has a place for it */
		output->format->put(output, event, trace_name_text(output->reader, event->holder),
				    trace_name_text(output->reader, event->detail));
	}
	output->events++;
}

enum trace_result
trace_output_close(struct trace_output *output, struct trace_error *error)
{
	enum trace_result result = output->format->close(output, error);

	trace_map_fini(&output->live);
	if (output->no_memory)
		return trace_fail(error, "the converted trace", "out of memory");
	return result;
}

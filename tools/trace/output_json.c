/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of a trace as JSON: {"format": "soma-events", "events": [...], "segments": [...]}, or
 * "start" in place of "segments" where that is when they were there.
 * Addresses, streams and what identifies are texts, since readers of JSON round above
 * 2^53; what is 0 or empty is left out.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/trace/output.h"

static enum trace_result
json_open(struct trace_output *output, const char *path, struct trace_error *error)
{
	enum trace_result result = trace_output_open_sink(output, path, error);

	if (result != TRACE_OK)
		return result;
	trace_sink_string(output->sink, "{\"format\": \"soma-events\", \"source\": ");
	trace_sink_json(output->sink, trace_format(output->reader));
	trace_sink_string(output->sink, ", \"events\": [");
	return TRACE_OK;
}

static void
put_number(struct trace_output *output, const char *key, uint64_t number)
{
	char text[96];

	snprintf(text, sizeof text, ", \"%s\": %" PRIu64, key, number);
	if (number != 0)
		trace_sink_string(output->sink, text);
}

static void
put_address(struct trace_output *output, const char *key, uint64_t number)
{
	char text[96];

	snprintf(text, sizeof text, ", \"%s\": \"0x%" PRIx64 "\"", key, number);
	if (number != 0)
		trace_sink_string(output->sink, text);
}

static void
put_text(struct trace_output *output, const char *key, const char *text)
{
	if (text[0] == '\0')
		return;
	trace_sink_string(output->sink, ", \"");
	trace_sink_string(output->sink, key);
	trace_sink_string(output->sink, "\": ");
	trace_sink_json(output->sink, text);
}

static void
put_pool(struct trace_output *output, const uint64_t pool[2])
{
	char text[96];

	snprintf(text, sizeof text, ", \"pool\": [%" PRIu64 ", %" PRIu64 "]", pool[0], pool[1]);
	trace_sink_string(output->sink, text);
}

static void
json_put(struct trace_output *output, const struct trace_event *event, const char *holder, const char *detail)
{
	trace_sink_string(output->sink, output->events > 0 ? ",\n{\"op\": \"" : "\n{\"op\": \"");
	trace_sink_string(output->sink, trace_op_text(event->op));
	trace_sink_string(output->sink, "\"");
	put_number(output, "time_ns", event->time_ns);
	put_number(output, "device", (uint64_t)event->device);
	put_number(output, "thread", event->thread);
	put_address(output, "stream", event->stream);
	put_address(output, "ptr", event->ptr);
	put_number(output, "size", event->size);
	put_number(output, "generation", event->generation);
	put_text(output, "tag", holder);
	put_text(output, "detail", detail);
	if (event->deferred)
		trace_sink_string(output->sink, ", \"deferred\": true");
	if (event->has_pool)
		put_pool(output, event->pool);
	trace_sink_string(output->sink, "}");
}

static void
put_block(struct trace_output *output, const struct trace_block *block)
{
	static const char *const states[] = { "free", "live", "pending" };

	trace_sink_string(output->sink, "{\"state\": \"");
	trace_sink_string(output->sink, states[block->state]);
	trace_sink_string(output->sink, "\"");
	put_address(output, "ptr", block->address);
	put_number(output, "size", block->size);
	put_number(output, "requested", block->requested);
	put_text(output, "tag", trace_name_text(output->reader, block->holder));
	trace_sink_string(output->sink, "}");
}

static void
put_segment(struct trace_output *output, const struct trace_segment *segment)
{
	trace_sink_string(output->sink,
			  segment->small ? "\n{\"pool_size\": \"small\"" : "\n{\"pool_size\": \"large\"");
	put_number(output, "device", (uint64_t)segment->device);
	put_address(output, "ptr", segment->address);
	put_number(output, "size", segment->size);
	put_address(output, "stream", segment->stream);
	put_pool(output, segment->pool);
	if (segment->expandable)
		trace_sink_string(output->sink, ", \"expandable\": true");
	trace_sink_string(output->sink, ", \"blocks\": [");
	for (size_t i = 0; i < segment->block_count; i++) {
		trace_sink_bytes(output->sink, ", ", i > 0 ? 2 : 0);
		put_block(output, &segment->blocks[i]);
	}
	trace_sink_string(output->sink, "]}");
}

static enum trace_result
json_close(struct trace_output *output, struct trace_error *error)
{
	const struct trace_snapshot *snapshot = trace_snapshot(output->reader);

	trace_sink_string(output->sink, "\n]");
	if (snapshot != NULL) {
		put_text(output, "settings", trace_name_text(output->reader, snapshot->settings));
		trace_sink_string(output->sink,
				  snapshot->at_start ? ",\n\"start\": [" : ",\n\"segments\": [");
		for (size_t i = 0; i < snapshot->segment_count; i++) {
			trace_sink_bytes(output->sink, ",", i > 0);
			put_segment(output, &snapshot->segments[i]);
		}
		trace_sink_string(output->sink, "\n]");
	}
	trace_sink_string(output->sink, "}\n");
	return trace_output_close_sink(output, error);
}

const struct trace_output_format trace_output_json = {
	.name = "json",
	.ending = ".json",
	.open = json_open,
	.put = json_put,
	.close = json_close,
};

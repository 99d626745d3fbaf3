/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chrome trace events, for Perfetto and the like: a process a device, with a counter of
 * used and reserved bytes a stream, an asynchronous span a block, and instants for what
 * failed and for marks.  Without times, events are a microsecond apart.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/trace/memory.h"
#include "tools/trace/output.h"

struct chrome {
	struct trace_map streams;  /* by device and stream: number = used, other = reserved */
	struct trace_map segments; /* by address: number = size, other = the stream's key */
	struct trace_map devices;  /* those that were named */
	uint64_t spans;
};

static enum trace_result
chrome_open(struct trace_output *output, const char *path, struct trace_error *error)
{
	const struct trace_snapshot *snapshot = trace_snapshot(output->reader);
	enum trace_result result;

	output->state = trace_zeroed(sizeof(struct chrome));
	if (output->state == NULL)
		return trace_fail_memory(error, path);
	result = trace_output_open_sink(output, path, error);
	if (result != TRACE_OK) {
		trace_release(output->state);
		return result;
	}
	if (snapshot != NULL)
		output->lost[LOSS_SNAPSHOT] = snapshot->segment_count;
	trace_sink_string(output->sink,
			  "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n{\"ph\": \"M\", \"name\": "
			  "\"trace\", \"pid\": 0, \"args\": {}}");
	return TRACE_OK;
}

/* ,{"ph": PHASE, "pid": DEVICE, "tid": THREAD, "ts": TIME: without a closing brace. */
static void
begin(struct trace_output *output, const struct trace_event *event, char phase)
{
	char text[160];

	if (output->has_times)
		snprintf(text, sizeof text,
			 ",\n{\"ph\": \"%c\", \"pid\": %" PRId32 ", \"tid\": %" PRIu32 ", \"ts\": %" PRIu64
			 ".%03u",
			 phase, event->device, event->thread, event->time_ns / 1000,
			 (unsigned)(event->time_ns % 1000));
	else
		snprintf(text, sizeof text,
			 ",\n{\"ph\": \"%c\", \"pid\": %" PRId32 ", \"tid\": %" PRIu32 ", \"ts\": %" PRIu64,
			 phase, event->device, event->thread, output->events);
	trace_sink_string(output->sink, text);
}

static void
put_name(struct trace_output *output, const char *name)
{
	trace_sink_string(output->sink, ", \"name\": ");
	trace_sink_json(output->sink, name);
}

static struct trace_map_entry *
need(struct trace_output *output, struct trace_map *map, uint64_t key)
{
	struct trace_map_entry *entry = trace_map_need(map, key);

	output->no_memory |= entry == NULL;
	return entry;
}

static uint64_t
stream_key(const struct trace_event *event)
{
	return event->stream * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)event->device;
}

static void
name_device(struct trace_output *output, const struct trace_event *event)
{
	struct chrome *chrome = output->state;
	struct trace_map_entry *entry = need(output, &chrome->devices, (uint64_t)event->device);
	char text[160];

	if (entry == NULL || entry->number++ > 0)
		return;
	snprintf(text, sizeof text,
		 ",\n{\"ph\": \"M\", \"pid\": %" PRId32
		 ", \"name\": \"process_name\", \"args\": {\"name\": \"device %" PRId32 "\"}}",
		 event->device, event->device);
	trace_sink_string(output->sink, text);
}

/* The counter of a stream has changed. */
static void
put_counter(struct trace_output *output, const struct trace_event *event, uint64_t key, uint64_t used,
	    uint64_t reserved)
{
	struct chrome *chrome = output->state;
	struct trace_map_entry *stream = need(output, &chrome->streams, key);
	char text[160];

	if (stream == NULL)
		return;
	stream->number += used;
	stream->other += reserved;
	if (stream->name++ == 0)
		stream->more = event->stream;
	begin(output, event, 'C');
	snprintf(text, sizeof text, ", \"name\": \"stream 0x%" PRIx64 "\", \"args\": {\"used\": %" PRIu64,
		 stream->more, stream->number);
	trace_sink_string(output->sink, text);
	snprintf(text, sizeof text, ", \"reserved\": %" PRIu64 "}}", stream->other);
	trace_sink_string(output->sink, chrome->segments.room > 0 ? text : "}}");
}

/* ---- blocks ---------------------------------------------------------------------- */

static void
put_span(struct trace_output *output, const struct trace_event *event, char phase,
	 const struct trace_map_entry *block)
{
	const char *holder = trace_name_text(output->reader, block->name);
	char text[160];

	begin(output, event, phase);
	snprintf(text, sizeof text, ", \"cat\": \"block\", \"id\": \"0x%" PRIx64 "\"", block->number);
	trace_sink_string(output->sink, text);
	put_name(output, holder[0] != '\0' ? holder : "block");
	snprintf(text, sizeof text, ", \"args\": {\"ptr\": \"0x%" PRIx64 "\", \"size\": %" PRIu64 "}}",
		 event->ptr, block->other);
	trace_sink_string(output->sink, phase == 'b' ? text : "}");
}

static void
end_block(struct trace_output *output, const struct trace_event *event)
{
	struct trace_map_entry *block = trace_map_find(&output->live, event->ptr);

	trace_output_lose(output, LOSS_UNKNOWN, block == NULL && event->ptr != 0);
	if (block == NULL)
		return;
	put_span(output, event, 'e', block);
	put_counter(output, event, block->more, 0 - block->other, 0);
	trace_map_remove(&output->live, block);
}

static void
begin_block(struct trace_output *output, const struct trace_event *event)
{
	struct chrome *chrome = output->state;
	struct trace_map_entry *block;

	if (event->ptr == 0 || event->size == 0)
		return;
	if (trace_map_find(&output->live, event->ptr) != NULL)
		end_block(output, event); /* its free is missing */
	block = need(output, &output->live, event->ptr);
	if (block == NULL)
		return;
	block->number = ++chrome->spans;
	block->other = event->size;
	block->name = event->holder;
	block->more = stream_key(event);
	put_span(output, event, 'b', block);
	put_counter(output, event, stream_key(event), event->size, 0);
}

/* ---- segments --------------------------------------------------------------------- */

static void
begin_segment(struct trace_output *output, const struct trace_event *event)
{
	struct chrome *chrome = output->state;
	struct trace_map_entry *segment = need(output, &chrome->segments, event->ptr);

	if (segment == NULL)
		return;
	segment->number = event->size;
	segment->other = stream_key(event);
	put_counter(output, event, segment->other, 0, event->size);
}

/* Parts of expandable segments go and come in other pieces: their event's size counts. */
static void
end_segment(struct trace_output *output, const struct trace_event *event)
{
	struct chrome *chrome = output->state;
	struct trace_map_entry *segment = trace_map_find(&chrome->segments, event->ptr);

	if (event->op == TRACE_SEGMENT_UNMAP)
		put_counter(output, event, stream_key(event), 0, 0 - event->size);
	else if (segment != NULL)
		put_counter(output, event, segment->other, 0, 0 - segment->number);
	if (segment != NULL && event->op == TRACE_SEGMENT_FREE)
		trace_map_remove(&chrome->segments, segment);
}

/* ---- events ------------------------------------------------------------------------ */

static void
put_instant(struct trace_output *output, const struct trace_event *event, const char *holder,
	    const char *detail)
{
	char text[96];

	begin(output, event, 'i');
	put_name(output, event->op == TRACE_MARK && holder[0] != '\0' ? holder : trace_op_text(event->op));
	snprintf(text, sizeof text,
		 ", \"s\": \"p\", \"args\": {\"size\": %" PRIu64 ", \"detail\": ", event->size);
	trace_sink_string(output->sink, text);
	trace_sink_json(output->sink, detail);
	trace_sink_string(output->sink, "}}");
}

static void
chrome_put(struct trace_output *output, const struct trace_event *event, const char *holder,
	   const char *detail)
{
	name_device(output, event);
	trace_output_lose(output, LOSS_GENERATIONS, event->generation != 0);
	trace_output_lose(output, LOSS_DEFERRED, event->deferred);
	trace_output_lose(output, LOSS_POOLS,
			  event->has_pool && (event->pool[0] != 0 || event->pool[1] != 0));
	switch (event->op) {
	case TRACE_ALLOC:
		begin_block(output, event);
		break;
	case TRACE_FREE:
		end_block(output, event);
		break;
	case TRACE_SEGMENT_ALLOC:
	case TRACE_SEGMENT_MAP:
		begin_segment(output, event);
		break;
	case TRACE_SEGMENT_FREE:
	case TRACE_SEGMENT_UNMAP:
		end_segment(output, event);
		break;
	case TRACE_FREE_COMPLETED:
		break; /* with its deferred free */
	case TRACE_ALLOC_FAILED:
	case TRACE_OOM:
	case TRACE_MARK:
		put_instant(output, event, holder, detail);
		break;
	default:
		output->lost[LOSS_ORDER]++;
	}
}

static enum trace_result
chrome_close(struct trace_output *output, struct trace_error *error)
{
	struct chrome *chrome = output->state;

	trace_sink_string(output->sink, "\n]}\n");
	trace_map_fini(&chrome->streams);
	trace_map_fini(&chrome->segments);
	trace_map_fini(&chrome->devices);
	trace_release(chrome);
	return trace_output_close_sink(output, error);
}

const struct trace_output_format trace_output_chrome = {
	.name = "chrome",
	.ending = ".trace.json",
	.open = chrome_open,
	.put = chrome_put,
	.close = chrome_close,
};

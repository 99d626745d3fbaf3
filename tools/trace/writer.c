/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes soma's own trace, see soma-trace(5).  The same events give the same bytes.
 */
#include <string.h>

#include "tools/trace/memory.h"
#include "tools/trace/sink.h"
#include "tools/trace/somacsv.h"

struct trace_writer {
	struct trace_sink *sink;
	bool begun; /* the header was written */
	bool pools; /* lines have a pool */
};

static void
put_comma(struct trace_writer *writer)
{
	trace_sink_bytes(writer->sink, ",", 1);
}

/* Nothing for 0, which an empty field reads as. */
static void
put_optional(struct trace_writer *writer, uint64_t number, unsigned base)
{
	if (number != 0)
		trace_sink_number(writer->sink, number, base);
	put_comma(writer);
}

static void
put_header(struct trace_writer *writer)
{
	size_t columns = writer->pools ? TRACE_SOMA_COLUMNS_POOLS : TRACE_SOMA_COLUMNS;

	writer->begun = true;
	for (size_t i = 0; i < columns; i++) {
		trace_sink_bytes(writer->sink, ",", i > 0);
		trace_sink_string(writer->sink, trace_soma_columns[i]);
	}
	trace_sink_bytes(writer->sink, "\n", 1);
}

enum trace_result
trace_writer_open(const char *path, struct trace_writer **writer, struct trace_error *error)
{
	struct trace_writer *opened = trace_zeroed(sizeof *opened);
	enum trace_result result;

	*writer = NULL;
	if (opened == NULL)
		return trace_fail_memory(error, strcmp(path, "-") == 0 ? "standard output" : path);
	result = trace_sink_open(path, &opened->sink, error);
	if (result == TRACE_OK)
		*writer = opened;
	else
		trace_release(opened);
	return result;
}

void
trace_writer_with_pools(struct trace_writer *writer)
{
	writer->pools = true;
}

static void
put_pool(struct trace_writer *writer, const struct trace_event *event)
{
	put_comma(writer);
	if (!event->has_pool)
		return;
	trace_sink_number(writer->sink, event->pool[0], 10);
	trace_sink_bytes(writer->sink, ":", 1);
	trace_sink_number(writer->sink, event->pool[1], 10);
}

static void
put_numbers(struct trace_writer *writer, const struct trace_event *event)
{
	trace_sink_number(writer->sink, event->time_ns, 10);
	put_comma(writer);
	put_optional(writer, event->thread, 10);
	trace_sink_string(writer->sink, trace_op_text(event->op));
	put_comma(writer);
	trace_sink_number(writer->sink, (uint64_t)event->device, 10);
	put_comma(writer);
	trace_sink_number(writer->sink, event->stream, 10);
	put_comma(writer);
	put_optional(writer, event->ptr, 16);
	put_optional(writer, event->size, 10);
}

void
trace_writer_put(struct trace_writer *writer, const struct trace_event *event, const char *holder,
		 const char *detail)
{
	if (!writer->begun)
		put_header(writer);
	if (detail == NULL)
		detail = "";
	put_numbers(writer, event);
	trace_sink_csv(writer->sink, "", holder != NULL ? holder : "");
	put_comma(writer);
	put_optional(writer, event->generation, 10);
	if (event->deferred)
		trace_sink_csv(writer->sink,
			       detail[0] != '\0' ? TRACE_SOMA_DEFERRED ";" : TRACE_SOMA_DEFERRED, detail);
	else
		trace_sink_csv(writer->sink, "", detail);
	if (writer->pools)
		put_pool(writer, event);
	trace_sink_bytes(writer->sink, "\n", 1);
}

enum trace_result
trace_writer_close(struct trace_writer *writer, struct trace_error *error)
{
	enum trace_result result;

	if (!writer->begun)
		put_header(writer);
	result = trace_sink_close(writer->sink, error);
	trace_release(writer);
	return result;
}

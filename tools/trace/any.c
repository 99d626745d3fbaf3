/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a trace has anything to it: one that was recorded without memory, or is of something else altogether, would
 * be answered by zeros, which look like good news.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/trace/reader.h"

void
trace_any_count(struct trace_reader *reader, const struct trace_event *event)
{
	reader->counts[event->op]++;
}

static bool
has_any(const struct trace_reader *reader)
{
	return reader->counts[TRACE_ALLOC] > 0 || reader->counts[TRACE_ALLOC_FAILED] > 0 ||
	       reader->counts[TRACE_OOM] > 0 ||
	       (reader->snapshot != NULL && reader->snapshot->segment_count > 0);
}

/* "12 free, 1 sync" */
static void
list_counts(const struct trace_reader *reader, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (int op = 0; op < TRACE_OP_COUNT && used < size; op++)
		if (reader->counts[op] > 0)
			used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64 " %s",
						 used > 0 ? ", " : "", reader->counts[op],
						 trace_op_text((enum trace_op)op));
}

static enum trace_result
refuse(struct trace_reader *reader)
{
	const struct trace_format *format = reader->format;
	char counts[160], others[64] = "";

	list_counts(reader, counts, sizeof counts);
	if (format->others != NULL)
		snprintf(others, sizeof others, ", and %" PRIu64 " other %s", reader->passed_over,
			 format->others);
	return trace_fail(&reader->failure, reader->input.path,
			  "no allocation is in it: it is %s, with %s%s; expected %s", format->hint,
			  counts[0] != '\0' ? counts : "no events", others, format->allocations);
}

enum trace_result
trace_any_check(struct trace_reader *reader, enum trace_result result)
{
	struct trace_error end = reader->failure;

	if ((result != TRACE_END && result != TRACE_TRUNCATED) || !reader->needs_allocations ||
	    has_any(reader))
		return result;
	if (result == TRACE_END)
		return refuse(reader);
	/* It says where it ends, and begins with the path. */
	snprintf(reader->failure.text, sizeof reader->failure.text,
		 "%.400s, and no allocation is before that", end.text);
	return TRACE_ERROR;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first lines of a soma trace, where they say what was there before its first event:
 * segments, and behind each of them the blocks in it.  They become a snapshot of the start;
 * no event comes of them.
 */
#ifndef SOMA_TOOLS_TRACE_SOMASTART_H
#define SOMA_TOOLS_TRACE_SOMASTART_H

#include "tools/trace/csv.h"

struct soma_start {
	struct trace_snapshot snapshot;
	size_t segment_room;
	size_t block_room; /* of the last segment */
	uint64_t *lines;   /* those of the segments */
	size_t line_room;
};

/* What the detail of such a line says. */
struct soma_start_words {
	bool small, pending;
	uint64_t capacity; /* 0: nothing */
};

/* Whether the detail of an event is that of such a line. */
bool soma_start_is(enum trace_op op, const struct csv_field *detail);

/* Whether it may have become one, had the line not been cut. */
bool soma_start_might_be(const struct soma_start *start, enum trace_op op, const char *detail);

enum trace_result soma_start_read(struct csv *csv, enum trace_op op, const struct csv_field *detail,
				  struct soma_start_words *words);

enum trace_result soma_start_put(struct soma_start *start, struct csv *csv, const struct trace_event *event,
				 const struct soma_start_words *words);

/* Behind the last: whether all of it can have been there at once. */
enum trace_result soma_start_check(const struct soma_start *start, struct csv *csv);

void soma_start_clear(struct soma_start *start);

#endif

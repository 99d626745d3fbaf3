/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events in memory, for a trace that is read many times: what they have in common with
 * others (operation, stream, holder, ...) is kept once.  24 bytes an event, 8 more for each
 * of what is rare: a generation, the time of a completion, a time that goes back or leaps.
 *
 * Once it is whole it does not change, and any number of threads may read it.
 */
#ifndef SOMA_TOOLS_TRACE_KEEP_H
#define SOMA_TOOLS_TRACE_KEEP_H

#include "tools/trace/trace.h"

struct trace_kept_event {
	uint32_t kind;
	uint32_t later; /* ns after the event before */
	uint64_t ptr, size;
};

struct trace_kept_kind;

struct trace_kept {
	struct trace_kept_kind *kinds;
	size_t kind_count, kind_room;
	uint32_t *slots; /* by hash: the kind's index + 1, 0: empty */
	size_t slot_count;
	struct trace_kept_event *events;
	size_t count, room;
	uint64_t *more; /* what is rare, in the order of events */
	size_t more_count, more_room;
	uint64_t last_time; /* of the event put last */
	enum trace_result end; /* what followed the last event, and its text */
	struct trace_error failure;
};

/* How far somebody has read. */
struct trace_kept_cursor {
	size_t event, more;
	uint64_t time;
};

void trace_kept_clear(struct trace_kept *kept);

/* false: it would take more than bytes_max, but for room to grow, an eighth; or there is no memory.  Then it is of
 * no use any more. */
bool trace_kept_put(struct trace_kept *kept, const struct trace_event *event, size_t bytes_max);

/* The address of an event some way behind the cursor; 0: there is none. */
uint64_t trace_kept_ahead(const struct trace_kept *kept, const struct trace_kept_cursor *cursor);

/* false: there are no more.  Fills all of the event. */
bool trace_kept_next(const struct trace_kept *kept, struct trace_kept_cursor *cursor, struct trace_event *event);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first pass over a trace: what must be known before it can be replayed.
 *
 * Which devices it has; where each device's live bytes peak; what was there before
 * the trace began; which addresses are taken.  Memory grows with live blocks and
 * with what the trace does not explain, not with events.
 */
#ifndef SOMA_TOOLS_ENGINE_SURVEY_H
#define SOMA_TOOLS_ENGINE_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/engine/holders.h"
#include "tools/engine/table.h"
#include "tools/trace/trace.h"

/* A block that was live when the trace began, known by its free. */
struct survey_orphan {
	uint64_t ptr;
	uint64_t size;
	uint64_t stream;
	bool pending; /* it was already freed, and completes in the trace */
};

/* A segment whose first event frees it: it was there when the trace began. */
struct survey_segment {
	struct table_key key; /* address */
	bool at_start;
	uint64_t size;
	uint64_t stream;
	bool has_pool; /* its event says whose memory it is */
	uint64_t pool[2];
};

struct survey_block {
	struct table_key key; /* ptr; the tag is the holder's name */
	uint64_t size;
	bool pending; /* a deferred free has not completed */
};

#define SURVEY_NO_EVENT UINT64_MAX

/* What expandable segments are mapped in, at least. */
#define SURVEY_UNIT ((uint64_t)2 << 20)

struct survey_device {
	int32_t device;
	uint64_t events;
	uint64_t allocs;
	uint64_t segment_allocs;
	uint64_t expandable_event; /* the first segment_map, or SURVEY_NO_EVENT */
	uint64_t first_time, last_time;
	bool time_goes_back;
	bool frees_unknown; /* of blocks or segments that were there when it began */
	bool has_blocking;  /* a stream_create says "blocking" */

	uint64_t highest; /* recorded addresses are below */

	struct table live;
	struct table segments; /* those with a segment event */
	struct table units;    /* of expandable segments, the same: struct survey_segment, its
				* size that of the event's part */
	struct survey_orphan *orphans;
	size_t orphan_count, orphan_room;

	/* Live bytes, less what was live at the start: its peak is the trace's. */
	int64_t bytes, peak_bytes;
	uint64_t peak_event; /* SURVEY_NO_EVENT: at the start */
	struct holders holders;
	bool start_held; /* what was there at the start is in `holders` */
};

struct survey {
	struct survey_device *devices; /* in the order of their first event */
	size_t device_count, device_room;
	uint64_t events;
	bool rewinds; /* a snapshot says what was there at the end: frees without an alloc are kept */
	bool truncated;
	struct trace_error truncation; /* where */
	int32_t last_device;           /* of the last event read */
};

/* Reads the trace to its end.  TRACE_OK also for a truncated one. */
enum trace_result survey_run(struct survey *survey, struct trace_reader *reader,
			     void (*progress)(void *context, double done), void *context,
			     struct trace_error *error);
void survey_fini(struct survey *survey);

/* NULL when the trace has no event of the device. */
struct survey_device *survey_find(const struct survey *survey, int32_t device);

/* The same, made when there is none yet. */
struct survey_device *survey_need(struct survey *survey, int32_t device);

/* Whether all of the device's history was read: a snapshot lists one device after the
 * other. */
bool survey_is_whole(const struct survey *survey, int32_t device);

/* The device with the most allocations, the lowest of those; NULL without events. */
struct survey_device *survey_busiest(const struct survey *survey);

#endif

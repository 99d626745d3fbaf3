/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace does, counted in one pass and without a model: sizes, lifetimes, streams,
 * holders.  Memory grows with live blocks, streams and names, not with events.
 */
#ifndef SOMA_TOOLS_ENGINE_CENSUS_H
#define SOMA_TOOLS_ENGINE_CENSUS_H

#include "tools/engine/spread.h"
#include "tools/engine/table.h"
#include "tools/trace/trace.h"

struct census_stream {
	struct table_key key; /* handle */
	uint64_t allocs, frees, bytes;
};

struct census_holder {
	trace_name name;
	uint64_t allocs, bytes; /* in all: what it churns */
	uint64_t live, live_bytes;
};

struct census {
	int32_t device;
	uint64_t events, allocs, frees;
	uint64_t ignored;       /* allocations of no bytes, or at no address */
	uint64_t unknown_frees; /* of blocks that were not live */
	uint64_t overwritten, recorded_failed;
	uint64_t bytes; /* allocated in all */
	uint64_t live, live_bytes, most_live; /* allocated in the trace */
	uint64_t first_ns, last_ns;
	bool has_times; /* they go on, and never back */
	struct spread sizes;
	struct spread life_events; /* from the allocation to the free */
	struct spread life_ns;
	struct spread delay_ns, delay_events; /* from a deferred free to its completion */
	struct census_stream *streams; /* by bytes */
	size_t stream_count;
	struct census_holder *holders; /* by bytes */
	size_t holder_count;
};

#define CENSUS_DEVICE_ANY (-1)

/* The device with the most allocations, or the given one.  TRACE_ERROR: `error` says why;
 * TRACE_TRUNCATED: the census is of what could be read, and `error` says where it ends.
 * TRACE_END: the trace has no such device. */
enum trace_result census_take(struct trace_reader *reader, int32_t device, struct census *census,
			      struct trace_error *error);
void census_fini(struct census *census);

#endif

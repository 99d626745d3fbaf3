/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace does, counted without a model: sizes, lifetimes, streams, holders.  Memory
 * grows with live blocks, streams and names, not with events.
 *
 * What is wrong in the trace is counted as a replay counts it (run.c), and what a snapshot
 * says was there before the first event is there here, too: so the two have the same peak of
 * live bytes and the same blocks at the end.
 */
#ifndef SOMA_TOOLS_ENGINE_CENSUS_H
#define SOMA_TOOLS_ENGINE_CENSUS_H

#include "tools/engine/account.h"
#include "tools/engine/spread.h"
#include "tools/trace/trace.h"

/* An event's index, where there is none: the state before the first event. */
#define CENSUS_AT_START UINT64_MAX
#define CENSUS_DEVICE_ANY (-1)

struct census {
	int32_t device;
	size_t device_count; /* in the trace */
	bool truncated;
	struct trace_error truncation; /* where */

	uint64_t events, allocs, frees;
	uint64_t ignored;       /* allocations of no bytes, or at no address */
	uint64_t unknown_frees; /* of blocks that were not live */
	uint64_t overwritten, recorded_failed, uses;
	uint64_t too_big;      /* above what a model can reserve: they hold nothing here */
	uint64_t stray_frees;  /* on another stream than the allocation's */
	uint64_t start_blocks; /* there before the trace; without a lifetime, and not in `bytes` */
	uint64_t start_bytes;
	uint64_t start_pending, start_pending_bytes; /* of them freed before it: not live, and not completed */
	uint64_t pending;            /* at the end: deferred frees that have not completed */
	uint64_t bytes, freed_bytes; /* of the allocations, and of the frees */
	uint64_t live, live_bytes;
	uint64_t most_live, most_live_event;
	uint64_t peak_bytes, peak_event;
	uint64_t first_ns, last_ns; /* the least and the greatest */
	uint64_t backwards;         /* events whose time is before that of the one before */
	struct spread sizes;
	struct spread life_events, life_ns;   /* from the allocation to the free */
	struct spread delay_events, delay_ns; /* from a deferred free to its completion */
	struct accounts holders, streams;     /* by bytes */
};

/* Whether times say anything: there are some, and they are nanoseconds. */
static inline bool
census_has_times(const struct census *census)
{
	return census->last_ns > census->first_ns;
}

/* The device with the most allocations, or the given one.  TRACE_END: it has no such device;
 * TRACE_ERROR: it cannot be read.  Both with `error`, and no census. */
enum trace_result census_take(struct trace_reader *reader, int32_t device, struct census *census,
			      struct trace_error *error);
void census_fini(struct census *census);

#endif

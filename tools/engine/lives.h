/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lifetimes of a device's blocks, as an offline packing wants them.
 */
#ifndef SOMA_TOOLS_ENGINE_LIVES_H
#define SOMA_TOOLS_ENGINE_LIVES_H

#include "tools/engine/engine.h"
#include "tools/pack/pack.h"

struct lives {
	struct pack_item *items; /* requested sizes; what is never freed lives to the end */
	size_t count, room;
	bool complete; /* false: more than count_max; then only the sums are right */
	/* The largest sums of live sizes, a block living until its free. */
	uint64_t peak_requested;
	uint64_t peak_rounded; /* each size rounded up to `alignment` */
	uint64_t peak_rounded_event; /* or REPLAY_AT_START */
	uint64_t peak_wanted; /* rounded, with each request that the trace says failed beside what was live then */
	struct replay_recorded recorded; /* those; in `items` they live for a moment */
};

/*
 * A block's addresses are taken until its free has completed in the trace.  Times count
 * moments: ends, then beginnings, as many as follow each other.  So what begins in place of
 * something begins when that ends.
 */
enum soma_status lives_read(struct replay_session *session, int32_t device, uint64_t alignment,
			    size_t count_max, struct lives *lives, struct trace_error *error);
void lives_fini(struct lives *lives);

/* A size as the sums and a packing have it; what cannot be rounded up stays as it is. */
uint64_t lives_round(uint64_t size, uint64_t alignment);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses for traces that know only sizes: each allocation gets one of its own, and a
 * free is that of the block of its size on its device that was allocated last.
 */
#ifndef SOMA_TOOLS_TRACE_PAIRS_H
#define SOMA_TOOLS_TRACE_PAIRS_H

#include "tools/trace/map.h"
#include "tools/trace/trace.h"

/* Sizes are below 2^48, devices below 2^16. */
#define TRACE_PAIRS_SIZE ((uint64_t)1 << 48)
#define TRACE_PAIRS_DEVICES (1 << 16)

struct trace_pairs {
	struct trace_map by_size; /* by size and device; number: the latest's address */
	struct trace_map below;   /* by address; number: the address of the one before it */
	uint64_t used;            /* of the invented addresses */
};

void trace_pairs_fini(struct trace_pairs *pairs);

/* Sets event->ptr.  false: no memory. */
bool trace_pairs_alloc(struct trace_pairs *pairs, struct trace_event *event);

/* The same; without such a block the address is one that no block had. */
void trace_pairs_free(struct trace_pairs *pairs, struct trace_event *event);

#endif

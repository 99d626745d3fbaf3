/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded queue of trace events: many threads put, one at a time takes.
 *
 * A cell's number says whose turn it is: `position` for the thread that puts there, position + 1 for
 * the one that takes.  Events come out in the order in which their places were taken, so an event that was
 * put before another thread's put began comes out before that one's.
 */
#ifndef SOMA_LIB_RESOURCE_TRACE_RING_H
#define SOMA_LIB_RESOURCE_TRACE_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include <soma/status.h>

#include "lib/arena/arena.h"
#include "lib/resource/trace_line.h"

#define SOMA__TRACE_RING_EVENTS_MAX (1u << 24)

struct soma__trace_cell {
	_Atomic uint64_t turn;
	struct soma__trace_event event;
} __attribute__((aligned(64)));

struct soma__trace_ring {
	struct soma__trace_cell *cells;
	uint64_t mask;
	_Atomic uint64_t tail __attribute__((aligned(128))); /* next place to put */
	_Atomic uint64_t head __attribute__((aligned(128))); /* next one to take; written by the taker */
};

/* events: rounded up to a power of two. */
enum soma_status soma__trace_ring_init(struct soma__trace_ring *ring, struct soma__arena *arena,
				       uint32_t events);
void soma__trace_ring_fini(struct soma__trace_ring *ring, struct soma__arena *arena);

/* False: it is full.  *place: which one it was. */
bool soma__trace_ring_put(struct soma__trace_ring *ring, const struct soma__trace_event *event,
			  uint64_t *place);

/* False: nothing is there, or the next one is being put just now. */
bool soma__trace_ring_take(struct soma__trace_ring *ring, struct soma__trace_event *event);

#endif

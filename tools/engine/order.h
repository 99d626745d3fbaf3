/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a trace runs after what, by vector clocks: as far as its records, waits,
 * synchronisations and streams say so, and no further.
 *
 * A lane is a stream; lane 0 is the host, one for all threads, in the order of the trace.  An
 * operation ticks its lane's own component, and comes before what follows in lane L when L's
 * clock has reached its tick.  A stream that the trace does not call blocking is ordered by
 * events alone; those that it does take turns with the legacy default stream, handle 0 of
 * their device.
 *
 * Nothing here knows of memory.  It grows with streams and events' handles; a lane whose
 * stream is gone goes to another one when the host has seen its end.
 */
#ifndef SOMA_TOOLS_ENGINE_ORDER_H
#define SOMA_TOOLS_ENGINE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/engine/table.h"

/* Streams at once; a clock has as many components. */
#define ORDER_LANES_MAX 4096

struct order_clock {
	uint64_t *tick;
	uint32_t width;
};

struct order_lane {
	struct order_clock now;
	uint64_t stream; /* handle */
	int32_t device;
	bool blocking, legacy;
	bool declared;                                   /* the trace says which of the two kinds it is */
	bool gone;                                       /* the stream was destroyed */
	uint64_t version;                                /* grows with `now` */
	uint64_t seen_host, seen_legacy, seen_by_legacy; /* versions that are in it, or it in */
};

struct order_device {
	int32_t device;
	uint32_t legacy;      /* lane; 0: none */
	struct table streams; /* by handle; the tag is the lane */
};

struct order {
	struct order_lane *lanes; /* [0]: the host */
	size_t count, room;
	size_t gone; /* lanes of streams that are */
	struct order_device *devices;
	size_t device_count, device_room;
	struct table events;    /* by handle */
	uint64_t streams;       /* that there ever were */
	uint64_t unknown_waits; /* for events that were never recorded */
	bool crowded;           /* there were more streams at once than lanes: what follows is unjudged */
};

/* An operation's place. */
struct order_point {
	uint64_t tick; /* 0: there was none */
	uint32_t lane;
};

void order_init(struct order *order);
void order_fini(struct order *order);

/* The stream's lane, made at its first use; 0 when it is crowded. */
uint32_t order_lane(struct order *order, int32_t device, uint64_t stream);

/* An operation in the lane. */
struct order_point order_op(struct order *order, uint32_t lane);

/* Whether what comes next in the lane runs after the point. */
bool order_is_after(const struct order *order, uint32_t lane, struct order_point point);

/* Whether the host has waited for it: then all that it queues from now on runs after it. */
bool order_is_settled(const struct order *order, struct order_point point);

void order_create(struct order *order, int32_t device, uint64_t stream, bool blocking, bool declared);
void order_destroy(struct order *order, int32_t device, uint64_t stream);
void order_record(struct order *order, uint32_t lane, uint64_t event);
void order_wait(struct order *order, uint32_t lane, uint64_t event);
void order_sync(struct order *order, uint32_t lane);
void order_sync_event(struct order *order, uint64_t event);
void order_sync_device(struct order *order, int32_t device);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace says of the order between streams: a vector clock for each stream, each
 * recorded event, and the host.
 *
 * An operation of a stream comes after what the host had waited for, and after the legacy
 * default stream's work by its blocking rule (for traces that say which streams are blocking).
 * A new stream begins at the host's clock.
 */
#ifndef SOMA_TOOLS_ENGINE_ORDER_H
#define SOMA_TOOLS_ENGINE_ORDER_H

#include "tools/engine/table.h"
#include "tools/trace/trace.h"

/* Streams (handles that were destroyed and came back count again) in one trace. */
#define ORDER_STREAMS_MAX 4096

struct clock {
	uint64_t *at; /* by stream; what is beyond `count` is 0 */
	size_t count;
};

/* An operation: its stream, and its number there, from 1. */
struct epoch {
	uint32_t stream;
	uint64_t tick;
};

struct order_stream {
	struct clock clock;
	uint64_t handle;
	bool blocking;
};

struct order {
	struct order_stream *streams;
	size_t count, room;
	struct table handles, events;
	struct clock host;
	size_t blocking; /* how many are */
	uint64_t edges;  /* records, waits and syncs */
	uint64_t unknown_events;
};

void order_init(struct order *order);
void order_fini(struct order *order);

/* The next operation of the stream.  False: too many streams. */
bool order_step(struct order *order, uint64_t handle, struct epoch *epoch);

/* Whether what happened at `before` is known to have come before the stream's latest
 * operation. */
bool order_is_before(const struct order *order, struct epoch before, struct epoch now);

uint64_t order_handle(const struct order *order, struct epoch epoch);

/* The events that make order; others are passed over.  False: too many streams. */
bool order_see(struct order *order, const struct trace_reader *reader, const struct trace_event *event);

#endif

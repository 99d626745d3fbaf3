/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the segments of a replay lie: at the addresses that the trace recorded, so
 * that a recorded address can be compared with the model's.
 *
 * A segment_alloc event precedes the allocation that needs it: it is offered, and
 * the model takes it when it grows by the same size on the same stream.  When
 * nothing fitting is on offer, the segment gets a free place, if possible one that
 * the trace never uses.  What the model holds never overlaps, whatever the trace says.
 */
#ifndef SOMA_TOOLS_ENGINE_SOURCE_H
#define SOMA_TOOLS_ENGINE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <soma/model.h>

struct source_segment {
	uint64_t address;
	uint64_t size;
	uint64_t stream;
};

struct source_list {
	struct source_segment *at;
	size_t count, room;
};

struct source {
	struct source_list offered; /* by the trace, not taken yet */
	struct source_list held;    /* by the model */
	uint64_t top;               /* no recorded segment reaches above */
	uint64_t next;              /* where to look for a place that was not recorded */
	uint64_t reproduced;        /* offered ones that were taken */
	uint64_t released;          /* by the model, for whatever reason */
};

/* The trace's addresses are below `highest`. */
void source_init(struct source *source, uint64_t highest);
void source_fini(struct source *source);

/* The functions that a model wants; valid as long as the source. */
struct soma_segment_source source_functions(struct source *source);

/* The trace allocated a segment: the model may take it. */
void source_offer(struct source *source, uint64_t stream, uint64_t address, uint64_t size);

/* The trace freed it: nobody may take it any more. */
void source_withdraw(struct source *source, uint64_t address);

/* Whether an address is in a segment that the model has. */
bool source_holds(const struct source *source, uint64_t address);

/* The model was given this one by other means. */
void source_adopted(struct source *source, uint64_t address, uint64_t size);

#endif

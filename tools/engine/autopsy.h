/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a model when memory ran out: what is free and for whom, which live blocks
 * keep whole segments, who holds the most.
 */
#ifndef SOMA_TOOLS_ENGINE_AUTOPSY_H
#define SOMA_TOOLS_ENGINE_AUTOPSY_H

#include "tools/engine/run.h"

struct pin_block {
	uint64_t address, size; /* of the kind that `recorded_addresses` says */
	trace_name holder;
	size_t nth; /* in the walk */
};

/* A segment that is partly free, and its live blocks. */
struct pin {
	bool has_address; /* of the kind that `recorded_addresses` says: */
	uint64_t address, size, free;
	struct pin_block *blocks; /* the smallest first */
	size_t block_count, block_room;
	size_t nth; /* in the walk */
};

struct autopsy {
	bool taken;
	bool recorded; /* the trace tells of the failure; else the replay met it */
	uint64_t event, size;
	bool has_device_free;
	uint64_t device_free; /* as the trace tells */
	uint64_t limit;       /* of a recorded failure: what could be reserved then */
	struct replay_moment moment;
	struct replay_oom verdict;
	uint64_t idle;          /* bytes of segments that are wholly free: cached */
	/* Addresses of pins are the recorded ones, where the format has any: of a segment, when the replay
	 * has it, and all its live blocks, where the trace says.  Else they are the model's. */
	bool recorded_addresses;
	struct pin *pins; /* the most free bytes first */
	size_t pin_count, pin_room;
	struct holder_rank *holders; /* at that moment */
	size_t holder_count;
};

/* The allocation has just failed in the model. */
void autopsy_take(struct autopsy *autopsy, struct run *run, uint64_t event, uint64_t size, uint64_t stream);

/* The trace says that it failed.  The limit is taken to be what is reserved and what was free
 * on the device, or a capacity below that; where nothing tells what was free, the capacity. */
void autopsy_take_recorded(struct autopsy *autopsy, struct run *run, const struct trace_event *event,
			   uint64_t stream);

void autopsy_fini(struct autopsy *autopsy);

#endif

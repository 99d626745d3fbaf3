/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace's blocks in the model: allocating them, freeing them, and what is known of
 * a free that completes later.
 */
#ifndef SOMA_TOOLS_ENGINE_BLOCKS_H
#define SOMA_TOOLS_ENGINE_BLOCKS_H

#include "tools/engine/run.h"

enum block_state {
	BLOCK_LIVE,
	BLOCK_FAILED,  /* the trace has it, the model had no room */
	BLOCK_PASSED,  /* the same, freed; its completion is still to come */
	BLOCK_PENDING, /* freed; its completion is still to come */
	BLOCK_APART,   /* the same, freed on a stream made for that */
	BLOCK_KEPT,    /* the same, of expandable memory */
};

struct run_block {
	struct table_key key; /* the trace's address; the tag is the holder */
	enum block_state state;
	union {
		uint64_t ptr;    /* LIVE, KEPT: the model's */
		uint64_t stream; /* PENDING, APART: the one that frees it, ... */
	};
	union {
		uint64_t size; /* LIVE: requested */
		uint64_t seq;  /* PENDING, APART: ... and its position after the free */
	};
};

/* Whether the trace has it live, whatever the model had room for: what is counted of the
 * trace does not depend on the capacity. */
static inline bool
run_is_live(const struct run_block *block)
{
	return block->state == BLOCK_LIVE || block->state == BLOCK_FAILED;
}

/* Allocates in the model; without room there the block is FAILED, and all is well. */
enum soma_status run_alloc(struct run *run, uint64_t event, uint64_t ptr, uint64_t size, uint64_t stream,
			   trace_name holder);

/* The trace has the block, the model has no room for it. */
void run_no_room(struct run *run, uint64_t event, uint64_t ptr, uint64_t size, uint64_t stream);

/* An allocation that the trace says has failed: tried here, and freed again. */
enum soma_status run_try(struct run *run, const struct trace_event *event, uint64_t stream);

/* The model has the block already. */
void run_enter(struct run *run, uint64_t ptr, uint64_t model_ptr, uint64_t size, trace_name holder);

/* Frees a block of whatever state, and forgets it. */
enum soma_status run_free(struct run *run, struct run_block *block, uint64_t stream);

/* Frees a block whose free completes later. */
enum soma_status run_free_later(struct run *run, uint64_t ptr, uint64_t stream);

/* That free has completed. */
enum soma_status run_complete(struct run *run, const struct run_block *block);

/* A synchronisation was recorded: completed frees have executed. */
enum soma_status run_end_executed(struct run *run);

/* After an allocation on the stream: is this the peak? */
void run_note_peak(struct run *run, uint64_t event, uint64_t stream);

#endif

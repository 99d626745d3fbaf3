/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was there before a trace began, rebuilt from what a snapshot says was there
 * at its end: starting segments are the final ones, less those allocated in the
 * trace, plus those freed in it; starting blocks are the final ones whose allocation
 * is not in the trace, plus those whose free has no allocation.
 *
 * It takes the whole trace: in a truncated one, whatever the missing part allocated
 * would seem to have been there from the start.
 *
 * A trace that says itself what was there needs none of this: it is taken as it stands.
 */
#ifndef SOMA_TOOLS_ENGINE_REWIND_H
#define SOMA_TOOLS_ENGINE_REWIND_H

#include <soma/model.h>

#include "tools/engine/survey.h"
#include "tools/trace/trace.h"

struct start_segment {
	uint64_t address;
	uint64_t size;
	uint64_t stream;
	unsigned pool;   /* the size pool: a row of the policy */
	bool expandable; /* a part of one */
	bool has_pool;   /* whose memory it is, is known: */
	uint64_t private_pool[2];
};

struct start_block {
	uint64_t ptr;
	uint64_t size; /* requested */
	uint64_t capacity;
	trace_name holder;
	bool inferred;  /* known by its free alone: the capacity is a guess */
	bool pending;   /* already freed, not known to have executed */
	size_t segment; /* the index of the one it is in */
};

struct start {
	struct start_segment *segments; /* in address order, as the blocks are */
	size_t segment_count, segment_room;
	struct start_block *blocks;
	size_t block_count, block_room;
	bool by_lines; /* the trace says itself what was there, in lines */
};

/* Nothing without a snapshot.  policy: the `pytorch` preset, whose rows say what is a small segment and how
 * blocks are split. */
void start_rebuild(struct start *start, const struct survey_device *device,
		   const struct trace_snapshot *snapshot, const struct soma_policy *policy);

/* Whether a model can adopt it all; else `error` says what in the snapshot, or in the lines of the start, is wrong.
 * (What only events tell of was left out if it cannot be.) */
bool start_check(const struct start *start, uint64_t alignment, struct trace_error *error);

/* Where the index-th block must end at the latest: at the next one, or with its segment. */
uint64_t start_block_limit(const struct start *start, size_t index);

void start_fini(struct start *start);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as a program: a list of steps with small numbers for its blocks, streams and
 * events, which any number of threads can run any number of times.
 *
 * It is made once and constant afterwards.  Memory grows with the trace's events, 40 bytes each,
 * unlike that of the replay through a model alone.
 */
#ifndef SOMA_TOOLS_LIVE_PROGRAM_H
#define SOMA_TOOLS_LIVE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <soma/status.h>

#include "tools/trace/trace.h"

enum step_op {
	STEP_ALLOC,     /* block, size, stream, tag */
	STEP_FREE,      /* block, stream; later: its completion is a step of its own */
	STEP_COMPLETED, /* block */
	STEP_USE,       /* block, stream, access */
	STEP_RECORD,    /* marker, stream */
	STEP_WAIT,      /* marker, stream */
	STEP_SYNC,      /* stream */
	STEP_SYNC_ALL,
	STEP_TRIM,    /* size */
	STEP_CREATE,  /* stream, flags */
	STEP_DESTROY, /* stream */
};

struct step {
	uint64_t event; /* of the trace; REPLAY_AT_START before the first */
	uint64_t size;
	uint32_t op;
	uint32_t stream;
	union {
		uint32_t block;
		uint32_t marker; /* the trace's event, in the sense of streams */
	};
	uint32_t tag; /* <soma/resource.h> */
	union {
		bool later;
		unsigned access; /* enum soma_access */
		unsigned flags;  /* SOMA_STREAM_* */
	};
};

struct program_counts {
	uint64_t events, allocs, frees;
	uint64_t recorded_failed, unknown_frees, unknown_uses, unknown_markers, overwritten, ignored;
	uint64_t start_blocks;
};

struct program {
	struct step *steps;
	size_t step_count, step_room;
	uint32_t block_count, stream_count, marker_count; /* numbers are below these */
	bool legacy; /* stream 0 is the legacy default stream; it is not created */
	struct program_counts counts;
	uint64_t peak_bytes, peak_blocks; /* live, after division by the scale */
	uint64_t peak_event;
	uint64_t end_bytes, end_blocks;
	int32_t device;
	size_t device_count;
	const char *format;
	const struct soma_policy *auto_policy; /* of a replay of this trace on a model */
	bool truncated;
	struct trace_error truncation;
};

/*
 * Reads the whole trace.  Sizes are divided by `scale`, and at least 1.  On failure `error` says why and there
 * is nothing to give back; SOMA_STATUS_INVALID_VALUE: the trace has no such device.
 */
enum soma_status program_read(struct program *program, struct trace_reader *reader, int32_t device,
			      uint64_t scale, struct trace_error *error);
void program_fini(struct program *program);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses, frees and reuses of a trace's blocks that nothing in the trace orders (order.h).
 *
 * Memory grows with live blocks, streams and events' handles.  Freed blocks are kept for the
 * reuse of their addresses, up to RACES_FREED_MAX of them: beyond that the oldest are
 * forgotten, and counted where that could hide something.
 */
#ifndef SOMA_TOOLS_ENGINE_RACES_H
#define SOMA_TOOLS_ENGINE_RACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/trace/trace.h"

#define RACES_FREED_MAX ((size_t)1 << 18)

/* X(name, text in JSON, what it is) */
#define RACE_KIND_MAP(X)                                                                     \
	X(BEFORE_READY, "use-before-ready", "a use that may come before the allocation")     \
	X(USE, "unordered-use", "two uses, one of them a write, in no order")                \
	X(FREE, "unordered-free", "a free that may come before what the block was used for") \
	X(REUSE, "unordered-reuse", "an allocation where a block may not be free yet")       \
	X(AFTER_FREE, "use-after-free", "a use of a block that was freed")

enum race_kind {
#define X(name, text, what) RACE_##name,
	RACE_KIND_MAP(X)
#undef X
		RACE_KINDS
};

const char *race_kind_text(enum race_kind kind);
const char *race_kind_what(enum race_kind kind);

/* X(name, text) */
#define RACE_OP_MAP(X)              \
	X(ALLOC, "alloc")           \
	X(FREE, "free")             \
	X(READ, "read")             \
	X(WRITE, "write")           \
	X(READ_WRITE, "read_write") \
	X(ACCESS, "use") /* the trace does not say which */

enum race_op {
#define X(name, text) RACE_OP_##name,
	RACE_OP_MAP(X)
#undef X
};

const char *race_op_text(enum race_op op);

/* Why there is no edge between the two. */
enum race_reason {
	RACE_NEVER_WAITED,
	RACE_OTHER_STREAM,   /* the same handle, but of another stream, made later */
	RACE_LEGACY_UNKNOWN, /* one is the legacy stream, and nobody says that the other is blocking */
	RACE_FREED_BEFORE,   /* they are in order, and it is the wrong one */
};

struct race_access {
	uint64_t event;
	uint64_t stream;
	int32_t device;
	enum race_op op;
};

struct race {
	enum race_kind kind;
	enum race_reason reason;
	int32_t device; /* of the block: */
	uint64_t ptr, size;
	trace_name holder;
	struct race_access first, second; /* as the trace has them */
};

struct races {
	struct race *found; /* up to the limit, in the order of the trace */
	size_t count, room;
	uint64_t total, of_kind[RACE_KINDS];

	bool judged;  /* the trace has uses, or says what is in order */
	bool crowded; /* it has more streams at once than can be judged: there is no answer */
	bool truncated;
	struct trace_error truncation;
	uint64_t events, allocs, frees, uses, records, waits, syncs, creates, streams;
	uint64_t unknown_waits; /* for events that were never recorded */
	uint64_t unknown_uses;  /* of no block that is known */
	uint64_t unknown_frees;
	uint64_t overwritten; /* blocks that were live where another one was allocated */
	uint64_t forgotten;   /* freed blocks whose reuse was not judged */
	bool lost;            /* the recorder says that events are missing */
};

/* TRACE_OK, or TRACE_ERROR with `error`.  limit: how many are kept; all are counted. */
enum trace_result races_find(struct trace_reader *reader, size_t limit, struct races *races,
			     struct trace_error *error);
void races_fini(struct races *races);

#endif

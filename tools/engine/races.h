/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of a trace on the same memory that nothing puts in order.
 */
#ifndef SOMA_TOOLS_ENGINE_RACES_H
#define SOMA_TOOLS_ENGINE_RACES_H

#include "tools/engine/order.h"

/* X(name, text in JSON, what is wrong) */
#define RACE_MAP(X)                                                                            \
	X(USE_BEFORE_READY, "use-before-ready", "is not ordered after the allocation")         \
	X(FREE_UNORDERED, "free-unordered", "is not ordered after the allocation")             \
	X(FREE_IN_USE, "free-in-use", "is not ordered after a use of the block")               \
	X(STREAM_RACE, "stream-race", "is not ordered after another access")                   \
	X(REUSE, "reuse-unordered", "is not ordered after the free of what was there before")  \
	X(REUSE_IN_USE, "reuse-in-use", "is not ordered after a use of what was there before") \
	X(USE_AFTER_FREE, "use-after-free", "comes after the free")

enum race_kind {
#define X(name, text, problem) RACE_##name,
	RACE_MAP(X)
#undef X
};

const char *race_text(enum race_kind kind);
const char *race_problem(enum race_kind kind);

struct race_side {
	enum trace_op op;
	uint64_t event;
	uint64_t stream; /* the trace's handle */
	trace_name detail;
};

struct race {
	enum race_kind kind;
	uint64_t ptr;
	trace_name holder;
	struct race_side first, second; /* `second` should have waited for `first` */
};

struct races {
	struct race *at; /* the first `max` of them */
	size_t kept, room;
	uint64_t count;
	bool judged; /* false: the trace has no uses, and nothing that makes order */
	uint64_t uses, edges, unknown_events, unknown_uses;
	int32_t device;
};


/* As trace_next: TRACE_OK, TRACE_TRUNCATED (what was read is judged) or TRACE_ERROR. */
enum trace_result races_find(struct trace_reader *reader, int32_t device, size_t max, struct races *races,
			     struct trace_error *error);
void races_fini(struct races *races);

#endif

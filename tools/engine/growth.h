/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two censuses side by side: each holder, or each stream, in the one and in the other.
 */
#ifndef SOMA_TOOLS_ENGINE_GROWTH_H
#define SOMA_TOOLS_ENGINE_GROWTH_H

#include "tools/engine/census.h"

/* X(name, text) */
#define GROWTH_BY_MAP(X)  \
	X(FRAME, "frame") \
	X(TAG, "tag")     \
	X(STREAM, "stream")

enum growth_by {
#define X(name, text) GROWTH_BY_##name,
	GROWTH_BY_MAP(X)
#undef X
};

/* One in one trace; all 0 where it is not there. */
struct growth_side {
	bool there;
	uint64_t allocs, frees, bytes;
	uint64_t peak_live, peak_bytes; /* at that trace's peak */
	uint64_t live, live_bytes;      /* at its end */
	uint64_t most_bytes;            /* at its own peak; of lines taken together: at most that */
};

struct growth_row {
	char *name; /* of any bytes, "" for none; NULL: a stream */
	uint64_t stream;
	struct growth_side before, after;
};

struct growth {
	/* What grew or shrank most comes first: at the peak, then at the end; those that hold the same are last. */
	struct growth_row *rows;
	size_t count, room;
	size_t grew, shrank, same; /* at the peak or, with that unchanged, at the end */
	size_t added, gone;        /* with blocks in one of the two alone */
	bool identical;            /* nothing that is counted differs */
};

struct growth_trace {
	const struct trace_reader *reader;
	const struct census *census;
};

/* ignore_lines: names that differ only in line numbers are one. */
void growth_compare(const struct growth_trace *before, const struct growth_trace *after, enum growth_by by,
		    bool ignore_lines, struct growth *growth);
void growth_fini(struct growth *growth);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live and reserved bytes over a replay, in a fixed number of columns: each keeps
 * the highest values within it, so that no peak is lost, however long the trace.
 */
#ifndef SOMA_TOOLS_ENGINE_SERIES_H
#define SOMA_TOOLS_ENGINE_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/engine/holders.h"

#define SERIES_LAYERS 8

struct series_column {
	uint64_t live;
	uint64_t reserved;
	uint64_t layer[SERIES_LAYERS]; /* at the moment of `live` */
};

struct series {
	bool by_time;     /* x is nanoseconds since the trace's first event, else events */
	uint64_t x_first; /* of column 0 */
	uint64_t x_span;  /* at least 1 */
	struct series_column *columns;
	size_t column_count; /* 0: nothing is kept */
	size_t filled;

	/* The holders that are kept apart. */
	trace_name layers[SERIES_LAYERS];
	size_t layer_count;

	size_t current;          /* the column of the event being replayed */
	uint64_t live, reserved; /* as last put */
};

void series_init(struct series *series, size_t columns, bool by_time, uint64_t x_first, uint64_t x_last);
void series_fini(struct series *series);

/* The next event happens at x; until then things stay as they were put last. */
void series_reach(struct series *series, uint64_t x, const struct holders *holders);

/* From that event on these values hold. */
void series_put(struct series *series, uint64_t live, uint64_t reserved, const struct holders *holders);

/* The values hold until the end. */
void series_finish(struct series *series, const struct holders *holders);

#endif

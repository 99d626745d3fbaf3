/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds the live bytes, now and at the latest peak.
 *
 * Marking a peak costs nothing: a holder keeps what it had at the peak when it first
 * changes afterwards.
 */
#ifndef SOMA_TOOLS_ENGINE_HOLDERS_H
#define SOMA_TOOLS_ENGINE_HOLDERS_H

#include <stddef.h>
#include <stdint.h>

#include "tools/trace/trace.h"

struct holder_count {
	int64_t bytes;
	int64_t blocks;
};

struct holder {
	struct holder_count now;
	struct holder_count at_peak;
	uint64_t saved; /* the peak that at_peak belongs to */
};

struct holders {
	struct holder *at; /* by name */
	size_t room;
	uint64_t peak; /* how many were marked */
};

void holders_fini(struct holders *holders);

/* One block of `bytes` more (sign 1) or less (sign -1). */
void holders_add(struct holders *holders, trace_name name, uint64_t bytes, int sign);

/* A block that was there all the time, at the peak too. */
void holders_add_always(struct holders *holders, trace_name name, uint64_t bytes);

/* Now is the peak. */
void holders_mark_peak(struct holders *holders);

struct holder_count holders_now(const struct holders *holders, trace_name name);

struct holder_rank {
	trace_name name;
	uint64_t bytes;
	uint64_t blocks;
};

/* Those that held something at the peak, the biggest first; the caller frees it.
 * Ties are in the order of names, so that a report is the same every time. */
struct holder_rank *holders_rank_at_peak(const struct holders *holders, size_t *count);

/* The same for what they hold now. */
struct holder_rank *holders_rank_now(const struct holders *holders, size_t *count);

#endif

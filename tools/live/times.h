/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long calls took, by the host's monotonic clock: a histogram of fixed size whose steps are a
 * 32nd of the value or less.  Each thread has its own; they are added up afterwards.
 */
#ifndef SOMA_TOOLS_LIVE_TIMES_H
#define SOMA_TOOLS_LIVE_TIMES_H

#include <stdint.h>

#define TIMES_STEPS 32u /* for each doubling */
#define TIMES_BUCKETS (60u * TIMES_STEPS)

struct times {
	uint64_t count;
	uint64_t max_ns;
	uint64_t sum_ns;
	uint32_t bucket[TIMES_BUCKETS];
};

/* Nanoseconds since some origin. */
uint64_t times_now(void);

void times_add(struct times *times, uint64_t ns);
void times_merge(struct times *times, const struct times *more);

/* The value that `per_mille` of 1000 do not exceed, at most a 32nd too high; 0 without any. */
uint64_t times_at(const struct times *times, unsigned per_mille);

#endif

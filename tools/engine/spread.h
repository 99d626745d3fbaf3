/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How values are spread: exact counts in buckets of 1/32 of a power of two, in a fixed
 * amount of memory.  A percentile is the greatest value of its bucket that was there, so it is
 * at most 3.2 % above the true one, and the true one where a bucket has one value alone.
 */
#ifndef SOMA_TOOLS_ENGINE_SPREAD_H
#define SOMA_TOOLS_ENGINE_SPREAD_H

#include <stdint.h>

#define SPREAD_PARTS 32
#define SPREAD_BUCKETS (60 * SPREAD_PARTS) /* to the last of 2^63 */

struct spread {
	uint64_t counts[SPREAD_BUCKETS];
	uint64_t greatest[SPREAD_BUCKETS]; /* of those in it */
	uint64_t count, least, most;
	double sum;
};

void spread_add(struct spread *spread, uint64_t value);

/* The least value that `percent` of all do not exceed, or up to 1/32 more; 0 without any. */
uint64_t spread_percentile(const struct spread *spread, double percent);

/* How many are in [2^power, 2^(power + 1)); 0 counts with 1.  power is below 64. */
uint64_t spread_power(const struct spread *spread, unsigned power);

#endif

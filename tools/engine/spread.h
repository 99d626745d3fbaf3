/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How values are spread: exact counts in buckets of 1/32 of a power of two, so that a
 * percentile is at most 3.2 % above the true one, in a fixed amount of memory.
 */
#ifndef SOMA_TOOLS_ENGINE_SPREAD_H
#define SOMA_TOOLS_ENGINE_SPREAD_H

#include <stdint.h>

#define SPREAD_PARTS 32
#define SPREAD_BUCKETS (60 * SPREAD_PARTS)

struct spread {
	uint64_t counts[SPREAD_BUCKETS];
	uint64_t count, least, most;
	double sum;
};

void spread_add(struct spread *spread, uint64_t value);

/* The value that `percent` of all do not exceed; 0 without any. */
uint64_t spread_percentile(const struct spread *spread, double percent);

/* How many are in [2^power, 2^(power + 1)); 0 counts with 1. */
uint64_t spread_power(const struct spread *spread, unsigned power);

#endif

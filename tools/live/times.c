/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The histogram's buckets: values below 32 have one each; above, 32 for each doubling.
 */
#include "tools/live/times.h"

#include <time.h>

uint64_t
times_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static unsigned
bucket_of(uint64_t ns)
{
	if (ns < TIMES_STEPS)
		return (unsigned)ns;
	unsigned shift = 58u - (unsigned)__builtin_clzll(ns);
	return (shift + 1) * TIMES_STEPS + (unsigned)(ns >> shift) - TIMES_STEPS;
}

/* The largest value of the bucket. */
static uint64_t
end_of(unsigned bucket)
{
	if (bucket < TIMES_STEPS)
		return bucket;
	unsigned shift = bucket / TIMES_STEPS - 1;
	return (((uint64_t)(bucket % TIMES_STEPS) + TIMES_STEPS + 1) << shift) - 1;
}

void
times_add(struct times *times, uint64_t ns)
{
	times->count++;
	times->sum_ns += ns;
	times->bucket[bucket_of(ns)]++;
	if (ns > times->max_ns)
		times->max_ns = ns;
}

void
times_merge(struct times *times, const struct times *more)
{
	times->count += more->count;
	times->sum_ns += more->sum_ns;
	for (unsigned i = 0; i < TIMES_BUCKETS; i++)
		times->bucket[i] += more->bucket[i];
	if (more->max_ns > times->max_ns)
		times->max_ns = more->max_ns;
}

uint64_t
times_at(const struct times *times, unsigned per_mille)
{
	uint64_t wanted = times->count - times->count * (1000 - per_mille) / 1000, seen = 0;

	for (unsigned i = 0; i < TIMES_BUCKETS && times->count > 0; i++) {
		seen += times->bucket[i];
		if (seen >= wanted)
			return end_of(i) < times->max_ns ? end_of(i) : times->max_ns;
	}
	return 0;
}

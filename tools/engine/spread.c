/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values below SPREAD_PARTS have a bucket each; above, a power of two has SPREAD_PARTS.
 */
#include "tools/engine/spread.h"

#define PART_BITS 5 /* log2 of SPREAD_PARTS */

static unsigned
bucket_of(uint64_t value)
{
	unsigned power, shift;

	if (value < SPREAD_PARTS)
		return (unsigned)value;
	power = 63U - (unsigned)__builtin_clzll(value);
	shift = power - PART_BITS;
	return (shift + 1) * SPREAD_PARTS + (unsigned)((value >> shift) & (SPREAD_PARTS - 1));
}

void
spread_add(struct spread *spread, uint64_t value)
{
	unsigned bucket = bucket_of(value);

	spread->counts[bucket]++;
	if (value > spread->greatest[bucket])
		spread->greatest[bucket] = value;
	if (spread->count == 0 || value < spread->least)
		spread->least = value;
	if (value > spread->most)
		spread->most = value;
	spread->count++;
	spread->sum += (double)value;
}

uint64_t
spread_percentile(const struct spread *spread, double percent)
{
	double share = (double)spread->count * percent / 100;
	uint64_t seen = 0, wanted = (uint64_t)share;

	wanted += (double)wanted < share;
	if (wanted == 0)
		return spread->least;
	for (unsigned i = 0; i < SPREAD_BUCKETS; i++) {
		seen += spread->counts[i];
		if (seen >= wanted)
			return spread->greatest[i];
	}
	return spread->most;
}

uint64_t
spread_power(const struct spread *spread, unsigned power)
{
	uint64_t sum = 0;

	if (power >= PART_BITS) {
		for (unsigned i = 0; i < SPREAD_PARTS; i++)
			sum += spread->counts[(power - PART_BITS + 1) * SPREAD_PARTS + i];
		return sum;
	}
	for (unsigned value = power == 0 ? 0 : 1U << power; value < 2U << power; value++)
		sum += spread->counts[value];
	return sum;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking a replay of a trace whose answers are known.
 */
#ifndef SOMA_TESTS_KNOWN_TRACES_H
#define SOMA_TESTS_KNOWN_TRACES_H

#include "tests/replay_fixture.h"

struct known {
	const char *file;
	uint64_t addresses, segments;
	uint64_t peak_live, peak_reserved;
};

static inline void
check_known(const char *path, const struct known *known)
{
	struct replayed replayed;
	const struct replay_result *result = &replayed.result;

	replay_file(&replayed, path, options_for(NULL));
	ck_assert_msg(replayed.status == SOMA_STATUS_OK, "%s: %s", path, replayed.error.text);
	ck_assert_str_eq(result->policy->name, "pytorch");
	ck_assert_uint_eq(result->parity.recorded, known->addresses);
	ck_assert_uint_eq(result->parity.reproduced, known->addresses);
	ck_assert_uint_eq(result->parity.segments_recorded, known->segments);
	ck_assert_uint_eq(result->parity.segments_reproduced, known->segments);
	ck_assert_uint_eq(result->peak_live_requested, known->peak_live);
	ck_assert_uint_eq(result->peak_reserved, known->peak_reserved);
	ck_assert_uint_eq(result->at_peak.live_requested, known->peak_live);
	ck_assert_uint_eq(result->counts.unknown_frees, 0);
	replayed_end(&replayed);
}

/* Holders' bytes sum up to the peak, and no capacity below the live peak will do. */
static inline void
check_consistent(const char *path, const char *policy)
{
	struct replay_options options = options_for(policy);
	struct replayed replayed;
	uint64_t sum = 0, reserved;

	replay_file(&replayed, path, options);
	ck_assert_msg(replayed.status == SOMA_STATUS_OK, "%s: %s", path, replayed.error.text);
	for (size_t i = 0; i < replayed.result.holder_count; i++)
		sum += replayed.result.holders[i].bytes;
	ck_assert_uint_eq(sum, replayed.result.peak_live_requested);
	reserved = replayed.result.peak_reserved;
	options.capacity = replayed.result.peak_live_requested - 1;
	replayed_end(&replayed);

	replay_file(&replayed, path, options);
	ck_assert(replayed.result.oom.happened);
	ck_assert_uint_gt(replayed.result.oom.short_by, 0);
	ck_assert_uint_le(replayed.result.peak_reserved, options.capacity);
	replayed_end(&replayed);

	options.capacity = reserved;
	replay_file(&replayed, path, options);
	ck_assert(!replayed.result.oom.happened);
	replayed_end(&replayed);
}

#endif

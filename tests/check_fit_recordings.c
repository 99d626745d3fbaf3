/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fitting and counting recordings of real runs; skipped where they are not.
 */
#include "tests/fit_fixture.h"
#include "tests/recordings.h"
#include "tools/engine/census.h"

static const char *const recordings[] = {
	"finetune-full.pickle",   "tiny-full.pickle",        "gpt-train-midrun.pickle",
	"gpt-infer-midrun.pickle", "segments-only-pools.pickle", "legacy-history.pickle",
};

#define RECORDINGS (sizeof recordings / sizeof recordings[0])

START_TEST(every_recording_fits_under_every_policy_where_it_says)
{
	const struct soma_policy *policy;
	char path[4096];

	for (size_t i = 0; i < RECORDINGS; i++)
		for (size_t p = 0; (policy = soma_policy_at(p)) != NULL; p++)
			check_fit(recording_path(path, sizeof path, recordings[i]), policy->name);
}
END_TEST

START_TEST(counts_are_those_of_the_replay)
{
	char path[4096];

	for (size_t i = 0; i < RECORDINGS; i++) {
		struct replayed replayed;
		struct trace_error error;
		struct census census;

		replay_file(&replayed, recording_path(path, sizeof path, recordings[i]), options_for("cuda"));
		ck_assert_int_eq(trace_rewind(replayed.reader, &error), TRACE_OK);
		ck_assert_int_eq(census_take(replayed.reader, CENSUS_DEVICE_ANY, &census, &error), TRACE_OK);
		ck_assert_uint_eq(census.events, replayed.result.counts.events);
		ck_assert_uint_eq(census.allocs, replayed.result.counts.allocs);
		ck_assert_uint_eq(census.frees, replayed.result.counts.frees);
		ck_assert_uint_eq(census.ignored, replayed.result.counts.ignored);
		/* What was there before the trace is the replay's alone. */
		ck_assert_uint_le(census.live, replayed.result.counts.live_blocks);
		if (replayed.result.counts.start_blocks == 0) {
			ck_assert_uint_eq(census.live, replayed.result.counts.live_blocks);
			ck_assert_uint_eq(census.live_bytes, replayed.result.counts.live_bytes);
		}
		census_fini(&census);
		replayed_end(&replayed);
	}
}
END_TEST

RECORDINGS_MAIN("fit_recordings", every_recording_fits_under_every_policy_where_it_says,
		counts_are_those_of_the_replay)

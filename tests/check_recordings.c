/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays of recordings of real runs; skipped where they are not.
 */
#include "tests/known_traces.h"
#include "tests/recordings.h"

static const struct known recordings[] = {
	{ "finetune-full.pickle", 7946, 61, 1783664516, 1897922560 },
	{ "tiny-full.pickle", 36, 9, 3249143816, 3781165056 },
	{ "gpt-train-midrun.pickle", 7591, 0, 24207167496, 25178406912 },
	{ "gpt-infer-midrun.pickle", 1280, 0, 2877435904, 3204448256 },
};

START_TEST(the_recordings_are_reproduced_address_by_address)
{
	char path[4096];

	for (size_t i = 0; i < sizeof recordings / sizeof recordings[0]; i++)
		check_known(recording_path(path, sizeof path, recordings[i].file), &recordings[i]);
}
END_TEST

START_TEST(a_mid_run_recording_starts_other_policies_with_its_live_blocks)
{
	struct replayed replayed;
	char path[4096];

	recording_path(path, sizeof path, "gpt-train-midrun.pickle");
	for (size_t p = 0; p < 2; p++) {
		replay_file(&replayed, path, options_for(p == 0 ? "strict" : "cuda"));
		ck_assert_int_eq(replayed.status, SOMA_STATUS_OK);
		ck_assert_uint_eq(replayed.result.peak_live_requested, 24207167496);
		ck_assert_uint_eq(replayed.result.counts.unknown_frees, 0);
		ck_assert_uint_eq(replayed.result.counts.start_blocks, 664);
		replayed_end(&replayed);
	}
}
END_TEST

START_TEST(a_snapshot_without_events_is_its_own_state)
{
	struct replayed replayed;
	char path[4096];

	recording_path(path, sizeof path, "segments-only-pools.pickle");
	replay_file(&replayed, path, options_for(NULL));
	ck_assert_int_eq(replayed.status, SOMA_STATUS_OK);
	ck_assert(!replayed.result.parity.applies);
	ck_assert(replayed.result.peak_event == REPLAY_AT_START);
	ck_assert_uint_eq(replayed.result.counts.start_segments, 127);
	ck_assert_uint_eq(replayed.result.counts.start_blocks, 534 + 9);
	ck_assert_uint_eq(replayed.result.counts.live_blocks, 534);
	replayed_end(&replayed);
}
END_TEST

START_TEST(the_recordings_are_consistent_under_every_policy)
{
	const struct soma_policy *policy;
	char path[4096];

	for (size_t i = 0; i < sizeof recordings / sizeof recordings[0]; i++) {
		recording_path(path, sizeof path, recordings[i].file);
		for (size_t p = 0; (policy = soma_policy_at(p)) != NULL; p++)
			check_consistent(path, policy->name);
	}
}
END_TEST

static void
replay_mapped(struct replayed *replayed, const char *file, uint64_t capacity)
{
	struct replay_options options = options_for("soma");
	char path[4096];

	options.capacity = capacity;
	replay_file(replayed, recording_path(path, sizeof path, file), options);
	ck_assert_int_eq(replayed->status, SOMA_STATUS_OK);
	ck_assert_msg(!replayed->result.oom.happened, "%s in %" PRIu64 ": event %" PRIu64, file, capacity,
		      replayed->result.oom.event);
}

/* Map calls are no more than 0.21 for each block that was allocated (performance of the
 * first sketch); most of them are the first growth. */
START_TEST(on_mapped_pages_the_recordings_need_little_more_than_they_use)
{
	struct replayed replayed;

	for (size_t i = 0; i < sizeof recordings / sizeof recordings[0]; i++) {
		const struct known *known = &recordings[i];
		const struct replay_counts *counts = &replayed.result.counts;
		bool few;

		replay_mapped(&replayed, known->file, known->peak_live + known->peak_live / 200);
		ck_assert_uint_le(10 * counts->steals, counts->allocs);
		few = counts->allocs < 1000;
		replayed_end(&replayed);
		if (few)
			continue;
		for (unsigned limited = 0; limited < 2; limited++) {
			replay_mapped(&replayed, known->file,
				      limited ? known->peak_live + known->peak_live / 50 : 0);
			ck_assert_uint_eq(counts->steals, 0);
			ck_assert_uint_ge(50 * replayed.result.peak_live_requested,
					  49 * replayed.result.peak_reserved);
			ck_assert_uint_le(100 * counts->maps, 21 * (counts->allocs + counts->start_blocks));
			replayed_end(&replayed);
		}
	}
}
END_TEST

RECORDINGS_MAIN("recordings", the_recordings_are_reproduced_address_by_address,
		a_mid_run_recording_starts_other_policies_with_its_live_blocks,
		a_snapshot_without_events_is_its_own_state, the_recordings_are_consistent_under_every_policy,
		on_mapped_pages_the_recordings_need_little_more_than_they_use)

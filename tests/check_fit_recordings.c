/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fitting recordings of real runs; skipped where they are not.
 */
#include "tests/fit_fixture.h"
#include "tests/recordings.h"

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

RECORDINGS_MAIN("fit_recordings", every_recording_fits_under_every_policy_where_it_says)

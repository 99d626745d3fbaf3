/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the capacity that a trace needs, and checking it.
 */
#ifndef SOMA_TESTS_FIT_FIXTURE_H
#define SOMA_TESTS_FIT_FIXTURE_H

#include "tests/replay_fixture.h"
#include "tools/engine/fit.h"
#include "tools/engine/lives.h"

#define KEEP_ALL ((size_t)1 << 30)

struct fitted {
	char path[64];
	const char *policy;
	struct trace_reader *reader;
	struct replay_session *session;
	struct trial *trial;
	struct lives lives;
	struct fit fit;
	struct trace_error error;
};

static inline void
fit_file(struct fitted *fitted, const char *path, const char *policy)
{
	struct replay_options options = options_for(policy);

	*fitted = (struct fitted){ .policy = policy };
	trace_open(path, NULL, &fitted->reader, &fitted->error);
	ck_assert_msg(fitted->reader != NULL, "%s", fitted->error.text);
	trace_keep(fitted->reader, KEEP_ALL);
	ck_assert_int_eq(replay_begin(fitted->reader, &options, &fitted->session, &fitted->error),
			 SOMA_STATUS_OK);
	ck_assert_int_eq(lives_read(fitted->session, REPLAY_DEVICE_ANY, 512, SIZE_MAX, &fitted->lives,
				    &fitted->error),
			 SOMA_STATUS_OK);
	ck_assert_int_eq(trial_create(fitted->session, &options, &fitted->trial, &fitted->error), SOMA_STATUS_OK);
	ck_assert(trial_is_apart(fitted->trial));
	ck_assert_int_eq(fit_find(fitted->trial, fitted->lives.peak_rounded, FIT_COST_DEFAULT, &fitted->fit,
				  &fitted->error),
			 SOMA_STATUS_OK);
}

static inline void
fit_lines(struct fitted *fitted, const char *lines, const char *policy)
{
	char path[sizeof fitted->path];

	write_lines(path, lines);
	fit_file(fitted, path, policy);
	strcpy(fitted->path, path);
}

static inline void
fitted_end(struct fitted *fitted)
{
	lives_fini(&fitted->lives);
	trial_destroy(fitted->trial);
	replay_end(fitted->session);
	trace_close(fitted->reader);
	if (fitted->path[0] != '\0')
		unlink(fitted->path);
}

/* The answer passes a replay from the file, a byte less does not; the bounds are the replay's. */
static inline void
check_fit(const char *path, const char *policy)
{
	struct replay_options options = options_for(policy);
	struct replayed replayed;
	struct fitted fitted;

	fit_file(&fitted, path, policy);
	ck_assert_int_ne(fitted.fit.claim, FIT_NEVER);
	options.capacity = fitted.fit.capacity;
	replay_file(&replayed, path, options);
	ck_assert_int_eq(replayed.status, SOMA_STATUS_OK);
	ck_assert(!replayed.result.oom.happened);
	ck_assert_uint_eq(replayed.result.peak_live_requested, fitted.lives.peak_requested);
	ck_assert_uint_ge(fitted.fit.capacity, fitted.lives.peak_rounded);
	replayed_end(&replayed);

	options.capacity--;
	replay_file(&replayed, path, options);
	ck_assert(replayed.result.oom.happened);
	replayed_end(&replayed);
	fitted_end(&fitted);
}

#endif

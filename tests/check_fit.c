/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest capacity: it passes, one byte less fails, and nothing smaller passes.
 */
#include "tests/fit_fixture.h"

/* 4 MiB live, of which the model takes 20 MiB and 2 MiB. */
START_TEST(the_least_capacity_of_the_pytorch_policy_is_its_segments)
{
	struct fitted fitted;

	fit_lines(&fitted, "1,,alloc,0,1,0x1000,1000,,,\n2,,alloc,0,1,0x1000000,4193304,,,\n", "pytorch");
	ck_assert_int_eq(fitted.fit.claim, FIT_LEAST);
	ck_assert_uint_eq(fitted.fit.capacity, 22 * MIB);
	fitted_end(&fitted);
}
END_TEST

START_TEST(a_range_needs_what_is_live_and_the_pieces_between)
{
	struct fitted fitted;

	fit_lines(&fitted,
		  "1,,alloc,0,1,0x1000,512,,,\n2,,alloc,0,1,0x2000,512,,,\n3,,alloc,0,1,0x3000,512,,,\n"
		  "4,,free,0,1,0x1000,,,,\n5,,free,0,1,0x3000,,,,\n6,,alloc,0,1,0x4000,1024,,,\n",
		  "strict");
	ck_assert_uint_eq(fitted.lives.peak_requested, 1536);
	ck_assert_int_eq(fitted.fit.claim, FIT_LEAST);
	ck_assert_uint_eq(fitted.fit.capacity, 2048);
	fitted_end(&fitted);
}
END_TEST

START_TEST(a_trace_without_allocations_fits_in_anything)
{
	struct fitted fitted;

	fit_lines(&fitted, "1,,free,0,1,0x1000,,,,\n", "cuda");
	ck_assert_int_eq(fitted.fit.claim, FIT_LEAST);
	ck_assert_uint_eq(fitted.fit.capacity, 1);
	fitted_end(&fitted);
}
END_TEST

START_TEST(what_no_address_space_holds_fits_in_nothing)
{
	struct fitted fitted;

	fit_lines(&fitted, "1,,alloc,0,1,0x1000,562949953421312,,,\n", "strict");
	ck_assert_int_eq(fitted.fit.claim, FIT_NEVER);
	fitted_end(&fitted);
}
END_TEST

/* Random traces, and every capacity below the answer in steps of the smallest growth. */
static void
random_lines(char *lines, size_t size, unsigned seed)
{
	uint64_t live[12] = { 0 };
	size_t used = 0;

	srand(seed);
	lines[0] = '\0';
	for (unsigned i = 0; i < 120; i++) {
		unsigned slot = (unsigned)rand() % 12;
		const char *op = live[slot] ? "free" : "alloc";
		uint64_t bytes = live[slot] ? 0 : 512 * (1 + (uint64_t)rand() % 40);

		used += (size_t)snprintf(lines + used, size - used,
					 "%u,,%s,0,%u,0x%x,%" PRIu64 ",,,\n", i, op, 1 + slot % 3,
					 (slot + 1) << 20, bytes);
		live[slot] = bytes;
	}
}

static bool
passes(struct fitted *fitted, uint64_t capacity)
{
	struct replay_options options = options_for(fitted->policy);
	struct replay_result result;
	bool passed;

	options.capacity = capacity;
	ck_assert_int_eq(replay_again(fitted->session, &options, &result, &fitted->error), SOMA_STATUS_OK);
	passed = !result.oom.happened;
	replay_result_fini(&result);
	return passed;
}

START_TEST(nothing_below_the_least_passes)
{
	char lines[16384];

	for (unsigned seed = 1; seed <= 12; seed++) {
		struct fitted fitted;

		random_lines(lines, sizeof lines, seed);
		fit_lines(&fitted, lines, "strict");
		ck_assert_int_eq(fitted.fit.claim, FIT_LEAST);
		ck_assert(passes(&fitted, fitted.fit.capacity));
		for (uint64_t capacity = 512; capacity < fitted.fit.capacity; capacity += 512)
			ck_assert(!passes(&fitted, capacity));
		ck_assert(!passes(&fitted, fitted.fit.capacity - 1));
		fitted_end(&fitted);
	}
}
END_TEST

START_TEST(without_time_for_more_the_answer_still_stands_on_its_edge)
{
	char lines[16384];

	for (unsigned seed = 1; seed <= 12; seed++) {
		struct fitted fitted;
		struct fit fit;

		random_lines(lines, sizeof lines, seed);
		fit_lines(&fitted, lines, "strict");
		ck_assert_int_eq(fit_find(fitted.trial, 1, 0, &fit, &fitted.error), SOMA_STATUS_OK);
		ck_assert_int_eq(fit.claim, FIT_LOCAL);
		ck_assert_uint_ge(fit.capacity, fitted.fit.capacity);
		ck_assert(passes(&fitted, fit.capacity));
		ck_assert(!passes(&fitted, fit.capacity - 1));
		fitted_end(&fitted);
	}
}
END_TEST

/* What a trial says is what a whole replay says, at any capacity and under every policy. */
START_TEST(a_trial_agrees_with_a_replay)
{
	const struct soma_policy *policy;
	char lines[16384];

	for (unsigned seed = 1; (policy = soma_policy_at(seed - 1)) != NULL; seed++) {
		struct fitted fitted;

		random_lines(lines, sizeof lines, seed);
		fit_lines(&fitted, lines, policy->name);
		for (uint64_t n = 0; n <= 60; n++) {
			uint64_t capacity = fitted.fit.enough * n / 50;
			struct replay_options options = options_for(policy->name);
			struct replay_result result;
			struct trial_result tried;

			options.capacity = capacity;
			ck_assert_int_eq(replay_again(fitted.session, &options, &result, &fitted.error),
					 SOMA_STATUS_OK);
			ck_assert_int_eq(trial_run(fitted.trial, capacity, &tried, &fitted.error),
					 SOMA_STATUS_OK);
			ck_assert_int_eq(tried.passed, !result.oom.happened);
			if (tried.passed)
				ck_assert_uint_eq(tried.reserved, result.peak_reserved);
			ck_assert_uint_ge(tried.refused, result.least_refused);
			replay_result_fini(&result);
		}
		fitted_end(&fitted);
	}
}
END_TEST

START_TEST(without_kept_events_the_answer_is_the_same)
{
	struct replay_options options = options_for("cuda");
	char lines[16384];

	for (unsigned seed = 1; seed <= 6; seed++) {
		struct trace_reader *reader;
		struct replay_session *session;
		struct trace_error error;
		struct fitted fitted;
		struct trial *trial;
		struct fit fit;

		random_lines(lines, sizeof lines, seed);
		fit_lines(&fitted, lines, "cuda");
		ck_assert_int_eq(trace_open(fitted.path, NULL, &reader, &error), TRACE_OK);
		ck_assert_int_eq(replay_begin(reader, &options, &session, &error), SOMA_STATUS_OK);
		ck_assert_int_eq(trial_create(session, &options, &trial, &error), SOMA_STATUS_OK);
		ck_assert(!trial_is_apart(trial));
		ck_assert_int_eq(fit_find(trial, fitted.lives.peak_rounded, FIT_COST_DEFAULT, &fit, &error),
				 SOMA_STATUS_OK);
		ck_assert_uint_eq(fit.capacity, fitted.fit.capacity);
		ck_assert_uint_eq(fit.enough, fitted.fit.enough);
		ck_assert_uint_eq(fit.replays, fitted.fit.replays);
		trial_destroy(trial);
		replay_end(session);
		trace_close(reader);
		fitted_end(&fitted);
	}
}
END_TEST

START_TEST(what_is_enough_passes_and_so_does_all_above)
{
	char lines[16384];

	for (unsigned seed = 1; seed <= 12; seed++) {
		struct fitted fitted;

		random_lines(lines, sizeof lines, seed);
		fit_lines(&fitted, lines, "cuda");
		ck_assert_uint_ge(fitted.fit.enough, fitted.fit.capacity);
		ck_assert(passes(&fitted, fitted.fit.enough));
		ck_assert(passes(&fitted, fitted.fit.enough + 1));
		ck_assert(passes(&fitted, 2 * fitted.fit.enough));
		fitted_end(&fitted);
	}
}
END_TEST

START_TEST(the_examples_fit_where_they_say)
{
	const struct soma_policy *policy;

	for (size_t p = 0; (policy = soma_policy_at(p)) != NULL; p++) {
		check_fit(EXAMPLES_FOLDER "/tiny-full.csv", policy->name);
		check_fit(EXAMPLES_FOLDER "/finetune-full.csv.gz", policy->name);
	}
}
END_TEST

UNIT_MAIN("fit", the_least_capacity_of_the_pytorch_policy_is_its_segments,
	  a_range_needs_what_is_live_and_the_pieces_between, a_trace_without_allocations_fits_in_anything,
	  what_no_address_space_holds_fits_in_nothing, nothing_below_the_least_passes,
	  without_time_for_more_the_answer_still_stands_on_its_edge, a_trial_agrees_with_a_replay,
	  without_kept_events_the_answer_is_the_same,
	  what_is_enough_passes_and_so_does_all_above, the_examples_fit_where_they_say)

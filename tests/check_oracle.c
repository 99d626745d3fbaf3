/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model against the oracle: random operations through both, every answer and
 * every counter compared after each, some six million operations in all.  A
 * difference is shrunk to a few operations before it is printed.
 *
 * check_oracle [SEED [OPERATIONS]] runs other sequences, or more of them, or fewer.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/generate.h"
#include "tests/shrink.h"
#include "tests/unit.h"

#define CHECK_EVERY 50

static uint64_t first_seed = 1;
static uint64_t operations = 4000000; /* and half as many again on mapped pages */

static const char *const presets[] = { "strict", "cuda", "pytorch", "soma", GENERATE_CUSTOM };

static const struct pair model_and_oracle = { .engine = { &engine_model, &engine_oracle } };

/* The policy and the length follow from the seed. */
static unsigned
begin(struct generator *g, uint64_t seed, const char *preset, struct sequence *sequence)
{
	unsigned count;

	g->state = seed;
	count = 100 + (unsigned)generate_below(g, 1400);
	generate_begin(g, seed, preset, count, sequence);
	return count;
}

/* One random sequence.  False: they differ, and the sequence ends where it was seen. */
static bool
play(struct sequence *sequence, uint64_t seed, const char *preset, const struct pair *pair)
{
	struct generator g;
	struct run run;
	unsigned count = begin(&g, seed, preset, sequence);
	bool equal = run_create(&run, sequence, pair) && run.status == SOMA_STATUS_OK;

	for (unsigned i = 0; equal && i < count; i++)
		equal = generate_step(&g, &run) && (i % CHECK_EVERY != 0 || run_check(&run));
	equal = equal && run_check(&run);
	run_destroy(&run);
	return equal && run_gave_back(&run);
}

/* Seeds from the first on, until so many operations are done or the engines differ. */
struct stretch {
	const char *preset;
	uint64_t seed;
	uint64_t operations;
	uint64_t done;
	bool differs;
};

static void
play_stretch(void *context)
{
	struct stretch *stretch = context;

	for (; stretch->done < stretch->operations; stretch->seed++) {
		struct sequence sequence;

		stretch->differs = !play(&sequence, stretch->seed, stretch->preset, &model_and_oracle);
		stretch->done += sequence.count;
		sequence_free(&sequence);
		if (stretch->differs)
			return;
	}
}

static void
print_shrunk(struct sequence *sequence, uint64_t seed, const struct pair *pair)
{
	char difference[512];
	size_t at, length = sequence->count;

	sequence_shrink(sequence, pair);
	sequence_differs(sequence, pair, &at, difference, sizeof difference);
	printf("seed %" PRIu64 ", shrunk from %zu operations:\n", seed, length);
	sequence_print(stdout, sequence);
	printf("then: %s\n\n", difference);
	fflush(stdout);
}

/* The oracle alone makes the sequence again, so that a model that crashes is no hindrance. */
static void
report(uint64_t seed, const char *preset)
{
	struct pair alone = { .engine = { &engine_oracle, &engine_oracle } };
	struct sequence sequence;
	char difference[512];
	size_t at;

	play(&sequence, seed, preset, &alone);
	if (sequence_differs(&sequence, &model_and_oracle, &at, difference, sizeof difference))
		print_shrunk(&sequence, seed, &model_and_oracle);
	else
		printf("seed %" PRIu64 ": the difference does not come again\n", seed);
	sequence_free(&sequence);
}

static void
compare(const char *preset, uint64_t share)
{
	struct stretch *stretch = shared_memory(sizeof *stretch);
	char how[128];

	*stretch = (struct stretch){ .preset = preset, .seed = first_seed, .operations = share };
	if (survives(play_stretch, stretch, how, sizeof how) && !stretch->differs)
		return;
	report(stretch->seed, preset);
	ck_abort_msg("the model and the oracle differ (seed %" PRIu64 ", policy %s; %s)", stretch->seed,
		     preset != GENERATE_CUSTOM ? preset : "random", how);
}

/* The older presets get a sixth each, random policies a half, the policy soma a half more. */
static uint64_t
share_of(const char *preset)
{
	if (preset == GENERATE_CUSTOM || strcmp(preset, "soma") == 0)
		return operations / 2;
	return operations / 6 + 1;
}

START_TEST(the_model_equals_the_oracle)
{
	compare(presets[_i], share_of(presets[_i]));
}
END_TEST

static enum soma_status
no_address(void *context, uint64_t stream, uint64_t size, uint64_t *address)
{
	(void)context, (void)stream, (void)size, (void)address;
	return SOMA_STATUS_DRIVER;
}

static enum soma_status
any_range(void *context, unsigned pool, uint64_t size, uint64_t *address)
{
	(void)context, (void)size;
	*address = (uint64_t)(1 + pool) << 46;
	return SOMA_STATUS_OK;
}

static enum soma_status
no_pages(void *context, uint64_t address, uint64_t size)
{
	(void)context, (void)address, (void)size;
	return SOMA_STATUS_DRIVER;
}

static void
nothing_to_release(void *context, uint64_t address, uint64_t size)
{
	(void)context, (void)address, (void)size;
}

START_TEST(the_model_and_the_oracle_refuse_the_same_limits)
{
	uint64_t count = operations / 200 + 100, refused = 0;

	for (uint64_t seed = first_seed; seed < first_seed + count; seed++) {
		struct sequence s = { 0 };
		struct soma_segment_source source = { .size = sizeof source,
						      .acquire = no_address,
						      .release = nothing_to_release,
						      .reserve = any_range,
						      .map = no_pages,
						      .unmap = nothing_to_release };
		enum soma_status status[2];
		struct generator g;

		generate_odd_limits(&g, seed, &s.policy, &source, &s.limits);
		for (unsigned i = 0; i < 2; i++) {
			const struct engine *engine = model_and_oracle.engine[i];
			void *handle = NULL;

			status[i] = engine->create(&s.limits, ORACLE_FAULT_NONE, &handle);
			if (status[i] == SOMA_STATUS_OK)
				engine->destroy(handle);
		}
		refused += status[1] != SOMA_STATUS_OK;
		if (status[0] == status[1])
			continue;
		sequence_print(stdout, &s);
		fflush(stdout);
		ck_abort_msg("seed %" PRIu64 ": %s from the model, %s from the oracle (last error: %s)", seed,
			     soma_status_name(status[0]), soma_status_name(status[1]),
			     soma_error_last()->text);
	}
	ck_assert_uint_gt(refused, count / 4);
	ck_assert_uint_lt(refused, count * 3 / 4);
}
END_TEST

static const char *const fault_names[ORACLE_FAULTS] = {
	[ORACLE_FAULT_OLDEST_FIRST] = "oldest first",     [ORACLE_FAULT_NO_BARRIER] = "no barrier",
	[ORACLE_FAULT_NOT_TRANSITIVE] = "not transitive", [ORACLE_FAULT_TRIM_OVERSHOOT] = "trim overshoot",
	[ORACLE_FAULT_STEAL_BEHIND] = "steal behind",     [ORACLE_FAULT_QUEUE_EARLY] = "queue early",
	[ORACLE_FAULT_QUEUE_OLDEST] = "queue oldest",     [ORACLE_FAULT_WAIT_SHORT] = "wait short",
	[ORACLE_FAULT_QUEUE_ALWAYS] = "queue always",
};

/* The next sequence from this seed on that shows the difference, as short as it can be made; the seed after
 * it is returned. */
static uint64_t
find_and_shrink(struct sequence *sequence, const struct pair *pair, uint64_t seed)
{
	char difference[512];
	size_t at;

	while (play(sequence, seed++, GENERATE_CUSTOM, pair)) {
		sequence_free(sequence);
		ck_assert_msg(seed < 400, "%s: not found", fault_names[pair->fault[0]]);
	}
	sequence_shrink(sequence, pair);
	ck_assert_msg(sequence_differs(sequence, pair, &at, difference, sizeof difference), "%s: lost",
		      fault_names[pair->fault[0]]);
	ck_assert_uint_eq(at + 1, sequence->count);
	return seed;
}

/* A wrong rule must be noticed, whichever it is, and the sequence that shows it must be short enough to
 * read: not each one (a steal takes a maximum that is used up first), but one of the first few. */
START_TEST(a_planted_difference_is_found_and_shrunk)
{
	struct pair pair = {
		.engine = { &engine_oracle, &engine_oracle },
		.fault = { (enum oracle_fault)_i, ORACLE_FAULT_NONE },
	};
	struct sequence sequence;
	uint64_t seed = 1;
	size_t shortest = SIZE_MAX;

	for (unsigned tries = 0; tries < 6 && shortest > 24; tries++) {
		seed = find_and_shrink(&sequence, &pair, seed);
		shortest = sequence.count < shortest ? sequence.count : shortest;
		sequence_free(&sequence);
	}
	ck_assert_msg(shortest <= 24, "%s: %zu operations are left", fault_names[_i], shortest);
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("oracle");
	TCase *random = tcase_create("random");
	TCase *planted = tcase_create("planted");

	tcase_set_timeout(random, 0);
	tcase_set_timeout(planted, 0);
	tcase_add_loop_test(random, the_model_equals_the_oracle, 0, 5);
	tcase_add_test(random, the_model_and_the_oracle_refuse_the_same_limits);
	tcase_add_loop_test(planted, a_planted_difference_is_found_and_shrunk, 1, ORACLE_FAULTS);
	suite_add_tcase(s, random);
	suite_add_tcase(s, planted);
	return s;
}

int
main(int argc, char **argv)
{
	if (argc > 1)
		first_seed = strtoull(argv[1], NULL, 0);
	if (argc > 2)
		operations = strtoull(argv[2], NULL, 0);
	return unit_run_suite(suite());
}

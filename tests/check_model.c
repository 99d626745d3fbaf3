/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out of host memory: random sequences are run once for each allocation of records
 * that the model makes, with that one failing.  Whatever call meets it must say so and
 * change nothing (the oracle, which is one call behind, is compared); called again, it
 * succeeds, and from there on everything is as if nothing had happened.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>

#include "lib/arena/arena.h"
#include "tests/generate.h"
#include "tests/unit.h"

static struct run *current; /* NULL while the model is being created */
static const struct sequence *running;
static size_t at; /* the operation */
static unsigned failures;

__attribute__((format(printf, 1, 2))) static void
give_up(const char *format, ...)
{
	char text[600];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	sequence_print(stdout, running);
	fflush(stdout);
	ck_abort_msg("at operation %zu: %s", at + 1, text);
}

/* NULL, or what is not as it was before the call: as the oracle still has it. */
static const char *
changed(void)
{
	struct soma_model_stats model, oracle;

	engine_model.stats(current->handle[0], &model);
	engine_oracle.stats(current->handle[1], &oracle);
#define X(name)                        \
	if (model.name != oracle.name) \
		return #name;
	SOMA_MODEL_COUNTER_MAP(X)
#undef X
	return run_check(current) ? NULL : current->difference;
}

static void
assert_refused(void)
{
	failures++;
	ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_OUT_OF_HOST_MEMORY);
}

static void
assert_refused_without_a_trace(void)
{
	assert_refused();
	if (current != NULL && changed() != NULL)
		give_up("changed by a call that failed: %s", changed());
}

/* An alloc that fails may have filed the queue and released idle memory (HACKING, "Alloc", 9):
 * then the oracle does so too. */
static void
assert_alloc_refused(void)
{
	assert_refused();
	if (changed() == NULL)
		return;
	engine_oracle.trim_to(current->handle[1], UINT64_MAX);
	if (changed() != NULL && running->policy.release_on_failure)
		engine_oracle.trim_to(current->handle[1], 0);
	if (changed() != NULL)
		give_up("changed by an alloc that failed: %s", changed());
}

#define TWICE(call)                                            \
	do {                                                   \
		enum soma_status status_ = call;               \
		if (status_ != SOMA_STATUS_OUT_OF_HOST_MEMORY) \
			return status_;                        \
		assert_refused_without_a_trace();              \
		return call;                                   \
	} while (0)

static enum soma_status
create_twice(const struct soma_model_limits *limits, enum oracle_fault fault, void **handle)
{
	TWICE(engine_model.create(limits, fault, handle));
}

static enum soma_status
stream_create_twice(void *handle, unsigned flags, uint64_t *stream)
{
	TWICE(engine_model.stream_create(handle, flags, stream));
}

static enum soma_status
stream_destroy_twice(void *handle, uint64_t stream)
{
	TWICE(engine_model.stream_destroy(handle, stream));
}

static enum soma_status
record_event_twice(void *handle, uint64_t stream, uint64_t *seq)
{
	TWICE(engine_model.record_event(handle, stream, seq));
}

static enum soma_status
wait_event_twice(void *handle, uint64_t stream, uint64_t event_stream, uint64_t event_seq)
{
	TWICE(engine_model.wait_event(handle, stream, event_stream, event_seq));
}

static enum soma_status
advance_twice(void *handle, uint64_t stream, uint64_t seq)
{
	TWICE(engine_model.advance(handle, stream, seq));
}

static enum soma_status
synchronize_twice(void *handle, uint64_t stream)
{
	TWICE(engine_model.synchronize(handle, stream));
}

static enum soma_status
synchronize_all_twice(void *handle)
{
	TWICE(engine_model.synchronize_all(handle));
}

static enum soma_status
alloc_twice(void *handle, uint64_t size, uint64_t stream, struct soma_model_alloc *alloc)
{
	enum soma_status status = engine_model.alloc(handle, size, stream, alloc);

	if (status != SOMA_STATUS_OUT_OF_HOST_MEMORY)
		return status;
	assert_alloc_refused();
	return engine_model.alloc(handle, size, stream, alloc);
}

static enum soma_status
free_twice(void *handle, uint64_t ptr, uint64_t stream)
{
	TWICE(engine_model.free(handle, ptr, stream));
}

static enum soma_status
trim_to_twice(void *handle, uint64_t keep)
{
	TWICE(engine_model.trim_to(handle, keep));
}

static enum soma_status
adopt_segment_twice(void *handle, uint64_t stream, unsigned pool, uint64_t address, uint64_t size)
{
	TWICE(engine_model.adopt_segment(handle, stream, pool, address, size));
}

static enum soma_status
adopt_block_twice(void *handle, uint64_t ptr, uint64_t size, uint64_t capacity)
{
	TWICE(engine_model.adopt_block(handle, ptr, size, capacity));
}

static enum soma_status
release_segment_twice(void *handle, uint64_t address)
{
	TWICE(engine_model.release_segment(handle, address));
}

/* The model, with every call that finds no memory made again. */
static struct engine
engine_of_calls_made_twice(void)
{
	struct engine engine = engine_model;

	engine.create = create_twice;
	engine.stream_create = stream_create_twice;
	engine.stream_destroy = stream_destroy_twice;
	engine.record_event = record_event_twice;
	engine.wait_event = wait_event_twice;
	engine.advance = advance_twice;
	engine.synchronize = synchronize_twice;
	engine.synchronize_all = synchronize_all_twice;
	engine.alloc = alloc_twice;
	engine.free = free_twice;
	engine.trim_to = trim_to_twice;
	engine.adopt_segment = adopt_segment_twice;
	engine.adopt_block = adopt_block_twice;
	engine.release_segment = release_segment_twice;
	return engine;
}

/* Made by the oracle alone; how long, and how many blocks live, is for the caller. */
static void
generate(struct sequence *sequence, uint64_t seed, const char *preset, unsigned count, unsigned live)
{
	struct pair alone = { .engine = { &engine_oracle, &engine_oracle } };
	struct generator g;
	struct run run;

	generate_begin(&g, seed, preset, count, sequence);
	g.live_target = live;
	if (live > 100)
		sequence->limits.max_pool_size = 0;
	ck_assert(run_create(&run, sequence, &alone));
	for (unsigned i = 0; i < count; i++)
		ck_assert(generate_step(&g, &run));
	run_destroy(&run);
}

/* One run with the nth allocation failing.  False: there are fewer. */
static bool
run_with_failure(const struct sequence *sequence, unsigned long nth)
{
	struct engine twice = engine_of_calls_made_twice();
	struct pair pair = { .engine = { &twice, &engine_oracle } };
	struct run run;
	bool equal;

	current = NULL;
	running = sequence;
	failures = 0;
	soma__arena_fail_nth(nth);
	equal = run_create(&run, sequence, &pair);
	current = &run;
	for (at = 0; equal && at < sequence->count; at++)
		equal = run_op(&run, &sequence->ops[at]);
	equal = equal && run_check(&run);
	if (!equal)
		give_up("allocation %lu failing: afterwards, %s", nth, run.difference);
	ck_assert_uint_le(failures, 1);
	run_destroy(&run);
	return soma__arena_fail_nth(0) >= nth;
}

/* Every one up to `dense`, then every few percent. */
static void
fail_allocations(const struct sequence *sequence, unsigned long dense)
{
	unsigned long nth = 1;

	while (run_with_failure(sequence, nth)) {
		ck_assert_msg(failures == 1, "the failure of allocation %lu was not reported", nth);
		nth += nth < dense ? 1 : 1 + nth / 25;
	}
	ck_assert_uint_gt(nth, 10);
}

static const char *const presets[] = { "strict", "cuda", "pytorch", "soma", GENERATE_CUSTOM };

START_TEST(a_call_without_host_memory_fails_and_changes_nothing)
{
	uint64_t seeds = presets[_i] == GENERATE_CUSTOM ? 80 : 5;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct sequence sequence;

		generate(&sequence, seed, presets[_i], 300, 20);
		fail_allocations(&sequence, ULONG_MAX);
		sequence_free(&sequence);
	}
}
END_TEST

/* Enough blocks and segments for every table to grow several times. */
START_TEST(tables_that_cannot_grow_are_left_as_they_were)
{
	struct sequence sequence;

	generate(&sequence, 1 + (uint64_t)_i, presets[_i], 3000, 450);
	fail_allocations(&sequence, 100);
	sequence_free(&sequence);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("model");
	TCase *tcase = tcase_create("host memory");

	tcase_set_timeout(tcase, 0);
	tcase_add_loop_test(tcase, a_call_without_host_memory_fails_and_changes_nothing, 0, 5);
	tcase_add_loop_test(tcase, tables_that_cannot_grow_are_left_as_they_were, 0, 5);
	suite_add_tcase(suite, tcase);
	return unit_run_suite(suite);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs by hand over the guard around async and sync, with an oracle of their own: what it says is ordered
 * the guard leaves alone, and a wait taken away that was needed is always caught.
 *
 * Argument: the first seed.
 */
#include <inttypes.h>

#include "tests/cuda_fixture.h"
#include "tests/random.h"

#define STREAMS 4

static uint64_t first_seed = 1;

#define STEPS 60
#define HELD 6

enum step_kind { STEP_ALLOC, STEP_FREE, STEP_READ, STEP_WRITE, STEP_ORDER };

/* ORDER: `other` waits for all that is on `stream`. */
struct step {
	enum step_kind kind;
	unsigned stream, other, block;
};

/* Vector clocks, the plainest way: what a stream's next step is after. */
struct clock {
	uint64_t at[STREAMS];
};

struct held {
	bool live;
	unsigned home;
	uint64_t alloc;
	uint64_t write[STREAMS], read[STREAMS]; /* the latest of each stream; 0: none */
};

static bool ready_at_once; /* an allocation is for every stream: sync */

struct oracle {
	struct clock clocks[STREAMS];
	struct held held[HELD];
};

static bool
is_after(const struct oracle *o, unsigned stream, unsigned other, uint64_t at)
{
	return o->clocks[stream].at[other] >= at;
}

/* Whether a step on `stream` comes after the accesses to the block that matter to it. */
static bool
is_ordered(const struct oracle *o, unsigned stream, const struct held *h, bool alone)
{
	if (!ready_at_once && !is_after(o, stream, h->home, h->alloc))
		return false;
	for (unsigned s = 0; s < STREAMS; s++)
		if (!is_after(o, stream, s, h->write[s]) || (alone && !is_after(o, stream, s, h->read[s])))
			return false;
	return true;
}

static bool
oracle_step(struct oracle *o, const struct step *step)
{
	struct held *h = &o->held[step->block];
	struct clock *clock = &o->clocks[step->stream];
	bool fine = true;

	if (step->kind == STEP_ORDER) {
		for (unsigned s = 0; s < STREAMS; s++)
			if (o->clocks[step->other].at[s] < clock->at[s])
				o->clocks[step->other].at[s] = clock->at[s];
		return true;
	}
	if (step->kind != STEP_ALLOC)
		fine = is_ordered(o, step->stream, h, step->kind != STEP_READ);
	uint64_t at = ++clock->at[step->stream];
	if (step->kind == STEP_ALLOC)
		*h = (struct held){ .live = true, .home = step->stream, .alloc = at };
	else if (step->kind == STEP_READ)
		h->read[step->stream] = at;
	else if (step->kind == STEP_WRITE)
		h->write[step->stream] = at;
	else
		h->live = false;
	return fine;
}

/* Adds a step, with the waits before it that it needs. */
static unsigned
add_step(struct oracle *o, struct step *steps, unsigned count, struct step step)
{
	const struct held *h = &o->held[step.block];

	for (unsigned s = 0; s < STREAMS && step.kind != STEP_ALLOC; s++) {
		struct oracle without = *o;
		uint64_t latest = s == h->home ? h->alloc : 0;
		latest = h->write[s] > latest ? h->write[s] : latest;
		if (step.kind != STEP_READ && h->read[s] > latest)
			latest = h->read[s];
		if (s == step.stream || is_after(&without, step.stream, s, latest))
			continue;
		steps[count] = (struct step){ STEP_ORDER, s, step.stream, 0 };
		oracle_step(o, &steps[count++]);
	}
	steps[count] = step;
	ck_assert(oracle_step(o, &steps[count]));
	return count + 1;
}

/* A program in which everything is ordered, by waits all of which are needed where they are. */
static unsigned
make_program(uint64_t seed, struct step *steps)
{
	struct oracle o = { 0 };
	uint64_t random = seed;
	unsigned count = 0;

	while (count < STEPS) {
		unsigned block = (unsigned)below(&random, HELD), stream = (unsigned)below(&random, STREAMS);
		const struct held *h = &o.held[block];
		enum step_kind kind = STEP_ALLOC;
		bool new = h->live &&memcmp(h->write, (uint64_t[STREAMS]){ 0 }, sizeof h->write) == 0;
		if (new)
			kind = STEP_WRITE;
		else if (h->live)
			kind = (enum step_kind[]){ STEP_READ, STEP_READ, STEP_WRITE,
						   STEP_FREE }[below(&random, 4)];
		if (kind == STEP_FREE)
			stream = h->home;
		count = add_step(&o, steps, count, (struct step){ kind, stream, 0, block });
	}
	return count;
}

static unsigned reports;

static void
note_report(void *context, const struct soma_backend_guard_report *report)
{
	(void)context;
	if (strcmp(report->kind, "stream-race") == 0 || strcmp(report->kind, "use-before-ready") == 0 ||
	    strcmp(report->kind, "free-unordered") == 0)
		reports++;
}

static void
run_access(const struct step *step, uint64_t ptr, struct soma_backend_stream *stream, void *sink)
{
	bool writes = step->kind == STEP_WRITE;

	if (ops->block_use(self, ptr, writes ? SOMA_BACKEND_ACCESS_WRITE : SOMA_BACKEND_ACCESS_READ,
			   stream) != SOMA_STATUS_OK)
		return;
	if (writes)
		OK(ops->fill8(self, ptr, 1, 100, stream));
	else
		OK(ops->copy_to_host(self, sink, ptr, 100, stream));
}

/* Runs the steps but `left_out`; how many reports of missing order there were. */
static unsigned
run_program(const struct step *steps, unsigned count, unsigned left_out)
{
	struct soma_backend_stream *streams[STREAMS];
	uint64_t ptr[HELD] = { 0 };
	void *sink;

	reports = 0;
	OK(ops->staging_alloc(self, 128, &sink));
	for (int i = 0; i < STREAMS; i++)
		streams[i] = stream_new();
	for (unsigned i = 0; i < count; i++) {
		const struct step *step = &steps[i];
		struct soma_backend_stream *stream = streams[step->stream];
		if (i == left_out)
			continue;
		if (step->kind == STEP_ORDER)
			order(stream, streams[step->other]);
		else if (step->kind == STEP_ALLOC)
			ptr[step->block] = take(100, stream);
		else if (step->kind != STEP_FREE)
			run_access(step, ptr[step->block], stream, sink);
		else
			give(ptr[step->block], 100, stream);
		if (step->kind == STEP_FREE)
			ptr[step->block] = 0;
	}
	unsigned found = reports;
	OK(ops->synchronize(self));
	for (int i = 0; i < HELD; i++)
		if (ptr[i] != 0)
			give(ptr[i], 100, NULL);
	for (int i = 0; i < STREAMS; i++)
		ops->stream_destroy(self, streams[i]);
	ops->staging_free(self, sink, 128);
	return found;
}

/* Whether it is out of order for the oracle. */
static bool
is_wrong(const struct step *steps, unsigned count, unsigned left_out)
{
	struct oracle o = { 0 };

	for (unsigned i = 0; i < count; i++)
		if (i != left_out && !oracle_step(&o, &steps[i]))
			return true;
	return false;
}

static void
check_programs(const char *name, uint64_t programs)
{
	const struct soma_backend_option options[] = { { "guard.on_error", "callback" },
						       { "guard.race", "strict" },
						       { "guard.backtrace", "0" },
						       { "guard.report_limit", "4000000000" } };
	struct step steps[STEPS + STREAMS + 1];
	uint64_t removed = 0, wrong = 0;

	start_fake();
	fake.mode(FAKE_STEPPED, first_seed, 3);
	OK(try_open(name, options, 4));
	OK(ops->guard_listen(self, note_report, NULL));
	for (uint64_t seed = first_seed; seed < first_seed + programs; seed++) {
		unsigned count = make_program(seed, steps);
		ck_assert_uint_eq(run_program(steps, count, count), 0);
		for (unsigned i = 0; i < count; i++) {
			if (steps[i].kind != STEP_ORDER)
				continue;
			bool expected = is_wrong(steps, count, i);
			unsigned found = run_program(steps, count, i);
			ck_assert_msg((found > 0) == expected,
				      "%s: seed %" PRIu64 " without step %u: %u reports", name, seed, i,
				      found);
			removed++;
			wrong += expected;
		}
	}
	printf("%s: %" PRIu64 " programs; of %" PRIu64 " waits taken away %" PRIu64
	       " were needed, all caught\n",
	       name, programs, removed, wrong);
	ck_assert_uint_gt(wrong, removed / 4);
	OK(ops->guard_drain(self, 0));
	soma__backend_close(backend);
	fake.leaks();
	ck_assert_uint_eq(fake.findings_of(FAKE_FOUND_LEAK), 0);
}

START_TEST(a_needed_wait_that_is_missing_is_caught)
{
	check_programs("guard:async", 60);
}
END_TEST

START_TEST(so_it_is_around_sync)
{
	ready_at_once = true;
	check_programs("guard:sync", 30);
}
END_TEST

int
main(int argc, char **argv)
{
	const TTest *const tests[] = { a_needed_wait_that_is_missing_is_caught, so_it_is_around_sync };

	if (argc > 1)
		first_seed = strtoull(argv[1], NULL, 10);
	find_stand_in(argv);
	return unit_run("cuda guard random", tests, sizeof tests / sizeof tests[0]);
}

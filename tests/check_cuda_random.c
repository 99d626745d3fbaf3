/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs over four streams.  Over a whole stack, whose use tracking is all the order they have besides
 * events that mean nothing: the stand-in's checker sees no use outside a block's life.  And by hand over the
 * guard, with an oracle of their own: what it says is ordered the guard leaves alone, and a wait taken away that
 * was needed is always caught.
 *
 * Arguments: operations, and the first seed.
 */
#include "tests/cuda_fixture.h"

#include <pthread.h>
#include <soma/model.h>
#include <soma/resource.h>

#include "lib/resource/open.h"

#define STREAMS 4
#define BLOCKS 48
#define EVENTS 8

static uint64_t operations = 1000000;
static uint64_t first_seed = 1;

static uint64_t
next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static uint64_t
below(uint64_t *state, uint64_t n)
{
	return next(state) % n;
}

/* ---- over a stack ------------------------------------------------------------------- */

struct program {
	uint64_t random;
	struct soma_resource *resource;
	uint64_t streams[STREAMS];
	struct soma_backend_stream *handles[STREAMS];
	struct soma_backend_event *events[EVENTS];
	struct soma_block blocks[BLOCKS];
	bool live[BLOCKS];
	void *sink;
};

static void
begin_program(struct program *p, const char *name, uint64_t seed)
{
	const struct soma__backend_config config = { .name = name, .search = BACKEND_FOLDERS };

	*p = (struct program){ .random = seed };
	OK(soma__resource_open(&config, &p->resource));
	backend = soma__resource_backend(p->resource);
	ops = backend->ops;
	self = backend->self;
}

/* The driver's stream under one of the resource's: the same handle, wrapped again. */
static void
find_handles(struct program *p)
{
	for (int i = 0; i < STREAMS; i++) {
		struct soma_backend_stream *own = stream_new();
		OK(soma_resource_stream_destroy(p->resource, p->streams[i]));
		OK(soma_resource_stream_wrap(p->resource, info_of(own).native, &p->streams[i]));
		p->handles[i] = own;
	}
}

static void
use_block(struct program *p, int i)
{
	struct soma_use use = { .size = sizeof use };
	unsigned on = (unsigned)below(&p->random, STREAMS);
	bool writes = below(&p->random, 2) == 0;
	uint64_t bytes = p->blocks[i].bytes < 64 ? p->blocks[i].bytes : 64;

	OK(soma_resource_prepare_use(p->resource, p->blocks[i].id, p->streams[on],
				     writes ? SOMA_ACCESS_WRITE : SOMA_ACCESS_READ, &use));
	if (writes)
		OK(ops->fill8(self, p->blocks[i].ptr, 1, bytes, p->handles[on]));
	else
		OK(ops->copy_to_host(self, p->sink, p->blocks[i].ptr, bytes, p->handles[on]));
	OK(soma_resource_finish_use(p->resource, &use, 1));
}

static void
change_block(struct program *p, int i)
{
	if (p->live[i]) {
		OK(soma_resource_deallocate(p->resource, &p->blocks[i]));
		p->live[i] = false;
		return;
	}
	p->blocks[i] = (struct soma_block){ .size = sizeof p->blocks[i] };
	OK(soma_resource_allocate(p->resource, 1 + below(&p->random, 1u << below(&p->random, 20)),
				  p->streams[below(&p->random, STREAMS)], &p->blocks[i]));
	p->live[i] = true;
}

static void
play_one(struct program *p)
{
	int i = (int)below(&p->random, BLOCKS);
	uint64_t what = below(&p->random, 100), on = below(&p->random, STREAMS),
		 event = below(&p->random, EVENTS);

	if (what < 40)
		change_block(p, i);
	else if (what < 75 && p->live[i])
		use_block(p, i);
	else if (what < 84)
		OK(ops->event_record(self, p->events[event], p->handles[on]));
	else if (what < 93)
		OK(ops->event_wait(self, p->events[event], p->handles[on]));
	else if (what < 98)
		fake.step_any();
	else if (what < 99)
		OK(soma_resource_reap_pending(p->resource));
	else
		OK(soma_resource_stream_synchronize(p->resource, p->streams[on]));
}

static void
end_program(struct program *p)
{
	struct soma_ledger ledger = { .size = sizeof ledger };

	for (int i = 0; i < BLOCKS; i++)
		if (p->live[i])
			OK(soma_resource_deallocate(p->resource, &p->blocks[i]));
	OK(ops->synchronize(self));
	OK(soma_resource_reap_pending(p->resource));
	OK(soma_resource_ledger(p->resource, &ledger));
	ck_assert_uint_eq(ledger.live_count + ledger.retired_count, 0);
	ck_assert_uint_eq(ledger.alloc_count, ledger.free_count);
	soma_resource_release(p->resource);
	EXPECT_NOTHING_FOUND();
	fake.leaks();
	EXPECT_NOTHING_FOUND();
}

static void
make_parts(struct program *p)
{
	for (int i = 0; i < STREAMS; i++)
		OK(soma_resource_stream_create(p->resource, SOMA_STREAM_NON_BLOCKING, &p->streams[i]));
	for (int i = 0; i < EVENTS; i++)
		p->events[i] = event_new();
	OK(ops->staging_alloc(self, 4096, &p->sink));
	find_handles(p);
}

static void
play_programs(const char *name, enum fake_mode mode, uint64_t count)
{
	const uint64_t length = 20000;

	start_fake();
	for (uint64_t done = 0, seed = first_seed; done < count; done += length, seed++) {
		struct program p;
		fake.restart();
		fake.check_signals(false);
		fake.mode(mode, seed, 1 + (unsigned)(seed % 7));
		begin_program(&p, name, seed);
		make_parts(&p);
		for (uint64_t i = 0; i < length && i < count - done; i++)
			play_one(&p);
		end_program(&p);
	}
}

START_TEST(async_in_steps)
{
	play_programs("async", FAKE_STEPPED, operations * 6 / 10);
}
END_TEST

START_TEST(async_with_a_worker)
{
	play_programs("async", FAKE_THREADS, operations / 10);
}
END_TEST

START_TEST(sync_in_steps)
{
	play_programs("sync", FAKE_STEPPED, operations * 2 / 10);
}
END_TEST

START_TEST(async_at_once)
{
	play_programs("async", FAKE_IMMEDIATE, operations / 10);
}
END_TEST

/* ---- threads that share a stack, and free what others have allocated ----------------------- */

#define THREADS 4
#define POSTED 16

static pthread_mutex_t post = PTHREAD_MUTEX_INITIALIZER;
static struct soma_block posted[POSTED];
static bool full[POSTED];
static struct soma_resource *shared;
static uint64_t each;

/* Leaves a block for whoever comes by, and takes what lies there. */
static void
exchange(struct program *p, int i)
{
	unsigned at = (unsigned)below(&p->random, POSTED);
	struct soma_block other;

	pthread_mutex_lock(&post);
	bool got = full[at];
	other = posted[at];
	full[at] = p->live[i];
	posted[at] = p->blocks[i];
	pthread_mutex_unlock(&post);
	p->live[i] = false;
	if (got)
		OK(soma_resource_deallocate(p->resource, &other));
}

static void *
play_thread(void *argument)
{
	struct program p = { .random = first_seed + *(const uint64_t *)argument, .resource = shared };

	make_parts(&p);
	for (uint64_t i = 0; i < each; i++) {
		play_one(&p);
		if (below(&p.random, 20) == 0)
			exchange(&p, (int)below(&p.random, BLOCKS));
	}
	for (int i = 0; i < BLOCKS; i++)
		if (p.live[i])
			OK(soma_resource_deallocate(shared, &p.blocks[i]));
	return NULL;
}

static void
play_threads(const char *name, enum fake_mode mode)
{
	const struct soma__backend_config config = { .name = name, .search = BACKEND_FOLDERS };
	struct soma_ledger ledger = { .size = sizeof ledger };
	pthread_t threads[THREADS];
	uint64_t numbers[THREADS];

	start_fake();
	fake.mode(mode, first_seed, 3);
	OK(soma__resource_open(&config, &shared));
	backend = soma__resource_backend(shared);
	ops = backend->ops;
	self = backend->self;
	for (uint64_t i = 0; i < THREADS; i++) {
		numbers[i] = i;
		ck_assert_int_eq(pthread_create(&threads[i], NULL, play_thread, &numbers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < POSTED; i++)
		if (full[i])
			OK(soma_resource_deallocate(shared, &posted[i]));
	OK(ops->synchronize(self));
	OK(soma_resource_reap_pending(shared));
	OK(soma_resource_ledger(shared, &ledger));
	ck_assert_uint_eq(ledger.live_count + ledger.retired_count, 0);
	soma_resource_release(shared);
	EXPECT_NOTHING_FOUND();
	fake.leaks();
	EXPECT_NOTHING_FOUND();
}

START_TEST(threads_share_async)
{
	each = operations / 100;
	play_threads("async", FAKE_THREADS);
}
END_TEST

START_TEST(threads_share_sync)
{
	each = operations / 200;
	play_threads("sync", FAKE_IMMEDIATE);
}
END_TEST

/* ---- over the guard, by hand ----------------------------------------------------------- */

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
	const TTest *const tests[] = { threads_share_async,
				       threads_share_sync,
				       async_in_steps,
				       async_with_a_worker,
				       sync_in_steps,
				       async_at_once,
				       a_needed_wait_that_is_missing_is_caught,
				       so_it_is_around_sync };

	if (argc > 1)
		operations = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 10);
	find_stand_in(argv);
	return unit_run("cuda random", tests, sizeof tests / sizeof tests[0]);
}

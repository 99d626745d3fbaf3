/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs over four streams and a whole stack, whose use tracking is all the order they have besides events
 * that mean nothing: the stand-in's checker sees no use outside a block's life.
 *
 * Arguments: operations, and the first seed.
 */
#include "tests/cuda_fixture.h"

#include <pthread.h>
#include <soma/model.h>
#include <soma/resource.h>

#include "lib/resource/open.h"
#include "tests/random.h"

#define STREAMS 4
#define BLOCKS 48
#define EVENTS 8

static uint64_t operations = 1000000;
static uint64_t first_seed = 1;

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

int
main(int argc, char **argv)
{
	const TTest *const tests[] = { threads_share_async, threads_share_sync, async_in_steps,
				       async_with_a_worker, sync_in_steps,      async_at_once };

	if (argc > 1)
		operations = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 10);
	find_stand_in(argv);
	return unit_run("cuda random", tests, sizeof tests / sizeof tests[0]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs over four streams.  Those that wait wherever it is needed are without a
 * finding, however the streams run; of those that leave some waits out, the checker finds what
 * a few lines of clocks here find, use by use.
 *
 * An argument is the number of operations: tests/check_fake_driver_random 1000000
 */
#include <pthread.h>
#include <string.h>

#include "tests/fake/fixture.h"

#define STREAMS 4
#define BLOCKS 64

static uint64_t operations = 20000;

static uint64_t
draw(uint64_t *state, uint64_t below)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (*state >> 11) % below;
}

/* What an event stands for: a stream's position and what came before it. */
struct mark {
	int stream; /* -1: none */
	uint64_t at[STREAMS];
	CUevent event;
};

struct block {
	CUdeviceptr ptr; /* 0: none */
	size_t bytes;
	struct mark made;
	struct mark used[STREAMS];
};

struct program {
	uint64_t random;
	unsigned omit; /* of a hundred waits */
	CUmemoryPool pool;
	CUstream stream[STREAMS];
	uint64_t clock[STREAMS][STREAMS]; /* [s][s]: what was queued on it */
	struct block blocks[BLOCKS];
	uint64_t uses, bad_uses, bad_frees;
};

static void
mark(struct program *p, struct mark *m, int s)
{
	if (m->event == NULL)
		m->event = new_event();
	ok(cuEventRecord(m->event, p->stream[s]));
	p->clock[s][s]++;
	m->stream = s;
	memcpy(m->at, p->clock[s], sizeof m->at);
}

static void
wait_for(struct program *p, int s, const struct mark *m)
{
	if (m->stream < 0 || m->stream == s || draw(&p->random, 100) < p->omit)
		return;
	ok(cuStreamWaitEvent(p->stream[s], m->event, 0));
	p->clock[s][s]++;
	for (int i = 0; i < STREAMS; i++)
		if (p->clock[s][i] < m->at[i] && i != s)
			p->clock[s][i] = m->at[i];
}

/* The event is recorded right behind, so it is known one position late; both are one step. */
static bool
is_after(const struct program *p, int s, const struct mark *m)
{
	return m->stream < 0 || m->stream == s || p->clock[s][m->stream] >= m->at[m->stream] - 1;
}

static void
make(struct program *p, struct block *b)
{
	int s = (int)draw(&p->random, STREAMS);

	b->bytes = 1 + draw(&p->random, 200000);
	b->ptr = alloc(p->pool, b->bytes, p->stream[s]);
	p->clock[s][s]++;
	mark(p, &b->made, s);
}

static void
use(struct program *p, struct block *b)
{
	int s = (int)draw(&p->random, STREAMS);

	wait_for(p, s, &b->made);
	p->bad_uses += !is_after(p, s, &b->made);
	p->uses++;
	ok(cuMemsetD8Async(b->ptr, (unsigned char)s, b->bytes, p->stream[s]));
	p->clock[s][s]++;
	mark(p, &b->used[s], s);
}

static void
end(struct program *p, struct block *b)
{
	int s = (int)draw(&p->random, STREAMS);
	bool good = true;

	wait_for(p, s, &b->made);
	for (int i = 0; i < STREAMS; i++)
		wait_for(p, s, &b->used[i]);
	good = is_after(p, s, &b->made);
	for (int i = 0; i < STREAMS; i++)
		good = good && is_after(p, s, &b->used[i]);
	p->bad_frees += !good;
	ok(cuMemFreeAsync(b->ptr, p->stream[s]));
	p->clock[s][s]++;
	b->ptr = 0;
	b->made.stream = -1;
	for (int i = 0; i < STREAMS; i++)
		b->used[i].stream = -1;
}

static void
run(struct program *p, uint64_t seed, unsigned omit)
{
	memset(p, 0, sizeof *p);
	p->random = seed;
	p->omit = omit;
	p->pool = new_pool();
	rules(p->pool, 1, 1, 0);
	for (int i = 0; i < STREAMS; i++)
		p->stream[i] = new_stream();
	for (int i = 0; i < BLOCKS; i++) {
		p->blocks[i].made.stream = -1;
		for (int k = 0; k < STREAMS; k++)
			p->blocks[i].used[k].stream = -1;
	}
	for (uint64_t i = 0; i < operations / 4; i++) {
		struct block *b = &p->blocks[draw(&p->random, BLOCKS)];
		if (b->ptr == 0)
			make(p, b);
		else if (draw(&p->random, 3) != 0)
			use(p, b);
		else
			end(p, b);
	}
}

static void
finish(struct program *p)
{
	for (int i = 0; i < BLOCKS; i++) {
		struct block *b = &p->blocks[i];
		if (b->ptr != 0)
			end(p, b);
		if (b->made.event != NULL)
			ok(cuEventDestroy_v2(b->made.event));
		for (int k = 0; k < STREAMS; k++)
			if (b->used[k].event != NULL)
				ok(cuEventDestroy_v2(b->used[k].event));
	}
	for (int i = 0; i < STREAMS; i++)
		ok(cuStreamDestroy_v2(p->stream[i]));
	ok(cuCtxSynchronize());
	ok(cuMemPoolDestroy(p->pool));
	ck_assert_uint_eq(fake_cuda_device_taken(0), 0);
}

static void
is_clean(enum fake_mode mode, uint64_t seed, unsigned delay)
{
	static struct program p;

	start(FAKE_STEPPED);
	fake_cuda_mode(mode, seed, delay);
	run(&p, seed, 0);
	finish(&p);
	found_nothing();
	ck_assert_uint_eq(fake_cuda_leaks(), 0);
	ck_assert_uint_ne(p.uses, 0);
}

START_TEST(programs_that_wait_are_clean_on_the_worker)
{
	is_clean(FAKE_THREADS, 1, 0);
	is_clean(FAKE_THREADS, 2, 7);
	is_clean(FAKE_THREADS, 3, 50);
}
END_TEST

START_TEST(programs_that_wait_are_clean_at_once)
{
	is_clean(FAKE_IMMEDIATE, 4, 0);
}
END_TEST

START_TEST(programs_that_wait_are_clean_when_run_at_the_end)
{
	is_clean(FAKE_STEPPED, 5, 0);
}
END_TEST

START_TEST(each_missing_wait_is_found_where_it_matters)
{
	static struct program p;

	for (uint64_t seed = 1; seed <= 10; seed++) {
		start(FAKE_STEPPED);
		fake_cuda_mode(FAKE_THREADS, seed, 5);
		run(&p, seed, 5);
		finish(&p);
		ck_assert_uint_ne(p.bad_uses, 0);
		ck_assert_uint_ne(p.bad_frees, 0);
		ck_assert_uint_eq(fake_cuda_findings_of(FAKE_FOUND_UNORDERED_USE), p.bad_uses);
		ck_assert_uint_eq(fake_cuda_findings_of(FAKE_FOUND_UNORDERED_FREE), p.bad_frees);
	}
}
END_TEST

/* ---- threads of the host ---------------------------------------------------------------------- */

static CUcontext shared_context;
static CUmemoryPool shared_pool;

static void *
host_thread(void *data)
{
	uint64_t random = (uintptr_t)data;
	CUdeviceptr held[8] = { 0 };
	unsigned char *at;

	ok(cuCtxSetCurrent(shared_context));
	CUstream a = new_stream(), b = new_stream();
	for (uint64_t i = 0; i < operations / 20; i++) {
		CUdeviceptr *p = &held[draw(&random, 8)];
		if (*p == 0) {
			*p = alloc(shared_pool, 1 + draw(&random, 5000), a);
			wait_on(b, a);
			ok(cuMemsetD8Async(*p, 1, 1, b));
			wait_on(a, b);
		} else if (draw(&random, 10) == 0) {
			ok(cuStreamSynchronize(a));
			at = (void *)(uintptr_t)*p;
			ck_assert_uint_eq(*at, 1);
		} else {
			ok(cuMemFreeAsync(*p, a));
			*p = 0;
		}
	}
	for (int i = 0; i < 8; i++)
		ok(cuMemFreeAsync(held[i], a));
	ok(cuStreamSynchronize(b));
	ok(cuStreamDestroy_v2(a));
	ok(cuStreamDestroy_v2(b));
	return NULL;
}

static void
threads_in(enum fake_mode mode)
{
	pthread_t thread[4];

	shared_context = start(mode);
	shared_pool = new_pool();
	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, host_thread, (void *)(i + 1)), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	ok(cuCtxSynchronize());
	ok(cuMemPoolDestroy(shared_pool));
	found_nothing();
	ck_assert_uint_eq(fake_cuda_leaks(), 0);
	ck_assert_uint_eq(fake_cuda_device_taken(0), 0);
}

START_TEST(many_host_threads_with_the_worker)
{
	threads_in(FAKE_THREADS);
}
END_TEST

START_TEST(many_host_threads_at_once)
{
	threads_in(FAKE_IMMEDIATE);
}
END_TEST

int
main(int argc, char **argv)
{
	const TTest *const tests[] = { programs_that_wait_are_clean_on_the_worker,
				       programs_that_wait_are_clean_at_once,
				       programs_that_wait_are_clean_when_run_at_the_end,
				       each_missing_wait_is_found_where_it_matters,
				       many_host_threads_with_the_worker,
				       many_host_threads_at_once };

	if (argc > 1)
		operations = strtoull(argv[1], NULL, 0);
	return unit_run("fake_driver_random", tests, sizeof tests / sizeof tests[0]);
}

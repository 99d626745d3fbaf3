/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lib/pool costs: alloc and free pairs of a pool that places its blocks over the host backend, next to
 * the same pairs of the bare model, in turn in one run.  Thread CPU time; of each the median over the
 * rounds, and the median of the rounds' differences.
 *
 * Two rhythms: a block freed before the next is allocated, and a window of live blocks where the oldest
 * goes.  With small blocks, and with blocks so large that allocations ask how far the stream is: the host's stays
 * where it is, so they go on asking.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <soma/pool.h>

#include "bench/rounds.h"
#include "lib/resource/open.h"

#define ROUNDS 15
#define WINDOW 512
#define SIZES 64
#define UNIT 512
#define LARGE ((uint64_t)32 << 10)

/* ---- the two sides ------------------------------------------------------------------------ */

struct side {
	struct soma_model *model; /* NULL: the pool */
	struct soma_pool *pool;
	uint64_t stream;
	uint64_t unit; /* of sizes */
	bool split;    /* free and release apart */
};

static void
check(enum soma_status status)
{
	if (status == SOMA_STATUS_OK)
		return;
	fprintf(stderr, "bench/pool: %s\n", soma_error_last()->text);
	abort();
}

static uint64_t
size_of(const struct side *side, uint64_t i)
{
	return side->unit * (1 + i * 7 % SIZES);
}

static void
free_handle(const struct side *side, struct soma_allocation *handle)
{
	if (side->split)
		check(soma_pool_free(handle, side->stream));
	check(soma_allocation_release(handle));
}

static void
run_pool(const struct side *side, uint64_t pairs, uint64_t window)
{
	static struct soma_allocation *held[WINDOW];

	for (uint64_t i = 0; i < window; i++)
		check(soma_pool_alloc(side->pool, size_of(side, i), side->stream, &held[i]));
	for (uint64_t i = 0; i < pairs; i++) {
		struct soma_allocation **slot = &held[i % window];
		free_handle(side, *slot);
		check(soma_pool_alloc(side->pool, size_of(side, i), side->stream, slot));
	}
	for (uint64_t i = 0; i < window; i++)
		free_handle(side, held[i]);
}

static void
run_model(const struct side *side, uint64_t pairs, uint64_t window)
{
	static uint64_t held[WINDOW];
	struct soma_model_alloc made;

	for (uint64_t i = 0; i < window; i++) {
		check(soma_model_alloc(side->model, size_of(side, i), side->stream, &made));
		held[i] = made.ptr;
	}
	for (uint64_t i = 0; i < pairs; i++) {
		uint64_t *slot = &held[i % window];
		check(soma_model_free(side->model, *slot, side->stream));
		check(soma_model_alloc(side->model, size_of(side, i), side->stream, &made));
		*slot = made.ptr;
	}
	for (uint64_t i = 0; i < window; i++)
		check(soma_model_free(side->model, held[i], side->stream));
}

/* ---- measuring ---------------------------------------------------------------------------- */

static double
measure(const struct side *side, uint64_t pairs, uint64_t window)
{
	struct timespec from, to;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	if (side->model != NULL)
		run_model(side, pairs, window);
	else
		run_pool(side, pairs, window);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
	       (double)(pairs + window);
}

static void
report(const char *name, const struct side *model, const struct side *pool, uint64_t pairs, uint64_t window)
{
	double of_model[ROUNDS], of_pool[ROUNDS], more[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		of_model[i] = measure(model, pairs, window);
		of_pool[i] = measure(pool, pairs, window);
		more[i] = of_pool[i] - of_model[i];
	}
	printf("  %-40s %6.1f ns  the model %6.1f ns  %+6.1f\n", name, rounds_median(of_pool, ROUNDS),
	       rounds_median(of_model, ROUNDS), rounds_median(more, ROUNDS));
}

static void *
touch(void *nothing)
{
	return nothing;
}

/* A process that has had a thread uses real locks from then on. */
static void
start_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, touch, NULL) != 0)
		abort();
	pthread_join(thread, NULL);
}

static struct soma_resource *
open_host(const char *folder)
{
	const struct soma__backend_config config = { .name = "host", .search = folder };
	struct soma_resource *resource;

	check(soma__resource_open(&config, &resource));
	return resource;
}

int
main(int argc, char **argv)
{
	const uint64_t pairs = argc > 2 ? strtoull(argv[2], NULL, 10) : 400000;
	struct soma_resource *host = open_host(argc > 1 ? argv[1] : NULL);
	const struct soma_pool_config config = { .size = sizeof config,
						 .placement = SOMA_PLACEMENT_POOL,
						 .release_threshold = UINT64_MAX };
	const struct soma_model_limits limits = { .size = sizeof limits,
						  .policy = soma_policy_preset("cuda") };
	struct side model = { .unit = UNIT }, pool = { .unit = UNIT }, split;

	start_thread();
	check(soma_model_create(&limits, &model.model));
	check(soma_model_stream_create(model.model, SOMA_STREAM_NON_BLOCKING, &model.stream));
	check(soma_pool_create(&config, host, &pool.pool));
	check(soma_resource_stream_create(host, SOMA_STREAM_NON_BLOCKING, &pool.stream));
	split = pool;
	split.split = true;
	puts("pool: alloc and free pairs, placement=pool over host, CPU time");
	report("one block at a time", &model, &pool, pairs, 1);
	report("512 live blocks", &model, &pool, pairs, WINDOW);
	report("512 live, free and release apart", &model, &split, pairs, WINDOW);
	model.unit = pool.unit = LARGE;
	report("one block of 1 MiB at a time", &model, &pool, pairs, 1);
	report("512 live blocks of 1 MiB", &model, &pool, pairs, WINDOW);
	check(soma_pool_destroy(pool.pool));
	soma_model_destroy(model.model);
	soma_resource_release(host);
	return 0;
}

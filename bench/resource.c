/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lib/resource costs: alloc and free pairs on a backend that does nothing, by itself, through a terminal
 * with its ledger, with a budget, and with a trace; on one thread, and on two with one budget.  Thread CPU
 * time, the median of several rounds.  Prints a line for each and the differences.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <soma/budget.h>

#include "bench/rounds.h"
#include "lib/resource/terminal.h"

#define ROUNDS 9
#define SIZES 64

/* ---- a backend that gives the same few addresses again and again -------------------------- */

struct soma_backend {
	_Atomic unsigned threads;
};

static _Thread_local uint64_t next_address;

static enum soma_status
null_query(struct soma_backend *self, struct soma_backend_info *info)
{
	(void)self;
	info->capabilities = 0;
	info->alignment = 256;
	return SOMA_STATUS_OK;
}

/* noinline: what the direct loop calls is what the stack calls, by pointer. */
static enum soma_status __attribute__((noinline))
null_alloc(struct soma_backend *self, uint64_t size, uint64_t alignment, struct soma_backend_stream *stream,
	   uint64_t *ptr)
{
	(void)alignment, (void)stream, (void)size;
	if (next_address == 0)
		next_address = (uint64_t)(atomic_fetch_add(&self->threads, 1) + 1) << 32;
	*ptr = next_address;
	next_address = (next_address & ~(uint64_t)0x3fff) | ((next_address + 256) & 0x3fff);
	return SOMA_STATUS_OK;
}

static enum soma_status __attribute__((noinline))
null_free(struct soma_backend *self, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	(void)self, (void)ptr, (void)size, (void)stream;
	return SOMA_STATUS_OK;
}

static const struct soma_backend_ops null_ops = {
	.size = sizeof null_ops,
	.query = null_query,
	.alloc = null_alloc,
	.free = null_free,
};

/* ---- measuring ---------------------------------------------------------------------------------- */

static double
now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

struct load {
	struct soma_resource *resource; /* NULL: the backend itself */
	struct soma_backend *backend;
	const struct soma_backend_ops *ops;
	uint64_t pairs;
	double cpu_ns; /* of one thread */
	pthread_barrier_t *barrier;
};

static void
run_direct(struct load *load)
{
	const struct soma_backend_ops *volatile ops = load->ops;
	uint64_t ptr;

	for (uint64_t i = 0; i < load->pairs; i++) {
		uint64_t size = 256 * (1 + i % SIZES);
		if (ops->alloc(load->backend, size, 0, NULL, &ptr) != SOMA_STATUS_OK ||
		    ops->free(load->backend, ptr, size, NULL) != SOMA_STATUS_OK)
			abort();
	}
}

static void
run_stack(struct load *load)
{
	struct soma_request request = { .size = sizeof request };
	struct soma_block block = { .size = sizeof block };

	for (uint64_t i = 0; i < load->pairs; i++) {
		request.bytes = 256 * (1 + i % SIZES);
		if (soma_resource_materialize(load->resource, &request, &block) != SOMA_STATUS_OK ||
		    soma_resource_deallocate(load->resource, &block) != SOMA_STATUS_OK) {
			fprintf(stderr, "bench/resource: %s\n", soma_error_last()->text);
			abort();
		}
	}
}

static void *
run_load(void *argument)
{
	struct load *load = argument;
	double start;

	if (load->barrier != NULL)
		pthread_barrier_wait(load->barrier);
	start = now(CLOCK_THREAD_CPUTIME_ID);
	if (load->resource == NULL)
		run_direct(load);
	else
		run_stack(load);
	load->cpu_ns = now(CLOCK_THREAD_CPUTIME_ID) - start;
	return NULL;
}

/* CPU ns a pair, of a thread, when `threads` of them run at once. */
static double
measure(struct load load, unsigned threads)
{
	double values[ROUNDS];
	struct load loads[8];
	pthread_t ids[8];
	pthread_barrier_t barrier;

	pthread_barrier_init(&barrier, NULL, threads);
	load.barrier = &barrier;
	for (int round = 0; round < ROUNDS; round++) {
		double sum = 0;
		for (unsigned i = 0; i < threads; i++) {
			loads[i] = load;
			if (pthread_create(&ids[i], NULL, run_load, &loads[i]) != 0)
				abort();
		}
		for (unsigned i = 0; i < threads; i++) {
			pthread_join(ids[i], NULL);
			sum += loads[i].cpu_ns;
		}
		values[round] = sum / threads / (double)load.pairs;
	}
	pthread_barrier_destroy(&barrier);
	return rounds_median(values, ROUNDS);
}

static struct soma_resource *
make_terminal(struct soma_backend *backend)
{
	struct soma__terminal_config config = {
		.backend = { .size = sizeof config.backend,
			     .name = "null",
			     .ops = &null_ops,
			     .self = backend },
	};
	struct soma_resource *terminal;

	if (soma__terminal_create(&config, &terminal) != SOMA_STATUS_OK)
		abort();
	return terminal;
}

static void
print(const char *name, double ns, double base)
{
	printf("  %-34s %7.1f ns a pair  %+7.1f\n", name, ns, ns - base);
}

static void
measure_trace(struct load load, struct soma_resource *budget, double base)
{
	struct soma_trace_config config = { .size = sizeof config,
					    .path = "/dev/null",
					    .patience_ms = 10000 };
	struct soma_trace_stats stats = { .size = sizeof stats };
	struct soma_resource *trace;

	if (soma_trace_create(budget, &config, &trace) != SOMA_STATUS_OK)
		abort();
	load.resource = trace;
	print("trace over that", measure(load, 1), base);
	soma_trace_flush(trace);
	soma_trace_stats(trace, &stats);
	printf("  the trace: %" PRIu64 " events written, %" PRIu64 " dropped\n", stats.events, stats.dropped);
	soma_resource_release(trace);
}

int
main(int argc, char **argv)
{
	struct soma_backend backend = { 0 };
	struct load load = { .backend = &backend, .ops = &null_ops, .pairs = 400000 };
	struct soma_resource *terminal, *budget;
	double direct, ledger, with_budget, two;

	if (argc > 1)
		load.pairs = strtoull(argv[1], NULL, 10);
	direct = measure(load, 1);
	terminal = load.resource = make_terminal(&backend);
	ledger = measure(load, 1);
	if (soma_budget_create(terminal, (uint64_t)2 << 30, &budget) != SOMA_STATUS_OK)
		abort();
	load.resource = budget;
	with_budget = measure(load, 1);
	two = measure(load, 2);
	puts("resource: alloc and free pairs, CPU time of one thread");
	print("the backend itself", direct, direct);
	print("terminal and ledger", ledger, direct);
	print("budget over that", with_budget, direct);
	print("the same, two threads at once", two, direct);
	printf("  two threads: %.2f times one thread's throughput\n", 2 * with_budget / two);
	measure_trace(load, budget, with_budget);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a guard costs: alloc and free pairs of 4 KiB through a runtime over host, with and without the guard
 * around it (canaries and poison, as by default), in turns.  CPU time of the process: a guard has no thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <soma/runtime.h>

#include "bench/rounds.h"

#define ROUNDS 11
#define PAIRS 20000
#define BYTES 4096

static void
check(enum soma_status status)
{
	if (status == SOMA_STATUS_OK)
		return;
	fprintf(stderr, "bench/guard: %s\n", soma_error_last()->text);
	exit(1);
}

static double
cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* A live window of blocks, so that the quarantine turns over; synchronised as a program does now and then. */
static double
pair_ns(struct soma_runtime *runtime, uint64_t stream)
{
	static struct soma_block blocks[64];
	struct soma_resource *resource = soma_runtime_resource(runtime);
	double start = cpu_ns();

	for (unsigned i = 0; i < PAIRS; i++) {
		struct soma_block *block = &blocks[i % 64];

		if (i >= 64)
			check(soma_resource_deallocate(resource, block));
		*block = (struct soma_block){ .size = sizeof *block };
		check(soma_resource_allocate(resource, BYTES, stream, block));
		if (i % 512 == 511)
			check(soma_resource_stream_synchronize(resource, stream));
	}
	for (unsigned i = 0; i < 64; i++)
		check(soma_resource_deallocate(resource, &blocks[i]));
	check(soma_resource_stream_synchronize(resource, stream));
	return (cpu_ns() - start) / PAIRS;
}

int
main(int argc, char **argv)
{
	static const char *const backends[] = { "host", "guard:host" };
	struct soma_runtime *runtime[2];
	uint64_t stream[2];
	double ns[2][ROUNDS];

	for (unsigned who = 0; who < 2; who++) {
		char conf[4096];

		snprintf(conf, sizeof conf, "backend=%s,backend_path=%s", backends[who], argc > 1 ? argv[1] : "");
		check(soma_runtime_open(conf, &runtime[who]));
		check(soma_runtime_stream_acquire(runtime[who], SOMA_STREAM_NON_BLOCKING, &stream[who]));
		pair_ns(runtime[who], stream[who]);
	}
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned who = 0; who < 2; who++)
			ns[who][round] = pair_ns(runtime[who], stream[who]);
	printf("guard: alloc and free pairs of %d bytes, CPU time\n", BYTES);
	for (unsigned who = 0; who < 2; who++) {
		rounds_sort(ns[who], ROUNDS);
		printf("  %-12s %8.1f ns a pair  (%.1f to %.1f)\n", backends[who], ns[who][ROUNDS / 2], ns[who][0],
		       ns[who][ROUNDS - 1]);
		soma_runtime_release(runtime[who]);
	}
	return 0;
}

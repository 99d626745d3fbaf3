/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a pair of alloc and free takes the host: bare driver calls, and soma over the same driver in the same
 * process.  Each pair is timed by itself; streams are synchronised between groups of them, which is not timed.
 * Nothing here passes or fails but by an error.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <soma/soma.h>

#include "tests/gpu/case.h"

#define GROUP 64
#define PAIRS_MAX 20000

struct bench {
	struct gpu gpu;
	CUmemoryPool pool;
	CUstream stream; /* of the bare calls */
	struct soma_runtime *runtime;
	struct soma_resource *memory;
	struct soma_pool *soma_pool;
	uint64_t soma_stream;
	uint64_t bytes;
};

static struct bench bench;
static uint64_t times[PAIRS_MAX];

#define OK(call)                                                                                        \
	do {                                                                                            \
		if ((call) != SOMA_STATUS_OK)                                                           \
			case_fail("%s:%d: %s: %s", __FILE__, __LINE__, #call, soma_error_last()->text); \
	} while (0)

static void
must(CUresult result, const char *what)
{
	if (result != CUDA_SUCCESS)
		case_fail("%s: %s", what, gpu_result_name(&bench.gpu, result));
}
#define MUST(entry, ...) must(bench.gpu.entry(__VA_ARGS__), #entry)

/* ---- pairs ---------------------------------------------------------------------------- */

static void
bare_alloc_async(void)
{
	CUdeviceptr ptr;

	MUST(cuMemAllocAsync, &ptr, bench.bytes, bench.stream);
	MUST(d.cuMemFreeAsync, ptr, bench.stream);
}

static void
bare_from_pool(void)
{
	CUdeviceptr ptr;

	MUST(d.cuMemAllocFromPoolAsync, &ptr, bench.bytes, bench.pool, bench.stream);
	MUST(d.cuMemFreeAsync, ptr, bench.stream);
}

static void
bare_alloc(void)
{
	CUdeviceptr ptr;

	MUST(d.cuMemAlloc, &ptr, bench.bytes);
	MUST(d.cuMemFree, ptr);
}

static void
by_resource(void)
{
	struct soma_block block = { .size = sizeof block };

	OK(soma_resource_allocate(bench.memory, bench.bytes, bench.soma_stream, &block));
	OK(soma_resource_deallocate(bench.memory, &block));
}

static void
by_pool(void)
{
	struct soma_allocation *block;

	OK(soma_pool_alloc(bench.soma_pool, bench.bytes, bench.soma_stream, &block));
	OK(soma_pool_free(block, bench.soma_stream));
	OK(soma_allocation_release(block));
}

static void
settle_bare(void)
{
	MUST(d.cuStreamSynchronize, bench.stream);
}

static void
settle_resource(void)
{
	OK(soma_resource_stream_synchronize(bench.memory, bench.soma_stream));
}

static void
settle_pool(void)
{
	OK(soma_pool_synchronize(bench.soma_pool, bench.soma_stream));
}

/* ---- measuring ---------------------------------------------------------------------------- */

static uint64_t
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int
compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void
measure(const char *name, const char *backend, void (*pair)(void), void (*settle)(void), unsigned pairs)
{
	for (unsigned i = 0; i < GROUP; i++)
		pair();
	for (unsigned i = 0; i < pairs; i++) {
		if (i % GROUP == 0)
			settle();
		uint64_t start = now();
		pair();
		times[i] = now() - start;
	}
	settle();
	qsort(times, pairs, sizeof times[0], compare);
	printf("%s, %" PRIu64 " KiB\t%s\tok\tp50 %.2f us, p99 %.2f us\n", name, bench.bytes >> 10, backend,
	       (double)times[pairs / 2] / 1e3, (double)times[pairs - 1 - pairs / 100] / 1e3);
	fflush(stdout);
}

/* ---- each backend --------------------------------------------------------------------------- */

static void
keep_all(CUmemoryPool pool)
{
	cuuint64_t all = UINT64_MAX;

	MUST(d.cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
}

static void
open_bare(int device)
{
	const CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } };
	const char *reason = gpu_open(&bench.gpu, device);
	CUmemoryPool standard;

	if (reason != NULL)
		case_skip("%s", reason);
	MUST(d.cuStreamCreate, &bench.stream, CU_STREAM_NON_BLOCKING);
	MUST(d.cuMemPoolCreate, &bench.pool, &props);
	keep_all(bench.pool);
	MUST(cuDeviceGetDefaultMemPool, &standard, bench.gpu.device);
	keep_all(standard);
}

static void
open_soma(const char *backend, const char *folders, int device)
{
	char conf[2048];

	snprintf(conf, sizeof conf, "backend=%s,device=%d,release_threshold=all%s%s", backend, device,
		 folders != NULL ? ",backend_path=" : "", folders != NULL ? folders : "");
	OK(soma_runtime_open(conf, &bench.runtime));
	bench.memory = soma_runtime_resource(bench.runtime);
	OK(soma_runtime_pool_create(bench.runtime, &bench.soma_pool));
	OK(soma_runtime_stream_acquire(bench.runtime, SOMA_STREAM_NON_BLOCKING, &bench.soma_stream));
}

static void
close_soma(void)
{
	OK(soma_pool_destroy(bench.soma_pool));
	OK(soma_runtime_stream_release(bench.runtime, bench.soma_stream));
	soma_runtime_release(bench.runtime);
}

static void
measure_async(unsigned pairs)
{
	measure("bare cuMemAllocAsync", "async", bare_alloc_async, settle_bare, pairs);
	measure("bare cuMemAllocFromPoolAsync", "async", bare_from_pool, settle_bare, pairs);
	measure("soma_resource", "async", by_resource, settle_resource, pairs);
	measure("soma_pool", "async", by_pool, settle_pool, pairs);
}

static void
measure_sync(unsigned pairs)
{
	measure("bare cuMemAlloc", "sync", bare_alloc, settle_bare, pairs);
	measure("soma_resource", "sync", by_resource, settle_resource, pairs);
	measure("soma_pool", "sync", by_pool, settle_pool, pairs);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "folders", required_argument, NULL, 'f' },
		{ "quick", no_argument, NULL, 'q' },
		{ NULL, 0, NULL, 0 },
	};
	static const uint64_t sizes[] = { 4096, 1 << 20 };
	const char *folders = NULL;
	unsigned pairs = PAIRS_MAX;
	int device = 0;

	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (option == 'd')
			device = atoi(optarg);
		else if (option == 'f')
			folders = optarg;
		else if (option == 'q')
			pairs = PAIRS_MAX / 20;
		else
			return 2;
	}
	open_bare(device);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		bench.bytes = sizes[i];
		open_soma("async", folders, device);
		measure_async(pairs);
		close_soma();
		open_soma("sync", folders, device);
		measure_sync(pairs / 4);
		close_soma();
	}
	MUST(d.cuMemPoolDestroy, bench.pool);
	MUST(d.cuStreamDestroy, bench.stream);
	gpu_close(&bench.gpu);
	return EXIT_SUCCESS;
}

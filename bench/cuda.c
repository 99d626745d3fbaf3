/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What async and sync cost over the driver: alloc and free pairs by bare driver calls, by the backend, through a
 * terminal, and with one use on another stream; in one process, over whatever libcuda.so.1 there is (`make bench`
 * uses the stand-in of tests/fake, whose streams have no delay).  Thread CPU time.  A round runs every kind of
 * pair in turn, so what is over the bare calls is over those of the same moment.
 *
 * Argument: the folders of the modules.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <soma/model.h>

#include "backends/cuda/driver.h"
#include "bench/rounds.h"
#include "lib/base/error.h"
#include "lib/resource/open.h"

#define ROUNDS 101
#define PAIRS 2000
#define BYTES 4096

static struct soma_resource *resource;
static struct soma__backend *backend;
static const struct soma_backend_ops *ops;
static struct soma_backend *self;
static uint64_t stream, other;
static struct soma_backend_stream *handle;

/* The driver by itself, as a program uses it. */
static struct cuda_driver table;
static CUmemoryPool pool;
static CUstream bare, second;
static CUevent event;

static void
must(enum soma_status status)
{
	if (status == SOMA_STATUS_OK)
		return;
	fprintf(stderr, "bench/cuda: %s\n", soma_error_last()->text);
	exit(EXIT_FAILURE);
}

static void
must_driver(CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "bench/cuda: the driver answers %d\n", (int)result);
	exit(EXIT_FAILURE);
}

/* ---- pairs -------------------------------------------------------------------------- */

static void
bare_async(void)
{
	CUdeviceptr ptr;

	must_driver(table.cuMemAllocFromPoolAsync(&ptr, BYTES, pool, bare));
	must_driver(table.cuMemFreeAsync(ptr, bare));
}

static void
bare_sync(void)
{
	CUdeviceptr ptr;

	must_driver(table.cuMemAlloc(&ptr, BYTES));
	must_driver(table.cuStreamSynchronize(bare));
	must_driver(table.cuMemFree(ptr));
}

/* Two events and two waits: to the other stream, and back. */
static void
bare_async_use(void)
{
	CUdeviceptr ptr;

	must_driver(table.cuMemAllocFromPoolAsync(&ptr, BYTES, pool, bare));
	must_driver(table.cuEventRecord(event, bare));
	must_driver(table.cuStreamWaitEvent(second, event, 0));
	must_driver(table.cuEventRecord(event, second));
	must_driver(table.cuStreamWaitEvent(bare, event, 0));
	must_driver(table.cuMemFreeAsync(ptr, bare));
}

static void
by_backend(void)
{
	uint64_t ptr;

	must(ops->alloc(self, BYTES, 0, handle, &ptr));
	must(ops->free(self, ptr, BYTES, handle));
}

static void
by_terminal(void)
{
	struct soma_block block = { .size = sizeof block };

	must(soma_resource_allocate(resource, BYTES, stream, &block));
	must(soma_resource_deallocate(resource, &block));
}

static void
by_terminal_use(void)
{
	struct soma_block block = { .size = sizeof block };
	struct soma_use use = { .size = sizeof use };

	must(soma_resource_allocate(resource, BYTES, stream, &block));
	must(soma_resource_prepare_use(resource, block.id, other, SOMA_ACCESS_WRITE, &use));
	must(soma_resource_finish_use(resource, &use, 1));
	must(soma_resource_deallocate(resource, &block));
}

/* ---- measuring ------------------------------------------------------------------------ */

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double
measure(void (*pair)(void))
{
	double start = now();

	for (int i = 0; i < PAIRS; i++)
		pair();
	return (now() - start) / PAIRS;
}

/* A kind of pair: what it took in each round, and what of that is over the bare calls. */
struct row {
	const char *name;
	void (*pair)(void);
	size_t base; /* the row with the bare calls */
	double took[ROUNDS], over[ROUNDS];
};

static void
print(struct row *row)
{
	rounds_sort(row->took, ROUNDS);
	rounds_sort(row->over, ROUNDS);
	printf("  %-34s %7.1f %7.1f %7.1f %+9.1f %7.1f\n", row->name, row->took[0], row->took[ROUNDS / 2],
	       row->took[3 * ROUNDS / 4] - row->took[ROUNDS / 4], row->over[ROUNDS / 2],
	       row->over[3 * ROUNDS / 4] - row->over[ROUNDS / 4]);
}

static void
measure_rows(struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		(void)measure(rows[i].pair);
	for (size_t round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < count; i++)
			rows[i].took[round] = measure(rows[i].pair);
		for (size_t i = 0; i < count; i++)
			rows[i].over[round] = rows[i].took[round] - rows[rows[i].base].took[round];
	}
	printf("  %-34s %7s %7s %7s %9s %7s\n", "ns a pair", "min", "median", "spread", "over bare",
	       "spread");
	for (size_t i = 0; i < count; i++)
		print(&rows[i]);
}

/* ---- setting up --------------------------------------------------------------------------- */

static enum soma_status
fail_plain(void *context, const struct soma_backend_error *error)
{
	(void)context;
	fprintf(stderr, "bench/cuda: %s\n", error->text);
	return error->status;
}

static void
open_driver(void)
{
	const struct soma_backend_host host = { .size = sizeof host, .fail = fail_plain };
	const CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				       .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	const struct cuda_driver *driver;
	cuuint64_t all = UINT64_MAX;
	CUcontext context;

	if (cuda_driver_load(&host, "bench", &driver) != SOMA_STATUS_OK)
		exit(EXIT_FAILURE);
	table = *driver;
	must_driver(table.cuDevicePrimaryCtxRetain(&context, 0));
	must_driver(table.cuCtxPushCurrent(context));
	must_driver(table.cuStreamCreate(&bare, CU_STREAM_NON_BLOCKING));
	must_driver(table.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	must_driver(table.cuMemPoolCreate(&pool, &props));
	must_driver(table.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
}

static void
open_stack(const char *name, const char *folders)
{
	const struct soma__backend_config config = { .name = name, .search = folders };

	must(soma__resource_open(&config, &resource));
	backend = soma__resource_backend(resource);
	ops = backend->ops;
	self = backend->self;
	must(ops->stream_create(self, SOMA_BACKEND_STREAM_NON_BLOCKING, &handle));
	must(soma_resource_stream_create(resource, SOMA_STREAM_NON_BLOCKING, &stream));
	must(soma_resource_stream_create(resource, SOMA_STREAM_NON_BLOCKING, &other));
}

static void
measure_async(const char *folders)
{
	static struct row rows[] = {
		{ .name = "bare driver calls", .pair = bare_async },
		{ .name = "the backend", .pair = by_backend },
		{ .name = "terminal over that", .pair = by_terminal },
		{ .name = "bare calls, one use elsewhere", .pair = bare_async_use, .base = 3 },
		{ .name = "terminal, one use elsewhere", .pair = by_terminal_use, .base = 3 },
	};

	open_stack("async", folders);
	printf("cuda: async, alloc and free pairs, CPU time of one thread\n");
	measure_rows(rows, sizeof rows / sizeof rows[0]);
	soma_resource_release(resource);
}

static void
measure_sync(const char *folders)
{
	static struct row rows[] = {
		{ .name = "bare driver calls", .pair = bare_sync },
		{ .name = "the backend", .pair = by_backend },
		{ .name = "terminal over that", .pair = by_terminal },
	};

	open_stack("sync", folders);
	printf("cuda: sync, alloc and free pairs, CPU time of one thread\n");
	measure_rows(rows, sizeof rows / sizeof rows[0]);
	soma_resource_release(resource);
}

int
main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: bench/cuda FOLDERS\n");
		return EXIT_FAILURE;
	}
	open_driver();
	must_driver(table.cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	measure_async(argv[1]);
	measure_sync(argv[1]);
	return EXIT_SUCCESS;
}

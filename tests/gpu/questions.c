/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe's questions: one for each constant of tests/fake/facts.h, in its order.  Each is asked in a process of its
 * own, so that what it leaves behind is nobody's.
 *
 * Over the stand-in its modes take the place of a stream that is held back.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/ask.h"
#include "tests/gpu/probe.h"

#define MB ((uint64_t)1 << 20)

/* ---- sizes and addresses ----------------------------------------------------------------------- */

static void
async_size_0(void)
{
	CUdeviceptr ptr = 0;

	answer_result(
		gpu->d.cuMemAllocFromPoolAsync(&ptr, 0, pool_new(0, CU_MEM_HANDLE_TYPE_NONE), stream_new()));
}

static void
free_async_null(void)
{
	answer_result(gpu->d.cuMemFreeAsync(0, stream_new()));
}

static void
free_null(void)
{
	answer_result(gpu->d.cuMemFree(0));
}

static void
alignment(void)
{
	CUmemoryPool pool = pool_new(0, CU_MEM_HANDLE_TYPE_NONE);
	CUstream stream = stream_new();
	uint64_t first = take(pool, 1, stream), common = 0;

	for (int i = 0; i < 64; i++) {
		uint64_t next = take(pool, 1, stream), step = next > first ? next - first : first - next;
		while (step != 0) {
			uint64_t rest = common % step;
			common = step;
			step = rest;
		}
	}
	answer(common);
}

static void
used_is_rounded(void)
{
	CUmemoryPool pool = pool_new(0, CU_MEM_HANDLE_TYPE_NONE);

	(void)take(pool, 1, stream_new());
	answer(pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) != 1);
}

static void
reserve_step(void)
{
	CUmemoryPool pool = pool_new(0, CU_MEM_HANDLE_TYPE_NONE);

	(void)take(pool, 1, stream_new());
	answer(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

static void
sync_step(void)
{
	size_t before, after, total;
	CUdeviceptr ptr;

	MUST(d.cuMemGetInfo, &before, &total);
	for (int i = 0; i < 100000; i++) {
		MUST(d.cuMemAlloc, &ptr, 1);
		MUST(d.cuMemGetInfo, &after, &total);
		if (after < before) {
			answer(before - after);
			return;
		}
	}
	answer_nothing("the free memory did not change");
}

/* A hole of 4 MiB between live blocks is taken but for `rest` bytes: can those be had? */
static bool
splits(uint64_t rest)
{
	CUmemoryPool pool = pool_new(0, CU_MEM_HANDLE_TYPE_NONE);
	CUstream stream = stream_new();
	CUdeviceptr hole, part, left;

	keep_all(pool);
	(void)take(pool, 4096, stream);
	hole = take(pool, 4 * MB, stream);
	(void)take(pool, 4096, stream);
	MUST(d.cuMemFreeAsync, hole, stream);
	MUST(d.cuStreamSynchronize, stream);
	part = take(pool, 4 * MB - rest, stream);
	left = take(pool, rest, stream);
	return part == hole && left == hole + 4 * MB - rest;
}

static void
split_min(void)
{
	for (uint64_t rest = 256; rest <= 2 * MB; rest *= 2) {
		if (splits(rest)) {
			answer(rest);
			return;
		}
	}
	answer_nothing("no remainder up to 2 MiB was used");
}

static bool
has_max_size(void)
{
	if (gpu->driver_version >= 12020)
		return true;
	answer_nothing("pools have a maximum from CUDA 12.2 on");
	return false;
}

static void
max_size_is_rounded(void)
{
	CUdeviceptr ptr;

	if (has_max_size())
		answer(gpu->d.cuMemAllocFromPoolAsync(&ptr, 33 * MB,
						      pool_new(48 * MB, CU_MEM_HANDLE_TYPE_NONE),
						      stream_new()) == CUDA_SUCCESS);
}

static void
granularity(void)
{
	const CUmemAllocationProp props = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					    .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
							  .id = gpu->ordinal } };
	size_t least, best;

	MUST(d.cuMemGetAllocationGranularity, &least, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	MUST(d.cuMemGetAllocationGranularity, &best, &props, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	answer(least);
	if (best != least)
		fprintf(out, " recommended: %zu", best);
}

/* ---- when things happen ---------------------------------------------------------------------------- */

static void
used_falls_at_call(void)
{
	CUmemoryPool pool = pool_new(0, CU_MEM_HANDLE_TYPE_NONE);
	CUstream stream = stream_new();
	CUdeviceptr ptr;

	stand_in_mode(FAKE_STEPPED);
	ptr = take(pool, MB, stream);
	MUST(d.cuStreamSynchronize, stream);
	gpu_hold(gpu, (uintptr_t)stream);
	MUST(d.cuMemFreeAsync, ptr, stream);
	answer(pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
}

/* Two blocks do not fit into one step, so the place shows whether the first one's is used again. */
static void
query_observes(void)
{
	CUmemoryPool pool = pool_new(0, CU_MEM_HANDLE_TYPE_NONE);
	CUstream first = stream_new(), second = stream_new();
	CUdeviceptr ptr;

	stand_in_mode(FAKE_IMMEDIATE);
	keep_all(pool);
	reuse_after_synchronisation_only(pool);
	ptr = take(pool, 20 * MB, first);
	MUST(d.cuStreamSynchronize, first);
	MUST(d.cuMemFreeAsync, ptr, first);
	wait_unseen(first);
	if (take(pool, 20 * MB, second) == ptr) {
		answer_nothing("the place was used again without a query");
		return;
	}
	query_until_done(first);
	answer(take(pool, 20 * MB, second) == ptr);
}

static void
query_releases(void)
{
	CUmemoryPool pool = pool_new(0, CU_MEM_HANDLE_TYPE_NONE);
	CUstream stream = stream_new();
	CUdeviceptr ptr;

	stand_in_mode(FAKE_IMMEDIATE);
	ptr = take(pool, 64 * MB, stream);
	MUST(d.cuStreamSynchronize, stream);
	MUST(d.cuMemFreeAsync, ptr, stream);
	query_until_done(stream);
	answer(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
}

static void
trim_releases_unobserved(void)
{
	CUmemoryPool pool = pool_new(0, CU_MEM_HANDLE_TYPE_NONE);
	CUstream stream = stream_new();
	CUdeviceptr ptr;

	stand_in_mode(FAKE_IMMEDIATE);
	keep_all(pool);
	ptr = take(pool, 64 * MB, stream);
	MUST(d.cuStreamSynchronize, stream);
	MUST(d.cuMemFreeAsync, ptr, stream);
	wait_unseen(stream);
	MUST(d.cuMemPoolTrimTo, pool, 0);
	answer(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
}

static void
failed_growth_releases(void)
{
	CUmemoryPool pool;
	CUstream stream = stream_new();
	CUdeviceptr ptr;

	if (!has_max_size())
		return;
	pool = pool_new(96 * MB, CU_MEM_HANDLE_TYPE_NONE);
	keep_all(pool);
	ptr = take(pool, 32 * MB, stream);
	MUST(d.cuMemFreeAsync, ptr, stream);
	MUST(d.cuStreamSynchronize, stream);
	answer(gpu->d.cuMemAllocFromPoolAsync(&ptr, 96 * MB, pool, stream) == CUDA_SUCCESS);
}

/* Work on another block. */
static void
free_waits(void)
{
	CUstream stream = stream_new();
	CUdeviceptr ptr, other;

	stand_in_mode(FAKE_STEPPED);
	MUST(d.cuMemAlloc, &ptr, MB);
	MUST(d.cuMemAlloc, &other, MB);
	gpu_hold(gpu, (uintptr_t)stream);
	gpu_touch(gpu, other, MB, 1, (uintptr_t)stream);
	MUST(d.cuMemFree, ptr);
	answer(gpu->d.cuStreamQuery(stream) == CUDA_SUCCESS);
}

/* ---- errors --------------------------------------------------------------------------------------------- */

static void
deferred_call_works(void)
{
	answer_nothing("there is no error of a GPU's that is met once");
}

static void
destroy_default_pool(void)
{
	CUmemoryPool pool;

	MUST(cuDeviceGetDefaultMemPool, &pool, gpu->device);
	answer_result(gpu->d.cuMemPoolDestroy(pool));
}

static void
free_async_of_other(void)
{
	CUdeviceptr ptr;

	MUST(d.cuMemAlloc, &ptr, MB);
	answer_result(gpu->d.cuMemFreeAsync(ptr, stream_new()));
}

static void
stale_handle(void)
{
	CUstream stream = stream_new();

	MUST(d.cuStreamDestroy, stream);
	answer_result(gpu->d.cuStreamSynchronize(stream));
}

static void
call_driver(void *data)
{
	CUdeviceptr ptr;

	*(CUresult *)data = gpu->d.cuMemAlloc(&ptr, MB);
}

static void
call_in_callback(void)
{
	CUstream stream = stream_new();
	CUresult result = CUDA_SUCCESS;

	MUST(cuLaunchHostFunc, stream, call_driver, &result);
	MUST(d.cuStreamSynchronize, stream);
	answer_result(result);
}

static void
call_in_signal(void)
{
	answer_nothing("it may deadlock");
}

/* The parent names the result: in the child the driver names none. */
static void
call_after_fork(void)
{
	CUresult *result =
		mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t child;

	if (result == MAP_FAILED)
		return answer_nothing("no memory");
	fflush(out);
	child = fork();
	if (child == 0) {
		alarm(PROBE_SECONDS / 2);
		*result = gpu->d.cuCtxSynchronize();
		_exit(EXIT_SUCCESS);
	}
	if (waitpid(child, &status, 0) == child && WIFEXITED(status))
		answer_result(*result);
	else
		answer_nothing("the driver ends or holds up the process");
}

static void
alloc_from_import(void)
{
	CUmemoryPool pool = pool_new(0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), imported;
	CUdeviceptr ptr;
	int fd = -1;

	MUST(d.cuMemPoolExportToShareableHandle, &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	MUST(d.cuMemPoolImportFromShareableHandle, &imported, (void *)(intptr_t)fd,
	     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	answer_result(gpu->d.cuMemAllocFromPoolAsync(&ptr, MB, imported, stream_new()));
}

const struct probe_question probe_questions[] = {
	{ "FAKE_ASYNC_SIZE_0", async_size_0 },
	{ "FAKE_FREE_ASYNC_NULL", free_async_null },
	{ "FAKE_FREE_NULL", free_null },
	{ "FAKE_ALIGNMENT", alignment },
	{ "FAKE_USED_IS_ROUNDED", used_is_rounded },
	{ "FAKE_RESERVE_STEP", reserve_step },
	{ "FAKE_SYNC_STEP", sync_step },
	{ "FAKE_SPLIT_MIN", split_min },
	{ "FAKE_MAX_SIZE_IS_ROUNDED", max_size_is_rounded },
	{ "FAKE_GRANULARITY", granularity },
	{ "FAKE_USED_FALLS_AT_CALL", used_falls_at_call },
	{ "FAKE_QUERY_OBSERVES", query_observes },
	{ "FAKE_QUERY_RELEASES", query_releases },
	{ "FAKE_TRIM_RELEASES_UNOBSERVED", trim_releases_unobserved },
	{ "FAKE_FAILED_GROWTH_RELEASES", failed_growth_releases },
	{ "FAKE_FREE_WAITS", free_waits },
	{ "FAKE_DEFERRED_CALL_WORKS", deferred_call_works },
	{ "FAKE_DESTROY_DEFAULT_POOL", destroy_default_pool },
	{ "FAKE_FREE_ASYNC_OF_OTHER", free_async_of_other },
	{ "FAKE_STALE_HANDLE", stale_handle },
	{ "FAKE_CALL_IN_CALLBACK", call_in_callback },
	{ "FAKE_CALL_IN_SIGNAL", call_in_signal },
	{ "FAKE_CALL_AFTER_FORK", call_after_fork },
	{ "FAKE_ALLOC_FROM_IMPORT", alloc_from_import },
	{ 0 },
};

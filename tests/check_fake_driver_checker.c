/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each thing that the stand-in's checker is to find, done once; and the same done right.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fake/fixture.h"

START_TEST(destroyed_and_wild_handles)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	CUevent e = new_event();
	ok(cuStreamDestroy_v2(s));
	no(cuStreamQuery(s), FAKE_STALE_HANDLE);
	no(cuStreamDestroy_v2(s), FAKE_STALE_HANDLE);
	ok(cuEventDestroy_v2(e));
	no(cuEventQuery(e), FAKE_STALE_HANDLE);
	no(cuEventQuery((CUevent)&e), FAKE_STALE_HANDLE);
	s = new_stream();
	no(cuEventRecord((CUevent)(void *)s, s), FAKE_STALE_HANDLE);
	found(FAKE_FOUND_STALE_HANDLE, 5);
}
END_TEST

START_TEST(work_queued_on_freed_memory)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr p = alloc(pool, 100, s);
	ok(cuMemFreeAsync(p, s));
	ok(cuMemsetD8Async(p, 0, 100, s));
	found(FAKE_FOUND_STALE_MEMORY, 1);
	ok(cuMemsetD8Async(p + MIB, 0, 1, s)); /* free space of the segment */
	found(FAKE_FOUND_STALE_MEMORY, 2);
	no(cuMemsetD8Async(64, 0, 1, s), CUDA_ERROR_INVALID_VALUE);
	found(FAKE_FOUND_STALE_MEMORY, 2);
}
END_TEST

START_TEST(a_use_on_another_stream_without_a_wait)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream a = new_stream(), b = new_stream();
	CUdeviceptr p = alloc(pool, 100, a);
	ok(cuMemsetD8Async(p, 0, 100, b));
	found(FAKE_FOUND_UNORDERED_USE, 1);
	fake_cuda_step(b, 1);
	ck_assert_uint_eq(fake_cuda_findings_of(FAKE_FOUND_USE_BEFORE_ALLOC), 1);
}
END_TEST

START_TEST(a_use_that_happened_to_run_late_enough_is_found_too)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream a = new_stream(), b = new_stream();
	CUdeviceptr p = alloc(pool, 100, a);
	fake_cuda_step(a, 1);
	ok(cuMemsetD8Async(p, 0, 100, b));
	ok(cuCtxSynchronize());
	found(FAKE_FOUND_UNORDERED_USE, 1);
}
END_TEST

START_TEST(a_use_that_runs_after_the_free)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream a = new_stream(), b = new_stream();
	CUdeviceptr p = alloc(pool, 100, a);
	wait_on(b, a);
	ok(cuMemsetD8Async(p, 0, 100, b));
	ok(cuMemFreeAsync(p, a));
	found(FAKE_FOUND_UNORDERED_FREE, 1);
	fake_cuda_step(a, 9);
	fake_cuda_step(b, 9);
	ck_assert_uint_eq(fake_cuda_findings_of(FAKE_FOUND_USE_AFTER_FREE), 1);
}
END_TEST

START_TEST(a_free_that_waits_for_all_uses_is_right)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream a = new_stream(), b = new_stream(), c = new_stream();
	CUdeviceptr p = alloc(pool, 100, a);
	wait_on(b, a);
	ok(cuMemsetD8Async(p, 0, 100, b));
	ok(cuStreamSynchronize(a));
	ok(cuMemsetD8Async(p, 0, 100, c)); /* the host has seen the allocation */
	wait_on(a, c);
	wait_on(a, b);
	ok(cuMemFreeAsync(p, a));
	ok(cuCtxSynchronize());
	found_nothing();
}
END_TEST

START_TEST(a_free_on_another_stream_than_the_allocation_needs_a_wait)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream a = new_stream(), b = new_stream();
	ok(cuMemFreeAsync(alloc(pool, 100, a), b));
	found(FAKE_FOUND_UNORDERED_FREE, 1);
}
END_TEST

START_TEST(memory_freed_at_once_with_work_outstanding)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr p, q = alloc(pool, 100, s);
	void *host;
	ok(cuMemAlloc_v2(&p, 100));
	ok(cuMemsetD8Async(p, 0, 100, s));
	ok(cuMemFree_v2(p));
	found(FAKE_FOUND_FREE_WITH_WORK, 1);
	ok(cuMemsetD8Async(q, 0, 100, s));
	ok(cuMemFree_v2(q));
	found(FAKE_FOUND_FREE_WITH_WORK, 2);
	ok(cuMemHostAlloc(&host, 100, 0));
	ok(cuMemAlloc_v2(&p, 100));
	ok(cuMemcpyHtoDAsync_v2(p, host, 100, s));
	ok(cuMemFreeHost(host)); /* waits, so that the work on q runs, too late */
	ck_assert_uint_eq(fake_cuda_findings_of(FAKE_FOUND_FREE_WITH_WORK), 3);
	ck_assert_uint_eq(fake_cuda_findings_of(FAKE_FOUND_USE_AFTER_FREE), FAKE_FREE_WAITS ? 1 : 2);
	ok(cuMemFree_v2(p));
	ck_assert_uint_eq(fake_cuda_findings(), FAKE_FREE_WAITS ? 4 : 5);
}
END_TEST

START_TEST(frees_of_what_is_not_allocated)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr p = alloc(pool, 100, s), q;
	no(cuMemFreeAsync(p + 8, s), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFreeAsync(p, s));
	no(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
	no(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemAlloc_v2(&q, 100));
	no(cuMemFreeAsync(q, s), FAKE_FREE_ASYNC_OF_OTHER);
	ok(cuMemFree_v2(q));
	no(cuMemFree_v2(q), CUDA_ERROR_INVALID_VALUE);
	no(cuMemFreeHost(&q), CUDA_ERROR_INVALID_VALUE);
	found(FAKE_FOUND_BAD_FREE, 6);
}
END_TEST

START_TEST(work_that_passes_the_end)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr p = alloc(pool, 1000, s);
	ok(cuMemsetD8Async(p + 500, 1, 500, s));
	found_nothing();
	ok(cuMemsetD8Async(p + 500, 1, 501, s));
	found(FAKE_FOUND_OUT_OF_BOUNDS, 1);
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(((unsigned char *)(uintptr_t)p)[1000], 1); /* it is done all the same */
}
END_TEST

START_TEST(another_devices_memory_without_access)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream(), t;
	CUcontext one;
	CUdeviceptr p = alloc(pool, 100, s);
	ok(cuStreamSynchronize(s));
	ok(cuDevicePrimaryCtxRetain(&one, 1));
	ok(cuCtxSetCurrent(one));
	t = new_stream();
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 1 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	ok(cuMemPoolSetAccess(pool, &access, 1));
	ok(cuMemsetD8Async(p, 0, 100, t));
	ok(cuStreamSynchronize(t));
	found_nothing();
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	ok(cuMemPoolSetAccess(pool, &access, 1));
	ok(cuMemsetD8Async(p, 0, 100, t));
	no(cuStreamSynchronize(t), CUDA_ERROR_ILLEGAL_ADDRESS);
	found(FAKE_FOUND_NO_ACCESS, 1);
	no(cuStreamQuery(t), CUDA_ERROR_ILLEGAL_ADDRESS); /* for ever */
}
END_TEST

START_TEST(peers_reach_cuMemAlloc_memory_when_enabled)
{
	CUcontext zero = start(FAKE_STEPPED), one;
	CUdeviceptr p;
	int can;
	ok(cuMemAlloc_v2(&p, 100));
	ok(cuDeviceCanAccessPeer(&can, 1, 0));
	ck_assert_int_eq(can, 1);
	ok(cuDevicePrimaryCtxRetain(&one, 1));
	ok(cuCtxSetCurrent(one));
	CUstream t = new_stream();
	no(cuCtxDisablePeerAccess(zero), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	ok(cuCtxEnablePeerAccess(zero, 0));
	no(cuCtxEnablePeerAccess(zero, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	ok(cuMemsetD8Async(p, 0, 100, t));
	ok(cuStreamSynchronize(t));
	ok(cuCtxDisablePeerAccess(zero));
	ok(cuMemsetD8Async(p, 0, 100, t));
	no(cuStreamSynchronize(t), CUDA_ERROR_ILLEGAL_ADDRESS);
	found(FAKE_FOUND_NO_ACCESS, 1);
	fake_cuda_restart();
	fake_cuda_device_peer(1, 0, false);
	ok(cuInit(0));
	ok(cuDeviceCanAccessPeer(&can, 1, 0));
	ck_assert_int_eq(can, 0);
}
END_TEST

START_TEST(leaks_are_counted_by_kind)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr p = alloc(pool, 100, s);
	void *host;
	recorded(s);
	ok(cuMemHostAlloc(&host, 100, 0));
	ck_assert_uint_eq(fake_cuda_live(FAKE_STREAMS), 1);
	ck_assert_uint_eq(fake_cuda_live(FAKE_EVENTS), 1);
	ck_assert_uint_eq(fake_cuda_live(FAKE_POOLS), 1);
	ck_assert_uint_eq(fake_cuda_live(FAKE_ALLOCATIONS), 1);
	ck_assert_uint_eq(fake_cuda_live(FAKE_HOST_ALLOCATIONS), 1);
	ck_assert_uint_eq(fake_cuda_live(FAKE_CONTEXTS), 1);
	ck_assert_uint_eq(fake_cuda_leaks(), 5);
	found(FAKE_FOUND_LEAK, 5);
	fake_cuda_findings_clear();
	ok(cuMemFreeAsync(p, s));
	ok(cuMemPoolDestroy(pool));
	ok(cuMemFreeHost(host));
	ck_assert_uint_eq(fake_cuda_leaks(), 2);
}
END_TEST

START_TEST(what_dies_with_its_context_is_a_leak)
{
	start(FAKE_STEPPED);
	CUdeviceptr p;
	new_event();
	new_stream();
	ok(cuMemAlloc_v2(&p, 100));
	ok(cuDevicePrimaryCtxRelease_v2(0));
	found(FAKE_FOUND_LEAK, 3);
	ck_assert_uint_eq(fake_cuda_live(FAKE_ALLOCATIONS), 0);
}
END_TEST

static CUresult from_inside;

static void
call_from_callback(void *data)
{
	from_inside = cuStreamQuery(data);
}

START_TEST(calls_from_a_host_callback)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	ok(cuLaunchHostFunc(s, call_from_callback, s));
	ok(cuStreamSynchronize(s));
	ck_assert_int_eq(from_inside, FAKE_CALL_IN_CALLBACK);
	found(FAKE_FOUND_IN_CALLBACK, 1);
}
END_TEST

static void
call_from_handler(int number)
{
	int count;

	(void)number;
	from_inside = cuDeviceGetCount(&count);
}

START_TEST(calls_from_a_signal_handler)
{
	struct sigaction action = { .sa_handler = call_from_handler }, was;
	start(FAKE_STEPPED);
	sigaction(SIGTRAP, &action, &was);
	raise(SIGTRAP);
	ck_assert_int_eq(from_inside, FAKE_CALL_IN_SIGNAL);
	found(FAKE_FOUND_IN_SIGNAL, 1);
	fake_cuda_check_signals(false);
	raise(SIGTRAP);
	ck_assert_int_eq(from_inside, CUDA_SUCCESS);
	sigaction(SIGTRAP, &was, NULL);
}
END_TEST

START_TEST(calls_on_an_alternate_stack)
{
	static char memory[1 << 16];
	stack_t stack = { .ss_sp = memory, .ss_size = sizeof memory }, was;
	struct sigaction action = { .sa_handler = call_from_handler, .sa_flags = SA_ONSTACK | SA_NODEFER };
	start(FAKE_STEPPED);
	ck_assert_int_eq(sigaltstack(&stack, &was), 0);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	found(FAKE_FOUND_IN_SIGNAL, 1);
	sigaltstack(&was, NULL);
	signal(SIGUSR1, SIG_DFL);
}
END_TEST

/* The thread sanitizer allows no thread in a child of a process with threads. */
#if defined(__SANITIZE_THREAD__)
#define CHILD_MODE FAKE_STEPPED
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHILD_MODE FAKE_STEPPED
#endif
#endif
#ifndef CHILD_MODE
#define CHILD_MODE FAKE_THREADS
#endif

START_TEST(calls_in_a_forked_child)
{
	int status, count;
	start(FAKE_THREADS);
	recorded(new_stream()); /* so that the worker runs */
	pid_t child = fork();
	if (child == 0) {
		CUresult result = cuDeviceGetCount(&count);
		size_t count_found = fake_cuda_findings_of(FAKE_FOUND_AFTER_FORK);
		/* and it can begin anew, with a worker of its own */
		start(CHILD_MODE);
		CUstream s = new_stream();
		ok(cuStreamSynchronize(s));
		recorded(s);
		ok(cuStreamSynchronize(s));
		fake_cuda_restart();
		_exit(result == FAKE_CALL_AFTER_FORK && count_found == 1 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	ck_assert_int_eq(status, 0);
	ok(cuDeviceGetCount(&count));
	found_nothing();
}
END_TEST

START_TEST(unmapping_with_work_outstanding)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	CUdeviceptr p;
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	ok(cuMemAddressReserve(&p, FAKE_GRANULARITY, 0, 0, 0));
	ok(cuMemCreate(&handle, FAKE_GRANULARITY, &prop, 0));
	ok(cuMemMap(p, FAKE_GRANULARITY, 0, handle, 0));
	ok(cuMemSetAccess(p, FAKE_GRANULARITY, &access, 1));
	ok(cuMemsetD8Async(p, 0, 16, s));
	ok(cuMemUnmap(p, FAKE_GRANULARITY));
	found(FAKE_FOUND_FREE_WITH_WORK, 1);
	no(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(more_findings_than_are_kept_are_still_counted)
{
	start(FAKE_STEPPED);
	for (int i = 0; i < 2000; i++)
		cuEventQuery((CUevent)&from_inside);
	ck_assert_uint_eq(fake_cuda_findings(), 2000);
	ck_assert(!fake_cuda_finding(1999, NULL, NULL, 0));
	enum fake_finding kind;
	ck_assert(fake_cuda_finding(0, &kind, NULL, 0));
	ck_assert_int_eq(kind, FAKE_FOUND_STALE_HANDLE);
}
END_TEST

UNIT_MAIN("fake_driver_checker", destroyed_and_wild_handles, work_queued_on_freed_memory,
	  a_use_on_another_stream_without_a_wait, a_use_that_happened_to_run_late_enough_is_found_too,
	  a_use_that_runs_after_the_free, a_free_that_waits_for_all_uses_is_right,
	  a_free_on_another_stream_than_the_allocation_needs_a_wait,
	  memory_freed_at_once_with_work_outstanding, frees_of_what_is_not_allocated,
	  work_that_passes_the_end, another_devices_memory_without_access,
	  peers_reach_cuMemAlloc_memory_when_enabled, leaks_are_counted_by_kind,
	  what_dies_with_its_context_is_a_leak, calls_from_a_host_callback, calls_from_a_signal_handler,
	  calls_on_an_alternate_stack, calls_in_a_forked_child, unmapping_with_work_outstanding,
	  more_findings_than_are_kept_are_still_counted)

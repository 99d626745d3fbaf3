/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in's contexts, streams and events, and the three ways in which work runs.
 */
#include <pthread.h>

#include "tests/fake/fixture.h"

/* ---- contexts and devices ----------------------------------------------------------------- */

START_TEST(there_are_two_devices_and_they_differ)
{
	start(FAKE_STEPPED);
	int count, value;
	char name[2][32];
	CUuuid uuid[2];
	ok(cuDeviceGetCount(&count));
	ck_assert_int_eq(count, 2);
	for (int i = 0; i < 2; i++) {
		ok(cuDeviceGetName(name[i], 32, i));
		ok(cuDeviceGetUuid_v2(&uuid[i], i));
	}
	ck_assert_str_ne(name[0], name[1]);
	ck_assert_mem_ne(&uuid[0], &uuid[1], sizeof uuid[0]);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1));
	ck_assert_int_eq(value, 1);
	no(cuDeviceGet(&value, 2), CUDA_ERROR_INVALID_DEVICE);
}
END_TEST

START_TEST(a_call_needs_cuInit_and_a_context)
{
	CUstream stream;
	int count;
	fake_cuda_restart();
	no(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	ok(cuInit(0));
	no(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
	no(cuCtxPopCurrent_v2(NULL), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

START_TEST(primary_contexts_are_counted_and_keep_their_handle)
{
	CUcontext first = start(FAKE_STEPPED), second;
	CUstream stream;
	unsigned flags;
	int active;
	ok(cuDevicePrimaryCtxRetain(&second, 0));
	ck_assert_ptr_eq(first, second);
	ok(cuDevicePrimaryCtxRelease_v2(0));
	ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ck_assert_int_eq(active, 1);
	ok(cuDevicePrimaryCtxRelease_v2(0));
	ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ck_assert_int_eq(active, 0);
	no(cuStreamCreate(&stream, 0), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	no(cuCtxSetCurrent(first), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	no(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuDevicePrimaryCtxRetain(&second, 0));
	ck_assert_ptr_eq(first, second);
	ok(cuStreamCreate(&stream, 0));
}
END_TEST

START_TEST(the_current_context_is_a_stack_of_the_thread)
{
	CUcontext zero = start(FAKE_STEPPED), one, now;
	CUdevice device;
	ok(cuDevicePrimaryCtxRetain(&one, 1));
	ok(cuCtxPushCurrent_v2(one));
	ok(cuCtxGetDevice(&device));
	ck_assert_int_eq(device, 1);
	ok(cuCtxSetCurrent(zero));
	ok(cuCtxPopCurrent_v2(&now));
	ck_assert_ptr_eq(now, zero);
	ok(cuCtxGetCurrent(&now));
	ck_assert_ptr_eq(now, zero);
	ok(cuCtxSetCurrent(NULL));
	ok(cuCtxGetCurrent(&now));
	ck_assert_ptr_null(now);
}
END_TEST

START_TEST(an_event_is_recorded_only_in_its_own_context)
{
	start(FAKE_STEPPED);
	CUcontext one;
	CUstream here = new_stream();
	ok(cuDevicePrimaryCtxRetain(&one, 1));
	ok(cuCtxSetCurrent(one));
	CUevent there = new_event();
	no(cuEventRecord(there, here), CUDA_ERROR_INVALID_HANDLE);
	CUstream other = new_stream();
	wait_on(here, other); /* but waiting across is fine */
	CUcontext of;
	ok(cuStreamGetCtx(other, &of));
	ck_assert_ptr_eq(of, one);
	found_nothing();
}
END_TEST

/* ---- stepped --------------------------------------------------------------------------------- */

START_TEST(nothing_runs_until_told_and_then_in_order)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	CUdeviceptr p;
	ok(cuMemAlloc_v2(&p, 8));
	unsigned char *bytes = (void *)(uintptr_t)p;
	bytes[0] = 7;
	ok(cuMemsetD8Async(p, 1, 8, s));
	ok(cuMemsetD8Async(p, 2, 8, s));
	no(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	ck_assert_uint_eq(bytes[0], 7);
	ck_assert_uint_eq(fake_cuda_step(s, 1), 1);
	ck_assert_uint_eq(bytes[0], 1);
	ck_assert_uint_eq(fake_cuda_pending(s), 1);
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(bytes[0], 2);
	ok(cuStreamQuery(s));
	ok(cuMemFree_v2(p));
	found_nothing();
}
END_TEST

START_TEST(a_wait_holds_its_stream_and_synchronising_drives_the_other)
{
	start(FAKE_STEPPED);
	CUstream a = new_stream(), b = new_stream(), c = new_stream();
	CUevent e = recorded(a);
	ok(cuStreamWaitEvent(b, e, 0));
	CUevent after = recorded(c);
	ck_assert_uint_eq(fake_cuda_step(b, 9), 0);
	no(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	ok(cuStreamSynchronize(b));
	ok(cuEventQuery(e));
	no(cuEventQuery(after), CUDA_ERROR_NOT_READY);
}
END_TEST

START_TEST(recording_again_replaces_what_an_event_stands_for)
{
	start(FAKE_STEPPED);
	CUstream a = new_stream(), b = new_stream();
	CUevent e = new_event();
	ok(cuEventQuery(e)); /* never recorded */
	ok(cuEventRecord(e, a));
	ok(cuStreamWaitEvent(b, e, 0));
	fake_cuda_step(a, 1);
	ok(cuEventQuery(e));
	ok(cuEventRecord(e, a));
	no(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	/* b waits for what it stood for then */
	ck_assert_uint_eq(fake_cuda_step(b, 1), 1);
}
END_TEST

START_TEST(the_legacy_stream_and_blocking_ones_wait_for_each_other)
{
	start(FAKE_STEPPED);
	CUstream blocking, free_stream = new_stream();
	CUdeviceptr p;
	ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	ok(cuMemAlloc_v2(&p, 4));
	ok(cuMemsetD8Async(p, 1, 4, blocking));
	ok(cuMemsetD8Async(p, 2, 4, NULL));
	ok(cuMemsetD8Async(p, 3, 4, CU_STREAM_PER_THREAD));
	ok(cuMemsetD8Async(p, 4, 4, free_stream));
	ck_assert_uint_eq(fake_cuda_step(CU_STREAM_PER_THREAD, 1), 0);
	ck_assert_uint_eq(fake_cuda_step(CU_STREAM_LEGACY, 1), 0);
	ck_assert_uint_eq(fake_cuda_step(free_stream, 1), 1);
	ck_assert_uint_eq(fake_cuda_step(blocking, 1), 1);
	ck_assert_uint_eq(fake_cuda_step(NULL, 1), 1);
	ck_assert_uint_eq(fake_cuda_step(CU_STREAM_PER_THREAD, 1), 1);
	ck_assert_uint_eq(*(unsigned char *)(uintptr_t)p, 3);
}
END_TEST

START_TEST(null_means_another_stream_in_the_per_thread_forms)
{
	start(FAKE_STEPPED);
	unsigned long long legacy, own, named;
	ok(cuStreamGetId(NULL, &legacy));
	ok(cuStreamGetId_ptsz(NULL, &own));
	ok(cuStreamGetId(CU_STREAM_PER_THREAD, &named));
	ck_assert_uint_ne(legacy, own);
	ck_assert_uint_eq(own, named);
	ok(cuStreamGetId_ptsz(CU_STREAM_LEGACY, &named));
	ck_assert_uint_eq(legacy, named);
}
END_TEST

static void *
own_id(void *context)
{
	static unsigned long long id;

	ok(cuCtxSetCurrent(context));
	ok(cuStreamGetId(CU_STREAM_PER_THREAD, &id));
	return &id;
}

START_TEST(each_thread_has_its_own_default_stream)
{
	CUcontext context = start(FAKE_STEPPED);
	pthread_t thread;
	void *theirs;
	unsigned long long mine;
	ok(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
	ck_assert_int_eq(pthread_create(&thread, NULL, own_id, context), 0);
	pthread_join(thread, &theirs);
	ck_assert_uint_ne(mine, *(unsigned long long *)theirs);
}
END_TEST

START_TEST(a_destroyed_streams_handle_comes_back_with_another_id)
{
	start(FAKE_STEPPED);
	unsigned long long first, second;
	CUstream s = new_stream();
	ok(cuStreamGetId(s, &first));
	ok(cuMemsetD8Async(0, 0, 0, s));
	ok(cuStreamDestroy_v2(s));
	CUstream again = new_stream();
	ck_assert_ptr_eq(again, s);
	ok(cuStreamGetId(again, &second));
	ck_assert_uint_ne(first, second);
	ck_assert_uint_eq(fake_cuda_pending(again), 0);
	fake_cuda_recycle(false);
	ok(cuStreamDestroy_v2(again));
	ck_assert_ptr_ne(new_stream(), s);
}
END_TEST

START_TEST(work_of_a_destroyed_stream_still_runs)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	CUdeviceptr p;
	ok(cuMemAlloc_v2(&p, 4));
	ok(cuMemsetD8Async(p, 9, 4, s));
	ok(cuStreamDestroy_v2(s));
	ok(cuCtxSynchronize());
	ck_assert_uint_eq(*(unsigned char *)(uintptr_t)p, 9);
}
END_TEST

/* ---- immediate and threads --------------------------------------------------------------------- */

static void
note(void *data)
{
	++*(int *)data;
}

START_TEST(immediate_work_has_run_when_the_call_returns)
{
	start(FAKE_IMMEDIATE);
	CUstream a = new_stream(), b = new_stream();
	int calls = 0;
	ok(cuLaunchHostFunc(a, note, &calls));
	ck_assert_int_eq(calls, 1);
	wait_on(b, a);
	ok(cuStreamQuery(b));
}
END_TEST

START_TEST(becoming_immediate_runs_what_is_left)
{
	start(FAKE_STEPPED);
	CUstream a = new_stream(), b = new_stream();
	wait_on(b, a);
	fake_cuda_mode(FAKE_IMMEDIATE, 1, 0);
	ok(cuStreamQuery(a));
	ok(cuStreamQuery(b));
}
END_TEST

/* The order in which four streams' callbacks ran, as a number. */
static int order_count;
static uint64_t order;

static void
note_stream(void *data)
{
	order = order * 4 + (uint64_t)(uintptr_t)data;
	order_count++;
}

static uint64_t
order_of(uint64_t seed)
{
	CUstream s[4];

	start(FAKE_STEPPED);
	order = 0;
	order_count = 0;
	for (uintptr_t i = 0; i < 4; i++) {
		s[i] = new_stream();
		for (int k = 0; k < 4; k++)
			ok(cuLaunchHostFunc(s[i], note_stream, (void *)i));
	}
	fake_cuda_mode(FAKE_STEPPED, seed, 0);
	while (fake_cuda_step_any())
		;
	ck_assert_int_eq(order_count, 16);
	return order;
}

START_TEST(the_order_between_streams_is_the_seeds)
{
	uint64_t one = order_of(1), two = order_of(2);
	ck_assert_uint_ne(one, two);
	ck_assert_uint_eq(order_of(1), one);
}
END_TEST

START_TEST(the_worker_runs_everything)
{
	start(FAKE_STEPPED);
	fake_cuda_mode(FAKE_THREADS, 3, 5);
	CUstream s[4];
	int calls[4] = { 0 };
	for (int i = 0; i < 4; i++) {
		s[i] = new_stream();
		if (i != 0)
			wait_on(s[i], s[i - 1]);
		for (int k = 0; k < 100; k++)
			ok(cuLaunchHostFunc(s[i], note, &calls[i]));
	}
	ok(cuStreamSynchronize(s[3]));
	for (int i = 0; i < 3; i++) /* the wait for s[i] was queued before s[i]'s work, but the first's */
		ok(cuStreamSynchronize(s[i]));
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(calls[i], 100);
	found_nothing();
}
END_TEST

struct gate {
	pthread_mutex_t mutex;
	pthread_cond_t opened;
	bool open;
};

static void
pass(void *data)
{
	struct gate *gate = data;

	pthread_mutex_lock(&gate->mutex);
	while (!gate->open)
		pthread_cond_wait(&gate->opened, &gate->mutex);
	pthread_mutex_unlock(&gate->mutex);
}

START_TEST(the_host_goes_on_while_a_callback_waits)
{
	struct gate gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };
	start(FAKE_THREADS);
	CUstream a = new_stream();
	ok(cuLaunchHostFunc(a, pass, &gate));
	no(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	CUevent e = recorded(a);
	no(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	pthread_mutex_lock(&gate.mutex);
	gate.open = true;
	pthread_cond_signal(&gate.opened);
	pthread_mutex_unlock(&gate.mutex);
	ok(cuEventSynchronize(e));
	ok(cuStreamQuery(a));
}
END_TEST

UNIT_MAIN("fake_driver", there_are_two_devices_and_they_differ, a_call_needs_cuInit_and_a_context,
	  primary_contexts_are_counted_and_keep_their_handle, the_current_context_is_a_stack_of_the_thread,
	  an_event_is_recorded_only_in_its_own_context, nothing_runs_until_told_and_then_in_order,
	  a_wait_holds_its_stream_and_synchronising_drives_the_other,
	  recording_again_replaces_what_an_event_stands_for,
	  the_legacy_stream_and_blocking_ones_wait_for_each_other,
	  null_means_another_stream_in_the_per_thread_forms, each_thread_has_its_own_default_stream,
	  a_destroyed_streams_handle_comes_back_with_another_id, work_of_a_destroyed_stream_still_runs,
	  immediate_work_has_run_when_the_call_returns, becoming_immediate_runs_what_is_left,
	  the_order_between_streams_is_the_seeds, the_worker_runs_everything,
	  the_host_goes_on_while_a_callback_waits)

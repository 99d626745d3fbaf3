/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures in the stand-in: what goes into a graph, what may not be called meanwhile, and
 * memory that a graph owns.
 */
#include <pthread.h>

#include "tests/fake/fixture.h"

static CUstreamCaptureStatus
status(CUstream stream)
{
	CUstreamCaptureStatus s;

	ok(cuStreamIsCapturing(stream, &s));
	return s;
}

static CUstream
capturing(CUstreamCaptureMode mode)
{
	CUstream s;

	start(FAKE_STEPPED);
	s = new_stream();
	ok(cuStreamBeginCapture_v2(s, mode));
	ck_assert_int_eq(status(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	return s;
}

static void
ends_with(CUstream stream, CUresult code)
{
	CUgraph graph = (CUgraph)&graph;

	no(cuStreamEndCapture(stream, &graph), code);
	if (code != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD && code != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) {
		ck_assert_ptr_null(graph);
		ck_assert_int_eq(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
		ck_assert_uint_eq(fake_cuda_live(FAKE_GRAPHS), 0);
	}
}

START_TEST(captured_work_runs_when_the_graph_is_launched)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	CUdeviceptr p;
	ok(cuMemAlloc_v2(&p, 4));
	ok(cuMemsetD8Async(p, 0, 4, s));
	ok(cuStreamSynchronize(s));
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemsetD8Async(p, 5, 4, s));
	ok(cuMemsetD8Async(p + 1, 6, 1, s));
	ck_assert_uint_eq(fake_cuda_pending(s), 0);
	CUgraph graph;
	CUgraphExec exec;
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	ok(cuGraphLaunch(exec, s));
	ok(cuGraphExecDestroy(exec));
	ck_assert_uint_eq(*(unsigned char *)(uintptr_t)p, 0);
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(((unsigned char *)(uintptr_t)p)[0], 5);
	ck_assert_uint_eq(((unsigned char *)(uintptr_t)p)[1], 6);
	ck_assert_uint_eq(fake_cuda_live(FAKE_GRAPHS), 0);
	found_nothing();
}
END_TEST

START_TEST(illegal_calls_invalidate)
{
	CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	CUdeviceptr p;
	no(cuStreamQuery(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_assert_int_eq(status(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	no(cuEventRecord(new_event(), s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ends_with(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	no(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ends_with(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	no(cuMemAlloc_v2(&p, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ends_with(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	no(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ends_with(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(a_captured_event_cannot_be_queried)
{
	CUstream s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
	CUevent e = recorded(s), before = new_event();
	ok(cuEventQuery(before));
	no(cuEventQuery(e), CUDA_ERROR_CAPTURED_EVENT);
	ends_with(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
	e = recorded(s);
	no(cuEventSynchronize(e), CUDA_ERROR_CAPTURED_EVENT);
	ends_with(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	CUstream other = new_stream();
	ok(cuEventRecord(e, other)); /* a new recording counts */
	ok(cuEventSynchronize(e));
}
END_TEST

START_TEST(modes_say_which_calls_are_forbidden)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr p;
	CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	ok(cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	ok(cuMemAlloc_v2(&p, 1));
	ok(cuEventQuery(new_event()));
	ck_assert_int_eq(status(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ok(cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
	s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
	ok(cuMemAlloc_v2(&p, 1));
	s = capturing(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	no(cuMemAlloc_v2(&p, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}
END_TEST

struct elsewhere {
	CUcontext context;
	CUstream stream;
	CUresult alloc, end;
};

static void *
call_elsewhere(void *data)
{
	struct elsewhere *e = data;
	CUdeviceptr p;
	CUgraph graph;

	ok(cuCtxSetCurrent(e->context));
	e->alloc = cuMemAlloc_v2(&p, 1);
	e->end = cuStreamEndCapture(e->stream, &graph);
	return NULL;
}

static struct elsewhere
on_another_thread(CUstream stream)
{
	struct elsewhere e = { .stream = stream };
	pthread_t thread;

	ok(cuCtxGetCurrent(&e.context));
	ck_assert_int_eq(pthread_create(&thread, NULL, call_elsewhere, &e), 0);
	pthread_join(thread, NULL);
	return e;
}

START_TEST(a_global_capture_concerns_other_threads)
{
	CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	struct elsewhere e = on_another_thread(s);
	no(e.alloc, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	no(e.end, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	s = capturing(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	e = on_another_thread(s);
	no(e.alloc, CUDA_SUCCESS);
	no(e.end, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
	e = on_another_thread(s);
	no(e.alloc, CUDA_SUCCESS);
	no(e.end, CUDA_SUCCESS);
}
END_TEST

START_TEST(streams_join_by_waiting_and_must_be_joined)
{
	CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL), t = new_stream();
	wait_on(t, s);
	ck_assert_int_eq(status(t), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ends_with(s, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	ck_assert_int_eq(status(t), CU_STREAM_CAPTURE_STATUS_NONE);
	s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	t = new_stream();
	wait_on(t, s);
	wait_on(s, t);
	CUgraph graph;
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphDestroy(graph));
	s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	t = new_stream();
	wait_on(t, s);
	ends_with(t, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
}
END_TEST

START_TEST(captures_keep_apart)
{
	CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL), t = new_stream(), outside = new_stream();
	CUevent e = recorded(outside);
	no(cuStreamWaitEvent(s, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	ends_with(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	t = new_stream();
	ok(cuStreamBeginCapture_v2(t, CU_STREAM_CAPTURE_MODE_GLOBAL));
	e = recorded(t);
	no(cuStreamWaitEvent(s, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
}
END_TEST

START_TEST(the_legacy_stream_breaks_captures_of_blocking_streams)
{
	CUdeviceptr p;
	CUstream s;
	start(FAKE_STEPPED);
	no(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
	   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ok(cuMemAlloc_v2(&p, 4));
	ok(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	no(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
	CUstreamCaptureStatus now;
	no(cuStreamIsCapturing(NULL, &now), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ck_assert_int_eq(status(s), CU_STREAM_CAPTURE_STATUS_ACTIVE); /* asking does no harm */
	no(cuMemsetD8Async(p, 0, 4, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ends_with(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	CUgraph graph;
	no(cuStreamEndCapture(s, &graph), CUDA_ERROR_ILLEGAL_STATE);
}
END_TEST

START_TEST(a_capture_is_over_when_its_stream_is_destroyed)
{
	CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL), t = new_stream();
	CUdeviceptr p;
	wait_on(t, s);
	ok(cuStreamDestroy_v2(s));
	ck_assert_int_eq(status(t), CU_STREAM_CAPTURE_STATUS_NONE);
	ck_assert_uint_eq(fake_cuda_live(FAKE_GRAPHS), 0);
	ok(cuMemAlloc_v2(&p, 1));
	s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	t = new_stream();
	wait_on(t, s);
	ok(cuStreamDestroy_v2(t));
	ends_with(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(what_a_capture_is_called)
{
	CUstreamCaptureStatus now;
	uint64_t first, second;
	CUgraph graph, same;
	CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	ok(cuStreamGetCaptureInfo_v2(s, &now, &first, &graph, NULL, NULL));
	ck_assert_int_eq(now, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ok(cuStreamEndCapture(s, &same));
	ck_assert_ptr_eq(graph, same);
	ok(cuGraphDestroy(graph));
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuStreamGetCaptureInfo_v3(s, &now, &second, NULL, NULL, NULL, NULL));
	ck_assert_uint_ne(first, second);
}
END_TEST

START_TEST(b25_memory_allocated_in_a_capture_is_the_graphs)
{
	CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	CUmemoryPool pool;
	CUdeviceptr p;
	CUgraph graph;
	CUgraphExec exec;
	ok(cuDeviceGetDefaultMemPool(&pool, 0));
	ok(cuMemAllocAsync(&p, 100, s));
	ck_assert_uint_eq(used(pool), 0);
	ok(cuMemsetD8Async(p, 3, 100, s));
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphLaunch(exec, s));
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(*(unsigned char *)(uintptr_t)p, 3);
	no(cuGraphLaunch(exec, s), CUDA_ERROR_INVALID_VALUE); /* not freed yet */
	ok(cuMemFreeAsync(p, s));
	ok(cuGraphLaunch(exec, s));
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamSynchronize(s));
	found_nothing();
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	ck_assert_uint_eq(fake_cuda_device_taken(0), 0);
}
END_TEST

START_TEST(a_graph_may_free_what_it_allocated)
{
	CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
	CUdeviceptr p;
	CUgraph graph;
	CUgraphExec exec;
	ok(cuMemAllocAsync(&p, 100, s));
	ok(cuMemsetD8Async(p, 3, 100, s));
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphLaunch(exec, s));
	ok(cuGraphLaunch(exec, s));
	ok(cuStreamSynchronize(s));
	found_nothing();
}
END_TEST

START_TEST(b25_freeing_a_pools_memory_in_a_capture_is_an_error)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	CUdeviceptr p;
	ok(cuMemAllocAsync(&p, 100, s));
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	no(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
	CUgraph graph;
	ok(cuStreamEndCapture(s, &graph));
	ok(cuMemFreeAsync(p, s));
}
END_TEST

UNIT_MAIN("fake_driver_capture", captured_work_runs_when_the_graph_is_launched, illegal_calls_invalidate,
	  a_captured_event_cannot_be_queried, modes_say_which_calls_are_forbidden,
	  a_global_capture_concerns_other_threads, streams_join_by_waiting_and_must_be_joined,
	  captures_keep_apart, the_legacy_stream_breaks_captures_of_blocking_streams,
	  a_capture_is_over_when_its_stream_is_destroyed, what_a_capture_is_called,
	  b25_memory_allocated_in_a_capture_is_the_graphs, a_graph_may_free_what_it_allocated,
	  b25_freeing_a_pools_memory_in_a_capture_is_an_error)

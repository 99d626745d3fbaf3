/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and captures of async and sync. */
#include "tests/cuda_fixture.h"

#include <pthread.h>

static bool
is_done(struct soma_backend_stream *stream)
{
	bool done;

	OK(ops->stream_query(self, stream, &done));
	return done;
}

static bool
is_over(struct soma_backend_event *event)
{
	bool done;

	OK(ops->event_query(self, event, &done));
	return done;
}

/* ---- streams ------------------------------------------------------------------------- */

START_TEST(streams_have_the_flags_that_they_were_made_with)
{
	struct soma_backend_stream *stream;

	start("async", FAKE_IMMEDIATE);
	OK(ops->stream_create(self, 0, &stream));
	ck_assert_uint_eq(info_of(stream).flags, 0);
	ck_assert_uint_eq(info_of(stream_new()).flags, SOMA_BACKEND_STREAM_NON_BLOCKING);
	REFUSED(NOT_SUPPORTED, "stream flags 0x4", ops->stream_create(self, 4, &stream));
	close_backend();
}
END_TEST

START_TEST(an_id_is_never_given_twice_though_the_handle_is)
{
	uint64_t last = 0, handle = 0;
	bool recycled = false;

	start("async", FAKE_IMMEDIATE);
	fake.recycle(true);
	for (int i = 0; i < 10; i++) {
		struct soma_backend_stream *stream = stream_new();
		struct soma_backend_stream_info info = info_of(stream);
		ck_assert_uint_gt(info.id, last);
		recycled = recycled || info.native == handle;
		last = info.id;
		handle = info.native;
		ops->stream_destroy(self, stream);
	}
	ck_assert(recycled);
	close_backend();
}
END_TEST

START_TEST(a_foreign_stream_keeps_its_id_and_stays)
{
	struct soma_backend_stream *first, *second;
	CUstream made;
	unsigned long long id;

	start("async", FAKE_IMMEDIATE);
	push_context(0);
	ck_assert_int_eq(driver()->cuStreamCreate(&made, 0), CUDA_SUCCESS);
	driver()->cuStreamGetId(made, &id);
	OK(ops->stream_wrap(self, (uintptr_t)made, &first));
	OK(ops->stream_wrap(self, (uintptr_t)made, &second));
	ck_assert_uint_eq(info_of(first).id, id);
	ck_assert_uint_eq(info_of(second).id, id);
	ops->stream_destroy(self, first);
	ops->stream_destroy(self, second);
	ck_assert_int_eq(driver()->cuStreamQuery(made), CUDA_SUCCESS);
	driver()->cuStreamDestroy(made);
	pop_context(0);
	close_backend();
}
END_TEST

START_TEST(a_stream_of_another_device_is_refused)
{
	struct soma_backend_stream *stream;
	CUcontext context;
	CUstream made;

	start_fake();
	fake.devices(2);
	open_backend("async");
	driver()->cuDevicePrimaryCtxRetain(&context, 1);
	driver()->cuCtxPushCurrent(context);
	driver()->cuStreamCreate(&made, 0);
	driver()->cuCtxPopCurrent(&context);
	REFUSED(INVALID_VALUE, "not of the primary context of device 0",
		ops->stream_wrap(self, (uintptr_t)made, &stream));
	driver()->cuCtxPushCurrent(context);
	driver()->cuStreamDestroy(made);
	driver()->cuCtxPopCurrent(&context);
	driver()->cuDevicePrimaryCtxRelease(1);
	close_backend();
}
END_TEST

static void *
own_default_id(void *context)
{
	struct soma_backend_stream *stream;

	OK(ops->stream_default(self, SOMA_BACKEND_STREAM_PER_THREAD, &stream));
	*(uint64_t *)context = info_of(stream).id;
	ops->stream_destroy(self, stream);
	return NULL;
}

START_TEST(default_streams_are_told_apart)
{
	struct soma_backend_stream *legacy, *mine, *null;
	pthread_t thread;
	uint64_t other;

	start("async", FAKE_IMMEDIATE);
	OK(ops->stream_default(self, SOMA_BACKEND_STREAM_LEGACY, &legacy));
	OK(ops->stream_default(self, SOMA_BACKEND_STREAM_PER_THREAD, &mine));
	OK(ops->stream_wrap(self, 0, &null));
	ck_assert_uint_eq(info_of(legacy).native, 1);
	ck_assert_uint_eq(info_of(mine).native, 2);
	ck_assert_uint_eq(info_of(null).id, info_of(legacy).id);
	ck_assert_uint_ne(info_of(mine).id, info_of(legacy).id);
	ck_assert_uint_eq(info_of(mine).flags, SOMA_BACKEND_STREAM_OF_THREAD);
	ck_assert_uint_eq(info_of(null).flags, 0);
	pthread_create(&thread, NULL, own_default_id, &other);
	pthread_join(thread, NULL);
	ck_assert_uint_ne(other, info_of(mine).id);
	REFUSED(INVALID_VALUE, "kind 3", ops->stream_default(self, (enum soma_backend_stream_kind)3, &mine));
	close_backend();
}
END_TEST

/* What is asked of another thread's default stream. */
struct others {
	struct soma_backend_stream *stream;
	struct soma_backend_event *event;
	uint64_t ptr;
};

#define FOREIGN(call) REFUSED(STREAM_MISUSE, "default stream of another thread", call)

static void *
use_others(void *context)
{
	struct others *o = context;
	struct soma_backend_stream_info info = { .size = sizeof info };
	uint32_t word = 0;
	uint64_t ptr = 0;
	bool done = false;

	FOREIGN(ops->stream_info(self, o->stream, &info));
	FOREIGN(ops->stream_query(self, o->stream, &done));
	FOREIGN(ops->stream_synchronize(self, o->stream));
	FOREIGN(ops->event_record(self, o->event, o->stream));
	FOREIGN(ops->event_wait(self, o->event, o->stream));
	FOREIGN(ops->fill8(self, o->ptr, 1, 4, o->stream));
	FOREIGN(ops->fill32(self, o->ptr, 1, 1, o->stream));
	FOREIGN(ops->copy(self, o->ptr, o->ptr + 8, 4, o->stream));
	FOREIGN(ops->copy_from_host(self, o->ptr, &word, sizeof word, o->stream));
	FOREIGN(ops->copy_to_host(self, &word, o->ptr, sizeof word, o->stream));
	FOREIGN(ops->alloc(self, 100, 0, o->stream, &ptr));
	FOREIGN(ops->free(self, o->ptr, 1000, o->stream));
	return NULL;
}

START_TEST(a_threads_default_stream_is_no_other_threads)
{
	for (size_t i = 0; i < BOTH; i++) {
		struct others o;
		pthread_t thread;
		start(both[i], FAKE_IMMEDIATE);
		OK(ops->stream_wrap(self, 2, &o.stream));
		o.event = event_new();
		o.ptr = take(1000, o.stream);
		pthread_create(&thread, NULL, use_others, &o);
		pthread_join(thread, NULL);
		OK(ops->fill8(self, o.ptr, 1, 1000, o.stream));
		OK(ops->event_record(self, o.event, o.stream));
		OK(ops->event_synchronize(self, o.event));
		give(o.ptr, 1000, o.stream);
		ops->event_destroy(self, o.event);
		ops->stream_destroy(self, o.stream);
		close_backend();
		fake.restart();
	}
}
END_TEST

START_TEST(a_query_only_looks)
{
	for (size_t i = 0; i < BOTH; i++) {
		start(both[i], FAKE_STEPPED);
		struct soma_backend_stream *stream = stream_new();
		uint64_t ptr = take(1000, stream);
		OK(ops->fill8(self, ptr, 1, 1000, stream));
		ck_assert(!is_done(stream));
		fake.run_all();
		ck_assert(is_done(stream));
		OK(ops->fill8(self, ptr, 2, 1000, stream));
		OK(ops->stream_synchronize(self, stream));
		ck_assert(is_done(stream));
		OK(ops->fill8(self, ptr, 3, 1000, stream));
		OK(ops->synchronize(self));
		ck_assert(is_done(stream));
		give(ptr, 1000, stream);
		close_backend();
		fake.restart();
	}
}
END_TEST

START_TEST(a_destroyed_streams_work_still_runs)
{
	unsigned char bytes[16] = { 0 };

	start("async", FAKE_STEPPED);
	struct soma_backend_stream *stream = stream_new();
	uint64_t ptr = take(16, NULL);
	OK(ops->fill8(self, ptr, 9, 16, stream));
	ops->stream_destroy(self, stream);
	OK(ops->synchronize(self));
	OK(ops->copy_to_host(self, bytes, ptr, 16, NULL));
	ck_assert_int_eq(bytes[15], 9);
	give(ptr, 16, NULL);
	close_backend();
}
END_TEST

/* ---- the current context ---------------------------------------------------------------- */

static CUcontext
current_context(void)
{
	CUcontext current = NULL;

	ck_assert_int_eq(driver()->cuCtxGetCurrent(&current), CUDA_SUCCESS);
	return current;
}

/* Alloc, an order to another stream and back, and free. */
static void
use_streams(struct soma_backend_stream *stream, struct soma_backend_stream *other,
	    struct soma_backend_event *event)
{
	bool recorded = false;
	uint64_t ptr = take(1000, stream);

	OK(ops->event_record(self, event, stream));
	OK(ops->event_wait(self, event, other));
	OK(ops->event_record(self, event, other));
	OK(ops->event_wait(self, event, stream));
	give(ptr, 1000, stream);
	if (ops->free_recorded == NULL)
		return;
	ptr = take(1000, stream);
	OK(ops->free_recorded(self, ptr, 1000, stream, event, &recorded));
	ck_assert(recorded);
}

START_TEST(a_stream_with_a_name_needs_no_context)
{
	start("async", FAKE_IMMEDIATE);
	struct soma_backend_stream *stream = stream_new(), *other = stream_new(), *legacy;
	struct soma_backend_event *event = event_new();

	push_context(0);
	uint64_t asked = fake.calls("cuCtxGetCurrent");
	use_streams(stream, other, event);
	ck_assert_uint_eq(fake.calls("cuCtxGetCurrent"), asked);
	OK(ops->stream_default(self, SOMA_BACKEND_STREAM_LEGACY, &legacy));
	asked = fake.calls("cuCtxGetCurrent");
	use_streams(legacy, legacy, event);
	ck_assert_uint_eq(fake.calls("cuCtxGetCurrent"), asked + 8);
	pop_context(0);
	close_backend();
}
END_TEST

/* The driver wants one; or has another device's, which must not get the memory. */
START_TEST(a_thread_with_another_context_or_none_keeps_it)
{
	for (size_t i = 0; i < BOTH; i++) {
		start_fake();
		fake.devices(2);
		open_backend(both[i]);
		struct soma_backend_stream *stream = stream_new(), *other = stream_new(), *legacy;
		struct soma_backend_event *event = event_new();
		uint64_t taken = fake.device_taken(1);
		OK(ops->stream_default(self, SOMA_BACKEND_STREAM_LEGACY, &legacy));
		ck_assert_ptr_null(current_context());
		use_streams(stream, other, event);
		use_streams(legacy, other, event);
		ck_assert_ptr_null(current_context());
		push_context(1);
		CUcontext before = current_context();
		use_streams(stream, other, event);
		use_streams(legacy, other, event);
		ck_assert_ptr_eq(current_context(), before);
		pop_context(1);
		ck_assert_uint_eq(fake.device_taken(1), taken);
		close_backend();
		fake.restart();
	}
}
END_TEST

/* ---- events -------------------------------------------------------------------------- */

START_TEST(an_event_stands_for_its_latest_record)
{
	start("async", FAKE_STEPPED);
	struct soma_backend_stream *a = stream_new(), *b = stream_new();
	struct soma_backend_event *event = event_new();
	uint64_t ptr = take(16, NULL);

	ck_assert(is_over(event));
	OK(ops->event_synchronize(self, event));
	OK(ops->fill8(self, ptr, 1, 16, a));
	OK(ops->event_record(self, event, a));
	ck_assert(!is_over(event));
	OK(ops->event_wait(self, event, b));
	OK(ops->event_record(self, event, b));
	OK(ops->fill8(self, ptr, 2, 16, b));
	ck_assert_uint_eq(fake.step(native(b), 10), 0);
	OK(ops->event_synchronize(self, event));
	ck_assert(is_over(event));
	REFUSED(NOT_SUPPORTED, "event flags", ops->event_create(self, 1, &event));
	OK(ops->synchronize(self));
	give(ptr, 16, NULL);
	close_backend();
}
END_TEST

START_TEST(a_free_that_records_is_a_free_and_a_record)
{
	bool recorded = false;

	start("async", FAKE_STEPPED);
	struct soma_backend_stream *stream = stream_new();
	struct soma_backend_event *event = event_new();
	uint64_t ptr = take(1000, stream), other = take(500, stream);

	OK(ops->free_recorded(self, ptr, 1000, stream, event, &recorded));
	ck_assert(recorded);
	ck_assert(!is_over(event));
	REFUSED(INVALID_VALUE, "no block", ops->free(self, ptr, 1000, stream));
	fake.run_all();
	ck_assert(is_over(event));
	recorded = false;
	REFUSED(INVALID_VALUE, "no block", ops->free_recorded(self, ptr, 1000, stream, event, &recorded));
	ck_assert(fake.fail("cuMemFreeAsync", 1, CUDA_ERROR_UNKNOWN));
	REFUSED(DRIVER, "cuMemFreeAsync", ops->free_recorded(self, other, 500, stream, event, &recorded));
	ck_assert(!recorded);
	ck_assert(is_over(event));
	ck_assert(fake.fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN));
	OK(ops->free_recorded(self, other, 500, stream, event, &recorded));
	ck_assert(!recorded);
	OK(ops->synchronize(self));
	close_backend();
}
END_TEST

START_TEST(an_event_may_go_before_what_waits_for_it)
{
	start("async", FAKE_STEPPED);
	struct soma_backend_stream *a = stream_new(), *b = stream_new();
	uint64_t ptr = take(16, a);

	OK(ops->fill8(self, ptr, 1, 16, a));
	order(a, b);
	OK(ops->fill8(self, ptr, 2, 16, b));
	give(ptr, 16, b);
	OK(ops->synchronize(self));
	close_backend();
}
END_TEST

/* ---- captures -------------------------------------------------------------------------- */

static void
begin_capture(void *stream, int mode)
{
	CUresult (*begin)(CUstream, CUstreamCaptureMode);

	*(void **)&begin = entry("cuStreamBeginCapture_v2");
	push_context(0);
	ck_assert_int_eq(begin(stream, (CUstreamCaptureMode)mode), CUDA_SUCCESS);
}

/* The capture must be whole still. */
static void
end_capture(void *stream)
{
	CUresult (*end)(CUstream, CUgraph *), (*destroy)(CUgraph);
	CUgraph graph = NULL;

	*(void **)&end = entry("cuStreamEndCapture");
	*(void **)&destroy = entry("cuGraphDestroy");
	ck_assert_int_eq(end(stream, &graph), CUDA_SUCCESS);
	ck_assert_int_eq(destroy(graph), CUDA_SUCCESS);
	pop_context(0);
}

START_TEST(a_capturing_stream_is_refused_and_its_capture_stays_whole)
{
	for (size_t i = 0; i < BOTH; i++) {
		start(both[i], FAKE_IMMEDIATE);
		struct soma_backend_stream *stream = stream_new();
		struct soma_backend_event *event = event_new();
		struct soma_backend_scan *ranges;
		uint64_t ptr = take(1000, stream), more;
		bool done;
		OK(ops->stream_synchronize(self, stream));
		OK(ops->staging_alloc(self, sizeof *ranges, (void **)&ranges));
		begin_capture(native(stream), CU_STREAM_CAPTURE_MODE_GLOBAL);
		struct soma_backend_stream_info info = info_of(stream);
		ck_assert_uint_eq(info.capture, SOMA_BACKEND_CAPTURE_ACTIVE);
		ck_assert_uint_ne(info.capture_id, 0);
		REFUSED(STREAM_MISUSE, "in a capture", ops->alloc(self, 100, 0, stream, &more));
		REFUSED(STREAM_MISUSE, "in a capture", ops->free(self, ptr, 1000, stream));
		REFUSED(STREAM_MISUSE, "in a capture", ops->stream_query(self, stream, &done));
		REFUSED(STREAM_MISUSE, "in a capture", ops->stream_synchronize(self, stream));
		*ranges = (struct soma_backend_scan){ .ptr = ptr, .bytes = 8 };
		REFUSED(STREAM_MISUSE, "in a capture", ops->scan(self, ranges, 1, stream));
		OK(ops->event_record(self, event, stream));
		REFUSED(STREAM_MISUSE, "recorded in a capture", ops->event_query(self, event, &done));
		REFUSED(STREAM_MISUSE, "recorded in a capture", ops->event_synchronize(self, event));
		end_capture(native(stream));
		ck_assert_uint_eq(info_of(stream).capture, SOMA_BACKEND_CAPTURE_NONE);
		OK(ops->event_record(self, event, stream));
		OK(ops->event_synchronize(self, event));
		give(ptr, 1000, stream);
		ops->staging_free(self, ranges, sizeof *ranges);
		close_backend();
		fake.restart();
	}
}
END_TEST

START_TEST(other_streams_go_on_beside_a_capture)
{
	for (size_t i = 0; i < BOTH; i++) {
		start(both[i], FAKE_IMMEDIATE);
		struct soma_backend_stream *captured = stream_new(), *stream = stream_new();
		struct soma_backend_event *event = event_new();
		bool done;
		begin_capture(native(captured), CU_STREAM_CAPTURE_MODE_GLOBAL);
		uint64_t ptr = take(1000, stream), span;
		OK(ops->event_record(self, event, stream));
		OK(ops->event_query(self, event, &done));
		OK(ops->event_synchronize(self, event));
		OK(ops->stream_synchronize(self, stream));
		OK(ops->span_reserve(self, 2 * MB, 0, &span));
		OK(ops->span_map(self, span, 2 * MB));
		OK(ops->span_unmap(self, span, 2 * MB));
		OK(ops->span_release(self, span, 2 * MB));
		give(ptr, 1000, stream);
		end_capture(native(captured));
		close_backend();
		fake.restart();
	}
}
END_TEST

/* It would be over with the capture, which is somebody else's. */
START_TEST(a_device_with_a_capture_is_not_waited_for)
{
	for (size_t i = 0; i < BOTH; i++) {
		start(both[i], FAKE_IMMEDIATE);
		struct soma_backend_stream *stream = stream_new();
		CUstream foreign;
		push_context(0);
		ck_assert_int_eq(driver()->cuStreamCreate(&foreign, 0), CUDA_SUCCESS);
		pop_context(0);
		begin_capture(native(stream), CU_STREAM_CAPTURE_MODE_RELAXED);
		REFUSED(STREAM_MISUSE, "in a capture", ops->synchronize(self));
		end_capture(native(stream));
		begin_capture(foreign, CU_STREAM_CAPTURE_MODE_GLOBAL);
		REFUSED(STREAM_MISUSE, "IMPLICIT", ops->synchronize(self));
		end_capture(foreign);
		ops->stream_destroy(self, stream);
		OK(ops->synchronize(self));
		push_context(0);
		driver()->cuStreamDestroy(foreign);
		pop_context(0);
		close_backend();
		fake.restart();
	}
}
END_TEST

START_TEST(the_legacy_stream_is_refused_while_a_blocking_one_is_captured)
{
	struct soma_backend_stream *legacy, *blocking;
	uint64_t ptr;

	start("async", FAKE_IMMEDIATE);
	OK(ops->stream_default(self, SOMA_BACKEND_STREAM_LEGACY, &legacy));
	OK(ops->stream_create(self, 0, &blocking));
	begin_capture(native(blocking), CU_STREAM_CAPTURE_MODE_RELAXED);
	REFUSED(STREAM_MISUSE, "IMPLICIT", ops->alloc(self, 100, 0, legacy, &ptr));
	end_capture((void *)(uintptr_t)info_of(blocking).native);
	close_backend();
}
END_TEST

START_TEST(with_capture_graph_the_graph_owns_what_is_allocated)
{
	bool recorded = false, done;

	start_fake();
	open_with("async", "async.capture", "graph");
	ck_assert_uint_ne(query().capabilities & SOMA_BACKEND_CAPTURE, 0);
	struct soma_backend_stream *stream = stream_new();
	struct soma_backend_event *event = event_new();
	uint64_t pooled = take(1000, stream);
	uint64_t used = attribute(SOMA_BACKEND_USED_CURRENT);
	begin_capture(native(stream), CU_STREAM_CAPTURE_MODE_GLOBAL);
	uint64_t own = take(3000, stream), left = take(5000, stream);
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), used);
	OK(ops->fill8(self, own, 1, 3000, stream));
	REFUSED(STREAM_MISUSE, "is the pool's", ops->free(self, pooled, 1000, stream));
	give(own, 3000, stream);
	OK(ops->free_recorded(self, left, 5000, stream, event, &recorded));
	ck_assert(recorded);
	REFUSED(STREAM_MISUSE, "recorded in a capture", ops->event_query(self, event, &done));
	left = take(5000, stream);
	end_capture(native(stream));
	(void)left;
	give(pooled, 1000, stream);
	close_backend();
}
END_TEST

CUDA_MAIN("cuda streams", streams_have_the_flags_that_they_were_made_with,
	  an_id_is_never_given_twice_though_the_handle_is, a_foreign_stream_keeps_its_id_and_stays,
	  a_stream_of_another_device_is_refused, default_streams_are_told_apart,
	  a_threads_default_stream_is_no_other_threads, a_query_only_looks,
	  a_destroyed_streams_work_still_runs, a_stream_with_a_name_needs_no_context,
	  a_thread_with_another_context_or_none_keeps_it, a_free_that_records_is_a_free_and_a_record,
	  an_event_stands_for_its_latest_record, an_event_may_go_before_what_waits_for_it,
	  a_capturing_stream_is_refused_and_its_capture_stays_whole, other_streams_go_on_beside_a_capture,
	  a_device_with_a_capture_is_not_waited_for,
	  the_legacy_stream_is_refused_while_a_blocking_one_is_captured,
	  with_capture_graph_the_graph_owns_what_is_allocated)

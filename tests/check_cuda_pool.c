/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools over async and sync over the stand-in driver: what the driver's own streams and captures mean for
 * memory that is used again.  Streams run when they are told.
 */
#include "tests/cuda_fixture.h"

#include <pthread.h>

#include <soma/pool.h>
#include <soma/runtime.h>

#include "lib/resource/terminal.h"

#define SEGMENT (32 * MB)
#define PER_THREAD 2 /* the driver's handle */

static struct soma_runtime *runtime;
static struct soma_resource *resource;
static struct soma_pool *pool;

static void
start_pool(const char *name, const char *more)
{
	char text[512];

	start_fake();
	fake.restart();
	fake.check_signals(false);
	fake.mode(FAKE_STEPPED, 1, 0);
	snprintf(text, sizeof text, "backend_path=%s,backend=%s%s", BACKEND_FOLDERS, name, more);
	OK(soma_runtime_open(text, &runtime));
	OK(soma_runtime_pool_create(runtime, &pool));
	resource = soma_runtime_resource(runtime);
}

static void
finish_pool(void)
{
	OK(soma_pool_destroy(pool));
	soma_runtime_release(runtime);
	EXPECT_NOTHING_FOUND();
	fake.leaks();
	EXPECT_NOTHING_FOUND();
}

static struct soma_allocation *
alloc(uint64_t size, uint64_t stream)
{
	struct soma_allocation *allocation = NULL;

	OK(soma_pool_alloc(pool, size, stream, &allocation));
	return allocation;
}

static void
drop(struct soma_allocation *allocation, uint64_t stream)
{
	OK(soma_pool_free(allocation, stream));
	OK(soma_allocation_release(allocation));
}

static void
write_all(struct soma_allocation *allocation, void *stream)
{
	push_context(0);
	ck_assert_int_eq(driver()->cuMemsetD8Async(soma_allocation_device_ptr(allocation), 1,
						   soma_allocation_size(allocation), stream),
			 CUDA_SUCCESS);
	pop_context(0);
}

static uint64_t
pending(void *stream)
{
	uint64_t count;

	push_context(0);
	count = fake.pending(stream);
	pop_context(0);
	return count;
}

/* ---- default streams ------------------------------------------------------------------------ */

/* Asks for memory twice: what the first call asks the streams, they have answered at the second. */
static void *
allocate_elsewhere(void *context)
{
	uint64_t *taken = context, stream;

	OK(soma_runtime_stream_acquire(runtime, SOMA_STREAM_NON_BLOCKING, &stream));
	for (int i = 0; i < 2; i++) {
		struct soma_allocation *x = alloc(SEGMENT, stream);
		taken[i] = soma_allocation_device_ptr(x);
		push_context(0);
		(void)fake.step((void *)PER_THREAD, 100);
		pop_context(0);
	}
	return NULL;
}

START_TEST(what_a_thread_freed_on_its_default_stream_is_not_given_to_another_one_before_it_has_run)
{
	for (size_t i = 0; i < BOTH; i++) {
		uint64_t mine, taken[2], found;
		pthread_t thread;
		start_pool(both[i], ",placement=pool");
		OK(soma_runtime_stream_wrap(runtime, PER_THREAD, &mine));
		struct soma_allocation *x = alloc(SEGMENT, mine);
		uint64_t ptr = soma_allocation_device_ptr(x);
		write_all(x, (void *)PER_THREAD);
		drop(x, mine);
		pthread_create(&thread, NULL, allocate_elsewhere, taken);
		pthread_join(thread, NULL);
		ck_assert_uint_ne(taken[0], ptr);
		ck_assert_uint_ne(taken[1], ptr);
		OK(soma_pool_synchronize(pool, mine));
		x = alloc(SEGMENT, mine);
		ck_assert_uint_eq(soma_allocation_device_ptr(x), ptr);
		drop(x, mine);
		for (int j = 0; j < 2; j++) {
			struct soma_allocation *y;
			OK(soma_pool_find(pool, taken[j], &y));
			OK(soma_allocation_release(y));
		}
		OK(soma_runtime_stream_resolve(runtime, PER_THREAD, &found));
		ck_assert_uint_eq(found, mine);
		OK(soma_runtime_stream_release(runtime, mine));
		finish_pool();
	}
}
END_TEST

/* Whatever the driver would not say of the stream when the pool met it. */
START_TEST(a_synchronised_blocking_stream_comes_after_the_legacy_streams_work)
{
	static const char *const unsaid[] = { NULL, "cuStreamGetCaptureInfo_v2" };

	for (size_t i = 0; i < 2 * BOTH; i++) {
		const char *name = unsaid[i / BOTH];
		uint64_t blocking, other;
		start_pool(both[i % BOTH], ",placement=pool");
		OK(soma_runtime_stream_acquire(runtime, SOMA_STREAM_BLOCKING, &blocking));
		OK(soma_runtime_stream_acquire(runtime, SOMA_STREAM_NON_BLOCKING, &other));
		struct soma_allocation *x = alloc(SEGMENT, 0);
		uint64_t ptr = soma_allocation_device_ptr(x);
		write_all(x, (void *)1);
		ck_assert(name == NULL || fake.fail(name, 1, CUDA_ERROR_UNKNOWN));
		OK(soma_pool_free(x, blocking));
		OK(soma_allocation_release(x));
		ck_assert_uint_eq(fake.failures(), name != NULL);
		ck_assert_uint_gt(pending((void *)1), 0);
		OK(soma_pool_synchronize(pool, blocking));
		x = alloc(SEGMENT, other);
		ck_assert_uint_eq(soma_allocation_device_ptr(x), ptr);
		ck_assert_uint_eq(pending((void *)1), 0);
		drop(x, other);
		finish_pool();
	}
}
END_TEST

/* On a stream without work there is nothing to wait for. */
START_TEST(memory_that_was_freed_on_an_idle_blocking_stream_goes_after_the_legacy_streams_work)
{
	for (size_t i = 0; i < BOTH; i++) {
		struct soma_policy policy = *soma_policy_preset("pytorch");
		const struct soma_pool_config config = { .size = sizeof config,
							 .policy = &policy,
							 .placement = SOMA_PLACEMENT_POOL };
		struct soma_block block = { .size = sizeof block };
		uint64_t blocking;
		start_pool(both[i], ",placement=pool");
		OK(soma_pool_destroy(pool));
		OK(soma_pool_create(&config, resource, &pool));
		OK(soma_runtime_stream_acquire(runtime, SOMA_STREAM_BLOCKING, &blocking));
		struct soma_allocation *x = alloc(SEGMENT, blocking);
		OK(soma_resource_allocate(resource, 4096, blocking, &block));
		fake.run_all();
		write_all(x, (void *)1);
		drop(x, blocking);
		OK(soma_pool_trim(pool, 0));
		push_context(0);
		ck_assert_int_eq(driver()->cuMemsetD8Async(block.ptr, 1, 4096, (void *)1), CUDA_SUCCESS);
		pop_context(0);
		OK(soma_resource_deallocate(resource, &block));
		EXPECT_NOTHING_FOUND();
		finish_pool();
	}
}
END_TEST

static enum soma_status
record_none(struct soma_backend *backend_, struct soma_backend_event *event,
	    struct soma_backend_stream *stream)
{
	(void)backend_, (void)event, (void)stream;
	return SOMA_STATUS_DRIVER;
}

/* Without events from now on; what there was before. */
static const struct soma_backend_ops *
take_events(void)
{
	static struct soma_backend_ops changed;
	const struct soma_backend_ops *before = resource->terminal->events.ops;

	changed = *before;
	changed.event_record = record_none;
	resource->terminal->events.ops = &changed;
	return before;
}

/* Two blocking streams on which blocks were freed that the legacy stream's work still uses. */
static void
free_behind_legacy(uint64_t *streams, uint64_t *ptrs)
{
	struct soma_allocation *x[2];

	for (int i = 0; i < 2; i++) {
		OK(soma_runtime_stream_acquire(runtime, SOMA_STREAM_BLOCKING, &streams[i]));
		x[i] = alloc(SEGMENT, streams[i]);
		ptrs[i] = soma_allocation_device_ptr(x[i]);
	}
	fake.run_all();
	for (int i = 0; i < 2; i++) {
		write_all(x[i], (void *)1);
		OK(soma_pool_free(x[i], streams[i]));
		OK(soma_allocation_release(x[i]));
	}
}

START_TEST(without_events_a_pools_end_waits_for_the_legacy_streams_work)
{
	for (size_t i = 0; i < BOTH; i++) {
		uint64_t streams[2], ptrs[2];
		start_pool(both[i], ",placement=pool");
		free_behind_legacy(streams, ptrs);
		const struct soma_backend_ops *before = take_events();
		OK(soma_pool_destroy(pool));
		resource->terminal->events.ops = before;
		EXPECT_NOTHING_FOUND();
		soma_runtime_release(runtime);
		EXPECT_NOTHING_FOUND();
	}
}
END_TEST

START_TEST(without_events_a_destroyed_streams_end_comes_after_the_legacy_streams_work)
{
	for (size_t i = 0; i < BOTH; i++) {
		uint64_t streams[2], ptrs[2], other;
		start_pool(both[i], ",placement=pool");
		free_behind_legacy(streams, ptrs);
		OK(soma_runtime_stream_acquire(runtime, SOMA_STREAM_NON_BLOCKING, &other));
		const struct soma_backend_ops *before = take_events();
		for (int j = 0; j < 2; j++)
			OK(soma_runtime_stream_release(runtime, streams[j]));
		resource->terminal->events.ops = before;
		struct soma_allocation *x = alloc(SEGMENT, other);
		uint64_t ptr = soma_allocation_device_ptr(x);
		if (ptr == ptrs[0] || ptr == ptrs[1])
			ck_assert_uint_eq(pending((void *)1), 0);
		drop(x, other);
		finish_pool();
	}
}
END_TEST

/* ---- captures --------------------------------------------------------------------------------- */

static void
begin_capture(void *stream)
{
	CUresult (*begin)(CUstream stream, int mode);

	*(void **)&begin = entry("cuStreamBeginCapture_v2");
	push_context(0);
	ck_assert_int_eq(begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
	pop_context(0);
}

/* The capture must be whole still. */
static void
end_capture(void *stream)
{
	CUresult (*end)(CUstream stream, void **graph);
	CUresult (*destroy)(void *graph);
	void *graph = NULL;

	*(void **)&end = entry("cuStreamEndCapture");
	*(void **)&destroy = entry("cuGraphDestroy");
	push_context(0);
	ck_assert_int_eq(end(stream, &graph), CUDA_SUCCESS);
	ck_assert_int_eq(destroy(graph), CUDA_SUCCESS);
	pop_context(0);
}

/* What is captured runs when the graph does: the stream's order says nothing of it. */
START_TEST(a_captured_stream_neither_gets_nor_frees_a_block)
{
	for (size_t i = 0; i < BOTH; i++) {
		uint64_t stream, native;
		struct soma_allocation *more = NULL;
		start_pool(both[i], ",placement=pool");
		OK(soma_runtime_stream_acquire(runtime, SOMA_STREAM_NON_BLOCKING, &stream));
		OK(soma_runtime_stream_native(runtime, stream, &native));
		struct soma_allocation *x = alloc(1000, stream);
		drop(alloc(1000, stream), stream);
		begin_capture((void *)(uintptr_t)native);
		REFUSED(STREAM_MISUSE, "is being captured", soma_pool_alloc(pool, 1000, stream, &more));
		REFUSED(STREAM_MISUSE, "is being captured", soma_pool_free(x, stream));
		ck_assert(!soma_allocation_is_freed(x));
		end_capture((void *)(uintptr_t)native);
		drop(x, stream);
		OK(soma_runtime_stream_release(runtime, stream));
		finish_pool();
	}
}
END_TEST

/* Also of one that the pool does not know. */
START_TEST(the_legacy_stream_is_asked_nothing_that_spoils_a_blocking_streams_capture)
{
	for (size_t i = 0; i < BOTH; i++) {
		struct soma_allocation *more = NULL;
		uint64_t seq, other;
		CUstream blocking;
		start_pool(both[i], ",placement=pool");
		OK(soma_runtime_stream_acquire(runtime, SOMA_STREAM_NON_BLOCKING, &other));
		struct soma_allocation *x = alloc(SEGMENT, 0), *y = alloc(SEGMENT, other);
		push_context(0);
		ck_assert_int_eq(driver()->cuStreamCreate(&blocking, 0), CUDA_SUCCESS);
		pop_context(0);
		begin_capture(blocking);
		drop(x, 0);
		REFUSED(STREAM_MISUSE, "IMPLICIT", soma_pool_record_event(pool, 0, &seq));
		OK(soma_pool_record_event(pool, other, &seq));
		REFUSED(STREAM_MISUSE, "IMPLICIT", soma_pool_wait_event(pool, 0, other, seq));
		OK(soma_pool_alloc(pool, SEGMENT, other, &more));
		end_capture(blocking);
		drop(more, other), drop(y, other);
		push_context(0);
		ck_assert_int_eq(driver()->cuStreamDestroy(blocking), CUDA_SUCCESS);
		pop_context(0);
		finish_pool();
	}
}
END_TEST

/* ---- streams of others ---------------------------------------------------------------------------- */

/* A framework destroys its streams without a word, but has an event recorded behind every free. */
START_TEST(a_stream_that_nothing_is_queued_on_is_not_asked)
{
	for (size_t i = 0; i < BOTH; i++) {
		uint64_t gone, other;
		CUstream theirs;
		uint64_t seq;
		start_pool(both[i], ",placement=pool");
		fake.recycle(false);
		OK(soma_runtime_stream_acquire(runtime, SOMA_STREAM_NON_BLOCKING, &other));
		push_context(0);
		ck_assert_int_eq(driver()->cuStreamCreate(&theirs, 0), CUDA_SUCCESS);
		pop_context(0);
		OK(soma_runtime_stream_wrap(runtime, (uintptr_t)theirs, &gone));
		drop(alloc(SEGMENT, gone), gone);
		OK(soma_pool_record_event(pool, gone, &seq));
		struct soma_allocation *x = alloc(1000, gone);
		fake.run_all();
		push_context(0);
		ck_assert_int_eq(driver()->cuStreamDestroy(theirs), CUDA_SUCCESS);
		pop_context(0);
		for (int j = 0; j < 3; j++) {
			struct soma_allocation *y = alloc(SEGMENT, 0), *z = alloc(SEGMENT, other);
			drop(y, 0), drop(z, other);
		}
		OK(soma_pool_record_event(pool, 0, &seq));
		OK(soma_pool_trim(pool, 0));
		EXPECT_NOTHING_FOUND();
		/* The end marks whatever was used. */
		drop(x, other);
		OK(soma_pool_destroy(pool));
		soma_runtime_release(runtime);
	}
}
END_TEST

CUDA_MAIN("cuda pool",
	  what_a_thread_freed_on_its_default_stream_is_not_given_to_another_one_before_it_has_run,
	  a_synchronised_blocking_stream_comes_after_the_legacy_streams_work,
	  memory_that_was_freed_on_an_idle_blocking_stream_goes_after_the_legacy_streams_work,
	  without_events_a_pools_end_waits_for_the_legacy_streams_work,
	  without_events_a_destroyed_streams_end_comes_after_the_legacy_streams_work,
	  a_captured_stream_neither_gets_nor_frees_a_block,
	  the_legacy_stream_is_asked_nothing_that_spoils_a_blocking_streams_capture,
	  a_stream_that_nothing_is_queued_on_is_not_asked)

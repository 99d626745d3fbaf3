/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of a runtime by handle and by id. */
#include "tests/runtime_fixture.h"

#include <pthread.h>

#include "lib/resource/terminal.h"
#include "tests/check_resource_sanitizer.h"

#define MANY 300

/* A stream that another part of the program makes. */
struct foreign {
	struct soma_backend_stream *stream;
	uint64_t native;
};

static struct foreign
make_foreign(struct soma_runtime *runtime)
{
	const struct soma__backend *backend = runtime->backend;
	struct soma_backend_stream_info info = { .size = sizeof info };
	struct foreign foreign;

	OK(backend->ops->stream_create(backend->self, SOMA_BACKEND_STREAM_NON_BLOCKING, &foreign.stream));
	OK(backend->ops->stream_info(backend->self, foreign.stream, &info));
	foreign.native = info.native;
	return foreign;
}

static void
destroy_foreign(struct soma_runtime *runtime, struct foreign *foreign)
{
	runtime->backend->ops->stream_destroy(runtime->backend->self, foreign->stream);
}

/* Until all that is queued has run, a destroyed stream's handle is not given away. */
static void
run_all(struct soma_runtime *runtime)
{
	OK(runtime->backend->ops->synchronize(runtime->backend->self));
}

static uint64_t
wrap(struct soma_runtime *runtime, uint64_t native)
{
	uint64_t stream;

	OK(soma_runtime_stream_wrap(runtime, native, &stream));
	return stream;
}

static uint64_t
resolve(struct soma_runtime *runtime, uint64_t native)
{
	uint64_t stream;

	OK(soma_runtime_stream_resolve(runtime, native, &stream));
	return stream;
}

static void
expect_unknown(struct soma_runtime *runtime, uint64_t native)
{
	uint64_t stream = 4711;

	ck_assert_int_eq(soma_runtime_stream_resolve(runtime, native, &stream), SOMA_STATUS_NOT_FOUND);
	ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_NOT_FOUND);
	ck_assert_uint_eq(stream, 4711);
}

static const char *const confs[] = { "backend=host", "backend=guard:host,guard.on_error=callback" };

static void
acquire_many(const char *conf)
{
	struct soma_runtime *runtime = open_runtime(conf);
	uint64_t seen[MANY], natives = 0, native, last = 0;

	for (int i = 0; i < MANY; i++) {
		seen[i] = runtime_stream(runtime);
		OK(soma_runtime_stream_native(runtime, seen[i], &native));
		natives += native == last;
		last = native;
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(seen[i], seen[j]);
		OK(soma_runtime_stream_release(runtime, seen[i]));
		run_all(runtime);
	}
	ck_assert_uint_gt(natives, 0); /* the handles were */
	soma_runtime_release(runtime);
}

START_TEST(ids_are_never_used_twice)
{
	acquire_many(confs[0]);
	acquire_many(confs[1]);
}
END_TEST

START_TEST(the_same_live_handle_is_the_same_stream)
{
	struct soma_runtime *runtime = open_runtime("backend=host");
	struct foreign a = make_foreign(runtime), b = make_foreign(runtime);
	uint64_t first = wrap(runtime, a.native), other = wrap(runtime, b.native);

	ck_assert_uint_ne(first, other);
	ck_assert_uint_eq(wrap(runtime, a.native), first);
	ck_assert_uint_eq(resolve(runtime, a.native), first);
	ck_assert_uint_eq(resolve(runtime, b.native), other);
	OK(soma_runtime_stream_release(runtime, first));
	ck_assert_uint_eq(resolve(runtime, a.native), first);
	OK(soma_runtime_stream_release(runtime, first));
	expect_unknown(runtime, a.native);
	ck_assert_int_eq(soma_runtime_stream_release(runtime, first), SOMA_STATUS_STREAM_MISUSE);
	ck_assert_uint_ne(wrap(runtime, a.native), first);
	destroy_foreign(runtime, &a);
	destroy_foreign(runtime, &b);
	soma_runtime_release(runtime);
}
END_TEST

START_TEST(an_acquired_stream_is_found_by_its_handle)
{
	struct soma_runtime *runtime = open_runtime("backend=host");
	uint64_t stream = runtime_stream(runtime), native;

	OK(soma_runtime_stream_native(runtime, stream, &native));
	ck_assert_uint_eq(resolve(runtime, native), stream);
	ck_assert_uint_eq(wrap(runtime, native), stream);
	OK(soma_runtime_stream_release(runtime, stream));
	ck_assert_uint_eq(resolve(runtime, native), stream);
	OK(soma_runtime_stream_release(runtime, stream));
	ck_assert_int_eq(soma_runtime_stream_native(runtime, stream, &native), SOMA_STATUS_STREAM_MISUSE);
	soma_runtime_release(runtime);
}
END_TEST

START_TEST(the_legacy_stream_is_stream_0)
{
	struct soma_runtime *runtime = open_runtime("backend=host");
	uint64_t native;

	OK(soma_runtime_stream_native(runtime, 0, &native));
	ck_assert_uint_eq(wrap(runtime, native), 0);
	OK(soma_runtime_stream_release(runtime, 0));
	ck_assert_uint_eq(resolve(runtime, native), 0);
	soma_runtime_release(runtime);
}
END_TEST

static void
reuse_handle(const char *conf)
{
	struct soma_runtime *runtime = open_runtime(conf);
	struct soma_resource *resource = soma_runtime_resource(runtime);
	struct foreign old = make_foreign(runtime), new;
	uint64_t first = wrap(runtime, old.native), second;
	struct soma_block block = take_block(resource, 1000, first), later;

	give_block(resource, &block);
	OK(soma_resource_stream_synchronize(resource, first));
	OK(soma_runtime_stream_release(runtime, first));
	destroy_foreign(runtime, &old);
	run_all(runtime);
	new = make_foreign(runtime);
	ck_assert_uint_eq(new.native, old.native);
	expect_unknown(runtime, new.native);
	second = wrap(runtime, new.native);
	ck_assert_uint_ne(second, first);
	ck_assert_int_eq(soma_resource_stream_synchronize(resource, first), SOMA_STATUS_STREAM_MISUSE);
	later = take_block(resource, 1000, second);
	ck_assert_uint_eq(later.stream, second);
	give_block(resource, &later);
	destroy_foreign(runtime, &new);
	soma_runtime_release(runtime);
}

/* Known mistake 10: a new stream has the old one's handle, and must not be taken for it. */
START_TEST(a_handle_that_comes_back_is_another_stream)
{
	reuse_handle(confs[0]);
	reuse_handle(confs[1]);
}
END_TEST

static const struct soma_backend_ops *real_ops;

static enum soma_status
info_of_another(struct soma_backend *self, struct soma_backend_stream *stream,
		struct soma_backend_stream_info *info)
{
	enum soma_status status = real_ops->stream_info(self, stream, info);

	info->id += 1000;
	return status;
}

/* The owner has destroyed the stream without releasing it here, and the driver has given its handle away. */
START_TEST(a_handle_is_looked_up_as_it_is_now)
{
	struct soma_runtime *runtime = open_runtime("backend=host");
	struct foreign foreign = make_foreign(runtime);
	uint64_t first = wrap(runtime, foreign.native), second;
	struct soma_backend_ops changed;

	real_ops = runtime->backend->ops;
	changed = *real_ops;
	changed.stream_info = info_of_another;
	runtime->backend->ops = &changed;
	expect_unknown(runtime, foreign.native);
	second = wrap(runtime, foreign.native);
	ck_assert_uint_ne(second, first);
	ck_assert_uint_eq(resolve(runtime, foreign.native), second);
	OK(soma_runtime_stream_release(runtime, first));
	ck_assert_uint_eq(resolve(runtime, foreign.native), second);
	OK(soma_runtime_stream_release(runtime, second));
	runtime->backend->ops = real_ops;
	destroy_foreign(runtime, &foreign);
	soma_runtime_release(runtime);
}
END_TEST

START_TEST(a_stream_destroyed_through_the_resource_is_forgotten)
{
	struct soma_runtime *runtime = open_runtime("backend=host");
	struct foreign foreign = make_foreign(runtime);
	uint64_t first = wrap(runtime, foreign.native), second;

	OK(soma_resource_stream_destroy(soma_runtime_resource(runtime), first));
	expect_unknown(runtime, foreign.native);
	second = wrap(runtime, foreign.native);
	ck_assert_uint_ne(second, first);
	OK(soma_resource_stream_destroy(soma_runtime_resource(runtime), second));
	ck_assert_int_eq(soma_runtime_stream_release(runtime, second), SOMA_STATUS_STREAM_MISUSE);
	ck_assert_int_eq(soma_runtime_stream_release(runtime, second), SOMA_STATUS_STREAM_MISUSE);
	destroy_foreign(runtime, &foreign);
	soma_runtime_release(runtime);
}
END_TEST

START_TEST(a_handle_that_is_no_stream_is_an_error)
{
	struct soma_runtime *runtime = open_runtime("backend=host");
	uint64_t stream;

	ck_assert_int_eq(soma_runtime_stream_wrap(runtime, 123456, &stream), SOMA_STATUS_NOT_FOUND);
	ck_assert_int_eq(soma_runtime_stream_resolve(runtime, 123456, &stream), SOMA_STATUS_NOT_FOUND);
	ck_assert_int_eq(soma_runtime_stream_acquire(runtime, 2, &stream), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_runtime_stream_release(runtime, 77), SOMA_STATUS_STREAM_MISUSE);
	soma_runtime_release(runtime);
}
END_TEST

START_TEST(without_streams_there_is_only_stream_0)
{
	struct soma_runtime *runtime = open_runtime("backend=plain");
	uint64_t stream;

	ck_assert_int_eq(soma_runtime_stream_acquire(runtime, 0, &stream), SOMA_STATUS_NOT_SUPPORTED);
	ck_assert_int_eq(soma_runtime_stream_wrap(runtime, 16, &stream), SOMA_STATUS_NOT_SUPPORTED);
	ck_assert_int_eq(soma_runtime_stream_resolve(runtime, 16, &stream), SOMA_STATUS_NOT_SUPPORTED);
	ck_assert_int_eq(soma_runtime_stream_native(runtime, 0, &stream), SOMA_STATUS_NOT_SUPPORTED);
	OK(soma_runtime_stream_release(runtime, 0));
	struct soma_block block = take_block(soma_runtime_resource(runtime), 100, 0);
	give_block(soma_runtime_resource(runtime), &block);
	soma_runtime_release(runtime);
}
END_TEST

/* Whatever fails, the next attempt gets a stream, and it is the same one from then on. */
START_TEST(every_allocation_of_a_wrap_may_fail)
{
	struct soma_runtime *runtime = open_runtime("backend=guard:host");
	struct foreign foreign = make_foreign(runtime);
	enum soma_status status = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	uint64_t stream;
	unsigned long nth = 0;

	while (status != SOMA_STATUS_OK) {
		soma__arena_fail_nth(++nth);
		status = soma_runtime_stream_wrap(runtime, foreign.native, &stream);
		soma__arena_fail_nth(0);
		if (status != SOMA_STATUS_OK)
			expect_unknown(runtime, foreign.native);
	}
	ck_assert_uint_ge(nth, 3);
	ck_assert_uint_eq(resolve(runtime, foreign.native), stream);
	OK(soma_runtime_stream_release(runtime, stream));
	destroy_foreign(runtime, &foreign);
	soma_runtime_release(runtime);
}
END_TEST

/* A backend that fails as told. */
static struct {
	struct soma_runtime *runtime;
	enum soma_status info, record, synchronize;
	int waits;
} failing;

static enum soma_status
failing_info(struct soma_backend *self, struct soma_backend_stream *stream,
	     struct soma_backend_stream_info *info)
{
	return failing.info != SOMA_STATUS_OK ? failing.info : real_ops->stream_info(self, stream, info);
}

static enum soma_status
failing_record(struct soma_backend *self, struct soma_backend_event *event,
	       struct soma_backend_stream *stream)
{
	return failing.record != SOMA_STATUS_OK ? failing.record
						: real_ops->event_record(self, event, stream);
}

/* Another thread's lookup must not have to wait for it. */
static enum soma_status
failing_synchronize(struct soma_backend *self, struct soma_backend_stream *stream)
{
	ck_assert_int_eq(pthread_mutex_trylock(&failing.runtime->streams.mutex), 0);
	pthread_mutex_unlock(&failing.runtime->streams.mutex);
	failing.waits++;
	return failing.synchronize != SOMA_STATUS_OK ? failing.synchronize
						     : real_ops->stream_synchronize(self, stream);
}

static struct soma_runtime *
open_failing(void)
{
	static struct soma_backend_ops changed;
	struct soma_runtime *runtime = open_runtime("backend=host");

	failing.runtime = runtime;
	failing.info = failing.record = failing.synchronize = SOMA_STATUS_OK;
	failing.waits = 0;
	real_ops = runtime->backend->ops;
	changed = *real_ops;
	changed.stream_info = failing_info;
	changed.event_record = failing_record;
	changed.stream_synchronize = failing_synchronize;
	runtime->backend->ops = &changed;
	runtime->resource->terminal->events.ops = &changed;
	return runtime;
}

static void
close_failing(struct soma_runtime *runtime)
{
	runtime->backend->ops = real_ops;
	runtime->resource->terminal->events.ops = real_ops;
	soma_runtime_release(runtime);
}

START_TEST(a_stream_that_cannot_be_entered_is_taken_back_and_nobody_waits_meanwhile)
{
	struct soma_runtime *runtime = open_failing();
	struct soma__streams *streams = &runtime->resource->terminal->streams;
	uint64_t stream;

	failing.info = failing.record = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(soma_runtime_stream_acquire(runtime, 0, &stream), SOMA_STATUS_DRIVER);
	ck_assert_int_gt(failing.waits, 0);
	ck_assert_uint_eq(atomic_load(&streams->slots), 2);
	ck_assert(soma__stream_at(streams, 1)->destroyed);
	failing.info = failing.record = SOMA_STATUS_OK;
	stream = runtime_stream(runtime);
	OK(soma_runtime_stream_release(runtime, stream));
	close_failing(runtime);
}
END_TEST

/* Such as the default stream of another thread, or one in a capture. */
START_TEST(a_stream_that_the_backend_does_not_let_go_stays)
{
	static const enum soma_status statuses[] = { SOMA_STATUS_DRIVER, SOMA_STATUS_STREAM_MISUSE };
	struct soma_runtime *runtime = open_failing();
	struct foreign foreign = make_foreign(runtime);
	uint64_t stream = wrap(runtime, foreign.native);

	for (int i = 0; i < 2; i++) {
		failing.record = failing.synchronize = statuses[i];
		ck_assert_int_eq(soma_runtime_stream_release(runtime, stream), statuses[i]);
		failing.record = failing.synchronize = SOMA_STATUS_OK;
		ck_assert_uint_eq(resolve(runtime, foreign.native), stream);
	}
	OK(soma_runtime_stream_release(runtime, stream));
	expect_unknown(runtime, foreign.native);
	destroy_foreign(runtime, &foreign);
	close_failing(runtime);
}
END_TEST

/* ---- threads ---------------------------------------------------------------------------- */

#define THREADS 6
#define ROUNDS 500

struct shared {
	struct soma_runtime *runtime;
	uint64_t natives[3];
	pthread_barrier_t barrier;
	uint64_t ids[THREADS];
	_Atomic int next;
	_Atomic int failures;
};

static void
expect(struct shared *shared, bool condition)
{
	if (!condition)
		atomic_fetch_add(&shared->failures, 1);
}

static void *
wrap_at_once(void *context)
{
	struct shared *shared = context;
	int me = atomic_fetch_add(&shared->next, 1);
	uint64_t id, own;

	pthread_barrier_wait(&shared->barrier);
	expect(shared, soma_runtime_stream_wrap(shared->runtime, shared->natives[0], &shared->ids[me]) ==
			       SOMA_STATUS_OK);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t native = shared->natives[i % 3];
		expect(shared, soma_runtime_stream_wrap(shared->runtime, native, &id) == SOMA_STATUS_OK);
		expect(shared, soma_runtime_stream_resolve(shared->runtime, native, &own) == SOMA_STATUS_OK);
		expect(shared, own == id);
		expect(shared, soma_runtime_stream_release(shared->runtime, id) == SOMA_STATUS_OK);
		if (i % 16 != 0)
			continue;
		expect(shared, soma_runtime_stream_acquire(shared->runtime, 1, &own) == SOMA_STATUS_OK);
		expect(shared, soma_runtime_stream_release(shared->runtime, own) == SOMA_STATUS_OK);
	}
	return NULL;
}

START_TEST(threads_that_wrap_at_once_get_the_same)
{
	struct shared shared = { .runtime = open_runtime("backend=host") };
	struct foreign foreign[3];
	pthread_t threads[THREADS];

	pthread_barrier_init(&shared.barrier, NULL, THREADS);
	for (int i = 0; i < 3; i++) {
		foreign[i] = make_foreign(shared.runtime);
		shared.natives[i] = foreign[i].native;
	}
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, wrap_at_once, &shared), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(atomic_load(&shared.failures), 0);
	for (int i = 0; i < THREADS; i++) {
		ck_assert_uint_eq(shared.ids[i], shared.ids[0]);
		OK(soma_runtime_stream_release(shared.runtime, shared.ids[0]));
	}
	ck_assert_int_eq(soma_runtime_stream_release(shared.runtime, shared.ids[0]),
			 SOMA_STATUS_STREAM_MISUSE);
	for (int i = 0; i < 3; i++)
		destroy_foreign(shared.runtime, &foreign[i]);
	soma_runtime_release(shared.runtime);
}
END_TEST

UNIT_MAIN("runtime streams", ids_are_never_used_twice, the_same_live_handle_is_the_same_stream,
	  an_acquired_stream_is_found_by_its_handle, the_legacy_stream_is_stream_0,
	  a_handle_that_comes_back_is_another_stream, a_handle_is_looked_up_as_it_is_now,
	  a_stream_destroyed_through_the_resource_is_forgotten, a_handle_that_is_no_stream_is_an_error,
	  without_streams_there_is_only_stream_0, every_allocation_of_a_wrap_may_fail,
	  a_stream_that_cannot_be_entered_is_taken_back_and_nobody_waits_meanwhile,
	  a_stream_that_the_backend_does_not_let_go_stays, threads_that_wrap_at_once_get_the_same)

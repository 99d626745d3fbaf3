/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The twin of a pool when memory or the backend fails, when an owner's callback uses the pool, and with threads:
 * USED is the same all the while.
 */
#include <limits.h>
#include <sched.h>

#include "lib/arena/arena.h"
#include "lib/pool/pool.h"
#include "tests/twin_fixture.h"

static bool
went_well(enum soma_status status)
{
	ck_assert(status == SOMA_STATUS_OK || status == SOMA_STATUS_OUT_OF_HOST_MEMORY ||
		  status == SOMA_STATUS_DRIVER);
	return status == SOMA_STATUS_OK;
}

/* Whatever fails, USED is the same: in the end, and where there is a comparison.  *made: so many host allocations. */
static unsigned
play_failing(unsigned long *made)
{
	struct soma_allocation *held[8] = { 0 };
	unsigned failures = 0;

	for (unsigned i = 0; i < 8; i++)
		failures += !went_well(soma_pool_alloc(p, 1000 * (i + 1), i % 2 ? a : b, &held[i]));
	for (unsigned i = 0; i < 8; i += 2)
		if (held[i] != NULL && went_well(soma_pool_free(held[i], b))) {
			ck_ok(soma_allocation_release(held[i]));
			held[i] = NULL;
		}
	failures += !went_well(soma_pool_synchronize(p, a));
	fake->lies[SOMA_POOL_RESERVED_CURRENT] = 1; /* a divergence, which needs memory to be told */
	failures += !went_well(soma_pool_synchronize(p, b));
	fake->lies[SOMA_POOL_RESERVED_CURRENT] = 0;
	failures += !went_well(soma_pool_trim(p, 0));
	*made = soma__arena_fail_nth(0);
	atomic_store(&fake->fail_at, 0);
	ck_ok(soma_pool_synchronize(p, a));
	struct soma_twin_report r = report();
	ck_assert_msg(!r.used_divergence.happened, "%s", r.used_divergence.text);
	ck_assert(r.reserved_divergence.happened || r.skipped > 0 || failures > 0);
	if (r.reserved_divergence.happened)
		ck_assert(r.reserved_divergence.text[0] != '\0' && r.reserved_divergence.trace != NULL);
	for (unsigned i = 0; i < 8; i++)
		ck_ok(soma_allocation_release(held[i]));
	return failures + (unsigned)r.skipped +
	       (r.reserved_divergence.happened && r.reserved_divergence.trace[0] == '\0');
}

START_TEST(every_host_allocation_may_fail)
{
	unsigned long nth = 0, made;
	unsigned failures = 0;

	do {
		const struct soma_pool_config config = { .size = sizeof config, TWIN };
		fake = fake_create(CAN, &resource);
		a = new_stream(resource);
		b = new_stream(resource);
		soma__arena_fail_nth(++nth);
		enum soma_status status = soma_pool_create(&config, resource, &p);
		made = ULONG_MAX;
		if (status == SOMA_STATUS_OK) {
			failures += play_failing(&made) > 0;
			close_fake();
			continue;
		}
		ck_is(status, OUT_OF_HOST_MEMORY);
		soma__arena_fail_nth(0);
		failures++;
		soma_resource_release(resource);
		fake_destroy(fake);
	} while (nth <= made);
	ck_assert_uint_gt(failures, 5);
}
END_TEST

START_TEST(every_call_of_the_backend_may_fail)
{
	unsigned failures = 0;

	for (uint64_t nth = 1;; nth++) {
		const struct soma_pool_config config = { .size = sizeof config, TWIN };
		fake = fake_create(CAN, &resource);
		a = new_stream(resource);
		b = new_stream(resource);
		uint64_t at = fake->calls + nth;
		atomic_store(&fake->fail_at, at);
		enum soma_status status = soma_pool_create(&config, resource, &p);
		if (status != SOMA_STATUS_OK) {
			ck_is(status, DRIVER);
			failures++;
			soma_resource_release(resource);
			fake_destroy(fake);
			continue;
		}
		unsigned long made;
		failures += play_failing(&made) > 0;
		bool reached = fake->calls >= at;
		close_fake();
		if (!reached)
			break;
		ck_assert_uint_lt(nth, 1000);
	}
	ck_assert_uint_gt(failures, 10);
}
END_TEST

/* Each allocation is a new peak.  The backend has made the block when the model finds no memory. */
START_TEST(an_allocation_that_the_model_cannot_take_is_in_the_backends_peak_and_no_divergence)
{
	enum { COUNT = 3000 };
	struct soma_allocation **held = calloc(COUNT, sizeof *held);
	unsigned undone = 0;

	open_twin((struct soma_pool_config){ TWIN, .twin_reserved_tolerance = UINT64_MAX });
	for (unsigned i = 0; i < COUNT; i++) {
		uint64_t peak = fake->used_high;
		soma__arena_fail_nth(1 + i % 4);
		enum soma_status status = soma_pool_alloc(p, 1000 + i, a, &held[i]);
		soma__arena_fail_nth(0);
		if (status == SOMA_STATUS_OK)
			continue;
		ck_is(status, OUT_OF_HOST_MEMORY);
		undone += fake->used_high > peak;
		ck_ok(soma_pool_synchronize(p, a));
	}
	ck_assert_uint_gt(undone, 0);
	ck_assert_uint_ge(report().disturbed, undone);
	ck_assert_msg(!report().used_divergence.happened, "%s", report().used_divergence.text);
	for (unsigned i = 0; i < COUNT; i++)
		ck_ok(soma_allocation_release(held[i]));
	free(held);
	close_fake();
}
END_TEST

static bool
make_room(void *context, uint64_t needed, unsigned attempt)
{
	struct soma_allocation **spare = context;

	(void)needed, (void)attempt;
	if (*spare == NULL)
		return false;
	drop(*spare, a);
	*spare = NULL;
	return true;
}

START_TEST(an_owners_callback_may_use_the_pool)
{
	open_twin((struct soma_pool_config){ TWIN, .twin_reserved_tolerance = UINT64_MAX });
	struct soma_allocation *spare = alloc(p, 4 * MIB, a);
	soma_resource_set_pressure_callback(resource, make_room, &spare);
	fake->limit = 5 * MIB;
	struct soma_allocation *x = alloc(p, 3 * MIB, a);
	ck_assert_ptr_null(spare);
	ck_ok(soma_pool_synchronize(p, a));
	ck_assert(!report().used_divergence.happened);
	drop(x, a);
	close_fake();
}
END_TEST

/* One thread is in its callback when another one begins an allocation that then waits for that callback's end. */
struct meeting {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool pressed, begun;
	pthread_t allocator;
	struct soma_allocation *spare;
};

static void
say(struct meeting *m, bool *what)
{
	pthread_mutex_lock(&m->mutex);
	*what = true;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->mutex);
}

static void
wait_until(struct meeting *m, const bool *what)
{
	pthread_mutex_lock(&m->mutex);
	while (!*what)
		pthread_cond_wait(&m->changed, &m->mutex);
	pthread_mutex_unlock(&m->mutex);
}

static void
say_begun(struct soma_backend *backend, enum fake_op op, void *context)
{
	struct meeting *m = context;

	(void)backend;
	if (op == FAKE_ALLOC && pthread_equal(pthread_self(), m->allocator))
		say(m, &m->begun);
}

static bool
make_room_in_a_meeting(void *context, uint64_t needed, unsigned attempt)
{
	struct meeting *m = context;

	say(m, &m->pressed);
	wait_until(m, &m->begun);
	return make_room(&m->spare, needed, attempt);
}

/* Of the resource's, not of the pool's. */
static void *
allocate_beside(void *context)
{
	struct soma_block block = allocate(resource, 3 * MIB, a);

	(void)context;
	deallocate(resource, &block);
	return NULL;
}

START_TEST(an_owners_callback_does_not_wait_for_an_allocation_that_waits_for_it)
{
	struct meeting m = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	pthread_t thread;

	open_twin((struct soma_pool_config){ TWIN, .twin_reserved_tolerance = UINT64_MAX });
	m.allocator = pthread_self();
	m.spare = alloc(p, 4 * MIB, a);
	soma_resource_set_pressure_callback(resource, make_room_in_a_meeting, &m);
	fake->limit = 5 * MIB;
	fake->context = &m;
	fake->before = say_begun;
	ck_assert_int_eq(pthread_create(&thread, NULL, allocate_beside, NULL), 0);
	wait_until(&m, &m.pressed);
	ck_is(try_alloc(p, 6 * MIB, a), OUT_OF_DEVICE_MEMORY);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	fake->before = NULL;
	ck_assert_ptr_null(m.spare);
	/* The free, and the allocation that failed. */
	ck_assert_uint_eq(report().disturbed, 2);
	fake->lies[SOMA_POOL_USED_HIGH] = 1;
	ck_ok(soma_pool_synchronize(p, a));
	ck_assert_uint_eq(report().compared, 1);
	ck_assert_uint_eq(report().used.differences + report().used_high.differences, 0);
	fake->lies[SOMA_POOL_USED_HIGH] = 0;
	soma_pool_reset_peaks(p);
	ck_ok(soma_pool_synchronize(p, a));
	/* What is reserved depends on who of the two came first to the pool's trim. */
	ck_assert_uint_eq(report().compared, 2);
	ck_assert_uint_eq(report().used.differences + report().used_high.differences, 0);
	ck_assert(!report().used_divergence.happened);
	fake->lies[SOMA_POOL_USED_HIGH] = 1;
	ck_ok(soma_pool_synchronize(p, a));
	ck_assert_uint_eq(report().used_high.differences, 1);
	close_fake();
}
END_TEST

static void
use_during_wait(struct soma_backend *backend, enum fake_op op, void *context)
{
	struct soma_allocation **spare = context;

	(void)backend;
	if (op == FAKE_STREAM_SYNCHRONIZE && *spare != NULL) {
		struct soma_allocation *x = *spare;
		*spare = NULL;
		drop(x, b);
	}
}

START_TEST(what_is_done_during_a_wait_is_counted_and_used_still_the_same)
{
	open_twin((struct soma_pool_config){ TWIN });
	struct soma_allocation *spare = alloc(p, 3000, b);
	fake->context = &spare;
	fake->before = use_during_wait;
	ck_ok(soma_pool_synchronize(p, a));
	fake->before = NULL;
	ck_assert_ptr_null(spare);
	ck_assert_uint_eq(report().disturbed, 1);
	ck_ok(soma_pool_synchronize(p, a));
	ck_assert_uint_eq(report().disturbed, 1);
	expect_agreement(2);
	close_fake();
}
END_TEST

#define THREADS 4

static void *
work(void *argument)
{
	uint64_t random = (uint64_t)(uintptr_t)argument, stream = random % 2 ? a : b;

	for (unsigned i = 0; i < 400; i++) {
		struct soma_allocation *x = alloc(p, 1 + draw(&random, 10000), stream);
		if (draw(&random, 4) == 0)
			ck_ok(soma_pool_synchronize(p, stream));
		drop(x, stream);
	}
	return NULL;
}

START_TEST(threads_are_one_at_a_time_and_used_is_the_same_throughout)
{
	pthread_t threads[THREADS];

	open_twin((struct soma_pool_config){ TWIN, .twin_reserved_tolerance = UINT64_MAX });
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	struct soma_twin_report r = report();
	ck_assert_msg(!r.used_divergence.happened, "%s", r.used_divergence.text);
	ck_assert_uint_gt(r.compared, 100);
	close_fake();
}
END_TEST

/* ---- destroyed under its users -------------------------------------------------------- */

/* In the middle of this call of the backend's, once. */
struct ending {
	enum fake_op op;
	bool with_another; /* when a second thread waits for its turn */
	pthread_t other;
	bool done;
};

static void *
record_in_turn(void *argument)
{
	uint64_t seq;

	ck_ok(soma_pool_record_event(argument, a, &seq));
	return NULL;
}

static uint32_t
users(void)
{
	uint32_t count;

	soma__pool_lock(p);
	count = p->users;
	soma__pool_unlock(p);
	return count;
}

static void
destroy_within(struct soma_backend *backend, enum fake_op op, void *context)
{
	struct ending *ending = context;

	(void)backend;
	if (op != ending->op || ending->done)
		return;
	ending->done = true;
	if (ending->with_another) {
		ck_assert_int_eq(pthread_create(&ending->other, NULL, record_in_turn, p), 0);
		while (users() < 2)
			sched_yield();
	}
	ck_ok(soma_pool_destroy(p));
}

static void
begin_ending(struct ending *ending, enum fake_op op)
{
	open_twin((struct soma_pool_config){ TWIN });
	*ending = (struct ending){ .op = op };
	fake->context = ending;
	fake->before = destroy_within;
}

static void
expect_over(const struct ending *ending)
{
	ck_assert(ending->done);
	fake_run_all(fake);
	ck_ok(soma_resource_reap_pending(resource));
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	ck_assert_int_eq(fake->live_count, 0);
	soma_resource_release(resource);
	fake_destroy(fake);
}

START_TEST(a_pool_that_is_destroyed_during_a_call_lasts_until_its_end)
{
	static const enum fake_op within[] = { FAKE_STREAM_SYNCHRONIZE, FAKE_POOL_TRIM, FAKE_POOL_GET,
					       FAKE_POOL_SET };

	for (size_t i = 0; i < sizeof within / sizeof within[0]; i++) {
		struct ending ending;
		begin_ending(&ending, within[i]);
		if (within[i] == FAKE_POOL_TRIM)
			ck_ok(soma_pool_trim(p, 0));
		else if (within[i] == FAKE_POOL_SET)
			ck_ok(soma_pool_set_attribute(p, SOMA_POOL_RELEASE_THRESHOLD, 0));
		else
			ck_ok(soma_pool_synchronize(p, a));
		expect_over(&ending);
	}
}
END_TEST

START_TEST(a_pool_that_is_destroyed_during_an_allocation_or_a_free_lasts_until_its_end)
{
	struct soma_allocation *x;
	struct ending ending;

	begin_ending(&ending, FAKE_ALLOC);
	ck_is(soma_pool_alloc(p, 1000, a, &x), INVALID_VALUE);
	expect_over(&ending);
	begin_ending(&ending, FAKE_FREE);
	ck_ok(soma_allocation_release(alloc(p, 1000, a)));
	expect_over(&ending);
}
END_TEST

START_TEST(who_waits_for_the_turn_keeps_a_pool_that_is_destroyed)
{
	struct ending ending;

	begin_ending(&ending, FAKE_POOL_TRIM);
	ending.with_another = true;
	ck_ok(soma_pool_trim(p, 0));
	pthread_join(ending.other, NULL);
	expect_over(&ending);
}
END_TEST

UNIT_MAIN("twin_faults", every_host_allocation_may_fail, every_call_of_the_backend_may_fail,
	  an_owners_callback_may_use_the_pool,
	  an_owners_callback_does_not_wait_for_an_allocation_that_waits_for_it,
	  an_allocation_that_the_model_cannot_take_is_in_the_backends_peak_and_no_divergence,
	  what_is_done_during_a_wait_is_counted_and_used_still_the_same,
	  threads_are_one_at_a_time_and_used_is_the_same_throughout,
	  a_pool_that_is_destroyed_during_a_call_lasts_until_its_end,
	  a_pool_that_is_destroyed_during_an_allocation_or_a_free_lasts_until_its_end,
	  who_waits_for_the_turn_keeps_a_pool_that_is_destroyed)

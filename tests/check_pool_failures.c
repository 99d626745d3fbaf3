/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left when the backend fails a pool, what a pool holds while the backend may wait, and what it
 * passes on for other devices and processes.
 */
#include "tests/pool_fake.h"

/* ---- failures ------------------------------------------------------------------------------------------ */

START_TEST(a_failed_allocation_of_the_backend_leaves_the_account_as_it_was)
{
	for (int placed = 0; placed < 2; placed++) {
		open_fake(ORDERED, placed ? POOL : BACKEND);
		struct soma_allocation *x = alloc(p, SEGMENT - 1000, a), *y = alloc(p, 1000, b);
		struct soma_pool_stats before = stats_of(p);
		uint64_t next = soma_allocation_ready_seq(y) + 1;
		fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_DRIVER;
		ck_is(try_alloc(p, SEGMENT, b), DRIVER);
		fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
		ck_is(try_alloc(p, SEGMENT, b), OUT_OF_DEVICE_MEMORY);
		ck_assert_uint_eq(soma_error_last()->requested, SEGMENT);
		fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_OK;
		ck_assert(same(stats_of(p), before));
		struct soma_allocation *z = alloc(p, SEGMENT, b);
		ck_assert_uint_eq(soma_allocation_ready_seq(z), next);
		drop(x, a), drop(y, b), drop(z, b);
		close_fake();
	}
}
END_TEST

START_TEST(a_wait_that_cannot_be_queued_fails_the_allocation_and_changes_nothing)
{
	open_fake(SYNCHRONOUS,
		  ((struct soma_pool_config){ .placement = SOMA_PLACEMENT_POOL, .max_size = SEGMENT }));
	uint64_t name = drop(alloc(p, SEGMENT, a), a);
	fake_work(fake_stream(resource, a), 1);
	struct soma_pool_stats before = stats_of(p);
	fake->fail_with[FAKE_EVENT_WAIT] = SOMA_STATUS_DRIVER;
	ck_is(try_alloc(p, SEGMENT, b), DRIVER);
	ck_is(soma_pool_wait_event(p, b, a, 1), DRIVER);
	fake->fail_with[FAKE_EVENT_WAIT] = SOMA_STATUS_OK;
	ck_assert(same(stats_of(p), before));
	struct soma_allocation *x = alloc(p, SEGMENT, b);
	ck_assert_uint_eq(soma_allocation_ptr(x), name);
	ck_assert_uint_eq(soma_allocation_ready_seq(x), 1);
	drop(x, b);
	close_fake();
}
END_TEST

static void
destroy_stream_after_allocation(struct soma_backend *self, enum fake_op op, void *context)
{
	(void)context;
	if (op != FAKE_ALLOC)
		return;
	self->after = NULL;
	ck_ok(soma_resource_stream_destroy(resource, a));
}

START_TEST(a_block_whose_stream_goes_before_the_pool_has_it_is_given_back)
{
	open_fake(ORDERED, BACKEND);
	fake->after = destroy_stream_after_allocation;
	ck_is(try_alloc(p, 1000, a), STREAM_MISUSE);
	ck_assert_uint_eq(stats_of(p).handle_count, 0);
	close_fake();
}
END_TEST

static void
destroy_stream_before_it_is_looked_at(struct soma_backend *self, enum fake_op op, void *context)
{
	(void)context;
	if (op != FAKE_STREAM_INFO)
		return;
	self->before = NULL;
	ck_ok(soma_resource_stream_destroy(resource, b));
}

/* Its owner may destroy a stream while another thread's allocation asks what is free by now. */
START_TEST(a_stream_that_is_looked_at_stays_while_it_is_destroyed)
{
	open_fake(ORDERED, POOL);
	struct soma_allocation *x = alloc(p, SEGMENT, a);
	drop(alloc(p, SEGMENT, b), b);
	fake->before = destroy_stream_before_it_is_looked_at;
	struct soma_allocation *y = alloc(p, SEGMENT, a);
	ck_assert(fake->before == NULL);
	ck_is(try_alloc(p, 1000, b), STREAM_MISUSE);
	drop(x, a), drop(y, a);
	close_fake();
}
END_TEST

START_TEST(a_free_that_the_backend_refuses_leaves_the_block_live)
{
	open_fake(ORDERED, BACKEND);
	struct soma_allocation *x = alloc(p, 1000, a);
	struct soma_pool_stats before = stats_of(p);
	fake->fail_with[FAKE_FREE] = SOMA_STATUS_DRIVER;
	ck_is(soma_pool_free(x, b), DRIVER);
	ck_is(soma_allocation_release(x), DRIVER);
	ck_assert(!soma_allocation_is_freed(x));
	ck_assert(same(stats_of(p), before));
	fake->fail_with[FAKE_FREE] = SOMA_STATUS_OK;
	drop(x, a);
	close_fake();
}
END_TEST

START_TEST(a_segment_that_the_backend_does_not_take_back_goes_the_next_time)
{
	open_fake(ORDERED, POOL);
	ck_ok(soma_pool_free_now(alloc(p, SEGMENT, a)));
	fake->fail_with[FAKE_FREE] = SOMA_STATUS_DRIVER;
	ck_ok(soma_pool_trim(p, 0));
	ck_assert_uint_eq(stats_of(p).reserved, 0);
	ck_assert_int_eq(fake->live_count, 1);
	fake->fail_with[FAKE_FREE] = SOMA_STATUS_OK;
	ck_ok(soma_pool_trim(p, 0));
	ck_assert_int_eq(fake->live_count, 0);
	close_fake();
}
END_TEST

START_TEST(idle_segments_go_back_before_a_request_fails)
{
	open_fake(ORDERED, POOL);
	fake->limit = 3 * SEGMENT;
	struct soma_allocation *kept = alloc(p, SEGMENT, a);
	ck_ok(soma_pool_free_now(alloc(p, 2 * SEGMENT, a)));
	ck_assert_uint_eq(stats_of(p).reserved, 3 * SEGMENT);
	drop(kept, a);
	struct soma_allocation *x = alloc(p, SEGMENT + 512, b);
	ck_assert_uint_eq(stats_of(p).reserved, 3 * SEGMENT);
	/* Now there is something idle, and it is not what is needed. */
	ck_is(try_alloc(p, 3 * SEGMENT, b), OUT_OF_DEVICE_MEMORY);
	drop(x, b);
	fake_run_all(fake);
	x = alloc(p, 3 * SEGMENT, b);
	drop(x, b);
	close_fake();
}
END_TEST

START_TEST(a_budget_that_is_short_says_so_through_the_pool)
{
	struct soma_resource *budget;
	struct soma_reservation *promised;

	fake = fake_create(ORDERED, &resource);
	ck_ok(soma_budget_create(resource, 3 * SEGMENT, &budget));
	p = pool_over(budget, POOL);
	a = new_stream(resource);
	struct soma_allocation *x = alloc(p, SEGMENT, a);
	struct soma_block freed = allocate(resource, SEGMENT, a);
	deallocate(resource, &freed);
	ck_ok(soma_reservation_create(budget, 100, &promised));
	ck_is(try_alloc(p, 2 * SEGMENT, a), OUT_OF_BUDGET);
	ck_assert_uint_eq(soma_error_last()->limit, 3 * SEGMENT);
	ck_assert_uint_eq(soma_error_last()->remaining, SEGMENT);
	ck_assert_uint_eq(soma_error_last()->promised, 100);
	ck_assert_uint_eq(soma_error_last()->retired, SEGMENT);
	soma_reservation_destroy(promised);
	fake_run_all(fake);
	drop(alloc(p, SEGMENT, a), a);
	drop(x, a);
	ck_ok(soma_pool_destroy(p));
	fake_run_all(fake);
	ck_ok(soma_resource_reap_pending(resource));
	ck_assert_uint_eq(soma_budget_reserved(budget), 0);
	soma_resource_release(budget);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* ---- locks --------------------------------------------------------------------------------------------- */

static unsigned waits_seen;

/* The calls that may wait. */
static void
look_at_the_lock(struct soma_backend *backend, enum fake_op op, void *context)
{
	struct soma_pool *pool = *(struct soma_pool **)context;

	(void)backend;
	if (pool == NULL || (op != FAKE_ALLOC && op != FAKE_FREE && op != FAKE_STREAM_SYNCHRONIZE))
		return;
	waits_seen |= 1u << op;
	ck_assert_int_eq(pthread_mutex_trylock(&pool->mutex), 0);
	pthread_mutex_unlock(&pool->mutex);
}

START_TEST(no_lock_is_held_over_a_call_that_may_wait)
{
	for (int placed = 0; placed < 2; placed++) {
		open_fake(ORDERED, placed ? POOL : BACKEND);
		waits_seen = 0;
		fake->context = &p;
		fake->before = look_at_the_lock;
		struct soma_allocation *x = alloc(p, SEGMENT, a), *y = alloc(p, SEGMENT, b);
		drop(x, a), drop(y, b);
		ck_ok(soma_pool_synchronize(p, a));
		ck_ok(soma_pool_set_attribute(p, SOMA_POOL_RELEASE_THRESHOLD, 0));
		ck_ok(soma_pool_synchronize(p, b));
		ck_ok(soma_pool_trim(p, 0));
		ck_assert_uint_eq(waits_seen,
				  1u << FAKE_ALLOC | 1u << FAKE_FREE | 1u << FAKE_STREAM_SYNCHRONIZE);
		fake->before = NULL;
		close_fake();
	}
}
END_TEST

static struct soma_allocation *hostage;

static bool
free_something(void *context, uint64_t bytes_needed, unsigned attempt)
{
	(void)context, (void)bytes_needed, (void)attempt;
	if (hostage == NULL)
		return false;
	/* This pool's: a small block, and the end of a large one. */
	drop(alloc(p, 512, a), a);
	ck_ok(soma_pool_free_now(hostage));
	ck_ok(soma_allocation_release(hostage));
	hostage = NULL;
	ck_ok(soma_pool_trim(p, 0));
	return true;
}

START_TEST(the_owners_callback_may_use_the_pool_that_is_short)
{
	open_fake(ORDERED, POOL);
	fake->limit = 3 * SEGMENT;
	soma_resource_set_pressure_callback(resource, free_something, NULL);
	hostage = alloc(p, 2 * SEGMENT, a);
	struct soma_allocation *x = alloc(p, 3 * SEGMENT, a);
	ck_assert_ptr_null(hostage);
	drop(x, a);
	soma_resource_set_pressure_callback(resource, NULL, NULL);
	close_fake();
}
END_TEST

/* ---- other devices and processes
 * --------------------------------------------------------------------------- */

START_TEST(a_pool_of_the_backend_is_exported_and_no_other)
{
	int descriptor = 0;

	open_fake(ORDERED | SOMA_BACKEND_EXPORTS, BACKEND);
	ck_ok(soma_pool_export(p, SOMA_POOL_HANDLE_POSIX_FD, &descriptor));
	ck_assert_int_eq(descriptor, 77);
	ck_ok(soma_pool_export(p, SOMA_POOL_HANDLE_NONE, &descriptor));
	ck_assert_int_eq(descriptor, -1);
	ck_is(soma_pool_export(p, (enum soma_pool_handle)9, &descriptor), INVALID_VALUE);
	close_fake();
	open_fake(ORDERED | SOMA_BACKEND_EXPORTS, POOL);
	ck_is(soma_pool_export(p, SOMA_POOL_HANDLE_POSIX_FD, &descriptor), NOT_SUPPORTED);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "segments"));
	close_fake();
	open_fake(ORDERED, BACKEND);
	ck_is(soma_pool_export(p, SOMA_POOL_HANDLE_POSIX_FD, &descriptor), NOT_SUPPORTED);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "exports nothing"));
	close_fake();
}
END_TEST

START_TEST(another_device_gets_access_where_it_can_reach_the_memory)
{
	open_fake(ORDERED | SOMA_BACKEND_PEERS, POOL);
	fake->peer = 2;
	ck_ok(soma_pool_peer_access(p, 2, true));
	ck_assert_int_eq(fake->peer_access, SOMA_BACKEND_ACCESS_READ_WRITE);
	ck_ok(soma_pool_peer_access(p, 2, false));
	ck_assert_int_eq(fake->peer_access, SOMA_BACKEND_ACCESS_NONE);
	ck_is(soma_pool_peer_access(p, 1, true), NOT_SUPPORTED);
	ck_is(soma_pool_peer_access(p, 0, true), INVALID_VALUE);
	ck_is(soma_pool_peer_access(p, -1, true), INVALID_VALUE);
	close_fake();
	open_fake(ORDERED, POOL);
	ck_is(soma_pool_peer_access(p, 2, true), NOT_SUPPORTED);
	close_fake();
}
END_TEST

START_TEST(the_drivers_handle_of_a_blocks_stream_is_told)
{
	uint64_t native;

	open_fake(ORDERED, POOL);
	struct soma_allocation *x = alloc(p, 1000, b);
	ck_ok(soma_allocation_stream(x, &native));
	ck_assert_uint_eq(native, 1000 + (uint64_t)fake_stream(resource, b)->index);
	ck_assert_uint_eq(soma_allocation_stream_id(x), b);
	drop(x, b);
	close_fake();
}
END_TEST

UNIT_MAIN("pool_failures", a_failed_allocation_of_the_backend_leaves_the_account_as_it_was,
	  a_wait_that_cannot_be_queued_fails_the_allocation_and_changes_nothing,
	  a_block_whose_stream_goes_before_the_pool_has_it_is_given_back,
	  a_stream_that_is_looked_at_stays_while_it_is_destroyed,
	  a_free_that_the_backend_refuses_leaves_the_block_live,
	  a_segment_that_the_backend_does_not_take_back_goes_the_next_time,
	  idle_segments_go_back_before_a_request_fails, a_budget_that_is_short_says_so_through_the_pool,
	  no_lock_is_held_over_a_call_that_may_wait, the_owners_callback_may_use_the_pool_that_is_short,
	  a_pool_of_the_backend_is_exported_and_no_other,
	  another_device_gets_access_where_it_can_reach_the_memory,
	  the_drivers_handle_of_a_blocks_stream_is_told)

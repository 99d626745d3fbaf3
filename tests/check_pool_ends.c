/* SPDX-License-Identifier: Apache-2.0 */
/* The behaviours 22 to 24: how pools end, the default and the current pool, frees in no order.  What a
 * backend is asked then is in check_pool_fake. */
#include <string.h>

#include "tests/pool_fixture.h"

#define KEEP ((struct soma_pool_config){ .release_threshold = UINT64_MAX })

START_TEST(behaviour_22_a_pool_ends_with_its_last_block_and_a_default_pool_is_not_destroyed)
{
	for (enum kind kind = ALONE; kind < KINDS; kind++) {
		struct setup s = set_up(kind, KEEP);
		uint64_t stream = stream_of(s);
		struct soma_allocation *x = alloc(s.pool, 1000, stream), *y = alloc(s.pool, 2000, stream);
		if (s.resource != NULL)
			fill(s.resource, soma_allocation_device_ptr(y), 9, 2000, stream);
		ck_ok(soma_pool_destroy(s.pool));
		ck_is(try_alloc(s.pool, 1000, stream), INVALID_VALUE);
		drop(x, stream);
		if (s.resource != NULL)
			ck_assert_uint_gt(soma_resource_bytes_outstanding(s.resource), 0);
		ck_ok(soma_pool_free(y, stream));
		/* Nothing was waited for; the memory goes when the stream is past the free. */
		ck_assert(soma_allocation_is_freed(y));
		ck_assert_uint_eq(soma_allocation_size(y), 2000);
		if (kind == POOL_OVER_HOST || kind == BACKEND_OVER_HOST) {
			ck_ok(soma_resource_reap_pending(s.resource));
			ck_assert_uint_gt(soma_resource_bytes_outstanding(s.resource), 0);
			ck_ok(s.resource->terminal->ops->synchronize(s.resource->terminal->self));
			ck_ok(soma_resource_reap_pending(s.resource));
			ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), 0);
		}
		ck_assert(soma_pool_is_ready(y));
		ck_ok(soma_allocation_release(y));
		soma_resource_release(s.resource);
	}
	struct soma_pool *standard;
	ck_ok(soma_pool_default(3, NULL, &standard));
	ck_is(soma_pool_destroy(standard), INVALID_VALUE);
	drop(alloc(standard, 100, 0), 0);
	ck_ok(soma_pool_end_default(3));
}
END_TEST

START_TEST(a_default_pool_that_is_ended_goes_with_its_last_block_and_another_one_can_be_made)
{
	struct soma_resource *host = open_backend("host");
	struct soma_pool *first, *second, *current;

	ck_ok(soma_pool_default(0, host, &first));
	ck_ok(soma_pool_set_current(0, first));
	struct soma_allocation *x = alloc(first, 1000, 0);
	ck_ok(soma_pool_end_default(0));
	ck_is(try_alloc(first, 1000, 0), INVALID_VALUE);
	ck_is(soma_pool_destroy(first), INVALID_VALUE);
	ck_is(soma_pool_current(0, &current), NOT_FOUND);
	ck_is(soma_pool_end_default(0), NOT_FOUND);
	ck_ok(soma_pool_default(0, host, &second));
	ck_assert_ptr_ne(first, second);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(host), SEGMENT);
	memset((void *)(uintptr_t)soma_allocation_device_ptr(x), 1, 1000);
	struct soma_allocation *y = alloc(second, 1000, 0);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(host), 2 * SEGMENT);
	drop(x, 0);
	ck_ok(soma_pool_synchronize(second, 0));
	ck_ok(soma_resource_reap_pending(host));
	ck_assert_uint_eq(soma_resource_bytes_outstanding(host), SEGMENT);
	drop(y, 0);
	ck_ok(soma_pool_end_default(0));
	soma_resource_release(host);
}
END_TEST

START_TEST(behaviour_23_destroying_the_current_pool_makes_the_default_one_current)
{
	struct soma_pool *standard, *current,
		*other = pool_over(NULL, (struct soma_pool_config){ .device = 3 });

	ck_is(soma_pool_current(3, &current), NOT_FOUND);
	ck_ok(soma_pool_default(3, NULL, &standard));
	ck_ok(soma_pool_current(3, &current));
	ck_assert_ptr_eq(current, standard);
	ck_ok(soma_pool_set_current(3, other));
	ck_ok(soma_pool_current(3, &current));
	ck_assert_ptr_eq(current, other);
	ck_ok(soma_pool_destroy(other));
	ck_ok(soma_pool_current(3, &current));
	ck_assert_ptr_eq(current, standard);
	ck_is(soma_pool_current(4, &current), NOT_FOUND);
	ck_ok(soma_pool_end_default(3));
}
END_TEST

START_TEST(behaviour_24_a_guard_reports_a_free_in_no_order_while_work_is_pending)
{
	const struct soma_backend_option callback = { "guard.on_error", "callback" };
	const struct soma__backend_config config = {
		.name = "guard:host", .search = STACK_FOLDERS, .option_count = 1, .options = &callback
	};
	struct soma_backend_guard_stats stats = { .size = sizeof stats };
	struct setup s = { 0 };

	ck_ok(soma__resource_open(&config, &s.resource));
	s.pool = pool_over(s.resource, KEEP);
	uint64_t a = stream_of(s);
	struct soma_allocation *x = alloc(s.pool, 1000, a), *y = alloc(s.pool, 1000, a);
	ck_ok(soma_pool_synchronize(s.pool, a));
	ck_ok(soma_pool_free_now(x));
	ck_ok(s.resource->terminal->ops->guard_stats(s.resource->terminal->self, &stats));
	ck_assert_uint_eq(stats.reports, 0);
	struct soma_use use = { .size = sizeof use };
	ck_ok(soma_resource_prepare_use(s.resource, y->id, a, SOMA_ACCESS_WRITE, &use));
	fill(s.resource, soma_allocation_device_ptr(y), 1, 1000, a);
	ck_ok(soma_resource_finish_use(s.resource, &use, 1));
	ck_ok(soma_pool_free_now(y));
	ck_ok(s.resource->terminal->ops->guard_stats(s.resource->terminal->self, &stats));
	ck_assert_uint_eq(stats.reports, 1);
	ck_ok(soma_allocation_release(x));
	ck_ok(soma_allocation_release(y));
	take_down(s);
}
END_TEST

/* ---- destroyed under its users ------------------------------------------------------------------------ */

struct leaver {
	struct soma_pool *pool;
	struct soma_allocation *last;
	unsigned calls;
};

/* What another thread may do while an allocation waits for the resource. */
static bool
free_and_destroy(void *context, uint64_t bytes_needed, unsigned attempt)
{
	struct leaver *l = context;

	(void)bytes_needed, (void)attempt;
	l->calls++;
	ck_ok(soma_pool_free(l->last, 0));
	ck_ok(soma_pool_destroy(l->pool));
	return false;
}

START_TEST(a_pool_that_is_destroyed_during_an_allocation_lasts_until_its_end)
{
	for (enum soma_placement placement = SOMA_PLACEMENT_BACKEND; placement <= SOMA_PLACEMENT_POOL;
	     placement++) {
		struct soma_resource *host = open_backend("host"), *budget;
		ck_ok(soma_budget_create(host, SEGMENT, &budget));
		struct leaver l = { .pool = pool_over(budget,
						      (struct soma_pool_config){ .placement = placement }) };
		l.last = alloc(l.pool, SEGMENT, 0);
		soma_resource_set_pressure_callback(budget, free_and_destroy, &l);
		ck_assert_int_ne(try_alloc(l.pool, SEGMENT, 0), SOMA_STATUS_OK);
		ck_assert_uint_eq(l.calls, 1);
		ck_ok(host->terminal->ops->synchronize(host->terminal->self));
		ck_ok(soma_resource_reap_pending(host));
		ck_assert_uint_eq(soma_resource_bytes_outstanding(host), 0);
		ck_ok(soma_allocation_release(l.last));
		soma_resource_release(budget);
		soma_resource_release(host);
	}
}
END_TEST

START_TEST(of_a_pool_that_is_over_the_handles_alone_answer)
{
	for (enum kind kind = ALONE; kind < KINDS; kind++) {
		struct setup s = set_up(kind, KEEP);
		struct soma_pool_stats stats = { .size = sizeof stats };
		struct soma_allocation *x = alloc(s.pool, 1000, 0), *found;
		uint64_t ptr = soma_allocation_ptr(x), value = 77;
		ck_ok(soma_pool_free(x, 0));
		ck_ok(soma_pool_destroy(s.pool));
		soma_resource_release(s.resource);
		ck_assert_ptr_eq(soma_allocation_pool(x), s.pool);
		ck_assert_uint_eq(soma_allocation_ptr(x), ptr);
		ck_is(try_alloc(s.pool, 1000, 0), INVALID_VALUE);
		ck_is(soma_pool_free(x, 0), USE_AFTER_FREE);
		ck_is(soma_pool_free_ptr(s.pool, ptr, 0), INVALID_VALUE);
		ck_is(soma_pool_find(s.pool, ptr, &found), NOT_FOUND);
		ck_is(soma_pool_destroy(s.pool), INVALID_VALUE);
		ck_is(soma_pool_synchronize(s.pool, 0), INVALID_VALUE);
		ck_is(soma_pool_record_event(s.pool, 0, &value), INVALID_VALUE);
		ck_is(soma_pool_wait_event(s.pool, 0, 0, 0), INVALID_VALUE);
		ck_is(soma_pool_trim(s.pool, 0), INVALID_VALUE);
		ck_is(soma_pool_stats(s.pool, &stats), INVALID_VALUE);
		ck_is(soma_pool_get_attribute(s.pool, SOMA_POOL_USED_HIGH, &value), INVALID_VALUE);
		ck_is(soma_pool_set_attribute(s.pool, SOMA_POOL_USED_HIGH, 0), INVALID_VALUE);
		ck_is(soma_pool_peer_access(s.pool, 1, true), INVALID_VALUE);
		ck_is(soma_pool_export(s.pool, SOMA_POOL_HANDLE_POSIX_FD, &(int){ 0 }), INVALID_VALUE);
		ck_is(soma_pool_set_current(0, s.pool), INVALID_VALUE);
		soma_pool_reset_peaks(s.pool);
		ck_assert_uint_eq(value, 77);
		ck_ok(soma_allocation_release(x));
	}
}
END_TEST

START_TEST(a_destroyed_pool_cannot_become_the_current_one)
{
	struct soma_pool *pool = pool_over(NULL, KEEP), *current;
	struct soma_allocation *x = alloc(pool, 1000, 0);

	ck_ok(soma_pool_destroy(pool));
	ck_is(soma_pool_set_current(0, pool), INVALID_VALUE);
	drop(x, 0);
	ck_is(soma_pool_current(0, &current), NOT_FOUND);
}
END_TEST

UNIT_MAIN("pool_ends", behaviour_22_a_pool_ends_with_its_last_block_and_a_default_pool_is_not_destroyed,
	  a_default_pool_that_is_ended_goes_with_its_last_block_and_another_one_can_be_made,
	  behaviour_23_destroying_the_current_pool_makes_the_default_one_current,
	  behaviour_24_a_guard_reports_a_free_in_no_order_while_work_is_pending,
	  a_pool_that_is_destroyed_during_an_allocation_lasts_until_its_end,
	  of_a_pool_that_is_over_the_handles_alone_answer, a_destroyed_pool_cannot_become_the_current_one)

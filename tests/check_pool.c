/* SPDX-License-Identifier: Apache-2.0 */
/* Pools alone, and what is the same for all: configs, attributes, what is not to be had, default and current
 * pools. */
#include <string.h>

#include "tests/pool_fixture.h"

static enum soma_status
try_create(struct soma_pool_config config, struct soma_resource *resource)
{
	struct soma_pool *pool = NULL;
	enum soma_status status;

	config.size = config.size != 0 ? config.size : sizeof config;
	status = soma_pool_create(&config, resource, &pool);
	ck_ok(soma_pool_destroy(pool));
	return status;
}

START_TEST(a_config_is_refused_with_the_reason)
{
	struct soma_resource *host = open_backend("host");
	struct soma_policy policy = *soma_policy_preset("cuda");

	ck_is(try_create((struct soma_pool_config){ .size = 3 }, NULL), INVALID_VALUE);
	ck_is(try_create((struct soma_pool_config){ .device = -1 }, NULL), INVALID_VALUE);
	ck_is(try_create((struct soma_pool_config){ .device = 1 }, host), INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "device is 1"));
	ck_is(try_create((struct soma_pool_config){ .placement = (enum soma_placement)3 }, host),
	      INVALID_VALUE);
	ck_is(try_create((struct soma_pool_config){ .max_size = 10, .initial_size = 11 }, NULL),
	      INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "initial size of 11"));
	ck_is(try_create((struct soma_pool_config){ .max_size = 10, .release_threshold = 11 }, NULL),
	      INVALID_VALUE);
	ck_is(try_create((struct soma_pool_config){ .tag = SOMA_TAG_COUNT_MAX }, host), INVALID_VALUE);
	policy.alignment = 100;
	ck_is(try_create((struct soma_pool_config){ .policy = &policy }, NULL), INVALID_VALUE);
	ck_is(try_create((struct soma_pool_config){ .policy = soma_policy_preset("strict"),
						    .initial_size = MIB },
			 NULL),
	      NOT_SUPPORTED);
	ck_is(try_create((struct soma_pool_config){ .initial_size = UINT64_MAX }, NULL), INVALID_VALUE);
	ck_ok(try_create((struct soma_pool_config){ .device = 7, .max_size = 10, .release_threshold = 10 },
			 NULL));
	ck_ok(try_create((struct soma_pool_config){ .placement = SOMA_PLACEMENT_POOL }, NULL));
	soma_resource_release(host);
}
END_TEST

START_TEST(without_a_config_a_pool_has_the_defaults_of_the_driver)
{
	struct soma_pool *pool;

	ck_ok(soma_pool_create(NULL, NULL, &pool));
	ck_assert_int_eq(soma_pool_device(pool), 0);
	ck_assert_int_eq(soma_pool_placement(pool), SOMA_PLACEMENT_AUTO);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES), 1);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC), 1);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES), 1);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_RELEASE_THRESHOLD), 0);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_RESERVED_CURRENT), 0);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_USED_HIGH), 0);
	ck_ok(soma_pool_destroy(pool));
	ck_ok(soma_pool_destroy(NULL));
}
END_TEST

START_TEST(an_initial_size_is_reserved_and_serves_the_first_block)
{
	for (enum kind kind = ALONE; kind < KINDS; kind++) {
		struct setup s = set_up(kind, (struct soma_pool_config){ .initial_size = SEGMENT + 1,
									 .release_threshold = UINT64_MAX });
		ck_assert_uint_eq(stats_of(s.pool).reserved, 2 * SEGMENT);
		if (kind == POOL_OVER_HOST)
			ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), 2 * SEGMENT);
		drop(alloc(s.pool, 2 * SEGMENT, 0), 0);
		ck_assert_uint_eq(stats_of(s.pool).segments_acquired, 0);
		take_down(s);
	}
}
END_TEST

START_TEST(attributes_take_what_they_may)
{
	struct soma_pool *pool = pool_over(NULL, (struct soma_pool_config){ 0 });
	uint64_t value;

	for (int which = SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES;
	     which <= SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES; which++) {
		ck_ok(soma_pool_set_attribute(pool, (enum soma_pool_attribute)which, 0));
		ck_assert_uint_eq(attribute(pool, (enum soma_pool_attribute)which), 0);
		ck_is(soma_pool_set_attribute(pool, (enum soma_pool_attribute)which, 2), INVALID_VALUE);
		ck_ok(soma_pool_set_attribute(pool, (enum soma_pool_attribute)which, 1));
		ck_assert_uint_eq(attribute(pool, (enum soma_pool_attribute)which), 1);
	}
	ck_ok(soma_pool_set_attribute(pool, SOMA_POOL_RELEASE_THRESHOLD, UINT64_MAX));
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_RELEASE_THRESHOLD), UINT64_MAX);
	ck_is(soma_pool_get_attribute(pool, (enum soma_pool_attribute)9, &value), INVALID_VALUE);
	ck_is(soma_pool_set_attribute(pool, (enum soma_pool_attribute)0, 0), INVALID_VALUE);
	ck_ok(soma_pool_destroy(pool));
}
END_TEST

START_TEST(a_pool_for_each_stream_has_no_reuse_by_order)
{
	struct soma_pool *pool =
		pool_over(NULL, (struct soma_pool_config){ .policy = soma_policy_preset("pytorch") });

	ck_assert_uint_eq(attribute(pool, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES), 0);
	ck_is(soma_pool_set_attribute(pool, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1), NOT_SUPPORTED);
	ck_is(soma_pool_set_attribute(pool, SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1), NOT_SUPPORTED);
	ck_ok(soma_pool_set_attribute(pool, SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0));
	ck_ok(soma_pool_set_attribute(pool, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC, 0));
	ck_ok(soma_pool_destroy(pool));
}
END_TEST

/* What happened before counts: an order that was made, and what has executed. */
START_TEST(a_reuse_that_is_switched_on_uses_what_is_known)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	struct soma_pool *p = s.pool;
	uint64_t a = stream_of(s), b = stream_of(s), c = stream_of(s);

	for (int which = 1; which <= 3; which++)
		ck_ok(soma_pool_set_attribute(p, (enum soma_pool_attribute)which, 0));
	uint64_t first = drop(alloc(p, SEGMENT, a), a);
	order_after(p, b, a);
	struct soma_allocation *x = alloc(p, SEGMENT, b);
	ck_assert_uint_ne(soma_allocation_ptr(x), first);
	ck_ok(soma_pool_set_attribute(p, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1));
	struct soma_allocation *y = alloc(p, SEGMENT, b);
	ck_assert_uint_eq(soma_allocation_ptr(y), first);
	ck_ok(soma_pool_set_attribute(p, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0));

	uint64_t second = drop(x, b);
	(void)record(p, b);
	step(s.resource, a);
	step(s.resource, b);
	x = alloc(p, SEGMENT, c);
	ck_assert_uint_ne(soma_allocation_ptr(x), second);
	ck_ok(soma_pool_set_attribute(p, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC, 1));
	struct soma_allocation *z = alloc(p, SEGMENT, c);
	ck_assert_uint_eq(soma_allocation_ptr(z), second);
	drop(x, c), drop(y, b), drop(z, c);
	take_down(s);
}
END_TEST

START_TEST(a_struct_of_another_size_is_refused)
{
	struct soma_pool *pool = pool_over(NULL, (struct soma_pool_config){ 0 });
	struct soma_pool_stats stats = { .size = 8 };

	ck_is(soma_pool_stats(pool, &stats), INVALID_VALUE);
	ck_ok(soma_pool_destroy(pool));
}
END_TEST

/* ---- over a guard, and what is not to be had --------------------------------------------------- */

START_TEST(a_guard_sees_the_pools_blocks)
{
	struct setup s = set_up(OVER_GUARD, (struct soma_pool_config){ 0 });
	struct soma_pool_config config = { .size = sizeof config, .placement = SOMA_PLACEMENT_POOL };
	struct soma_backend_guard_stats stats = { .size = sizeof stats };
	struct soma_pool *pool;

	ck_assert_int_eq(soma_pool_placement(s.pool), SOMA_PLACEMENT_BACKEND);
	ck_is(soma_pool_create(&config, s.resource, &pool), NOT_SUPPORTED);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "guard"));
	struct soma_allocation *x = alloc(s.pool, 100, 0), *y = alloc(s.pool, 200, 0);
	ck_ok(s.resource->terminal->ops->guard_stats(s.resource->terminal->self, &stats));
	ck_assert_uint_eq(stats.live_blocks, 2);
	drop(x, 0), drop(y, 0);
	take_down(s);
}
END_TEST

START_TEST(what_a_pool_alone_does_not_have_is_said)
{
	struct soma_pool *pool = pool_over(NULL, (struct soma_pool_config){ 0 });
	int descriptor;

	ck_is(soma_pool_export(pool, SOMA_POOL_HANDLE_POSIX_FD, &descriptor), NOT_SUPPORTED);
	ck_ok(soma_pool_export(pool, SOMA_POOL_HANDLE_NONE, &descriptor));
	ck_assert_int_eq(descriptor, -1);
	ck_is(soma_pool_peer_access(pool, 1, true), NOT_SUPPORTED);
	ck_ok(soma_pool_destroy(pool));
}
END_TEST

/* ---- default and current --------------------------------------------------------------------------- */

START_TEST(a_device_has_one_default_pool)
{
	struct soma_resource *host = open_backend("host"), *other = open_backend("host");
	struct soma_pool *x, *y;

	ck_ok(soma_pool_default(0, host, &x));
	ck_ok(soma_pool_default(0, host, &y));
	ck_assert_ptr_eq(x, y);
	ck_ok(soma_pool_default(0, NULL, &y));
	ck_assert_ptr_eq(x, y);
	ck_is(soma_pool_default(0, other, &y), INVALID_VALUE);
	struct soma_resource *budget;
	ck_ok(soma_budget_create(host, 1 << 30, &budget));
	ck_ok(soma_pool_default(0, budget, &y));
	ck_assert_ptr_eq(x, y);
	soma_resource_release(budget);
	ck_is(soma_pool_default(-1, NULL, &y), INVALID_VALUE);
	ck_is(soma_pool_default(1, host, &y), INVALID_VALUE);
	ck_is(soma_pool_current(1, &y), NOT_FOUND);
	ck_is(soma_pool_destroy(x), INVALID_VALUE);
	ck_assert_int_eq(soma_pool_placement(x), SOMA_PLACEMENT_POOL);
	ck_ok(soma_pool_end_default(0));
	ck_is(soma_pool_current(0, &y), NOT_FOUND);
	ck_is(soma_pool_end_default(0), NOT_FOUND);
	ck_is(soma_pool_end_default(-1), INVALID_VALUE);
	soma_resource_release(host);
	soma_resource_release(other);
}
END_TEST

START_TEST(the_current_pool_is_one_of_the_device)
{
	struct soma_pool *x = pool_over(NULL, (struct soma_pool_config){ .device = 2 }), *y;

	ck_is(soma_pool_set_current(1, x), INVALID_VALUE);
	ck_is(soma_pool_set_current(-1, NULL), INVALID_VALUE);
	ck_ok(soma_pool_set_current(2, x));
	ck_ok(soma_pool_current(2, &y));
	ck_assert_ptr_eq(x, y);
	ck_ok(soma_pool_set_current(2, NULL));
	ck_is(soma_pool_current(2, &y), NOT_FOUND);
	ck_ok(soma_pool_set_current(2, x));
	ck_ok(soma_pool_destroy(x));
	ck_is(soma_pool_current(2, &y), NOT_FOUND);
}
END_TEST

UNIT_MAIN("pool", a_config_is_refused_with_the_reason, without_a_config_a_pool_has_the_defaults_of_the_driver,
	  an_initial_size_is_reserved_and_serves_the_first_block, attributes_take_what_they_may,
	  a_pool_for_each_stream_has_no_reuse_by_order, a_reuse_that_is_switched_on_uses_what_is_known,
	  a_struct_of_another_size_is_refused, a_guard_sees_the_pools_blocks,
	  what_a_pool_alone_does_not_have_is_said, a_device_has_one_default_pool,
	  the_current_pool_is_one_of_the_device)

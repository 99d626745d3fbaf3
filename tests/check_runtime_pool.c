/* SPDX-License-Identifier: Apache-2.0 */
/* A pool as the configuration string wants it. */
#include "tests/runtime_fixture.h"

static struct soma_pool *
open_pool(struct soma_runtime *runtime)
{
	struct soma_pool *pool;

	OK(soma_runtime_pool_create(runtime, &pool));
	return pool;
}

static uint64_t
attribute(struct soma_pool *pool, enum soma_pool_attribute which)
{
	uint64_t value;

	OK(soma_pool_get_attribute(pool, which, &value));
	return value;
}

START_TEST(a_pool_follows_the_backend_unless_it_is_told)
{
	static const struct {
		const char *conf;
		enum soma_placement placement;
	} cases[] = {
		{ "backend=host", SOMA_PLACEMENT_POOL },
		{ "backend=host,placement=backend", SOMA_PLACEMENT_BACKEND },
		{ "backend=guard:host", SOMA_PLACEMENT_BACKEND },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct soma_runtime *runtime = open_runtime(cases[i].conf);
		struct soma_pool *pool = open_pool(runtime);

		ck_assert_msg(soma_pool_placement(pool) == cases[i].placement, "%s", cases[i].conf);
		OK(soma_pool_destroy(pool));
		soma_runtime_release(runtime);
	}
}
END_TEST

START_TEST(the_strings_limits_are_the_pools)
{
	struct soma_runtime *runtime = open_runtime("backend=host,max_pool_size=64M,release_threshold=32M");
	struct soma_pool *pool = open_pool(runtime);
	struct soma_allocation *a;

	ck_assert_uint_eq(attribute(pool, SOMA_POOL_RELEASE_THRESHOLD), 32 << 20);
	ck_assert_int_eq(soma_pool_alloc(pool, 65 << 20, 0, &a), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	OK(soma_pool_alloc(pool, 64 << 20, 0, &a));
	ck_assert_uint_eq(soma_resource_bytes_outstanding(soma_runtime_resource(runtime)), 64 << 20);
	OK(soma_allocation_release(a));
	OK(soma_pool_destroy(pool));
	soma_runtime_release(runtime);
}
END_TEST

START_TEST(a_pool_keeps_its_memory_unless_it_is_told)
{
	struct soma_runtime *runtime = open_runtime("backend=host");
	struct soma_pool *pool = open_pool(runtime);
	struct soma_allocation *a;

	OK(soma_pool_alloc(pool, 1 << 20, 0, &a));
	OK(soma_allocation_release(a));
	OK(soma_pool_synchronize(pool, 0));
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_RESERVED_CURRENT), 32 << 20);
	OK(soma_pool_destroy(pool));
	soma_runtime_release(runtime);
}
END_TEST

START_TEST(a_pool_outlives_its_runtime)
{
	struct soma_runtime *runtime = open_runtime("backend=host,budget=64M");
	struct soma_pool *pool = open_pool(runtime);
	struct soma_allocation *a;

	soma_runtime_release(runtime);
	OK(soma_pool_alloc(pool, 1000, 0, &a));
	memset((void *)(uintptr_t)soma_allocation_device_ptr(a), 7, 1000);
	OK(soma_allocation_release(a));
	OK(soma_pool_destroy(pool));
}
END_TEST

START_TEST(a_pool_under_a_guard_is_refused_with_the_reason)
{
	struct soma_runtime *runtime = open_runtime("backend=guard:host,placement=pool");
	struct soma_pool *pool;

	ck_assert_int_eq(soma_runtime_pool_create(runtime, &pool), SOMA_STATUS_NOT_SUPPORTED);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "guard"));
	ck_assert_int_eq(soma_runtime_pool_create(NULL, &pool), SOMA_STATUS_INVALID_VALUE);
	soma_runtime_release(runtime);
}
END_TEST

UNIT_MAIN("runtime pool", a_pool_follows_the_backend_unless_it_is_told, the_strings_limits_are_the_pools,
	  a_pool_keeps_its_memory_unless_it_is_told, a_pool_outlives_its_runtime,
	  a_pool_under_a_guard_is_refused_with_the_reason)

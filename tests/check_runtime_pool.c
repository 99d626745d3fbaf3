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

/* ---- default pools --------------------------------------------------------------------- */

#define TRACE "check_runtime_pool.csv"

/* What an open stack has of its own, the trace's writer and its file, is gone. */
static int threads, descriptors;

/* After one that was opened and closed: a sanitizer has its thread, and modules are loaded. */
static void
look_before(void)
{
	struct soma_runtime *runtime = open_runtime("backend=host,trace=" TRACE);
	struct soma_block block = take_block(soma_runtime_resource(runtime), 1000, 0);
	int open = count_threads();

	give_block(soma_runtime_resource(runtime), &block);
	soma_runtime_release(runtime);
	wait_for_threads(open - 1);
	threads = count_threads();
	descriptors = count_entries("/proc/self/fd");
}

static void
expect_closed(void)
{
	struct soma_pool *pool;

	expect_threads(threads);
	ck_assert_int_eq(count_entries("/proc/self/fd"), descriptors);
	ck_assert_int_eq(soma_pool_current(0, &pool), SOMA_STATUS_NOT_FOUND);
}

static unsigned
count_lines(const char *what)
{
	char line[256];
	unsigned count = 0;
	FILE *file = fopen(TRACE, "r");

	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof line, file) != NULL)
		count += strstr(line, what) != NULL;
	fclose(file);
	return count;
}

START_TEST(a_default_pool_ends_with_its_runtime)
{
	look_before();
	for (int i = 0; i < 2; i++) {
		struct soma_runtime *runtime = open_runtime("backend=host,trace=" TRACE);
		struct soma_allocation *a;
		struct soma_pool *pool;

		OK(soma_pool_default(0, soma_runtime_resource(runtime), &pool));
		OK(soma_pool_alloc(pool, 1000, 0, &a));
		OK(soma_allocation_release(a));
		soma_runtime_release(runtime);
		expect_closed();
		ck_assert_uint_eq(count_lines(",alloc,"), 1);
		ck_assert_uint_eq(count_lines(",free,"), 1);
	}
	remove(TRACE);
}
END_TEST

START_TEST(a_default_pools_block_keeps_what_it_lies_in_until_it_is_freed)
{
	struct soma_allocation *a, *b;
	struct soma_pool *pool;

	look_before();
	struct soma_runtime *runtime = open_runtime("backend=host,trace=" TRACE);
	OK(soma_pool_default(0, soma_runtime_resource(runtime), &pool));
	OK(soma_pool_alloc(pool, 1000, 0, &a));
	soma_runtime_release(runtime);
	ck_assert_int_eq(soma_pool_alloc(pool, 1000, 0, &b), SOMA_STATUS_INVALID_VALUE);
	memset((void *)(uintptr_t)soma_allocation_device_ptr(a), 7, 1000);
	ck_assert_int_ne(count_threads(), threads);
	OK(soma_allocation_release(a));
	expect_closed();
	remove(TRACE);
}
END_TEST

START_TEST(a_default_pool_is_there_until_the_last_reference_to_the_devices_runtime)
{
	struct soma_runtime *first, *second;
	struct soma_pool *pool, *current;

	setenv("SOMA_CONF", "backend_path=" RUNTIME_FOLDERS ",backend=host", 1);
	OK(soma_runtime_for_device(0, &first));
	OK(soma_runtime_for_device(0, &second));
	OK(soma_pool_default(0, soma_runtime_resource(first), &pool));
	soma_runtime_release(first);
	OK(soma_pool_current(0, &current));
	ck_assert_ptr_eq(current, pool);
	OK(soma_pool_default(0, soma_runtime_resource(second), &current));
	ck_assert_ptr_eq(current, pool);
	soma_runtime_release(second);
	ck_assert_int_eq(soma_pool_current(0, &current), SOMA_STATUS_NOT_FOUND);
}
END_TEST

/* Another stack of the device has not made it, and pools that the program made are its own. */
START_TEST(a_runtime_ends_no_other_pool)
{
	struct soma_runtime *runtime = open_runtime("backend=host"), *other = open_runtime("backend=host");
	struct soma_pool *pool, *own, *current;

	OK(soma_pool_default(0, soma_runtime_resource(runtime), &pool));
	own = open_pool(other);
	OK(soma_pool_set_current(0, own));
	soma_runtime_release(other);
	OK(soma_pool_current(0, &current));
	ck_assert_ptr_eq(current, own);
	OK(soma_pool_destroy(own));
	OK(soma_pool_current(0, &current));
	ck_assert_ptr_eq(current, pool);
	soma_runtime_release(runtime);
	ck_assert_int_eq(soma_pool_current(0, &current), SOMA_STATUS_NOT_FOUND);
	OK(soma_pool_default(0, NULL, &pool));
	runtime = open_runtime("backend=host");
	soma_runtime_release(runtime);
	OK(soma_pool_current(0, &current));
	OK(soma_pool_end_default(0));
}
END_TEST

/* A program that keeps the resource longer than the runtime has to say when it is done with the pool. */
START_TEST(a_default_pool_over_a_resource_that_outlives_its_runtime_is_ended_by_a_call)
{
	struct soma_runtime *runtime = open_runtime("backend=host");
	struct soma_resource *resource = soma_resource_retain(soma_runtime_resource(runtime));
	struct soma_pool *pool;
	struct soma_allocation *a;

	soma_runtime_release(runtime);
	OK(soma_pool_default(0, resource, &pool));
	soma_resource_release(resource);
	OK(soma_pool_alloc(pool, 1000, 0, &a));
	OK(soma_allocation_release(a));
	OK(soma_pool_end_default(0));
	ck_assert_int_eq(soma_pool_end_default(0), SOMA_STATUS_NOT_FOUND);
}
END_TEST

UNIT_MAIN("runtime pool", a_pool_follows_the_backend_unless_it_is_told, the_strings_limits_are_the_pools,
	  a_pool_keeps_its_memory_unless_it_is_told, a_pool_outlives_its_runtime,
	  a_pool_under_a_guard_is_refused_with_the_reason, a_default_pool_ends_with_its_runtime,
	  a_default_pools_block_keeps_what_it_lies_in_until_it_is_freed,
	  a_default_pool_is_there_until_the_last_reference_to_the_devices_runtime,
	  a_runtime_ends_no_other_pool,
	  a_default_pool_over_a_resource_that_outlives_its_runtime_is_ended_by_a_call)

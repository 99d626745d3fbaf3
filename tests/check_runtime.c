/* SPDX-License-Identifier: Apache-2.0 */
/* Runtimes: what the configuration makes of them, what they say of themselves, and what is left after. */
#include "tests/runtime_fixture.h"

#include <inttypes.h>
#include <unistd.h>

/* ---- the stack --------------------------------------------------------------------- */

START_TEST(an_empty_configuration_opens_what_there_is)
{
	struct soma_runtime *runtime = open_runtime("");
	struct soma_resource *resource = soma_runtime_resource(runtime);
	struct soma_block block = take_block(resource, 1000, 0);

	ck_assert_str_eq(soma_runtime_backend(runtime), "host");
	ck_assert_int_eq(soma_runtime_device(runtime), 0);
	ck_assert_uint_eq(soma_budget_limit(resource), UINT64_MAX);
	memset((void *)(uintptr_t)block.ptr, 1, 1000);
	give_block(resource, &block);
	OK(soma_runtime_flush(runtime));
	soma_runtime_release(runtime);
}
END_TEST

static void
read_file(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "r");

	ck_assert_ptr_nonnull(file);
	text[fread(text, 1, size - 1, file)] = '\0';
	fclose(file);
}

static unsigned
count_lines(const char *text, const char *part)
{
	unsigned count = 0;

	for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
		count++;
	return count;
}

/* A refused request reaches the trace, so the budget is over it. */
START_TEST(the_string_stacks_budget_over_trace_over_backend)
{
	struct soma_runtime *runtime =
		open_runtime("backend=guard:host,budget=1M,trace=check_runtime.csv,guard.on_error=callback");
	struct soma_resource *resource = soma_runtime_resource(runtime);
	struct soma_block block = take_block(resource, 1 << 20, 0), other = { .size = sizeof other };
	char text[4096];

	ck_assert_str_eq(soma_runtime_backend(runtime), "guard:host");
	ck_assert_uint_eq(soma_budget_limit(resource), 1 << 20);
	ck_assert_uint_eq(soma_budget_remaining(resource), 0);
	ck_assert_int_eq(soma_resource_allocate(resource, 1, 0, &other), SOMA_STATUS_OUT_OF_BUDGET);
	give_block(resource, &block);
	OK(soma_runtime_flush(runtime));
	read_file("check_runtime.csv", text, sizeof text);
	ck_assert_uint_eq(count_lines(text, ",alloc,"), 1);
	ck_assert_uint_eq(count_lines(text, ",alloc_failed,"), 1);
	ck_assert_uint_eq(count_lines(text, ",free,"), 1);
	ck_assert_ptr_nonnull(resource->budget);
	ck_assert_ptr_eq(resource->observer, resource->next);
	ck_assert_ptr_null(resource->next->next->next);
	soma_runtime_release(runtime);
	unlink("check_runtime.csv");
}
END_TEST

START_TEST(a_release_writes_the_trace_to_its_end)
{
	struct soma_runtime *runtime =
		open_runtime("backend=host,trace=check_runtime_end.csv,trace_flush_ms=600000");
	struct soma_resource *resource = soma_runtime_resource(runtime);
	char text[65536];

	for (int i = 0; i < 100; i++) {
		struct soma_block block = take_block(resource, 100, 0);
		give_block(resource, &block);
	}
	soma_runtime_release(runtime);
	read_file("check_runtime_end.csv", text, sizeof text);
	ck_assert_uint_eq(count_lines(text, ",alloc,"), 100);
	ck_assert_uint_eq(count_lines(text, ",free,"), 100);
	unlink("check_runtime_end.csv");
}
END_TEST

START_TEST(a_trace_is_named_after_device_and_process)
{
	struct soma_runtime *runtime = open_runtime("backend=host,trace=check_%d_%p_100%%.csv");
	char path[64];

	snprintf(path, sizeof path, "check_0_%ld_100%%.csv", (long)getpid());
	ck_assert_int_eq(access(path, R_OK), 0);
	soma_runtime_release(runtime);
	unlink(path);
}
END_TEST

static uint64_t
attribute(struct soma_runtime *runtime, enum soma_backend_attribute which)
{
	uint64_t value;

	OK(runtime->backend->ops->pool_get(runtime->backend->self, which, &value));
	return value;
}

START_TEST(the_release_threshold_reaches_a_backend_with_a_pool)
{
	static const struct {
		const char *conf;
		uint64_t bytes;
	} cases[] = {
		{ "backend=host", 256 << 20 },
		{ "backend=host,release_threshold=auto", 256 << 20 },
		{ "backend=host,release_threshold=7M", 7 << 20 },
		{ "backend=guard:host,release_threshold=0", 0 },
		{ "backend=host,release_threshold=all,host.release_threshold=1M", UINT64_MAX },
	};

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct soma_runtime *runtime = open_runtime(cases[i].conf);
		ck_assert_msg(attribute(runtime, SOMA_BACKEND_RELEASE_THRESHOLD) == cases[i].bytes,
			      "%s: %" PRIu64, cases[i].conf,
			      attribute(runtime, SOMA_BACKEND_RELEASE_THRESHOLD));
		soma_runtime_release(runtime);
	}
}
END_TEST

/* plain has no pool: the threshold is for pools that are made over it. */
START_TEST(what_is_for_pools_stays_readable)
{
	struct soma_runtime *runtime =
		open_runtime("backend=plain,release_threshold=3M,placement=pool,max_pool_size=1G");

	ck_assert(runtime->config.release_threshold.given);
	ck_assert_uint_eq(runtime->config.release_threshold.bytes, 3 << 20);
	ck_assert_uint_eq(runtime->config.placement, SOMA__PLACEMENT_POOL);
	ck_assert_uint_eq(runtime->config.max_pool_size, 1 << 30);
	soma_runtime_release(runtime);
	runtime = open_runtime("backend=plain");
	ck_assert(!runtime->config.release_threshold.given);
	ck_assert_uint_eq(runtime->config.placement, SOMA__PLACEMENT_AUTO);
	soma_runtime_release(runtime);
}
END_TEST

/* ---- what it says of itself ------------------------------------------------------------------ */

START_TEST(a_runtime_says_what_it_can)
{
	struct soma_runtime_info info = { .size = sizeof info };
	struct soma_runtime *runtime = open_runtime("backend=host,host.size=64M");

	OK(soma_runtime_query(runtime, &info));
	ck_assert_uint_eq(info.capabilities, SOMA_CAPABILITY_STREAM_ORDERED | SOMA_CAPABILITY_USE_TRACKING |
						     SOMA_CAPABILITY_HOST_ACCESSIBLE |
						     SOMA_CAPABILITY_STREAMS | SOMA_CAPABILITY_POOL);
	ck_assert_uint_eq(info.total, 64 << 20);
	ck_assert_uint_le(info.free, info.total);
	ck_assert_uint_ge(info.alignment, 256);
	ck_assert_str_eq(info.device_name, "host memory");
	ck_assert_int_eq(info.device, 0);
	info.size--;
	ck_assert_int_eq(soma_runtime_query(runtime, &info), SOMA_STATUS_INVALID_VALUE);
	soma_runtime_release(runtime);
	runtime = open_runtime("backend=guard:host");
	info.size = sizeof info;
	OK(soma_runtime_query(runtime, &info));
	ck_assert(info.capabilities & SOMA_CAPABILITY_GUARD);
	soma_runtime_release(runtime);
}
END_TEST

START_TEST(a_reservation_is_taken_from_the_budget)
{
	struct soma_runtime *runtime = open_runtime("backend=host,budget=1000");
	struct soma_reservation *reservation;

	OK(soma_runtime_reserve(runtime, 900, &reservation));
	ck_assert_uint_eq(soma_reservation_remaining(reservation), 900);
	struct soma_block block = { .size = sizeof block };
	ck_assert_int_eq(soma_resource_allocate(soma_runtime_resource(runtime), 200, 0, &block),
			 SOMA_STATUS_OUT_OF_BUDGET);
	soma_reservation_destroy(reservation);
	soma_runtime_release(runtime);
}
END_TEST

START_TEST(the_resource_may_outlive_the_runtime)
{
	struct soma_runtime *runtime = open_runtime("backend=host,budget=1M");
	struct soma_resource *resource = soma_resource_retain(soma_runtime_resource(runtime));

	ck_assert_ptr_eq(soma_runtime_retain(runtime), runtime);
	soma_runtime_release(runtime);
	soma_runtime_release(runtime);
	struct soma_block block = take_block(resource, 1000, 0);
	give_block(resource, &block);
	soma_resource_release(resource);
	ck_assert_ptr_null(soma_runtime_retain(NULL));
	soma_runtime_release(NULL);
}
END_TEST

/* ---- the guard ---------------------------------------------------------------------------------- */

START_TEST(a_scan_finds_damage_and_tells_the_listener)
{
	struct soma_runtime *runtime = open_runtime("backend=guard:host,guard.on_error=callback,budget=1G");
	struct soma_resource *resource = soma_runtime_resource(runtime);
	struct soma_block block = take_block(resource, 1000, 0);
	struct soma_guard_stats stats = { .size = sizeof stats };
	struct reports first = { 0 }, reports = { 0 };
	uint64_t damaged = 7;

	OK(soma_guard_listen(resource, on_report, &first));
	OK(soma_guard_listen(resource, on_report, &reports));
	OK(soma_guard_scan(resource, &damaged));
	ck_assert_uint_eq(damaged, 0);
	((unsigned char *)(uintptr_t)block.ptr)[1000] = 1;
	OK(soma_guard_scan(resource, &damaged));
	ck_assert_uint_eq(damaged, 1);
	ck_assert_uint_eq(first.count, 0);
	ck_assert_uint_eq(reports.count, 1);
	ck_assert_str_eq(reports.kind, "oob-write-after");
	OK(soma_guard_stats(resource, &stats));
	ck_assert_uint_eq(stats.reports, 1);
	ck_assert_uint_eq(stats.live_blocks, 1);
	stats.size = 8;
	ck_assert_int_eq(soma_guard_stats(resource, &stats), SOMA_STATUS_INVALID_VALUE);
	soma_runtime_release(runtime); /* the block is a leak, which is reported, too */
	ck_assert_uint_eq(reports.count, 2);
	ck_assert_str_eq(reports.kind, "leak");
}
END_TEST

START_TEST(a_listener_can_be_taken_away)
{
	struct soma_runtime *runtime = open_runtime("backend=guard:host,guard.on_error=callback");
	struct soma_resource *resource = soma_runtime_resource(runtime);
	struct soma_block block = take_block(resource, 1000, 0);
	struct reports reports = { 0 };

	OK(soma_guard_listen(resource, on_report, &reports));
	OK(soma_guard_listen(resource, NULL, NULL));
	give_block(resource, &block);
	ck_assert_int_eq(soma_resource_deallocate(resource, &block), SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_uint_eq(reports.count, 0);
	soma_runtime_release(runtime);
}
END_TEST

START_TEST(without_a_guard_there_is_nothing_to_ask)
{
	struct soma_runtime *runtime = open_runtime("backend=host");
	struct soma_resource *resource = soma_runtime_resource(runtime);
	struct soma_guard_stats stats = { .size = sizeof stats };
	uint64_t damaged;

	ck_assert_int_eq(soma_guard_stats(resource, &stats), SOMA_STATUS_NOT_FOUND);
	ck_assert_int_eq(soma_guard_scan(resource, &damaged), SOMA_STATUS_NOT_FOUND);
	ck_assert_int_eq(soma_guard_listen(resource, on_report, NULL), SOMA_STATUS_NOT_FOUND);
	ck_assert_str_eq(soma_error_last()->text,
			 "there is no guard in this stack: configure backend=guard:NAME");
	soma_runtime_release(runtime);
}
END_TEST

/* ---- the keys --------------------------------------------------------------------------------------- */

struct keys {
	char text[8192];
	unsigned left;
};

static bool
add_key(void *context, const struct soma_option_info *option)
{
	struct keys *keys = context;
	size_t length = strlen(keys->text);

	snprintf(keys->text + length, sizeof keys->text - length, "%s=%s %s\n", option->name,
		 option->default_text, option->module != NULL ? option->module : "-");
	ck_assert(option->doc[0] != '\0');
	return keys->left == 0 || --keys->left > 0;
}

START_TEST(the_keys_are_the_runtimes_and_then_the_modules)
{
	struct keys keys = { .text = "\n" };
	const char *own, *guard, *host;

	OK(soma_runtime_walk_options(RUNTIME_FOLDERS, add_key, &keys));
	own = strstr(keys.text, "\nbudget=0 -\n");
	guard = strstr(keys.text, "\nguard.mode=canary guard\n");
	host = strstr(keys.text, "\nhost.size=all host\n");
	ck_assert(own != NULL && guard != NULL && host != NULL && own < guard && own < host);
	for (const struct soma__option *row = soma__runtime_options; row->name != NULL; row++)
		ck_assert_ptr_nonnull(strstr(keys.text, row->name));
	keys = (struct keys){ .left = 2 };
	OK(soma_runtime_walk_options(RUNTIME_FOLDERS, add_key, &keys));
	ck_assert_str_eq(keys.text, "backend=auto -\nbackend_path= -\n");
	keys = (struct keys){ .text = "\n" }; /* a module that another folder has, too, is one module */
	OK(soma_runtime_walk_options(RUNTIME_FOLDERS ":" RUNTIME_FOLDERS, add_key, &keys));
	ck_assert_uint_eq(count_lines(keys.text, "\nguard.mode="), 1);
	keys = (struct keys){ .left = 13 };
	OK(soma_runtime_walk_options(RUNTIME_FOLDERS, add_key, &keys));
	ck_assert_uint_eq(count_lines(keys.text, "\n"), 13);
}
END_TEST

UNIT_MAIN("runtime", an_empty_configuration_opens_what_there_is,
	  the_string_stacks_budget_over_trace_over_backend, a_release_writes_the_trace_to_its_end,
	  a_trace_is_named_after_device_and_process, the_release_threshold_reaches_a_backend_with_a_pool,
	  what_is_for_pools_stays_readable, a_runtime_says_what_it_can,
	  a_reservation_is_taken_from_the_budget, the_resource_may_outlive_the_runtime,
	  a_scan_finds_damage_and_tells_the_listener, a_listener_can_be_taken_away,
	  without_a_guard_there_is_nothing_to_ask, the_keys_are_the_runtimes_and_then_the_modules)

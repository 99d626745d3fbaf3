/* SPDX-License-Identifier: Apache-2.0 */
/* The guard as the library loads it: found as a module, around the host module, by name. */
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/plugin/backend.h"

#define SEARCH GUARD_FOLDER ":" HOST_FOLDER ":" MODULES_FOLDER

static uint64_t released;
static char seen[64];

static void
on_released(void *context, uint64_t ptr, uint64_t size)
{
	(void)context;
	(void)ptr;
	released += size;
}

static void
on_report(void *context, const struct soma_backend_guard_report *report)
{
	(void)context;
	snprintf(seen, sizeof seen, "%s", report->kind);
}

START_TEST(guard_host_opens_and_reports)
{
	static const struct soma_backend_option options[] = { { "guard.on_error", "callback" },
							      { "guard.quarantine_bytes", "1M" } };
	struct soma__backend_config config = { .name = "guard:host",
					       .search = SEARCH,
					       .option_count = 2,
					       .options = options,
					       .released = on_released };
	struct soma__backend *backend;
	uint64_t ptr;

	ck_assert_msg(soma__backend_open(&config, &backend) == SOMA_STATUS_OK, "%s", soma_error_last()->text);
	ck_assert(backend->capabilities & SOMA_BACKEND_GUARD);
	ck_assert(backend->capabilities & SOMA_BACKEND_USES);
	ck_assert(backend->capabilities & SOMA_BACKEND_STEPS);
	backend->ops->guard_listen(backend->self, on_report, NULL);
	ck_assert_int_eq(backend->ops->alloc(backend->self, 1000, 0, NULL, &ptr), SOMA_STATUS_OK);
	((unsigned char *)(uintptr_t)ptr)[1000] = 1;
	ck_assert_int_eq(backend->ops->free(backend->self, ptr, 1000, NULL), SOMA_STATUS_OK);
	ck_assert_str_eq(seen, "oob-write-after");
	ck_assert_int_eq(backend->ops->alloc(backend->self, 500, 0, NULL, &ptr), SOMA_STATUS_OK);
	ck_assert_int_eq(backend->ops->free(backend->self, ptr, 500, NULL), SOMA_STATUS_OK);
	ck_assert_int_eq(backend->ops->guard_drain(backend->self, 0), SOMA_STATUS_OK);
	ck_assert_uint_eq(released, 500);
	soma__backend_close(backend);
}
END_TEST

static uint64_t
resident_bytes(void)
{
	unsigned long all, resident;
	FILE *file = fopen("/proc/self/statm", "r");

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fscanf(file, "%lu %lu", &all, &resident), 2);
	fclose(file);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What is before the redzone is never touched, and what is in it is looked at. */
START_TEST(a_great_alignment_costs_addresses_and_no_memory)
{
	static const struct soma_backend_option options[] = { { "guard.on_error", "callback" } };
	static const uint64_t alignments[] = { 64 << 10, 2 << 20, 1 << 30 };
	struct soma__backend_config config = {
		.name = "guard:host", .search = SEARCH, .option_count = 1, .options = options
	};
	struct soma__backend *backend;
	uint64_t ptr;

	ck_assert_msg(soma__backend_open(&config, &backend) == SOMA_STATUS_OK, "%s", soma_error_last()->text);
	backend->ops->guard_listen(backend->self, on_report, NULL);
	for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++)
		for (uint64_t before = 1; before <= 64 << 10; before += (64 << 10) - 1) {
			uint64_t resident = resident_bytes();
			ck_assert_int_eq(backend->ops->alloc(backend->self, 1000, alignments[i], NULL, &ptr),
					 SOMA_STATUS_OK);
			ck_assert_uint_eq(ptr % alignments[i], 0);
			ck_assert_uint_lt(resident_bytes(), resident + (64 << 20));
			((unsigned char *)(uintptr_t)ptr)[-(int64_t)before] ^= 0x55;
			seen[0] = '\0';
			ck_assert_int_eq(backend->ops->free(backend->self, ptr, 1000, NULL), SOMA_STATUS_OK);
			ck_assert_str_eq(seen, "oob-write-before");
		}
	soma__backend_close(backend);
}
END_TEST

START_TEST(a_bad_value_is_refused_with_its_key)
{
	static const struct soma_backend_option options[] = { { "guard.race", "fast" } };
	struct soma__backend_config config = {
		.name = "guard:host", .search = SEARCH, .option_count = 1, .options = options
	};
	struct soma__backend *backend;

	ck_assert_int_eq(soma__backend_open(&config, &backend), SOMA_STATUS_INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "guard.race"));
}
END_TEST

START_TEST(it_does_not_go_around_another_guard)
{
	struct soma__backend_config config = { .name = "guard:guard:host", .search = SEARCH };
	struct soma__backend *backend;

	ck_assert_int_eq(soma__backend_open(&config, &backend), SOMA_STATUS_NOT_SUPPORTED);
}
END_TEST

START_TEST(what_the_inner_backend_claims_without_ops_is_not_called)
{
	struct soma__backend_config config = { .name = "guard:overclaims", .search = SEARCH };
	const uint64_t masked = SOMA_BACKEND_STREAMS | SOMA_BACKEND_POOL;
	struct soma__backend *backend;
	struct soma_backend_info info = { .size = sizeof info };
	uint64_t ptr;

	ck_assert_msg(soma__backend_open(&config, &backend) == SOMA_STATUS_OK, "%s", soma_error_last()->text);
	ck_assert(backend->capabilities & SOMA_BACKEND_HOST_ACCESSIBLE);
	ck_assert_uint_eq(backend->capabilities & masked, 0);
	ck_assert_int_eq(backend->ops->query(backend->self, &info), SOMA_STATUS_OK);
	ck_assert_uint_eq(info.capabilities & masked, 0);
	ck_assert_int_eq(backend->ops->alloc(backend->self, 500, 0, NULL, &ptr), SOMA_STATUS_OK);
	ck_assert_int_eq(backend->ops->free(backend->self, ptr, 500, NULL), SOMA_STATUS_OK);
	ck_assert_int_eq(backend->ops->guard_drain(backend->self, 0), SOMA_STATUS_OK);
	soma__backend_close(backend);
}
END_TEST

UNIT_MAIN("guard plugin", guard_host_opens_and_reports, a_great_alignment_costs_addresses_and_no_memory,
	  a_bad_value_is_refused_with_its_key, it_does_not_go_around_another_guard,
	  what_the_inner_backend_claims_without_ops_is_not_called)

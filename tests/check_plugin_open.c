/* SPDX-License-Identifier: Apache-2.0 */
/* lib/plugin: opening what was found: names, options, auto, errors, and memory that runs out. */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/arena/arena.h"
#include "lib/base/log.h"
#include "lib/plugin/backend.h"
#include "lib/plugin/plugin.h"
#include "tests/said.h"

#define ALL_FOLDERS MODULES_FOLDER ":" BACKENDS_FOLDER

static enum soma_status
open_with(const char *name, const char *search, const char *key, const char *value,
	  struct soma__backend **backend)
{
	const struct soma_backend_option option = { key, value };
	const struct soma__backend_config config = {
		.name = name,
		.search = search,
		.option_count = key != NULL,
		.options = &option,
	};

	return soma__backend_open(&config, backend);
}

static enum soma_status
open_and_close(const char *name)
{
	struct soma__backend *backend;

	enum soma_status status = open_with(name, ALL_FOLDERS, NULL, NULL, &backend);
	if (status == SOMA_STATUS_OK)
		soma__backend_close(backend);
	return status;
}

/* ---- names ------------------------------------------------------------------------ */

START_TEST(a_name_goes_from_outside_in)
{
	struct soma__backend *backend;
	char name[64];

	ck_assert_int_eq(open_with("around:around:host", ALL_FOLDERS, NULL, NULL, &backend), SOMA_STATUS_OK);
	ck_assert_str_eq(soma__backend_name(backend, name, sizeof name), "around:around:host");
	ck_assert_str_eq(soma__backend_name(backend, name, 9), "around:a");
	ck_assert_ptr_nonnull(backend->inner);
	ck_assert_ptr_null(backend->inner->inner->inner);
	soma__backend_close(backend);
}
END_TEST

START_TEST(what_goes_around_another_says_so)
{
	ck_assert_int_eq(open_and_close("around"), SOMA_STATUS_INVALID_VALUE);
	assert_said("around another", "around:auto");
	ck_assert_int_eq(open_and_close("plain:host"), SOMA_STATUS_INVALID_VALUE);
	assert_said("plain does not go around", "host");
	ck_assert_int_eq(open_and_close("around:missing"), SOMA_STATUS_NOT_FOUND);
	assert_said("missing", "");
	ck_assert_int_eq(open_and_close("auto:host"), SOMA_STATUS_NOT_FOUND);
}
END_TEST

START_TEST(malformed_names_are_refused)
{
	const char *const names[] = { "", ":", "around:", ":host", "around::host" };

	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
		ck_assert_int_eq(open_and_close(names[i]), SOMA_STATUS_INVALID_VALUE);
		assert_said("NAME:NAME", names[i]);
	}
}
END_TEST

/* ---- auto ---------------------------------------------------------------------------- */

static void
note_log(void *context, enum soma_log_level level, const char *text)
{
	char *all = context;

	(void)level;
	snprintf(all + strlen(all), 2000 - strlen(all), "%s\n", text);
}

START_TEST(auto_takes_the_first_that_opens_and_logs_the_others)
{
	struct soma__backend *backend;
	char log[2000] = "", name[64];

	ck_assert_int_eq(unsetenv("SOMA_BACKEND_PATH"), 0);
	soma_log_set_sink(note_log, log, SOMA_LOG_INFO);
	ck_assert_int_eq(open_with("auto", AUTO_FOLDER ":" ALL_FOLDERS, NULL, NULL, &backend),
			 SOMA_STATUS_OK);
	soma_log_set_sink(NULL, NULL, SOMA_LOG_INFO);
	ck_assert_str_eq(soma__backend_name(backend, name, sizeof name), "sync");
	ck_assert_ptr_nonnull(
		strstr(log, "not async: backend async: earlier work failed: the device has no pools"));
	ck_assert_ptr_nonnull(strstr(log, "using sync"));
	soma__backend_close(backend);
	ck_assert_int_eq(open_with("around:auto", ALL_FOLDERS, NULL, NULL, &backend), SOMA_STATUS_OK);
	ck_assert_str_eq(soma__backend_name(backend, name, sizeof name), "around:host");
	soma__backend_close(backend);
	ck_assert_int_eq(open_with("auto", "/nowhere", NULL, NULL, &backend), SOMA_STATUS_NOT_FOUND);
	assert_said("none of async, sync and host", "host");
}
END_TEST

START_TEST(a_named_backend_that_fails_is_an_error)
{
	struct soma__backend *backend;

	ck_assert_int_eq(open_with("async", AUTO_FOLDER, NULL, NULL, &backend), SOMA_STATUS_NOT_SUPPORTED);
	assert_said("backend async: earlier work failed: the device has no pools", "cannot be used any more");
	ck_assert_int_eq(soma_error_last()->driver_code, 719);
	ck_assert_uint_eq(soma_error_last()->requested, 3);
	ck_assert_int_eq(open_and_close("silent"), SOMA_STATUS_DRIVER);
	assert_said("silent", "does not say why");
	ck_assert_int_eq(open_and_close("query_fails"), SOMA_STATUS_DRIVER);
	ck_assert_int_eq(open_and_close("low_alignment"), SOMA_STATUS_ABI);
	ck_assert_int_eq(open_and_close("unresolved"), SOMA_STATUS_IO);
	assert_said("unresolved.so", "a_function_that_nobody_has");
}
END_TEST

/* ---- options ---------------------------------------------------------------------------- */

START_TEST(options_go_to_the_module_they_name)
{
	struct soma__backend *backend;

	ck_assert_int_eq(open_with("plain", ALL_FOLDERS, "plain.answer", "42", &backend), SOMA_STATUS_OK);
	soma__backend_close(backend);
	ck_assert_int_eq(open_with("around:plain", ALL_FOLDERS, "plain.answer", "42", &backend),
			 SOMA_STATUS_OK);
	soma__backend_close(backend);
	ck_assert_int_eq(open_with("plain", ALL_FOLDERS, "plain.answer", "43", &backend),
			 SOMA_STATUS_INVALID_VALUE);
	assert_said("answer", "");
}
END_TEST

START_TEST(options_that_nobody_has_are_refused)
{
	struct soma__backend *backend;

	ck_assert_int_eq(open_with("plain", ALL_FOLDERS, "plain.awnser", "42", &backend),
			 SOMA_STATUS_INVALID_VALUE);
	assert_said("plain.awnser", "plain.answer");
	ck_assert_int_eq(open_with("older", ALL_FOLDERS, "older.answer", "42", &backend),
			 SOMA_STATUS_INVALID_VALUE);
	assert_said("older.answer", "no options");
	ck_assert_int_eq(open_with("plain", ALL_FOLDERS, "guard.answer", "42", &backend),
			 SOMA_STATUS_INVALID_VALUE);
	assert_said("guard.answer", "plain");
	ck_assert_int_eq(open_with("plain", ALL_FOLDERS, "host.size", "1M", &backend),
			 SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(open_with("auto", ALL_FOLDERS, "async.anything", "1M", &backend), SOMA_STATUS_OK);
	soma__backend_close(backend);
	ck_assert_int_eq(open_with("auto", ALL_FOLDERS, "host.sise", "1M", &backend),
			 SOMA_STATUS_INVALID_VALUE);
	assert_said("host.sise", "host.size");
	ck_assert_int_eq(open_with("host", ALL_FOLDERS, "host.size", "1 parsec", &backend),
			 SOMA_STATUS_INVALID_VALUE);
	assert_said("size=1 parsec", "64M");
}
END_TEST

/* ---- what an open backend is ------------------------------------------------------------ */

START_TEST(capabilities_without_their_ops_are_masked)
{
	struct soma__backend *backend;
	struct soma_backend_info info;

	ck_assert_int_eq(open_with("overclaims", ALL_FOLDERS, NULL, NULL, &backend), SOMA_STATUS_OK);
	ck_assert_uint_eq(backend->capabilities, SOMA_BACKEND_HOST_ACCESSIBLE);
	ck_assert_int_eq(soma__backend_query(backend, &info), SOMA_STATUS_OK);
	ck_assert_uint_eq(info.capabilities, SOMA_BACKEND_HOST_ACCESSIBLE);
	soma__backend_close(backend);
}
END_TEST

/* Scans need staging memory, which comes with the fills. */
START_TEST(scans_without_fills_are_not_there)
{
	struct soma__backend *backend;
	struct soma_backend_info info;

	ck_assert_int_eq(open_with("scans_alone", ALL_FOLDERS, NULL, NULL, &backend), SOMA_STATUS_OK);
	ck_assert_ptr_nonnull(backend->ops->scan);
	ck_assert_uint_eq(backend->plugin->groups, SOMA_BACKEND_SCANS);
	ck_assert_uint_eq(backend->capabilities, SOMA_BACKEND_HOST_ACCESSIBLE);
	ck_assert_int_eq(soma__backend_query(backend, &info), SOMA_STATUS_OK);
	ck_assert_uint_eq(info.capabilities, SOMA_BACKEND_HOST_ACCESSIBLE);
	soma__backend_close(backend);
}
END_TEST

static void
note_released(void *context, uint64_t ptr, uint64_t size)
{
	uint64_t *noted = context;

	noted[0] = ptr;
	noted[1] = size;
}

START_TEST(what_a_backend_releases_is_passed_on)
{
	uint64_t noted[2] = { 0 }, ptr;
	struct soma__backend *backend;
	const struct soma__backend_config config = {
		.name = "plain", .search = ALL_FOLDERS, .released = note_released, .context = noted
	};

	ck_assert_int_eq(soma__backend_open(&config, &backend), SOMA_STATUS_OK);
	ck_assert_int_eq(backend->ops->alloc(backend->self, 100, 0, NULL, &ptr), SOMA_STATUS_OK);
	ck_assert_int_eq(backend->ops->free(backend->self, ptr, 100, NULL), SOMA_STATUS_OK);
	ck_assert_uint_eq(noted[0], ptr);
	ck_assert_uint_eq(noted[1], 100);
	soma__backend_close(backend);
}
END_TEST

static void *
open_many(void *unused)
{
	(void)unused;
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(open_and_close("around:host"), SOMA_STATUS_OK);
		ck_assert_int_eq(open_and_close("no_alloc"), SOMA_STATUS_ABI);
	}
	return NULL;
}

START_TEST(threads_open_and_close_at_once)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, open_many, NULL), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
END_TEST

#ifndef SOMA_SANITIZERS /* which need address space as they like */
/* Bytes of address space, from /proc/self/statm. */
static long
mapped(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fscanf(file, "%ld", &pages), 1);
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

START_TEST(open_fails_cleanly_at_every_allocation)
{
	enum soma_status status = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	unsigned long nth;
	long before = 0;

	ck_assert_int_eq(open_and_close("around:host"), SOMA_STATUS_OK);
	for (int round = 0; round < 20; round++) {
		if (round == 2)
			before = mapped();
		for (nth = 1;; nth++) {
			soma__arena_fail_nth(nth);
			status = open_and_close("around:host");
			if (status == SOMA_STATUS_OK)
				break;
			ck_assert_int_eq(status, SOMA_STATUS_OUT_OF_HOST_MEMORY);
		}
		soma__arena_fail_nth(0);
		ck_assert_uint_ge(nth, 5);
	}
	/* What jemalloc keeps for itself may grow once, but not with every failure. */
	ck_assert_int_le(mapped() - before, 8 << 20);
}
END_TEST

#endif

UNIT_MAIN("plugin_open", a_name_goes_from_outside_in, what_goes_around_another_says_so,
	  malformed_names_are_refused, auto_takes_the_first_that_opens_and_logs_the_others,
	  a_named_backend_that_fails_is_an_error, options_go_to_the_module_they_name,
	  options_that_nobody_has_are_refused, capabilities_without_their_ops_are_masked,
	  scans_without_fills_are_not_there, what_a_backend_releases_is_passed_on,
#ifndef SOMA_SANITIZERS
	  open_fails_cleanly_at_every_allocation,
#endif
	  threads_open_and_close_at_once)

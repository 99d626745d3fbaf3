/* SPDX-License-Identifier: Apache-2.0 */
/* Runtimes for a test, from the modules of the build tree. */
#ifndef SOMA_TESTS_RUNTIME_FIXTURE_H
#define SOMA_TESTS_RUNTIME_FIXTURE_H

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <soma/launch.h>
#include <soma/runtime.h>

#include "lib/resource/resource.h"
#include "lib/runtime/runtime.h"
#include "tests/unit.h"

#define OK(call) ck_assert_msg((call) == SOMA_STATUS_OK, "%s", soma_error_last()->text)

static inline enum soma_status
try_runtime(const char *conf, struct soma_runtime **runtime)
{
	char text[1024];

	snprintf(text, sizeof text, "backend_path=" RUNTIME_FOLDERS "%s%s", conf[0] != '\0' ? "," : "", conf);
	return soma_runtime_open(text, runtime);
}

static inline struct soma_runtime *
open_runtime(const char *conf)
{
	struct soma_runtime *runtime;

	OK(try_runtime(conf, &runtime));
	return runtime;
}

static inline struct soma_block
take_block(struct soma_resource *resource, uint64_t bytes, uint64_t stream)
{
	struct soma_block block = { .size = sizeof block };

	OK(soma_resource_allocate(resource, bytes, stream, &block));
	return block;
}

static inline void
give_block(struct soma_resource *resource, const struct soma_block *block)
{
	OK(soma_resource_deallocate(resource, block));
}

static inline uint64_t
runtime_stream(struct soma_runtime *runtime)
{
	uint64_t stream;

	OK(soma_runtime_stream_acquire(runtime, 1, &stream));
	return stream;
}

/* What a listener of a guard was told. */
struct reports {
	unsigned count;
	char kind[32];
	char text[4096], json[4096]; /* of the latest */
};

static inline void
on_report(void *context, const struct soma_guard_report *report)
{
	struct reports *reports = context;

	ck_assert_uint_eq(report->size, sizeof *report);
	ck_assert_ptr_nonnull(strstr(report->text, report->kind));
	ck_assert_int_eq(report->json[0], '{');
	reports->count++;
	snprintf(reports->kind, sizeof reports->kind, "%s", report->kind);
	snprintf(reports->text, sizeof reports->text, "%s", report->text);
	snprintf(reports->json, sizeof reports->json, "%s", report->json);
}

/* How many entries the folder has: descriptors that are open, threads that run. */
static inline int
count_entries(const char *folder)
{
	DIR *entries = opendir(folder);
	int count = 0;

	ck_assert_ptr_nonnull(entries);
	while (readdir(entries) != NULL)
		count++;
	closedir(entries);
	return count;
}

static inline int
count_threads(void)
{
	return count_entries("/proc/self/task");
}

/* A thread that was joined is listed for a moment yet.  One that goes on ends the test by the alarm. */
static inline void
wait_for_threads(int most)
{
	alarm(60);
	while (count_threads() > most)
		sched_yield();
	alarm(0);
}

static inline void
expect_threads(int count)
{
	wait_for_threads(count);
	ck_assert_int_eq(count_threads(), count);
}

#endif

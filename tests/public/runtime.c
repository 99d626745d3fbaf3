/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runtime as a user has it: installed headers and modules.  Also compiled as C++.  Exit
 * status 0 when everything is as the headers say.
 */
#include <soma/soma.h>

#include <stdio.h>
#include <string.h>

#define EXPECT(condition)                                                                       \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			fprintf(stderr, "the last error: %s\n", soma_error_last()->text);       \
			return 1;                                                               \
		}                                                                               \
	} while (0)

static void
count_report(void *context, const struct soma_guard_report *report)
{
	unsigned *count = (unsigned *)context;

	*count += strcmp(report->kind, "use-before-ready") == 0;
}

static bool
count_option(void *context, const struct soma_option_info *option)
{
	unsigned *count = (unsigned *)context;

	*count += option->module != NULL && strcmp(option->name, "guard.mode") == 0;
	return true;
}

static int
launch(struct soma_resource *memory, uint64_t stream, struct soma_block_id from, struct soma_block_id to)
{
	struct soma_launch launch;

	EXPECT(soma_launch_begin(&launch, memory, stream) == SOMA_STATUS_OK);
	EXPECT(soma_launch_read(&launch, from) == SOMA_STATUS_OK);
	EXPECT(soma_launch_write(&launch, to) == SOMA_STATUS_OK);
	EXPECT(soma_launch_write(&launch, from) == SOMA_STATUS_OK);
	EXPECT(soma_launch_count(&launch) == 2);
	EXPECT(soma_launch_use(&launch, 0)->access == SOMA_ACCESS_READ_WRITE);
	EXPECT(soma_launch_preflight(&launch) == SOMA_STATUS_OK);
	EXPECT(soma_launch_commit(&launch) == SOMA_STATUS_OK);
	soma_launch_abandon(&launch);
	return 0;
}

static int
use_runtime(struct soma_runtime *runtime)
{
	struct soma_resource *memory = soma_runtime_resource(runtime);
	struct soma_runtime_info info;
	struct soma_guard_stats stats;
	struct soma_block a, b;
	uint64_t compute, copy, native, same, damaged;
	unsigned reports = 0, options = 0;

	memset(&info, 0, sizeof info);
	info.size = sizeof info;
	memset(&stats, 0, sizeof stats);
	stats.size = sizeof stats;
	a.size = b.size = sizeof a;
	EXPECT(soma_runtime_query(runtime, &info) == SOMA_STATUS_OK);
	EXPECT((info.capabilities & SOMA_CAPABILITY_GUARD) != 0);
	EXPECT(soma_guard_listen(memory, count_report, &reports) == SOMA_STATUS_OK);
	EXPECT(soma_runtime_stream_acquire(runtime, SOMA_STREAM_NON_BLOCKING, &compute) == SOMA_STATUS_OK);
	EXPECT(soma_runtime_stream_acquire(runtime, SOMA_STREAM_NON_BLOCKING, &copy) == SOMA_STATUS_OK);
	EXPECT(soma_runtime_stream_native(runtime, copy, &native) == SOMA_STATUS_OK);
	EXPECT(soma_runtime_stream_resolve(runtime, native, &same) == SOMA_STATUS_OK && same == copy);
	EXPECT(soma_resource_allocate(memory, 1000, compute, &a) == SOMA_STATUS_OK);
	EXPECT(soma_resource_allocate(memory, 1000, copy, &b) == SOMA_STATUS_OK);
	if (launch(memory, copy, a.id, b.id) != 0)
		return 1;
	EXPECT(reports == 0);
	EXPECT(soma_resource_deallocate(memory, &a) == SOMA_STATUS_OK);
	EXPECT(soma_resource_allocate(memory, 1000, compute, &a) == SOMA_STATUS_OK);
	EXPECT(soma_resource_record_use(memory, a.id, copy) == SOMA_STATUS_STREAM_MISUSE);
	EXPECT(reports == 1);
	EXPECT(soma_resource_deallocate(memory, &a) == SOMA_STATUS_OK);
	EXPECT(soma_resource_deallocate(memory, &b) == SOMA_STATUS_OK);
	EXPECT(soma_guard_scan(memory, &damaged) == SOMA_STATUS_OK && damaged == 0);
	EXPECT(soma_guard_stats(memory, &stats) == SOMA_STATUS_OK && stats.reports == 1);
	EXPECT(soma_runtime_stream_release(runtime, compute) == SOMA_STATUS_OK);
	EXPECT(soma_runtime_stream_release(runtime, copy) == SOMA_STATUS_OK);
	EXPECT(soma_runtime_walk_options(NULL, count_option, &options) == SOMA_STATUS_OK);
	EXPECT(options == 1);
	return 0;
}

int
main(void)
{
	struct soma_runtime *runtime, *device;
	int failed;

	EXPECT(soma_runtime_open("backend=guard:host,bugdet=1G", &runtime) == SOMA_STATUS_INVALID_VALUE);
	EXPECT(strstr(soma_error_last()->text, "\"budget\"") != NULL);
	EXPECT(soma_runtime_open("backend=guard:host,budget=1G,guard.on_error=callback", &runtime) ==
	       SOMA_STATUS_OK);
	EXPECT(strcmp(soma_runtime_backend(runtime), "guard:host") == 0);
	failed = use_runtime(runtime);
	soma_runtime_release(runtime);
	EXPECT(soma_runtime_for_device(0, &device) == SOMA_STATUS_OK);
	EXPECT(soma_runtime_for_device(0, &runtime) == SOMA_STATUS_OK && runtime == device);
	soma_runtime_release(runtime);
	soma_runtime_release(device);
	return failed;
}

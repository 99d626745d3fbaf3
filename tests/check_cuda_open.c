/* SPDX-License-Identifier: Apache-2.0 */
/* Opening async and sync: every refusal says why, and leaves nothing behind. */
#include "tests/cuda_fixture.h"

#include <stdlib.h>
#include <sys/wait.h>

/* ---- processes with another libcuda.so.1, or none ----------------------------------- */

/* Runs this program with a folder in front of which libcuda.so.1 is `target` (NULL: an empty file); what
 * opening `name` says there. */
static void
said_with(const char *target, const char *name, char *said, size_t size)
{
	char folder[] = "/tmp/soma-cuda-XXXXXX", file[64], path[4200], command[4400];

	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(file, sizeof file, "%s/libcuda.so.1", folder);
	if (target != NULL)
		ck_assert_int_eq(symlink(target, file), 0);
	else
		fclose(fopen(file, "w"));
	ck_assert_int_gt(readlink("/proc/self/exe", path, sizeof path - 1), 0);
	path[readlink("/proc/self/exe", path, sizeof path - 1)] = '\0';
	snprintf(command, sizeof command, "LD_LIBRARY_PATH=%s '%s' --open %s", folder, path, name);
	FILE *pipe = popen(command, "r");
	ck_assert_ptr_nonnull(pipe);
	said[fread(said, 1, size - 1, pipe)] = '\0';
	pclose(pipe);
	unlink(file);
	rmdir(folder);
}

START_TEST(a_missing_driver_is_named)
{
	char said[512];

	for (size_t i = 0; i < BOTH; i++) {
		said_with(NULL, both[i], said, sizeof said);
		ck_assert_msg(strstr(said, "NOT_FOUND") && strstr(said, "there is no CUDA driver") &&
				      strstr(said, "libcuda.so.1"),
			      "%s", said);
	}
}
END_TEST

START_TEST(a_library_that_is_no_driver_is_refused)
{
	char said[512];

	said_with(OTHER_LIBRARY, "async", said, sizeof said);
	ck_assert_msg(strstr(said, "NOT_SUPPORTED") && strstr(said, "does not say its version"), "%s", said);
}
END_TEST

START_TEST(auto_goes_on_to_host_without_a_driver)
{
	char said[512];

	said_with(NULL, "auto", said, sizeof said);
	ck_assert_msg(strstr(said, "OK host") != NULL, "%s", said);
}
END_TEST

static int
open_and_say(const char *name)
{
	char opened[64];
	enum soma_status status = try_open(name, NULL, 0);

	printf("%s %s\n", soma_status_name(status),
	       status == SOMA_STATUS_OK ? soma__backend_name(backend, opened, sizeof opened)
					: soma_error_last()->text);
	return 0;
}

/* ---- drivers and devices that will not do ------------------------------------------------ */

START_TEST(an_old_driver_is_refused_with_its_version)
{
	start_fake();
	fake.driver_version(11080);
	for (size_t i = 0; i < BOTH; i++)
		REFUSED(NOT_SUPPORTED, "it has CUDA 11.8, and 12.0 at least", try_open(both[i], NULL, 0));
	fake.driver_version(12000);
	open_backend("async");
	close_backend();
}
END_TEST

START_TEST(every_entry_that_is_missing_is_named)
{
	static const char *const names[] = {
#define X(name, since, arguments) #name,
		CUDA_SYMBOLS(X)
#undef X
	};

	start_fake();
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		fake.hide(names[i]);
		REFUSED(NOT_SUPPORTED, names[i], try_open("async", NULL, 0));
		fake.hide(NULL);
	}
	open_backend("async");
	close_backend();
}
END_TEST

START_TEST(a_driver_without_a_device_is_refused)
{
	start_fake();
	fake.init_result(CUDA_ERROR_NO_DEVICE);
	REFUSED(NOT_FOUND, "CUDA_ERROR_NO_DEVICE", try_open("async", NULL, 0));
	REFUSED(NOT_FOUND, "cuInit", try_open("sync", NULL, 0));
}
END_TEST

START_TEST(a_driver_that_cannot_start_is_refused)
{
	start_fake();
	fake.init_result(CUDA_ERROR_UNKNOWN);
	REFUSED(DRIVER, "cuInit", try_open("async", NULL, 0));
}
END_TEST

START_TEST(a_device_that_is_not_there_is_refused)
{
	const struct soma__backend_config config = { .name = "async",
						     .search = BACKEND_FOLDERS,
						     .device = 5 };

	start_fake();
	REFUSED(NOT_FOUND, "there is no device 5", soma__backend_open(&config, &backend));
}
END_TEST

START_TEST(a_device_without_pools_is_for_sync_alone)
{
	start_fake();
	fake.device_pools(0, false);
	REFUSED(NOT_SUPPORTED, "has no memory pools; backend=sync", try_open("async", NULL, 0));
	fake.leaks();
	EXPECT_NOTHING_FOUND();
	ck_assert_uint_eq(fake.live(FAKE_CONTEXTS), 0);
	open_backend("auto");
	ck_assert_str_eq(soma__backend_name(backend, (char[64]){ 0 }, 64), "sync");
	close_backend();
}
END_TEST

START_TEST(a_device_without_mappings_has_no_spans)
{
	start_fake();
	fake.device_vmm(0, false);
	for (size_t i = 0; i < BOTH; i++) {
		open_backend(both[i]);
		ck_assert_uint_eq(query().capabilities & SOMA_BACKEND_SPANS, 0);
		close_backend();
	}
}
END_TEST

START_TEST(without_the_kernel_there_are_no_scans)
{
	start_fake();
	OK(try_open("async", NULL, 0));
	ck_assert_uint_ne(query().capabilities & SOMA_BACKEND_SCANS, 0);
	close_backend();
	static const char *const entries[] = { "cuModuleLoadData", "cuModuleGetFunction" };
	for (size_t i = 0; i < 2; i++) {
		ck_assert(fake.fail(entries[i], 1, 221));
		open_backend("sync");
		ck_assert_uint_eq(query().capabilities & SOMA_BACKEND_SCANS, 0);
		close_backend();
	}
}
END_TEST

/* ---- options ----------------------------------------------------------------------------- */

START_TEST(an_option_that_makes_no_sense_is_refused)
{
	static const struct {
		const char *key, *value, *part;
	} rows[] = {
		{ "async.release_threshold", "much", "a size such as 64M was expected, or all" },
		{ "async.max_size", "all", "a size such as 64M was expected" },
		{ "async.reuse_follow_events", "2", "on or off" },
		{ "async.reuse_opportunistic", "", "on or off" },
		{ "async.reuse_internal", "perhaps", "on or off" },
		{ "async.capture", "yes", "refuse or graph" },
		{ "async.export", "all", "on or off" },
		{ "async.reuse_intern", "1", "async.reuse_internal" },
	};

	start_fake();
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const struct soma_backend_option option = { rows[i].key, rows[i].value };
		REFUSED(INVALID_VALUE, rows[i].part, try_open("async", &option, 1));
	}
	const struct soma_backend_option option = { "sync.export", "on" };
	REFUSED(INVALID_VALUE, "has no options", try_open("sync", &option, 1));
}
END_TEST

START_TEST(options_reach_the_pool)
{
	const struct soma_backend_option options[] = {
		{ "async.release_threshold", "64M" },  { "async.reuse_follow_events", "off" },
		{ "async.reuse_opportunistic", "no" }, { "async.reuse_internal", "0" },
		{ "async.max_size", "256M" },
	};
	uint64_t ptr;

	start_fake();
	OK(try_open("async", options, 5));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RELEASE_THRESHOLD), 64 * MB);
	for (int i = 1; i <= 3; i++)
		ck_assert_uint_eq(attribute((enum soma_backend_attribute)i), 0);
	REFUSED(OUT_OF_DEVICE_MEMORY, "cuMemAllocFromPoolAsync", ops->alloc(self, 257 * MB, 0, NULL, &ptr));
	ptr = take(200 * MB, NULL);
	give(ptr, 200 * MB, NULL);
	close_backend();
}
END_TEST

START_TEST(the_pool_keeps_everything_by_default)
{
	start_fake();
	open_backend("async");
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RELEASE_THRESHOLD), UINT64_MAX);
	for (int i = 1; i <= 3; i++)
		ck_assert_uint_eq(attribute((enum soma_backend_attribute)i), 1);
	close_backend();
}
END_TEST

START_TEST(a_largest_size_needs_a_driver_that_has_it)
{
	const struct soma_backend_option option = { "async.max_size", "1G" };

	start_fake();
	fake.driver_version(12010);
	REFUSED(NOT_SUPPORTED, "CUDA 12.1, and 12.2 was expected", try_open("async", &option, 1));
	fake.leaks();
	EXPECT_NOTHING_FOUND();
}
END_TEST

/* ---- what an open one says ------------------------------------------------------------------ */

START_TEST(a_backend_says_what_it_is)
{
	start_fake();
	for (size_t i = 0; i < BOTH; i++) {
		open_backend(both[i]);
		struct soma_backend_info info = query();
		bool async = i == 0;
		ck_assert_uint_eq(info.alignment, 256);
		ck_assert_uint_gt(info.total, 0);
		ck_assert_uint_gt(info.free, 0);
		ck_assert_uint_le(info.free, info.total);
		ck_assert_int_ge(info.driver_version, 12000);
		ck_assert_str_ne(info.device_name, "");
		ck_assert_uint_eq(info.span_granularity, 2 * MB);
		ck_assert_int_eq((info.capabilities & SOMA_BACKEND_STREAM_ORDERED) != 0, async);
		ck_assert_int_eq((info.capabilities & SOMA_BACKEND_POOL) != 0, async);
		ck_assert_int_eq((info.capabilities & SOMA_BACKEND_PEERS) != 0, async);
		ck_assert_uint_eq(info.capabilities & (SOMA_BACKEND_EXPORTS | SOMA_BACKEND_CAPTURE |
						       SOMA_BACKEND_LOST | SOMA_BACKEND_HOST_ACCESSIBLE),
				  0);
		ck_assert_uint_ne(info.capabilities & SOMA_BACKEND_USE_TRACKING, 0);
		close_backend();
	}
}
END_TEST

START_TEST(a_short_info_is_not_written_past_its_end)
{
	struct soma_backend_info info;

	start_fake();
	open_backend("async");
	memset(&info, 0x5a, sizeof info);
	info.size = offsetof(struct soma_backend_info, total);
	OK(ops->query(self, &info));
	ck_assert_uint_eq(info.total, 0x5a5a5a5a5a5a5a5a);
	ck_assert_uint_eq(info.alignment, 256);
	close_backend();
}
END_TEST

START_TEST(devices_are_counted_before_opening)
{
	int count = 0;

	start_fake();
	open_backend("async");
	const struct soma_backend_ops *async = ops;
	close_backend();
	fake.restart();
	fake.devices(3);
	const struct soma_backend_host host = { .size = sizeof host };
	OK(async->device_count(&host, &count));
	ck_assert_int_eq(count, 3);
}
END_TEST

START_TEST(the_callers_context_stays_what_it_was)
{
	CUcontext other, current;

	start_fake();
	fake.devices(2);
	for (size_t i = 0; i < BOTH; i++) {
		open_backend(both[i]);
		ck_assert_int_eq(driver()->cuCtxGetCurrent(&current), CUDA_SUCCESS);
		ck_assert_ptr_null(current);
		ck_assert_int_eq(driver()->cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
		ck_assert_int_eq(driver()->cuCtxPushCurrent(other), CUDA_SUCCESS);
		uint64_t ptr = take(1000, NULL);
		struct soma_backend_stream *stream = stream_new();
		OK(ops->fill8(self, ptr, 7, 1000, stream));
		OK(ops->synchronize(self));
		give(ptr, 1000, stream);
		ck_assert_int_eq(driver()->cuCtxGetCurrent(&current), CUDA_SUCCESS);
		ck_assert_ptr_eq(current, other);
		ck_assert_int_eq(driver()->cuCtxPopCurrent(&current), CUDA_SUCCESS);
		ck_assert_ptr_eq(current, other);
		ck_assert_int_eq(driver()->cuCtxGetCurrent(&current), CUDA_SUCCESS);
		ck_assert_ptr_null(current);
		ck_assert_int_eq(driver()->cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
		close_backend();
	}
}
END_TEST

START_TEST(two_backends_of_a_device_do_not_know_each_other)
{
	start_fake();
	open_backend("async");
	struct soma__backend *first = backend;
	uint64_t ptr = take(1000, NULL);
	open_backend("async");
	REFUSED(INVALID_VALUE, "no block of 1000 bytes", ops->free(self, ptr, 1000, NULL));
	soma__backend_close(first);
	close_backend();
}
END_TEST

int
main(int argc, char **argv)
{
	const TTest *const tests[] = {
		a_missing_driver_is_named,
		a_library_that_is_no_driver_is_refused,
		auto_goes_on_to_host_without_a_driver,
		an_old_driver_is_refused_with_its_version,
		every_entry_that_is_missing_is_named,
		a_driver_without_a_device_is_refused,
		a_driver_that_cannot_start_is_refused,
		a_device_that_is_not_there_is_refused,
		a_device_without_pools_is_for_sync_alone,
		a_device_without_mappings_has_no_spans,
		without_the_kernel_there_are_no_scans,
		an_option_that_makes_no_sense_is_refused,
		options_reach_the_pool,
		the_pool_keeps_everything_by_default,
		a_largest_size_needs_a_driver_that_has_it,
		a_backend_says_what_it_is,
		a_short_info_is_not_written_past_its_end,
		devices_are_counted_before_opening,
		the_callers_context_stays_what_it_was,
		two_backends_of_a_device_do_not_know_each_other,
	};

	if (argc == 3 && strcmp(argv[1], "--open") == 0)
		return open_and_say(argv[2]);
	find_stand_in(argv);
	return unit_run("cuda open", tests, sizeof tests / sizeof tests[0]);
}

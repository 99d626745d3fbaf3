/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points of frameworks, with the signatures that each framework calls them by, over async and sync on the
 * stand-in driver.  A driver's handle is what the stand-in gave; the test is linked with libsoma, as a process that
 * loaded it already.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "tests/framework_fixture.h"

/* ---- each framework's life -------------------------------------------------------------------- */

static const char *const backends[] = { "backend=async", "backend=sync", "backend=guard:async",
					"backend=guard:sync" };

START_TEST(torch_allocates_uses_and_frees)
{
	start(backends[_i], FAKE_THREADS);
	cudaStream_t stream = new_stream();
	void *ptrs[50];

	for (int i = 0; i < 50; i++) {
		size_t bytes = 1000 + (size_t)i * 777;
		ptrs[i] = torch_malloc((ssize_t)bytes, 0, stream);
		ck_assert_msg(ptrs[i] != NULL, "%s", torch_error());
		ck_assert_uint_eq((uintptr_t)ptrs[i] % 256, 0);
		write_all(ptrs[i], bytes, stream);
	}
	ck_assert_uint_eq(stat_of(torch_stats, 0, "live_count"), 50);
	for (int i = 0; i < 50; i++)
		torch_free(ptrs[i], 1000 + i * 777, 0, stream);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "live_count"), 0);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "live_bytes"), 0);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "alloc_count"), 50);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "failed_frees"), 0);
	ck_assert_int_eq(torch_flush(), 0);
	expect_nothing_found();
}
END_TEST

START_TEST(torch_takes_nothing_for_0_bytes_and_frees_null)
{
	start("backend=async", FAKE_IMMEDIATE);
	ck_assert_ptr_null(torch_malloc(0, 0, NULL));
	torch_free(NULL, 0, 0, NULL);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "failed_allocs"), 0);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "failed_frees"), 0);
}
END_TEST

START_TEST(cupy_allocates_in_the_order_of_its_param)
{
	start(backends[_i], FAKE_THREADS);
	cudaStream_t stream = new_stream();
	void *legacy = cupy_malloc(NULL, 4096, 0), *other = cupy_malloc(stream, 4096, 0);

	ck_assert_ptr_nonnull(legacy);
	ck_assert_ptr_nonnull(other);
	write_all(legacy, 4096, NULL);
	write_all(other, 4096, stream);
	cupy_free(NULL, legacy, 0);
	cupy_free(stream, other, 0);
	ck_assert_uint_eq(stat_of(cupy_stats, 0, "live_count"), 0);
	ck_assert_uint_eq(stat_of(cupy_stats, 0, "alloc_count"), 2);
	expect_nothing_found();
}
END_TEST

START_TEST(rmm_allocates_on_the_device_of_its_argument)
{
	start("backend=async", FAKE_THREADS);
	cudaStream_t stream = new_stream();
	void *first = rmm_allocate(4096, stream, (void *)0), *second = rmm_allocate(4096, NULL, (void *)1);

	ck_assert_msg(first != NULL && second != NULL, "%s", rmm_error());
	write_all(first, 4096, stream);
	ck_assert_uint_gt(fake.device_taken(0), 0);
	ck_assert_uint_gt(fake.device_taken(1), 0);
	rmm_deallocate(first, 4096, stream, (void *)0);
	rmm_deallocate(second, 4096, NULL, (void *)1);
	expect_nothing_found();
}
END_TEST

START_TEST(modules_share_the_runtime_of_a_device)
{
	start("backend=async,budget=1M", FAKE_IMMEDIATE);
	void *ptr = torch_malloc(600 * KIB, 0, NULL);

	ck_assert_ptr_nonnull(ptr);
	ck_assert_ptr_null(cupy_malloc(NULL, 600 * KIB, 0));
	ck_assert_uint_eq(stat_of(cupy_stats, 0, "device_live_bytes"), 600 * KIB);
	ck_assert_uint_eq(stat_of(cupy_stats, 0, "remaining"), 424 * KIB);
	ck_assert_uint_eq(stat_of(cupy_stats, 0, "failed_allocs"), 1);
	torch_free(ptr, 600 * KIB, 0, NULL);
	void *other = cupy_malloc(NULL, 600 * KIB, 0);
	ck_assert_ptr_nonnull(other);
	cupy_free(NULL, other, 0);
}
END_TEST

/* ---- streams ------------------------------------------------------------------------------------- */

START_TEST(a_stream_with_a_recycled_handle_is_another_stream)
{
	start(backends[_i], FAKE_STEPPED);
	cudaStream_t first = new_stream(), second;
	void *ptr = torch_malloc(64 * KIB, 0, first), *next;

	write_all(ptr, 64 * KIB, first);
	torch_free(ptr, 64 * KIB, 0, first);
	/* The driver keeps the work of a stream that is destroyed, and gives its handle to the next. */
	ck_assert_int_eq(stream_destroy(first), 0);
	second = new_stream();
	ck_assert_ptr_eq(first, second);
	next = torch_malloc(64 * KIB, 0, second);
	ck_assert_msg(next != NULL, "%s", torch_error());
	write_all(next, 64 * KIB, second);
	torch_free(next, 64 * KIB, 0, second);
	expect_nothing_found();
}
END_TEST

START_TEST(nothing_is_asked_of_a_stream_that_its_framework_destroyed)
{
	start(backends[_i], FAKE_STEPPED);
	fake.recycle(false); /* a handle that is used once more is found */
	/* Two do not fit into a segment, so that a pool looks how far the other streams are before it grows. */
	for (int i = 0; i < 6; i++) {
		cudaStream_t stream = new_stream();
		void *ptr = rmm_allocate(20 * MIB, stream, (void *)0);
		ck_assert_msg(ptr != NULL, "%s", rmm_error());
		write_all(ptr, 20 * MIB, stream);
		rmm_deallocate(ptr, 20 * MIB, stream, (void *)0);
		ck_assert_int_eq(stream_destroy(stream), 0);
	}
	void *last = rmm_allocate(MIB, NULL, (void *)0);
	ck_assert_ptr_nonnull(last);
	rmm_deallocate(last, MIB, NULL, (void *)0);
	expect_nothing_found();
}
END_TEST

START_TEST(a_free_waits_for_streams_that_were_recorded)
{
	start(backends[_i], FAKE_STEPPED);
	cudaStream_t home = new_stream(), side = new_stream();
	void *ptr = torch_malloc(64 * KIB, 0, home);
	int (*event_create)(void **event, unsigned flags), (*event_record)(void *event, cudaStream_t stream),
		(*wait)(cudaStream_t stream, void *event, unsigned flags);
	void *event, *driver = load("libcuda.so.1");

	FIND(driver, event_create, "cuEventCreate");
	FIND(driver, event_record, "cuEventRecord");
	FIND(driver, wait, "cuStreamWaitEvent");
	ck_assert_int_eq(event_create(&event, 2), 0);
	ck_assert_int_eq(event_record(event, home), 0);
	ck_assert_int_eq(wait(side, event, 0), 0);
	torch_record_stream(ptr, side);
	torch_record_stream(ptr, side);
	/* Also what is queued after it was recorded, up to the free. */
	write_all(ptr, 64 * KIB, side);
	torch_free(ptr, 64 * KIB, 0, home);
	void *next = torch_malloc(64 * KIB, 0, home);
	write_all(next, 64 * KIB, home);
	torch_free(next, 64 * KIB, 0, home);
	expect_nothing_found();
}
END_TEST

/* The same without recording it, so that the one above can fail. */
START_TEST(the_checker_sees_a_use_that_was_not_recorded)
{
	start("backend=async", FAKE_STEPPED);
	cudaStream_t home = new_stream(), side = new_stream();
	void *ptr = torch_malloc(64 * KIB, 0, home);

	fake.run_all();
	write_all(ptr, 64 * KIB, side);
	torch_free(ptr, 64 * KIB, 0, home);
	fake.run_all();
	ck_assert_uint_gt(fake.findings(), 0);
}
END_TEST

/* ---- failures ---------------------------------------------------------------------------------------- */

START_TEST(a_failed_allocation_is_null_with_a_reason)
{
	start("backend=async,budget=1M", FAKE_IMMEDIATE);
	ck_assert_ptr_null(rmm_allocate(2 * MIB, NULL, (void *)0));
	ck_assert_msg(strstr(rmm_error(), "budget") != NULL, "%s", rmm_error());
	ck_assert_ptr_null(rmm_allocate(64, NULL, (void *)99));
	ck_assert_msg(strstr(rmm_error(), "99") != NULL, "%s", rmm_error());
	ck_assert_ptr_null(rmm_allocate(64, NULL, (void *)(intptr_t)-1));
	void *ptr = rmm_allocate(64, NULL, (void *)0);
	ck_assert_ptr_nonnull(ptr);
	rmm_deallocate(ptr, 64, NULL, (void *)0);
}
END_TEST

START_TEST(the_reason_is_that_of_the_latest_failure_whatever_succeeds_after_it)
{
	cudaStream_t stream;

	start("backend=async,max_pool_size=64M", FAKE_IMMEDIATE);
	ck_assert_str_eq(torch_error(), "success");
	ck_assert_int_gt(torch_stats(0, NULL, 0), 0);
	ck_assert_str_eq(torch_error(), "success");
	ck_assert_ptr_null(torch_malloc(128 * MIB, 0, NULL));
	ck_assert_msg(strstr(torch_error(), "128 MiB do") != NULL, "%s", torch_error());
	/* There is no budget and no guard to count, and the stream was not known before. */
	ck_assert_int_gt(torch_stats(0, NULL, 0), 0);
	ck_assert_int_eq(stream_create(&stream, 1), 0);
	void *ptr = torch_malloc(64, 0, stream);
	ck_assert_msg(ptr != NULL, "%s", torch_error());
	torch_free(ptr, 64, 0, stream);
	ck_assert_msg(strstr(torch_error(), "128 MiB do") != NULL, "%s", torch_error());
	torch_free(ptr, 64, 0, stream);
	ck_assert_msg(strstr(torch_error(), "not the address of a live block") != NULL, "%s", torch_error());
	ck_assert_str_eq(rmm_error(), "success");
}
END_TEST

START_TEST(a_bad_configuration_is_said_and_can_be_mended)
{
	start("backend=async,bugdet=1M", FAKE_IMMEDIATE);
	ck_assert_ptr_null(torch_malloc(64, 0, NULL));
	ck_assert_msg(strstr(torch_error(), "budget") != NULL, "%s", torch_error());
	ck_assert_int_eq(torch_stats(0, NULL, 0), -1);
	setenv("SOMA_CONF", "backend=async,backend_path=" BACKEND_FOLDERS, 1);
	void *ptr = torch_malloc(64, 0, NULL);
	ck_assert_msg(ptr != NULL, "%s", torch_error());
	torch_free(ptr, 64, 0, NULL);
}
END_TEST

START_TEST(a_wrong_free_changes_nothing)
{
	int stack;

	start("backend=async", FAKE_IMMEDIATE);
	char *ptr = torch_malloc(4096, 0, NULL);
	torch_free(&stack, 4, 0, NULL);
	torch_free(ptr + 16, 4, 0, NULL);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "live_count"), 1);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "failed_frees"), 2);
	torch_free(ptr, 4096, 0, NULL);
	torch_free(ptr, 4096, 0, NULL);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "live_count"), 0);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "failed_frees"), 3);
	torch_record_stream(ptr, NULL);
	expect_nothing_found();
}
END_TEST

/* Every entry that an allocation and a free call, failing at each of their calls in turn. */
START_TEST(each_failure_of_the_driver_is_null_or_leaves_the_block)
{
	static const char *const entries[] = {
		"cuMemAllocFromPoolAsync", "cuStreamGetId", "cuStreamGetFlags",
		"cuMemFreeAsync",          "cuEventRecord", "cuStreamWaitEvent"
	};

	start("backend=async", FAKE_IMMEDIATE);
	cudaStream_t stream = new_stream();
	void *warm = torch_malloc(4096, 0, stream);
	ck_assert_ptr_nonnull(warm);
	for (size_t e = 0; e < sizeof entries / sizeof entries[0]; e++) {
		for (uint64_t nth = 1; nth <= 4; nth++) {
			uint64_t lost = stat_of(torch_stats, 0, "failed_frees");
			uint64_t live = stat_of(torch_stats, 0, "live_count");
			ck_assert_msg(fake.fail(entries[e], nth, 999), "%s", entries[e]);
			void *ptr = torch_malloc(4096, 0, stream);
			torch_free(ptr, 4096, 0, stream);
			fake.fail_none();
			/* A block stays only when its free was said to have failed. */
			ck_assert_uint_eq(stat_of(torch_stats, 0, "live_count") - live,
					  stat_of(torch_stats, 0, "failed_frees") - lost);
		}
	}
	torch_free(warm, 4096, 0, stream);
	ck_assert_uint_eq(fake.findings_of(FAKE_FOUND_BAD_FREE), 0);
}
END_TEST

START_TEST(empty_cache_gives_memory_back)
{
	start("backend=async,release_threshold=all", FAKE_IMMEDIATE);
	void *ptr = torch_malloc(64 * MIB, 0, NULL);
	torch_free(ptr, 64 * MIB, 0, NULL);
	fake.run_all();
	uint64_t before = fake.device_taken(0);
	ck_assert_uint_ge(before, 64 * MIB);
	int (*synchronize)(void);
	FIND(load("libcuda.so.1"), synchronize, "cuCtxSynchronize");
	ck_assert_int_eq(synchronize(), 0);
	torch_reset();
	ck_assert_uint_lt(fake.device_taken(0), before);
}
END_TEST

/* ---- threads, processes --------------------------------------------------------------------------------- */

static void *
churn(void *argument)
{
	cudaStream_t stream = argument;

	for (int i = 0; i < 300; i++) {
		void *ptr = torch_malloc(100 + i * 13, 0, stream);
		ck_assert_ptr_nonnull(ptr);
		torch_free(ptr, 100 + i * 13, 0, stream);
	}
	return NULL;
}

START_TEST(threads_may_allocate_at_once)
{
	start("backend=async", FAKE_IMMEDIATE);
	pthread_t threads[6];
	cudaStream_t shared = new_stream();

	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, i % 2 == 0 ? shared : new_stream()),
				 0);
	for (int i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "alloc_count"), 1800);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "live_count"), 0);
	expect_nothing_found();
}
END_TEST

static int
exit_of_child(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(a_forked_child_allocates_nothing_and_its_frees_do_nothing)
{
	start("backend=async", FAKE_IMMEDIATE);
	void *ptr = torch_malloc(4096, 0, NULL);
	uint64_t calls = fake.calls(NULL);
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		bool fine = torch_malloc(64, 0, NULL) == NULL && strstr(torch_error(), "forked") != NULL;
		torch_free(ptr, 4096, 0, NULL);
		torch_record_stream(ptr, NULL);
		torch_reset();
		fine = fine && torch_stats(0, NULL, 0) == -1 && torch_flush() == -1;
		_exit(fine && fake.calls(NULL) == calls ? 0 : 1);
	}
	ck_assert_int_eq(exit_of_child(child), 0);
	ck_assert_uint_eq(stat_of(torch_stats, 0, "live_count"), 1);
	torch_free(ptr, 4096, 0, NULL);
}
END_TEST

static void *late;

static void
free_late(void)
{
	torch_free(late, 4096, 0, NULL);
}

START_TEST(frees_at_exit_after_the_driver_is_gone_do_no_harm)
{
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		atexit(free_late); /* runs after what the driver and soma have registered since */
		start("backend=async", FAKE_IMMEDIATE);
		late = torch_malloc(4096, 0, NULL);
		exit(late != NULL ? 0 : 1);
	}
	ck_assert_int_eq(exit_of_child(child), 0);
}
END_TEST

int
main(int argc, char **argv)
{
	const struct {
		const TTest *test;
		int count; /* over so many backends */
	} tests[] = {
		{ torch_allocates_uses_and_frees, 4 },
		{ torch_takes_nothing_for_0_bytes_and_frees_null, 1 },
		{ cupy_allocates_in_the_order_of_its_param, 4 },
		{ rmm_allocates_on_the_device_of_its_argument, 1 },
		{ modules_share_the_runtime_of_a_device, 1 },
		{ a_stream_with_a_recycled_handle_is_another_stream, 4 },
		{ nothing_is_asked_of_a_stream_that_its_framework_destroyed, 4 },
		{ a_free_waits_for_streams_that_were_recorded, 4 },
		{ the_checker_sees_a_use_that_was_not_recorded, 1 },
		{ a_failed_allocation_is_null_with_a_reason, 1 },
		{ the_reason_is_that_of_the_latest_failure_whatever_succeeds_after_it, 1 },
		{ a_bad_configuration_is_said_and_can_be_mended, 1 },
		{ a_wrong_free_changes_nothing, 1 },
		{ each_failure_of_the_driver_is_null_or_leaves_the_block, 1 },
		{ empty_cache_gives_memory_back, 1 },
		{ threads_may_allocate_at_once, 1 },
		{ a_forked_child_allocates_nothing_and_its_frees_do_nothing, 1 },
		{ frees_at_exit_after_the_driver_is_gone_do_no_harm, 1 },
	};
	Suite *suite = suite_create("frameworks");

	(void)argc;
	find_stand_in(argv);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
		TCase *tcase = tcase_create(tests[i].test->name);
		tcase_set_timeout(tcase, 0);
		tcase_add_loop_test(tcase, tests[i].test, 0, tests[i].count);
		suite_add_tcase(suite, tcase);
	}
	return unit_run_suite(suite);
}

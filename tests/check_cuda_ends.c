/* SPDX-License-Identifier: Apache-2.0 */
/* What is left behind, and with the calling thread, when the driver fails at a bad moment: nothing. */
#include <stdlib.h>
#include <sys/wait.h>

#include <soma/log.h>
#include <soma/resource.h>

#include "backends/cuda/blocks.h"
#include "lib/resource/open.h"
#include "tests/cuda_fixture.h"

/* ---- the calling thread ---------------------------------------------------------------- */

static CUcontext
current_context(void)
{
	CUcontext current = NULL;

	ck_assert_int_eq(driver()->cuCtxGetCurrent(&current), CUDA_SUCCESS);
	return current;
}

static CUstreamCaptureMode
capture_mode(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED, other;

	ck_assert_int_eq(driver()->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
	other = mode;
	ck_assert_int_eq(driver()->cuThreadExchangeStreamCaptureMode(&other), CUDA_SUCCESS);
	return mode;
}

/* The other device is as it was, and so must be the thread that works with it. */
START_TEST(the_call_that_loses_the_device_leaves_the_thread_as_it_was)
{
	for (size_t i = 0; i < BOTH; i++) {
		start_fake();
		fake.devices(2);
		open_backend(both[i]);
		push_context(1);
		CUcontext before = current_context();
		fake.sticky(0, CUDA_ERROR_ILLEGAL_ADDRESS);
		REFUSED(DRIVER, "beyond use from now on", ops->synchronize(self));
		ck_assert_ptr_eq(current_context(), before);
		ck_assert_int_eq(capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
		soma__backend_close(backend);
		ck_assert_ptr_eq(current_context(), before);
		pop_context(1);
		ck_assert_ptr_null(current_context());
		fake.restart();
	}
}
END_TEST

/* ---- a forked child -------------------------------------------------------------------------- */

static int
child(struct soma_backend_stream *stream, struct soma_backend_event *event, void *memory)
{
	uint64_t ptr, calls = fake.calls(NULL);
	bool refused = ops->alloc(self, 1000, 0, stream, &ptr) == SOMA_STATUS_DRIVER;

	ops->event_destroy(self, event);
	ops->stream_destroy(self, stream);
	ops->staging_free(self, memory, 100);
	soma__backend_close(backend);
	return refused && fake.calls(NULL) == calls && fake.findings() == 0 ? 0 : 1;
}

/* Its driver is not there, and what the parent's threads had in hand is not to be touched. */
START_TEST(a_forked_child_calls_nothing)
{
	void *memory;
	int how;

	for (size_t i = 0; i < BOTH; i++) {
		start_fake();
		open_backend(both[i]);
		struct soma_backend_stream *stream = stream_new();
		struct soma_backend_event *event = event_new();
		OK(ops->staging_alloc(self, 100, &memory));
		uint64_t ptr = take(1000, stream);
		pid_t pid = fork();
		if (pid == 0)
			_exit(child(stream, event, memory));
		ck_assert_int_eq(waitpid(pid, &how, 0), pid);
		ck_assert_int_eq(how, 0);
		give(ptr, 1000, stream);
		close_backend();
		fake.restart();
	}
}
END_TEST

/* ---- errors of earlier work ---------------------------------------------------------------- */

/* The driver answers with the error of earlier work and has done its own all the same; the caller hears of a
 * failure, so nothing may be there. */
START_TEST(what_came_with_an_error_of_earlier_work_is_given_back)
{
	struct soma_backend_event *event;
	struct soma_backend_stream *stream;
	uint64_t ptr, span;
	void *memory;

	for (size_t i = 0; i < BOTH; i++) {
		start_fake();
		open_backend(both[i]);
		fake.deferred_calls_work(true);
		fake.deferred(0, 701);
		REFUSED(DRIVER, "of work that was queued before", ops->alloc(self, 500, 0, NULL, &ptr));
		fake.deferred(0, 701);
		REFUSED(DRIVER, "of work that was queued before", ops->event_create(self, 0, &event));
		fake.deferred(0, 701);
		REFUSED(DRIVER, "of work that was queued before", ops->stream_create(self, 0, &stream));
		fake.deferred(0, 701);
		REFUSED(DRIVER, "of work that was queued before", ops->staging_alloc(self, 100, &memory));
		fake.deferred(0, 701);
		(void)ops->span_reserve(self, 2 * MB, 0, &span);
		fake.deferred(0, 0);
		close_backend();
		fake.restart();
	}
}
END_TEST

/* The error comes with the answer to a question before the free, which is then not begun: or it was, and counts. */
START_TEST(a_free_that_meets_an_error_of_earlier_work_is_done_or_not_begun)
{
	for (size_t i = 0; i < BOTH; i++) {
		for (int works = 0; works < 2; works++) {
			start_fake();
			fake.deferred_calls_work(works != 0);
			open_backend(both[i]);
			uint64_t ptr = take(500, NULL), live = fake.live(FAKE_ALLOCATIONS);
			fake.deferred(0, 701);
			REFUSED(DRIVER, "of work that was queued before", ops->free(self, ptr, 500, NULL));
			ck_assert_uint_eq(fake.live(FAKE_ALLOCATIONS), live);
			give(ptr, 500, NULL);
			ck_assert_uint_eq(fake.live(FAKE_ALLOCATIONS), live - 1);
			close_backend();
			fake.restart();
		}
	}
}
END_TEST

/* What an error of earlier work came with, when it came between the question and the free. */
START_TEST(an_answer_that_says_nothing_of_the_free_is_looked_into)
{
	static const char *const entries[] = { "cuMemFreeAsync", "cuMemFree_v2" };

	for (size_t i = 0; i < BOTH; i++) {
		start_fake();
		open_backend(both[i]);
		uint64_t ptr = take(500, NULL), other = take(600, NULL), live = fake.live(FAKE_ALLOCATIONS);
		ck_assert(fake.fail(entries[i], 1, 701));
		give(ptr, 500, NULL);
		ck_assert_uint_eq(fake.live(FAKE_ALLOCATIONS), live - 1);
		REFUSED(INVALID_VALUE, "no block", ops->free(self, ptr, 500, NULL));
		EXPECT_NOTHING_FOUND();
		/* It has worked: the driver knows the block no more. */
		push_context(0);
		ck_assert_int_eq(i == 0 ? driver()->cuMemFreeAsync(other, NULL) : driver()->cuMemFree(other),
				 CUDA_SUCCESS);
		pop_context(0);
		ck_assert(fake.fail(entries[i], 1, 701));
		give(other, 600, NULL);
		REFUSED(INVALID_VALUE, "no block", ops->free(self, other, 600, NULL));
		ck_assert_uint_eq(fake.findings(), fake.findings_of(FAKE_FOUND_BAD_FREE));
		fake.findings_clear();
		close_backend();
		fake.restart();
	}
}
END_TEST

static void
hear(void *context, enum soma_log_level level, const char *text)
{
	if (level == SOMA_LOG_ERROR && strstr(text, "earlier work failed") != NULL)
		++*(int *)context;
}

/* Who asks whether frees are over gets no answer, and nobody to tell. */
START_TEST(an_error_of_earlier_work_that_a_reap_meets_is_logged)
{
	const struct soma__backend_config config = { .name = "async", .search = BACKEND_FOLDERS };
	struct soma_block block = { .size = sizeof block };
	struct soma_resource *resource;
	int heard = 0;

	start_fake();
	soma_log_set_sink(hear, &heard, SOMA_LOG_ERROR);
	OK(soma__resource_open(&config, &resource));
	OK(soma_resource_allocate(resource, 1000, 0, &block));
	OK(soma_resource_deallocate(resource, &block));
	fake.deferred(0, 701);
	OK(soma_resource_reap_pending(resource));
	ck_assert_int_eq(heard, 1);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 1000);
	OK(soma_resource_reap_pending(resource));
	ck_assert_int_eq(heard, 1);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	soma_resource_release(resource);
	soma_log_set_sink(NULL, NULL, SOMA_LOG_ERROR);
	EXPECT_NOTHING_FOUND();
}
END_TEST

/* ---- the table of blocks ------------------------------------------------------------------- */

static void *
count_alloc(void *context, size_t size, size_t alignment)
{
	++*(int *)context;
	return aligned_alloc(alignment, size);
}

static void
count_free(void *context, void *memory, size_t size)
{
	(void)context, (void)size;
	free(memory);
}

/* A graph's memory goes with its graph, unseen, and another graph has the address. */
START_TEST(a_block_that_ended_unseen_takes_no_room_for_ever)
{
	int allocs = 0;
	const struct soma_backend_host host = {
		.size = sizeof host, .context = &allocs, .alloc = count_alloc, .free = count_free
	};
	struct block block = { .ptr = 0x7000000, .size = 1, .kind = BLOCK_GRAPH };
	struct blocks blocks;

	blocks_init(&blocks, &host);
	for (int i = 0; i < 1000; i++)
		ck_assert(blocks_add(&blocks, block.ptr, 1, NULL, BLOCK_GRAPH));
	for (int i = 0; i < 1000; i++) {
		ck_assert(blocks_take(&blocks, block.ptr, 1, NULL, &block));
		blocks_restore(&blocks, &block);
		ck_assert(blocks_take(&blocks, block.ptr, 1, NULL, &block));
		blocks_gone(&blocks, block.ptr);
		ck_assert(blocks_add(&blocks, block.ptr, 1, NULL, BLOCK_GRAPH));
	}
	ck_assert_int_eq(allocs, 1);
	blocks_fini(&blocks);
}
END_TEST

/* ---- close --------------------------------------------------------------------------------- */

static void
fill_backend(void)
{
	struct soma_backend_stream *stream = stream_new();
	void *memory;
	uint64_t span;

	(void)take(1000, stream);
	(void)take(2000, NULL);
	OK(ops->event_record(self, event_new(), stream));
	OK(ops->staging_alloc(self, 100, &memory));
	OK(ops->span_reserve(self, 4 * MB, 0, &span));
	OK(ops->span_map(self, span, 2 * MB));
}

/* Whether the failure struck. */
static bool
close_with(const char *name, const char *what, uint64_t nth)
{
	char text[256] = "";

	fake.restart();
	open_backend(name);
	fill_backend();
	ck_assert(fake.fail(what, nth, CUDA_ERROR_UNKNOWN));
	soma__backend_close(backend);
	bool struck = fake.failures() > 0;
	fake.fail_none();
	ck_assert_ptr_null(current_context());
	ck_assert_int_eq(capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
	fake.leaks();
	fake.finding(0, NULL, text, sizeof text);
	ck_assert_msg(fake.findings() == 0 && fake.live(FAKE_CONTEXTS) == 0,
		      "%s, %s failing at its call %" PRIu64 " of close: %s, %" PRIu64 " contexts", name, what,
		      nth, text, fake.live(FAKE_CONTEXTS));
	return struck;
}

START_TEST(a_call_that_fails_once_in_close_leaves_nothing)
{
	const char *what;
	uint64_t closes = 0;

	start_fake();
	for (size_t i = 0; i < BOTH; i++)
		for (size_t j = 0; (what = fake.entry(j)) != NULL; j++)
			for (uint64_t nth = 1; close_with(both[i], what, nth); nth++)
				closes++;
	ck_assert_uint_ge(closes, 40);
}
END_TEST

/* A fork takes more locks at once, those of the library's arena, than ThreadSanitizer's detector of deadlocks can
 * hold; it reads this when the test starts itself again. */
static void
spare_detector(void)
{
	const char *before = getenv("TSAN_OPTIONS");
	char options[1024];

	snprintf(options, sizeof options, "%s detect_deadlocks=0", before != NULL ? before : "");
	setenv("TSAN_OPTIONS", options, 1);
}

int
main(int argc, char **argv)
{
	const TTest *const tests[] = {
		the_call_that_loses_the_device_leaves_the_thread_as_it_was,
		a_forked_child_calls_nothing,
		what_came_with_an_error_of_earlier_work_is_given_back,
		a_free_that_meets_an_error_of_earlier_work_is_done_or_not_begun,
		an_answer_that_says_nothing_of_the_free_is_looked_into,
		an_error_of_earlier_work_that_a_reap_meets_is_logged,
		a_block_that_ended_unseen_takes_no_room_for_ever,
		a_call_that_fails_once_in_close_leaves_nothing,
	};

	(void)argc;
	spare_detector();
	find_stand_in(argv);
	return unit_run("cuda ends", tests, sizeof tests / sizeof tests[0]);
}

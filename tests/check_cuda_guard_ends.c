/* SPDX-License-Identifier: Apache-2.0 */
/* Where the guard must keep out of a device's way, and what it does when memory is short, when a device is lost and
 * when a process ends; and blocks in mappings of their own. */
#include <sys/wait.h>

#include <soma/budget.h>

#include "lib/resource/open.h"
#include "tests/cuda_guard_fixture.h"

/* ---- keeping out of the way ------------------------------------------------------------- */

static void
begin_capture(struct soma_backend_stream *stream)
{
	CUresult (*begin)(CUstream, CUstreamCaptureMode);

	*(void **)&begin = entry("cuStreamBeginCapture_v2");
	push_context(0);
	ck_assert_int_eq(begin(native(stream), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
}

/* It must be whole, and have nothing in it. */
static void
end_empty_capture(struct soma_backend_stream *stream)
{
	CUresult (*end)(CUstream, CUgraph *), (*destroy)(CUgraph);
	CUgraph graph = NULL;
	uint64_t pending = fake.pending(native(stream));

	*(void **)&end = entry("cuStreamEndCapture");
	*(void **)&destroy = entry("cuGraphDestroy");
	ck_assert_int_eq(end(native(stream), &graph), CUDA_SUCCESS);
	ck_assert_int_eq(destroy(graph), CUDA_SUCCESS);
	ck_assert_uint_eq(fake.pending(native(stream)), pending);
	pop_context(0);
}

CASE(nothing_happens_on_a_stream_in_a_capture)
{
	uint64_t p = take(100, a), q = take(100, a), more;
	struct soma_backend_guard_stats stats = { .size = sizeof stats };

	order(a, b);
	give(p, 100, a);
	OK(ops->synchronize(self));
	uint64_t r = take(100, a);
	poke(r, a);
	give(r, 100, a);
	begin_capture(a);
	REFUSED(STREAM_MISUSE, "in a capture", ops->alloc(self, 100, 0, a, &more));
	REFUSED(STREAM_MISUSE, "in a capture", ops->free(self, q, 100, a));
	OK(ops->guard_settle(self));
	OK(ops->guard_stats(self, &stats));
	ck_assert_uint_eq(stats.retired_blocks, 1);
	ck_assert_uint_eq(scan_now(), 0);
	drain();
	end_empty_capture(a);
	give(q, 100, a);
	OK(ops->synchronize(self));
	OK(ops->guard_settle(self));
	OK(ops->guard_stats(self, &stats));
	ck_assert_uint_eq(stats.retired_blocks, 0);
	EXPECT();
}

static void
lose_device(const char *name)
{
	uint64_t ptr, damaged;

	start_fake();
	open_guard(name, NULL, NULL);
	uint64_t p = take(100, a), q = take(100, b);
	give(q, 100, b);
	fake.sticky(0, CUDA_ERROR_LAUNCH_FAILED);
	REFUSED(DRIVER, "CUDA_ERROR_LAUNCH_FAILED", ops->stream_synchronize(self, a));
	uint64_t calls = fake.calls(NULL);
	ck_assert_uint_ne(query().capabilities & SOMA_BACKEND_LOST, 0);
	REFUSED(DRIVER, "beyond use", ops->alloc(self, 100, 0, a, &ptr));
	OK(ops->free(self, p, 100, a));
	ck_assert_int_eq(ops->free(self, p, 100, a), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_ne(ops->guard_scan(self, &damaged), SOMA_STATUS_OK);
	OK(ops->guard_settle(self));
	drain();
	soma__backend_close(backend);
	ck_assert_uint_eq(fake.calls(NULL), calls);
	EXPECT("double-free");
	fake.restart();
}

START_TEST(a_lost_device_hears_nothing_of_the_guard)
{
	lose_device("guard:async");
	lose_device("guard:sync");
}
END_TEST

START_TEST(a_full_budget_drains_the_quarantine)
{
	const struct soma_backend_option option = { "guard.on_error", "callback" };
	const struct soma__backend_config config = {
		.name = "guard:async", .search = BACKEND_FOLDERS, .option_count = 1, .options = &option
	};
	struct soma_resource *terminal, *budget;
	struct soma_block block = { .size = sizeof block };

	start_fake();
	OK(soma__resource_open(&config, &terminal));
	OK(soma_budget_create(terminal, 10000, &budget));
	for (int i = 0; i < 50; i++) {
		OK(soma_resource_allocate(budget, 3000, 0, &block));
		OK(soma_resource_deallocate(budget, &block));
	}
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake.leaks();
	EXPECT_NOTHING_FOUND();
}
END_TEST

/* A device with 128 MiB: what is missing is in the guard's quarantine and in the pool, unseen. */
START_TEST(a_full_device_drains_the_quarantine)
{
	struct soma_block block = { .size = sizeof block };
	const struct soma__backend_config config = { .name = "guard:async", .search = BACKEND_FOLDERS };
	struct soma_resource *resource;
	uint64_t stream;

	start_fake();
	fake.device_memory(0, 128 * MB);
	fake.mode(FAKE_STEPPED, 1, 0);
	OK(soma__resource_open(&config, &resource));
	OK(soma_resource_stream_create(resource, 0, &stream));
	for (int i = 0; i < 20; i++) {
		OK(soma_resource_allocate(resource, 40 * MB, stream, &block));
		OK(soma_resource_deallocate(resource, &block));
	}
	soma_resource_release(resource);
	fake.leaks();
	EXPECT_NOTHING_FOUND();
}
END_TEST

/* ---- blocks in mappings of their own -------------------------------------------------------- */

static void
run_mapped(void (*body)(const char *map))
{
	static const char *const names[] = { "guard:async", "guard:sync" };
	char map[] = "/tmp/soma-map-XXXXXX";
	int fd = mkstemp(map);

	ck_assert_int_ge(fd, 0);
	close(fd);
	start_fake();
	for (int i = 0; i < 2; i++) {
		const struct soma_backend_option options[] = {
			{ "guard.on_error", "callback" }, { "guard.mode", "full" },
			{ "guard.vmm_sample", "1" },      { "guard.map", map },
			{ "guard.race", "strict" },       NO_STACKS,
		};
		fake.restart();
		fake.mode(FAKE_STEPPED, 1, 0);
		seen_count = 0;
		ck_assert_int_eq(truncate(map, 0), 0);
		OK(try_open(names[i], options, 6));
		OK(ops->guard_listen(self, note, NULL));
		a = stream_new();
		body(map);
		close_backend();
	}
	unlink(map);
}

static bool
map_says(const char *map, const char *what, uint64_t ptr)
{
	char line[512], wanted[64];
	FILE *file = fopen(map, "r");
	bool found = false;

	snprintf(wanted, sizeof wanted, "%s block 0x%" PRIx64 " ", what, ptr);
	while (fgets(line, sizeof line, file) != NULL)
		found = found || strncmp(line, wanted, strlen(wanted)) == 0;
	fclose(file);
	return found;
}

static void
mapped_block(const char *map)
{
	uint64_t p = take(1000, a), q = take(3 * MB, a);

	ck_assert_uint_eq(fake.live(FAKE_RESERVATIONS), 2);
	ck_assert_uint_eq(fake.live(FAKE_MAPPINGS), 3);
	ck_assert(map_says(map, "mapped", p) && map_says(map, "mapped", q));
	ck_assert_int_ne(p % (2 * MB) == 0, q % (2 * MB) == 0);
	OK(ops->fill8(self, p, 1, 1000, a));
	give(p, 1000, a);
	OK(ops->guard_settle(self));
	ck_assert_uint_eq(fake.live(FAKE_MAPPINGS), 3);
	ck_assert(!map_says(map, "unmapped", p));
	sync_stream(a);
	OK(ops->guard_settle(self));
	ck_assert_uint_eq(fake.live(FAKE_MAPPINGS), 2);
	ck_assert_uint_eq(fake.live(FAKE_RESERVATIONS), 2);
	ck_assert(map_says(map, "unmapped", p));
	drain();
	ck_assert_uint_eq(fake.live(FAKE_RESERVATIONS), 1);
	give(q, 3 * MB, a);
	sync_stream(a);
	EXPECT();
}

START_TEST(a_mapped_block_goes_when_its_work_is_over)
{
	run_mapped(mapped_block);
}
END_TEST

static void
mapped_slack(const char *map)
{
	uint64_t p = take(1000, a), q = take(1000, a);

	(void)map;
	/* One lies at the right of its pages: up to a multiple of 256 there is slack behind it. */
	poke(p + 1000, a);
	poke(q + 1000, a);
	give(p, 1000, a);
	give(q, 1000, a);
	sync_stream(a);
	EXPECT("oob-write-after", "oob-write-after");
}

START_TEST(a_mapped_blocks_slack_is_watched)
{
	run_mapped(mapped_slack);
}
END_TEST

START_TEST(some_small_blocks_are_mapped_and_all_large_ones)
{
	const struct soma_backend_option options[] = { { "guard.on_error", "callback" },
						       { "guard.mode", "full" },
						       { "guard.vmm_sample", "1/4" },
						       { "guard.vmm_bytes", "200M" } };
	uint64_t p[100];

	start_fake();
	OK(try_open("guard:async", options, 4));
	a = stream_new();
	for (int i = 0; i < 100; i++)
		p[i] = take(1000, a);
	uint64_t small = fake.live(FAKE_RESERVATIONS);
	ck_assert_uint_ge(small, 10);
	ck_assert_uint_le(small, 45);
	uint64_t q = take(5 * MB, a), r = take(180 * MB, a);
	ck_assert_uint_eq(fake.live(FAKE_RESERVATIONS), small + 1);
	for (int i = 0; i < 100; i++)
		give(p[i], 1000, a);
	give(q, 5 * MB, a);
	give(r, 180 * MB, a);
	sync_stream(a);
	close_backend();
}
END_TEST

START_TEST(a_map_that_cannot_be_written_is_refused_at_open)
{
	const struct soma_backend_option options[] = { { "guard.mode", "full" },
						       { "guard.map", "/nowhere/at/all" } };

	start_fake();
	REFUSED(IO, "/nowhere/at/all", try_open("guard:async", options, 2));
	fake.leaks();
	EXPECT_NOTHING_FOUND();
}
END_TEST

/* ---- ends of processes ------------------------------------------------------------------------ */

/* No test is running in these: they answer with a status. */
static uint64_t
open_and_take(void)
{
	const struct soma_backend_option options[] = { { "guard.on_error", "report" }, NO_STACKS };
	uint64_t ptr = 0;

	if (try_open("guard:async", options, 2) != SOMA_STATUS_OK ||
	    ops->stream_create(self, 0, &a) != SOMA_STATUS_OK ||
	    ops->alloc(self, 100, 0, a, &ptr) != SOMA_STATUS_OK ||
	    ops->block_name(self, ptr, 3, "forgotten") != SOMA_STATUS_OK)
		fprintf(stderr, "%s\n", soma_error_last()->text);
	return ptr;
}

static int
exit_with_a_leak(void)
{
	return open_and_take() != 0 ? 0 : 1;
}

static int
fork_and_exit(void)
{
	uint64_t ptr = open_and_take();
	int status = 1;
	pid_t child = fork();

	if (child == 0) {
		soma__backend_close(backend);
		exit(0);
	}
	waitpid(child, &status, 0);
	if (ops->free(self, ptr, 100, a) != SOMA_STATUS_OK)
		status = 1;
	soma__backend_close(backend);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void
run_mode(const char *mode, char *said, size_t size)
{
	char command[4400], path[4200];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);

	ck_assert_int_gt(length, 0);
	path[length] = '\0';
	snprintf(command, sizeof command,
		 "FAKE_CUDA_REPORT=stderr TSAN_OPTIONS=detect_deadlocks=0 '%s' %s 2>&1", path, mode);
	FILE *pipe = popen(command, "r");
	said[fread(said, 1, size - 1, pipe)] = '\0';
	ck_assert_int_eq(pclose(pipe), 0);
}

START_TEST(at_exit_leaks_are_told_without_the_driver)
{
	static char said[65536];

	run_mode("--exit", said, sizeof said);
	ck_assert_msg(strstr(said, "leak") && strstr(said, "forgotten"), "%s", said);
	ck_assert_msg(strstr(said, "after the driver was gone") == NULL, "%s", said);
}
END_TEST

START_TEST(a_forked_child_says_nothing_and_calls_nothing)
{
	static char said[65536];

	run_mode("--fork", said, sizeof said);
	ck_assert_msg(strstr(said, "soma-guard") == NULL, "%s", said);
	ck_assert_msg(strstr(said, "forked after cuInit") == NULL, "%s", said);
}
END_TEST

int
main(int argc, char **argv)
{
	const TTest *const tests[] = { nothing_happens_on_a_stream_in_a_capture,
				       a_lost_device_hears_nothing_of_the_guard,
				       a_full_budget_drains_the_quarantine,
				       a_full_device_drains_the_quarantine,
				       a_mapped_block_goes_when_its_work_is_over,
				       a_mapped_blocks_slack_is_watched,
				       some_small_blocks_are_mapped_and_all_large_ones,
				       a_map_that_cannot_be_written_is_refused_at_open,
				       at_exit_leaks_are_told_without_the_driver,
				       a_forked_child_says_nothing_and_calls_nothing };

	find_stand_in(argv);
	if (argc == 2 && strcmp(argv[1], "--exit") == 0)
		return exit_with_a_leak();
	if (argc == 2 && strcmp(argv[1], "--fork") == 0)
		return fork_and_exit();
	return unit_run("cuda guard ends", tests, sizeof tests / sizeof tests[0]);
}

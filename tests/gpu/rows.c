/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the guard must find, and what it must not, around async and sync: the rows of its specification, with kernels
 * for the work.  One row, or a few that belong together, is a case; most are in tests/guard_device_rows.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <soma/status.h>

#include "lib/plugin/backend.h"
#include "tests/gpu/case.h"

#define MB ((uint64_t)1 << 20)

static struct gpu *gpu;
static const struct case_setup *setup;
static struct soma__backend *backend;
static const struct soma_backend_ops *ops;
static struct soma_backend *self;
static bool is_async;

#define OK(call)                                                                                        \
	do {                                                                                            \
		if ((call) != SOMA_STATUS_OK)                                                           \
			case_fail("%s:%d: %s: %s", __FILE__, __LINE__, #call, soma_error_last()->text); \
	} while (0)
#define FAILED(...) case_fail(__VA_ARGS__)
#include "tests/guard_words.h"

/* ---- work of the program's: kernels ------------------------------------------------------- */

static uint64_t
native(struct soma_backend_stream *stream)
{
	return info_of(stream).native;
}

static void
touch(uint64_t ptr, uint64_t bytes, unsigned char value, struct soma_backend_stream *stream)
{
	gpu_touch(gpu, ptr, bytes, value, native(stream));
}

static void
look(uint64_t ptr, uint64_t bytes, unsigned char value, struct soma_backend_stream *stream)
{
	gpu_check(gpu, ptr, bytes, value, native(stream));
}

static void
read_bytes(uint64_t ptr, uint64_t bytes, struct soma_backend_stream *stream)
{
	gpu_read(gpu, ptr, bytes, native(stream));
}

static uint64_t
mismatches(void)
{
	return gpu_mismatches(gpu);
}

static void
poke(uint64_t at, struct soma_backend_stream *stream)
{
	touch(at, 1, 7, stream);
}

/* ---- cases ---------------------------------------------------------------------------------- */

static void
open_guard(const struct soma_backend_option *more)
{
	struct soma_backend_option options[8] = { { "guard.on_error", "callback" },
						  { "guard.race", "strict" } };
	size_t count = 2;

	for (; more != NULL && more->key != NULL; more++)
		options[count++] = *more;
	const struct soma__backend_config config = { .name = setup->backend,
						     .search = setup->folders,
						     .device = setup->device,
						     .option_count = count,
						     .options = options };
	is_async = setup->is_async;
	OK(soma__backend_open(&config, &backend));
	ops = backend->ops;
	self = backend->self;
	begin_listening();
}

/* Closing adds no report. */
static void
run_row(struct gpu *device, const struct case_setup *how, const struct soma_backend_option *more,
	void (*row)(void))
{
	unsigned before;

	gpu = device;
	setup = how;
	open_guard(more);
	row();
	before = seen_count;
	soma__backend_close(backend);
	if (seen_count != before)
		case_fail("a report at the end: %s", seen[seen_count - 1]);
}

static void
open_again(void)
{
	open_guard(NULL);
}

#define ROW_OPTIONS(name, ...)                                                                  \
	static void name##_body(void);                                                          \
	static void name(struct gpu *device, const struct case_setup *how)                      \
	{                                                                                       \
		static const struct soma_backend_option more[] = { __VA_ARGS__{ NULL, NULL } }; \
		run_row(device, how, more, name##_body);                                        \
	}                                                                                       \
	static void name##_body(void)
#define ROW_WITH(name, option, value) ROW_OPTIONS(name, { option, value }, )
#define ROW(name) ROW_OPTIONS(name)

#define SAME(is, expected) CASE_EXPECT((is) == (expected))
#define SIZES (setup->quick ? 20u : 600u)
#define STANDS_STILL false
#include "tests/guard_device_rows.h"

ROW(row_21_free_on_a_stream_that_is_not_ordered)
{
	uint64_t p = take(1000, a);

	OK(use(p, WRITE, a));
	touch(p, 1000, 1, a);
	give(p, 1000, b);
	EXPECT("free-unordered");
	OK(ops->synchronize(self));
}

/* ---- the end ------------------------------------------------------------------------------------------ */

/* A kernel past a block in a mapping of its own: the device is lost, and the map says which block it was. */
static void
row_30_a_mapped_block_faults(struct gpu *device, const struct case_setup *how)
{
	char map[] = "/tmp/soma-map-XXXXXX", line[512], wanted[64];
	int fd = mkstemp(map);
	const struct soma_backend_option more[] = {
		{ "guard.mode", "full" }, { "guard.vmm_sample", "1" }, { "guard.map", map }, { 0 }
	};
	struct soma_backend_info info = { .size = sizeof info };
	bool found = false;

	CASE_EXPECT(fd >= 0);
	close(fd);
	gpu = device;
	setup = how;
	open_guard(more);
	uint64_t p = take(1000, a);
	poke(p + 999, a);
	sync_stream(a);
	poke(p + 2 * MB, a);
	CASE_EXPECT(ops->stream_synchronize(self, a) != SOMA_STATUS_OK);
	OK(ops->query(self, &info));
	CASE_EXPECT((info.capabilities & SOMA_BACKEND_LOST) != 0);
	FILE *file = fopen(map, "r");
	CASE_EXPECT(file != NULL);
	snprintf(wanted, sizeof wanted, "mapped block 0x%" PRIx64 " ", p);
	while (fgets(line, sizeof line, file) != NULL)
		found = found || strncmp(line, wanted, strlen(wanted)) == 0;
	fclose(file);
	unlink(map);
	CASE_EXPECT(found);
	/* The device is of no use to anybody in this process any more. */
	case_note("lost as it must be");
	_exit(EXIT_SUCCESS);
}

ROW(row_31_a_forked_child_says_nothing)
{
	uint64_t p = take(1000, a);
	int ends[2], status;
	pid_t child;
	char byte;

	CASE_EXPECT(pipe(ends) == 0);
	child = fork();
	CASE_EXPECT(child >= 0);
	if (child == 0) {
		/* Whatever it says goes into the pipe; not by exit(), which ends the parent's driver here. */
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		_exit(seen_count == 0 ? 0 : 1);
	}
	close(ends[1]);
	CASE_EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CASE_EXPECT(read(ends[0], &byte, 1) == 0);
	poke(p, a);
	give(p, 1000, a);
	EXPECT();
}

int
main(int argc, char **argv)
{
/* clang-format off */
#define RIGHT(name) { #name, CASE_GUARDED, name }
#define WRONG(name) { #name, CASE_GUARDED | CASE_WRONG, name }
	/* clang-format on */
	static const struct case_entry cases[] = {
		WRONG(row_01_write_just_past_the_end),
		WRONG(row_02_write_just_before_the_start),
		WRONG(row_03_write_of_the_last_redzone_byte),
		WRONG(row_04_two_damaged_blocks_are_two_reports),
		RIGHT(rows_05_to_07_double_free),
		RIGHT(row_08_foreign_free),
		WRONG(row_11_write_after_free),
		WRONG(row_12_one_report_and_the_address_is_not_used_again),
		RIGHT(row_13_use_after_free),
		RIGHT(row_14_a_leak_is_told_at_the_end),
		RIGHT(row_15_read_of_what_was_never_written),
		RIGHT(rows_16_to_20_use_before_ready),
		RIGHT(row_21_free_on_a_stream_that_is_not_ordered),
		RIGHT(row_22_races),
		RIGHT(row_23_what_fits_is_fine),
		RIGHT(rows_25_to_27_what_is_ordered_is_fine),
		RIGHT(row_28_a_small_quarantine_turns_over),
		WRONG(row_30_a_mapped_block_faults),
		RIGHT(row_31_a_forked_child_says_nothing),
	};

	return case_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the guard must find, and what it must not, around async and sync: the rows of its specification, with kernels
 * for the work.  One row, or a few that belong together, is a case.
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
#define SEEN_MAX 64
#define READ SOMA_BACKEND_ACCESS_READ
#define WRITE SOMA_BACKEND_ACCESS_WRITE

static struct gpu *gpu;
static const struct case_setup *setup;
static struct soma__backend *backend;
static const struct soma_backend_ops *ops;
static struct soma_backend *self;
static struct soma_backend_stream *a, *b, *c; /* non-blocking */
static char seen[SEEN_MAX][32], last_text[8192];
static unsigned seen_count;

#define OK(call)                                                                                        \
	do {                                                                                            \
		if ((call) != SOMA_STATUS_OK)                                                           \
			case_fail("%s:%d: %s: %s", __FILE__, __LINE__, #call, soma_error_last()->text); \
	} while (0)

static void
note(void *context, const struct soma_backend_guard_report *report)
{
	(void)context;
	if (seen_count < SEEN_MAX)
		snprintf(seen[seen_count++], sizeof seen[0], "%s", report->kind);
	snprintf(last_text, sizeof last_text, "%s", report->text);
}

/* The reports so far are of exactly these kinds. */
static void
expect(int line, const char *const *kinds)
{
	unsigned i = 0;

	for (; kinds[i] != NULL; i++)
		if (i >= seen_count || strcmp(seen[i], kinds[i]) != 0)
			case_fail("line %d: report %u is %s, not %s", line, i + 1,
				  i < seen_count ? seen[i] : "missing", kinds[i]);
	if (i != seen_count)
		case_fail("line %d: a report too many: %s", line, seen[i]);
}
#define EXPECT(...) expect(__LINE__, (const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })

static void
expect_text(int line, const char *part)
{
	if (strstr(last_text, part) == NULL)
		case_fail("line %d: \"%s\" is not in the report: %.200s", line, part, last_text);
}
#define EXPECT_TEXT(part) expect_text(__LINE__, part)

/* ---- shorthands that must succeed --------------------------------------------------------- */

static struct soma_backend_stream *
stream_new(unsigned flags)
{
	struct soma_backend_stream *stream;

	OK(ops->stream_create(self, flags, &stream));
	return stream;
}

static struct soma_backend_stream *
legacy_stream(void)
{
	struct soma_backend_stream *stream;

	OK(ops->stream_default(self, SOMA_BACKEND_STREAM_LEGACY, &stream));
	return stream;
}

static uint64_t
native(struct soma_backend_stream *stream)
{
	struct soma_backend_stream_info info = { .size = sizeof info };

	OK(ops->stream_info(self, stream, &info));
	return info.native;
}

static uint64_t
take(uint64_t size, struct soma_backend_stream *stream)
{
	uint64_t ptr;

	OK(ops->alloc(self, size, 0, stream, &ptr));
	return ptr;
}

static void
give(uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	OK(ops->free(self, ptr, size, stream));
}

static void
poke(uint64_t at, struct soma_backend_stream *stream)
{
	gpu_touch(gpu, at, 1, 7, native(stream));
}

static void
sync_stream(struct soma_backend_stream *stream)
{
	OK(ops->stream_synchronize(self, stream));
}

static void
order(struct soma_backend_stream *first, struct soma_backend_stream *then)
{
	struct soma_backend_event *event;

	OK(ops->event_create(self, 0, &event));
	OK(ops->event_record(self, event, first));
	OK(ops->event_wait(self, event, then));
	ops->event_destroy(self, event);
}

static uint64_t
scan_now(void)
{
	uint64_t damaged;

	OK(ops->guard_scan(self, &damaged));
	return damaged;
}

static void
drain(void)
{
	OK(ops->guard_drain(self, 0));
}

static enum soma_status
use(uint64_t ptr, enum soma_backend_access access, struct soma_backend_stream *stream)
{
	return ops->block_use(self, ptr, access, stream);
}

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
	OK(soma__backend_open(&config, &backend));
	ops = backend->ops;
	self = backend->self;
	seen_count = 0;
	OK(ops->guard_listen(self, note, NULL));
	a = stream_new(SOMA_BACKEND_STREAM_NON_BLOCKING);
	b = stream_new(SOMA_BACKEND_STREAM_NON_BLOCKING);
	c = stream_new(SOMA_BACKEND_STREAM_NON_BLOCKING);
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

#define ROW_WITH(name, ...)                                                            \
	static void name##_body(void);                                                 \
	static void name(struct gpu *device, const struct case_setup *how)             \
	{                                                                              \
		static const struct soma_backend_option more[] = { __VA_ARGS__{ 0 } }; \
		run_row(device, how, more, name##_body);                               \
	}                                                                              \
	static void name##_body(void)
#define ROW(name) ROW_WITH(name)

/* ---- memory ------------------------------------------------------------------------------------ */

ROW(row_01_write_just_past_the_end)
{
	uint64_t p = take(1000, a);

	poke(p + 1000, a);
	give(p, 1000, a);
	sync_stream(a);
	EXPECT("oob-write-after");
	EXPECT_TEXT("offset +1000 (0 past end)");
	EXPECT_TEXT("got 07");
}

ROW(row_02_write_just_before_the_start)
{
	uint64_t p = take(1024, a);

	poke(p - 1, a);
	give(p, 1024, a);
	sync_stream(a);
	EXPECT("oob-write-before");
}

ROW(row_03_write_of_the_last_redzone_byte)
{
	uint64_t p = take(1024, a);

	poke(p + 1024 + 255, a);
	give(p, 1024, a);
	sync_stream(a);
	EXPECT("oob-write-after");
}

ROW(row_04_two_damaged_blocks_are_two_reports)
{
	uint64_t p = take(64, a), q = take(64, b), r = take(64, a);

	poke(p + 64, a);
	poke(r - 5, a);
	CASE_EXPECT(scan_now() == 2);
	EXPECT("oob-write-after", "oob-write-before");
	CASE_EXPECT(scan_now() == 0);
	give(p, 64, a);
	give(q, 64, b);
	give(r, 64, a);
	EXPECT("oob-write-after", "oob-write-before");
}

ROW(rows_05_to_07_double_free)
{
	uint64_t p = take(100, a);

	give(p, 100, a);
	CASE_EXPECT(ops->free(self, p, 100, a) == SOMA_STATUS_INVALID_VALUE);
	EXPECT("double-free");
	sync_stream(a);
	CASE_EXPECT(ops->free(self, p, 100, a) == SOMA_STATUS_INVALID_VALUE);
	EXPECT_TEXT("state quarantined");
	drain();
	CASE_EXPECT(ops->free(self, p, 100, a) == SOMA_STATUS_INVALID_VALUE);
	EXPECT("double-free", "double-free", "double-free");
	EXPECT_TEXT("state freed");
}

ROW(row_08_foreign_free)
{
	CASE_EXPECT(ops->free(self, 0x1000, 8, a) == SOMA_STATUS_INVALID_VALUE);
	EXPECT("foreign-free");
}

ROW(row_11_write_after_free)
{
	uint64_t p = take(1000, a);

	give(p, 1000, a);
	sync_stream(a);
	poke(p + 8, b);
	sync_stream(b);
	drain();
	EXPECT("write-after-free");
	EXPECT_TEXT("offset +8");
	EXPECT_TEXT("got 07");
}

ROW(row_12_one_report_and_the_address_is_not_used_again)
{
	uint64_t p = take(1000, a), q;

	give(p, 1000, a);
	sync_stream(a);
	poke(p + 8, a);
	CASE_EXPECT(scan_now() == 1);
	CASE_EXPECT(scan_now() == 0);
	drain();
	EXPECT("write-after-free");
	q = take(1000, a);
	CASE_EXPECT(p != q);
	give(q, 1000, a);
}

/* Closed here, so that the report is seen; another one is opened for the end. */
ROW(row_14_a_leak_is_told_at_the_end)
{
	uint64_t p = take(1000, a);

	OK(ops->block_name(self, p, 5, "weights"));
	soma__backend_close(backend);
	EXPECT("leak");
	EXPECT_TEXT("weights");
	open_guard(NULL);
}

ROW(row_15_read_of_what_was_never_written)
{
	uint64_t p = take(1000, a);

	OK(use(p, READ, a));
	gpu_read(gpu, p, 1000, native(a));
	EXPECT("uninitialised-read");
	give(p, 1000, a);
}

ROW(row_23_what_fits_is_fine)
{
	for (uint64_t size = 1; size < (setup->quick ? 20 : 600); size++) {
		uint64_t p = take(size, a);
		gpu_touch(gpu, p, size, 0xee, native(a));
		give(p, size, a);
	}
	sync_stream(a);
	drain();
	EXPECT();
}

ROW_WITH(row_28_a_small_quarantine_turns_over, { "guard.quarantine_bytes", "4K" }, )
{
	for (int i = 0; i < 100; i++) {
		uint64_t p = take(500, a);
		poke(p + 499, a);
		give(p, 500, a);
		if (i % 10 == 9)
			sync_stream(a);
	}
	give(0, 0, a);
	EXPECT();
}

/* ---- order ----------------------------------------------------------------------------------------- */

ROW(row_13_use_after_free)
{
	uint64_t p = take(1000, a);

	give(p, 1000, a);
	CASE_EXPECT(use(p, WRITE, a) == SOMA_STATUS_USE_AFTER_FREE);
	EXPECT("use-after-free");
}

/* What sync gives is ready at once, for every stream. */
ROW(rows_16_to_20_use_before_ready)
{
	struct soma_backend_stream *legacy = legacy_stream();
	enum soma_status status = setup->is_async ? SOMA_STATUS_STREAM_MISUSE : SOMA_STATUS_OK;
	uint64_t p = take(100, a), q = take(100, a), r;

	CASE_EXPECT(use(p, WRITE, b) == status);
	sync_stream(b);
	CASE_EXPECT(use(q, WRITE, b) == status);
	r = take(100, legacy);
	CASE_EXPECT(use(r, WRITE, c) == status);
	if (setup->is_async)
		EXPECT("use-before-ready", "use-before-ready", "use-before-ready");
	else
		EXPECT();
	order(b, a);
	order(c, legacy);
	give(p, 100, a);
	give(q, 100, a);
	give(r, 100, legacy);
	OK(ops->synchronize(self));
}

ROW(row_21_free_on_a_stream_that_is_not_ordered)
{
	uint64_t p = take(1000, a);

	OK(use(p, WRITE, a));
	gpu_touch(gpu, p, 1000, 1, native(a));
	give(p, 1000, b);
	EXPECT("free-unordered");
	OK(ops->synchronize(self));
}

ROW(row_22_races)
{
	uint64_t p = take(100, a);

	order(a, b);
	order(a, c);
	OK(use(p, WRITE, a));
	gpu_touch(gpu, p, 100, 1, native(a));
	CASE_EXPECT(use(p, READ, b) == SOMA_STATUS_STREAM_MISUSE);
	EXPECT_TEXT("missing: stream ");
	order(a, b);
	order(a, c);
	OK(use(p, READ, b));
	gpu_read(gpu, p, 100, native(b));
	CASE_EXPECT(use(p, WRITE, c) == SOMA_STATUS_STREAM_MISUSE);
	EXPECT("stream-race", "stream-race");
	order(b, a);
	give(p, 100, a);
	OK(ops->synchronize(self));
}

ROW(rows_25_to_27_what_is_ordered_is_fine)
{
	struct soma_backend_stream *legacy = legacy_stream(), *blocking = stream_new(0), *late;
	uint64_t p = take(100, a), q;

	OK(use(p, WRITE, a));
	gpu_touch(gpu, p, 100, 1, native(a));
	order(a, b);
	order(a, c);
	OK(use(p, READ, b));
	OK(use(p, READ, c));
	gpu_check(gpu, p, 100, 1, native(b));
	gpu_check(gpu, p, 100, 1, native(c));
	OK(ops->synchronize(self));
	late = stream_new(SOMA_BACKEND_STREAM_NON_BLOCKING);
	OK(use(p, WRITE, late));
	gpu_touch(gpu, p, 100, 2, native(late));
	sync_stream(late);
	give(p, 100, a);
	q = take(100, legacy);
	OK(use(q, WRITE, blocking));
	gpu_touch(gpu, q, 100, 3, native(blocking));
	OK(use(q, READ, legacy));
	gpu_check(gpu, q, 100, 3, native(legacy));
	OK(use(q, WRITE, blocking));
	gpu_touch(gpu, q, 100, 4, native(blocking));
	give(q, 100, legacy);
	CASE_EXPECT(gpu_mismatches(gpu) == 0);
	EXPECT();
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

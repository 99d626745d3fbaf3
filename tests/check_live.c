/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays with real memory: what they count, compare, refuse and time.
 */
#include "lib/resource/open.h"
#include "tests/replay_fixture.h"
#include "tools/live/live.h"

#define FOLDERS STACK_FOLDERS ":" MODULES_FOLDER

struct lived {
	char path[64];
	struct program program;
	struct live_result result;
	struct trace_error error;
	enum soma_status status;
};

static struct live_options
options_over(const char *backend)
{
	return (struct live_options){ .backend = backend,
				      .search = FOLDERS,
				      .scale = 1,
				      .threads = 1,
				      .repeat = 1,
				      .release_threshold = UINT64_MAX };
}

static void
live_lines(struct lived *lived, const char *lines, struct live_options options)
{
	struct trace_reader *reader;

	write_lines(lived->path, lines);
	ck_assert_msg(trace_open(lived->path, NULL, &reader, &lived->error) == TRACE_OK, "%s",
		      lived->error.text);
	ck_assert_int_eq(program_read(&lived->program, reader, REPLAY_DEVICE_ANY, options.scale,
				      &lived->error),
			 SOMA_STATUS_OK);
	trace_close(reader);
	lived->status = live_run(&lived->program, &options, &lived->result, &lived->error);
	unlink(lived->path);
}

static void
expect_fine(const struct lived *lived)
{
	ck_assert_msg(lived->status == SOMA_STATUS_OK, "%s", lived->error.text);
	ck_assert_msg(!lived->result.difference.happened, "%s: %" PRIu64 ", not %" PRIu64,
		      lived->result.difference.what, lived->result.difference.got,
		      lived->result.difference.expected);
	ck_assert_uint_eq(lived->result.damaged, 0);
	ck_assert_uint_eq(lived->result.guard_reports, 0);
}

/* Two streams, a wait, a use and a free on the other one, a free that completes later. */
#define STREAMS                                \
	"1,,alloc,0,1,0x1000,1000,a,,\n"       \
	"2,,use,0,1,0x1000,,,,write\n"         \
	"3,,record,0,1,0x9,,,,\n"              \
	"4,,wait,0,2,0x9,,,,\n"                \
	"5,,wait,0,2,0x8,,,,\n"                \
	"6,,use,0,2,0x1000,,,,read\n"          \
	"7,,alloc,0,2,0x2000,3000,b,,\n"       \
	"8,,free,0,2,0x1000,,,,\n"             \
	"9,,alloc,0,1,0x1000,500,a,,\n"        \
	"10,,free,0,2,0x2000,,,,deferred\n"    \
	"11,,use,0,2,0x2000,,,,read\n"         \
	"12,,free_completed,0,2,0x2000,,,,\n"  \
	"13,,free,0,1,0x7000,,,,\n"            \
	"14,,sync,0,1,,,,,\n"                  \
	"15,,sync,0,,,,,,device\n"

static const char *const backends[] = { "host", "guard:host", "plain", "guard:plain", NULL };

START_TEST(what_is_counted_is_the_traces)
{
	for (int i = 0; backends[i] != NULL; i++) {
		struct lived l;
		live_lines(&l, STREAMS, options_over(backends[i]));
		expect_fine(&l);
		bool streams = strstr(backends[i], "plain") == NULL;
		ck_assert_str_eq(l.result.backend, backends[i]);
		ck_assert_uint_eq(l.result.allocs, 3);
		ck_assert_uint_eq(l.result.frees, 2);
		/* A free on another stream is one, too. */
		ck_assert_uint_eq(l.result.uses, streams ? 3 : 0);
		ck_assert_uint_eq(l.result.records, streams ? 1 : 0);
		ck_assert_uint_eq(l.result.waits, streams ? 1 : 0);
		ck_assert_uint_eq(l.result.synchronisations, 2);
		ck_assert_uint_eq(l.program.counts.unknown_frees, 1);
		ck_assert_uint_eq(l.program.counts.unknown_markers, 1);
		ck_assert_uint_eq(l.program.counts.unknown_uses, 1);
		ck_assert_uint_eq(l.result.peak_live, 4000);
		ck_assert_uint_eq(l.result.model_peak, 4000);
		ck_assert_uint_ge(l.result.peak_outstanding, 4000);
		ck_assert_uint_eq(l.result.end_live_bytes, 500);
		ck_assert_uint_eq(l.result.end_live_blocks, 1);
		ck_assert_uint_eq(l.result.alloc_times.count, 3);
		ck_assert_uint_eq(l.result.compared, 3);
		ck_assert(!live_is_bad(&l.result));
		program_fini(&l.program);
	}
}
END_TEST

START_TEST(sizes_are_divided_and_at_least_1)
{
	struct live_options options = options_over("host");
	struct lived l;

	options.scale = 1000;
	live_lines(&l, STREAMS, options);
	expect_fine(&l);
	ck_assert_uint_eq(l.result.peak_live, 4);
	ck_assert_uint_eq(l.result.end_live_bytes, 1);
	program_fini(&l.program);
}
END_TEST

START_TEST(with_never_completed_frees_all_that_was_allocated_is_outstanding)
{
	struct live_options options = options_over("host");
	struct lived l;

	options.complete = REPLAY_COMPLETE_NEVER;
	live_lines(&l, STREAMS, options);
	expect_fine(&l);
	ck_assert_uint_eq(l.result.peak_outstanding, 4500);
	program_fini(&l.program);
}
END_TEST

START_TEST(a_budget_that_is_short_is_the_verdict)
{
	for (int i = 0; backends[i] != NULL; i++) {
		struct live_options options = options_over(backends[i]);
		struct lived l;
		options.budget = 3999;
		live_lines(&l, STREAMS, options);
		expect_fine(&l);
		ck_assert(live_is_bad(&l.result));
		ck_assert(l.result.refusal.happened);
		ck_assert_int_eq(l.result.refusal.status, SOMA_STATUS_OUT_OF_BUDGET);
		ck_assert_uint_eq(l.result.refusal.event, 6);
		ck_assert_uint_eq(l.result.refusal.requested, 3000);
		ck_assert_uint_eq(l.result.refusal.current, 1000);
		ck_assert_uint_eq(l.result.refusal.limit, 3999);
		ck_assert_ptr_nonnull(strstr(l.result.refusal.text, "tried: reaped finished frees"));
		ck_assert_ptr_nonnull(strstr(l.result.refusal.text, "most is held by a 1000"));
		ck_assert_uint_eq(l.result.refused, 1);
		ck_assert_uint_eq(l.result.peak_live, 1000);
		program_fini(&l.program);
		options.budget = 4000;
		live_lines(&l, STREAMS, options);
		expect_fine(&l);
		ck_assert(!live_is_bad(&l.result));
		program_fini(&l.program);
	}
}
END_TEST

START_TEST(a_trace_larger_than_the_machine_is_refused_before_it_starts)
{
	struct live_options options = options_over("host");
	struct lived l;

	live_lines(&l,
		   "1,,alloc,0,1,0x1000,70000000000000,a,,\n"
		   "2,,alloc,0,1,0x2000,70000000000000,a,,\n",
		   options);
	ck_assert_int_eq(l.status, SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_ptr_nonnull(strstr(l.error.text, "127 TiB at the peak"));
	ck_assert_ptr_nonnull(strstr(l.error.text, "backend host has "));
	ck_assert_ptr_nonnull(strstr(l.error.text, "--scale "));
	ck_assert_uint_eq(l.result.allocs, 0);
	ck_assert_uint_gt(l.result.total, 0);
	program_fini(&l.program);

	/* A budget bounds what it can take. */
	options.budget = 1000;
	live_lines(&l, "1,,alloc,0,1,0x1000,70000000000000,a,,\n", options);
	expect_fine(&l);
	ck_assert_uint_eq(l.result.refused, 1);
	program_fini(&l.program);
}
END_TEST

START_TEST(threads_share_one_account)
{
	for (int i = 0; backends[i] != NULL; i++) {
		struct live_options options = options_over(backends[i]);
		struct lived l;
		options.threads = 4;
		options.repeat = 50;
		live_lines(&l, STREAMS, options);
		expect_fine(&l);
		ck_assert_uint_eq(l.result.allocs, 4 * 50 * 3);
		/* With what every run but the last one left live. */
		ck_assert_uint_eq(l.result.frees, 4 * (50 * 2 + 49));
		ck_assert_uint_eq(l.result.end_live_bytes, 4 * 500);
		ck_assert_uint_eq(l.result.steps, 4 * 50 * l.program.step_count);
		program_fini(&l.program);
	}
}
END_TEST

START_TEST(without_a_backend_each_thread_has_a_model)
{
	struct live_options options = options_over(NULL);
	struct lived l;

	options.threads = 3;
	options.repeat = 20;
	live_lines(&l, STREAMS, options);
	expect_fine(&l);
	ck_assert_uint_eq(l.result.allocs, 3 * 20 * 3);
	ck_assert_uint_eq(l.result.peak_live, 3 * 4000);
	ck_assert_uint_eq(l.result.end_live_bytes, 3 * 500);
	ck_assert_str_eq(l.result.backend, "");
	program_fini(&l.program);
}
END_TEST

START_TEST(a_backend_that_is_not_there_is_an_error)
{
	struct lived l;

	live_lines(&l, STREAMS, options_over("nonesuch"));
	ck_assert_int_eq(l.status, SOMA_STATUS_NOT_FOUND);
	ck_assert_ptr_nonnull(strstr(l.error.text, "nonesuch"));
	program_fini(&l.program);
}
END_TEST

START_TEST(a_backend_that_cannot_be_opened_is_an_error)
{
	static const struct {
		const char *backend, *text;
	} cases[] = { { "query_fails", "no answer" },
		      { "silent", "does not say why" },
		      { "around", "goes around another" },
		      { "host:plain", "does not go around another" },
		      { "low_alignment", "aligns blocks to 64" } };

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct lived l;
		live_lines(&l, STREAMS, options_over(cases[i].backend));
		ck_assert_int_ne(l.status, SOMA_STATUS_OK);
		ck_assert_msg(strstr(l.error.text, cases[i].text) != NULL, "%s", l.error.text);
		program_fini(&l.program);
	}
}
END_TEST

/* ---- comparing ---------------------------------------------------------------------- */

static void
open_over(struct stack *stack, const char *backend, uint64_t budget)
{
	ck_assert_msg(stack_open(stack, backend, FOLDERS, budget) == SOMA_STATUS_OK, "%s",
		      soma_error_last()->text);
}

static struct live_difference
compared(const struct stack *stack, uint64_t bytes, uint64_t blocks)
{
	const struct live_expected expected = { bytes, blocks, true };
	struct live_difference difference = { 0 };

	live_compare(stack, &expected, false, 17, &difference);
	return difference;
}

START_TEST(every_figure_that_differs_is_named)
{
	struct soma_block block = { .size = sizeof block };
	struct stack stack;
	uint64_t ptr;

	open_over(&stack, "guard:host", 10000);
	ck_assert_int_eq(soma_resource_allocate(stack.top, 100, 0, &block), SOMA_STATUS_OK);
	ck_assert(!compared(&stack, 100, 1).happened);
	struct live_difference difference = compared(&stack, 99, 1);
	ck_assert(difference.happened);
	ck_assert_str_eq(difference.what, "live bytes");
	ck_assert_uint_eq(difference.got, 100);
	ck_assert_uint_eq(difference.expected, 99);
	ck_assert_uint_eq(difference.event, 17);
	ck_assert_str_eq(compared(&stack, 100, 2).what, "live blocks");

	/* Around the account. */
	const struct soma__backend *backend = stack.backend;
	ck_assert_int_eq(backend->ops->alloc(backend->self, 50, 0, NULL, &ptr), SOMA_STATUS_OK);
	ck_assert_str_eq(compared(&stack, 100, 1).what, "the guard's live blocks");
	ck_assert_int_eq(backend->ops->free(backend->self, ptr, 50, NULL), SOMA_STATUS_OK);
	ck_assert_str_eq(compared(&stack, 100, 1).what, "the guard's freed bytes");
	stack_settle(&stack);
	ck_assert(!compared(&stack, 100, 1).happened);
	ck_assert_int_eq(soma_resource_deallocate(stack.top, &block), SOMA_STATUS_OK);
	ck_assert_str_eq(compared(&stack, 0, 0).what, "freed bytes that are not gone");
	ck_assert_int_eq(soma_resource_stream_synchronize(stack.top, 0), SOMA_STATUS_OK);
	stack_settle(&stack);
	ck_assert(!compared(&stack, 0, 0).happened);
	stack_close(&stack);
}
END_TEST

START_TEST(bytes_that_are_overwritten_are_seen)
{
	struct soma_block block = { .size = sizeof block };
	struct stack stack;

	open_over(&stack, "host", 0);
	ck_assert_int_eq(soma_resource_allocate(stack.top, 100, 0, &block), SOMA_STATUS_OK);
	ck_assert_int_eq(stack_touch(&stack, &block, 9), SOMA_STATUS_OK);
	ck_assert(stack_is_marked(&stack, &block, 9));
	*(unsigned char *)(uintptr_t)(block.ptr + 99) = 8;
	ck_assert(!stack_is_marked(&stack, &block, 9));
	ck_assert_int_eq(stack_touch(&stack, &block, 9), SOMA_STATUS_OK);
	*(unsigned char *)(uintptr_t)block.ptr = 8;
	ck_assert(!stack_is_marked(&stack, &block, 9));
	ck_assert_int_eq(soma_resource_deallocate(stack.top, &block), SOMA_STATUS_OK);
	stack_close(&stack);
}
END_TEST

/* ---- times ------------------------------------------------------------------------------ */

START_TEST(percentiles_are_at_most_a_32nd_too_high)
{
	static struct times times, more;

	ck_assert_uint_eq(times_at(&times, 500), 0);
	for (uint64_t ns = 1; ns <= 1000; ns++)
		times_add(ns % 2 ? &times : &more, ns * 1000);
	times_merge(&times, &more);
	ck_assert_uint_eq(times.count, 1000);
	ck_assert_uint_eq(times.max_ns, 1000000);
	ck_assert_uint_ge(times_at(&times, 500), 500000);
	ck_assert_uint_le(times_at(&times, 500), 500000 + 500000 / 32);
	ck_assert_uint_ge(times_at(&times, 990), 990000);
	ck_assert_uint_le(times_at(&times, 990), 1000000);
	ck_assert_uint_eq(times_at(&times, 1000), 1000000);
	times_add(&times, UINT64_MAX);
	ck_assert_uint_eq(times_at(&times, 1000), UINT64_MAX);
}
END_TEST

START_TEST(every_value_is_in_a_bucket_that_ends_with_it_or_above)
{
	for (unsigned shift = 0; shift < 64; shift++) {
		for (int add = -1; add <= 1; add++) {
			static struct times times;
			uint64_t ns = ((uint64_t)1 << shift) + (uint64_t)add;
			memset(&times, 0, sizeof times);
			times_add(&times, ns);
			ck_assert_uint_eq(times_at(&times, 500), ns);
			times.max_ns = UINT64_MAX;
			ck_assert_uint_ge(times_at(&times, 500), ns);
			ck_assert_uint_le(times_at(&times, 500) - ns, ns / 32);
		}
	}
}
END_TEST

UNIT_MAIN("live", what_is_counted_is_the_traces, sizes_are_divided_and_at_least_1,
	  with_never_completed_frees_all_that_was_allocated_is_outstanding,
	  a_budget_that_is_short_is_the_verdict, a_trace_larger_than_the_machine_is_refused_before_it_starts,
	  threads_share_one_account, without_a_backend_each_thread_has_a_model,
	  a_backend_that_is_not_there_is_an_error, a_backend_that_cannot_be_opened_is_an_error, every_figure_that_differs_is_named,
	  bytes_that_are_overwritten_are_seen, percentiles_are_at_most_a_32nd_too_high,
	  every_value_is_in_a_bucket_that_ends_with_it_or_above)

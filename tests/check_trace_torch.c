/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What writes PyTorch's snapshots may do beyond what recordings here show: its own pickler
 * in C++, traces that leave kinds of entries out, other devices, profiles as snapshots.
 */
#include <string.h>

#include "tests/check_trace_support.h"

#define A ((uint64_t)0x7f0000000000)
#define MIB ((uint64_t)1 << 20)

static void
put_block(struct pickler *p, uint64_t address, uint64_t size, const char *state)
{
	make_op(p, '}');
	make_op(p, '(');
	make_pair(p, "address", address);
	make_pair(p, "size", size);
	make_pair(p, "requested_size", size);
	make_text_pair(p, "state", state);
	make_op(p, 'u');
}

/* A segment of 2 MiB at A with blocks of 1 MiB in these states. */
static void
put_segment(struct pickler *p, const char *type, const char *first, const char *second)
{
	make_op(p, '}');
	make_op(p, '(');
	make_pair(p, "device", 0);
	make_pair(p, "address", A);
	make_pair(p, "total_size", 2 * MIB);
	if (type != NULL)
		make_text_pair(p, "segment_type", type);
	make_string(p, "blocks");
	make_op(p, ']');
	make_op(p, '(');
	put_block(p, A, MIB, first);
	put_block(p, A + MIB, MIB, second);
	make_op(p, 'e');
	make_op(p, 'u');
}

/* The beginning of a snapshot: the segment, then the trace's entries follow. */
static void
begin(struct pickler *p, const char *type, const char *first, const char *second)
{
	make_begin(p, 4);
	make_op(p, '}');
	make_op(p, '(');
	make_string(p, "segments");
	make_op(p, ']');
	put_segment(p, type, first, second);
	make_op(p, 'a');
	make_string(p, "device_traces");
	make_op(p, ']');
	make_op(p, ']');
	make_op(p, '(');
}

static struct events
end(struct pickler *p, struct bytes *bytes)
{
	struct events events;

	*bytes = make_end_trace(p);
	events = events_of(bytes);
	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	return events;
}

/* ---- what entries become ------------------------------------------------------------ */

struct entry {
	const char *action;
	uint64_t address, size, time_us;
};

struct expected {
	enum trace_op op;
	uint64_t ptr;
	bool deferred, completed;
	uint64_t completed_ns;
	const char *holder; /* NULL: it is not looked at */
};

static const struct {
	const char *says;
	const char *second; /* the state of the second block at the end */
	struct entry entries[4];
	size_t count;
	struct expected events[4];
} traces[] = {
	/* With skip_actions kinds of entries are left out. */
	{ "without requests a completion is the free",
	  "inactive",
	  { { "alloc", A, 1000, 10 }, { "free_completed", A, 1000, 20 }, { "alloc", A, 77, 30 } },
	  3,
	  { { .op = TRACE_ALLOC, .ptr = A },
	    { .op = TRACE_FREE, .ptr = A, .completed = true, .completed_ns = 20000 },
	    { .op = TRACE_ALLOC, .ptr = A } } },
	{ "without completions only what waits at the end is deferred",
	  "active_pending_free",
	  { { "alloc", A, 1000, 10 },
	    { "free_requested", A, 1000, 20 },
	    { "alloc", A + MIB, 77, 30 },
	    { "free_requested", A + MIB, 77, 40 } },
	  4,
	  { { .op = TRACE_ALLOC, .ptr = A },
	    { .op = TRACE_FREE, .ptr = A },
	    { .op = TRACE_ALLOC, .ptr = A + MIB },
	    { .op = TRACE_FREE, .ptr = A + MIB, .deferred = true } } },
	{ "with both a request alone waits",
	  "inactive",
	  { { "free_completed", A, 1000, 10 }, { "free_requested", A + MIB, 77, 20 } },
	  2,
	  { { .op = TRACE_FREE_COMPLETED, .ptr = A },
	    { .op = TRACE_FREE, .ptr = A + MIB, .deferred = true } } },
	{ "what other devices note is a mark",
	  "inactive",
	  { { "workspace_snapshot", A, 512, 10 }, { "empty_cache", 0, 0, 20 } },
	  2,
	  { { .op = TRACE_MARK, .ptr = A, .holder = "workspace_snapshot" },
	    { .op = TRACE_MARK, .holder = "empty_cache" } } },
};

static bool
is_as_expected(const struct events *events, size_t index, const struct expected *expected)
{
	const struct trace_event *event = &events->event[index];

	return event->op == expected->op && event->ptr == expected->ptr &&
	       event->deferred == expected->deferred && event->completed == expected->completed &&
	       event->completed_ns == expected->completed_ns &&
	       (expected->holder == NULL || strcmp(events_holder(events, index), expected->holder) == 0);
}

START_TEST(entries_become_these_events)
{
	for (size_t i = 0; i < sizeof traces / sizeof traces[0]; i++) {
		struct pickler p;
		struct bytes bytes;
		struct events events;

		begin(&p, "small", "inactive", traces[i].second);
		for (size_t n = 0; n < traces[i].count; n++) {
			const struct entry *entry = &traces[i].entries[n];

			make_entry(&p, entry->action, entry->address, entry->size, 0, entry->time_us);
		}
		events = end(&p, &bytes);
		ck_assert_msg(events.count == traces[i].count, "%s: %zu events", traces[i].says,
			      events.count);
		for (size_t n = 0; n < events.count; n++)
			ck_assert_msg(is_as_expected(&events, n, &traces[i].events[n]),
				      "%s: event %zu is another: %s", traces[i].says, n,
				      trace_op_text(events.event[n].op));
		events_free(&events);
		bytes_free(&bytes);
	}
}
END_TEST

/* The names come late in a file that is larger than what is read at once. */
START_TEST(what_a_long_trace_has_is_found_behind_its_beginning)
{
	struct pickler p;
	struct bytes bytes;
	struct events events;

	begin(&p, "small", "inactive", "inactive");
	for (uint64_t i = 0; i < 20000; i++)
		make_entry(&p, "alloc", A + 512 * i, 512, 0, i);
	make_entry(&p, "free_requested", A, 512, 0, 20000);
	make_entry(&p, "alloc", A, 512, 0, 20001);
	make_entry(&p, "free_completed", A, 512, 0, 20002);
	events = end(&p, &bytes);
	ck_assert_uint_eq(events.count, 20003);
	ck_assert(events.event[20000].deferred);
	ck_assert_int_eq(events.event[20002].op, TRACE_FREE_COMPLETED);
	events_free(&events);
	bytes_free(&bytes);
}
END_TEST

/* ---- writers ---------------------------------------------------------------------- */

/* An entry as the pickler in C++ has it: a container that others know is memoized behind its
 * contents, and so is the pair of its pool. */
static void
put_entry(struct pickler *p, const char *action, uint64_t address, uint32_t *frames)
{
	make_op(p, '}');
	make_op(p, '(');
	make_text_pair(p, "action", action);
	make_pair(p, strcmp(action, "oom") == 0 ? "device_free" : "addr", address);
	make_pair(p, "size", 512);
	make_pair(p, "stream", 0);
	make_text_pair(p, "compile_context", "N/A");
	make_text_pair(p, "user_metadata", "");
	make_pair(p, "time_us", 1700000000000000);
	make_string(p, "pool_id");
	make_integer(p, 0);
	make_integer(p, 0);
	make_op(p, (char)0x86);
	make_memo(p);
	make_string(p, "frames");
	if (*frames == 0) {
		make_op(p, ']');
		make_op(p, '(');
		make_frame(p, "work", "/home/user/job.py", 7);
		make_op(p, 'e');
		make_memo(p);
		*frames = p->memo - 1;
	} else {
		make_get(p, *frames);
	}
	make_string(p, "forward_frames");
	make_op(p, ']');
	make_op(p, '(');
	make_string(p, "File \"job.py\", line 7, in work");
	make_op(p, 'e');
	make_op(p, 'u');
	make_memo(p);
}

START_TEST(what_is_memoized_behind_its_contents_is_read)
{
	static const char *const actions[] = { "segment_alloc", "alloc", "free_requested", "free_completed",
					       "oom" };
	struct pickler p;
	struct bytes bytes;
	struct events events;
	uint32_t frames = 0;

	begin(&p, "small", "inactive", "inactive");
	p.protocol = 2; /* from here on its opcodes */
	for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
		put_entry(&p, actions[i], A, &frames);
	p.protocol = 4;
	events = end(&p, &bytes);
	ck_assert_uint_eq(events.count, 4);
	ck_assert_int_eq(events.event[2].op, TRACE_FREE);
	ck_assert(!events.event[2].deferred);
	ck_assert_int_eq(events.event[3].op, TRACE_OOM);
	for (size_t i = 0; i < events.count; i++) {
		ck_assert_str_eq(events_holder(&events, i), "work (job.py:7)");
		ck_assert(events.event[i].has_pool);
	}
	events_free(&events);
	bytes_free(&bytes);
}
END_TEST

START_TEST(a_segment_without_a_type_has_that_of_its_size)
{
	struct pickler p;
	struct bytes bytes;
	struct events events;

	begin(&p, NULL, "active_allocated", "inactive");
	events = end(&p, &bytes);
	ck_assert_uint_eq(trace_snapshot(events.reader)->segment_count, 1);
	ck_assert(trace_snapshot(events.reader)->segments[0].small);
	events_free(&events);
	bytes_free(&bytes);
	begin(&p, "medium", "active_allocated", "inactive");
	make_refused(make_end_trace(&p), "expected \"large\" or \"small\"");
}
END_TEST

UNIT_MAIN("trace_torch", entries_become_these_events, what_a_long_trace_has_is_found_behind_its_beginning,
	  what_is_memoized_behind_its_contents_is_read, a_segment_without_a_type_has_that_of_its_size)

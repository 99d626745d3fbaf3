/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STAlloc's trace: what its lines mean and what is refused.
 */
#include "tests/check_trace_support.h"

START_TEST(lines_are_allocations_and_frees)
{
	struct events events = events_good("1 139637976727552 512 0\n 1\t0x7f0000000200  1024 0x7 \r\n\n"
					   "0 139637976727552 512 (nil)");

	ck_assert_str_eq(trace_format(events.reader), "stalloc");
	ck_assert_uint_eq(events.count, 3);
	ck_assert_int_eq(events.event[0].op, TRACE_ALLOC);
	ck_assert_uint_eq(events.event[0].ptr, 139637976727552);
	ck_assert_uint_eq(events.event[0].size, 512);
	ck_assert_uint_eq(events.event[1].ptr, 0x7f0000000200);
	ck_assert_uint_eq(events.event[1].stream, 7);
	ck_assert_int_eq(events.event[2].op, TRACE_FREE);
	ck_assert_uint_eq(events.event[2].stream, 0);
	events_free(&events);
}
END_TEST

START_TEST(what_the_model_does_is_a_mark)
{
	struct events events = events_good("Iteration Index : head\n1 0x7f0000000000 512 0\n"
					   "Iteration Index :0\nmicro-batch : F\n"
					   "module.layers.0.mlp->MoELayer Layer : F-start\n"
					   "0 0x7f0000000000 512 0\n1 0 0 0\n");
	static const char *const marks[][2] = { { "Iteration Index", "head" },
						{ NULL, NULL },
						{ "Iteration Index", "0" },
						{ "micro-batch", "F" },
						{ "module.layers.0.mlp->MoELayer Layer", "F-start" } };

	ck_assert_str_eq(trace_format(events.reader), "stalloc");
	ck_assert_uint_eq(events.count, 7);
	for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
		if (marks[i][0] == NULL)
			continue;
		ck_assert_int_eq(events.event[i].op, TRACE_MARK);
		ck_assert_str_eq(events_holder(&events, i), marks[i][0]);
		ck_assert_str_eq(events_detail(&events, i), marks[i][1]);
	}
	ck_assert_int_eq(events.event[1].op, TRACE_ALLOC);
	ck_assert_int_eq(events.event[5].op, TRACE_FREE);
	events_free(&events);
}
END_TEST

START_TEST(what_is_wrong_is_said_with_its_line)
{
	events_end("1 4096 512 0\n2 4096 512 0\n", TRACE_ERROR, 1, ":2: expected 1 (allocation) or 0 (free)");
	events_end("1 4096 512 0\n1 4096 x 0\n", TRACE_ERROR, 1,
		   ":2: expected the size as a number, got \"x\"");
	events_end("1 4096 512 0\n1 4096\n", TRACE_ERROR, 1,
		   ":2: expected the size, got the end of the line");
	events_end("1 4096 512 0\n1 4096 512 0 5\n", TRACE_ERROR, 1, ":2: expected 4 numbers, got \"5\"");
	events_end("1 4096 512 0\n1 18446744073709551616 512 0\n", TRACE_ERROR, 1,
		   ":2: expected the address");
	events_end("1 4096 512 0\n1 4096", TRACE_TRUNCATED, 1, ":2: the file ends in the middle of a line");
	events_end("1 4096 512 0\nLayer\n", TRACE_ERROR, 1,
		   ":2: expected 1 (allocation) or 0 (free), got \"Layer\"");
	events_end("Iteration Index : 0\nnothing\n", TRACE_ERROR, 0, "not a trace in a known format");
	events_end("1 4096 512\n", TRACE_ERROR, 0, "not a trace in a known format");
}
END_TEST

UNIT_MAIN("trace_stalloc", lines_are_allocations_and_frees, what_the_model_does_is_a_mark,
	  what_is_wrong_is_said_with_its_line)

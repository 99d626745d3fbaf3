/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RMM logs and soma's own trace: what their lines mean and what is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check_trace_support.h"

#define SOMA_HEADER "time,thread,op,device,stream,ptr,size,tag,generation,detail\n"
#define RMM_HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

/* ---- soma's own ------------------------------------------------------------------- */

#define POOL_HEADER "time,thread,op,device,stream,ptr,size,tag,generation,detail,pool\n"

START_TEST(a_pool_may_stand_in_a_last_column)
{
	struct events events = events_good(POOL_HEADER "1,,alloc,0,0,0x1000,8,,,,3:18446744073709551615\n"
						       "2,,alloc,0,0,0x2000,8,,,,\n"
						       "3,,free,0,0,0x1000,8,,,deferred,0:0\n");

	ck_assert(events.event[0].has_pool);
	ck_assert_uint_eq(events.event[0].pool[0], 3);
	ck_assert_uint_eq(events.event[0].pool[1], UINT64_MAX);
	ck_assert(!events.event[1].has_pool);
	ck_assert(events.event[2].has_pool);
	ck_assert(events.event[2].deferred);
	events_free(&events);
	events_end(POOL_HEADER "1,,alloc,0,0,0x1000,8,,,,3\n", TRACE_ERROR, 0,
		   ":2: expected two numbers with a colon between them in column pool, got \"3\"");
	events_end(POOL_HEADER "1,,alloc,0,0,0x1000,8,,,\n", TRACE_ERROR, 0, ":2: expected column pool");
	events_end(SOMA_HEADER "1,,alloc,0,0,0x1000,8,,,,3:4\n", TRACE_ERROR, 0, ":2: expected 10 columns");
}
END_TEST

/* Lines without a quote are mostly read in a shorter way. */
START_TEST(a_quote_around_a_field_changes_nothing)
{
	static const char *const numbers[] = { "",
					       "0",
					       "7",
					       "999999999999999999",
					       "18446744073709551615",
					       "0x7f00",
					       "0xABCdef",
					       "0xffffffffffffffff",
					       "0x",
					       "18446744073709551616",
					       "0x10000000000000000",
					       "-1",
					       "1 ",
					       "x" };
	static const char *const tags[] = { "", "a", "ab", "aa", "layer (model.py:7)", "deferred" };
	char plain[512], quoted[512];

	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] * 6; i++) {
		const char *number = numbers[i / 6], *tag = tags[i % 6],
			   *op = i % 2 == 0 ? "alloc" : "segment_unmap";
		struct events a, b;

		snprintf(plain, sizeof plain, SOMA_HEADER "%s,5,%s,0,%s,%s,%s,%s,%s,\n", number, op, number,
			 number, number, tag, number);
		snprintf(quoted, sizeof quoted, SOMA_HEADER "%s,5,%s,0,%s,%s,%s,\"%s\",%s,\n", number, op,
			 number, number, number, tag, number);
		a = events_of_text(plain);
		b = events_of_text(quoted);
		ck_assert_int_eq(a.result, b.result);
		ck_assert_uint_eq(a.count, b.count);
		ck_assert(a.count == 0 || events_equal(a.event, b.event));
		if (a.result == TRACE_ERROR)
			ck_assert_str_eq(strstr(a.error.text, "expected"), strstr(b.error.text, "expected"));
		events_free(&a);
		events_free(&b);
	}
}
END_TEST

START_TEST(every_column_is_read)
{
	struct events events = events_good(
		SOMA_HEADER
		"1700000000000000001,4294967295,alloc,2147483647,0xfffffffffffffffe,0x7F0000000000,"
		"9007199254740993,name,18446744073709551615,more\n");
	const struct trace_event *event = events.event;

	ck_assert_uint_eq(event->time_ns, 1700000000000000001);
	ck_assert_uint_eq(event->thread, UINT32_MAX);
	ck_assert_int_eq(event->op, TRACE_ALLOC);
	ck_assert_int_eq(event->device, INT32_MAX);
	ck_assert_uint_eq(event->stream, UINT64_MAX - 1);
	ck_assert_uint_eq(event->ptr, 0x7f0000000000);
	ck_assert_uint_eq(event->size, 9007199254740993);
	ck_assert_str_eq(events_holder(&events, 0), "name");
	ck_assert_uint_eq(event->generation, UINT64_MAX);
	ck_assert_str_eq(events_detail(&events, 0), "more");
	ck_assert_str_eq(trace_format(events.reader), "soma-csv");
	ck_assert_ptr_null(trace_snapshot(events.reader));
	events_free(&events);
}
END_TEST

START_TEST(every_operation_has_its_word)
{
	for (int op = 0; op < TRACE_OP_COUNT; op++) {
		char text[256];
		struct events events;
		snprintf(text, sizeof text, SOMA_HEADER ",,%s,,,,,,,\n", trace_op_text((enum trace_op)op));
		events = events_good(text);
		ck_assert_int_eq(events.event[0].op, op);
		ck_assert_uint_eq(events.event[0].size, 0);
		events_free(&events);
	}
}
END_TEST

START_TEST(quoted_fields_hold_commas_quotes_and_line_breaks)
{
	struct events events = events_good(
		SOMA_HEADER "1,,mark,0,0,,,\"a,\"\"b\"\"\nc\",,\"\"\r\n2,,mark,0,0,,,\"\",,\"d\"\n");

	ck_assert_uint_eq(events.count, 2);
	ck_assert_str_eq(events_holder(&events, 0), "a,\"b\"\nc");
	ck_assert_str_eq(events_detail(&events, 0), "");
	ck_assert_uint_eq(events.event[1].time_ns, 2);
	ck_assert_str_eq(events_detail(&events, 1), "d");
	events_free(&events);
}
END_TEST

START_TEST(a_deferred_free_is_told_by_its_detail)
{
	struct events events =
		events_good(SOMA_HEADER "1,,free,0,0,1,,,,deferred\n2,,free,0,0,1,,,,deferred;x\n"
					"3,,free,0,0,1,,,,deferredly\n4,,alloc,0,0,1,,,,deferred\n");

	ck_assert(events.event[0].deferred && events.event[1].deferred);
	ck_assert(!events.event[2].deferred && !events.event[3].deferred);
	ck_assert_str_eq(events_detail(&events, 0), "");
	ck_assert_str_eq(events_detail(&events, 1), "x");
	ck_assert_str_eq(events_detail(&events, 2), "deferredly");
	ck_assert_str_eq(events_detail(&events, 3), "deferred");
	events_free(&events);
}
END_TEST

#define AT_START                                               \
	",,segment_alloc,2,7,0x200000,2097152,,,start;small\n" \
	",,alloc,2,7,0x200000,600,tag,,start;1024\n"           \
	",,alloc,2,7,0x200400,512,,,start\n"                   \
	",,alloc,2,7,0x200600,700,,,start;1024;pending\n"      \
	",,segment_map,2,7,0x800000,4194304,,,start\n"

static void
is_start(const struct trace_reader *reader)
{
	const struct trace_snapshot *start = trace_snapshot(reader);
	const struct trace_segment *segment = start->segments;
	const struct trace_block *block = segment->blocks;

	ck_assert(start->at_start);
	ck_assert_uint_eq(start->segment_count, 2);
	ck_assert(segment[0].small && !segment[0].expandable && !segment[1].small && segment[1].expandable);
	ck_assert_int_eq(segment[0].device, 2);
	ck_assert_uint_eq(segment[0].stream, 7);
	ck_assert_uint_eq(segment[0].address, 0x200000);
	ck_assert_uint_eq(segment[1].size, 4194304);
	ck_assert_uint_eq(segment[0].block_count, 3);
	ck_assert_uint_eq(segment[1].block_count, 0);
	ck_assert_uint_eq(block[0].requested, 600);
	ck_assert_uint_eq(block[0].size, 1024);
	ck_assert_str_eq(trace_name_text(reader, block[0].holder), "tag");
	ck_assert_uint_eq(block[1].address, 0x200400);
	ck_assert_uint_eq(block[1].size, 0); /* it is not said */
	ck_assert_int_eq(block[1].state, TRACE_BLOCK_LIVE);
	ck_assert_int_eq(block[2].state, TRACE_BLOCK_PENDING);
	ck_assert_uint_eq(block[2].size, 1024);
}

START_TEST(what_was_there_at_the_start_is_no_event)
{
	struct events events = events_good(SOMA_HEADER AT_START "5,,free,2,7,0x200000,600,,,\n"
								"6,,mark,2,7,,,,,start\n");

	ck_assert_uint_eq(events.count, 2);
	ck_assert_int_eq(events.event[0].op, TRACE_FREE);
	ck_assert_uint_eq(events.event[0].index, 0);
	is_start(events.reader);
	events.count = 0;
	ck_assert_int_eq(trace_rewind(events.reader, &events.error), TRACE_OK);
	events_drain(&events);
	ck_assert_uint_eq(events.count, 2);
	ck_assert_uint_eq(events.event[0].time_ns, 5);
	is_start(events.reader);
	events_free(&events);
	events_end(SOMA_HEADER AT_START, TRACE_END, 0, NULL);
}
END_TEST

START_TEST(lines_of_the_start_that_cannot_be_are_refused)
{
	events_end(SOMA_HEADER "1,,mark,0,0,,,,,\n" AT_START, TRACE_ERROR, 1,
		   ":3: what was there at the start stands before the first event");
	events_end(SOMA_HEADER ",,alloc,0,0,0x1000,8,,,start\n", TRACE_ERROR, 0,
		   ":2: the block at 0x1000 is not where it can have been at the start: expected it in the "
		   "segment");
	events_end(SOMA_HEADER AT_START ",,alloc,2,7,0xbffe00,513,,,start\n", TRACE_ERROR, 0,
		   ":7: the block at 0xbffe00 is not where");
	events_end(SOMA_HEADER AT_START ",,alloc,3,7,0x800000,8,,,start\n", TRACE_ERROR, 0, ":7: the block");
	events_end(SOMA_HEADER
		   ",,segment_alloc,0,0,0x1000,4096,,,start\n,,alloc,0,0,0x1000,512,,,start;1024\n"
		   ",,alloc,0,0,0x1200,512,,,start\n",
		   TRACE_ERROR, 0, ":4: the block at 0x1200 is not where");
	events_end(SOMA_HEADER ",,segment_alloc,0,0,0xffffffffffffffff,2,,,start\n", TRACE_ERROR, 0,
		   ":2: a segment at 0xffffffffffffffff of 2 bytes, past the end of the address space");
	events_end(SOMA_HEADER ",,segment_alloc,0,0,0x1000,8,,,start;large\n", TRACE_ERROR, 0,
		   ":2: expected start or start;small in column detail, got \"start;large\"");
	events_end(
		SOMA_HEADER ",,alloc,0,0,0x1000,8,,,start;0\n", TRACE_ERROR, 0,
		":2: expected start, and behind semicolons the bytes that the block takes, and pending in");
	events_end(SOMA_HEADER ",,alloc,0,0,0x1000,8,,,start;8;\n", TRACE_ERROR, 0, "got \"start;8;\"");
	events_end(SOMA_HEADER ",,segment_alloc,0,0,0x1000,0,,,start\n", TRACE_ERROR, 0,
		   ":2: a segment at 0x1000 of 0 bytes: expected its size in column \"size\"");
	events_end(SOMA_HEADER AT_START ",,alloc,2,7,0x800000,0,,,start\n", TRACE_ERROR, 0,
		   ":7: the block at 0x800000 is of 0 bytes: expected its size, or how many bytes it takes");
	events_end(SOMA_HEADER AT_START ",,alloc,2,8,0x800000,8,,,start\n", TRACE_ERROR, 0,
		   ":7: the block at 0x800000 is on stream 8 of pool 0:0: expected its segment's, stream 7 "
		   "of pool "
		   "0:0");
	events_end("time,thread,op,device,stream,ptr,size,tag,generation,detail,pool\n"
		   ",,segment_alloc,0,0,0x1000,512,,,start,0:1\n,,alloc,0,0,0x1000,512,,,start,0:2\n",
		   TRACE_ERROR, 0,
		   ":3: the block at 0x1000 is on stream 0 of pool 0:2: expected its segment's, stream 0 of "
		   "pool 0:1");
	/* Whatever is cut off, an event it is not. */
	events_end(SOMA_HEADER ",,segment_alloc,0,0,0x1000,8,,,star", TRACE_TRUNCATED, 0,
		   ":2: the file ends");
	events_end(SOMA_HEADER AT_START "1,,alloc,2,0,0x1000,8,,,", TRACE_TRUNCATED, 0, ":7: the file ends");
}
END_TEST

START_TEST(a_line_of_the_start_is_whole_or_it_is_not_there)
{
	static const char *const cut[] = { "start",      "start;",          "start;1",
					   "start;1024", "start;1024;pend", "start;1024;pending" };
	char text[1024];

	for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
		snprintf(text, sizeof text, SOMA_HEADER AT_START ",,alloc,2,7,0x800000,600,,,%s", cut[i]);
		events_end(text, TRACE_TRUNCATED, 0, ":7: the file ends");
	}
	events_end(SOMA_HEADER ",,segment_alloc,0,0,0x1000,512,,,start;sm", TRACE_TRUNCATED, 0,
		   ":2: the file ends");
}
END_TEST

#define SEGMENT_AT(device, address) ",,segment_alloc," #device ",0," #address ",4096,,,start\n"

START_TEST(segments_of_the_start_that_overlap_are_refused)
{
	events_end(
		SOMA_HEADER SEGMENT_AT(0, 0x1000) SEGMENT_AT(0, 0x1000), TRACE_ERROR, 0,
		":3: the segment at 0x1000 overlaps the one at 0x1000 in line 2: expected segments that were "
		"there together");
	events_end(SOMA_HEADER SEGMENT_AT(0, 0x9000) SEGMENT_AT(0, 0x1fff) SEGMENT_AT(0, 0x1000), TRACE_ERROR,
		   0, ":4: the segment at 0x1000 overlaps the one at 0x1fff in line 3");
	events_end(SOMA_HEADER SEGMENT_AT(1, 0x1000) SEGMENT_AT(0, 0x1000)
			   SEGMENT_AT(1, 0x1800) "1,,alloc,0,0,0x1000,8,,,\n",
		   TRACE_ERROR, 0, ":4: the segment at 0x1800 overlaps the one at 0x1000 in line 2");
	/* Beside each other, or on two devices, they may be. */
	events_end(SOMA_HEADER SEGMENT_AT(0, 0x2000) SEGMENT_AT(0, 0x1000) SEGMENT_AT(1, 0x1000), TRACE_END,
		   0, NULL);
}
END_TEST

START_TEST(errors_name_the_line_and_what_was_expected)
{
	events_end(SOMA_HEADER "1,,alloc,0,0,1,2,,,\n1,,alloc,0,0,1,2,,\n", TRACE_ERROR, 1,
		   ":3: expected column detail, got the end of the line");
	events_end(SOMA_HEADER "1,,alloc,0,0,1,2,,,,\n", TRACE_ERROR, 0,
		   ":2: expected 10 columns, got another one, \"\"");
	events_end(SOMA_HEADER "1,,alloc,0,0,1,2,,,,spare\n", TRACE_ERROR, 0, "got another one, \"spare\"");
	events_end(SOMA_HEADER "1,,allocate,0,0,1,2,,,\n", TRACE_ERROR, 0,
		   ":2: expected an operation such as alloc or free in column op, got \"allocate\"");
	events_end(SOMA_HEADER "1,,alloc,0,0,12q,2,,,\n", TRACE_ERROR, 0,
		   "expected a number in column ptr, got \"12q\"");
	events_end(SOMA_HEADER "1,,alloc,0,0,0x,2,,,\n", TRACE_ERROR, 0, "in column ptr, got \"0x\"");
	events_end(SOMA_HEADER "-1,,alloc,0,0,0,2,,,\n", TRACE_ERROR, 0,
		   "expected a number in column time, got \"-1\"");
	events_end(SOMA_HEADER "1,,alloc,0,0,0,18446744073709551616,,,\n", TRACE_ERROR, 0,
		   "a number in column size");
	events_end(SOMA_HEADER "1,,alloc,0,0,0,0x10000000000000000,,,\n", TRACE_ERROR, 0,
		   "a number in column size");
	events_end(SOMA_HEADER "1,4294967296,alloc,0,0,0,1,,,\n", TRACE_ERROR, 0,
		   "a smaller number in column thread");
	events_end(SOMA_HEADER "1,,alloc,2147483648,0,0,1,,,\n", TRACE_ERROR, 0,
		   "a smaller number in column device");
	events_end(SOMA_HEADER "1,,mark,0,0,0,1,\"a\"b,,\n", TRACE_ERROR, 0,
		   "expected a comma behind the closing quote");
	events_end(SOMA_HEADER "1,,mark,0,0,0,1,\"a\n\n\nb\",,\nx\n", TRACE_ERROR, 1, ":6: ");
}
END_TEST

START_TEST(a_quote_within_a_field_is_refused_and_swallows_nothing)
{
	events_end(SOMA_HEADER "1,,mark,0,0,,,ok,,\n1,,mark,0,0,,,a\"b,,\n1,,mark,0,0,,,c,,\n", TRACE_ERROR,
		   1, ":3: a quote at byte 16 of the line, within column tag");
	events_end(SOMA_HEADER "1,,mark,0,0,,,a\"\"b,,\n1,,mark,0,0,,,c,,\n", TRACE_ERROR, 0,
		   ":2: a quote at byte 16 of the line, within column tag");
	events_end(SOMA_HEADER "1,,mark,0,0,,,a,,d\"", TRACE_ERROR, 0,
		   ":2: a quote at byte 19 of the line, within column detail");
	events_end(SOMA_HEADER "1,,mark,0,0,,,\"a\"b\"\n1,,mark,0,0,,,c,,\n", TRACE_ERROR, 0,
		   ":2: expected a comma behind the closing quote");
}
END_TEST

START_TEST(the_header_must_match)
{
	events_end("time,thread,op,device,stream,ptr,size,tag,generation,detail,extra\n", TRACE_ERROR, 0,
		   ":1: expected its name in column pool, got \"extra\"");
	events_end("time,thread,op,device,stream,ptr,size,tag,generation,detail,pool,extra\n", TRACE_ERROR, 0,
		   ":1: expected 11 columns, got another one, \"extra\"");
	events_end("time,thread,op,device,stream,ptr,size,tag,generation\n", TRACE_ERROR, 0,
		   ":1: expected column detail, got the end of the line");
	events_end("time,thread,op,device,stream,address,size,tag,generation,detail\n", TRACE_ERROR, 0,
		   ":1: expected its name in column ptr, got \"address\"");
	events_end("Thread,Time,Action,Pointer,Stream,Size\n", TRACE_ERROR, 0,
		   ":1: expected its name in column Size, got \"Stream\"");
	events_end("time,thread\n", TRACE_ERROR, 0, "not a trace in a known format");
}
END_TEST

START_TEST(a_last_line_without_newline_counts_when_complete)
{
	events_end(SOMA_HEADER "1,,alloc,0,0,1,2,,,", TRACE_END, 1, NULL);
	events_end(SOMA_HEADER "1,,alloc,0,0,1,2,,,\n2,,free,0,0,1,2,", TRACE_TRUNCATED, 1,
		   ":3: the file ends in the middle of a line");
	events_end(SOMA_HEADER "1,,alloc,0,0,1,2,,,\n2,,fr", TRACE_TRUNCATED, 1, ":3: ");
	events_end(SOMA_HEADER "1,,alloc,0,0,1,2,,,\n2,,mark,0,0,1,2,,,\"a", TRACE_TRUNCATED, 1, ":3: ");
	events_end(SOMA_HEADER, TRACE_END, 0, NULL);
	events_end("time,thread,op,device,stream,ptr,size,tag,generation,detail", TRACE_END, 0, NULL);
	events_end("time,thread,op,device,str", TRACE_TRUNCATED, 0, ":1: ");
	events_end(RMM_HEADER "1,00:00:00.1,allo", TRACE_TRUNCATED, 0, ":2: ");
}
END_TEST

START_TEST(zero_bytes_and_endless_lines_are_refused)
{
	struct bytes bytes = { 0 };
	struct events events;

	bytes_text(&bytes, SOMA_HEADER "1,,mark,0,0,,,a");
	bytes_put(&bytes, "\0b,,\n", 5);
	events = events_of(&bytes);
	ck_assert_int_eq(events.result, TRACE_ERROR);
	ck_assert_ptr_nonnull(
		strstr(events.error.text, ":2: expected text without zero bytes in column tag"));
	events_free(&events);
	bytes.size -= 5;
	for (int i = 0; i < 3000000; i++)
		bytes_put(&bytes, "x", 1);
	events = events_of(&bytes);
	ck_assert_int_eq(events.result, TRACE_ERROR);
	ck_assert_ptr_nonnull(strstr(events.error.text, ":2: a line of more than"));
	events_free(&events);
	bytes_free(&bytes);
}
END_TEST

/* More than a reader takes at once. */
START_TEST(a_pipe_can_be_rewound_before_its_end_was_read)
{
	enum { LINES = 3000 };
	int ends[2], keep = dup(STDIN_FILENO);
	struct trace_reader *reader;
	struct trace_event event;
	struct trace_error error;
	int lines = 0;
	pid_t child;

	ck_assert_int_eq(pipe(ends), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		FILE *out = fdopen(ends[1], "w");
		close(ends[0]);
		fputs(SOMA_HEADER, out);
		for (int i = 0; i < LINES; i++)
			fprintf(out, "%d,,alloc,0,0,0x7f0000000000,%d,somebody,,with a longer text\n", i,
				i + 1);
		_exit(fclose(out) == 0 ? 0 : 1);
	}
	close(ends[1]);
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	ck_assert_int_eq(trace_open("-", NULL, &reader, &error), TRACE_OK);
	ck_assert_int_eq(trace_next(reader, &event, &error), TRACE_OK);
	ck_assert_double_lt(trace_progress(reader), 1.0);
	ck_assert_int_eq(trace_rewind(reader, &error), TRACE_OK);
	for (; trace_next(reader, &event, &error) == TRACE_OK; lines++)
		ck_assert_uint_eq(event.size, (uint64_t)lines + 1);
	ck_assert_int_eq(lines, LINES);
	ck_assert_double_eq(trace_progress(reader), 1.0);
	trace_close(reader);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	if (keep >= 0) {
		dup2(keep, STDIN_FILENO);
		close(keep);
	}
}
END_TEST

/* ---- RMM -------------------------------------------------------------------------------- */

START_TEST(rmm_actions_become_events)
{
	struct events events = events_good(RMM_HEADER "7,10:20:30.000004,allocate,0x7f00,1024,0x10\r\n"
						      "7,10:20:30.5,free,0x7f00,1024,10\r\n"
						      "\"7\",\"10:20:30:25\",\"deallocate\",7F00,1024,ab\r\n"
						      "7,10:20:31,allocate failure,(nil),99,(nil)\r\n"
						      "\r\n");

	ck_assert_uint_eq(events.count, 4);
	ck_assert_int_eq(events.event[0].op, TRACE_ALLOC);
	ck_assert_uint_eq(events.event[0].time_ns, 37230000004000);
	ck_assert_uint_eq(events.event[0].ptr, 0x7f00);
	ck_assert_uint_eq(events.event[0].size, 1024);
	ck_assert_uint_eq(events.event[0].stream, 16);
	ck_assert_uint_eq(events.event[0].thread, 7);
	ck_assert_int_eq(events.event[1].op, TRACE_FREE);
	ck_assert(!events.event[1].deferred);
	ck_assert_uint_eq(events.event[1].stream, 10);
	ck_assert_int_eq(events.event[2].op, TRACE_FREE);
	ck_assert_uint_eq(events.event[2].ptr, 0x7f00);
	ck_assert_uint_eq(events.event[2].stream, 0xab);
	ck_assert_uint_eq(events.event[2].time_ns, 37230250000000);
	ck_assert_int_eq(events.event[3].op, TRACE_ALLOC_FAILED);
	ck_assert_uint_eq(events.event[3].size, 99);
	ck_assert_str_eq(trace_format(events.reader), "rmm-csv");
	events_free(&events);
}
END_TEST

START_TEST(rmm_time_goes_on_after_midnight)
{
	struct events events =
		events_good(RMM_HEADER "1,23:59:59.9,allocate,0x1,1,0\n1,00:00:00.1,allocate,0x2,1,0\n"
				       "2,23:59:59.95,allocate,0x3,1,0\n1,12:00:00,allocate,0x4,1,0\n"
				       "1,23:00:00,allocate,0x5,1,0\n1,00:30:00,allocate,0x6,1,0\n");
	const uint64_t second = 1000000000, day = 86400 * second;

	ck_assert_uint_eq(events.event[1].time_ns, day + second / 10);
	ck_assert_uint_eq(events.event[2].time_ns, day - second / 20);
	ck_assert_uint_eq(events.event[3].time_ns, day + 12 * 3600 * second);
	ck_assert_uint_eq(events.event[5].time_ns, 2 * day + 1800 * second);
	events_free(&events);
}
END_TEST

START_TEST(rmm_epochs_are_understood_by_their_size)
{
	struct events events =
		events_good(RMM_HEADER "1,1700000000,free,0x1,1,0\n1,1700000000.5,free,0x1,1,0\n"
				       "1,1700000000123,free,0x1,1,0\n1,1700000000123456,free,0x1,1,0\n"
				       "1,1700000000123456789,free,0x1,1,0\n");
	static const uint64_t time[] = { 1700000000000000000, 1700000000500000000, 1700000000123000000,
					 1700000000123456000, 1700000000123456789 };

	for (size_t i = 0; i < 5; i++)
		ck_assert_uint_eq(events.event[i].time_ns, time[i]);
	events_free(&events);
}
END_TEST

START_TEST(rmm_errors_name_the_line)
{
	events_end(RMM_HEADER "1,25:00:00,free,0x1,1,0\n", TRACE_ERROR, 0,
		   ":2: expected HH:MM:SS.ffffff or an epoch number in column Time, got \"25:00:00\"");
	events_end(RMM_HEADER "1,1:00,free,0x1,1,0\n", TRACE_ERROR, 0, "in column Time");
	events_end(RMM_HEADER "1,00:00:00,resize,0x1,1,0\n", TRACE_ERROR, 0,
		   "in column Action, got \"resize\"");
	events_end(RMM_HEADER "1,00:00:00,free,nil,1,0\n", TRACE_ERROR, 0, "in column Pointer, got \"nil\"");
	events_end(RMM_HEADER "1,00:00:00,free,0x1,,0\n", TRACE_ERROR, 0,
		   "expected a number in column Size, got \"\"");
	events_end(RMM_HEADER "1,00:00:00,free,0x1,1,zz\n", TRACE_ERROR, 0, "in column Stream, got \"zz\"");
	events_end(RMM_HEADER "1,00:00:00,free,0x1,1\n", TRACE_ERROR, 0, "expected column Stream");
}
END_TEST

UNIT_MAIN("trace_csv", a_quote_around_a_field_changes_nothing, a_pool_may_stand_in_a_last_column,
	  every_column_is_read, every_operation_has_its_word, a_pipe_can_be_rewound_before_its_end_was_read,
	  quoted_fields_hold_commas_quotes_and_line_breaks,
	  a_quote_within_a_field_is_refused_and_swallows_nothing, a_deferred_free_is_told_by_its_detail,
	  what_was_there_at_the_start_is_no_event, lines_of_the_start_that_cannot_be_are_refused,
	  a_line_of_the_start_is_whole_or_it_is_not_there, segments_of_the_start_that_overlap_are_refused,
	  errors_name_the_line_and_what_was_expected, the_header_must_match,
	  a_last_line_without_newline_counts_when_complete, zero_bytes_and_endless_lines_are_refused,
	  rmm_actions_become_events, rmm_time_goes_on_after_midnight, rmm_epochs_are_understood_by_their_size,
	  rmm_errors_name_the_line)

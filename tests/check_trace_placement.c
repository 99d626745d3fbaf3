/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement instances: the order of events at one moment, both meanings of `upper`,
 * and damage.
 */
#include <unistd.h>

#include "tests/check_trace_support.h"

#define HEADER "id,lower,upper,size\n"

static struct events
read_upper(const char *text, bool inclusive)
{
	const struct trace_options options = { .upper_inclusive = inclusive };
	struct bytes bytes = { 0 };
	struct events events = { 0 };
	char path[64];
	int fd;

	bytes_text(&bytes, text);
	fd = file_of(&bytes, path);
	events.opened = events.result = trace_open(path, &options, &events.reader, &events.error);
	ck_assert_msg(events.opened == TRACE_OK, "%s", events.error.text);
	events_drain(&events);
	close(fd);
	bytes_free(&bytes);
	return events;
}

static uint64_t
peak_of(const struct events *events)
{
	uint64_t live = 0, peak = 0;

	for (size_t i = 0; i < events->count; i++) {
		live += events->event[i].op == TRACE_ALLOC ? events->event[i].size
							   : 0 - events->event[i].size;
		peak = live > peak ? live : peak;
	}
	ck_assert_uint_eq(live, 0);
	return peak;
}

START_TEST(events_are_in_the_order_of_time)
{
	struct events events = events_good(HEADER "late,5,9,100\nearly,1,5,64\n");

	ck_assert_str_eq(trace_format(events.reader), "placement-csv");
	ck_assert_str_eq(trace_upper(events.reader), "exclusive");
	ck_assert_uint_eq(events.count, 4);
	ck_assert_str_eq(events_holder(&events, 0), "early");
	ck_assert_uint_eq(events.event[0].time_ns, 1);
	ck_assert_int_eq(events.event[1].op, TRACE_FREE);
	ck_assert_uint_eq(events.event[1].time_ns, 5);
	ck_assert_int_eq(events.event[2].op, TRACE_ALLOC);
	ck_assert_uint_eq(events.event[2].time_ns, 5);
	ck_assert_uint_eq(events.event[3].size, 100);
	ck_assert_uint_ne(events.event[0].ptr, events.event[2].ptr);
	ck_assert_uint_eq(peak_of(&events), 100);
	events_free(&events);
}
END_TEST

START_TEST(an_inclusive_upper_is_the_last_moment_of_the_block)
{
	struct events events = read_upper(HEADER "a,5,9,100\nb,1,5,64\nc,3,3,1\n", true);

	ck_assert_str_eq(trace_upper(events.reader), "inclusive");
	ck_assert_uint_eq(peak_of(&events), 164);
	ck_assert_int_eq(trace_rewind(events.reader, &events.error), TRACE_OK);
	events_drain(&events);
	ck_assert_uint_eq(events.count, 12);
	for (size_t i = 0; i < 6; i++)
		ck_assert(events_equal(&events.event[i], &events.event[i + 6]));
	events_free(&events);
}
END_TEST

START_TEST(an_offset_is_not_read_and_blocks_of_no_bytes_are_none)
{
	struct events events = events_good("id,lower,upper,size,offset\na,1,2,100,whatever\nb,1,2,0,\n");

	ck_assert_uint_eq(events.count, 2);
	events_free(&events);
}
END_TEST

/* As MiniMalloc reads them. */
START_TEST(columns_stand_in_any_order_and_have_more_than_one_name)
{
	struct events events = events_good(
		"\"size\",offset,begin,hint,alignment,gaps,buffer_id,\"upper\"\r\n64,0,1,-1,1,,a,5\r\n");

	ck_assert_str_eq(trace_upper(events.reader), "exclusive");
	ck_assert_uint_eq(events.count, 2);
	ck_assert_str_eq(events_holder(&events, 0), "a");
	ck_assert_uint_eq(events.event[0].size, 64);
	ck_assert_uint_eq(events.event[0].time_ns, 1);
	ck_assert_uint_eq(events.event[1].time_ns, 5);
	events_free(&events);
}
END_TEST

START_TEST(an_end_is_the_last_moment_of_the_block)
{
	struct events events = events_good("buffer,start,end,size\nb1,0,3,4\nb2,3,9,4\nb3,4,4,1\n");

	ck_assert_str_eq(trace_upper(events.reader), "inclusive");
	ck_assert_uint_eq(peak_of(&events), 8);
	events_free(&events);
}
END_TEST

START_TEST(what_is_wrong_is_said_with_its_line)
{
	events_end(HEADER "a,1,2,3\na,5,5,3\n", TRACE_ERROR, 0, ":3: expected an upper above lower");
	events_end(HEADER "a,1,2\n", TRACE_ERROR, 0, ":2: expected column size");
	events_end(HEADER "a,1,2,\n", TRACE_ERROR, 0, ":2: expected a number in column size");
	events_end(HEADER "a,1,2,281474976710657\n", TRACE_ERROR, 0,
		   ":2: expected a smaller number in column size");
	events_end(HEADER "a,1,2,3,4\n", TRACE_ERROR, 0, ":2: expected 4 columns");
	events_end(
		"id,lower,upper,weight\n", TRACE_ERROR, 0,
		":1: expected one of id, lower, upper, size and offset, each once, in column (header), got "
		"\"weight\"");
	events_end("id,lower,upper,lower\n", TRACE_ERROR, 0, ":1: expected one of id, ");
	events_end("id,lower,upper,\"si\"ze\n", TRACE_ERROR, 0, ":1: expected a comma");
	events_end("id,lower,upper\n", TRACE_ERROR, 0, ":1: expected a column size");
	events_end("id,lower,upper", TRACE_TRUNCATED, 0, ":1: the file ends in the middle of a line");
	events_end("id,lower,upper,size,alignment\na,1,2,3,0\nb,1,2,3,64\n", TRACE_ERROR, 0,
		   ":3: expected 1 (none) in column alignment, got \"64\"");
	events_end("id,lower,upper,size,gaps\na,1,9,3,\nb,1,9,3,4-5\n", TRACE_ERROR, 0,
		   ":3: expected none in column gaps, got \"4-5\"");
	events_end(HEADER "a,1,2,3\nb,1,", TRACE_TRUNCATED, 2, ":3: the file ends in the middle of a line");
}
END_TEST

static const char sample[] = HEADER "a,1,20,512\n\"b,\"\"c\",3,7,1\nd,7,30,4096\n";

START_TEST(damaged_files_are_read_or_refused)
{
	struct bytes bytes = { 0 };
	uint64_t random = 5;

	bytes_text(&bytes, sample);
	for (size_t size = 0; size < bytes.size; size++) {
		struct bytes part = { .data = bytes.data, .size = size };
		struct events events = events_of(&part);
		ck_assert(events.count <= 6);
		events_free(&events);
	}
	for (size_t i = 0; i < 20000; i++)
		check_changed(&bytes, &random);
	check_every_allocation(&bytes);
	bytes_free(&bytes);
}
END_TEST

UNIT_MAIN("trace_placement", events_are_in_the_order_of_time,
	  an_inclusive_upper_is_the_last_moment_of_the_block,
	  an_offset_is_not_read_and_blocks_of_no_bytes_are_none,
	  columns_stand_in_any_order_and_have_more_than_one_name, an_end_is_the_last_moment_of_the_block,
	  what_is_wrong_is_said_with_its_line, damaged_files_are_read_or_refused)

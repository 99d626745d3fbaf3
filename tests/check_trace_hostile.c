/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pickles made to harm the reader: deep, cyclic, huge or exponential ones.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/check_trace_support.h"

#define A 0x7f0000000000

START_TEST(deep_nesting_is_refused)
{
	struct bytes bytes = { 0 };

	bytes_put(&bytes, "\x80\x04", 2);
	for (int i = 0; i < 100000; i++)
		bytes_put(&bytes, "](", 2);
	make_refused(bytes, "nested more than");
}
END_TEST

START_TEST(deep_nesting_without_marks_is_survived)
{
	struct bytes bytes = { 0 };

	bytes_put(&bytes, "\x80\x04", 2);
	for (int i = 0; i < 300000; i++)
		bytes_put(&bytes, "]", 1);
	for (int i = 0; i < 299999; i++)
		bytes_put(&bytes, "a", 1);
	bytes_put(&bytes, ".", 1);
	make_refused(bytes, "segment 0: expected a dict");
}
END_TEST

START_TEST(references_to_nothing_are_refused)
{
	struct bytes bytes = { 0 };

	bytes_put(&bytes, "\x80\x04h\x07.", 5);
	make_refused(bytes, "byte 2: memo slot 7 holds nothing");
	bytes = (struct bytes){ 0 };
	bytes_put(&bytes, "\x80\x02]r\xff\xff\xff\xff.", 9);
	make_refused(bytes, "memo slot 4294967295");
	bytes = (struct bytes){ 0 };
	bytes_put(&bytes, "\x80\x02]j\xff\xff\xff\xff.", 9);
	make_refused(bytes, "memo slot 4294967295 holds nothing");
	bytes = (struct bytes){ 0 };
	bytes_put(&bytes,
		  "\x80\x04"
		  "e.",
		  4);
	make_refused(bytes, "a group without MARK");
	bytes = (struct bytes){ 0 };
	bytes_put(&bytes,
		  "\x80\x04(K\x01"
		  "e.",
		  7);
	make_refused(bytes, "a group with nothing to go into");
	bytes = (struct bytes){ 0 };
	bytes_put(&bytes,
		  "\x80\x04"
		  "a.",
		  4);
	make_refused(bytes, "the stack holds 0 values, expected 2");
}
END_TEST

START_TEST(texts_longer_than_the_file_are_cut_and_huge_ones_refused)
{
	struct bytes bytes = { 0 };
	struct events events;

	bytes_put(&bytes,
		  "\x80\x04}X\x00\x00\x10\x00"
		  "abc",
		  11);
	events = events_of(&bytes);
	ck_assert_int_eq(events.result, TRACE_TRUNCATED);
	events_free(&events);
	bytes_free(&bytes);
	bytes_put(&bytes,
		  "\x80\x04}X\xff\xff\xff\xff"
		  "abc",
		  11);
	make_refused(bytes, "a text of 4294967295 bytes");
}
END_TEST

START_TEST(integers_of_more_than_64_bits_are_refused_where_they_count)
{
	struct pickler p;
	uint8_t big[257];

	memset(big, 0x7f, sizeof big);
	big[0] = 0x8a;
	big[1] = 255;
	make_begin_trace(&p);
	make_container(&p, '}');
	make_op(&p, '(');
	make_text_pair(&p, "action", "alloc");
	make_pair(&p, "addr", 1);
	make_string(&p, "size");
	bytes_put(&p.out, big, sizeof big);
	make_pair(&p, "stream", 0);
	make_op(&p, 'u');
	make_refused(make_end_trace(&p), "\"size\" is not an integer of 64 bits");
}
END_TEST

/* A list in itself, a dict as a frame of itself, blocks as their own frames. */
START_TEST(cycles_are_refused)
{
	struct pickler p;
	uint32_t slot, blocks;

	make_begin(&p, 4);
	slot = make_container(&p, ']');
	make_get(&p, slot);
	make_op(&p, 'a');
	make_end(&p);
	make_refused(p.out, "segment 0: expected a dict");

	make_begin_trace(&p);
	slot = make_container(&p, '}');
	make_op(&p, '(');
	make_text_pair(&p, "action", "alloc");
	make_pair(&p, "addr", 1);
	make_pair(&p, "size", 1);
	make_pair(&p, "stream", 0);
	make_string(&p, "frames");
	make_container(&p, ']');
	make_get(&p, slot);
	make_op(&p, 'a');
	make_op(&p, 'u');
	make_refused(make_end_trace(&p), "frame 0 is not a dict of its own");

	make_begin(&p, 4);
	make_container(&p, ']');
	make_container(&p, '}');
	make_op(&p, '(');
	make_pair(&p, "address", A);
	make_pair(&p, "total_size", 8);
	make_text_pair(&p, "segment_type", "small");
	make_string(&p, "blocks");
	blocks = make_container(&p, ']');
	make_container(&p, '}');
	make_op(&p, '(');
	make_pair(&p, "size", 8);
	make_text_pair(&p, "state", "inactive");
	make_string(&p, "frames");
	make_get(&p, blocks);
	make_op(&p, 'u');
	make_op(&p, 'a');
	make_op(&p, 'u');
	make_op(&p, 'a');
	make_end(&p);
	make_refused(p.out, "\"frames\" is not a list of frames");
}
END_TEST

START_TEST(entries_count_once)
{
	struct pickler p;
	uint32_t slot;

	make_begin_trace(&p);
	slot = p.memo;
	make_entry(&p, "alloc", A, 1, 0, 1);
	make_get(&p, slot);
	make_refused(make_end_trace(&p), "listed twice");
}
END_TEST

/* Sixty levels of a list that holds the one below twice. */
START_TEST(exponential_sharing_costs_nothing)
{
	struct pickler p;
	struct bytes bytes;
	struct events events;
	uint32_t slot;

	make_begin(&p, 4);
	make_container(&p, '}');
	make_op(&p, '(');
	make_string(&p, "laughs");
	slot = make_container(&p, ']');
	for (int level = 0; level < 60; level++) {
		uint32_t below = slot;
		char text[16];
		snprintf(text, sizeof text, "l%d", level);
		make_op(&p, (char)0x8c);
		make_op(&p, (char)strlen(text));
		bytes_text(&p.out, text);
		slot = make_container(&p, ']');
		make_op(&p, '(');
		make_get(&p, below);
		make_get(&p, below);
		make_op(&p, 'e');
	}
	make_string(&p, "segments");
	make_container(&p, ']');
	make_op(&p, 'u');
	make_end(&p);
	bytes = p.out;
	events = events_of(&bytes);
	ck_assert_int_eq(events.result, TRACE_END);
	events_free(&events);
	bytes_free(&bytes);
}
END_TEST

UNIT_MAIN("trace_hostile", deep_nesting_is_refused, deep_nesting_without_marks_is_survived,
	  references_to_nothing_are_refused, texts_longer_than_the_file_are_cut_and_huge_ones_refused,
	  integers_of_more_than_64_bits_are_refused_where_they_count, cycles_are_refused, entries_count_once,
	  exponential_sharing_costs_nothing)

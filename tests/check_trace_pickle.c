/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PyTorch snapshot reader: every form of the file, what becomes of its entries,
 * and what it refuses.
 */
#include "config.h" /* first: memmem */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check_trace_support.h"

#define A 0x7f0000000000
#define MIB ((uint64_t)1 << 20)

/* ---- forms --------------------------------------------------------------------- */

static void
plain_events(const struct events *events)
{
	static const enum trace_op op[SNAPSHOT_EVENTS] = {
		TRACE_SEGMENT_ALLOC, TRACE_ALLOC,          TRACE_ALLOC, TRACE_FREE,  TRACE_FREE,
		TRACE_OOM,           TRACE_FREE_COMPLETED, TRACE_MARK,  TRACE_ALLOC,
	};

	ck_assert_int_eq(events->result, TRACE_END);
	ck_assert_uint_eq(events->count, SNAPSHOT_EVENTS);
	for (size_t i = 0; i < SNAPSHOT_EVENTS; i++) {
		ck_assert_int_eq(events->event[i].op, op[i]);
		ck_assert_uint_eq(events->event[i].index, i);
		ck_assert_int_eq(events->event[i].device, i == SNAPSHOT_EVENTS - 1 ? 2 : 0);
		ck_assert_int_eq(events->event[i].deferred, i == 4);
	}
}

static void
two_segments(const struct trace_snapshot *snapshot)
{
	ck_assert_ptr_nonnull(snapshot);
	ck_assert_uint_eq(snapshot->segment_count, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct trace_segment *segment = &snapshot->segments[i];
		ck_assert_uint_eq(segment->address, A + i * 4 * MIB);
		ck_assert_uint_eq(segment->size, 2 * MIB);
		ck_assert(segment->small && !segment->expandable);
		ck_assert_uint_eq(segment->block_count, 2);
	}
}

START_TEST(every_protocol_and_order_of_keys_gives_the_same_events)
{
	for (int protocol = 2; protocol <= 5; protocol++) {
		for (int late = 0; late < 2; late++) {
			struct bytes bytes =
				make_snapshot(protocol, late ? SHAPE_LATE_SEGMENTS : SHAPE_PLAIN);
			struct events events = events_of(&bytes);
			const struct trace_snapshot *snapshot = trace_snapshot(events.reader);
			plain_events(&events);
			two_segments(snapshot);
			ck_assert_uint_eq(snapshot->segments[1].pool[1], 3);
			ck_assert_uint_eq(snapshot->segments[1].blocks[0].requested, 1000);
			ck_assert_int_eq(snapshot->segments[1].blocks[0].state, TRACE_BLOCK_LIVE);
			ck_assert_int_eq(snapshot->segments[1].blocks[1].state, TRACE_BLOCK_FREE);
			ck_assert_str_eq(
				trace_name_text(events.reader, snapshot->segments[1].blocks[0].holder),
				"work (job.py:7)");
			ck_assert_str_eq(trace_name_text(events.reader, snapshot->settings),
					 "max_split_size=20,expandable_segments=true");
			ck_assert_str_eq(trace_format(events.reader), "pytorch-snapshot");
			ck_assert(trace_has_addresses(events.reader));
			events_free(&events);
			bytes_free(&bytes);
		}
	}
}
END_TEST

START_TEST(segments_are_known_before_the_first_event)
{
	for (int shape = 0; shape < SHAPE_COUNT; shape++) {
		struct bytes bytes = make_snapshot(4, (enum snapshot_shape)shape);
		struct trace_reader *reader;
		struct trace_error error;
		char path[64];
		int fd = file_of(&bytes, path);

		ck_assert_int_eq(trace_open(path, NULL, &reader, &error), TRACE_OK);
		two_segments(trace_snapshot(reader));
		trace_close(reader);
		close(fd);
		bytes_free(&bytes);
	}
}
END_TEST

START_TEST(snapshots_without_events_have_none)
{
	static const enum snapshot_shape shapes[] = { SHAPE_BARE_LIST, SHAPE_NO_EVENTS, SHAPE_LEGACY };

	for (size_t i = 0; i < 3; i++) {
		struct bytes bytes = make_snapshot(4, shapes[i]);
		struct events events = events_of(&bytes);
		ck_assert_int_eq(events.result, TRACE_END);
		ck_assert_uint_eq(events.count, 0);
		two_segments(trace_snapshot(events.reader));
		events_free(&events);
		bytes_free(&bytes);
	}
}
END_TEST

START_TEST(legacy_blocks_get_addresses_and_requests_from_history)
{
	struct bytes bytes = make_snapshot(4, SHAPE_LEGACY);
	struct events events = events_of(&bytes);
	const struct trace_segment *segment = &trace_snapshot(events.reader)->segments[1];

	for (uint64_t i = 0; i < 2; i++) {
		ck_assert_uint_eq(segment->blocks[i].address, A + 4 * MIB + i * MIB);
		ck_assert_uint_eq(segment->blocks[i].requested, 1000 + i);
		ck_assert_str_eq(trace_name_text(events.reader, segment->blocks[i].holder),
				 "work (job.py:7)");
	}
	ck_assert_int_eq(segment->blocks[1].state, TRACE_BLOCK_PENDING);
	events_free(&events);
	bytes_free(&bytes);
}
END_TEST

START_TEST(a_trace_of_one_entry_is_read)
{
	struct bytes bytes = make_snapshot(4, SHAPE_ONE_ENTRY);
	struct events events = events_of(&bytes);

	ck_assert_int_eq(events.result, TRACE_END);
	ck_assert_uint_eq(events.count, 1);
	ck_assert_uint_eq(events.event[0].size, 1000);
	events_free(&events);
	bytes_free(&bytes);
}
END_TEST

/* ---- entries --------------------------------------------------------------------- */

START_TEST(an_event_carries_what_its_entry_said)
{
	struct bytes bytes = make_snapshot(4, SHAPE_PLAIN);
	struct events events = events_of(&bytes);

	ck_assert_uint_eq(events.event[1].ptr, A);
	ck_assert_uint_eq(events.event[1].size, 1000);
	ck_assert_uint_eq(events.event[1].time_ns, 20000);
	ck_assert_str_eq(events_holder(&events, 1), "work (job.py:7)");
	ck_assert_uint_eq(events.event[4].stream, 5);
	ck_assert_uint_eq(events.event[5].size, (uint64_t)1 << 40);
	ck_assert_str_eq(events_detail(&events, 5), "device_free 12345");
	ck_assert_str_eq(events_holder(&events, 7), "snapshot");
	events_free(&events);
	bytes_free(&bytes);
}
END_TEST

/* An alloc with a "pool_id" of what `put` makes. */
static void
entry_of_pool(struct pickler *p, void (*put)(struct pickler *p, uint32_t *slot), uint32_t *slot)
{
	make_container(p, '}');
	make_op(p, '(');
	make_text_pair(p, "action", "alloc");
	make_pair(p, "addr", 0x1000);
	make_pair(p, "size", 512);
	make_pair(p, "stream", 0);
	make_string(p, "pool_id");
	put(p, slot);
	make_op(p, 'u');
}

static void
put_pair(struct pickler *p, uint32_t *slot)
{
	make_integer(p, 0);
	make_integer(p, (uint64_t)1 << 40);
	*slot = make_container(p, (char)0x86);
}

static void
put_same_pair(struct pickler *p, uint32_t *slot)
{
	make_get(p, *slot);
}

static void
put_none(struct pickler *p, uint32_t *slot)
{
	(void)slot;
	make_op(p, 'N');
}

static void
put_number(struct pickler *p, uint32_t *slot)
{
	(void)slot;
	make_integer(p, 3);
}

START_TEST(an_entry_says_whose_memory_it_is)
{
	struct pickler p;
	struct bytes bytes;
	struct events events;
	uint32_t slot = 0;

	make_begin_trace(&p);
	entry_of_pool(&p, put_pair, &slot);
	entry_of_pool(&p, put_none, &slot);
	entry_of_pool(&p, put_same_pair, &slot);
	make_entry(&p, "alloc", 0x4000, 512, 0, 1);
	bytes = make_end_trace(&p);
	events = events_of(&bytes);
	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	ck_assert_uint_eq(events.count, 4);
	for (size_t i = 0; i < 4; i++) {
		ck_assert_int_eq(events.event[i].has_pool, i % 2 == 0);
		ck_assert_uint_eq(events.event[i].pool[0], 0);
		ck_assert_uint_eq(events.event[i].pool[1], i % 2 == 0 ? (uint64_t)1 << 40 : 0);
	}
	events_free(&events);
	bytes_free(&bytes);
	make_begin_trace(&p);
	entry_of_pool(&p, put_number, &slot);
	make_refused(make_end_trace(&p), "\"pool_id\" is not a pair of integers");
}
END_TEST

START_TEST(a_rewound_reader_gives_the_same_again)
{
	for (int shape = 0; shape < SHAPE_COUNT; shape++) {
		struct bytes bytes = make_snapshot(4, (enum snapshot_shape)shape);
		struct events events = events_of(&bytes);
		size_t count = events.count;

		ck_assert_int_eq(trace_rewind(events.reader, &events.error), TRACE_OK);
		events_drain(&events);
		ck_assert_int_eq(events.result, TRACE_END);
		ck_assert_uint_eq(events.count, 2 * count);
		for (size_t i = 0; i < count; i++)
			ck_assert(events_equal(&events.event[i], &events.event[count + i]));
		two_segments(trace_snapshot(events.reader));
		events_free(&events);
		bytes_free(&bytes);
	}
}
END_TEST

/* ---- refusals -------------------------------------------------------------------- */

START_TEST(opcodes_that_are_not_plain_data_are_refused_by_name_and_place)
{
	static const struct {
		uint8_t code;
		const char *name;
	} refusals[] = {
		{ 'R', "REDUCE" },     { 'c', "GLOBAL" },        { 'b', "BUILD" },
		{ 'i', "INST" },       { 'o', "OBJ" },           { 0x81, "NEWOBJ" },
		{ 0x92, "NEWOBJ_EX" }, { 0x93, "STACK_GLOBAL" }, { 0x82, "EXT1" },
		{ 'P', "PERSID" },     { 'Q', "BINPERSID" },     { '0', "POP" },
		{ '2', "DUP" },        { 0x8b, "LONG4" },        { 'C', "SHORT_BINBYTES" },
		{ 0x8f, "EMPTY_SET" }, { 0x97, "NEXT_BUFFER" },  { 'I', "INT" },
		{ 'g', "GET" },        { 0x8d, "BINUNICODE8" },
	};

	for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
		struct bytes bytes = { 0 };
		char expected[128];
		bytes_put(&bytes, "\x80\x04}", 3);
		bytes_put(&bytes, &refusals[i].code, 1);
		snprintf(expected, sizeof expected,
			 ": byte 3: opcode %s refused: a memory snapshot holds only plain data",
			 refusals[i].name);
		make_refused(bytes, expected);
	}
}
END_TEST

START_TEST(every_byte_is_an_opcode_or_refused)
{
	for (int code = 0; code < 256; code++) {
		struct bytes bytes = { 0 };
		uint8_t byte = (uint8_t)code;
		struct events events;

		bytes_put(&bytes, "\x80\x04", 2);
		bytes_put(&bytes, &byte, 1);
		events = events_of(&bytes);
		ck_assert_int_ne(events.result, TRACE_END);
		events_free(&events);
		bytes_free(&bytes);
	}
}
END_TEST

/* An entry that lacks `missing`, or has `extra` as a text. */
static struct bytes
entry_with(const char *missing, const char *extra)
{
	static const char *const keys[] = { "addr", "size", "stream" };
	struct pickler p;

	make_begin_trace(&p);
	make_entry(&p, "alloc", A, 8, 0, 1);
	make_container(&p, '}');
	make_op(&p, '(');
	if (strcmp(missing, "action") != 0)
		make_text_pair(&p, "action", "alloc");
	for (size_t i = 0; i < 3; i++)
		if (strcmp(missing, keys[i]) != 0)
			make_pair(&p, keys[i], 1);
	if (extra != NULL)
		make_text_pair(&p, extra, "wrong");
	make_op(&p, 'u');
	return make_end_trace(&p);
}

START_TEST(a_missing_or_wrong_field_is_named_with_its_entry)
{
	make_refused(entry_with("action", NULL), "entry 1 of device 0: \"action\" is missing");
	make_refused(entry_with("addr", NULL), "entry 1 of device 0: \"addr\" is missing");
	make_refused(entry_with("size", NULL), "entry 1 of device 0: \"size\" is missing");
	make_refused(entry_with("stream", NULL), "entry 1 of device 0: \"stream\" is missing");
	make_refused(entry_with("", "size"), "entry 1 of device 0: \"size\" is not an integer");
	make_refused(entry_with("", "frames"), "entry 1 of device 0: \"frames\" is not a list");
	make_refused(entry_with("", "action"), "entry 1 of device 0: unknown action \"wrong\"");
}
END_TEST

START_TEST(what_stands_before_a_bad_entry_is_given_out)
{
	struct bytes bytes = entry_with("size", NULL);
	struct events events = events_of(&bytes);

	ck_assert_uint_eq(events.count, 1);
	ck_assert_uint_eq(events.event[0].ptr, A);
	ck_assert_int_eq(trace_next(events.reader, events.event, &events.error), TRACE_ERROR);
	events_free(&events);
	bytes_free(&bytes);
}
END_TEST

START_TEST(blocks_must_cover_their_segment)
{
	struct bytes bytes = make_snapshot(4, SHAPE_NO_EVENTS);
	const uint8_t size[] = { 'M', 0x00, 0x04 }; /* 1024 */
	uint8_t *at = memmem(bytes.data, bytes.size, size, sizeof size);

	ck_assert_ptr_nonnull(at);
	at[2] = 8;
	make_refused(bytes, "block 1 of segment 0: \"address\" is 0x7f0000000400, expected 0x7f0000000800");
}
END_TEST

START_TEST(pickles_of_something_else_are_refused)
{
	struct bytes bytes = { 0 };

	bytes_put(&bytes, "\x80\x04}.", 4);
	make_refused(bytes, "\"segments\" is missing");
	bytes = (struct bytes){ 0 };
	bytes_put(&bytes, "\x80\x04K\x05.", 5);
	make_refused(bytes, "no memory snapshot");
	bytes = (struct bytes){ 0 };
	bytes_put(&bytes,
		  "\x80\x04]K\x05"
		  "a.",
		  7);
	make_refused(bytes, "segment 0: expected a dict");
	bytes = make_snapshot(4, SHAPE_PLAIN);
	bytes_put(&bytes, "x", 1);
	make_refused(bytes, "data behind the end");
}
END_TEST

UNIT_MAIN("trace_pickle", every_protocol_and_order_of_keys_gives_the_same_events,
	  segments_are_known_before_the_first_event, snapshots_without_events_have_none,
	  legacy_blocks_get_addresses_and_requests_from_history, a_trace_of_one_entry_is_read,
	  an_event_carries_what_its_entry_said, an_entry_says_whose_memory_it_is,
	  a_rewound_reader_gives_the_same_again,
	  opcodes_that_are_not_plain_data_are_refused_by_name_and_place, every_byte_is_an_opcode_or_refused,
	  a_missing_or_wrong_field_is_named_with_its_entry, what_stands_before_a_bad_entry_is_given_out,
	  blocks_must_cover_their_segment, pickles_of_something_else_are_refused)

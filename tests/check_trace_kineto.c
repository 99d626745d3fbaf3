/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kineto's trace: which events are a device's memory and in what order, how those without
 * addresses are paired, and what is refused.
 */
#include <string.h>

#include "tests/check_trace_support.h"

#define FRONT "{\"schemaVersion\": 1, \"traceEvents\": ["
#define BACK "]}"
#define MEMORY(time, type, device, rest)                                                                 \
	"{\"ph\":\"i\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":1,\"tid\":5,\"ts\":" time ",\"args\":{" \
	"\"Device Type\":" type ",\"Device Id\":" device "," rest "}}"
#define BYTES(time, device, bytes) MEMORY(time, "1", device, "\"Bytes\":" bytes)

START_TEST(memory_of_devices_is_read)
{
	struct events events = events_good(FRONT "{\"ph\":\"X\",\"name\":\"aten::[memory]\",\"ts\":1}," BYTES(
		"10", "3", "512") "," MEMORY("11", "0", "-1", "\"Bytes\":64") "," BYTES("12.5", "3", "-512")
						   BACK);

	ck_assert_str_eq(trace_format(events.reader), "kineto");
	ck_assert_uint_eq(events.count, 2);
	ck_assert_int_eq(events.event[0].op, TRACE_ALLOC);
	ck_assert_int_eq(events.event[0].device, 3);
	ck_assert_uint_eq(events.event[0].size, 512);
	ck_assert_uint_eq(events.event[0].time_ns, 10000);
	ck_assert_uint_eq(events.event[0].thread, 5);
	ck_assert_int_eq(events.event[1].op, TRACE_FREE);
	ck_assert_uint_eq(events.event[1].time_ns, 12500);
	ck_assert_uint_eq(events.event[1].ptr, events.event[0].ptr);
	ck_assert(!trace_has_addresses(events.reader));
	events_free(&events);
}
END_TEST

START_TEST(without_addresses_a_free_is_of_the_latest_block_of_its_size_on_its_device)
{
	struct events events = events_good(
		FRONT BYTES("1", "0", "512") "," BYTES("2", "0", "512") "," BYTES("3", "1", "512") "," BYTES(
			"4", "0", "1024") "," BYTES("5", "0", "-512") "," BYTES("6", "0",
										"-512") "," BYTES("7", "0",
												  "-512")
			BACK);
	const struct trace_event *event = events.event;

	ck_assert_uint_eq(events.count, 7);
	for (size_t i = 0; i < 4; i++)
		for (size_t j = 0; j < i; j++)
			ck_assert(event[j].ptr + event[j].size <= event[i].ptr);
	ck_assert_uint_eq(event[4].ptr, event[1].ptr);
	ck_assert_uint_eq(event[5].ptr, event[0].ptr);
	for (size_t i = 0; i < 4; i++)
		ck_assert_uint_ne(event[6].ptr, event[i].ptr);
	events_free(&events);
}
END_TEST

START_TEST(recorded_addresses_are_used)
{
	struct events events =
		events_good(FRONT MEMORY("1", "1", "0", "\"Addr\":139637976727552,\"Bytes\":100") "," MEMORY(
			"2", "1", "0",
			"\"Addr\":139637976728064,\"Bytes\":100") "," MEMORY("3", "1", "0",
									     "\"Bytes\":-100,\"Addr\":"
									     "139637976727552,\"Total "
									     "Reserved\":5") BACK);

	ck_assert_uint_eq(events.event[0].ptr, 139637976727552);
	ck_assert_uint_eq(events.event[2].ptr, 139637976727552);
	events_free(&events);
}
END_TEST

/* PyTorch writes one thread after the other. */
START_TEST(events_come_in_the_order_of_their_times)
{
	static const char text[] =
		FRONT
		MEMORY("1", "1", "0", "\"Addr\":4096,\"Bytes\":100") ","
		MEMORY("4.5", "1", "0", "\"Addr\":4096,\"Bytes\":7") ","
		MEMORY("4.25", "1", "0", "\"Addr\":4096,\"Bytes\":-100") ","
		"{\"ph\":\"X\",\"ts\":0},"
		MEMORY("2", "1", "0", "\"Addr\":8192,\"Bytes\":50") ","
		MEMORY("2", "1", "0", "\"Addr\":8192,\"Bytes\":-50")
		BACK;
	struct events events = events_good(text);
	static const struct {
		enum trace_op op;
		uint64_t ptr, size;
	} expected[] = { { TRACE_ALLOC, 4096, 100 },
			 { TRACE_ALLOC, 8192, 50 },
			 { TRACE_FREE, 8192, 50 },
			 { TRACE_FREE, 4096, 100 },
			 { TRACE_ALLOC, 4096, 7 } };

	ck_assert_uint_eq(events.count, 5);
	for (size_t i = 0; i < 5; i++) {
		ck_assert_int_eq(events.event[i].op, expected[i].op);
		ck_assert_uint_eq(events.event[i].ptr, expected[i].ptr);
		ck_assert_uint_eq(events.event[i].size, expected[i].size);
	}
	events_free(&events);
}
END_TEST

START_TEST(blocks_without_addresses_are_paired_in_that_order)
{
	struct events events = events_good(
		FRONT BYTES("3", "0", "-512") "," BYTES("2", "0", "512") "," BYTES("1", "0", "512") BACK);

	ck_assert_uint_eq(events.count, 3);
	ck_assert_int_eq(events.event[2].op, TRACE_FREE);
	ck_assert_uint_eq(events.event[2].ptr, events.event[1].ptr);
	events_free(&events);
}
END_TEST

START_TEST(an_allocation_that_ran_out_of_memory_has_failed)
{
	struct events events = events_good(
		FRONT
		"{\"ph\":\"i\",\"name\":\"[OutOfMemory]\",\"tid\":5,\"ts\":9,\"args\":{\"Device Type\":1,"
		"\"Device Id\":2,\"Bytes\":65536,\"Total Allocated\":1,\"Total Reserved\":2}}," BYTES(
			"1", "2", "512") BACK);

	ck_assert_uint_eq(events.count, 2);
	ck_assert_int_eq(events.event[1].op, TRACE_ALLOC_FAILED);
	ck_assert_int_eq(events.event[1].device, 2);
	ck_assert_uint_eq(events.event[1].size, 65536);
	ck_assert_uint_eq(events.event[1].ptr, 0);
	events_free(&events);
}
END_TEST

START_TEST(addresses_are_printed_signed)
{
	struct events events =
		events_good(FRONT MEMORY("1", "12", "0", "\"Addr\":-71776119061217280,\"Bytes\":100") BACK);

	ck_assert_uint_eq(events.event[0].ptr, 0xff01000000000000);
	events_free(&events);
}
END_TEST

START_TEST(the_array_of_events_may_be_all_there_is)
{
	struct events events = events_good("[{\"ph\":\"M\"}, " BYTES("1", "0", "8") " ]\n");

	ck_assert_uint_eq(events.count, 1);
	events_free(&events);
	events_end("[{\"ph\":\"M\"}, " BYTES("1", "0", "8") " ] 5", TRACE_ERROR, 1,
		   "expected the end of the file");
}
END_TEST

START_TEST(what_is_wrong_is_said_with_its_byte)
{
	events_end(FRONT BYTES("1", "0", "8") "," BYTES("1", "0", "\"8\"") BACK, TRACE_ERROR, 1,
		   "expected \"Bytes\" to be a number of bytes");
	events_end(FRONT BYTES("1", "0", "8.5") BACK, TRACE_ERROR, 0,
		   "byte 37: a [memory] event: expected \"Bytes\"");
	events_end(FRONT BYTES("-1", "0", "8") BACK, TRACE_ERROR, 0,
		   "expected \"ts\" to be a time in microseconds");
	events_end(FRONT BYTES("1", "65536", "8") BACK, TRACE_ERROR, 0, "expected \"Device Id\"");
	events_end(FRONT BYTES("1", "0", "281474976710656") BACK, TRACE_ERROR, 0, "expected \"Bytes\"");
	events_end(FRONT "{\"name\":\"[memory]\",\"args\":7}" BACK, TRACE_ERROR, 0,
		   "expected \"args\" to be an object");
	events_end(FRONT "{\"name\":\"[memory]\",,}" BACK, TRACE_ERROR, 0, "not JSON: ");
	events_end(FRONT BYTES("1", "0", "8") "}", TRACE_ERROR, 1, "expected an event");
	events_end("{\"schemaVersion\" 1}", TRACE_ERROR, 0, "byte 17: expected a colon");
	events_end("{\"traceEvents\": 7}", TRACE_ERROR, 0, "expected the array of events");
	events_end(FRONT BYTES("1", "0", "8") "],", TRACE_TRUNCATED, 1, "the file ends in the middle");
	events_end(FRONT BYTES("1", "0", "8") "]} x", TRACE_ERROR, 1, "expected the end of the file");
}
END_TEST

START_TEST(a_trace_can_be_read_again)
{
	struct events events = events_good(FRONT BYTES("1", "0", "512") "," BYTES("2", "0", "-512") BACK);

	ck_assert_int_eq(trace_rewind(events.reader, &events.error), TRACE_OK);
	events_drain(&events);
	ck_assert_uint_eq(events.count, 4);
	for (size_t i = 0; i < 2; i++)
		ck_assert(events_equal(&events.event[i], &events.event[i + 2]));
	events_free(&events);
}
END_TEST

UNIT_MAIN("trace_kineto", memory_of_devices_is_read,
	  without_addresses_a_free_is_of_the_latest_block_of_its_size_on_its_device,
	  recorded_addresses_are_used, events_come_in_the_order_of_their_times,
	  blocks_without_addresses_are_paired_in_that_order, an_allocation_that_ran_out_of_memory_has_failed,
	  addresses_are_printed_signed, the_array_of_events_may_be_all_there_is,
	  what_is_wrong_is_said_with_its_byte, a_trace_can_be_read_again)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Umpire's replay log: both dialects, reallocations, and what is refused.
 */
#include <string.h>

#include "tests/check_trace_support.h"

#define RESOURCE(ref, name)                                                                           \
	"{\"category\":\"operation\",\"name\":\"make_memory_resource\",\"numeric_args\":{},"          \
	"\"string_args\":{\"allocator_ref\":\"" ref "\"},\"tags\":{\"allocator_name\":\"" name "\"}," \
	"\"timestamp\":1}\n"
#define POOL(ref, name, arguments)                                                                           \
	"{\"category\":\"operation\",\"name\":\"make_allocator\",\"numeric_args\":{\"arg1\":512},"           \
	"\"string_args\":{\"allocator_ref\":\"" ref "\"," arguments "},\"tags\":{\"allocator_name\":\"" name \
	"\"},\"timestamp\":2}\n"
#define ALLOC(ref, pointer, size, time)                                                                     \
	"{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":" size                \
	"},\"string_args\":{\"allocator_ref\":\"" ref "\",\"pointer\":\"" pointer "\"},\"timestamp\":" time \
	"}\n"
#define FREE(ref, pointer)                                                                              \
	"{\"category\":\"operation\",\"name\":\"deallocate\",\"string_args\":{\"allocator_ref\":\"" ref \
	"\",\"pointer\":\"" pointer "\"},\"timestamp\":9}\n"
#define REQUEST(ref, pointer, size)                                                                 \
	"{\"category\":\"operation\",\"name\":\"reallocate\",\"numeric_args\":{\"size\":" size "}," \
	"\"string_args\":{\"allocator_ref\":\"" ref "\",\"current_ptr\":\"" pointer "\"},\"timestamp\":5}\n"
#define RESULT(ref, pointer)                                                       \
	"{\"category\":\"operation\",\"name\":\"reallocate\",\"numeric_args\":{}," \
	"\"string_args\":{\"allocator_ref\":\"" ref "\",\"new_ptr\":\"" pointer "\"},\"timestamp\":6}\n"
#define BEGIN RESOURCE("0x10", "HOST") RESOURCE("0x20", "DEVICE")
#define OLD(event, rest) \
	"{ \"kind\":\"replay\", \"uid\":1, \"timestamp\":7, \"event\": \"" event "\", " rest " }\n"

static void
is_event(const struct events *events, size_t index, enum trace_op op, uint64_t ptr, uint64_t size,
	 int32_t device)
{
	ck_assert_uint_lt(index, events->count);
	ck_assert_int_eq(events->event[index].op, op);
	ck_assert_uint_eq(events->event[index].ptr, ptr);
	ck_assert_uint_eq(events->event[index].size, size);
	ck_assert_int_eq(events->event[index].device, device);
}

START_TEST(resources_are_devices_and_allocators_are_holders)
{
	struct events events =
		events_good(BEGIN POOL("0x30", "pool", "\"type\":\"QuickPool\",\"arg0\":\"DEVICE\"")
				    POOL("0x40", "advice", "\"arg0\":\"pool\",\"arg1\":\"HOST\"")
					    ALLOC("0x40", "0x1000", "64", "3") FREE("0x40", "0x1000"));

	ck_assert_str_eq(trace_format(events.reader), "umpire-replay");
	ck_assert_uint_eq(events.count, 2);
	is_event(&events, 0, TRACE_ALLOC, 0x1000, 64, 1);
	is_event(&events, 1, TRACE_FREE, 0x1000, 64, 1);
	ck_assert_str_eq(events_holder(&events, 0), "advice");
	events_free(&events);
}
END_TEST

START_TEST(integers_are_exact)
{
	struct events events =
		events_good(BEGIN ALLOC("0x10", "0x7fffffffffff", "9007199254740993", "1656100509508239593"));

	ck_assert_uint_eq(events.event[0].size, 9007199254740993);
	ck_assert_uint_eq(events.event[0].time_ns, 1656100509508239593);
	events_free(&events);
}
END_TEST

START_TEST(a_reallocation_that_is_logged_as_its_parts_is_not_counted_again)
{
	struct events events = events_good(
		BEGIN ALLOC("0x10", "0x1000", "64", "3") REQUEST("0x10", "0x1000", "128")
			ALLOC("0x10", "0x2000", "128", "4") FREE("0x10", "0x1000") RESULT("0x10", "0x2000"));

	ck_assert_uint_eq(events.count, 3);
	is_event(&events, 1, TRACE_ALLOC, 0x2000, 128, 0);
	is_event(&events, 2, TRACE_FREE, 0x1000, 64, 0);
	events_free(&events);
}
END_TEST

START_TEST(a_block_that_was_resized_in_place_is_freed_and_allocated)
{
	struct events events = events_good(BEGIN ALLOC("0x20", "0x1000", "64", "3") REQUEST(
		"0x20", "0x1000", "128") RESULT("0x20", "0x1000") FREE("0x20", "0x1000"));

	ck_assert_uint_eq(events.count, 4);
	is_event(&events, 1, TRACE_FREE, 0x1000, 64, 1);
	is_event(&events, 2, TRACE_ALLOC, 0x1000, 128, 1);
	is_event(&events, 3, TRACE_FREE, 0x1000, 128, 1);
	events_free(&events);
}
END_TEST

START_TEST(blocks_of_no_bytes_share_an_address_with_others)
{
	struct events events = events_good(BEGIN ALLOC("0x10", "0x1000", "0", "3") ALLOC(
		"0x10", "0x1000", "8", "4") FREE("0x10", "0x1000") FREE("0x10", "0x1000"));

	ck_assert_uint_eq(events.count, 4);
	is_event(&events, 0, TRACE_ALLOC, 0x1000, 0, 0);
	is_event(&events, 2, TRACE_FREE, 0x1000, 8, 0);
	is_event(&events, 3, TRACE_FREE, 0, 0, 0);
	events_free(&events);
}
END_TEST

START_TEST(the_old_dialect_means_the_same)
{
	struct events events = events_good(
		"# a comment\n" OLD("version", "\"payload\": { \"major\":0 }") OLD(
			"makeMemoryResource", "\"payload\": { \"name\": \"HOST\" }, \"result\": \"0x10\"")
			OLD("makeMemoryResource", "\"payload\": { \"name\": \"UM\" }, \"result\": \"0x20\"")
				OLD("makeAllocator",
				    "\"payload\": { \"allocator_name\":\"pool\", \"args\": "
				    "[ 1, \"UM\" ] }") OLD("makeAllocator",
							   "\"payload\": { \"allocator_name\":\"pool\", "
							   "\"args\": [ 1, \"UM\" ] }, "
							   "\"result\": { \"allocator_ref\":\"0x30\" }")
					OLD("allocate", "\"payload\": { \"allocator_ref\": \"0x30\", "
							"\"size\": 134 }")
						OLD("allocate", "\"payload\": { \"allocator_ref\": \"0x30\", "
								"\"size\": 134 }, "
								"\"result\": { \"memory_ptr\": \"0x1000\" }")
							OLD("reallocate",
							    "\"payload\": { \"ptr\": \"0x1000\", "
							    "\"size\": 200 }")
								OLD("reallocate",
								    "\"payload\": { \"ptr\": \"0x1000\", "
								    "\"size\": 200 "
								    "}, "
								    "\"result\": { \"memory_ptr\": "
								    "\"0x3000\" }")
									OLD("deallocate",
									    "\"payload\": { "
									    "\"allocator_ref\": \"0x30\", "
									    "\"memory_ptr\": \"0x3000\" }"));

	ck_assert_uint_eq(events.count, 4);
	is_event(&events, 0, TRACE_ALLOC, 0x1000, 134, 1);
	is_event(&events, 1, TRACE_FREE, 0x1000, 134, 1);
	is_event(&events, 2, TRACE_ALLOC, 0x3000, 200, 1);
	is_event(&events, 3, TRACE_FREE, 0x3000, 200, 1);
	ck_assert_str_eq(events_holder(&events, 2), "pool");
	ck_assert_uint_eq(events.event[0].time_ns, 7);
	events_free(&events);
}
END_TEST

#define CALL(name, numbers, texts, time)                                                           \
	"{\"category\":\"operation\",\"name\":\"" name "\",\"numeric_args\":{" numbers             \
	"},\"string_args\":{\"allocator_ref\":\"0x20\"," texts "},\"tags\":{\"replay\":\"true\"}," \
	"\"timestamp\":" time "}\n"

START_TEST(named_allocations_are_allocations)
{
	struct events events = events_good(BEGIN CALL("named_allocate", "\"size\":256",
						      "\"pointer\":\"0x2000\",\"allocation_name\":\"halo\"",
						      "3") FREE("0x20", "0x2000"));

	ck_assert_uint_eq(events.count, 2);
	is_event(&events, 0, TRACE_ALLOC, 0x2000, 256, 1);
	is_event(&events, 1, TRACE_FREE, 0x2000, 256, 1);
	ck_assert_str_eq(events_holder(&events, 0), "DEVICE");
	events_free(&events);
}
END_TEST

START_TEST(a_resource_that_orders_a_call_is_a_stream)
{
	static const char text[] =
		BEGIN
		CALL("allocate_resource", "\"size\":512", "\"pointer\":\"0x3000\",\"resource\":\"first\"", "3")
		CALL("allocate_resource", "\"size\":8", "\"pointer\":\"0x4000\",\"resource\":\"second\"", "4")
		CALL("deallocate_resource", "", "\"pointer\":\"0x3000\", \"resource\":\"second\"", "5")
		FREE("0x20", "0x4000")
		ALLOC("0x20", "0x3000", "1", "9");
	struct events events = events_good(text);

	ck_assert_uint_eq(events.count, 5);
	is_event(&events, 0, TRACE_ALLOC, 0x3000, 512, 1);
	is_event(&events, 2, TRACE_FREE, 0x3000, 512, 1);
	is_event(&events, 3, TRACE_FREE, 0x4000, 8, 1);
	ck_assert_uint_eq(events.event[0].stream, 1);
	ck_assert_uint_eq(events.event[1].stream, 2);
	ck_assert_uint_eq(events.event[2].stream, 2);
	ck_assert_uint_eq(events.event[3].stream, 2);
	ck_assert_uint_eq(events.event[4].stream, 0);
	events_free(&events);
}
END_TEST

START_TEST(a_null_pointer_may_be_printed_as_the_c_library_does)
{
	struct events events = events_good(BEGIN FREE("0x10", "(nil)") REQUEST("0x10", "(nil)", "8")
						   RESULT("0x10", "0x1000") FREE("0x10", "0"));

	ck_assert_uint_eq(events.count, 3);
	is_event(&events, 0, TRACE_FREE, 0, 0, 0);
	is_event(&events, 1, TRACE_ALLOC, 0x1000, 8, 0);
	is_event(&events, 2, TRACE_FREE, 0, 0, 0);
	events_free(&events);
}
END_TEST

START_TEST(the_first_logs_call_a_reallocation_by_an_allocator_by_a_name_of_its_own)
{
	static const char text[] =
		OLD("makeMemoryResource", "\"payload\": { \"name\": \"HOST\" }, \"result\": \"0x10\"")
		OLD("reallocate_ex", "\"payload\": { \"ptr\": \"0\", \"size\": 64, \"allocator_ref\": \"0x10\" } ")
		OLD("allocate", "\"payload\": { \"allocator_ref\": \"0x10\", \"size\": 64 }, "
				"\"result\": { \"memory_ptr\": \"0x1000\" }")
		OLD("reallocate_ex", "\"payload\": { \"ptr\": \"0\", \"size\": 64, \"allocator_ref\": \"0x10\" } , "
				     "\"result\": { \"memory_ptr\": \"0x1000\" } ")
		OLD("reallocate_ex", "\"payload\": { \"ptr\": \"0x1000\", \"size\": 128, "
				     "\"allocator_ref\": \"0x10\" } ")
		OLD("reallocate_ex", "\"payload\": { \"ptr\": \"0x1000\", \"size\": 128, "
				     "\"allocator_ref\": \"0x10\" } , "
				     "\"result\": { \"memory_ptr\": \"0x2000\" } ");
	struct events events = events_good(text);

	ck_assert_uint_eq(events.count, 3);
	is_event(&events, 0, TRACE_ALLOC, 0x1000, 64, 0);
	is_event(&events, 1, TRACE_FREE, 0x1000, 64, 0);
	is_event(&events, 2, TRACE_ALLOC, 0x2000, 128, 0);
	events_free(&events);
}
END_TEST

START_TEST(an_allocation_that_failed_is_none)
{
	struct events events =
		events_good(BEGIN "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":"
				  "{\"size\":1},\"string_args\":{\"allocator_ref\":\"0x10\"}}\n");

	ck_assert_uint_eq(events.count, 0);
	events_free(&events);
}
END_TEST

START_TEST(what_is_wrong_is_said_with_its_line)
{
	events_end(BEGIN "nonsense\n", TRACE_ERROR, 0, ":3: expected a JSON object: column ");
	events_end(BEGIN "[1]\n", TRACE_ERROR, 0, ":3: expected a JSON object");
	events_end(BEGIN ALLOC("0x10", "0x1000", "64", "-3"), TRACE_ERROR, 0, ":3: expected \"timestamp\"");
	events_end(BEGIN ALLOC("0x10", "0x1000", "-64", "3"), TRACE_ERROR, 0,
		   ":3: expected \"size\" of \"allocate\" to be a number");
	events_end(BEGIN ALLOC("0x10", "0x1000", "99999999999999999999", "3"), TRACE_ERROR, 0, ":3: ");
	events_end(BEGIN "{\"category\":\"operation\",\"name\":\"deallocate\"}\n", TRACE_ERROR, 0,
		   ":3: expected \"pointer\" of \"deallocate\" to be a number, it is missing");
	events_end(BEGIN ALLOC("0x10", "0x1000", "64", "3") "{\"category\":\"oper", TRACE_TRUNCATED, 1,
		   ":4: the file ends in the middle of a line");
}
END_TEST

START_TEST(a_log_can_be_read_again)
{
	struct events events = events_good(BEGIN ALLOC("0x20", "0x1000", "64", "3")
						   REQUEST("0x20", "0x1000", "128") RESULT("0x20", "0x2000"));

	ck_assert_uint_eq(events.count, 3);
	ck_assert_int_eq(trace_rewind(events.reader, &events.error), TRACE_OK);
	events_drain(&events);
	ck_assert_uint_eq(events.count, 6);
	for (size_t i = 0; i < 3; i++)
		ck_assert(events_equal(&events.event[i], &events.event[i + 3]));
	events_free(&events);
}
END_TEST

UNIT_MAIN("trace_umpire", resources_are_devices_and_allocators_are_holders, integers_are_exact,
	  a_reallocation_that_is_logged_as_its_parts_is_not_counted_again,
	  a_block_that_was_resized_in_place_is_freed_and_allocated,
	  blocks_of_no_bytes_share_an_address_with_others, the_old_dialect_means_the_same,
	  named_allocations_are_allocations, a_resource_that_orders_a_call_is_a_stream,
	  a_null_pointer_may_be_printed_as_the_c_library_does,
	  the_first_logs_call_a_reallocation_by_an_allocator_by_a_name_of_its_own,
	  an_allocation_that_failed_is_none, what_is_wrong_is_said_with_its_line, a_log_can_be_read_again)

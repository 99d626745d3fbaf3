/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Umpire's replay log: both dialects, reallocations, and what is refused.
 */
#include <inttypes.h>

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

#define CALL(name, numbers, texts, time)                                                           \
	"{\"category\":\"operation\",\"name\":\"" name "\",\"numeric_args\":{" numbers             \
	"},\"string_args\":{\"allocator_ref\":\"0x20\"," texts "},\"tags\":{\"replay\":\"true\"}," \
	"\"timestamp\":" time "}\n"
#define OLD_HOST OLD("makeMemoryResource", "\"payload\": { \"name\": \"HOST\" }, \"result\": \"0x10\"")
#define OLD_UM OLD("makeMemoryResource", "\"payload\": { \"name\": \"UM\" }, \"result\": \"0x20\"")
#define OLD_POOL "\"payload\": { \"allocator_name\":\"pool\", \"args\": [ 1, \"UM\" ] }"
#define OLD_ALLOC "\"payload\": { \"allocator_ref\": \"0x30\", \"size\": 134 }"
#define OLD_MOVE "\"payload\": { \"ptr\": \"0x1000\", \"size\": 200 }"
#define OLD_FIRST "\"payload\": { \"ptr\": \"0\", \"size\": 64, \"allocator_ref\": \"0x10\" } "
#define OLD_AGAIN "\"payload\": { \"ptr\": \"0x1000\", \"size\": 128, \"allocator_ref\": \"0x10\" } "

/* ---- what a log means ------------------------------------------------------------------ */

static const struct {
	const char *says, *log;
	size_t count;
	struct {
		enum trace_op op;
		uint64_t ptr, size;
		int32_t device;
		uint64_t stream;
	} events[5];
	const char *holder; /* of the first event, or NULL */
} logs[] = {
	{ "resources are devices and allocators are holders",
	  BEGIN POOL("0x30", "pool", "\"type\":\"QuickPool\",\"arg0\":\"DEVICE\"")
		  POOL("0x40", "advice", "\"arg0\":\"pool\",\"arg1\":\"HOST\"")
			  ALLOC("0x40", "0x1000", "64", "3") FREE("0x40", "0x1000"),
	  2,
	  { { TRACE_ALLOC, 0x1000, 64, 1, 0 }, { TRACE_FREE, 0x1000, 64, 1, 0 } },
	  "advice" },
	{ "a reallocation that is logged as its parts is not counted again",
	  BEGIN ALLOC("0x10", "0x1000", "64", "3") REQUEST("0x10", "0x1000", "128")
		  ALLOC("0x10", "0x2000", "128", "4") FREE("0x10", "0x1000") RESULT("0x10", "0x2000"),
	  3,
	  { { TRACE_ALLOC, 0x1000, 64, 0, 0 }, { TRACE_ALLOC, 0x2000, 128, 0, 0 }, { TRACE_FREE, 0x1000, 64, 0, 0 } },
	  NULL },
	{ "a block that was resized in place is freed and allocated",
	  BEGIN ALLOC("0x20", "0x1000", "64", "3") REQUEST("0x20", "0x1000", "128") RESULT("0x20", "0x1000")
		  FREE("0x20", "0x1000"),
	  4,
	  { { TRACE_ALLOC, 0x1000, 64, 1, 0 },
	    { TRACE_FREE, 0x1000, 64, 1, 0 },
	    { TRACE_ALLOC, 0x1000, 128, 1, 0 },
	    { TRACE_FREE, 0x1000, 128, 1, 0 } },
	  NULL },
	{ "blocks of no bytes share an address with others",
	  BEGIN ALLOC("0x10", "0x1000", "0", "3") ALLOC("0x10", "0x1000", "8", "4") FREE("0x10", "0x1000")
		  FREE("0x10", "0x1000"),
	  4,
	  { { TRACE_ALLOC, 0x1000, 0, 0, 0 },
	    { TRACE_ALLOC, 0x1000, 8, 0, 0 },
	    { TRACE_FREE, 0x1000, 8, 0, 0 },
	    { TRACE_FREE, 0, 0, 0, 0 } },
	  NULL },
	{ "the old dialect means the same",
	  "# a comment\n" OLD("version", "\"payload\": { \"major\":0 }") OLD_HOST OLD_UM
		  OLD("makeAllocator", OLD_POOL)
		  OLD("makeAllocator", OLD_POOL ", \"result\": { \"allocator_ref\":\"0x30\" }")
		  OLD("allocate", OLD_ALLOC) OLD("allocate", OLD_ALLOC ", \"result\": { \"memory_ptr\": \"0x1000\" }")
		  OLD("reallocate", OLD_MOVE)
		  OLD("reallocate", OLD_MOVE ", \"result\": { \"memory_ptr\": \"0x3000\" }")
		  OLD("deallocate", "\"payload\": { \"allocator_ref\": \"0x30\", \"memory_ptr\": \"0x3000\" }"),
	  4,
	  { { TRACE_ALLOC, 0x1000, 134, 1, 0 },
	    { TRACE_FREE, 0x1000, 134, 1, 0 },
	    { TRACE_ALLOC, 0x3000, 200, 1, 0 },
	    { TRACE_FREE, 0x3000, 200, 1, 0 } },
	  "pool" },
	{ "the first logs call a reallocation by an allocator by a name of its own",
	  OLD_HOST OLD("reallocate_ex", OLD_FIRST)
		  OLD("allocate", "\"payload\": { \"allocator_ref\": \"0x10\", \"size\": 64 }, "
				  "\"result\": { \"memory_ptr\": \"0x1000\" }")
		  OLD("reallocate_ex", OLD_FIRST ", \"result\": { \"memory_ptr\": \"0x1000\" } ")
		  OLD("reallocate_ex", OLD_AGAIN)
		  OLD("reallocate_ex", OLD_AGAIN ", \"result\": { \"memory_ptr\": \"0x2000\" } "),
	  3,
	  { { TRACE_ALLOC, 0x1000, 64, 0, 0 }, { TRACE_FREE, 0x1000, 64, 0, 0 }, { TRACE_ALLOC, 0x2000, 128, 0, 0 } },
	  NULL },
	{ "named allocations are allocations",
	  BEGIN CALL("named_allocate", "\"size\":256", "\"pointer\":\"0x2000\",\"allocation_name\":\"halo\"", "3")
		  FREE("0x20", "0x2000"),
	  2,
	  { { TRACE_ALLOC, 0x2000, 256, 1, 0 }, { TRACE_FREE, 0x2000, 256, 1, 0 } },
	  "DEVICE" },
	{ "a resource that orders a call is a stream",
	  BEGIN CALL("allocate_resource", "\"size\":512", "\"pointer\":\"0x3000\",\"resource\":\"first\"", "3")
		  CALL("allocate_resource", "\"size\":8", "\"pointer\":\"0x4000\",\"resource\":\"second\"", "4")
		  CALL("deallocate_resource", "", "\"pointer\":\"0x3000\", \"resource\":\"second\"", "5")
		  FREE("0x20", "0x4000") ALLOC("0x20", "0x3000", "1", "9"),
	  5,
	  { { TRACE_ALLOC, 0x3000, 512, 1, 1 },
	    { TRACE_ALLOC, 0x4000, 8, 1, 2 },
	    { TRACE_FREE, 0x3000, 512, 1, 2 },
	    { TRACE_FREE, 0x4000, 8, 1, 2 },
	    { TRACE_ALLOC, 0x3000, 1, 1, 0 } },
	  NULL },
	{ "a null pointer may be printed as the C library does",
	  BEGIN FREE("0x10", "(nil)") REQUEST("0x10", "(nil)", "8") RESULT("0x10", "0x1000") FREE("0x10", "0"),
	  3,
	  { { TRACE_FREE, 0, 0, 0, 0 }, { TRACE_ALLOC, 0x1000, 8, 0, 0 }, { TRACE_FREE, 0, 0, 0, 0 } },
	  NULL },
	{ "an allocation that failed is none",
	  BEGIN "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":"
		"{\"size\":1},\"string_args\":{\"allocator_ref\":\"0x10\"}}\n",
	  0,
	  { { 0 } },
	  NULL },
};

START_TEST(a_log_means_these_events)
{
	for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
		struct events events = events_good(logs[i].log);

		ck_assert_str_eq(trace_format(events.reader), "umpire-replay");
		ck_assert_msg(events.count == logs[i].count, "%s: %zu events", logs[i].says, events.count);
		for (size_t n = 0; n < events.count; n++) {
			const struct trace_event *event = &events.event[n];

			ck_assert_msg(event->op == logs[i].events[n].op && event->ptr == logs[i].events[n].ptr &&
					      event->size == logs[i].events[n].size &&
					      event->device == logs[i].events[n].device &&
					      event->stream == logs[i].events[n].stream,
				      "%s: event %zu is %s of 0x%" PRIx64 ", %" PRIu64 " bytes", logs[i].says, n,
				      trace_op_text(event->op), event->ptr, event->size);
		}
		if (logs[i].holder != NULL)
			ck_assert_str_eq(events_holder(&events, 0), logs[i].holder);
		events_free(&events);
	}
}
END_TEST

START_TEST(integers_are_exact)
{
	struct events events =
		events_good(BEGIN ALLOC("0x10", "0x7fffffffffff", "9007199254740993", "1656100509508239593"));

	ck_assert_uint_eq(events.event[0].size, 9007199254740993);
	ck_assert_uint_eq(events.event[0].time_ns, 1656100509508239593);
	events_free(&events);
	events = events_good(OLD_HOST OLD("allocate", "\"payload\": { \"allocator_ref\": \"0x10\", \"size\": 1 }, "
						      "\"result\": { \"memory_ptr\": \"0x1000\" }"));
	ck_assert_uint_eq(events.event[0].time_ns, 7);
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

UNIT_MAIN("trace_umpire", a_log_means_these_events, integers_are_exact, what_is_wrong_is_said_with_its_line,
	  a_log_can_be_read_again)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the other formats: endings and names, and what goes wrong on the way.  What is
 * written, tests/check_convert looks at.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check_trace_support.h"
#include "tools/trace/output.h"

static const char *const names[] = { "soma", "rmm", "placement", "chrome", "json" };

#define NAMES (sizeof names / sizeof names[0])

static enum trace_result
write_all(const struct events *events, const char *name, const char *path, struct trace_error *error)
{
	struct trace_output output = { .reader = events->reader, .pools = true, .has_times = true };
	enum trace_result result = trace_output_open(&output, trace_output_named(name), path, error);

	if (result != TRACE_OK)
		return result;
	for (size_t i = 0; i < events->count; i++)
		trace_output_put(&output, &events->event[i]);
	return trace_output_close(&output, error);
}

START_TEST(a_format_is_known_by_its_name_and_its_ending)
{
	ck_assert_ptr_eq(trace_output_of_path("a.csv"), trace_output_named("soma"));
	ck_assert_ptr_eq(trace_output_of_path("a.rmm.csv.gz"), trace_output_named("rmm"));
	ck_assert_ptr_eq(trace_output_of_path("a.placement.csv"), trace_output_named("placement"));
	ck_assert_ptr_eq(trace_output_of_path("b/a.trace.json"), trace_output_named("chrome"));
	ck_assert_ptr_eq(trace_output_of_path("a.json.gz"), trace_output_named("json"));
	ck_assert_ptr_null(trace_output_of_path(".csv"));
	ck_assert_ptr_null(trace_output_of_path("csv.gz"));
	ck_assert_ptr_null(trace_output_of_path(""));
	ck_assert_ptr_null(trace_output_named("pickle"));
	for (size_t i = 0; i < NAMES; i++)
		ck_assert_str_eq(trace_output_named(names[i])->name, names[i]);
	for (int i = 0; i < TRACE_LOSS_COUNT; i++)
		ck_assert_uint_gt(strlen(trace_loss_text((enum trace_loss)i)), 0);
}
END_TEST

/* More blocks than the first table of a format has room for. */
static struct events
many_blocks(void)
{
	struct bytes text = { 0 };
	struct events events;
	char line[128];

	bytes_text(&text, "time,thread,op,device,stream,ptr,size,tag,generation,detail\n");
	for (int i = 1; i <= 300; i++) {
		snprintf(line, sizeof line, "%d,1,%s,0,%d,0x%x000,%d,tag%d,,\n", i,
			 i % 7 == 0   ? "segment_alloc"
			 : i % 5 == 0 ? "free"
				      : "alloc",
			 i % 90, i % 5 == 0 ? i - 1 : i, i, i % 3);
		bytes_text(&text, line);
	}
	events = events_of(&text);
	bytes_free(&text);
	ck_assert_int_eq(events.result, TRACE_END);
	return events;
}

START_TEST(every_allocation_may_fail)
{
	struct events events = many_blocks();

	for (size_t i = 0; i < NAMES; i++) {
		enum trace_result result = TRACE_ERROR;
		size_t n = 0;

		while (result != TRACE_OK) {
			struct counting counting = { .fail_at = ++n };
			struct trace_error error;

			counting_start(&counting);
			result = write_all(&events, names[i], "/dev/null", &error);
			counting_stop();
			MUST(counting.live == 0);
			ck_assert(result == TRACE_OK || strstr(error.text, ": out of memory") != NULL);
		}
		ck_assert_uint_gt(n, 2);
	}
	events_free(&events);
}
END_TEST

START_TEST(a_full_device_is_noticed)
{
	struct events events = many_blocks();
	struct trace_error error;

	for (size_t i = 0; i < NAMES && access("/dev/full", W_OK) == 0; i++) {
		ck_assert_int_eq(write_all(&events, names[i], "/dev/full", &error), TRACE_ERROR);
		ck_assert_str_eq(error.text, "/dev/full: cannot write: No space left on device");
	}
	for (size_t i = 0; i < NAMES; i++)
		ck_assert_int_eq(write_all(&events, names[i], "/nowhere/at/all", &error), TRACE_ERROR);
	events_free(&events);
}
END_TEST

/* Texts of a trace are any bytes. */
START_TEST(json_texts_are_valid_whatever_they_hold)
{
	static const char wanted[] = "\"a\\\"b\\\\c?? \303\251 ?x\"";
	struct trace_sink *sink;
	struct trace_error error;
	char path[] = "check-trace-output-XXXXXX", got[256] = "";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(trace_sink_open(path, &sink, &error), TRACE_OK);
	trace_sink_json(sink, "a\"b\\c\n\x1f \303\251 \377x");
	ck_assert_int_eq(trace_sink_close(sink, &error), TRACE_OK);
	ck_assert_int_eq(read(fd, got, sizeof got - 1), (ssize_t)strlen(wanted));
	ck_assert_str_eq(got, wanted);
	close(fd);
	unlink(path);
}
END_TEST

/* A long text is cleaned in parts: no character is torn. */
START_TEST(a_long_json_text_keeps_its_characters)
{
	struct trace_sink *sink;
	struct trace_error error;
	char path[] = "check-trace-output-XXXXXX", text[1202], got[1300];
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	for (size_t i = 0; i < 600; i++)
		memcpy(text + 2 * i, "\303\251", 2);
	text[1200] = '\0';
	for (size_t skip = 0; skip < 2; skip++) {
		ck_assert_int_eq(trace_sink_open(path, &sink, &error), TRACE_OK);
		trace_sink_bytes(sink, "x", skip);
		trace_sink_json(sink, text);
		ck_assert_int_eq(trace_sink_close(sink, &error), TRACE_OK);
		ck_assert_int_eq(pread(fd, got, sizeof got, (off_t)skip), 1202);
		ck_assert_mem_eq(got + 1, text, 1200);
	}
	close(fd);
	unlink(path);
}
END_TEST

UNIT_MAIN("trace_output", a_format_is_known_by_its_name_and_its_ending, every_allocation_may_fail,
	  a_full_device_is_noticed, json_texts_are_valid_whatever_they_hold,
	  a_long_json_text_keeps_its_characters)

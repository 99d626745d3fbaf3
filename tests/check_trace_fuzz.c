/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are cut, changed at random, or read with little memory: each is read or
 * refused with a place, nothing crashes (the suite also runs under sanitizers), and
 * every allocation is given back.
 *
 * The random changes are the same in every run.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check_trace_support.h"

#define MUTATIONS 100000

START_TEST(every_truncation_is_read_or_refused)
{
	struct sample *samples;
	size_t count = samples_make(&samples);

	for (size_t i = 0; i < count; i++)
		check_cut_everywhere(&samples[i].bytes, 1);
	samples_free(samples, count);
}
END_TEST

/* A pickle has one end, and every byte before it is needed. */
START_TEST(a_cut_pickle_is_never_taken_for_a_whole_one)
{
	struct bytes bytes = make_snapshot(4, SHAPE_PLAIN);

	for (size_t size = 2; size < bytes.size; size++) {
		struct bytes part = { .data = bytes.data, .size = size };
		struct events events = events_of(&part);
		ck_assert_int_eq(events.result, TRACE_TRUNCATED);
		events_free(&events);
	}
	bytes_free(&bytes);
}
END_TEST

/* ---- random changes -------------------------------------------------------------- */

START_TEST(random_changes_are_read_or_refused)
{
	struct sample *samples;
	size_t count = samples_make(&samples);
	uint64_t random = 20240229;

	for (size_t i = 0; i < MUTATIONS; i++)
		check_changed(&samples[i % count].bytes, &random);
	samples_free(samples, count);
}
END_TEST

/* ---- no memory -------------------------------------------------------------------- */

START_TEST(every_allocation_may_fail)
{
	struct sample *samples;
	size_t count = samples_make(&samples);

	for (size_t i = 0; i < count; i++)
		check_every_allocation(&samples[i].bytes);
	samples_free(samples, count);
}
END_TEST

START_TEST(every_allocation_of_a_rewind_may_fail)
{
	struct bytes bytes = make_snapshot(4, SHAPE_PLAIN);
	size_t n = 0;
	bool whole = false;

	while (!whole) {
		struct counting counting = { 0 };
		struct events events;
		counting_start(&counting);
		events = events_of(&bytes);
		ck_assert_int_eq(trace_rewind(events.reader, &events.error), TRACE_OK);
		counting.fail_at = counting.calls + ++n;
		events_drain(&events);
		whole = events.result == TRACE_END;
		if (!whole)
			ck_assert_ptr_nonnull(strstr(events.error.text, "out of memory"));
		events_free(&events);
		counting_stop();
		MUST(counting.live == 0);
	}
	ck_assert_uint_gt(n, 3);
	bytes_free(&bytes);
}
END_TEST

START_TEST(every_allocation_of_a_writer_may_fail)
{
	for (size_t n = 1;; n++) {
		struct counting counting = { .fail_at = n };
		struct trace_writer *writer;
		struct trace_error error;
		enum trace_result result;
		counting_start(&counting);
		result = trace_writer_open("/dev/null", &writer, &error);
		if (result == TRACE_OK)
			result = trace_writer_close(writer, &error);
		counting_stop();
		MUST(counting.live == 0);
		if (result == TRACE_OK) {
			ck_assert_uint_gt(n, 1);
			break;
		}
		ck_assert_str_eq(error.text, "/dev/null: out of memory");
	}
}
END_TEST

UNIT_MAIN("trace_fuzz", every_truncation_is_read_or_refused, a_cut_pickle_is_never_taken_for_a_whole_one,
	  random_changes_are_read_or_refused, every_allocation_may_fail,
	  every_allocation_of_a_rewind_may_fail, every_allocation_of_a_writer_may_fail)

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

static uint64_t
next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Parse errors say where; the others are about the whole file. */
static bool
names_a_place(const char *text)
{
	const char *colon;

	if (strstr(text, ": byte ") != NULL || strstr(text, "of the gzip file") != NULL ||
	    strstr(text, "not a trace in a known format") != NULL || strstr(text, "is empty") != NULL ||
	    strstr(text, "the gzip file ends in the middle, after ") != NULL ||
	    strstr(text, "holds nothing when unpacked") != NULL)
		return true;
	for (colon = text; (colon = strchr(colon, ':')) != NULL; colon++)
		if (colon[1] >= '0' && colon[1] <= '9')
			return true;
	return false;
}

static void
read_or_refused(const struct events *events)
{
	MUST(events->result == TRACE_END || events->result == TRACE_TRUNCATED ||
	     events->result == TRACE_ERROR);
	if (events->result != TRACE_END && !names_a_place(events->error.text))
		ck_abort_msg("\"%s\" names no place", events->error.text);
}

/* What a cut file gives is the beginning of what the whole file gives. */
static void
is_beginning(const struct events *part, const struct events *whole)
{
	size_t sure = part->result == TRACE_END || part->count == 0 ? part->count : part->count - 1;

	MUST(part->count <= whole->count);
	for (size_t i = 0; i < sure; i++) {
		MUST(part->event[i].op == whole->event[i].op);
		MUST(part->event[i].ptr == whole->event[i].ptr);
		MUST(part->event[i].size == whole->event[i].size);
	}
}

static void
cut_everywhere(const struct bytes *bytes, size_t step)
{
	struct events whole = events_of(bytes);
	struct counting counting = { 0 };

	ck_assert_msg(whole.result == TRACE_END, "%s", whole.error.text);
	for (size_t size = 0; size < bytes->size; size += step) {
		struct bytes part = { .data = bytes->data, .size = size };
		struct events events;
		counting_start(&counting);
		events = events_of(&part);
		read_or_refused(&events);
		is_beginning(&events, &whole);
		events_free(&events);
		counting_stop();
		MUST(counting.live == 0);
	}
	events_free(&whole);
}

START_TEST(every_truncation_is_read_or_refused)
{
	struct sample *samples;
	size_t count = samples_make(&samples);

	for (size_t i = 0; i < count; i++)
		cut_everywhere(&samples[i].bytes, 1);
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

START_TEST(every_truncation_of_a_real_snapshot_is_read_or_refused)
{
	struct bytes bytes;

	if (traces_folder() == NULL)
		return;
	bytes = bytes_load(traces_file("tiny-full.pickle"));
	cut_everywhere(&bytes, 1);
	bytes_free(&bytes);
}
END_TEST

/* ---- random changes -------------------------------------------------------------- */

/* One to four changes: a bit, a byte, an interesting byte, a piece copied elsewhere. */
static void
change(struct bytes *bytes, uint64_t *random)
{
	static const uint8_t interesting[] =
		"\x80.(}]eausthqjrX\x8c\x8aKMJG\x94\x95\x85\x86\x87\xff\x00\x7f,\"\n\r0x9";
	size_t changes = 1 + next_random(random) % 4;

	while (changes-- > 0) {
		size_t at = next_random(random) % bytes->size, from, length;
		switch (next_random(random) % 5) {
		case 0:
			bytes->data[at] ^= (uint8_t)(1u << next_random(random) % 8);
			break;
		case 1:
			bytes->data[at] = (uint8_t)next_random(random);
			break;
		case 2:
			bytes->data[at] = interesting[next_random(random) % (sizeof interesting - 1)];
			break;
		default:
			from = next_random(random) % bytes->size;
			length = next_random(random) % 64;
			if (length > bytes->size - from)
				length = bytes->size - from;
			if (length > bytes->size - at)
				length = bytes->size - at;
			memmove(bytes->data + at, bytes->data + from, length);
			break;
		}
	}
}

static void
read_changed(const struct bytes *source, uint64_t *random)
{
	struct bytes changed = { 0 };
	struct counting counting = { 0 };
	struct events events;

	bytes_put(&changed, source->data, source->size);
	change(&changed, random);
	counting_start(&counting);
	events = events_of(&changed);
	read_or_refused(&events);
	events_free(&events);
	counting_stop();
	MUST(counting.live == 0);
	bytes_free(&changed);
}

START_TEST(random_changes_are_read_or_refused)
{
	struct sample *samples;
	size_t count = samples_make(&samples);
	uint64_t random = 20240229;

	for (size_t i = 0; i < MUTATIONS; i++)
		read_changed(&samples[i % count].bytes, &random);
	samples_free(samples, count);
}
END_TEST

START_TEST(random_changes_of_a_real_snapshot_are_read_or_refused)
{
	struct bytes bytes;
	uint64_t random = 42;

	if (traces_folder() == NULL)
		return;
	bytes = bytes_load(traces_file("tiny-full.pickle"));
	for (size_t i = 0; i < 2000; i++)
		read_changed(&bytes, &random);
	bytes_free(&bytes);
}
END_TEST

/* ---- no memory -------------------------------------------------------------------- */

/* How many allocations it takes, or 0 when it needed more than it got. */
static size_t
read_within(const struct bytes *bytes, size_t fail_at)
{
	struct counting counting = { .fail_at = fail_at };
	struct events events;
	bool whole;

	counting_start(&counting);
	events = events_of(bytes);
	whole = events.result == TRACE_END;
	if (!whole)
		ck_assert_msg(strstr(events.error.text, "out of memory") != NULL, "allocation %zu: \"%s\"",
			      fail_at, events.error.text);
	events_free(&events);
	counting_stop();
	MUST(counting.live == 0);
	return whole ? counting.calls : 0;
}

START_TEST(every_allocation_may_fail)
{
	struct sample *samples;
	size_t count = samples_make(&samples);

	for (size_t i = 0; i < count; i++) {
		size_t needed = read_within(&samples[i].bytes, 0);
		ck_assert_uint_gt(needed, 3);
		for (size_t n = 1; n <= needed; n++)
			ck_assert_uint_eq(read_within(&samples[i].bytes, n), 0);
	}
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

int
main(void)
{
	Suite *suite = trace_suite("trace_fuzz");

	trace_test(suite, "cut", every_truncation_is_read_or_refused);
	trace_test(suite, "cut", a_cut_pickle_is_never_taken_for_a_whole_one);
	trace_test(suite, "cut", every_truncation_of_a_real_snapshot_is_read_or_refused);
	trace_test(suite, "changed", random_changes_are_read_or_refused);
	trace_test(suite, "changed", random_changes_of_a_real_snapshot_are_read_or_refused);
	trace_test(suite, "memory", every_allocation_may_fail);
	trace_test(suite, "memory", every_allocation_of_a_rewind_may_fail);
	trace_test(suite, "memory", every_allocation_of_a_writer_may_fail);
	return trace_run(suite);
}

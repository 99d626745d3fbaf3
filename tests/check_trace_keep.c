/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that a reader keeps are those that it read.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check_trace_support.h"

#define ALL ((size_t)1 << 30)

/* What `reader` still has is what is in `events`, and ends the same way. */
static void
expect_same(struct trace_reader *reader, const struct events *events)
{
	struct trace_event event;
	struct trace_error error;
	enum trace_result result;
	size_t i = 0;

	for (; (result = trace_next(reader, &event, &error)) == TRACE_OK; i++) {
		MUST(i < events->count);
		MUST(events_equal(&event, &events->event[i]));
		MUST(event.index == i);
	}
	ck_assert_uint_eq(i, events->count);
	ck_assert_int_eq(result, events->result);
	if (result != TRACE_END)
		ck_assert_str_eq(error.text, events->error.text);
}

/* Reading once more from where the events are kept, and by two others at the same time. */
static void
expect_kept(const char *path, const struct events *events)
{
	struct trace_reader *reader, *first, *second;
	struct trace_error error;

	ck_assert_int_eq(trace_open(path, NULL, &reader, &error), TRACE_OK);
	ck_assert(trace_share(reader) == NULL);
	trace_keep(reader, ALL);
	expect_same(reader, events);
	first = trace_share(reader);
	second = trace_share(reader);
	ck_assert(first != NULL && second != NULL);
	ck_assert_int_eq(trace_rewind(reader, &error), TRACE_OK);
	expect_same(first, events);
	expect_same(reader, events);
	expect_same(second, events);
	ck_assert_int_eq(trace_rewind(first, &error), TRACE_OK);
	expect_same(first, events);
	ck_assert(trace_snapshot(first) == trace_snapshot(reader));
	trace_close(first);
	trace_close(second);
	trace_close(reader);
}

START_TEST(what_is_kept_of_every_format_is_what_was_read)
{
	struct sample *samples;
	size_t count = samples_make(&samples);

	for (size_t i = 0; i < count; i++) {
		char path[64];
		int fd = file_of(&samples[i].bytes, path);
		struct events events = events_of_file(path);

		expect_kept(path, &events);
		events_free(&events);
		close(fd);
	}
	samples_free(samples, count);
}
END_TEST

#define HEADER "time,thread,op,device,stream,ptr,size,tag,generation,detail\n"

START_TEST(times_that_go_back_or_leap_and_generations_are_kept)
{
	struct bytes bytes = { 0 };
	struct events events;
	char path[64];
	int fd;

	bytes_text(&bytes, HEADER "5,,alloc,0,1,0x1000,10,a,7,\n4,1,alloc,1,1,0x2000,11,b,8,\n"
				  "99999999999999,,free,0,1,0x1000,,,,deferred\n0,,free_completed,0,1,0x1000,,,9,\n"
				  "4294967295,,mark,0,,,,x,,y\n8589934590,,mark,0,,,,x,,y\n17179869184,,mark,3,,,,,,\n");
	fd = file_of(&bytes, path);
	events = events_of_file(path);
	ck_assert_uint_eq(events.count, 7);
	expect_kept(path, &events);
	events_free(&events);
	bytes_free(&bytes);
	close(fd);
}
END_TEST

START_TEST(the_end_of_a_cut_file_is_kept_too)
{
	struct bytes bytes = { 0 };
	struct events events;
	char path[64];
	int fd;

	bytes_text(&bytes, HEADER "5,,alloc,0,1,0x1000,10,a,7,\n6,,alloc,0,1,0x20");
	fd = file_of(&bytes, path);
	events = events_of_file(path);
	ck_assert_int_eq(events.result, TRACE_TRUNCATED);
	expect_kept(path, &events);
	events_free(&events);
	bytes_free(&bytes);
	close(fd);
}
END_TEST

static struct bytes
many_events(void)
{
	struct bytes bytes = { 0 };
	char line[96];

	bytes_text(&bytes, HEADER);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(line, sizeof line, "%u,,alloc,0,%u,0x%x,%u,tag%u,%u,\n", i * i, i % 7, 4096 * (i + 1),
			 i + 1, i % 100, i % 3);
		bytes_text(&bytes, line);
	}
	return bytes;
}

START_TEST(more_than_is_allowed_is_not_kept_and_read_again)
{
	struct bytes bytes = many_events();
	struct trace_reader *reader;
	struct trace_error error;
	struct events events;
	char path[64];
	int fd = file_of(&bytes, path);

	events = events_of_file(path);
	ck_assert_int_eq(trace_open(path, NULL, &reader, &error), TRACE_OK);
	trace_keep(reader, 10000);
	for (unsigned i = 0; i < 3; i++) {
		expect_same(reader, &events);
		ck_assert(trace_share(reader) == NULL);
		ck_assert_int_eq(trace_rewind(reader, &error), TRACE_OK);
	}
	trace_close(reader);
	events_free(&events);
	bytes_free(&bytes);
	close(fd);
}
END_TEST

/* Beside the events there is a table of their kinds, here of one. */
START_TEST(an_event_takes_no_more_than_its_24_bytes_of_what_is_allowed)
{
	struct bytes bytes = { 0 };
	const size_t allowed[] = { 3000 * 24 - 1, 3000 * 24 + 1024 };
	char path[64];
	int fd;

	bytes_text(&bytes, HEADER);
	for (unsigned i = 0; i < 3000; i++)
		bytes_text(&bytes, "1,,alloc,0,1,0x1000,10,a,,\n");
	fd = file_of(&bytes, path);
	for (unsigned i = 0; i < 2; i++) {
		struct trace_reader *reader, *shared;
		struct trace_event event;
		struct trace_error error;

		ck_assert_int_eq(trace_open(path, NULL, &reader, &error), TRACE_OK);
		trace_keep(reader, allowed[i]);
		while (trace_next(reader, &event, &error) == TRACE_OK)
			;
		shared = trace_share(reader);
		ck_assert_int_eq(shared != NULL, i == 1);
		trace_close(shared);
		trace_close(reader);
	}
	bytes_free(&bytes);
	close(fd);
}
END_TEST

START_TEST(a_reader_that_is_rewound_early_keeps_from_there)
{
	struct bytes bytes = many_events();
	struct trace_reader *reader, *shared;
	struct trace_event event;
	struct trace_error error;
	struct events events;
	char path[64];
	int fd = file_of(&bytes, path);

	events = events_of_file(path);
	ck_assert_int_eq(trace_open(path, NULL, &reader, &error), TRACE_OK);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_eq(trace_next(reader, &event, &error), TRACE_OK);
	trace_keep(reader, ALL); /* in the middle: from the next rewind on */
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(trace_rewind(reader, &error), TRACE_OK);
		for (unsigned n = 0; n < 10; n++)
			ck_assert_int_eq(trace_next(reader, &event, &error), TRACE_OK);
		ck_assert(trace_share(reader) == NULL);
	}
	ck_assert_int_eq(trace_rewind(reader, &error), TRACE_OK);
	expect_same(reader, &events);
	shared = trace_share(reader);
	ck_assert(shared != NULL);
	expect_same(shared, &events);
	trace_close(shared);
	trace_close(reader);
	events_free(&events);
	bytes_free(&bytes);
	close(fd);
}
END_TEST

/* Every address of many_events() is there once. */
static bool
comes_soon(const struct events *events, size_t next, uint64_t ptr)
{
	for (size_t i = next; i < events->count && i < next + 32; i++)
		if (events->event[i].ptr == ptr)
			return true;
	return false;
}

START_TEST(what_comes_soon_is_told_of_kept_events_alone)
{
	struct bytes bytes = many_events();
	struct trace_reader *reader;
	struct trace_event event;
	struct trace_error error;
	struct events events;
	char path[64];
	int fd = file_of(&bytes, path);
	size_t told = 0;

	events = events_of_file(path);
	ck_assert_int_eq(trace_open(path, NULL, &reader, &error), TRACE_OK);
	trace_keep(reader, ALL);
	while (trace_next(reader, &event, &error) == TRACE_OK)
		ck_assert_uint_eq(trace_ahead(reader), 0);
	ck_assert_int_eq(trace_rewind(reader, &error), TRACE_OK);
	for (size_t i = 1; trace_next(reader, &event, &error) == TRACE_OK; i++) {
		uint64_t ahead = trace_ahead(reader);

		ck_assert(ahead == 0 || comes_soon(&events, i, ahead));
		told += ahead != 0;
	}
	ck_assert_uint_gt(told, 900);
	ck_assert_uint_eq(trace_ahead(reader), 0);
	trace_close(reader);
	events_free(&events);
	bytes_free(&bytes);
	close(fd);
}
END_TEST

START_TEST(without_memory_for_them_events_are_read_all_the_same)
{
	struct bytes bytes = many_events();
	struct events events;
	char path[64];
	int fd = file_of(&bytes, path);
	struct counting counting = { 0 };
	size_t opening = 0, all = 1;

	events = events_of_file(path);
	counting_start(&counting);
	for (size_t fail_at = 0; fail_at <= all; fail_at = fail_at > 0 ? fail_at + 1 : opening) {
		struct trace_reader *reader;
		struct trace_event event;
		struct trace_error error;
		enum trace_result result;
		size_t count = 0;

		counting.calls = 0;
		counting.fail_at = 0;
		ck_assert_int_eq(trace_open(path, NULL, &reader, &error), TRACE_OK);
		opening = counting.calls + 1;
		counting.fail_at = fail_at;
		trace_keep(reader, ALL);
		for (unsigned pass = 0; pass < 2; pass++) {
			while ((result = trace_next(reader, &event, &error)) == TRACE_OK)
				count++;
			if (result == TRACE_ERROR) /* what is not for keeping failed: a name */
				break;
			counting.fail_at = 0;
			ck_assert_int_eq(trace_rewind(reader, &error), TRACE_OK);
		}
		if (result != TRACE_ERROR)
			ck_assert_uint_eq(count, 2 * events.count);
		all = fail_at == 0 ? counting.calls : all;
		trace_close(reader);
		ck_assert_uint_eq(counting.live, 0);
	}
	counting_stop();
	events_free(&events);
	bytes_free(&bytes);
	close(fd);
}
END_TEST

UNIT_MAIN("trace_keep", what_is_kept_of_every_format_is_what_was_read,
	  times_that_go_back_or_leap_and_generations_are_kept, the_end_of_a_cut_file_is_kept_too,
	  more_than_is_allowed_is_not_kept_and_read_again,
	  an_event_takes_no_more_than_its_24_bytes_of_what_is_allowed,
	  what_comes_soon_is_told_of_kept_events_alone, a_reader_that_is_rewound_early_keeps_from_there,
	  without_memory_for_them_events_are_read_all_the_same)

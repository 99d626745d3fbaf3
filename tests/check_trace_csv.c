/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RMM logs, soma's own trace, its writer, and what is common to all formats: gzip,
 * standard input, and files that are no traces.
 */
#include "config.h" /* first: mkstemps */

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check_trace_support.h"

#define SOMA_HEADER "time,thread,op,device,stream,ptr,size,tag,generation,detail\n"
#define RMM_HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

static void
ends_with(const char *text, enum trace_result result, size_t count, const char *says)
{
	struct events events = events_of_text(text);

	ck_assert_msg(events.result == result, "result %d: %s", events.result, events.error.text);
	ck_assert_uint_eq(events.count, count);
	if (says != NULL)
		ck_assert_msg(strstr(events.error.text, says) != NULL, "\"%s\" does not say \"%s\"", events.error.text,
			      says);
	events_free(&events);
}

static struct events
good(const char *text)
{
	struct events events = events_of_text(text);

	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	return events;
}

/* ---- soma's own ------------------------------------------------------------------- */

START_TEST(every_column_is_read)
{
	struct events events =
		good(SOMA_HEADER "1700000000000000001,4294967295,alloc,2147483647,0xfffffffffffffffe,0x7F0000000000,"
				 "9007199254740993,name,18446744073709551615,more\n");
	const struct trace_event *event = events.event;

	ck_assert_uint_eq(event->time_ns, 1700000000000000001);
	ck_assert_uint_eq(event->thread, UINT32_MAX);
	ck_assert_int_eq(event->op, TRACE_ALLOC);
	ck_assert_int_eq(event->device, INT32_MAX);
	ck_assert_uint_eq(event->stream, UINT64_MAX - 1);
	ck_assert_uint_eq(event->ptr, 0x7f0000000000);
	ck_assert_uint_eq(event->size, 9007199254740993);
	ck_assert_str_eq(events_holder(&events, 0), "name");
	ck_assert_uint_eq(event->generation, UINT64_MAX);
	ck_assert_str_eq(events_detail(&events, 0), "more");
	ck_assert_str_eq(trace_format(events.reader), "soma-csv");
	ck_assert_ptr_null(trace_snapshot(events.reader));
	events_free(&events);
}
END_TEST

START_TEST(every_operation_has_its_word)
{
	for (int op = 0; op < TRACE_OP_COUNT; op++) {
		char text[256];
		struct events events;
		snprintf(text, sizeof text, SOMA_HEADER ",,%s,,,,,,,\n", trace_op_text((enum trace_op)op));
		events = good(text);
		ck_assert_int_eq(events.event[0].op, op);
		ck_assert_uint_eq(events.event[0].size, 0);
		events_free(&events);
	}
}
END_TEST

START_TEST(quoted_fields_hold_commas_quotes_and_line_breaks)
{
	struct events events = good(SOMA_HEADER "1,,mark,0,0,,,\"a,\"\"b\"\"\nc\",,\"\"\r\n2,,mark,0,0,,,\"\",,\"d\"\n");

	ck_assert_uint_eq(events.count, 2);
	ck_assert_str_eq(events_holder(&events, 0), "a,\"b\"\nc");
	ck_assert_str_eq(events_detail(&events, 0), "");
	ck_assert_uint_eq(events.event[1].time_ns, 2);
	ck_assert_str_eq(events_detail(&events, 1), "d");
	events_free(&events);
}
END_TEST

START_TEST(a_deferred_free_is_told_by_its_detail)
{
	struct events events = good(SOMA_HEADER "1,,free,0,0,1,,,,deferred\n2,,free,0,0,1,,,,deferred;x\n"
						"3,,free,0,0,1,,,,deferredly\n4,,alloc,0,0,1,,,,deferred\n");

	ck_assert(events.event[0].deferred && events.event[1].deferred);
	ck_assert(!events.event[2].deferred && !events.event[3].deferred);
	ck_assert_str_eq(events_detail(&events, 0), "");
	ck_assert_str_eq(events_detail(&events, 1), "x");
	ck_assert_str_eq(events_detail(&events, 2), "deferredly");
	ck_assert_str_eq(events_detail(&events, 3), "deferred");
	events_free(&events);
}
END_TEST

START_TEST(errors_name_the_line_and_what_was_expected)
{
	ends_with(SOMA_HEADER "1,,alloc,0,0,1,2,,,\n1,,alloc,0,0,1,2,,\n", TRACE_ERROR, 1,
		  ":3: expected column detail, got the end of the line");
	ends_with(SOMA_HEADER "1,,alloc,0,0,1,2,,,,\n", TRACE_ERROR, 0, ":2: expected 10 columns, got another one, \"\"");
	ends_with(SOMA_HEADER "1,,alloc,0,0,1,2,,,,spare\n", TRACE_ERROR, 0, "got another one, \"spare\"");
	ends_with(SOMA_HEADER "1,,allocate,0,0,1,2,,,\n", TRACE_ERROR, 0,
		  ":2: expected an operation such as alloc or free in column op, got \"allocate\"");
	ends_with(SOMA_HEADER "1,,alloc,0,0,12q,2,,,\n", TRACE_ERROR, 0, "expected a number in column ptr, got \"12q\"");
	ends_with(SOMA_HEADER "1,,alloc,0,0,0x,2,,,\n", TRACE_ERROR, 0, "in column ptr, got \"0x\"");
	ends_with(SOMA_HEADER "-1,,alloc,0,0,0,2,,,\n", TRACE_ERROR, 0, "expected a number in column time, got \"-1\"");
	ends_with(SOMA_HEADER "1,,alloc,0,0,0,18446744073709551616,,,\n", TRACE_ERROR, 0, "a number in column size");
	ends_with(SOMA_HEADER "1,,alloc,0,0,0,0x10000000000000000,,,\n", TRACE_ERROR, 0, "a number in column size");
	ends_with(SOMA_HEADER "1,4294967296,alloc,0,0,0,1,,,\n", TRACE_ERROR, 0, "a smaller number in column thread");
	ends_with(SOMA_HEADER "1,,alloc,2147483648,0,0,1,,,\n", TRACE_ERROR, 0, "a smaller number in column device");
	ends_with(SOMA_HEADER "1,,mark,0,0,0,1,\"a\"b,,\n", TRACE_ERROR, 0, "expected a comma behind the closing quote");
	ends_with(SOMA_HEADER "1,,mark,0,0,0,1,\"a\n\n\nb\",,\nx\n", TRACE_ERROR, 1, ":6: ");
}
END_TEST

START_TEST(the_header_must_match)
{
	ends_with("time,thread,op,device,stream,ptr,size,tag,generation,detail,extra\n", TRACE_ERROR, 0,
		  ":1: expected 10 columns, got another one, \"extra\"");
	ends_with("time,thread,op,device,stream,ptr,size,tag,generation\n", TRACE_ERROR, 0,
		  ":1: expected column detail, got the end of the line");
	ends_with("time,thread,op,device,stream,address,size,tag,generation,detail\n", TRACE_ERROR, 0,
		  ":1: expected its name in column ptr, got \"address\"");
	ends_with("Thread,Time,Action,Pointer,Stream,Size\n", TRACE_ERROR, 0,
		  ":1: expected its name in column Size, got \"Stream\"");
	ends_with("time,thread\n", TRACE_ERROR, 0, "not a trace in a known format");
}
END_TEST

START_TEST(a_last_line_without_newline_counts_when_complete)
{
	ends_with(SOMA_HEADER "1,,alloc,0,0,1,2,,,", TRACE_END, 1, NULL);
	ends_with(SOMA_HEADER "1,,alloc,0,0,1,2,,,\n2,,free,0,0,1,2,", TRACE_TRUNCATED, 1,
		  ":3: the file ends in the middle of a line");
	ends_with(SOMA_HEADER "1,,alloc,0,0,1,2,,,\n2,,fr", TRACE_TRUNCATED, 1, ":3: ");
	ends_with(SOMA_HEADER "1,,alloc,0,0,1,2,,,\n2,,mark,0,0,1,2,,,\"a", TRACE_TRUNCATED, 1, ":3: ");
	ends_with(SOMA_HEADER, TRACE_END, 0, NULL);
	ends_with("time,thread,op,device,stream,ptr,size,tag,generation,detail", TRACE_END, 0, NULL);
	ends_with("time,thread,op,device,str", TRACE_TRUNCATED, 0, ":1: ");
	ends_with(RMM_HEADER "1,00:00:00.1,allo", TRACE_TRUNCATED, 0, ":2: ");
}
END_TEST

START_TEST(zero_bytes_and_endless_lines_are_refused)
{
	struct bytes bytes = { 0 };
	struct events events;

	bytes_text(&bytes, SOMA_HEADER "1,,mark,0,0,,,a");
	bytes_put(&bytes, "\0b,,\n", 5);
	events = events_of(&bytes);
	ck_assert_int_eq(events.result, TRACE_ERROR);
	ck_assert_ptr_nonnull(strstr(events.error.text, ":2: expected text without zero bytes in column tag"));
	events_free(&events);
	bytes.size -= 5;
	for (int i = 0; i < 3000000; i++)
		bytes_put(&bytes, "x", 1);
	events = events_of(&bytes);
	ck_assert_int_eq(events.result, TRACE_ERROR);
	ck_assert_ptr_nonnull(strstr(events.error.text, ":2: a line of more than"));
	events_free(&events);
	bytes_free(&bytes);
}
END_TEST

/* ---- RMM -------------------------------------------------------------------------------- */

START_TEST(rmm_actions_become_events)
{
	struct events events = good(RMM_HEADER "7,10:20:30.000004,allocate,0x7f00,1024,0x10\r\n"
					       "7,10:20:30.5,free,0x7f00,1024,10\r\n"
					       "\"7\",\"10:20:30:25\",\"deallocate\",7F00,1024,ab\r\n"
					       "7,10:20:31,allocate failure,(nil),99,(nil)\r\n"
					       "\r\n");

	ck_assert_uint_eq(events.count, 4);
	ck_assert_int_eq(events.event[0].op, TRACE_ALLOC);
	ck_assert_uint_eq(events.event[0].time_ns, 37230000004000);
	ck_assert_uint_eq(events.event[0].ptr, 0x7f00);
	ck_assert_uint_eq(events.event[0].size, 1024);
	ck_assert_uint_eq(events.event[0].stream, 16);
	ck_assert_uint_eq(events.event[0].thread, 7);
	ck_assert_int_eq(events.event[1].op, TRACE_FREE);
	ck_assert(!events.event[1].deferred);
	ck_assert_uint_eq(events.event[1].stream, 10);
	ck_assert_int_eq(events.event[2].op, TRACE_FREE);
	ck_assert_uint_eq(events.event[2].ptr, 0x7f00);
	ck_assert_uint_eq(events.event[2].stream, 0xab);
	ck_assert_uint_eq(events.event[2].time_ns, 37230250000000);
	ck_assert_int_eq(events.event[3].op, TRACE_ALLOC_FAILED);
	ck_assert_uint_eq(events.event[3].size, 99);
	ck_assert_str_eq(trace_format(events.reader), "rmm-csv");
	events_free(&events);
}
END_TEST

START_TEST(rmm_time_goes_on_after_midnight)
{
	struct events events = good(RMM_HEADER "1,23:59:59.9,allocate,0x1,1,0\n1,00:00:00.1,allocate,0x2,1,0\n"
					       "2,23:59:59.95,allocate,0x3,1,0\n1,12:00:00,allocate,0x4,1,0\n"
					       "1,23:00:00,allocate,0x5,1,0\n1,00:30:00,allocate,0x6,1,0\n");
	const uint64_t second = 1000000000, day = 86400 * second;

	ck_assert_uint_eq(events.event[1].time_ns, day + second / 10);
	ck_assert_uint_eq(events.event[2].time_ns, day - second / 20);
	ck_assert_uint_eq(events.event[3].time_ns, day + 12 * 3600 * second);
	ck_assert_uint_eq(events.event[5].time_ns, 2 * day + 1800 * second);
	events_free(&events);
}
END_TEST

START_TEST(rmm_epochs_are_understood_by_their_size)
{
	struct events events = good(RMM_HEADER "1,1700000000,free,0x1,1,0\n1,1700000000.5,free,0x1,1,0\n"
					       "1,1700000000123,free,0x1,1,0\n1,1700000000123456,free,0x1,1,0\n"
					       "1,1700000000123456789,free,0x1,1,0\n");
	static const uint64_t time[] = { 1700000000000000000, 1700000000500000000, 1700000000123000000,
					 1700000000123456000, 1700000000123456789 };

	for (size_t i = 0; i < 5; i++)
		ck_assert_uint_eq(events.event[i].time_ns, time[i]);
	events_free(&events);
}
END_TEST

START_TEST(rmm_errors_name_the_line)
{
	ends_with(RMM_HEADER "1,25:00:00,free,0x1,1,0\n", TRACE_ERROR, 0,
		  ":2: expected HH:MM:SS.ffffff or an epoch number in column Time, got \"25:00:00\"");
	ends_with(RMM_HEADER "1,1:00,free,0x1,1,0\n", TRACE_ERROR, 0, "in column Time");
	ends_with(RMM_HEADER "1,00:00:00,resize,0x1,1,0\n", TRACE_ERROR, 0, "in column Action, got \"resize\"");
	ends_with(RMM_HEADER "1,00:00:00,free,nil,1,0\n", TRACE_ERROR, 0, "in column Pointer, got \"nil\"");
	ends_with(RMM_HEADER "1,00:00:00,free,0x1,,0\n", TRACE_ERROR, 0, "expected a number in column Size, got \"\"");
	ends_with(RMM_HEADER "1,00:00:00,free,0x1,1,zz\n", TRACE_ERROR, 0, "in column Stream, got \"zz\"");
	ends_with(RMM_HEADER "1,00:00:00,free,0x1,1\n", TRACE_ERROR, 0, "expected column Stream");
}
END_TEST

/* ---- the writer ---------------------------------------------------------------------------- */

static void
write_events(const char *path, const struct events *events)
{
	struct trace_writer *writer;
	struct trace_error error;

	ck_assert_int_eq(trace_writer_open(path, &writer, &error), TRACE_OK);
	for (size_t i = 0; i < events->count; i++)
		trace_writer_put(writer, &events->event[i], events_holder(events, i), events_detail(events, i));
	ck_assert_int_eq(trace_writer_close(writer, &error), TRACE_OK);
}

static void
same_events(const struct events *a, const struct events *b)
{
	ck_assert_int_eq(b->result, TRACE_END);
	ck_assert_uint_eq(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		struct trace_event x = a->event[i], y = b->event[i];
		ck_assert_str_eq(events_holder(a, i), events_holder(b, i));
		ck_assert_str_eq(events_detail(a, i), events_detail(b, i));
		x.holder = y.holder = x.detail = y.detail = 0;
		ck_assert(events_equal(&x, &y));
	}
}

static char *
scratch(const char *suffix)
{
	static char path[256];
	int fd;

	snprintf(path, sizeof path, "check-trace-XXXXXX%s", suffix);
	fd = mkstemps(path, (int)strlen(suffix));
	ck_assert_int_ge(fd, 0);
	close(fd);
	return path;
}

START_TEST(what_is_written_reads_back_the_same)
{
	struct sample *samples;
	size_t count = samples_make(&samples);

	for (size_t i = 0; i < count; i++) {
		for (int gzip = 0; gzip < 2; gzip++) {
			struct events events = events_of(&samples[i].bytes), again;
			const char *path = scratch(gzip ? ".csv.gz" : ".csv");
			write_events(path, &events);
			again = events_of_file(path);
			same_events(&events, &again);
			unlink(path);
			events_free(&events);
			events_free(&again);
		}
	}
	samples_free(samples, count);
}
END_TEST

/* More than any buffer, so that the pieces are joined right. */
START_TEST(many_events_are_written_and_packed_the_same_every_time)
{
	struct bytes text = { 0 }, first, second;
	struct events events, again;
	const char *path;

	bytes_text(&text, SOMA_HEADER);
	for (int i = 0; i < 20000; i++) {
		char line[128];
		snprintf(line, sizeof line, "%d,,alloc,0,0,0x%x,%d,\"tag, %d\",,\n", i, (i + 1) * 512, i + 1, i % 777);
		bytes_text(&text, line);
	}
	events = events_of(&text);
	path = scratch(".gz");
	write_events(path, &events);
	first = bytes_load(path);
	again = events_of_file(path);
	same_events(&events, &again);
	write_events(path, &events);
	second = bytes_load(path);
	ck_assert_uint_eq(first.size, second.size);
	ck_assert_int_eq(memcmp(first.data, second.data, first.size), 0);
	ck_assert_int_eq(memcmp(first.data + 3, "\0\0\0\0\0", 5), 0);
	unlink(path);
	events_free(&again);
	again = events_of(&first);
	same_events(&events, &again);
	path = scratch(".csv");
	write_events(path, &events);
	bytes_free(&second);
	second = bytes_load(path);
	ck_assert_uint_eq(second.size, text.size);
	ck_assert_int_eq(memcmp(second.data, text.data, text.size), 0);
	unlink(path);
	events_free(&events);
	events_free(&again);
	bytes_free(&text);
	bytes_free(&first);
	bytes_free(&second);
}
END_TEST

static void
write_fails(const char *path, const char *says)
{
	struct trace_writer *writer;
	struct trace_error error;
	struct trace_event event = { .op = TRACE_ALLOC };

	ck_assert_int_eq(trace_writer_open(path, &writer, &error), TRACE_OK);
	for (int i = 0; i < 100000; i++)
		trace_writer_put(writer, &event, "somebody", NULL);
	ck_assert_int_eq(trace_writer_close(writer, &error), TRACE_ERROR);
	ck_assert_msg(strstr(error.text, says) != NULL, "%s", error.text);
}

START_TEST(a_full_disk_is_reported)
{
	write_fails("/dev/full", "/dev/full: cannot write: No space left on device");
}
END_TEST

START_TEST(a_closed_pipe_is_reported)
{
	int ends[2], keep = dup(STDOUT_FILENO);

	signal(SIGPIPE, SIG_IGN);
	ck_assert_int_eq(pipe(ends), 0);
	close(ends[0]);
	dup2(ends[1], STDOUT_FILENO);
	close(ends[1]);
	write_fails("-", "standard output: cannot write: Broken pipe");
	dup2(keep, STDOUT_FILENO);
	close(keep);
}
END_TEST

START_TEST(a_place_that_cannot_be_written_is_reported_at_once)
{
	struct trace_writer *writer;
	struct trace_error error;

	ck_assert_int_eq(trace_writer_open("/nowhere/at/all.csv", &writer, &error), TRACE_ERROR);
	ck_assert_ptr_null(writer);
	ck_assert_str_eq(error.text, "/nowhere/at/all.csv: cannot open for writing: No such file or directory");
}
END_TEST

/* ---- files ------------------------------------------------------------------------------------ */

static const char two_lines[] = SOMA_HEADER "1,,alloc,0,0,1,2,,,\n2,,free,0,0,1,2,,,\n";

static void
cannot_open(const char *path, const char *says)
{
	struct trace_reader *reader;
	struct trace_error error;

	ck_assert_int_eq(trace_open(path, NULL, &reader, &error), TRACE_ERROR);
	ck_assert_ptr_null(reader);
	ck_assert_msg(strstr(error.text, says) != NULL, "%s", error.text);
}

START_TEST(what_is_no_trace_is_refused_clearly)
{
	const char *path;

	cannot_open("/nowhere/at/all", "/nowhere/at/all: cannot open: No such file or directory");
	cannot_open("/", "is a directory, expected a trace");
	cannot_open("/dev/null", "is empty, expected a trace");
	path = scratch("");
	cannot_open(path, "is empty, expected a trace");
	if (geteuid() != 0) {
		chmod(path, 0);
		cannot_open(path, "cannot open: Permission denied");
	}
	unlink(path);
	ends_with("id,lower,upper,size\n", TRACE_ERROR, 0, "not a trace in a known format, expected a pickled PyTorch");
	ends_with("x", TRACE_ERROR, 0, "not a trace in a known format");
}
END_TEST

START_TEST(a_long_path_does_not_hide_the_message)
{
	char path[2000];

	memset(path, 'p', sizeof path);
	path[0] = '/';
	path[sizeof path - 1] = '\0';
	cannot_open(path, "ppp: cannot open: File name too long");
}
END_TEST

START_TEST(a_format_can_be_insisted_on)
{
	struct bytes bytes = { 0 };
	struct trace_reader *reader;
	struct trace_error error;
	char path[64];
	int fd;

	bytes_text(&bytes, two_lines);
	fd = file_of(&bytes, path);
	ck_assert_int_eq(trace_open(path, &(struct trace_options){ .format = "soma-csv" }, &reader, &error), TRACE_OK);
	trace_close(reader);
	ck_assert_int_eq(trace_open(path, &(struct trace_options){ .format = "rmm-csv" }, &reader, &error), TRACE_ERROR);
	ck_assert_ptr_nonnull(strstr(error.text, ":1: expected its name in column Thread, got \"time\""));
	ck_assert_int_eq(trace_open(path, &(struct trace_options){ .format = "nvml" }, &reader, &error), TRACE_ERROR);
	ck_assert_ptr_nonnull(
		strstr(error.text, "unknown format \"nvml\", expected one of pytorch-snapshot, rmm-csv, soma-csv"));
	close(fd);
	bytes_free(&bytes);
}
END_TEST

static void
reads_twice(struct events *events)
{
	ck_assert_int_eq(events->result, TRACE_END);
	ck_assert_uint_eq(events->count, 2);
	ck_assert_double_eq(trace_progress(events->reader), 1.0);
	ck_assert_int_eq(trace_rewind(events->reader, &events->error), TRACE_OK);
	events_drain(events);
	ck_assert_int_eq(events->result, TRACE_END);
	ck_assert_uint_eq(events->count, 4);
	ck_assert(events_equal(&events->event[0], &events->event[2]));
	ck_assert(events_equal(&events->event[1], &events->event[3]));
	events_free(events);
}

START_TEST(a_file_can_be_rewound)
{
	struct events events = events_of_text(two_lines);

	ck_assert_int_eq(trace_rewind(events.reader, &events.error), TRACE_OK);
	ck_assert_double_lt(trace_progress(events.reader), 1.0);
	events.count = 0;
	events_drain(&events);
	reads_twice(&events);
}
END_TEST

START_TEST(standard_input_can_be_a_pipe_and_rewound)
{
	int ends[2], keep = dup(STDIN_FILENO);
	struct events events;

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(write(ends[1], two_lines, sizeof two_lines - 1), sizeof two_lines - 1);
	close(ends[1]);
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	events = events_of_file("-");
	reads_twice(&events);
	if (keep >= 0) {
		dup2(keep, STDIN_FILENO);
		close(keep);
	}
}
END_TEST

START_TEST(standard_input_from_a_file_begins_where_it_stands)
{
	struct bytes bytes = { 0 };
	struct events events;
	char path[64];
	int fd, keep = dup(STDIN_FILENO);

	bytes_text(&bytes, "skipped\n");
	bytes_text(&bytes, two_lines);
	fd = file_of(&bytes, path);
	lseek(fd, 8, SEEK_SET);
	dup2(fd, STDIN_FILENO);
	events = events_of_file("-");
	reads_twice(&events);
	close(fd);
	if (keep >= 0) {
		dup2(keep, STDIN_FILENO);
		close(keep);
	}
	bytes_free(&bytes);
}
END_TEST

/* ---- gzip -------------------------------------------------------------------------------------- */

static struct bytes
packed_lines(void)
{
	struct bytes plain = { 0 }, packed;

	bytes_text(&plain, two_lines);
	packed = bytes_gzip(&plain);
	bytes_free(&plain);
	return packed;
}

START_TEST(gzip_is_unpacked_and_rewound)
{
	struct bytes packed = packed_lines();
	struct events events = events_of(&packed);

	reads_twice(&events);
	bytes_free(&packed);
}
END_TEST

START_TEST(gzip_members_follow_each_other_and_padding_is_skipped)
{
	struct bytes packed = packed_lines(), tail = { 0 }, more;
	struct events events;

	bytes_text(&tail, "3,,alloc,0,0,7,2,,,\n");
	more = bytes_gzip(&tail);
	bytes_put(&packed, more.data, more.size);
	bytes_put(&packed, "\0\0\0\0", 4);
	events = events_of(&packed);
	ck_assert_int_eq(events.result, TRACE_END);
	ck_assert_uint_eq(events.count, 3);
	events_free(&events);
	bytes_put(&packed, "x", 1);
	events = events_of(&packed);
	ck_assert_int_eq(events.result, TRACE_ERROR);
	ck_assert_ptr_nonnull(strstr(events.error.text, "of the gzip file: expected the end or another gzip member"));
	events_free(&events);
	bytes_free(&packed);
	bytes_free(&tail);
	bytes_free(&more);
}
END_TEST

START_TEST(a_wrong_checksum_is_an_error_after_what_was_read)
{
	struct bytes packed = packed_lines();
	struct events events;

	packed.data[packed.size - 7] ^= 0xff;
	events = events_of(&packed);
	ck_assert_int_eq(events.result, TRACE_ERROR);
	ck_assert_uint_eq(events.count, 2);
	ck_assert_ptr_nonnull(strstr(events.error.text, "of the gzip file: incorrect data check"));
	events_free(&events);
	bytes_free(&packed);
}
END_TEST

START_TEST(a_cut_gzip_file_gives_what_it_has)
{
	struct bytes packed = packed_lines();
	struct events events;

	packed.size -= 6;
	events = events_of(&packed);
	ck_assert_int_eq(events.result, TRACE_TRUNCATED);
	ck_assert_uint_eq(events.count, 2);
	ck_assert_ptr_nonnull(strstr(events.error.text, "the gzip file ends in the middle, after "));
	events_free(&events);
	packed.size = 5;
	events = events_of(&packed);
	ck_assert_int_eq(events.opened, TRACE_TRUNCATED);
	events_free(&events);
	bytes_free(&packed);
}
END_TEST

START_TEST(nothing_packed_is_refused)
{
	struct bytes plain = { 0 }, packed = bytes_gzip(&plain);
	struct events events = events_of(&packed);

	ck_assert_int_eq(events.result, TRACE_ERROR);
	ck_assert_ptr_nonnull(strstr(events.error.text, "holds nothing when unpacked"));
	events_free(&events);
	bytes_free(&packed);
}
END_TEST

/* ---- the examples --------------------------------------------------------------------------------- */

static void
example(const char *name, const char *source, size_t allocs, size_t frees, size_t segments)
{
	char path[4096];
	struct events events, real;

	snprintf(path, sizeof path, "%s/%s", EXAMPLES_FOLDER, name);
	events = events_of_file(path);
	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	ck_assert_uint_eq(events_number(&events, TRACE_ALLOC), allocs);
	ck_assert_uint_eq(events_number(&events, TRACE_FREE), frees);
	ck_assert_uint_eq(events_number(&events, TRACE_SEGMENT_ALLOC), segments);
	if (traces_folder() != NULL) {
		real = events_of_file(traces_file(source));
		ck_assert_uint_eq(events.count, real.count);
		for (size_t i = 0; i < events.count; i++) {
			const struct trace_event *a = &events.event[i], *b = &real.event[i];
			ck_assert(a->op == b->op && a->deferred == b->deferred && a->ptr == b->ptr &&
				  a->size == b->size && a->stream == b->stream && a->device == b->device &&
				  a->time_ns == b->time_ns - real.event[0].time_ns);
		}
		events_free(&real);
	}
	events_free(&events);
}

START_TEST(the_examples_are_their_sources_in_numbers)
{
	example("finetune-full.csv.gz", "finetune-full.pickle", 7946, 7549, 61);
	example("tiny-full.csv", "tiny-full.pickle", 36, 26, 9);
}
END_TEST

int
main(void)
{
	Suite *suite = trace_suite("trace_csv");

	trace_test(suite, "soma", every_column_is_read);
	trace_test(suite, "soma", every_operation_has_its_word);
	trace_test(suite, "soma", quoted_fields_hold_commas_quotes_and_line_breaks);
	trace_test(suite, "soma", a_deferred_free_is_told_by_its_detail);
	trace_test(suite, "soma", errors_name_the_line_and_what_was_expected);
	trace_test(suite, "soma", the_header_must_match);
	trace_test(suite, "soma", a_last_line_without_newline_counts_when_complete);
	trace_test(suite, "soma", zero_bytes_and_endless_lines_are_refused);
	trace_test(suite, "rmm", rmm_actions_become_events);
	trace_test(suite, "rmm", rmm_time_goes_on_after_midnight);
	trace_test(suite, "rmm", rmm_epochs_are_understood_by_their_size);
	trace_test(suite, "rmm", rmm_errors_name_the_line);
	trace_test(suite, "writer", what_is_written_reads_back_the_same);
	trace_test(suite, "writer", many_events_are_written_and_packed_the_same_every_time);
	trace_test(suite, "writer", a_full_disk_is_reported);
	trace_test(suite, "writer", a_closed_pipe_is_reported);
	trace_test(suite, "writer", a_place_that_cannot_be_written_is_reported_at_once);
	trace_test(suite, "files", what_is_no_trace_is_refused_clearly);
	trace_test(suite, "files", a_long_path_does_not_hide_the_message);
	trace_test(suite, "files", a_format_can_be_insisted_on);
	trace_test(suite, "files", a_file_can_be_rewound);
	trace_test(suite, "files", standard_input_can_be_a_pipe_and_rewound);
	trace_test(suite, "files", standard_input_from_a_file_begins_where_it_stands);
	trace_test(suite, "gzip", gzip_is_unpacked_and_rewound);
	trace_test(suite, "gzip", gzip_members_follow_each_other_and_padding_is_skipped);
	trace_test(suite, "gzip", a_wrong_checksum_is_an_error_after_what_was_read);
	trace_test(suite, "gzip", a_cut_gzip_file_gives_what_it_has);
	trace_test(suite, "gzip", nothing_packed_is_refused);
	trace_test(suite, "examples", the_examples_are_their_sources_in_numbers);
	return trace_run(suite);
}

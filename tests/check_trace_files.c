/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is common to all formats: the writer, gzip, standard input, files that are no
 * traces, and the bundled examples.
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

/* ---- the writer ---------------------------------------------------------------------------- */

static void
write_events(const char *path, const struct events *events)
{
	struct trace_writer *writer;
	struct trace_error error;

	ck_assert_int_eq(trace_writer_open(path, &writer, &error), TRACE_OK);
	for (size_t i = 0; i < events->count; i++)
		if (events->event[i].has_pool)
			trace_writer_with_pools(writer);
	for (size_t i = 0; i < events->count; i++)
		trace_writer_put(writer, &events->event[i], events_holder(events, i),
				 events_detail(events, i));
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
		snprintf(line, sizeof line, "%d,,alloc,0,0,0x%x,%d,\"tag, %d\",,\n", i, (i + 1) * 512, i + 1,
			 i % 777);
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
	ck_assert_str_eq(error.text,
			 "/nowhere/at/all.csv: cannot open for writing: No such file or directory");
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

static void
refused_text(const char *text, const char *says)
{
	struct events events = events_of_text(text);

	ck_assert_int_eq(events.opened, TRACE_ERROR);
	ck_assert_msg(strstr(events.error.text, says) != NULL, "%s", events.error.text);
	events_free(&events);
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
	refused_text("id,name,size\n", "not a trace in a known format, expected one of\n  a pickled PyTorch");
	refused_text("(dp0\nVsegments\n", "a pickle of protocol 0 or 1, expected one of protocol 2 to 5");
	refused_text("(lp0\n.", "a pickle of protocol 0 or 1");
	refused_text("}q\1", "a pickle of protocol 0 or 1");
	refused_text("]q\1", "a pickle of protocol 0 or 1");
	refused_text("x", "not a trace in a known format");
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
	ck_assert_int_eq(trace_open(path, &(struct trace_options){ .format = "soma-csv" }, &reader, &error),
			 TRACE_OK);
	trace_close(reader);
	ck_assert_int_eq(trace_open(path, &(struct trace_options){ .format = "rmm-csv" }, &reader, &error),
			 TRACE_ERROR);
	ck_assert_ptr_nonnull(strstr(error.text, ":1: expected its name in column Thread, got \"time\""));
	ck_assert_int_eq(trace_open(path, &(struct trace_options){ .format = "nvml" }, &reader, &error),
			 TRACE_ERROR);
	ck_assert_ptr_nonnull(strstr(
		error.text, "unknown format \"nvml\", expected one of pytorch-snapshot, rmm-csv, soma-csv"));
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
	ck_assert_ptr_nonnull(
		strstr(events.error.text, "of the gzip file: expected the end or another gzip member"));
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
example(const char *name, size_t allocs, size_t frees, size_t segments)
{
	char path[4096];
	struct events events;

	snprintf(path, sizeof path, "%s/%s", EXAMPLES_FOLDER, name);
	events = events_of_file(path);
	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	ck_assert_uint_eq(events_number(&events, TRACE_ALLOC), allocs);
	ck_assert_uint_eq(events_number(&events, TRACE_FREE), frees);
	ck_assert_uint_eq(events_number(&events, TRACE_SEGMENT_ALLOC), segments);
	events_free(&events);
}

START_TEST(the_examples_are_read)
{
	example("finetune-full.csv.gz", 7946, 7549, 61);
	example("tiny-full.csv", 36, 26, 9);
}
END_TEST

UNIT_MAIN("trace_files", what_is_written_reads_back_the_same,
	  many_events_are_written_and_packed_the_same_every_time, a_full_disk_is_reported,
	  a_closed_pipe_is_reported, a_place_that_cannot_be_written_is_reported_at_once,
	  what_is_no_trace_is_refused_clearly, a_long_path_does_not_hide_the_message,
	  a_format_can_be_insisted_on, a_file_can_be_rewound, standard_input_can_be_a_pipe_and_rewound,
	  standard_input_from_a_file_begins_where_it_stands, gzip_is_unpacked_and_rewound,
	  gzip_members_follow_each_other_and_padding_is_skipped,
	  a_wrong_checksum_is_an_error_after_what_was_read, a_cut_gzip_file_gives_what_it_has,
	  nothing_packed_is_refused, the_examples_are_read)

/* SPDX-License-Identifier: Apache-2.0 */
/* lib/resource: the trace that a stack writes, read back with the command's reader. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/resource/terminal.h"
#include "tests/check_resource_fake.h"
#include "tools/trace/trace.h"

#define EVENTS_MAX 4096

/* A stack with a trace in a file of its own. */
struct scene {
	struct soma_backend *fake;
	struct soma_resource *terminal, *trace;
	char path[64];
};

struct history {
	struct trace_event events[EVENTS_MAX];
	char holders[EVENTS_MAX][32];
	char details[EVENTS_MAX][32];
	size_t count;
	enum trace_result result;
};

static struct history history; /* large */

static void
begin(struct scene *s, uint64_t capabilities, struct soma_trace_config config)
{
	int fd;

	*s = (struct scene){ 0 };
	snprintf(s->path, sizeof s->path, "%s/soma-trace-XXXXXX",
		 getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
	fd = mkstemp(s->path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	s->fake = fake_create(capabilities, &s->terminal);
	config.size = sizeof config;
	if (config.descriptor == 0)
		config.path = s->path;
	ck_assert_int_eq(soma_trace_create(s->terminal, &config, &s->trace), SOMA_STATUS_OK);
}

static void
end(struct scene *s)
{
	soma_resource_release(s->trace);
	soma_resource_release(s->terminal);
	fake_destroy(s->fake);
	unlink(s->path);
}

static void
read_file(const char *path)
{
	struct trace_reader *reader;
	struct trace_error error;

	history.count = 0;
	history.result = trace_open(path, NULL, &reader, &error);
	ck_assert_msg(history.result == TRACE_OK, "%s", error.text);
	while (history.count < EVENTS_MAX) {
		size_t i = history.count;
		history.result = trace_next(reader, &history.events[i], &error);
		if (history.result != TRACE_OK)
			break;
		snprintf(history.holders[i], sizeof history.holders[i], "%s",
			 trace_name_text(reader, history.events[i].holder));
		snprintf(history.details[i], sizeof history.details[i], "%s",
			 trace_name_text(reader, history.events[i].detail));
		history.count++;
	}
	ck_assert_msg(history.result != TRACE_ERROR, "%s", error.text);
	trace_close(reader);
}

static struct soma_trace_stats
stats_of(struct scene *s)
{
	struct soma_trace_stats stats = { .size = sizeof stats };

	ck_assert_int_eq(soma_trace_stats(s->trace, &stats), SOMA_STATUS_OK);
	return stats;
}

static int
thread_count(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	while (readdir(tasks) != NULL)
		count++;
	closedir(tasks);
	return count - 2;
}

START_TEST(a_trace_says_what_happened)
{
	struct scene s;
	begin(&s, FAKE_ORDERED, (struct soma_trace_config){ 0 });
	uint64_t stream = new_stream(s.trace);

	soma_tag_push(soma_tag_intern("a \"quoted\", one"));
	struct soma_block block = allocate(s.trace, 1000, stream);
	soma_tag_pop();
	struct soma_use use = prepare(s.trace, &block, 0, SOMA_ACCESS_WRITE);
	ck_assert_int_eq(soma_resource_finish_use(s.trace, &use, 1), SOMA_STATUS_OK);
	deallocate(s.terminal, &block);
	ck_assert_int_eq(soma_resource_stream_synchronize(s.trace, stream), SOMA_STATUS_OK);
	s.fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_DRIVER;
	struct soma_block none = { .size = sizeof none };
	ck_assert_int_eq(soma_resource_allocate(s.trace, 77, stream, &none), SOMA_STATUS_DRIVER);
	s.fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_OK;
	ck_assert_int_eq(soma_trace_flush(s.trace), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats_of(&s).events, 10);
	ck_assert_uint_eq(stats_of(&s).peak_bytes, 1000);
	ck_assert_uint_eq(stats_of(&s).live_bytes, 0);

	/* With what the stack itself queued: for the use on stream 0, and for the free behind it. */
	static const enum trace_op ops[] = { TRACE_ALLOC,          TRACE_RECORD,      TRACE_WAIT, TRACE_USE,
					     TRACE_RECORD,         TRACE_WAIT,        TRACE_FREE, TRACE_SYNC,
					     TRACE_FREE_COMPLETED, TRACE_ALLOC_FAILED };
	const uint64_t streams[] = { stream, stream, 0, 0, 0, stream, stream, stream, stream, stream };
	read_file(s.path);
	ck_assert_int_eq(history.result, TRACE_END);
	ck_assert_uint_eq(history.count, 10);
	for (int i = 0; i < 10; i++) {
		ck_assert_uint_eq(history.events[i].stream, streams[i]);
		ck_assert_int_eq(history.events[i].op, ops[i]);
		ck_assert_uint_eq(history.events[i].thread, (uint32_t)gettid());
		if (i > 0)
			ck_assert_uint_ge(history.events[i].time_ns, history.events[i - 1].time_ns);
	}
	ck_assert_uint_eq(history.events[0].ptr, block.ptr);
	ck_assert_uint_eq(history.events[0].size, 1000);
	ck_assert_uint_eq(history.events[0].generation, block.id.generation);
	ck_assert_str_eq(history.holders[0], "a \"quoted\", one");
	ck_assert_uint_eq(history.events[2].ptr, history.events[1].ptr);
	ck_assert_str_eq(history.details[3], "write");
	ck_assert_uint_eq(history.events[5].ptr, history.events[4].ptr);
	ck_assert(history.events[6].deferred);
	ck_assert_str_eq(history.details[6], "ordered");
	ck_assert_uint_eq(history.events[8].ptr, block.ptr);
	ck_assert_uint_eq(history.events[9].size, 77);
	end(&s);
}
END_TEST

START_TEST(a_free_that_fails_is_taken_back)
{
	struct scene s;
	begin(&s, 0, (struct soma_trace_config){ 0 });
	struct soma_block block = allocate(s.trace, 100, 0);

	s.fake->fail_with[FAKE_FREE] = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(soma_resource_deallocate(s.trace, &block), SOMA_STATUS_DRIVER);
	s.fake->fail_with[FAKE_FREE] = SOMA_STATUS_OK;
	ck_assert_int_eq(soma_trace_flush(s.trace), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats_of(&s).live_bytes, 100);
	deallocate(s.trace, &block);
	ck_assert_int_eq(soma_trace_flush(s.trace), SOMA_STATUS_OK);
	read_file(s.path);
	ck_assert_uint_eq(history.count, 4);
	ck_assert_int_eq(history.events[2].op, TRACE_ALLOC);
	ck_assert_uint_eq(history.events[2].generation, block.id.generation);
	ck_assert_str_eq(history.details[2], "the free failed");
	end(&s);
}
END_TEST

static void *
do_nothing(void *argument)
{
	return argument;
}

START_TEST(the_writers_thread_comes_with_the_first_event_and_goes_with_the_trace)
{
	struct scene s;
	pthread_t first;

	/* A sanitizer starts a thread of its own with the first one. */
	ck_assert_int_eq(pthread_create(&first, NULL, do_nothing, NULL), 0);
	pthread_join(first, NULL);
	int before = thread_count();
	begin(&s, 0, (struct soma_trace_config){ 0 });

	ck_assert_int_eq(thread_count(), before);
	struct soma_block block = allocate(s.trace, 100, 0);
	ck_assert_int_eq(thread_count(), before + 1);
	deallocate(s.trace, &block);
	soma_resource_release(s.trace);
	ck_assert_int_eq(thread_count(), before);
	read_file(s.path);
	ck_assert_uint_eq(history.count, 2);
	soma_resource_release(s.terminal);
	fake_destroy(s.fake);
	unlink(s.path);
}
END_TEST

START_TEST(blocks_outlast_their_trace)
{
	struct scene s;
	begin(&s, FAKE_ORDERED, (struct soma_trace_config){ 0 });
	struct soma_block block = allocate(s.trace, 100, 0), other = allocate(s.trace, 100, 0);

	deallocate(s.terminal, &other);
	soma_resource_release(s.trace);
	deallocate(s.terminal, &block);
	fake_run_all(s.fake);
	ck_assert_int_eq(soma_resource_reap_pending(s.terminal), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(s.terminal), 0);
	read_file(s.path);
	ck_assert_uint_eq(history.count, 3);
	soma_resource_release(s.terminal);
	fake_destroy(s.fake);
	unlink(s.path);
}
END_TEST

/* ---- what is dropped --------------------------------------------------------------------- */

/* A pipe that nobody reads yet, full to the brim: the writer stands still. */
static void
make_full_pipe(int ends[2])
{
	char zeros[4096] = { 0 };

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	while (write(ends[1], zeros, sizeof zeros) > 0)
		;
	while (write(ends[1], zeros, 1) > 0)
		;
	ck_assert_int_eq(fcntl(ends[1], F_SETFL, 0), 0);
}

/* The header is written at once, so room for it is made. */
static void
read_some(int fd, size_t bytes)
{
	char buffer[4096];

	while (bytes > 0) {
		ssize_t got = read(fd, buffer, bytes < sizeof buffer ? bytes : sizeof buffer);
		ck_assert_int_gt(got, 0);
		bytes -= (size_t)got;
	}
}

struct copying {
	int from;
	char text[1 << 20];
	size_t used;
};

static void *
copy_all(void *argument)
{
	struct copying *copying = argument;
	ssize_t got;

	while ((got = read(copying->from, copying->text + copying->used,
			   sizeof copying->text - 1 - copying->used)) > 0)
		copying->used += (size_t)got;
	return NULL;
}

START_TEST(what_is_dropped_is_counted_and_said)
{
	static struct copying copying;
	struct soma_block blocks[64];
	struct scene s;
	int ends[2];
	pthread_t reader;

	make_full_pipe(ends);
	read_some(ends[0], 4096);
	begin(&s, 0,
	      (struct soma_trace_config){
		      .descriptor = ends[1], .ring_events = 16, .patience_ms = SOMA_TRACE_IMPATIENT });
	char filler[4096];
	memset(filler, 'x', sizeof filler);
	ck_assert_int_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	while (write(ends[1], filler, 1) > 0)
		;
	ck_assert_int_eq(fcntl(ends[1], F_SETFL, 0), 0);
	/* The thread takes at most what the ring holds before it stands still in write(2). */
	for (int i = 0; i < 64; i++)
		blocks[i] = allocate(s.trace, 10, 0);
	struct soma_trace_stats stats = { .size = sizeof stats };
	copying.from = ends[0];
	ck_assert_int_eq(pthread_create(&reader, NULL, copy_all, &copying), 0);
	for (int i = 0; i < 64; i++)
		deallocate(s.trace, &blocks[i]);
	ck_assert_int_eq(soma_trace_flush(s.trace), SOMA_STATUS_OK);
	stats = stats_of(&s);
	ck_assert_uint_gt(stats.dropped, 0);
	ck_assert_uint_eq(stats.dropped + stats.events, 128);
	end(&s);
	close(ends[1]);
	pthread_join(reader, NULL);
	close(ends[0]);

	/* Marks say as many as were counted, and no free is there without its alloc. */
	const char *at = copying.text;
	uint64_t said = 0;
	size_t zeros = 0;
	while (zeros < copying.used && (copying.text[zeros] == '\0' || copying.text[zeros] == 'x'))
		zeros++;
	at = copying.text + zeros;
	copying.text[copying.used] = '\0';
	for (const char *mark = at; (mark = strstr(mark, "events lost here: ")) != NULL; mark++)
		said += strtoull(mark + 18, NULL, 10);
	ck_assert_uint_eq(said, stats.dropped);
	for (const char *line = at; (line = strstr(line, ",free,")) != NULL; line++) {
		char ptr[32], alloc[64];
		ck_assert_int_eq(sscanf(line, ",free,0,0,%31[^,],", ptr), 1);
		snprintf(alloc, sizeof alloc, ",alloc,0,0,%s,", ptr);
		const char *made = strstr(at, alloc);
		ck_assert_ptr_nonnull(made);
		ck_assert(made < line);
	}
	close(ends[0]);
}
END_TEST

START_TEST(a_small_ring_loses_nothing_when_there_is_patience)
{
	struct scene s;
	begin(&s, 0, (struct soma_trace_config){ .ring_events = 2, .patience_ms = 60000 });

	for (int i = 0; i < 1000; i++) {
		struct soma_block block = allocate(s.trace, 100, 0);
		deallocate(s.trace, &block);
	}
	ck_assert_int_eq(soma_trace_flush(s.trace), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats_of(&s).events, 2000);
	ck_assert_uint_eq(stats_of(&s).dropped, 0);
	read_file(s.path);
	ck_assert_uint_eq(history.count, 2000);
	end(&s);
}
END_TEST

START_TEST(a_file_that_cannot_be_written_is_an_error)
{
	struct soma_trace_config config = { .size = sizeof config, .path = "/nonexistent/trace.csv" };
	struct soma_resource *terminal, *trace;
	struct soma_backend *fake = fake_create(0, &terminal);

	ck_assert_int_eq(soma_trace_create(terminal, &config, &trace), SOMA_STATUS_IO);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "/nonexistent/trace.csv"));
	config.path = "/dev/full";
	ck_assert_int_eq(soma_trace_create(terminal, &config, &trace), SOMA_STATUS_IO);
	config.path = NULL;
	config.descriptor = -1;
	ck_assert_int_eq(soma_trace_create(terminal, &config, &trace), SOMA_STATUS_IO);
	config.size = 4;
	ck_assert_int_eq(soma_trace_create(terminal, &config, &trace), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_trace_flush(terminal), SOMA_STATUS_NOT_FOUND);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_write_that_fails_later_is_told_by_flush)
{
	struct scene s;
	int ends[2];

	/* Not ignored: the signal would end this process. */
	signal(SIGPIPE, SIG_DFL);
	ck_assert_int_eq(pipe(ends), 0);
	begin(&s, 0, (struct soma_trace_config){ .descriptor = ends[1] });
	close(ends[0]);
	struct soma_block block = allocate(s.trace, 100, 0);
	ck_assert_int_eq(soma_trace_flush(s.trace), SOMA_STATUS_IO);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "Broken pipe"));
	ck_assert_uint_eq(stats_of(&s).dropped, 1);
	deallocate(s.trace, &block);
	end(&s);
	close(ends[1]);
}
END_TEST

/* ---- processes that end badly ---------------------------------------------------------------- */

#ifndef __SANITIZE_THREAD__
START_TEST(a_killed_process_leaves_what_was_flushed)
{
	struct scene s;
	begin(&s, 0, (struct soma_trace_config){ 0 });
	int ends[2], status;
	char byte;

	ck_assert_int_eq(pipe(ends), 0);
	soma_resource_release(s.trace);
	pid_t child = fork();
	if (child == 0) {
		struct soma_trace_config config = { .size = sizeof config, .path = s.path };
		if (soma_trace_create(s.terminal, &config, &s.trace) != SOMA_STATUS_OK)
			_exit(1);
		for (int i = 0; i < 100; i++)
			(void)allocate(s.trace, 100, 0);
		(void)soma_trace_flush(s.trace);
		(void)!write(ends[1], "", 1);
		for (;;) {
			struct soma_block block = allocate(s.trace, 100, 0);
			deallocate(s.trace, &block);
		}
	}
	ck_assert_int_eq(read(ends[0], &byte, 1), 1);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	ck_assert(WIFSIGNALED(status));
	read_file(s.path);
	ck_assert_uint_ge(history.count, 100);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(history.events[i].op, TRACE_ALLOC);
	soma_resource_release(s.terminal);
	fake_destroy(s.fake);
	unlink(s.path);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

START_TEST(a_child_writes_nothing_and_ends)
{
	struct scene s;
	int status;
	begin(&s, 0, (struct soma_trace_config){ 0 });
	struct soma_block block = allocate(s.trace, 100, 0);

	pid_t child = fork();
	if (child == 0) {
		struct soma_block own = { .size = sizeof own };
		if (soma_resource_allocate(s.trace, 55, 0, &own) != SOMA_STATUS_OK ||
		    soma_resource_deallocate(s.trace, &own) != SOMA_STATUS_OK ||
		    soma_trace_flush(s.trace) != SOMA_STATUS_NOT_SUPPORTED)
			_exit(1);
		soma_resource_release(s.trace);
		soma_resource_release(s.terminal);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	deallocate(s.trace, &block);
	ck_assert_int_eq(soma_trace_flush(s.trace), SOMA_STATUS_OK);
	read_file(s.path);
	ck_assert_uint_eq(history.count, 2);
	end(&s);
}
END_TEST

#endif

/* The thread sanitizer does not get through jemalloc's fork handlers. */
#ifdef __SANITIZE_THREAD__
#define FORKING
#else
#define FORKING a_killed_process_leaves_what_was_flushed, a_child_writes_nothing_and_ends,
#endif

UNIT_MAIN("trace_writer", a_trace_says_what_happened, a_free_that_fails_is_taken_back,
	  the_writers_thread_comes_with_the_first_event_and_goes_with_the_trace,
	  what_is_dropped_is_counted_and_said, a_small_ring_loses_nothing_when_there_is_patience,
	  a_file_that_cannot_be_written_is_an_error, a_write_that_fails_later_is_told_by_flush,
	  FORKING blocks_outlast_their_trace)

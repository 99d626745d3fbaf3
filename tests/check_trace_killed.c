/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is killed in the middle of a traced run leaves a trace that the command reads up to the
 * last event that was flushed, at least.
 */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/stack_fixture.h"
#include "tools/trace/trace.h"

#define HELD 64
#define EACH 500 /* operations between two flushes */

/* ---- the program that is killed ------------------------------------------------------ */

static void
operate(struct soma_resource *trace, struct soma_block *block, unsigned i)
{
	if (block->bytes != 0) {
		if (soma_resource_deallocate(trace, block) != SOMA_STATUS_OK)
			_exit(1);
		block->bytes = 0;
		return;
	}
	*block = (struct soma_block){ .size = sizeof *block };
	if (soma_resource_allocate(trace, 1 + i % 5000, 0, block) != SOMA_STATUS_OK)
		_exit(1);
}

/* Tells after each flush how many events are in the file, and goes on for ever. */
static void
run_traced(const char *path, int told)
{
	struct soma_trace_config config = { .size = sizeof config, .path = path };
	struct soma_trace_stats stats = { .size = sizeof stats };
	static struct soma_block held[HELD];
	struct soma_resource *trace;

	if (soma_trace_create(open_guarded(NULL, 0), &config, &trace) != SOMA_STATUS_OK)
		_exit(1);
	for (unsigned i = 0;; i++) {
		operate(trace, &held[i % HELD], i);
		if (i % 1000 == 999)
			soma_resource_stream_synchronize(trace, 0);
		if (i % EACH != EACH - 1)
			continue;
		if (soma_trace_flush(trace) != SOMA_STATUS_OK ||
		    soma_trace_stats(trace, &stats) != SOMA_STATUS_OK ||
		    write(told, &stats.events, sizeof stats.events) != sizeof stats.events)
			_exit(1);
	}
}

/* How many events were flushed at least when it was killed. */
static uint64_t
run_and_kill(const char *path, int flushes)
{
	uint64_t events = 0;
	int told[2], status;

	ck_assert_int_eq(pipe(told), 0);
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		run_traced(path, told[1]);
	close(told[1]);
	for (int i = 0; i < flushes; i++)
		ck_assert_int_eq(read(told[0], &events, sizeof events), sizeof events);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(told[0]);
	return events;
}

/* ---- what is left --------------------------------------------------------------------------- */

/* The events that the command counts; *status is its exit status. */
static uint64_t
replayed_events(const char *options, const char *path, int *status)
{
	char command[256];

	snprintf(command, sizeof command, "./soma replay --json %s %s 2>/dev/null", options, path);
	FILE *pipe = popen(command, "r");
	ck_assert_ptr_nonnull(pipe);
	json_t *object = json_loadf(pipe, JSON_DISABLE_EOF_CHECK, NULL);
	ck_assert_ptr_nonnull(object);
	json_t *events = json_object_get(json_object_get(object, "counts"), "events");
	uint64_t count = (uint64_t)json_integer_value(events);
	ck_assert(json_is_integer(events));
	json_decref(object);
	while (fgetc(pipe) != EOF)
		;
	*status = WEXITSTATUS(pclose(pipe));
	return count;
}

/* Whether the last line is complete. */
static bool
is_whole(const char *path)
{
	struct trace_reader *reader;
	struct trace_error error;
	struct trace_event event;
	enum trace_result got;

	ck_assert_msg(trace_open(path, NULL, &reader, &error) == TRACE_OK, "%s", error.text);
	while ((got = trace_next(reader, &event, &error)) == TRACE_OK)
		;
	ck_assert_msg(got != TRACE_ERROR, "%s", error.text);
	trace_close(reader);
	return got == TRACE_END;
}

static void
expect_left(const char *path, uint64_t flushed)
{
	int status;

	ck_assert_uint_ge(replayed_events("--partial", path, &status), flushed);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_ge(replayed_events("", path, &status), flushed);
	ck_assert_int_eq(status, is_whole(path) ? 0 : 1);
}

START_TEST(a_killed_program_leaves_all_that_was_flushed)
{
	for (int flushes = 1; flushes <= 20; flushes++) {
		char path[] = "check_trace_killed.XXXXXX";
		close(mkstemp(path));
		uint64_t flushed = run_and_kill(path, flushes);
		ck_assert_uint_ge(flushed, (uint64_t)flushes * EACH);
		expect_left(path, flushed);
		unlink(path);
	}
}
END_TEST

/* A kill does not often fall into a line: the same for each place that it may cut one at. */
START_TEST(a_line_that_was_cut_is_all_that_is_lost)
{
	char path[] = "check_trace_killed.XXXXXX";
	int status;

	close(mkstemp(path));
	run_and_kill(path, 1);
	FILE *file = fopen(path, "r+");
	char text[8192];
	size_t size = fread(text, 1, sizeof text, file), line = size;
	while (text[--line - 1] != '\n')
		;
	uint64_t lines = 0;
	for (size_t i = 0; i < line; i++)
		lines += text[i] == '\n';
	for (size_t cut = line + 1; cut < size; cut++) {
		ck_assert_int_eq(ftruncate(fileno(file), (off_t)cut), 0);
		uint64_t events = replayed_events("--partial", path, &status);
		ck_assert_int_eq(status, 0);
		ck_assert(events == lines - 1 || (events == lines && is_whole(path)));
	}
	fclose(file);
	unlink(path);
}
END_TEST

UNIT_MAIN("trace killed", a_killed_program_leaves_all_that_was_flushed, a_line_that_was_cut_is_all_that_is_lost)

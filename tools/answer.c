/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of subcommands; no state.
 */
#include "tools/answer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/report/report.h"
#include "tools/trace/clean.h"
#include "tools/units.h"
#include "tools/xalloc.h"

const struct soma_policy *
answer_policy(unsigned index)
{
	return index > 0 ? soma_policy_preset(replay_policy_names[index]) : NULL;
}

const char *
answer_operand(const struct command *command, int argc, char **argv, int first, int *status)
{
	if (argc - first == 1)
		return argv[first];
	*status = argc == first ? usage_error(command, "expected a trace")
				: usage_error(command, "expected one trace, got '%s' too", argv[first + 1]);
	return NULL;
}

static bool
look_at(const char *path, int standard, struct stat *file)
{
	return (strcmp(path, "-") == 0 ? fstat(standard, file) : stat(path, file)) == 0;
}

bool
answer_is_same_file(const char *output, const char *trace)
{
	struct stat a, b;

	return look_at(output, STDOUT_FILENO, &a) && look_at(trace, STDIN_FILENO, &b) && S_ISREG(a.st_mode) &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int
answer_error(const struct command *command, const char *text)
{
	fprintf(stderr, "soma %s: %s\n", command->name, text);
	return EXIT_INPUT;
}

struct trace_reader *
answer_open(const struct command *command, const char *path)
{
	return answer_open_upper(command, path, 0);
}

struct trace_reader *
answer_try_open(const char *path, unsigned upper, struct trace_error *error)
{
	struct trace_options options = { .upper_inclusive = upper == 1, .needs_allocations = true };
	struct trace_reader *reader;

	trace_open(path, &options, &reader, error);
	return reader;
}

struct trace_reader *
answer_open_upper(const struct command *command, const char *path, unsigned upper)
{
	struct trace_error error;
	struct trace_reader *reader = answer_try_open(path, upper, &error);

	if (reader == NULL)
		answer_error(command, error.text);
	return reader;
}

int
answer_engine_error(const struct command *command, const char *path, enum soma_status status,
		    const struct trace_error *error)
{
	char *shown;

	/* The readers' messages begin with the file's name. */
	if (status == SOMA_STATUS_PARSE || status == SOMA_STATUS_IO)
		return answer_error(command, error->text);
	shown = report_clean(path);
	fprintf(stderr, "soma %s: %s: %s\n", command->name, shown, error->text);
	free(shown);
	return status == SOMA_STATUS_INVALID_VALUE ? EXIT_USAGE : EXIT_INPUT;
}

void
answer_keep(struct trace_reader *reader)
{
	trace_keep(reader, (size_t)320 << 20);
}

int
answer_truncated(const struct command *command, bool truncated, const struct trace_error *error, bool partial)
{
	if (truncated && !partial)
		fprintf(stderr, "soma %s: warning: %s\n", command->name, error->text);
	return truncated && !partial ? EXIT_BAD_NEWS : EXIT_FINE;
}

bool
answer_session_truncated(const struct command *command, const struct replay_session *session)
{
	const struct trace_error *where = replay_truncation(session);

	return where != NULL && answer_truncated(command, true, where, false) != EXIT_FINE;
}

struct replay_options
answer_options(void)
{
	return (struct replay_options){ .release_threshold = UINT64_MAX, .device = REPLAY_DEVICE_ANY };
}

int
answer_check_size(const struct command *command, const char *option, uint64_t size)
{
	if (size <= SOMA_MODEL_ADDRESS_MAX)
		return -1;
	return usage_error(command, "--%s: expected at most %" PRIu64 " (256 TiB), got %" PRIu64, option,
			   SOMA_MODEL_ADDRESS_MAX, size);
}

char *
answer_event_text(char *buffer, uint64_t index)
{
	if (index == REPLAY_AT_START)
		snprintf(buffer, ANSWER_EVENT_MAX, "before the first event");
	else
		snprintf(buffer, ANSWER_EVENT_MAX, "event %" PRIu64, index);
	return buffer;
}

char *
answer_stream_text(char *buffer, uint64_t stream)
{
	snprintf(buffer, ANSWER_STREAM_MAX, stream < 65536 ? "%" PRIu64 : "0x%" PRIx64, stream);
	return buffer;
}

char *
answer_recorded(char *buffer, const struct replay_recorded *recorded)
{
	char first[UNITS_MAX], last[UNITS_MAX], count[UNITS_MAX];

	units_bytes(first, recorded->requested);
	if (recorded->count == 1)
		snprintf(buffer, ANSWER_RECORDED_MAX, "the request of %s that failed at event %" PRIu64, first,
			 recorded->event);
	else
		snprintf(buffer, ANSWER_RECORDED_MAX,
			 "the %s requests that failed, the first of %s at event %" PRIu64
			 ", the last of %s at event %" PRIu64,
			 units_count(count, recorded->count), first, recorded->event,
			 units_bytes(last, recorded->last_requested), recorded->last_event);
	return buffer;
}

char *
answer_holder(const struct trace_reader *reader, trace_name name)
{
	return report_holder(trace_name_text(reader, name));
}

void
answer_drop_place(char *name)
{
	size_t length = strlen(name);
	char *open = strrchr(name, '(');

	if (length > 0 && name[length - 1] == ')' && open != NULL && open - name >= 2 && open[-1] == ' ' &&
	    strchr(open, ':') != NULL)
		open[-1] = '\0';
}

json_t *
answer_difference(uint64_t after, uint64_t before)
{
	uint64_t most = INT64_MAX;

	if (after >= before)
		return report_number(after - before);
	return json_integer(before - after > most ? -INT64_MAX : -(json_int_t)(before - after));
}

json_t *
answer_text(const char *text)
{
	char *clean = report_clean(text);
	json_t *string = json_string(clean);

	free(clean);
	return string;
}

json_t *
answer_name(const struct trace_reader *reader, trace_name name)
{
	const char *text = trace_name_text(reader, name);

	return text[0] != '\0' ? answer_text(text) : json_null();
}

int
answer_print(const struct command *command, json_t *object, int status)
{
	bool written = json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) == 0 &&
		       putchar('\n') != EOF;

	json_decref(object);
	return written ? status : answer_error(command, "the report could not be written");
}

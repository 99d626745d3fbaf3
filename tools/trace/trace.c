/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers whatever the format: finding it, opening, one event after the other.
 * The formats themselves are in their own files.
 */
#include "tools/trace/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/trace/memory.h"
#include "tools/trace/reader.h"

/* Asked in this order. */
static const struct trace_format *const trace_formats[] = {
	&trace_format_pytorch, &trace_format_rmm,    &trace_format_soma,   &trace_format_placement,
	&trace_format_nsys,    &trace_format_umpire, &trace_format_kineto, &trace_format_stalloc,
};

#define FORMAT_COUNT (sizeof trace_formats / sizeof trace_formats[0])

const char *
trace_op_text(enum trace_op op)
{
	static const char *const text[] = {
#define X(name, text) [TRACE_##name] = text,
		TRACE_OP_MAP(X)
#undef X
	};

	return (unsigned)op < TRACE_OP_COUNT ? text[op] : "unknown";
}

/* ---- failures --------------------------------------------------------------- */

enum trace_result
trace_fail_byte(struct trace_reader *reader, uint64_t offset, const char *format, ...)
{
	char place[48];
	va_list args;

	snprintf(place, sizeof place, ": byte %llu", (unsigned long long)offset);
	va_start(args, format);
	trace_fail_text(&reader->failure, reader->input.path, place, format, args);
	va_end(args);
	return TRACE_ERROR;
}

enum trace_result
trace_fail_line(struct trace_reader *reader, uint64_t line, const char *format, ...)
{
	char place[48];
	va_list args;

	snprintf(place, sizeof place, ":%llu", (unsigned long long)line);
	va_start(args, format);
	trace_fail_text(&reader->failure, reader->input.path, place, format, args);
	va_end(args);
	return TRACE_ERROR;
}

/* The input's own end is kept where it says more: it failed, or the gzip file is cut. */
static enum trace_result
input_end(struct trace_reader *reader)
{
	return reader->input.state == TRACE_ERROR || reader->input.state == TRACE_TRUNCATED
		       ? reader->input.state
		       : TRACE_OK;
}

enum trace_result
trace_truncated_byte(struct trace_reader *reader, uint64_t offset)
{
	enum trace_result end = input_end(reader);

	if (end != TRACE_OK)
		return end;
	trace_fail_byte(reader, offset, "the file ends in the middle");
	return TRACE_TRUNCATED;
}

enum trace_result
trace_truncated_line(struct trace_reader *reader, uint64_t line)
{
	enum trace_result end = input_end(reader);

	if (end != TRACE_OK)
		return end;
	trace_fail_line(reader, line, "the file ends in the middle of a line");
	return TRACE_TRUNCATED;
}

enum trace_result
trace_no_memory(struct trace_reader *reader)
{
	return trace_fail_memory(&reader->failure, reader->input.path);
}

/* ---- opening ------------------------------------------------------------------ */

/* A dict or list, and its memo: how a snapshot begins in protocol 0 (text) or 1. */
static bool
is_old_pickle(const uint8_t *data, size_t size)
{
	if (size >= 3 && data[0] == '(')
		return (data[1] == 'd' || data[1] == 'l') && data[2] == 'p';
	return size >= 2 && (data[0] == '}' || data[0] == ']') && data[1] == 'q';
}

/* The last so many bytes begin a line at each bar: errors are cleaned of what breaks lines. */
static void
break_lines(char *text, size_t last)
{
	size_t length = strlen(text);

	for (char *at = length > last ? text + length - last : text; *at != '\0'; at++)
		if (*at == '|')
			*at = '\n';
}

static enum trace_result
format_unknown(struct trace_reader *reader, const char *wanted)
{
	const struct trace_input *in = &reader->input;
	char list[400];
	size_t used = 0;

	if (wanted == NULL && is_old_pickle(in->pos, (size_t)(in->end - in->pos)))
		return trace_fail(&reader->failure, in->path,
				  "byte 0: a pickle of protocol 0 or 1, expected one of protocol 2 to 5");
	for (size_t i = 0; i < FORMAT_COUNT; i++)
		used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
					 wanted == NULL ? "|  " : i > 0 ? ", " : "",
					 wanted != NULL ? trace_formats[i]->name : trace_formats[i]->hint);
	if (wanted != NULL)
		return trace_fail(&reader->failure, reader->input.path,
				  "unknown format \"%s\", expected one of %s", wanted, list);
	trace_fail(&reader->failure, in->path, "not a trace in a known format, expected one of%s", list);
	break_lines(reader->failure.text, used);
	return TRACE_ERROR;
}

static enum trace_result
find_format(struct trace_reader *reader, const char *wanted)
{
	struct trace_input *in = &reader->input;
	size_t size;

	if (!trace_input_have(in, TRACE_PROBE_SIZE) && in->state == TRACE_ERROR && in->pos == in->end)
		return TRACE_ERROR;
	size = (size_t)(in->end - in->pos);
	if (size == 0 && in->state == TRACE_TRUNCATED)
		return TRACE_TRUNCATED;
	if (size == 0)
		return trace_fail(&reader->failure, in->path,
				  "holds nothing when unpacked, expected a trace");
	for (size_t i = 0; i < FORMAT_COUNT && reader->format == NULL; i++)
		if (wanted != NULL ? strcmp(wanted, trace_formats[i]->name) == 0
				   : trace_formats[i]->probe(
					     in->pos, size < TRACE_PROBE_SIZE ? size : TRACE_PROBE_SIZE))
			reader->format = trace_formats[i];
	return reader->format != NULL ? TRACE_OK : format_unknown(reader, wanted);
}

static enum trace_result
open_reader(struct trace_reader *reader, const char *path, const struct trace_options *options)
{
	enum trace_result result;

	reader->input.fd = reader->input.source = -1;
	reader->input.path = path;
	reader->path = trace_resize(NULL, strlen(path) + 1);
	if (reader->path == NULL || !trace_names_init(&reader->names))
		return trace_no_memory(reader);
	strcpy(reader->path, path);
	reader->upper_inclusive = options != NULL && options->upper_inclusive;
	reader->needs_allocations = options != NULL && options->needs_allocations;
	result = trace_input_open(&reader->input, reader->path, &reader->failure);
	if (result == TRACE_OK)
		result = find_format(reader, options != NULL ? options->format : NULL);
	if (result == TRACE_OK)
		result = reader->format->open(reader);
	return result;
}

static enum trace_result
report(const struct trace_reader *reader, enum trace_result result, struct trace_error *error)
{
	if (result != TRACE_OK && result != TRACE_END && error != NULL)
		*error = reader->failure;
	return result;
}

enum trace_result
trace_open(const char *path, const struct trace_options *options, struct trace_reader **reader,
	   struct trace_error *error)
{
	struct trace_reader *opened = trace_zeroed(sizeof *opened);
	enum trace_result result;

	*reader = NULL;
	if (opened == NULL)
		return error != NULL ? trace_fail_memory(error, path) : TRACE_ERROR;
	result = report(opened, open_reader(opened, path, options), error);
	if (result == TRACE_OK)
		*reader = opened;
	else
		trace_close(opened);
	return result;
}

void
trace_close(struct trace_reader *reader)
{
	if (reader == NULL)
		return;
	if (!reader->shares) {
		if (reader->format != NULL)
			reader->format->close(reader);
		trace_input_close(&reader->input);
		trace_names_fini(&reader->names);
		trace_release(reader->path);
		if (reader->kept != NULL)
			trace_kept_clear(reader->kept);
		trace_release(reader->kept);
	}
	trace_release(reader);
}

/* ---- reading -------------------------------------------------------------------- */

static void
stop_keeping(struct trace_reader *reader)
{
	trace_kept_clear(reader->kept);
	trace_release(reader->kept);
	reader->kept = NULL;
	reader->keep_max = 0;
}

/* What cannot be kept is read from the file again. */
static void
keep(struct trace_reader *reader, const struct trace_event *event)
{
	if (reader->result == TRACE_ERROR ||
	    (reader->result == TRACE_OK && !trace_kept_put(reader->kept, event, reader->keep_max))) {
		stop_keeping(reader);
	} else if (reader->result != TRACE_OK) {
		reader->kept->end = reader->result;
		reader->kept->failure = reader->failure;
		reader->kept_whole = true;
	}
}

static enum trace_result
next_kept(struct trace_reader *reader, struct trace_event *event)
{
	if (trace_kept_next(reader->kept, &reader->cursor, event))
		return TRACE_OK;
	*event = (struct trace_event){ 0 };
	reader->failure = reader->kept->failure;
	return reader->kept->end;
}

enum trace_result
trace_next(struct trace_reader *reader, struct trace_event *event, struct trace_error *error)
{
	if (reader->result == TRACE_OK && reader->kept_whole) {
		reader->result = next_kept(reader, event);
	} else if (reader->result == TRACE_OK) {
		*event = (struct trace_event){ 0 };
		reader->result = trace_any_check(reader, reader->format->next(reader, event));
		event->index = reader->event_count;
		reader->event_count += reader->result == TRACE_OK;
		if (reader->result == TRACE_OK)
			trace_any_count(reader, event);
		if (reader->kept != NULL)
			keep(reader, event);
	}
	return report(reader, reader->result, error);
}

uint64_t
trace_ahead(const struct trace_reader *reader)
{
	return reader->kept_whole ? trace_kept_ahead(reader->kept, &reader->cursor) : 0;
}

static enum trace_result
rewind_input(struct trace_reader *reader)
{
	enum trace_result result = trace_input_rewind(&reader->input);

	reader->event_count = reader->passed_over = 0;
	memset(reader->counts, 0, sizeof reader->counts);
	if (reader->kept == NULL && reader->keep_max > 0)
		reader->kept = trace_zeroed(sizeof *reader->kept);
	else if (reader->kept != NULL)
		trace_kept_clear(reader->kept);
	return result == TRACE_OK ? reader->format->rewind(reader) : result;
}

enum trace_result
trace_rewind(struct trace_reader *reader, struct trace_error *error)
{
	reader->cursor = (struct trace_kept_cursor){ 0 };
	reader->result = reader->kept_whole ? TRACE_OK : rewind_input(reader);
	return report(reader, reader->result, error);
}

void
trace_keep(struct trace_reader *reader, size_t bytes_max)
{
	reader->keep_max = bytes_max;
	if (reader->event_count == 0 && reader->result == TRACE_OK && reader->kept == NULL && bytes_max > 0)
		reader->kept = trace_zeroed(sizeof *reader->kept);
}

struct trace_reader *
trace_share(const struct trace_reader *reader)
{
	struct trace_reader *shared = reader->kept_whole ? trace_zeroed(sizeof *shared) : NULL;

	if (shared == NULL)
		return NULL;
	*shared = *reader;
	shared->shares = true;
	shared->result = TRACE_OK;
	shared->cursor = (struct trace_kept_cursor){ 0 };
	return shared;
}

const char *
trace_format(const struct trace_reader *reader)
{
	return reader->format->name;
}

const char *
trace_name_text(const struct trace_reader *reader, trace_name name)
{
	return name < reader->names.count ? reader->names.text[name].text : "";
}

const struct trace_snapshot *
trace_snapshot(const struct trace_reader *reader)
{
	return reader->snapshot;
}

const char *
trace_upper(const struct trace_reader *reader)
{
	if (reader->format != &trace_format_placement)
		return NULL;
	return reader->upper_inclusive ? "inclusive" : "exclusive";
}

bool
trace_has_clock(const struct trace_reader *reader)
{
	return !reader->format->has_moments;
}

double
trace_progress(const struct trace_reader *reader)
{
	if (reader->result == TRACE_END)
		return 1.0;
	if (reader->kept_whole)
		return (double)reader->cursor.event / (double)(reader->kept->count + 1);
	return trace_input_progress(&reader->input);
}

bool
trace_is_of_pytorch(const struct trace_reader *reader)
{
	return reader->format->is_of_pytorch;
}

bool
trace_has_addresses(const struct trace_reader *reader)
{
	return reader->format->has_addresses;
}

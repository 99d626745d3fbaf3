/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns any trace into a numeric event list, for files that are published: names become
 * h1, h2, ... in order of first sight, times count from the first event, and details go.
 * Not installed; examples/SOURCES says how the examples are made with it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tools/trace/trace.h"

/* The number of each name, 0: not seen yet. */
struct classes {
	uint32_t *number;
	size_t capacity;
	uint32_t count;
};

static const char *
class_text(struct classes *classes, trace_name name, char text[16])
{
	text[0] = '\0';
	if (name >= classes->capacity) {
		size_t capacity = (size_t)name * 2 + 64;
		classes->number = realloc(classes->number, capacity * sizeof *classes->number);
		if (classes->number == NULL)
			abort();
		for (size_t i = classes->capacity; i < capacity; i++)
			classes->number[i] = 0;
		classes->capacity = capacity;
	}
	if (name != 0 && classes->number[name] == 0)
		classes->number[name] = ++classes->count;
	if (name != 0)
		snprintf(text, 16, "h%u", classes->number[name]);
	return text;
}

static enum trace_result
copy_events(struct trace_reader *reader, struct trace_writer *writer, struct trace_error *error)
{
	struct classes classes = { 0 };
	struct trace_event event;
	enum trace_result result;
	uint64_t first = 0;
	char text[16];

	while ((result = trace_next(reader, &event, error)) == TRACE_OK) {
		if (event.index == 0)
			first = event.time_ns;
		event.time_ns = event.time_ns > first ? event.time_ns - first : 0;
		trace_writer_put(writer, &event, class_text(&classes, event.holder, text), NULL);
	}
	free(classes.number);
	return result;
}

int
main(int argc, char **argv)
{
	struct trace_reader *reader;
	struct trace_writer *writer;
	struct trace_error error;
	enum trace_result copied;

	if (argc != 3) {
		fprintf(stderr, "usage: trace-numeric TRACE OUT.csv[.gz]\n");
		return 2;
	}
	if (trace_open(argv[1], NULL, &reader, &error) != TRACE_OK) {
		fprintf(stderr, "%s\n", error.text);
		return 3;
	}
	copied = trace_writer_open(argv[2], &writer, &error);
	if (copied == TRACE_OK)
		copied = copy_events(reader, writer, &error);
	if (copied != TRACE_END)
		fprintf(stderr, "%s\n", error.text);
	if (writer != NULL && trace_writer_close(writer, &error) != TRACE_OK) {
		fprintf(stderr, "%s\n", error.text);
		copied = TRACE_ERROR;
	}
	trace_close(reader);
	return copied == TRACE_END ? 0 : 3;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STAlloc's trace: one file a device, a line an event, "1 ADDRESS SIZE STREAM" for an
 * allocation and "0 ADDRESS SIZE STREAM" for a free.  It knows no times and no threads.
 *
 * Between them stands what the model does, "Iteration Index : 3" or "mlp->MoELayer Layer :
 * F-start": marks.
 */
#include "config.h" /* first: memmem */

#include <string.h>

#include "tools/trace/csv.h"
#include "tools/trace/lines.h"
#include "tools/trace/memory.h"

/* Decimal or 0x...; a null pointer may be printed as C libraries do. */
static bool
number_of(const char *word, size_t length, uint64_t *number)
{
	*number = 0;
	return (length == 5 && memcmp(word, "(nil)", 5) == 0) || csv_number(word, length, number);
}

static bool
is_event(struct lines *line)
{
	const char *word;
	size_t length;
	uint64_t number;

	if (!lines_word(line, &word, &length) || length != 1 || (*word != '0' && *word != '1'))
		return false;
	for (int i = 0; i < 3; i++)
		if (!lines_word(line, &word, &length) || !number_of(word, length, &number))
			return false;
	return line->length == 0;
}

static bool
says(const char *text, size_t length, const char *what)
{
	return memmem(text, length, what, strlen(what)) != NULL;
}

/* What the model does is said before the colon, and of what after it. */
static bool
is_mark(const char *text, size_t length)
{
	const char *colon = memchr(text, ':', length);
	size_t front = colon != NULL ? (size_t)(colon - text) : 0;

	return says(text, front, "Iteration Index") || says(text, front, "micro-batch") ||
	       says(text, front, "Layer");
}

/* Marks may come before the first event. */
static bool
stalloc_probe(const uint8_t *data, size_t size)
{
	struct lines line = { 0 };
	const uint8_t *end = data + size;

	line.text = lines_first(data, size, &line.length);
	while (line.text != NULL && is_mark(line.text, line.length)) {
		data = (const uint8_t *)line.text + line.length;
		line.text = lines_first(data, (size_t)(end - data), &line.length);
	}
	return line.text != NULL && is_event(&line);
}

static enum trace_result
stalloc_rewind(struct trace_reader *reader)
{
	lines_init(reader->state, reader);
	return TRACE_OK;
}

static enum trace_result
stalloc_open(struct trace_reader *reader)
{
	reader->state = trace_zeroed(sizeof(struct lines));
	return reader->state != NULL ? stalloc_rewind(reader) : trace_no_memory(reader);
}

static void
stalloc_close(struct trace_reader *reader)
{
	trace_release(reader->state);
}

static enum trace_result
read_op(struct lines *lines, enum trace_op *op)
{
	const char *word;
	size_t length;

	if (!lines_word(lines, &word, &length) || length != 1 || (*word != '0' && *word != '1'))
		return lines_fail(lines, "expected 1 (allocation) or 0 (free), got \"%.*s\"",
				  length < 40 ? (int)length : 40, word);
	*op = *word == '1' ? TRACE_ALLOC : TRACE_FREE;
	return TRACE_OK;
}

static enum trace_result
read_number(struct lines *lines, const char *what, uint64_t *number)
{
	const char *word;
	size_t length;

	if (!lines_word(lines, &word, &length))
		return lines_fail(lines, "expected the %s, got the end of the line", what);
	if (!number_of(word, length, number))
		return lines_fail(lines, "expected the %s as a number, got \"%.*s\"", what,
				  length < 40 ? (int)length : 40, word);
	return TRACE_OK;
}

static enum trace_result
read_name(struct lines *lines, const char *text, size_t length, trace_name *name)
{
	while (length > 0 && text[0] == ' ') {
		text++;
		length--;
	}
	while (length > 0 && text[length - 1] == ' ')
		length--;
	if (memchr(text, '\0', length) != NULL)
		return lines_fail(lines, "expected text without zero bytes");
	return trace_names_add(&lines->reader->names, text, length, name) ? TRACE_OK
									  : trace_no_memory(lines->reader);
}

static enum trace_result
read_mark(struct lines *lines, struct trace_event *event)
{
	const char *colon = memchr(lines->text, ':', lines->length);
	size_t front = (size_t)(colon - lines->text);
	enum trace_result result = read_name(lines, lines->text, front, &event->holder);

	event->op = TRACE_MARK;
	return result == TRACE_OK ? read_name(lines, colon + 1, lines->length - front - 1, &event->detail)
				  : result;
}

static enum trace_result
stalloc_next(struct trace_reader *reader, struct trace_event *event)
{
	struct lines *lines = reader->state;
	enum trace_result result = lines_next(lines);
	const char *word;
	size_t length;

	if (result == TRACE_OK && is_mark(lines->text, lines->length))
		return read_mark(lines, event);
	if (result == TRACE_OK)
		result = read_op(lines, &event->op);
	if (result == TRACE_OK)
		result = read_number(lines, "address", &event->ptr);
	if (result == TRACE_OK)
		result = read_number(lines, "size", &event->size);
	if (result == TRACE_OK)
		result = read_number(lines, "stream", &event->stream);
	if (result != TRACE_OK)
		return result;
	if (lines_word(lines, &word, &length))
		return lines_fail(lines, "expected 4 numbers, got \"%.*s\" behind them",
				  length < 40 ? (int)length : 40, word);
	return TRACE_OK;
}

const struct trace_format trace_format_stalloc = {
	.name = "stalloc",
	.hint = "an STAlloc trace (1 ADDRESS SIZE STREAM)",
	.allocations = "lines \"1 ADDRESS SIZE STREAM\"",
	.has_addresses = true,
	.probe = stalloc_probe,
	.open = stalloc_open,
	.next = stalloc_next,
	.rewind = stalloc_rewind,
	.close = stalloc_close,
};

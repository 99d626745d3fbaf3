/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and their words.  No allocation: everything stays in the input's buffer.
 */
#include "tools/trace/lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LINE_LIMIT ((size_t)16 << 20)

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

void
lines_init(struct lines *lines, struct trace_reader *reader)
{
	*lines = (struct lines){ .reader = reader };
}

static void
trim(const char **text, size_t *length)
{
	while (*length > 0 && is_blank(**text)) {
		(*text)++;
		(*length)--;
	}
	while (*length > 0 && is_blank((*text)[*length - 1]))
		(*length)--;
}

static enum trace_result
find_line(struct lines *lines)
{
	struct trace_input *in = &lines->reader->input;
	size_t scanned = 0;
	const uint8_t *newline;

	for (;;) {
		size_t left = (size_t)(in->end - in->pos) - scanned;

		newline = left > 0 ? memchr(in->pos + scanned, '\n', left) : NULL;
		if (newline != NULL)
			break;
		scanned += left;
		if (scanned > LINE_LIMIT)
			return trace_fail_line(lines->reader, lines->number, "a line of more than %zu bytes",
					       LINE_LIMIT);
		if (!trace_input_more(in))
			break;
	}
	if (newline == NULL && in->state != TRACE_END)
		return trace_truncated_line(lines->reader, lines->number);
	lines->cut = newline == NULL;
	lines->length = newline != NULL ? (size_t)(newline - in->pos) : scanned;
	lines->text = (const char *)in->pos;
	in->pos += lines->length + !lines->cut;
	return TRACE_OK;
}

enum trace_result
lines_next(struct lines *lines)
{
	do {
		struct trace_input *in = &lines->reader->input;
		enum trace_result result;

		lines->number++;
		if (!trace_input_have(in, 1) && in->state == TRACE_END)
			return TRACE_END;
		result = find_line(lines);
		if (result != TRACE_OK)
			return result;
		trim(&lines->text, &lines->length);
	} while (lines->length == 0 || lines->text[0] == '#');
	return TRACE_OK;
}

bool
lines_word(struct lines *lines, const char **word, size_t *length)
{
	size_t end = 0;

	trim(&lines->text, &lines->length);
	while (end < lines->length && !is_blank(lines->text[end]))
		end++;
	*word = lines->text;
	*length = end;
	lines->text += end;
	lines->length -= end;
	return end > 0;
}

enum trace_result
lines_fail(struct lines *lines, const char *format, ...)
{
	char text[320];
	va_list args;

	if (lines->cut)
		return trace_truncated_line(lines->reader, lines->number);
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return trace_fail_line(lines->reader, lines->number, "%s", text);
}

const char *
lines_first(const uint8_t *data, size_t size, size_t *length)
{
	const char *text = (const char *)data, *end = text + size;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *line = text;

		*length = (size_t)((newline != NULL ? newline : end) - text);
		text += *length + 1;
		trim(&line, length);
		if (*length > 0 && line[0] != '#')
			return line;
	}
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records and fields of comma-separated files.  No allocation: quoted fields are
 * unquoted in the input's own buffer.
 */
#include "tools/trace/csv.h"

#include <stdio.h>
#include <string.h>

#define RECORD_LIMIT ((size_t)1 << 20)

void
csv_init(struct csv *csv, struct trace_reader *reader)
{
	memset(csv, 0, sizeof *csv);
	csv->reader = reader;
	csv->next_line = 1;
}

/* What find_end() knows of quotes at a place in the record. */
struct quotes {
	bool open;
	size_t closed; /* directly behind the last one that ended a field */
};

/* A quote begins a field, or ends it, or, directly behind one that ended it, is the
 * second of a pair; anywhere else it is wrong, and csv_field() says so. */
static void
see_quote(struct quotes *quotes, const uint8_t *record, size_t at)
{
	if (quotes->open)
		quotes->closed = at + 1;
	quotes->open = !quotes->open && (at == 0 || record[at - 1] == ',' || at == quotes->closed);
}

/* The record's length without its newline: up to the first newline outside of quotes. */
static enum trace_result
find_end(struct csv *csv, size_t *length)
{
	struct trace_input *in = &csv->reader->input;
	struct quotes quotes = { 0 };
	size_t scanned = 0;

	csv->quoted = false;
	for (;;) {
		const uint8_t *from = in->pos + scanned, *quote;
		size_t left = (size_t)(in->end - from);
		const uint8_t *newline = memchr(from, '\n', left);
		size_t span = newline != NULL ? (size_t)(newline - from) : left;

		for (quote = from; (quote = memchr(quote, '"', span - (size_t)(quote - from))) != NULL;
		     quote++) {
			see_quote(&quotes, in->pos, (size_t)(quote - in->pos));
			csv->quoted = true;
		}
		scanned += span;
		if (newline != NULL) {
			csv->next_line++;
			*length = scanned;
			if (!quotes.open)
				return TRACE_OK;
			scanned++;
		}
		if (scanned > RECORD_LIMIT)
			return trace_fail_line(csv->reader, csv->line, "a line of more than %zu bytes",
					       RECORD_LIMIT);
		if (newline == NULL && !trace_input_more(in))
			break;
	}
	*length = scanned;
	csv->cut = true;
	return in->state == TRACE_END && !quotes.open ? TRACE_OK
						      : trace_truncated_line(csv->reader, csv->line);
}

enum trace_result
csv_record(struct csv *csv)
{
	struct trace_input *in = &csv->reader->input;
	size_t length;

	do {
		enum trace_result result;
		csv->line = csv->next_line;
		if (!trace_input_have(in, 1) && in->state == TRACE_END)
			return TRACE_END;
		result = find_end(csv, &length);
		if (result != TRACE_OK)
			return result;
		csv->pos = (char *)in->buffer + (in->pos - in->buffer);
		in->pos += length + !csv->cut;
		while (length > 0 && csv->pos[length - 1] == '\r')
			length--;
		csv->end = csv->pos + length;
		csv->begin = csv->pos;
	} while (length == 0);
	csv->more = true;
	return TRACE_OK;
}

static enum trace_result
fail(struct csv *csv, const char *text)
{
	return csv->cut ? trace_truncated_line(csv->reader, csv->line)
			: trace_fail_line(csv->reader, csv->line, "%s", text);
}

/* A quoted field: doubled quotes become one, in place. */
static enum trace_result
quoted_field(struct csv *csv, struct csv_field *field)
{
	char *from = csv->pos + 1, *to = from;

	field->text = to;
	for (; from < csv->end; from++) {
		if (*from == '"' && (from + 1 == csv->end || from[1] != '"'))
			break;
		from += *from == '"';
		*to++ = *from;
	}
	field->length = (size_t)(to - field->text);
	if (from == csv->end)
		return fail(csv, "expected a closing quote, got the end of the line");
	csv->pos = from + 1;
	if (csv->pos < csv->end && *csv->pos != ',')
		return fail(csv, "expected a comma behind the closing quote");
	return TRACE_OK;
}

/* Whatever would follow in a truncated file, it is wrong. */
static enum trace_result
stray_quote(struct csv *csv, const char *column, const char *quote)
{
	return trace_fail_line(
		csv->reader, csv->line,
		"a quote at byte %zu of the line, within column %s: a field with quotes stands in "
		"quotes, and each in it is doubled",
		(size_t)(quote - csv->begin) + 1, column);
}

enum trace_result
csv_field(struct csv *csv, const char *column, struct csv_field *field)
{
	char *at = csv->pos;

	if (!csv->more && csv->cut)
		return trace_truncated_line(csv->reader, csv->line);
	if (!csv->more)
		return trace_fail_line(csv->reader, csv->line, "expected column %s, got the end of the line",
				       column);
	if (at < csv->end && *at == '"') {
		enum trace_result result = quoted_field(csv, field);
		if (result != TRACE_OK)
			return result;
		at = csv->pos;
	} else {
		field->text = at;
		while (at < csv->end && *at != ',' && *at != '"')
			at++;
		if (at < csv->end && *at == '"')
			return stray_quote(csv, column, at);
		field->length = (size_t)(at - csv->pos);
	}
	csv->more = at < csv->end;
	csv->pos = at + csv->more;
	return TRACE_OK;
}

/* What is shown of a field in a message, which is cleaned as a whole. */
static void
show(const struct csv_field *field, char shown[64])
{
	size_t length = field->length < 40 ? field->length : 40;

	for (size_t i = 0; i < length; i++)
		shown[i] = field->text[i] != '\0' ? field->text[i] : '?';
	strcpy(shown + length, length < field->length ? "..." : "");
}

enum trace_result
csv_expected(struct csv *csv, const char *what, const char *column, const struct csv_field *got)
{
	char shown[64], text[256];

	show(got, shown);
	snprintf(text, sizeof text, "expected %s in column %s, got \"%s\"", what, column, shown);
	return fail(csv, text);
}

enum trace_result
csv_end(struct csv *csv, size_t columns)
{
	struct csv_field field;
	char text[128], shown[64];
	enum trace_result result;

	if (!csv->more)
		return TRACE_OK;
	result = csv_field(csv, "(behind the last)", &field);
	if (result != TRACE_OK)
		return result;
	show(&field, shown);
	snprintf(text, sizeof text, "expected %zu columns, got another one, \"%s\"", columns, shown);
	csv->cut = false;
	return fail(csv, text);
}

enum trace_result
csv_header(struct csv *csv, const char *const *columns, size_t count)
{
	enum trace_result result = csv_record(csv);
	struct csv_field field;

	for (size_t i = 0; result == TRACE_OK && i < count; i++) {
		result = csv_field(csv, columns[i], &field);
		if (result == TRACE_OK && !csv_is(&field, columns[i], strlen(columns[i])))
			result = csv_expected(csv, "its name", columns[i], &field);
	}
	return result == TRACE_OK ? csv_end(csv, count) : result;
}

bool
csv_probe(const uint8_t *data, size_t size, const char *const *columns)
{
	const uint8_t *end = data + size;

	for (int i = 0; i < 3; i++) {
		size_t length = strlen(columns[i]);
		bool quoted = data < end && *data == '"';
		data += quoted;
		if ((size_t)(end - data) < length + quoted + 1 || memcmp(data, columns[i], length) != 0)
			return false;
		data += length + quoted;
		if (*data++ != ',')
			return false;
	}
	return true;
}

bool
csv_hex(const char *text, size_t length, uint64_t *number)
{
	uint64_t value = 0;

	if (length == 0)
		return false;
	for (size_t i = 0; i < length; i++) {
		unsigned digit = (unsigned char)text[i];
		if (digit - '0' < 10)
			digit -= '0';
		else if ((digit | 0x20) - 'a' < 6)
			digit = (digit | 0x20) - 'a' + 10;
		else
			return false;
		if (value >> 60 != 0)
			return false;
		value = value << 4 | digit;
	}
	*number = value;
	return true;
}

bool
csv_number(const char *text, size_t length, uint64_t *number)
{
	uint64_t value = 0;

	if (length > 2 && text[0] == '0' && (text[1] | 0x20) == 'x')
		return csv_hex(text + 2, length - 2, number);
	if (length == 0)
		return false;
	for (size_t i = 0; i < length; i++) {
		unsigned digit = (unsigned char)text[i] - (unsigned)'0';
		if (digit > 9 || value > (UINT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*number = value;
	return true;
}

enum trace_result
csv_number_field(struct csv *csv, const char *column, uint64_t limit, uint64_t *number)
{
	struct csv_field field;
	enum trace_result result = csv_field(csv, column, &field);

	*number = 0;
	if (result != TRACE_OK || field.length == 0)
		return result;
	if (!csv_number(field.text, field.length, number))
		return csv_expected(csv, "a number", column, &field);
	return *number <= limit ? TRACE_OK : csv_expected(csv, "a smaller number", column, &field);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comma-separated lines (RFC 4180) for the readers of such formats: records, their
 * fields, numbers, and messages that name the line.
 *
 * Fields are read from the input's buffer in place and are good until the next record.
 */
#ifndef SOMA_TOOLS_TRACE_CSV_H
#define SOMA_TOOLS_TRACE_CSV_H

#include "tools/trace/reader.h"

struct csv {
	struct trace_reader *reader;
	uint64_t line; /* where the present record begins, from 1 */
	uint64_t next_line;
	char *begin;
	char *pos, *end; /* what is left of the record */
	bool quoted;     /* there is a quote in the record */
	bool more;       /* a field follows, perhaps an empty one */
	bool cut;        /* the input ended without a newline: a record that does not
			  * parse is a truncated one */
};

struct csv_field {
	char *text; /* not terminated */
	size_t length;
};

void csv_init(struct csv *csv, struct trace_reader *reader);

/* The next record that is not an empty line. */
enum trace_result csv_record(struct csv *csv);

/* The next field of the record; `column` names it in the message when there is none. */
enum trace_result csv_field(struct csv *csv, const char *column, struct csv_field *field);

/* There must be no further field. */
enum trace_result csv_end(struct csv *csv, size_t columns);

/* Reads the header and compares it with `columns`. */
enum trace_result csv_header(struct csv *csv, const char *const *columns, size_t count);

/* Whether a file's first line begins with the first three of the columns. */
bool csv_probe(const uint8_t *data, size_t size, const char *const *columns);

/* "PATH:LINE: expected WHAT in COLUMN, got ..." */
enum trace_result csv_expected(struct csv *csv, const char *what, const char *column,
			       const struct csv_field *got);

/* Decimal, or hexadecimal behind 0x; false: anything else, or above 2^64 - 1. */
bool csv_number(const char *text, size_t length, uint64_t *number);
bool csv_hex(const char *text, size_t length, uint64_t *number);

/* The next field as a number that is at most `limit`; an empty one is 0. */
enum trace_result csv_number_field(struct csv *csv, const char *column, uint64_t limit, uint64_t *number);

static inline bool
csv_is(const struct csv_field *field, const char *text, size_t length)
{
	return field->length == length && __builtin_memcmp(field->text, text, length) == 0;
}

#endif

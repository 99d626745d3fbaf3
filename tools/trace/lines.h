/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace of one event a line, for the formats that are not CSV: the lines, in the
 * input's buffer, and messages that name them.
 */
#ifndef SOMA_TOOLS_TRACE_LINES_H
#define SOMA_TOOLS_TRACE_LINES_H

#include "tools/trace/reader.h"

struct lines {
	struct trace_reader *reader;
	uint64_t number; /* of the present line, from 1 */
	bool cut;        /* the input ended without a newline: a line that does not parse is a
			  * truncated one */
	const char *text;
	size_t length;
};

void lines_init(struct lines *lines, struct trace_reader *reader);

/* The next line that is neither blank nor a comment (#), without blanks around it; good
 * until the one after it. */
enum trace_result lines_next(struct lines *lines);

/* Takes the next word of the line, up to a blank; false: there is none. */
bool lines_word(struct lines *lines, const char **word, size_t *length);

/* "PATH:LINE: ...", or that the file ends in the middle of its last line. */
enum trace_result lines_fail(struct lines *lines, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The first such line of a file's beginning, for probes; NULL without one. */
const char *lines_first(const uint8_t *data, size_t size, size_t *length);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a trace: a file, or anything that can only be read once (which is
 * copied to an unlinked temporary file on the way), through zlib when it is gzipped.
 *
 * A reader consumes [pos, end) directly and asks for more.
 */
#ifndef SOMA_TOOLS_TRACE_INPUT_H
#define SOMA_TOOLS_TRACE_INPUT_H

#include <stdarg.h>

#include "tools/trace/trace.h"

struct trace_input {
	const uint8_t *pos, *end; /* read and not consumed */
	uint8_t *buffer;
	size_t capacity;
	uint64_t base;           /* offset of `buffer` in the unpacked bytes */
	enum trace_result state; /* TRACE_OK: there may be more behind `end` */

	int fd;
	int source;                    /* still to be copied to fd; -1: all of it is there */
	uint64_t start, size;          /* the file's own bytes: first and number (so far) */
	uint64_t offset;               /* read so far */
	struct trace_inflate *inflate; /* NULL: not gzipped */

	const char *path;            /* for messages */
	struct trace_error *failure; /* of whoever owns this */
};

/* TRACE_OK or TRACE_ERROR.  `path` must outlive the input. */
enum trace_result trace_input_open(struct trace_input *input, const char *path, struct trace_error *failure);
void trace_input_close(struct trace_input *input);

/* From the first byte again. */
enum trace_result trace_input_rewind(struct trace_input *input);

/* For readers that need every byte at its place in `fd`: unpacks or copies all of the input
 * into a file, if it is not one.  TRACE_OK also when the input is only what was there. */
enum trace_result trace_input_spool(struct trace_input *input);

/* Adds at least one byte behind `end` (which may move everything), or says no and
 * leaves the reason in `state`: TRACE_END, TRACE_TRUNCATED, TRACE_ERROR. */
bool trace_input_more(struct trace_input *input);

/* Whether `count` bytes are there to be consumed. */
bool trace_input_wait(struct trace_input *input, size_t count);

static inline bool
trace_input_have(struct trace_input *input, size_t count)
{
	return (size_t)(input->end - input->pos) >= count || trace_input_wait(input, count);
}

/* Offset of `pos` in the unpacked bytes. */
static inline uint64_t
trace_input_offset(const struct trace_input *input)
{
	return input->base + (uint64_t)(input->pos - input->buffer);
}

double trace_input_progress(const struct trace_input *input);

/* Writes "PATHPLACE: ..." as a clean text; a long path loses its front. */
void trace_fail_text(struct trace_error *error, const char *path, const char *place, const char *format,
		     va_list args);

/* The same without a place; TRACE_ERROR. */
enum trace_result trace_fail(struct trace_error *error, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
enum trace_result trace_fail_memory(struct trace_error *error, const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes on their way to a file, through zlib when its name says so.  The same bytes in
 * give the same bytes out: the gzip header carries no time and no name.
 */
#include "tools/trace/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tools/trace/clean.h"
#include "tools/trace/memory.h"

#define BUFFER_SIZE (256 * 1024)
#define PACKED_SIZE (64 * 1024)

struct trace_sink {
	int fd;
	bool own_fd;
	int error; /* errno of the first failure */
	bool packing;
	z_stream stream;
	char *path;
	size_t used;
	char buffer[BUFFER_SIZE];
	uint8_t packed[PACKED_SIZE];
};

static void
write_bytes(struct trace_sink *sink, const void *data, size_t size)
{
	const char *from = data;

	while (size > 0 && sink->error == 0) {
		ssize_t put = write(sink->fd, from, size);
		if (put < 0 && errno != EINTR)
			sink->error = errno;
		if (put > 0) {
			from += put;
			size -= (size_t)put;
		}
	}
}

static void
pack(struct trace_sink *sink, int flush)
{
	z_stream *z = &sink->stream;
	int status;

	z->next_in = (Bytef *)sink->buffer;
	z->avail_in = (unsigned)sink->used;
	do {
		z->next_out = sink->packed;
		z->avail_out = PACKED_SIZE;
		status = deflate(z, flush);
		write_bytes(sink, sink->packed, PACKED_SIZE - z->avail_out);
	} while (sink->error == 0 && (z->avail_in > 0 || (flush == Z_FINISH && status == Z_OK)));
}

static void
flush_buffer(struct trace_sink *sink, int flush)
{
	if (sink->packing)
		pack(sink, flush);
	else
		write_bytes(sink, sink->buffer, sink->used);
	sink->used = 0;
}

/* ---- text ------------------------------------------------------------------- */

void
trace_sink_bytes(struct trace_sink *sink, const char *text, size_t length)
{
	while (length > 0) {
		size_t room = BUFFER_SIZE - sink->used, part = length < room ? length : room;
		memcpy(sink->buffer + sink->used, text, part);
		sink->used += part;
		text += part;
		length -= part;
		if (sink->used == BUFFER_SIZE)
			flush_buffer(sink, Z_NO_FLUSH);
	}
}

void
trace_sink_number(struct trace_sink *sink, uint64_t number, unsigned base)
{
	char digits[24], *at = digits + sizeof digits;

	do
		*--at = "0123456789abcdef"[number % base];
	while ((number /= base) != 0);
	if (base == 16) {
		*--at = 'x';
		*--at = '0';
	}
	trace_sink_bytes(sink, at, (size_t)(digits + sizeof digits - at));
}

void
trace_sink_string(struct trace_sink *sink, const char *text)
{
	trace_sink_bytes(sink, text, strlen(text));
}

/* The text of a file is any bytes, JSON's is UTF-8. */
static void
put_json_character(struct trace_sink *sink, const char *text, size_t length)
{
	if (*text == '"' || *text == '\\')
		trace_sink_bytes(sink, "\\", 1);
	trace_sink_bytes(sink, text, length);
}

void
trace_sink_json(struct trace_sink *sink, const char *text)
{
	char clean[256];

	trace_sink_bytes(sink, "\"", 1);
	while (*text != '\0') {
		size_t part = strnlen(text, sizeof clean - 1);

		/* Not in the middle of a character, unless nothing is one. */
		for (size_t back = 0;
		     text[part] != '\0' && ((unsigned char)text[part] & 0xc0) == 0x80 && back < 3; back++)
			part--;
		memcpy(clean, text, part);
		clean[part] = '\0';
		trace_clean(clean);
		for (const char *at = clean; *at != '\0'; at += trace_clean_character(at))
			put_json_character(sink, at, trace_clean_character(at));
		text += part;
	}
	trace_sink_bytes(sink, "\"", 1);
}

static void
put_escaped(struct trace_sink *sink, const char *text)
{
	for (const char *quote; (quote = strchr(text, '"')) != NULL; text = quote + 1) {
		trace_sink_bytes(sink, text, (size_t)(quote - text) + 1);
		trace_sink_bytes(sink, "\"", 1);
	}
	trace_sink_bytes(sink, text, strlen(text));
}

void
trace_sink_csv(struct trace_sink *sink, const char *before, const char *text)
{
	bool quote = text[strcspn(text, ",\"\r\n")] != '\0';

	if (quote)
		trace_sink_bytes(sink, "\"", 1);
	trace_sink_bytes(sink, before, strlen(before));
	put_escaped(sink, text);
	if (quote)
		trace_sink_bytes(sink, "\"", 1);
}

static bool
start_packing(struct trace_sink *sink)
{
	sink->stream.zalloc = trace_zlib_alloc;
	sink->stream.zfree = trace_zlib_release;
	sink->packing = deflateInit2(&sink->stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
				     Z_DEFAULT_STRATEGY) == Z_OK;
	return sink->packing;
}

static void
free_sink(struct trace_sink *sink)
{
	if (sink->packing)
		deflateEnd(&sink->stream);
	trace_release(sink->path);
	trace_release(sink);
}

static enum trace_result
open_file(struct trace_sink *sink, const char *path, struct trace_error *error)
{
	sink->own_fd = strcmp(path, "-") != 0;
	sink->fd = sink->own_fd ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : STDOUT_FILENO;
	if (sink->fd < 0)
		return trace_fail(error, path, "cannot open for writing: %s", strerror(errno));
	return TRACE_OK;
}

enum trace_result
trace_sink_open(const char *path, struct trace_sink **sink, struct trace_error *error)
{
	struct trace_sink *opened = trace_zeroed(sizeof *opened);
	const char *shown = strcmp(path, "-") == 0 ? "standard output" : path;
	size_t length = strlen(path);
	bool gzip = length > 3 && strcmp(path + length - 3, ".gz") == 0;
	enum trace_result result;

	*sink = NULL;
	if (opened == NULL)
		return trace_fail_memory(error, shown);
	opened->path = trace_resize(NULL, strlen(shown) + 1);
	if (opened->path == NULL || (gzip && !start_packing(opened))) {
		free_sink(opened);
		return trace_fail_memory(error, shown);
	}
	strcpy(opened->path, shown);
	result = open_file(opened, path, error);
	if (result != TRACE_OK) {
		free_sink(opened);
		return result;
	}
	*sink = opened;
	return TRACE_OK;
}

enum trace_result
trace_sink_close(struct trace_sink *sink, struct trace_error *error)
{
	enum trace_result result = TRACE_OK;

	flush_buffer(sink, Z_FINISH);
	if (sink->own_fd && close(sink->fd) != 0 && sink->error == 0)
		sink->error = errno;
	if (sink->error != 0)
		result = trace_fail(error, sink->path, "cannot write: %s", strerror(sink->error));
	free_sink(sink);
	return result;
}

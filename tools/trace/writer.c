/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes soma's own trace, see soma-trace(5).  The same events give the same bytes,
 * also gzipped: the gzip header carries no time and no name.
 *
 * Putting an event cannot fail; the first error is kept for trace_writer_close().
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tools/trace/input.h"
#include "tools/trace/memory.h"
#include "tools/trace/somacsv.h"

#define BUFFER_SIZE (256 * 1024)
#define PACKED_SIZE (64 * 1024)

struct trace_writer {
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
write_bytes(struct trace_writer *writer, const void *data, size_t size)
{
	const char *from = data;

	while (size > 0 && writer->error == 0) {
		ssize_t put = write(writer->fd, from, size);
		if (put < 0 && errno != EINTR)
			writer->error = errno;
		if (put > 0) {
			from += put;
			size -= (size_t)put;
		}
	}
}

static void
pack(struct trace_writer *writer, int flush)
{
	z_stream *z = &writer->stream;
	int status;

	z->next_in = (Bytef *)writer->buffer;
	z->avail_in = (unsigned)writer->used;
	do {
		z->next_out = writer->packed;
		z->avail_out = PACKED_SIZE;
		status = deflate(z, flush);
		write_bytes(writer, writer->packed, PACKED_SIZE - z->avail_out);
	} while (writer->error == 0 && (z->avail_in > 0 || (flush == Z_FINISH && status == Z_OK)));
}

static void
flush_buffer(struct trace_writer *writer, int flush)
{
	if (writer->packing)
		pack(writer, flush);
	else
		write_bytes(writer, writer->buffer, writer->used);
	writer->used = 0;
}

/* ---- text ------------------------------------------------------------------- */

static void
put_bytes(struct trace_writer *writer, const char *text, size_t length)
{
	while (length > 0) {
		size_t room = BUFFER_SIZE - writer->used, part = length < room ? length : room;
		memcpy(writer->buffer + writer->used, text, part);
		writer->used += part;
		text += part;
		length -= part;
		if (writer->used == BUFFER_SIZE)
			flush_buffer(writer, Z_NO_FLUSH);
	}
}

static void
put_number(struct trace_writer *writer, uint64_t number, unsigned base)
{
	char digits[24], *at = digits + sizeof digits;

	do
		*--at = "0123456789abcdef"[number % base];
	while ((number /= base) != 0);
	if (base == 16) {
		*--at = 'x';
		*--at = '0';
	}
	put_bytes(writer, at, (size_t)(digits + sizeof digits - at));
}

/* Nothing for 0, which an empty field reads as. */
static void
put_optional(struct trace_writer *writer, uint64_t number, unsigned base)
{
	if (number != 0)
		put_number(writer, number, base);
	put_bytes(writer, ",", 1);
}

static void
put_escaped(struct trace_writer *writer, const char *text)
{
	for (const char *quote; (quote = strchr(text, '"')) != NULL; text = quote + 1) {
		put_bytes(writer, text, (size_t)(quote - text) + 1);
		put_bytes(writer, "\"", 1);
	}
	put_bytes(writer, text, strlen(text));
}

static void
put_text(struct trace_writer *writer, const char *before, const char *text)
{
	bool quote = text[strcspn(text, ",\"\r\n")] != '\0';

	if (quote)
		put_bytes(writer, "\"", 1);
	put_bytes(writer, before, strlen(before));
	put_escaped(writer, text);
	if (quote)
		put_bytes(writer, "\"", 1);
}

/* ---- the writer ----------------------------------------------------------------- */

static bool
start_packing(struct trace_writer *writer)
{
	writer->stream.zalloc = trace_zlib_alloc;
	writer->stream.zfree = trace_zlib_release;
	writer->packing = deflateInit2(&writer->stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
				       Z_DEFAULT_STRATEGY) == Z_OK;
	return writer->packing;
}

static void
put_header(struct trace_writer *writer)
{
	for (size_t i = 0; i < TRACE_SOMA_COLUMNS; i++) {
		put_bytes(writer, i > 0 ? "," : "", i > 0);
		put_bytes(writer, trace_soma_columns[i], strlen(trace_soma_columns[i]));
	}
	put_bytes(writer, "\n", 1);
}

static void
free_writer(struct trace_writer *writer)
{
	if (writer->packing)
		deflateEnd(&writer->stream);
	trace_release(writer->path);
	trace_release(writer);
}

static enum trace_result
open_file(struct trace_writer *writer, const char *path, struct trace_error *error)
{
	writer->own_fd = strcmp(path, "-") != 0;
	writer->fd =
		writer->own_fd ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : STDOUT_FILENO;
	if (writer->fd < 0)
		return trace_fail(error, path, "cannot open for writing: %s", strerror(errno));
	return TRACE_OK;
}

enum trace_result
trace_writer_open(const char *path, struct trace_writer **writer, struct trace_error *error)
{
	struct trace_writer *opened = trace_zeroed(sizeof *opened);
	const char *shown = strcmp(path, "-") == 0 ? "standard output" : path;
	size_t length = strlen(path);
	bool gzip = length > 3 && strcmp(path + length - 3, ".gz") == 0;
	enum trace_result result;

	*writer = NULL;
	if (opened == NULL)
		return trace_fail_memory(error, shown);
	opened->path = trace_resize(NULL, strlen(shown) + 1);
	if (opened->path == NULL || (gzip && !start_packing(opened))) {
		free_writer(opened);
		return trace_fail_memory(error, shown);
	}
	strcpy(opened->path, shown);
	result = open_file(opened, path, error);
	if (result != TRACE_OK) {
		free_writer(opened);
		return result;
	}
	put_header(opened);
	*writer = opened;
	return TRACE_OK;
}

void
trace_writer_put(struct trace_writer *writer, const struct trace_event *event, const char *holder,
		 const char *detail)
{
	const char *op = trace_op_text(event->op);

	if (detail == NULL)
		detail = "";
	put_number(writer, event->time_ns, 10);
	put_bytes(writer, ",", 1);
	put_optional(writer, event->thread, 10);
	put_bytes(writer, op, strlen(op));
	put_bytes(writer, ",", 1);
	put_number(writer, (uint64_t)event->device, 10);
	put_bytes(writer, ",", 1);
	put_number(writer, event->stream, 10);
	put_bytes(writer, ",", 1);
	put_optional(writer, event->ptr, 16);
	put_optional(writer, event->size, 10);
	put_text(writer, "", holder != NULL ? holder : "");
	put_bytes(writer, ",", 1);
	put_optional(writer, event->generation, 10);
	if (event->deferred)
		put_text(writer, detail[0] != '\0' ? TRACE_SOMA_DEFERRED ";" : TRACE_SOMA_DEFERRED, detail);
	else
		put_text(writer, "", detail);
	put_bytes(writer, "\n", 1);
}

enum trace_result
trace_writer_close(struct trace_writer *writer, struct trace_error *error)
{
	enum trace_result result = TRACE_OK;

	flush_buffer(writer, Z_FINISH);
	if (writer->own_fd && close(writer->fd) != 0 && writer->error == 0)
		writer->error = errno;
	if (writer->error != 0)
		result = trace_fail(error, writer->path, "cannot write: %s", strerror(writer->error));
	free_writer(writer);
	return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and reading the bytes of a trace.  Reads go through pread, so a rewind
 * needs no seek and a shared file offset does not matter.
 *
 * Unpacking is in inflate.c.
 */
#include "config.h" /* first: secure_getenv */

#include "tools/trace/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/trace/clean.h"
#include "tools/trace/inflate.h"
#include "tools/trace/memory.h"

#define FIRST_CAPACITY (64 * 1024)
#define CAPACITY_LIMIT (64 * 1024 * 1024)
#define PATH_SHOWN 200

void
trace_fail_text(struct trace_error *error, const char *path, const char *place, const char *format,
		va_list args)
{
	size_t length = strlen(path);
	const char *cut = length > PATH_SHOWN ? "..." : "";
	int used;

	if (length > PATH_SHOWN)
		path += length - PATH_SHOWN;
	used = snprintf(error->text, sizeof error->text, "%s%s%s: ", cut, path, place);
	vsnprintf(error->text + used, sizeof error->text - (size_t)used, format, args);
	trace_clean(error->text);
}

enum trace_result
trace_fail(struct trace_error *error, const char *path, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	trace_fail_text(error, path, "", format, args);
	va_end(args);
	return TRACE_ERROR;
}

enum trace_result
trace_fail_memory(struct trace_error *error, const char *path)
{
	return trace_fail(error, path, "out of memory");
}

static enum trace_result
fail(struct trace_input *in, const char *what)
{
	return in->state = trace_fail(in->failure, in->path, "%s: %s", what, strerror(errno));
}

static int
temporary_file(void)
{
	const char *directory = secure_getenv("TMPDIR");
	char name[4096];
	int fd, length;

	if (directory == NULL || directory[0] == '\0')
		directory = "/tmp";
	length = snprintf(name, sizeof name, "%s/soma-XXXXXX", directory);
	if (length < 0 || (size_t)length >= sizeof name) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0)
		unlink(name);
	return fd;
}

static bool
write_all(int fd, const uint8_t *data, size_t size)
{
	while (size > 0) {
		ssize_t put = write(fd, data, size);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return false;
		data += put;
		size -= (size_t)put;
	}
	return true;
}

static ssize_t
read_some(int fd, uint8_t *data, size_t size, off_t offset)
{
	ssize_t got;

	do
		got = offset < 0 ? read(fd, data, size) : pread(fd, data, size, offset);
	while (got < 0 && errno == EINTR);
	return got;
}

/* What can be read only once is copied as it is read: replays take two passes.  Not
 * before, since what is no trace may have no end. */
static enum trace_result
start_copying(struct trace_input *in)
{
	in->source = in->fd;
	in->fd = temporary_file();
	return in->fd >= 0 ? TRACE_OK : fail(in, "cannot make a temporary file");
}

static ssize_t
copy_some(struct trace_input *in, uint8_t *data, size_t size)
{
	ssize_t got = read_some(in->source, data, size, -1);

	if (got < 0) {
		fail(in, "cannot read");
		return -1;
	}
	if (!write_all(in->fd, data, (size_t)got)) {
		fail(in, "cannot write to a temporary file");
		return -1;
	}
	if (got == 0) {
		close(in->source);
		in->source = -1;
	}
	in->size += (uint64_t)got;
	return got;
}

static enum trace_result
open_source(struct trace_input *in, bool standard_input, const char *path)
{
	struct stat status;
	off_t at;

	in->fd = standard_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
	if (in->fd < 0)
		return fail(in, "cannot open");
	if (fstat(in->fd, &status) != 0)
		return fail(in, "cannot open");
	if (S_ISDIR(status.st_mode))
		return in->state = trace_fail(in->failure, in->path, "is a directory, expected a trace");
	if (!S_ISREG(status.st_mode))
		return start_copying(in);
	at = standard_input ? lseek(in->fd, 0, SEEK_CUR) : 0;
	if (at < 0)
		return fail(in, "cannot read");
	in->start = (uint64_t)at;
	in->size = status.st_size > at ? (uint64_t)(status.st_size - at) : 0;
	(void)posix_fadvise(in->fd, at, 0, POSIX_FADV_SEQUENTIAL);
	return TRACE_OK;
}

static enum trace_result
open_checked(struct trace_input *in, bool standard_input)
{
	in->capacity = FIRST_CAPACITY;
	in->buffer = trace_resize(NULL, in->capacity);
	if (in->buffer == NULL)
		return trace_fail_memory(in->failure, in->path);
	in->pos = in->end = in->buffer;
	if (open_source(in, standard_input, in->path) != TRACE_OK)
		return TRACE_ERROR;
	if (!trace_input_wait(in, 2) && in->state == TRACE_ERROR)
		return TRACE_ERROR;
	if (in->pos == in->end)
		return trace_fail(in->failure, in->path, "is empty, expected a trace");
	if (in->end - in->pos < 2 || in->pos[0] != 0x1f || in->pos[1] != 0x8b)
		return TRACE_OK;
	in->inflate = trace_inflate_create();
	if (in->inflate == NULL)
		return trace_fail_memory(in->failure, in->path);
	return trace_input_rewind(in);
}

enum trace_result
trace_input_open(struct trace_input *in, const char *path, struct trace_error *failure)
{
	bool standard_input = strcmp(path, "-") == 0;

	memset(in, 0, sizeof *in);
	in->fd = in->source = -1;
	in->path = standard_input ? "standard input" : path;
	in->failure = failure;
	if (open_checked(in, standard_input) == TRACE_OK)
		return TRACE_OK;
	trace_input_close(in);
	return TRACE_ERROR;
}

void
trace_input_close(struct trace_input *in)
{
	trace_inflate_destroy(in->inflate);
	trace_release(in->buffer);
	if (in->fd >= 0)
		close(in->fd);
	if (in->source >= 0)
		close(in->source);
	in->inflate = NULL;
	in->buffer = NULL;
	in->fd = in->source = -1;
}

enum trace_result
trace_input_rewind(struct trace_input *in)
{
	in->pos = in->end = in->buffer;
	in->base = 0;
	in->offset = 0;
	in->state = TRACE_OK;
	if (in->inflate != NULL)
		trace_inflate_reset(in->inflate);
	return TRACE_OK;
}

/* Room behind `end`: what is left moves to the front, and a buffer that is full grows.
 * It grows only when full of bytes that were really there. */
static bool
make_room(struct trace_input *in)
{
	size_t left = (size_t)(in->end - in->pos), capacity = in->capacity;
	uint8_t *buffer;

	if (in->pos != in->buffer) {
		in->base += (uint64_t)(in->pos - in->buffer);
		memmove(in->buffer, in->pos, left);
	}
	if (left == capacity && capacity >= CAPACITY_LIMIT) {
		in->state = trace_fail(in->failure, in->path, "byte %llu: an item of more than %d MiB",
				       (unsigned long long)in->base, CAPACITY_LIMIT >> 20);
	} else if (left == capacity) {
		buffer = trace_resize(in->buffer, capacity * 2);
		if (buffer != NULL) {
			in->buffer = buffer;
			in->capacity = capacity * 2;
		} else {
			in->state = trace_fail_memory(in->failure, in->path);
		}
	}
	in->pos = in->buffer;
	in->end = in->buffer + left;
	return in->state == TRACE_OK;
}

/* The file's own bytes. */
ssize_t
trace_input_raw(struct trace_input *in, uint8_t *data, size_t size)
{
	ssize_t got;

	if (in->source >= 0 && in->offset == in->size) {
		got = copy_some(in, data, size);
	} else {
		got = read_some(in->fd, data, size, (off_t)(in->start + in->offset));
		if (got < 0)
			fail(in, "cannot read");
	}
	in->offset += got > 0 ? (uint64_t)got : 0;
	return got;
}

bool
trace_input_more(struct trace_input *in)
{
	uint8_t *room;
	ssize_t got;

	if (in->state != TRACE_OK || !make_room(in))
		return false;
	room = in->buffer + (in->end - in->buffer);
	if (in->inflate != NULL)
		got = trace_inflate_read(in->inflate, in, room,
					 in->capacity - (size_t)(in->end - in->buffer));
	else
		got = trace_input_raw(in, room, in->capacity - (size_t)(in->end - in->buffer));
	if (got > 0)
		in->end += got;
	else if (in->state == TRACE_OK)
		in->state = TRACE_END;
	return got > 0;
}

bool
trace_input_wait(struct trace_input *in, size_t count)
{
	while ((size_t)(in->end - in->pos) < count)
		if (!trace_input_more(in))
			return false;
	return true;
}

/* The rest of a pipe is copied as it is read. */
static enum trace_result
spool_pipe(struct trace_input *in)
{
	while (in->source >= 0) {
		in->pos = in->end;
		if (!trace_input_more(in))
			break;
	}
	return in->state == TRACE_ERROR ? TRACE_ERROR : trace_input_rewind(in);
}

static enum trace_result
spool_unpacked(struct trace_input *in, int fd)
{
	uint64_t size = 0;

	do {
		size_t have = (size_t)(in->end - in->pos);

		if (!write_all(fd, in->pos, have))
			return fail(in, "cannot write to a temporary file");
		size += have;
		in->pos = in->end;
	} while (trace_input_more(in));
	if (in->state != TRACE_END)
		return in->state;
	trace_inflate_destroy(in->inflate);
	in->inflate = NULL;
	in->start = 0;
	in->size = size;
	return TRACE_OK;
}

enum trace_result
trace_input_spool(struct trace_input *in)
{
	enum trace_result result;
	int fd;

	if (in->inflate == NULL)
		return spool_pipe(in);
	trace_input_rewind(in);
	fd = temporary_file();
	if (fd < 0)
		return fail(in, "cannot make a temporary file");
	result = spool_unpacked(in, fd);
	if (result != TRACE_OK) {
		close(fd);
		return result;
	}
	close(in->fd);
	in->fd = fd;
	return trace_input_rewind(in);
}

double
trace_input_progress(const struct trace_input *in)
{
	uint64_t waiting =
		in->inflate != NULL ? trace_inflate_waiting(in->inflate) : (uint64_t)(in->end - in->pos);

	if (in->source >= 0)
		return 0.0; /* nobody knows how much is to come */
	if (in->size == 0 || in->offset - waiting >= in->size)
		return 1.0;
	return (double)(in->offset - waiting) / (double)in->size;
}

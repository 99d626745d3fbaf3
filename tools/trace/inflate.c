/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip through zlib.  A file that stops inside a member is truncated; a member that
 * does not check is an error at its place in the packed file.
 */
#include "tools/trace/inflate.h"

#include <string.h>
#include <zlib.h>

#include "tools/trace/memory.h"

#define RAW_SIZE (64 * 1024)

struct trace_inflate {
	z_stream stream;
	bool inside; /* of a member */
	uint8_t raw[RAW_SIZE];
};

struct trace_inflate *
trace_inflate_create(void)
{
	struct trace_inflate *inf = trace_zeroed(sizeof *inf);

	if (inf == NULL)
		return NULL;
	inf->stream.zalloc = trace_zlib_alloc;
	inf->stream.zfree = trace_zlib_release;
	if (inflateInit2(&inf->stream, 15 + 16) != Z_OK) {
		trace_release(inf);
		return NULL;
	}
	return inf;
}

void
trace_inflate_destroy(struct trace_inflate *inf)
{
	if (inf == NULL)
		return;
	inflateEnd(&inf->stream);
	trace_release(inf);
}

void
trace_inflate_reset(struct trace_inflate *inf)
{
	inflateReset(&inf->stream);
	inf->stream.avail_in = 0;
	inf->inside = false;
}

uint64_t
trace_inflate_waiting(const struct trace_inflate *inf)
{
	return inf->stream.avail_in;
}

static enum trace_result
refuse(const struct trace_inflate *inf, struct trace_input *in, const char *what)
{
	uint64_t at = in->offset - inf->stream.avail_in;

	return in->state = trace_fail(in->failure, in->path, "byte %llu of the gzip file: %s",
				      (unsigned long long)at, what);
}

/* Between members: more of them, zero padding, or the end. */
static bool
next_member(struct trace_inflate *inf, struct trace_input *in)
{
	z_stream *z = &inf->stream;

	while (z->avail_in > 0 && *z->next_in == 0) {
		z->next_in++;
		z->avail_in--;
	}
	if (z->avail_in == 0)
		return true;
	if (*z->next_in != 0x1f) {
		refuse(inf, in, "expected the end or another gzip member");
		return false;
	}
	inflateReset(z);
	inf->inside = true;
	return true;
}

/* false: nothing more will come. */
static bool
refill(struct trace_inflate *inf, struct trace_input *in)
{
	ssize_t got;

	if (inf->stream.avail_in == 0) {
		got = trace_input_raw(in, inf->raw, sizeof inf->raw);
		if (got == 0 && inf->inside) {
			in->state = TRACE_TRUNCATED;
			trace_fail(in->failure, in->path,
				   "the gzip file ends in the middle, after %llu bytes",
				   (unsigned long long)in->offset);
		}
		if (got <= 0)
			return false;
		inf->stream.next_in = inf->raw;
		inf->stream.avail_in = (unsigned)got;
	}
	return inf->inside || next_member(inf, in);
}

ssize_t
trace_inflate_read(struct trace_inflate *inf, struct trace_input *in, uint8_t *data, size_t size)
{
	z_stream *z = &inf->stream;
	int status;

	z->next_out = data;
	z->avail_out = (unsigned)size;
	while ((size_t)(z->next_out - data) == 0 && refill(inf, in)) {
		if (!inf->inside)
			continue;
		status = inflate(z, Z_NO_FLUSH);
		if (status == Z_STREAM_END) {
			inf->inside = false;
		} else if (status != Z_OK && status != Z_BUF_ERROR) {
			if (status == Z_MEM_ERROR)
				in->state = trace_fail_memory(in->failure, in->path);
			else
				refuse(inf, in, z->msg != NULL ? z->msg : "not gzip");
			break;
		}
	}
	return z->next_out - data;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks gzip, one member after the other, as trace_input reads.
 */
#ifndef SOMA_TOOLS_TRACE_INFLATE_H
#define SOMA_TOOLS_TRACE_INFLATE_H

#include <sys/types.h>

#include "tools/trace/input.h"

struct trace_inflate *trace_inflate_create(void); /* NULL: no memory */
void trace_inflate_destroy(struct trace_inflate *inflate);
void trace_inflate_reset(struct trace_inflate *inflate);

/* At most `size` unpacked bytes; 0 or -1 with the reason in input->state, where
 * TRACE_OK is the regular end. */
ssize_t trace_inflate_read(struct trace_inflate *inflate, struct trace_input *input, uint8_t *data,
			   size_t size);

/* Packed bytes read from the file and not unpacked yet. */
uint64_t trace_inflate_waiting(const struct trace_inflate *inflate);

/* trace_input's own: the file's bytes as they are. */
ssize_t trace_input_raw(struct trace_input *input, uint8_t *data, size_t size);

#endif

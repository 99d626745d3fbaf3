/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a converted trace goes: a file or standard output, gzipped when its name ends in
 * ".gz".  Putting cannot fail; the first error is kept for trace_sink_close().
 */
#ifndef SOMA_TOOLS_TRACE_SINK_H
#define SOMA_TOOLS_TRACE_SINK_H

#include "tools/trace/input.h"

struct trace_sink;

/* "-": standard output. */
enum trace_result trace_sink_open(const char *path, struct trace_sink **sink, struct trace_error *error);
enum trace_result trace_sink_close(struct trace_sink *sink, struct trace_error *error);

void trace_sink_bytes(struct trace_sink *sink, const char *text, size_t length);
void trace_sink_string(struct trace_sink *sink, const char *text);
void trace_sink_number(struct trace_sink *sink, uint64_t number, unsigned base);

/* A field of a CSV file, `before` and the text, in quotes where it must be. */
void trace_sink_csv(struct trace_sink *sink, const char *before, const char *text);

/* A text of JSON, with its quotes. */
void trace_sink_json(struct trace_sink *sink, const char *text);

#endif

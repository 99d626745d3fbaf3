/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the reader of Umpire's replay logs share.
 */
#ifndef SOMA_TOOLS_TRACE_UMPIRE_H
#define SOMA_TOOLS_TRACE_UMPIRE_H

#include <jansson.h>

#include "tools/trace/lines.h"
#include "tools/trace/map.h"

struct umpire_reader {
	struct lines lines;
	struct trace_map allocators; /* by reference: other = device, name */
	struct trace_map names;      /* allocators by name: other = device */
	struct trace_map live;       /* by address: number = size, other = device, more = stream, name */
	struct trace_map nothing;    /* blocks of no bytes by address: number = how many */
	struct trace_map streams;    /* by the text of the resource: number = the stream */
	int32_t resources;
	/* The reallocation that was requested and has no result yet */
	bool moving, moved; /* moved: its allocation was logged */
	uint64_t from, size;
	struct trace_event second; /* to be given out next */
	bool has_second;
};

/* What both dialects say. */
struct umpire_call {
	const json_t *line;
	const char *name;
	const json_t *arguments; /* numbers and texts of the request */
	const json_t *numbers;
	const json_t *result; /* NULL: this line is only the request */
	uint64_t time;
	uint64_t stream; /* 0: the call names none */
	bool old;        /* the dialect */
};

/* The named member as a number; a null pointer may be printed as the C library does. */
enum trace_result umpire_need(struct umpire_reader *umpire, const struct umpire_call *call,
			      const json_t *object, const char *key, uint64_t *number);

/* The stream that the call names, when it does. */
enum trace_result umpire_stream(struct umpire_reader *umpire, struct umpire_call *call);

/* The allocator that the call names, or NULL. */
const struct trace_map_entry *umpire_allocator(struct umpire_reader *umpire, const struct umpire_call *call);

/* Calls that make one: no event. */
enum trace_result umpire_make_resource(struct umpire_reader *umpire, const struct umpire_call *call,
				       struct trace_event *event, bool *made);
enum trace_result umpire_make_allocator(struct umpire_reader *umpire, const struct umpire_call *call,
					struct trace_event *event, bool *made);

#endif

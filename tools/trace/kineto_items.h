/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chrome's trace events in a file, one by one, as text.
 */
#ifndef SOMA_TOOLS_TRACE_KINETO_ITEMS_H
#define SOMA_TOOLS_TRACE_KINETO_ITEMS_H

#include "tools/trace/reader.h"

#define KINETO_EVENTS "\"traceEvents\""

/* Begins with its reader and zeros, the input at its first byte. */
struct kineto_items {
	struct trace_reader *reader;
	bool begun;   /* the file's first byte was read */
	bool bare;    /* the events' array is all there is */
	bool inside;  /* in the array of events */
	bool over;    /* the array was read */
	size_t taken; /* bytes of the item that was given out: it stands at the input's pos */
};

/* The next item of the array of events, until the next call; TRACE_END: that was all. */
enum trace_result kineto_item(struct kineto_items *items, const char **text, size_t *length);

#endif

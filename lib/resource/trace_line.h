/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One event of soma's own trace as text, see soma-trace(5).  No state, no locks, no allocation.
 */
#ifndef SOMA_LIB_RESOURCE_TRACE_LINE_H
#define SOMA_LIB_RESOURCE_TRACE_LINE_H

#include <stddef.h>
#include <stdint.h>

enum soma__trace_op {
	SOMA__TRACE_ALLOC,
	SOMA__TRACE_FREE,
	SOMA__TRACE_FREE_COMPLETED,
	SOMA__TRACE_ALLOC_FAILED,
	SOMA__TRACE_USE,
	SOMA__TRACE_SYNC,
	SOMA__TRACE_RECORD,
	SOMA__TRACE_WAIT,
	SOMA__TRACE_MARK,
};

enum soma__trace_detail {
	SOMA__TRACE_PLAIN,
	SOMA__TRACE_ORDERED,  /* a free: its memory is given out again in order alone */
	SOMA__TRACE_DEFERRED, /* the same, and the free completes later */
	SOMA__TRACE_READ,
	SOMA__TRACE_WRITE,
	SOMA__TRACE_READ_WRITE,
	SOMA__TRACE_FREE_FAILED, /* an alloc that undoes the free before it */
	SOMA__TRACE_EVENT,       /* a sync with an event alone */
};

struct soma__trace_event {
	uint64_t time_ns;
	uint64_t stream;
	uint64_t ptr;
	uint64_t size;
	uint64_t generation;
	uint32_t thread;
	uint32_t lost; /* events that were dropped just before this one */
	uint16_t tag;
	uint8_t op;
	uint8_t detail;
};

#define SOMA__TRACE_HEADER "time,thread,op,device,stream,ptr,size,tag,generation,detail\n"

/* More than any line can be: every byte of the longest tag doubled, and the numbers. */
#define SOMA__TRACE_LINE_MAX 512

/* Writes a line with its newline to `line`; its length. */
size_t soma__trace_line(char line[SOMA__TRACE_LINE_MAX], int device, const struct soma__trace_event *event);

/* The line that says that `lost` events are missing here. */
size_t soma__trace_lost_line(char line[SOMA__TRACE_LINE_MAX], int device, uint64_t time_ns, uint64_t lost);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was there before the first event of a trace, on all its devices, as a replay begins
 * with: for `soma convert`, whose outputs have no snapshot of the end to rewind.
 */
#ifndef SOMA_TOOLS_STARTS_H
#define SOMA_TOOLS_STARTS_H

#include "tools/trace/trace.h"

struct starts {
	struct trace_snapshot snapshot; /* of the start */
	size_t room;
	uint64_t unknown; /* segments of the reader's snapshot from which no start could be made */
	bool pools;       /* some memory is of a private pool */
	struct starts_device *devices;
	size_t device_count, device_room;
};

/* Reads the trace, unless it has no snapshot; the reader is to be rewound. */
enum trace_result starts_find(struct starts *starts, struct trace_reader *reader, struct trace_error *error);

/* An event that does not say whose memory it is, and the snapshot does, says so. */
void starts_fill_pool(const struct starts *starts, struct trace_event *event);

void starts_fini(struct starts *starts);

#endif

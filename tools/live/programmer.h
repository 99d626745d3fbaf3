/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a trace's events into a program, one after the other.
 */
#ifndef SOMA_TOOLS_LIVE_PROGRAMMER_H
#define SOMA_TOOLS_LIVE_PROGRAMMER_H

#include "tools/engine/table.h"
#include "tools/live/program.h"

struct programmer {
	struct program *program; /* is filled */
	struct trace_reader *reader;
	uint64_t scale;
	struct table blocks;  /* by the trace's address */
	struct table streams; /* by the trace's handle */
	struct table markers; /* the same */
	uint32_t *spare;      /* numbers of blocks that are not in use */
	size_t spare_count, spare_room;
	uint32_t *tags; /* by trace_name; 0: not looked up */
	size_t tag_room;
	uint64_t bytes, count; /* live */
};

void programmer_init(struct programmer *p, struct program *program, struct trace_reader *reader,
		     uint64_t scale, bool legacy);
void programmer_fini(struct programmer *p);

void programmer_put(struct programmer *p, const struct trace_event *event);

#endif

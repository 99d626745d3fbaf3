/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned texts: equal texts get the same small number, 0 is "no name".  Numbers are
 * given in order of first sight, so they do not depend on the machine.
 */
#ifndef SOMA_TOOLS_TRACE_NAMES_H
#define SOMA_TOOLS_TRACE_NAMES_H

#include "tools/trace/trace.h"

struct trace_text {
	const char *text;
	uint32_t length;
	uint32_t hash;
};

struct trace_names {
	struct trace_text *text; /* [0] is "" */
	size_t count, capacity;
	uint32_t *slot; /* open addressing, 0: empty */
	size_t slot_count;
	struct trace_names_chunk *chunk;
	uint64_t seed; /* keeps a crafted file from choosing collisions */
};

/* false: no memory. */
bool trace_names_init(struct trace_names *names);
void trace_names_fini(struct trace_names *names);

/* The empty text is 0.  false: no memory, or more than 2^32 - 1 names. */
bool trace_names_add(struct trace_names *names, const char *text, size_t length, trace_name *name);

#endif

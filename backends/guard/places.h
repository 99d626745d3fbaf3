/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file each of some code addresses is in, and where in it, as addr2line(1) takes it: by the list
 * of the process's mappings.  For a handler of signals: open, read, pread and close, and nothing of the C library's
 * that is not safe there.  No locks, and no memory but the caller's.
 */
#ifndef SOMA_BACKENDS_GUARD_PLACES_H
#define SOMA_BACKENDS_GUARD_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include "backends/guard/stacks.h"

#define PLACES_MAX (1 + 2 * STACK_FRAMES_MAX) /* an access, and two stacks */

struct place {
	uint64_t address;
	const char *file; /* its path, in `names`; NULL: the address is in none, or that is not known */
	uint64_t offset;  /* what the address was when the file was linked */
};

struct places {
	uint32_t count;
	struct place at[PLACES_MAX];
	size_t names_used;
	char names[8192];
	char lines[8192]; /* of the list, as they are read */
};

/* Without more room it is not added. */
void places_add(struct places *places, uint64_t address);

/* Of the process.  Without /proc, or a descriptor to read it by, no file is known. */
void places_find(struct places *places);

/* The same by a list like /proc/self/maps and memory like /proc/self/mem. */
void places_read(struct places *places, int maps, int memory);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for the command's own bookkeeping.  A command without memory cannot go on:
 * it says so and ends with the status for bad input.  The library never does that.
 */
#ifndef SOMA_TOOLS_XALLOC_H
#define SOMA_TOOLS_XALLOC_H

#include <stddef.h>

void *xcalloc(size_t count, size_t size);
void *xreallocarray(void *memory, size_t count, size_t size);
char *xstrdup(const char *text);

/* What somebody else allocated; NULL: there was no memory for it, and the command ends. */
void *xchecked(void *memory);

/* Makes room for one more in a growing array: `*room` elements of `size` bytes are
 * there, `count` are used.  Returns the array, moved or not. */
void *xgrow(void *array, size_t *room, size_t count, size_t size);

#endif

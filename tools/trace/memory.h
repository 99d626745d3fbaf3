/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the readers' memory comes from: one seam, so that a test can count and fail
 * allocations.  Everything in tools/trace allocates through it, zlib and SQLite included,
 * jansson not.
 *
 * The seam is process-wide and is set before the first reader is opened.
 */
#ifndef SOMA_TOOLS_TRACE_MEMORY_H
#define SOMA_TOOLS_TRACE_MEMORY_H

#include <stddef.h>

struct trace_allocator {
	void *(*resize)(void *context, void *memory, size_t size); /* as realloc; NULL: no memory */
	void (*release)(void *context, void *memory);
	void *context;
};

/* NULL: the C library's. */
void trace_set_allocator(const struct trace_allocator *allocator);

void *trace_resize(void *memory, size_t size);
void *trace_zeroed(size_t size);
void trace_release(void *memory);

/* The same as zlib calls it. */
void *trace_zlib_alloc(void *context, unsigned count, unsigned size);
void trace_zlib_release(void *context, void *memory);

/* Makes room for at least `want` items of `size` bytes in *memory, at least doubling
 * *capacity.  On failure nothing changes. */
int trace_reserve(void **memory, size_t *capacity, size_t want, size_t size);

#endif

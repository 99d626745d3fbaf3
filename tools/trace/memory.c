/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocation seam of the trace readers.  Not thread-safe to set.
 */
#include "tools/trace/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *
libc_resize(void *context, void *memory, size_t size)
{
	(void)context;
	return realloc(memory, size);
}

static void
libc_release(void *context, void *memory)
{
	(void)context;
	free(memory);
}

static const struct trace_allocator libc_allocator = { .resize = libc_resize, .release = libc_release };
static struct trace_allocator current = { .resize = libc_resize, .release = libc_release };

void
trace_set_allocator(const struct trace_allocator *allocator)
{
	current = allocator != NULL ? *allocator : libc_allocator;
}

void *
trace_resize(void *memory, size_t size)
{
	return current.resize(current.context, memory, size != 0 ? size : 1);
}

void *
trace_zeroed(size_t size)
{
	void *memory = trace_resize(NULL, size);

	if (memory != NULL)
		memset(memory, 0, size);
	return memory;
}

void
trace_release(void *memory)
{
	if (memory != NULL)
		current.release(current.context, memory);
}

void *
trace_zlib_alloc(void *context, unsigned count, unsigned size)
{
	(void)context;
	return trace_zeroed((size_t)count * size);
}

void
trace_zlib_release(void *context, void *memory)
{
	(void)context;
	trace_release(memory);
}

int
trace_reserve(void **memory, size_t *capacity, size_t want, size_t size)
{
	size_t room = *capacity != 0 ? *capacity : 16;
	void *grown;

	if (want <= *capacity)
		return 1;
	while (room < want && room <= SIZE_MAX / 2)
		room *= 2;
	if (room < want || room > SIZE_MAX / size)
		return 0;
	grown = trace_resize(*memory, room * size);
	if (grown == NULL)
		return 0;
	*memory = grown;
	*capacity = room;
	return 1;
}

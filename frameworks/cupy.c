/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CuPy's CFunctionAllocator, which says a device and no stream.  Its `param` is the handle of the stream in whose order
 * blocks are made and freed: 0 for the legacy default stream, which is in order with all streams but non-blocking
 * ones.  For work on a non-blocking stream there is an allocator with that stream's handle.
 */
#include "frameworks/framework.h"

#pragma GCC visibility push(default)
void *soma_cupy_malloc(void *param, size_t size, int device);
void soma_cupy_free(void *param, void *ptr, int device);
void soma_cupy_trim(void);
int soma_cupy_stats(int device, char *json, size_t size);
const char *soma_cupy_error(void);
int soma_cupy_flush(void);
#pragma GCC visibility pop

void *
soma_cupy_malloc(void *param, size_t size, int device)
{
	return framework_take(device, size, (uintptr_t)param);
}

void
soma_cupy_free(void *param, void *ptr, int device)
{
	(void)device;
	framework_give(ptr, (uintptr_t)param);
}

void
soma_cupy_trim(void)
{
	framework_trim();
}

int
soma_cupy_stats(int device, char *json, size_t size)
{
	return framework_stats(device, json, size);
}

const char *
soma_cupy_error(void)
{
	return framework_error();
}

int
soma_cupy_flush(void)
{
	return framework_flush();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RMM's callback memory resource, and Numba's manager (soma_numba.py).
 *
 * In C++ these are the two callbacks as they are: rmm::cuda_stream_view is passed as the one pointer that it has in
 * it, and `device`, the callbacks' own argument, is the device's ordinal as a pointer: RMM has one resource a
 * device.  From Python a function calls them by ctypes and raises MemoryError for NULL, as
 * examples/frameworks/rmm_soma.py does.
 */
#include "frameworks/framework.h"

#pragma GCC visibility push(default)
void *soma_rmm_allocate(size_t bytes, void *stream, void *device);
void soma_rmm_deallocate(void *ptr, size_t bytes, void *stream, void *device);
void soma_rmm_trim(void);
int soma_rmm_stats(int device, char *json, size_t size);
const char *soma_rmm_error(void);
int soma_rmm_flush(void);
#pragma GCC visibility pop

void *
soma_rmm_allocate(size_t bytes, void *stream, void *device)
{
	return framework_take((int)(intptr_t)device, bytes, (uintptr_t)stream);
}

void
soma_rmm_deallocate(void *ptr, size_t bytes, void *stream, void *device)
{
	(void)bytes, (void)device;
	framework_give(ptr, (uintptr_t)stream);
}

void
soma_rmm_trim(void)
{
	framework_trim();
}

int
soma_rmm_stats(int device, char *json, size_t size)
{
	return framework_stats(device, json, size);
}

const char *
soma_rmm_error(void)
{
	return framework_error();
}

int
soma_rmm_flush(void)
{
	return framework_flush();
}

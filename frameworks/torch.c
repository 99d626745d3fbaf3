/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's CUDAPluggableAllocator: the two functions that its constructor names, and those of its hooks whose
 * arguments are C's.  examples/frameworks/torch_soma.py sets them.
 *
 * PyTorch does not look whether it got NULL, and goes on with a tensor at address 0; so what went wrong is said on
 * standard error as well.  cudaStream_t is a pointer.
 */
#include "frameworks/framework.h"

#include <inttypes.h>
#include <sys/types.h>

#pragma GCC visibility push(default)
void *soma_torch_malloc(ssize_t size, int device, void *stream);
void soma_torch_free(void *ptr, ssize_t size, int device, void *stream);
void soma_torch_record_stream(void *ptr, void *stream);
void soma_torch_reset(void);
int soma_torch_stats(int device, char *json, size_t size);
const char *soma_torch_error(void);
int soma_torch_flush(void);
#pragma GCC visibility pop

void *
soma_torch_malloc(ssize_t size, int device, void *stream)
{
	void *ptr;

	if (size <= 0)
		return NULL;
	ptr = framework_take(device, (uint64_t)size, (uintptr_t)stream);
	if (ptr == NULL)
		framework_report("%zd bytes on device %d for PyTorch: %s", size, device, framework_error());
	return ptr;
}

void
soma_torch_free(void *ptr, ssize_t size, int device, void *stream)
{
	(void)size, (void)device;
	framework_give(ptr, (uintptr_t)stream);
}

/* For set_record_stream_fn(). */
void
soma_torch_record_stream(void *ptr, void *stream)
{
	framework_record(ptr, (uintptr_t)stream);
}

/* For set_reset_fn(), which torch.cuda.empty_cache() calls. */
void
soma_torch_reset(void)
{
	framework_trim();
}

int
soma_torch_stats(int device, char *json, size_t size)
{
	return framework_stats(device, json, size);
}

const char *
soma_torch_error(void)
{
	return framework_error();
}

int
soma_torch_flush(void)
{
	return framework_flush();
}

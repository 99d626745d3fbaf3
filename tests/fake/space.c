/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address space that the device can reach, which is real memory of this process; and
 * memory of the host that it can reach.
 */
#include "tests/fake/state.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct node *regions;

void
region_note(struct region *region)
{
	region->node.key = region->address;
	tree_put(&regions, &region->node);
}

void
region_forget(struct region *region)
{
	tree_drop(&regions, &region->node);
}

/* At 2 MiB, so that addresses look like a device's and blocks are aligned in any case. */
bool
region_map(struct region *region, uint64_t bytes, int fd, uint64_t offset)
{
	uint64_t align = (uint64_t)2 << 20;
	char *at = mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return false;
	uint64_t start = ((uint64_t)(uintptr_t)at + align - 1) / align * align;
	uint64_t front = start - (uint64_t)(uintptr_t)at;
	char *want = at + front;
	int kind = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	if (mmap(want, bytes, PROT_READ | PROT_WRITE, kind | MAP_FIXED | MAP_NORESERVE, fd, (off_t)offset) ==
	    MAP_FAILED) {
		munmap(at, bytes + align);
		return false;
	}
	if (front != 0)
		munmap(at, front);
	if (front != align)
		munmap(want + bytes, align - front);
	region->address = start;
	region->bytes = bytes;
	region->fd = fd;
	region->offset = offset;
	region_note(region);
	return true;
}

void
region_unmap(struct region *region)
{
	memory_forget_range(region->address, region->bytes);
	region_forget(region);
	munmap((void *)(uintptr_t)region->address, region->bytes);
}

/* All of it, over neighbouring regions too. */
bool
region_holds(uint64_t address, uint64_t bytes)
{
	for (;;) {
		struct node *node = tree_at_most(regions, address);
		struct region *r = node != NULL ? TREE_OF(node, struct region) : NULL;
		if (r == NULL || address - r->address >= r->bytes)
			return false;
		uint64_t rest = r->address + r->bytes - address;
		if (bytes <= rest)
			return true;
		address += rest;
		bytes -= rest;
	}
}

/* ---- host memory ----------------------------------------------------------------------------- */

static CUresult
host_alloc(void **ptr, size_t bytes, unsigned flags)
{
	struct fake_context *context = context_current();

	if (ptr == NULL || bytes == 0 || flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	struct region *region = calloc(1, sizeof *region);
	uint64_t rounded = (bytes + 4095) / 4096 * 4096;
	if (region == NULL)
		abort();
	if (rounded < bytes || !region_map(region, rounded, -1, 0)) {
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	struct memory *m = memory_new(MEMORY_HOST, region->address, bytes, rounded);
	m->context = context;
	m->device = context->device;
	*ptr = (void *)(uintptr_t)region->address;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
	CALL(cuMemHostAlloc, host_alloc(ptr, bytes, flags));
}

void
host_release(struct memory *memory)
{
	struct region *region = TREE_OF(tree_at_most(regions, memory->address), struct region);

	region_unmap(region);
	free(region);
}

static CUresult
host_free(void *ptr)
{
	struct memory *m = memory_live((uint64_t)(uintptr_t)ptr);

	if (m == NULL || m->kind != MEMORY_HOST) {
		finding(FAKE_FOUND_BAD_FREE, "cuMemFreeHost of %p", ptr);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (memory_outstanding(m))
		finding(FAKE_FOUND_FREE_WITH_WORK, "cuMemFreeHost of %p", ptr);
	drive_context(m->context);
	host_release(m);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemFreeHost(void *ptr)
{
	CALL(cuMemFreeHost, host_free(ptr));
}

static CUresult
get_device_pointer(CUdeviceptr *device_ptr, void *ptr, unsigned flags)
{
	struct memory *m = memory_at((uint64_t)(uintptr_t)ptr);

	if (device_ptr == NULL || flags != 0 || m == NULL || m->kind != MEMORY_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	*device_ptr = (uint64_t)(uintptr_t)ptr;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemHostGetDevicePointer_v2(CUdeviceptr *device_ptr, void *ptr, unsigned flags)
{
	CALL(cuMemHostGetDevicePointer_v2, get_device_pointer(device_ptr, ptr, flags));
}

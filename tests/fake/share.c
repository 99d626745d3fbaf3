/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools between processes.  A pool made for it lies in one memory file; its descriptor is the
 * file's, and an allocation's name its place in the file.
 */
#include "tests/fake/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x6c6f6f70656b6166)

struct name {
	uint64_t magic;
	uint64_t file; /* inode */
	uint64_t offset;
	uint64_t bytes;
};

struct import {
	struct import *next;
	struct region region;
	uint64_t front; /* the allocation starts there in the region */
};

static struct import *imports;

static CUresult
export_pool(void *out, CUmemoryPool handle, CUmemAllocationHandleType type, unsigned long long flags)
{
	struct pool *pool = pool_find(handle);

	if (pool == NULL || out == NULL || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    pool->handle_types != type || pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	int fd = fcntl(pool->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)out = fd;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, CUmemAllocationHandleType type,
				 unsigned long long flags)
{
	CALL(cuMemPoolExportToShareableHandle, export_pool(handle, pool, type, flags));
}

static bool
is_pool_file(int fd)
{
	char path[64], target[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(path, target, sizeof target - 1);
	if (length < 0)
		return false;
	target[length] = '\0';
	return strstr(target, "memfd:fake-cuda-pool") != NULL;
}

/* The descriptor comes as the pointer's value. */
static CUresult
import_pool(CUmemoryPool *out, void *handle, CUmemAllocationHandleType type, unsigned long long flags)
{
	int fd = (int)(intptr_t)handle;
	struct fake_context *context = context_current();
	int device = context != NULL ? context->device : 0;

	if (out == NULL || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !is_pool_file(fd))
		return CUDA_ERROR_INVALID_VALUE;
	if (!world.devices[device].pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	struct pool *pool = pool_new(device, FAKE_RESERVE_STEP);
	pool->imported = true;
	pool->fd = own;
	pool->handle = handle_new(KIND_POOL, sizeof *pool->handle, NULL);
	pool->handle->pool = pool;
	*out = pool->handle;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type,
				   unsigned long long flags)
{
	CALL(cuMemPoolImportFromShareableHandle, import_pool(pool, handle, type, flags));
}

static uint64_t
inode_of(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

static CUresult
export_pointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr)
{
	struct memory *m = memory_live(ptr);

	if (data == NULL || m == NULL || m->kind != MEMORY_POOL || m->pool->fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	const struct region *region = &m->block->segment->region;
	struct name name = { MAGIC, inode_of(m->pool->fd), region->offset + (m->address - region->address),
			     m->bytes };
	memset(data, 0, sizeof *data);
	memcpy(data->reserved, &name, sizeof name);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr)
{
	CALL(cuMemPoolExportPointer, export_pointer(data, ptr));
}

static CUresult
import_pointer(CUdeviceptr *ptr, CUmemoryPool handle, const CUmemPoolPtrExportData *data)
{
	struct pool *pool = pool_find(handle);
	struct name name;

	if (ptr == NULL || pool == NULL || data == NULL || !pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&name, data->reserved, sizeof name);
	if (name.magic != MAGIC || name.file != inode_of(pool->fd))
		return CUDA_ERROR_INVALID_VALUE;
	struct import *import = calloc(1, sizeof *import);
	if (import == NULL)
		abort();
	uint64_t start = name.offset / 4096 * 4096;
	import->front = name.offset - start;
	if (!region_map(&import->region, (import->front + name.bytes + 4095) / 4096 * 4096, pool->fd,
			start)) {
		free(import);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	import->next = imports;
	imports = import;
	struct memory *m =
		memory_new(MEMORY_IMPORT, import->region.address + import->front, name.bytes, name.bytes);
	m->device = pool->device;
	*ptr = m->address;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	CALL(cuMemPoolImportPointer, import_pointer(ptr, pool, data));
}

static void
import_drop(struct import **link)
{
	struct import *import = *link;

	*link = import->next;
	region_unmap(&import->region);
	free(import);
}

CUresult
import_free(struct memory *memory)
{
	struct import **link = &imports;

	while ((*link)->region.address + (*link)->front != memory->address)
		link = &(*link)->next;
	import_drop(link);
	return CUDA_SUCCESS;
}

void
share_restart(void)
{
	while (imports != NULL)
		import_drop(&imports);
}

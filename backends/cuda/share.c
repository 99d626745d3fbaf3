/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing an async backend's pool: with other processes by descriptors, and with other devices.  A pool of
 * another process is never allocated from. */
#include "backends/cuda/async.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(sizeof(struct soma_backend_exported) == sizeof(CUmemPoolPtrExportData), "a block's name");

static enum soma_status
check_kind(struct soma_backend *self, enum soma_backend_handle_kind kind)
{
	if (kind != SOMA_BACKEND_HANDLE_POSIX_FD)
		return cuda_refuse(self->host, SOMA_STATUS_NOT_SUPPORTED,
				   "async: handles of kind %d: only POSIX descriptors are known", (int)kind);
	if (self->capabilities & SOMA_BACKEND_EXPORTS)
		return SOMA_STATUS_OK;
	return cuda_refuse(self->host, SOMA_STATUS_NOT_SUPPORTED,
			   "async: sharing needs async.export=on when it is opened");
}

/* ---- giving -------------------------------------------------------------------------- */

enum soma_status
async_export_pool(struct soma_backend *self, enum soma_backend_handle_kind kind, int *descriptor)
{
	struct cuda_scope scope;
	int handle = -1;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = check_kind(self, kind);
	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL(self, cuMemPoolExportToShareableHandle, &handle, self->pool,
				   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	cuda_leave(&scope);
	if (status == SOMA_STATUS_OK)
		*descriptor = handle;
	return status;
}

static enum soma_status
check_own(struct soma_backend *self, uint64_t ptr)
{
	struct block block;

	if (blocks_find(&self->blocks, ptr, &block) && block.kind == BLOCK_OWN)
		return SOMA_STATUS_OK;
	return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
			   "async: no block of the pool is at 0x%" PRIx64, ptr);
}

enum soma_status
async_export_block(struct soma_backend *self, uint64_t ptr, struct soma_backend_exported *name)
{
	struct cuda_scope scope;
	CUmemPoolPtrExportData data;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = check_kind(self, SOMA_BACKEND_HANDLE_POSIX_FD);
	if (status == SOMA_STATUS_OK)
		status = check_own(self, ptr);
	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL(self, cuMemPoolExportPointer, &data, ptr);
	cuda_leave(&scope);
	if (status == SOMA_STATUS_OK)
		memcpy(name->opaque, &data, sizeof name->opaque);
	return status;
}

/* ---- taking ---------------------------------------------------------------------------- */

enum soma_status
async_import_pool(struct soma_backend *self, enum soma_backend_handle_kind kind, int descriptor,
		  struct soma_backend_import **out)
{
	const struct soma_backend_host *host = self->host;
	struct soma_backend_import *import = host->alloc(host->context, sizeof *import, 0);
	struct cuda_scope scope;
	enum soma_status status;

	if (import == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = cuda_enter_relaxed(self, &scope);
	if (status == SOMA_STATUS_OK) {
		status = check_kind(self, kind);
		/* The driver takes the descriptor itself for the pointer. */
		if (status == SOMA_STATUS_OK)
			status = CUDA_CALL(self, cuMemPoolImportFromShareableHandle, &import->pool,
					   (void *)(uintptr_t)descriptor,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		cuda_leave(&scope);
	}
	if (status != SOMA_STATUS_OK) {
		host->free(host->context, import, sizeof *import);
		return status;
	}
	cuda_link_add(self, &self->imports, &import->link);
	*out = import;
	return SOMA_STATUS_OK;
}

enum soma_status
async_import_block(struct soma_backend *self, struct soma_backend_import *import,
		   const struct soma_backend_exported *name, uint64_t *ptr)
{
	struct cuda_scope scope;
	CUmemPoolPtrExportData data;
	CUdeviceptr at = 0;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	memcpy(&data, name->opaque, sizeof data);
	status = CUDA_CALL(self, cuMemPoolImportPointer, &at, import->pool, &data);
	if (status == SOMA_STATUS_OK && !blocks_add(&self->blocks, at, 0, import, BLOCK_IMPORTED)) {
		(void)CUDA_CALL(self, cuMemFreeAsync, at, self->own);
		status = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	cuda_leave(&scope);
	if (status == SOMA_STATUS_OK)
		*ptr = at;
	return status;
}

enum soma_status
async_import_free(struct soma_backend *self, struct soma_backend_import *import, uint64_t ptr,
		  struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	struct block block;
	enum soma_status status = cuda_enter(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_refuse_capturing(&scope, stream, "the free of an imported block");
	if (status == SOMA_STATUS_OK && !blocks_take(&self->blocks, ptr, 0, import, &block))
		status = cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				     "async: no block of this import is at 0x%" PRIx64, ptr);
	else if (status == SOMA_STATUS_OK) {
		if (stream == NULL)
			status = cuda_meet_errors(&scope);
		if (status == SOMA_STATUS_OK)
			status = cuda_free_memory(&scope, ptr, cuda_handle(self, stream), true);
		if (status == SOMA_STATUS_OK)
			blocks_gone(&self->blocks, ptr);
		else
			blocks_restore(&self->blocks, &block);
	}
	cuda_leave(&scope);
	return status;
}

/* False: it is the driver's still, and close tries once more. */
static bool
give_pool(struct soma_backend *self, const struct soma_backend_import *import)
{
	struct cuda_scope scope;

	if (cuda_is_lost(self))
		return true;
	if (cuda_enter_relaxed(self, &scope) != SOMA_STATUS_OK)
		return false;
	enum soma_status status = CUDA_CALL(self, cuMemPoolDestroy, import->pool);
	cuda_leave(&scope);
	return status == SOMA_STATUS_OK;
}

void
async_import_close(struct soma_backend *self, struct soma_backend_import *import)
{
	if (self->forked)
		return;
	bool given = give_pool(self, import);

	if (!given && !self->closing)
		return;
	if (!given)
		(void)give_pool(self, import);
	cuda_link_remove(self, &import->link);
	self->host->free(self->host->context, import, sizeof *import);
}

void
async_imports_close(struct soma_backend *self)
{
	while (self->imports.next != &self->imports)
		async_import_close(self, (struct soma_backend_import *)(void *)self->imports.next);
}

/* ---- other devices ------------------------------------------------------------------------ */

static enum soma_status
can_access(struct soma_backend *self, int ordinal, bool *can)
{
	CUdevice device;
	int count = 0, answer = 0;
	enum soma_status status = CUDA_CALL(self, cuDeviceGetCount, &count);

	if (status != SOMA_STATUS_OK)
		return status;
	if (ordinal < 0 || ordinal >= count)
		return cuda_refuse(self->host, SOMA_STATUS_NOT_FOUND,
				   "async: there is no device %d: the driver has %d", ordinal, count);
	*can = ordinal == self->ordinal;
	if (*can)
		return SOMA_STATUS_OK;
	status = CUDA_CALL(self, cuDeviceGet, &device, ordinal);
	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL(self, cuDeviceCanAccessPeer, &answer, device, self->device);
	*can = answer != 0;
	return status;
}

enum soma_status
async_peer_can_access(struct soma_backend *self, int device, bool *can)
{
	struct cuda_scope scope;
	bool answer = false;
	enum soma_status status = cuda_enter(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = can_access(self, device, &answer);
	cuda_leave(&scope);
	if (status == SOMA_STATUS_OK)
		*can = answer;
	return status;
}

static enum soma_status
check_access(struct soma_backend *self, int device, enum soma_backend_access access)
{
	bool can = false;

	if (access != SOMA_BACKEND_ACCESS_NONE && access != SOMA_BACKEND_ACCESS_READ_WRITE)
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "async: access %d of a device: none, or read and write, was expected",
				   (int)access);
	if (device == self->ordinal && access == SOMA_BACKEND_ACCESS_NONE)
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "async: device %d cannot lose its own memory", device);
	enum soma_status status = can_access(self, device, &can);
	if (status != SOMA_STATUS_OK || can)
		return status;
	return cuda_refuse(self->host, SOMA_STATUS_NOT_SUPPORTED,
			   "async: device %d cannot reach the memory of device %d", device, self->ordinal);
}

enum soma_status
async_peer_set_access(struct soma_backend *self, int device, enum soma_backend_access access)
{
	const CUmemAccessDesc desc = {
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, device },
		.flags = access == SOMA_BACKEND_ACCESS_NONE ? CU_MEM_ACCESS_FLAGS_PROT_NONE
							    : CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = check_access(self, device, access);
	if (status == SOMA_STATUS_OK && device != self->ordinal)
		status = CUDA_CALL(self, cuMemPoolSetAccess, self->pool, &desc, 1);
	cuda_leave(&scope);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices and their properties, cuInit, versions, names of errors.
 */
#include "tests/fake/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device *
device_at(CUdevice ordinal)
{
	return ordinal >= 0 && ordinal < world.device_count ? &world.devices[ordinal] : NULL;
}

void
devices_restart(void)
{
	for (int i = 0; i < FAKE_DEVICES_MAX; i++)
		world.devices[i] = (struct device){ .total = (uint64_t)16 << 30,
						    .pools = true,
						    .vmm = true,
						    .peers = (1u << FAKE_DEVICES_MAX) - 1u };
}

static void
device_open(int ordinal)
{
	struct device *d = &world.devices[ordinal];

	d->primary = handle_new(KIND_CONTEXT, sizeof *d->primary, NULL);
	d->primary->device = ordinal;
	d->primary->id = ++world.serial;
	d->sync = pool_new(ordinal, FAKE_SYNC_STEP);
	if (!d->pools)
		return;
	d->default_pool = pool_new(ordinal, FAKE_RESERVE_STEP);
	d->default_pool->is_default = true;
	d->default_pool->handle = handle_new(KIND_POOL, sizeof *d->default_pool->handle, NULL);
	d->default_pool->handle->pool = d->default_pool;
	d->current_pool = d->default_pool;
}

static CUresult
init(unsigned flags)
{
	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (world.init_result != CUDA_SUCCESS)
		return world.init_result;
	if (world.device_count == 0)
		return CUDA_ERROR_NO_DEVICE;
	if (world.initialized)
		return CUDA_SUCCESS;
	for (int i = 0; i < world.device_count; i++)
		device_open(i);
	world.initialized = true;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuInit(unsigned flags)
{
	CALL(cuInit, init(flags));
}

static CUresult
get_version(int *version)
{
	if (version == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*version = world.version;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDriverGetVersion(int *version)
{
	CALL(cuDriverGetVersion, get_version(version));
}

static CUresult
describe(CUresult error, const char **out, bool name)
{
	if (out == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	switch (error) {
#define X(code, value, text)                \
	case code:                          \
		*out = name ? #code : text; \
		return CUDA_SUCCESS;
		FAKE_RESULTS(X)
#undef X
	}
	*out = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult
cuGetErrorName(CUresult error, const char **name)
{
	CALL(cuGetErrorName, describe(error, name, true));
}

EXPORT CUresult
cuGetErrorString(CUresult error, const char **text)
{
	CALL(cuGetErrorString, describe(error, text, false));
}

static CUresult
get_device(CUdevice *device, int ordinal)
{
	if (device == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (device_at(ordinal) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDeviceGet(CUdevice *device, int ordinal)
{
	CALL(cuDeviceGet, get_device(device, ordinal));
}

static CUresult
get_count(int *count)
{
	if (count == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*count = world.device_count;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDeviceGetCount(int *count)
{
	CALL(cuDeviceGetCount, get_count(count));
}

static CUresult
get_name(char *name, int length, CUdevice device)
{
	if (name == NULL || length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (device_at(device) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)length, "Stand-in GPU %d", device);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDeviceGetName(char *name, int length, CUdevice device)
{
	CALL(cuDeviceGetName, get_name(name, length, device));
}

static int
attribute_of(const struct device *d, CUdevice device, CUdevice_attribute attribute)
{
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
		return 32;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		return 4;
	case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
		return 1;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		return device + 1;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return 8;
	case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
		return d->vmm;
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES: /* POSIX_FILE_DESCRIPTOR is bit 0 */
		return d->pools;
	case CU_DEVICE_ATTRIBUTE_INTEGRATED:
	case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		return 0;
	}
	return -1;
}

static CUresult
get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	struct device *d = device_at(device);

	if (value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (d == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	int answer = attribute_of(d, device, attribute);
	if (answer < 0)
		return CUDA_ERROR_INVALID_VALUE;
	/* An old driver does not know the question. */
	if (attribute >= CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED && world.version < 11020)
		return CUDA_ERROR_INVALID_VALUE;
	*value = answer;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CALL(cuDeviceGetAttribute, get_attribute(value, attribute, device));
}

static CUresult
get_uuid(CUuuid *uuid, CUdevice device)
{
	if (uuid == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (device_at(device) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	memcpy(uuid->bytes, "stand-in device", sizeof uuid->bytes);
	uuid->bytes[15] = (char)('0' + device);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	CALL(cuDeviceGetUuid, get_uuid(uuid, device));
}

EXPORT CUresult
cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	CALL(cuDeviceGetUuid_v2, get_uuid(uuid, device));
}

static CUresult
get_total(size_t *bytes, CUdevice device)
{
	struct device *d = device_at(device);

	if (bytes == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (d == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = d->total;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CALL(cuDeviceTotalMem_v2, get_total(bytes, device));
}

static CUresult
can_access(int *can, CUdevice device, CUdevice peer)
{
	struct device *d = device_at(device);

	if (can == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (d == NULL || device_at(peer) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	*can = device != peer && (d->peers >> peer & 1) != 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	CALL(cuDeviceCanAccessPeer, can_access(can, device, peer));
}

/* ---- controls ------------------------------------------------------------------------ */

EXPORT void
fake_cuda_devices(int count)
{
	control_enter();
	if (!world.initialized && count >= 0 && count <= FAKE_DEVICES_MAX)
		world.device_count = count;
	control_leave();
}

EXPORT void
fake_cuda_device_memory(int device, uint64_t bytes)
{
	control_enter();
	if (device >= 0 && device < FAKE_DEVICES_MAX)
		world.devices[device].total = bytes;
	control_leave();
}

EXPORT void
fake_cuda_device_pools(int device, bool supported)
{
	control_enter();
	if (device >= 0 && device < FAKE_DEVICES_MAX && !world.initialized)
		world.devices[device].pools = supported;
	control_leave();
}

EXPORT void
fake_cuda_device_vmm(int device, bool supported)
{
	control_enter();
	if (device >= 0 && device < FAKE_DEVICES_MAX)
		world.devices[device].vmm = supported;
	control_leave();
}

EXPORT void
fake_cuda_device_peer(int device, int peer, bool can)
{
	control_enter();
	if (device >= 0 && device < FAKE_DEVICES_MAX && peer >= 0 && peer < FAKE_DEVICES_MAX) {
		world.devices[device].peers &= ~(1u << peer);
		world.devices[device].peers |= (unsigned)can << peer;
	}
	control_leave();
}

EXPORT uint64_t
fake_cuda_device_taken(int device)
{
	control_enter();
	uint64_t taken = device >= 0 && device < FAKE_DEVICES_MAX ? world.devices[device].taken : 0;
	control_leave();
	return taken;
}

EXPORT void
fake_cuda_driver_version(int version)
{
	control_enter();
	world.version = version;
	control_leave();
}

EXPORT void
fake_cuda_init_result(int code)
{
	control_enter();
	world.init_result = (CUresult)code;
	control_leave();
}

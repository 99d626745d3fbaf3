/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools: their life, attributes, access and trimming.
 */
#include "tests/fake/state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pool *
pool_new(int device, uint64_t step)
{
	struct pool *pool = calloc(1, sizeof *pool);

	if (pool == NULL)
		abort();
	pool->device = device;
	pool->step = step;
	pool->fd = -1;
	pool->follow = pool->opportunistic = pool->internal = 1;
	pool->access[device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	pool->link = &world.pools;
	pool->next = world.pools;
	if (pool->next != NULL)
		pool->next->link = &pool->next;
	world.pools = pool;
	return pool;
}

/* With all that is in it. */
void
pool_delete(struct pool *pool)
{
	while (pool->segments != NULL) {
		struct segment *s = pool->segments;
		pool->segments = s->next;
		while (s->first != NULL) {
			struct block *b = s->first;
			s->first = b->after;
			free(b);
		}
		world.devices[pool->device].taken -= s->region.bytes;
		region_unmap(&s->region);
		free(s);
	}
	if (pool->fd >= 0)
		close(pool->fd);
	*pool->link = pool->next;
	if (pool->next != NULL)
		pool->next->link = pool->link;
	free(pool);
}

void
pools_restart(void)
{
	share_restart();
	while (world.pools != NULL)
		pool_delete(world.pools);
}

struct pool *
pool_find(CUmemoryPool handle)
{
	struct fake_pool_handle *h = handle_find(handle, KIND_POOL);

	return h != NULL ? h->pool : NULL;
}

void
pools_synchronized(bool release)
{
	for (struct pool *pool = world.pools; pool != NULL; pool = pool->next) {
		if (pool->pending != NULL)
			pool_settle(pool);
		if (release && pool->step == FAKE_RESERVE_STEP && pool->reserved > pool->threshold)
			pool_release(pool, pool->threshold);
	}
}

void
pool_uncount(struct pool *pool, uint64_t bytes)
{
	if (FAKE_USED_IS_ROUNDED)
		bytes = (bytes + FAKE_ALIGNMENT - 1) / FAKE_ALIGNMENT * FAKE_ALIGNMENT;
	pool->used -= bytes;
}

void
pool_count(struct pool *pool, uint64_t bytes)
{
	if (FAKE_USED_IS_ROUNDED)
		bytes = (bytes + FAKE_ALIGNMENT - 1) / FAKE_ALIGNMENT * FAKE_ALIGNMENT;
	pool->used += bytes;
	if (pool->used_high < pool->used)
		pool->used_high = pool->used;
	pool->outstanding++;
}

void
pool_freed(struct pool *pool)
{
	if (--pool->outstanding == 0 && pool->destroyed)
		pool_delete(pool);
}

/* ---- life ------------------------------------------------------------------------------------ */

int memfd_create(const char *name, unsigned flags);

static CUresult
create(CUmemoryPool *out, const CUmemPoolProps *props)
{
	static const unsigned char zero[sizeof props->reserved];

	if (out == NULL || props == NULL || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || (unsigned)props->handleTypes > 1 ||
	    memcmp(props->reserved, zero, sizeof zero) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	struct device *d = device_at(props->location.id);
	if (d == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!d->pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	int fd = props->handleTypes != CU_MEM_HANDLE_TYPE_NONE ? memfd_create("fake-cuda-pool", 1) : -1;
	if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE && fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	struct pool *pool = pool_new(props->location.id, FAKE_RESERVE_STEP);
	pool->fd = fd;
	pool->handle_types = props->handleTypes;
	/* The size came to the properties with 12.2; before, it was a reserved field. */
	pool->max = world.version >= 12020 ? props->maxSize : 0;
	pool->handle = handle_new(KIND_POOL, sizeof *pool->handle, NULL);
	pool->handle->pool = pool;
	*out = pool->handle;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CALL(cuMemPoolCreate, create(pool, props));
}

static CUresult
destroy(CUmemoryPool handle)
{
	struct pool *pool = pool_find(handle);

	if (pool == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool->is_default)
		return FAKE_DESTROY_DEFAULT_POOL;
	struct device *d = &world.devices[pool->device];
	if (d->current_pool == pool)
		d->current_pool = d->default_pool;
	handle_drop(pool->handle);
	pool->handle = NULL;
	pool->destroyed = true;
	if (pool->outstanding == 0)
		pool_delete(pool);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemPoolDestroy(CUmemoryPool pool)
{
	CALL(cuMemPoolDestroy, destroy(pool));
}

enum which { POOL_DEFAULT, POOL_CURRENT };

static CUresult
pool_of_device(CUmemoryPool *out, CUdevice device, enum which which)
{
	struct device *d = device_at(device);

	if (out == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (d == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!d->pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	*out = (which == POOL_DEFAULT ? d->default_pool : d->current_pool)->handle;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	CALL(cuDeviceGetDefaultMemPool, pool_of_device(pool, device, POOL_DEFAULT));
}

EXPORT CUresult
cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	CALL(cuDeviceGetMemPool, pool_of_device(pool, device, POOL_CURRENT));
}

static CUresult
set_current(CUdevice device, CUmemoryPool handle)
{
	struct device *d = device_at(device);
	struct pool *pool = pool_find(handle);

	if (d == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (pool == NULL || pool->device != device || pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	d->current_pool = pool;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	CALL(cuDeviceSetMemPool, set_current(device, pool));
}

/* ---- attributes ------------------------------------------------------------------------------- */

static int *
reuse_of(struct pool *pool, CUmemPool_attribute attribute)
{
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
		return &pool->follow;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		return &pool->opportunistic;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		return &pool->internal;
	default:
		return NULL;
	}
}

static uint64_t *
count_of(struct pool *pool, CUmemPool_attribute attribute)
{
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &pool->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &pool->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &pool->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &pool->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->used_high;
	default:
		return NULL;
	}
}

static CUresult
set_count(struct pool *pool, CUmemPool_attribute attribute, uint64_t value)
{
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->threshold = value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		if (value != 0)
			return CUDA_ERROR_INVALID_VALUE;
		pool->reserved_high = pool->reserved;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (value != 0)
			return CUDA_ERROR_INVALID_VALUE;
		pool->used_high = pool->used;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult
set_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, const void *value)
{
	struct pool *pool = pool_find(handle);

	if (pool == NULL || value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	int *reuse = reuse_of(pool, attribute);
	if (reuse == NULL && count_of(pool, attribute) != NULL)
		return set_count(pool, attribute, *(const uint64_t *)value);
	if (reuse == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*reuse = *(const int *)value != 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CALL(cuMemPoolSetAttribute, set_attribute(pool, attribute, value));
}

static CUresult
get_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	struct pool *pool = pool_find(handle);

	if (pool == NULL || value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	int *reuse = reuse_of(pool, attribute);
	uint64_t *count = count_of(pool, attribute);
	if (reuse != NULL)
		*(int *)value = *reuse;
	else if (count != NULL)
		*(uint64_t *)value = *count;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CALL(cuMemPoolGetAttribute, get_attribute(pool, attribute, value));
}

/* ---- access and trimming ------------------------------------------------------------------------ */

static CUresult
set_one_access(struct pool *pool, const CUmemAccessDesc *desc)
{
	int device = desc->location.id;

	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE || device_at(device) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	/* Its own device keeps its access. */
	if (device == pool->device)
		return desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS
									 : CUDA_ERROR_INVALID_VALUE;
	if ((world.devices[device].peers >> pool->device & 1) == 0)
		return CUDA_ERROR_INVALID_DEVICE;
	pool->access[device] = desc->flags;
	return CUDA_SUCCESS;
}

static CUresult
set_access(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
	struct pool *pool = pool_find(handle);
	CUresult result = CUDA_SUCCESS;

	if (pool == NULL || (map == NULL && count != 0))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = set_one_access(pool, &map[i]);
	return result;
}

EXPORT CUresult
cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	CALL(cuMemPoolSetAccess, set_access(pool, map, count));
}

static CUresult
get_access(CUmemAccess_flags *flags, CUmemoryPool handle, const CUmemLocation *location)
{
	struct pool *pool = pool_find(handle);

	if (pool == NULL || flags == NULL || location == NULL ||
	    location->type != CU_MEM_LOCATION_TYPE_DEVICE || device_at(location->id) == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = pool->access[location->id];
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
	CALL(cuMemPoolGetAccess, get_access(flags, pool, location));
}

static CUresult
trim(CUmemoryPool handle, size_t keep)
{
	struct pool *pool = pool_find(handle);

	if (pool == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pool_settle(pool);
	pool_release(pool, keep);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	CALL(cuMemPoolTrimTo, trim(pool, keep));
}

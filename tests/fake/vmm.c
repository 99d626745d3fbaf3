/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address ranges and memory apart: ranges are reserved without access, memory is a file, mapping
 * puts the file there, without access until that is set.  So the host's late or wild access
 * faults as a device's would.
 */
#include "tests/fake/state.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct range {
	struct range *next;
	uint64_t address, bytes;
	void *base; /* as it was mapped, with room to align */
	size_t base_bytes;
};

struct physical {
	struct physical *next;
	uint64_t name;
	uint64_t bytes;
	int device, fd;
	unsigned mapped;
	bool released;
};

struct mapping {
	struct mapping *next;
	struct region region;
	struct physical *physical;
	struct memory *memory;
};

static struct range *ranges;
static struct physical *physicals;
static struct mapping *mappings;

int memfd_create(const char *name, unsigned flags);

static void *
at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static bool
is_granular(uint64_t x)
{
	return x % FAKE_GRANULARITY == 0;
}

static CUresult
reserve(CUdeviceptr *ptr, size_t size, size_t alignment, unsigned long long flags)
{
	if (alignment < FAKE_GRANULARITY)
		alignment = FAKE_GRANULARITY;
	if (ptr == NULL || size == 0 || !is_granular(size) || (alignment & (alignment - 1)) != 0 ||
	    flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	struct range *r = calloc(1, sizeof *r);
	if (r == NULL)
		abort();
	r->base_bytes = size + alignment;
	r->base = mmap(NULL, r->base_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (size + alignment < size || r->base == MAP_FAILED) {
		free(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r->address = ((uint64_t)(uintptr_t)r->base + alignment - 1) / alignment * alignment;
	r->bytes = size;
	r->next = ranges;
	ranges = r;
	*ptr = r->address;
	return CUDA_SUCCESS;
}

/* The wished address is a hint, and never taken. */
EXPORT CUresult
cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr where,
		    unsigned long long flags)
{
	(void)where;
	CALL(cuMemAddressReserve, reserve(ptr, size, alignment, flags));
}

static bool
overlaps(const struct mapping *m, uint64_t address, uint64_t bytes)
{
	return m->region.address < address + bytes && address < m->region.address + m->region.bytes;
}

static CUresult
address_free(uint64_t address, uint64_t size)
{
	struct range **link = &ranges;

	while (*link != NULL && ((*link)->address != address || (*link)->bytes != size))
		link = &(*link)->next;
	if (*link == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct mapping *m = mappings; m != NULL; m = m->next)
		if (overlaps(m, address, size))
			return CUDA_ERROR_INVALID_VALUE;
	struct range *r = *link;
	*link = r->next;
	munmap(r->base, r->base_bytes);
	free(r);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	CALL(cuMemAddressFree, address_free(ptr, size));
}

/* ---- memory -------------------------------------------------------------------------------- */

static struct device *
check_prop(const CUmemAllocationProp *prop)
{
	if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return NULL;
	return device_at(prop->location.id);
}

static CUresult
create(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
       unsigned long long flags)
{
	struct device *d = check_prop(prop);

	if (handle == NULL || size == 0 || !is_granular(size) || d == NULL || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!d->vmm)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (size > d->total || d->taken > d->total - size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct physical *p = calloc(1, sizeof *p);
	if (p == NULL)
		abort();
	p->fd = memfd_create("fake-cuda-memory", 1);
	if (p->fd < 0 || ftruncate(p->fd, (off_t)size) != 0) {
		if (p->fd >= 0)
			close(p->fd);
		free(p);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	p->bytes = size;
	p->device = prop->location.id;
	p->name = ++world.serial;
	p->next = physicals;
	physicals = p;
	d->taken += size;
	*handle = p->name;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
	    unsigned long long flags)
{
	CALL(cuMemCreate, create(handle, size, prop, flags));
}

static struct physical *
physical_find(uint64_t name)
{
	struct physical *p = physicals;

	while (p != NULL && (p->name != name || p->released))
		p = p->next;
	if (p == NULL)
		finding(FAKE_FOUND_STALE_HANDLE, "memory handle %llu", (unsigned long long)name);
	return p;
}

static void
physical_drop(struct physical *p)
{
	if (!p->released || p->mapped != 0)
		return;
	struct physical **link = &physicals;
	while (*link != p)
		link = &(*link)->next;
	*link = p->next;
	world.devices[p->device].taken -= p->bytes;
	close(p->fd);
	free(p);
}

static CUresult
release(CUmemGenericAllocationHandle handle)
{
	struct physical *p = physical_find(handle);

	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	p->released = true;
	physical_drop(p);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CALL(cuMemRelease, release(handle));
}

static CUresult
get_granularity(size_t *granularity, const CUmemAllocationProp *prop)
{
	if (granularity == NULL || check_prop(prop) == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = FAKE_GRANULARITY;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
			      CUmemAllocationGranularity_flags option)
{
	(void)option;
	CALL(cuMemGetAllocationGranularity, get_granularity(granularity, prop));
}

/* ---- mappings ------------------------------------------------------------------------------ */

static bool
is_reserved(uint64_t address, uint64_t bytes)
{
	for (const struct range *r = ranges; r != NULL; r = r->next)
		if (address >= r->address && address - r->address < r->bytes &&
		    bytes <= r->address + r->bytes - address)
			return true;
	return false;
}

static CUresult
map(uint64_t address, uint64_t size, uint64_t offset, CUmemGenericAllocationHandle handle,
    unsigned long long flags)
{
	struct physical *p = physical_find(handle);

	if (p == NULL || size == 0 || !is_granular(address) || !is_granular(size) || offset != 0 ||
	    size > p->bytes || flags != 0 || !is_reserved(address, size))
		return CUDA_ERROR_INVALID_VALUE;
	for (struct mapping *m = mappings; m != NULL; m = m->next)
		if (overlaps(m, address, size))
			return CUDA_ERROR_INVALID_VALUE;
	if (mmap(at(address), size, PROT_NONE, MAP_SHARED | MAP_FIXED, p->fd, 0) == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct mapping *m = calloc(1, sizeof *m);
	if (m == NULL)
		abort();
	m->region.address = address;
	m->region.bytes = size;
	m->physical = p;
	m->memory = memory_new(MEMORY_MAPPED, address, size, size);
	m->memory->device = p->device;
	m->next = mappings;
	mappings = m;
	region_note(&m->region);
	p->mapped++;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	 unsigned long long flags)
{
	CALL(cuMemMap, map(ptr, size, offset, handle, flags));
}

static void
unmap_one(struct mapping **link)
{
	struct mapping *m = *link;

	*link = m->next;
	if (memory_outstanding(m->memory))
		finding(FAKE_FOUND_FREE_WITH_WORK, "cuMemUnmap of 0x%llx",
			(unsigned long long)m->region.address);
	m->memory->freed = m->memory->freed_done = true;
	memory_forget(m->memory);
	region_forget(&m->region);
	mmap(at(m->region.address), m->region.bytes, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	m->physical->mapped--;
	physical_drop(m->physical);
	free(m);
}

/* Bytes of whole mappings within; 0 if one is cut. */
static uint64_t
mapped_within(uint64_t address, uint64_t bytes)
{
	uint64_t sum = 0;

	for (const struct mapping *m = mappings; m != NULL; m = m->next) {
		if (!overlaps(m, address, bytes))
			continue;
		if (m->region.address < address || m->region.bytes > address + bytes - m->region.address)
			return 0;
		sum += m->region.bytes;
	}
	return sum;
}

static CUresult
unmap(uint64_t address, uint64_t size)
{
	struct mapping **link = &mappings;

	if (size == 0 || mapped_within(address, size) != size)
		return CUDA_ERROR_INVALID_VALUE;
	while (*link != NULL) {
		if (overlaps(*link, address, size))
			unmap_one(link);
		else
			link = &(*link)->next;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CALL(cuMemUnmap, unmap(ptr, size));
}

static int
host_protection(const struct memory *m)
{
	unsigned may = 0;

	for (int i = 0; i < FAKE_DEVICES_MAX; i++)
		may |= (unsigned)m->access[i];
	return (may & 1 ? PROT_READ : 0) | (may & 2 ? PROT_WRITE : 0);
}

static CUresult
set_access(uint64_t address, uint64_t size, const CUmemAccessDesc *desc, size_t count)
{
	if (desc == NULL || count == 0 || size == 0 || mapped_within(address, size) != size)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    device_at(desc[i].location.id) == NULL)
			return CUDA_ERROR_INVALID_VALUE;
	for (struct mapping *m = mappings; m != NULL; m = m->next) {
		if (!overlaps(m, address, size))
			continue;
		for (size_t i = 0; i < count; i++)
			m->memory->access[desc[i].location.id] = desc[i].flags;
		mprotect(at(m->region.address), m->region.bytes, host_protection(m->memory));
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CALL(cuMemSetAccess, set_access(ptr, size, desc, count));
}

/* ---- counting -------------------------------------------------------------------------------- */

uint64_t
vmm_live(enum fake_object object)
{
	uint64_t n = 0;

	for (const struct range *r = ranges; object == FAKE_RESERVATIONS && r != NULL; r = r->next)
		n++;
	for (const struct physical *p = physicals; object == FAKE_HANDLES && p != NULL; p = p->next)
		n += !p->released;
	for (const struct mapping *m = mappings; object == FAKE_MAPPINGS && m != NULL; m = m->next)
		n++;
	return n;
}

void
vmm_restart(void)
{
	while (mappings != NULL)
		unmap_one(&mappings);
	while (physicals != NULL) {
		physicals->released = true;
		physical_drop(physicals);
	}
	while (ranges != NULL)
		address_free(ranges->address, ranges->bytes);
}

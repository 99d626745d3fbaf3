/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was allocated: one record an allocation, found by address, kept as long as
 * operations refer to it.  A record of freed memory stays in the tree until its place is taken, so that
 * late uses are told from wild ones.
 */
#include "tests/fake/state.h"

#include <stdlib.h>

struct memory *
memory_new(enum memory_kind kind, uint64_t address, uint64_t bytes, uint64_t capacity)
{
	struct memory *m = calloc(1, sizeof *m);

	if (m == NULL)
		abort();
	memory_forget_range(address, capacity);
	m->kind = kind;
	m->address = m->node.key = address;
	m->bytes = bytes;
	m->capacity = capacity;
	m->made_done = true;
	m->serial = ++world.serial;
	m->refs = 1;
	tree_put(&world.memory, &m->node);
	return m;
}

void
memory_ref(struct memory *memory)
{
	memory->refs++;
}

void
memory_unref(struct memory *memory)
{
	if (--memory->refs != 0)
		return;
	free(memory->uses);
	free(memory);
}

void
memory_forget(struct memory *memory)
{
	tree_drop(&world.memory, &memory->node);
	memory_unref(memory);
}

/* Nothing in it is allocated any more. */
void
memory_forget_range(uint64_t address, uint64_t bytes)
{
	struct memory *m = memory_at(address);

	if (m == NULL) {
		struct node *node = tree_from(world.memory, address, 0);
		m = node != NULL ? TREE_OF(node, struct memory) : NULL;
	}
	while (m != NULL && m->address < address + bytes) {
		struct node *next = tree_from(world.memory, m->address + 1, 0);
		memory_forget(m);
		m = next != NULL ? TREE_OF(next, struct memory) : NULL;
	}
}

struct memory *
memory_at(uint64_t address)
{
	struct node *node = tree_at_most(world.memory, address);
	struct memory *m = node != NULL ? TREE_OF(node, struct memory) : NULL;

	return m != NULL && address - m->address < m->capacity ? m : NULL;
}

struct memory *
memory_live(uint64_t address)
{
	struct memory *m = memory_at(address);

	return m != NULL && m->address == address && !m->freed ? m : NULL;
}

bool
memory_outstanding(const struct memory *memory)
{
	if (!memory->made_done)
		return true;
	for (unsigned i = 0; i < memory->use_count; i++)
		if (memory->uses[i].lane->executed < memory->uses[i].pos)
			return true;
	return false;
}

bool
memory_accessible(const struct memory *m, const struct lane *lane, bool write)
{
	int device = lane->context->device;
	CUmemAccess_flags may = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

	if (m->kind == MEMORY_MAPPED)
		may = m->access[device];
	else if (m->kind == MEMORY_POOL && m->pool != NULL && device != m->device)
		may = m->pool->access[device];
	else if (m->kind == MEMORY_SYNC && device != m->device &&
		 (lane->context->peers >> m->device & 1) == 0)
		may = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return ((unsigned)may & (write ? 2u : 1u)) != 0;
}

void
memories_restart(void)
{
	while (world.memory != NULL)
		memory_forget(TREE_OF(world.memory, struct memory));
}

/* ---- cuMemAlloc ------------------------------------------------------------------------------ */

static CUresult
alloc_sync(CUdeviceptr *ptr, size_t bytes)
{
	struct fake_context *context = context_current();
	struct pool *pool = world.devices[context->device].sync;
	struct block *block;
	struct dep wait;

	if (ptr == NULL || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = place_take(pool, NULL, bytes, &block, &wait);
	if (result != CUDA_SUCCESS)
		return result;
	struct memory *m = memory_new(MEMORY_SYNC, block->address, bytes, block->bytes);
	m->device = context->device;
	m->context = context;
	m->pool = pool;
	m->block = block;
	*ptr = block->address;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	CALL(cuMemAlloc_v2, alloc_sync(ptr, bytes));
}

static void
free_block(struct memory *m)
{
	struct pool *pool = m->pool;

	m->freed = m->freed_done = true;
	place_give(pool, m->block, NULL, 0);
	m->block = NULL;
	m->pool = NULL;
	if (m->kind == MEMORY_SYNC) {
		pool_release(pool, FAKE_SYNC_STEP);
		return;
	}
	pool_uncount(pool, m->bytes);
	pool_freed(pool);
}

CUresult
memory_free_now(uint64_t address)
{
	struct memory *m = memory_live(address);

	if (m == NULL || m->kind == MEMORY_MAPPED || m->kind == MEMORY_GRAPH) {
		finding(FAKE_FOUND_BAD_FREE, "cuMemFree of 0x%llx", (unsigned long long)address);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (memory_outstanding(m))
		finding(FAKE_FOUND_FREE_WITH_WORK, "cuMemFree of 0x%llx", (unsigned long long)address);
	if (m->kind == MEMORY_HOST) {
		host_release(m);
		return CUDA_SUCCESS;
	}
	if (m->kind == MEMORY_IMPORT) {
		m->freed = m->freed_done = true;
		return import_free(m);
	}
	memory_ref(m);
	if (FAKE_FREE_WAITS && m->kind == MEMORY_SYNC)
		drive_context(m->context);
	bool mine = !m->freed;
	if (mine)
		free_block(m);
	memory_unref(m);
	return mine ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
free_now(CUdeviceptr ptr)
{
	struct memory *m = memory_live(ptr);

	if (ptr == 0)
		return FAKE_FREE_NULL;
	if (m != NULL && m->kind == MEMORY_HOST) {
		finding(FAKE_FOUND_BAD_FREE, "cuMemFree of host memory 0x%llx", (unsigned long long)ptr);
		return CUDA_ERROR_INVALID_VALUE;
	}
	return memory_free_now(ptr);
}

EXPORT CUresult
cuMemFree_v2(CUdeviceptr ptr)
{
	CALL(cuMemFree_v2, free_now(ptr));
}

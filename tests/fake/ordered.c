/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocating from pools, and freeing to them, on a stream.
 */
#include "tests/fake/state.h"

static CUresult
alloc_in_capture(CUdeviceptr *ptr, size_t bytes, struct pool *pool, struct lane *lane)
{
	struct memory *m;
	CUresult result = graph_alloc(lane->capture, pool, bytes, &m);

	if (result != CUDA_SUCCESS)
		return result;
	uint64_t address = m->address;
	struct op *op = op_new(OP_ALLOC, "cuMemAllocAsync");
	memory_ref(m);
	op->memory = m;
	result = submit(lane, op);
	if (result == CUDA_SUCCESS)
		*ptr = address;
	return result;
}

static CUresult
alloc_on(CUdeviceptr *ptr, size_t bytes, struct pool *pool, struct lane *lane)
{
	struct block *block;
	struct dep wait;

	if (lane->capture != NULL)
		return alloc_in_capture(ptr, bytes, pool, lane);
	CUresult result = lane->legacy ? capture_legacy(lane->context, false) : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS)
		return result;
	lane_join_implicit(lane);
	result = place_take(pool, lane, bytes, &block, &wait);
	if (result != CUDA_SUCCESS)
		return result;
	struct memory *m = memory_new(MEMORY_POOL, block->address, bytes, block->bytes);
	m->device = pool->device;
	m->pool = pool;
	m->block = block;
	m->made_done = false;
	pool_count(pool, bytes);
	*ptr = block->address;
	struct op *op = op_new(OP_ALLOC, "cuMemAllocAsync");
	memory_ref(m);
	op->memory = m;
	if (wait.lane != NULL) {
		op_wait_for(op, wait.lane, wait.pos);
		lane_join(lane, wait.lane, wait.pos, NULL, 0);
	}
	return submit(lane, op);
}

static CUresult
alloc_async(CUdeviceptr *ptr, size_t bytes, const CUmemoryPool *handle, CUstream stream, bool own)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	if (ptr == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!world.devices[lane->context->device].pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	struct pool *pool =
		handle != NULL ? pool_find(*handle) : world.devices[lane->context->device].current_pool;
	if (pool == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool->imported)
		return FAKE_ALLOC_FROM_IMPORT;
	if (bytes == 0)
		return FAKE_ASYNC_SIZE_0;
	return alloc_on(ptr, bytes, pool, lane);
}

EXPORT CUresult
cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	CALL(cuMemAllocAsync, alloc_async(ptr, bytes, NULL, stream, false));
}

EXPORT CUresult
cuMemAllocAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	CALL(cuMemAllocAsync, alloc_async(ptr, bytes, NULL, stream, true));
}

EXPORT CUresult
cuMemAllocFromPoolAsync(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	CALL(cuMemAllocFromPoolAsync, alloc_async(ptr, bytes, &pool, stream, false));
}

EXPORT CUresult
cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	CALL(cuMemAllocFromPoolAsync, alloc_async(ptr, bytes, &pool, stream, true));
}

static CUresult
refuse_free(CUdeviceptr ptr, CUresult result)
{
	finding(FAKE_FOUND_BAD_FREE, "cuMemFreeAsync of 0x%llx", ptr);
	return result;
}

static CUresult
free_on(struct memory *m, struct lane *lane)
{
	struct op *op = op_new(OP_FREE, "cuMemFreeAsync");
	struct block *block = m->block;
	struct pool *pool = m->pool;

	memory_ref(m);
	op->memory = m;
	m->freed = true;
	m->block = NULL;
	if (lane->legacy) {
		CUresult result = capture_legacy(lane->context, false);
		if (result != CUDA_SUCCESS) {
			m->freed = false;
			m->block = block;
			op_free(op);
			return result;
		}
	}
	if (m->kind == MEMORY_POOL) {
		if (FAKE_USED_FALLS_AT_CALL)
			pool_uncount(pool, m->bytes);
		/* Before it is queued: it may run at once and end the pool. */
		place_give(pool, block, lane, lane->submitted + 1);
	}
	return submit(lane, op);
}

static CUresult
free_async(CUdeviceptr ptr, CUstream stream, bool own)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);
	struct memory *m = memory_live(ptr);

	if (result != CUDA_SUCCESS)
		return result;
	if (ptr == 0)
		return FAKE_FREE_ASYNC_NULL;
	if (m == NULL)
		return refuse_free(ptr, CUDA_ERROR_INVALID_VALUE);
	if (m->kind != MEMORY_POOL && m->kind != MEMORY_GRAPH && m->kind != MEMORY_IMPORT)
		return refuse_free(ptr, FAKE_FREE_ASYNC_OF_OTHER);
	/* A capture takes back only what a graph gave. */
	if (lane->capture != NULL && m->kind != MEMORY_GRAPH)
		return CUDA_ERROR_INVALID_VALUE;
	return free_on(m, lane);
}

EXPORT CUresult
cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
	CALL(cuMemFreeAsync, free_async(ptr, stream, false));
}

EXPORT CUresult
cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
	CALL(cuMemFreeAsync, free_async(ptr, stream, true));
}

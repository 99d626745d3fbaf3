/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests that call the stand-in directly: each call must succeed.
 */
#ifndef SOMA_TESTS_FAKE_FIXTURE_H
#define SOMA_TESTS_FAKE_FIXTURE_H

#include <stdio.h>

#include "tests/fake/api.h"
#include "tests/fake/facts.h"
#include "tests/fake/fake.h"
#include "tests/unit.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define ok(call) ck_assert_int_eq((call), CUDA_SUCCESS)
#define no(call, code) ck_assert_int_eq((call), (code))

static inline CUcontext
start(enum fake_mode mode)
{
	CUcontext context;

	fake_cuda_restart();
	fake_cuda_mode(mode, 1, 0);
	ok(cuInit(0));
	ok(cuDevicePrimaryCtxRetain(&context, 0));
	ok(cuCtxSetCurrent(context));
	return context;
}

static inline CUstream
new_stream(void)
{
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static inline CUevent
new_event(void)
{
	CUevent event;

	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

static inline CUevent
recorded(CUstream stream)
{
	CUevent event = new_event();

	ok(cuEventRecord(event, stream));
	return event;
}

static inline void
wait_on(CUstream stream, CUstream other)
{
	CUevent event = recorded(other);

	ok(cuStreamWaitEvent(stream, event, 0));
	ok(cuEventDestroy_v2(event));
}

static inline CUmemoryPool
new_pool_of(size_t max, int device)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, device },
				 .maxSize = max };
	CUmemoryPool pool;

	ok(cuMemPoolCreate(&pool, &props));
	return pool;
}

static inline CUmemoryPool
new_pool(void)
{
	return new_pool_of(0, 0);
}

static inline CUdeviceptr
alloc(CUmemoryPool pool, size_t bytes, CUstream stream)
{
	CUdeviceptr ptr;

	ok(cuMemAllocFromPoolAsync(&ptr, bytes, pool, stream));
	return ptr;
}

static inline uint64_t
attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
	uint64_t value;

	ok(cuMemPoolGetAttribute(pool, which, &value));
	return value;
}

static inline void
set(CUmemoryPool pool, CUmemPool_attribute which, uint64_t value)
{
	int small = (int)value;
	bool is_small = which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;

	ok(cuMemPoolSetAttribute(pool, which, is_small ? (void *)&small : (void *)&value));
}

static inline uint64_t
reserved(CUmemoryPool pool)
{
	return attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

static inline uint64_t
used(CUmemoryPool pool)
{
	return attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
}

/* Rules 3, 4 and 5 on or off. */
static inline void
rules(CUmemoryPool pool, int follow, int opportunistic, int internal)
{
	set(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, (uint64_t)follow);
	set(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, (uint64_t)opportunistic);
	set(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, (uint64_t)internal);
}

/* Exactly `count` findings, all of the kind. */
static inline void
found(enum fake_finding kind, size_t count)
{
	char text[256] = "";

	for (size_t i = 0; i < fake_cuda_findings(); i++)
		if (fake_cuda_finding(i, NULL, text, sizeof text))
			printf("  %s\n", text);
	ck_assert_uint_eq(fake_cuda_findings_of(kind), count);
	ck_assert_uint_eq(fake_cuda_findings(), count);
}

static inline void
found_nothing(void)
{
	found(FAKE_FOUND_LEAK, 0);
}

#endif

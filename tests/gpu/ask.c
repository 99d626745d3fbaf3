/* SPDX-License-Identifier: Apache-2.0 */
/* How a question of the probe asks the driver, and answers; see ask.h. */
#include "tests/gpu/ask.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/gpu/probe.h"

FILE *out;
struct gpu *gpu;

void
answer(uint64_t value)
{
	fprintf(out, "%" PRIu64, value);
}

void
answer_result(CUresult result)
{
	fprintf(out, "%d %s", (int)result, gpu_result_name(gpu, result));
}

void
answer_nothing(const char *why)
{
	fprintf(out, "? %s", why);
}

void
must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(out, "? %s: %s", what, gpu_result_name(gpu, result));
	fflush(out);
	_exit(EXIT_SUCCESS);
}

CUmemoryPool
pool_new(uint64_t max, CUmemAllocationHandleType handles)
{
	const CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				       .handleTypes = handles,
				       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
						     .id = gpu->ordinal },
				       .maxSize = max };
	CUmemoryPool pool;

	MUST(d.cuMemPoolCreate, &pool, &props);
	return pool;
}

void
keep_all(CUmemoryPool pool)
{
	cuuint64_t all = UINT64_MAX;

	MUST(d.cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
}

void
reuse_after_synchronisation_only(CUmemoryPool pool)
{
	int no = 0;

	MUST(d.cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &no);
	MUST(d.cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &no);
	MUST(d.cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no);
}

uint64_t
pool_value(CUmemoryPool pool, CUmemPool_attribute which)
{
	cuuint64_t value = 0;

	MUST(d.cuMemPoolGetAttribute, pool, which, &value);
	return value;
}

CUstream
stream_new(void)
{
	CUstream stream;

	MUST(d.cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	return stream;
}

CUdeviceptr
take(CUmemoryPool pool, uint64_t bytes, CUstream stream)
{
	CUdeviceptr ptr;

	MUST(d.cuMemAllocFromPoolAsync, &ptr, bytes, pool, stream);
	return ptr;
}

/* A kernel of the stream writes where the host looks. */
void
wait_unseen(CUstream stream)
{
	time_t start = time(NULL);

	gpu_touch(gpu, gpu->shared_device + offsetof(struct gpu_shared, mark), 1, 1, (uintptr_t)stream);
	while (__atomic_load_n(&gpu->shared->mark, __ATOMIC_SEQ_CST) == 0 &&
	       time(NULL) - start < PROBE_SECONDS)
		;
	__atomic_store_n(&gpu->shared->mark, 0, __ATOMIC_SEQ_CST);
}

void
query_until_done(CUstream stream)
{
	CUresult result;

	while ((result = gpu->d.cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
		;
	must(result, "cuStreamQuery");
}

void
stand_in_mode(enum fake_mode mode)
{
	if (gpu->stand_in)
		gpu->fake.mode(mode, 1, 0);
}

void
probe_ask(const struct probe_question *question, struct gpu *device, FILE *file)
{
	gpu = device;
	out = file;
	question->ask();
}

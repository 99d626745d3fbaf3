/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the driver for the kit, and launching its kernels; see the header. */
#include "tests/gpu/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tests/gpu/case.h"

#define THREADS 256u
#define BLOCKS_MAX 256u

static void
must(struct gpu *gpu, CUresult result, const char *what)
{
	char text[256];

	if (result != CUDA_SUCCESS)
		case_fail("%s",
			  cuda_result_text(&gpu->d, result, strncmp(what, "d.", 2) == 0 ? what + 2 : what,
					   text, sizeof text));
}
#define MUST(entry, ...) must(gpu, gpu->entry(__VA_ARGS__), #entry)

const char *
gpu_result_name(const struct gpu *gpu, CUresult result)
{
	const char *name = NULL;

	return gpu->d.cuGetErrorName(result, &name) == CUDA_SUCCESS && name != NULL ? name : "unnamed";
}

/* ---- the driver ----------------------------------------------------------------------- */

typedef CUresult get_entry(const char *name, void **entry, int version, cuuint64_t flags,
			   CUdriverProcAddressQueryResult *found);

static bool
find_entry(get_entry *get, const char *name, int since, void **entry, const char **reason)
{
	static char text[96];

	if (get(name, entry, since, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) == CUDA_SUCCESS &&
	    *entry != NULL)
		return true;
	snprintf(text, sizeof text, "the driver has no %s", name);
	*reason = text;
	return false;
}

static const char *
find_entries(struct gpu *gpu, void *library)
{
	const char *reason = NULL;
	get_entry *get;

	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	if (get == NULL)
		return "the driver is older than CUDA 12.0";
		/* `#name` here, before a macro of cuda.h could change it. */
#define X(name, since, arguments)                                                   \
	if (!find_entry(get, #name, since, (void **)(void *)&gpu->d.name, &reason)) \
		return reason;
	CUDA_SYMBOLS(X)
#undef X
#define X(name, since, arguments)                                                 \
	if (!find_entry(get, #name, since, (void **)(void *)&gpu->name, &reason)) \
		return reason;
	GPU_SYMBOLS(X)
#undef X
	return NULL;
}

/* ---- the stand-in's check kernel --------------------------------------------------------- */

static const size_t check_sizes[] = { 8, 8, 4, 8, 0 };

struct check_params {
	uint64_t ptr, bytes, result;
	uint32_t value;
};

static struct check_params
check_params(void *const *params)
{
	struct check_params p;

	memcpy(&p.ptr, params[0], 8);
	memcpy(&p.bytes, params[1], 8);
	memcpy(&p.value, params[2], 4);
	memcpy(&p.result, params[3], 8);
	return p;
}

static void
run_check(void *const *params, unsigned blocks, unsigned threads)
{
	struct check_params p = check_params(params);
	const unsigned char *bytes = (const unsigned char *)(uintptr_t)p.ptr;

	(void)blocks, (void)threads;
	for (uint64_t i = 0; i < p.bytes; i++)
		*(uint64_t *)(uintptr_t)p.result += bytes[i] != (unsigned char)p.value;
}

static size_t
check_uses(void *const *params, struct fake_use *uses, size_t max)
{
	struct check_params p = check_params(params);

	(void)max;
	uses[0] = (struct fake_use){ p.ptr, p.bytes, false };
	return 1;
}

/* ---- opening -------------------------------------------------------------------------------- */

static void
find_kernels(struct gpu *gpu)
{
	const struct fake_kernel check = {
		.name = "soma_check", .sizes = check_sizes, .run = run_check, .uses = check_uses
	};

	if (gpu->stand_in)
		gpu->fake.kernel(&check);
	MUST(d.cuModuleLoadData, &gpu->module, gpu_kernels);
	MUST(d.cuModuleGetFunction, &gpu->touch, gpu->module, "soma_touch");
	MUST(d.cuModuleGetFunction, &gpu->read, gpu->module, "soma_read");
	MUST(d.cuModuleGetFunction, &gpu->check, gpu->module, "soma_check");
	if (!gpu->stand_in)
		MUST(d.cuModuleGetFunction, &gpu->wait, gpu->module, "soma_wait");
}

static void
open_device(struct gpu *gpu)
{
	void *memory;

	MUST(d.cuDeviceGet, &gpu->device, gpu->ordinal);
	MUST(d.cuDeviceGetName, gpu->name, (int)sizeof gpu->name, gpu->device);
	MUST(d.cuDevicePrimaryCtxRetain, &gpu->context, gpu->device);
	MUST(d.cuCtxPushCurrent, gpu->context);
	MUST(d.cuMemHostAlloc, &memory, sizeof *gpu->shared,
	     CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
	memset(memory, 0, sizeof *gpu->shared);
	gpu->shared = memory;
	MUST(cuMemHostGetDevicePointer, &gpu->shared_device, memory, 0);
}

/* A kernel may be brought to the device by its first launch, for which the driver may wait for a stream that is
 * held. */
static void
launch_each_once(struct gpu *gpu)
{
	uint64_t mark = gpu->shared_device + offsetof(struct gpu_shared, mark);

	gpu_touch(gpu, mark, 1, 0, 0);
	gpu_read(gpu, mark, 1, 0);
	gpu_check(gpu, mark, 1, 0, 0);
	gpu_hold(gpu, 0);
	gpu_go(gpu);
	MUST(d.cuCtxSynchronize);
}

const char *
gpu_open(struct gpu *gpu, int ordinal)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	CUresult (*version)(int *version);
	const char *reason;
	CUresult result;
	int count = 0;

	if (library == NULL)
		return "no GPU: there is no CUDA driver (libcuda.so.1)";
	gpu->ordinal = ordinal;
	gpu->stand_in = fake_controls(library, &gpu->fake);
	if (gpu->stand_in)
		gpu->fake.check_signals(false);
	reason = find_entries(gpu, library);
	if (reason != NULL)
		return reason;
	*(void **)&version = dlsym(library, "cuDriverGetVersion");
	if (version == NULL || version(&gpu->driver_version) != CUDA_SUCCESS)
		return "the driver does not say its version";
	result = gpu->d.cuInit(0);
	if (result != CUDA_SUCCESS)
		return result == CUDA_ERROR_NO_DEVICE ? "no GPU: the driver has no device"
						      : "no GPU: the driver cannot be initialised";
	if (gpu->d.cuDeviceGetCount(&count) != CUDA_SUCCESS || ordinal < 0 || ordinal >= count)
		return "no GPU: there is no device of this number";
	open_device(gpu);
	find_kernels(gpu);
	launch_each_once(gpu);
	return NULL;
}

void
gpu_close(struct gpu *gpu)
{
	CUcontext context;

	gpu_go(gpu);
	(void)gpu->d.cuCtxSynchronize();
	(void)gpu->d.cuModuleUnload(gpu->module);
	(void)gpu->d.cuMemFreeHost(gpu->shared);
	(void)gpu->d.cuCtxPopCurrent(&context);
	(void)gpu->d.cuDevicePrimaryCtxRelease(gpu->device);
}

/* ---- kernels ------------------------------------------------------------------------------------ */

static void
launch(struct gpu *gpu, CUfunction function, uint64_t bytes, uint64_t stream, void **params)
{
	uint64_t blocks = bytes / (THREADS * 16) + 1;

	MUST(d.cuLaunchKernel, function, blocks < BLOCKS_MAX ? (unsigned)blocks : BLOCKS_MAX, 1, 1, THREADS,
	     1, 1, 0, (CUstream)(uintptr_t)stream, params, NULL);
}

void
gpu_touch(struct gpu *gpu, uint64_t ptr, uint64_t bytes, unsigned char value, uint64_t stream)
{
	uint32_t wide = value;

	launch(gpu, gpu->touch, bytes, stream, (void *[]){ &ptr, &bytes, &wide });
}

void
gpu_read(struct gpu *gpu, uint64_t ptr, uint64_t bytes, uint64_t stream)
{
	launch(gpu, gpu->read, bytes, stream, (void *[]){ &ptr, &bytes });
}

void
gpu_check(struct gpu *gpu, uint64_t ptr, uint64_t bytes, unsigned char value, uint64_t stream)
{
	uint32_t wide = value;
	uint64_t result = gpu->shared_device + offsetof(struct gpu_shared, mismatch);

	launch(gpu, gpu->check, bytes, stream, (void *[]){ &ptr, &bytes, &wide, &result });
}

void
gpu_hold(struct gpu *gpu, uint64_t stream)
{
	uint64_t flag = gpu->shared_device + offsetof(struct gpu_shared, go);

	if (gpu->wait == NULL)
		return;
	__atomic_store_n(&gpu->shared->go, 0, __ATOMIC_SEQ_CST);
	MUST(d.cuLaunchKernel, gpu->wait, 1, 1, 1, 1, 1, 1, 0, (CUstream)(uintptr_t)stream,
	     (void *[]){ &flag }, NULL);
}

void
gpu_go(struct gpu *gpu)
{
	__atomic_store_n(&gpu->shared->go, 1, __ATOMIC_SEQ_CST);
}

/* ---- answers --------------------------------------------------------------------------------------- */

uint64_t
gpu_mismatches(struct gpu *gpu)
{
	gpu_go(gpu);
	MUST(d.cuCtxSynchronize);
	return __atomic_exchange_n(&gpu->shared->mismatch, 0, __ATOMIC_SEQ_CST);
}

bool
gpu_ends_are(struct gpu *gpu, uint64_t ptr, uint64_t bytes, unsigned char value, uint64_t stream)
{
	unsigned char ends[2] = { (unsigned char)~value, (unsigned char)~value };

	MUST(d.cuMemcpyDtoHAsync, &ends[0], ptr, 1, (CUstream)(uintptr_t)stream);
	MUST(d.cuMemcpyDtoHAsync, &ends[1], ptr + bytes - 1, 1, (CUstream)(uintptr_t)stream);
	MUST(d.cuStreamSynchronize, (CUstream)(uintptr_t)stream);
	return ends[0] == value && ends[1] == value;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver as the kit uses it: its entries, kernels of the kit's own, and streams that wait until they are told to
 * go on.  Whatever fails here ends the case (case.h).  One device a process, one thread.
 *
 * A kernel that the driver cannot run is left out: the stand-in runs those that it knows by name or that are
 * registered with it, and has no soma_wait, because its delays come from a seed.
 */
#ifndef SOMA_TESTS_GPU_GPU_H
#define SOMA_TESTS_GPU_GPU_H

#include "backends/cuda/driver.h"
#include "tests/fake/fake.h"

/* Entries that only the kit uses. */
#define GPU_SYMBOLS(X)                                                                          \
	X(cuMemAllocAsync, 11020, (CUdeviceptr * ptr, size_t bytes, CUstream stream))           \
	X(cuDeviceGetDefaultMemPool, 11020, (CUmemoryPool * pool, CUdevice device))             \
	X(cuStreamBeginCapture, 10010, (CUstream stream, CUstreamCaptureMode mode))             \
	X(cuStreamEndCapture, 10000, (CUstream stream, CUgraph * graph))                        \
	X(cuGraphDestroy, 10000, (CUgraph graph))                                               \
	X(cuLaunchHostFunc, 10000, (CUstream stream, void (*function)(void *data), void *data)) \
	X(cuMemHostGetDevicePointer, 3020, (CUdeviceptr * ptr, void *memory, unsigned flags))

/* In pinned memory. */
struct gpu_shared {
	uint32_t go;       /* what held streams wait for */
	uint32_t mark;     /* for the host to look at without asking the driver */
	uint64_t mismatch; /* bytes that gpu_check() found different */
};

struct gpu {
	struct cuda_driver d;
#define X(name, since, arguments) CUresult(*name) arguments;
	GPU_SYMBOLS(X)
#undef X
	bool stand_in;
	struct fake_controls fake;
	int ordinal, driver_version;
	char name[96];
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction touch, read, check, wait; /* wait: NULL on the stand-in */
	struct gpu_shared *shared;
	CUdeviceptr shared_device;
};

/* NULL, or why there is no GPU to be used.  The device's context is current then. */
const char *gpu_open(struct gpu *gpu, int ordinal);

/* Its primary context is let go. */
void gpu_close(struct gpu *gpu);

/* "CUDA_ERROR_INVALID_VALUE". */
const char *gpu_result_name(const struct gpu *gpu, CUresult result);

/* Kernels: every byte becomes `value`; is read; is compared, and what differs is counted in shared->mismatch. */
void gpu_touch(struct gpu *gpu, uint64_t ptr, uint64_t bytes, unsigned char value, uint64_t stream);
void gpu_read(struct gpu *gpu, uint64_t ptr, uint64_t bytes, uint64_t stream);
void gpu_check(struct gpu *gpu, uint64_t ptr, uint64_t bytes, unsigned char value, uint64_t stream);

/* What is queued on the stream from now on waits for gpu_go(), or a second.  Nothing where there is no such kernel. */
void gpu_hold(struct gpu *gpu, uint64_t stream);
void gpu_go(struct gpu *gpu);

/* Waits for the device and answers what was counted since the last time. */
uint64_t gpu_mismatches(struct gpu *gpu);

/* Waits for the stream, and compares the first byte and the last with `value`. */
bool gpu_ends_are(struct gpu *gpu, uint64_t ptr, uint64_t bytes, unsigned char value, uint64_t stream);

/* kernels.c: their text. */
extern const char gpu_kernels[];

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry of the driver that is used: X(name, version, arguments).  `version` is the first CUDA
 * version with an entry of these arguments under this name, and what the driver is asked for.
 *
 * cuda.h makes macros of some of these names.  They are the same everywhere then, and `#name` is
 * still the plain one, as the driver wants it.
 */
#ifndef SOMA_BACKENDS_CUDA_SYMBOLS_H
#define SOMA_BACKENDS_CUDA_SYMBOLS_H

#include "backends/cuda/api.h"

#define CUDA_SYMBOLS(X)                                                                                     \
	X(cuInit, 2000, (unsigned flags))                                                                   \
	X(cuGetErrorName, 6000, (CUresult result, const char **text))                                       \
	X(cuGetErrorString, 6000, (CUresult result, const char **text))                                     \
	X(cuDeviceGetCount, 2000, (int *count))                                                             \
	X(cuDeviceGet, 2000, (CUdevice * device, int ordinal))                                              \
	X(cuDeviceGetName, 2000, (char *name, int size, CUdevice device))                                   \
	X(cuDeviceGetUuid, 11040, (CUuuid * uuid, CUdevice device))                                         \
	X(cuDeviceGetAttribute, 2000, (int *value, CUdevice_attribute attribute, CUdevice device))          \
	X(cuDeviceTotalMem, 3020, (size_t * bytes, CUdevice device))                                        \
	X(cuDeviceCanAccessPeer, 4000, (int *can, CUdevice device, CUdevice peer))                          \
	X(cuDevicePrimaryCtxRetain, 7000, (CUcontext * context, CUdevice device))                           \
	X(cuDevicePrimaryCtxRelease, 11000, (CUdevice device))                                              \
	X(cuCtxGetCurrent, 4000, (CUcontext * context))                                                     \
	X(cuCtxPushCurrent, 4000, (CUcontext context))                                                      \
	X(cuCtxPopCurrent, 4000, (CUcontext * context))                                                     \
	X(cuCtxSynchronize, 2000, (void))                                                                   \
	X(cuThreadExchangeStreamCaptureMode, 10010, (CUstreamCaptureMode * mode))                           \
	X(cuStreamCreate, 2000, (CUstream * stream, unsigned flags))                                        \
	X(cuStreamDestroy, 4000, (CUstream stream))                                                         \
	X(cuStreamGetId, 12000, (CUstream stream, unsigned long long *id))                                  \
	X(cuStreamGetFlags, 5050, (CUstream stream, unsigned *flags))                                       \
	X(cuStreamGetCtx, 9020, (CUstream stream, CUcontext * context))                                     \
	X(cuStreamIsCapturing, 10000, (CUstream stream, CUstreamCaptureStatus * status))                    \
	X(cuStreamGetCaptureInfo, 11030,                                                                    \
	  (CUstream stream, CUstreamCaptureStatus * status, cuuint64_t * id, CUgraph * graph,               \
	   const CUgraphNode **dependencies, size_t *count))                                                \
	X(cuStreamQuery, 2000, (CUstream stream))                                                           \
	X(cuStreamSynchronize, 2000, (CUstream stream))                                                     \
	X(cuStreamWaitEvent, 3020, (CUstream stream, CUevent event, unsigned flags))                        \
	X(cuEventCreate, 2000, (CUevent * event, unsigned flags))                                           \
	X(cuEventDestroy, 4000, (CUevent event))                                                            \
	X(cuEventRecord, 2000, (CUevent event, CUstream stream))                                            \
	X(cuEventQuery, 2000, (CUevent event))                                                              \
	X(cuEventSynchronize, 2000, (CUevent event))                                                        \
	X(cuMemAlloc, 3020, (CUdeviceptr * ptr, size_t bytes))                                              \
	X(cuMemFree, 3020, (CUdeviceptr ptr))                                                               \
	X(cuMemGetInfo, 3020, (size_t * free, size_t * total))                                              \
	X(cuMemHostAlloc, 2020, (void **memory, size_t bytes, unsigned flags))                              \
	X(cuMemFreeHost, 2000, (void *memory))                                                              \
	X(cuMemsetD8Async, 3020, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))      \
	X(cuMemsetD32Async, 3020, (CUdeviceptr to, unsigned value, size_t count, CUstream stream))          \
	X(cuMemcpyHtoDAsync, 3020, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))       \
	X(cuMemcpyDtoHAsync, 3020, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))             \
	X(cuMemcpyDtoDAsync, 3020, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))       \
	X(cuMemAllocFromPoolAsync, 11020,                                                                   \
	  (CUdeviceptr * ptr, size_t bytes, CUmemoryPool pool, CUstream stream))                            \
	X(cuMemFreeAsync, 11020, (CUdeviceptr ptr, CUstream stream))                                        \
	X(cuMemPoolCreate, 11020, (CUmemoryPool * pool, const CUmemPoolProps *props))                       \
	X(cuMemPoolDestroy, 11020, (CUmemoryPool pool))                                                     \
	X(cuMemPoolSetAttribute, 11020, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))    \
	X(cuMemPoolGetAttribute, 11020, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))    \
	X(cuMemPoolTrimTo, 11020, (CUmemoryPool pool, size_t keep))                                         \
	X(cuMemPoolSetAccess, 11020, (CUmemoryPool pool, const CUmemAccessDesc *map, size_t count))         \
	X(cuMemPoolExportToShareableHandle, 11020,                                                          \
	  (void *handle, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags))      \
	X(cuMemPoolImportFromShareableHandle, 11020,                                                        \
	  (CUmemoryPool * pool, void *handle, CUmemAllocationHandleType type, unsigned long long flags))    \
	X(cuMemPoolExportPointer, 11020, (CUmemPoolPtrExportData * data, CUdeviceptr ptr))                  \
	X(cuMemPoolImportPointer, 11020,                                                                    \
	  (CUdeviceptr * ptr, CUmemoryPool pool, CUmemPoolPtrExportData * data))                            \
	X(cuMemAddressReserve, 10020,                                                                       \
	  (CUdeviceptr * ptr, size_t size, size_t alignment, CUdeviceptr wish, unsigned long long flags))   \
	X(cuMemAddressFree, 10020, (CUdeviceptr ptr, size_t size))                                          \
	X(cuMemCreate, 10020,                                                                               \
	  (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *props,            \
	   unsigned long long flags))                                                                       \
	X(cuMemRelease, 10020, (CUmemGenericAllocationHandle handle))                                       \
	X(cuMemMap, 10020,                                                                                  \
	  (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,                \
	   unsigned long long flags))                                                                       \
	X(cuMemUnmap, 10020, (CUdeviceptr ptr, size_t size))                                                \
	X(cuMemSetAccess, 10020, (CUdeviceptr ptr, size_t size, const CUmemAccessDesc *map, size_t count))  \
	X(cuMemGetAllocationGranularity, 10020,                                                             \
	  (size_t * granularity, const CUmemAllocationProp *props, CUmemAllocationGranularity_flags which)) \
	X(cuModuleLoadData, 2000, (CUmodule * module, const void *image))                                   \
	X(cuModuleUnload, 2000, (CUmodule module))                                                          \
	X(cuModuleGetFunction, 2000, (CUfunction * function, CUmodule module, const char *name))            \
	X(cuLaunchKernel, 4000,                                                                             \
	  (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
	   unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,   \
	   void **extra))

#endif

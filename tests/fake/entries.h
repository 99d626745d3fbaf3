/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry of the stand-in once.  `since` is the version of CUDA that brought this form of
 * it; of several forms of one name cuGetProcAddress gives the newest that the asked version has.
 *
 * What a call needs and answers (flags, world.c):
 *   ALWAYS  works before cuInit and whatever has happened
 *   PLAIN   needs cuInit
 *   STICKY  as PLAIN, and answers with the sticky error of the current context
 *   STREAM  as CTX, but a context need not be current if a stream is named
 *   CTX     needs a current context; answers with its sticky and its deferred error
 *   WAITS   has waited even when it answers with a deferred error
 *   UNSAFE  not during a capture, see capture.c
 */
#ifndef SOMA_TESTS_FAKE_ENTRIES_H
#define SOMA_TESTS_FAKE_ENTRIES_H

/* clang-format off */
/* X(name, symbol, since, flags, arguments) */
#define FAKE_ENTRIES(X) \
	X(cuInit, cuInit, 2000, ENTRY_ALWAYS, (unsigned flags)) \
	X(cuDriverGetVersion, cuDriverGetVersion, 2020, ENTRY_ALWAYS, (int *version)) \
	X(cuGetProcAddress, cuGetProcAddress, 11030, ENTRY_ALWAYS, (const char *symbol, void **function, int version, uint64_t flags)) \
	X(cuGetProcAddress, cuGetProcAddress_v2, 12000, ENTRY_ALWAYS, (const char *symbol, void **function, int version, uint64_t flags, CUdriverProcAddressQueryResult *status)) \
	X(cuGetErrorName, cuGetErrorName, 6000, ENTRY_ALWAYS, (CUresult error, const char **name)) \
	X(cuGetErrorString, cuGetErrorString, 6000, ENTRY_ALWAYS, (CUresult error, const char **text)) \
	X(cuDeviceGet, cuDeviceGet, 2000, ENTRY_PLAIN, (CUdevice *device, int ordinal)) \
	X(cuDeviceGetCount, cuDeviceGetCount, 2000, ENTRY_PLAIN, (int *count)) \
	X(cuDeviceGetName, cuDeviceGetName, 2000, ENTRY_PLAIN, (char *name, int length, CUdevice device)) \
	X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, ENTRY_PLAIN, (int *value, CUdevice_attribute attribute, CUdevice device)) \
	X(cuDeviceGetUuid, cuDeviceGetUuid, 9020, ENTRY_PLAIN, (CUuuid *uuid, CUdevice device)) \
	X(cuDeviceGetUuid, cuDeviceGetUuid_v2, 11040, ENTRY_PLAIN, (CUuuid *uuid, CUdevice device)) \
	X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, ENTRY_PLAIN, (size_t *bytes, CUdevice device)) \
	X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, ENTRY_PLAIN, (int *can, CUdevice device, CUdevice peer)) \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, ENTRY_PLAIN, (CUcontext *context, CUdevice device)) \
	X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, ENTRY_PLAIN, (CUdevice device)) \
	X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000, ENTRY_PLAIN, (CUdevice device)) \
	X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, ENTRY_PLAIN, (CUdevice device, unsigned *flags, int *active)) \
	X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, ENTRY_PLAIN, (CUcontext *context)) \
	X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, ENTRY_PLAIN, (CUcontext context)) \
	X(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000, ENTRY_PLAIN, (CUcontext context)) \
	X(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, ENTRY_PLAIN, (CUcontext *context)) \
	X(cuCtxGetDevice, cuCtxGetDevice, 2000, ENTRY_CTX, (CUdevice *device)) \
	X(cuCtxGetDevice, cuCtxGetDevice_v2, 13000, ENTRY_PLAIN, (CUdevice *device, CUcontext context)) \
	X(cuCtxSynchronize, cuCtxSynchronize, 2000, ENTRY_CTX|ENTRY_WAITS|ENTRY_UNSAFE, (void)) \
	X(cuCtxSynchronize, cuCtxSynchronize_v2, 13000, ENTRY_CTX|ENTRY_WAITS|ENTRY_UNSAFE, (CUcontext context)) \
	X(cuCtxGetId, cuCtxGetId, 12000, ENTRY_PLAIN, (CUcontext context, unsigned long long *id)) \
	X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, ENTRY_CTX, (CUcontext peer, unsigned flags)) \
	X(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, ENTRY_CTX, (CUcontext peer)) \
	X(cuMemGetInfo, cuMemGetInfo_v2, 3020, ENTRY_CTX, (size_t *free, size_t *total)) \
	X(cuMemAlloc, cuMemAlloc_v2, 3020, ENTRY_CTX|ENTRY_UNSAFE, (CUdeviceptr *ptr, size_t bytes)) \
	X(cuMemFree, cuMemFree_v2, 3020, ENTRY_CTX|ENTRY_UNSAFE, (CUdeviceptr ptr)) \
	X(cuMemHostAlloc, cuMemHostAlloc, 2020, ENTRY_CTX|ENTRY_UNSAFE, (void **ptr, size_t bytes, unsigned flags)) \
	X(cuMemFreeHost, cuMemFreeHost, 2000, ENTRY_CTX|ENTRY_UNSAFE, (void *ptr)) \
	X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020, ENTRY_CTX, (CUdeviceptr *device_ptr, void *ptr, unsigned flags)) \
	X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, ENTRY_PLAIN, (void *data, CUpointer_attribute attribute, CUdeviceptr ptr)) \
	X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, ENTRY_PLAIN, (unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)) \
	X(cuMemAllocAsync, cuMemAllocAsync, 11020, ENTRY_STREAM, (CUdeviceptr *ptr, size_t bytes, CUstream stream)) \
	X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, ENTRY_STREAM, (CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream)) \
	X(cuMemFreeAsync, cuMemFreeAsync, 11020, ENTRY_STREAM, (CUdeviceptr ptr, CUstream stream)) \
	X(cuMemPoolCreate, cuMemPoolCreate, 11020, ENTRY_STICKY, (CUmemoryPool *pool, const CUmemPoolProps *props)) \
	X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, ENTRY_STICKY, (CUmemoryPool pool)) \
	X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, ENTRY_STICKY, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value)) \
	X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, ENTRY_STICKY, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value)) \
	X(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, ENTRY_STICKY, (CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)) \
	X(cuMemPoolGetAccess, cuMemPoolGetAccess, 11020, ENTRY_STICKY, (CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)) \
	X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, ENTRY_STICKY, (CUmemoryPool pool, size_t keep)) \
	X(cuMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle, 11020, ENTRY_STICKY, (void *handle, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags)) \
	X(cuMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle, 11020, ENTRY_STICKY, (CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type, unsigned long long flags)) \
	X(cuMemPoolExportPointer, cuMemPoolExportPointer, 11020, ENTRY_STICKY, (CUmemPoolPtrExportData *data, CUdeviceptr ptr)) \
	X(cuMemPoolImportPointer, cuMemPoolImportPointer, 11020, ENTRY_STICKY, (CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)) \
	X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, ENTRY_PLAIN, (CUmemoryPool *pool, CUdevice device)) \
	X(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, ENTRY_PLAIN, (CUmemoryPool *pool, CUdevice device)) \
	X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, ENTRY_PLAIN, (CUdevice device, CUmemoryPool pool)) \
	X(cuStreamCreate, cuStreamCreate, 2000, ENTRY_CTX, (CUstream *stream, unsigned flags)) \
	X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, ENTRY_CTX, (CUstream *stream, unsigned flags, int priority)) \
	X(cuStreamDestroy, cuStreamDestroy_v2, 4000, ENTRY_CTX, (CUstream stream)) \
	X(cuStreamQuery, cuStreamQuery, 2000, ENTRY_CTX, (CUstream stream)) \
	X(cuStreamSynchronize, cuStreamSynchronize, 2000, ENTRY_CTX|ENTRY_WAITS, (CUstream stream)) \
	X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, ENTRY_CTX, (CUstream stream, CUevent event, unsigned flags)) \
	X(cuStreamGetId, cuStreamGetId, 12000, ENTRY_CTX, (CUstream stream, unsigned long long *id)) \
	X(cuStreamGetFlags, cuStreamGetFlags, 5050, ENTRY_CTX, (CUstream stream, unsigned *flags)) \
	X(cuStreamGetCtx, cuStreamGetCtx, 9020, ENTRY_CTX, (CUstream stream, CUcontext *context)) \
	X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, ENTRY_CTX, (CUstream stream, CUstreamCaptureStatus *status)) \
	X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2, 11030, ENTRY_CTX, (CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, size_t *count)) \
	X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3, 12030, ENTRY_CTX, (CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, const void **edges, size_t *count)) \
	X(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010, ENTRY_CTX, (CUstream stream, CUstreamCaptureMode mode)) \
	X(cuStreamEndCapture, cuStreamEndCapture, 10000, ENTRY_CTX, (CUstream stream, CUgraph *graph)) \
	X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, ENTRY_PLAIN, (CUstreamCaptureMode *mode)) \
	X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, ENTRY_CTX, (CUgraphExec *exec, CUgraph graph, unsigned long long flags)) \
	X(cuGraphLaunch, cuGraphLaunch, 10000, ENTRY_CTX, (CUgraphExec exec, CUstream stream)) \
	X(cuGraphDestroy, cuGraphDestroy, 10000, ENTRY_STICKY, (CUgraph graph)) \
	X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, ENTRY_STICKY, (CUgraphExec exec)) \
	X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, ENTRY_CTX, (CUstream stream, CUhostFn function, void *data)) \
	X(cuLaunchKernel, cuLaunchKernel, 4000, ENTRY_CTX, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **params, void **extra)) \
	X(cuEventCreate, cuEventCreate, 2000, ENTRY_CTX, (CUevent *event, unsigned flags)) \
	X(cuEventDestroy, cuEventDestroy_v2, 4000, ENTRY_CTX, (CUevent event)) \
	X(cuEventRecord, cuEventRecord, 2000, ENTRY_CTX, (CUevent event, CUstream stream)) \
	X(cuEventQuery, cuEventQuery, 2000, ENTRY_CTX|ENTRY_UNSAFE, (CUevent event)) \
	X(cuEventSynchronize, cuEventSynchronize, 2000, ENTRY_CTX|ENTRY_WAITS|ENTRY_UNSAFE, (CUevent event)) \
	X(cuMemsetD8Async, cuMemsetD8Async, 3020, ENTRY_CTX, (CUdeviceptr ptr, unsigned char value, size_t count, CUstream stream)) \
	X(cuMemsetD32Async, cuMemsetD32Async, 3020, ENTRY_CTX, (CUdeviceptr ptr, unsigned value, size_t count, CUstream stream)) \
	X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, ENTRY_CTX, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
	X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, ENTRY_CTX, (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020, ENTRY_CTX, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemcpyAsync, cuMemcpyAsync, 4000, ENTRY_CTX, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemsetD8, cuMemsetD8_v2, 3020, ENTRY_CTX|ENTRY_UNSAFE, (CUdeviceptr ptr, unsigned char value, size_t count)) \
	X(cuMemsetD32, cuMemsetD32_v2, 3020, ENTRY_CTX|ENTRY_UNSAFE, (CUdeviceptr ptr, unsigned value, size_t count)) \
	X(cuMemcpy, cuMemcpy, 4000, ENTRY_CTX|ENTRY_UNSAFE|ENTRY_WAITS, (CUdeviceptr to, CUdeviceptr from, size_t bytes)) \
	X(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020, ENTRY_CTX|ENTRY_UNSAFE|ENTRY_WAITS, (CUdeviceptr to, const void *from, size_t bytes)) \
	X(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020, ENTRY_CTX|ENTRY_UNSAFE|ENTRY_WAITS, (void *to, CUdeviceptr from, size_t bytes)) \
	X(cuMemAddressReserve, cuMemAddressReserve, 10020, ENTRY_STICKY, (CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr where, unsigned long long flags)) \
	X(cuMemAddressFree, cuMemAddressFree, 10020, ENTRY_STICKY, (CUdeviceptr ptr, size_t size)) \
	X(cuMemCreate, cuMemCreate, 10020, ENTRY_STICKY|ENTRY_UNSAFE, (CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)) \
	X(cuMemRelease, cuMemRelease, 10020, ENTRY_STICKY, (CUmemGenericAllocationHandle handle)) \
	X(cuMemMap, cuMemMap, 10020, ENTRY_STICKY, (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)) \
	X(cuMemUnmap, cuMemUnmap, 10020, ENTRY_STICKY, (CUdeviceptr ptr, size_t size)) \
	X(cuMemSetAccess, cuMemSetAccess, 10020, ENTRY_STICKY, (CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)) \
	X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, ENTRY_PLAIN, (size_t *granularity, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)) \
	X(cuModuleLoadData, cuModuleLoadData, 2000, ENTRY_CTX|ENTRY_UNSAFE, (CUmodule *module, const void *image)) \
	X(cuModuleUnload, cuModuleUnload, 2000, ENTRY_CTX|ENTRY_UNSAFE, (CUmodule module)) \
	X(cuModuleGetFunction, cuModuleGetFunction, 2000, ENTRY_CTX, (CUfunction *function, CUmodule module, const char *name))

/* The forms whose default stream is the calling thread's own.
 * X(name, symbol, since, the entry that it is counted as, arguments) */
#define FAKE_PER_THREAD(X) \
	X(cuMemAllocAsync, cuMemAllocAsync_ptsz, 11020, cuMemAllocAsync, (CUdeviceptr *ptr, size_t bytes, CUstream stream)) \
	X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz, 11020, cuMemAllocFromPoolAsync, (CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream)) \
	X(cuMemFreeAsync, cuMemFreeAsync_ptsz, 11020, cuMemFreeAsync, (CUdeviceptr ptr, CUstream stream)) \
	X(cuStreamQuery, cuStreamQuery_ptsz, 7000, cuStreamQuery, (CUstream stream)) \
	X(cuStreamSynchronize, cuStreamSynchronize_ptsz, 7000, cuStreamSynchronize, (CUstream stream)) \
	X(cuStreamWaitEvent, cuStreamWaitEvent_ptsz, 7000, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags)) \
	X(cuStreamGetId, cuStreamGetId_ptsz, 12000, cuStreamGetId, (CUstream stream, unsigned long long *id)) \
	X(cuStreamGetFlags, cuStreamGetFlags_ptsz, 7000, cuStreamGetFlags, (CUstream stream, unsigned *flags)) \
	X(cuStreamGetCtx, cuStreamGetCtx_ptsz, 9020, cuStreamGetCtx, (CUstream stream, CUcontext *context)) \
	X(cuStreamIsCapturing, cuStreamIsCapturing_ptsz, 10000, cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status)) \
	X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2_ptsz, 11030, cuStreamGetCaptureInfo_v2, (CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, size_t *count)) \
	X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3_ptsz, 12030, cuStreamGetCaptureInfo_v3, (CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, const void **edges, size_t *count)) \
	X(cuStreamBeginCapture, cuStreamBeginCapture_v2_ptsz, 10010, cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode)) \
	X(cuStreamEndCapture, cuStreamEndCapture_ptsz, 10000, cuStreamEndCapture, (CUstream stream, CUgraph *graph)) \
	X(cuGraphLaunch, cuGraphLaunch_ptsz, 10000, cuGraphLaunch, (CUgraphExec exec, CUstream stream)) \
	X(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, 10000, cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data)) \
	X(cuLaunchKernel, cuLaunchKernel_ptsz, 7000, cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **params, void **extra)) \
	X(cuEventRecord, cuEventRecord_ptsz, 7000, cuEventRecord, (CUevent event, CUstream stream)) \
	X(cuMemsetD8Async, cuMemsetD8Async_ptsz, 7000, cuMemsetD8Async, (CUdeviceptr ptr, unsigned char value, size_t count, CUstream stream)) \
	X(cuMemsetD32Async, cuMemsetD32Async_ptsz, 7000, cuMemsetD32Async, (CUdeviceptr ptr, unsigned value, size_t count, CUstream stream)) \
	X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2_ptsz, 7000, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
	X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2_ptsz, 7000, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2_ptsz, 7000, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemcpyAsync, cuMemcpyAsync_ptsz, 7000, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemsetD8, cuMemsetD8_v2_ptds, 7000, cuMemsetD8_v2, (CUdeviceptr ptr, unsigned char value, size_t count)) \
	X(cuMemsetD32, cuMemsetD32_v2_ptds, 7000, cuMemsetD32_v2, (CUdeviceptr ptr, unsigned value, size_t count)) \
	X(cuMemcpy, cuMemcpy_ptds, 7000, cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes)) \
	X(cuMemcpyHtoD, cuMemcpyHtoD_v2_ptds, 7000, cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes)) \
	X(cuMemcpyDtoH, cuMemcpyDtoH_v2_ptds, 7000, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))
/* clang-format on */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What backends/cuda takes for granted of the driver's interface, as one table of numbers.  It is compiled twice:
 * with our own declarations and, where there is one, with cuda.h.
 */
#ifndef SOMA_TESTS_CUDA_FACTS_H
#define SOMA_TESTS_CUDA_FACTS_H

#include <stddef.h>

struct cuda_fact {
	const char *name;
	long long value;
};

extern const struct cuda_fact cuda_facts_own[];
extern const struct cuda_fact *const cuda_facts_header; /* NULL: there was no cuda.h */
extern const size_t cuda_fact_count;

#define CUDA_FACTS(VALUE, SIZE, OFFSET)                                \
	VALUE(CUDA_SUCCESS)                                            \
	VALUE(CUDA_ERROR_INVALID_VALUE)                                \
	VALUE(CUDA_ERROR_OUT_OF_MEMORY)                                \
	VALUE(CUDA_ERROR_NOT_INITIALIZED)                              \
	VALUE(CUDA_ERROR_DEINITIALIZED)                                \
	VALUE(CUDA_ERROR_NO_DEVICE)                                    \
	VALUE(CUDA_ERROR_INVALID_DEVICE)                               \
	VALUE(CUDA_ERROR_INVALID_CONTEXT)                              \
	VALUE(CUDA_ERROR_ECC_UNCORRECTABLE)                            \
	VALUE(CUDA_ERROR_NVLINK_UNCORRECTABLE)                         \
	VALUE(CUDA_ERROR_INVALID_HANDLE)                               \
	VALUE(CUDA_ERROR_NOT_READY)                                    \
	VALUE(CUDA_ERROR_ILLEGAL_ADDRESS)                              \
	VALUE(CUDA_ERROR_LAUNCH_TIMEOUT)                               \
	VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED)                         \
	VALUE(CUDA_ERROR_ASSERT)                                       \
	VALUE(CUDA_ERROR_HARDWARE_STACK_ERROR)                         \
	VALUE(CUDA_ERROR_ILLEGAL_INSTRUCTION)                          \
	VALUE(CUDA_ERROR_MISALIGNED_ADDRESS)                           \
	VALUE(CUDA_ERROR_INVALID_ADDRESS_SPACE)                        \
	VALUE(CUDA_ERROR_INVALID_PC)                                   \
	VALUE(CUDA_ERROR_LAUNCH_FAILED)                                \
	VALUE(CUDA_ERROR_NOT_PERMITTED)                                \
	VALUE(CUDA_ERROR_NOT_SUPPORTED)                                \
	VALUE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)                   \
	VALUE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)                      \
	VALUE(CUDA_ERROR_CAPTURED_EVENT)                               \
	VALUE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)                  \
	VALUE(CUDA_ERROR_EXTERNAL_DEVICE)                              \
	VALUE(CUDA_ERROR_UNKNOWN)                                      \
	VALUE(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) \
	VALUE(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)              \
	VALUE(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES)      \
	VALUE(CU_GET_PROC_ADDRESS_SUCCESS)                             \
	VALUE(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)                    \
	VALUE(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)              \
	VALUE(CU_GET_PROC_ADDRESS_LEGACY_STREAM)                       \
	VALUE(CU_STREAM_NON_BLOCKING)                                  \
	VALUE(CU_EVENT_DISABLE_TIMING)                                 \
	VALUE(CU_STREAM_LEGACY)                                        \
	VALUE(CU_STREAM_PER_THREAD)                                    \
	VALUE(CU_STREAM_CAPTURE_STATUS_NONE)                           \
	VALUE(CU_STREAM_CAPTURE_STATUS_ACTIVE)                         \
	VALUE(CU_STREAM_CAPTURE_STATUS_INVALIDATED)                    \
	VALUE(CU_STREAM_CAPTURE_MODE_GLOBAL)                           \
	VALUE(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)                     \
	VALUE(CU_STREAM_CAPTURE_MODE_RELAXED)                          \
	VALUE(CU_MEMHOSTALLOC_PORTABLE)                                \
	VALUE(CU_MEMHOSTALLOC_DEVICEMAP)                               \
	VALUE(CU_MEM_ALLOCATION_TYPE_PINNED)                           \
	VALUE(CU_MEM_HANDLE_TYPE_NONE)                                 \
	VALUE(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)                \
	VALUE(CU_MEM_LOCATION_TYPE_DEVICE)                             \
	VALUE(CU_MEM_ACCESS_FLAGS_PROT_NONE)                           \
	VALUE(CU_MEM_ACCESS_FLAGS_PROT_READ)                           \
	VALUE(CU_MEM_ACCESS_FLAGS_PROT_READWRITE)                      \
	VALUE(CU_MEM_ALLOC_GRANULARITY_MINIMUM)                        \
	VALUE(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)                    \
	VALUE(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES)         \
	VALUE(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC)               \
	VALUE(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)       \
	VALUE(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)                       \
	VALUE(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)                    \
	VALUE(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)                       \
	VALUE(CU_MEMPOOL_ATTR_USED_MEM_CURRENT)                        \
	VALUE(CU_MEMPOOL_ATTR_USED_MEM_HIGH)                           \
	SIZE(CUresult)                                                 \
	SIZE(CUdevice)                                                 \
	SIZE(CUdeviceptr)                                              \
	SIZE(CUcontext)                                                \
	SIZE(CUstream)                                                 \
	SIZE(CUevent)                                                  \
	SIZE(CUmodule)                                                 \
	SIZE(CUfunction)                                               \
	SIZE(CUmemoryPool)                                             \
	SIZE(CUmemGenericAllocationHandle)                             \
	SIZE(cuuint64_t)                                               \
	SIZE(CUdevice_attribute)                                       \
	SIZE(CUstreamCaptureStatus)                                    \
	SIZE(CUstreamCaptureMode)                                      \
	SIZE(CUmemAllocationHandleType)                                \
	SIZE(CUmemAllocationGranularity_flags)                         \
	SIZE(CUmemPool_attribute)                                      \
	SIZE(CUdriverProcAddressQueryResult)                           \
	SIZE(CUuuid)                                                   \
	SIZE(CUmemLocation)                                            \
	OFFSET(CUmemLocation, id)                                      \
	SIZE(CUmemAccessDesc)                                          \
	OFFSET(CUmemAccessDesc, flags)                                 \
	SIZE(CUmemPoolProps)                                           \
	OFFSET(CUmemPoolProps, handleTypes)                            \
	OFFSET(CUmemPoolProps, location)                               \
	OFFSET(CUmemPoolProps, win32SecurityAttributes)                \
	OFFSET(CUmemPoolProps, maxSize)                                \
	OFFSET(CUmemPoolProps, reserved)                               \
	SIZE(CUmemAllocationProp)                                      \
	OFFSET(CUmemAllocationProp, requestedHandleTypes)              \
	OFFSET(CUmemAllocationProp, location)                          \
	OFFSET(CUmemAllocationProp, allocFlags)                        \
	SIZE(CUmemPoolPtrExportData)

#define CUDA_FACT_VALUE(name) { #name, (long long)name },
#define CUDA_FACT_SIZE(type) { "sizeof(" #type ")", sizeof(type) },
#define CUDA_FACT_OFFSET(type, field) { #type "." #field, offsetof(type, field) },

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver API as far as the stand-in answers it: names, values and layouts, written down
 * from the public documentation.  Facts only; tests/fake/values.h has the same as numbers, and
 * tests/check_fake_values.c compares the two, and both with cuda.h where there is one.
 *
 * For the stand-in and the tests that call it directly.  Tests of the backends include only
 * fake.h, since the backends have declarations of their own.
 */
#ifndef SOMA_TESTS_FAKE_API_H
#define SOMA_TESTS_FAKE_API_H

#include <stddef.h>
#include <stdint.h>

/* X(name, value, text) */
#define FAKE_RESULTS(X)                                                                           \
	X(CUDA_SUCCESS, 0, "no error")                                                            \
	X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                        \
	X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                           \
	X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                  \
	X(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                                    \
	X(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, 36, "call requires a newer driver")              \
	X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, "device is busy or unavailable")                     \
	X(CUDA_ERROR_NO_DEVICE, 100, "no device was found")                                       \
	X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                               \
	X(CUDA_ERROR_INVALID_IMAGE, 200, "invalid kernel image")                                  \
	X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                              \
	X(CUDA_ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable memory error")                        \
	X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217, "peer access is not supported")                \
	X(CUDA_ERROR_INVALID_PTX, 218, "a PTX compilation failed")                                \
	X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, "the PTX version is not supported")            \
	X(CUDA_ERROR_OPERATING_SYSTEM, 304, "a call to the operating system failed")              \
	X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                              \
	X(CUDA_ERROR_ILLEGAL_STATE, 401, "the operation is not allowed now")                      \
	X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                    \
	X(CUDA_ERROR_NOT_READY, 600, "device not ready")                                          \
	X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")            \
	X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources for a launch")             \
	X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "a launch timed out")                                   \
	X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access already enabled")             \
	X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access was not enabled")                 \
	X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "the primary context is active")                \
	X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                           \
	X(CUDA_ERROR_ASSERT, 710, "a device-side assertion failed")                               \
	X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                               \
	X(CUDA_ERROR_LAUNCH_FAILED, 719, "a launch failed")                                       \
	X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                               \
	X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                               \
	X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803, "driver and kernel module differ")              \
	X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "not permitted while capturing")            \
	X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, "an earlier error ended the capture")       \
	X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, "two captures would be merged")                   \
	X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, "the capture began on another stream")        \
	X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "a forked stream was not joined")              \
	X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, "a dependency crosses the capture")           \
	X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906, "an implicit dependency on the legacy stream") \
	X(CUDA_ERROR_CAPTURED_EVENT, 907, "the event was last recorded in a capture")             \
	X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, "another thread began the capture")        \
	X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

typedef enum {
#define X(name, value, text) name = value,
	FAKE_RESULTS(X)
#undef X
} CUresult;

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct fake_context *CUcontext;
typedef struct fake_stream *CUstream;
typedef struct fake_event *CUevent;
typedef struct fake_pool_handle *CUmemoryPool;
typedef struct fake_module *CUmodule;
typedef struct fake_function *CUfunction;
typedef struct fake_graph *CUgraph;
typedef struct fake_graph_node *CUgraphNode;
typedef struct fake_graph_exec *CUgraphExec;
typedef void (*CUhostFn)(void *data);

#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

typedef struct {
	char bytes[16];
} CUuuid;

enum { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum {
	CU_EVENT_DEFAULT = 0,
	CU_EVENT_BLOCKING_SYNC = 1,
	CU_EVENT_DISABLE_TIMING = 2,
	CU_EVENT_INTERPROCESS = 4
};
enum { CU_MEMHOSTALLOC_PORTABLE = 1, CU_MEMHOSTALLOC_DEVICEMAP = 2, CU_MEMHOSTALLOC_WRITECOMBINED = 4 };

typedef enum {
	CU_GET_PROC_ADDRESS_DEFAULT = 0,
	CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
	CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
} CUdriverProcAddress_flags;

typedef enum {
	CU_GET_PROC_ADDRESS_SUCCESS = 0,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;

typedef enum {
	CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
	CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
	CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
	CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
	CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
	CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
	CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
	CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
	CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
	CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES = 119,
} CUdevice_attribute;

typedef enum {
	CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
	CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
	CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
	CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
	CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
	CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,
} CUmemPool_attribute;

typedef enum { CU_MEM_ALLOCATION_TYPE_INVALID = 0, CU_MEM_ALLOCATION_TYPE_PINNED = 1 } CUmemAllocationType;
typedef enum {
	CU_MEM_HANDLE_TYPE_NONE = 0,
	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1
} CUmemAllocationHandleType;
typedef enum { CU_MEM_LOCATION_TYPE_INVALID = 0, CU_MEM_LOCATION_TYPE_DEVICE = 1 } CUmemLocationType;
typedef enum {
	CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
	CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
} CUmemAccess_flags;
typedef enum {
	CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
	CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
} CUmemAllocationGranularity_flags;

typedef struct {
	CUmemLocationType type;
	int id;
} CUmemLocation;

typedef struct {
	CUmemLocation location;
	CUmemAccess_flags flags;
} CUmemAccessDesc;

typedef struct {
	CUmemAllocationType allocType;
	CUmemAllocationHandleType handleTypes;
	CUmemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
} CUmemPoolProps;

typedef struct {
	unsigned char reserved[64];
} CUmemPoolPtrExportData;

typedef struct {
	CUmemAllocationType type;
	CUmemAllocationHandleType requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp;

typedef enum {
	CU_STREAM_CAPTURE_STATUS_NONE = 0,
	CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
} CUstreamCaptureStatus;

typedef enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
} CUstreamCaptureMode;

typedef enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 } CUmemorytype;

typedef enum {
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
	CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
	CU_POINTER_ATTRIBUTE_MAPPED = 13,
	CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
	CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
	CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
} CUpointer_attribute;

#define CU_LAUNCH_PARAM_END ((void *)0x0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x2)

#include "tests/fake/entries.h"

/* Every entry, as it is exported. */
#define X(name, symbol, since, flags, args) CUresult symbol args;
FAKE_ENTRIES(X)
#undef X
#define X(name, symbol, since, legacy, args) CUresult symbol args;
FAKE_PER_THREAD(X)
#undef X

#endif

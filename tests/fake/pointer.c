/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of an address.
 */
#include "tests/fake/state.h"

#include <string.h>

static CUresult
answer(void *data, CUpointer_attribute attribute, const struct memory *m, CUdeviceptr ptr)
{
	bool host = m->kind == MEMORY_HOST;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = m->context;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = ptr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!host)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)(uintptr_t)ptr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = m->serial;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)data = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = m->device;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = m->address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = m->bytes;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned *)data = 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = m->pool != NULL ? (unsigned long long)m->pool->handle_types : 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(CUmemAccess_flags *)data =
			m->kind == MEMORY_MAPPED ? m->access[m->device] : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = m->kind == MEMORY_POOL && m->pool != NULL ? m->pool->handle : NULL;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult
get(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	const struct memory *m = memory_at(ptr);

	if (data == NULL || m == NULL || m->freed || ptr - m->address >= m->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return answer(data, attribute, m, ptr);
}

EXPORT CUresult
cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CALL(cuPointerGetAttribute, get(data, attribute, ptr));
}

/* Of an unknown address it tells nothing, and succeeds. */
static CUresult
get_many(unsigned count, const CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
	if (attributes == NULL || data == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		if (data[i] == NULL)
			return CUDA_ERROR_INVALID_VALUE;
		if (get(data[i], attributes[i], ptr) == CUDA_SUCCESS)
			continue;
		bool is_int = attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
		bool is_short = attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
				attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
				attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED ||
				attributes[i] == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS;
		if (is_int)
			*(int *)data[i] = -2;
		else
			memset(data[i], 0, is_short ? 4 : 8);
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
	CALL(cuPointerGetAttributes, get_many(count, attributes, data, ptr));
}

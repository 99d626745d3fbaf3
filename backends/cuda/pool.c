/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of an async backend: its own, never the device's default one.  The driver has all of its state. */
#include "backends/cuda/async.h"

#include <inttypes.h>

/* ---- opening -------------------------------------------------------------------------- */

static enum soma_status
check_device(struct soma_backend *self, const struct async_options *options)
{
	int handles = cuda_attribute(self, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);

	if (cuda_attribute(self, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) <= 0)
		return cuda_refuse(self->host, SOMA_STATUS_NOT_SUPPORTED,
				   "async: device %d (%s) has no memory pools; backend=sync needs none",
				   self->ordinal, self->device_name);
	if (options->exports && (handles & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0)
		return cuda_refuse(self->host, SOMA_STATUS_NOT_SUPPORTED,
				   "async.export=on: pools of device %d (%s) cannot be exported",
				   self->ordinal, self->device_name);
	if (options->max_size != 0 && self->driver->version < 12020)
		return cuda_refuse(self->host, SOMA_STATUS_NOT_SUPPORTED,
				   "async.max_size: the driver has CUDA %d.%d, and 12.2 was expected",
				   self->driver->version / 1000, self->driver->version % 1000 / 10);
	return SOMA_STATUS_OK;
}

/* The reuse attributes are ints for the driver, the rest 64 bits wide. */
static bool
is_switch(enum soma_backend_attribute attribute)
{
	return attribute <= SOMA_BACKEND_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

static enum soma_status
set(struct soma_backend *self, enum soma_backend_attribute attribute, uint64_t value)
{
	cuuint64_t wide = value;
	int narrow = value != 0;

	/* The numbers are the driver's own. */
	return CUDA_CALL(self, cuMemPoolSetAttribute, self->pool, (CUmemPool_attribute)attribute,
			 is_switch(attribute) ? (void *)&narrow : (void *)&wide);
}

static enum soma_status
configure(struct soma_backend *self, const struct async_options *options)
{
	const struct {
		enum soma_backend_attribute attribute;
		uint64_t value;
	} rows[] = {
		{ SOMA_BACKEND_RELEASE_THRESHOLD, options->threshold },
		{ SOMA_BACKEND_REUSE_FOLLOW_EVENT_DEPENDENCIES, options->follow },
		{ SOMA_BACKEND_REUSE_ALLOW_OPPORTUNISTIC, options->opportunistic },
		{ SOMA_BACKEND_REUSE_ALLOW_INTERNAL_DEPENDENCIES, options->internal },
	};
	enum soma_status status = SOMA_STATUS_OK;

	for (unsigned i = 0; i < sizeof rows / sizeof rows[0] && status == SOMA_STATUS_OK; i++)
		status = set(self, rows[i].attribute, rows[i].value);
	return status;
}

enum soma_status
async_pool_open(struct soma_backend *self, const struct async_options *options)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes =
			options->exports ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, self->ordinal },
		.maxSize = options->max_size,
	};
	enum soma_status status = check_device(self, options);

	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL(self, cuMemPoolCreate, &self->pool, &props);
	if (status != SOMA_STATUS_OK)
		return status;
	status = configure(self, options);
	if (status != SOMA_STATUS_OK && !cuda_is_lost(self))
		(void)self->driver->cuMemPoolDestroy(self->pool);
	return status;
}

/* ---- attributes -------------------------------------------------------------------------- */

static enum soma_status
check_attribute(struct soma_backend *self, enum soma_backend_attribute attribute)
{
	if (attribute >= SOMA_BACKEND_REUSE_FOLLOW_EVENT_DEPENDENCIES && attribute <= SOMA_BACKEND_USED_HIGH)
		return SOMA_STATUS_OK;
	return cuda_refuse(self->host, SOMA_STATUS_NOT_SUPPORTED, "async: there is no attribute %d",
			   (int)attribute);
}

static enum soma_status
check_value(struct soma_backend *self, enum soma_backend_attribute attribute, uint64_t value)
{
	enum soma_status status = check_attribute(self, attribute);

	if (status != SOMA_STATUS_OK)
		return status;
	if (attribute == SOMA_BACKEND_RESERVED_CURRENT || attribute == SOMA_BACKEND_USED_CURRENT)
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "async: attribute %d can only be read", (int)attribute);
	if ((attribute == SOMA_BACKEND_RESERVED_HIGH || attribute == SOMA_BACKEND_USED_HIGH) && value != 0)
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "async: a peak can be set to 0 and nothing else, not %" PRIu64, value);
	if (is_switch(attribute) && value > 1)
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "async: attribute %d can be 0 or 1, not %" PRIu64, (int)attribute, value);
	return SOMA_STATUS_OK;
}

enum soma_status
async_pool_get(struct soma_backend *self, enum soma_backend_attribute attribute, uint64_t *value)
{
	struct cuda_scope scope;
	cuuint64_t wide = 0;
	int narrow = 0;
	enum soma_status status = cuda_enter(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = check_attribute(self, attribute);
	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL(self, cuMemPoolGetAttribute, self->pool, (CUmemPool_attribute)attribute,
				   is_switch(attribute) ? (void *)&narrow : (void *)&wide);
	cuda_leave(&scope);
	if (status == SOMA_STATUS_OK)
		*value = is_switch(attribute) ? (uint64_t)(narrow != 0) : wide;
	return status;
}

enum soma_status
async_pool_set(struct soma_backend *self, enum soma_backend_attribute attribute, uint64_t value)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = check_value(self, attribute, value);
	if (status == SOMA_STATUS_OK)
		status = set(self, attribute, value);
	cuda_leave(&scope);
	return status;
}

enum soma_status
async_pool_trim(struct soma_backend *self, uint64_t keep)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = CUDA_CALL(self, cuMemPoolTrimTo, self->pool, keep);
	cuda_leave(&scope);
	return status;
}

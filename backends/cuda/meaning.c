/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver's results mean, and recording them as an open backend's errors.  The first sticky
 * result is kept in the backend; nobody calls the driver after it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "backends/cuda/device.h"

/* Everything that is in no row is a driver error that says nothing of the device's future. */
static const struct row {
	CUresult result;
	struct cuda_meaning meaning;
} rows[] = {
	{ CUDA_ERROR_INVALID_VALUE, { SOMA_STATUS_INVALID_VALUE, false } },
	{ CUDA_ERROR_INVALID_HANDLE, { SOMA_STATUS_INVALID_VALUE, false } },
	{ CUDA_ERROR_OUT_OF_MEMORY, { SOMA_STATUS_OUT_OF_DEVICE_MEMORY, false } },
	{ CUDA_ERROR_NO_DEVICE, { SOMA_STATUS_NOT_FOUND, false } },
	{ CUDA_ERROR_INVALID_DEVICE, { SOMA_STATUS_NOT_FOUND, false } },
	{ CUDA_ERROR_NOT_SUPPORTED, { SOMA_STATUS_NOT_SUPPORTED, false } },
	/* An open backend in a forked child, whose driver is not there; and one that outlives its driver. */
	{ CUDA_ERROR_NOT_INITIALIZED, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_DEINITIALIZED, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_CONTEXT_IS_DESTROYED, { SOMA_STATUS_DRIVER, true } },
	/* What a kernel did wrong, or the hardware: no context of the process works after it. */
	{ CUDA_ERROR_ECC_UNCORRECTABLE, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_NVLINK_UNCORRECTABLE, { SOMA_STATUS_DRIVER, true } },
	{ (CUresult)CUDA_RESULT_CONTAINED, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_ILLEGAL_ADDRESS, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_LAUNCH_TIMEOUT, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_ASSERT, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_HARDWARE_STACK_ERROR, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_ILLEGAL_INSTRUCTION, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_MISALIGNED_ADDRESS, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_INVALID_ADDRESS_SPACE, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_INVALID_PC, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_LAUNCH_FAILED, { SOMA_STATUS_DRIVER, true } },
	{ (CUresult)CUDA_RESULT_TENSOR_MEMORY_LEAK, { SOMA_STATUS_DRIVER, true } },
	{ CUDA_ERROR_EXTERNAL_DEVICE, { SOMA_STATUS_DRIVER, true } },
};

struct cuda_meaning
cuda_meaning_of(CUresult result)
{
	if (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
	    result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
		return (struct cuda_meaning){ SOMA_STATUS_STREAM_MISUSE, false };
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].result == result)
			return rows[i].meaning;
	return (struct cuda_meaning){ SOMA_STATUS_DRIVER, false };
}

bool
cuda_is_of_work(CUresult result)
{
	return (int)result >= 700 && (int)result < 800;
}

/* `error` has what is known beside the result. */
static enum soma_status
record(struct soma_backend *self, CUresult result, const char *what, struct soma_backend_error *error)
{
	char said[256], text[320];
	struct cuda_meaning meaning = cuda_meaning_of(result);
	int none = 0;

	if (meaning.sticky || cuda_is_of_work(result))
		error->flags |= SOMA_BACKEND_ERROR_DEFERRED;
	snprintf(text, sizeof text, "%s: %s%s", self->name,
		 cuda_result_text(self->driver, result, what, said, sizeof said),
		 meaning.sticky                               ? "; the device is beyond use from now on"
		 : error->flags & SOMA_BACKEND_ERROR_DEFERRED ? "; of work that was queued before"
							      : "");
	if (meaning.sticky) {
		atomic_compare_exchange_strong(&self->lost, &none, (int)result);
		error->flags |= SOMA_BACKEND_ERROR_STICKY;
	}
	error->size = sizeof *error;
	error->status = meaning.status;
	error->driver_code = (int)result;
	error->text = text;
	return self->host->fail(self->host->context, error);
}

enum soma_status
cuda_failed(struct soma_backend *self, CUresult result, const char *what)
{
	struct soma_backend_error error = { 0 };

	return record(self, result, what, &error);
}

enum soma_status
cuda_failed_sync(struct soma_backend *self, CUresult result, const char *what)
{
	struct soma_backend_error error = { 0 };

	if (cuda_meaning_of(result).status == SOMA_STATUS_DRIVER)
		error.flags = SOMA_BACKEND_ERROR_DEFERRED;
	return record(self, result, what, &error);
}

enum soma_status
cuda_failed_alloc(struct soma_backend *self, CUresult result, const char *what, uint64_t requested)
{
	struct soma_backend_error error = { .requested = requested };
	size_t left, total;

	if (result == CUDA_ERROR_OUT_OF_MEMORY && self->driver->cuMemGetInfo(&left, &total) == CUDA_SUCCESS) {
		error.current = total - left;
		error.remaining = left;
		error.limit = total;
	}
	return record(self, result, what, &error);
}

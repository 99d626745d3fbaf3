/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills, copies and host callbacks.
 *
 * Host memory that cuMemHostAlloc did not give is staged, as with the driver: read when the
 * call is made, and written before it returns.
 */
#include "tests/fake/state.h"

#include <stdlib.h>
#include <string.h>

static CUresult
submit_or_free(struct lane *lane, struct op *op, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return submit(lane, op);
	op_free(op);
	return result;
}

/* ---- fills ---------------------------------------------------------------------------------- */

struct fill {
	const char *what;
	CUdeviceptr ptr;
	uint32_t value;
	unsigned width;
	size_t count;
};

static CUresult
fill(const struct fill *f, CUstream stream, bool own, struct lane **on)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	if (f->ptr % f->width != 0 || f->count > SIZE_MAX / f->width)
		return CUDA_ERROR_INVALID_VALUE;
	*on = lane;
	struct op *op = op_new(OP_FILL, f->what);
	op->to = f->ptr;
	op->bytes = f->count * f->width;
	op->value = f->value;
	op->width = f->width;
	return submit_or_free(lane, op, op_use(op, lane, f->ptr, op->bytes, true));
}

static CUresult
fill_async(const struct fill *f, CUstream stream, bool own)
{
	struct lane *lane;

	return fill(f, stream, own, &lane);
}

EXPORT CUresult
cuMemsetD8Async(CUdeviceptr ptr, unsigned char value, size_t count, CUstream stream)
{
	const struct fill f = { "cuMemsetD8Async", ptr, value, 1, count };

	CALL(cuMemsetD8Async, fill_async(&f, stream, false));
}

EXPORT CUresult
cuMemsetD8Async_ptsz(CUdeviceptr ptr, unsigned char value, size_t count, CUstream stream)
{
	const struct fill f = { "cuMemsetD8Async", ptr, value, 1, count };

	CALL(cuMemsetD8Async, fill_async(&f, stream, true));
}

EXPORT CUresult
cuMemsetD32Async(CUdeviceptr ptr, unsigned value, size_t count, CUstream stream)
{
	const struct fill f = { "cuMemsetD32Async", ptr, value, 4, count };

	CALL(cuMemsetD32Async, fill_async(&f, stream, false));
}

EXPORT CUresult
cuMemsetD32Async_ptsz(CUdeviceptr ptr, unsigned value, size_t count, CUstream stream)
{
	const struct fill f = { "cuMemsetD32Async", ptr, value, 4, count };

	CALL(cuMemsetD32Async, fill_async(&f, stream, true));
}

/* On device memory these return before they are done. */
EXPORT CUresult
cuMemsetD8_v2(CUdeviceptr ptr, unsigned char value, size_t count)
{
	const struct fill f = { "cuMemsetD8", ptr, value, 1, count };

	CALL(cuMemsetD8_v2, fill_async(&f, NULL, false));
}

EXPORT CUresult
cuMemsetD8_v2_ptds(CUdeviceptr ptr, unsigned char value, size_t count)
{
	const struct fill f = { "cuMemsetD8", ptr, value, 1, count };

	CALL(cuMemsetD8_v2, fill_async(&f, NULL, true));
}

EXPORT CUresult
cuMemsetD32_v2(CUdeviceptr ptr, unsigned value, size_t count)
{
	const struct fill f = { "cuMemsetD32", ptr, value, 4, count };

	CALL(cuMemsetD32_v2, fill_async(&f, NULL, false));
}

EXPORT CUresult
cuMemsetD32_v2_ptds(CUdeviceptr ptr, unsigned value, size_t count)
{
	const struct fill f = { "cuMemsetD32", ptr, value, 4, count };

	CALL(cuMemsetD32_v2, fill_async(&f, NULL, true));
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* What each side is said to be. */
enum side { SIDE_DEVICE, SIDE_HOST, SIDE_ANY };

struct copy {
	const char *what;
	CUdeviceptr to, from;
	size_t bytes;
	enum side to_side, from_side;
};

/* *pageable: it is the host's own. */
static CUresult
use_side(struct op *op, struct lane *lane, uint64_t address, bool write, enum side side, bool *pageable)
{
	const struct memory *m = memory_at(address);
	bool host = m == NULL && !region_holds(address, 1);

	*pageable = host && side != SIDE_DEVICE;
	if (side == SIDE_HOST && m != NULL && m->kind != MEMORY_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	if (side == SIDE_DEVICE && m != NULL && m->kind == MEMORY_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	return *pageable ? (address == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS)
			 : op_use(op, lane, address, op->bytes, write);
}

static CUresult
copy(const struct copy *c, CUstream stream, bool own, bool wait)
{
	struct lane *lane;
	bool to_pageable, from_pageable;
	CUresult result = lane_find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	struct op *op = op_new(OP_COPY, c->what);
	op->to = c->to;
	op->from = c->from;
	op->bytes = c->bytes;
	result = use_side(op, lane, c->to, true, c->to_side, &to_pageable);
	if (result == CUDA_SUCCESS)
		result = use_side(op, lane, c->from, false, c->from_side, &from_pageable);
	if (result == CUDA_SUCCESS && lane->capture != NULL && to_pageable)
		result = capture_status(lane);
	if (result == CUDA_SUCCESS && from_pageable && c->bytes != 0) {
		op->data = malloc(c->bytes);
		if (op->data == NULL)
			abort();
		memcpy(op->data, (const void *)(uintptr_t)c->from, c->bytes);
	}
	result = submit_or_free(lane, op, result);
	if (result == CUDA_SUCCESS && (wait || to_pageable)) {
		uint64_t pos = lane->submitted;
		drive(lane, pos);
		lane_seen(lane, pos, NULL, 0, true);
	}
	return result;
}

EXPORT CUresult
cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	const struct copy c = { "cuMemcpyHtoDAsync", to, (uintptr_t)from, bytes, SIDE_DEVICE, SIDE_HOST };

	CALL(cuMemcpyHtoDAsync_v2, copy(&c, stream, false, false));
}

EXPORT CUresult
cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	const struct copy c = { "cuMemcpyHtoDAsync", to, (uintptr_t)from, bytes, SIDE_DEVICE, SIDE_HOST };

	CALL(cuMemcpyHtoDAsync_v2, copy(&c, stream, true, false));
}

EXPORT CUresult
cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	const struct copy c = { "cuMemcpyDtoHAsync", (uintptr_t)to, from, bytes, SIDE_HOST, SIDE_DEVICE };

	CALL(cuMemcpyDtoHAsync_v2, copy(&c, stream, false, false));
}

EXPORT CUresult
cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	const struct copy c = { "cuMemcpyDtoHAsync", (uintptr_t)to, from, bytes, SIDE_HOST, SIDE_DEVICE };

	CALL(cuMemcpyDtoHAsync_v2, copy(&c, stream, true, false));
}

EXPORT CUresult
cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	const struct copy c = { "cuMemcpyDtoDAsync", to, from, bytes, SIDE_DEVICE, SIDE_DEVICE };

	CALL(cuMemcpyDtoDAsync_v2, copy(&c, stream, false, false));
}

EXPORT CUresult
cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	const struct copy c = { "cuMemcpyDtoDAsync", to, from, bytes, SIDE_DEVICE, SIDE_DEVICE };

	CALL(cuMemcpyDtoDAsync_v2, copy(&c, stream, true, false));
}

EXPORT CUresult
cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	const struct copy c = { "cuMemcpyAsync", to, from, bytes, SIDE_ANY, SIDE_ANY };

	CALL(cuMemcpyAsync, copy(&c, stream, false, false));
}

EXPORT CUresult
cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	const struct copy c = { "cuMemcpyAsync", to, from, bytes, SIDE_ANY, SIDE_ANY };

	CALL(cuMemcpyAsync, copy(&c, stream, true, false));
}

EXPORT CUresult
cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	const struct copy c = { "cuMemcpy", to, from, bytes, SIDE_ANY, SIDE_ANY };

	CALL(cuMemcpy, copy(&c, NULL, false, true));
}

EXPORT CUresult
cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	const struct copy c = { "cuMemcpy", to, from, bytes, SIDE_ANY, SIDE_ANY };

	CALL(cuMemcpy, copy(&c, NULL, true, true));
}

EXPORT CUresult
cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	const struct copy c = { "cuMemcpyHtoD", to, (uintptr_t)from, bytes, SIDE_DEVICE, SIDE_HOST };

	CALL(cuMemcpyHtoD_v2, copy(&c, NULL, false, true));
}

EXPORT CUresult
cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes)
{
	const struct copy c = { "cuMemcpyHtoD", to, (uintptr_t)from, bytes, SIDE_DEVICE, SIDE_HOST };

	CALL(cuMemcpyHtoD_v2, copy(&c, NULL, true, true));
}

EXPORT CUresult
cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	const struct copy c = { "cuMemcpyDtoH", (uintptr_t)to, from, bytes, SIDE_HOST, SIDE_DEVICE };

	CALL(cuMemcpyDtoH_v2, copy(&c, NULL, false, true));
}

EXPORT CUresult
cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes)
{
	const struct copy c = { "cuMemcpyDtoH", (uintptr_t)to, from, bytes, SIDE_HOST, SIDE_DEVICE };

	CALL(cuMemcpyDtoH_v2, copy(&c, NULL, true, true));
}

/* ---- host callbacks ------------------------------------------------------------------------------ */

static CUresult
launch_host(CUstream stream, CUhostFn function, void *data, bool own)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	if (function == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	struct op *op = op_new(OP_HOST, "cuLaunchHostFunc");
	op->function = function;
	op->data = data;
	return submit(lane, op);
}

EXPORT CUresult
cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
	CALL(cuLaunchHostFunc, launch_host(stream, function, data, false));
}

EXPORT CUresult
cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data)
{
	CALL(cuLaunchHostFunc, launch_host(stream, function, data, true));
}

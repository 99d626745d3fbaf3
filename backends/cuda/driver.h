/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam to the driver: libcuda.so.1 opened at run time, its entries in one table, and one way to turn its
 * results into statuses.  Nothing else here opens libraries or reads a CUresult, but for "not ready".
 *
 * The table is the one piece of state outside struct soma_backend: it is the same for every backend
 * of a process, constant once it was filled, and its library is never closed.
 */
#ifndef SOMA_BACKENDS_CUDA_DRIVER_H
#define SOMA_BACKENDS_CUDA_DRIVER_H

#include <stdbool.h>

#include <soma/backend.h>

#include "backends/cuda/symbols.h"

/* CUDA 12.0: the first driver with ids of streams. */
#define CUDA_DRIVER_LEAST 12000

struct cuda_driver {
	int version;
#define X(name, since, arguments) CUresult(*name) arguments;
	CUDA_SYMBOLS(X)
#undef X
};

/* The initialised driver.  NOT_FOUND: there is none, or it has no device; NOT_SUPPORTED: it is too old. */
enum soma_status cuda_driver_load(const struct soma_backend_host *host, const char *who,
				  const struct cuda_driver **driver);

/* What a driver's result means. */
struct cuda_meaning {
	enum soma_status status;
	bool sticky; /* the context, or the whole driver, is beyond use */
};
struct cuda_meaning cuda_meaning_of(CUresult result);

/* The 7xx are of launched work, whichever call met them. */
bool cuda_is_of_work(CUresult result);

/* "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)", the driver's own words. */
const char *cuda_result_text(const struct cuda_driver *driver, CUresult result, const char *what,
			     char *buffer, size_t size);

/* Records an error without a driver's result behind it. */
__attribute__((format(printf, 3, 4))) enum soma_status
cuda_refuse(const struct soma_backend_host *host, enum soma_status status, const char *format, ...);

/* An open backend's call failed: records it; a sticky result makes the backend lost. */
enum soma_status cuda_failed(struct soma_backend *self, CUresult result, const char *what);

/* A synchronising call failed: what it says is earlier work's, unless it refuses the call itself. */
enum soma_status cuda_failed_sync(struct soma_backend *self, CUresult result, const char *what);

/* Out of memory, with figures. */
enum soma_status cuda_failed_alloc(struct soma_backend *self, CUresult result, const char *what,
				   uint64_t requested);

/* Calls an entry: OK, or the error, recorded under the entry's name.  `#name` must be in the macro that is
 * written out, where the name is still the plain one. */
#define CUDA_CALL(self, name, ...)                                                                  \
	({                                                                                          \
		CUresult result_ = (self)->driver->name(__VA_ARGS__);                               \
		__builtin_expect(result_ == CUDA_SUCCESS, 1) ? SOMA_STATUS_OK                       \
							     : cuda_failed((self), result_, #name); \
	})
#define CUDA_CALL_SYNC(self, name, ...)                                                                  \
	({                                                                                               \
		CUresult result_ = (self)->driver->name(__VA_ARGS__);                                    \
		__builtin_expect(result_ == CUDA_SUCCESS, 1) ? SOMA_STATUS_OK                            \
							     : cuda_failed_sync((self), result_, #name); \
	})
/* Gives something back for good, or waits before that: a failure is tried once more, and nothing is done when the
 * device is lost. */
#define CUDA_GIVE(self, name, ...)                                                           \
	do {                                                                                 \
		if (cuda_is_lost(self) || (self)->driver->name(__VA_ARGS__) == CUDA_SUCCESS) \
			break;                                                               \
		CUresult result_ = (self)->driver->name(__VA_ARGS__);                        \
		if (result_ != CUDA_SUCCESS)                                                 \
			(void)cuda_failed((self), result_, #name);                           \
	} while (0)

#endif

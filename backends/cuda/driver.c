/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the driver and filling its table, once for the process; a failure is not kept, so that a later open
 * tries again.  `loading` protects the table until it is filled; after that it is constant.
 */
#include "backends/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_driver table;
static bool filled;

typedef CUresult get_proc_address(const char *name, void **entry, int version, cuuint64_t flags,
				  CUdriverProcAddressQueryResult *found);
typedef CUresult driver_get_version(int *version);

enum soma_status
cuda_refuse(const struct soma_backend_host *host, enum soma_status status, const char *format, ...)
{
	char text[320];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	const struct soma_backend_error error = { .size = sizeof error, .status = status, .text = text };
	return host->fail(host->context, &error);
}

const char *
cuda_result_text(const struct cuda_driver *driver, CUresult result, const char *what, char *buffer,
		 size_t size)
{
	const char *name = NULL, *text = NULL;

	if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
		name = "an error without a name";
	if (driver->cuGetErrorString(result, &text) != CUDA_SUCCESS || text == NULL)
		text = "the driver has no text for it";
	snprintf(buffer, size, "%s: %s %d (%s)", what, name, (int)result, text);
	return buffer;
}

/* ---- loading: under `loading` ----------------------------------------------------- */

static void *
open_library(const struct soma_backend_host *host, const char *who)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library == NULL) {
		const char *why = dlerror();
		cuda_refuse(host, SOMA_STATUS_NOT_FOUND, "%s: there is no CUDA driver: %s", who,
			    why != NULL ? why : "libcuda.so.1 cannot be loaded");
	}
	return library;
}

/* ISO C has no conversion between the two kinds of pointer; POSIX says that it works. */
static void *
find(void *library, const char *name)
{
	return dlsym(library, name);
}

static enum soma_status
check_version(const struct soma_backend_host *host, const char *who, void *library, int *version)
{
	driver_get_version *get = (driver_get_version *)find(library, "cuDriverGetVersion");

	if (get == NULL || get(version) != CUDA_SUCCESS)
		return cuda_refuse(host, SOMA_STATUS_NOT_SUPPORTED,
				   "%s: libcuda.so.1 does not say its version, as a CUDA driver does", who);
	if (*version >= CUDA_DRIVER_LEAST)
		return SOMA_STATUS_OK;
	return cuda_refuse(host, SOMA_STATUS_NOT_SUPPORTED,
			   "%s: the driver is too old: it has CUDA %d.%d, and %d.%d at least was expected",
			   who, *version / 1000, *version % 1000 / 10, CUDA_DRIVER_LEAST / 1000,
			   CUDA_DRIVER_LEAST % 1000 / 10);
}

/* An entry may come back null with success.  NULL: it did, or it failed. */
static void *
ask(get_proc_address *get, const char *name, int version)
{
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	void *entry = NULL;

	if (get(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) != CUDA_SUCCESS)
		return NULL;
	return found == CU_GET_PROC_ADDRESS_SUCCESS ? entry : NULL;
}

static enum soma_status
fill_table(const struct soma_backend_host *host, const char *who, void *library)
{
	get_proc_address *get = (get_proc_address *)find(library, "cuGetProcAddress_v2");
	const char *missing = NULL;

	if (get == NULL)
		missing = "cuGetProcAddress_v2";
#define X(name, since, arguments)                                           \
	if (missing == NULL) {                                              \
		table.name = (CUresult(*) arguments)ask(get, #name, since); \
		if (table.name == NULL)                                     \
			missing = #name;                                    \
	}
	CUDA_SYMBOLS(X)
#undef X
	if (missing == NULL)
		return SOMA_STATUS_OK;
	return cuda_refuse(host, SOMA_STATUS_NOT_SUPPORTED,
			   "%s: the driver (CUDA %d.%d) has no %s, which a driver of CUDA %d.%d has", who,
			   table.version / 1000, table.version % 1000 / 10, missing, CUDA_DRIVER_LEAST / 1000,
			   CUDA_DRIVER_LEAST % 1000 / 10);
}

static enum soma_status
load(const struct soma_backend_host *host, const char *who)
{
	void *library = open_library(host, who);

	if (library == NULL)
		return SOMA_STATUS_NOT_FOUND;
	enum soma_status status = check_version(host, who, library, &table.version);
	if (status == SOMA_STATUS_OK)
		status = fill_table(host, who, library);
	if (status != SOMA_STATUS_OK)
		dlclose(library);
	return status;
}

static enum soma_status
initialise(const struct soma_backend_host *host, const char *who)
{
	char text[256];
	CUresult result = table.cuInit(0);

	if (result == CUDA_SUCCESS)
		return SOMA_STATUS_OK;
	return cuda_refuse(host, result == CUDA_ERROR_NO_DEVICE ? SOMA_STATUS_NOT_FOUND : SOMA_STATUS_DRIVER,
			   "%s: the driver cannot be used: %s", who,
			   cuda_result_text(&table, result, "cuInit", text, sizeof text));
}

enum soma_status
cuda_driver_load(const struct soma_backend_host *host, const char *who, const struct cuda_driver **driver)
{
	enum soma_status status = SOMA_STATUS_OK;

	pthread_mutex_lock(&loading);
	if (!filled)
		status = load(host, who);
	filled = filled || status == SOMA_STATUS_OK;
	pthread_mutex_unlock(&loading);
	if (status == SOMA_STATUS_OK)
		status = initialise(host, who);
	if (status == SOMA_STATUS_OK)
		*driver = &table;
	return status;
}

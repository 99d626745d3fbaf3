/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a device, its context around every use of the driver, and closing.  The context is the primary one,
 * retained, as everything else of the process uses it; whatever is current with a thread stays so.
 */
#include "backends/cuda/device.h"

#include <inttypes.h>
#include <string.h>

/* ---- the context ------------------------------------------------------------------ */

enum soma_status
cuda_enter_lost(struct soma_backend *self)
{
	const struct soma_backend_error error = {
		.size = sizeof error,
		.status = SOMA_STATUS_DRIVER,
		.driver_code = atomic_load(&self->lost),
		.flags = SOMA_BACKEND_ERROR_STICKY,
		.text = "the device is beyond use since an earlier error; nothing but close is left",
	};
	return self->host->fail(self->host->context, &error);
}

enum soma_status
cuda_enter_push(struct soma_backend *self, struct cuda_scope *scope)
{
	enum soma_status status = CUDA_CALL(self, cuCtxPushCurrent, self->context);

	scope->pushed = status == SOMA_STATUS_OK;
	return status;
}

/* What a driver may say in another context: that it is the wrong one, or what is wrong with that one.  The
 * documentation has INVALID_CONTEXT alone, for default streams where no context is current. */
static bool
is_of_context(CUresult result)
{
	return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_INVALID_HANDLE ||
	       result == CUDA_ERROR_INVALID_VALUE ||
	       (cuda_meaning_of(result).sticky && result != CUDA_ERROR_NOT_INITIALIZED &&
		result != CUDA_ERROR_DEINITIALIZED);
}

bool
cuda_enter_late(struct cuda_scope *scope, CUresult result)
{
	struct soma_backend *self = scope->self;
	CUcontext current = NULL;

	if (!scope->unasked || !is_of_context(result))
		return false;
	scope->unasked = false;
	return self->driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != self->context &&
	       cuda_enter_push(self, scope) == SOMA_STATUS_OK;
}

enum soma_status
cuda_relax(struct cuda_scope *scope)
{
	struct soma_backend *self = scope->self;

	scope->before = CU_STREAM_CAPTURE_MODE_RELAXED;
	enum soma_status status = CUDA_CALL(self, cuThreadExchangeStreamCaptureMode, &scope->before);
	scope->relaxed = status == SOMA_STATUS_OK;
	if (status != SOMA_STATUS_OK)
		cuda_leave(scope);
	return status;
}

enum soma_status
cuda_enter_relaxed(struct soma_backend *self, struct cuda_scope *scope)
{
	enum soma_status status = cuda_enter(self, scope);

	return status == SOMA_STATUS_OK ? cuda_relax(scope) : status;
}

/* Whether there is a driver to leave. */
static bool
has_driver(const struct soma_backend *self)
{
	int lost = atomic_load_explicit(&self->lost, memory_order_acquire);

	return lost != CUDA_ERROR_NOT_INITIALIZED && lost != CUDA_ERROR_DEINITIALIZED;
}

/* Of a device that was lost meanwhile, too: the thread may go on with another one, and must not keep what is ours.
 * Neither call fails where the one that it undoes did not; all the same a failure is tried once more. */
void
cuda_leave_slow(struct cuda_scope *scope)
{
	const struct cuda_driver *driver = scope->self->driver;
	CUstreamCaptureMode mode = scope->before;
	CUcontext popped;

	if (!has_driver(scope->self))
		return;
	if (scope->relaxed && driver->cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
		(void)driver->cuThreadExchangeStreamCaptureMode(&scope->before);
	if (scope->pushed && driver->cuCtxPopCurrent(&popped) != CUDA_SUCCESS)
		(void)driver->cuCtxPopCurrent(&popped);
}

/* A call that answered with an error has perhaps not waited; one more has. */
enum soma_status
cuda_finish_own(struct soma_backend *self)
{
	enum soma_status status = CUDA_CALL_SYNC(self, cuStreamSynchronize, self->own);
	if (status != SOMA_STATUS_OK && !cuda_is_lost(self))
		(void)self->driver->cuStreamSynchronize(self->own);
	return status;
}

/* ---- frees -------------------------------------------------------------------------- */

enum soma_status
cuda_meet_errors(struct cuda_scope *scope)
{
	struct soma_backend *self = scope->self;
	CUstreamCaptureStatus state;

	return CUDA_CALL(self, cuStreamIsCapturing, self->own, &state);
}

static CUresult
call_free(struct soma_backend *self, uint64_t ptr, CUstream stream, bool ordered)
{
	return ordered ? self->driver->cuMemFreeAsync(ptr, stream) : self->driver->cuMemFree(ptr);
}

/* An error of earlier work says nothing of this call.  The driver knows the block no more if the free has worked, and
 * nor do we if its address was given out again already. */
enum soma_status
cuda_free_failed(struct cuda_scope *scope, uint64_t ptr, CUstream stream, bool ordered, CUresult result)
{
	const char *what = ordered ? "cuMemFreeAsync" : "cuMemFree";
	struct soma_backend *self = scope->self;
	struct block other;
	char text[256];

	if (cuda_enter_late(scope, result))
		result = call_free(self, ptr, stream, ordered);
	if (result == CUDA_SUCCESS)
		return SOMA_STATUS_OK;
	if (!cuda_is_of_work(result) || cuda_meaning_of(result).sticky)
		return cuda_failed(self, result, what);
	CUresult again = blocks_find(&self->blocks, ptr, &other) ? CUDA_ERROR_INVALID_VALUE
								 : call_free(self, ptr, stream, ordered);
	if (again != CUDA_SUCCESS && again != CUDA_ERROR_INVALID_VALUE)
		return cuda_failed(self, again, what);
	self->host->log(self->host->context, SOMA_BACKEND_LOG_ERROR,
			cuda_result_text(self->driver, result, "of work that was queued before a free", text,
					 sizeof text));
	return SOMA_STATUS_OK;
}

/* ---- lists -------------------------------------------------------------------------- */

static void
link_init(struct cuda_link *list)
{
	list->next = list->prev = list;
}

void
cuda_link_add(struct soma_backend *self, struct cuda_link *list, struct cuda_link *link)
{
	pthread_mutex_lock(&self->lists);
	link->next = list;
	link->prev = list->prev;
	link->prev->next = link;
	list->prev = link;
	pthread_mutex_unlock(&self->lists);
}

void
cuda_link_remove(struct soma_backend *self, struct cuda_link *link)
{
	pthread_mutex_lock(&self->lists);
	link->prev->next = link->next;
	link->next->prev = link->prev;
	pthread_mutex_unlock(&self->lists);
}

/* ---- what the device is ----------------------------------------------------------- */

int
cuda_attribute(const struct soma_backend *self, CUdevice_attribute attribute)
{
	int value = 0;

	return self->driver->cuDeviceGetAttribute(&value, attribute, self->device) == CUDA_SUCCESS ? value
												   : 0;
}

static enum soma_status
find_device(struct soma_backend *self)
{
	int count = 0;
	enum soma_status status = CUDA_CALL(self, cuDeviceGetCount, &count);

	if (status != SOMA_STATUS_OK)
		return status;
	if (self->ordinal < 0 || self->ordinal >= count)
		return cuda_refuse(self->host, SOMA_STATUS_NOT_FOUND,
				   "%s: there is no device %d: the driver has %d", self->name, self->ordinal,
				   count);
	return CUDA_CALL(self, cuDeviceGet, &self->device, self->ordinal);
}

static enum soma_status
describe(struct soma_backend *self)
{
	CUuuid uuid = { { 0 } };
	size_t total = 0;
	enum soma_status status = CUDA_CALL(self, cuDeviceGetName, self->device_name,
					    (int)sizeof self->device_name, self->device);

	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL(self, cuDeviceTotalMem, &total, self->device);
	if (status != SOMA_STATUS_OK)
		return status;
	self->device_name[sizeof self->device_name - 1] = '\0';
	self->total = total;
	if (self->driver->cuDeviceGetUuid(&uuid, self->device) == CUDA_SUCCESS)
		memcpy(self->uuid, uuid.bytes, sizeof self->uuid);
	return SOMA_STATUS_OK;
}

/* The driver's step of mappings; 2 MiB, of no consequence, where there are none. */
static enum soma_status
measure_steps(struct soma_backend *self)
{
	const CUmemAllocationProp props = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, self->ordinal },
	};
	size_t step = (size_t)2 << 20;
	enum soma_status status = SOMA_STATUS_OK;

	if (cuda_attribute(self, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) > 0) {
		self->capabilities |= SOMA_BACKEND_SPANS;
		status = CUDA_CALL(self, cuMemGetAllocationGranularity, &step, &props,
				   CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	}
	self->granularity = step;
	return status;
}

static enum soma_status
make_context(struct soma_backend *self)
{
	struct cuda_scope scope;
	enum soma_status status = CUDA_CALL(self, cuDevicePrimaryCtxRetain, &self->context, self->device);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_enter_relaxed(self, &scope);
	if (status == SOMA_STATUS_OK) {
		status = CUDA_CALL(self, cuStreamCreate, &self->own, CU_STREAM_NON_BLOCKING);
		if (status == SOMA_STATUS_OK)
			cuda_scan_open(self);
		cuda_leave(&scope);
	}
	if (status == SOMA_STATUS_OK && cuda_is_lost(self))
		status = cuda_enter_lost(self);
	if (status != SOMA_STATUS_OK && !cuda_is_lost(self))
		(void)self->driver->cuDevicePrimaryCtxRelease(self->device);
	return status;
}

/* ---- open and close ----------------------------------------------------------------- */

static void
free_self(struct soma_backend *self)
{
	const struct soma_backend_host *host = self->host;

	cuda_fork_leave(self);
	blocks_fini(&self->blocks);
	pthread_mutex_destroy(&self->lists);
	pthread_mutex_destroy(&self->spans_lock);
	host->free(host->context, self, sizeof *self);
}

static void
init_self(struct soma_backend *self, const struct soma_backend_open *how, const char *name,
	  const struct cuda_driver *driver)
{
	memset(self, 0, sizeof *self);
	self->host = how->host;
	self->driver = driver;
	self->name = name;
	self->ordinal = how->device;
	self->capabilities = SOMA_BACKEND_USE_TRACKING | SOMA_BACKEND_STREAMS | SOMA_BACKEND_FILLS;
	pthread_mutex_init(&self->lists, NULL);
	pthread_mutex_init(&self->spans_lock, NULL);
	link_init(&self->streams);
	link_init(&self->events);
	link_init(&self->staging);
	link_init(&self->imports);
	link_init(&self->spans);
	blocks_init(&self->blocks, how->host);
	cuda_fork_enter(self);
}

enum soma_status
cuda_device_open(const struct soma_backend_open *how, const char *name, struct soma_backend **out)
{
	const struct soma_backend_host *host = how->host;
	const struct cuda_driver *driver;
	struct soma_backend *self;
	enum soma_status status = cuda_driver_load(host, name, &driver);

	if (status != SOMA_STATUS_OK)
		return status;
	self = host->alloc(host->context, sizeof *self, 64);
	if (self == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	init_self(self, how, name, driver);
	status = find_device(self);
	if (status == SOMA_STATUS_OK)
		status = describe(self);
	if (status == SOMA_STATUS_OK)
		status = measure_steps(self);
	if (status == SOMA_STATUS_OK)
		status = make_context(self);
	if (status != SOMA_STATUS_OK) {
		free_self(self);
		return status;
	}
	*out = self;
	return SOMA_STATUS_OK;
}

bool
cuda_enter_closing(struct soma_backend *self, struct cuda_scope *scope)
{
	return !cuda_is_lost(self) &&
	       (cuda_enter_relaxed(self, scope) == SOMA_STATUS_OK ||
		(!cuda_is_lost(self) && cuda_enter_relaxed(self, scope) == SOMA_STATUS_OK));
}

bool
cuda_device_drain(struct soma_backend *self)
{
	struct cuda_scope scope;

	self->closing = true;
	if (!cuda_enter_closing(self, &scope))
		return false;
	CUDA_GIVE(self, cuCtxSynchronize);
	cuda_leave(&scope);
	return !cuda_is_lost(self);
}

/* Of a lost device nothing is given back: its driver is not to be called, and it has nothing any more. */
void
cuda_device_close(struct soma_backend *self)
{
	struct cuda_scope scope;
	bool alive = cuda_enter_closing(self, &scope);

	if (self->forked)
		return;
	cuda_events_close(self);
	cuda_streams_close(self);
	cuda_staging_close(self);
	cuda_spans_close(self);
	if (alive) {
		if (self->module != NULL)
			CUDA_GIVE(self, cuModuleUnload, self->module);
		CUDA_GIVE(self, cuStreamDestroy, self->own);
		cuda_leave(&scope);
		CUDA_GIVE(self, cuDevicePrimaryCtxRelease, self->device);
	}
	free_self(self);
}

/* ---- query ---------------------------------------------------------------------------- */

static enum soma_status
read_free(struct soma_backend *self, uint64_t *bytes)
{
	struct cuda_scope scope;
	size_t left = 0, total = 0;
	enum soma_status status = cuda_enter(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = CUDA_CALL(self, cuMemGetInfo, &left, &total);
	cuda_leave(&scope);
	*bytes = left;
	return status;
}

enum soma_status
cuda_device_query(struct soma_backend *self, struct soma_backend_info *info)
{
	uint64_t left = 0;
	bool lost = cuda_is_lost(self);
	enum soma_status status = lost ? SOMA_STATUS_OK : read_free(self, &left);

	if (status != SOMA_STATUS_OK)
		return status;
	struct soma_backend_info all = {
		.size = info->size,
		.capabilities = self->capabilities | (lost ? (uint64_t)SOMA_BACKEND_LOST : 0),
		.alignment = CUDA_ALIGNMENT,
		.granularity = self->granularity,
		.span_granularity = self->granularity,
		.total = self->total,
		.free = left,
		.driver_version = self->driver->version,
	};
	memcpy(all.device_name, self->device_name, sizeof all.device_name);
	memcpy(all.device_uuid, self->uuid, sizeof all.device_uuid);
	memcpy(info, &all, info->size < sizeof all ? info->size : sizeof all);
	return SOMA_STATUS_OK;
}

enum soma_status
cuda_device_count(const struct soma_backend_host *host, const char *name, int *count)
{
	const struct cuda_driver *driver;
	char text[256];
	int found = 0;
	enum soma_status status = cuda_driver_load(host, name, &driver);

	if (status != SOMA_STATUS_OK)
		return status;
	CUresult result = driver->cuDeviceGetCount(&found);
	if (result != CUDA_SUCCESS)
		return cuda_refuse(host, cuda_meaning_of(result).status, "%s: %s", name,
				   cuda_result_text(driver, result, "cuDeviceGetCount", text, sizeof text));
	*count = found;
	return SOMA_STATUS_OK;
}

enum soma_status
cuda_refuse_request(const struct soma_backend *self, uint64_t size, uint64_t alignment)
{
	if (size == 0 || (alignment & (alignment - 1)) != 0)
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "%s: %" PRIu64 " bytes aligned to %" PRIu64
				   ": at least 1 byte and a power of two were expected",
				   self->name, size, alignment);
	return cuda_refuse(self->host, SOMA_STATUS_NOT_SUPPORTED,
			   "%s: an alignment of %" PRIu64 ": the driver promises %u", self->name, alignment,
			   CUDA_ALIGNMENT);
}

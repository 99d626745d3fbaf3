/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a runtime from its configuration, bottom up, closing it, and what it says of itself.  Which device
 * has one is devices.c's.  No locks.
 */
#include "lib/runtime/runtime.h"

#include <string.h>

#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/resource/open.h"
#include "lib/resource/terminal.h"
#include "lib/runtime/devices.h"

#define SAME(name, backend) \
	_Static_assert((int)SOMA_CAPABILITY_##name == (int)SOMA_BACKEND_##backend, "passed on as they are")
SAME(STREAM_ORDERED, STREAM_ORDERED);
SAME(USE_TRACKING, USE_TRACKING);
SAME(CAPTURE, CAPTURE);
SAME(HOST_ACCESSIBLE, HOST_ACCESSIBLE);
SAME(LOST, LOST);
SAME(STREAMS, STREAMS);
SAME(POOL, POOL);
SAME(EXPORT, EXPORTS);
SAME(PEERS, PEERS);
SAME(GUARD, GUARD);

#define CAPABILITIES                                                                               \
	(SOMA_CAPABILITY_STREAM_ORDERED | SOMA_CAPABILITY_USE_TRACKING | SOMA_CAPABILITY_CAPTURE | \
	 SOMA_CAPABILITY_HOST_ACCESSIBLE | SOMA_CAPABILITY_LOST | SOMA_CAPABILITY_STREAMS |        \
	 SOMA_CAPABILITY_POOL | SOMA_CAPABILITY_EXPORT | SOMA_CAPABILITY_PEERS | SOMA_CAPABILITY_GUARD)

#define PATH_SIZE 4096

/* ---- the stack ------------------------------------------------------------------- */

/* Puts a decorator on the top, which it keeps. */
static void
stack(struct soma_runtime *runtime, struct soma_resource *decorator)
{
	soma_resource_release(runtime->resource);
	runtime->resource = decorator;
}

static enum soma_status
add_trace(struct soma_runtime *runtime)
{
	const struct soma__runtime_config *config = &runtime->config;
	struct soma_resource *trace;
	char path[PATH_SIZE];
	struct soma_trace_config with = {
		.size = sizeof with,
		.path = path,
		.ring_events = config->trace_ring_events,
		.patience_ms = config->trace_patience_ms,
		.flush_ms = config->trace_flush_ms,
	};
	enum soma_status status;

	if (config->trace[0] == '\0')
		return SOMA_STATUS_OK;
	if (!soma__runtime_config_trace(config, path, sizeof path))
		return soma__error_text(SOMA_STATUS_INVALID_VALUE, "trace: the path is too long");
	/* 0 is what it says here, and the default in the struct. */
	if (with.patience_ms == 0)
		with.patience_ms = SOMA_TRACE_IMPATIENT;
	if (with.flush_ms == 0)
		with.flush_ms = 1;
	status = soma_trace_create(runtime->resource, &with, &trace);
	if (status == SOMA_STATUS_OK)
		stack(runtime, trace);
	return status;
}

static enum soma_status
add_budget(struct soma_runtime *runtime)
{
	struct soma_resource *budget;
	enum soma_status status;

	if (runtime->config.budget == 0)
		return SOMA_STATUS_OK;
	status = soma_budget_create(runtime->resource, runtime->config.budget, &budget);
	if (status == SOMA_STATUS_OK)
		stack(runtime, budget);
	return status;
}

/* A backend's pool may have no threshold; then the one that is given is for pools of ours. */
static enum soma_status
set_threshold(struct soma_runtime *runtime)
{
	const struct soma__amount *threshold = &runtime->config.release_threshold;
	struct soma__backend *backend = runtime->backend;
	enum soma_status status;

	if (!threshold->given || !(backend->capabilities & SOMA_BACKEND_POOL))
		return SOMA_STATUS_OK;
	status = backend->ops->pool_set(backend->self, SOMA_BACKEND_RELEASE_THRESHOLD, threshold->bytes);
	if (status != SOMA_STATUS_NOT_SUPPORTED)
		return status;
	soma__log(SOMA_LOG_INFO, "the pool of backend %s has no release threshold", runtime->backend_name);
	return SOMA_STATUS_OK;
}

static enum soma_status
open_backend(struct soma_runtime *runtime)
{
	const struct soma__runtime_config *config = &runtime->config;
	const struct soma__backend_config backend = {
		.name = config->backend,
		.search = config->backend_path,
		.device = (int)config->device,
		.option_count = config->option_count,
		.options = config->options,
	};
	enum soma_status status = soma__resource_open(&backend, &runtime->resource);

	if (status != SOMA_STATUS_OK)
		return status;
	runtime->backend = soma__resource_backend(runtime->resource);
	soma__backend_name(runtime->backend, runtime->backend_name, sizeof runtime->backend_name);
	return SOMA_STATUS_OK;
}

static enum soma_status
open_stack(struct soma_runtime *runtime)
{
	enum soma_status status = set_threshold(runtime);

	if (status == SOMA_STATUS_OK)
		status = add_trace(runtime);
	if (status == SOMA_STATUS_OK)
		status = add_budget(runtime);
	if (status == SOMA_STATUS_OK)
		status = soma__runtime_streams_init(runtime);
	if (status != SOMA_STATUS_OK)
		soma_resource_release(runtime->resource);
	return status;
}

/* ---- open, close ------------------------------------------------------------------- */

/* Where the configuration comes from, and the device if it is not what that says. */
struct origin {
	const char *source;
	const char *text;
	int device; /* -1: as configured */
};

static enum soma_status
open_configured(struct soma_runtime *runtime, const struct origin *from)
{
	enum soma_status status =
		soma__runtime_config_read(&runtime->config, runtime->arena, from->source, from->text);

	if (status != SOMA_STATUS_OK)
		return status;
	if (from->device >= 0)
		runtime->config.device = (uint32_t)from->device;
	status = open_backend(runtime);
	if (status == SOMA_STATUS_OK)
		status = open_stack(runtime);
	else
		soma__runtime_config_explain(&runtime->config, from->source, from->text, status);
	if (status != SOMA_STATUS_OK)
		soma__runtime_config_fini(&runtime->config);
	return status;
}

static enum soma_status
open_runtime(const struct origin *from, struct soma_runtime **out)
{
	struct soma__arena *arena;
	struct soma_runtime *runtime;
	enum soma_status status = soma__arena_create(&arena);

	if (status != SOMA_STATUS_OK)
		return status;
	runtime = soma__arena_calloc(arena, sizeof *runtime, 64);
	status = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (runtime != NULL) {
		runtime->arena = arena;
		runtime->of_device = from->device >= 0;
		atomic_init(&runtime->references, 1);
		status = open_configured(runtime, from);
	}
	if (status != SOMA_STATUS_OK) {
		soma__arena_destroy(arena);
		return status;
	}
	*out = runtime;
	return SOMA_STATUS_OK;
}

static struct origin
from_environment(int device)
{
	const char *text = soma__config_environment();

	return (struct origin){ .source = "SOMA_CONF", .text = text != NULL ? text : "", .device = device };
}

enum soma_status
soma_runtime_open(const char *configuration, struct soma_runtime **runtime)
{
	struct origin from = { .source = "configuration", .text = configuration, .device = -1 };

	if (configuration == NULL)
		from = from_environment(-1);
	return open_runtime(&from, runtime);
}

enum soma_status
soma__runtime_open_device(int device, struct soma_runtime **runtime)
{
	struct origin from = from_environment(device);

	return open_runtime(&from, runtime);
}

void
soma__runtime_close(struct soma_runtime *runtime)
{
	soma__resource_end(runtime->resource);
	if (soma_runtime_flush(runtime) != SOMA_STATUS_OK)
		soma__log(SOMA_LOG_WARNING, "device %d: the trace is not whole: %s",
			  soma_runtime_device(runtime), soma_error_last()->text);
	soma__registry_fini(&runtime->streams);
	soma_resource_release(runtime->resource);
	soma__runtime_config_fini(&runtime->config);
	soma__arena_destroy(runtime->arena);
}

struct soma_runtime *
soma_runtime_retain(struct soma_runtime *runtime)
{
	if (runtime != NULL)
		atomic_fetch_add_explicit(&runtime->references, 1, memory_order_relaxed);
	return runtime;
}

void
soma_runtime_release(struct soma_runtime *runtime)
{
	if (runtime == NULL)
		return;
	if (runtime->of_device)
		soma__devices_release(runtime);
	else if (atomic_fetch_sub_explicit(&runtime->references, 1, memory_order_acq_rel) == 1)
		soma__runtime_close(runtime);
}

enum soma_status
soma_runtime_flush(struct soma_runtime *runtime)
{
	return runtime->resource->observer != NULL ? soma_trace_flush(runtime->resource) : SOMA_STATUS_OK;
}

/* ---- what it is ------------------------------------------------------------------------ */

struct soma_resource *
soma_runtime_resource(struct soma_runtime *runtime)
{
	return runtime->resource;
}

int
soma_runtime_device(const struct soma_runtime *runtime)
{
	return (int)runtime->config.device;
}

const char *
soma_runtime_backend(const struct soma_runtime *runtime)
{
	return runtime->backend_name;
}

enum soma_status
soma_runtime_query(struct soma_runtime *runtime, struct soma_runtime_info *info)
{
	struct soma_backend_info backend;
	enum soma_status status;

	if (info->size < sizeof *info)
		return soma__resource_bad_size("a runtime's info", info->size, sizeof *info);
	status = soma__backend_query(runtime->backend, &backend);
	if (status != SOMA_STATUS_OK)
		return status;
	info->capabilities = backend.capabilities & CAPABILITIES;
	info->alignment = backend.alignment;
	info->granularity = backend.granularity;
	info->total = backend.total;
	info->free = backend.free;
	info->device = soma_runtime_device(runtime);
	info->driver_version = backend.driver_version;
	_Static_assert(sizeof info->device_name == sizeof backend.device_name, "copied whole");
	memcpy(info->device_name, backend.device_name, sizeof info->device_name);
	info->device_name[sizeof info->device_name - 1] = '\0';
	return SOMA_STATUS_OK;
}

enum soma_status
soma_runtime_reserve(struct soma_runtime *runtime, uint64_t bytes, struct soma_reservation **reservation)
{
	return soma_reservation_create(runtime->resource, bytes, reservation);
}

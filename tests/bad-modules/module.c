/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules for the tests of lib/plugin: by default a good one over malloc, with the mandatory
 * ops alone; each macro makes one thing wrong.  MODULE_NAME is the module's name.
 *
 * A module that must not be called aborts the process if it is.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <soma/backend.h>

#ifndef ABI
#define ABI SOMA_BACKEND_ABI
#endif
#ifndef MODULE_SIZE
#define MODULE_SIZE sizeof(struct soma_backend_module)
#endif
#ifndef OPS_SIZE
#define OPS_SIZE sizeof(struct soma_backend_ops)
#endif
#ifndef ALIGNMENT
#define ALIGNMENT 256
#endif
#ifndef CAPABILITIES
#define CAPABILITIES SOMA_BACKEND_HOST_ACCESSIBLE
#endif
#ifndef DOC
#define DOC "what it is for"
#endif
#ifndef WRAPS
#define WRAPS 0
#endif

struct soma_backend {
	const struct soma_backend_host *host;
	uint64_t kept, kept_size; /* RELEASES_LATE */
};

static void
must_not_be_called(void)
{
#ifdef UNCALLED
	abort();
#endif
}

static enum soma_status
fail(const struct soma_backend_host *host, enum soma_status status, uint32_t flags, const char *text)
{
	const struct soma_backend_error error = {
		.size = sizeof error,
		.status = status,
		.flags = flags,
		.driver_code = 719,
		.requested = 3,
		.text = text,
	};

	return host->fail(host->context, &error);
}

#ifdef UNRESOLVED
void a_function_that_nobody_has(void);
#endif

static enum soma_status
module_open(const struct soma_backend_open *how, struct soma_backend **self)
{
	must_not_be_called();
#ifdef UNRESOLVED
	a_function_that_nobody_has();
#endif
#ifdef SILENT
	return SOMA_STATUS_DRIVER;
#endif
#ifdef OPEN_FAILS
	return fail(how->host, OPEN_FAILS, SOMA_BACKEND_ERROR_DEFERRED | SOMA_BACKEND_ERROR_STICKY,
		    "the device has no pools");
#endif
	if ((WRAPS != 0) != (how->host->inner != NULL))
		abort();
	if (how->device > 3)
		return fail(how->host, SOMA_STATUS_NOT_FOUND, 0, "there are 4 devices");
	if (how->option_count > 0 && strcmp(how->options[0].value, "42") != 0)
		return fail(how->host, SOMA_STATUS_INVALID_VALUE, 0, how->options[0].key);
	*self = how->host->alloc(how->host->context, sizeof **self, 0);
	if (*self == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	(*self)->host = how->host;
	how->host->log(how->host->context, SOMA_BACKEND_LOG_INFO, "opened");
	return SOMA_STATUS_OK;
}

static void
module_close(struct soma_backend *self)
{
	self->host->log(self->host->context, SOMA_BACKEND_LOG_INFO, "closed");
#ifdef RELEASES_LATE
	self->host->released(self->host->context, self->kept, self->kept_size);
	free((void *)(uintptr_t)self->kept);
#endif
	self->host->free(self->host->context, self, sizeof *self);
}

static enum soma_status
module_query(struct soma_backend *self, struct soma_backend_info *info)
{
#ifdef QUERY_FAILS
	return fail(self->host, SOMA_STATUS_DRIVER, 0, "no answer");
#endif
	(void)self;
	info->alignment = ALIGNMENT;
	info->capabilities = CAPABILITIES;
	return SOMA_STATUS_OK;
}

static enum soma_status __attribute__((unused))
module_alloc(struct soma_backend *self, uint64_t size, uint64_t alignment, struct soma_backend_stream *stream,
	     uint64_t *ptr)
{
	void *p;

	(void)stream, (void)alignment;
	if (posix_memalign(&p, 256, (size_t)size) != 0)
		return fail(self->host, SOMA_STATUS_OUT_OF_DEVICE_MEMORY, 0, "no memory");
	*ptr = (uintptr_t)p;
	return SOMA_STATUS_OK;
}

static enum soma_status
module_free(struct soma_backend *self, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	(void)stream;
#ifdef RELEASES_LATE
	self->kept = ptr;
	self->kept_size = size;
#else
	self->host->released(self->host->context, ptr, size);
	free((void *)(uintptr_t)ptr);
#endif
	return SOMA_STATUS_OK;
}

#ifdef HALF_GROUP
static enum soma_status
module_record(struct soma_backend *self, struct soma_backend_event *event, struct soma_backend_stream *stream)
{
	(void)self, (void)event, (void)stream;
	must_not_be_called();
	return SOMA_STATUS_OK;
}
#endif

#ifdef SCANS_ALONE
static enum soma_status
module_scan(struct soma_backend *self, struct soma_backend_scan *ranges, size_t count,
	    struct soma_backend_stream *stream)
{
	(void)self, (void)ranges, (void)count, (void)stream;
	return SOMA_STATUS_OK;
}
#endif

#ifdef NO_ALLOC
#define ALLOC NULL
#else
#define ALLOC module_alloc
#endif

/* A larger ops table than this library knows, as a later module has. */
static const struct {
	struct soma_backend_ops ops;
	void (*later[2])(void);
} table __attribute__((unused)) = {
	.ops = {
		.size = OPS_SIZE,
		.open = module_open,
		.close = module_close,
		.query = module_query,
		.alloc = ALLOC,
		.free = module_free,
#ifdef HALF_GROUP
		.event_record = module_record,
#endif
#ifdef SCANS_ALONE
		.scan = module_scan,
#endif
	},
	.later = { must_not_be_called },
};

static const struct soma_backend_option_info options[] = {
	{ "answer", "42", "what it is" },
	{ "question", "-", DOC },
	{ 0 },
};

#ifndef OPS
#define OPS &table.ops
#endif
#ifdef NO_SYMBOL
#define EXPORTED something_else
#else
#define EXPORTED soma_backend_module
#endif
SOMA_BACKEND_EXPORT const struct soma_backend_module EXPORTED = {
	.abi = ABI,
	.size = MODULE_SIZE,
	.name = MODULE_NAME,
	.version = "1",
	.description = "a module for tests",
	.ops = OPS,
	.options = options,
	.wraps = WRAPS,
};

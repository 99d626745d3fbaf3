/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend module as anybody may write one: memory from the C library, a limit, and
 * a count of what went through it, logged when it is closed.
 *
 *   make && soma info --backend-path .
 *
 * It has the mandatory ops alone.  Without streams the library knows that every
 * block is ready at once and that nothing uses a block any more when it is freed.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <soma/backend.h>

/* A module says what its own struct soma_backend is. */
struct soma_backend {
	const struct soma_backend_host *host;
	uint64_t limit;
	_Atomic uint64_t used, allocs, frees;
};

/* Every failure has a text: the caller of the library reads it in soma_error_last(). */
static enum soma_status
fail(const struct soma_backend_host *host, enum soma_status status, const char *text)
{
	const struct soma_backend_error error = { .size = sizeof error, .status = status, .text = text };

	return host->fail(host->context, &error);
}

static enum soma_status
counting_open(const struct soma_backend_open *how, struct soma_backend **out)
{
	const struct soma_backend_host *host = how->host;
	uint64_t limit = UINT64_MAX;

	if (how->device != 0)
		return fail(host, SOMA_STATUS_NOT_FOUND, "there is no device but 0");
	/* Only keys of the table below come here, each once.  parse_size has said what is wrong. */
	for (size_t i = 0; i < how->option_count; i++) {
		enum soma_status status = host->parse_size(host->context, how->options[i].value, &limit);
		if (status != SOMA_STATUS_OK)
			return status;
	}
	struct soma_backend *self = host->alloc(host->context, sizeof *self, 0);
	if (self == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	*self = (struct soma_backend){ .host = host, .limit = limit };
	*out = self;
	return SOMA_STATUS_OK;
}

static void
counting_close(struct soma_backend *self)
{
	char line[128];

	snprintf(line, sizeof line, "%" PRIu64 " blocks allocated, %" PRIu64 " freed", atomic_load(&self->allocs),
		 atomic_load(&self->frees));
	self->host->log(self->host->context, SOMA_BACKEND_LOG_INFO, line);
	self->host->free(self->host->context, self, sizeof *self);
}

/* `info` may be smaller than the struct that this was built with: nothing is written beyond it. */
static enum soma_status
counting_query(struct soma_backend *self, struct soma_backend_info *info)
{
	uint64_t used = atomic_load(&self->used);
	const struct soma_backend_info all = {
		.size = info->size,
		.capabilities = SOMA_BACKEND_HOST_ACCESSIBLE,
		.alignment = 256,
		.granularity = 1 << 20,
		.total = self->limit,
		.free = self->limit - used,
		.device_name = "the C library's memory",
	};

	memcpy(info, &all, info->size < sizeof all ? info->size : sizeof all);
	return SOMA_STATUS_OK;
}

/* Takes the bytes, or says with figures why not. */
static enum soma_status
charge(struct soma_backend *self, uint64_t size)
{
	uint64_t used = atomic_load(&self->used);

	do {
		if (size > self->limit - used) {
			const struct soma_backend_error error = {
				.size = sizeof error,
				.status = SOMA_STATUS_OUT_OF_DEVICE_MEMORY,
				.requested = size,
				.current = used,
				.remaining = self->limit - used,
				.limit = self->limit,
				.text = "the option limit is reached",
			};
			return self->host->fail(self->host->context, &error);
		}
	} while (!atomic_compare_exchange_weak(&self->used, &used, used + size));
	return SOMA_STATUS_OK;
}

static enum soma_status
counting_alloc(struct soma_backend *self, uint64_t size, uint64_t alignment,
	       struct soma_backend_stream *stream, uint64_t *ptr)
{
	void *memory;

	(void)stream;
	if (size == 0)
		return fail(self->host, SOMA_STATUS_INVALID_VALUE, "0 bytes: at least 1 was expected");
	enum soma_status status = charge(self, size);
	if (status != SOMA_STATUS_OK)
		return status;
	if (posix_memalign(&memory, alignment < 256 ? 256 : (size_t)alignment, (size_t)size) != 0) {
		atomic_fetch_sub(&self->used, size);
		return fail(self->host, SOMA_STATUS_OUT_OF_DEVICE_MEMORY, "the C library has no memory");
	}
	atomic_fetch_add(&self->allocs, 1);
	*ptr = (uint64_t)(uintptr_t)memory;
	return SOMA_STATUS_OK;
}

static enum soma_status
counting_free(struct soma_backend *self, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	(void)stream;
	free((void *)(uintptr_t)ptr);
	atomic_fetch_sub(&self->used, size);
	atomic_fetch_add(&self->frees, 1);
	return SOMA_STATUS_OK;
}

/* What is not named here is NULL: the groups that it has not got. */
static const struct soma_backend_ops ops = {
	.size = sizeof ops,
	.open = counting_open,
	.close = counting_close,
	.query = counting_query,
	.alloc = counting_alloc,
	.free = counting_free,
};

static const struct soma_backend_option_info options[] = {
	{ "limit", "none", "bytes at most" },
	{ NULL, NULL, NULL },
};

SOMA_BACKEND_EXPORT const struct soma_backend_module soma_backend_module = {
	.abi = SOMA_BACKEND_ABI,
	.size = sizeof soma_backend_module,
	.name = "counting",
	.version = "1.0",
	.description = "the C library's memory, counted",
	.ops = &ops,
	.options = options,
};

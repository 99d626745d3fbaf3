/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module: open and close, options, blocks, attributes, and the table of ops.
 * Nothing here runs before open; after it, each part has its own locks.
 */
#include "backends/host/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/host/error.h"
#include "backends/host/machine.h"

#define CAPABILITIES                                                                              \
	(SOMA_BACKEND_STREAM_ORDERED | SOMA_BACKEND_USE_TRACKING | SOMA_BACKEND_HOST_ACCESSIBLE | \
	 SOMA_BACKEND_STREAMS | SOMA_BACKEND_FILLS | SOMA_BACKEND_SCANS | SOMA_BACKEND_SPANS |    \
	 SOMA_BACKEND_POOL | SOMA_BACKEND_STEPS)

/* ---- options -------------------------------------------------------------------- */

struct options {
	uint64_t size;
	uint64_t threshold;
	bool huge;
};

static const struct soma_backend_option_info option_table[] = {
	{ "size", "all",
	  "how much memory it has: a size, or all for what the machine lets this process have" },
	{ "release_threshold", "256M", "free memory kept at a synchronisation: a size, or all" },
	{ "huge_pages", "on", "on: ask for huge pages; off" },
	{ 0 },
};

/* "all" is UINT64_MAX. */
static enum soma_status
parse_amount(const struct soma_backend_host *host, const struct soma_backend_option *option, uint64_t *bytes)
{
	if (strcmp(option->value, "all") == 0) {
		*bytes = UINT64_MAX;
		return SOMA_STATUS_OK;
	}
	if (host->parse_size(host->context, option->value, bytes) == SOMA_STATUS_OK)
		return SOMA_STATUS_OK;
	return host_fail(host, SOMA_STATUS_INVALID_VALUE, "%s=%s: a size such as 64M was expected, or all",
			 option->key, option->value);
}

static enum soma_status
parse_option(const struct soma_backend_host *host, const struct soma_backend_option *option,
	     struct options *options)
{
	if (strcmp(option->key, "size") == 0)
		return parse_amount(host, option, &options->size);
	if (strcmp(option->key, "release_threshold") == 0)
		return parse_amount(host, option, &options->threshold);
	options->huge = strcmp(option->value, "on") == 0;
	if (options->huge || strcmp(option->value, "off") == 0)
		return SOMA_STATUS_OK;
	return host_fail(host, SOMA_STATUS_INVALID_VALUE, "%s=%s: on or off was expected", option->key,
			 option->value);
}

static enum soma_status
parse_options(const struct soma_backend_open *how, struct options *options)
{
	for (size_t i = 0; i < how->option_count; i++) {
		enum soma_status status = parse_option(how->host, &how->options[i], options);
		if (status != SOMA_STATUS_OK)
			return status;
	}
	return SOMA_STATUS_OK;
}

/* ---- open, close, query ------------------------------------------------------------ */

static enum soma_status
read_machine(const struct soma_backend_host *host, struct machine *machine)
{
	if (machine_read("", machine))
		return SOMA_STATUS_OK;
	return host_fail(host, SOMA_STATUS_IO, "/proc/meminfo cannot be read");
}

static void
host_close(struct soma_backend *self)
{
	lanes_drive_all(&self->lanes);
	spans_fini(&self->spans);
	lanes_fini(&self->lanes);
	heap_fini(&self->heap);
	munmap(self, sizeof *self);
}

/* Mapped, because most of it (the heap's root) is never touched. */
static enum soma_status
create(const struct soma_backend_host *host, const struct options *options, uint64_t total,
       struct soma_backend **out)
{
	struct soma_backend *self =
		mmap(NULL, sizeof *self, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t limit = options->size < total ? options->size : total;

	if (self == MAP_FAILED)
		return host_fail(host, SOMA_STATUS_OUT_OF_HOST_MEMORY, "no memory for the backend itself");
	self->host = host;
	if (!heap_init(&self->heap, host, limit, options->threshold, options->huge) ||
	    !spans_init(&self->spans, host, &self->heap) || !lanes_init(&self->lanes, host, &self->heap)) {
		munmap(self, sizeof *self);
		return host_fail(host, SOMA_STATUS_OUT_OF_HOST_MEMORY, "no memory for the backend's records");
	}
	*out = self;
	return SOMA_STATUS_OK;
}

static enum soma_status
host_open(const struct soma_backend_open *how, struct soma_backend **self)
{
	struct options options = { .size = UINT64_MAX, .threshold = (uint64_t)256 << 20, .huge = true };
	struct machine machine;

	if (how->device != 0)
		return host_fail(how->host, SOMA_STATUS_NOT_FOUND,
				 "there is no device %d: the host is device 0", how->device);
	enum soma_status status = parse_options(how, &options);
	if (status == SOMA_STATUS_OK)
		status = read_machine(how->host, &machine);
	return status == SOMA_STATUS_OK ? create(how->host, &options, machine.total, self) : status;
}

static enum soma_status
host_query(struct soma_backend *self, struct soma_backend_info *info)
{
	struct machine machine;

	enum soma_status status = read_machine(self->host, &machine);
	if (status != SOMA_STATUS_OK)
		return status;
	uint64_t taken = atomic_load(&self->heap.taken), limit = self->heap.limit;
	uint64_t left = limit > taken ? limit - taken : 0;
	struct soma_backend_info all = {
		.size = info->size,
		.capabilities = CAPABILITIES,
		.alignment = HEAP_ALIGNMENT,
		.granularity = HEAP_GRANULARITY,
		.span_granularity = self->spans.page,
		.total = limit,
		.free = machine.free < left ? machine.free : left,
		.device_name = "host memory",
	};
	memcpy(info, &all, info->size < sizeof all ? info->size : sizeof all);
	return SOMA_STATUS_OK;
}

static enum soma_status
host_device_count(const struct soma_backend_host *host, int *count)
{
	(void)host;
	*count = 1;
	return SOMA_STATUS_OK;
}

/* ---- blocks --------------------------------------------------------------------------- */

static enum soma_status
host_alloc(struct soma_backend *self, uint64_t size, uint64_t alignment, struct soma_backend_stream *stream,
	   uint64_t *ptr)
{
	/* Memory that can be taken is nobody's any more, in whatever order. */
	(void)stream;
	if (size == 0 || (alignment & (alignment - 1)) != 0)
		return host_fail(self->host, SOMA_STATUS_INVALID_VALUE,
				 "%" PRIu64 " bytes aligned to %" PRIu64
				 ": at least 1 byte and a power of two were expected",
				 size, alignment);
	if (size > self->heap.limit || alignment > self->heap.limit)
		return heap_no_memory(&self->heap, size, "more than there is in all");
	return heap_take(&self->heap, size, alignment, ptr);
}

static enum soma_status
host_free(struct soma_backend *self, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	struct item *item = heap_claim(&self->heap, ptr, size);

	if (item == NULL)
		return host_fail(self->host, SOMA_STATUS_INVALID_VALUE,
				 "no block of %" PRIu64 " bytes is at 0x%" PRIx64, size, ptr);
	item->kind = ITEM_FREE;
	if (stream == NULL)
		heap_put(&self->heap, item);
	else
		lane_put(&self->lanes, stream, item);
	return SOMA_STATUS_OK;
}

/* ---- the pool ---------------------------------------------------------------------------- */

static enum soma_status
no_attribute(struct soma_backend *self, enum soma_backend_attribute attribute, const char *what)
{
	return host_fail(self->host, SOMA_STATUS_NOT_SUPPORTED, "the host has no attribute %d that can be %s",
			 (int)attribute, what);
}

static enum soma_status
host_pool_get(struct soma_backend *self, enum soma_backend_attribute attribute, uint64_t *value)
{
	_Atomic uint64_t *from;

	switch (attribute) {
	case SOMA_BACKEND_RELEASE_THRESHOLD:
		from = &self->heap.threshold;
		break;
	case SOMA_BACKEND_RESERVED_CURRENT:
		from = &self->heap.reserved;
		break;
	case SOMA_BACKEND_RESERVED_HIGH:
		from = &self->heap.reserved_high;
		break;
	case SOMA_BACKEND_USED_CURRENT:
		from = &self->heap.used;
		break;
	case SOMA_BACKEND_USED_HIGH:
		from = &self->heap.used_high;
		break;
	default:
		return no_attribute(self, attribute, "read");
	}
	*value = atomic_load(from);
	return SOMA_STATUS_OK;
}

static enum soma_status
reset_high(struct soma_backend *self, uint64_t value, _Atomic uint64_t *high, _Atomic uint64_t *current)
{
	if (value != 0)
		return host_fail(self->host, SOMA_STATUS_INVALID_VALUE,
				 "a peak can be set to 0 and nothing else, not %" PRIu64, value);
	atomic_store(high, atomic_load(current));
	return SOMA_STATUS_OK;
}

static enum soma_status
host_pool_set(struct soma_backend *self, enum soma_backend_attribute attribute, uint64_t value)
{
	switch (attribute) {
	case SOMA_BACKEND_RELEASE_THRESHOLD:
		atomic_store(&self->heap.threshold, value);
		return SOMA_STATUS_OK;
	case SOMA_BACKEND_RESERVED_HIGH:
		return reset_high(self, value, &self->heap.reserved_high, &self->heap.reserved);
	case SOMA_BACKEND_USED_HIGH:
		return reset_high(self, value, &self->heap.used_high, &self->heap.used);
	case SOMA_BACKEND_RESERVED_CURRENT:
	case SOMA_BACKEND_USED_CURRENT:
		return host_fail(self->host, SOMA_STATUS_INVALID_VALUE, "attribute %d can only be read",
				 (int)attribute);
	default:
		return no_attribute(self, attribute, "set");
	}
}

static enum soma_status
host_pool_trim(struct soma_backend *self, uint64_t keep)
{
	heap_trim(&self->heap, keep);
	return SOMA_STATUS_OK;
}

/* ---- spans ------------------------------------------------------------------------------- */

static enum soma_status
host_span_reserve(struct soma_backend *self, uint64_t size, uint64_t alignment, uint64_t *address)
{
	return spans_reserve(&self->spans, size, alignment, address);
}

static enum soma_status
host_span_map(struct soma_backend *self, uint64_t address, uint64_t size)
{
	return spans_map(&self->spans, address, size);
}

static enum soma_status
host_span_unmap(struct soma_backend *self, uint64_t address, uint64_t size)
{
	return spans_unmap(&self->spans, address, size);
}

static enum soma_status
host_span_release(struct soma_backend *self, uint64_t address, uint64_t size)
{
	return spans_release(&self->spans, address, size);
}

static const struct soma_backend_ops ops = {
	.size = sizeof ops,
	.open = host_open,
	.close = host_close,
	.query = host_query,
	.alloc = host_alloc,
	.free = host_free,
	.device_count = host_device_count,
	.stream_create = host_stream_create,
	.stream_default = host_stream_default,
	.stream_wrap = host_stream_wrap,
	.stream_destroy = host_stream_destroy,
	.stream_info = host_stream_info,
	.stream_query = host_stream_query,
	.stream_synchronize = host_stream_synchronize,
	.synchronize = host_synchronize,
	.event_create = host_event_create,
	.event_destroy = host_event_destroy,
	.event_record = host_event_record,
	.event_wait = host_event_wait,
	.event_query = host_event_query,
	.event_synchronize = host_event_synchronize,
	.fill8 = host_fill8,
	.fill32 = host_fill32,
	.copy = host_copy,
	.copy_from_host = host_copy_from_host,
	.copy_to_host = host_copy_to_host,
	.staging_alloc = host_staging_alloc,
	.staging_free = host_staging_free,
	.scan = host_scan,
	.span_reserve = host_span_reserve,
	.span_map = host_span_map,
	.span_unmap = host_span_unmap,
	.span_release = host_span_release,
	.pool_get = host_pool_get,
	.pool_set = host_pool_set,
	.pool_trim = host_pool_trim,
	.stream_step = host_stream_step,
	.stream_position = host_stream_position,
};

SOMA_BACKEND_EXPORT const struct soma_backend_module soma_backend_module = {
	.abi = SOMA_BACKEND_ABI,
	.size = sizeof soma_backend_module,
	.name = "host",
	.version = "1",
	.description = "this machine's memory, on huge pages; streams run when waited for",
	.ops = &ops,
	.options = option_table,
};

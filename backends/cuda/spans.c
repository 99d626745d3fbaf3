/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans: address ranges, and memory behind parts of them.  A part is unmapped in whatever pieces the caller
 * likes, but the driver unmaps only whole what it mapped whole: so each step of the granularity is a mapping of its
 * own.
 *
 * `spans_lock` covers the list; a span is used under it, over calls of the driver, so that two threads do not map
 * the same step.
 */
#include "backends/cuda/device.h"

#include <inttypes.h>
#include <string.h>

enum {
	STEP_MAPPED = 1, /* the caller's */
	STEP_BACKED = 2, /* with memory: also what could not be unmapped when a map had failed */
};

struct span {
	struct cuda_link link;
	uint64_t address, size, steps;
	unsigned char state[]; /* one a step */
};

static size_t
span_bytes(uint64_t steps)
{
	return sizeof(struct span) + steps;
}

static bool
is_mapped(const struct span *span, uint64_t step)
{
	return (span->state[step] & STEP_MAPPED) != 0;
}

static void
set_mapped(struct span *span, uint64_t from, uint64_t to, bool mapped)
{
	for (; from < to; from++)
		span->state[from] = mapped ? STEP_MAPPED | STEP_BACKED : span->state[from] & STEP_BACKED;
}

static enum soma_status
check_part(struct soma_backend *self, uint64_t address, uint64_t size)
{
	if (size > 0 && (address | size) % self->granularity == 0 && address + size > address)
		return SOMA_STATUS_OK;
	return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
			   "%s: a span of %" PRIu64 " bytes at 0x%" PRIx64 ": multiples of %" PRIu64
			   " were expected",
			   self->name, size, address, self->granularity);
}

/* ---- ranges ------------------------------------------------------------------------ */

enum soma_status
cuda_span_reserve(struct soma_backend *self, uint64_t size, uint64_t alignment, uint64_t *address)
{
	const struct soma_backend_host *host = self->host;
	struct cuda_scope scope;
	CUdeviceptr at = 0;
	enum soma_status status = check_part(self, 0, size);

	if (status == SOMA_STATUS_OK && (alignment & (alignment - 1)) != 0)
		status = cuda_refuse(host, SOMA_STATUS_INVALID_VALUE,
				     "%s: an alignment of %" PRIu64 " is no power of two", self->name,
				     alignment);
	if (status != SOMA_STATUS_OK)
		return status;
	uint64_t steps = size / self->granularity;
	struct span *span = host->alloc(host->context, span_bytes(steps), 0);
	if (span == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	memset(span, 0, span_bytes(steps));
	status = cuda_enter_relaxed(self, &scope);
	if (status == SOMA_STATUS_OK) {
		status = CUDA_CALL(self, cuMemAddressReserve, &at, size,
				   alignment > self->granularity ? alignment : 0, 0, 0);
		if (status != SOMA_STATUS_OK && at != 0) /* an error of earlier work */
			CUDA_GIVE(self, cuMemAddressFree, at, size);
		cuda_leave(&scope);
	}
	if (status != SOMA_STATUS_OK) {
		host->free(host->context, span, span_bytes(steps));
		return status;
	}
	span->address = at;
	span->size = size;
	span->steps = steps;
	pthread_mutex_lock(&self->spans_lock);
	cuda_link_add(self, &self->spans, &span->link);
	pthread_mutex_unlock(&self->spans_lock);
	*address = at;
	return SOMA_STATUS_OK;
}

/* Under the lock: the span that has all of the part. */
static struct span *
find(struct soma_backend *self, uint64_t address, uint64_t size)
{
	for (struct cuda_link *at = self->spans.next; at != &self->spans; at = at->next) {
		struct span *span = (struct span *)(void *)at;
		if (address >= span->address && address - span->address < span->size &&
		    size <= span->size - (address - span->address))
			return span;
	}
	return NULL;
}

/* ---- memory: under the lock, within a scope --------------------------------------------- */

/* A call that answers with an error of earlier work may have done its own all the same. */
static enum soma_status
map_step(struct soma_backend *self, uint64_t address)
{
	const CUmemAllocationProp props = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, self->ordinal },
	};
	CUmemGenericAllocationHandle memory = 0;
	enum soma_status status = CUDA_CALL(self, cuMemCreate, &memory, self->granularity, &props, 0);

	if (status == SOMA_STATUS_OK)
		status = CUDA_CALL(self, cuMemMap, address, self->granularity, 0, memory, 0);
	/* A mapping keeps the memory; the handle is not needed. */
	if (memory != 0 && !cuda_is_lost(self) && self->driver->cuMemRelease(memory) != CUDA_SUCCESS &&
	    self->driver->cuMemRelease(memory) != CUDA_SUCCESS)
		self->host->log(self->host->context, SOMA_BACKEND_LOG_ERROR,
				"a step of a span stays with the driver: its handle could not be released");
	return status;
}

/* Takes the memory away that the caller has not got: what cannot be, in two tries, is left for the next map, or for
 * the span's release.  Not recorded: it is not what the caller's call failed for. */
static void
clear_steps(struct soma_backend *self, struct span *span, uint64_t from, uint64_t to)
{
	const struct cuda_driver *driver = self->driver;

	for (; from < to && !cuda_is_lost(self); from++) {
		uint64_t at = span->address + from * self->granularity;
		if (span->state[from] == STEP_BACKED &&
		    (driver->cuMemUnmap(at, self->granularity) == CUDA_SUCCESS ||
		     driver->cuMemUnmap(at, self->granularity) == CUDA_SUCCESS))
			span->state[from] = 0;
	}
}

/* Memory behind every step, and access to all of it. */
static enum soma_status
back_steps(struct soma_backend *self, struct span *span, uint64_t from, uint64_t to)
{
	const CUmemAccessDesc access = {
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, self->ordinal },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	enum soma_status status = SOMA_STATUS_OK;

	for (uint64_t step = from; step < to && status == SOMA_STATUS_OK; step++) {
		if (span->state[step] & STEP_BACKED)
			continue;
		status = map_step(self, span->address + step * self->granularity);
		if (status == SOMA_STATUS_OK)
			span->state[step] = STEP_BACKED;
	}
	if (status != SOMA_STATUS_OK)
		return status;
	return CUDA_CALL(self, cuMemSetAccess, span->address + from * self->granularity,
			 (to - from) * self->granularity, &access, 1);
}

static enum soma_status
map_steps(struct soma_backend *self, struct span *span, uint64_t from, uint64_t to)
{
	enum soma_status status = back_steps(self, span, from, to);

	if (status == SOMA_STATUS_OK)
		set_mapped(span, from, to, true);
	else
		clear_steps(self, span, from, to);
	return status;
}

static enum soma_status
unmap_step(struct soma_backend *self, struct span *span, uint64_t step)
{
	enum soma_status status =
		CUDA_CALL(self, cuMemUnmap, span->address + step * self->granularity, self->granularity);

	if (status == SOMA_STATUS_OK)
		span->state[step] = 0;
	return status;
}

/* What was unmapped before a step failed gets memory again, so that a failure has had no effect but on contents
 * that the caller gave up.  If that fails too, it is unmapped for the caller, and a step that stays mapped with the
 * driver does not fault until it is mapped and unmapped again. */
static enum soma_status
unmap_steps(struct soma_backend *self, struct span *span, uint64_t from, uint64_t to)
{
	enum soma_status status = SOMA_STATUS_OK;
	uint64_t step = from;

	for (; step < to && status == SOMA_STATUS_OK; step++)
		status = unmap_step(self, span, step);
	if (status == SOMA_STATUS_OK || cuda_is_lost(self))
		return status;
	if (back_steps(self, span, from, to) == SOMA_STATUS_OK) {
		set_mapped(span, from, to, true);
		return status;
	}
	set_mapped(span, from, to, false);
	clear_steps(self, span, from, to);
	return cuda_is_lost(self) ? status : SOMA_STATUS_OK;
}

/* Whether all of it is mapped, or nothing. */
static bool
is_all(const struct span *span, uint64_t from, uint64_t to, bool mapped)
{
	for (; from < to; from++)
		if (is_mapped(span, from) != mapped)
			return false;
	return true;
}

static enum soma_status
change_part(struct soma_backend *self, uint64_t address, uint64_t size, bool map)
{
	struct span *span = find(self, address, size);

	if (span == NULL)
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "%s: %" PRIu64 " bytes at 0x%" PRIx64 " are not within a reserved span",
				   self->name, size, address);
	uint64_t from = (address - span->address) / self->granularity, to = from + size / self->granularity;
	if (!is_all(span, from, to, !map))
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "%s: some of %" PRIu64 " bytes at 0x%" PRIx64 " is %s", self->name, size,
				   address, map ? "mapped" : "not mapped");
	return map ? map_steps(self, span, from, to) : unmap_steps(self, span, from, to);
}

static enum soma_status
change(struct soma_backend *self, uint64_t address, uint64_t size, bool map)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = check_part(self, address, size);
	if (status == SOMA_STATUS_OK) {
		pthread_mutex_lock(&self->spans_lock);
		status = change_part(self, address, size, map);
		pthread_mutex_unlock(&self->spans_lock);
	}
	cuda_leave(&scope);
	return status;
}

enum soma_status
cuda_span_map(struct soma_backend *self, uint64_t address, uint64_t size)
{
	return change(self, address, size, true);
}

enum soma_status
cuda_span_unmap(struct soma_backend *self, uint64_t address, uint64_t size)
{
	return change(self, address, size, false);
}

/* ---- giving back ---------------------------------------------------------------------- */

static void
forget(struct soma_backend *self, struct span *span)
{
	cuda_link_remove(self, &span->link);
	self->host->free(self->host->context, span, span_bytes(span->steps));
}

static enum soma_status
release(struct soma_backend *self, uint64_t address, uint64_t size)
{
	struct span *span = find(self, address, size);

	if (span == NULL || span->address != address || span->size != size)
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "%s: no span of %" PRIu64 " bytes was reserved at 0x%" PRIx64, self->name,
				   size, address);
	if (!is_all(span, 0, span->steps, false))
		return cuda_refuse(self->host, SOMA_STATUS_INVALID_VALUE,
				   "%s: the span at 0x%" PRIx64 " is not wholly unmapped", self->name,
				   address);
	clear_steps(self, span, 0, span->steps);
	enum soma_status status = CUDA_CALL(self, cuMemAddressFree, address, size);
	if (status == SOMA_STATUS_OK)
		forget(self, span);
	return status;
}

enum soma_status
cuda_span_release(struct soma_backend *self, uint64_t address, uint64_t size)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter_relaxed(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&self->spans_lock);
	status = release(self, address, size);
	pthread_mutex_unlock(&self->spans_lock);
	cuda_leave(&scope);
	return status;
}

void
cuda_spans_close(struct soma_backend *self)
{
	while (self->spans.next != &self->spans) {
		struct span *span = (struct span *)(void *)self->spans.next;
		for (uint64_t i = 0; i < span->steps; i++)
			if (span->state[i] != 0)
				CUDA_GIVE(self, cuMemUnmap, span->address + i * self->granularity,
					  self->granularity);
		CUDA_GIVE(self, cuMemAddressFree, span->address, span->size);
		forget(self, span);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans by mmap: a range is reserved without access and without memory; mapping makes it
 * accessible; unmapping puts a fresh inaccessible mapping in its place, which gives
 * the memory back and lets the kernel join it with its neighbours.
 *
 * What is mapped is remembered, so that nothing is mapped or unmapped twice, which would count it
 * twice; a part is mapped and unmapped under the mutex, by system calls that lock the whole address space anyway.
 */
#include "backends/host/spans.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/host/error.h"

#define NEAR_PAGES 3u
#define RESERVED_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* A mapped part; neighbours are one. */
struct run {
	struct run *next; /* by address */
	uint64_t address;
	uint64_t size;
};

struct span {
	struct span *next;
	struct run *runs;
	uint64_t address;
	uint64_t size;
};

bool
spans_init(struct spans *spans, const struct soma_backend_host *host, struct heap *heap)
{
	spans->host = host;
	spans->heap = heap;
	spans->page = (uint64_t)sysconf(_SC_PAGESIZE);
	return pthread_mutex_init(&spans->mutex, NULL) == 0;
}

void
spans_fini(struct spans *spans)
{
	for (unsigned i = 0; i < SPAN_BUCKETS; i++)
		for (struct span *span = spans->buckets[i]; span != NULL; span = span->next)
			munmap((void *)(uintptr_t)span->address, span->size);
	pthread_mutex_destroy(&spans->mutex);
}

static struct span **
bucket(struct spans *spans, uint64_t address)
{
	return &spans->buckets[(address / spans->page * 0x9e3779b97f4a7c15u) >> 54];
}

static enum soma_status
check(struct spans *spans, uint64_t address, uint64_t size)
{
	if (size > 0 && (address | size) % spans->page == 0)
		return SOMA_STATUS_OK;
	return host_fail(spans->host, SOMA_STATUS_INVALID_VALUE,
			 "a span at 0x%" PRIx64 " of %" PRIu64 " bytes: both must be multiples of %" PRIu64
			 ", and the size not 0",
			 address, size, spans->page);
}

static bool
holds(const struct span *span, uint64_t address, uint64_t size)
{
	return address >= span->address && size <= span->size && address - span->address <= span->size - size;
}

/* Under the mutex.  The range that has the part.  Mostly a part begins where its range does, or a page or
 * two behind; else all are looked at. */
static struct span *
find_span(struct spans *spans, uint64_t address, uint64_t size)
{
	for (uint64_t back = 0; back < NEAR_PAGES * spans->page && back <= address; back += spans->page)
		for (struct span *span = *bucket(spans, address - back); span != NULL; span = span->next)
			if (holds(span, address, size))
				return span;
	for (unsigned i = 0; i < SPAN_BUCKETS; i++)
		for (struct span *span = spans->buckets[i]; span != NULL; span = span->next)
			if (holds(span, address, size))
				return span;
	return NULL;
}

/* Under the mutex.  The range of a part to map or to unmap: anything else at these addresses is not
 * ours to touch. */
static enum soma_status
find_part(struct spans *spans, uint64_t address, uint64_t size, struct span **span)
{
	*span = find_span(spans, address, size);
	if (*span != NULL)
		return SOMA_STATUS_OK;
	return host_fail(spans->host, SOMA_STATUS_INVALID_VALUE,
			 "%" PRIu64 " bytes at 0x%" PRIx64 " are not within one reserved span", size,
			 address);
}

/* ---- what is mapped -------------------------------------------------------------- */

/* The link to the first run that ends at or behind the address. */
static struct run **
find_run(struct span *span, uint64_t address)
{
	struct run **at = &span->runs;

	while (*at != NULL && (*at)->address + (*at)->size < address)
		at = &(*at)->next;
	return at;
}

static bool
is_free(struct span *span, uint64_t address, uint64_t size)
{
	const struct run *run = *find_run(span, address + 1);

	return run == NULL || run->address >= address + size;
}

static void
give_run(struct spans *spans, struct run *run)
{
	if (run != NULL)
		spans->host->free(spans->host->context, run, sizeof *run);
}

/* `spare` becomes the part's run, unless it joins another. */
static void
add_run(struct spans *spans, struct span *span, uint64_t address, uint64_t size, struct run *spare)
{
	struct run **at = find_run(span, address), *run = *at, *next;

	if (run == NULL || run->address > address + size) {
		*spare = (struct run){ run, address, size };
		*at = spare;
		return;
	}
	give_run(spans, spare);
	if (run->address == address + size) {
		run->address = address;
		run->size += size;
		return;
	}
	run->size += size;
	next = run->next;
	if (next != NULL && next->address == run->address + run->size) {
		run->size += next->size;
		run->next = next->next;
		give_run(spans, next);
	}
}

/* The part lies in the run at `at`; `spare` is for what is behind it. */
static void
cut_run(struct spans *spans, struct run **at, uint64_t address, uint64_t size, struct run *spare)
{
	struct run *run = *at;
	uint64_t before = address - run->address, behind = run->size - before - size;

	if (before > 0 && behind > 0) {
		*spare = (struct run){ run->next, address + size, behind };
		run->next = spare;
		run->size = before;
		return;
	}
	give_run(spans, spare);
	if (before > 0) {
		run->size = before;
	} else if (behind > 0) {
		run->address = address + size;
		run->size = behind;
	} else {
		*at = run->next;
		give_run(spans, run);
	}
}

static enum soma_status
overlaps(struct spans *spans, const char *what, uint64_t address, uint64_t size)
{
	return host_fail(spans->host, SOMA_STATUS_INVALID_VALUE,
			 "%" PRIu64 " bytes at 0x%" PRIx64 ": some of that is %s", size, address, what);
}

/* ---- the operations ---------------------------------------------------------------- */

static enum soma_status
refused(struct spans *spans, const char *what, uint64_t size, int error)
{
	return host_fail(spans->host,
			 error == ENOMEM ? SOMA_STATUS_OUT_OF_DEVICE_MEMORY : SOMA_STATUS_INVALID_VALUE,
			 "cannot %s a span of %" PRIu64 " bytes: %s%s", what, size, strerror(error),
			 error == ENOMEM ? " (memory, address space or vm.max_map_count)" : "");
}

static char *
reserve_range(uint64_t size, uint64_t alignment, uint64_t page)
{
	uint64_t spare = alignment > page ? alignment - page : 0;

	if (size + spare < size)
		return NULL;
	char *p = mmap(NULL, size + spare, PROT_NONE, RESERVED_FLAGS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	uint64_t front = spare == 0 ? 0 : -(uintptr_t)p & (alignment - 1);
	if (front > 0)
		munmap(p, front);
	if (spare > front)
		munmap(p + front + size, spare - front);
	return p + front;
}

enum soma_status
spans_reserve(struct spans *spans, uint64_t size, uint64_t alignment, uint64_t *address)
{
	enum soma_status status = check(spans, 0, size);

	if (status != SOMA_STATUS_OK)
		return status;
	if ((alignment & (alignment - 1)) != 0)
		return host_fail(spans->host, SOMA_STATUS_INVALID_VALUE,
				 "alignment %" PRIu64 " is not a power of two", alignment);
	struct span *span = spans->host->alloc(spans->host->context, sizeof *span, 0);
	if (span == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	char *p = reserve_range(size, alignment, spans->page);
	if (p == NULL) {
		spans->host->free(spans->host->context, span, sizeof *span);
		return refused(spans, "reserve", size, ENOMEM);
	}
	*span = (struct span){ .address = (uintptr_t)p, .size = size };
	pthread_mutex_lock(&spans->mutex);
	struct span **at = bucket(spans, span->address);
	span->next = *at;
	*at = span;
	pthread_mutex_unlock(&spans->mutex);
	*address = span->address;
	return SOMA_STATUS_OK;
}

static enum soma_status
map_part(struct spans *spans, uint64_t address, uint64_t size, struct run *spare)
{
	struct span *span;
	enum soma_status status = find_part(spans, address, size, &span);

	if (status != SOMA_STATUS_OK)
		return status;
	if (!is_free(span, address, size))
		return overlaps(spans, "mapped already", address, size);
	if (!heap_charge(spans->heap, size))
		return heap_no_memory(spans->heap, size, "the limit is reached");
	if (mprotect((void *)(uintptr_t)address, size, PROT_READ | PROT_WRITE) != 0) {
		heap_discharge(spans->heap, size);
		return refused(spans, "map", size, errno);
	}
	add_run(spans, span, address, size, spare);
	return SOMA_STATUS_OK;
}

static enum soma_status
unmap_part(struct spans *spans, uint64_t address, uint64_t size, struct run *spare)
{
	struct span *span;
	enum soma_status status = find_part(spans, address, size, &span);

	if (status != SOMA_STATUS_OK)
		return status;
	struct run **at = find_run(span, address + 1), *run = *at;
	if (run == NULL || run->address > address || run->address + run->size < address + size)
		return overlaps(spans, "not mapped", address, size);
	if (mmap((void *)(uintptr_t)address, size, PROT_NONE, RESERVED_FLAGS | MAP_FIXED, -1, 0) ==
	    MAP_FAILED)
		return refused(spans, "unmap", size, errno);
	heap_discharge(spans->heap, size);
	cut_run(spans, at, address, size, spare);
	return SOMA_STATUS_OK;
}

/* With a record that either may need: so neither can fail when the memory has been mapped or unmapped. */
static enum soma_status
change_part(struct spans *spans, uint64_t address, uint64_t size,
	    enum soma_status (*change)(struct spans *spans, uint64_t address, uint64_t size,
				       struct run *spare))
{
	enum soma_status status = check(spans, address, size);

	if (status != SOMA_STATUS_OK)
		return status;
	struct run *spare = spans->host->alloc(spans->host->context, sizeof *spare, 0);
	if (spare == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	pthread_mutex_lock(&spans->mutex);
	status = change(spans, address, size, spare);
	pthread_mutex_unlock(&spans->mutex);
	if (status != SOMA_STATUS_OK)
		give_run(spans, spare);
	return status;
}

enum soma_status
spans_map(struct spans *spans, uint64_t address, uint64_t size)
{
	return change_part(spans, address, size, map_part);
}

enum soma_status
spans_unmap(struct spans *spans, uint64_t address, uint64_t size)
{
	return change_part(spans, address, size, unmap_part);
}

enum soma_status
spans_release(struct spans *spans, uint64_t address, uint64_t size)
{
	pthread_mutex_lock(&spans->mutex);
	struct span **at = bucket(spans, address);
	while (*at != NULL && (*at)->address != address)
		at = &(*at)->next;
	struct span *span = *at;
	bool mapped = span != NULL && span->size == size && span->runs != NULL;
	if (span != NULL && span->size == size && !mapped)
		*at = span->next;
	else
		span = NULL;
	pthread_mutex_unlock(&spans->mutex);
	if (mapped)
		return overlaps(spans, "mapped still", address, size);
	if (span == NULL)
		return host_fail(spans->host, SOMA_STATUS_INVALID_VALUE,
				 "no span of %" PRIu64 " bytes was reserved at 0x%" PRIx64, size, address);
	munmap((void *)(uintptr_t)address, size);
	spans->host->free(spans->host->context, span, sizeof *span);
	return SOMA_STATUS_OK;
}

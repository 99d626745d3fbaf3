/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks' memory comes from: chunks, whose pages are given out in runs, and
 * single mappings.  Finds the slab of an address.  Counts against the limit.
 *
 * heap->mutex covers the page maps and the lists; mapping and unmapping happen outside it.
 */
#include "backends/host/heap_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

void
heap__raise(_Atomic uint64_t *high, uint64_t value)
{
	uint64_t seen = atomic_load_explicit(high, memory_order_relaxed);

	while (seen < value && !atomic_compare_exchange_weak(high, &seen, value))
		;
}

static uint64_t
less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

enum soma_status
heap_no_memory(struct heap *heap, uint64_t bytes, const char *why)
{
	uint64_t taken = atomic_load(&heap->taken);
	char text[200];

	snprintf(text, sizeof text,
		 "no memory for %" PRIu64 " bytes: %s (%" PRIu64 " of %" PRIu64 " bytes are taken)", bytes,
		 why, taken, heap->limit);
	const struct soma_backend_error error = {
		.size = sizeof error,
		.status = SOMA_STATUS_OUT_OF_DEVICE_MEMORY,
		.requested = bytes,
		.current = taken,
		.remaining = less(heap->limit, taken),
		.limit = heap->limit,
		.text = text,
	};
	return heap->host->fail(heap->host->context, &error);
}

/* ---- the limit ---------------------------------------------------------------- */

static bool
try_charge(struct heap *heap, uint64_t bytes)
{
	uint64_t taken = atomic_load(&heap->taken);

	do {
		if (bytes > less(heap->limit, taken))
			return false;
	} while (!atomic_compare_exchange_weak(&heap->taken, &taken, taken + bytes));
	return true;
}

bool
heap_charge(struct heap *heap, uint64_t bytes)
{
	if (try_charge(heap, bytes))
		return true;
	heap__drop_empty(heap);
	return try_charge(heap, bytes);
}

void
heap_discharge(struct heap *heap, uint64_t bytes)
{
	atomic_fetch_sub(&heap->taken, bytes);
}

/* ---- system calls --------------------------------------------------------------- */

/* Explicit huge pages where the system has reserved some, and for whole ones alone. */
static void *
map_explicit(struct heap *heap, uint64_t bytes, uint64_t alignment)
{
	if (!heap->huge || alignment > HEAP_GRANULARITY)
		return NULL;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << MAP_HUGE_SHIFT, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void *
map_aligned(struct heap *heap, uint64_t bytes, uint64_t alignment)
{
	uint64_t spare = alignment - 4096;
	char *p = map_explicit(heap, bytes, alignment);

	if (p != NULL)
		return p;
	p = mmap(NULL, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		 0);
	if (p == MAP_FAILED)
		return NULL;
	uint64_t front = -(uintptr_t)p & (alignment - 1);
	if (front > 0)
		munmap(p, front);
	if (spare > front)
		munmap(p + front + bytes, spare - front);
	if (heap->huge)
		madvise(p + front, bytes, MADV_HUGEPAGE);
	return p + front;
}

/* A mapping, counted as reserved.  When the system or the limit has no room, what is idle
 * goes first. */
static void *
map_counted(struct heap *heap, uint64_t bytes, uint64_t alignment)
{
	if (bytes > less(heap->limit, atomic_load(&heap->reserved)))
		heap_trim(heap, less(heap->limit, bytes));
	void *p = map_aligned(heap, bytes, alignment);
	if (p == NULL) {
		heap_trim(heap, 0);
		p = map_aligned(heap, bytes, alignment);
	}
	if (p != NULL)
		heap__raise(&heap->reserved_high, atomic_fetch_add(&heap->reserved, bytes) + bytes);
	return p;
}

static void
unmap_counted(struct heap *heap, uint64_t base, uint64_t bytes)
{
	atomic_fetch_sub(&heap->reserved, bytes);
	munmap((void *)(uintptr_t)base, bytes);
}

/* ---- chunks ----------------------------------------------------------------------- */

static enum soma_status
chunk_create(struct heap *heap, struct heap_chunk **out)
{
	const struct soma_backend_host *host = heap->host;
	struct heap_chunk *chunk = host->alloc(host->context, sizeof *chunk, 0);

	if (chunk == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	memset(chunk, 0, sizeof *chunk);
	void *p = map_counted(heap, CHUNK_BYTES, HEAP_GRANULARITY);
	if (p == NULL) {
		host->free(host->context, chunk, sizeof *chunk);
		return heap_no_memory(heap, CHUNK_BYTES, strerror(ENOMEM));
	}
	chunk->base = (uintptr_t)p;
	chunk->vacant = CHUNK_PAGES;
	if (!heap__make_leaves(heap, chunk->base, CHUNK_BYTES)) {
		unmap_counted(heap, chunk->base, CHUNK_BYTES);
		host->free(host->context, chunk, sizeof *chunk);
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	heap__set_entries(heap, chunk->base, CHUNK_BYTES, (uintptr_t)chunk);
	*out = chunk;
	return SOMA_STATUS_OK;
}

static bool
is_taken(const struct heap_chunk *chunk, uint64_t page)
{
	return (chunk->taken[page / 64] >> page % 64 & 1) != 0;
}

/* The lowest `pages` vacant ones from a multiple of `step` on (in units of pages from
 * address 0); CHUNK_PAGES: none. */
static uint64_t
find_run(const struct heap_chunk *chunk, uint64_t pages, uint64_t step)
{
	uint64_t origin = chunk->base >> PAGE_SHIFT, first = 0;

	while (first + pages <= CHUNK_PAGES) {
		if (chunk->taken[first / 64] == UINT64_MAX) {
			first = (first / 64 + 1) * 64;
			continue;
		}
		first += -(origin + first) & (step - 1);
		uint64_t end = first;
		while (end < CHUNK_PAGES && end < first + pages && !is_taken(chunk, end))
			end++;
		if (end == first + pages)
			return first;
		first = end + 1;
	}
	return CHUNK_PAGES;
}

static void
mark(struct heap_chunk *chunk, uint64_t first, uint64_t pages, bool taken)
{
	for (uint64_t page = first; page < first + pages; page++) {
		uint64_t bit = (uint64_t)1 << page % 64;
		chunk->taken[page / 64] =
			taken ? chunk->taken[page / 64] | bit : chunk->taken[page / 64] & ~bit;
	}
	chunk->vacant = taken ? chunk->vacant - pages : chunk->vacant + pages;
}

/* heap->mutex is held. */
static bool
take_from_chunks(struct heap *heap, struct heap_slab *slab, uint64_t pages, uint64_t step)
{
	for (struct heap_chunk *chunk = heap->chunks; chunk != NULL; chunk = chunk->next) {
		uint64_t first = chunk->vacant < pages ? CHUNK_PAGES : find_run(chunk, pages, step);
		if (first == CHUNK_PAGES)
			continue;
		mark(chunk, first, pages, true);
		slab->chunk = chunk;
		slab->base = chunk->base + (first << PAGE_SHIFT);
		slab->bytes = pages << PAGE_SHIFT;
		return true;
	}
	return false;
}

static void
set_pages(struct heap_slab *slab, struct heap_slab *value)
{
	uint64_t first = (slab->base - slab->chunk->base) >> PAGE_SHIFT;

	for (uint64_t page = first; page < first + (slab->bytes >> PAGE_SHIFT); page++)
		atomic_store_explicit(&slab->chunk->page[page], value, memory_order_release);
}

enum soma_status
heap__pages_take(struct heap *heap, struct heap_slab *slab, uint64_t pages, uint64_t alignment)
{
	uint64_t step = alignment >> PAGE_SHIFT;

	if (!heap_charge(heap, pages << PAGE_SHIFT))
		return heap_no_memory(heap, pages << PAGE_SHIFT, "the limit is reached");
	pthread_mutex_lock(&heap->mutex);
	while (!take_from_chunks(heap, slab, pages, step)) {
		struct heap_chunk *chunk = NULL;
		pthread_mutex_unlock(&heap->mutex);
		enum soma_status status = chunk_create(heap, &chunk);
		if (status != SOMA_STATUS_OK) {
			heap_discharge(heap, pages << PAGE_SHIFT);
			return status;
		}
		pthread_mutex_lock(&heap->mutex);
		chunk->next = heap->chunks;
		heap->chunks = chunk;
	}
	pthread_mutex_unlock(&heap->mutex);
	set_pages(slab, slab);
	return SOMA_STATUS_OK;
}

void
heap__pages_put(struct heap *heap, struct heap_slab *slab)
{
	uint64_t first = (slab->base - slab->chunk->base) >> PAGE_SHIFT;

	set_pages(slab, NULL);
	pthread_mutex_lock(&heap->mutex);
	mark(slab->chunk, first, slab->bytes >> PAGE_SHIFT, false);
	slab->chunk->idle_since = ++heap->clock;
	pthread_mutex_unlock(&heap->mutex);
	heap_discharge(heap, slab->bytes);
}

/* ---- single mappings ----------------------------------------------------------------- */

static void
list_push(struct heap_slab **list, struct heap_slab *slab)
{
	slab->prev = NULL;
	slab->next = *list;
	if (slab->next != NULL)
		slab->next->prev = slab;
	*list = slab;
}

static void
list_remove(struct heap_slab **list, struct heap_slab *slab)
{
	if (slab->prev != NULL)
		slab->prev->next = slab->next;
	else
		*list = slab->next;
	if (slab->next != NULL)
		slab->next->prev = slab->prev;
}

/* The smallest idle one that is large enough and not larger by more than a quarter;
 * heap->mutex is held. */
static struct heap_slab *
find_idle(const struct heap *heap, uint64_t bytes, uint64_t alignment)
{
	struct heap_slab *best = NULL;

	for (struct heap_slab *slab = heap->idle; slab != NULL; slab = slab->next)
		if (slab->bytes >= bytes && slab->bytes - bytes <= bytes / 4 && slab->base % alignment == 0 &&
		    (best == NULL || slab->bytes < best->bytes))
			best = slab;
	return best;
}

static struct heap_slab *
take_idle(struct heap *heap, uint64_t bytes, uint64_t alignment)
{
	pthread_mutex_lock(&heap->mutex);
	struct heap_slab *slab = find_idle(heap, bytes, alignment);
	if (slab != NULL && try_charge(heap, slab->bytes)) {
		list_remove(&heap->idle, slab);
		list_push(&heap->mapped, slab);
	} else {
		slab = NULL;
	}
	pthread_mutex_unlock(&heap->mutex);
	return slab;
}

static enum soma_status
mapping_create(struct heap *heap, struct heap_slab *slab, uint64_t bytes, uint64_t alignment)
{
	void *p = map_counted(heap, bytes, alignment);

	if (p == NULL)
		return heap_no_memory(heap, bytes, strerror(ENOMEM));
	slab->base = (uintptr_t)p;
	slab->bytes = bytes;
	if (!heap__make_leaves(heap, slab->base, HEAP_GRANULARITY)) {
		unmap_counted(heap, slab->base, bytes);
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	heap__set_entries(heap, slab->base, HEAP_GRANULARITY, (uintptr_t)slab | HEAP_SINGLE);
	pthread_mutex_lock(&heap->mutex);
	list_push(&heap->mapped, slab);
	pthread_mutex_unlock(&heap->mutex);
	return SOMA_STATUS_OK;
}

enum soma_status
heap__mapping_take(struct heap *heap, uint64_t size, uint64_t alignment, struct heap_slab **out)
{
	uint64_t bytes = (size + HEAP_GRANULARITY - 1) & -HEAP_GRANULARITY;

	if (alignment < HEAP_GRANULARITY)
		alignment = HEAP_GRANULARITY;
	if ((*out = take_idle(heap, bytes, alignment)) != NULL)
		return SOMA_STATUS_OK;
	if (!heap_charge(heap, bytes))
		return heap_no_memory(heap, size, "the limit is reached");
	struct heap_slab *slab = heap__slab_new(heap, 1);
	enum soma_status status =
		slab == NULL ? SOMA_STATUS_OUT_OF_HOST_MEMORY : mapping_create(heap, slab, bytes, alignment);
	if (status != SOMA_STATUS_OK) {
		if (slab != NULL)
			heap__slab_delete(heap, slab);
		heap_discharge(heap, bytes);
		return status;
	}
	*out = slab;
	return SOMA_STATUS_OK;
}

void
heap__mapping_put(struct heap *heap, struct heap_slab *slab)
{
	uint64_t bytes = slab->bytes;

	pthread_mutex_lock(&heap->mutex);
	list_remove(&heap->mapped, slab);
	list_push(&heap->idle, slab);
	slab->idle_since = ++heap->clock;
	pthread_mutex_unlock(&heap->mutex);
	heap_discharge(heap, bytes);
}

/* ---- giving back ------------------------------------------------------------------------ */

/* What has been idle longest and may go; heap->mutex is held. */
static struct heap_slab *
oldest_mapping(const struct heap *heap, uint64_t most)
{
	struct heap_slab *oldest = NULL;

	for (struct heap_slab *slab = heap->idle; slab != NULL; slab = slab->next)
		if (slab->bytes <= most && (oldest == NULL || slab->idle_since < oldest->idle_since))
			oldest = slab;
	return oldest;
}

static struct heap_chunk *
oldest_chunk(const struct heap *heap, uint64_t most)
{
	struct heap_chunk *oldest = NULL;

	for (struct heap_chunk *chunk = most < CHUNK_BYTES ? NULL : heap->chunks; chunk != NULL;
	     chunk = chunk->next)
		if (chunk->vacant == CHUNK_PAGES &&
		    (oldest == NULL || chunk->idle_since < oldest->idle_since))
			oldest = chunk;
	return oldest;
}

static void
unlink_chunk(struct heap *heap, const struct heap_chunk *chunk)
{
	struct heap_chunk **at = &heap->chunks;

	while (*at != chunk)
		at = &(*at)->next;
	*at = chunk->next;
}

/* Takes one of them off the lists, and off `reserved` at once, so that two trims do not pass
 * `keep` together. */
static bool
pick_one(struct heap *heap, uint64_t keep, struct heap_slab **slab, struct heap_chunk **chunk)
{
	pthread_mutex_lock(&heap->mutex);
	uint64_t most = less(atomic_load(&heap->reserved), keep);
	*slab = oldest_mapping(heap, most);
	*chunk = oldest_chunk(heap, most);
	if (*slab != NULL && *chunk != NULL) {
		if ((*slab)->idle_since < (*chunk)->idle_since)
			*chunk = NULL;
		else
			*slab = NULL;
	}
	if (*slab != NULL)
		list_remove(&heap->idle, *slab);
	if (*chunk != NULL)
		unlink_chunk(heap, *chunk);
	atomic_fetch_sub(&heap->reserved, *slab != NULL ? (*slab)->bytes : *chunk != NULL ? CHUNK_BYTES : 0);
	pthread_mutex_unlock(&heap->mutex);
	return *slab != NULL || *chunk != NULL;
}

static bool
release_one(struct heap *heap, uint64_t keep)
{
	struct heap_chunk *chunk;
	struct heap_slab *slab;

	if (!pick_one(heap, keep, &slab, &chunk))
		return false;
	if (slab != NULL) {
		heap__set_entries(heap, slab->base, HEAP_GRANULARITY, 0);
		munmap((void *)(uintptr_t)slab->base, slab->bytes);
		heap__slab_delete(heap, slab);
	} else {
		heap__set_entries(heap, chunk->base, CHUNK_BYTES, 0);
		munmap((void *)(uintptr_t)chunk->base, CHUNK_BYTES);
		heap->host->free(heap->host->context, chunk, sizeof *chunk);
	}
	return true;
}

void
heap_trim(struct heap *heap, uint64_t keep)
{
	if (atomic_load(&heap->reserved) <= keep)
		return;
	heap__drop_empty(heap);
	while (release_one(heap, keep))
		;
}

static void
unmap_list(struct heap_slab *list)
{
	for (struct heap_slab *slab = list, *next; slab != NULL; slab = next) {
		next = slab->next;
		munmap((void *)(uintptr_t)slab->base, slab->bytes);
	}
}

/* The records go with the library's arena. */
void
heap_fini(struct heap *heap)
{
	unmap_list(heap->idle);
	unmap_list(heap->mapped);
	for (struct heap_chunk *chunk = heap->chunks; chunk != NULL; chunk = chunk->next)
		munmap((void *)(uintptr_t)chunk->base, CHUNK_BYTES);
	pthread_mutex_destroy(&heap->mutex);
	for (unsigned i = 0; i < HEAP_SHARDS * HEAP_CLASSES; i++)
		pthread_mutex_destroy(&heap->classes[i / HEAP_CLASSES][i % HEAP_CLASSES].mutex);
}

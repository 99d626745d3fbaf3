/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of 2 MiB chunks and a hash table of the chunks.
 *
 * A plain range lies between two pages without access, so that the kernel never
 * merges it with a neighbour: its lines in smaps are then its own, and a write
 * past its end faults.  Reading smaps is in pages_info.c.
 */
#include "lib/arena/pages.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif

#define CHUNK SOMA__PAGES_CHUNK

static size_t
page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void *
map_anonymous(size_t size, int protection, int flags)
{
	void *p = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* ---- the table ------------------------------------------------------------ */

static size_t
home_slot(const struct soma__pages *pages, uintptr_t number)
{
	return (size_t)(((uint64_t)number * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (pages->slots - 1);
}

/* The chunk's slot, or the empty one where it would go. */
static struct soma__chunk *
slot_of(const struct soma__pages *pages, uintptr_t number)
{
	size_t i = home_slot(pages, number);

	while (pages->table[i].number != 0 && pages->table[i].number != number)
		i = (i + 1) & (pages->slots - 1);
	return &pages->table[i];
}

static struct soma__chunk *
chunk_of(const struct soma__pages *pages, const void *address)
{
	return slot_of(pages, (uintptr_t)address / CHUNK);
}

static void
free_table(struct soma__pages *pages, struct soma__chunk *table, size_t slots)
{
	if (table != pages->first)
		munmap(table, slots * sizeof *table);
}

/* Room for `more` chunks at a load of at most a half. */
static bool
reserve_slots(struct soma__pages *pages, size_t more)
{
	size_t slots = pages->slots, old_slots = pages->slots;
	struct soma__chunk *old = pages->table;

	while (slots < 2 * (pages->chunks + more))
		slots *= 2;
	if (slots == old_slots)
		return true;
	struct soma__chunk *table = map_anonymous(slots * sizeof *table, PROT_READ | PROT_WRITE, 0);
	if (table == NULL)
		return false;
	pages->table = table;
	pages->slots = slots;
	for (size_t i = 0; i < old_slots; i++)
		if (old[i].number != 0)
			*slot_of(pages, old[i].number) = old[i];
	free_table(pages, old, old_slots);
	return true;
}

bool
soma__pages_owns(const struct soma__pages *pages, uintptr_t address)
{
	return address >= CHUNK && slot_of(pages, address / CHUNK)->number != 0;
}

/* ---- ranges --------------------------------------------------------------- */

/* `size` is whole chunks. */
static char *
map_plain(size_t size, size_t alignment)
{
	size_t page = page_size();
	size_t room = size + alignment + 2 * page;
	if (room < size)
		return NULL;
	char *raw = map_anonymous(room, PROT_NONE, MAP_NORESERVE);
	if (raw == NULL)
		return NULL;
	char *body = (char *)(((uintptr_t)raw + page + alignment - 1) & ~(uintptr_t)(alignment - 1));
	if (mprotect(body, size, PROT_READ | PROT_WRITE) != 0) {
		munmap(raw, room);
		return NULL;
	}
	char *end = body + size + page;
	if (body - page > raw)
		munmap(raw, (size_t)(body - page - raw));
	if (raw + room > end)
		munmap(end, (size_t)(raw + room - end));
	return body;
}

static char *
map_explicit_huge(size_t size)
{
	return map_anonymous(size, PROT_READ | PROT_WRITE, MAP_HUGETLB | MAP_HUGE_2MB);
}

static void
unmap_range(const struct soma__chunk *first)
{
	size_t guard = first->explicit_huge ? 0 : page_size();

	munmap((char *)(first->number * CHUNK) - guard, first->range * CHUNK + 2 * guard);
}

static void
add_range(struct soma__pages *pages, char *address, size_t size, struct soma__chunk like)
{
	like.range = (uint32_t)(size / CHUNK);
	for (size_t at = 0; at < size; at += CHUNK) {
		like.number = (uintptr_t)(address + at) / CHUNK;
		*slot_of(pages, like.number) = like;
		like.range = 0;
		pages->chunks++;
	}
	pages->mapped += size;
}

/* Asks for huge pages under a chunk that was plain, and has them made now for
 * what is there when most of it is.  false: this kernel has none. */
static bool
make_huge(struct soma__chunk *chunk)
{
	void *address = (void *)(chunk->number * CHUNK);

	chunk->huge = true;
	if (madvise(address, CHUNK, MADV_HUGEPAGE) != 0)
		return false;
	if (chunk->committed >= CHUNK / 2)
		(void)madvise(address, CHUNK, MADV_COLLAPSE); /* since Linux 6.1 */
	return true;
}

static void
leave_small_stage(struct soma__pages *pages)
{
	bool transparent = true, first_time = !pages->huge;

	pages->huge = true;
	for (size_t i = 0; i < pages->slots; i++)
		if (pages->table[i].number != 0 && !pages->table[i].metadata)
			transparent &= make_huge(&pages->table[i]);
	if (first_time)
		atomic_store(&pages->turned, transparent ? "transparent huge" : "plain");
}

const char *
soma__pages_turned(struct soma__pages *pages)
{
	if (atomic_load_explicit(&pages->turned, memory_order_relaxed) == NULL)
		return NULL;
	return atomic_exchange(&pages->turned, NULL);
}

static void *
map_locked(struct soma__pages *pages, size_t size, size_t alignment, bool metadata)
{
	struct soma__chunk like = { .metadata = metadata, .committed = metadata ? CHUNK : 0 };
	char *address = NULL;

	if (!reserve_slots(pages, size / CHUNK))
		return NULL;
	/* A request that ends the small stage by itself need not start on plain pages. */
	if (!metadata && pages->want_huge && pages->committed + size > 2 * SOMA__PAGES_SMALL)
		leave_small_stage(pages);
	like.huge = pages->huge && !metadata;
	if (like.huge && alignment <= CHUNK)
		address = map_explicit_huge(size);
	like.explicit_huge = address != NULL;
	if (like.explicit_huge && atomic_load(&pages->turned) != NULL)
		atomic_store(&pages->turned, "explicit huge");
	if (address == NULL)
		address = map_plain(size, alignment);
	if (address == NULL)
		return NULL;
	if (!like.explicit_huge) /* both fail harmlessly on a kernel without huge pages */
		(void)madvise(address, size, like.huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	add_range(pages, address, size, like);
	return address;
}

void *
soma__pages_map(struct soma__pages *pages, size_t size, size_t alignment, bool metadata)
{
	size_t rounded = (size + CHUNK - 1) & ~(CHUNK - 1);

	if (rounded < size || rounded / CHUNK > UINT32_MAX)
		return NULL;
	pthread_mutex_lock(&pages->mutex);
	void *p = map_locked(pages, rounded, alignment < CHUNK ? CHUNK : alignment, metadata);
	pthread_mutex_unlock(&pages->mutex);
	return p;
}

/* ---- committing ----------------------------------------------------------- */

/* The bytes from `at` on that are in its chunk and before `end`. */
static size_t
part_in_chunk(const char *at, const char *end)
{
	size_t left = (size_t)(end - at), in_chunk = CHUNK - (uintptr_t)at % CHUNK;

	return left < in_chunk ? left : in_chunk;
}

void
soma__pages_commit(struct soma__pages *pages, void *address, size_t size)
{
	char *end = (char *)address + size;
	size_t part;

	pthread_mutex_lock(&pages->mutex);
	pages->committed += size;
	for (char *at = address; at < end; at += part) {
		struct soma__chunk *chunk = chunk_of(pages, at);
		part = part_in_chunk(at, end);
		chunk->committed += (uint32_t)part;
		if (chunk->dirty)
			memset(at, 0, part);
	}
	/* Before the new memory is touched. */
	if (pages->want_huge && !pages->huge && pages->committed >= SOMA__PAGES_SMALL)
		leave_small_stage(pages);
	pthread_mutex_unlock(&pages->mutex);
}

/* Gives back what became free: [at, at + part) of a plain chunk, the whole of an
 * empty huge one. */
static void
give_back(struct soma__chunk *chunk, char *at, size_t part)
{
	if (!chunk->huge) {
		if (madvise(at, part, MADV_DONTNEED) != 0)
			chunk->dirty = true;
	} else if (chunk->committed != 0) {
		chunk->dirty = true;
	} else {
		chunk->dirty = madvise((void *)(chunk->number * CHUNK), CHUNK, MADV_DONTNEED) != 0;
	}
}

void
soma__pages_decommit(struct soma__pages *pages, void *address, size_t size)
{
	char *end = (char *)address + size;
	size_t part;

	pthread_mutex_lock(&pages->mutex);
	pages->committed -= size;
	for (char *at = address; at < end; at += part) {
		struct soma__chunk *chunk = chunk_of(pages, at);
		part = part_in_chunk(at, end);
		chunk->committed -= (uint32_t)part;
		give_back(chunk, at, part);
	}
	pthread_mutex_unlock(&pages->mutex);
}

/* ---- metadata ------------------------------------------------------------- */

static bool
is_zero(const char *page, size_t size)
{
	return page[0] == 0 && memcmp(page, page + 1, size - 1) == 0;
}

static void
drop_zeros(char *chunk)
{
	unsigned char resident[CHUNK / 4096]; /* no page is smaller */
	size_t page = page_size();

	if (mincore(chunk, CHUNK, resident) != 0)
		return;
	for (size_t at = 0; at < CHUNK; at += page)
		if ((resident[at / page] & 1) != 0 && is_zero(chunk + at, page))
			(void)madvise(chunk + at, page, MADV_DONTNEED);
}

void
soma__pages_drop_zeros(struct soma__pages *pages)
{
	pthread_mutex_lock(&pages->mutex);
	for (size_t i = 0; i < pages->slots; i++)
		if (pages->table[i].number != 0 && pages->table[i].metadata)
			drop_zeros((char *)(pages->table[i].number * CHUNK));
	pthread_mutex_unlock(&pages->mutex);
}

/* ---- the whole ------------------------------------------------------------ */

bool
soma__pages_init(struct soma__pages *pages, bool want_huge)
{
	memset(pages, 0, sizeof *pages);
	pages->want_huge = want_huge;
	pages->table = pages->first;
	pages->slots = SOMA__PAGES_INLINE;
	return pthread_mutex_init(&pages->mutex, NULL) == 0;
}

void
soma__pages_fini(struct soma__pages *pages)
{
	for (size_t i = 0; i < pages->slots; i++)
		if (pages->table[i].range != 0)
			unmap_range(&pages->table[i]);
	free_table(pages, pages->table, pages->slots);
	pthread_mutex_destroy(&pages->mutex);
}

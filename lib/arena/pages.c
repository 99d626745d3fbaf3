/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of 2 MiB chunks, and tables.
 *
 * A plain range lies between two pages without access, so that the kernel never
 * merges it with a neighbour: its lines in smaps are then its own, and a write
 * past its end faults.  Reading smaps is in pages_info.c.
 */
#include "lib/arena/pages.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/arena/chunks.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif

#define CHUNK SOMA__PAGES_CHUNK

/* Addresses cost nothing, and a table that outgrows its own is copied. */
#define ROOM 32

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

/* ---- ranges --------------------------------------------------------------- */

/* Addresses between two pages without access, and without access themselves; `size` is whole chunks. */
static char *
map_addresses(size_t size, size_t alignment)
{
	size_t page = page_size();
	size_t room = size + alignment + 2 * page;
	if (room < size)
		return NULL;
	char *raw = map_anonymous(room, PROT_NONE, MAP_NORESERVE);
	if (raw == NULL)
		return NULL;
	char *body = (char *)(((uintptr_t)raw + page + alignment - 1) & ~(uintptr_t)(alignment - 1));
	char *end = body + size + page;
	if (body - page > raw)
		munmap(raw, (size_t)(body - page - raw));
	if (raw + room > end)
		munmap(end, (size_t)(raw + room - end));
	return body;
}

static bool
open_addresses(void *address, size_t size)
{
	return mprotect(address, size, PROT_READ | PROT_WRITE) == 0;
}

static char *
map_plain(size_t size, size_t alignment)
{
	char *body = map_addresses(size, alignment);

	if (body == NULL || open_addresses(body, size))
		return body;
	munmap(body - page_size(), size + 2 * page_size());
	return NULL;
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

/* Asks for huge pages under a chunk that was plain; with `collapse`, has them made now of what is
 * there, which no later fault would do.  false: this kernel has none. */
static bool
make_huge(struct soma__chunk *chunk, bool collapse)
{
	void *address = (void *)(chunk->number * CHUNK);

	chunk->huge = true;
	if (madvise(address, CHUNK, MADV_HUGEPAGE) != 0)
		return false;
	if (collapse)
		(void)madvise(address, CHUNK, MADV_COLLAPSE); /* since Linux 6.1 */
	return true;
}

static void
leave_small_stage(struct soma__pages *pages)
{
	bool transparent = true, first_time = !pages->huge;

	pages->huge = true;
	for (size_t i = 0; i < pages->slots; i++) {
		struct soma__chunk *chunk = &pages->table[i];

		/* Where there is little, a huge page would be mostly waste. */
		if (chunk->number != 0 && !chunk->metadata && !chunk->slack)
			transparent &= make_huge(chunk, chunk->committed >= CHUNK / 2);
	}
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

	if (!soma__chunks_reserve(pages, size / CHUNK))
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
	like.range = (uint32_t)(size / CHUNK);
	soma__chunks_add(pages, address, size, like);
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
		struct soma__chunk *chunk = soma__chunk_of(pages, at);
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
		struct soma__chunk *chunk = soma__chunk_of(pages, at);
		part = part_in_chunk(at, end);
		chunk->committed -= (uint32_t)part;
		give_back(chunk, at, part);
	}
	pthread_mutex_unlock(&pages->mutex);
}

/* ---- tables --------------------------------------------------------------- */

static size_t
chunks_for(size_t size)
{
	return (size + CHUNK - 1) / CHUNK;
}

/* A huge page under the last chunk may add a quarter to a table. */
static bool
has_slack(size_t size)
{
	return chunks_for(size) * CHUNK - size > size / 4;
}

/* The table's chunk `i`, of which what is before `old` may have been written, when the
 * table becomes this large. */
static void
settle_chunk(struct soma__pages *pages, char *table, size_t i, size_t old, size_t size)
{
	struct soma__chunk *chunk = soma__chunk_of(pages, table + i * CHUNK);
	bool last = (i + 1) * CHUNK >= size;

	chunk->slack = last && has_slack(size);
	if (pages->huge && !chunk->huge && !chunk->slack)
		(void)make_huge(chunk, i * CHUNK < old);
	else if (!chunk->huge && i * CHUNK >= old)
		(void)madvise(table + i * CHUNK, CHUNK, MADV_NOHUGEPAGE);
	chunk->committed = (uint32_t)(last ? size - i * CHUNK : CHUNK);
}

/* Its chunks up to `size` are there, and have access. */
static void
commit_table(struct soma__pages *pages, char *table, size_t old, size_t size)
{
	pages->committed += size - old;
	if (pages->want_huge && !pages->huge && pages->committed >= SOMA__PAGES_SMALL)
		leave_small_stage(pages);
	for (size_t i = old / CHUNK; i * CHUNK < size; i++)
		settle_chunk(pages, table, i, old, size);
}

static bool
extend_locked(struct soma__pages *pages, char *table, size_t old, size_t size)
{
	const struct soma__chunk *first = soma__chunk_of(pages, table);
	size_t had = chunks_for(old), wanted = chunks_for(size);

	if (wanted > first->range)
		return false;
	if (wanted > had && !first->explicit_huge) {
		if (!soma__chunks_reserve(pages, wanted - had) ||
		    !open_addresses(table + had * CHUNK, (wanted - had) * CHUNK))
			return false;
		soma__chunks_add(pages, table + had * CHUNK, (wanted - had) * CHUNK,
				 (struct soma__chunk){ .slack = true });
	}
	commit_table(pages, table, old, size);
	return true;
}

bool
soma__pages_extend(struct soma__pages *pages, void *table, size_t old, size_t size)
{
	pthread_mutex_lock(&pages->mutex);
	bool done = extend_locked(pages, table, old, size);
	pthread_mutex_unlock(&pages->mutex);
	return done;
}

/* Huge pages that are set aside cannot be had one after the other at one address: half as many again
 * for a table that grows. */
static char *
table_explicit(struct soma__pages *pages, size_t size, bool grows)
{
	struct soma__chunk like = { .huge = true, .explicit_huge = true };
	size_t room = chunks_for(grows ? size + size / 2 : size) * CHUNK;

	if (!pages->huge || room / CHUNK > UINT32_MAX || !soma__chunks_reserve(pages, room / CHUNK))
		return NULL;
	char *table = map_explicit_huge(room);
	if (table == NULL)
		return NULL;
	like.range = (uint32_t)(room / CHUNK);
	soma__chunks_add(pages, table, room, like);
	return table;
}

/* The chunks of addresses for a table that may grow.  Under a limit they do cost: what it may come to need
 * would be missing to the next table, and to the process. */
static size_t
room_for(size_t wanted)
{
	struct rlimit limit;
	bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;

	return limited ? wanted + wanted / 2 : wanted * ROOM;
}

/* With addresses for a table that becomes ROOM times as large, if it may and there are so many. */
static char *
table_transparent(struct soma__pages *pages, size_t size, bool grows)
{
	size_t wanted = chunks_for(size), room = grows ? room_for(wanted) : wanted;
	char *table;

	if (room > UINT32_MAX || !soma__chunks_reserve(pages, wanted))
		return NULL;
	while ((table = map_addresses(room * CHUNK, CHUNK)) == NULL) {
		if (room == wanted)
			return NULL;
		room = room / 2 > wanted ? room / 2 : wanted;
	}
	if (!open_addresses(table, wanted * CHUNK)) {
		munmap(table - page_size(), room * CHUNK + 2 * page_size());
		return NULL;
	}
	soma__chunks_add(pages, table, wanted * CHUNK,
			 (struct soma__chunk){ .range = (uint32_t)room, .slack = true });
	return table;
}

void *
soma__pages_table(struct soma__pages *pages, size_t size, bool grows)
{
	pthread_mutex_lock(&pages->mutex);
	char *table = table_explicit(pages, size, grows);
	if (table == NULL)
		table = table_transparent(pages, size, grows);
	if (table != NULL)
		commit_table(pages, table, 0, size);
	if (table != NULL && !grows)
		(void)madvise(table, size, MADV_POPULATE_WRITE); /* since Linux 5.14 */
	pthread_mutex_unlock(&pages->mutex);
	return table;
}

void
soma__pages_give(struct soma__pages *pages, void *table, size_t size)
{
	pthread_mutex_lock(&pages->mutex);
	struct soma__chunk first = *soma__chunk_of(pages, table);
	size_t count = first.explicit_huge ? first.range : chunks_for(size);

	pages->committed -= size;
	pages->mapped -= count * CHUNK;
	for (size_t i = 0; i < count; i++)
		soma__chunks_remove(pages, soma__chunk_of(pages, (char *)table + i * CHUNK));
	unmap_range(&first);
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
	soma__chunks_free(pages);
	pthread_mutex_destroy(&pages->mutex);
}

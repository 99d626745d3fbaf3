/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arenas over jemalloc: one explicit jemalloc arena each, without thread caches,
 * whose extents come from lib/arena/pages.c through extent hooks.
 *
 * jemalloc keeps every extent it ever got (opt.retain) and tells us by commit and
 * decommit what of it is in use; decay is 0, so that it tells at once.  It locks
 * an arena itself; the hooks take only the lock of their pages.
 */
#include "config.h"

#include "lib/arena/arena.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <jemalloc/jemalloc.h>

#include "lib/arena/pages.h"
#include "lib/base/error.h"
#include "lib/base/log.h"

#ifdef SOMA_JEMALLOC_SYSTEM
#define JE(name) name
#else
#define JE(name) soma_je_##name
#endif

/* jemalloc's name for an extent hook that refuses, and one that did it. */
#define REFUSED true
#define DONE false

/* jemalloc asks for ranges in a growing series: up to this.  Larger ones would take
 * address space (and reserved huge pages) for nothing, smaller ones too many
 * mappings. */
#define GROW_LIMIT ((size_t)16 << 20)

#define ALIGNMENT_MIN 16

struct soma__arena {
	extent_hooks_t hooks; /* first: the hooks find the arena by it */
	struct soma__pages pages;
	unsigned index;
	int flags; /* of every jemalloc call */
	bool destroying;
};

static atomic_bool huge_pages = true;

static _Thread_local struct {
	unsigned long nth; /* 0: none will fail */
	unsigned long made;
} injected;

static struct soma__arena *
arena_of(extent_hooks_t *hooks)
{
	return (struct soma__arena *)(void *)hooks;
}

/* ---- the hooks ------------------------------------------------------------ */

static void *
hook_alloc(extent_hooks_t *hooks, void *wanted, size_t size, size_t alignment, bool *zero, bool *commit,
	   unsigned index)
{
	(void)index;
	/* Only jemalloc's own metadata, always whole chunks, asks for committed memory
	 * at once.  Anything smaller is a last attempt after growing failed, and would
	 * take a chunk for a few pages. */
	if (wanted != NULL || (*commit && size % SOMA__PAGES_CHUNK != 0))
		return NULL;
	void *p = soma__pages_map(&arena_of(hooks)->pages, size, alignment, *commit);
	if (p != NULL)
		*zero = true;
	return p;
}

static bool
hook_commit(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length, unsigned index)
{
	(void)size, (void)index;
	soma__pages_commit(&arena_of(hooks)->pages, (char *)address + offset, length);
	return DONE;
}

static bool
hook_decommit(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length, unsigned index)
{
	(void)size, (void)index;
	struct soma__arena *arena = arena_of(hooks);

	if (!arena->destroying)
		soma__pages_decommit(&arena->pages, (char *)address + offset, length);
	return DONE;
}

static bool
hook_split(extent_hooks_t *hooks, void *address, size_t size, size_t a, size_t b, bool committed,
	   unsigned index)
{
	(void)hooks, (void)address, (void)size, (void)a, (void)b, (void)committed, (void)index;
	return DONE;
}

static bool
hook_merge(extent_hooks_t *hooks, void *a, size_t a_size, void *b, size_t b_size, bool committed,
	   unsigned index)
{
	(void)hooks, (void)a, (void)a_size, (void)b, (void)b_size, (void)committed, (void)index;
	return DONE;
}

/* Without dalloc: jemalloc keeps the address space, and the arena's end unmaps it. */
static const extent_hooks_t our_hooks = {
	.alloc = hook_alloc,
	.commit = hook_commit,
	.decommit = hook_decommit,
	.split = hook_split,
	.merge = hook_merge,
};

/* ---- create, destroy ------------------------------------------------------ */

/* Writes arena.<index>.<leaf>. */
static int
set_arena(unsigned index, const char *leaf, void *value, size_t size)
{
	char name[64];

	snprintf(name, sizeof name, "arena.%u.%s", index, leaf);
	return JE(mallctl)(name, NULL, NULL, value, size);
}

/* Without retain, jemalloc would ask for every few pages alone. */
static enum soma_status
check_jemalloc(void)
{
	bool retain = false;
	size_t size = sizeof retain;

	if (JE(mallctl)("opt.retain", &retain, &size, NULL, 0) != 0)
		return soma__fail(OUT_OF_HOST_MEMORY, "jemalloc cannot start: no memory");
	if (!retain)
		return soma__fail(NOT_SUPPORTED, "jemalloc runs with retain:false; soma needs retain:true");
	return SOMA_STATUS_OK;
}

static enum soma_status
create_in_jemalloc(struct soma__arena *arena)
{
	extent_hooks_t *hooks = &arena->hooks;
	size_t size = sizeof arena->index, limit = GROW_LIMIT;
	ssize_t at_once = 0;

	enum soma_status status = check_jemalloc();
	if (status != SOMA_STATUS_OK)
		return status;
	if (JE(mallctl)("arenas.create", &arena->index, &size, &hooks, sizeof hooks) != 0)
		return soma__fail(OUT_OF_HOST_MEMORY,
				  "no memory for an arena, or too many of them (jemalloc has about 4000)");
	arena->flags = MALLOCX_ARENA(arena->index) | MALLOCX_TCACHE_NONE;
	if (set_arena(arena->index, "dirty_decay_ms", &at_once, sizeof at_once) == 0 &&
	    set_arena(arena->index, "muzzy_decay_ms", &at_once, sizeof at_once) == 0 &&
	    set_arena(arena->index, "retain_grow_limit", &limit, sizeof limit) == 0)
		return SOMA_STATUS_OK;
	arena->destroying = true;
	set_arena(arena->index, "destroy", NULL, 0);
	return soma__fail(OUT_OF_HOST_MEMORY, "an arena cannot be configured");
}

/* Counts an allocation; true when this one is to fail. */
static bool
is_injected(void)
{
	injected.made++;
	return injected.nth != 0 && --injected.nth == 0;
}

static struct soma__arena *
map_arena(void)
{
	if (is_injected())
		return NULL;
	void *p = mmap(NULL, sizeof(struct soma__arena), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

enum soma_status
soma__arena_create(struct soma__arena **out)
{
	struct soma__arena *arena = map_arena();

	if (arena == NULL)
		return soma__fail(OUT_OF_HOST_MEMORY, "no memory for an arena");
	if (!soma__pages_init(&arena->pages, atomic_load(&huge_pages))) {
		munmap(arena, sizeof *arena);
		return soma__fail(OUT_OF_HOST_MEMORY, "no memory for an arena's mutex");
	}
	arena->hooks = our_hooks;
	enum soma_status status = create_in_jemalloc(arena);
	if (status != SOMA_STATUS_OK) {
		soma__pages_fini(&arena->pages);
		munmap(arena, sizeof *arena);
		return status;
	}
	soma__pages_drop_zeros(&arena->pages);
	*out = arena;
	return SOMA_STATUS_OK;
}

void
soma__arena_destroy(struct soma__arena *arena)
{
	if (arena == NULL)
		return;
	arena->destroying = true;
	/* A refusal leaves jemalloc pointing at our hooks: then leaking is all that is
	 * safe.  It refuses only arenas that threads are bound to, which ours never are. */
	if (set_arena(arena->index, "destroy", NULL, 0) != 0)
		return;
	soma__pages_fini(&arena->pages);
	munmap(arena, sizeof *arena);
}

/* ---- memory --------------------------------------------------------------- */

/* The same memory, once it is known whether it was to be had. */
static void *
result(struct soma__arena *arena, void *memory, size_t size)
{
	if (memory != NULL) {
		const char *pages = soma__pages_turned(&arena->pages);

		if (pages != NULL)
			soma__log(SOMA_LOG_INFO, "records have grown beyond %zu MiB: they are on %s pages",
				  SOMA__PAGES_SMALL >> 20, pages);
	} else {
		soma__fail(OUT_OF_HOST_MEMORY, "no memory for %" PRIu64 " bytes of records", size);
		soma__error_sizes(size, 0, 0, 0);
	}
	return memory;
}

static void *
from_jemalloc(struct soma__arena *arena, size_t size, size_t alignment, int more_flags)
{
	if (alignment < ALIGNMENT_MIN)
		alignment = ALIGNMENT_MIN;
	return JE(mallocx)(size == 0 ? 1 : size,
			   arena->flags | more_flags | MALLOCX_LG_ALIGN(__builtin_ctzl(alignment)));
}

static void *
allocate(struct soma__arena *arena, size_t size, size_t alignment, int more_flags)
{
	return result(arena, is_injected() ? NULL : from_jemalloc(arena, size, alignment, more_flags), size);
}

void *
soma__arena_alloc(struct soma__arena *arena, size_t size, size_t alignment)
{
	return allocate(arena, size, alignment, 0);
}

void *
soma__arena_calloc(struct soma__arena *arena, size_t size, size_t alignment)
{
	return allocate(arena, size, alignment, MALLOCX_ZERO);
}

void
soma__arena_free(struct soma__arena *arena, void *memory, size_t size)
{
	/* Not sdallocx: it needs the alignment too, which the caller does not give. */
	(void)size;
	if (memory != NULL)
		JE(dallocx)(memory, arena->flags);
}

/* Smaller tables are jemalloc's. */
#define TABLE_MIN ((size_t)256 << 10)
#define TABLE_MAX ((size_t)1 << 48)

/* What was never written costs no memory, and neither does its copy. */
#define COPIED_AT_ONCE ((size_t)4096)

static void
copy_table(char *to, const char *from, size_t size)
{
	size_t part;

	for (size_t at = 0; at < size; at += part) {
		part = size - at < COPIED_AT_ONCE ? size - at : COPIED_AT_ONCE;
		if (from[at] != 0 || memcmp(from + at, from + at + 1, part - 1) != 0)
			memcpy(to + at, from + at, part);
	}
}

static void *
new_table(struct soma__arena *arena, size_t size, bool grows)
{
	return size >= TABLE_MIN ? soma__pages_table(&arena->pages, size, grows)
				 : from_jemalloc(arena, size, 64, MALLOCX_ZERO);
}

void *
soma__arena_full_table(struct soma__arena *arena, size_t size)
{
	return result(arena, is_injected() || size > TABLE_MAX ? NULL : new_table(arena, size, false), size);
}

static void *
move_table(struct soma__arena *arena, void *memory, size_t old, size_t size)
{
	void *table = new_table(arena, size, true);

	if (table != NULL && old != 0) {
		copy_table(table, memory, old);
		soma__arena_free_table(arena, memory, old);
	}
	return table;
}

void *
soma__arena_grow_table(struct soma__arena *arena, void *memory, size_t old, size_t size)
{
	void *table = NULL;

	if (is_injected() || size > TABLE_MAX)
		return result(arena, NULL, size);
	if (old >= TABLE_MIN && soma__pages_extend(&arena->pages, memory, old, size))
		table = memory;
	else
		table = move_table(arena, memory, old, size);
	return result(arena, table, size);
}

void
soma__arena_free_table(struct soma__arena *arena, void *memory, size_t size)
{
	if (size >= TABLE_MIN)
		soma__pages_give(&arena->pages, memory, size);
	else
		soma__arena_free(arena, memory, size);
}

enum soma_status
soma__arena_info(const struct soma__arena *arena, struct soma_memory_info *info)
{
	enum soma_status status = soma__pages_info((struct soma__pages *)&arena->pages, info);

	if (status == SOMA_STATUS_OK) {
		info->mapped += sizeof *arena;
		info->resident += sizeof *arena;
	}
	return status;
}

/* ---- for comparisons and tests -------------------------------------------- */

void
soma__arena_set_huge_pages(bool on)
{
	atomic_store(&huge_pages, on);
}

unsigned long
soma__arena_fail_nth(unsigned long nth)
{
	unsigned long made = injected.made;

	injected.made = 0;
	injected.nth = nth;
	return made;
}

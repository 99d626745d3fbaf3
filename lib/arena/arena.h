/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arenas: the memory of soma's own records, one arena an owner, destroyed whole.
 *
 * An arena is a jemalloc arena with its own extent hooks: 2 MiB-aligned ranges,
 * on plain pages while an owner is small, on huge pages once it holds 4 MiB of
 * records.  This is the only folder that includes jemalloc; the process's own
 * malloc is never touched.
 *
 * An arena may be used by several threads at once.  Everything that can fail
 * returns NULL or a status, never aborts.
 */
#ifndef SOMA_LIB_ARENA_ARENA_H
#define SOMA_LIB_ARENA_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include <soma/model.h>
#include <soma/status.h>

struct soma__arena;

/* Creates an arena; SOMA_STATUS_OUT_OF_HOST_MEMORY when there is no room. */
enum soma_status soma__arena_create(struct soma__arena **arena);

/* Gives everything back, whether or not it was freed.  NULL is allowed. */
void soma__arena_destroy(struct soma__arena *arena);

/*
 * `size` bytes, aligned to `alignment` (a power of two; 0 for 16 bytes).  The
 * memory is not cleared.  NULL without memory, with the error recorded.
 */
void *soma__arena_alloc(struct soma__arena *arena, size_t size, size_t alignment);

/* The same, cleared. */
void *soma__arena_calloc(struct soma__arena *arena, size_t size, size_t alignment);

/* `size` is what was asked for.  NULL is allowed. */
void soma__arena_free(struct soma__arena *arena, void *memory, size_t size);

/*
 * A table: `old` bytes at `memory` (NULL and 0: none yet) become `size`, which is more, aligned
 * to 64; what is new is zero.  A large one mostly grows where it is, by pages, so that it may
 * grow in small steps; but it may also move.  What is not written takes no memory, or little.
 * NULL without memory, and the table is as it was.
 */
void *soma__arena_grow_table(struct soma__arena *arena, void *memory, size_t old, size_t size);

/* A table of zeros, aligned to 64, all of which will be written soon, and which will not grow. */
void *soma__arena_full_table(struct soma__arena *arena, size_t size);

/* `size` is what it has.  NULL is allowed. */
void soma__arena_free_table(struct soma__arena *arena, void *memory, size_t size);

/* Bytes obtained and what kind of pages they are on.  Slow (reads smaps). */
enum soma_status soma__arena_info(const struct soma__arena *arena, struct soma_memory_info *info);

/* Do not ask for huge pages for arenas created from now on (for comparisons). */
void soma__arena_set_huge_pages(bool on);

/*
 * For tests: the nth allocation from now on by this thread (1 is the next one;
 * 0: none) fails, once.  Returns how many were made since the last call.
 */
unsigned long soma__arena_fail_nth(unsigned long nth);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What heap.c (blocks) and pages.c (chunks, mappings) share.  Nobody else's. */
#ifndef SOMA_BACKENDS_HOST_HEAP_INTERNAL_H
#define SOMA_BACKENDS_HOST_HEAP_INTERNAL_H

#include "backends/host/heap.h"

#define PAGE_SHIFT 14
#define PAGE_BYTES ((uint64_t)1 << PAGE_SHIFT)
#define CHUNK_BYTES ((uint64_t)32 << 20)
#define CHUNK_PAGES (CHUNK_BYTES / PAGE_BYTES)
#define RUN_MAX ((uint64_t)8 << 20)
#define UNIT_SHIFT 21

/* Blocks of one size; or a single one, a run or a mapping of its own. */
struct heap_slab {
	struct heap_slab *next, *prev; /* in `partial`, `idle` or `mapped` */
	struct heap_chunk *chunk;      /* NULL: a mapping of its own */
	struct heap_class *class;      /* NULL: a single block */
	uint64_t base;
	uint64_t bytes;
	uint64_t idle_since;   /* of an own mapping: heap->clock; heap->mutex */
	uint64_t vacant;       /* slots that can be taken; class->mutex */
	_Atomic uint64_t live; /* slots that are taken and not claimed */
	uint32_t slots;
	struct item items[];
};

struct heap_chunk {
	struct heap_chunk *next; /* heap->mutex */
	uint64_t base;
	uint64_t vacant;                  /* pages; heap->mutex */
	uint64_t idle_since;              /* when the last page fell vacant: heap->clock; heap->mutex */
	uint64_t taken[CHUNK_PAGES / 64]; /* a bit a page; heap->mutex */
	_Atomic(struct heap_slab *) page[CHUNK_PAGES];
};

/* An entry is a chunk, or a single block's slab and HEAP_SINGLE. */
#define HEAP_SINGLE ((uintptr_t)1)

struct heap_leaf {
	_Atomic uintptr_t entry[1 << HEAP_LEAF_BITS];
};

/* A slab's place in a chunk; a single block's own mapping.  They fill chunk, base and bytes. */
enum soma_status heap__pages_take(struct heap *heap, struct heap_slab *slab, uint64_t pages,
				  uint64_t alignment);
void heap__pages_put(struct heap *heap, struct heap_slab *slab);
enum soma_status heap__mapping_take(struct heap *heap, uint64_t bytes, uint64_t alignment,
				    struct heap_slab **slab);
void heap__mapping_put(struct heap *heap, struct heap_slab *slab);

/* address.c.  False without memory for a leaf, recorded; set_entries only where leaves were made. */
bool heap__make_leaves(struct heap *heap, uint64_t base, uint64_t bytes);
void heap__set_entries(struct heap *heap, uint64_t base, uint64_t bytes, uintptr_t entry);

/* The slab that holds the address, or NULL. */
struct heap_slab *heap__slab_at(struct heap *heap, uint64_t ptr);

/* Lets go of the slabs that classes keep empty. */
void heap__drop_empty(struct heap *heap);

/* A slab's record; NULL without memory, recorded. */
struct heap_slab *heap__slab_new(struct heap *heap, uint32_t slots);
void heap__slab_delete(struct heap *heap, struct heap_slab *slab);

void heap__raise(_Atomic uint64_t *high, uint64_t value);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an address to the slab that holds it: two levels of entries, one for 2 MiB.
 * Reading takes no lock; what an entry names lives as long as a block in it does, so only
 * a free of an address that is long gone could meet a record that goes at that moment.
 */
#include "backends/host/heap_internal.h"

#include <string.h>

static struct heap_leaf *
leaf_at(struct heap *heap, uint64_t unit)
{
	uint64_t index = unit >> HEAP_LEAF_BITS;

	return index >> HEAP_ROOT_BITS != 0 ? NULL
					    : atomic_load_explicit(&heap->root[index], memory_order_acquire);
}

static bool
leaf_make(struct heap *heap, uint64_t unit)
{
	struct heap_leaf *leaf = leaf_at(heap, unit), *other = NULL;

	if (leaf != NULL)
		return true;
	if (unit >> (HEAP_LEAF_BITS + HEAP_ROOT_BITS) != 0)
		return false;
	leaf = heap->host->alloc(heap->host->context, sizeof *leaf, 0);
	if (leaf == NULL)
		return false;
	memset(leaf, 0, sizeof *leaf);
	if (!atomic_compare_exchange_strong(&heap->root[unit >> HEAP_LEAF_BITS], &other, leaf))
		heap->host->free(heap->host->context, leaf, sizeof *leaf);
	return true;
}

void
heap__set_entries(struct heap *heap, uint64_t base, uint64_t bytes, uintptr_t entry)
{
	for (uint64_t unit = base >> UNIT_SHIFT; unit < (base + bytes) >> UNIT_SHIFT; unit++)
		atomic_store_explicit(
			&leaf_at(heap, unit)->entry[unit & (((uint64_t)1 << HEAP_LEAF_BITS) - 1)], entry,
			memory_order_release);
}

bool
heap__make_leaves(struct heap *heap, uint64_t base, uint64_t bytes)
{
	for (uint64_t unit = base >> UNIT_SHIFT; unit < (base + bytes) >> UNIT_SHIFT; unit++)
		if (!leaf_make(heap, unit))
			return false;
	return true;
}

struct heap_slab *
heap__slab_at(struct heap *heap, uint64_t ptr)
{
	uint64_t unit = ptr >> UNIT_SHIFT;
	struct heap_leaf *leaf = leaf_at(heap, unit);

	if (leaf == NULL)
		return NULL;
	uintptr_t entry = atomic_load_explicit(&leaf->entry[unit & (((uint64_t)1 << HEAP_LEAF_BITS) - 1)],
					       memory_order_acquire);
	if (entry == 0)
		return NULL;
	if ((entry & HEAP_SINGLE) != 0)
		return (struct heap_slab *)(entry & ~HEAP_SINGLE);
	struct heap_chunk *chunk = (struct heap_chunk *)entry;
	return atomic_load_explicit(&chunk->page[(ptr - chunk->base) >> PAGE_SHIFT], memory_order_acquire);
}

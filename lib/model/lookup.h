/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointer lookup: from the granule where a live block begins to its record.
 *
 * Chained hashing whose buckets hold their first entry: 32 bits of the record and 32 of
 * the hash.  The hash is a bijection of the 40 bits of a granule, and the bucket's number
 * is its upper part: together they tell the granule, so that the bucket's cache line
 * alone says whether a pointer is live.  Only further entries of a bucket, linked through
 * the records, are compared by address.  There is no probing: the branches that it takes
 * cannot be predicted, and cost more than all the rest.
 */
#ifndef SOMA_LIB_MODEL_LOOKUP_H
#define SOMA_LIB_MODEL_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/arena/arena.h"
#include "lib/model/block.h"
#include "lib/model/slab.h"

struct soma__lookup {
	uint64_t *buckets; /* record << 32 | hash & 0xffffffff; 0: empty */
	unsigned shift;    /* the bucket is hash >> shift; at most 32 */
	uint32_t used;
	uint32_t grow_at;  /* entries that are too many for these buckets */
};

bool soma__lookup_grow(struct soma__lookup *lookup, const struct soma__slab *blocks, struct soma__arena *arena);

/* Makes sure that one more entry fits. */
static inline bool
soma__lookup_reserve(struct soma__lookup *lookup, const struct soma__slab *blocks, struct soma__arena *arena)
{
	return lookup->used < lookup->grow_at || soma__lookup_grow(lookup, blocks, arena);
}

/* Multiplication by an odd number modulo 2^40: a bijection, whose upper bits depend on
 * all bits of the granule. */
static inline uint64_t
soma__lookup_hash(uint64_t granule)
{
	return granule * UINT64_C(0x9e3779b97f) & (((uint64_t)1 << SOMA__ADDRESS_BITS) - 1);
}

static inline struct soma__block *
soma__lookup_block(const struct soma__slab *blocks, uint32_t record)
{
	return soma__slab_at(blocks, record, sizeof(struct soma__block));
}

/* The record of the live block at this granule; 0 if there is none. */
static inline uint32_t
soma__lookup_find(const struct soma__lookup *lookup, const struct soma__slab *blocks, uint64_t granule)
{
	uint64_t hash = soma__lookup_hash(granule);
	uint64_t first = lookup->buckets[hash >> lookup->shift];
	uint32_t record = (uint32_t)(first >> 32);

	if ((uint32_t)first == (uint32_t)hash || record == 0)
		return record;
	do
		record = soma__lookup_block(blocks, record)->chain;
	while (record != 0 && soma__block_address(soma__lookup_block(blocks, record)) != granule);
	return record;
}

/* The granule will be put soon. */
static inline void
soma__lookup_fetch(const struct soma__lookup *lookup, uint64_t granule)
{
	__builtin_prefetch(&lookup->buckets[soma__lookup_hash(granule) >> lookup->shift], 1);
}

/* The granule must not be there; the entry must have been reserved. */
static inline void
soma__lookup_put(struct soma__lookup *lookup, struct soma__block *block, uint64_t granule, uint32_t record)
{
	uint64_t hash = soma__lookup_hash(granule);
	uint64_t *bucket = &lookup->buckets[hash >> lookup->shift];

	block->chain = (uint32_t)(*bucket >> 32);
	*bucket = (uint64_t)record << 32 | (uint32_t)hash;
	lookup->used++;
}

/* Takes out an entry that is there. */
static inline void
soma__lookup_remove(struct soma__lookup *lookup, const struct soma__slab *blocks, uint64_t granule,
		    uint32_t record)
{
	uint64_t *bucket = &lookup->buckets[soma__lookup_hash(granule) >> lookup->shift];
	uint32_t before = (uint32_t)(*bucket >> 32), after = soma__lookup_block(blocks, record)->chain;

	lookup->used--;
	if (before == record) {
		uint64_t hash = soma__lookup_hash(soma__block_address(soma__lookup_block(blocks, after)));

		*bucket = after != 0 ? (uint64_t)after << 32 | (uint32_t)hash : 0;
		return;
	}
	while (soma__lookup_block(blocks, before)->chain != record)
		before = soma__lookup_block(blocks, before)->chain;
	soma__lookup_block(blocks, before)->chain = after;
}

#endif

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

struct soma__bucket {
	uint32_t link; /* 0: empty */
	uint32_t hash; /* its lower part */
};

struct soma__lookup {
	struct soma__bucket *buckets;
	uint32_t count; /* of buckets, at least 256 */
	uint32_t used;
	uint32_t grow_at; /* entries that are too many for these buckets */
};

bool soma__lookup_grow(struct soma__lookup *lookup, const struct soma__slab *blocks,
		       struct soma__arena *arena);

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

/* The hash's upper 32 bits as a fraction of the table: any number of buckets will do, and with
 * 256 or more two hashes of one bucket differ in their lower 32 bits. */
static inline struct soma__bucket *
soma__lookup_bucket(const struct soma__lookup *lookup, uint64_t hash)
{
	return &lookup->buckets[(hash >> (SOMA__ADDRESS_BITS - 32)) * lookup->count >> 32];
}

static inline struct soma__block *
soma__lookup_block(const struct soma__slab *blocks, uint32_t record)
{
	return soma__slab_at(blocks, record, sizeof(struct soma__block));
}

/*
 * A link, in a bucket or in a block's `chain`, names a record and may carry a mark: the
 * block was freed, but nobody has touched it yet to take it out.
 */
#define SOMA__LINK_FREED ((uint32_t)1 << 31)

static inline uint32_t
soma__link_record(uint32_t link)
{
	return link & ~SOMA__LINK_FREED;
}

/* The link that names the live block at this granule; NULL if there is none. */
static inline uint32_t *
soma__lookup_chained(const struct soma__slab *blocks, uint32_t link, uint64_t granule)
{
	while (soma__link_record(link) != 0) {
		struct soma__block *block = soma__lookup_block(blocks, soma__link_record(link));
		uint32_t next = block->chain;

		if (next != 0 &&
		    soma__block_address(soma__lookup_block(blocks, soma__link_record(next))) == granule)
			return &block->chain;
		link = next;
	}
	return NULL;
}

/* The link that names the block at this granule, marked or not; NULL if there is none. */
static inline uint32_t *
soma__lookup_link(const struct soma__lookup *lookup, const struct soma__slab *blocks, uint64_t granule)
{
	uint64_t hash = soma__lookup_hash(granule);
	struct soma__bucket *bucket = soma__lookup_bucket(lookup, hash);

	if (bucket->link != 0 && bucket->hash == (uint32_t)hash)
		return &bucket->link;
	return soma__lookup_chained(blocks, bucket->link, granule);
}

/* The link that names the live block at this granule; NULL if there is none. */
static inline uint32_t *
soma__lookup_live(const struct soma__lookup *lookup, const struct soma__slab *blocks, uint64_t granule)
{
	uint32_t *link = soma__lookup_link(lookup, blocks, granule);

	return link != NULL && (*link & SOMA__LINK_FREED) == 0 ? link : NULL;
}

/* The granule will be put soon. */
static inline void
soma__lookup_fetch(const struct soma__lookup *lookup, uint64_t granule)
{
	__builtin_prefetch(soma__lookup_bucket(lookup, soma__lookup_hash(granule)), 1);
}

/* The granule must not be there; the entry must have been reserved. */
static inline void
soma__lookup_put(struct soma__lookup *lookup, struct soma__block *block, uint64_t granule, uint32_t link)
{
	uint64_t hash = soma__lookup_hash(granule);
	struct soma__bucket *bucket = soma__lookup_bucket(lookup, hash);

	block->chain = bucket->link;
	*bucket = (struct soma__bucket){ .link = link, .hash = (uint32_t)hash };
	lookup->used++;
}

/* Takes out an entry that is there, marked or not. */
static inline void
soma__lookup_remove(struct soma__lookup *lookup, const struct soma__slab *blocks, uint64_t granule,
		    uint32_t record)
{
	uint64_t hash = soma__lookup_hash(granule);
	struct soma__bucket *bucket = soma__lookup_bucket(lookup, hash);
	uint32_t after = soma__lookup_block(blocks, record)->chain;

	lookup->used--;
	if (bucket->hash == (uint32_t)hash) {
		const struct soma__block *second = soma__lookup_block(blocks, soma__link_record(after));

		hash = soma__lookup_hash(soma__block_address(second));
		*bucket = (struct soma__bucket){ .link = after, .hash = (uint32_t)hash };
		return;
	}
	*soma__lookup_chained(blocks, bucket->link, granule) = after;
}

#endif

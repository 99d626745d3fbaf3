/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointer lookup: from the granule where a live block begins to its record.
 *
 * Open addressing by cache lines: a line has eight entries, each 31 bits of the hash and
 * 32 that name the record, and a look at all of them finds the one.  Only what its
 * line had no room for is in one of the next.  The hash is a bijection of the 40 bits of
 * a granule and the line's number its upper part, so that the lower 31 bits tell the
 * granules of lines near each other apart: whether a pointer is live is known from the line
 * alone.  (In a small table they do not; there the records are asked as well.)
 *
 * Records do not know their entries: who looks a pointer up remembers the place for as long as the
 * table does not grow.
 */
#ifndef SOMA_LIB_MODEL_LOOKUP_H
#define SOMA_LIB_MODEL_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/arena/arena.h"
#include "lib/model/block.h"
#include "lib/model/slab.h"
#include "lib/model/words.h"

#define SOMA__LINE_ENTRIES 8
#define SOMA__LINE_WORDS (2 * SOMA__LINE_ENTRIES)

struct soma__line {
	uint32_t hash[SOMA__LINE_ENTRIES]; /* of its lower part, and never 0; 0: no entry */
	uint32_t link[SOMA__LINE_ENTRIES];
};

struct soma__lookup {
	struct soma__line *lines;
	uint8_t *passed; /* of each line: the entries that had to go past it, up to 255 */
	uint32_t count;  /* of lines */
	uint32_t used;
	uint32_t grow_at; /* entries that are too many for these lines */
	uint32_t reach;   /* no entry was ever so many lines, or more, behind its own */
	bool ask;         /* equal hashes within that reach may be of two granules */
};

/*
 * A link names a record and may carry a mark: the block was freed, but nobody has
 * touched it yet to take it out.
 */
#define SOMA__LINK_FREED ((uint32_t)1 << 31)

static inline uint32_t
soma__link_record(uint32_t link)
{
	return link & ~SOMA__LINK_FREED;
}

static inline struct soma__block *
soma__lookup_block(const struct soma__slab *blocks, uint32_t link)
{
	return soma__slab_at(blocks, soma__link_record(link), SOMA__NAME_UNIT);
}

bool soma__lookup_grow(struct soma__lookup *lookup, const struct soma__slab *blocks,
		       struct soma__arena *arena);

/* Makes sure that one more entry fits. */
static inline bool
soma__lookup_reserve(struct soma__lookup *lookup, const struct soma__slab *blocks, struct soma__arena *arena)
{
	return lookup->used < lookup->grow_at || soma__lookup_grow(lookup, blocks, arena);
}

/*
 * A bijection of 40 bits whose upper bits depend on all bits of the granule; here they are
 * the upper 40 of 64.  Multiplication by an odd number alone does not spread blocks at the
 * fronts of segments, whose granules are a grid: with 256 in each 2 MiB, more than half did not find
 * room in their lines.  (The shift is the one of 5 to 24 that did best for such grids: below 5 %.)
 */
static inline uint64_t
soma__lookup_hash(uint64_t granule)
{
	return (granule ^ granule >> 5) * (UINT64_C(0x9e3779b97f) << (64 - SOMA__ADDRESS_BITS));
}

static inline uint32_t
soma__hash_lower(uint64_t hash)
{
	return (uint32_t)(hash >> (64 - SOMA__ADDRESS_BITS - 1)) | 1;
}

/* The hash as a fraction of the table: any number of lines will do. */
static inline uint32_t
soma__lookup_line(const struct soma__lookup *lookup, uint64_t hash)
{
	return (uint32_t)((hash >> 32) * lookup->count >> 32);
}

/* The first of a line's hashes that has this value, or SOMA__LINE_ENTRIES.  They are stored by
 * soma__words_set(). */
#ifdef __SSE2__

static HOT unsigned
soma__line_find(const uint32_t hash[SOMA__LINE_ENTRIES], uint32_t value)
{
	const __m128i wanted = _mm_set1_epi32((int)value), *halves = (const __m128i *)(const void *)hash;
	__m128i first = _mm_cmpeq_epi32(_mm_load_si128(&halves[0]), wanted);
	__m128i second = _mm_cmpeq_epi32(_mm_load_si128(&halves[1]), wanted);
	unsigned bytes = (unsigned)_mm_movemask_epi8(_mm_packs_epi32(first, second));

	return (unsigned)__builtin_ctz(bytes | 1U << 2 * SOMA__LINE_ENTRIES) / 2;
}

#else

static HOT unsigned
soma__line_find(const uint32_t hash[SOMA__LINE_ENTRIES], uint32_t value)
{
	unsigned i = 0;

	while (i < SOMA__LINE_ENTRIES && hash[i] != value)
		i++;
	return i;
}

#endif

/* Entries are known by their links' places, in words of the lines, until the table grows. */
static HOT uint32_t
soma__lookup_place(const struct soma__lookup *lookup, const uint32_t *link)
{
	return (uint32_t)(link - (const uint32_t *)lookup->lines);
}

static HOT uint32_t *
soma__lookup_link(const struct soma__lookup *lookup, uint32_t place)
{
	return (uint32_t *)lookup->lines + place;
}

/* The place, after a growth, of the entry that this granule has, marked or not. */
uint32_t soma__lookup_recall(const struct soma__lookup *lookup, const struct soma__slab *blocks,
			     uint64_t granule);

/* What the first entry that has the hash does not settle. */
uint32_t *soma__lookup_search(const struct soma__lookup *lookup, const struct soma__slab *blocks,
			      uint64_t granule);

/* The link of the live block at this granule if it is the first that its line has for it, as
 * nearly all are, or NULL. */
static HOT uint32_t *
soma__lookup_first(const struct soma__lookup *lookup, const struct soma__slab *blocks, uint64_t granule)
{
	uint64_t hash = soma__lookup_hash(granule);
	struct soma__line *line = &lookup->lines[soma__lookup_line(lookup, hash)];
	unsigned i = soma__line_find(line->hash, soma__hash_lower(hash));

	if (i == SOMA__LINE_ENTRIES || (line->link[i] & SOMA__LINK_FREED) != 0)
		return NULL;
	if (lookup->ask && soma__block_address(soma__lookup_block(blocks, line->link[i])) != granule)
		return NULL;
	return &line->link[i];
}

/* The link of the live block at this granule, or NULL. */
static inline uint32_t *
soma__lookup_live(const struct soma__lookup *lookup, const struct soma__slab *blocks, uint64_t granule)
{
	uint32_t *link = soma__lookup_first(lookup, blocks, granule);

	return link != NULL ? link : soma__lookup_search(lookup, blocks, granule);
}

/* The granule will be put soon, or taken out. */
static inline void
soma__lookup_fetch(const struct soma__lookup *lookup, uint64_t granule)
{
	__builtin_prefetch(&lookup->lines[soma__lookup_line(lookup, soma__lookup_hash(granule))], 1);
}

/* The line for an entry whose own is full. */
uint32_t soma__lookup_displace(struct soma__lookup *lookup, uint64_t hash);

/* Puts in a hash that is not there; room for it must have been reserved.  Returns its line. */
static HOT uint32_t
soma__lookup_enter(struct soma__lookup *lookup, uint64_t hash, uint32_t link)
{
	uint32_t number = soma__lookup_line(lookup, hash);
	struct soma__line *line = &lookup->lines[number];
	unsigned empty = soma__line_find(line->hash, 0);

	if (__builtin_expect(empty == SOMA__LINE_ENTRIES, 0)) {
		number = soma__lookup_displace(lookup, hash);
		line = &lookup->lines[number];
		empty = soma__line_find(line->hash, 0);
	}
	soma__words_set(line->hash, empty, soma__hash_lower(hash));
	line->link[empty] = link;
	lookup->used++;
	return number;
}

/* The granule must not be there. */
static HOT void
soma__lookup_put(struct soma__lookup *lookup, uint64_t granule, uint32_t record)
{
	soma__lookup_enter(lookup, soma__lookup_hash(granule), record);
}

/* An entry in this line, and not in its own, goes. */
void soma__lookup_come_back(struct soma__lookup *lookup, uint32_t own, uint32_t line);

/* Takes out the entry at this place, which is the granule's. */
static HOT void
soma__lookup_remove(struct soma__lookup *lookup, uint32_t place, uint64_t granule)
{
	uint32_t number = place / SOMA__LINE_WORDS, own = soma__lookup_line(lookup, soma__lookup_hash(granule));

	soma__words_set(lookup->lines[number].hash, place % SOMA__LINE_ENTRIES, 0);
	lookup->used--;
	if (__builtin_expect(own != number, 0))
		soma__lookup_come_back(lookup, own, number);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointer lookup: from the granule where a live block begins to its record.
 *
 * Open addressing with linear probing; a slot is 8 bytes, 40 bits of granule and 24
 * bits of record, so that one cache line answers.  A granule's home is monotone in
 * its hash, whatever the number of slots, so that the table grows in small steps by
 * one pass in order.  Deletion shifts back: there are no tombstones.
 */
#ifndef SOMA_LIB_MODEL_LOOKUP_H
#define SOMA_LIB_MODEL_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/arena/arena.h"

#define SOMA__LOOKUP_RECORD_BITS 24
#define SOMA__LOOKUP_RECORDS ((uint32_t)1 << SOMA__LOOKUP_RECORD_BITS)

struct soma__lookup {
	uint64_t *slots;
	uint64_t slot_count;
	uint64_t used;
	uint64_t grow_at; /* used entries that are too many for slot_count */
};

bool soma__lookup_grow(struct soma__lookup *lookup, struct soma__arena *arena);

/* Makes sure that one more entry fits. */
static inline bool
soma__lookup_reserve(struct soma__lookup *lookup, struct soma__arena *arena)
{
	return lookup->used < lookup->grow_at || soma__lookup_grow(lookup, arena);
}

/* Multiplicative hashing: the high bits of the product are spread well even for equally
 * spaced granules, and the high bits are what the second product uses. */
static inline uint64_t
soma__lookup_home(const struct soma__lookup *lookup, uint64_t granule)
{
	uint64_t hash = granule * UINT64_C(0x9e3779b97f4a7c15);

	return (uint64_t)(((unsigned __int128)hash * lookup->slot_count) >> 64);
}

/* The slot that holds the granule, or slot_count. */
static inline uint64_t
soma__lookup_find(const struct soma__lookup *lookup, uint64_t granule)
{
	uint64_t slot = soma__lookup_home(lookup, granule);

	for (;;) {
		uint64_t entry = lookup->slots[slot];

		if (entry == 0)
			return lookup->slot_count;
		if (entry >> SOMA__LOOKUP_RECORD_BITS == granule)
			return slot;
		if (++slot == lookup->slot_count)
			slot = 0;
	}
}

static inline uint32_t
soma__lookup_record(const struct soma__lookup *lookup, uint64_t slot)
{
	return (uint32_t)(lookup->slots[slot] & (SOMA__LOOKUP_RECORDS - 1));
}

/* The granule must not be there; the entry must have been reserved. */
static inline void
soma__lookup_put(struct soma__lookup *lookup, uint64_t granule, uint32_t record)
{
	uint64_t slot = soma__lookup_home(lookup, granule);

	while (lookup->slots[slot] != 0)
		if (++slot == lookup->slot_count)
			slot = 0;
	lookup->slots[slot] = granule << SOMA__LOOKUP_RECORD_BITS | record;
	lookup->used++;
}

/* Empties a slot found before. */
static inline void
soma__lookup_remove(struct soma__lookup *lookup, uint64_t slot)
{
	uint64_t count = lookup->slot_count;
	uint64_t hole = slot;

	lookup->used--;
	for (;;) {
		uint64_t entry, home, distance_home, distance_hole;

		if (++slot == count)
			slot = 0;
		entry = lookup->slots[slot];
		if (entry == 0)
			break;
		home = soma__lookup_home(lookup, entry >> SOMA__LOOKUP_RECORD_BITS);
		distance_home = slot >= home ? slot - home : slot + count - home;
		distance_hole = slot >= hole ? slot - hole : slot + count - hole;
		if (distance_home >= distance_hole) {
			lookup->slots[hole] = entry;
			hole = slot;
		}
	}
	lookup->slots[hole] = 0;
}

#endif

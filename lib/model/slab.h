/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slabs: tables of fixed-size records named by 32-bit indices.
 *
 * A slab is one array, so that finding a record is one multiplication; it grows by
 * doubling, which moves it: pointers to records are good until the next reservation.
 * Index 0 is no record, but its memory is there.  A freed record is the next one handed
 * out, so that it is still in the cache.  Taking a record cannot fail after it was
 * reserved: an operation reserves first and changes things then.
 */
#ifndef SOMA_LIB_MODEL_SLAB_H
#define SOMA_LIB_MODEL_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/arena/arena.h"

struct soma__slab {
	char *records;
	uint32_t record_size;
	uint32_t limit;     /* most records there may be */
	uint32_t free_head; /* freed records, linked through their first four bytes */
	uint32_t free_count;
	uint32_t fresh; /* the lowest index never handed out */
	uint32_t capacity;
};

void soma__slab_init(struct soma__slab *slab, size_t record_size, uint32_t limit);

/* Makes sure that `count` more records can be taken.  False without memory. */
bool soma__slab_grow(struct soma__slab *slab, struct soma__arena *arena, uint32_t count);

/* Records that can be taken without growing. */
static inline uint32_t
soma__slab_spare(const struct soma__slab *slab)
{
	return slab->free_count + (slab->capacity - slab->fresh);
}

static inline bool
soma__slab_reserve(struct soma__slab *slab, struct soma__arena *arena, uint32_t count)
{
	return soma__slab_spare(slab) >= count || soma__slab_grow(slab, arena, count);
}

/* The caller knows the record's type and so its size. */
static inline void *
soma__slab_at(const struct soma__slab *slab, uint32_t index, size_t record_size)
{
	return slab->records + index * record_size;
}

static inline uint32_t
soma__slab_take(struct soma__slab *slab, size_t record_size)
{
	uint32_t index = slab->free_head;

	if (index == 0) {
#ifdef SOMA_SANITIZERS
		if (slab->fresh >= slab->capacity) /* it was not reserved, and no sanitizer sees it */
			__builtin_trap();
#endif
		return slab->fresh++;
	}
	memcpy(&slab->free_head, soma__slab_at(slab, index, record_size), sizeof slab->free_head);
	slab->free_count--;
	return index;
}

static inline void
soma__slab_give(struct soma__slab *slab, uint32_t index, size_t record_size)
{
	memcpy(soma__slab_at(slab, index, record_size), &slab->free_head, sizeof slab->free_head);
	slab->free_head = index;
	slab->free_count++;
}

#endif

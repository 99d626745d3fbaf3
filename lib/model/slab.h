/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slabs: tables of fixed-size records with 32-bit names.
 *
 * A slab is one array, and a name the record's place in it in units of SOMA__NAME_UNIT bytes,
 * so that finding a record takes no arithmetic but an address's own; where names must be
 * short, the unit is the record.  The array may move when it grows:
 * pointers to records are good until the next reservation.
 * Name 0 is no record, but its memory is there.  A freed record is the next one handed
 * out, so that it is still in the cache.  Taking a record cannot fail after it was
 * reserved: an operation reserves first and changes things then.
 */
#ifndef SOMA_LIB_MODEL_SLAB_H
#define SOMA_LIB_MODEL_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config.h" /* SOMA_SANITIZERS */
#include "lib/arena/arena.h"

#define SOMA__NAME_UNIT 8
#define SOMA__SLAB_AHEAD 8

struct soma__slab {
	char *records;
	uint32_t record_size;
	uint32_t limit; /* most records there may be */
	/* Freed records, linked through their first four bytes: of those that are as many frees apart as
	 * there are heads, so that the record to be taken so much later is known now, and asked for. */
	uint32_t free_head[SOMA__SLAB_AHEAD];
	uint32_t free_count;
	uint32_t fresh; /* records ever handed out, and the one that is none */
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

/* The unit is a constant to the caller; a multiple of it is the record's size. */
static inline void *
soma__slab_at(const struct soma__slab *slab, uint32_t name, size_t unit)
{
	return slab->records + name * unit;
}

static inline uint32_t
soma__slab_take(struct soma__slab *slab, size_t record_size, size_t unit)
{
	uint32_t *head, name;

	if (slab->free_count == 0) {
#ifdef SOMA_SANITIZERS
		if (slab->fresh >= slab->capacity) /* it was not reserved, and no sanitizer sees it */
			__builtin_trap();
#endif
		return slab->fresh++ * (uint32_t)(record_size / unit);
	}
	head = &slab->free_head[--slab->free_count % SOMA__SLAB_AHEAD];
	name = *head;
	memcpy(head, soma__slab_at(slab, name, unit), sizeof *head);
	__builtin_prefetch(soma__slab_at(slab, *head, unit), 1);
	return name;
}

static inline void
soma__slab_give(struct soma__slab *slab, uint32_t name, size_t unit)
{
	uint32_t *head = &slab->free_head[slab->free_count++ % SOMA__SLAB_AHEAD];

	memcpy(soma__slab_at(slab, name, unit), head, sizeof *head);
	*head = name;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of expandable.h share. */
#ifndef SOMA_TOOLS_ENGINE_EXPANDABLE_HEAP_H
#define SOMA_TOOLS_ENGINE_EXPANDABLE_HEAP_H

#include "tools/engine/expandable.h"
#include "tools/engine/table.h"

#define MIB ((uint64_t)1 << 20)
#define ALIGNMENT ((uint64_t)512)
#define SMALL_MAX MIB
#define SMALL_UNIT (2 * MIB)
#define LARGE_UNIT (20 * MIB)
/* A range's addresses, in units: more than any device has memory. */
#define RANGE_SIZE ((uint64_t)1 << 42)
/* Of the addresses that are left in the end a range has this part. */
#define RANGES_AT_THE_END ((uint64_t)1 << 14)

enum piece_state {
	PIECE_FREE,
	PIECE_LIVE,
	PIECE_PENDING, /* freed, not complete */
	PIECE_UNMAPPED,
};

/* A part of a range: a block, or what is not mapped. */
struct piece {
	uint64_t address, size;
	uint64_t requested; /* LIVE */
	struct piece *previous, *next;
	struct range *range;
	enum piece_state state;
};

struct range {
	uint64_t base;
	uint64_t unit; /* 0: a segment of the other kind */
	struct area *area;
	struct piece *first;
};

struct pieces { /* sorted */
	struct piece **at;
	size_t count, room;
};

struct area { /* a pool of a stream */
	uint64_t stream;
	bool small;
	struct pieces free;     /* by (size, address) */
	struct pieces unmapped; /* by address */
};

struct offer {
	uint64_t stream, address, size;
	bool map;
};

struct expandable {
	uint64_t limit;
	uint64_t oversize, oversize_slack; /* UINT64_MAX: nothing is */
	uint64_t next; /* where an unrecorded range goes */
	struct area **areas;
	size_t area_count, area_room;
	struct range **ranges; /* by base */
	size_t range_count, range_room;
	struct offer *offers; /* the oldest first */
	size_t offer_count, offer_room;
	bool made_room;      /* the recording gave memory back, and has not allocated since */
	struct table blocks; /* LIVE and PENDING ones by address */
	struct expandable_stats stats;
};

struct heap_entry {
	struct table_key key;
	struct piece *piece;
};

struct area *heap_area(struct expandable *heap, uint64_t stream, bool small);

/* A piece that became free or unmapped joins neighbours of its kind and enters its list;
 * returns what it became part of. */
struct piece *heap_settle(struct piece *piece);

/* Out of its list, to be changed, and into it. */
void heap_take(struct piece *piece);
void heap_enter(struct piece *piece);

/* A part of a free or unmapped piece changes its state: what is left of the piece stays what
 * it was, the part is in no list. */
struct piece *heap_carve(struct piece *piece, uint64_t address, uint64_t size, enum piece_state state);

/* Makes room for a request in the area: a free piece that holds it, or NULL. */
struct piece *heap_grow(struct expandable *heap, struct area *area, uint64_t size);

/* Whether the recording has grown the area for the allocation that comes. */
bool heap_has_offer(const struct expandable *heap, const struct area *area);

/* One that is a single piece, which is in no list. */
void heap_remove_range(struct expandable *heap, struct range *range);

/* The range with the greatest base up to the address; NULL. */
struct range *heap_range_at(const struct expandable *heap, uint64_t address);
struct piece *heap_piece_at(const struct expandable *heap, uint64_t address);

static inline uint64_t
round_up_to(uint64_t size, uint64_t step)
{
	return (size + step - 1) / step * step;
}

#endif

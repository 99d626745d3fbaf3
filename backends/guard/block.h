/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard's record of a block, lists of records, and the table of all of them by
 * address.  A record stays from the block's allocation until its tombstone is
 * forgotten or a new block has the same address.
 *
 * live -> retired (freed; its streams not yet past it) -> quarantined -> tombstone, or
 * condemned: damaged, never given out again.  BUSY: taken off its list by a thread that
 * scans, poisons or frees it under no lock; nobody else changes it meanwhile.
 *
 * Protected by the guard's lock, but for what is constant since the allocation.
 */
#ifndef SOMA_BACKENDS_GUARD_BLOCK_H
#define SOMA_BACKENDS_GUARD_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

#include "backends/guard/uses.h"

#define BLOCK_TAG_MAX 40u

enum block_state {
	BLOCK_LIVE,
	BLOCK_RETIRED,
	BLOCK_QUARANTINED,
	BLOCK_EVICTING, /* busy, on its way to the inner backend */
	BLOCK_CONDEMNED,
	BLOCK_TOMBSTONE,
};

struct block {
	uint64_t ptr, size;         /* what the program has */
	uint64_t outer, outer_size; /* what the inner backend gave; a mapped block's pages */
	uint64_t front;             /* where the redzone before it begins: see struct layout */
	uint64_t range, range_size; /* a mapped block's reserved addresses; 0: not mapped */
	uint64_t generation;        /* the guard's own */
	uint64_t given_generation;  /* the library's; 0: not told */
	struct block *in_bucket;
	struct block *next, *prev;   /* in the list of its state */
	struct block *newer, *older; /* all records, in the order of their allocation */
	struct uses uses;
	struct clock_access freed;
	uint64_t clean_seq;  /* of the last scan that found nothing */
	uint32_t pins;       /* who looks at it: it must not be settled or evicted */
	uint32_t evictor;    /* EVICTING: the thread that gives it back */
	bool orphaned;       /* not in the table any more; the evictor gives the record back */
	uint32_t fault_slot; /* mapped.h */
	enum block_state state;
	bool busy;     /* in no list: see above */
	bool strayed;  /* it is over only when the host has seen the end of all its uses */
	bool damaged;  /* and reported */
	bool poisoned; /* its body holds the pattern of freed memory */
	bool resident; /* a mapped block that has its pages */
	bool unread;   /* an uninitialised read was not reported yet */
	char tag[BLOCK_TAG_MAX];
};

struct block_list {
	struct block *head, *tail;
	uint64_t count, bytes;
	uint64_t requested; /* see block_requested() */
};

void block_list_push(struct block_list *list, struct block *block);
void block_list_remove(struct block_list *list, struct block *block);

/* What it occupies of the inner backend. */
uint64_t block_bytes(const struct block *block);
/* What the program asked for; 0 once that was released to it. */
uint64_t block_requested(const struct block *block);

struct blocks {
	const struct soma_backend_host *host;
	struct block **buckets;
	uint32_t bits; /* 2^bits buckets */
	uint64_t count;
	struct block *oldest, *newest;
	struct block *spare; /* by `next` */
	struct block_slab *slabs;
	uint64_t generation; /* of the last block */
};

bool blocks_init(struct blocks *blocks, const struct soma_backend_host *host);
void blocks_fini(struct blocks *blocks);

/* A cleared record with a new generation; NULL without memory. */
struct block *blocks_take(struct blocks *blocks);
/* A record that is in no list and not in the table. */
void blocks_give(struct blocks *blocks, struct block *block);

struct block *blocks_find(const struct blocks *blocks, uint64_t ptr);
void blocks_insert(struct blocks *blocks, struct block *block);
void blocks_remove(struct blocks *blocks, struct block *block);

/* The records next to an address, by address, and the one whose memory it is in; slow. */
struct block_places {
	const struct block *before, *after, *around;
};
struct block_places blocks_near(const struct blocks *blocks, uint64_t ptr);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model is made of.
 *
 * Blocks are in address order within their segment.  A block is 24 bytes; what only
 * free blocks need is in a node of 32.  A block ends where the next one begins; those that
 * are allocations or free know their sizes besides, so that the next one need not be read.
 * Segments, streams, shelves and trees hang off the model; every record is in the model's
 * arena.
 *
 * A granule is the policy's alignment: addresses and sizes inside are granules.
 */
#ifndef SOMA_LIB_MODEL_STATE_H
#define SOMA_LIB_MODEL_STATE_H

#include <soma/model.h>

#include "lib/arena/arena.h"
#include "lib/model/block.h"
#include "lib/model/driven.h"
#include "lib/model/firstfit.h"
#include "lib/model/index.h"
#include "lib/model/lookup.h"
#include "lib/model/slab.h"
#include "lib/model/tree.h"

struct soma__segment {
	uint32_t first, last; /* blocks */
	uint32_t home;        /* shelf */
	uint32_t tree;        /* its node in model->segments; record = this segment */
	uint32_t idle_tree;   /* its node for model->idle */
	uint32_t pool;
	uint64_t stream;       /* whom it was made for */
	uint64_t address, end; /* granules */
	bool idle;             /* wholly free: in model->idle */
	uint64_t idle_since;   /* model->searches when it became so */
};

/* A component of a clock, or a join that made it: after stream `id`'s positions < seq. */
struct soma__clock_entry {
	uint64_t id;
	uint64_t seq;
};

struct soma__join {
	uint64_t position; /* of the operation that joined */
	uint64_t id;
	uint64_t seq;
	uint64_t before; /* what the clock had before, to undo it */
};

struct soma__clock {
	struct soma__clock_entry *entries; /* by ascending id */
	uint32_t entry_count, entry_capacity;
	struct soma__join *joins; /* by ascending position; what is known to be moot is dropped */
	uint32_t join_first, join_count, join_capacity; /* [first, count) are kept */
	uint32_t join_applied;                          /* those before it have raised what they imply */
};

struct soma__stream {
	uint64_t id;
	uint64_t takes; /* its id, and once it is destroyed none that its slot can have */
	uint64_t submitted, executed, observed;
	uint64_t queue_key;                      /* its part of a key in the queue */
	uint64_t barrier;                        /* pending frees before it do not join later ones */
	uint32_t oldest, newest;                 /* pending nodes by position */
	uint32_t pending_next, pending_previous; /* in model->with_pending, while there are any */
	uint32_t pending_count;                  /* frees not complete, without the queued ones */
	uint32_t segment_count;                  /* segments made for it (per_stream) */
	bool exists;                             /* the slot is in use */
	bool ordered;                            /* legacy, or blocking: part of the implicit order */
	bool blocking;                           /* the same, but by waits alone: driven.h */
	bool followed;                           /* by_size is kept */
	bool raised;                             /* in model->raised */
	bool news;                               /* in model->news */
	uint32_t free_tree;                      /* its node for model->free_slots */
	uint64_t legacy_seen;                    /* blocking: the legacy stream's `submitted` joined last */
	struct soma__shelf *own[SOMA_POLICY_POOLS_MAX]; /* NULL until it is needed; the slot keeps them */
	uint64_t shelved;                               /* bytes: own shelves have room for less */
	uint32_t by_size[SOMA_POLICY_POOLS_MAX];        /* pending nodes in a tree by (size, address) */
	struct soma__clock clock;
};

/* A free that waits in the queue. */
struct soma__queued {
	uint64_t key; /* stream; offered: size pool and size, too; or SOMA__QUEUE_SERVED */
	uint64_t position;
	uint32_t block;
	uint32_t earlier; /* offered: the one before it with the same hash; gone unless it waits */
	uint32_t place;   /* of its entry in the pointer lookup */
};

/* queue.h; frees are numbered, and those from `oldest` up to `next` wait. */
struct soma__queue {
	struct soma__queued *ring; /* of a power of two; NULL: the policy has no batches */
	uint32_t mask;
	uint32_t *latest; /* by hash */
	unsigned shift;   /* the hash's upper bits are what counts */
	uint32_t oldest, next;
	uint32_t offered; /* those before it are */
	uint32_t settled; /* those before it have left the accounts */
	uint32_t length;  /* those that did not serve again */
	uint64_t allocs;  /* stats.alloc_count at the latest free, with many blocks live */
};

/* SOMA_SEGMENTS_MAPPED (mapped.h): what the size pools' ranges have, and their holes. */
struct soma__mapped {
	unsigned page_shift;                      /* log2 of the granules of a page */
	uint32_t range[SOMA_POLICY_POOLS_MAX];    /* segments */
	uint64_t limit[SOMA_POLICY_POOLS_MAX];    /* where a range's addresses end, granules */
	uint32_t by_pages[SOMA_POLICY_POOLS_MAX]; /* trees of holes: holes.h */
	uint32_t by_front[SOMA_POLICY_POOLS_MAX];
	uint64_t idle_pages; /* whole pages within complete free blocks */
};

struct soma_model {
	struct soma_policy policy;
	unsigned granule_shift;
	unsigned pool_shift; /* log2 of shelves per stream */
	struct soma_segment_source source;
	bool has_source;
	bool is_mapped;                /* SOMA_SEGMENTS_MAPPED */
	struct soma_model_stats stats; /* without what report.c adds for the queue */

	struct soma__arena *arena;
	struct soma__index index;
	struct soma__slab blocks;
	struct soma__slab segment_slab;
	struct soma__lookup lookup;

	struct soma__shelf *shared[SOMA_POLICY_POOLS_MAX];
	struct soma__stream **streams;
	uint32_t stream_slots, stream_capacity; /* slots ever used */
	uint32_t with_pending;                  /* list of streams with pending nodes: slot + 1, 0 ends it */
	uint32_t *raised;                       /* slots whose released position rose */
	uint32_t *news; /* blocking streams that did something since the legacy stream looked */
	uint32_t raised_count, news_count;
	uint32_t free_slots; /* tree by (0, slot): slots whose stream is gone */

	struct soma__queue queue;
	struct soma__firstfit holes; /* of the range, each with its block; or of the virtual space */

	uint32_t parked;          /* frees on no shelf, or about to be */
	uint32_t headroom;        /* operations that have their records: soma__blocks_reserve() */
	uint32_t segments;        /* tree by (address) */
	uint32_t idle;            /* tree by (size, address) */
	uint32_t range;           /* the range's segment */
	uint64_t space_end;       /* virtual space, segmented pools */
	uint64_t top;             /* highest end, for regions */
	uint64_t max;             /* granules that may be reserved */
	enum soma_status refusal; /* why it last could not grow */
	uint64_t threshold;       /* bytes */
	uint64_t max_pool_size;   /* as it was given */
	uint64_t searches;        /* of the last size pool, where the policy collects */
	uint64_t least_refused;   /* bytes; see soma_model_least_refused() */

	/* driven.h */
	uint64_t ceiling; /* granules: virtual addresses are below it */
	bool held;        /* does not grow */
	struct soma__model_driver driver;
	struct soma__mapped mapped;
};

static inline struct soma__block *
soma__block_at(const struct soma_model *model, uint32_t block)
{
	return soma__slab_at(&model->blocks, block, SOMA__NAME_UNIT);
}

/* Is there a block of this name, and free? */
static inline bool
soma__is_free(const struct soma_model *model, uint32_t name)
{
	return name != 0 && soma__block_kind(soma__block_at(model, name)) == SOMA__BLOCK_FREE;
}

static inline struct soma__segment *
soma__segment_at(const struct soma_model *model, uint32_t segment)
{
	return soma__slab_at(&model->segment_slab, segment, sizeof(struct soma__segment));
}

/* Where the block ends: where the next begins, or the segment ends. */
static inline uint64_t
soma__block_end(const struct soma_model *model, const struct soma__block *block)
{
	if (block->next != 0)
		return soma__block_address(soma__block_at(model, block->next));
	return soma__segment_at(model, soma__block_segment(block))->end;
}

/* The same of an allocation, live or freed and waiting, or of a free block that has its node: from its
 * own record.  A block of any other kind, or of no account, has no size there. */
static inline uint64_t
soma__sized_end(const struct soma_model *model, const struct soma__block *block)
{
	if (__builtin_expect(block->size == UINT32_MAX, 0))
		return soma__block_end(model, block);
	return soma__block_address(block) + block->size;
}

static inline uint64_t
soma__sized_granules(const struct soma_model *model, const struct soma__block *block)
{
	return soma__sized_end(model, block) - soma__block_address(block);
}

static inline uint64_t
soma__block_granules(const struct soma_model *model, const struct soma__block *block)
{
	return soma__block_end(model, block) - soma__block_address(block);
}

/* Frees that have no node yet, and may need one and two trees. */
static inline uint32_t
soma__unfiled(const struct soma_model *model)
{
	return model->parked + model->queue.length;
}

static inline uint64_t
soma__bytes(const struct soma_model *model, uint64_t granules)
{
	return granules << model->granule_shift;
}

/* A block that is no allocation any more leaves the accounts of what is live. */
static inline void
soma__discharge(struct soma_model *model, const struct soma__block *block, uint64_t granules)
{
	uint64_t capacity = soma__bytes(model, granules);

	model->stats.capacity -= capacity;
	model->stats.used -= capacity - block->waste;
}

#define SOMA__SLOT_BITS 20

/* Not destroyed. */
static inline bool
soma__stream_accepts(const struct soma__stream *stream)
{
	return stream->takes == stream->id;
}

static inline uint32_t
soma__stream_slot(const struct soma__stream *stream)
{
	return (uint32_t)(stream->id & (((uint64_t)1 << SOMA__SLOT_BITS) - 1));
}

/* Shelves are numbered: the pool's number for a shared one, then each slot's. */
static inline uint32_t
soma__own_shelf(const struct soma_model *model, uint32_t slot, uint32_t pool)
{
	return (slot + 1) << model->pool_shift | pool;
}

/* The slot of the stream whose own shelf this is. */
static inline uint32_t
soma__shelf_slot(const struct soma_model *model, uint32_t shelf)
{
	return (shelf >> model->pool_shift) - 1;
}

static inline uint32_t
soma__shelf_pool(const struct soma_model *model, uint32_t shelf)
{
	return shelf & ((1U << model->pool_shift) - 1);
}

/* The shelf with this number; NULL if it was not needed yet. */
static inline struct soma__shelf *
soma__shelf_at(const struct soma_model *model, uint32_t shelf)
{
	uint32_t pool = soma__shelf_pool(model, shelf);

	if (shelf >> model->pool_shift == 0)
		return model->shared[pool];
	return model->streams[soma__shelf_slot(model, shelf)]->own[pool];
}

/* Positions of the stream below this prove a free to everybody. */
static inline uint64_t
soma__released(const struct soma_model *model, const struct soma__stream *stream)
{
	return model->policy.reuse & SOMA_REUSE_OPPORTUNISTIC ? stream->executed : stream->observed;
}

#endif

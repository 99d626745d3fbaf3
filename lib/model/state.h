/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model is made of.
 *
 * Blocks are in address order within their segment.  A block is 20 bytes; what only
 * free blocks need is in a node of 32.  A block's size is the distance to the next
 * one: nothing is stored twice.  Segments, streams, shelves and trees hang off the
 * model; every record is in the model's arena.
 *
 * A granule is the policy's alignment: addresses and sizes inside are granules.
 */
#ifndef SOMA_LIB_MODEL_STATE_H
#define SOMA_LIB_MODEL_STATE_H

#include <soma/model.h>

#include "lib/arena/arena.h"
#include "lib/model/index.h"
#include "lib/model/lookup.h"
#include "lib/model/slab.h"
#include "lib/model/tree.h"

#define SOMA__ADDRESS_BITS 40 /* granules of 256 bytes below SOMA_MODEL_ADDRESS_MAX */
#define SOMA__SEGMENT_BITS 22

enum soma__block_kind {
	SOMA__BLOCK_LIVE, /* or queued: freed, not filed yet */
	SOMA__BLOCK_FREE, /* it has a node */
	SOMA__BLOCK_HOLE, /* a released part of a range */
};

struct soma__block {
	uint32_t address_low;
	uint32_t address_high : SOMA__ADDRESS_BITS - 32;
	uint32_t segment : SOMA__SEGMENT_BITS;
	uint32_t kind : 2;
	uint32_t previous, next; /* in address order, 0 at the segment's ends */
	union {
		uint32_t waste; /* LIVE: capacity - requested, bytes */
		uint32_t node;  /* FREE */
	};
};

enum soma__node_state {
	SOMA__NODE_COMPLETE, /* on its home shelf */
	SOMA__NODE_PENDING,  /* on the own shelf of the stream that freed it */
	SOMA__NODE_PARKED,   /* pending, on no shelf */
};

/* 48 bits count the operations of a stream for half a year at 50 ns each. */
#define SOMA__POSITION_MAX (((uint64_t)1 << 48) - 4)

struct soma__node {
	uint32_t shelf_previous, shelf_next; /* the list of a class and region */
	uint32_t older, newer;               /* pending: its stream's frees by position */
	uint32_t block;
	uint32_t shelf : 24; /* COMPLETE: its home; else the own shelf of the freeing stream */
	uint32_t state : 8;
	uint64_t position : 48; /* pending: of the latest free */
	uint64_t place : 16;    /* on a shelf: class and region */
};

struct soma__segment {
	uint32_t first, last;  /* blocks */
	uint32_t home;         /* shelf */
	uint32_t tree;         /* its node in model->segments; record = this segment */
	uint32_t idle_tree;    /* its node for model->idle */
	uint32_t pool;
	uint64_t stream;       /* whom it was made for */
	uint64_t address, end; /* granules */
	bool idle;             /* wholly free: in model->idle */
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
	uint32_t join_applied; /* those before it have raised what they imply */
};

struct soma__stream {
	uint64_t id;
	uint64_t submitted, executed, observed;
	uint64_t barrier;        /* pending frees before it do not join later ones */
	uint32_t oldest, newest; /* pending nodes by position */
	uint32_t pending_count;  /* frees not complete: filed, parked and queued */
	uint32_t segment_count;  /* segments made for it (per_stream) */
	bool exists;             /* the slot is in use */
	bool accepts;            /* not destroyed */
	bool ordered;            /* legacy, or blocking: part of the implicit order */
	bool followed;           /* by_size is kept */
	bool raised;             /* in model->raised */
	bool news;               /* in model->news */
	uint32_t free_tree;      /* its node for model->free_slots */
	uint64_t legacy_seen;    /* blocking: the legacy stream's `submitted` joined last */
	uint32_t by_size[SOMA_POLICY_POOLS_MAX]; /* pending nodes in a tree by (size, address) */
	struct soma__clock clock;
};

/* A free that waits in the queue for its batch. */
struct soma__queued {
	uint32_t block;
	uint32_t slot;
	uint64_t position;
};

struct soma_model {
	struct soma_policy policy;
	unsigned granule_shift;
	unsigned pool_shift; /* log2 of shelves per stream */
	struct soma_segment_source source;
	bool has_source;
	struct soma_model_stats stats; /* `used`, `capacity`: see unsettled */

	struct soma__arena *arena;
	struct soma__index index;
	struct soma__slab blocks;
	struct soma__slab segment_slab;
	struct soma__lookup lookup;

	/* shelves[pool] are shared; shelves[(slot + 1) << pool_shift | pool] a stream's. */
	struct soma__shelf **shelves;
	uint32_t shelf_slots;

	struct soma__stream **streams;
	uint32_t stream_slots, stream_capacity; /* slots ever used */
	uint32_t *raised; /* slots whose released position rose */
	uint32_t *news;   /* blocking streams that did something since the legacy stream looked */
	uint32_t raised_count, news_count;
	uint32_t free_slots; /* tree by (0, slot): slots whose stream is gone */

	/* Frees waiting for their batch, oldest first: a ring of queue_slots.  Those from
	 * `settled` on are still counted in stats.used and stats.capacity. */
	struct soma__queued *queue;
	uint32_t queue_slots; /* a power of two; 0: no batching */
	uint32_t queue_head, queue_tail, queue_settled;

	uint32_t unfiled; /* queued and parked frees: each may need a tree node */
	uint32_t segments; /* tree by (address) */
	uint32_t idle;     /* tree by (size, address) */
	uint32_t holes;    /* tree by address, value ~size: of a range, or of the virtual space */
	uint32_t range;    /* the range's segment */
	uint64_t space_end; /* virtual space, segmented pools */
	uint64_t top;       /* highest end, for regions */
	uint64_t max;       /* granules that may be reserved */
	enum soma_status refusal; /* why it last could not grow */
	uint64_t threshold; /* bytes */
	uint64_t max_pool_size; /* as it was given */
};

static inline struct soma__block *
soma__block_at(const struct soma_model *model, uint32_t block)
{
	return soma__slab_at(&model->blocks, block, sizeof(struct soma__block));
}

static inline struct soma__node *
soma__node_at(const struct soma__index *index, uint32_t node)
{
	return soma__slab_at(&index->nodes, node, sizeof(struct soma__node));
}

static inline struct soma__segment *
soma__segment_at(const struct soma_model *model, uint32_t segment)
{
	return soma__slab_at(&model->segment_slab, segment, sizeof(struct soma__segment));
}

static inline uint64_t
soma__block_address(const struct soma__block *block)
{
	return (uint64_t)block->address_high << 32 | block->address_low;
}

static inline void
soma__block_set_address(struct soma__block *block, uint64_t address)
{
	block->address_low = (uint32_t)address;
	block->address_high = (uint32_t)(address >> 32) & 0xffU;
}

/* Where the block ends: where the next begins, or the segment ends. */
static inline uint64_t
soma__block_end(const struct soma_model *model, const struct soma__block *block)
{
	if (block->next != 0)
		return soma__block_address(soma__block_at(model, block->next));
	return soma__segment_at(model, block->segment)->end;
}

static inline uint64_t
soma__block_granules(const struct soma_model *model, const struct soma__block *block)
{
	return soma__block_end(model, block) - soma__block_address(block);
}

static inline uint64_t
soma__bytes(const struct soma_model *model, uint64_t granules)
{
	return granules << model->granule_shift;
}

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

/* Positions of the stream below this prove a free to everybody. */
static inline uint64_t
soma__released(const struct soma_model *model, const struct soma__stream *stream)
{
	return model->policy.reuse & SOMA_REUSE_OPPORTUNISTIC ? stream->executed : stream->observed;
}

#endif

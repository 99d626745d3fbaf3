/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool, as the parts of lib/pool see it.
 *
 * Everything but what is said otherwise is protected by `mutex`, which is held over calls of the model, and
 * over recording, queueing and asking events, none of which waits; never over what may wait: allocating and
 * freeing at the resource, and synchronising.  `growing` is a turn: taken, before mutex, by threads that
 * need a new segment, and held over the resource's call; nobody else waits for it.
 *
 * Two things hold at all times.  An order between streams that the model knows of is queued on the real
 * streams before the mutex is let go (or implied by the driver's rules).  And the model knows of progress
 * only what an event, or a synchronisation, has said.
 */
#ifndef SOMA_LIB_POOL_POOL_H
#define SOMA_LIB_POOL_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include <soma/pool.h>

#include "lib/arena/arena.h"
#include "lib/pool/window.h"

struct soma__pool_stream;
struct soma__pool_segment;
struct soma__twin;

/* A handle, and the block's record. */
enum soma__handle_state {
	SOMA__HANDLE_UNUSED,
	SOMA__HANDLE_LIVE,
	SOMA__HANDLE_FREEING, /* by a thread that has let the mutex go */
	SOMA__HANDLE_FREED,
};

struct soma_allocation {
	struct soma_pool *pool;
	_Atomic uint32_t state;        /* enum soma__handle_state; written under mutex */
	bool graph;                    /* the block is a graph's: the model does not know it */
	bool owed;                     /* freed, and the model is still to be told (free.c) */
	bool released;                 /* ... and the caller has given the handle back */
	bool named;                    /* POOL: id is a part of the resource's */
	struct soma_allocation *next;  /* unused; given back; owed */
	struct soma_allocation *chain; /* in its bucket */
	uint64_t ptr;
	uint64_t device_ptr;
	uint64_t size;
	uint64_t stream;       /* the caller's id */
	uint64_t model_stream; /* the model's */
	uint64_t ready_seq;
	struct soma_block_id id; /* BACKEND: the resource's block; named */
} __attribute__((aligned(64)));

/* What a thread in soma__pool_grow() has to do with the segment source. */
struct soma__growth_call {
	struct soma__pool_segment *segment; /* in hand */
	uint64_t wanted;                    /* 0: no segment was asked for */
	uint64_t stream;                    /* of the request */
	enum soma_status refusal;           /* of the resource; OK: it was not asked */
	bool given_back;                    /* the model has released segments in this attempt */
	bool last;                          /* no further attempt */
};

/* In what order a segment goes back that the model has released. */
enum soma__leave_order {
	SOMA__LEAVE_NOW,   /* in none: all work on it is done */
	SOMA__LEAVE_OWN,   /* of the stream that it was made for: a policy with per_stream */
	SOMA__LEAVE_ON,    /* of one stream, all segments */
	SOMA__LEAVE_NEVER, /* none could be had: they stay outstanding, for work may still use them */
};

#define SOMA__SEGMENT_BUCKETS 64u

struct soma_pool {
	pthread_mutex_t mutex;
	struct soma_model *model;
	struct soma_resource *resource; /* never changes; NULL: alone */
	struct soma__arena *arena;
	bool placed;   /* never changes: blocks are where the model puts them */
	bool captures; /* the same: streams may be captured, and are asked */
	bool per_stream;
	bool destroyed;
	bool ended;      /* and nothing but handles is left, or will be in a moment */
	bool gone;       /* everything went back; the handles alone remain */
	uint32_t users;  /* calls that have let the mutex go, and come back to what it protects */
	bool is_default; /* the registry's mutex */
	int device;
	uint32_t tag;
	uint64_t threshold; /* the model's */
	uint64_t max_size;  /* never changes; 0: unlimited */

	/* handles.c */
	struct soma_allocation *spare;
	uint64_t carved, spare_count;
	_Atomic uintptr_t returned; /* handles given back: a list; the lowest bit: closed.  Any thread. */
	struct soma_allocation **buckets;
	uint64_t bucket_shift;
	uint64_t live, graphs; /* blocks */
	struct soma_allocation *owed;

	/* streams.c */
	struct soma__pool_stream **streams; /* by slot */
	uint32_t slots;
	uint32_t cursor;
	bool learns;       /* never changes: allocations ask what is free by now */
	uint32_t unasked;  /* allocations since they did so */
	uint32_t patience; /* so many may come before it is looked at again whether to ask */
	uint64_t host_stream; /* of the model: what happens there is done at once */

	/* segments.c, grow.c */
	struct soma__pool_segment *segments[SOMA__SEGMENT_BUCKETS];
	struct soma__pool_segment *leaving; /* released by the model, not given back yet */
	struct soma__growth_call *call;     /* of the thread that calls the model */
	uint64_t segment_stream;            /* of the resource: nothing runs there; never changes */
	enum soma__leave_order leave;       /* changes when the pool ends */
	uint64_t leave_stream;              /* SOMA__LEAVE_ON */
	bool own_stream;                    /* it was made for the pool; never changes */
	bool ordered;                       /* never changes: the backend frees in stream order */
	uint64_t alignment;                 /* never changes: of blocks */
	pthread_mutex_t growing;

	struct soma__window window;
	enum soma_placement placement; /* never changes */

	struct soma__twin *twin; /* twin.c; never changes; NULL: none */
};

/* create.c: after the last block of a destroyed pool.  The mutex is not held. */
void soma__pool_finish(struct soma_pool *pool);
/* After the last handle of a pool that is gone. */
void soma__pool_bury(struct soma_pool *pool);
/* The two halves of soma_pool_destroy() for any pool: after close nothing is allocated, and the pool lasts until
 * end. */
enum soma_status soma__pool_close(struct soma_pool *pool);
void soma__pool_end(struct soma_pool *pool);

/* What an allocation is told. */
enum soma_status soma__pool_refuse_destroyed(void);

/* Takes the mutex, for a call that may come when nothing but handles is left: then INVALID_VALUE, without it. */
enum soma_status soma__pool_enter(struct soma_pool *pool);

/* registry.c.  Closes a pool that is to be destroyed: INVALID_VALUE for a default one. */
enum soma_status soma__registry_close(struct soma_pool *pool);

/* grow.c: an allocation that the held model deferred, with the mutex held; it is let go meanwhile.
 * `stream` is the caller's id. */
enum soma_status soma__pool_grow(struct soma_pool *pool, uint64_t size, uint64_t stream,
				 struct soma_model_alloc *made);
/* grow.c: reserves a segment for a new pool. */
enum soma_status soma__pool_reserve(struct soma_pool *pool, const struct soma_policy *policy, uint64_t size);

/* free.c: tells the model what it could not be told for want of memory. */
void soma__pool_settle(struct soma_pool *pool);

static inline void
soma__pool_lock(struct soma_pool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	if (__builtin_expect(pool->owed != NULL, 0))
		soma__pool_settle(pool);
}

static inline void
soma__pool_unlock(struct soma_pool *pool)
{
	pthread_mutex_unlock(&pool->mutex);
}

/* Lets the mutex go, which a thread did that may have been the last to need a destroyed pool. */
static inline void
soma__pool_leave(struct soma_pool *pool)
{
	bool ends =
		__builtin_expect(pool->destroyed, 0) && !pool->ended && pool->live == 0 && pool->users == 0;

	if (ends)
		pool->ended = true;
	soma__pool_unlock(pool);
	if (ends)
		soma__pool_finish(pool);
}

/* The mutex is held, and let go for as long as the call is away. */
static inline void
soma__pool_step_out(struct soma_pool *pool)
{
	pool->users++;
	soma__pool_unlock(pool);
}

static inline void
soma__pool_step_in(struct soma_pool *pool)
{
	soma__pool_lock(pool);
	pool->users--;
}

#endif

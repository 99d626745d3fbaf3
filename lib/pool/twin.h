/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The twin of a pool: its model's figures against those of the backend's own pool (<soma/pool.h>).
 *
 * `turn` is held over an operation at the resource and in the model, so that both have the same sequence; it
 * is taken before the pool's mutex, which protects everything else of the twin, and by the thread that has it once
 * more: an owner's callback within an allocation may use the pool.  It is not held while a stream is waited for.
 *
 * Within an owner's callback nobody waits for it: who has it may be waiting for that callback, or for another stack's
 * that waits for this one.  Such an operation strays: it is made all the same, nothing is compared while it is under
 * way, and of the peaks nothing is known after it.
 *
 * The turn is the pool's: who takes it, or waits for it, is one of the pool's users, or has a block of it; and
 * it is let go under the mutex, for the pool may be over after that.
 */
#ifndef SOMA_LIB_POOL_TWIN_H
#define SOMA_LIB_POOL_TWIN_H

#include "lib/pool/pool.h"

/* So many operations are remembered. */
#define SOMA__TWIN_OPERATIONS 512u

/* So many blocks that none of them touches are in a divergence's trace; above that their number is. */
#define SOMA__TWIN_BYSTANDERS 4096u

enum soma__twin_op {
	SOMA__TWIN_ALLOC,
	SOMA__TWIN_ALLOC_FAILED,
	SOMA__TWIN_FREE,
	SOMA__TWIN_FREE_NOW,
	SOMA__TWIN_RECORD,
	SOMA__TWIN_WAIT,
	SOMA__TWIN_SYNCHRONIZE,
	SOMA__TWIN_TRIM,
};

struct soma__twin_operation {
	enum soma__twin_op op;
	uint64_t stream;
	uint64_t ptr;  /* of a block */
	uint64_t size; /* of a block; what a trim keeps */
	uint64_t generation;
	uint64_t event_stream, event_seq; /* of an event; of a free: the block's own stream */
	uint64_t used, reserved;          /* of the model, after it */
};

/* In the order of the report. */
enum soma__twin_figure {
	SOMA__TWIN_USED,
	SOMA__TWIN_USED_HIGH,
	SOMA__TWIN_RESERVED,
	SOMA__TWIN_RESERVED_HIGH,
	SOMA__TWIN_FIGURES,
};

struct soma__twin {
	pthread_mutex_t turn;
	_Atomic uintptr_t owner; /* of the turn: pthread_self(); 0: nobody */
	unsigned depth;          /* the owner's */
	_Atomic uint64_t strays; /* that have begun */
	uint64_t strays_over;
	bool peaks_lost;
	uint64_t unit;      /* USED is counted in multiples of it; never changes, nor the next two */
	uint64_t tolerance; /* of RESERVED */
	uint64_t alignment; /* of the policy */
	uint64_t counted, counted_high; /* USED, by the unit */
	uint64_t rounded;               /* live bytes, by the alignment */
	uint64_t undone_high;           /* USED within allocations that the model then could not take */
	uint64_t compared, skipped, disturbed;
	uint64_t operations; /* the latest are in the ring */
	struct soma_twin_figure figures[SOMA__TWIN_FIGURES];
	struct soma_twin_divergence divergences[2]; /* of USED, of RESERVED */
	struct soma__twin_operation ring[SOMA__TWIN_OPERATIONS];
};

/* For a new pool with a model: takes over the backend's attributes. */
enum soma_status soma__twin_create(struct soma_pool *pool, const struct soma_pool_config *config);
void soma__twin_bury(struct soma_pool *pool);

void soma__twin_take_turn(struct soma__twin *twin);
void soma__twin_leave_turn(struct soma__twin *twin);

/* Without the mutex, stepped out or for a live block. */
static inline void
soma__twin_begin(struct soma_pool *pool)
{
	if (__builtin_expect(pool->twin != NULL, 0))
		soma__twin_take_turn(pool->twin);
}

/* With the mutex. */
static inline void
soma__twin_end(struct soma_pool *pool)
{
	if (__builtin_expect(pool->twin != NULL, 0))
		soma__twin_leave_turn(pool->twin);
}

/* With the mutex, which is let go meanwhile, for the turn comes first.  There is a twin. */
void soma__twin_take(struct soma_pool *pool);

/* soma__pool_enter() and the turn. */
static inline enum soma_status
soma__twin_enter(struct soma_pool *pool)
{
	enum soma_status status = soma__pool_enter(pool);

	if (__builtin_expect(pool->twin != NULL, 0) && status == SOMA_STATUS_OK)
		soma__twin_take(pool);
	return status;
}

/* With the turn and the mutex: an operation that both have made.  `used` and `reserved` are filled in. */
void soma__twin_note(struct soma_pool *pool, struct soma__twin_operation operation);

/* The same: an allocation of this size that the resource refused; or that the model did, so that it was
 * given back. */
void soma__twin_failed(struct soma_pool *pool, uint64_t size, uint64_t stream, bool undone);

/* With the turn and the mutex, which is let go meanwhile. */
void soma__twin_compare(struct soma_pool *pool);

/* How many operations there were until now; with the mutex, which is let go meanwhile, and without the turn. */
uint64_t soma__twin_serial(struct soma_pool *pool);

/* With the turn, and the mutex not held.  The model has the attribute already. */
enum soma_status soma__twin_set(struct soma_pool *pool, enum soma_pool_attribute attribute, uint64_t value);
enum soma_status soma__twin_reset_peaks(struct soma_pool *pool);

/* twin_trace.c.  With the turn and the mutex: a trace of the latest operations; "" without memory. */
const char *soma__twin_trace(struct soma_pool *pool, const char *verdict);

#endif

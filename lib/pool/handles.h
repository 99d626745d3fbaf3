/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: taken from the arena and used again, and found by their blocks' addresses.  The mutex is held,
 * but by soma__handle_return().
 */
#ifndef SOMA_LIB_POOL_HANDLES_H
#define SOMA_LIB_POOL_HANDLES_H

#include "lib/pool/pool.h"

bool soma__handles_init(struct soma_pool *pool);

/* When there is no spare one. */
struct soma_allocation *soma__handle_more(struct soma_pool *pool);

/* NULL without memory. */
static inline struct soma_allocation *
soma__handle_take(struct soma_pool *pool)
{
	struct soma_allocation *handle = pool->spare;

	if (__builtin_expect(handle == NULL, 0))
		return soma__handle_more(pool);
	pool->spare = handle->next;
	pool->spare_count--;
	return handle;
}

static inline void
soma__handle_put(struct soma_pool *pool, struct soma_allocation *handle)
{
	atomic_store_explicit(&handle->state, SOMA__HANDLE_UNUSED, memory_order_relaxed);
	handle->next = pool->spare;
	pool->spare = handle;
	pool->spare_count++;
}

/* Makes what was returned spare. */
void soma__handles_collect(struct soma_pool *pool);

/* The lowest bit of `returned`: handles are put back under the mutex from now on. */
#define SOMA__HANDLES_CLOSED ((uintptr_t)1)

/* Without the mutex.  False: closed. */
static inline bool
soma__handle_return(struct soma_pool *pool, struct soma_allocation *handle)
{
	uintptr_t head = atomic_load_explicit(&pool->returned, memory_order_relaxed);

	atomic_store_explicit(&handle->state, SOMA__HANDLE_UNUSED, memory_order_relaxed);
	do {
		if (head & SOMA__HANDLES_CLOSED) {
			atomic_store_explicit(&handle->state, SOMA__HANDLE_FREED, memory_order_relaxed);
			return false;
		}
		handle->next = (struct soma_allocation *)head;
	} while (!atomic_compare_exchange_weak_explicit(&pool->returned, &head, (uintptr_t)handle,
							memory_order_release, memory_order_relaxed));
	return true;
}

/* ---- by address ---- */

void soma__handles_grow(struct soma_pool *pool);

static inline struct soma_allocation **
soma__handle_bucket(const struct soma_pool *pool, uint64_t ptr)
{
	return &pool->buckets[(ptr >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> pool->bucket_shift];
}

/* The block is live from now on. */
static inline void
soma__handle_enter(struct soma_pool *pool, struct soma_allocation *handle)
{
	struct soma_allocation **bucket = soma__handle_bucket(pool, handle->ptr);

	handle->chain = *bucket;
	*bucket = handle;
	if (__builtin_expect(++pool->live > UINT64_C(1) << (64 - pool->bucket_shift), 0))
		soma__handles_grow(pool);
}

static inline void
soma__handle_leave(struct soma_pool *pool, const struct soma_allocation *handle)
{
	struct soma_allocation **at = soma__handle_bucket(pool, handle->ptr);

	while (*at != handle)
		at = &(*at)->chain;
	*at = handle->chain;
	pool->live--;
}

static inline struct soma_allocation *
soma__handle_find(const struct soma_pool *pool, uint64_t ptr)
{
	struct soma_allocation *handle = *soma__handle_bucket(pool, ptr);

	while (handle != NULL && handle->ptr != ptr)
		handle = handle->chain;
	return handle;
}

#endif

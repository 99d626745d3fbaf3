/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making handles, the table of them, and what a handle answers.
 * Handles are carved from the arena by the chunk and go back with it.  What a handle answers never changes
 * while it is the caller's, but for its state.
 */
#include "lib/pool/handles.h"

#include <string.h>

#include "lib/base/error.h"
#include "lib/resource/order.h"
#include "lib/resource/parts.h"

#define CHUNK 32
#define BUCKET_BITS_FIRST 6
#define BUCKET_BITS_MAX 26

static size_t
buckets_size(uint64_t shift)
{
	return ((size_t)1 << (64 - shift)) * sizeof(struct soma_allocation *);
}

bool
soma__handles_init(struct soma_pool *pool)
{
	pool->bucket_shift = 64 - BUCKET_BITS_FIRST;
	pool->buckets = soma__arena_calloc(pool->arena, buckets_size(pool->bucket_shift), 64);
	return pool->buckets != NULL;
}

struct soma_allocation *
soma__handle_more(struct soma_pool *pool)
{
	struct soma_allocation *chunk;

	soma__handles_collect(pool);
	if (pool->spare != NULL)
		return soma__handle_take(pool);
	chunk = soma__arena_calloc(pool->arena, CHUNK * sizeof *chunk, 64);
	if (chunk == NULL)
		return NULL;
	pool->carved += CHUNK;
	for (unsigned i = CHUNK; i-- > 0;) {
		chunk[i].pool = pool;
		soma__handle_put(pool, &chunk[i]);
	}
	return soma__handle_take(pool);
}

void
soma__handles_collect(struct soma_pool *pool)
{
	uintptr_t head = atomic_load_explicit(&pool->returned, memory_order_relaxed);
	struct soma_allocation *handle, *next;

	while (!atomic_compare_exchange_weak_explicit(&pool->returned, &head, head & SOMA__HANDLES_CLOSED,
						      memory_order_acquire, memory_order_relaxed))
		;
	for (handle = (struct soma_allocation *)(head & ~SOMA__HANDLES_CLOSED); handle != NULL;
	     handle = next) {
		next = handle->next;
		soma__handle_put(pool, handle);
	}
}

/* Without memory the chains get longer, and that is all. */
void
soma__handles_grow(struct soma_pool *pool)
{
	struct soma_allocation **old = pool->buckets;
	uint64_t old_shift = pool->bucket_shift;

	if (64 - old_shift >= BUCKET_BITS_MAX)
		return;
	pool->buckets = soma__arena_calloc(pool->arena, buckets_size(old_shift - 1), 64);
	if (pool->buckets == NULL) {
		pool->buckets = old;
		return;
	}
	pool->bucket_shift = old_shift - 1;
	for (size_t i = 0; i < (size_t)1 << (64 - old_shift); i++) {
		struct soma_allocation *next;
		for (struct soma_allocation *handle = old[i]; handle != NULL; handle = next) {
			struct soma_allocation **bucket = soma__handle_bucket(pool, handle->ptr);
			next = handle->chain;
			handle->chain = *bucket;
			*bucket = handle;
		}
	}
	soma__arena_free(pool->arena, old, buckets_size(old_shift));
}

enum soma_status
soma_pool_find(struct soma_pool *pool, uint64_t ptr, struct soma_allocation **allocation)
{
	struct soma_allocation *handle;

	soma__pool_lock(pool);
	handle = soma__handle_find(pool, ptr);
	soma__pool_unlock(pool);
	if (handle == NULL)
		return soma__fail(NOT_FOUND, "0x%" PRIx64 " is not the address of a live block of this pool",
				  ptr);
	*allocation = handle;
	return SOMA_STATUS_OK;
}

/* ---- what a handle answers ------------------------------------------------------------ */

uint64_t
soma_allocation_ptr(const struct soma_allocation *allocation)
{
	return allocation->ptr;
}

uint64_t
soma_allocation_device_ptr(const struct soma_allocation *allocation)
{
	return allocation->device_ptr;
}

uint64_t
soma_allocation_size(const struct soma_allocation *allocation)
{
	return allocation->size;
}

bool
soma_allocation_is_freed(const struct soma_allocation *allocation)
{
	return atomic_load_explicit(&allocation->state, memory_order_acquire) != SOMA__HANDLE_LIVE;
}

/* Under the mutex.  Where the pool places blocks the resource learns of one when somebody asks for its name. */
static enum soma_status
name_block(struct soma_allocation *handle)
{
	struct soma_pool *pool = handle->pool;
	enum soma_status status;

	if (atomic_load_explicit(&handle->state, memory_order_relaxed) != SOMA__HANDLE_LIVE)
		return soma__fail(USE_AFTER_FREE, "the block at 0x%" PRIx64 " was freed before", handle->ptr);
	if (pool->resource == NULL)
		return soma__fail(NOT_SUPPORTED,
				  "a pool alone has no memory: there is no use of its blocks to record");
	if (!pool->placed || handle->named)
		return SOMA_STATUS_OK;
	status = soma__part_begin(pool->resource, handle->ptr, handle->size, handle->stream, &handle->id);
	handle->named = status == SOMA_STATUS_OK;
	return status;
}

enum soma_status
soma_allocation_id(struct soma_allocation *allocation, struct soma_block_id *id)
{
	struct soma_pool *pool = allocation->pool;
	enum soma_status status;

	soma__pool_lock(pool);
	status = name_block(allocation);
	if (status == SOMA_STATUS_OK)
		*id = allocation->id;
	soma__pool_unlock(pool);
	return status;
}

enum soma_status
soma_allocation_stream(const struct soma_allocation *allocation, uint64_t *native)
{
	struct soma_pool *pool = allocation->pool;
	bool known = false;

	soma__pool_lock(pool);
	if (pool->resource != NULL && !pool->ended)
		known = soma__order_native(pool->resource, allocation->stream, native);
	soma__pool_unlock(pool);
	if (known)
		return SOMA_STATUS_OK;
	return soma__fail(NOT_SUPPORTED, "the driver has no handle of stream %" PRIu64, allocation->stream);
}

uint64_t
soma_allocation_stream_id(const struct soma_allocation *allocation)
{
	return allocation->stream;
}

uint64_t
soma_allocation_ready_seq(const struct soma_allocation *allocation)
{
	return allocation->ready_seq;
}

struct soma_pool *
soma_allocation_pool(const struct soma_allocation *allocation)
{
	return allocation->pool;
}

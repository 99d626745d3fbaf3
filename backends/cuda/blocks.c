/* SPDX-License-Identifier: Apache-2.0 */
/* Live blocks by address: open addressing with linear probing, at most three quarters full; a removal moves
 * what follows back, so there are no tombstones.  Locking: see the header. */
#include "backends/cuda/blocks.h"

#include <string.h>

#define BITS_FIRST 6u

static inline uint64_t
hash(uint64_t ptr)
{
	uint64_t x = (ptr >> 8) * 0x9e3779b97f4a7c15u;

	return x ^ (x >> 32);
}

static inline struct blocks_shard *
shard_of(struct blocks *blocks, uint64_t hashed)
{
	return &blocks->shards[hashed % BLOCKS_SHARDS];
}

static inline uint64_t
home_of(const struct blocks_shard *shard, uint64_t hashed)
{
	return (hashed / BLOCKS_SHARDS) & (((uint64_t)1 << shard->bits) - 1);
}

void
blocks_init(struct blocks *blocks, const struct soma_backend_host *host)
{
	memset(blocks, 0, sizeof *blocks);
	blocks->host = host;
	for (unsigned i = 0; i < BLOCKS_SHARDS; i++)
		pthread_mutex_init(&blocks->shards[i].mutex, NULL);
}

void
blocks_fini(struct blocks *blocks)
{
	for (unsigned i = 0; i < BLOCKS_SHARDS; i++) {
		struct blocks_shard *shard = &blocks->shards[i];
		if (shard->slots != NULL)
			blocks->host->free(blocks->host->context, shard->slots,
					   sizeof *shard->slots << shard->bits);
		pthread_mutex_destroy(&shard->mutex);
	}
}

/* Where the block is, or the vacant slot where it would be. */
static inline struct block *
slot_of(const struct blocks_shard *shard, uint64_t ptr, uint64_t hashed)
{
	uint64_t mask = ((uint64_t)1 << shard->bits) - 1;

	for (uint64_t i = home_of(shard, hashed);; i = (i + 1) & mask)
		if (shard->slots[i].ptr == ptr || shard->slots[i].ptr == 0)
			return &shard->slots[i];
}

static bool
grow(struct blocks *blocks, struct blocks_shard *shard)
{
	const struct soma_backend_host *host = blocks->host;
	struct block *old = shard->slots;
	uint64_t old_count = old == NULL ? 0 : (uint64_t)1 << shard->bits;
	uint32_t bits = old == NULL ? BITS_FIRST : shard->bits + 1;
	struct block *slots = host->alloc(host->context, sizeof *slots << bits, 64);

	if (slots == NULL)
		return false;
	memset(slots, 0, sizeof *slots << bits);
	shard->slots = slots;
	shard->bits = bits;
	for (uint64_t i = 0; i < old_count; i++)
		if (old[i].ptr != 0)
			*slot_of(shard, old[i].ptr, hash(old[i].ptr)) = old[i];
	if (old != NULL)
		host->free(host->context, old, old_count * sizeof *old);
	return true;
}

static bool
has_room(const struct blocks_shard *shard)
{
	uint64_t kept = shard->added - atomic_load_explicit(&shard->gone, memory_order_relaxed);

	return shard->slots != NULL && (kept + 1) * 4 <= (uint64_t)3 << shard->bits;
}

bool
blocks_add(struct blocks *blocks, uint64_t ptr, uint64_t size, const void *owner, enum block_kind kind)
{
	uint64_t hashed = hash(ptr);
	struct blocks_shard *shard = shard_of(blocks, hashed);

	pthread_mutex_lock(&shard->mutex);
	bool room = has_room(shard) || grow(blocks, shard);
	if (room) {
		struct block *slot = slot_of(shard, ptr, hashed);
		shard->added += slot->ptr == 0; /* a graph's memory may have ended unseen */
		slot->ptr = ptr;
		slot->size = size;
		slot->owner = owner;
		slot->kind = kind;
	}
	pthread_mutex_unlock(&shard->mutex);
	return room;
}

/* Moves what follows back into the hole, as far as it may go. */
static void
close_hole(struct blocks_shard *shard, uint64_t hole)
{
	uint64_t mask = ((uint64_t)1 << shard->bits) - 1;

	for (uint64_t i = (hole + 1) & mask; shard->slots[i].ptr != 0; i = (i + 1) & mask) {
		uint64_t home = home_of(shard, hash(shard->slots[i].ptr));
		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		shard->slots[hole] = shard->slots[i];
		hole = i;
	}
	shard->slots[hole].ptr = 0;
}

bool
blocks_find(struct blocks *blocks, uint64_t ptr, struct block *block)
{
	uint64_t hashed = hash(ptr);
	struct blocks_shard *shard = shard_of(blocks, hashed);
	bool found = false;

	if (ptr == 0)
		return false;
	pthread_mutex_lock(&shard->mutex);
	if (shard->slots != NULL) {
		*block = *slot_of(shard, ptr, hashed);
		found = block->ptr == ptr;
	}
	pthread_mutex_unlock(&shard->mutex);
	return found;
}

bool
blocks_take(struct blocks *blocks, uint64_t ptr, uint64_t size, const void *owner, struct block *block)
{
	uint64_t hashed = hash(ptr);
	struct blocks_shard *shard = shard_of(blocks, hashed);
	bool found = false;

	if (ptr == 0)
		return false;
	pthread_mutex_lock(&shard->mutex);
	if (shard->slots != NULL) {
		struct block *slot = slot_of(shard, ptr, hashed);
		found = slot->ptr == ptr && slot->owner == owner && (size == 0 || slot->size == size);
		if (found) {
			*block = *slot;
			close_hole(shard, (uint64_t)(slot - shard->slots));
		}
	}
	pthread_mutex_unlock(&shard->mutex);
	return found;
}

void
blocks_gone(struct blocks *blocks, uint64_t ptr)
{
	struct blocks_shard *shard = shard_of(blocks, hash(ptr));

	atomic_fetch_add_explicit(&shard->gone, 1, memory_order_relaxed);
}

void
blocks_restore(struct blocks *blocks, const struct block *block)
{
	uint64_t hashed = hash(block->ptr);
	struct blocks_shard *shard = shard_of(blocks, hashed);

	pthread_mutex_lock(&shard->mutex);
	*slot_of(shard, block->ptr, hashed) = *block;
	pthread_mutex_unlock(&shard->mutex);
}

void
blocks_walk(struct blocks *blocks, void (*visit)(void *context, const struct block *block), void *context)
{
	for (unsigned i = 0; i < BLOCKS_SHARDS; i++) {
		const struct blocks_shard *shard = &blocks->shards[i];
		for (uint64_t at = 0; shard->slots != NULL && at < (uint64_t)1 << shard->bits; at++)
			if (shard->slots[at].ptr != 0)
				visit(context, &shard->slots[at]);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live blocks of an open backend, by address: so that a free of what is no block is told before the
 * driver is asked, and close gives back what is left.  Knows nothing of the driver.
 *
 * Any thread; each shard has a mutex, held over nothing else.
 */
#ifndef SOMA_BACKENDS_CUDA_BLOCKS_H
#define SOMA_BACKENDS_CUDA_BLOCKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

#define BLOCKS_SHARDS 16u

enum block_kind {
	BLOCK_OWN = 1,
	BLOCK_GRAPH,    /* owned by a graph that was captured */
	BLOCK_IMPORTED, /* of another process's pool: `owner` */
};

struct block {
	uint64_t ptr; /* 0: the slot is vacant */
	uint64_t size;
	const void *owner;
	enum block_kind kind;
};

struct blocks_shard {
	pthread_mutex_t mutex; /* protects what follows */
	struct block *slots;
	uint32_t bits;         /* 2^bits slots; 0: none yet */
	uint64_t added;        /* ever */
	_Atomic uint64_t gone; /* of these; a block that is taken and not yet gone keeps its room */
} __attribute__((aligned(64)));

struct blocks {
	const struct soma_backend_host *host;
	struct blocks_shard shards[BLOCKS_SHARDS];
};

void blocks_init(struct blocks *blocks, const struct soma_backend_host *host);
void blocks_fini(struct blocks *blocks);

/* False without memory, recorded. */
bool blocks_add(struct blocks *blocks, uint64_t ptr, uint64_t size, const void *owner, enum block_kind kind);

/* Reads the block at `ptr`.  False: there is none. */
bool blocks_find(struct blocks *blocks, uint64_t ptr, struct block *block);

/*
 * Takes the block out, before the driver may give out its address again; false: there is none at `ptr` of
 * this owner and, unless `size` is 0, of this size.  Then blocks_gone(), or blocks_restore(), which cannot fail.
 */
bool blocks_take(struct blocks *blocks, uint64_t ptr, uint64_t size, const void *owner, struct block *block);
void blocks_gone(struct blocks *blocks, uint64_t ptr);
void blocks_restore(struct blocks *blocks, const struct block *block);

/* Calls for each block; nothing else runs. */
void blocks_walk(struct blocks *blocks, void (*visit)(void *context, const struct block *block),
		 void *context);

#endif

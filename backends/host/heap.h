/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host backend's memory: blocks cut from mappings that it keeps, as a device's pool
 * does, until heap_trim().
 *
 * Knows nothing of streams: a block is taken, claimed (the caller may free it no
 * second time) and put back (its memory may be taken again).  Between claim and put its
 * item belongs to whoever claimed it, so that queueing a free needs no memory.
 *
 * Blocks up to 32 KiB share slabs, one list a size class; larger ones are runs of 16 KiB pages
 * in 32 MiB chunks; above 8 MiB a block is a mapping of its own.  Records lie elsewhere (host->alloc).
 *
 * Safe for concurrent use: a mutex for each size class, one for the pages.  No system
 * call is made under either.
 */
#ifndef SOMA_BACKENDS_HOST_HEAP_H
#define SOMA_BACKENDS_HOST_HEAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

#define HEAP_ALIGNMENT 256u
#define HEAP_GRANULARITY ((uint64_t)2 << 20)

/* Threads are spread over so many sets of classes. */
#define HEAP_SHARDS 8
#define HEAP_THREADS 128

/* 256 to 32768, four to a doubling from 1024 on. */
#define HEAP_CLASSES 24

/* Addresses are looked up by 2 MiB units in two levels: 48 bits in all. */
#define HEAP_ROOT_BITS 14
#define HEAP_LEAF_BITS 13

struct heap_slab;
struct heap_chunk;
struct heap_leaf;

/* Work of a stream; a block's own is its free.  See lanes.h. */
struct item {
	struct item *next;
	uint64_t ticket; /* lanes.h */
	uint64_t size;   /* a block's: what was asked for */
	uint32_t kind;
	uint32_t slot; /* a block's: which of its slab */
};

struct heap_class {
	pthread_mutex_t mutex;     /* protects everything below and the slabs' vacancies */
	struct heap_slab *partial; /* slabs with a vacant slot */
	struct heap_slab *empty;   /* one that nothing is in, kept; not in `partial` */
	uint32_t block;
	uint32_t slots;
	uint32_t pages;
} __attribute__((aligned(64)));

struct heap_thread {
	_Atomic uintptr_t key; /* pthread_self(); 0: unused */
	unsigned shard;
};

struct heap {
	const struct soma_backend_host *host;
	bool huge;
	uint64_t limit; /* of `taken` */
	_Atomic uint64_t threshold;
	_Atomic(struct heap_leaf *) root[1 << HEAP_ROOT_BITS];
	struct heap_thread threads[HEAP_THREADS];
	_Atomic unsigned thread_count;
	struct heap_class classes[HEAP_SHARDS][HEAP_CLASSES];
	/* On lines of their own: every block changes the first. */
	_Atomic uint64_t used __attribute__((aligned(64)));      /* requested bytes, until the put */
	_Atomic uint64_t used_high __attribute__((aligned(64))); /* changes seldom */
	_Atomic uint64_t taken
		__attribute__((aligned(64)));     /* pages of slabs and runs, own mappings, spans */
	_Atomic uint64_t reserved, reserved_high; /* bytes mapped */
	pthread_mutex_t mutex;                    /* protects the chunks' page maps and what follows */
	struct heap_chunk *chunks;
	struct heap_slab *idle;    /* own mappings that nobody has */
	struct heap_slab *mapped;  /* own mappings that somebody has */
	struct heap_slab *records; /* unused records of single blocks */
	uint64_t clock;            /* ticks when a chunk or a mapping falls idle */
};

/* `heap` is zeroed memory.  False without memory for a mutex. */
bool heap_init(struct heap *heap, const struct soma_backend_host *host, uint64_t limit, uint64_t threshold,
	       bool huge);

/* Unmaps everything. */
void heap_fini(struct heap *heap);

/* OUT_OF_DEVICE_MEMORY (limit or system), OUT_OF_HOST_MEMORY (records); recorded. */
enum soma_status heap_take(struct heap *heap, uint64_t size, uint64_t alignment, uint64_t *ptr);

/* NULL: no block at ptr, or one of another size, or claimed before. */
struct item *heap_claim(struct heap *heap, uint64_t ptr, uint64_t size);

void heap_put(struct heap *heap, struct item *item);

/* Unmaps what nothing is in until at most `keep` bytes are reserved. */
void heap_trim(struct heap *heap, uint64_t keep);

/* Counts bytes of other mappings of the backend; false when the limit forbids it. */
bool heap_charge(struct heap *heap, uint64_t bytes);
void heap_discharge(struct heap *heap, uint64_t bytes);

/* Records OUT_OF_DEVICE_MEMORY with the figures and returns it. */
enum soma_status heap_no_memory(struct heap *heap, uint64_t bytes, const char *why);

#endif

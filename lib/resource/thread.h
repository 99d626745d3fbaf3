/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small numbers for threads, and memory that a thread has to itself.
 *
 * A thread has an index below SOMA__THREADS_OWNING from its first call until it ends; the index then
 * goes to another thread, with a mutex between the two.  Threads for which there is no index
 * share SOMA__THREAD_SHARED.
 *
 * struct soma__slots is an array with a slot a thread index.  A slot's counters are written by the thread
 * that owns it alone, with plain stores, and read by anybody; those of the shared slot by read-modify-write.
 * soma__count() knows the difference.
 */
#ifndef SOMA_LIB_RESOURCE_THREAD_H
#define SOMA_LIB_RESOURCE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <soma/status.h>

#include "lib/arena/arena.h"

#define SOMA__THREADS_OWNING 240u
#define SOMA__THREAD_SHARED 255u

#define SOMA__SLOT_CHUNK 16u

struct soma__self {
	uint32_t index; /* + 1; 0: none yet */
	uint32_t tag;   /* on top of the thread's stack */
};

extern _Thread_local struct soma__self soma__self;

unsigned soma__thread_join(void);

static inline unsigned
soma__thread_index(void)
{
	uint32_t index = soma__self.index;

	return __builtin_expect(index != 0, 1) ? index - 1 : soma__thread_join();
}

/* ---- slots --------------------------------------------------------------------- */

/* What every slot begins with. */
struct soma__slot {
	bool shared;
};

struct soma__slots {
	struct soma__arena *arena;
	size_t slot_size; /* a multiple of 128: no two slots on one cache line */
	struct soma__slot *shared;
	void *_Atomic chunk[SOMA__THREADS_OWNING / SOMA__SLOT_CHUNK];
};

enum soma_status soma__slots_init(struct soma__slots *slots, struct soma__arena *arena, size_t slot_size);
void soma__slots_fini(struct soma__slots *slots);

/* The chunk of this index, made; the shared slot when there is no memory. */
struct soma__slot *soma__slots_make(struct soma__slots *slots, unsigned index);

/* slot_size is the caller's constant, so that this folds into a shift. */
static inline struct soma__slot *
soma__slots_get(struct soma__slots *slots, unsigned index, size_t slot_size)
{
	char *chunk;

	if (__builtin_expect(index == SOMA__THREAD_SHARED, 0))
		return slots->shared;
	chunk = atomic_load_explicit(&slots->chunk[index / SOMA__SLOT_CHUNK], memory_order_acquire);
	if (__builtin_expect(chunk == NULL, 0))
		return soma__slots_make(slots, index);
	return (struct soma__slot *)(void *)(chunk + index % SOMA__SLOT_CHUNK * slot_size);
}

/* The i-th slot that exists, from 0; the shared one comes last, then NULL.  *position starts at 0. */
struct soma__slot *soma__slots_next(struct soma__slots *slots, unsigned *position);

/* Adds to a counter of the calling thread's slot. */
static inline void
soma__count(bool shared, _Atomic uint64_t *counter, uint64_t delta)
{
	if (__builtin_expect(shared, 0)) {
		atomic_fetch_add_explicit(counter, delta, memory_order_release);
		return;
	}
	uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
	atomic_store_explicit(counter, value + delta, memory_order_release);
}

#endif

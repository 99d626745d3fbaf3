/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks: captured at alloc, free and use, each different one kept once, in a table
 * of bounded size.  Not symbolised here (symbols.h).
 *
 * A thread remembers the last stacks that it captured, with the places on its stack
 * where the return addresses lay.  If the caller is the same frame and all those
 * places hold the same, so is the stack: the place of each return address follows from the
 * one before it.  Where the places are not known the stack is unwound each time.
 *
 * Safe for concurrent use; the table has its own mutex.  stacks_frames() may be called
 * from a signal handler.
 */
#ifndef SOMA_BACKENDS_GUARD_STACKS_H
#define SOMA_BACKENDS_GUARD_STACKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

#define STACK_FRAMES_MAX 64u
#define STACK_NONE 0u

struct stack {
	uint64_t hash;
	uint32_t count;
	void *frame[];
};

struct stacks {
	const struct soma_backend_host *host;
	uint64_t serial; /* no other table's; memories of stacks are per table */
	uint32_t depth;
	pthread_mutex_t mutex; /* protects index, chunks, and adding to `entries` */
	uint32_t *index;       /* open addressing; 0: vacant */
	_Atomic(struct stack *) *entries;
	uint32_t count;
	struct stack_chunk *chunks;
};

/* False without memory. */
bool stacks_init(struct stacks *stacks, const struct soma_backend_host *host, uint32_t depth);
void stacks_fini(struct stacks *stacks);

/* The stack of whoever called the function whose frame it is.  STACK_NONE: none, or the table is full. */
uint32_t stacks_capture(struct stacks *stacks, void *frame);
#define STACKS_HERE(stacks) stacks_capture(stacks, __builtin_frame_address(0))

/* The return addresses, or 0 of them. */
uint32_t stacks_frames(struct stacks *stacks, uint32_t id, void *const **frames);

#endif

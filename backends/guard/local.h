/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each thread has of its own, for all guards: its number, the stacks that it
 * remembers, its stack for the handler of faults.  Under a pthread key, since a
 * module must not have thread-local variables; in pages of its own, which the
 * thread's end gives back.
 */
#ifndef SOMA_BACKENDS_GUARD_LOCAL_H
#define SOMA_BACKENDS_GUARD_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#define LOCAL_MEMORIES 16u
#define LOCAL_FRAMES 24u

/* See stacks.h. */
struct memory {
	uint64_t serial;
	void *frame;
	uint32_t id, count;
	void *pc[LOCAL_FRAMES];
	void **place[LOCAL_FRAMES];
};

struct local {
	uint32_t thread;
	bool prepared;     /* for faults */
	void *fault_stack; /* NULL: none, or the program's */
	struct memory memories[LOCAL_MEMORIES];
};

/* The calling thread's; NULL without memory or keys. */
struct local *local_get(void);

/* ---- fault.c ---- */
void fault_drop_stack(void *stack);

#endif

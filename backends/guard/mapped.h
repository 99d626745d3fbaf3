/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks in mappings of their own (mode=full): inaccessible addresses on both sides, the
 * pages taken away after the free, their addresses kept back so that a late access faults.
 * Blocks lie at the right and at the left of their pages in turn; slack is canaried.
 *
 * The addresses are the inner backend's spans where it has them, else anonymous mappings of the
 * process, which is for host memory only.
 *
 * On a device a wild access takes the whole context and the guard is told no address; who is told one, by the
 * system's log or by a debugger, looks it up in the file of guard.map, where a line is written before the
 * memory is there and one when it is gone.
 *
 * On host memory fault.c says what was hit when an access faults: it reads the slots
 * below, which are never given back, from the signal handler.
 *
 * mapped_alloc and mapped_free call the inner backend: no lock may be held.
 */
#ifndef SOMA_BACKENDS_GUARD_MAPPED_H
#define SOMA_BACKENDS_GUARD_MAPPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

struct block;

#define FAULT_SLOTS 1024u /* a chunk */
#define FAULT_CHUNKS 1024u
#define FAULT_NO_SLOT UINT32_MAX

/* What the signal handler knows of a block. */
struct fault_slot {
	_Atomic uint64_t range, range_size; /* range 0: vacant */
	_Atomic uint64_t ptr;               /* vacant: the number of the next vacant slot */
	_Atomic uint64_t size, generation;
	_Atomic uint32_t alloc_stack, free_stack;
	_Atomic bool freed;
};

struct mapped {
	bool on;
	uint64_t page;
	_Atomic uint64_t turn;  /* right, left; and the choice of blocks */
	_Atomic uint64_t bytes; /* resident */
	_Atomic(struct fault_slot *) chunks[FAULT_CHUNKS];
	_Atomic uint32_t slot_count; /* ever used; written under the guard's lock */
	uint32_t vacant;             /* the first; the guard's lock */
	int map;                     /* guard.map's file; -1: none */
};

enum soma_status mapped_open(struct soma_backend *g);
void mapped_close(struct soma_backend *g);

/* Whether a block of this size should have its own mapping. */
bool mapped_wants(struct soma_backend *g, uint64_t size);

/* Fills in the block's addresses.  False: there is no room for it; take it the other way. */
bool mapped_alloc(struct soma_backend *g, struct block *block, uint64_t alignment);

/* Takes the pages away and keeps the addresses; false: the backend failed. */
bool mapped_vacate(struct soma_backend *g, const struct block *block);
/* Gives the addresses back; false: the backend failed. */
bool mapped_release(struct soma_backend *g, const struct block *block);

/* The fault slot of a block, under the guard's lock. */
bool mapped_slot_take(struct soma_backend *g, struct block *block);
void mapped_slot_freed(struct soma_backend *g, const struct block *block);
void mapped_slot_give(struct soma_backend *g, const struct block *block);

/* ---- fault.c ---- */

/* Installs the handler once, for all guards; the guard's slots are looked at from now on. */
bool fault_enter(struct soma_backend *g);
void fault_leave(struct soma_backend *g);
/* Gives the calling thread a stack for the handler, once. */
void fault_prepare_thread(void);

#endif

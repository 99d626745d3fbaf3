/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal: the bottom of a resource stack, on an open backend.  It has the ledger, the streams,
 * the events and the pending frees of everything above it.
 *
 * Locks, each held for a short time and never over a backend call that may wait: a record in
 * hand (ledger.h), a stream's pending frees, the event pool, the quarantine's shards, the list of
 * decorators.  Only `pressing` is held over an owner's callback: by threads that are
 * out of memory, and by them alone.
 */
#ifndef SOMA_LIB_RESOURCE_TERMINAL_H
#define SOMA_LIB_RESOURCE_TERMINAL_H

#include <soma/backend.h>

#include "lib/resource/kept.h"
#include "lib/resource/ledger.h"
#include "lib/resource/resource.h"
#include "lib/resource/streams.h"

struct soma__uses;

struct soma__terminal {
	struct soma_resource base;
	const struct soma_backend_ops *ops;
	struct soma_backend *self;
	void (*closing)(void *context); /* before anything is taken apart */
	void (*closed)(void *context);  /* after the last call to the backend */
	void *context;
	uint64_t capabilities;
	bool ordered; /* frees take effect in stream order, and events say when */
	bool records; /* frees record their events themselves: the op free_recorded, where it is of use */
	bool keeps;   /* KEEPS_FREED */
	bool names;   /* USES */
	uint64_t alignment;
	int device;
	struct soma__arena *arena;
	struct soma__ledger ledger;
	struct soma__events events;
	struct soma__streams streams;
	struct soma__kept kept;
	_Atomic uint64_t reservations;         /* that exist */
	soma__resource_ending *_Atomic ending; /* NULL: nothing stands on the stack */

	pthread_mutex_t spare; /* what follows: lists of accesses for the next blocks that are used */
	struct soma__uses *spare_uses;
	uint32_t spare_count;

	pthread_mutex_t pressing; /* runs the owner's callback */
	pthread_mutex_t stack;    /* what follows, and callbacks in resources */
	struct soma_resource *decorators;
};

struct soma__terminal_config {
	uint64_t capabilities;             /* as the loader masked them; 0: what query says */
	struct soma_backend_inner backend; /* open; ops and self stay valid until closed() */
	int device;
	void (*closing)(void *context); /* NULL: nothing to do */
	void (*closed)(void *context);  /* the same */
	void *context;
};

enum soma_status soma__terminal_create(const struct soma__terminal_config *config,
				       struct soma_resource **resource);

/*
 * What the backend's host table calls as released() (<soma/backend.h>): memory
 * that free had kept has gone back.  `terminal` is what soma__terminal_create() made; NULL, while there is
 * none, does nothing.
 */
void soma__terminal_released(struct soma_resource *terminal, uint64_t ptr, uint64_t bytes);

/* Completes the free of a record that is the caller's: it is gone from the ledger and the budgets. */
void soma__terminal_gone(struct soma__terminal *terminal, struct soma__record *record);

/* Completes the frees that streams have passed; how many. */
uint64_t soma__terminal_reap(struct soma__terminal *terminal);

/* A name that cannot be claimed: tells a backend that makes reports of it, and records the error.
 * ptr 0: unknown. */
enum soma_status soma__terminal_stale(struct soma__terminal *terminal, struct soma_block_id block,
				      uint64_t ptr, enum soma_backend_access access, uint64_t stream);

/* The terminal's op: admission, the backend's call, the record. */
enum soma_status soma__terminal_materialize(struct soma_resource *resource, struct soma__call *call);

static inline bool
soma__terminal_can(const struct soma__terminal *terminal, uint64_t capability)
{
	return (terminal->capabilities & capability) == capability;
}

#endif

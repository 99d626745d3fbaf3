/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A budget's account: a limit, cut into credit that lies with threads.
 *
 * limit = central + promised + what each slot has (credit + returned - harvested) + what is
 * reserved by blocks.  Every byte of the limit is in exactly one of these, and moves by compare-and-swap or
 * exchange; a release is a plain store by the thread itself.  So admission is exact: a request is refused
 * only after everything that threads have kept was taken back.
 *
 * Not here: who is charged (lib/resource/ledger) and what is done about a shortage (pressure).
 * Everything may be called by any thread; `index` is the caller's thread index.
 */
#ifndef SOMA_LIB_RESOURCE_ACCOUNT_H
#define SOMA_LIB_RESOURCE_ACCOUNT_H

#include <pthread.h>

#include <soma/budget.h>

#include "lib/resource/thread.h"

struct soma__credit {
	struct soma__slot slot;
	_Atomic uint64_t credit;    /* to be taken; compare-and-swap */
	_Atomic uint64_t returned;  /* ever, by the owner: soma__count() */
	_Atomic uint64_t harvested; /* of returned; compare-and-swap */
} __attribute__((aligned(128)));

struct soma__account {
	uint64_t limit;
	struct soma__account *parent; /* charged as well */
	struct soma__slots slots;
	pthread_mutex_t gathering; /* so that two threads do not take each other's findings */
	_Atomic bool unlimited;    /* the budget is gone, its account stays */
	_Atomic uint64_t central __attribute__((aligned(128)));
	_Atomic uint64_t promised;
};

enum soma_status soma__account_init(struct soma__account *account, struct soma__arena *arena, uint64_t limit,
				    struct soma__account *parent);
void soma__account_fini(struct soma__account *account);

/* The rest of soma__account_take(). */
bool soma__account_take_slow(struct soma__account *account, unsigned index, uint64_t bytes,
			     uint64_t pressure);

static inline struct soma__credit *
soma__account_slot(struct soma__account *account, unsigned index)
{
	return (struct soma__credit *)soma__slots_get(&account->slots, index, sizeof(struct soma__credit));
}

/* The common case of take, in line: out of the thread's own credit.  False says nothing. */
static inline bool
soma__account_try(struct soma__account *account, unsigned index, uint64_t bytes, uint64_t pressure)
{
	struct soma__credit *slot = soma__account_slot(account, index);
	uint64_t credit = atomic_load_explicit(&slot->credit, memory_order_relaxed);

	return pressure == 0 && credit >= bytes &&
	       atomic_compare_exchange_strong_explicit(&slot->credit, &credit, credit - bytes,
						       memory_order_acq_rel, memory_order_relaxed);
}

/* Charges `bytes` if `bytes` + `pressure` fit; false: they do not.  Nothing is recorded. */
static inline bool
soma__account_take(struct soma__account *account, unsigned index, uint64_t bytes, uint64_t pressure)
{
	return soma__account_try(account, index, bytes, pressure) ||
	       soma__account_take_slow(account, index, bytes, pressure);
}

/* A request that can never be admitted. */
static inline bool
soma__account_refuses(struct soma__account *account, uint64_t bytes)
{
	return bytes > account->limit && !atomic_load_explicit(&account->unlimited, memory_order_relaxed);
}

/* Takes back a charge that came to nothing. */
static inline void
soma__account_undo(struct soma__account *account, unsigned index, uint64_t bytes)
{
	atomic_fetch_add_explicit(&soma__account_slot(account, index)->credit, bytes, memory_order_release);
}

/* Releases what was charged. */
static inline void
soma__account_give(struct soma__account *account, unsigned index, uint64_t bytes)
{
	struct soma__credit *slot = soma__account_slot(account, index);

	soma__count(slot->slot.shared, &slot->returned, bytes);
}

/* Exact when nothing moves. */
uint64_t soma__account_reserved(struct soma__account *account);
uint64_t soma__account_remaining(struct soma__account *account);
static inline uint64_t
soma__account_promised(const struct soma__account *account)
{
	return atomic_load_explicit(&account->promised, memory_order_acquire);
}

/* Whether what is charged to `first` and its parents is charged to this account. */
static inline bool
soma__account_is_charged(const struct soma__account *first, const struct soma__account *account)
{
	while (first != NULL && first != account)
		first = first->parent;
	return first != NULL;
}

/* What was charged becomes promised, and the other way round. */
void soma__account_promise(struct soma__account *account, uint64_t bytes);
void soma__account_draw(struct soma__account *account, uint64_t bytes);

/* The budget is gone while blocks are still charged to its account: from now on it admits everything. */
void soma__account_lift(struct soma__account *account);

#endif

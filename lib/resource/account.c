/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission.  The common case is one compare-and-swap on the thread's own credit (in the header).
 * Here is what happens when that is not enough: harvest what this thread released, refill from the central
 * part, and before a refusal take back what every thread has.  `gathering` is held
 * for that last step alone, and nothing is called under it.
 */
#include "lib/resource/account.h"

#include <string.h>

/* Credit that is taken from the central part along with a request, at most. */
#define REFILL_MAX ((uint64_t)1 << 20)

/* ... and at most this part of it, so that threads do not gather all of a small budget. */
#define REFILL_SHIFT 4

/* How often a refusal is looked at again because something was released meanwhile. */
#define GATHER_ROUNDS 16

enum soma_status
soma__account_init(struct soma__account *account, struct soma__arena *arena, uint64_t limit,
		   struct soma__account *parent)
{
	memset(account, 0, sizeof *account);
	account->limit = limit;
	account->parent = parent;
	atomic_init(&account->central, limit);
	if (soma__slots_init(&account->slots, arena, sizeof(struct soma__credit)) != SOMA_STATUS_OK)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	pthread_mutex_init(&account->gathering, NULL);
	return SOMA_STATUS_OK;
}

void
soma__account_fini(struct soma__account *account)
{
	pthread_mutex_destroy(&account->gathering);
	soma__slots_fini(&account->slots);
}

/* What was released in this slot and not counted as credit yet becomes the caller's. */
static uint64_t
harvest(struct soma__credit *slot)
{
	uint64_t from = atomic_load_explicit(&slot->harvested, memory_order_relaxed), to;

	do
		to = atomic_load_explicit(&slot->returned, memory_order_acquire);
	while (!atomic_compare_exchange_weak_explicit(&slot->harvested, &from, to, memory_order_acq_rel,
						      memory_order_relaxed));
	return to - from;
}

/* Up to `most`, and not less than `least`: 0 if that is not there. */
static uint64_t
take_between(_Atomic uint64_t *from, uint64_t least, uint64_t most)
{
	uint64_t have = atomic_load_explicit(from, memory_order_relaxed), part;

	do {
		if (have < least)
			return 0;
		part = have < most ? have : most;
	} while (!atomic_compare_exchange_weak_explicit(from, &have, have - part, memory_order_acq_rel,
							memory_order_relaxed));
	return part;
}

static bool
take_own(struct soma__credit *slot, uint64_t bytes)
{
	uint64_t more = harvest(slot);

	if (more > 0)
		atomic_fetch_add_explicit(&slot->credit, more, memory_order_release);
	return take_between(&slot->credit, bytes, bytes) == bytes;
}

static bool
refill(struct soma__account *account, struct soma__credit *slot, uint64_t bytes)
{
	uint64_t more = atomic_load_explicit(&account->central, memory_order_relaxed) >> REFILL_SHIFT;
	uint64_t part;

	more = more < REFILL_MAX ? more : REFILL_MAX;
	part = take_between(&account->central, bytes, bytes + more < bytes ? bytes : bytes + more);
	if (part > bytes)
		atomic_fetch_add_explicit(&slot->credit, part - bytes, memory_order_release);
	return part >= bytes && part != 0;
}

/* All that threads keep goes to the central part; the sum of what was ever released,
 * to see whether more came meanwhile. */
static uint64_t
gather(struct soma__account *account)
{
	uint64_t returned = 0;
	unsigned position = 0;

	for (struct soma__slot *s; (s = soma__slots_next(&account->slots, &position)) != NULL;) {
		struct soma__credit *slot = (struct soma__credit *)s;
		uint64_t found = harvest(slot);
		if (atomic_load_explicit(&slot->credit, memory_order_relaxed) != 0)
			found += atomic_exchange_explicit(&slot->credit, 0, memory_order_acq_rel);
		returned += atomic_load_explicit(&slot->returned, memory_order_relaxed);
		if (found > 0)
			atomic_fetch_add_explicit(&account->central, found, memory_order_acq_rel);
	}
	return returned;
}

static bool
take_central(struct soma__account *account, uint64_t bytes, uint64_t pressure)
{
	uint64_t have = atomic_load_explicit(&account->central, memory_order_relaxed);

	do {
		if (have < bytes || have - bytes < pressure)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&account->central, &have, have - bytes,
							memory_order_acq_rel, memory_order_relaxed));
	return true;
}

/* What a thread released while others were looked at would be missed: look again then. */
static bool
gather_and_take(struct soma__account *account, uint64_t bytes, uint64_t pressure)
{
	uint64_t before = 0, now;
	bool taken = false;

	pthread_mutex_lock(&account->gathering);
	for (int i = 0; i < GATHER_ROUNDS && !taken; i++) {
		now = gather(account);
		taken = take_central(account, bytes, pressure);
		if (i > 0 && now == before)
			break;
		before = now;
	}
	pthread_mutex_unlock(&account->gathering);
	return taken;
}

bool
soma__account_take_slow(struct soma__account *account, unsigned index, uint64_t bytes, uint64_t pressure)
{
	struct soma__credit *slot = soma__account_slot(account, index);

	if (soma__account_refuses(account, bytes))
		return false;
	if (pressure == 0 && (take_own(slot, bytes) || refill(account, slot, bytes)))
		return true;
	if (pressure != 0 && take_central(account, bytes, pressure))
		return true;
	return gather_and_take(account, bytes, pressure);
}

/* All that could ever be free is at most the limit, so this cannot overflow. */
void
soma__account_lift(struct soma__account *account)
{
	if (!atomic_exchange(&account->unlimited, true))
		atomic_fetch_add_explicit(&account->central, UINT64_MAX - account->limit,
					  memory_order_acq_rel);
}

/* What is free, without the promised part.  A moving account may look inconsistent. */
static uint64_t
available(struct soma__account *account)
{
	uint64_t sum = atomic_load_explicit(&account->central, memory_order_acquire);
	unsigned position = 0;

	for (struct soma__slot *s; (s = soma__slots_next(&account->slots, &position)) != NULL;) {
		struct soma__credit *slot = (struct soma__credit *)s;
		uint64_t harvested = atomic_load_explicit(&slot->harvested, memory_order_acquire);
		sum += atomic_load_explicit(&slot->credit, memory_order_acquire);
		sum += atomic_load_explicit(&slot->returned, memory_order_acquire) - harvested;
	}
	return sum;
}

uint64_t
soma__account_reserved(struct soma__account *account)
{
	uint64_t kept = available(account) + soma__account_promised(account);

	return kept < account->limit ? account->limit - kept : 0;
}

uint64_t
soma__account_remaining(struct soma__account *account)
{
	return account->limit - soma__account_reserved(account);
}

void
soma__account_promise(struct soma__account *account, uint64_t bytes)
{
	atomic_fetch_add_explicit(&account->promised, bytes, memory_order_acq_rel);
}

void
soma__account_draw(struct soma__account *account, uint64_t bytes)
{
	atomic_fetch_sub_explicit(&account->promised, bytes, memory_order_acq_rel);
}

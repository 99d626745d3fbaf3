/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block records: chunks that never move, so that a handle is an index.  Each thread keeps some free ones at
 * hand; `mutex` is for exchanging them in batches.  Generations grow with every block of a thread, of a
 * record and of an address (see soma__record_begin).
 */
#include <sched.h>

#include "lib/base/error.h"
#include "lib/resource/ledger.h"

/* How many free records a thread gets or gives at once. */
#define BATCH 64u

/* Under the mutex: a record that was never used, or NULL. */
static struct soma__record *
carve(struct soma__ledger *ledger)
{
	uint32_t index = atomic_load_explicit(&ledger->carved, memory_order_relaxed);
	uint32_t chunk = index / SOMA__RECORDS_CHUNK;
	struct soma__record *records;

	if (chunk >= SOMA__RECORDS_CHUNKS)
		return NULL;
	records = atomic_load_explicit(&ledger->chunks[chunk], memory_order_relaxed);
	if (records == NULL) {
		records = soma__arena_calloc(ledger->arena, SOMA__RECORDS_CHUNK * sizeof *records, 128);
		if (records == NULL)
			return NULL;
		atomic_store_explicit(&ledger->chunks[chunk], records, memory_order_release);
	}
	records[index % SOMA__RECORDS_CHUNK].index = index;
	atomic_store_explicit(&ledger->carved, index + 1, memory_order_release);
	return &records[index % SOMA__RECORDS_CHUNK];
}

static struct soma__record *
take_locked(struct soma__ledger *ledger)
{
	struct soma__record *record;

	if (ledger->free_head == 0)
		return carve(ledger);
	record = soma__record_at(ledger, ledger->free_head - 1);
	ledger->free_head = record->next_free;
	return record;
}

static void
put_locked(struct soma__ledger *ledger, struct soma__record *record)
{
	record->next_free = ledger->free_head;
	ledger->free_head = record->index + 1;
}

struct soma__record *
soma__record_take_batch(struct soma__ledger *ledger, struct soma__ledger_slot *slot)
{
	struct soma__record *record, *more;

	pthread_mutex_lock(&ledger->mutex);
	record = take_locked(ledger);
	for (unsigned i = 1; record != NULL && !slot->slot.shared && i < BATCH; i++) {
		more = take_locked(ledger);
		if (more == NULL)
			break;
		soma__record_put(ledger, slot, more);
	}
	pthread_mutex_unlock(&ledger->mutex);
	if (record == NULL)
		soma__fail(OUT_OF_HOST_MEMORY, "no memory for a block's record (%" PRIu64 " exist)",
			   atomic_load(&ledger->carved));
	return record;
}

void
soma__record_put_batch(struct soma__ledger *ledger, struct soma__ledger_slot *slot,
		       struct soma__record *record)
{
	pthread_mutex_lock(&ledger->mutex);
	put_locked(ledger, record);
	for (unsigned i = 1; !slot->slot.shared && i < BATCH; i++)
		put_locked(ledger, soma__record_take(ledger, slot));
	pthread_mutex_unlock(&ledger->mutex);
}

/* ---- generations ------------------------------------------------------------------ */

/* How far an owner may go on without asking again. */
#define STRIDE 1024

/* At least `generation`, and above what any other thread gave out for these addresses. */
static uint64_t
raise_ceiling(_Atomic uint64_t *bucket, unsigned index, uint64_t generation)
{
	uint64_t old = atomic_load_explicit(bucket, memory_order_acquire), ceiling, mine;

	do {
		ceiling = old >> SOMA__CLOCK_OWNER_BITS;
		mine = generation;
		if (index == SOMA__THREAD_SHARED || (old & SOMA__CLOCK_OWNER_MASK) != index) {
			mine = mine > ceiling ? mine : ceiling + 1;
			ceiling = mine;
		} else if (mine > ceiling) {
			ceiling = mine + STRIDE;
		}
	} while (!atomic_compare_exchange_weak_explicit(bucket, &old,
							ceiling << SOMA__CLOCK_OWNER_BITS | index,
							memory_order_acq_rel, memory_order_acquire));
	return mine;
}

static void
raise_clock(struct soma__ledger_slot *slot, uint64_t generation)
{
	uint64_t clock = atomic_load_explicit(&slot->clock, memory_order_relaxed);

	if (!slot->slot.shared) {
		if (generation > clock)
			atomic_store_explicit(&slot->clock, generation, memory_order_relaxed);
		return;
	}
	while (generation > clock &&
	       !atomic_compare_exchange_weak_explicit(&slot->clock, &clock, generation, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

uint64_t
soma__record_next_slow(struct soma__ledger *ledger, struct soma__ledger_slot *slot, unsigned index,
		       uint64_t ptr, uint64_t generation)
{
	if (slot->slot.shared)
		index = SOMA__THREAD_SHARED;
	generation = raise_ceiling(soma__ledger_clock(ledger, ptr), index, generation);
	raise_clock(slot, generation);
	return generation;
}

/* ---- finding ------------------------------------------------------------------------- */

enum soma_status
soma__record_refuse(struct soma__ledger *ledger, struct soma_block_id block)
{
	struct soma__record *record = soma__record_of(ledger, block.handle);

	if (record == NULL)
		return soma__fail(INVALID_VALUE, "no block of this stack: handle 0x%" PRIx64, block.handle);
	if (block.generation > soma__record_generation(record) || block.generation == 0)
		return soma__fail(INVALID_VALUE,
				  "no block of this stack: handle 0x%" PRIx64 " has no generation %" PRIu64,
				  block.handle, block.generation);
	soma__fail(USE_AFTER_FREE, "the block of generation %" PRIu64 " was freed before", block.generation);
	soma__error_generation(block.generation);
	return SOMA_STATUS_USE_AFTER_FREE;
}

/* In these states nobody writes the address. */
uint64_t
soma__record_last_ptr(struct soma__ledger *ledger, struct soma_block_id block)
{
	uint64_t retired = block.generation << SOMA__STATE_BITS | SOMA__RECORD_RETIRED;
	uint64_t kept = block.generation << SOMA__STATE_BITS | SOMA__RECORD_QUARANTINED, ptr, word;
	struct soma__record *record = soma__record_of(ledger, block.handle);

	if (record == NULL)
		return 0;
	ptr = atomic_load_explicit(&record->ptr, memory_order_acquire);
	word = atomic_load_explicit(&record->word, memory_order_acquire);
	return word == retired || word == kept ? ptr : 0;
}

enum soma_status
soma__record_claim_slow(struct soma__ledger *ledger, struct soma_block_id block, enum soma__state state,
			struct soma__record **out)
{
	struct soma__record *record = soma__record_of(ledger, block.handle);
	uint64_t live = block.generation << SOMA__STATE_BITS | SOMA__RECORD_LIVE;
	uint64_t busy = block.generation << SOMA__STATE_BITS | SOMA__RECORD_BUSY, word = live;

	if (record == NULL)
		return soma__record_refuse(ledger, block);
	while (!atomic_compare_exchange_strong_explicit(&record->word, &word,
							block.generation << SOMA__STATE_BITS | state,
							memory_order_acquire, memory_order_acquire)) {
		if (word != busy)
			return soma__record_refuse(ledger, block);
		sched_yield();
		word = live;
	}
	*out = record;
	return SOMA_STATUS_OK;
}

bool
soma__records_none(struct soma__ledger *ledger, const struct soma_resource *via)
{
	uint32_t count = atomic_load_explicit(&ledger->carved, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++) {
		struct soma__record *record = soma__record_at(ledger, i);
		const struct soma_resource *found = atomic_load_explicit(&record->via, memory_order_acquire);
		if (found != NULL && (via == NULL || found == via))
			return false;
	}
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: one a terminal.  It has the block records, and counts what is live and
 * retired, in all and by tag.
 *
 * Counters only grow: what is live is what was allocated minus what was freed, so nothing can
 * underflow, and a reader that sums the later stage first never sees more freed
 * than allocated.  Each thread counts in its own slot; the sums are exact when no call is
 * under way.
 *
 * Records are found by a handle (ledger, index); a record's generation only grows, so a stale
 * handle is found out.  A record's `word` is its generation and state; whoever moves it
 * from LIVE to BUSY or CLOSING has the record to itself until it stores another state.
 * Everything may be called by any thread; nothing here calls a backend.
 */
#ifndef SOMA_LIB_RESOURCE_LEDGER_H
#define SOMA_LIB_RESOURCE_LEDGER_H

#include <pthread.h>

#include <soma/resource.h>

#include "lib/resource/account.h"
#include "lib/resource/thread.h"

/* ---- records ------------------------------------------------------------------ */

enum soma__state {
	SOMA__RECORD_FREE,
	SOMA__RECORD_LIVE,
	SOMA__RECORD_BUSY,    /* live, and a thread has its uses or its tag in hand */
	SOMA__RECORD_CLOSING, /* being freed */
	SOMA__RECORD_RETIRED,
	SOMA__RECORD_QUARANTINED,
};

#define SOMA__STATE_BITS 3
#define SOMA__STATE_MASK ((1u << SOMA__STATE_BITS) - 1)

struct soma__uses;
struct soma__event;

struct soma__record {
	_Atomic uint64_t word; /* generation << SOMA__STATE_BITS | enum soma__state */
	_Atomic uint64_t ptr;  /* atomic for soma__record_last_ptr() alone */
	uint64_t bytes;
	uint64_t stream;
	struct soma__account *tenant;      /* charged, with its parents; NULL: none */
	struct soma__account *domain;      /* the same for the budgets in the ledger */
	struct soma_resource *_Atomic via; /* where the request came in; NULL last of all */
	struct soma__uses *uses;           /* BUSY or CLOSING */
	struct soma__event *passed;        /* retired: done when its stream is past the free */
	struct soma__record *queued;       /* retired or quarantined: the next one; free: unused */
	uint32_t index;
	uint32_t next_free; /* index + 1 in a list of free ones */
	uint32_t tag;       /* BUSY or CLOSING */
	uint8_t untraced;   /* traces that do not have its alloc: a bit each */
	bool waits_release; /* quarantine: free has not returned yet */
	bool released;      /* ... and it was released meanwhile */
	bool told;          /* ... and the traces know */
	bool part;          /* parts.h; does not change while it is in use */
} __attribute__((aligned(128)));

/* ---- the ledger ---------------------------------------------------------------- */

/* Free records that a thread keeps. */
#define SOMA__RECORDS_AT_HAND 256u

#define SOMA__TAGS_CHUNK 64u
#define SOMA__RECORDS_CHUNK 1024u
#define SOMA__RECORDS_CHUNKS 32768u
#define SOMA__CLOCK_BUCKETS 256u
#define SOMA__CLOCK_OWNER_BITS 8
#define SOMA__CLOCK_OWNER_MASK ((1u << SOMA__CLOCK_OWNER_BITS) - 1)

struct soma__tag_counts {
	_Atomic uint64_t alloc_bytes, alloc_count, free_bytes, free_count;
};

struct soma__ledger_slot {
	struct soma__slot slot;
	_Atomic uint64_t clock; /* the thread's latest generation */
	uint32_t free_head;     /* records at hand: index + 1; the owner alone */
	uint32_t free_count;
	_Atomic uint64_t alloc_bytes, alloc_count, free_bytes, free_count_ever;
	/* Of frees that took effect later: what became retired, and what no longer is. */
	_Atomic uint64_t retired_bytes, retired_count, gone_bytes, gone_count;
	struct soma__tag_counts *_Atomic tags[SOMA_TAG_COUNT_MAX / SOMA__TAGS_CHUNK];
} __attribute__((aligned(128)));

struct soma__ledger {
	uint32_t id; /* in every handle: no other ledger's */
	struct soma__arena *arena;
	struct soma__slots slots;
	struct soma__account *_Atomic domain; /* the latest budget that was installed; then its parents */
	struct soma__tag_counts *shared_tags; /* all tags: for the shared slot, and without memory */

	/*
	 * By address: ceiling << SOMA__CLOCK_OWNER_BITS | owner.  Every generation that was given out for the
	 * addresses of a bucket is at most the ceiling, and the owner's are above the ceiling that it had
	 * before.  The owner goes on below its ceiling without writing, so that threads that reuse
	 * their own addresses do not meet.
	 */
	_Atomic uint64_t clocks[SOMA__CLOCK_BUCKETS];

	pthread_mutex_t mutex;                /* what follows */
	struct soma__record *_Atomic *chunks; /* SOMA__RECORDS_CHUNKS of them */
	_Atomic uint32_t carved;              /* records that exist */
	uint32_t free_head;                   /* free ones that no thread has at hand */
};

enum soma_status soma__ledger_init(struct soma__ledger *ledger, struct soma__arena *arena);
void soma__ledger_fini(struct soma__ledger *ledger);

static inline struct soma__ledger_slot *
soma__ledger_slot(struct soma__ledger *ledger, unsigned index)
{
	return (struct soma__ledger_slot *)soma__slots_get(&ledger->slots, index,
							   sizeof(struct soma__ledger_slot));
}

/* ---- records: taking, finding, giving back ---- */

static inline struct soma__record *
soma__record_at(struct soma__ledger *ledger, uint32_t index)
{
	struct soma__record *chunk =
		atomic_load_explicit(&ledger->chunks[index / SOMA__RECORDS_CHUNK], memory_order_acquire);

	return &chunk[index % SOMA__RECORDS_CHUNK];
}

/* The rest of take and put: exchanging records with other threads. */
struct soma__record *soma__record_take_batch(struct soma__ledger *ledger, struct soma__ledger_slot *slot);
void soma__record_put_batch(struct soma__ledger *ledger, struct soma__ledger_slot *slot,
			    struct soma__record *record);

/* A free record for the caller alone; NULL without memory, with the error recorded. */
static inline struct soma__record *
soma__record_take(struct soma__ledger *ledger, struct soma__ledger_slot *slot)
{
	if (__builtin_expect(slot->free_head == 0, 0))
		return soma__record_take_batch(ledger, slot);
	struct soma__record *record = soma__record_at(ledger, slot->free_head - 1);
	slot->free_head = record->next_free;
	slot->free_count--;
	return record;
}

static inline void
soma__record_put(struct soma__ledger *ledger, struct soma__ledger_slot *slot, struct soma__record *record)
{
	if (__builtin_expect(slot->slot.shared || slot->free_count >= SOMA__RECORDS_AT_HAND, 0)) {
		soma__record_put_batch(ledger, slot, record);
		return;
	}
	record->next_free = slot->free_head;
	slot->free_head = record->index + 1;
	slot->free_count++;
}

/* The record of a handle of this ledger; NULL: it is none. */
static inline struct soma__record *
soma__record_of(struct soma__ledger *ledger, uint64_t handle)
{
	uint32_t index = (uint32_t)handle - 1;

	if (handle >> 32 != ledger->id ||
	    index >= atomic_load_explicit(&ledger->carved, memory_order_acquire))
		return NULL;
	return soma__record_at(ledger, index);
}

static inline uint64_t
soma__record_handle(const struct soma__ledger *ledger, const struct soma__record *record)
{
	return (uint64_t)ledger->id << 32 | (record->index + 1);
}

/* The rest of claim: says why not, or waits for who has the record in hand. */
enum soma_status soma__record_claim_slow(struct soma__ledger *ledger, struct soma_block_id block,
					 enum soma__state state, struct soma__record **record);

/*
 * Moves a live record of this name to `state` (BUSY or CLOSING), for the caller alone.  USE_AFTER_FREE: it
 * was freed before; INVALID_VALUE: never a block here.  Waits while another thread has it in hand,
 * which is for a few instructions.
 */
static inline enum soma_status
soma__record_claim(struct soma__ledger *ledger, struct soma_block_id block, enum soma__state state,
		   struct soma__record **out)
{
	struct soma__record *record = soma__record_of(ledger, block.handle);
	uint64_t word = block.generation << SOMA__STATE_BITS | SOMA__RECORD_LIVE;

	if (__builtin_expect(record == NULL, 0) ||
	    !atomic_compare_exchange_strong_explicit(&record->word, &word,
						     block.generation << SOMA__STATE_BITS | state,
						     memory_order_acquire, memory_order_relaxed))
		return soma__record_claim_slow(ledger, block, state, out);
	*out = record;
	return SOMA_STATUS_OK;
}

/* The record is the caller's; its generation stays. */
static inline void
soma__record_set(struct soma__record *record, enum soma__state state)
{
	uint64_t word = atomic_load_explicit(&record->word, memory_order_relaxed);

	atomic_store_explicit(&record->word, (word & ~(uint64_t)SOMA__STATE_MASK) | state,
			      memory_order_release);
}

static inline uint64_t
soma__record_generation(const struct soma__record *record)
{
	return atomic_load_explicit(&record->word, memory_order_relaxed) >> SOMA__STATE_BITS;
}

/* The rest of begin: an address that another thread had, or a ceiling that is reached. */
uint64_t soma__record_next_slow(struct soma__ledger *ledger, struct soma__ledger_slot *slot, unsigned index,
				uint64_t ptr, uint64_t generation);

static inline _Atomic uint64_t *
soma__ledger_clock(struct soma__ledger *ledger, uint64_t ptr)
{
	return &ledger->clocks[(ptr >> 8) * 0x9e3779b97f4a7c15u >> 56];
}

/* Gives it its generation, above all others of this thread, this record and this address, and makes
 * it LIVE; returns the generation. */
static inline uint64_t
soma__record_begin(struct soma__ledger *ledger, struct soma__ledger_slot *slot, unsigned index,
		   struct soma__record *record)
{
	uint64_t generation = atomic_load_explicit(&slot->clock, memory_order_relaxed);
	uint64_t last = soma__record_generation(record);
	uint64_t clock = atomic_load_explicit(soma__ledger_clock(ledger, record->ptr), memory_order_acquire);

	generation = (generation > last ? generation : last) + 1;
	if (__builtin_expect(slot->slot.shared || (clock & SOMA__CLOCK_OWNER_MASK) != index ||
				     generation > clock >> SOMA__CLOCK_OWNER_BITS,
			     0))
		generation = soma__record_next_slow(ledger, slot, index, record->ptr, generation);
	else
		atomic_store_explicit(&slot->clock, generation, memory_order_relaxed);
	atomic_store_explicit(&record->word, generation << SOMA__STATE_BITS | SOMA__RECORD_LIVE,
			      memory_order_release);
	return generation;
}

/* Records why this name cannot be claimed. */
enum soma_status soma__record_refuse(struct soma__ledger *ledger, struct soma_block_id block);

/* The address of a retired block; 0: it is gone, or was none. */
uint64_t soma__record_last_ptr(struct soma__ledger *ledger, struct soma_block_id block);

/* Whether no record that is in use came in by `via`; NULL: by anything. */
bool soma__records_none(struct soma__ledger *ledger, const struct soma_resource *via);

/* ---- counting ---- */

/* Where the slot counts this tag; *shared: others count there, too. */
struct soma__tag_counts *soma__ledger_make_tags(struct soma__ledger *ledger, struct soma__ledger_slot *slot,
						uint32_t tag, bool *shared);

static inline struct soma__tag_counts *
soma__ledger_tag(struct soma__ledger *ledger, struct soma__ledger_slot *slot, uint32_t tag, bool *shared)
{
	struct soma__tag_counts *chunk =
		atomic_load_explicit(&slot->tags[tag / SOMA__TAGS_CHUNK], memory_order_relaxed);

	if (__builtin_expect(chunk == NULL, 0))
		return soma__ledger_make_tags(ledger, slot, tag, shared);
	*shared = false;
	return &chunk[tag % SOMA__TAGS_CHUNK];
}

static inline void
soma__ledger_count_alloc(struct soma__ledger *ledger, struct soma__ledger_slot *slot, uint64_t bytes,
			 uint32_t tag)
{
	bool shared_slot = slot->slot.shared, shared;
	struct soma__tag_counts *counts = soma__ledger_tag(ledger, slot, tag, &shared);

	soma__count(shared_slot, &slot->alloc_count, 1);
	soma__count(shared_slot, &slot->alloc_bytes, bytes);
	soma__count(shared, &counts->alloc_count, 1);
	soma__count(shared, &counts->alloc_bytes, bytes);
}

/* A block is no longer live. */
static inline void
soma__ledger_count_free(struct soma__ledger *ledger, struct soma__ledger_slot *slot, uint64_t bytes,
			uint32_t tag)
{
	bool shared_slot = slot->slot.shared, shared;
	struct soma__tag_counts *counts = soma__ledger_tag(ledger, slot, tag, &shared);

	soma__count(shared_slot, &slot->free_count_ever, 1);
	soma__count(shared_slot, &slot->free_bytes, bytes);
	soma__count(shared, &counts->free_count, 1);
	soma__count(shared, &counts->free_bytes, bytes);
}

/* A block becomes retired: to be counted before it is counted as freed, so that it is never missing from
 * the sum ... */
static inline void
soma__ledger_count_retired(struct soma__ledger_slot *slot, uint64_t bytes)
{
	soma__count(slot->slot.shared, &slot->retired_count, 1);
	soma__count(slot->slot.shared, &slot->retired_bytes, bytes);
}

/* ... and is no longer retired. */
static inline void
soma__ledger_count_gone(struct soma__ledger_slot *slot, uint64_t bytes)
{
	soma__count(slot->slot.shared, &slot->gone_count, 1);
	soma__count(slot->slot.shared, &slot->gone_bytes, bytes);
}

/* A live block moves from one tag to another. */
void soma__ledger_count_move(struct soma__ledger *ledger, struct soma__ledger_slot *slot, uint64_t bytes,
			     uint32_t from, uint32_t to);

void soma__ledger_sum(struct soma__ledger *ledger, struct soma_ledger *sum);
uint64_t soma__ledger_outstanding(struct soma__ledger *ledger);
void soma__ledger_sum_tag(struct soma__ledger *ledger, uint32_t tag, struct soma_tag_account *sum);

/* The budgets' side of a block's end. */
static inline void
soma__accounts_give(struct soma__account *account, unsigned index, uint64_t bytes)
{
	for (; account != NULL; account = account->parent)
		soma__account_give(account, index, bytes);
}

#endif

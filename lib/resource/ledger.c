/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger's counters.  A thread adds to its own slot; sums read the stages from the last to the first,
 * so that what was freed is never more than what was allocated, nor what is gone more than what was
 * retired.  The records are in records.c.
 */
#include "lib/resource/ledger.h"

#include <string.h>

static _Atomic uint32_t ledger_ids;

enum soma_status
soma__ledger_init(struct soma__ledger *ledger, struct soma__arena *arena)
{
	memset(ledger, 0, sizeof *ledger);
	ledger->arena = arena;
	ledger->id = atomic_fetch_add(&ledger_ids, 1) + 1;
	if (soma__slots_init(&ledger->slots, arena, sizeof(struct soma__ledger_slot)) != SOMA_STATUS_OK)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	ledger->shared_tags =
		soma__arena_calloc(arena, SOMA_TAG_COUNT_MAX * sizeof(struct soma__tag_counts), 64);
	ledger->chunks = soma__arena_calloc(arena, SOMA__RECORDS_CHUNKS * sizeof *ledger->chunks, 64);
	if (ledger->shared_tags == NULL || ledger->chunks == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	pthread_mutex_init(&ledger->mutex, NULL);
	return SOMA_STATUS_OK;
}

/* Its memory goes with the arena. */
void
soma__ledger_fini(struct soma__ledger *ledger)
{
	pthread_mutex_destroy(&ledger->mutex);
}

/* ---- by tag ------------------------------------------------------------------- */

struct soma__tag_counts *
soma__ledger_make_tags(struct soma__ledger *ledger, struct soma__ledger_slot *slot, uint32_t tag,
		       bool *shared)
{
	struct soma__tag_counts *chunk = NULL;

	if (!slot->slot.shared)
		chunk = soma__arena_calloc(ledger->arena, SOMA__TAGS_CHUNK * sizeof *chunk, 64);
	*shared = chunk == NULL;
	if (chunk == NULL)
		return &ledger->shared_tags[tag];
	atomic_store_explicit(&slot->tags[tag / SOMA__TAGS_CHUNK], chunk, memory_order_release);
	return &chunk[tag % SOMA__TAGS_CHUNK];
}

static void
add_tag(const struct soma__tag_counts *counts, struct soma_tag_account *sum)
{
	uint64_t freed_bytes = atomic_load_explicit(&counts->free_bytes, memory_order_acquire);
	uint64_t freed = atomic_load_explicit(&counts->free_count, memory_order_acquire);

	sum->live_count -= freed;
	sum->live_bytes -= freed_bytes;
	uint64_t allocated = atomic_load_explicit(&counts->alloc_count, memory_order_acquire);
	sum->live_count += allocated;
	sum->alloc_count += allocated;
	sum->live_bytes += atomic_load_explicit(&counts->alloc_bytes, memory_order_acquire);
}

void
soma__ledger_sum_tag(struct soma__ledger *ledger, uint32_t tag, struct soma_tag_account *sum)
{
	unsigned position = 0;

	*sum = (struct soma_tag_account){ .tag = tag };
	for (struct soma__slot *s; (s = soma__slots_next(&ledger->slots, &position)) != NULL;) {
		struct soma__ledger_slot *slot = (struct soma__ledger_slot *)s;
		struct soma__tag_counts *chunk =
			atomic_load_explicit(&slot->tags[tag / SOMA__TAGS_CHUNK], memory_order_acquire);
		if (chunk != NULL)
			add_tag(&chunk[tag % SOMA__TAGS_CHUNK], sum);
	}
	add_tag(&ledger->shared_tags[tag], sum);
	/* Threads that move blocks while we add may make it look negative. */
	if ((int64_t)sum->live_bytes < 0)
		sum->live_bytes = 0;
	if ((int64_t)sum->live_count < 0)
		sum->live_count = 0;
}

/* ---- in all --------------------------------------------------------------------- */

void
soma__ledger_count_move(struct soma__ledger *ledger, struct soma__ledger_slot *slot, uint64_t bytes,
			uint32_t from, uint32_t to)
{
	bool shared;
	struct soma__tag_counts *counts = soma__ledger_tag(ledger, slot, to, &shared);

	soma__count(shared, &counts->alloc_count, 1);
	soma__count(shared, &counts->alloc_bytes, bytes);
	counts = soma__ledger_tag(ledger, slot, from, &shared);
	soma__count(shared, &counts->free_count, 1);
	soma__count(shared, &counts->free_bytes, bytes);
}

#define SUM(ledger, field)                                                                                   \
	({                                                                                                   \
		uint64_t sum_ = 0;                                                                           \
		unsigned position_ = 0;                                                                      \
		for (struct soma__slot * s_; (s_ = soma__slots_next(&(ledger)->slots, &position_)) != NULL;) \
			sum_ += atomic_load_explicit(&((struct soma__ledger_slot *)s_)->field,               \
						     memory_order_acquire);                                  \
		sum_;                                                                                        \
	})

void
soma__ledger_sum(struct soma__ledger *ledger, struct soma_ledger *sum)
{
	uint64_t gone_bytes = SUM(ledger, gone_bytes), gone = SUM(ledger, gone_count);
	uint64_t freed_bytes = SUM(ledger, free_bytes), freed = SUM(ledger, free_count_ever);

	sum->retired_bytes = SUM(ledger, retired_bytes) - gone_bytes;
	sum->retired_count = SUM(ledger, retired_count) - gone;
	sum->alloc_count = SUM(ledger, alloc_count);
	sum->free_count = freed;
	sum->live_bytes = SUM(ledger, alloc_bytes) - freed_bytes;
	sum->live_count = sum->alloc_count - freed;
}

uint64_t
soma__ledger_outstanding(struct soma__ledger *ledger)
{
	uint64_t gone = SUM(ledger, gone_bytes), freed = SUM(ledger, free_bytes);
	uint64_t retired = SUM(ledger, retired_bytes) - gone;

	return SUM(ledger, alloc_bytes) - freed + retired;
}

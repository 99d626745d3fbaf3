/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation and free at the bottom of the stack: admission, the backend's call, the record, and
 * the way of a free from live over retired or quarantined to gone.
 * Locking: see the header; a record that is being freed belongs to the thread that claimed it.
 */
#include "lib/resource/terminal.h"

#include <string.h>

#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/resource/order.h"
#include "lib/resource/uses.h"

/* When so many frees are pending on a stream, a free looks whether some are done. */
#define REAP_AT 64

static struct soma__terminal *
terminal_of(struct soma_resource *resource)
{
	return (struct soma__terminal *)resource;
}

/* ---- admission ------------------------------------------------------------------- */

/* In line: no budget, and one budget whose credit is at hand. */
static inline enum soma_status
admit(struct soma__terminal *terminal, struct soma__call *call)
{
	struct soma__account *domain;

	if (call->prepaid)
		return SOMA_STATUS_OK;
	domain = call->domain = atomic_load_explicit(&terminal->ledger.domain, memory_order_acquire);
	if (call->tenant == NULL &&
	    (domain == NULL ||
	     (domain->parent == NULL && soma__account_try(domain, call->index, call->bytes, call->pressure))))
		return SOMA_STATUS_OK;
	return soma__accounts_take(call->tenant, domain, call);
}

static void
undo_admission(struct soma__call *call)
{
	if (call->prepaid)
		return;
	soma__accounts_undo(call->tenant, NULL, call);
	soma__accounts_undo(call->domain, NULL, call);
}

/* ---- allocation -------------------------------------------------------------------- */

static inline void
fill_record(struct soma__record *record, const struct soma__call *call, uint64_t ptr)
{
	atomic_store_explicit(&record->ptr, ptr, memory_order_relaxed);
	record->bytes = call->bytes;
	record->stream = call->stream;
	record->tenant = call->tenant;
	record->domain = call->domain;
	record->tag = call->tag;
	record->untraced = 0;
	atomic_store_explicit(&record->via, call->via, memory_order_relaxed);
}

static void
name_block(struct soma__terminal *terminal, const struct soma__record *record, uint64_t generation)
{
	if (terminal->ops->block_name(terminal->self, record->ptr, generation, soma_tag_name(record->tag)) !=
	    SOMA_STATUS_OK)
		soma__log(SOMA_LOG_DEBUG, "the backend took no name for 0x%" PRIx64, record->ptr);
}

static inline enum soma_status
allocate(struct soma__terminal *terminal, struct soma__call *call, struct soma__ledger_slot *slot)
{
	struct soma__record *record = soma__record_take(&terminal->ledger, slot);
	struct soma__stream *stream;
	enum soma_status status;
	uint64_t ptr, generation;

	if (record == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = soma__stream_open(&terminal->streams, call->stream, &stream);
	if (status == SOMA_STATUS_OK)
		status = terminal->ops->alloc(terminal->self, call->bytes, call->alignment, stream->handle,
					      &ptr);
	if (status != SOMA_STATUS_OK) {
		soma__record_put(&terminal->ledger, slot, record);
		return status;
	}
	fill_record(record, call, ptr);
	generation = soma__record_begin(&terminal->ledger, slot, call->index, record);
	if (terminal->names)
		name_block(terminal, record, generation);
	soma__ledger_count_alloc(&terminal->ledger, slot, call->bytes, call->tag);
	call->record = record;
	return SOMA_STATUS_OK;
}

enum soma_status
soma__terminal_materialize(struct soma_resource *resource, struct soma__call *call)
{
	struct soma__terminal *terminal = terminal_of(resource);
	enum soma_status status = admit(terminal, call);

	if (status != SOMA_STATUS_OK)
		return status;
	status = allocate(terminal, call, soma__ledger_slot(&terminal->ledger, call->index));
	if (status != SOMA_STATUS_OK)
		undo_admission(call);
	return status;
}

/* ---- free --------------------------------------------------------------------------- */

/* A block on its way out, by the thread that frees it. */
struct leaving {
	struct soma__terminal *terminal;
	struct soma__record *record;
	uint64_t own;                /* the id of the block's stream: a free may name another one */
	struct soma__stream *stream; /* of the free; NULL: it is gone, and all its work done */
	struct soma__ledger_slot *slot;
	unsigned index;
};

static inline struct leaving
leaving(struct soma__terminal *terminal, struct soma__record *record)
{
	unsigned index = soma__thread_index();

	return (struct leaving){ .terminal = terminal,
				 .record = record,
				 .own = record->stream,
				 .slot = soma__ledger_slot(&terminal->ledger, index),
				 .index = index };
}

/* The record's last moment: `via` is cleared when nothing of the stack is touched any more. */
static inline __attribute__((always_inline)) void
finish_record(const struct leaving *l)
{
	struct soma__record *record = l->record;

	soma__accounts_give(record->tenant, l->index, record->bytes);
	soma__accounts_give(record->domain, l->index, record->bytes);
	soma__record_set(record, SOMA__RECORD_FREE);
	atomic_store_explicit(&record->via, NULL, memory_order_release);
	soma__record_put(&l->terminal->ledger, l->slot, record);
}

static void
tell_completed(const struct soma__record *record)
{
	soma__resource_tell(atomic_load_explicit(&record->via, memory_order_relaxed), SOMA__COMPLETED, record,
			    true);
}

static inline void
complete_leaving(const struct leaving *l)
{
	soma__ledger_count_gone(l->slot, l->record->bytes);
	finish_record(l);
}

static void
complete(struct soma__terminal *terminal, struct soma__record *record)
{
	const struct leaving l = leaving(terminal, record);

	complete_leaving(&l);
}

void
soma__terminal_gone(struct soma__terminal *terminal, struct soma__record *record)
{
	tell_completed(record);
	complete(terminal, record);
}

static inline void
count_free(const struct leaving *l, bool retired)
{
	if (retired)
		soma__ledger_count_retired(l->slot, l->record->bytes);
	soma__ledger_count_free(&l->terminal->ledger, l->slot, l->record->bytes, l->record->tag);
}

/* As it was. */
static void
revive(const struct leaving *l)
{
	l->record->stream = l->own;
	soma__record_set(l->record, SOMA__RECORD_LIVE);
}

static void
restore(const struct leaving *l)
{
	const struct soma__record *record = l->record;

	soma__resource_tell(atomic_load_explicit(&record->via, memory_order_relaxed), SOMA__RESTORED, record,
			    false);
	revive(l);
}

static inline enum soma_status
call_free(const struct leaving *l)
{
	struct soma__terminal *terminal = l->terminal;

	return terminal->ops->free(terminal->self, l->record->ptr, l->record->bytes,
				   l->stream != NULL ? l->stream->handle : NULL);
}

/* The backend may release the block before free returns, on any thread. */
static enum soma_status
free_kept(const struct leaving *l)
{
	struct soma__kept *kept = &l->terminal->kept;
	enum soma_status status;

	soma__kept_add(kept, l->record);
	status = call_free(l);
	if (status != SOMA_STATUS_OK) {
		(void)soma__kept_through(kept, l->record, true);
		restore(l);
		return status;
	}
	soma__uses_clear(l->terminal, l->record);
	count_free(l, true);
	soma__record_set(l->record, SOMA__RECORD_QUARANTINED);
	if (soma__kept_through(kept, l->record, false))
		complete(l->terminal, l->record);
	return SOMA_STATUS_OK;
}

static void
reap_stream(struct soma__terminal *terminal, struct soma__stream *stream, uint64_t *count)
{
	struct soma__record *next = soma__stream_passed(&terminal->streams, stream);
	struct leaving l;

	if (next == NULL)
		return;
	for (l = leaving(terminal, next); next != NULL; (*count)++) {
		l.record = next;
		next = next->queued;
		tell_completed(l.record);
		complete_leaving(&l);
	}
}

/* The backend has taken the free. */
static inline void
count_done(const struct leaving *l, bool retired)
{
	if (__builtin_expect(l->record->uses != NULL, 0))
		soma__uses_clear(l->terminal, l->record);
	count_free(l, retired);
	if (retired)
		soma__record_set(l->record, SOMA__RECORD_RETIRED);
}

static inline enum soma_status
free_at_once(const struct leaving *l)
{
	enum soma_status status = call_free(l);

	if (__builtin_expect(status != SOMA_STATUS_OK, 0)) {
		restore(l);
		return status;
	}
	count_done(l, false);
	finish_record(l);
	return SOMA_STATUS_OK;
}

/* Only when the free is queued is the record where a reap can see it. */
static inline enum soma_status
end_deferred(const struct leaving *l, enum soma_status status)
{
	uint64_t count = 0;

	if (__builtin_expect(status != SOMA_STATUS_OK, 0)) {
		restore(l);
		return status;
	}
	if (atomic_load_explicit(&l->stream->pending_count, memory_order_relaxed) % REAP_AT == 0)
		reap_stream(l->terminal, l->stream, &count);
	return SOMA_STATUS_OK;
}

static enum soma_status
free_deferred(const struct leaving *l)
{
	enum soma_status status = call_free(l);

	if (status == SOMA_STATUS_OK) {
		count_done(l, true);
		soma__stream_retire(&l->terminal->streams, l->stream, l->record);
	}
	return end_deferred(l, status);
}

/* Between soma__stream_free_begin() and its end: so the pending frees are in the order of their events. */
static inline enum soma_status
free_recorded(const struct leaving *l, struct soma__event *event)
{
	struct soma__terminal *terminal = l->terminal;
	struct soma__record *record = l->record;
	bool recorded = false;
	enum soma_status status =
		event == NULL ? call_free(l)
			      : terminal->ops->free_recorded(terminal->self, record->ptr, record->bytes,
							     l->stream->handle, event->handle, &recorded);

	if (status == SOMA_STATUS_OK)
		count_done(l, true);
	else
		record = NULL;
	soma__stream_free_end(&terminal->streams, l->stream, record, event, recorded);
	return end_deferred(l, status);
}

/* Nothing can be queued on the block's stream any more: the host waits for its work. */
static __attribute__((noinline)) enum soma_status
wait_for_gone(struct soma__terminal *terminal, struct soma__record *record)
{
	struct soma__event *event;
	enum soma_status status = soma__stream_now(&terminal->streams, record->stream, &event);

	if (status == SOMA_STATUS_OK && event != NULL)
		status = terminal->ops->event_synchronize(terminal->self, event->handle);
	soma__event_drop(&terminal->events, event);
	return status;
}

/* What must come before the free: l->stream is found, pinned, and waits for the block's uses. */
static inline enum soma_status
order_free(struct leaving *l)
{
	struct soma__stream *stream = soma__stream_find(&l->terminal->streams, l->record->stream);
	enum soma_status status = SOMA_STATUS_OK;

	if (stream != NULL && soma__stream_pin(&l->terminal->streams, stream, l->record->stream))
		l->stream = stream;
	else
		status = wait_for_gone(l->terminal, l->record);
	if (status == SOMA_STATUS_OK && __builtin_expect(l->record->uses != NULL, 0))
		status = soma__uses_before_free(l->record, l->stream);
	return status;
}

static inline enum soma_status
free_ordered(const struct leaving *l)
{
	struct soma__terminal *terminal = l->terminal;
	struct soma__event *event;
	bool deferred =
		terminal->keeps || (terminal->ordered && l->stream != NULL && l->stream->handle != NULL);

	soma__resource_tell(atomic_load_explicit(&l->record->via, memory_order_relaxed), SOMA__FREEING,
			    l->record, deferred);
	if (terminal->keeps)
		return free_kept(l);
	if (!deferred)
		return free_at_once(l);
	if (terminal->records &&
	    soma__stream_free_begin(&terminal->streams, l->stream, l->record->stream, &event))
		return free_recorded(l, event);
	return free_deferred(l);
}

/* Whether nothing has to come before the free, and nobody to be told: then the stream's lock is all it needs. */
static inline bool
is_simple(const struct soma__terminal *terminal, struct soma__record *record)
{
	return terminal->records && record->uses == NULL &&
	       atomic_load_explicit(&record->via, memory_order_relaxed)->observer == NULL;
}

/* Frees a claimed (CLOSING) record, in the order of the stream. */
static inline enum soma_status
free_claimed(struct soma__terminal *terminal, struct soma__record *record, uint64_t stream)
{
	struct leaving l = leaving(terminal, record);
	struct soma__event *event;
	enum soma_status status;

	record->stream = stream;
	if (__builtin_expect(is_simple(terminal, record), 1)) {
		l.stream = soma__stream_find(&terminal->streams, stream);
		if (l.stream != NULL && soma__stream_free_begin(&terminal->streams, l.stream, stream, &event))
			return free_recorded(&l, event);
		l.stream = NULL;
	}
	status = order_free(&l);
	if (__builtin_expect(status == SOMA_STATUS_OK, 1))
		status = free_ordered(&l);
	else
		revive(&l);
	if (l.stream != NULL)
		soma__stream_unpin(&terminal->streams, l.stream, stream);
	return status;
}

/* Its own errors must not hide ours, which are therefore recorded last. */
enum soma_status
soma__terminal_stale(struct soma__terminal *terminal, struct soma_block_id block, uint64_t ptr,
		     enum soma_backend_access access, uint64_t stream)
{
	struct soma__stream *found = soma__stream_find(&terminal->streams, stream);
	bool was_here = soma__record_refuse(&terminal->ledger, block) == SOMA_STATUS_USE_AFTER_FREE;

	if (terminal->ops->block_stale != NULL)
		terminal->ops->block_stale(
			terminal->self, ptr != 0 ? ptr : soma__record_last_ptr(&terminal->ledger, block),
			was_here ? block.generation : 0, access, found != NULL ? found->handle : NULL);
	return soma__record_refuse(&terminal->ledger, block);
}

/* The claimed record is live again. */
static __attribute__((noinline, cold)) enum soma_status
refuse_to_free(struct soma__record *record, const struct soma_block *block)
{
	bool part = record->part;

	soma__record_set(record, SOMA__RECORD_LIVE);
	if (part)
		return soma__fail(INVALID_VALUE,
				  "the block of generation %" PRIu64
				  " is a pool's: soma_pool_free() was expected",
				  block->id.generation);
	return soma__fail(INVALID_VALUE, "a block of generation %" PRIu64 " is not at 0x%" PRIx64,
			  block->id.generation, block->ptr);
}

static inline enum soma_status
claim_to_free(struct soma__terminal *terminal, const struct soma_block *block, struct soma__record **record)
{
	enum soma_status status;

	if (__builtin_expect(block == NULL, 0))
		return soma__fail(INVALID_VALUE, "block is NULL: expected one to be freed");
	status = soma__record_claim(&terminal->ledger, block->id, SOMA__RECORD_CLOSING, record);
	if (__builtin_expect(status != SOMA_STATUS_OK, 0))
		return soma__terminal_stale(terminal, block->id, block->ptr, SOMA_BACKEND_ACCESS_NONE,
					    block->stream);
	if (__builtin_expect((*record)->ptr == block->ptr && !(*record)->part, 1))
		return SOMA_STATUS_OK;
	return refuse_to_free(*record, block);
}

enum soma_status
soma_resource_deallocate(struct soma_resource *resource, const struct soma_block *block)
{
	struct soma__record *record;
	enum soma_status status = claim_to_free(resource->terminal, block, &record);

	return status == SOMA_STATUS_OK ? free_claimed(resource->terminal, record, record->stream) : status;
}

enum soma_status
soma__resource_deallocate_on(struct soma_resource *resource, const struct soma_block *block, uint64_t stream)
{
	struct soma__terminal *terminal = resource->terminal;
	struct soma__stream *found;
	struct soma__record *record;
	enum soma_status status = soma__stream_open(&terminal->streams, stream, &found);

	if (status == SOMA_STATUS_OK)
		status = claim_to_free(terminal, block, &record);
	if (status != SOMA_STATUS_OK)
		return status;
	return free_claimed(terminal, record, stream);
}

enum soma_status
soma__resource_deallocate_now(struct soma_resource *resource, const struct soma_block *block)
{
	struct soma__terminal *terminal = resource->terminal;
	struct soma__record *record;
	enum soma_status status = claim_to_free(terminal, block, &record);

	if (status != SOMA_STATUS_OK)
		return status;
	const struct leaving l = leaving(terminal, record);
	return free_ordered(&l);
}

uint64_t
soma__terminal_reap(struct soma__terminal *terminal)
{
	uint32_t slots = atomic_load_explicit(&terminal->streams.slots, memory_order_acquire);
	uint64_t count = 0;

	for (uint32_t i = 0; i < slots; i++)
		reap_stream(terminal, soma__stream_at(&terminal->streams, i), &count);
	return count;
}

void
soma__terminal_released(struct soma_resource *resource, uint64_t ptr, uint64_t bytes)
{
	struct soma__terminal *terminal = resource != NULL ? terminal_of(resource) : NULL;
	struct soma__record *record;
	bool early;

	(void)bytes;
	if (terminal == NULL || terminal->kept.shards == NULL)
		return;
	record = soma__kept_release(&terminal->kept, ptr, &early);
	if (record == NULL)
		return;
	tell_completed(record);
	if (!early || soma__kept_told(&terminal->kept, record))
		complete(terminal, record);
}

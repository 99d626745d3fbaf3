/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Use tracking.  The list is looked at and changed with the record in hand; events to wait for
 * are referenced, the record is let go, and then the backend is called (but for asking whether
 * an event is done, which does not wait).
 */
#include "lib/resource/uses.h"

#include <string.h>

#include "lib/base/error.h"

#define CAPACITY_FIRST 4

/* Lists of accesses that a terminal keeps: one that is made and given back for each block costs the arena a page
 * each time. */
#define SPARES_MAX 256

/* ---- the list ------------------------------------------------------------------------ */

static void
end_access(struct soma__terminal *terminal, struct soma__access *access)
{
	soma__event_drop(&terminal->events, access->event);
	access->event = NULL;
	access->number = 0;
}

static size_t
uses_size(uint32_t capacity)
{
	return sizeof(struct soma__uses) + capacity * sizeof(struct soma__access);
}

/* NULL: there is none. */
static struct soma__uses *
take_spare(struct soma__terminal *terminal)
{
	pthread_mutex_lock(&terminal->spare);
	struct soma__uses *uses = terminal->spare_uses;
	if (uses != NULL) {
		terminal->spare_uses = uses->next;
		terminal->spare_count--;
	}
	pthread_mutex_unlock(&terminal->spare);
	if (uses != NULL)
		*uses = (struct soma__uses){ .capacity = CAPACITY_FIRST };
	return uses;
}

/* False: it is too large, or there are enough. */
static bool
keep_spare(struct soma__terminal *terminal, struct soma__uses *uses)
{
	if (uses->capacity != CAPACITY_FIRST)
		return false;
	pthread_mutex_lock(&terminal->spare);
	bool kept = terminal->spare_count < SPARES_MAX;
	if (kept) {
		uses->next = terminal->spare_uses;
		terminal->spare_uses = uses;
		terminal->spare_count++;
	}
	pthread_mutex_unlock(&terminal->spare);
	return kept;
}

static struct soma__uses *
grow(struct soma__terminal *terminal, struct soma__uses *old)
{
	uint32_t capacity = old == NULL ? CAPACITY_FIRST : old->capacity * 2;
	struct soma__uses *uses = soma__arena_calloc(terminal->arena, uses_size(capacity), 0);

	if (uses == NULL)
		return NULL;
	if (old != NULL) {
		memcpy(uses, old, uses_size(old->count));
		soma__arena_free(terminal->arena, old, uses_size(old->capacity));
	}
	uses->capacity = capacity;
	return uses;
}

/* The allocation is a write by the block's stream, where it has an order.  A part's has: the stream is after what the
 * memory was used for before. */
static enum soma_status
begin_uses(struct soma__terminal *terminal, struct soma__record *record)
{
	struct soma__uses *uses = take_spare(terminal);

	if (uses == NULL)
		uses = grow(terminal, NULL);
	if (uses == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (record->part || soma__terminal_can(terminal, SOMA_BACKEND_STREAM_ORDERED)) {
		uses->number = 1;
		uses->count = 1;
		uses->list[0] =
			(struct soma__access){ .stream = record->stream, .number = 1, .writes = true };
	}
	record->uses = uses;
	return SOMA_STATUS_OK;
}

/* Whether the access is over: nobody has to wait for it. */
static bool
is_over(struct soma__terminal *terminal, const struct soma__access *access)
{
	if (access->number == 0 || soma__stream_find(&terminal->streams, access->stream) == NULL)
		return true;
	return access->event != NULL && soma__event_done(&terminal->events, access->event);
}

/* The host knows that it is over, and nobody will wait for it any more. */
static void
tell_over(struct soma_resource *by, const struct soma__access *access)
{
	if (access->number != 0 && access->event != NULL)
		soma__resource_tell_order(by, SOMA__SEEN, access->stream, access->event->number);
	else if (access->number != 0)
		soma__resource_tell_synchronized(by, access->stream);
}

/* Before a long list grows: streams come and go, their accesses must not stay. */
static void
prune(struct soma_resource *by, struct soma__uses *uses)
{
	struct soma__terminal *terminal = by->terminal;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < uses->count; i++) {
		if (is_over(terminal, &uses->list[i])) {
			tell_over(by, &uses->list[i]);
			end_access(terminal, &uses->list[i]);
		} else {
			uses->list[kept++] = uses->list[i];
		}
	}
	uses->count = kept;
}

/* The place of the stream's read or write, made if need be: so that finish needs no memory. */
static enum soma_status
place_for(struct soma_resource *by, struct soma__record *record, uint64_t stream, bool writes,
	  struct soma__access **place)
{
	struct soma__terminal *terminal = by->terminal;
	struct soma__uses *uses = record->uses;

	if (uses == NULL && begin_uses(terminal, record) != SOMA_STATUS_OK)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	uses = record->uses;
	for (uint32_t i = 0; i < uses->count; i++) {
		*place = &uses->list[i];
		if ((*place)->stream == stream && (*place)->writes == writes)
			return SOMA_STATUS_OK;
	}
	if (uses->count == uses->capacity)
		prune(by, uses);
	if (uses->count == uses->capacity) {
		uses = grow(terminal, uses);
		if (uses == NULL)
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
		record->uses = uses;
	}
	*place = &uses->list[uses->count++];
	**place = (struct soma__access){ .stream = stream, .writes = writes };
	return SOMA_STATUS_OK;
}

/* ---- waiting ----------------------------------------------------------------------------- */

#define WAITS_FIRST 8u

/* What to wait for, taken out of a record so that it can be let go. */
struct waits {
	uint32_t count;
	uint32_t capacity;
	struct soma__access *list; /* first, or from the arena */
	struct soma__access first[WAITS_FIRST];
};

/* False without memory.  A few need none: this is on the way of every launch. */
static bool
init_waits(struct soma__terminal *terminal, struct waits *waits, uint32_t capacity)
{
	waits->count = 0;
	waits->capacity = capacity;
	waits->list = waits->first;
	if (capacity > WAITS_FIRST)
		waits->list = soma__arena_alloc(terminal->arena, capacity * sizeof *waits->list, 0);
	return waits->list != NULL;
}

static bool
collect(struct soma__terminal *terminal, const struct soma__uses *uses, uint64_t stream, bool writes,
	struct waits *waits)
{
	if (!init_waits(terminal, waits, uses->count))
		return false;
	for (uint32_t i = 0; i < uses->count; i++) {
		const struct soma__access *access = &uses->list[i];
		if (access->number == 0 || access->stream == stream || !(writes || access->writes))
			continue;
		waits->list[waits->count] = *access;
		soma__event_share(access->event);
		waits->count++;
	}
	return true;
}

/* An event for the access that has none.  The stream's work is over: there is none to wait for. */
static enum soma_status
find_event(struct soma_resource *by, struct soma__access *access)
{
	enum soma_status status = soma__stream_now(&by->terminal->streams, access->stream, &access->event);

	if (status == SOMA_STATUS_OK && access->event != NULL)
		soma__resource_tell_order(by, SOMA__RECORDED, access->stream, access->event->number);
	else if (status == SOMA_STATUS_OK)
		soma__resource_tell_synchronized(by, access->stream);
	return status;
}

/* stream NULL: the host waits. */
static enum soma_status
wait_one(struct soma_resource *by, struct soma__access *access, uint64_t id,
	 const struct soma__stream *stream)
{
	struct soma__terminal *terminal = by->terminal;
	enum soma_status status = access->event == NULL ? find_event(by, access) : SOMA_STATUS_OK;

	if (status != SOMA_STATUS_OK || access->event == NULL)
		return status;
	if (stream == NULL)
		status = terminal->ops->event_synchronize(terminal->self, access->event->handle);
	else
		status = terminal->ops->event_wait(terminal->self, access->event->handle, stream->handle);
	if (status == SOMA_STATUS_OK && stream == NULL)
		soma__resource_tell_order(by, SOMA__SEEN, access->stream, access->event->number);
	else if (status == SOMA_STATUS_OK)
		soma__resource_tell_order(by, SOMA__WAITED, id, access->event->number);
	return status;
}

/* Queues the waits and gives the list back. */
static enum soma_status
wait_all(struct soma_resource *by, struct waits *waits, uint64_t id, const struct soma__stream *stream)
{
	struct soma__terminal *terminal = by->terminal;
	enum soma_status status = SOMA_STATUS_OK;

	for (uint32_t i = 0; i < waits->count; i++) {
		if (status == SOMA_STATUS_OK)
			status = wait_one(by, &waits->list[i], id, stream);
		soma__event_drop(&terminal->events, waits->list[i].event);
	}
	if (waits->list != waits->first)
		soma__arena_free(terminal->arena, waits->list, waits->capacity * sizeof *waits->list);
	return status;
}

/* ---- prepare, finish ------------------------------------------------------------------------ */

static void
look(const struct soma__record *record, const struct soma_use *use, struct soma__used *used)
{
	*used = (struct soma__used){
		.ptr = record->ptr,
		.bytes = record->bytes,
		.generation = use->block.generation,
		.stream = use->stream,
		.access = use->access,
		.part = record->part,
	};
}

static enum soma_status
claim(struct soma__terminal *terminal, const struct soma_use *use, bool told, struct soma__record **record)
{
	enum soma_status status =
		soma__record_claim(&terminal->ledger, use->block, SOMA__RECORD_BUSY, record);

	if (status == SOMA_STATUS_OK)
		return SOMA_STATUS_OK;
	if (told)
		return soma__record_refuse(&terminal->ledger, use->block);
	return soma__terminal_stale(terminal, use->block, 0, (enum soma_backend_access)use->access,
				    use->stream);
}

enum soma_status
soma__uses_look(struct soma__terminal *terminal, const struct soma_use *use, bool told,
		struct soma__used *used)
{
	struct soma__record *record;
	enum soma_status status = claim(terminal, use, told, &record);

	if (status != SOMA_STATUS_OK)
		return status;
	look(record, use, used);
	soma__record_set(record, SOMA__RECORD_LIVE);
	return SOMA_STATUS_OK;
}

enum soma_status
soma__uses_prepare(struct soma_resource *by, struct soma_use *use, const struct soma__stream *stream,
		   struct soma__used *used)
{
	struct soma__terminal *terminal = by->terminal;
	bool writes = (use->access & SOMA_ACCESS_WRITE) != 0;
	struct soma__access *place;
	struct soma__record *record;
	struct waits waits;
	bool collected = false;
	enum soma_status status = claim(terminal, use, false, &record);

	if (status != SOMA_STATUS_OK)
		return status;
	status = place_for(by, record, use->stream, writes, &place);
	if (status == SOMA_STATUS_OK) {
		collected = collect(terminal, record->uses, use->stream, writes, &waits);
		use->seen = record->uses->number;
	}
	look(record, use, used);
	soma__record_set(record, SOMA__RECORD_LIVE);
	if (!collected)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = wait_all(by, &waits, use->stream, stream);
	if (status == SOMA_STATUS_OK && !used->part && soma__terminal_can(terminal, SOMA_BACKEND_USES))
		status = terminal->ops->block_use(terminal->self, used->ptr,
						  (enum soma_backend_access)use->access, stream->handle);
	return status;
}

/* It waited for these. */
static void
end_seen(struct soma__terminal *terminal, struct soma__uses *uses, uint64_t seen)
{
	for (uint32_t i = 0; i < uses->count; i++)
		if (uses->list[i].number != 0 && uses->list[i].number <= seen)
			end_access(terminal, &uses->list[i]);
}

static enum soma_status
finish_claimed(struct soma_resource *by, struct soma__record *record, const struct soma_use *use,
	       struct soma__mark *mark, bool last)
{
	struct soma__terminal *terminal = by->terminal;
	bool writes = (use->access & SOMA_ACCESS_WRITE) != 0;
	struct soma__access *place;
	enum soma_status status = place_for(by, record, use->stream, writes, &place);

	if (status != SOMA_STATUS_OK)
		return status;
	if (writes)
		end_seen(terminal, record->uses, use->seen);
	if (place->number == 0 || place->mark < mark->number) {
		end_access(terminal, place);
		place->event = last ? mark->event : soma__event_share(mark->event);
		place->mark = mark->number;
		if (last)
			mark->event = NULL;
	}
	place->number = ++record->uses->number;
	return SOMA_STATUS_OK;
}

enum soma_status
soma__uses_finish(struct soma_resource *by, const struct soma_use *use, struct soma__mark *mark, bool last,
		  bool told)
{
	struct soma__terminal *terminal = by->terminal;
	struct soma__record *record;
	enum soma_status status = claim(terminal, use, told, &record);

	if (status != SOMA_STATUS_OK)
		return status;
	status = finish_claimed(by, record, use, mark, last);
	soma__record_set(record, SOMA__RECORD_LIVE);
	return status;
}

/* ---- the free --------------------------------------------------------------------------------- */

/* Where an order cannot be queued, the host waits; a free must not come early. */
enum soma_status
soma__uses_before_free(struct soma__record *record, const struct soma__stream *stream)
{
	struct soma_resource *via = atomic_load_explicit(&record->via, memory_order_relaxed);
	struct soma__uses *uses = record->uses;

	for (uint32_t i = 0; i < uses->count; i++) {
		struct soma__access *access = &uses->list[i];
		if (access->number == 0 || (stream != NULL && access->stream == record->stream))
			continue;
		enum soma_status status = wait_one(via, access, record->stream, stream);
		if (status != SOMA_STATUS_OK && stream != NULL && access->event != NULL)
			status = wait_one(via, access, record->stream, NULL);
		if (status != SOMA_STATUS_OK)
			return status;
	}
	return SOMA_STATUS_OK;
}

void
soma__uses_clear(struct soma__terminal *terminal, struct soma__record *record)
{
	struct soma__uses *uses = record->uses;

	if (uses == NULL)
		return;
	for (uint32_t i = 0; i < uses->count; i++)
		end_access(terminal, &uses->list[i]);
	if (!keep_spare(terminal, uses))
		soma__arena_free(terminal->arena, uses, uses_size(uses->capacity));
	record->uses = NULL;
}

void
soma__uses_drop_all(struct soma__terminal *terminal)
{
	uint32_t count = atomic_load(&terminal->ledger.carved);

	for (uint32_t i = 0; i < count; i++) {
		uint64_t handle = (uint64_t)terminal->ledger.id << 32 | (i + 1);
		soma__uses_clear(terminal, soma__record_of(&terminal->ledger, handle));
	}
}

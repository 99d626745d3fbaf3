/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and their clocks.  Reserving may fail and changes nothing that anybody can
 * see; everything else succeeds.  Not thread-safe, like the model.
 */
#include "lib/model/clock.h"

#include <string.h>

#include "lib/base/error.h"
#include "lib/model/pending.h"
#include "lib/model/queue.h"

#define SLOT_MASK (((uint64_t)1 << SOMA__SLOT_BITS) - 1)

bool
soma__stream_is_gone(const struct soma_model *model, uint64_t id)
{
	uint64_t slot = id & SLOT_MASK;
	const struct soma__stream *stream;

	if (slot >= model->stream_slots)
		return false;
	stream = model->streams[slot];
	return id < stream->id || (id == stream->id && !stream->exists);
}

enum soma_status
soma__stream_refuse(const struct soma_model *model, uint64_t id)
{
	const struct soma__stream *stream = soma__stream_find(model, id);

	if (stream != NULL && soma__stream_accepts(stream))
		return soma__fail(NOT_SUPPORTED, "stream %" PRIu64 " has used up its positions", id);
	if (stream != NULL || soma__stream_is_gone(model, id))
		return soma__fail(INVALID_VALUE, "stream %" PRIu64 " was destroyed", id);
	return soma__fail(INVALID_VALUE, "there is no stream %" PRIu64, id);
}

/* ---- streams ---- */

/* A longer copy of a table; the old one stays as it is. */
static void *
longer(struct soma__arena *arena, const void *old, size_t old_size, size_t new_size)
{
	void *memory = soma__arena_alloc(arena, new_size, 0);

	if (memory != NULL && old_size != 0)
		memcpy(memory, old, old_size);
	return memory;
}

/* Room for one more slot in the tables that have an entry for each. */
static bool
reserve_slot(struct soma_model *model)
{
	struct soma__arena *arena = model->arena;
	uint32_t old = model->stream_capacity, capacity = old ? old * 2 : 4;
	size_t words = capacity * sizeof(uint32_t), old_words = old * sizeof(uint32_t);
	size_t pointers = capacity * sizeof(void *), old_pointers = old * sizeof(void *);
	void *streams, *raised, *news;

	if (model->stream_slots < old)
		return true;
	streams = longer(arena, model->streams, old_pointers, pointers);
	raised = streams ? longer(arena, model->raised, old_words, words) : NULL;
	news = raised ? longer(arena, model->news, old_words, words) : NULL;
	if (news == NULL) {
		soma__arena_free(arena, raised, words);
		soma__arena_free(arena, streams, pointers);
		return false;
	}
	soma__arena_free(arena, model->streams, old_pointers);
	soma__arena_free(arena, model->raised, old_words);
	soma__arena_free(arena, model->news, old_words);
	model->streams = streams;
	model->raised = raised;
	model->news = news;
	model->stream_capacity = capacity;
	return true;
}

static enum soma_status
new_slot(struct soma_model *model, struct soma__stream **found)
{
	struct soma__stream *stream;

	if (model->stream_slots > SLOT_MASK)
		return soma__fail(NOT_SUPPORTED, "a model has at most %" PRIu64 " streams at a time",
				  SLOT_MASK + 1);
	if (!reserve_slot(model) || !soma__slab_reserve(&model->index.trees, model->arena, 1))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	stream = soma__arena_calloc(model->arena, sizeof *stream, 64);
	if (stream == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	stream->free_tree = soma__tree_take(&model->index.trees);
	model->headroom = 0; /* that record was counted on */
	stream->id = model->stream_slots;
	model->streams[model->stream_slots++] = stream;
	*found = stream;
	return SOMA_STATUS_OK;
}

enum soma_status
soma__stream_add(struct soma_model *model, unsigned flags, struct soma__stream **found)
{
	uint32_t lowest = soma__tree_at_least(&model->index.trees, model->free_slots, 0, 0);
	struct soma__stream *stream = NULL;

	if (lowest != 0) {
		uint32_t slot = soma__tree_at(&model->index.trees, lowest)->record;

		soma__tree_remove(&model->index.trees, &model->free_slots, 0, slot);
		stream = model->streams[slot];
		stream->id += SLOT_MASK + 1;
	} else {
		enum soma_status status = new_slot(model, &stream);

		if (status != SOMA_STATUS_OK)
			return status;
	}
	stream->submitted = stream->executed = stream->observed = stream->barrier = 0;
	stream->legacy_seen = 0;
	stream->clock.entry_count = 0;
	stream->clock.join_first = stream->clock.join_count = stream->clock.join_applied = 0;
	stream->exists = true;
	stream->takes = stream->id;
	stream->queue_key = soma__queue_stream_key(soma__stream_slot(stream));
	stream->followed = false;
	stream->blocking = (flags & SOMA_STREAM_NON_BLOCKING) == 0 && model->driver.legacy_by_wait;
	stream->ordered = (flags & SOMA_STREAM_NON_BLOCKING) == 0 && !stream->blocking;
	*found = stream;
	return SOMA_STATUS_OK;
}

void
soma__stream_settle(struct soma_model *model, struct soma__stream *stream)
{
	struct soma__tree_node *node;
	uint32_t slot;

	if (!stream->exists || soma__stream_accepts(stream) || stream->pending_count != 0 ||
	    stream->segment_count != 0 || stream->executed != stream->submitted)
		return;
	stream->exists = false;
	slot = soma__stream_slot(stream);
	node = soma__tree_at(&model->index.trees, stream->free_tree);
	*node = (struct soma__tree_node){ .record = slot, .minor = slot };
	soma__tree_insert(&model->index.trees, &model->free_slots, stream->free_tree);
}

/* ---- joins ---- */

static bool
is_moot(const struct soma_model *model, uint64_t id, uint64_t seq)
{
	const struct soma__stream *stream = soma__stream_find(model, id);

	return stream == NULL || seq <= soma__released(model, stream);
}

/* Index of the first entry whose id is not below `id`. */
static uint32_t
entry_position(const struct soma__clock *clock, uint64_t id)
{
	uint32_t low = 0, high = clock->entry_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (clock->entries[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void
soma__clock_drop_moot(const struct soma_model *model, struct soma__stream *stream)
{
	struct soma__clock *clock = &stream->clock;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < clock->entry_count; i++)
		if (!is_moot(model, clock->entries[i].id, clock->entries[i].seq))
			clock->entries[kept++] = clock->entries[i];
	clock->entry_count = kept;
}

static void
drop_moot_joins(const struct soma_model *model, struct soma__clock *clock)
{
	uint32_t kept = 0, applied = 0;

	for (uint32_t i = clock->join_first; i < clock->join_count; i++) {
		if (is_moot(model, clock->joins[i].id, clock->joins[i].seq))
			continue;
		if (i < clock->join_applied)
			applied++;
		clock->joins[kept++] = clock->joins[i];
	}
	clock->join_first = 0;
	clock->join_count = kept;
	clock->join_applied = applied;
}

/* A table of `count` records that had no room for `more`, moved to one with twice the room
 * that is needed: so that sweeping moot records first is rare enough.  NULL without
 * memory, and then the old table stands. */
static void *
widened(struct soma__arena *arena, void *table, uint32_t count, uint32_t more, uint32_t *capacity,
	size_t record_size)
{
	uint32_t wider = (count + more) * 2 + 4;
	void *moved = longer(arena, table, count * record_size, wider * record_size);

	if (moved == NULL)
		return NULL;
	soma__arena_free(arena, table, *capacity * record_size);
	*capacity = wider;
	return moved;
}

static bool
reserve_entries(struct soma_model *model, struct soma__stream *stream, uint32_t more)
{
	struct soma__clock *clock = &stream->clock;
	void *entries;

	if (clock->entry_count + more <= clock->entry_capacity)
		return true;
	soma__clock_drop_moot(model, stream);
	if ((clock->entry_count + more) * 2 <= clock->entry_capacity)
		return true;
	entries = widened(model->arena, clock->entries, clock->entry_count, more, &clock->entry_capacity,
			  sizeof *clock->entries);
	if (entries != NULL)
		clock->entries = entries;
	return entries != NULL;
}

static bool
reserve_joins(struct soma_model *model, struct soma__clock *clock, uint32_t more)
{
	void *joins;

	if (clock->join_count + more <= clock->join_capacity)
		return true;
	drop_moot_joins(model, clock);
	if ((clock->join_count + more) * 2 <= clock->join_capacity)
		return true;
	joins = widened(model->arena, clock->joins, clock->join_count, more, &clock->join_capacity,
			sizeof *clock->joins);
	if (joins != NULL)
		clock->joins = joins;
	return joins != NULL;
}

/* How many components joining from this stream may add, at most. */
static uint32_t
join_bound(const struct soma__stream *from)
{
	uint32_t joins = from->clock.join_count - from->clock.join_first;

	return (joins > from->clock.entry_count ? joins : from->clock.entry_count) + 1;
}

static bool
reserve_both(struct soma_model *model, struct soma__stream *stream, uint32_t more)
{
	return reserve_entries(model, stream, more) && reserve_joins(model, &stream->clock, more);
}

bool
soma__clock_reserve_event(struct soma_model *model, struct soma__stream *stream, struct soma__stream *from)
{
	return soma__pending_follow(model, from) && reserve_both(model, stream, join_bound(from));
}

/* Makes one join: a new component, or a later position of one that is there. */
static void
join_component(struct soma_model *model, struct soma__stream *stream, uint64_t id, uint64_t seq)
{
	struct soma__clock *clock = &stream->clock;
	uint32_t at;
	uint64_t before = 0;

	if (id == stream->id || is_moot(model, id, seq))
		return;
	at = entry_position(clock, id);
	if (at < clock->entry_count && clock->entries[at].id == id) {
		before = clock->entries[at].seq;
		if (before >= seq)
			return;
	} else {
		memmove(&clock->entries[at + 1], &clock->entries[at],
			(clock->entry_count - at) * sizeof *clock->entries);
		clock->entry_count++;
	}
	clock->entries[at] = (struct soma__clock_entry){ .id = id, .seq = seq };
	clock->joins[clock->join_count++] =
		(struct soma__join){ .position = stream->submitted, .id = id, .seq = seq, .before = before };
}

void
soma__clock_join_event(struct soma_model *model, struct soma__stream *stream, const struct soma__stream *from,
		       uint64_t seq)
{
	const struct soma__clock *other = &from->clock;

	if (stream == from)
		return;
	join_component(model, stream, from->id, seq);
	if (other->join_count == other->join_first || other->joins[other->join_count - 1].position < seq) {
		/* Nothing was joined since: the clock is as it was. */
		for (uint32_t i = 0; i < other->entry_count; i++)
			join_component(model, stream, other->entries[i].id, other->entries[i].seq);
		return;
	}
	/* Moot joins may be missing here; they would not be joined anyway. */
	for (uint32_t i = other->join_first; i < other->join_count && other->joins[i].position < seq; i++)
		join_component(model, stream, other->joins[i].id, other->joins[i].seq);
}

void
soma__clock_undo(struct soma__stream *stream, uint32_t count)
{
	struct soma__clock *clock = &stream->clock;

	while (count-- > 0) {
		const struct soma__join *join = &clock->joins[--clock->join_count];
		uint32_t at = entry_position(clock, join->id);

		if (join->before != 0) {
			clock->entries[at].seq = join->before;
			continue;
		}
		clock->entry_count--;
		memmove(&clock->entries[at], &clock->entries[at + 1],
			(clock->entry_count - at) * sizeof *clock->entries);
	}
}

/* ---- the legacy stream ---- */

bool
soma__clock_reserve_legacy(struct soma_model *model, struct soma__stream *stream)
{
	struct soma__stream *legacy = model->streams[0];
	uint32_t more = 0;

	if (stream != legacy)
		return stream->legacy_seen == legacy->submitted ||
		       soma__clock_reserve_event(model, stream, legacy);
	for (uint32_t i = 0; i < model->news_count; i++) {
		struct soma__stream *blocking = model->streams[model->news[i]];

		if (!soma__pending_follow(model, blocking))
			return false;
		more += join_bound(blocking);
	}
	return more == 0 || reserve_both(model, stream, more);
}

void
soma__clock_join_legacy(struct soma_model *model, struct soma__stream *stream)
{
	struct soma__stream *legacy = model->streams[0];

	if (stream != legacy) {
		if (stream->legacy_seen != legacy->submitted)
			soma__clock_join_event(model, stream, legacy, legacy->submitted);
		return;
	}
	for (uint32_t i = 0; i < model->news_count; i++) {
		struct soma__stream *blocking = model->streams[model->news[i]];

		/* The slot may have gone to another stream since. */
		if (blocking->exists && blocking->ordered)
			soma__clock_join_event(model, legacy, blocking, blocking->submitted);
	}
}

void
soma__clock_submit_ordered(struct soma_model *model, struct soma__stream *stream)
{
	if (stream == model->streams[0]) {
		for (uint32_t i = 0; i < model->news_count; i++)
			model->streams[model->news[i]]->news = false;
		model->news_count = 0;
		return;
	}
	stream->legacy_seen = model->streams[0]->submitted;
	if (!stream->news) {
		stream->news = true;
		model->news[model->news_count++] = soma__stream_slot(stream);
	}
}

/* ---- progress ---- */

static void
raise_to(struct soma_model *model, struct soma__stream *stream, uint64_t seq, bool observed)
{
	if (stream->executed < seq)
		stream->executed = seq;
	if (observed && stream->observed < seq)
		stream->observed = seq;
	if (!stream->raised) {
		stream->raised = true;
		model->raised[model->raised_count++] = soma__stream_slot(stream);
	}
}

void
soma__clock_raise(struct soma_model *model, struct soma__stream *stream, uint64_t seq, bool observed)
{
	struct soma__clock *clock = &stream->clock;
	uint32_t i;

	raise_to(model, stream, seq, observed);
	i = observed ? clock->join_first : clock->join_applied;
	for (; i < clock->join_count && clock->joins[i].position < stream->executed; i++) {
		struct soma__stream *other = soma__stream_find(model, clock->joins[i].id);

		if (other != NULL)
			raise_to(model, other, clock->joins[i].seq, observed);
	}
	if (i > clock->join_applied)
		clock->join_applied = i;
	while (clock->join_first < clock->join_applied &&
	       clock->joins[clock->join_first].position < soma__released(model, stream))
		clock->join_first++;
}

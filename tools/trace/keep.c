/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events that a reader keeps.  A trace has few kinds of events beside what each has
 * alone: a table of the kinds, and for each event a place in it.
 */
#include "tools/trace/keep.h"

#include <string.h>

#include "tools/trace/memory.h"

/* What follows in `more`, in this order. */
#define MORE_TIME 1u
#define MORE_GENERATION 2u
#define MORE_COMPLETED 4u

/* There may be many, and each event looks at another one: small, and asked for some events before. */
struct trace_kept_kind {
	uint64_t stream;
	uint64_t pool[2];
	int32_t device;
	uint32_t thread;
	trace_name holder, detail;
	uint8_t op;
	bool deferred, has_pool, completed;
	uint32_t more;
};

#define PREFETCH_EVENTS 8

void
trace_kept_clear(struct trace_kept *kept)
{
	trace_release(kept->kinds);
	trace_release(kept->slots);
	trace_release(kept->events);
	trace_release(kept->more);
	*kept = (struct trace_kept){ 0 };
}

/* Without the room to grow. */
static size_t
bytes_of(const struct trace_kept *kept)
{
	return kept->kind_count * sizeof *kept->kinds + kept->slot_count * sizeof *kept->slots +
	       kept->count * sizeof *kept->events + kept->more_count * sizeof *kept->more;
}

/* As trace_reserve(), but by an eighth: these arrays are large, and what is kept of them has a limit. */
static bool
reserve(void **memory, size_t *room, size_t want, size_t size)
{
	size_t more = want + want / 8 + 64;
	void *grown;

	if (want <= *room)
		return true;
	grown = more <= SIZE_MAX / size ? trace_resize(*memory, more * size) : NULL;
	if (grown == NULL)
		return false;
	*memory = grown;
	*room = more;
	return true;
}

static bool
is_same(const struct trace_kept_kind *a, const struct trace_kept_kind *b)
{
	return a->op == b->op && a->stream == b->stream && a->holder == b->holder &&
	       a->deferred == b->deferred && a->device == b->device && a->thread == b->thread &&
	       a->detail == b->detail && a->has_pool == b->has_pool && a->pool[0] == b->pool[0] &&
	       a->pool[1] == b->pool[1] && a->completed == b->completed && a->more == b->more;
}

static size_t
hash_of(const struct trace_kept_kind *kind)
{
	const uint64_t parts[] = { (uint64_t)kind->op << 8 | kind->more << 4 | kind->deferred,
				   kind->stream,
				   (uint64_t)kind->holder << 32 | kind->detail,
				   (uint64_t)(uint32_t)kind->device << 32 | kind->thread,
				   kind->pool[0],
				   kind->pool[1] };
	uint64_t hash = 0;

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		hash = (hash ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return (size_t)hash;
}

static size_t
slot_of(const struct trace_kept *kept, const struct trace_kept_kind *kind)
{
	size_t at = hash_of(kind) & (kept->slot_count - 1);

	while (kept->slots[at] != 0 && !is_same(&kept->kinds[kept->slots[at] - 1], kind))
		at = (at + 1) & (kept->slot_count - 1);
	return at;
}

static bool
grow_slots(struct trace_kept *kept)
{
	struct trace_kept grown = *kept;

	grown.slot_count = kept->slot_count > 0 ? 2 * kept->slot_count : 64;
	grown.slots = trace_zeroed(grown.slot_count * sizeof *grown.slots);
	if (grown.slots == NULL)
		return false;
	for (size_t i = 0; i < kept->kind_count; i++)
		grown.slots[slot_of(&grown, &kept->kinds[i])] = (uint32_t)i + 1;
	trace_release(kept->slots);
	*kept = grown;
	return true;
}

static bool
kind_of(struct trace_kept *kept, const struct trace_kept_kind *wanted, uint32_t *kind)
{
	size_t slot;

	if (2 * (kept->kind_count + 1) > kept->slot_count && !grow_slots(kept))
		return false;
	slot = slot_of(kept, wanted);
	if (kept->slots[slot] == 0) {
		if (kept->kind_count == UINT32_MAX - 1 ||
		    !trace_reserve((void **)&kept->kinds, &kept->kind_room, kept->kind_count + 1,
				   sizeof *kept->kinds))
			return false;
		kept->kinds[kept->kind_count++] = *wanted;
		kept->slots[slot] = (uint32_t)kept->kind_count;
	}
	*kind = kept->slots[slot] - 1;
	return true;
}

bool
trace_kept_put(struct trace_kept *kept, const struct trace_event *event, size_t bytes_max)
{
	bool leaps = event->time_ns < kept->last_time || event->time_ns - kept->last_time > UINT32_MAX;
	const struct trace_kept_kind kind = { .stream = event->stream,
					      .pool = { event->pool[0], event->pool[1] },
					      .device = event->device,
					      .thread = event->thread,
					      .holder = event->holder,
					      .detail = event->detail,
					      .op = (uint8_t)event->op,
					      .deferred = event->deferred,
					      .has_pool = event->has_pool,
					      .completed = event->completed,
					      .more = (leaps ? MORE_TIME : 0) |
						      (event->generation != 0 ? MORE_GENERATION : 0) |
						      (event->completed_ns != 0 ? MORE_COMPLETED : 0) };
	struct trace_kept_event own = { .ptr = event->ptr, .size = event->size };

	if (!kind_of(kept, &kind, &own.kind) ||
	    !reserve((void **)&kept->events, &kept->room, kept->count + 1, sizeof *kept->events) ||
	    !reserve((void **)&kept->more, &kept->more_room, kept->more_count + 3, sizeof *kept->more))
		return false;
	if (leaps)
		kept->more[kept->more_count++] = event->time_ns;
	else
		own.later = (uint32_t)(event->time_ns - kept->last_time);
	if (event->generation != 0)
		kept->more[kept->more_count++] = event->generation;
	if (event->completed_ns != 0)
		kept->more[kept->more_count++] = event->completed_ns;
	kept->last_time = event->time_ns;
	kept->events[kept->count++] = own;
	return bytes_of(kept) <= bytes_max;
}

uint64_t
trace_kept_ahead(const struct trace_kept *kept, const struct trace_kept_cursor *cursor)
{
	return kept->count - cursor->event > PREFETCH_EVENTS ? kept->events[cursor->event + PREFETCH_EVENTS].ptr
							     : 0;
}

bool
trace_kept_next(const struct trace_kept *kept, struct trace_kept_cursor *cursor, struct trace_event *event)
{
	const struct trace_kept_event *own;
	const struct trace_kept_kind *kind;

	if (cursor->event == kept->count)
		return false;
	own = &kept->events[cursor->event];
	kind = &kept->kinds[own->kind];
	if (kept->count - cursor->event > PREFETCH_EVENTS)
		__builtin_prefetch(&kept->kinds[own[PREFETCH_EVENTS].kind]);
	*event = (struct trace_event){ .op = (enum trace_op)kind->op,
				       .deferred = kind->deferred,
				       .device = kind->device,
				       .thread = kind->thread,
				       .index = cursor->event++,
				       .stream = kind->stream,
				       .ptr = own->ptr,
				       .size = own->size,
				       .holder = kind->holder,
				       .detail = kind->detail,
				       .has_pool = kind->has_pool,
				       .pool = { kind->pool[0], kind->pool[1] },
				       .completed = kind->completed };
	cursor->time = kind->more & MORE_TIME ? kept->more[cursor->more++] : cursor->time + own->later;
	if (kind->more & MORE_GENERATION)
		event->generation = kept->more[cursor->more++];
	if (kind->more & MORE_COMPLETED)
		event->completed_ns = kept->more[cursor->more++];
	event->time_ns = cursor->time;
	return true;
}

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

struct trace_kept_kind {
	struct trace_event event; /* what is the event's own is 0 */
	unsigned more;
};

void
trace_kept_clear(struct trace_kept *kept)
{
	trace_release(kept->kinds);
	trace_release(kept->slots);
	trace_release(kept->events);
	trace_release(kept->more);
	*kept = (struct trace_kept){ 0 };
}

static size_t
bytes_of(const struct trace_kept *kept)
{
	return kept->kind_room * sizeof *kept->kinds + kept->slot_count * sizeof *kept->slots +
	       kept->room * sizeof *kept->events + kept->more_room * sizeof *kept->more;
}

static bool
is_same(const struct trace_kept_kind *a, const struct trace_kept_kind *b)
{
	const struct trace_event *x = &a->event, *y = &b->event;

	return x->op == y->op && x->stream == y->stream && x->holder == y->holder &&
	       x->deferred == y->deferred && x->device == y->device && x->thread == y->thread &&
	       x->detail == y->detail && x->has_pool == y->has_pool && x->pool[0] == y->pool[0] &&
	       x->pool[1] == y->pool[1] && x->completed == y->completed && a->more == b->more;
}

static size_t
hash_of(const struct trace_kept_kind *kind)
{
	const struct trace_event *event = &kind->event;
	const uint64_t parts[] = { (uint64_t)event->op << 8 | kind->more << 4 | event->deferred,
				   event->stream,
				   (uint64_t)event->holder << 32 | event->detail,
				   (uint64_t)(uint32_t)event->device << 32 | event->thread,
				   event->pool[0],
				   event->pool[1] };
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
	struct trace_kept_kind kind = { .event = *event };
	struct trace_kept_event own = { .ptr = event->ptr, .size = event->size };
	bool leaps = event->time_ns < kept->last_time || event->time_ns - kept->last_time > UINT32_MAX;

	kind.more = (leaps ? MORE_TIME : 0) | (event->generation != 0 ? MORE_GENERATION : 0) |
		    (event->completed_ns != 0 ? MORE_COMPLETED : 0);
	kind.event.index = kind.event.time_ns = kind.event.ptr = kind.event.size = 0;
	kind.event.generation = kind.event.completed_ns = 0;
	if (!kind_of(kept, &kind, &own.kind) ||
	    !trace_reserve((void **)&kept->events, &kept->room, kept->count + 1, sizeof *kept->events) ||
	    !trace_reserve((void **)&kept->more, &kept->more_room, kept->more_count + 3, sizeof *kept->more))
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

bool
trace_kept_next(const struct trace_kept *kept, struct trace_kept_cursor *cursor, struct trace_event *event)
{
	const struct trace_kept_event *own;
	const struct trace_kept_kind *kind;

	if (cursor->event == kept->count)
		return false;
	own = &kept->events[cursor->event];
	kind = &kept->kinds[own->kind];
	*event = kind->event;
	cursor->time = kind->more & MORE_TIME ? kept->more[cursor->more++] : cursor->time + own->later;
	if (kind->more & MORE_GENERATION)
		event->generation = kept->more[cursor->more++];
	if (kind->more & MORE_COMPLETED)
		event->completed_ns = kept->more[cursor->more++];
	event->index = cursor->event++;
	event->time_ns = cursor->time;
	event->ptr = own->ptr;
	event->size = own->size;
	return true;
}

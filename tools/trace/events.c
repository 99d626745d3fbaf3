/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of a PyTorch trace as events.  A free is requested and completed in two
 * entries; where the second follows at once they are one event, and where it comes later,
 * because the block was in use on another stream, the free is deferred.  A trace that
 * has only one of the two: frees.c.
 */
#include "tools/trace/events.h"

#include <inttypes.h>
#include <stdio.h>

static const uint64_t zero;

/* What an action becomes, and which fields it must have. */
static const struct action {
	enum snapshot_word word;
	enum trace_op op;
	bool address, size, stream;
} actions[] = {
	{ WORD_ALLOC, TRACE_ALLOC, true, true, true },
	{ WORD_FREE_REQUESTED, TRACE_FREE, true, true, true },
	{ WORD_FREE_COMPLETED, TRACE_FREE_COMPLETED, true, true, true },
	{ WORD_SEGMENT_ALLOC, TRACE_SEGMENT_ALLOC, true, true, true },
	{ WORD_SEGMENT_FREE, TRACE_SEGMENT_FREE, true, true, true },
	{ WORD_SEGMENT_MAP, TRACE_SEGMENT_MAP, true, true, true },
	{ WORD_SEGMENT_UNMAP, TRACE_SEGMENT_UNMAP, true, true, true },
	{ WORD_OOM, TRACE_OOM, false, true, false },
	{ WORD_SNAPSHOT, TRACE_MARK, false, false, false },
	{ WORD_ANNOTATE, TRACE_MARK, false, false, false },
	{ WORD_USER_DEFINED, TRACE_MARK, false, false, false },
	/* Of PyTorch for other devices (torch_npu) */
	{ WORD_WORKSPACE_SNAPSHOT, TRACE_MARK, false, false, false },
	{ WORD_EMPTY_CACHE, TRACE_MARK, false, false, false },
};

static const struct action *
find_action(struct snapshot_reader *sr, const struct snapshot_fields *fields)
{
	const struct pickle_value *value = fields->at[KEY_ACTION];

	if (value == NULL || value->type != PICKLE_TEXT) {
		snapshot_refuse(sr, fields, "\"action\" is %s", value == NULL ? "missing" : "not a text");
		return NULL;
	}
	for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
		if (actions[i].word == (enum snapshot_word)value->name)
			return &actions[i];
	snapshot_refuse(sr, fields, "unknown action \"%.80s\"", snapshot_text(sr, value->name));
	return NULL;
}

static bool
read_numbers(struct snapshot_reader *sr, const struct snapshot_fields *fields, const struct action *action,
	     struct trace_event *event)
{
	uint64_t time_us;

	if (!snapshot_number(sr, fields, KEY_ADDR, action->address ? NULL : &zero, &event->ptr) ||
	    !snapshot_number(sr, fields, KEY_SIZE, action->size ? NULL : &zero, &event->size) ||
	    !snapshot_number(sr, fields, KEY_STREAM, action->stream ? NULL : &zero, &event->stream) ||
	    !snapshot_number(sr, fields, KEY_TIME_US, &zero, &time_us))
		return false;
	if (time_us > UINT64_MAX / 1000)
		return snapshot_refuse(sr, fields, "\"time_us\" is %" PRIu64 ", too large", time_us);
	event->time_ns = time_us * 1000;
	return true;
}

/* An oom says how much the device had left; a mark is named after its action. */
static bool
read_detail(struct snapshot_reader *sr, const struct snapshot_fields *fields, struct trace_event *event)
{
	const struct pickle_value *metadata = fields->at[KEY_USER_METADATA];
	uint64_t device_free;
	char text[48];
	int length;

	if (event->op == TRACE_MARK) {
		event->holder = fields->at[KEY_ACTION]->name;
		event->detail = metadata != NULL && metadata->type == PICKLE_TEXT ? metadata->name : 0;
	}
	if (event->op != TRACE_OOM)
		return true;
	if (!snapshot_number(sr, fields, KEY_DEVICE_FREE, NULL, &device_free))
		return false;
	length = snprintf(text, sizeof text, "device_free %" PRIu64, device_free);
	if (trace_names_add(&sr->reader->names, text, (size_t)length, &event->detail))
		return true;
	trace_no_memory(sr->reader);
	return false;
}

static void
queue_held(struct snapshot_reader *sr, bool deferred)
{
	sr->held.deferred = deferred;
	sr->queue[sr->queued++] = sr->held;
	sr->holding = false;
}

void
snapshot_flush(struct snapshot_reader *sr)
{
	if (sr->holding)
		queue_held(sr, snapshot_waits(sr, &sr->held));
}

/* A free waits for the next entry, which tells whether it was deferred. */
static void
queue_event(struct snapshot_reader *sr, const struct trace_event *event)
{
	if (sr->holding && event->op == TRACE_FREE_COMPLETED && event->ptr == sr->held.ptr &&
	    event->device == sr->held.device) {
		sr->held.completed = true;
		sr->held.completed_ns = event->time_ns;
		queue_held(sr, false);
		return;
	}
	snapshot_flush(sr);
	if (event->op == TRACE_FREE && !event->completed) {
		sr->held = *event;
		sr->holding = true;
	} else {
		sr->queue[sr->queued++] = *event;
	}
}

bool
snapshot_entry(struct snapshot_reader *sr, struct pickle_value *value, int32_t device, uint64_t number)
{
	struct trace_event event = { .device = device };
	struct snapshot_fields fields;
	const struct action *action;

	snprintf(fields.place, sizeof fields.place, "entry %" PRIu64 " of device %" PRId32, number, device);
	if (!snapshot_fields(sr, value, &fields))
		return false;
	action = find_action(sr, &fields);
	if (action == NULL || !read_numbers(sr, &fields, action, &event) ||
	    !snapshot_pool(sr, &fields, KEY_POOL_ID, event.pool, &event.has_pool) ||
	    !snapshot_holder(sr, &fields, fields.at[KEY_FRAMES], &event.holder))
		return false;
	event.op = action->op;
	if (event.op == TRACE_FREE_COMPLETED && !sr->has_requests) {
		event.op = TRACE_FREE;
		event.completed = true;
		event.completed_ns = event.time_ns;
	}
	if (!read_detail(sr, &fields, &event))
		return false;
	queue_event(sr, &event);
	pickle_take(&sr->vm, value->object, USE_TAKEN, 0);
	return true;
}

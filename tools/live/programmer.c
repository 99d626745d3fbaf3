/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One small function for each kind of event.  The rules for what a trace says wrongly
 * are those of the engine (tools/engine/run.c).
 */
#include "tools/live/programmer.h"

#include <stdlib.h>
#include <string.h>

#include <soma/model.h>
#include <soma/resource.h>

#include "tools/xalloc.h"

struct block_entry {
	struct table_key key; /* the tag says whether its free is to be completed */
	uint32_t block, tag;
	uint64_t size;
};

struct number_entry {
	struct table_key key;
	uint32_t number;
};

enum { LIVE, PENDING };

void
programmer_init(struct programmer *p, struct program *program, struct trace_reader *reader,
		uint64_t scale, bool legacy)
{
	*p = (struct programmer){ .program = program, .reader = reader, .scale = scale };
	table_init(&p->blocks, sizeof(struct block_entry));
	table_init(&p->streams, sizeof(struct number_entry));
	table_init(&p->markers, sizeof(struct number_entry));
	program->legacy = legacy;
	program->stream_count = legacy;
	if (legacy)
		((struct number_entry *)table_add(&p->streams, 0))->number = 0;
}

void
programmer_fini(struct programmer *p)
{
	p->program->end_bytes = p->bytes;
	p->program->end_blocks = p->count;
	table_fini(&p->blocks);
	table_fini(&p->streams);
	table_fini(&p->markers);
	free(p->spare);
	free(p->tags);
}

static struct step *
add(struct programmer *p, const struct trace_event *event, enum step_op op)
{
	struct program *program = p->program;

	program->steps =
		xgrow(program->steps, &program->step_room, program->step_count, sizeof *program->steps);
	struct step *step = &program->steps[program->step_count++];
	*step = (struct step){ .event = event->index, .op = op };
	return step;
}

/* ---- numbers --------------------------------------------------------------- */

static uint32_t
take_block(struct programmer *p)
{
	return p->spare_count > 0 ? p->spare[--p->spare_count] : p->program->block_count++;
}

static void
give_block(struct programmer *p, struct block_entry *entry)
{
	p->spare = xgrow(p->spare, &p->spare_room, p->spare_count, sizeof *p->spare);
	p->spare[p->spare_count++] = entry->block;
	table_remove(&p->blocks, entry);
}

static uint32_t
create_stream(struct programmer *p, const struct trace_event *event, unsigned flags)
{
	struct number_entry *entry = table_add(&p->streams, event->stream);
	struct step *step = add(p, event, STEP_CREATE);

	entry->number = p->program->stream_count++;
	step->stream = entry->number;
	step->flags = flags;
	return entry->number;
}

static uint32_t
stream_of(struct programmer *p, const struct trace_event *event)
{
	const struct number_entry *entry = table_find(&p->streams, event->stream);

	return entry != NULL ? entry->number : create_stream(p, event, SOMA_STREAM_NON_BLOCKING);
}

/* A holder's tag: soma's names are not the trace's. */
static uint32_t
tag_of(struct programmer *p, trace_name name)
{
	while (name >= p->tag_room) {
		size_t room = p->tag_room;
		p->tags = xgrow(p->tags, &p->tag_room, p->tag_room, sizeof *p->tags);
		memset(p->tags + room, 0, (p->tag_room - room) * sizeof *p->tags);
	}
	if (p->tags[name] == SOMA_TAG_NONE)
		p->tags[name] = soma_tag_intern(trace_name_text(p->reader, name));
	return p->tags[name];
}

static bool
has_detail(const struct programmer *p, const struct trace_event *event, const char *text)
{
	return strcmp(trace_name_text(p->reader, event->detail), text) == 0;
}

/* ---- blocks ------------------------------------------------------------------ */

static void
put_free(struct programmer *p, const struct trace_event *event, struct block_entry *entry)
{
	if (entry->key.tag == LIVE) {
		uint32_t stream = stream_of(p, event);
		struct step *step = add(p, event, STEP_FREE);
		step->block = entry->block;
		step->stream = stream;
		step->size = entry->size;
		step->later = event->op == TRACE_FREE && event->deferred;
		p->bytes -= entry->size;
		p->count--;
	}
	if (event->op == TRACE_FREE && event->deferred)
		entry->key.tag = PENDING;
	else
		give_block(p, entry);
}

static void
note_peak(struct programmer *p, const struct trace_event *event)
{
	if (p->bytes <= p->program->peak_bytes)
		return;
	p->program->peak_bytes = p->bytes;
	p->program->peak_blocks = p->count;
	p->program->peak_event = event->index;
}

static void
on_alloc(struct programmer *p, const struct trace_event *event)
{
	struct block_entry *entry = table_find(&p->blocks, event->ptr);
	uint64_t size = event->size / p->scale;

	p->program->counts.allocs++;
	if (event->size == 0 || event->ptr == 0) {
		p->program->counts.ignored++;
		return;
	}
	if (entry != NULL) {
		p->program->counts.overwritten++;
		put_free(p, event, entry);
	}
	uint32_t stream = stream_of(p, event);
	entry = table_add(&p->blocks, event->ptr);
	entry->block = take_block(p);
	entry->size = size > 0 ? size : 1;
	struct step *step = add(p, event, STEP_ALLOC);
	step->block = entry->block;
	step->stream = stream;
	step->size = entry->size;
	step->tag = tag_of(p, event->holder);
	p->bytes += entry->size;
	p->count++;
	note_peak(p, event);
}

static void
on_free(struct programmer *p, const struct trace_event *event)
{
	struct block_entry *entry = table_find(&p->blocks, event->ptr);

	p->program->counts.frees++;
	if (event->ptr == 0)
		return;
	if (entry == NULL || entry->key.tag != LIVE)
		p->program->counts.unknown_frees++;
	else
		put_free(p, event, entry);
}

static void
on_free_completed(struct programmer *p, const struct trace_event *event)
{
	struct block_entry *entry = table_find(&p->blocks, event->ptr);

	if (entry == NULL || entry->key.tag != PENDING)
		return;
	add(p, event, STEP_COMPLETED)->block = entry->block;
	give_block(p, entry);
}

static void
on_use(struct programmer *p, const struct trace_event *event)
{
	const struct block_entry *entry = table_find(&p->blocks, event->ptr);

	if (entry == NULL || entry->key.tag != LIVE) {
		p->program->counts.unknown_uses++;
		return;
	}
	uint32_t block = entry->block, stream = stream_of(p, event);
	struct step *step = add(p, event, STEP_USE);
	step->block = block;
	step->stream = stream;
	step->access = has_detail(p, event, "read")    ? SOMA_ACCESS_READ
		       : has_detail(p, event, "write") ? SOMA_ACCESS_WRITE
						       : SOMA_ACCESS_READ_WRITE;
}

static void
on_failed(struct programmer *p, const struct trace_event *event)
{
	(void)event;
	p->program->counts.recorded_failed++;
}

/* ---- order --------------------------------------------------------------------- */

static void
on_record(struct programmer *p, const struct trace_event *event)
{
	struct number_entry *entry = table_find(&p->markers, event->ptr);
	uint32_t stream = stream_of(p, event);

	if (entry == NULL) {
		entry = table_add(&p->markers, event->ptr);
		entry->number = p->program->marker_count++;
	}
	struct step *step = add(p, event, STEP_RECORD);
	step->marker = entry->number;
	step->stream = stream;
}

static void
on_wait(struct programmer *p, const struct trace_event *event)
{
	const struct number_entry *entry = table_find(&p->markers, event->ptr);

	if (entry == NULL) {
		p->program->counts.unknown_markers++;
		return;
	}
	uint32_t stream = stream_of(p, event);
	struct step *step = add(p, event, STEP_WAIT);
	step->marker = entry->number;
	step->stream = stream;
}

static void
on_sync(struct programmer *p, const struct trace_event *event)
{
	if (has_detail(p, event, "device")) {
		add(p, event, STEP_SYNC_ALL);
		return;
	}
	if (has_detail(p, event, "event")) /* what recorded it did that for itself, and so does a replay */
		return;
	uint32_t stream = stream_of(p, event);
	add(p, event, STEP_SYNC)->stream = stream;
}

static void
on_trim(struct programmer *p, const struct trace_event *event)
{
	add(p, event, STEP_TRIM)->size = event->size / p->scale;
}

static bool
is_legacy(const struct programmer *p, const struct trace_event *event)
{
	return p->program->legacy && event->stream == 0;
}

static void
on_stream_destroy(struct programmer *p, const struct trace_event *event)
{
	struct number_entry *entry = table_find(&p->streams, event->stream);

	if (entry == NULL || is_legacy(p, event))
		return;
	add(p, event, STEP_DESTROY)->stream = entry->number;
	table_remove(&p->streams, entry);
}

/* A handle that comes back is a new stream. */
static void
on_stream_create(struct programmer *p, const struct trace_event *event)
{
	on_stream_destroy(p, event);
	if (!is_legacy(p, event))
		create_stream(p, event,
			      has_detail(p, event, "blocking") ? SOMA_STREAM_BLOCKING
							       : SOMA_STREAM_NON_BLOCKING);
}

typedef void event_function(struct programmer *p, const struct trace_event *event);

static event_function *const functions[TRACE_OP_COUNT] = {
	[TRACE_ALLOC] = on_alloc,
	[TRACE_FREE] = on_free,
	[TRACE_FREE_COMPLETED] = on_free_completed,
	[TRACE_ALLOC_FAILED] = on_failed,
	[TRACE_USE] = on_use,
	[TRACE_RECORD] = on_record,
	[TRACE_WAIT] = on_wait,
	[TRACE_SYNC] = on_sync,
	[TRACE_TRIM] = on_trim,
	[TRACE_STREAM_CREATE] = on_stream_create,
	[TRACE_STREAM_DESTROY] = on_stream_destroy,
	[TRACE_OOM] = on_failed,
};

void
programmer_put(struct programmer *p, const struct trace_event *event)
{
	if (functions[event->op] != NULL)
		functions[event->op](p, event);
}

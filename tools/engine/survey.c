/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first pass.  It keeps its own account of live blocks and asks no model.
 */
#include "tools/engine/survey.h"

#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

#define PROGRESS_EVERY 65536

struct survey_device *
survey_find(const struct survey *survey, int32_t device)
{
	for (size_t i = 0; i < survey->device_count; i++)
		if (survey->devices[i].device == device)
			return &survey->devices[i];
	return NULL;
}

struct survey_device *
survey_need(struct survey *survey, int32_t device)
{
	struct survey_device *found = survey_find(survey, device);

	if (found != NULL)
		return found;
	survey->devices =
		xgrow(survey->devices, &survey->device_room, survey->device_count, sizeof *survey->devices);
	found = &survey->devices[survey->device_count++];
	*found = (struct survey_device){
		.device = device,
		.expandable_event = SURVEY_NO_EVENT,
		.peak_event = SURVEY_NO_EVENT,
	};
	table_init(&found->live, sizeof(struct survey_block));
	table_init(&found->segments, sizeof(struct survey_segment));
	table_init(&found->units, sizeof(struct survey_segment));
	return found;
}

/* Without any event the segments are all there is, and the answer. */
bool
survey_is_whole(const struct survey *survey, int32_t device)
{
	return !survey->truncated || survey->events == 0 || device < survey->last_device;
}

struct survey_device *
survey_busiest(const struct survey *survey)
{
	struct survey_device *best = NULL;

	for (size_t i = 0; i < survey->device_count; i++) {
		struct survey_device *device = &survey->devices[i];

		if (best == NULL || device->allocs > best->allocs ||
		    (device->allocs == best->allocs && device->device < best->device))
			best = device;
	}
	return best;
}

static void
account(struct survey_device *device, trace_name holder, uint64_t size, int sign)
{
	holders_add(&device->holders, holder, size, sign);
	device->bytes = (int64_t)((uint64_t)device->bytes + (sign < 0 ? 0 - size : size));
}

static void
forget(struct survey_device *device, struct survey_block *block)
{
	if (!block->pending)
		account(device, block->key.tag, block->size, -1);
	table_remove(&device->live, block);
}

static void
see_alloc(struct survey_device *device, const struct trace_event *event)
{
	struct survey_block *block = table_find(&device->live, event->ptr);

	device->allocs++;
	if (event->ptr == 0 || event->size == 0)
		return;
	if (block != NULL)
		forget(device, block);
	block = table_add(&device->live, event->ptr);
	block->size = event->size;
	block->key.tag = event->holder;
	account(device, event->holder, event->size, 1);
	if (device->bytes > device->peak_bytes) {
		device->peak_bytes = device->bytes;
		device->peak_event = event->index;
		holders_mark_peak(&device->holders);
	}
}

static void
add_orphan(struct survey_device *device, const struct trace_event *event, bool pending)
{
	device->frees_unknown = true;
	device->orphans =
		xgrow(device->orphans, &device->orphan_room, device->orphan_count, sizeof *device->orphans);
	device->orphans[device->orphan_count++] = (struct survey_orphan){
		.ptr = event->ptr,
		.size = event->size,
		.stream = event->stream,
		.pending = pending,
	};
}

/* A block that was live before the trace has no holder that we know. */
static void
see_orphan_free(struct survey_device *device, const struct trace_event *event)
{
	struct survey_block *block;

	add_orphan(device, event, false);
	account(device, 0, event->size, -1);
	if (!event->deferred)
		return;
	block = table_add(&device->live, event->ptr);
	block->pending = true;
}

static void
see_free(struct survey_device *device, const struct trace_event *event, bool rewinds)
{
	struct survey_block *block = table_find(&device->live, event->ptr);

	if (event->ptr == 0)
		return;
	if (block == NULL) {
		if (rewinds)
			see_orphan_free(device, event);
		return;
	}
	if (event->deferred && !block->pending) {
		account(device, block->key.tag, block->size, -1);
		block->pending = true;
	} else {
		forget(device, block);
	}
}

static void
see_completed(struct survey_device *device, const struct trace_event *event, bool rewinds)
{
	struct survey_block *block = table_find(&device->live, event->ptr);

	if (block != NULL)
		forget(device, block);
	else if (rewinds)
		add_orphan(device, event, true);
}

static void
see_segment(struct survey_device *device, const struct trace_event *event)
{
	struct survey_segment *segment = table_find(&device->segments, event->ptr);

	if (event->op == TRACE_SEGMENT_ALLOC)
		device->segment_allocs++;
	if (segment != NULL)
		return;
	segment = table_add(&device->segments, event->ptr);
	segment->at_start = event->op == TRACE_SEGMENT_FREE;
	device->frees_unknown |= segment->at_start;
	segment->size = event->size;
	segment->stream = event->stream;
	segment->has_pool = event->has_pool;
	memcpy(segment->pool, event->pool, sizeof segment->pool);
}

/* More than any device has is no real event. */
#define UNITS_MAX ((uint64_t)1 << 22)

/* Only a snapshot makes it worth knowing which part was first mapped, which unmapped. */
static void
see_part(struct survey_device *device, const struct trace_event *event, bool rewinds)
{
	uint64_t units = event->size / SURVEY_UNIT;

	if (device->expandable_event == SURVEY_NO_EVENT)
		device->expandable_event = event->index;
	if (!rewinds || event->ptr == 0 || units > UNITS_MAX || event->ptr > UINT64_MAX - event->size)
		return;
	for (uint64_t i = 0; i < units; i++) {
		uint64_t address = event->ptr + i * SURVEY_UNIT;
		struct survey_segment *unit = table_find(&device->units, address);

		if (unit != NULL)
			continue;
		unit = table_add(&device->units, address);
		unit->at_start = event->op == TRACE_SEGMENT_UNMAP;
		device->frees_unknown |= unit->at_start;
		unit->size = event->size;
		unit->stream = event->stream;
		unit->has_pool = event->has_pool;
		memcpy(unit->pool, event->pool, sizeof unit->pool);
	}
}

static void
see_address(struct survey_device *device, const struct trace_event *event)
{
	uint64_t end;

	if (event->ptr == 0 || __builtin_add_overflow(event->ptr, event->size, &end))
		return;
	if (end > device->highest)
		device->highest = end;
}

static void
see_time(struct survey_device *device, const struct trace_event *event)
{
	if (device->events == 0)
		device->first_time = event->time_ns;
	else if (event->time_ns < device->last_time)
		device->time_goes_back = true;
	device->last_time = event->time_ns;
}

static bool
is_blocking(struct trace_reader *reader, const struct trace_event *event)
{
	return strcmp(trace_name_text(reader, event->detail), "blocking") == 0;
}

static void
see_event(struct survey_device *device, struct trace_reader *reader, const struct trace_event *event,
	  bool rewinds)
{
	see_time(device, event);
	device->events++;
	switch (event->op) {
	case TRACE_ALLOC:
		see_address(device, event);
		see_alloc(device, event);
		break;
	case TRACE_FREE:
		see_free(device, event, rewinds);
		break;
	case TRACE_FREE_COMPLETED:
		see_completed(device, event, rewinds);
		break;
	case TRACE_SEGMENT_ALLOC:
	case TRACE_SEGMENT_FREE:
		see_address(device, event);
		see_segment(device, event);
		break;
	case TRACE_SEGMENT_MAP:
	case TRACE_SEGMENT_UNMAP:
		see_address(device, event);
		see_part(device, event, rewinds);
		break;
	case TRACE_STREAM_CREATE:
		if (is_blocking(reader, event))
			device->has_blocking = true;
		break;
	default:
		break;
	}
}

/* Live from the start, as the trace says.  What is counted of live bytes is without it. */
static void
begin_with(struct survey *survey, const struct trace_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->segment_count; i++) {
		const struct trace_segment *segment = &snapshot->segments[i];
		struct survey_device *device = survey_need(survey, segment->device);

		for (size_t j = 0; j < segment->block_count; j++) {
			const struct trace_block *block = &segment->blocks[j];
			struct survey_block *live;

			if (table_find(&device->live, block->address) != NULL)
				continue;
			live = table_add(&device->live, block->address);
			live->size = block->requested > 0 ? block->requested : block->size;
			live->key.tag = block->holder;
			live->pending = block->state == TRACE_BLOCK_PENDING;
		}
	}
}

enum trace_result
survey_run(struct survey *survey, struct trace_reader *reader, void (*progress)(void *context, double done),
	   void *context, struct trace_error *error)
{
	const struct trace_snapshot *snapshot = trace_snapshot(reader);
	struct trace_event event;
	enum trace_result result;

	*survey = (struct survey){ .rewinds = snapshot != NULL && !snapshot->at_start };
	if (snapshot != NULL && snapshot->at_start)
		begin_with(survey, snapshot);
	while ((result = trace_next(reader, &event, error)) == TRACE_OK) {
		see_event(survey_need(survey, event.device), reader, &event, survey->rewinds);
		survey->last_device = event.device;
		if (++survey->events % PROGRESS_EVERY == 0 && progress != NULL)
			progress(context, trace_progress(reader));
	}
	if (result == TRACE_TRUNCATED) {
		survey->truncated = true;
		survey->truncation = *error;
	}
	return result == TRACE_ERROR ? TRACE_ERROR : TRACE_OK;
}

void
survey_fini(struct survey *survey)
{
	for (size_t i = 0; i < survey->device_count; i++) {
		table_fini(&survey->devices[i].live);
		table_fini(&survey->devices[i].segments);
		table_fini(&survey->devices[i].units);
		free(survey->devices[i].orphans);
		holders_fini(&survey->devices[i].holders);
	}
	free(survey->devices);
	*survey = (struct survey){ 0 };
}

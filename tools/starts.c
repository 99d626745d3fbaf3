/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's own start, device by device, as a snapshot.
 */
#include "tools/starts.h"

#include <stdlib.h>

#include "tools/answer.h"
#include "tools/engine/session.h"
#include "tools/engine/streams.h"
#include "tools/xalloc.h"

/* The pools by address; of struct streams nothing else. */
struct starts_device {
	int32_t device;
	struct streams streams;
};

static struct trace_block
block_of(const struct start_block *block)
{
	return (struct trace_block){
		.address = block->ptr,
		.size = block->capacity,
		.requested = block->size,
		.state = block->pending ? TRACE_BLOCK_PENDING : TRACE_BLOCK_LIVE,
		.holder = block->holder,
	};
}

static void
find_pool(const struct streams *streams, uint64_t address, uint64_t pool[2])
{
	size_t group = streams_group(streams, address);

	pool[0] = streams->pools[group][0];
	pool[1] = streams->pools[group][1];
}

static struct trace_segment *
add_segment(struct starts *starts, const struct starts_device *device, const struct start_segment *segment)
{
	struct trace_snapshot *snapshot = &starts->snapshot;
	struct trace_segment *added;

	snapshot->segments =
		xgrow(snapshot->segments, &starts->room, snapshot->segment_count, sizeof *snapshot->segments);
	added = &snapshot->segments[snapshot->segment_count++];
	*added = (struct trace_segment){
		.device = device->device,
		.small = segment->pool == 0,
		.expandable = segment->expandable,
		.address = segment->address,
		.size = segment->size,
		.stream = segment->stream,
		.pool = { segment->private_pool[0], segment->private_pool[1] },
	};
	if (!segment->has_pool)
		find_pool(&device->streams, segment->address, added->pool);
	starts->pools |= added->pool[0] != 0 || added->pool[1] != 0;
	return added;
}

/* Blocks are in the order of their segments. */
static void
add_start(struct starts *starts, const struct starts_device *device, const struct start *start)
{
	size_t next = 0;

	for (size_t i = 0; i < start->segment_count; i++) {
		struct trace_segment *segment = add_segment(starts, device, &start->segments[i]);
		size_t first = next;

		while (next < start->block_count && start->blocks[next].segment == i)
			next++;
		segment->blocks = xcalloc(next - first, sizeof *segment->blocks);
		for (size_t j = first; j < next; j++)
			segment->blocks[segment->block_count++] = block_of(&start->blocks[j]);
	}
}

static uint64_t
segments_of(const struct trace_snapshot *snapshot, int32_t device)
{
	uint64_t count = 0;

	for (size_t i = 0; i < snapshot->segment_count; i++)
		count += snapshot->segments[i].device == device;
	return count;
}

static void
add_device(struct starts *starts, int32_t device, const struct trace_snapshot *snapshot)
{
	struct starts_device *added;

	starts->devices =
		xgrow(starts->devices, &starts->device_room, starts->device_count, sizeof *starts->devices);
	added = &starts->devices[starts->device_count++];
	added->device = device;
	streams_init(&added->streams, NULL, false, device, snapshot);
	starts->pools |= added->streams.group_count > 1;
}

/* What no replay can begin with is no start. */
static enum soma_status
find_start(struct starts *starts, struct replay_session *session, int32_t device, struct trace_error *error)
{
	const struct trace_snapshot *snapshot = trace_snapshot(session->reader);
	struct replay_options options = answer_options();
	struct session_plan plan;
	enum soma_status status;

	options.device = device;
	add_device(starts, device, snapshot);
	status = session_plan(session, &options, &plan, error);
	if (status == SOMA_STATUS_NOT_SUPPORTED || (status == SOMA_STATUS_OK && plan.run.start_unknown))
		starts->unknown += segments_of(snapshot, device);
	else if (status == SOMA_STATUS_OK)
		add_start(starts, &starts->devices[starts->device_count - 1], &plan.start);
	session_plan_fini(&plan);
	return status == SOMA_STATUS_NOT_SUPPORTED ? SOMA_STATUS_OK : status;
}

enum trace_result
starts_find(struct starts *starts, struct trace_reader *reader, struct trace_error *error)
{
	struct replay_options options = answer_options();
	struct replay_session *session;
	struct survey_device *busiest;
	enum soma_status status;

	*starts = (struct starts){ .snapshot.at_start = true };
	if (trace_snapshot(reader) == NULL)
		return TRACE_OK;
	status = replay_begin(reader, &options, &session, error);
	if (status == SOMA_STATUS_OK)
		status = session_device(session, REPLAY_DEVICE_ANY, &busiest, error);
	for (size_t i = 0; status == SOMA_STATUS_OK && i < session->survey.device_count; i++)
		status = find_start(starts, session, session->survey.devices[i].device, error);
	replay_end(session);
	return status == SOMA_STATUS_OK ? TRACE_OK : TRACE_ERROR;
}

/* Those by which a replay asks for a pool (streams_group_of_event()). */
void
starts_fill_pool(const struct starts *starts, struct trace_event *event)
{
	bool asks = event->op == TRACE_ALLOC || event->op == TRACE_FREE || event->op == TRACE_SEGMENT_ALLOC ||
		    event->op == TRACE_SEGMENT_FREE || event->op == TRACE_SEGMENT_MAP ||
		    event->op == TRACE_SEGMENT_UNMAP;

	if (!asks || event->has_pool || !starts->pools)
		return;
	for (size_t i = 0; i < starts->device_count; i++) {
		if (starts->devices[i].device != event->device)
			continue;
		find_pool(&starts->devices[i].streams, event->ptr, event->pool);
		event->has_pool = true;
	}
}

void
starts_fini(struct starts *starts)
{
	for (size_t i = 0; i < starts->snapshot.segment_count; i++)
		free(starts->snapshot.segments[i].blocks);
	free(starts->snapshot.segments);
	for (size_t i = 0; i < starts->device_count; i++)
		streams_fini(&starts->devices[i].streams);
	free(starts->devices);
	*starts = (struct starts){ .room = 0 };
}

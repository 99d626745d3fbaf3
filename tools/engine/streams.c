/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles to streams.  A handle that comes back after its stream was destroyed is
 * a new stream.
 */
#include "tools/engine/streams.h"

#include <stdlib.h>

#include "tools/engine/expandable.h"
#include "tools/xalloc.h"

struct stream_entry {
	struct table_key key; /* handle */
	uint64_t stream;
};

struct handle_entry {
	struct table_key key; /* stream */
	uint64_t handle;
	size_t group;
};

struct event_entry {
	struct table_key key; /* handle */
	uint64_t stream;
	uint64_t seq;
};

uint64_t
streams_used(const struct streams *streams)
{
	return streams->expandable != NULL ? expandable_stats(streams->expandable)->used
					   : soma_model_used(streams->model);
}

uint64_t
streams_capacity(const struct streams *streams)
{
	return streams->expandable != NULL ? expandable_stats(streams->expandable)->capacity
					   : soma_model_capacity(streams->model);
}

uint64_t
streams_reserved(const struct streams *streams)
{
	return streams->expandable != NULL ? expandable_stats(streams->expandable)->reserved
					   : soma_model_reserved(streams->model);
}

static int
by_address(const void *left, const void *right)
{
	const struct stream_range *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

static bool
is_private(const struct trace_segment *segment, int32_t device)
{
	return segment->device == device && (segment->pool[0] != 0 || segment->pool[1] != 0);
}

static size_t
add_group(struct streams *streams, const uint64_t pool[2])
{
	size_t group = streams->group_count;

	streams->groups = xgrow(streams->groups, &streams->group_room, group, sizeof *streams->groups);
	streams->pools = xgrow(streams->pools, &streams->pool_room, group, sizeof *streams->pools);
	table_init(&streams->groups[group], sizeof(struct stream_entry));
	streams->pools[group][0] = pool[0];
	streams->pools[group][1] = pool[1];
	return streams->group_count++;
}

/* The latest first: events of one pool come in runs, and after it was made. */
size_t
streams_group_of_pool(struct streams *streams, const uint64_t pool[2])
{
	if (pool[0] == 0 && pool[1] == 0)
		return 0;
	for (size_t i = streams->group_count; i-- > 1;)
		if (streams->pools[i][0] == pool[0] && streams->pools[i][1] == pool[1])
			return i;
	return add_group(streams, pool);
}

size_t
streams_group_of_event(struct streams *streams, const struct trace_event *event)
{
	return event->has_pool ? streams_group_of_pool(streams, event->pool)
			       : streams_group(streams, event->ptr);
}

static void
find_private_pools(struct streams *streams, const struct trace_snapshot *snapshot, int32_t device)
{
	size_t room = 0;

	for (size_t i = 0; i < snapshot->segment_count; i++) {
		const struct trace_segment *segment = &snapshot->segments[i];

		if (!is_private(segment, device))
			continue;
		streams->ranges =
			xgrow(streams->ranges, &room, streams->range_count, sizeof *streams->ranges);
		streams->ranges[streams->range_count++] =
			(struct stream_range){ segment->address, segment->size,
					       streams_group_of_pool(streams, segment->pool) };
	}
	if (streams->range_count > 0)
		qsort(streams->ranges, streams->range_count, sizeof *streams->ranges, by_address);
}

void
streams_init(struct streams *streams, struct soma_model *model, bool has_legacy, int32_t device,
	     const struct trace_snapshot *snapshot)
{
	*streams = (struct streams){ .model = model, .has_legacy = has_legacy };
	add_group(streams, (const uint64_t[2]){ 0, 0 });
	if (snapshot != NULL)
		find_private_pools(streams, snapshot, device);
	table_init(&streams->handles, sizeof(struct handle_entry));
	table_init(&streams->events, sizeof(struct event_entry));
}

void
streams_fini(struct streams *streams)
{
	for (size_t i = 0; i < streams->group_count; i++)
		table_fini(&streams->groups[i]);
	free(streams->groups);
	free(streams->pools);
	free(streams->ranges);
	table_fini(&streams->handles);
	table_fini(&streams->events);
	*streams = (struct streams){ 0 };
}

size_t
streams_group(const struct streams *streams, uint64_t address)
{
	size_t low = 0, high = streams->range_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct stream_range *range = &streams->ranges[middle];

		if (address < range->address)
			high = middle;
		else if (address - range->address >= range->size)
			low = middle + 1;
		else
			return range->group;
	}
	return 0;
}

static bool
is_known(const struct streams *streams, uint64_t handle)
{
	for (size_t i = 0; i < streams->group_count; i++)
		if (table_find(&streams->groups[i], handle) != NULL)
			return true;
	return false;
}

static void
enter(struct streams *streams, uint64_t handle, size_t group, uint64_t stream)
{
	struct handle_entry *entry = table_add(&streams->handles, stream);
	struct stream_entry *of_group;

	entry->handle = handle;
	entry->group = group;
	streams->seen += !is_known(streams, handle);
	of_group = table_add(&streams->groups[group], handle);
	of_group->stream = stream;
}

static enum soma_status
make(struct streams *streams, uint64_t handle, size_t group, unsigned flags, uint64_t *stream)
{
	enum soma_status status = SOMA_STATUS_OK;

	if (handle == 0 && group == 0 && streams->has_legacy)
		*stream = 0;
	else
		status = soma_model_stream_create(streams->model, flags, stream);
	if (status == SOMA_STATUS_OK)
		enter(streams, handle, group, *stream);
	return status;
}

enum soma_status
streams_get(struct streams *streams, uint64_t handle, size_t group, uint64_t *stream)
{
	const struct stream_entry *entry = table_find(&streams->groups[group], handle);

	if (entry == NULL)
		return make(streams, handle, group, SOMA_STREAM_NON_BLOCKING, stream);
	*stream = entry->stream;
	return SOMA_STATUS_OK;
}

uint64_t
streams_handle(const struct streams *streams, uint64_t stream, uint64_t pool[2])
{
	const struct handle_entry *entry = table_find(&streams->handles, stream);

	pool[0] = entry != NULL ? streams->pools[entry->group][0] : 0;
	pool[1] = entry != NULL ? streams->pools[entry->group][1] : 0;
	return entry != NULL ? entry->handle : 0;
}

bool
streams_are_one(const struct streams *streams, uint64_t stream, uint64_t other)
{
	const struct handle_entry *a, *b;

	if (stream == other)
		return true;
	a = table_find(&streams->handles, stream);
	b = table_find(&streams->handles, other);
	return a != NULL && b != NULL && a->handle == b->handle;
}

enum soma_status
streams_destroy(struct streams *streams, uint64_t handle)
{
	struct stream_entry *entry = table_find(&streams->groups[0], handle);
	uint64_t stream;

	if (entry == NULL || entry->stream == 0)
		return SOMA_STATUS_OK;
	stream = entry->stream;
	table_remove(&streams->groups[0], entry);
	table_remove(&streams->handles, table_find(&streams->handles, stream));
	return soma_model_stream_destroy(streams->model, stream);
}

enum soma_status
streams_create(struct streams *streams, uint64_t handle, bool blocking)
{
	uint64_t stream;
	enum soma_status status = streams_destroy(streams, handle);

	if (status != SOMA_STATUS_OK || table_find(&streams->groups[0], handle) != NULL)
		return status;
	return make(streams, handle, 0, blocking ? SOMA_STREAM_BLOCKING : SOMA_STREAM_NON_BLOCKING, &stream);
}

enum soma_status
streams_synchronize(struct streams *streams, uint64_t handle)
{
	uint64_t stream;
	enum soma_status status = streams_get(streams, handle, 0, &stream);

	for (size_t i = 0; status == SOMA_STATUS_OK && i < streams->group_count; i++) {
		const struct stream_entry *entry = table_find(&streams->groups[i], handle);

		if (entry != NULL)
			status = soma_model_synchronize(streams->model, entry->stream);
	}
	return status;
}

enum soma_status
streams_record(struct streams *streams, uint64_t handle, uint64_t event)
{
	struct event_entry *entry;
	uint64_t stream, seq;
	enum soma_status status = streams_get(streams, handle, 0, &stream);

	if (status == SOMA_STATUS_OK)
		status = soma_model_record_event(streams->model, stream, &seq);
	if (status != SOMA_STATUS_OK)
		return status;
	entry = table_find(&streams->events, event);
	if (entry == NULL)
		entry = table_add(&streams->events, event);
	entry->stream = stream;
	entry->seq = seq;
	return SOMA_STATUS_OK;
}

enum soma_status
streams_wait(struct streams *streams, uint64_t handle, uint64_t event)
{
	const struct event_entry *entry = table_find(&streams->events, event);
	uint64_t stream;
	enum soma_status status;

	if (entry == NULL)
		return SOMA_STATUS_NOT_FOUND;
	status = streams_get(streams, handle, 0, &stream);
	if (status != SOMA_STATUS_OK)
		return status;
	return soma_model_wait_event(streams->model, stream, entry->stream, entry->seq);
}

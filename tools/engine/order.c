/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks as wide as they need to be: what is beyond a clock's width is 0.  Joins are left out
 * where nothing changed since the last one, by version numbers.
 */
#include "tools/engine/order.h"

#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

#define HOST 0u

struct order_event {
	struct table_key key; /* handle */
	struct order_clock clock;
};

/* ---- clocks ------------------------------------------------------------------ */

static void
widen(struct order_clock *clock, uint32_t width)
{
	uint32_t wider = clock->width > 0 ? clock->width : 4;

	if (width <= clock->width)
		return;
	while (wider < width)
		wider *= 2;
	clock->tick = xreallocarray(clock->tick, wider, sizeof *clock->tick);
	memset(clock->tick + clock->width, 0, (wider - clock->width) * sizeof *clock->tick);
	clock->width = wider;
}

static uint64_t
component(const struct order_clock *clock, uint32_t lane)
{
	return lane < clock->width ? clock->tick[lane] : 0;
}

static bool
join(struct order_clock *clock, const struct order_clock *from)
{
	bool grew = false;

	widen(clock, from->width);
	for (uint32_t i = 0; i < from->width; i++) {
		if (from->tick[i] > clock->tick[i]) {
			clock->tick[i] = from->tick[i];
			grew = true;
		}
	}
	return grew;
}

static void
join_lane(struct order *order, uint32_t lane, const struct order_clock *from)
{
	order->lanes[lane].version += join(&order->lanes[lane].now, from);
}

/* ---- lanes ------------------------------------------------------------------- */

void
order_init(struct order *order)
{
	*order = (struct order){ 0 };
	table_init(&order->events, sizeof(struct order_event));
	order->lanes = xgrow(NULL, &order->room, 0, sizeof *order->lanes);
	order->lanes[order->count++] = (struct order_lane){ .version = 1 };
}

void
order_fini(struct order *order)
{
	struct order_event *event;
	size_t cursor = 0;

	while ((event = table_next(&order->events, &cursor)) != NULL)
		free(event->clock.tick);
	table_fini(&order->events);
	for (size_t i = 0; i < order->count; i++)
		free(order->lanes[i].now.tick);
	for (size_t i = 0; i < order->device_count; i++)
		table_fini(&order->devices[i].streams);
	free(order->lanes);
	free(order->devices);
	*order = (struct order){ 0 };
}

static struct order_device *
device_of(struct order *order, int32_t number)
{
	struct order_device *device;

	for (size_t i = 0; i < order->device_count; i++)
		if (order->devices[i].device == number)
			return &order->devices[i];
	order->devices =
		xgrow(order->devices, &order->device_room, order->device_count, sizeof *order->devices);
	device = &order->devices[order->device_count++];
	*device = (struct order_device){ .device = number };
	table_init(&device->streams, sizeof(struct table_key));
	return device;
}

/* A lane whose stream is gone, and whose every operation the host has seen the end of. */
static uint32_t
spent_lane(struct order *order)
{
	for (uint32_t i = 1; order->gone > 0 && i < order->count; i++) {
		const struct order_lane *lane = &order->lanes[i];

		if (lane->gone && component(&order->lanes[HOST].now, i) >= component(&lane->now, i)) {
			order->gone--;
			return i;
		}
	}
	return 0;
}

static uint32_t
new_lane(struct order *order)
{
	uint32_t lane = spent_lane(order);

	if (lane != 0)
		return lane;
	if (order->count == ORDER_LANES_MAX) {
		order->crowded = true;
		return 0;
	}
	order->lanes = xgrow(order->lanes, &order->room, order->count, sizeof *order->lanes);
	order->lanes[order->count] = (struct order_lane){ 0 };
	return (uint32_t)order->count++;
}

/* Ticks go on where another stream's ended: so what is new in the lane is after what was. */
static uint32_t
add_stream(struct order *order, int32_t number, uint64_t stream, bool blocking, bool declared)
{
	uint32_t index = new_lane(order);
	struct order_lane *lane = &order->lanes[index];
	struct order_device *device;
	struct table_key *key;
	uint64_t tick, version;

	if (index == 0)
		return 0;
	tick = component(&lane->now, index);
	version = lane->version;
	free(lane->now.tick);
	*lane = (struct order_lane){ .stream = stream, .device = number, .version = version + 1 };
	lane->legacy = stream == 0;
	lane->blocking = blocking && stream != 0;
	lane->declared = declared;
	widen(&lane->now, index + 1);
	lane->now.tick[index] = tick;
	join(&lane->now, &order->lanes[HOST].now);
	device = device_of(order, number);
	key = table_find(&device->streams, stream);
	if (key == NULL)
		key = table_add(&device->streams, stream);
	key->tag = index;
	if (lane->legacy)
		device->legacy = index;
	order->streams++;
	return index;
}

uint32_t
order_lane(struct order *order, int32_t device, uint64_t stream)
{
	struct table_key *key = table_find(&device_of(order, device)->streams, stream);

	return key != NULL ? key->tag : add_stream(order, device, stream, false, false);
}

static void
leave(struct order *order, struct table *streams, struct table_key *key)
{
	order->lanes[key->tag].gone = true;
	order->gone++;
	table_remove(streams, key);
}

void
order_create(struct order *order, int32_t device, uint64_t stream, bool blocking, bool declared)
{
	struct table *streams = &device_of(order, device)->streams;
	struct table_key *key = table_find(streams, stream);

	/* The legacy default stream is always there; any other of this handle must be gone. */
	if (stream == 0)
		return;
	if (key != NULL)
		leave(order, streams, key);
	add_stream(order, device, stream, blocking, declared);
}

void
order_destroy(struct order *order, int32_t device, uint64_t stream)
{
	struct table *streams = &device_of(order, device)->streams;
	struct table_key *key = table_find(streams, stream);

	if (key != NULL && stream != 0)
		leave(order, streams, key);
}

/* ---- what is implied ----------------------------------------------------------- */

static void
join_blocking(struct order *order, uint32_t legacy)
{
	for (uint32_t i = 1; i < order->count; i++) {
		struct order_lane *lane = &order->lanes[i];

		if (!lane->blocking || lane->device != order->lanes[legacy].device ||
		    lane->seen_by_legacy == lane->version)
			continue;
		join_lane(order, legacy, &lane->now);
		lane->seen_by_legacy = lane->version;
	}
}

static void
catch_up(struct order *order, uint32_t index)
{
	struct order_lane *lane = &order->lanes[index], *host = &order->lanes[HOST];

	if (lane->seen_host != host->version) {
		join_lane(order, index, &host->now);
		lane->seen_host = host->version;
	}
	if (lane->legacy) {
		join_blocking(order, index);
	} else if (lane->blocking) {
		uint32_t legacy = device_of(order, lane->device)->legacy;

		if (legacy != 0 && lane->seen_legacy != order->lanes[legacy].version) {
			join_lane(order, index, &order->lanes[legacy].now);
			lane->seen_legacy = order->lanes[legacy].version;
		}
	}
}

/* ---- operations ----------------------------------------------------------------- */

struct order_point
order_op(struct order *order, uint32_t lane)
{
	if (lane == 0)
		return (struct order_point){ 0 };
	catch_up(order, lane);
	order->lanes[lane].version++;
	return (struct order_point){ ++order->lanes[lane].now.tick[lane], lane };
}

bool
order_is_after(const struct order *order, uint32_t lane, struct order_point point)
{
	return component(&order->lanes[lane].now, point.lane) >= point.tick;
}

bool
order_is_settled(const struct order *order, struct order_point point)
{
	return order_is_after(order, HOST, point);
}

void
order_record(struct order *order, uint32_t lane, uint64_t handle)
{
	struct order_event *event = table_find(&order->events, handle);
	const struct order_clock *now;

	if (lane == 0)
		return;
	catch_up(order, lane);
	now = &order->lanes[lane].now;
	if (event == NULL)
		event = table_add(&order->events, handle);
	if (event->clock.width > 0)
		memset(event->clock.tick, 0, event->clock.width * sizeof *event->clock.tick);
	join(&event->clock, now);
}

void
order_wait(struct order *order, uint32_t lane, uint64_t handle)
{
	const struct order_event *event = table_find(&order->events, handle);

	if (event == NULL)
		order->unknown_waits++;
	if (event == NULL || lane == 0)
		return;
	catch_up(order, lane);
	join_lane(order, lane, &event->clock);
}

void
order_sync(struct order *order, uint32_t lane)
{
	if (lane == 0)
		return;
	catch_up(order, lane);
	join_lane(order, HOST, &order->lanes[lane].now);
}

void
order_sync_event(struct order *order, uint64_t handle)
{
	const struct order_event *event = table_find(&order->events, handle);

	if (event == NULL)
		order->unknown_waits++;
	else
		join_lane(order, HOST, &event->clock);
}

void
order_sync_device(struct order *order, int32_t device)
{
	for (uint32_t i = 1; i < order->count; i++)
		if (order->lanes[i].device == device)
			join_lane(order, HOST, &order->lanes[i].now);
}

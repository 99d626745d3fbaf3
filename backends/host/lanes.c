/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing out lanes, and queueing on them.  Running is run.c.
 *
 * A lane becomes spare when its last handle is closed and it has run; until then a stream
 * that was destroyed still has its work done by whoever waits for it.
 */
#include "backends/host/lanes.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPS_AT_ONCE 32

/* Spare lanes that a new stream looks at. */
#define LOOKS 8

/* Native handles below are the default streams' names elsewhere. */
#define NATIVE_FIRST 16

/* ---- records ------------------------------------------------------------------ */

static struct soma_backend_stream *
lane_new(struct lanes *lanes)
{
	struct soma_backend_stream *lane = lanes->host->alloc(lanes->host->context, sizeof *lane, 64);

	if (lane == NULL)
		return NULL;
	memset(lane, 0, sizeof *lane);
	pthread_mutex_init(&lane->queue, NULL);
	pthread_mutex_init(&lane->turn, NULL);
	lane->tail = &lane->head;
	lane->done_tail = &lane->done;
	lane->native = NATIVE_FIRST + lanes->count++;
	atomic_init(&lane->ticket, UINT64_MAX);
	lane->next = atomic_load(&lanes->all);
	atomic_store(&lanes->all, lane);
	return lane;
}

bool
lane_is_done(const struct soma_backend_stream *lane)
{
	uint64_t queued = atomic_load_explicit(&lane->queued, memory_order_acquire);

	return atomic_load_explicit(&lane->run, memory_order_acquire) >= queued;
}

/* ---- spare ones, with lanes->mutex held ------------------------------------------ */

static void
put_spare(struct lanes *lanes, struct soma_backend_stream *lane)
{
	lane->next_spare = NULL;
	*lanes->spare_end = lane;
	lanes->spare_end = &lane->next_spare;
	lanes->spare++;
}

static void
take_spare(struct lanes *lanes, struct soma_backend_stream **at)
{
	struct soma_backend_stream *lane = *at;

	*at = lane->next_spare;
	if (*at == NULL)
		lanes->spare_end = at;
	lanes->spare--;
}

/* One that has run, or NULL.  Those that are at work go to the end, so that the next time others are looked at. */
static struct soma_backend_stream *
find_spare(struct lanes *lanes)
{
	for (uint64_t looks = lanes->spare < LOOKS ? lanes->spare : LOOKS; looks > 0; looks--) {
		struct soma_backend_stream *lane = lanes->spare_first;
		take_spare(lanes, &lanes->spare_first);
		if (lane_is_done(lane))
			return lane;
		put_spare(lanes, lane);
	}
	return NULL;
}

static struct soma_backend_stream *
lane_open_locked(struct lanes *lanes, enum lane_kind kind)
{
	struct soma_backend_stream *lane = find_spare(lanes);

	if (lane == NULL)
		lane = lane_new(lanes);
	if (lane == NULL)
		return NULL;
	lane->handles = 1;
	lane->thread = 0;
	pthread_mutex_lock(&lane->queue);
	lane->base = atomic_load(&lane->queued);
	pthread_mutex_unlock(&lane->queue);
	atomic_store(&lane->id, ++lanes->last_id);
	atomic_store(&lane->kind, kind);
	return lane;
}

/* One more handle of a lane that is there. */
static void
hold_lane(struct lanes *lanes, struct soma_backend_stream *lane)
{
	struct soma_backend_stream **at = &lanes->spare_first;

	if (lane->handles++ > 0)
		return;
	while (*at != lane)
		at = &(*at)->next_spare;
	take_spare(lanes, at);
}

struct soma_backend_stream *
lane_open(struct lanes *lanes, enum lane_kind kind)
{
	pthread_mutex_lock(&lanes->mutex);
	struct soma_backend_stream *lane = lane_open_locked(lanes, kind);
	pthread_mutex_unlock(&lanes->mutex);
	return lane;
}

/* One that was closed and has work left is the thread's stream still. */
struct soma_backend_stream *
lane_of_thread(struct lanes *lanes)
{
	uint64_t thread = (uint64_t)syscall(SYS_gettid);

	pthread_mutex_lock(&lanes->mutex);
	struct soma_backend_stream *lane = atomic_load(&lanes->all);
	while (lane != NULL && lane->thread != thread)
		lane = lane->next;
	if (lane != NULL)
		hold_lane(lanes, lane);
	else if ((lane = lane_open_locked(lanes, LANE_PER_THREAD)) != NULL)
		lane->thread = thread;
	pthread_mutex_unlock(&lanes->mutex);
	return lane;
}

struct soma_backend_stream *
lane_find(struct lanes *lanes, uint64_t native)
{
	pthread_mutex_lock(&lanes->mutex);
	struct soma_backend_stream *lane = atomic_load(&lanes->all);
	while (lane != NULL && (lane->native != native || lane->handles == 0))
		lane = lane->next;
	if (lane != NULL)
		lane->handles++;
	pthread_mutex_unlock(&lanes->mutex);
	return lane;
}

void
lane_close(struct lanes *lanes, struct soma_backend_stream *lane)
{
	pthread_mutex_lock(&lanes->mutex);
	if (--lane->handles == 0)
		put_spare(lanes, lane);
	pthread_mutex_unlock(&lanes->mutex);
}

bool
lanes_init(struct lanes *lanes, const struct soma_backend_host *host, struct heap *heap)
{
	lanes->host = host;
	lanes->heap = heap;
	lanes->spare_first = NULL;
	lanes->spare_end = &lanes->spare_first;
	if (pthread_mutex_init(&lanes->mutex, NULL) != 0)
		return false;
	lanes->legacy = lane_open(lanes, LANE_LEGACY);
	return lanes->legacy != NULL;
}

/* The records go with the library's arena. */
void
lanes_fini(struct lanes *lanes)
{
	for (struct soma_backend_stream *lane = atomic_load(&lanes->all); lane != NULL; lane = lane->next) {
		pthread_mutex_destroy(&lane->queue);
		pthread_mutex_destroy(&lane->turn);
	}
	pthread_mutex_destroy(&lanes->mutex);
}

bool
lanes_blocking_done(struct lanes *lanes)
{
	const struct soma_backend_stream *lane = atomic_load(&lanes->all);

	for (; lane != NULL; lane = lane->next)
		if (atomic_load(&lane->kind) != LANE_NON_BLOCKING && !lane_is_done(lane))
			return false;
	return true;
}

/* ---- events --------------------------------------------------------------------- */

static struct soma_backend_event *
event_new(struct lanes *lanes)
{
	struct soma_backend_event *event = lanes->host->alloc(lanes->host->context, sizeof *event, 0);

	if (event != NULL)
		pthread_mutex_init(&event->mutex, NULL);
	return event;
}

struct soma_backend_event *
event_open(struct lanes *lanes)
{
	pthread_mutex_lock(&lanes->mutex);
	struct soma_backend_event *event = lanes->events;
	if (event != NULL)
		lanes->events = event->next;
	pthread_mutex_unlock(&lanes->mutex);
	if (event == NULL && (event = event_new(lanes)) == NULL)
		return NULL;
	event->lane = NULL;
	event->position = 0;
	return event;
}

void
event_close(struct lanes *lanes, struct soma_backend_event *event)
{
	pthread_mutex_lock(&lanes->mutex);
	event->next = lanes->events;
	lanes->events = event;
	pthread_mutex_unlock(&lanes->mutex);
}

/* ---- queueing ------------------------------------------------------------------- */

static bool
has_tickets(const struct soma_backend_stream *lane)
{
	return atomic_load_explicit(&lane->kind, memory_order_relaxed) != LANE_NON_BLOCKING;
}

/* The ticket is drawn under the queue's lock, so that a lane's tickets rise, and whoever
 * sees a later one from elsewhere sees this lane's too. */
uint64_t
lane_put(struct lanes *lanes, struct soma_backend_stream *lane, struct item *item)
{
	item->next = NULL;
	pthread_mutex_lock(&lane->queue);
	uint64_t queued = atomic_load_explicit(&lane->queued, memory_order_relaxed);
	item->ticket = 0;
	if (has_tickets(lane)) {
		bool idle = atomic_load(&lane->run) == queued;
		/* Published before it is known, so that nobody who draws a later one overlooks it. */
		if (idle)
			atomic_store(&lane->ticket, 0);
		item->ticket = atomic_fetch_add(&lanes->ticket, 1) + 1;
		if (idle)
			atomic_store(&lane->ticket, item->ticket);
	}
	*lane->tail = item;
	lane->tail = &item->next;
	atomic_store_explicit(&lane->queued, queued + 1, memory_order_release);
	pthread_mutex_unlock(&lane->queue);
	return queued + 1;
}

/* lane->queue is held. */
static bool
refill(struct lanes *lanes, struct soma_backend_stream *lane)
{
	struct op *ops = lanes->host->alloc(lanes->host->context, OPS_AT_ONCE * sizeof *ops, 64);

	if (ops == NULL)
		return false;
	for (unsigned i = 0; i < OPS_AT_ONCE; i++) {
		ops[i].item.next = lane->ops;
		lane->ops = &ops[i].item;
	}
	return true;
}

struct op *
lane_op(struct lanes *lanes, struct soma_backend_stream *lane)
{
	struct op *op = NULL;

	pthread_mutex_lock(&lane->queue);
	if (lane->ops != NULL || refill(lanes, lane)) {
		op = (struct op *)lane->ops;
		lane->ops = op->item.next;
	}
	pthread_mutex_unlock(&lane->queue);
	return op;
}

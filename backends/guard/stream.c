/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events: the inner backend's, with the clocks kept beside them.  An
 * operation that brings order counts in the clocks when the inner one has succeeded; what a
 * synchronisation covers is what was queued when it began.
 */
#include <string.h>

#include "backends/guard/guard.h"
#include "backends/guard/stream.h"

#define SNAPSHOT_WITHIN 64u
#define GONE_LANES_MAX 64u

static enum soma_status
no_memory(struct soma_backend *g)
{
	return guard_fail(g->host, SOMA_STATUS_OUT_OF_HOST_MEMORY, "guard: no memory for a stream's clock");
}

/* ---- captures ----------------------------------------------------------------- */

/* One that does not say is left alone as well: the legacy stream, while another one is captured. */
bool
guard_is_capturing(struct soma_backend *g, struct soma_backend_stream *stream)
{
	struct soma_backend_stream_info info = { .size = sizeof info };

	if (g->direct || stream == NULL)
		return false;
	return g->ops->stream_info(g->inner, stream, &info) != SOMA_STATUS_OK ||
	       info.capture != SOMA_BACKEND_CAPTURE_NONE;
}

/* Where the backend does not say, it will refuse an alloc itself, and a free does not need it. */
enum soma_status
guard_refuse_capturing(struct soma_backend *g, struct soma_backend_stream *stream)
{
	struct soma_backend_stream_info info = { .size = sizeof info };

	if (g->direct || stream == NULL || g->ops->stream_info(g->inner, stream, &info) != SOMA_STATUS_OK ||
	    info.capture == SOMA_BACKEND_CAPTURE_NONE)
		return SOMA_STATUS_OK;
	return guard_fail(
		g->host, SOMA_STATUS_STREAM_MISUSE,
		"guard: the stream is in a capture: the memory would be a graph's, which is not guarded");
}

/* ---- streams ------------------------------------------------------------------ */

/* Lanes of streams that the host never waited for: what is really over there counts as seen,
 * so that their lanes can be used again. */
static void
reclaim_lanes(struct soma_backend *g)
{
	struct clocks *c = &g->clocks;
	uint32_t gone = 0;

	pthread_mutex_lock(&g->lock);
	for (uint32_t i = 1; i < c->count; i++)
		gone += c->lanes[i].holders == 0 && !clocks_is_spent(c, i);
	pthread_mutex_unlock(&g->lock);
	if (gone <= GONE_LANES_MAX)
		return;
	lane_settle_all(g, true);
	for (uint32_t i = 1; i < c->count; i++)
		lane_reclaim(g, i);
}

/* Under the lock: the lane that the stream's id has. */
static bool
hold_lane(struct soma_backend *g, struct soma_backend_stream *stream, uint64_t id, uint32_t flags,
	  bool per_thread)
{
	uint32_t number;

	if (!clocks_hold(&g->clocks, id, flags, &number))
		return false;
	if (!lane_prepare(g, number)) {
		clocks_drop(&g->clocks, number);
		return false;
	}
	struct lane *lane = g->lanes[number];
	if (lane->stream == NULL) {
		lane->stream = stream;
		lane->gone = false;
		lane->per_thread = per_thread;
	}
	stream->lane = number;
	stream->next = g->all_streams;
	stream->prev = NULL;
	if (stream->next != NULL)
		stream->next->prev = stream;
	g->all_streams = stream;
	return true;
}

/* Makes the lane's marker, under no lock; one that another thread made first stays. */
static bool
make_marker(struct soma_backend *g, uint32_t number)
{
	struct soma_backend_event *marker;

	pthread_mutex_lock(&g->lock);
	bool missing = g->lanes[number]->marker == NULL;
	pthread_mutex_unlock(&g->lock);
	if (!missing)
		return true;
	if (g->ops->event_create(g->inner, 0, &marker) != SOMA_STATUS_OK)
		return false;
	pthread_mutex_lock(&g->lock);
	missing = g->lanes[number]->marker == NULL;
	if (missing)
		g->lanes[number]->marker = marker;
	pthread_mutex_unlock(&g->lock);
	if (!missing)
		g->ops->event_destroy(g->inner, marker);
	return true;
}

/* Wraps an inner stream that was just made; on failure it is destroyed. */
static enum soma_status
adopt(struct soma_backend *g, struct soma_backend_stream *inner, uint32_t kind,
      struct soma_backend_stream **out)
{
	struct soma_backend_stream_info info = { .size = sizeof info };
	struct soma_backend_stream *stream = g->host->alloc(g->host->context, sizeof *stream, 0);
	enum soma_status status = stream == NULL ? no_memory(g) : g->ops->stream_info(g->inner, inner, &info);

	if (status == SOMA_STATUS_OK) {
		bool blocking = !(info.flags & SOMA_BACKEND_STREAM_NON_BLOCKING);
		uint32_t flags = kind == SOMA_BACKEND_STREAM_LEGACY ? CLOCK_LANE_LEGACY
				 : blocking                         ? CLOCK_LANE_BLOCKING
								    : 0;
		*stream = (struct soma_backend_stream){ .inner = inner };
		pthread_mutex_lock(&g->lock);
		bool held = hold_lane(g, stream, info.id, flags,
				      kind == SOMA_BACKEND_STREAM_PER_THREAD ||
					      (info.flags & SOMA_BACKEND_STREAM_OF_THREAD) != 0);
		pthread_mutex_unlock(&g->lock);
		if (held && make_marker(g, stream->lane)) {
			*out = stream;
			return SOMA_STATUS_OK;
		}
		if (held) {
			stream_destroy(g, stream);
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
		}
		status = no_memory(g);
	}
	if (stream != NULL)
		g->host->free(g->host->context, stream, sizeof *stream);
	g->ops->stream_destroy(g->inner, inner);
	return status;
}

enum soma_status
stream_create(struct soma_backend *g, unsigned flags, struct soma_backend_stream **stream)
{
	struct soma_backend_stream *inner;

	if (!guard_is_idle(g))
		reclaim_lanes(g);
	enum soma_status status = g->ops->stream_create(g->inner, flags, &inner);
	return status == SOMA_STATUS_OK ? adopt(g, inner, 0, stream) : status;
}

enum soma_status
stream_default(struct soma_backend *g, enum soma_backend_stream_kind kind,
	       struct soma_backend_stream **stream)
{
	struct soma_backend_stream *inner;
	enum soma_status status = g->ops->stream_default(g->inner, kind, &inner);

	return status == SOMA_STATUS_OK ? adopt(g, inner, (uint32_t)kind, stream) : status;
}

enum soma_status
stream_wrap(struct soma_backend *g, uint64_t native, struct soma_backend_stream **stream)
{
	struct soma_backend_stream *inner;
	enum soma_status status = g->ops->stream_wrap(g->inner, native, &inner);

	return status == SOMA_STATUS_OK ? adopt(g, inner, 0, stream) : status;
}

void
stream_destroy(struct soma_backend *g, struct soma_backend_stream *stream)
{
	struct soma_backend_stream *inner = stream->inner;

	lane_leave(g, stream);
	g->ops->stream_destroy(g->inner, inner);
	g->host->free(g->host->context, stream, sizeof *stream);
}

void
stream_name(struct soma_backend *g, struct soma_backend_stream *stream, uint64_t name)
{
	pthread_mutex_lock(&g->lock);
	clocks_name(&g->clocks, stream->lane, name);
	pthread_mutex_unlock(&g->lock);
}

enum soma_status
stream_info(struct soma_backend *g, struct soma_backend_stream *stream, struct soma_backend_stream_info *info)
{
	return g->ops->stream_info(g->inner, stream->inner, info);
}

/* ---- what the host learns ---------------------------------------------------------- */

struct snapshot {
	struct clock_vector vector;
	uint64_t within[SNAPSHOT_WITHIN];
	bool whole;             /* the vector holds all lanes; else the first ones */
	uint32_t lane;          /* CLOCKS_HOST: of no single one */
	uint64_t version, tick; /* of the lane */
};

/* Under the lock.  Room that the snapshot has not got is taken; without memory it holds what it can, which
 * is too little and never too much. */
static void
snapshot_begin(struct soma_backend *g, struct snapshot *snapshot, uint32_t lane)
{
	snapshot->lane = lane;
	snapshot->vector = (struct clock_vector){ 0 };
	snapshot->whole = g->clocks.width <= SNAPSHOT_WITHIN || clocks_reserve(&g->clocks, &snapshot->vector);
	if (snapshot->vector.tick == NULL)
		snapshot->vector = (struct clock_vector){ snapshot->within, SNAPSHOT_WITHIN };
}

/* Of a snapshot that is not whole.  A lane that was given nothing meanwhile stands for itself; the clock of one that
 * was given more is of what nobody has waited for. */
static void
learn_in_part(struct soma_backend *g, const struct snapshot *snapshot)
{
	const struct clock_lane *lane = &g->clocks.lanes[snapshot->lane];

	if (snapshot->lane != CLOCKS_HOST && lane->version == snapshot->version) {
		clocks_wait(&g->clocks, CLOCKS_HOST, &lane->now);
		return;
	}
	clocks_wait(&g->clocks, CLOCKS_HOST, &snapshot->vector);
	if (snapshot->lane != CLOCKS_HOST)
		clocks_reach(&g->clocks, snapshot->lane, snapshot->tick);
}

static void
snapshot_end(struct soma_backend *g, struct snapshot *snapshot, bool learned)
{
	bool within = snapshot->vector.tick == snapshot->within;

	pthread_mutex_lock(&g->lock);
	if (learned && snapshot->whole)
		clocks_wait(&g->clocks, CLOCKS_HOST, &snapshot->vector);
	else if (learned)
		learn_in_part(g, snapshot);
	if (!within)
		clocks_release(&g->clocks, &snapshot->vector);
	pthread_mutex_unlock(&g->lock);
}

/* Whether it is the legacy stream's: that comes after all blocking ones, which whoever waits for an idle stream, or
 * asks it, does not know. */
static bool
snapshot_lane(struct soma_backend *g, struct snapshot *snapshot, uint32_t lane)
{
	bool legacy;

	pthread_mutex_lock(&g->lock);
	legacy = (g->clocks.lanes[lane].flags & CLOCK_LANE_LEGACY) != 0;
	snapshot_begin(g, snapshot, lane);
	clocks_look(&g->clocks, lane, &snapshot->vector);
	snapshot->version = g->clocks.lanes[lane].version;
	snapshot->tick = g->clocks.lanes[lane].now.tick[lane];
	pthread_mutex_unlock(&g->lock);
	return legacy;
}

static void
snapshot_event(struct soma_backend *g, struct snapshot *snapshot, const struct soma_backend_event *event)
{
	pthread_mutex_lock(&g->lock);
	snapshot_begin(g, snapshot, CLOCKS_HOST);
	uint32_t width = event->stands_for.width;
	width = width < snapshot->vector.width ? width : snapshot->vector.width;
	memset(snapshot->vector.tick, 0, snapshot->vector.width * sizeof(uint64_t));
	if (width > 0)
		memcpy(snapshot->vector.tick, event->stands_for.tick, width * sizeof(uint64_t));
	pthread_mutex_unlock(&g->lock);
}

/* With an event behind it a stream that runs only when told would never be done. */
enum soma_status
stream_query(struct soma_backend *g, struct soma_backend_stream *stream, bool *done)
{
	struct snapshot snapshot;

	if (guard_is_idle(g))
		return g->ops->stream_query(g->inner, stream->inner, done);
	bool legacy = snapshot_lane(g, &snapshot, stream->lane);
	enum soma_status status = g->ops->stream_query(g->inner, stream->inner, done);
	bool learned = status == SOMA_STATUS_OK && *done && !legacy;
	snapshot_end(g, &snapshot, learned);
	if (learned)
		lane_settle(g, stream->lane, false);
	return status;
}

enum soma_status
stream_synchronize(struct soma_backend *g, struct soma_backend_stream *stream)
{
	struct snapshot snapshot;

	if (guard_is_idle(g))
		return g->ops->stream_synchronize(g->inner, stream->inner);
	bool legacy = snapshot_lane(g, &snapshot, stream->lane);
	bool anchored = !legacy || lane_anchor(g, stream->inner);
	enum soma_status status = g->ops->stream_synchronize(g->inner, stream->inner);
	snapshot_end(g, &snapshot, status == SOMA_STATUS_OK && anchored);
	if (status == SOMA_STATUS_OK) {
		lane_settle_all(g, false);
		quarantine_trim(g);
	}
	return status;
}

enum soma_status
guard_synchronize(struct soma_backend *g)
{
	struct snapshot snapshot;

	if (guard_is_idle(g))
		return g->ops->synchronize(g->inner);
	pthread_mutex_lock(&g->lock);
	snapshot_begin(g, &snapshot, CLOCKS_HOST);
	clocks_record_all(&g->clocks, &snapshot.vector);
	pthread_mutex_unlock(&g->lock);
	enum soma_status status = g->ops->synchronize(g->inner);
	snapshot_end(g, &snapshot, status == SOMA_STATUS_OK);
	if (status == SOMA_STATUS_OK) {
		lane_settle_all(g, false);
		quarantine_trim(g);
	}
	return status;
}

/* ---- events ------------------------------------------------------------------- */

enum soma_status
event_create(struct soma_backend *g, unsigned flags, struct soma_backend_event **out)
{
	struct soma_backend_event *event = g->host->alloc(g->host->context, sizeof *event, 0);

	if (event == NULL)
		return no_memory(g);
	*event = (struct soma_backend_event){ 0 };
	enum soma_status status = g->ops->event_create(g->inner, flags, &event->inner);
	if (status != SOMA_STATUS_OK) {
		g->host->free(g->host->context, event, sizeof *event);
		return status;
	}
	pthread_mutex_lock(&g->lock);
	event->next = g->all_events;
	if (event->next != NULL)
		event->next->prev = event;
	g->all_events = event;
	pthread_mutex_unlock(&g->lock);
	*out = event;
	return SOMA_STATUS_OK;
}

void
event_destroy(struct soma_backend *g, struct soma_backend_event *event)
{
	pthread_mutex_lock(&g->lock);
	if (event->prev != NULL)
		event->prev->next = event->next;
	else
		g->all_events = event->next;
	if (event->next != NULL)
		event->next->prev = event->prev;
	clocks_release(&g->clocks, &event->stands_for);
	pthread_mutex_unlock(&g->lock);
	g->ops->event_destroy(g->inner, event->inner);
	g->host->free(g->host->context, event, sizeof *event);
}

enum soma_status
event_record(struct soma_backend *g, struct soma_backend_event *event, struct soma_backend_stream *stream)
{
	if (guard_is_idle(g))
		return g->ops->event_record(g->inner, event->inner, stream->inner);
	pthread_mutex_lock(&g->lock);
	bool room = clocks_reserve(&g->clocks, &event->stands_for);
	pthread_mutex_unlock(&g->lock);
	if (!room)
		return no_memory(g);
	enum soma_status status = g->ops->event_record(g->inner, event->inner, stream->inner);
	if (status == SOMA_STATUS_OK) {
		pthread_mutex_lock(&g->lock);
		clocks_record(&g->clocks, stream->lane, &event->stands_for);
		pthread_mutex_unlock(&g->lock);
	}
	return status;
}

enum soma_status
event_wait(struct soma_backend *g, struct soma_backend_event *event, struct soma_backend_stream *stream)
{
	enum soma_status status = g->ops->event_wait(g->inner, event->inner, stream->inner);

	if (status == SOMA_STATUS_OK && !guard_is_idle(g)) {
		pthread_mutex_lock(&g->lock);
		clocks_wait(&g->clocks, stream->lane, &event->stands_for);
		pthread_mutex_unlock(&g->lock);
	}
	return status;
}

enum soma_status
event_query(struct soma_backend *g, struct soma_backend_event *event, bool *done)
{
	struct snapshot snapshot;

	if (guard_is_idle(g))
		return g->ops->event_query(g->inner, event->inner, done);
	snapshot_event(g, &snapshot, event);
	enum soma_status status = g->ops->event_query(g->inner, event->inner, done);
	snapshot_end(g, &snapshot, status == SOMA_STATUS_OK && *done);
	return status;
}

enum soma_status
event_synchronize(struct soma_backend *g, struct soma_backend_event *event)
{
	struct snapshot snapshot;

	if (guard_is_idle(g))
		return g->ops->event_synchronize(g->inner, event->inner);
	snapshot_event(g, &snapshot, event);
	enum soma_status status = g->ops->event_synchronize(g->inner, event->inner);
	snapshot_end(g, &snapshot, status == SOMA_STATUS_OK);
	if (status == SOMA_STATUS_OK)
		lane_settle_all(g, false);
	return status;
}

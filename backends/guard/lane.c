/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: freed blocks wait here, in their stream's order, until the stream is past
 * them.  That is known from the clocks when the host has synchronised, else because the stream has nothing left to
 * do, or from a marker, an event that the guard records behind what is retired and asks for later.
 *
 * A lane that is borrowed has one user, under no lock; its stream is not destroyed meanwhile.  Nobody who
 * has borrowed a lane waits for another one.
 */
#include <string.h>

#include "backends/guard/guard.h"

bool
lane_prepare(struct soma_backend *g, uint32_t number)
{
	const struct soma_backend_host *host = g->host;

	if (number >= g->lane_room) {
		uint32_t room = g->clocks.width > number ? g->clocks.width : number + 1;
		struct lane **lanes = host->alloc(host->context, room * sizeof *lanes, 0);
		if (lanes == NULL)
			return false;
		memset(lanes, 0, room * sizeof *lanes);
		if (g->lanes != NULL) {
			memcpy(lanes, g->lanes, g->lane_room * sizeof *lanes);
			host->free(host->context, g->lanes, g->lane_room * sizeof *lanes);
		}
		g->lanes = lanes;
		g->lane_room = room;
	}
	if (g->lanes[number] != NULL)
		return true;
	struct lane *lane = host->alloc(host->context, sizeof *lane, 64);
	if (lane == NULL)
		return false;
	memset(lane, 0, sizeof *lane);
	g->lanes[number] = lane;
	return true;
}

static struct lane *
lane_at(const struct soma_backend *g, uint32_t number)
{
	return number < g->lane_room ? g->lanes[number] : NULL;
}

/* Under the lock.  Waits for whoever has it. */
static void
borrow(struct soma_backend *g, struct lane *lane)
{
	while (lane->borrowed)
		pthread_cond_wait(&g->changed, &g->lock);
	lane->borrowed = true;
}

/* Under the lock, of a lane that nobody has; NULL: it has no stream, and is not borrowed. */
static struct soma_backend_stream *
take_loan(struct lane *lane)
{
	if (lane == NULL || lane->per_thread || lane->stream == NULL)
		return NULL;
	lane->borrowed = true;
	return inner_stream(lane->stream);
}

static bool
is_lent(const struct lane *lane)
{
	return lane != NULL && !lane->per_thread && lane->borrowed;
}

struct soma_backend_stream *
lane_borrow(struct soma_backend *g, uint32_t number)
{
	pthread_mutex_lock(&g->lock);
	struct lane *lane = lane_at(g, number);
	while (is_lent(lane))
		pthread_cond_wait(&g->changed, &g->lock);
	struct soma_backend_stream *stream = take_loan(lane);
	pthread_mutex_unlock(&g->lock);
	return stream;
}

/* Both at once: who had one and waited for the other could wait for ever, for somebody who has that and waits
 * for the first. */
static void
borrow_both(struct soma_backend *g, const uint32_t number[2], struct soma_backend_stream *stream[2])
{
	pthread_mutex_lock(&g->lock);
	struct lane *first = lane_at(g, number[0]), *second = lane_at(g, number[1]);
	while (is_lent(first) || is_lent(second))
		pthread_cond_wait(&g->changed, &g->lock);
	stream[0] = take_loan(first);
	stream[1] = take_loan(second);
	pthread_mutex_unlock(&g->lock);
}

void
lane_return(struct soma_backend *g, uint32_t number)
{
	pthread_mutex_lock(&g->lock);
	g->lanes[number]->borrowed = false;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

/* `first` is the lane's, borrowed; a lane without one left its marker when that was destroyed. */
static bool
queue_order(struct soma_backend *g, uint32_t number, struct soma_backend_stream *first,
	    struct soma_backend_stream *stream)
{
	enum soma_status status = SOMA_STATUS_OK;

	pthread_mutex_lock(&g->lock);
	struct lane *lane = lane_at(g, number);
	bool gone = lane != NULL && lane->gone && lane->marker != NULL;
	pthread_mutex_unlock(&g->lock);
	bool captured = guard_is_capturing(g, first);
	pthread_mutex_lock(&g->probe_lock);
	if (captured) {
		status = SOMA_STATUS_STREAM_MISUSE;
	} else if (first != NULL) {
		status = g->ops->event_record(g->inner, g->edge, first);
		if (status == SOMA_STATUS_OK)
			status = g->ops->event_wait(g->inner, g->edge, stream);
	} else if (gone) {
		status = g->ops->event_wait(g->inner, lane->marker, stream);
	}
	pthread_mutex_unlock(&g->probe_lock);
	if (status != SOMA_STATUS_OK)
		g->host->log(g->host->context, SOMA_BACKEND_LOG_WARNING,
			     "guard: the order of a late free could not be queued");
	return status == SOMA_STATUS_OK && (first != NULL || gone);
}

bool
lane_follow(struct soma_backend *g, uint32_t number, struct soma_backend_stream *stream)
{
	struct soma_backend_stream *first = lane_borrow(g, number);
	bool followed = queue_order(g, number, first, stream != NULL ? stream : g->own);

	if (first != NULL)
		lane_return(g, number);
	return followed;
}

bool
lane_anchor(struct soma_backend *g, struct soma_backend_stream *stream)
{
	enum soma_status status;

	if (guard_is_capturing(g, stream))
		return false;
	pthread_mutex_lock(&g->probe_lock);
	status = g->ops->event_record(g->inner, g->edge, stream);
	pthread_mutex_unlock(&g->probe_lock);
	return status == SOMA_STATUS_OK;
}

/* Under the lock: with the legacy stream, or it is that. */
static bool
is_in_turn(const struct soma_backend *g, uint32_t number)
{
	return (g->clocks.lanes[number].flags & (CLOCK_LANE_BLOCKING | CLOCK_LANE_LEGACY)) != 0;
}

void
lane_anchor_op(struct soma_backend *g, const struct soma_backend_stream *stream)
{
	bool in_turn;

	if (stream == NULL)
		return;
	pthread_mutex_lock(&g->lock);
	in_turn = is_in_turn(g, stream->lane);
	pthread_mutex_unlock(&g->lock);
	if (in_turn)
		(void)lane_anchor(g, stream->inner);
}

bool
lane_follow_in(struct soma_backend *g, uint32_t number, uint32_t home)
{
	const uint32_t numbers[2] = { number, home };
	struct soma_backend_stream *streams[2];

	borrow_both(g, numbers, streams);
	bool followed = streams[1] != NULL && queue_order(g, number, streams[0], streams[1]);
	for (int i = 0; i < 2; i++)
		if (streams[i] != NULL)
			lane_return(g, numbers[i]);
	return followed;
}

/* Under the lock: the blocks that are over and nobody looks at, chained by `next`, in no list any
 * more.  What the host itself freed is over. */
static struct block *
take_over(struct soma_backend *g, uint32_t number, struct lane *lane)
{
	uint64_t host_tick = g->clocks.lanes[CLOCKS_HOST].now.tick[number];
	uint64_t done = host_tick > lane->done_tick ? host_tick : lane->done_tick;
	struct block *first = NULL, **end = &first;

	for (struct block *block = lane->retired.head, *next; block != NULL; block = next) {
		next = block->next;
		if (number != CLOCKS_HOST && block->freed.tick > done)
			break;
		if (block->pins > 0 || (block->strayed && !uses_are_over(&block->uses, &g->clocks)))
			continue;
		block_list_remove(&lane->retired, block);
		block->busy = true;
		g->retired_count--;
		g->retired_requested -= block_requested(block);
		*end = block;
		end = &block->next;
	}
	*end = NULL;
	return first;
}

/* Whether the stream is done with all that was queued, or the marker behind that, which is recorded then. */
static bool
mark(struct soma_backend *g, struct lane *lane, uint64_t tick, bool alone)
{
	struct soma_backend_stream *stream = lane->stream->inner;
	bool done = false;

	if (guard_is_capturing(g, stream))
		return false;
	if (alone && g->ops->stream_query(g->inner, stream, &done) == SOMA_STATUS_OK && done)
		return true;
	if (g->ops->event_record(g->inner, lane->marker, stream) == SOMA_STATUS_OK)
		lane->marker_tick = tick;
	return false;
}

/* Asks whether the lane is over up to `tick`, or to the marker that was recorded before.  The lane is borrowed;
 * under no lock.  `alone`: its stream is in no turn with the legacy one.  A stream that is may have nothing to do
 * while what its frees come after is not over, so there a marker is asked for; elsewhere none is put on a stream that
 * is idle, where over a backend whose streams run only when told it would wait for somebody to do so. */
static void
ask_marker(struct soma_backend *g, struct lane *lane, uint64_t tick, bool alone)
{
	bool done = false;

	if (lane->marker == NULL)
		return;
	if (lane->marker_tick == 0 && lane->stream != NULL)
		done = mark(g, lane, tick, alone);
	if (!done && (lane->marker_tick == 0 ||
		      g->ops->event_query(g->inner, lane->marker, &done) != SOMA_STATUS_OK || !done))
		return;
	pthread_mutex_lock(&g->lock);
	lane->done_tick = lane->marker_tick != 0 ? lane->marker_tick : tick;
	lane->marker_tick = 0;
	pthread_mutex_unlock(&g->lock);
}

static void
admit_all(struct soma_backend *g, struct block *block)
{
	while (block != NULL) {
		struct block *next = block->next;
		block->next = NULL;
		quarantine_admit(g, block);
		block = next;
	}
}

void
lane_settle(struct soma_backend *g, uint32_t number, bool ask)
{
	pthread_mutex_lock(&g->lock);
	struct lane *lane = lane_at(g, number);
	if (lane == NULL || lane->retired.head == NULL || lane->borrowed) {
		pthread_mutex_unlock(&g->lock);
		return;
	}
	struct block *over = take_over(g, number, lane);
	uint64_t tick = g->clocks.lanes[number].now.tick[number];
	ask = ask && lane->retired.head != NULL && !lane->per_thread && number != CLOCKS_HOST;
	lane->borrowed = ask;
	bool alone = !is_in_turn(g, number);
	pthread_mutex_unlock(&g->lock);
	admit_all(g, over);
	if (!ask)
		return;

	ask_marker(g, lane, tick, alone);
	pthread_mutex_lock(&g->lock);
	over = take_over(g, number, lane);
	lane->borrowed = false;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
	admit_all(g, over);
}

void
lane_settle_all(struct soma_backend *g, bool ask)
{
	pthread_mutex_lock(&g->lock);
	uint32_t count = g->clocks.count;
	pthread_mutex_unlock(&g->lock);
	for (uint32_t i = 0; i < count; i++)
		lane_settle(g, i, ask);
}

/* Another name of the same stream; NULL: this is the last. */
static struct soma_backend_stream *
other_name(struct soma_backend *g, const struct soma_backend_stream *stream)
{
	struct soma_backend_stream *other = g->all_streams;

	while (other != NULL && (other == stream || other->lane != stream->lane))
		other = other->next;
	return other;
}

/* The lane's last stream goes, under no lock: whether the marker ends what was queued; if it cannot be
 * recorded, whether that was waited for. */
static bool
mark_end(struct soma_backend *g, const struct lane *lane, struct soma_backend_stream *inner, bool *over)
{
	*over = false;
	if (lane->marker == NULL || guard_is_idle(g) || guard_is_capturing(g, inner))
		return false;
	if (g->ops->event_record(g->inner, lane->marker, inner) == SOMA_STATUS_OK)
		return true;
	*over = g->ops->stream_synchronize(g->inner, inner) == SOMA_STATUS_OK;
	return false;
}

void
lane_leave(struct soma_backend *g, struct soma_backend_stream *stream)
{
	pthread_mutex_lock(&g->lock);
	struct lane *lane = g->lanes[stream->lane];
	borrow(g, lane);
	if (stream->prev != NULL)
		stream->prev->next = stream->next;
	else
		g->all_streams = stream->next;
	if (stream->next != NULL)
		stream->next->prev = stream->prev;
	struct soma_backend_stream *other = other_name(g, stream);
	uint64_t tick = g->clocks.lanes[stream->lane].now.tick[stream->lane];
	pthread_mutex_unlock(&g->lock);

	bool over = false, marked = other == NULL && mark_end(g, lane, stream->inner, &over);
	pthread_mutex_lock(&g->lock);
	if (marked || over)
		lane->marker_tick = marked ? tick : 0;
	if (over)
		lane->done_tick = tick;
	if (lane->stream == stream)
		lane->stream = other;
	lane->gone = other == NULL;
	lane->borrowed = false;
	clocks_drop(&g->clocks, stream->lane);
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

void
lane_reclaim(struct soma_backend *g, uint32_t number)
{
	pthread_mutex_lock(&g->lock);
	struct lane *lane = lane_at(g, number);
	bool gone = lane != NULL && lane->gone && !lane->borrowed && !clocks_is_spent(&g->clocks, number);
	if (gone)
		lane->borrowed = true;
	pthread_mutex_unlock(&g->lock);
	if (!gone)
		return;
	ask_marker(g, lane, 0, false);
	pthread_mutex_lock(&g->lock);
	struct clock_lane *clock = &g->clocks.lanes[number];
	if (lane->gone && lane->done_tick >= clock->now.tick[number])
		clocks_wait(&g->clocks, CLOCKS_HOST, &clock->now);
	lane->borrowed = false;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

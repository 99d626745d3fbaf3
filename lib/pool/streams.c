/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of streams, marks, and what they tell the model.  The mutex is held; recording, queueing and
 * asking events does not wait.
 */
#include "lib/pool/streams.h"

#include <string.h>

#include "lib/base/error.h"
#include "lib/model/driven.h"

/* Streams that a poll looks at. */
#define POLL_MAX 16

#define UNUSED UINT64_MAX

/* ---- marks ------------------------------------------------------------------------- */

static uint64_t
submitted(const struct soma_pool *pool, const struct soma__pool_stream *stream, uint64_t *executed)
{
	struct soma_model_position position = { 0 };

	(void)soma_model_position(pool->model, stream->model, &position);
	*executed = position.executed;
	return position.submitted;
}

void
soma__pool_mark_put(struct soma_pool *pool, struct soma__pool_stream *stream, uint64_t seq,
		    struct soma__event *event)
{
	struct soma__pool_mark *latest = &stream->marks[stream->count > 0 ? stream->count - 1 : 0];

	if (event == NULL)
		return;
	if (stream->count == SOMA__POOL_MARKS || (stream->count > 0 && latest->seq == seq))
		soma__order_drop(pool->resource, latest->event);
	else
		latest = &stream->marks[stream->count++];
	*latest = (struct soma__pool_mark){ .seq = seq, .event = event };
}

/* *done: all that was queued is, and there is no event. */
static enum soma_status
mark(struct soma_pool *pool, struct soma__pool_stream *stream, uint64_t seq, bool *done)
{
	struct soma__event *event = NULL;
	enum soma_status status = SOMA_STATUS_OK;

	if (soma__order_is_open(stream->place, stream->id))
		status = soma__pool_stream_may_order(pool, stream);
	if (status == SOMA_STATUS_OK)
		status = soma__order_mark(pool->resource, stream->id, &event);
	if (status != SOMA_STATUS_OK)
		return status;
	*done = event == NULL;
	soma__pool_mark_put(pool, stream, seq, event);
	stream->dirty = stream->dirty && *done;
	return SOMA_STATUS_OK;
}

enum soma_status
soma__pool_mark_now(struct soma_pool *pool, struct soma__pool_stream *stream)
{
	uint64_t executed, seq = submitted(pool, stream, &executed);
	bool done = false;
	enum soma_status status = mark(pool, stream, seq, &done);

	if (status == SOMA_STATUS_OK && done) { /* without memory the next one finds that out */
		status = soma_model_advance(pool->model, stream->model, seq);
		stream->dirty = stream->dirty && status != SOMA_STATUS_OK;
	}
	return status;
}

/* The first mark that covers the position; NULL: none. */
static struct soma__pool_mark *
find_mark(struct soma__pool_stream *stream, uint64_t seq)
{
	for (uint32_t i = 0; i < stream->count; i++)
		if (stream->marks[i].seq >= seq)
			return &stream->marks[i];
	return NULL;
}

/* An event behind everything below position seq, which the pool keeps; NULL: all of that is done.  Within a call of
 * the model, too, which has chosen a block by then: it must not be told of progress here. */
static enum soma_status
cover(struct soma_pool *pool, struct soma__pool_stream *from, uint64_t seq, struct soma__event **event)
{
	const struct soma__pool_mark *covering = find_mark(from, seq);
	uint64_t executed, latest = submitted(pool, from, &executed);
	bool done;

	if (covering == NULL && executed < seq) {
		enum soma_status status = mark(pool, from, latest, &done);

		if (status != SOMA_STATUS_OK)
			return status;
		covering = find_mark(from, seq);
	}
	*event = covering != NULL ? covering->event : NULL;
	return SOMA_STATUS_OK;
}

enum soma_status
soma__pool_stream_wait(struct soma_pool *pool, const struct soma__pool_stream *stream,
		       struct soma__pool_stream *from, uint64_t seq)
{
	struct soma__event *event;
	enum soma_status status = SOMA_STATUS_OK;

	if (stream != from)
		status = cover(pool, from, seq, &event);
	if (stream == from || status != SOMA_STATUS_OK)
		return status;
	return soma__order_wait(pool->resource, stream->id, event);
}

/* ---- progress ------------------------------------------------------------------------ */

static void
drop_marks(struct soma_pool *pool, struct soma__pool_stream *stream, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		soma__order_drop(pool->resource, stream->marks[i].event);
	stream->count -= count;
	memmove(&stream->marks[0], &stream->marks[count], stream->count * sizeof stream->marks[0]);
}

/* The stream is destroyed and all its work done. */
static void
forget(struct soma_pool *pool, struct soma__pool_stream *stream)
{
	uint64_t executed, seq = submitted(pool, stream, &executed);

	if (stream->id == 0 || soma_model_advance(pool->model, stream->model, seq) != SOMA_STATUS_OK ||
	    soma_model_stream_destroy(pool->model, stream->model) != SOMA_STATUS_OK)
		return;
	drop_marks(pool, stream, stream->count);
	stream->id = UNUSED;
}

/* How far the marks say that the stream is. */
static void
follow_marks(struct soma_pool *pool, struct soma__pool_stream *stream)
{
	uint32_t done = 0;

	while (done < stream->count && soma__order_is_done(pool->resource, stream->marks[done].event))
		done++;
	if (done == 0)
		return;
	if (soma_model_advance(pool->model, stream->model, stream->marks[done - 1].seq) != SOMA_STATUS_OK)
		stream->dirty = true;
	drop_marks(pool, stream, done);
}

/* A mark that covers everything is not replaced: it is done sooner than a new one. */
static bool
needs_mark(const struct soma__pool_stream *stream, uint64_t seq, uint64_t executed, bool open)
{
	if (stream->count > 0 && stream->marks[stream->count - 1].seq >= seq)
		return false;
	return executed < seq && (stream->dirty || !open);
}

/* Where `most` marks are waiting none is made. */
static bool
poll_stream(struct soma_pool *pool, struct soma__pool_stream *stream, uint32_t most)
{
	uint64_t before, executed, seq = submitted(pool, stream, &before);
	bool open = soma__order_is_open(stream->place, stream->id);

	follow_marks(pool, stream);
	(void)submitted(pool, stream, &executed);
	if (stream->count < most && needs_mark(stream, seq, executed, open) &&
	    soma__pool_mark_now(pool, stream) == SOMA_STATUS_OK) {
		follow_marks(pool, stream);
		(void)submitted(pool, stream, &executed);
	}
	/* An event that was recorded later may stand for more work than the positions. */
	if (!open && executed == seq && stream->count == 0)
		forget(pool, stream);
	return executed > before;
}

bool
soma__pool_stream_poll(struct soma_pool *pool, struct soma__pool_stream *stream)
{
	return poll_stream(pool, stream, UINT32_MAX);
}

bool
soma__pool_poll(struct soma_pool *pool)
{
	bool news = false;
	uint32_t looks = 0;

	if (soma_model_pending_free_count(pool->model) == 0)
		return false;
	for (uint32_t i = 0; i < pool->slots && looks < POLL_MAX; i++) {
		struct soma__pool_stream *stream = pool->streams[pool->cursor++ % pool->slots];
		if (stream == NULL || stream->id == UNUSED)
			continue;
		looks++;
		if (soma__pool_stream_poll(pool, stream))
			news = true;
	}
	return news;
}

/* ---- learning on the way ---------------------------------------------------------------- */

/* Until a free is known to have executed, its block does not join its neighbours, and allocations that take
 * pending blocks, which they do first, cut up what would be one.  So an allocation asks when there is something to
 * be had: at least LEARN_BYTES and 1 / 2^LEARN_SHIFT of what is live, or anything after LEARN_ALLOCATIONS
 * others.  Where the streams are behind it soon asks more rarely. */
#define LEARN_BYTES ((uint64_t)1 << 20)
#define LEARN_SHIFT 6
#define LEARN_ALLOCATIONS 64u
#define LEARN_PATIENCE_MAX 16u

/* Marks that asking leaves unanswered at most, so that a stream that never gets anywhere is not filled with
 * events; the others are for waits. */
#define LEARN_MARKS (SOMA__POOL_MARKS / 2)

/* Another stream than this one, a different one each time; NULL: none was found soon. */
static struct soma__pool_stream *
next_stream(struct soma_pool *pool, const struct soma__pool_stream *own)
{
	for (uint32_t i = 0; i < pool->slots && i < POLL_MAX; i++) {
		struct soma__pool_stream *stream = pool->streams[pool->cursor++ % pool->slots];
		if (stream != NULL && stream->id != UNUSED && stream != own)
			return stream;
	}
	return NULL;
}

static bool
is_due(const struct soma_pool *pool)
{
	if (soma_model_pending_free_count(pool->model) == 0)
		return false;
	return pool->unasked >= LEARN_ALLOCATIONS || soma__model_pends(pool->model, LEARN_BYTES, LEARN_SHIFT);
}

void
soma__pool_learn(struct soma_pool *pool, uint64_t id)
{
	struct soma__pool_stream *own = soma__pool_stream_find(pool, id), *other;
	bool news;

	if (!is_due(pool))
		return;
	news = own != NULL && poll_stream(pool, own, LEARN_MARKS);
	other = next_stream(pool, own);
	if (other != NULL && poll_stream(pool, other, LEARN_MARKS))
		news = true;
	pool->unasked = 0;
	pool->patience = news ? 1 : pool->patience * 2;
	if (pool->patience > LEARN_PATIENCE_MAX)
		pool->patience = LEARN_PATIENCE_MAX;
}

/* ---- the table ------------------------------------------------------------------------- */

static bool
reserve_slots(struct soma_pool *pool, uint64_t slots)
{
	uint64_t wider = pool->slots > 0 ? pool->slots : 8;
	struct soma__pool_stream **streams;

	if (slots <= pool->slots)
		return true;
	while (wider < slots)
		wider *= 2;
	streams = soma__arena_calloc(pool->arena, wider * sizeof(void *), 0);
	if (streams == NULL)
		return false;
	if (pool->slots > 0)
		memcpy(streams, pool->streams, pool->slots * sizeof(void *));
	soma__arena_free(pool->arena, pool->streams, pool->slots * sizeof(void *));
	pool->streams = streams;
	pool->slots = (uint32_t)wider;
	return true;
}

struct soma__pool_stream *
soma__pool_stream_find(struct soma_pool *pool, uint64_t id)
{
	uint64_t slot = id & SOMA__STREAM_SLOT_MASK;
	struct soma__pool_stream *stream = slot < pool->slots ? pool->streams[slot] : NULL;

	return stream != NULL && stream->id == id ? stream : NULL;
}

static enum soma_status
make_stream(struct soma_pool *pool, struct soma__stream *place, uint64_t id, struct soma__pool_stream *stream)
{
	bool blocking = soma__order_is_blocking(pool->resource, place);
	/* In an account beside the resource's own blocks there is nothing that a wait would be worth, but that
	 * a twin reuses what the driver does. */
	bool follows = blocking && (pool->placed || pool->twin != NULL);
	unsigned flags = follows ? SOMA_STREAM_BLOCKING : SOMA_STREAM_NON_BLOCKING;
	enum soma_status status = SOMA_STATUS_OK;

	stream->model = 0;
	if (id != 0)
		status = soma_model_stream_create(pool->model, flags, &stream->model);
	if (status != SOMA_STATUS_OK)
		return status;
	stream->id = id;
	stream->place = place;
	stream->blocking = blocking;
	stream->dirty = false;
	return SOMA_STATUS_OK;
}

enum soma_status
soma__pool_stream_alone(const struct soma_pool *pool, uint64_t id)
{
	if (__builtin_expect(id != pool->host_stream, 1))
		return SOMA_STATUS_OK;
	return soma__fail(INVALID_VALUE, "there is no stream %" PRIu64, id);
}

/* A stream that had the slot before is over: a resource gives a slot anew only then. */
enum soma_status
soma__pool_stream_enter(struct soma_pool *pool, uint64_t id, struct soma__pool_stream **out)
{
	uint64_t slot = id & SOMA__STREAM_SLOT_MASK;
	struct soma__stream *place = soma__order_stream(pool->resource, id);
	struct soma__pool_stream *stream;
	enum soma_status status;

	if (place == NULL)
		return SOMA_STATUS_STREAM_MISUSE;
	if (!reserve_slots(pool, slot + 1))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	stream = pool->streams[slot];
	if (stream == NULL) {
		stream = soma__arena_calloc(pool->arena, sizeof *stream, 0);
		if (stream == NULL)
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
		stream->id = UNUSED;
		pool->streams[slot] = stream;
	}
	if (stream->id != UNUSED)
		forget(pool, stream);
	if (stream->id != UNUSED)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = make_stream(pool, place, id, stream);
	if (status == SOMA_STATUS_OK)
		*out = stream;
	return status;
}

static enum soma_status
refuse_captured(uint64_t id)
{
	return soma__fail(STREAM_MISUSE,
			  "stream %" PRIu64 " is being captured: its work runs when the graph does, "
			  "and the pool cannot order that",
			  id);
}

/* The backend asks the driver of the stream itself, so that no other one's handle is touched: its owner may have
 * destroyed that without a word. */
enum soma_status
soma__pool_stream_may_order(struct soma_pool *pool, const struct soma__pool_stream *stream)
{
	bool capturing = false;
	enum soma_status status = SOMA_STATUS_OK;

	if (pool->captures)
		status = soma__order_capture(pool->resource, stream->place, &capturing);
	return capturing ? refuse_captured(stream->id) : status;
}

/* ---- the driver ---------------------------------------------------------------------------- */

static struct soma__pool_stream *
find_by_model(struct soma_pool *pool, uint64_t model)
{
	for (uint32_t i = 0; i < pool->slots; i++) {
		struct soma__pool_stream *stream = pool->streams[i];
		if (stream != NULL && stream->id != UNUSED && stream->model == model)
			return stream;
	}
	return NULL;
}

/* A stream of the model's that is none of the resource's is the host's own, where nothing is ever pending.
 *
 * An allocation was refused before on a stream that is captured itself.  So what is in the way here is
 * another stream's capture: of the one that the free is pending on, or of any while the legacy one should wait.
 * Who allocates has nothing to do with that, and for them this memory is not there. */
enum soma_status
soma__pool_driver_wait(void *context, uint64_t stream, uint64_t wait_stream, uint64_t wait_seq)
{
	struct soma_pool *pool = context;
	struct soma__pool_stream *waiting = find_by_model(pool, stream);
	struct soma__pool_stream *from = find_by_model(pool, wait_stream);
	struct soma__event *event;
	enum soma_status status;

	if (from == NULL || waiting == NULL)
		return SOMA_STATUS_OK;
	/* Of the legacy stream not every allocation asks. */
	status = soma__pool_stream_may_order(pool, waiting);
	if (status == SOMA_STATUS_OK)
		status = cover(pool, from, wait_seq, &event);
	if (status == SOMA_STATUS_STREAM_MISUSE)
		return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	return status == SOMA_STATUS_OK ? soma__order_wait(pool->resource, waiting->id, event) : status;
}

/* Of a stream in a capture: what its marks cover.  One whose frees are all covered is not asked: it may
 * be a stream of others, which is gone. */
uint64_t
soma__pool_driver_reach(void *context, uint64_t stream, uint64_t wait_stream, uint64_t latest)
{
	struct soma_pool *pool = context;
	struct soma__pool_stream *waiting = find_by_model(pool, stream);
	struct soma__pool_stream *from = find_by_model(pool, wait_stream);

	if (from == NULL || waiting == NULL || !soma__order_is_open(from->place, from->id))
		return UINT64_MAX;
	if (from->count > 0 && from->marks[from->count - 1].seq > latest)
		return UINT64_MAX;
	if (soma__pool_stream_may_order(pool, from) != SOMA_STATUS_STREAM_MISUSE)
		return UINT64_MAX;
	return from->count > 0 ? from->marks[from->count - 1].seq : 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* New work can be queued on it, an event or a free. */
static bool
is_usable(struct soma_pool *pool, const struct soma__pool_stream *stream)
{
	return soma__order_is_open(stream->place, stream->id) &&
	       soma__pool_stream_may_order(pool, stream) == SOMA_STATUS_OK;
}

/* The segment stream waits for it, or the host does.  False: neither can be. */
static bool
wait_for_end(struct soma_pool *pool, struct soma__pool_stream *stream)
{
	struct soma__event *event;
	enum soma_status status = SOMA_STATUS_STREAM_MISUSE;

	if (is_usable(pool, stream) || !soma__order_is_open(stream->place, stream->id))
		status = soma__order_mark(pool->resource, stream->id, &event);
	if (status == SOMA_STATUS_OK) {
		status = soma__order_wait(pool->resource, pool->segment_stream, event);
		soma__order_drop(pool->resource, event);
	}
	if (status != SOMA_STATUS_OK)
		status = soma__order_finish(pool->resource, stream->id);
	return status == SOMA_STATUS_OK;
}

static bool
is_unfinished(struct soma_pool *pool, struct soma__pool_stream *stream)
{
	uint64_t executed;

	return stream != NULL && stream->id != UNUSED && submitted(pool, stream, &executed) > executed;
}

static uint32_t
poll_all(struct soma_pool *pool, struct soma__pool_stream **unfinished)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < pool->slots; i++) {
		struct soma__pool_stream *stream = pool->streams[i];
		if (!is_unfinished(pool, stream))
			continue;
		(void)soma__pool_stream_poll(pool, stream);
		if (!is_unfinished(pool, stream))
			continue;
		*unfinished = stream;
		count++;
	}
	return count;
}

/* With one stream at work its order is the one, if something is queued on it that comes after all; of several, the
 * segment stream waits for all. */
static void
choose_order(struct soma_pool *pool)
{
	struct soma__pool_stream *unfinished = NULL;
	uint32_t count = poll_all(pool, &unfinished);

	pool->leave = count == 0 ? SOMA__LEAVE_NOW : SOMA__LEAVE_ON;
	if (count == 1 && unfinished->count > 0 && is_usable(pool, unfinished)) {
		pool->leave_stream = unfinished->id;
		return;
	}
	pool->leave_stream = pool->segment_stream;
	for (uint32_t i = 0; i < pool->slots && count > 0; i++)
		if (is_unfinished(pool, pool->streams[i]) && !wait_for_end(pool, pool->streams[i]))
			pool->leave = SOMA__LEAVE_NEVER;
}

void
soma__pool_streams_end(struct soma_pool *pool)
{
	if (pool->placed)
		choose_order(pool);
	for (uint32_t i = 0; i < pool->slots; i++) {
		struct soma__pool_stream *stream = pool->streams[i];
		if (stream != NULL && stream->id != UNUSED)
			drop_marks(pool, stream, stream->count);
	}
}

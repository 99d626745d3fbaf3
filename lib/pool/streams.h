/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resource's streams as a pool's model knows them, and marks: real events that stand for the model's
 * positions.
 *
 * A mark (seq, event) says that when the event is done, everything below position seq of the stream has
 * executed; the event may cover more.  Marks are by ascending seq, and few: when there is no room the
 * latest one is replaced by a later one, which proves as much.  One is made when an event is recorded by
 * the caller, when a wait needs one, and when growing or a question asks what is free by now; so an
 * allocation and a free make none.  A mark goes only when its event is done: a later event may stand for
 * the same position and for more work.
 *
 * The mutex is held.  A pool alone has no table: its ids are the model's.
 */
#ifndef SOMA_LIB_POOL_STREAMS_H
#define SOMA_LIB_POOL_STREAMS_H

#include "lib/pool/pool.h"
#include "lib/resource/order.h"

#define SOMA__POOL_MARKS 8

struct soma__pool_mark {
	uint64_t seq;
	struct soma__event *event;
};

struct soma__pool_stream {
	uint64_t id;    /* the resource's; UINT64_MAX: unused */
	uint64_t model; /* the model's */
	struct soma__stream *place;
	bool dirty; /* something was freed on it since the latest mark */
	bool blocking;
	uint32_t count;
	struct soma__pool_mark marks[SOMA__POOL_MARKS];
};

/* In a pool alone: the host's own stream is nobody else's. */
enum soma_status soma__pool_stream_alone(const struct soma_pool *pool, uint64_t id);

/* The rest of soma__pool_stream(). */
enum soma_status soma__pool_stream_enter(struct soma_pool *pool, uint64_t id,
					 struct soma__pool_stream **stream);

/* The stream for new work; *stream is NULL in a pool alone, where the model knows whether there is one. */
static inline enum soma_status
soma__pool_stream(struct soma_pool *pool, uint64_t id, struct soma__pool_stream **stream, uint64_t *model)
{
	uint64_t slot = id & SOMA__STREAM_SLOT_MASK;
	struct soma__pool_stream *found = slot < pool->slots ? pool->streams[slot] : NULL;

	if (__builtin_expect(found != NULL && found->id == id && soma__order_is_open(found->place, id), 1)) {
		*stream = found;
		*model = found->model;
		return SOMA_STATUS_OK;
	}
	*stream = NULL;
	*model = id;
	if (pool->resource == NULL)
		return soma__pool_stream_alone(pool, id);
	enum soma_status status = soma__pool_stream_enter(pool, id, stream);
	if (status == SOMA_STATUS_OK)
		*model = (*stream)->model;
	return status;
}

/* The stream if the pool has met it and has not forgotten it, destroyed or not. */
struct soma__pool_stream *soma__pool_stream_find(struct soma_pool *pool, uint64_t id);

/* STREAM_MISUSE when the stream is being captured, or an event or a wait on it would spoil another one's capture: one
 * of the legacy stream's makes all blocking streams wait. */
enum soma_status soma__pool_stream_may_order(struct soma_pool *pool, const struct soma__pool_stream *stream);

/* The same for what queues nothing.  The legacy stream is never captured. */
static inline enum soma_status
soma__pool_stream_not_captured(struct soma_pool *pool, const struct soma__pool_stream *stream)
{
	if (__builtin_expect(!pool->captures || stream->id == 0, 1))
		return SOMA_STATUS_OK;
	return soma__pool_stream_may_order(pool, stream);
}

/* A mark at the stream's present end, as far as one is needed (all may be done). */
enum soma_status soma__pool_mark_now(struct soma_pool *pool, struct soma__pool_stream *stream);

/* Takes the event, which is behind everything below seq. */
void soma__pool_mark_put(struct soma_pool *pool, struct soma__pool_stream *stream, uint64_t seq,
			 struct soma__event *event);

/* Queues: `stream` waits for everything below position seq of `from`. */
enum soma_status soma__pool_stream_wait(struct soma_pool *pool, const struct soma__pool_stream *stream,
					struct soma__pool_stream *from, uint64_t seq);

/* Tells the model how far the stream is, by its marks; after marking what was freed.  True: further than
 * before. */
bool soma__pool_stream_poll(struct soma_pool *pool, struct soma__pool_stream *stream);

/* The same for some streams, other ones each time. */
bool soma__pool_poll(struct soma_pool *pool);

/* With a look at what is pending (streams.c): asks of this stream and of another one, if that is due. */
void soma__pool_learn(struct soma_pool *pool, uint64_t id);

/* Before the model allocates on the stream. */
static inline void
soma__pool_learn_sometimes(struct soma_pool *pool, uint64_t id)
{
	if (pool->learns && ++pool->unasked >= pool->patience)
		soma__pool_learn(pool, id);
}

/* The model's driver: by the model's ids. */
enum soma_status soma__pool_driver_wait(void *context, uint64_t stream, uint64_t wait_stream,
					uint64_t wait_seq);

uint64_t soma__pool_driver_reach(void *context, uint64_t stream, uint64_t wait_stream, uint64_t latest);

/* Says in what order all segments go back, after the work that is queued on the pool's streams.  Nobody
 * else uses the pool.  Waits only where an order cannot be queued. */
void soma__pool_streams_end(struct soma_pool *pool);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, events, synchronising, readiness.  A real event or wait is queued before the model is told; if
 * the model then cannot take it, the streams have more order than it knows of, which harms nobody.
 */
#include "lib/base/error.h"
#include "lib/model/driven.h"
#include "lib/pool/segments.h"
#include "lib/pool/streams.h"
#include "lib/pool/twin.h"

/* soma__pool_enter() for what only a pool alone has. */
static enum soma_status
enter_alone(struct soma_pool *pool)
{
	if (pool->resource == NULL)
		return soma__pool_enter(pool);
	return soma__fail(NOT_SUPPORTED, "a pool over a resource has that one's streams: "
					 "soma_resource_stream_create() and _destroy() were expected");
}

enum soma_status
soma_pool_stream_create(struct soma_pool *pool, unsigned flags, uint64_t *stream)
{
	enum soma_status status = enter_alone(pool);

	if (status != SOMA_STATUS_OK)
		return status;
	status = soma_model_stream_create(pool->model, flags, stream);
	soma__pool_leave(pool);
	return status;
}

enum soma_status
soma_pool_stream_destroy(struct soma_pool *pool, uint64_t stream)
{
	enum soma_status status = enter_alone(pool);

	if (status != SOMA_STATUS_OK)
		return status;
	status = soma__pool_stream_alone(pool, stream);
	if (status == SOMA_STATUS_OK)
		status = soma_model_stream_destroy(pool->model, stream);
	soma__pool_leave(pool);
	return status;
}

/* ---- synchronising ----------------------------------------------------------------------- */

/* A free that counts on the order with the legacy stream has put nothing on its own stream, and waiting for
 * an idle stream is waiting for nobody: an event is something to wait for that comes after both. */
static enum soma_status
begin_synchronize(struct soma_pool *pool, struct soma__pool_stream *stream, uint64_t model,
		  struct soma_model_position *position)
{
	enum soma_status status = SOMA_STATUS_OK;

	if (stream != NULL && stream->blocking && stream->dirty)
		status = soma__pool_mark_now(pool, stream);
	return status == SOMA_STATUS_OK ? soma_model_position(pool->model, model, position) : status;
}

/* Of a pool with a twin.  What others did during the wait came in the backend's pool before what that gave
 * back, or behind it; in the model before. */
static enum soma_status
observe_both(struct soma_pool *pool, uint64_t stream, uint64_t model, uint64_t seq, uint64_t serial)
{
	enum soma_status status;

	soma__twin_take(pool);
	status = soma__model_observe(pool->model, model, seq, true);
	if (status == SOMA_STATUS_OK) {
		pool->twin->disturbed += pool->twin->operations != serial;
		soma__twin_note(pool, (struct soma__twin_operation){ .op = SOMA__TWIN_SYNCHRONIZE,
								     .stream = stream });
		soma__twin_compare(pool);
	}
	soma__twin_end(pool);
	return status;
}

/* Only what was submitted before the wait began is known to be done after it. */
enum soma_status
soma_pool_synchronize(struct soma_pool *pool, uint64_t stream)
{
	struct soma_model_position position = { 0 };
	struct soma__pool_stream *found;
	uint64_t model, serial = 0;
	enum soma_status status = soma__pool_enter(pool);

	if (status != SOMA_STATUS_OK)
		return status;
	if (__builtin_expect(pool->twin != NULL, 0))
		serial = soma__twin_serial(pool);
	status = soma__pool_stream(pool, stream, &found, &model);
	if (status == SOMA_STATUS_OK)
		status = begin_synchronize(pool, found, model, &position);
	if (status == SOMA_STATUS_OK && pool->resource != NULL) {
		soma__pool_step_out(pool);
		status = soma_resource_stream_synchronize(pool->resource, stream);
		soma__pool_step_in(pool);
	}
	if (status == SOMA_STATUS_OK)
		status = __builtin_expect(pool->twin != NULL, 0)
				 ? observe_both(pool, stream, model, position.submitted, serial)
				 : soma__model_observe(pool->model, model, position.submitted, true);
	soma__segments_leave(pool);
	return status;
}

/* ---- events -------------------------------------------------------------------------------- */

static enum soma_status
record_real(struct soma_pool *pool, struct soma__pool_stream *stream, uint64_t *seq)
{
	struct soma__event *event;
	enum soma_status status = soma__pool_stream_may_order(pool, stream);

	if (status == SOMA_STATUS_OK)
		status = soma__order_mark(pool->resource, stream->id, &event);
	if (status != SOMA_STATUS_OK)
		return status;
	status = soma_model_record_event(pool->model, stream->model, seq);
	if (status != SOMA_STATUS_OK) {
		soma__order_drop(pool->resource, event);
		return status;
	}
	if (event != NULL)
		soma__pool_mark_put(pool, stream, *seq, event);
	else
		(void)soma_model_advance(pool->model, stream->model, *seq);
	stream->dirty = event == NULL && stream->dirty;
	return SOMA_STATUS_OK;
}

enum soma_status
soma_pool_record_event(struct soma_pool *pool, uint64_t stream, uint64_t *seq)
{
	struct soma__pool_stream *found;
	uint64_t model, at;
	enum soma_status status = soma__twin_enter(pool);

	if (status != SOMA_STATUS_OK)
		return status;
	status = soma__pool_stream(pool, stream, &found, &model);
	if (status == SOMA_STATUS_OK)
		status = found != NULL ? record_real(pool, found, &at)
				       : soma_model_record_event(pool->model, model, &at);
	if (__builtin_expect(pool->twin != NULL, 0) && status == SOMA_STATUS_OK)
		soma__twin_note(pool, (struct soma__twin_operation){ .op = SOMA__TWIN_RECORD,
								     .stream = stream,
								     .event_stream = stream,
								     .event_seq = at });
	soma__twin_end(pool);
	soma__pool_leave(pool);
	if (status == SOMA_STATUS_OK)
		*seq = at;
	return status;
}

/* A stream that was destroyed and forgotten is done. */
static enum soma_status
wait_for_unknown(struct soma_pool *pool, uint64_t event_stream, uint64_t event_seq)
{
	if (soma__order_stream(pool->resource, event_stream) != NULL)
		return soma__fail(INVALID_VALUE,
				  "stream %" PRIu64 " was not used with this pool: it has no event %" PRIu64,
				  event_stream, event_seq);
	return soma__order_was(pool->resource, event_stream) ? SOMA_STATUS_OK : SOMA_STATUS_STREAM_MISUSE;
}

static enum soma_status
wait_real(struct soma_pool *pool, struct soma__pool_stream *stream, uint64_t event_stream, uint64_t event_seq)
{
	struct soma__pool_stream *from = soma__pool_stream_find(pool, event_stream);
	struct soma_model_position position;
	enum soma_status status = soma__pool_stream_may_order(pool, stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (from == NULL)
		return wait_for_unknown(pool, event_stream, event_seq);
	status = soma_model_position(pool->model, from->model, &position);
	if (status == SOMA_STATUS_OK && event_seq > position.submitted)
		return soma__fail(INVALID_VALUE,
				  "stream %" PRIu64 " has submitted %" PRIu64 " operations, not %" PRIu64,
				  event_stream, position.submitted, event_seq);
	if (status == SOMA_STATUS_OK)
		status = soma__pool_stream_wait(pool, stream, from, event_seq);
	if (status == SOMA_STATUS_OK)
		status = soma_model_wait_event(pool->model, stream->model, from->model, event_seq);
	return status;
}

enum soma_status
soma_pool_wait_event(struct soma_pool *pool, uint64_t stream, uint64_t event_stream, uint64_t event_seq)
{
	struct soma__pool_stream *found;
	uint64_t model;
	enum soma_status status = soma__twin_enter(pool);

	if (status != SOMA_STATUS_OK)
		return status;
	status = soma__pool_stream(pool, stream, &found, &model);
	if (status == SOMA_STATUS_OK && found == NULL)
		status = soma__pool_stream_alone(pool, event_stream);
	if (status == SOMA_STATUS_OK)
		status = found != NULL ? wait_real(pool, found, event_stream, event_seq)
				       : soma_model_wait_event(pool->model, model, event_stream, event_seq);
	if (__builtin_expect(pool->twin != NULL, 0) && status == SOMA_STATUS_OK)
		soma__twin_note(pool, (struct soma__twin_operation){ .op = SOMA__TWIN_WAIT,
								     .stream = stream,
								     .event_stream = event_stream,
								     .event_seq = event_seq });
	soma__twin_end(pool);
	soma__pool_leave(pool);
	return status;
}

/* ---- readiness ------------------------------------------------------------------------------- */

static bool
is_ready_in_model(const struct soma_pool *pool, const struct soma_allocation *handle)
{
	const struct soma_model_alloc alloc = { .stream = handle->model_stream,
						.ready_seq = handle->ready_seq };

	return soma_model_is_ready_same_stream(pool->model, &alloc);
}

/* One mark behind the allocation is enough to ask; a new one each time would never be done on a busy
 * stream. */
static void
ask(struct soma_pool *pool, const struct soma_allocation *handle)
{
	struct soma__pool_stream *stream = soma__pool_stream_find(pool, handle->stream);

	if (stream == NULL)
		return;
	if (stream->count == 0 || stream->marks[stream->count - 1].seq <= handle->ready_seq)
		stream->dirty = true;
	(void)soma__pool_stream_poll(pool, stream);
}

bool
soma_pool_is_ready(struct soma_allocation *allocation)
{
	struct soma_pool *pool = allocation->pool;
	bool ready;

	soma__pool_lock(pool);
	ready = pool->ended || allocation->graph || is_ready_in_model(pool, allocation);
	if (!ready && pool->resource != NULL) {
		ask(pool, allocation);
		ready = is_ready_in_model(pool, allocation);
	}
	soma__pool_unlock(pool);
	return ready;
}

bool
soma_pool_is_ready_on(struct soma_allocation *allocation, uint64_t consumer, uint64_t seq)
{
	if (consumer == allocation->stream)
		return soma_pool_is_ready(allocation);
	return seq > allocation->ready_seq;
}

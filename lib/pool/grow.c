/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that what the pool has does not serve.
 *
 * First it is asked, by marks, what has become free meanwhile.  Then the model is let go up its ladder
 * (HACKING, "Alloc", from step 5); where it wants a segment it is stopped, the segment is made without the
 * mutex, and the model asked again with the segment in hand, or with the resource's refusal.  What the
 * model gives back on its way (release_on_failure) goes to the resource before that is asked again.
 * Nothing has changed in the model when it is stopped, so other threads may use it meanwhile.
 */
#include <string.h>

#include "lib/base/error.h"
#include "lib/model/driven.h"
#include "lib/pool/segments.h"
#include "lib/pool/streams.h"
#include "lib/resource/resource.h"

/* So many times the model may give back and ask again. */
#define ROUNDS 4

/* An error of the resource's to be told in the end. */
struct kept_error {
	struct soma_error error;
	char text[SOMA__ERROR_TEXT_MAX];
};

static void
keep_error(struct kept_error *kept)
{
	kept->error = *soma_error_last();
	strncpy(kept->text, kept->error.text, sizeof kept->text - 1);
	kept->text[sizeof kept->text - 1] = '\0';
}

static void
tell_error(const struct kept_error *kept)
{
	const struct soma_error *error = &kept->error;

	(void)soma__error_text(error->status, "%s", kept->text);
	soma__error_sizes(error->requested, error->current, error->remaining, error->limit);
	soma__error_held(error->promised, error->retired);
	soma__error_driver(error->driver_code);
}

/* ---- turns ----------------------------------------------------------------------------- */

/* Within an owner's callback nobody is waited for: what holds the turn may be waiting for the callback. */
static bool
take_turn(struct soma_pool *pool, bool *waited)
{
	*waited = false;
	if (pthread_mutex_trylock(&pool->growing) == 0)
		return true;
	if (soma__pressure_inside())
		return false;
	pthread_mutex_lock(&pool->growing);
	*waited = true;
	return true;
}

/* ---- attempts, with the mutex held -------------------------------------------------------- */

static enum soma_status
attempt(struct soma_pool *pool, uint64_t size, uint64_t stream, struct soma_model_alloc *made)
{
	struct soma__pool_stream *found;
	uint64_t model;
	enum soma_status status;

	if (pool->destroyed)
		return soma__pool_refuse_destroyed();
	status = soma__pool_stream(pool, stream, &found, &model);
	return status == SOMA_STATUS_OK ? soma_model_alloc(pool->model, size, model, made) : status;
}

static enum soma_status
attempt_growing(struct soma_pool *pool, uint64_t size, struct soma__growth_call *call,
		struct soma_model_alloc *made)
{
	enum soma_status status;

	call->wanted = 0;
	call->given_back = false;
	pool->call = call;
	soma__model_hold(pool->model, false);
	status = attempt(pool, size, call->stream, made);
	soma__model_hold(pool->model, true);
	pool->call = NULL;
	return status;
}

/* The mutex is let go. */
static void
make_segment(struct soma_pool *pool, struct soma__growth_call *call, struct kept_error *kept)
{
	if (call->segment != NULL)
		soma__segment_leave(pool, call->segment);
	call->segment = NULL;
	soma__pool_step_out(pool);
	soma__segments_flush(pool);
	call->refusal = soma__segment_make(pool, call->wanted, call->stream, &call->segment);
	if (call->refusal != SOMA_STATUS_OK)
		keep_error(kept);
	soma__pool_step_in(pool);
}

static enum soma_status
climb(struct soma_pool *pool, uint64_t size, struct soma__growth_call *call, struct soma_model_alloc *made)
{
	struct kept_error kept;
	enum soma_status status;

	for (unsigned round = 0;; round++) {
		call->last = round >= ROUNDS;
		status = attempt_growing(pool, size, call, made);
		if (status != SOMA__STATUS_DEFERRED)
			break;
		make_segment(pool, call, &kept);
	}
	if (call->segment != NULL)
		soma__segment_leave(pool, call->segment);
	/* The model has passed on what the resource said, without its words. */
	if (status != SOMA_STATUS_OK && status == call->refusal)
		tell_error(&kept);
	return status;
}

/* What others have brought while this thread waited for its turn may serve. */
static enum soma_status
grow_in_turn(struct soma_pool *pool, uint64_t size, uint64_t stream, struct soma_model_alloc *made)
{
	struct soma__growth_call call = { .stream = stream };
	enum soma_status status = SOMA__STATUS_DEFERRED;
	bool waited, turn;

	soma__pool_step_out(pool);
	turn = take_turn(pool, &waited);
	soma__pool_step_in(pool);
	if (waited)
		status = attempt(pool, size, stream, made);
	if (status == SOMA__STATUS_DEFERRED)
		status = climb(pool, size, &call, made);
	if (turn)
		pthread_mutex_unlock(&pool->growing);
	return status;
}

enum soma_status
soma__pool_grow(struct soma_pool *pool, uint64_t size, uint64_t stream, struct soma_model_alloc *made)
{
	struct soma__growth_call call = { .stream = stream };
	enum soma_status status = SOMA__STATUS_DEFERRED;

	if (soma__pool_poll(pool))
		status = attempt(pool, size, stream, made);
	if (status != SOMA__STATUS_DEFERRED)
		return status;
	if (pool->placed)
		return grow_in_turn(pool, size, stream, made);
	return attempt_growing(pool, size, &call, made);
}

/* ---- the initial size ------------------------------------------------------------------------- */

static uint64_t
segment_size(const struct soma_policy *policy, uint64_t size, unsigned *row)
{
	uint64_t step;

	*row = 0;
	while (size > policy->pools[*row].request_max)
		++*row;
	step = policy->pools[*row].segment_step;
	return (size + step - 1) / step * step;
}

enum soma_status
soma__pool_reserve(struct soma_pool *pool, const struct soma_policy *policy, uint64_t size)
{
	struct soma__growth_call call = { 0 };
	uint64_t address = pool->window.base;
	unsigned row;
	enum soma_status status;

	if (policy->segments != SOMA_SEGMENTS_STEP)
		return soma__fail(NOT_SUPPORTED, "an initial size needs a policy with segments");
	if (size > SOMA_MODEL_ADDRESS_MAX / 2)
		return soma__fail(INVALID_VALUE, "an initial size of %" PRIu64 " bytes is too much", size);
	size = segment_size(policy, size, &row);
	if (pool->placed) {
		uint64_t ignored;
		status = soma__segment_make(pool, size, 0, &call.segment);
		if (status != SOMA_STATUS_OK)
			return status;
		pool->call = &call;
		(void)soma__pool_source.acquire(pool, 0, size, &ignored);
		pool->call = NULL;
		address = ignored;
	}
	status = soma_model_adopt_segment(pool->model, 0, row, address, size);
	if (status != SOMA_STATUS_OK && pool->placed)
		soma__pool_source.release(pool, address, size);
	return status;
}

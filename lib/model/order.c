/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points about order: streams, events, progress and synchronisation.  Arguments
 * are checked and records reserved before anything changes.
 */
#include <soma/model.h>

#include "lib/base/error.h"
#include "lib/model/blocks.h"
#include "lib/model/clock.h"
#include "lib/model/driven.h"
#include "lib/model/pending.h"
#include "lib/model/queue.h"
#include "lib/model/range.h"
#include "lib/model/segments.h"
#include "lib/model/state.h"

enum soma_status
soma_model_stream_create(struct soma_model *model, unsigned flags, uint64_t *id)
{
	struct soma__stream *stream;
	enum soma_status status;

	if ((flags & ~(unsigned)SOMA_STREAM_NON_BLOCKING) != 0)
		return soma__fail(INVALID_VALUE, "unknown stream flags 0x%" PRIx64, flags);
	status = soma__stream_add(model, flags, &stream);
	if (status == SOMA_STATUS_OK)
		*id = stream->id;
	return status;
}

enum soma_status
soma_model_stream_destroy(struct soma_model *model, uint64_t id)
{
	struct soma__stream *stream = soma__stream_find(model, id);

	if (id == 0)
		return soma__fail(INVALID_VALUE, "the legacy default stream cannot be destroyed");
	if (stream == NULL || !soma__stream_accepts(stream))
		return soma__fail(INVALID_VALUE, "there is no stream %" PRIu64 " to destroy", id);
	if (!soma__blocks_reserve(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	soma__queue_file_all(model);
	stream->takes = ~stream->id;
	soma__stream_settle(model, stream);
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_record_event(struct soma_model *model, uint64_t id, uint64_t *seq)
{
	struct soma__stream *stream;
	enum soma_status status = soma__stream_accepting(model, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (!soma__blocks_reserve(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (stream->ordered) {
		uint32_t joins;

		if (!soma__clock_reserve_legacy(model, stream))
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
		joins = stream->clock.join_count;
		soma__clock_join_legacy(model, stream);
		soma__queue_file_all(model);
		if (stream->clock.join_count != joins)
			soma__clock_submit(model, stream);
	} else {
		soma__queue_file_all(model);
	}
	if (model->policy.reuse & SOMA_REUSE_FOLLOW_EVENTS)
		stream->barrier = stream->submitted;
	*seq = stream->submitted;
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_wait_event(struct soma_model *model, uint64_t id, uint64_t event_stream, uint64_t event_seq)
{
	struct soma__stream *stream, *from = soma__stream_find(model, event_stream);
	enum soma_status status = soma__stream_accepting(model, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (from == NULL && !soma__stream_is_gone(model, event_stream))
		return soma__fail(INVALID_VALUE, "there is no stream %" PRIu64 " to wait for", event_stream);
	if (from != NULL && event_seq > from->submitted)
		return soma__fail(INVALID_VALUE,
				  "stream %" PRIu64 " has submitted %" PRIu64 " operations, not %" PRIu64,
				  event_stream, from->submitted, event_seq);
	if ((stream->ordered && !soma__clock_reserve_legacy(model, stream)))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (stream->ordered) {
		uint32_t joins = stream->clock.join_count;

		soma__clock_join_legacy(model, stream);
		joins = stream->clock.join_count - joins;
		if (from != NULL && !soma__clock_reserve_event(model, stream, from)) {
			soma__clock_undo(stream, joins);
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
		}
	} else if (from != NULL && !soma__clock_reserve_event(model, stream, from)) {
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	if (from != NULL)
		soma__clock_join_event(model, stream, from, event_seq);
	soma__clock_submit(model, stream);
	return SOMA_STATUS_OK;
}

static uint64_t
raised_id(const struct soma_model *model, uint32_t place)
{
	return model->streams[model->raised[place]]->id;
}

/* Heap sort: lets model->raised[place] sink to where no child has a greater id. */
static void
sink_raised(struct soma_model *model, uint32_t place, uint32_t count)
{
	for (;;) {
		uint32_t child = 2 * place + 1, slot = model->raised[place];

		if (child >= count)
			return;
		if (child + 1 < count && raised_id(model, child + 1) > raised_id(model, child))
			child++;
		if (raised_id(model, child) <= model->streams[slot]->id)
			return;
		model->raised[place] = model->raised[child];
		model->raised[child] = slot;
		place = child;
	}
}

/* Orders the raised streams by ascending id. */
static void
sort_raised(struct soma_model *model)
{
	uint32_t count = model->raised_count;

	for (uint32_t place = count / 2; place-- > 0;)
		sink_raised(model, place, count);
	while (count-- > 1) {
		uint32_t last = model->raised[count];

		model->raised[count] = model->raised[0];
		model->raised[0] = last;
		sink_raised(model, 0, count);
	}
}

/* Streams whose positions rose: what that proves is completed, in ascending id. */
static void
raised_each(struct soma_model *model, void complete(struct soma_model *, struct soma__stream *))
{
	uint32_t count = model->raised_count;

	if (count > 1)
		sort_raised(model);
	for (uint32_t i = 0; i < count; i++) {
		struct soma__stream *stream = model->streams[model->raised[i]];

		stream->raised = false;
		complete(model, stream);
		soma__stream_settle(model, stream);
	}
	model->raised_count = 0;
}

static void
complete_raised(struct soma_model *model)
{
	raised_each(model, soma__stream_complete);
}

static enum soma_status
find_for_progress(struct soma_model *model, uint64_t id, struct soma__stream **stream)
{
	*stream = soma__stream_find(model, id);
	if (*stream == NULL)
		return soma__fail(INVALID_VALUE,
				  "there is no stream %" PRIu64 ", or it was destroyed and is done", id);
	return soma__blocks_reserve(model) ? SOMA_STATUS_OK : SOMA_STATUS_OUT_OF_HOST_MEMORY;
}

enum soma_status
soma_model_advance(struct soma_model *model, uint64_t id, uint64_t seq)
{
	struct soma__stream *stream;
	enum soma_status status = find_for_progress(model, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (seq > stream->submitted)
		return soma__fail(INVALID_VALUE,
				  "stream %" PRIu64 " has submitted %" PRIu64 " operations, not %" PRIu64, id,
				  stream->submitted, seq);
	soma__queue_file_all(model);
	if (seq > stream->executed)
		soma__clock_raise(model, stream, seq, false);
	complete_raised(model);
	return SOMA_STATUS_OK;
}

/* Synchronising may release as well. */
static bool
reserve_synchronize(struct soma_model *model)
{
	return model->stats.reserved <= model->threshold || soma__segments_reserve_release(model);
}

static void
finish_synchronize(struct soma_model *model)
{
	if (model->stats.reserved <= model->threshold) {
		complete_raised(model);
	} else if (soma__range_keeps_none(model, model->threshold)) {
		raised_each(model, soma__range_complete);
	} else {
		complete_raised(model);
		soma__segments_release(model, model->threshold);
	}
}

enum soma_status
soma__model_observe(struct soma_model *model, uint64_t id, uint64_t seq, bool release)
{
	struct soma__stream *stream;
	enum soma_status status = find_for_progress(model, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (release && !reserve_synchronize(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	soma__queue_file_all(model);
	soma__clock_raise(model, stream, seq < stream->submitted ? seq : stream->submitted, true);
	if (release)
		finish_synchronize(model);
	else
		complete_raised(model);
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_synchronize(struct soma_model *model, uint64_t id)
{
	return soma__model_observe(model, id, UINT64_MAX, true);
}

enum soma_status
soma_model_synchronize_all(struct soma_model *model)
{
	if (!soma__blocks_reserve(model) || !reserve_synchronize(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	soma__queue_file_all(model);
	for (uint32_t slot = 0; slot < model->stream_slots; slot++)
		if (model->streams[slot]->exists)
			soma__clock_raise(model, model->streams[slot], model->streams[slot]->submitted, true);
	finish_synchronize(model);
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_position(const struct soma_model *model, uint64_t id, struct soma_model_position *position)
{
	const struct soma__stream *stream = soma__stream_find(model, id);

	if (stream == NULL)
		return soma__fail(INVALID_VALUE,
				  "there is no stream %" PRIu64 ", or it was destroyed and is done", id);
	*position =
		(struct soma_model_position){ .submitted = stream->submitted, .executed = stream->executed };
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_trim_to(struct soma_model *model, uint64_t keep)
{
	if (!soma__segments_reserve_release(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	soma__queue_file_all(model);
	soma__segments_release(model, keep);
	return SOMA_STATUS_OK;
}

/* ---- driven.h --------------------------------------------------------------------- */

/* What was joined before the rule came is to be found by it, too. */
static bool
follow_pending(struct soma_model *model)
{
	for (uint32_t slot = model->with_pending; slot != 0; slot = model->streams[slot - 1]->pending_next)
		if (!soma__pending_follow(model, model->streams[slot - 1]))
			return false;
	return true;
}

enum soma_status
soma__model_set_reuse(struct soma_model *model, unsigned reuse)
{
	unsigned before = model->policy.reuse;

	if (!soma__blocks_reserve(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	soma__queue_file_all(model);
	model->policy.reuse = reuse;
	if (!follow_pending(model) || !soma__blocks_reserve(model)) {
		model->policy.reuse = before;
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	/* OPPORTUNISTIC: what has executed is released from now on. */
	for (uint32_t slot = 0; slot < model->stream_slots; slot++)
		if (model->streams[slot]->exists)
			soma__clock_raise(model, model->streams[slot], model->streams[slot]->executed, false);
	complete_raised(model);
	return SOMA_STATUS_OK;
}

void
soma__model_drive(struct soma_model *model, const struct soma__model_driver *driver)
{
	model->driver = *driver;
	model->streams[0]->ordered = !driver->legacy_by_wait;
	model->streams[0]->blocking = driver->legacy_by_wait;
}

void
soma__model_hold(struct soma_model *model, bool held)
{
	model->held = held;
}

void
soma__model_set_ceiling(struct soma_model *model, uint64_t address)
{
	model->ceiling = address >> model->granule_shift;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, positions and order.
 *
 * A stream's clock says after which positions of other streams its next operation
 * runs; its joins say when it learned so, for events recorded earlier and for what its
 * progress implies about others.  Clocks are flattened: a join brings everything that
 * the event implies, so nothing here recurses.
 */
#ifndef SOMA_LIB_MODEL_CLOCK_H
#define SOMA_LIB_MODEL_CLOCK_H

#include "lib/model/state.h"

/* The stream whose slot the id names, whatever its own is now; NULL when there never was one. */
static HOT struct soma__stream *
soma__stream_in_slot(const struct soma_model *model, uint64_t id)
{
	uint64_t slot = id & (((uint64_t)1 << SOMA__SLOT_BITS) - 1);

	return slot < model->stream_slots ? model->streams[slot] : NULL;
}

/* The stream with this id, destroyed or not; NULL when there never was one or it is
 * gone. */
static inline struct soma__stream *
soma__stream_find(const struct soma_model *model, uint64_t id)
{
	struct soma__stream *stream = soma__stream_in_slot(model, id);

	return stream != NULL && stream->exists && stream->id == id ? stream : NULL;
}

/* Was there a stream with this id that is gone by now? */
bool soma__stream_is_gone(const struct soma_model *model, uint64_t id);

/* Records why the stream takes no operation. */
enum soma_status soma__stream_refuse(const struct soma_model *model, uint64_t id);

/* The stream, for an operation; NULL when it cannot take one. */
static HOT struct soma__stream *
soma__stream_taking(const struct soma_model *model, uint64_t id)
{
	struct soma__stream *stream = soma__stream_in_slot(model, id);

	return stream != NULL && stream->takes == id && stream->submitted < SOMA__POSITION_MAX ? stream
											       : NULL;
}

/* The same; the error is recorded when it cannot take one. */
static inline enum soma_status
soma__stream_accepting(const struct soma_model *model, uint64_t id, struct soma__stream **found)
{
	*found = soma__stream_taking(model, id);
	return *found != NULL ? SOMA_STATUS_OK : soma__stream_refuse(model, id);
}

enum soma_status soma__stream_add(struct soma_model *model, unsigned flags, struct soma__stream **stream);

/* Lets a destroyed stream go if nothing holds it. */
void soma__stream_settle(struct soma_model *model, struct soma__stream *stream);

/* ---- joins: reserve, then join; joining cannot fail ---- */

/* Room for what joining the event (from, seq) may add. */
bool soma__clock_reserve_event(struct soma_model *model, struct soma__stream *stream,
			       struct soma__stream *from);
void soma__clock_join_event(struct soma_model *model, struct soma__stream *stream,
			    const struct soma__stream *from, uint64_t seq);

/* The legacy stream's implicit order, joined at the stream's next position.  Once the
 * operation is sure to take its position, soma__clock_submit_ordered() remembers that it was. */
bool soma__clock_reserve_legacy(struct soma_model *model, struct soma__stream *stream);
void soma__clock_join_legacy(struct soma_model *model, struct soma__stream *stream);

void soma__clock_submit_ordered(struct soma_model *model, struct soma__stream *stream);

/* The stream takes a position. */
static inline uint64_t
soma__clock_submit(struct soma_model *model, struct soma__stream *stream)
{
	if (stream->ordered)
		soma__clock_submit_ordered(model, stream);
	return stream->submitted++;
}

/* Takes back the last `count` joins. */
void soma__clock_undo(struct soma__stream *stream, uint32_t count);

/* Forgets components that prove nothing any more. */
void soma__clock_drop_moot(const struct soma_model *model, struct soma__stream *stream);

/* The stream has executed everything below seq, `observed` by the host or not; so have
 * the streams that it waited for.  Fills model->raised. */
void soma__clock_raise(struct soma_model *model, struct soma__stream *stream, uint64_t seq, bool observed);

#endif

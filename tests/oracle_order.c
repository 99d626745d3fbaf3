/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle's streams: positions, clocks, the legacy order, progress, and when a
 * destroyed stream is gone.  Histories are kept for ever.
 */
#include "tests/oracle_state.h"

/* ---- positions, order, the legacy stream -------------------------------- */

/* The index of a stream that is not gone. */
size_t
oracle__find_stream(const struct oracle *o, uint64_t id)
{
	for (size_t i = 0; i < o->stream_count; i++)
		if (o->streams[i].id == id && !o->streams[i].gone)
			return i;
	return NO_STREAM;
}

size_t
oracle__find_working_stream(const struct oracle *o, uint64_t id)
{
	size_t i = oracle__find_stream(o, id);

	return i == NO_STREAM || o->streams[i].destroyed ? NO_STREAM : i;
}

bool
oracle__was_stream(const struct oracle *o, uint64_t id)
{
	for (size_t i = 0; i < o->stream_count; i++)
		if (o->streams[i].id == id)
			return true;
	return false;
}

uint64_t
oracle__released(const struct oracle *o, size_t f)
{
	const struct stream *s = &o->streams[f];

	if (s->gone)
		return s->submitted;
	return o->policy.reuse & SOMA_REUSE_OPPORTUNISTIC ? s->executed : s->observed;
}

uint64_t
oracle__component(const struct row *row, size_t f)
{
	return f < row->count ? row->seq[f] : 0;
}

static const struct row *
clock_at(const struct oracle *o, size_t s, uint64_t submitted)
{
	return &o->streams[s].history[submitted];
}

static const struct row *
clock_now(const struct oracle *o, size_t s)
{
	return clock_at(o, s, o->streams[s].submitted);
}

static void
join(const struct oracle *o, struct row *row, size_t f, uint64_t seq)
{
	if (seq > oracle__released(o, f))
		row->seq[f] = max_of(row->seq[f], seq);
}

static void
join_event(const struct oracle *o, struct row *row, size_t f, uint64_t seq)
{
	const struct row *clock = clock_at(o, f, seq);

	join(o, row, f, seq);
	if (o->fault == ORACLE_FAULT_NOT_TRANSITIVE)
		return;
	for (size_t g = 0; g < clock->count; g++)
		join(o, row, g, clock->seq[g]);
}

/* The clock of the stream's next operation, the legacy order joined. */
struct row
oracle__begin(const struct oracle *o, size_t s)
{
	const struct row *now = clock_now(o, s);
	struct row row = { o->stream_count, grown(NULL, o->stream_count, sizeof(uint64_t)) };

	for (size_t f = 0; f < row.count; f++)
		row.seq[f] = oracle__component(now, f);
	if (s != 0 && o->streams[s].flags == SOMA_STREAM_BLOCKING)
		join_event(o, &row, 0, o->streams[0].submitted);
	for (size_t f = 1; s == 0 && f < o->stream_count; f++)
		if (!o->streams[f].gone && o->streams[f].flags == SOMA_STREAM_BLOCKING)
			join_event(o, &row, f, o->streams[f].submitted);
	return row;
}

/* The operation takes its position; the row becomes the clock from there on. */
void
oracle__take_position(struct oracle *o, size_t s, struct row row)
{
	struct stream *stream = &o->streams[s];

	stream->submitted++;
	stream->history = grown(stream->history, stream->submitted, sizeof *stream->history);
	stream->history[stream->submitted] = row;
}

static bool
adds_something(const struct oracle *o, size_t s, const struct row *row)
{
	for (size_t f = 0; f < row->count; f++)
		if (row->seq[f] > oracle__component(clock_now(o, s), f))
			return true;
	return false;
}

void
oracle__wait_for(struct oracle *o, size_t s, size_t f, uint64_t seq)
{
	struct row row = oracle__begin(o, s);

	if (f != s && f != NO_STREAM)
		join_event(o, &row, f, seq);
	oracle__take_position(o, s, row);
}

/* ---- streams ------------------------------------------------------------ */

/* How often the slot was used before, or UINT64_MAX while it is in use. */
static uint64_t
times_used(const struct oracle *o, uint64_t slot)
{
	uint64_t times = 0;

	for (size_t i = 0; i < o->stream_count; i++) {
		if (o->streams[i].id % (1 << 20) != slot)
			continue;
		if (!o->streams[i].gone)
			return UINT64_MAX;
		times++;
	}
	return times;
}

void
oracle__add_stream(struct oracle *o, uint64_t id, unsigned flags)
{
	struct stream *s;

	o->streams = grown(o->streams, o->stream_count, sizeof *o->streams);
	s = &o->streams[o->stream_count++];
	*s = (struct stream){ .id = id, .flags = flags, .history = grown(NULL, 0, sizeof(struct row)) };
	s->history[0] = (struct row){ 0 };
}

enum soma_status
oracle_stream_create(struct oracle *o, unsigned flags, uint64_t *stream)
{
	uint64_t slot = 1;

	if (flags > SOMA_STREAM_NON_BLOCKING || stream == NULL)
		return SOMA_STATUS_INVALID_VALUE;
	while (times_used(o, slot) == UINT64_MAX)
		slot++;
	*stream = slot + ((uint64_t)1 << 20) * times_used(o, slot);
	oracle__add_stream(o, *stream, flags);
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_stream_destroy(struct oracle *o, uint64_t stream)
{
	size_t s = oracle__find_working_stream(o, stream);

	if (s == NO_STREAM || s == 0)
		return SOMA_STATUS_INVALID_VALUE;
	oracle__file_queue(o);
	o->streams[s].destroyed = true;
	oracle__look_for_gone_streams(o);
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_record_event(struct oracle *o, uint64_t stream, uint64_t *seq)
{
	size_t s = oracle__find_working_stream(o, stream);
	struct row row;

	if (s == NO_STREAM || seq == NULL)
		return SOMA_STATUS_INVALID_VALUE;
	oracle__file_queue(o);
	row = oracle__begin(o, s);
	if (adds_something(o, s, &row))
		oracle__take_position(o, s, row);
	else
		free(row.seq);
	*seq = o->streams[s].submitted;
	if (follows(o))
		o->streams[s].barrier = *seq;
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_wait_event(struct oracle *o, uint64_t stream, uint64_t event_stream, uint64_t event_seq)
{
	size_t s = oracle__find_working_stream(o, stream);
	size_t f = oracle__find_stream(o, event_stream);

	if (s == NO_STREAM || !oracle__was_stream(o, event_stream))
		return SOMA_STATUS_INVALID_VALUE;
	if (f != NO_STREAM && event_seq > o->streams[f].submitted)
		return SOMA_STATUS_INVALID_VALUE;
	oracle__wait_for(o, s, f, event_seq);
	return SOMA_STATUS_OK;
}

/* ---- streams that are gone ---------------------------------------------- */

static bool
has_something_left(const struct oracle *o, size_t s)
{
	if (o->streams[s].executed < o->streams[s].submitted)
		return true;
	for (size_t i = 0; i < o->block_count; i++)
		if (o->blocks[i]->state == PENDING && o->blocks[i]->stream == s)
			return true;
	for (size_t i = 0; o->policy.per_stream && i < o->segment_count; i++)
		if (o->segments[i]->stream == s)
			return true;
	return false;
}

void
oracle__look_for_gone_streams(struct oracle *o)
{
	for (size_t s = 1; s < o->stream_count; s++)
		if (o->streams[s].destroyed && !has_something_left(o, s))
			o->streams[s].gone = true;
}

/* ---- progress ----------------------------------------------------------- */

static void
reach(struct oracle *o, size_t s, uint64_t seq, bool observe)
{
	struct stream *stream = &o->streams[s];
	const struct row *joined;

	stream->executed = max_of(stream->executed, seq);
	if (observe)
		stream->observed = max_of(stream->observed, seq);
	joined = clock_at(o, s, stream->executed);
	for (size_t f = 0; f < joined->count; f++) {
		struct stream *other = &o->streams[f];

		other->executed = max_of(other->executed, joined->seq[f]);
		if (observe)
			other->observed = max_of(other->observed, joined->seq[f]);
	}
}

/* The pending free of the lowest stream id, then position, that may be completed. */
static struct block *
first_released(const struct oracle *o)
{
	struct block *first = NULL;

	for (size_t i = 0; i < o->block_count; i++) {
		struct block *b = o->blocks[i];
		uint64_t id = b->state == PENDING ? o->streams[b->stream].id : 0;

		if (b->state != PENDING || b->position >= oracle__released(o, b->stream))
			continue;
		if (first == NULL || id < o->streams[first->stream].id ||
		    (id == o->streams[first->stream].id && b->position < first->position))
			first = b;
	}
	return first;
}

static void
reclaim(struct oracle *o)
{
	struct block *b;

	oracle__file_queue(o);
	while ((b = first_released(o)) != NULL)
		oracle__complete(o, b);
}

enum soma_status
oracle_advance(struct oracle *o, uint64_t stream, uint64_t seq)
{
	size_t s = oracle__find_stream(o, stream);

	if (s == NO_STREAM || seq > o->streams[s].submitted)
		return SOMA_STATUS_INVALID_VALUE;
	reach(o, s, seq, false);
	reclaim(o);
	oracle__look_for_gone_streams(o);
	oracle__note_peaks(o);
	return SOMA_STATUS_OK;
}

static void
settle(struct oracle *o)
{
	reclaim(o);
	oracle__release_down_to(o, o->threshold);
	oracle__look_for_gone_streams(o);
}

enum soma_status
oracle_synchronize(struct oracle *o, uint64_t stream)
{
	size_t s = oracle__find_stream(o, stream);

	if (s == NO_STREAM)
		return SOMA_STATUS_INVALID_VALUE;
	reach(o, s, o->streams[s].submitted, true);
	settle(o);
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_synchronize_all(struct oracle *o)
{
	for (size_t s = 0; s < o->stream_count; s++)
		reach(o, s, o->streams[s].submitted, true);
	settle(o);
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_position(const struct oracle *o, uint64_t stream, struct soma_model_position *position)
{
	size_t s = oracle__find_stream(o, stream);

	if (s == NO_STREAM)
		return SOMA_STATUS_INVALID_VALUE;
	*position = (struct soma_model_position){ o->streams[s].submitted, o->streams[s].executed };
	return SOMA_STATUS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The fake backend's streams and events: positions, and clocks of what is ordered before what. */
#include <stdlib.h>
#include <string.h>

#include "tests/check_resource_fake_ops.h"

static enum soma_status
add_stream(struct soma_backend *fake, struct soma_backend_stream **out)
{
	pthread_mutex_lock(&fake->mutex);
	ck_assert_int_lt(fake->stream_count, FAKE_STREAMS);
	struct soma_backend_stream *stream = &fake->streams[fake->stream_count];
	stream->index = fake->stream_count++;
	stream->used = true;
	pthread_mutex_unlock(&fake->mutex);
	*out = stream;
	return SOMA_STATUS_OK;
}

enum soma_status
fake_stream_create(struct soma_backend *fake, unsigned flags, struct soma_backend_stream **stream)
{
	enum soma_status status = fake_enter(fake, FAKE_STREAM_CREATE);

	(void)flags;
	return status == SOMA_STATUS_OK ? add_stream(fake, stream) : status;
}

enum soma_status
fake_stream_default(struct soma_backend *fake, enum soma_backend_stream_kind kind,
		    struct soma_backend_stream **stream)
{
	(void)kind;
	return add_stream(fake, stream);
}

/* The driver's handles are used again: every wrapping is a new stream all the same. */
enum soma_status
fake_stream_wrap(struct soma_backend *fake, uint64_t native, struct soma_backend_stream **stream)
{
	(void)native;
	return add_stream(fake, stream);
}

void
fake_stream_destroy(struct soma_backend *fake, struct soma_backend_stream *stream)
{
	pthread_mutex_lock(&fake->mutex);
	ck_assert(stream->used && !stream->gone);
	stream->gone = true;
	pthread_mutex_unlock(&fake->mutex);
}

/* There is no legacy order here. */
enum soma_status
fake_stream_info(struct soma_backend *fake, struct soma_backend_stream *stream,
		 struct soma_backend_stream_info *info)
{
	if (fake->before != NULL)
		fake->before(fake, FAKE_STREAM_INFO, fake->context);
	atomic_fetch_add(&fake->counts[FAKE_STREAM_INFO], 1);
	ck_assert(stream->used && !stream->gone);
	if (fake->fail_with[FAKE_STREAM_INFO] != SOMA_STATUS_OK)
		return fake->fail_with[FAKE_STREAM_INFO];
	for (int i = 1; i < FAKE_STREAMS && fake->blocking && stream->index == 0; i++)
		if (fake->captures[i])
			return SOMA_STATUS_STREAM_MISUSE;
	info->native = 1000 + (uint64_t)stream->index;
	info->flags = fake->blocking ? 0 : SOMA_BACKEND_STREAM_NON_BLOCKING;
	info->capture =
		fake->captures[stream->index] ? SOMA_BACKEND_CAPTURE_ACTIVE : SOMA_BACKEND_CAPTURE_NONE;
	return SOMA_STATUS_OK;
}

enum soma_status
fake_stream_synchronize(struct soma_backend *fake, struct soma_backend_stream *stream)
{
	enum soma_status status = fake_enter(fake, FAKE_STREAM_SYNCHRONIZE);

	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&fake->mutex);
	stream->run = stream->queued;
	pthread_mutex_unlock(&fake->mutex);
	fake_leave(fake, FAKE_STREAM_SYNCHRONIZE);
	return SOMA_STATUS_OK;
}

enum soma_status
fake_event_create(struct soma_backend *fake, unsigned flags, struct soma_backend_event **event)
{
	enum soma_status status = fake_enter(fake, FAKE_EVENT_CREATE);

	(void)flags;
	if (status != SOMA_STATUS_OK)
		return status;
	*event = calloc(1, sizeof **event);
	(*event)->stream = -1;
	pthread_mutex_lock(&fake->mutex);
	fake->events++;
	pthread_mutex_unlock(&fake->mutex);
	return SOMA_STATUS_OK;
}

void
fake_event_destroy(struct soma_backend *fake, struct soma_backend_event *event)
{
	pthread_mutex_lock(&fake->mutex);
	fake->events--;
	pthread_mutex_unlock(&fake->mutex);
	free(event);
}

/* An event there becomes a part of the capture, which only a backend that makes graphs can have; on the legacy
 * stream it spoils the captures of blocking ones. */
static void
check_captures(const struct soma_backend *fake, const struct soma_backend_stream *stream)
{
	ck_assert(!fake->captures[stream->index] || (fake->capabilities & SOMA_BACKEND_CAPTURE) != 0);
	for (int i = 0; i < FAKE_STREAMS && fake->blocking && stream->index == 0; i++)
		ck_assert(!fake->captures[i]);
}

enum soma_status
fake_event_record(struct soma_backend *fake, struct soma_backend_event *event,
		  struct soma_backend_stream *stream)
{
	enum soma_status status = fake_enter(fake, FAKE_EVENT_RECORD);

	if (status != SOMA_STATUS_OK)
		return status;
	check_captures(fake, stream);
	pthread_mutex_lock(&fake->mutex);
	ck_assert(!stream->gone);
	event->stream = stream->index;
	event->position = stream->queued;
	memcpy(event->clock, stream->clock, sizeof event->clock);
	event->clock[stream->index] = stream->queued;
	pthread_mutex_unlock(&fake->mutex);
	fake_leave(fake, FAKE_EVENT_RECORD);
	return SOMA_STATUS_OK;
}

enum soma_status
fake_event_wait(struct soma_backend *fake, struct soma_backend_event *event,
		struct soma_backend_stream *stream)
{
	enum soma_status status = fake_enter(fake, FAKE_EVENT_WAIT);

	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&fake->mutex);
	for (int i = 0; i < FAKE_STREAMS; i++)
		if (event->stream >= 0 && event->clock[i] > stream->clock[i])
			stream->clock[i] = event->clock[i];
	fake_work(stream, 1);
	if (fake->streams_run)
		stream->run = stream->queued;
	pthread_mutex_unlock(&fake->mutex);
	return SOMA_STATUS_OK;
}

enum soma_status
fake_event_query(struct soma_backend *fake, struct soma_backend_event *event, bool *done)
{
	enum soma_status status = fake_enter(fake, FAKE_EVENT_QUERY);

	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&fake->mutex);
	*done = event->stream < 0 || fake->streams[event->stream].run >= event->position;
	pthread_mutex_unlock(&fake->mutex);
	return SOMA_STATUS_OK;
}

enum soma_status
fake_synchronize(struct soma_backend *fake)
{
	enum soma_status status = fake_enter(fake, FAKE_SYNCHRONIZE);

	if (status == SOMA_STATUS_OK)
		fake_run_all(fake);
	return status;
}

enum soma_status
fake_event_synchronize(struct soma_backend *fake, struct soma_backend_event *event)
{
	enum soma_status status = fake_enter(fake, FAKE_EVENT_SYNCHRONIZE);

	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&fake->mutex);
	struct soma_backend_stream *stream = &fake->streams[event->stream];
	if (stream->run < event->position)
		stream->run = event->position;
	pthread_mutex_unlock(&fake->mutex);
	return SOMA_STATUS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend over malloc for the guard's tests.  Fills and copies are done at once; streams count what was
 * queued, and what is over is known after a synchronisation only, as on a device.
 * One mutex covers everything.
 */
#include "tests/check_guard_toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check_guard_support.h"

#define TOY_CAPABILITIES \
	(SOMA_BACKEND_STREAM_ORDERED | SOMA_BACKEND_USE_TRACKING | SOMA_BACKEND_STREAMS | SOMA_BACKEND_FILLS)

_Atomic int64_t toy_live, toy_fail_in = -1, toy_early;
_Atomic uint64_t toy_limit;
_Atomic bool toy_gone;

struct soma_backend {
	const struct soma_backend_host *host;
	bool direct;
	pthread_mutex_t mutex;
	uint64_t last_id, used;
	struct soma_backend_stream *streams, *legacy;
	/* The latest copy to the host, which may be under way until its stream is past it. */
	const void *into;
	const struct soma_backend_stream *copier;
	uint64_t copied_at;
};

/* Records outlive the stream: events and waits point there. */
struct soma_backend_stream {
	struct soma_backend_stream *next;
	uint64_t id, queued, run;
	unsigned flags;
	unsigned holders;
	struct wait *waits; /* not run yet */
	unsigned wait_count, wait_room;
};

struct wait {
	struct soma_backend_stream *on;
	uint64_t position, at;
};

struct soma_backend_event {
	struct soma_backend_stream *stream;
	uint64_t position;
};

static enum soma_status
fail(struct soma_backend *toy, enum soma_status status, const char *text)
{
	struct soma_backend_error error = { .size = sizeof error, .status = status, .text = text };

	return toy->host->fail(toy->host->context, &error);
}

/* Each op of the backend begins here. */
static enum soma_status
enter(struct soma_backend *toy)
{
	if (atomic_load(&toy_gone))
		return fail(toy, SOMA_STATUS_DRIVER, "toy: the driver is gone");
	if (atomic_load(&toy_fail_in) >= 0 && atomic_fetch_sub(&toy_fail_in, 1) == 0)
		return fail(toy, SOMA_STATUS_DRIVER, "toy: told to fail");
	return SOMA_STATUS_OK;
}

#define ENTER(toy)                                     \
	do {                                           \
		enum soma_status entered = enter(toy); \
		if (entered != SOMA_STATUS_OK)         \
			return entered;                \
	} while (0)

static struct soma_backend_stream *
new_stream(struct soma_backend *toy, unsigned flags)
{
	struct soma_backend_stream *stream = calloc(1, sizeof *stream);

	pthread_mutex_lock(&toy->mutex);
	stream->id = ++toy->last_id;
	stream->flags = flags;
	stream->next = toy->streams;
	toy->streams = stream;
	pthread_mutex_unlock(&toy->mutex);
	return stream;
}

static enum soma_status
toy_open(const struct soma_backend_open *how, struct soma_backend **self)
{
	struct soma_backend *toy = calloc(1, sizeof *toy);

	toy->host = how->host;
	toy->direct = how->device == 0;
	pthread_mutex_init(&toy->mutex, NULL);
	toy->legacy = new_stream(toy, 0);
	*self = toy;
	return SOMA_STATUS_OK;
}

static void
toy_close(struct soma_backend *toy)
{
	while (toy->streams != NULL) {
		struct soma_backend_stream *stream = toy->streams;
		toy->streams = stream->next;
		free(stream->waits);
		free(stream);
	}
	pthread_mutex_destroy(&toy->mutex);
	free(toy);
}

static enum soma_status
toy_query(struct soma_backend *toy, struct soma_backend_info *info)
{
	info->capabilities = TOY_CAPABILITIES;
	if (toy->direct)
		info->capabilities |= SOMA_BACKEND_HOST_ACCESSIBLE;
	if (atomic_load(&toy_gone))
		info->capabilities |= SOMA_BACKEND_LOST;
	info->alignment = 256;
	info->granularity = 4096;
	info->total = (uint64_t)1 << 30;
	info->free = info->total - toy->used;
	return SOMA_STATUS_OK;
}

static enum soma_status
toy_alloc(struct soma_backend *toy, uint64_t size, uint64_t alignment, struct soma_backend_stream *stream,
	  uint64_t *ptr)
{
	uint64_t step = alignment > 256 ? alignment : 256, limit = atomic_load(&toy_limit);
	void *memory = NULL;

	(void)stream;
	ENTER(toy);
	pthread_mutex_lock(&toy->mutex);
	bool room = limit == 0 || toy->used + size <= limit;
	if (room && posix_memalign(&memory, step, size) == 0)
		toy->used += size;
	pthread_mutex_unlock(&toy->mutex);
	if (memory == NULL)
		return fail(toy, SOMA_STATUS_OUT_OF_DEVICE_MEMORY, "toy: the limit is met");
	atomic_fetch_add(&toy_live, 1);
	*ptr = (uint64_t)(uintptr_t)memory;
	return SOMA_STATUS_OK;
}

/* Frees of streams are the guard's fallback alone; the memory is idle then too. */
static enum soma_status
toy_free(struct soma_backend *toy, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	(void)stream;
	ENTER(toy);
	pthread_mutex_lock(&toy->mutex);
	toy->used -= size;
	pthread_mutex_unlock(&toy->mutex);
	free((void *)(uintptr_t)ptr);
	atomic_fetch_sub(&toy_live, 1);
	return SOMA_STATUS_OK;
}

/* ---- streams ------------------------------------------------------------------------- */

static enum soma_status
toy_stream_create(struct soma_backend *toy, unsigned flags, struct soma_backend_stream **stream)
{
	ENTER(toy);
	*stream = new_stream(toy, flags);
	atomic_fetch_add(&toy_live, 1);
	return SOMA_STATUS_OK;
}

static enum soma_status
toy_stream_default(struct soma_backend *toy, enum soma_backend_stream_kind kind,
		   struct soma_backend_stream **stream)
{
	ENTER(toy);
	if (kind != SOMA_BACKEND_STREAM_LEGACY)
		return fail(toy, SOMA_STATUS_NOT_SUPPORTED, "toy: no such default stream");
	*stream = toy->legacy;
	atomic_fetch_add(&toy_live, 1);
	return SOMA_STATUS_OK;
}

static void
toy_stream_destroy(struct soma_backend *toy, struct soma_backend_stream *stream)
{
	(void)toy;
	(void)stream;
	atomic_fetch_sub(&toy_live, 1);
}

static enum soma_status
toy_stream_info(struct soma_backend *toy, struct soma_backend_stream *stream,
		struct soma_backend_stream_info *info)
{
	ENTER(toy);
	info->id = stream->id;
	info->native = stream->id;
	info->flags = stream->flags;
	info->capture = 0;
	info->capture_id = 0;
	return SOMA_STATUS_OK;
}

/* Under the mutex: what waits for what is over too. */
static void
run_to(struct soma_backend_stream *stream, uint64_t position)
{
	if (stream->run >= position)
		return;
	stream->run = position;
	/* The others first: they may come back here, and find it run. */
	for (unsigned i = 0; i < stream->wait_count; i++)
		if (stream->waits[i].at <= position)
			run_to(stream->waits[i].on, stream->waits[i].position);
	unsigned kept = 0;
	for (unsigned i = 0; i < stream->wait_count; i++)
		if (stream->waits[i].at > stream->run)
			stream->waits[kept++] = stream->waits[i];
	stream->wait_count = kept;
}

static enum soma_status
toy_stream_query(struct soma_backend *toy, struct soma_backend_stream *stream, bool *done)
{
	ENTER(toy);
	pthread_mutex_lock(&toy->mutex);
	*done = stream->run == stream->queued;
	pthread_mutex_unlock(&toy->mutex);
	return SOMA_STATUS_OK;
}

static enum soma_status
toy_stream_synchronize(struct soma_backend *toy, struct soma_backend_stream *stream)
{
	ENTER(toy);
	pthread_mutex_lock(&toy->mutex);
	run_to(stream, stream->queued);
	pthread_mutex_unlock(&toy->mutex);
	return SOMA_STATUS_OK;
}

static enum soma_status
toy_synchronize(struct soma_backend *toy)
{
	ENTER(toy);
	pthread_mutex_lock(&toy->mutex);
	for (struct soma_backend_stream *stream = toy->streams; stream != NULL; stream = stream->next)
		run_to(stream, stream->queued);
	pthread_mutex_unlock(&toy->mutex);
	return SOMA_STATUS_OK;
}

static enum soma_status
toy_event_create(struct soma_backend *toy, unsigned flags, struct soma_backend_event **event)
{
	(void)flags;
	ENTER(toy);
	*event = calloc(1, sizeof **event);
	atomic_fetch_add(&toy_live, 1);
	return SOMA_STATUS_OK;
}

static void
toy_event_destroy(struct soma_backend *toy, struct soma_backend_event *event)
{
	(void)toy;
	free(event);
	atomic_fetch_sub(&toy_live, 1);
}

static enum soma_status
toy_event_record(struct soma_backend *toy, struct soma_backend_event *event,
		 struct soma_backend_stream *stream)
{
	ENTER(toy);
	pthread_mutex_lock(&toy->mutex);
	event->stream = stream;
	event->position = ++stream->queued;
	pthread_mutex_unlock(&toy->mutex);
	return SOMA_STATUS_OK;
}

static enum soma_status
toy_event_wait(struct soma_backend *toy, struct soma_backend_event *event, struct soma_backend_stream *stream)
{
	ENTER(toy);
	pthread_mutex_lock(&toy->mutex);
	if (event->stream != NULL && event->stream != stream) {
		if (stream->wait_count == stream->wait_room) {
			stream->wait_room = 2 * stream->wait_room + 16;
			stream->waits = realloc(stream->waits, stream->wait_room * sizeof *stream->waits);
		}
		stream->waits[stream->wait_count++] =
			(struct wait){ event->stream, event->position, ++stream->queued };
	}
	pthread_mutex_unlock(&toy->mutex);
	return SOMA_STATUS_OK;
}

static enum soma_status
toy_event_query(struct soma_backend *toy, struct soma_backend_event *event, bool *done)
{
	ENTER(toy);
	pthread_mutex_lock(&toy->mutex);
	*done = event->stream == NULL || event->stream->run >= event->position;
	pthread_mutex_unlock(&toy->mutex);
	return SOMA_STATUS_OK;
}

static enum soma_status
toy_event_synchronize(struct soma_backend *toy, struct soma_backend_event *event)
{
	ENTER(toy);
	pthread_mutex_lock(&toy->mutex);
	if (event->stream != NULL)
		run_to(event->stream, event->position);
	pthread_mutex_unlock(&toy->mutex);
	return SOMA_STATUS_OK;
}

/* ---- fills and copies ------------------------------------------------------------------- */

static enum soma_status
toy_fill8(struct soma_backend *toy, uint64_t ptr, uint8_t value, uint64_t count,
	  struct soma_backend_stream *stream)
{
	(void)stream;
	ENTER(toy);
	memset((void *)(uintptr_t)ptr, value, count);
	return SOMA_STATUS_OK;
}

static enum soma_status
toy_fill32(struct soma_backend *toy, uint64_t ptr, uint32_t value, uint64_t count,
	   struct soma_backend_stream *stream)
{
	(void)stream;
	ENTER(toy);
	for (uint64_t i = 0; i < count; i++)
		memcpy((char *)(uintptr_t)ptr + 4 * i, &value, 4);
	return SOMA_STATUS_OK;
}

static enum soma_status
move(struct soma_backend *toy, void *to, const void *from, uint64_t bytes)
{
	ENTER(toy);
	memcpy(to, from, bytes);
	return SOMA_STATUS_OK;
}

static enum soma_status
toy_copy(struct soma_backend *toy, uint64_t to, uint64_t from, uint64_t bytes,
	 struct soma_backend_stream *stream)
{
	(void)stream;
	return move(toy, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
}

static enum soma_status
toy_copy_from_host(struct soma_backend *toy, uint64_t to, const void *from, uint64_t bytes,
		   struct soma_backend_stream *stream)
{
	(void)stream;
	return move(toy, (void *)(uintptr_t)to, from, bytes);
}

/* Memory that a copy may be writing to yet is used for something else. */
static void
note_early(struct soma_backend *toy, const void *memory)
{
	pthread_mutex_lock(&toy->mutex);
	if (toy->into == memory && toy->copier->run < toy->copied_at)
		atomic_fetch_add(&toy_early, 1);
	toy->into = NULL;
	pthread_mutex_unlock(&toy->mutex);
}

static enum soma_status
toy_copy_to_host(struct soma_backend *toy, void *to, uint64_t from, uint64_t bytes,
		 struct soma_backend_stream *stream)
{
	note_early(toy, to);
	enum soma_status status = move(toy, to, (const void *)(uintptr_t)from, bytes);

	if (status != SOMA_STATUS_OK || stream == NULL)
		return status;
	pthread_mutex_lock(&toy->mutex);
	toy->into = to;
	toy->copier = stream;
	toy->copied_at = ++stream->queued;
	pthread_mutex_unlock(&toy->mutex);
	return status;
}

static enum soma_status
toy_staging_alloc(struct soma_backend *toy, size_t size, void **memory)
{
	ENTER(toy);
	*memory = malloc(size);
	atomic_fetch_add(&toy_live, 1);
	return SOMA_STATUS_OK;
}

static void
toy_staging_free(struct soma_backend *toy, void *memory, size_t size)
{
	(void)size;
	note_early(toy, memory);
	free(memory);
	atomic_fetch_sub(&toy_live, 1);
}

const struct soma_backend_ops toy_ops = {
	.size = sizeof(struct soma_backend_ops),
	.open = toy_open,
	.close = toy_close,
	.query = toy_query,
	.alloc = toy_alloc,
	.free = toy_free,
	.stream_create = toy_stream_create,
	.stream_default = toy_stream_default,
	.stream_destroy = toy_stream_destroy,
	.stream_info = toy_stream_info,
	.stream_query = toy_stream_query,
	.stream_synchronize = toy_stream_synchronize,
	.synchronize = toy_synchronize,
	.event_create = toy_event_create,
	.event_destroy = toy_event_destroy,
	.event_record = toy_event_record,
	.event_wait = toy_event_wait,
	.event_query = toy_event_query,
	.event_synchronize = toy_event_synchronize,
	.fill8 = toy_fill8,
	.fill32 = toy_fill32,
	.copy = toy_copy,
	.copy_from_host = toy_copy_from_host,
	.copy_to_host = toy_copy_to_host,
	.staging_alloc = toy_staging_alloc,
	.staging_free = toy_staging_free,
};

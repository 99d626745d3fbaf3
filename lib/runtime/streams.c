/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of a runtime by handle.  To say which stream has a handle now, the backend is asked every time: it
 * wraps the handle and says its own id, which is never given twice.
 *
 * The registry's mutex is held over those calls, which do not wait, so that of two threads that wrap one
 * stream the second finds what the first has made.  It is not held while a stream is destroyed, which may wait.
 */
#include "lib/runtime/runtime.h"

#include "lib/base/error.h"
#include "lib/resource/terminal.h"

static struct soma__streams *
streams_of(struct soma_runtime *runtime)
{
	return &runtime->resource->terminal->streams;
}

static bool
have_streams(const struct soma_runtime *runtime)
{
	return (runtime->backend->capabilities & SOMA_BACKEND_STREAMS) != 0;
}

static enum soma_status
check_streams(const struct soma_runtime *runtime)
{
	return have_streams(runtime) ? SOMA_STATUS_OK
				     : soma__fail(NOT_SUPPORTED, "the backend has no streams");
}

static enum soma_status
ask(struct soma_runtime *runtime, struct soma_backend_stream *handle, struct soma_backend_stream_info *info)
{
	*info = (struct soma_backend_stream_info){ .size = sizeof *info };
	return runtime->backend->ops->stream_info(runtime->backend->self, handle, info);
}

/* The backend's id of the stream that has this handle now. */
static enum soma_status
ask_native(struct soma_runtime *runtime, uint64_t native, uint64_t *backend_id)
{
	struct soma__backend *backend = runtime->backend;
	struct soma_backend_stream_info info;
	struct soma_backend_stream *handle;
	enum soma_status status = backend->ops->stream_wrap(backend->self, native, &handle);

	if (status != SOMA_STATUS_OK)
		return status;
	status = ask(runtime, handle, &info);
	backend->ops->stream_destroy(backend->self, handle);
	if (status == SOMA_STATUS_OK)
		*backend_id = info.id;
	return status;
}

static enum soma_status
ask_id(struct soma_runtime *runtime, uint64_t id, struct soma_backend_stream_info *info)
{
	struct soma__stream *stream;
	enum soma_status status = soma__stream_open(streams_of(runtime), id, &stream);

	return status == SOMA_STATUS_OK ? ask(runtime, stream->handle, info) : status;
}

static bool
is_open(struct soma_runtime *runtime, uint64_t id)
{
	const struct soma__stream *stream = soma__stream_find(streams_of(runtime), id);

	return stream != NULL && !stream->destroyed;
}

/* The entry of a stream that still exists here.  Under the mutex; one that was destroyed past the registry,
 * through the resource, is forgotten. */
static struct soma__stream_entry *
find_open(struct soma_runtime *runtime, uint64_t backend_id)
{
	struct soma__registry *registry = &runtime->streams;
	struct soma__stream_entry *entry;

	while ((entry = soma__registry_by_backend(registry, backend_id)) != NULL) {
		if (is_open(runtime, entry->id))
			return entry;
		soma__registry_remove(registry, entry);
		soma__registry_free(registry, entry);
	}
	return NULL;
}

/* ---- making ------------------------------------------------------------------------------ */

enum soma_status
soma__runtime_streams_init(struct soma_runtime *runtime)
{
	struct soma_backend_stream_info info;
	struct soma__stream_entry *entry;
	enum soma_status status;

	soma__registry_init(&runtime->streams, runtime->arena);
	if (!have_streams(runtime))
		return SOMA_STATUS_OK;
	status = ask_id(runtime, 0, &info);
	entry = status == SOMA_STATUS_OK ? soma__registry_new(&runtime->streams) : NULL;
	if (entry == NULL) {
		soma__registry_fini(&runtime->streams);
		return status == SOMA_STATUS_OK ? SOMA_STATUS_OUT_OF_HOST_MEMORY : status;
	}
	entry->backend_id = info.id;
	entry->count = 1;
	soma__registry_add(&runtime->streams, entry);
	return SOMA_STATUS_OK;
}

/* A stream and its entry, in no chain yet.  native: NULL for a stream of its own.  After a failure *out is what there
 * is to be discarded, without the mutex; NULL: nothing. */
static enum soma_status
make_stream(struct soma_runtime *runtime, unsigned flags, const uint64_t *native,
	    struct soma__stream_entry **out)
{
	struct soma__stream_entry *entry = soma__registry_new(&runtime->streams);
	struct soma_backend_stream_info info = { 0 };
	enum soma_status status;

	*out = NULL;
	if (entry == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = native != NULL ? soma_resource_stream_wrap(runtime->resource, *native, &entry->id)
				: soma_resource_stream_create(runtime->resource, flags, &entry->id);
	if (status != SOMA_STATUS_OK) {
		soma__registry_free(&runtime->streams, entry);
		return status;
	}
	*out = entry;
	status = ask_id(runtime, entry->id, &info);
	entry->backend_id = info.id;
	entry->count = 1;
	return status;
}

static void
discard(struct soma_runtime *runtime, struct soma__stream_entry *entry)
{
	if (entry == NULL)
		return;
	(void)soma_resource_stream_destroy(runtime->resource, entry->id);
	soma__registry_free(&runtime->streams, entry);
}

enum soma_status
soma_runtime_stream_acquire(struct soma_runtime *runtime, unsigned flags, uint64_t *stream)
{
	struct soma__stream_entry *entry;
	enum soma_status status = check_streams(runtime);

	if (status != SOMA_STATUS_OK)
		return status;
	status = make_stream(runtime, flags, NULL, &entry);
	if (status != SOMA_STATUS_OK) {
		discard(runtime, entry);
		return status;
	}
	*stream = entry->id;
	pthread_mutex_lock(&runtime->streams.mutex);
	soma__registry_add(&runtime->streams, entry);
	pthread_mutex_unlock(&runtime->streams.mutex);
	return SOMA_STATUS_OK;
}

/* ---- by handle ------------------------------------------------------------------------------- */

/* Under the mutex. */
static enum soma_status
wrap_new(struct soma_runtime *runtime, uint64_t native, struct soma__stream_entry **entry,
	 struct soma__stream_entry **stray)
{
	enum soma_status status = make_stream(runtime, 0, &native, stray);

	if (status != SOMA_STATUS_OK)
		return status;
	*entry = *stray;
	*stray = NULL;
	soma__registry_add(&runtime->streams, *entry);
	return SOMA_STATUS_OK;
}

/* The id of the stream that has the handle now.  Under the mutex; wraps: it is counted, and made if need be, and
 * *stray is as make_stream() leaves it. */
static enum soma_status
find_native(struct soma_runtime *runtime, uint64_t native, bool wraps, uint64_t *stream,
	    struct soma__stream_entry **stray)
{
	struct soma__stream_entry *entry;
	uint64_t backend_id;
	enum soma_status status = ask_native(runtime, native, &backend_id);

	if (status != SOMA_STATUS_OK)
		return status;
	entry = find_open(runtime, backend_id);
	if (entry == NULL && !wraps)
		return soma__fail(NOT_FOUND, "the stream with handle 0x%" PRIx64 " was not wrapped", native);
	if (entry == NULL)
		status = wrap_new(runtime, native, &entry, stray);
	else if (wraps && entry->id != 0)
		entry->count++;
	if (status == SOMA_STATUS_OK)
		*stream = entry->id;
	return status;
}

static enum soma_status
by_handle(struct soma_runtime *runtime, uint64_t native, bool wraps, uint64_t *stream)
{
	struct soma__stream_entry *stray = NULL;
	enum soma_status status = check_streams(runtime);

	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&runtime->streams.mutex);
	status = find_native(runtime, native, wraps, stream, &stray);
	pthread_mutex_unlock(&runtime->streams.mutex);
	discard(runtime, stray);
	return status;
}

enum soma_status
soma_runtime_stream_wrap(struct soma_runtime *runtime, uint64_t native, uint64_t *stream)
{
	return by_handle(runtime, native, true, stream);
}

enum soma_status
soma_runtime_stream_resolve(struct soma_runtime *runtime, uint64_t native, uint64_t *stream)
{
	return by_handle(runtime, native, false, stream);
}

enum soma_status
soma_runtime_stream_native(struct soma_runtime *runtime, uint64_t stream, uint64_t *native)
{
	struct soma_backend_stream_info info;
	enum soma_status status = check_streams(runtime);

	if (status == SOMA_STATUS_OK)
		status = ask_id(runtime, stream, &info);
	if (status == SOMA_STATUS_OK)
		*native = info.native;
	return status;
}

/* ---- release ------------------------------------------------------------------------------------ */

/* While it is destroyed the entry is not found by anybody; it comes back if that fails. */
static enum soma_status
release_last(struct soma_runtime *runtime, struct soma__stream_entry *entry)
{
	struct soma__registry *registry = &runtime->streams;
	enum soma_status status = soma_resource_stream_destroy(runtime->resource, entry->id);

	pthread_mutex_lock(&registry->mutex);
	if (status != SOMA_STATUS_OK && is_open(runtime, entry->id)) {
		entry->count = 1;
	} else {
		soma__registry_remove(registry, entry);
		soma__registry_free(registry, entry);
	}
	pthread_mutex_unlock(&registry->mutex);
	return status;
}

enum soma_status
soma_runtime_stream_release(struct soma_runtime *runtime, uint64_t stream)
{
	struct soma__registry *registry = &runtime->streams;
	struct soma__stream_entry *entry;
	bool last;

	if (stream == 0)
		return SOMA_STATUS_OK;
	pthread_mutex_lock(&registry->mutex);
	entry = soma__registry_by_id(registry, stream);
	last = entry != NULL && --entry->count == 0;
	pthread_mutex_unlock(&registry->mutex);
	if (entry == NULL)
		return soma__stream_missing(stream);
	return last ? release_last(runtime, entry) : SOMA_STATUS_OK;
}

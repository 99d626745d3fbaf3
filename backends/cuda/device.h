/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open device: what async and sync share.  Each file of the shared sources has one group of ops; async.c
 * and sync.c have blocks, and the two modules' tables.
 *
 * Locks: `lists` covers the lists of what must be given back at close, a shard of `blocks` its blocks, the
 * spans' lock their table.  No lock is held over a call of the driver, but for spans, and `lists` while streams are
 * asked whether they are in a capture.
 */
#ifndef SOMA_BACKENDS_CUDA_DEVICE_H
#define SOMA_BACKENDS_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

#include "backends/cuda/blocks.h"
#include "backends/cuda/driver.h"

#define CUDA_ALIGNMENT 256u /* of every block, as the driver promises */

/* A doubly linked list of what is given back at close. */
struct cuda_link {
	struct cuda_link *next, *prev;
};

struct soma_backend_stream {
	struct cuda_link link;
	CUstream handle;
	uint64_t id;    /* the driver's, never given twice */
	uint32_t flags; /* of enum soma_backend_stream_flags */
	bool owned;
	bool named; /* no default stream: the driver finds the context by it */
};

struct soma_backend_event {
	struct cuda_link link;
	CUevent handle;
	_Atomic bool captured; /* recorded in a capture: the driver must not be asked about it */
};

struct soma_backend_import {
	struct cuda_link link;
	CUmemoryPool pool;
};

struct soma_backend {
	const struct soma_backend_host *host;
	const struct cuda_driver *driver;
	const char *name;
	int ordinal;
	CUdevice device;
	CUcontext context;
	_Atomic int lost;               /* the sticky result; 0: none */
	bool forked;                    /* this is a child of the process that opened it */
	struct soma_backend *next_open; /* fork.c */
	uint64_t capabilities;
	uint64_t total, granularity;
	char device_name[96];
	unsigned char uuid[16];
	CUstream own; /* for what is done at return */

	CUmodule module; /* NULL: no scans */
	CUfunction scan;

	pthread_mutex_t lists; /* protects the next five */
	struct cuda_link streams, events, staging, imports;
	bool closing;
	struct blocks blocks;

	pthread_mutex_t spans_lock; /* protects the list; see spans.c */
	struct cuda_link spans;

	struct soma_backend_event *behind; /* sync alone: recorded behind work that is waited for */

	CUmemoryPool pool; /* async alone from here on */
	bool captures;     /* capture=graph */
};

/* Whether a sticky error was met. */
static inline bool
cuda_is_lost(const struct soma_backend *self)
{
	return atomic_load_explicit(&self->lost, memory_order_acquire) != 0;
}

/* ---- device.c ---- */

/* Opens what both have in common. `name` is the module's. */
enum soma_status cuda_device_open(const struct soma_backend_open *how, const char *name,
				  struct soma_backend **self);
/* Gives back everything but blocks and pools, which are the caller's to give back in between. */
void cuda_device_close(struct soma_backend *self);
/* Waits for all work before close.  False: the device is lost, and the driver is not to be called. */
bool cuda_device_drain(struct soma_backend *self);

enum soma_status cuda_device_query(struct soma_backend *self, struct soma_backend_info *info);
enum soma_status cuda_device_count(const struct soma_backend_host *host, const char *name, int *count);

/* 0 where the driver does not know the attribute. */
int cuda_attribute(const struct soma_backend *self, CUdevice_attribute attribute);

/*
 * Around every use of the driver: makes the device's context the thread's current one, and leaves what was
 * there before.  `relaxed` where a capture of this thread in its default mode would forbid the call.
 */
struct cuda_scope {
	struct soma_backend *self;
	bool pushed, relaxed;
	bool unasked; /* cuda_enter_stream() did not look at the current context */
	CUstreamCaptureMode before;
};
/* The second half of it; a failure leaves the scope. */
enum soma_status cuda_relax(struct cuda_scope *scope);
enum soma_status cuda_enter_relaxed(struct soma_backend *self, struct cuda_scope *scope);

/* At close, where nobody is left to try again later: twice.  False: nothing can be done any more. */
bool cuda_enter_closing(struct soma_backend *self, struct cuda_scope *scope);

/* The rest of enter and leave: a device that is lost, and a thread with another context or none. */
enum soma_status cuda_enter_lost(struct soma_backend *self);
enum soma_status cuda_enter_push(struct soma_backend *self, struct cuda_scope *scope);
void cuda_leave_slow(struct cuda_scope *scope);

static inline enum soma_status
cuda_enter(struct soma_backend *self, struct cuda_scope *scope)
{
	CUcontext current = NULL;
	enum soma_status status;

	if (__builtin_expect(cuda_is_lost(self), 0))
		return cuda_enter_lost(self);
	scope->self = self;
	scope->pushed = scope->relaxed = scope->unasked = false;
	status = CUDA_CALL(self, cuCtxGetCurrent, &current);
	if (__builtin_expect(current == self->context, 1))
		return status;
	return status == SOMA_STATUS_OK ? cuda_enter_push(self, scope) : status;
}

/*
 * For calls that name a stream.  One that is no default stream says which context is meant, so whatever is
 * current is left there, unasked.  A driver that wants a context all the same answers so, without having done
 * anything: CUDA_CALL_ON() makes ours current then, and calls again.
 */
static inline enum soma_status
cuda_enter_stream(struct soma_backend *self, const struct soma_backend_stream *stream,
		  struct cuda_scope *scope)
{
	if (stream == NULL || !stream->named)
		return cuda_enter(self, scope);
	if (__builtin_expect(cuda_is_lost(self), 0))
		return cuda_enter_lost(self);
	scope->self = self;
	scope->pushed = scope->relaxed = false;
	scope->unasked = true;
	return SOMA_STATUS_OK;
}

/* Whether the call is to be made again: it failed in another context, and ours is current now. */
bool cuda_enter_late(struct cuda_scope *scope, CUresult result);

#define CUDA_CALL_ON(scope, name, ...)                                                                 \
	({                                                                                             \
		struct soma_backend *self_ = (scope)->self;                                            \
		CUresult result_ = self_->driver->name(__VA_ARGS__);                                   \
		if (__builtin_expect(result_ != CUDA_SUCCESS, 0) && cuda_enter_late((scope), result_)) \
			result_ = self_->driver->name(__VA_ARGS__);                                    \
		__builtin_expect(result_ == CUDA_SUCCESS, 1) ? SOMA_STATUS_OK                          \
							     : cuda_failed(self_, result_, #name);     \
	})

static inline void
cuda_leave(struct cuda_scope *scope)
{
	if (scope->pushed || scope->relaxed)
		cuda_leave_slow(scope);
}

void cuda_link_add(struct soma_backend *self, struct cuda_link *list, struct cuda_link *link);
void cuda_link_remove(struct soma_backend *self, struct cuda_link *link);

/* The stream for the driver; NULL is the backend's own, to be waited for with cuda_finish(). */
static inline CUstream
cuda_handle(const struct soma_backend *self, const struct soma_backend_stream *stream)
{
	return stream == NULL ? self->own : stream->handle;
}

/* What was queued for stream NULL is done at return.  Within a scope. */
enum soma_status cuda_finish_own(struct soma_backend *self);
static inline enum soma_status
cuda_finish(struct soma_backend *self, const struct soma_backend_stream *stream)
{
	return stream != NULL ? SOMA_STATUS_OK : cuda_finish_own(self);
}

/* Size and alignment of a request. */
enum soma_status cuda_refuse_request(const struct soma_backend *self, uint64_t size, uint64_t alignment);
static inline enum soma_status
cuda_check_request(const struct soma_backend *self, uint64_t size, uint64_t alignment)
{
	if (__builtin_expect(size != 0 && (alignment & (alignment - 1)) == 0 && alignment <= CUDA_ALIGNMENT,
			     1))
		return SOMA_STATUS_OK;
	return cuda_refuse_request(self, size, alignment);
}

/*
 * Gives memory back: on `stream`, or at once when `ordered` is not so.  That an error of earlier work comes with the
 * answer does not make a free fail that has worked.  Where no stream was asked before, such an error is to be met by
 * cuda_meet_errors(), with which the free does not begin.
 */
enum soma_status cuda_free_failed(struct cuda_scope *scope, uint64_t ptr, CUstream stream, bool ordered,
				  CUresult result);
static inline enum soma_status
cuda_free_memory(struct cuda_scope *scope, uint64_t ptr, CUstream stream, bool ordered)
{
	const struct cuda_driver *driver = scope->self->driver;
	CUresult result = ordered ? driver->cuMemFreeAsync(ptr, stream) : driver->cuMemFree(ptr);

	if (__builtin_expect(result == CUDA_SUCCESS, 1))
		return SOMA_STATUS_OK;
	return cuda_free_failed(scope, ptr, stream, ordered, result);
}

/* A question that changes nothing and is answered with the error of earlier work, if there is one. */
enum soma_status cuda_meet_errors(struct cuda_scope *scope);

/* ---- fork.c ---- */
void cuda_fork_enter(struct soma_backend *self);
void cuda_fork_leave(struct soma_backend *self);

/* ---- streams.c ---- */

/* STREAM_MISUSE for another thread's default stream: its handle is the calling thread's own.  Within a scope,
 * before every use of a stream's handle. */
enum soma_status cuda_check_thread_slow(struct cuda_scope *scope, const struct soma_backend_stream *stream);

static inline enum soma_status
cuda_check_thread(struct cuda_scope *scope, const struct soma_backend_stream *stream)
{
	if (__builtin_expect(stream == NULL || stream->handle != CU_STREAM_PER_THREAD, 1))
		return SOMA_STATUS_OK;
	return cuda_check_thread_slow(scope, stream);
}

/* Whether the stream is in a capture; a failure is an answer too: asked of the legacy stream while another one
 * is captured. */
static inline enum soma_status
cuda_is_capturing(struct cuda_scope *scope, const struct soma_backend_stream *stream, bool *capturing)
{
	CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
	enum soma_status status = cuda_check_thread(scope, stream);

	if (stream != NULL && status == SOMA_STATUS_OK)
		status = CUDA_CALL_ON(scope, cuStreamIsCapturing, stream->handle, &state);
	*capturing = state != CU_STREAM_CAPTURE_STATUS_NONE;
	return status;
}

/* STREAM_MISUSE on a capturing stream: `what` is not for one. */
enum soma_status cuda_refuse_capturing(struct cuda_scope *scope, const struct soma_backend_stream *stream,
				       const char *what);
void cuda_streams_close(struct soma_backend *self);

enum soma_status cuda_stream_create(struct soma_backend *self, unsigned flags,
				    struct soma_backend_stream **stream);
enum soma_status cuda_stream_default(struct soma_backend *self, enum soma_backend_stream_kind kind,
				     struct soma_backend_stream **stream);
enum soma_status cuda_stream_wrap(struct soma_backend *self, uint64_t native,
				  struct soma_backend_stream **stream);
void cuda_stream_destroy(struct soma_backend *self, struct soma_backend_stream *stream);
enum soma_status cuda_stream_info(struct soma_backend *self, struct soma_backend_stream *stream,
				  struct soma_backend_stream_info *info);
enum soma_status cuda_stream_query(struct soma_backend *self, struct soma_backend_stream *stream, bool *done);
enum soma_status cuda_stream_synchronize(struct soma_backend *self, struct soma_backend_stream *stream);
enum soma_status cuda_synchronize(struct soma_backend *self);

/* ---- events.c ---- */
void cuda_events_close(struct soma_backend *self);
enum soma_status cuda_event_create(struct soma_backend *self, unsigned flags,
				   struct soma_backend_event **event);
void cuda_event_destroy(struct soma_backend *self, struct soma_backend_event *event);
enum soma_status cuda_event_record(struct soma_backend *self, struct soma_backend_event *event,
				   struct soma_backend_stream *stream);
/* The driver's part of it, within a scope, where the stream was asked whether it is in a capture. */
static inline enum soma_status
cuda_event_record_in(struct cuda_scope *scope, struct soma_backend_event *event,
		     const struct soma_backend_stream *stream, bool capturing)
{
	enum soma_status status = CUDA_CALL_ON(scope, cuEventRecord, event->handle, stream->handle);

	if (status == SOMA_STATUS_OK)
		atomic_store_explicit(&event->captured, capturing, memory_order_release);
	return status;
}
enum soma_status cuda_event_wait(struct soma_backend *self, struct soma_backend_event *event,
				 struct soma_backend_stream *stream);
enum soma_status cuda_event_query(struct soma_backend *self, struct soma_backend_event *event, bool *done);
enum soma_status cuda_event_synchronize(struct soma_backend *self, struct soma_backend_event *event);

/* ---- fills.c ---- */
void cuda_staging_close(struct soma_backend *self);
enum soma_status cuda_fill8(struct soma_backend *self, uint64_t ptr, uint8_t value, uint64_t count,
			    struct soma_backend_stream *stream);
enum soma_status cuda_fill32(struct soma_backend *self, uint64_t ptr, uint32_t value, uint64_t count,
			     struct soma_backend_stream *stream);
enum soma_status cuda_copy(struct soma_backend *self, uint64_t to, uint64_t from, uint64_t bytes,
			   struct soma_backend_stream *stream);
enum soma_status cuda_copy_from_host(struct soma_backend *self, uint64_t to, const void *from, uint64_t bytes,
				     struct soma_backend_stream *stream);
enum soma_status cuda_copy_to_host(struct soma_backend *self, void *to, uint64_t from, uint64_t bytes,
				   struct soma_backend_stream *stream);
enum soma_status cuda_staging_alloc(struct soma_backend *self, size_t size, void **memory);
void cuda_staging_free(struct soma_backend *self, void *memory, size_t size);

/* ---- scan.c ---- */

/* Loads the kernel; without it there are no scans, which is only logged.  Within a scope. */
void cuda_scan_open(struct soma_backend *self);
enum soma_status cuda_scan(struct soma_backend *self, struct soma_backend_scan *ranges, size_t count,
			   struct soma_backend_stream *stream);

/* ---- spans.c ---- */
void cuda_spans_close(struct soma_backend *self);
enum soma_status cuda_span_reserve(struct soma_backend *self, uint64_t size, uint64_t alignment,
				   uint64_t *address);
enum soma_status cuda_span_map(struct soma_backend *self, uint64_t address, uint64_t size);
enum soma_status cuda_span_unmap(struct soma_backend *self, uint64_t address, uint64_t size);
enum soma_status cuda_span_release(struct soma_backend *self, uint64_t address, uint64_t size);

/* The rows of a table of ops that are the same in both modules. */
#define CUDA_SHARED_OPS                                                                                    \
	.stream_create = cuda_stream_create, .stream_default = cuda_stream_default,                        \
	.stream_wrap = cuda_stream_wrap, .stream_destroy = cuda_stream_destroy,                            \
	.stream_info = cuda_stream_info, .stream_query = cuda_stream_query,                                \
	.stream_synchronize = cuda_stream_synchronize, .synchronize = cuda_synchronize,                    \
	.event_create = cuda_event_create, .event_destroy = cuda_event_destroy,                            \
	.event_record = cuda_event_record, .event_wait = cuda_event_wait, .event_query = cuda_event_query, \
	.event_synchronize = cuda_event_synchronize, .fill8 = cuda_fill8, .fill32 = cuda_fill32,           \
	.copy = cuda_copy, .copy_from_host = cuda_copy_from_host, .copy_to_host = cuda_copy_to_host,       \
	.staging_alloc = cuda_staging_alloc, .staging_free = cuda_staging_free, .scan = cuda_scan,         \
	.span_reserve = cuda_span_reserve, .span_map = cuda_span_map, .span_unmap = cuda_span_unmap,       \
	.span_release = cuda_span_release

#endif

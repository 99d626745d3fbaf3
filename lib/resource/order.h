/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pool over a resource needs of its terminal: the order of its streams as events, and frees that do
 * not follow the stream that the block was allocated on.
 *
 * Nothing here waits unless it says so, so it may be called with a lock held that is the caller's own.
 * (Recording takes the stream's mutex; see streams.h for the one case in which that is held over a wait.)
 */
#ifndef SOMA_LIB_RESOURCE_ORDER_H
#define SOMA_LIB_RESOURCE_ORDER_H

#include <soma/resource.h>

#include "lib/resource/streams.h"

/* SOMA_BACKEND_*, of the backend. */
uint64_t soma__order_capabilities(const struct soma_resource *resource);

/* The stream's place, which is good for as long as the resource is; NULL when there is no such stream, or
 * it is destroyed: STREAM_MISUSE, recorded. */
struct soma__stream *soma__order_stream(struct soma_resource *resource, uint64_t id);

/* Whether there is, or was, such a stream. */
bool soma__order_was(struct soma_resource *resource, uint64_t id);

/* Whether it still is that stream and not destroyed. */
static inline bool
soma__order_is_open(const struct soma__stream *stream, uint64_t id)
{
	return atomic_load_explicit(&stream->id, memory_order_acquire) == id &&
	       !atomic_load_explicit(&stream->destroyed, memory_order_relaxed);
}

/* The driver's handle; false: there is none. */
bool soma__order_native(struct soma_resource *resource, uint64_t id, uint64_t *native);

/* Whether the stream is ordered with the legacy default stream.  Where the backend does not say, it counts as
 * such: what is done for one does no harm to another. */
bool soma__order_is_blocking(struct soma_resource *resource, struct soma__stream *stream);

/* Whether the stream is being captured into a graph; one that is destroyed is not.  STREAM_MISUSE is an answer, too:
 * of the legacy default stream while a blocking one is captured. */
enum soma_status soma__order_capture(struct soma_resource *resource, struct soma__stream *stream,
				     bool *capturing);

/* An event behind all work queued on the stream until now, with a reference for the caller; NULL: all of it
 * is done.  A stream that is destroyed has one, too. */
enum soma_status soma__order_mark(struct soma_resource *resource, uint64_t id, struct soma__event **event);

/* Later work of the stream runs after the event.  NULL: nothing to wait for. */
enum soma_status soma__order_wait(struct soma_resource *resource, uint64_t id, struct soma__event *event);

/* Waits for what soma__order_mark() would mark.  STREAM_MISUSE for a stream that is destroyed. */
enum soma_status soma__order_finish(struct soma_resource *resource, uint64_t id);

bool soma__order_is_done(struct soma_resource *resource, struct soma__event *event);
void soma__order_drop(struct soma_resource *resource, struct soma__event *event);

/* As soma_resource_deallocate(), but in the order of this stream; the caller has it ordered after all work
 * on the block but recorded uses. */
enum soma_status soma__resource_deallocate_on(struct soma_resource *resource, const struct soma_block *block,
					      uint64_t stream);

/* The same at once, in no order: the caller knows that nothing uses the block any more.  Recorded uses are
 * not waited for. */
enum soma_status soma__resource_deallocate_now(struct soma_resource *resource,
					       const struct soma_block *block);

#endif

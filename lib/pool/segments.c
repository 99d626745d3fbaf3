/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's segment source over a resource.  What the model calls runs with the mutex held and calls
 * nothing of the resource: it hands over a segment that was made before, and takes note of those that go.
 */
#include "lib/pool/segments.h"

#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/model/driven.h"
#include "lib/pool/streams.h"

static struct soma__pool_segment **
bucket_of(struct soma_pool *pool, uint64_t address)
{
	return &pool->segments[(address >> 16) * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

_Static_assert(SOMA__SEGMENT_BUCKETS == 64, "bucket_of takes the upper 6 bits");

/* ---- what the model calls ---------------------------------------------------------------- */

static enum soma_status
acquire(void *context, uint64_t stream, uint64_t size, uint64_t *address)
{
	struct soma_pool *pool = context;
	struct soma__growth_call *call = pool->call;
	struct soma__pool_segment *segment = call->segment;

	(void)stream;
	if (segment != NULL && segment->block.bytes == size) {
		struct soma__pool_segment **bucket = bucket_of(pool, segment->block.ptr);
		segment->used = true;
		segment->next = *bucket;
		*bucket = segment;
		call->segment = NULL;
		*address = segment->block.ptr;
		return SOMA_STATUS_OK;
	}
	call->wanted = size;
	/* What the model has just released may be what the resource was short of. */
	if ((call->refusal == SOMA_STATUS_OK || call->given_back) && !call->last)
		return SOMA__STATUS_DEFERRED;
	return call->refusal != SOMA_STATUS_OK ? call->refusal : SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
}

static void
release(void *context, uint64_t address, uint64_t size)
{
	struct soma_pool *pool = context;
	struct soma__pool_segment **at = bucket_of(pool, address), *segment;

	(void)size;
	while (*at != NULL && (*at)->block.ptr != address)
		at = &(*at)->next;
	segment = *at;
	if (segment == NULL)
		return;
	*at = segment->next;
	soma__segment_leave(pool, segment);
	if (pool->call != NULL)
		pool->call->given_back = true;
}

const struct soma_segment_source soma__pool_source = {
	.size = sizeof soma__pool_source,
	.acquire = acquire,
	.release = release,
};

/* ---- making -------------------------------------------------------------------------------- */

/* A backend need not align better than it says; if it does all the same, well. */
static enum soma_status
materialize(struct soma_pool *pool, uint64_t size, struct soma_block *block)
{
	struct soma_request request = {
		.size = sizeof request,
		.bytes = size,
		.alignment = pool->alignment,
		.stream = pool->segment_stream,
		.tag = pool->tag,
	};
	enum soma_status status = soma_resource_materialize(pool->resource, &request, block);

	if (status != SOMA_STATUS_NOT_SUPPORTED)
		return status;
	request.alignment = 0;
	status = soma_resource_materialize(pool->resource, &request, block);
	if (status != SOMA_STATUS_OK || block->ptr % pool->alignment == 0)
		return status;
	(void)soma_resource_deallocate(pool->resource, block);
	return soma__fail(NOT_SUPPORTED,
			  "the backend gave 0x%" PRIx64 ", and the policy's blocks are aligned to %" PRIu64,
			  block->ptr, pool->alignment);
}

enum soma_status
soma__segment_make(struct soma_pool *pool, uint64_t size, uint64_t stream, struct soma__pool_segment **out)
{
	struct soma__pool_segment *segment = soma__arena_calloc(pool->arena, sizeof *segment, 0);
	enum soma_status status;

	if (segment == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	segment->block.size = sizeof segment->block;
	segment->stream = stream;
	status = materialize(pool, size, &segment->block);
	if (status == SOMA_STATUS_OK && pool->ordered) {
		/* On other streams the memory may be used only after this point of its own. */
		status = soma_resource_stream_synchronize(pool->resource, pool->segment_stream);
		if (status != SOMA_STATUS_OK)
			(void)soma_resource_deallocate(pool->resource, &segment->block);
	}
	if (status != SOMA_STATUS_OK) {
		soma__arena_free(pool->arena, segment, sizeof *segment);
		return status;
	}
	*out = segment;
	return SOMA_STATUS_OK;
}

/* ---- giving back ----------------------------------------------------------------------------- */

void
soma__segment_leave(struct soma_pool *pool, struct soma__pool_segment *segment)
{
	segment->next = pool->leaving;
	pool->leaving = segment;
}

/* A free would go into the capture, and be an error there. */
static enum soma_status
check_capture(struct soma_pool *pool, uint64_t stream)
{
	struct soma__stream *place = pool->captures ? soma__order_stream(pool->resource, stream) : NULL;
	bool capturing = false;
	enum soma_status status = SOMA_STATUS_OK;

	if (place != NULL)
		status = soma__order_capture(pool->resource, place, &capturing);
	return capturing ? soma__fail(STREAM_MISUSE, "stream %" PRIu64 " is being captured", stream) : status;
}

/* The stream may be destroyed: then by way of the segment stream. */
static enum soma_status
deallocate_on(struct soma_pool *pool, const struct soma__pool_segment *segment, uint64_t stream)
{
	struct soma__event *event;
	enum soma_status status = check_capture(pool, stream);

	if (status != SOMA_STATUS_OK)
		return status;
	status = soma__resource_deallocate_on(pool->resource, &segment->block, stream);

	if (status != SOMA_STATUS_STREAM_MISUSE)
		return status;
	status = soma__order_mark(pool->resource, stream, &event);
	if (status != SOMA_STATUS_OK)
		return status;
	status = soma__order_wait(pool->resource, pool->segment_stream, event);
	soma__order_drop(pool->resource, event);
	if (status == SOMA_STATUS_OK)
		status = soma__resource_deallocate_on(pool->resource, &segment->block, pool->segment_stream);
	return status;
}

/* LEAVE_OWN: what its own stream freed is complete there at once, executed or not. */
static enum soma_status
deallocate(struct soma_pool *pool, const struct soma__pool_segment *segment)
{
	if (!segment->used || pool->leave == SOMA__LEAVE_NOW)
		return soma__resource_deallocate_now(pool->resource, &segment->block);
	if (pool->leave == SOMA__LEAVE_NEVER)
		return soma__fail(STREAM_MISUSE, "no order could be had after the work on its streams");
	return deallocate_on(pool, segment,
			     pool->leave == SOMA__LEAVE_OWN ? segment->stream : pool->leave_stream);
}

static bool
give_back(struct soma_pool *pool, struct soma__pool_segment *segment)
{
	if (deallocate(pool, segment) != SOMA_STATUS_OK) {
		soma__log(SOMA_LOG_WARNING, "a segment of %" PRIu64 " bytes could not be given back yet: %s",
			  segment->block.bytes, soma_error_last()->text);
		return false;
	}
	soma__arena_free(pool->arena, segment, sizeof *segment);
	return true;
}

/* What the resource does not take stays, for the next time. */
void
soma__segments_flush(struct soma_pool *pool)
{
	struct soma__pool_segment *list, *next;

	soma__pool_lock(pool);
	list = pool->leaving;
	pool->leaving = NULL;
	soma__pool_unlock(pool);
	for (; list != NULL; list = next) {
		next = list->next;
		if (give_back(pool, list))
			continue;
		soma__pool_lock(pool);
		soma__segment_leave(pool, list);
		soma__pool_unlock(pool);
	}
}

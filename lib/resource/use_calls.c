/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls on uses: what is checked, and what is done when an event or memory is not to
 * be had.  The lists are in uses.c.  No lock is held here.
 */
#include "lib/base/error.h"
#include "lib/resource/terminal.h"
#include "lib/resource/uses.h"

/* The smallest struct that a caller may have: what came with the first version. */
#define USE_SIZE sizeof(struct soma_use)

bool
soma_resource_supports_use_tracking(struct soma_resource *resource)
{
	return soma__terminal_can(resource->terminal, SOMA_BACKEND_USE_TRACKING | SOMA_BACKEND_STREAMS);
}

static enum soma_status
check_tracking(struct soma_resource *resource)
{
	if (soma_resource_supports_use_tracking(resource))
		return SOMA_STATUS_OK;
	return soma__fail(STREAM_MISUSE,
			  "the backend cannot keep an order between streams: uses are not tracked");
}

static void
tell_used(struct soma_resource *resource, const struct soma__used *used)
{
	for (struct soma_resource *o = resource->observer; o != NULL && !used->part; o = o->next->observer)
		o->ops->used(o, used);
}

enum soma_status
soma_resource_prepare_use(struct soma_resource *resource, struct soma_block_id block, uint64_t stream,
			  enum soma_access access, struct soma_use *use)
{
	struct soma_use made = { .size = use->size, .block = block, .stream = stream, .access = access };
	struct soma__stream *open;
	struct soma__used used;
	enum soma_status status = check_tracking(resource);

	if (status != SOMA_STATUS_OK)
		return status;
	if (use->size != 0 && use->size < USE_SIZE)
		return soma__resource_bad_size("a use", use->size, USE_SIZE);
	if (access < SOMA_ACCESS_READ || access > SOMA_ACCESS_READ_WRITE)
		return soma__fail(INVALID_VALUE, "access %" PRIu64 ": expected SOMA_ACCESS_*", access);
	status = soma__stream_open(&resource->terminal->streams, stream, &open);
	if (status == SOMA_STATUS_OK)
		status = soma__uses_prepare(resource, &made, open, &used);
	if (status != SOMA_STATUS_OK)
		return status;
	tell_used(resource, &used);
	*use = made;
	return SOMA_STATUS_OK;
}

/* Also of a stream that was destroyed meanwhile. */
static enum soma_status
wait_for_stream(struct soma__terminal *terminal, const struct soma__stream *stream, uint64_t id)
{
	struct soma__event *event;
	enum soma_status status;

	if (stream != NULL && !stream->destroyed)
		return terminal->ops->stream_synchronize(terminal->self, stream->handle);
	status = soma__stream_now(&terminal->streams, id, &event);
	if (event != NULL)
		status = terminal->ops->event_synchronize(terminal->self, event->handle);
	soma__event_drop(&terminal->events, event);
	return status;
}

/* Uses of one stream that end together. */
struct ending {
	struct soma__stream *stream; /* NULL: gone, and all its work done */
	struct soma__mark mark;
};

/* What cannot be recorded for want of memory is waited for instead. */
static enum soma_status
finish_one(struct soma_resource *resource, const struct soma_use *use, struct ending *ending, bool last,
	   bool told)
{
	enum soma_status status = soma__uses_finish(resource, use, &ending->mark, last, told);

	if (status != SOMA_STATUS_OUT_OF_HOST_MEMORY)
		return status;
	status = wait_for_stream(resource->terminal, ending->stream, use->stream);
	if (status == SOMA_STATUS_OK)
		soma__resource_tell_synchronized(resource, use->stream);
	return status;
}

static enum soma_status
check_uses(const struct soma_use *uses, size_t count)
{
	if (uses == NULL)
		return soma__fail(INVALID_VALUE, "%" PRIu64 " uses at NULL: expected their array",
				  (uint64_t)count);
	for (size_t i = 1; i < count; i++)
		if (uses[i].stream != uses[0].stream)
			return soma__fail(INVALID_VALUE,
					  "use %" PRIu64 " is of stream %" PRIu64
					  ", the first one of stream %" PRIu64,
					  i, uses[i].stream, uses[0].stream);
	return SOMA_STATUS_OK;
}

/* A stream that was destroyed meanwhile may have work of these uses in its queue, so they are recorded all the
 * same: only one that never was is refused. */
static enum soma_status
begin_ending(struct soma_resource *resource, const struct soma_use *uses, size_t count, struct ending *ending)
{
	struct soma__streams *streams = &resource->terminal->streams;
	enum soma_status status = check_tracking(resource);

	if (status == SOMA_STATUS_OK)
		status = check_uses(uses, count);
	if (status != SOMA_STATUS_OK)
		return status;
	if (!soma__stream_was(streams, uses[0].stream))
		return soma__stream_missing(uses[0].stream);
	ending->stream = soma__stream_find(streams, uses[0].stream);
	/* Without an event the uses stand for all work of the stream, see uses.h. */
	ending->mark = (struct soma__mark){ .number = UINT64_MAX };
	if (ending->stream != NULL)
		ending->mark = soma__stream_mark(streams, ending->stream);
	if (ending->mark.event != NULL)
		soma__resource_tell_order(resource, SOMA__RECORDED, uses[0].stream,
					  ending->mark.event->number);
	return SOMA_STATUS_OK;
}

/* late: a use's status is what the backend said against it. */
static enum soma_status
finish_uses(struct soma_resource *resource, struct soma_use *uses, size_t count, bool late)
{
	struct soma__terminal *terminal = resource->terminal;
	struct ending ending = { 0 };
	enum soma_status status = SOMA_STATUS_OK, begun;

	if (count == 0)
		return check_tracking(resource);
	begun = begin_ending(resource, uses, count, &ending);
	if (uses == NULL)
		return begun;
	for (size_t i = 0; i < count; i++) {
		enum soma_status objection = late ? uses[i].status : SOMA_STATUS_OK, finished = begun;
		if (begun == SOMA_STATUS_OK)
			finished = finish_one(resource, &uses[i], &ending, i + 1 == count,
					      objection != SOMA_STATUS_OK);
		uses[i].status = finished == SOMA_STATUS_OK ? objection : finished;
		if (status == SOMA_STATUS_OK)
			status = uses[i].status;
	}
	soma__event_drop(&terminal->events, ending.mark.event);
	return status;
}

enum soma_status
soma_resource_finish_use(struct soma_resource *resource, struct soma_use *uses, size_t count)
{
	return finish_uses(resource, uses, count, false);
}

/*
 * Tells of a use whose work is queued already.  Its status becomes what the backend says against it: the use is
 * kept track of all the same, and that the block is freed meanwhile is then reported already.  open NULL: the
 * stream is gone for the backend.  heard: the backend has judged this use.  An error: there is no such block.
 */
static enum soma_status
tell_late(struct soma_resource *resource, struct soma_use *use, const struct soma__stream *open, bool heard)
{
	struct soma__terminal *terminal = resource->terminal;
	struct soma__used used;

	use->status = soma__uses_look(terminal, use, heard, &used);
	if (use->status != SOMA_STATUS_OK)
		return use->status;
	if (!heard && open != NULL && !used.part && soma__terminal_can(terminal, SOMA_BACKEND_USES))
		use->status = terminal->ops->block_use(terminal->self, used.ptr,
						       (enum soma_backend_access)use->access, open->handle);
	tell_used(resource, &used);
	return SOMA_STATUS_OK;
}

/* What a prepare fails with when the backend objects to the use, or has reported a block that is gone. */
static bool
is_judged(enum soma_status prepared)
{
	return prepared == SOMA_STATUS_USE_AFTER_FREE || prepared == SOMA_STATUS_STREAM_MISUSE ||
	       prepared == SOMA_STATUS_INVALID_VALUE;
}

enum soma_status
soma__uses_commit(struct soma_resource *resource, struct soma_use *uses, size_t count, bool prepared)
{
	struct soma__stream *open =
		count != 0 ? soma__stream_find(&resource->terminal->streams, uses[0].stream) : NULL;

	if (open != NULL && atomic_load_explicit(&open->destroyed, memory_order_relaxed))
		open = NULL;
	for (size_t i = 0; i < count; i++)
		if (!prepared || uses[i].status != SOMA_STATUS_OK)
			(void)tell_late(resource, &uses[i], open, prepared && is_judged(uses[i].status));
	return finish_uses(resource, uses, count, true);
}

/* Nothing was waited for, so nothing is replaced: seen is 0. */
enum soma_status
soma_resource_record_use(struct soma_resource *resource, struct soma_block_id block, uint64_t stream)
{
	struct soma_use use = { .block = block, .stream = stream, .access = SOMA_ACCESS_READ_WRITE };
	enum soma_status status = check_tracking(resource);
	struct soma__stream *open;

	if (status == SOMA_STATUS_OK)
		status = soma__stream_open(&resource->terminal->streams, stream, &open);
	if (status == SOMA_STATUS_OK)
		status = tell_late(resource, &use, open, false);
	return status == SOMA_STATUS_OK ? finish_uses(resource, &use, 1, true) : status;
}

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
	for (struct soma_resource *o = resource->observer; o != NULL; o = o->next->observer)
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
		status = soma__uses_prepare(resource->terminal, &made, open, &used);
	if (status != SOMA_STATUS_OK)
		return status;
	tell_used(resource, &used);
	*use = made;
	return SOMA_STATUS_OK;
}

/* What cannot be recorded for want of memory is waited for instead. */
static enum soma_status
finish_one(struct soma__terminal *terminal, const struct soma_use *use, const struct soma__mark *mark,
	   const struct soma__stream *stream)
{
	enum soma_status status = soma__uses_finish(terminal, use, mark);

	if (status != SOMA_STATUS_OUT_OF_HOST_MEMORY)
		return status;
	return terminal->ops->stream_synchronize(terminal->self, stream->handle);
}

static enum soma_status
check_uses(const struct soma_use *uses, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (uses[i].stream != uses[0].stream)
			return soma__fail(INVALID_VALUE,
					  "use %" PRIu64 " is of stream %" PRIu64
					  ", the first one of stream %" PRIu64,
					  i, uses[i].stream, uses[0].stream);
	return SOMA_STATUS_OK;
}

enum soma_status
soma_resource_finish_use(struct soma_resource *resource, struct soma_use *uses, size_t count)
{
	struct soma__terminal *terminal = resource->terminal;
	struct soma__mark mark;
	struct soma__stream *stream;
	enum soma_status status = check_tracking(resource);

	if (status == SOMA_STATUS_OK)
		status = check_uses(uses, count);
	if (status != SOMA_STATUS_OK || count == 0)
		return status;
	status = soma__stream_open(&terminal->streams, uses[0].stream, &stream);
	if (status != SOMA_STATUS_OK)
		return status;
	/* Without an event the uses stand for all work of the stream, see uses.h. */
	mark = soma__stream_mark(&terminal->streams, stream);
	for (size_t i = 0; i < count; i++) {
		uses[i].status = finish_one(terminal, &uses[i], &mark, stream);
		if (status == SOMA_STATUS_OK)
			status = uses[i].status;
	}
	soma__event_drop(&terminal->events, mark.event);
	return status;
}

/* Nothing was waited for, so nothing is replaced: seen is 0.  When the backend objects, the work is
 * queued all the same, and is kept track of. */
enum soma_status
soma_resource_record_use(struct soma_resource *resource, struct soma_block_id block, uint64_t stream)
{
	struct soma_use use = { .block = block, .stream = stream, .access = SOMA_ACCESS_READ_WRITE };
	struct soma__terminal *terminal = resource->terminal;
	enum soma_status status = check_tracking(resource), objection = SOMA_STATUS_OK;
	struct soma__stream *open;
	struct soma__used used;

	if (status == SOMA_STATUS_OK)
		status = soma__stream_open(&terminal->streams, stream, &open);
	if (status == SOMA_STATUS_OK)
		status = soma__uses_look(terminal, &use, &used);
	if (status != SOMA_STATUS_OK)
		return status;
	if (soma__terminal_can(terminal, SOMA_BACKEND_USES))
		objection = terminal->ops->block_use(terminal->self, used.ptr, SOMA_BACKEND_ACCESS_READ_WRITE,
						     open->handle);
	status = soma_resource_finish_use(resource, &use, 1);
	if (status == SOMA_STATUS_OK)
		tell_used(resource, &used);
	return status == SOMA_STATUS_OK ? objection : status;
}

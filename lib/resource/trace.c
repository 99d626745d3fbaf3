/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace decorator: what is noted and when.  The ring takes the events to trace_writer.c, which has the
 * thread and the file.  No lock is held here.
 */
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/resource/terminal.h"
#include "lib/resource/trace_writer.h"

#define RING_EVENTS_DEFAULT 16384u

struct trace {
	struct soma_resource base;
	struct soma__trace_writer writer;
	uint64_t origin_ns;
	uint8_t bit; /* in record->untraced */
};

static _Thread_local uint32_t thread_number;

static uint64_t
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct trace *
trace_of(struct soma_resource *resource)
{
	return (struct trace *)resource;
}

static bool
note(struct trace *trace, struct soma__trace_event *event)
{
	if (thread_number == 0)
		thread_number = (uint32_t)gettid();
	event->thread = thread_number;
	event->time_ns = now_ns() - trace->origin_ns;
	return soma__trace_writer_put(&trace->writer, event);
}

static struct soma__trace_event
block_event(const struct soma__record *record, enum soma__trace_op op, enum soma__trace_detail detail)
{
	return (struct soma__trace_event){
		.stream = record->stream,
		.ptr = record->ptr,
		.size = record->bytes,
		.generation = soma__record_generation(record),
		.tag = (uint16_t)record->tag,
		.op = (uint8_t)op,
		.detail = (uint8_t)detail,
	};
}

/* A block whose alloc was dropped has no free in the trace either. */
static void
trace_block(struct soma_resource *resource, enum soma__moment moment, const struct soma__record *record,
	    bool deferred)
{
	static const struct {
		enum soma__trace_op op;
		enum soma__trace_detail detail;
	} as[] = {
		[SOMA__FREEING] = { SOMA__TRACE_FREE, SOMA__TRACE_ORDERED },
		[SOMA__RESTORED] = { SOMA__TRACE_ALLOC, SOMA__TRACE_FREE_FAILED },
		[SOMA__COMPLETED] = { SOMA__TRACE_FREE_COMPLETED, SOMA__TRACE_PLAIN },
	};
	struct trace *trace = trace_of(resource);
	struct soma__trace_event event = block_event(record, as[moment].op, as[moment].detail);

	if (record->untraced & trace->bit) {
		soma__trace_writer_lose(&trace->writer);
		return;
	}
	if (moment == SOMA__FREEING && deferred)
		event.detail = SOMA__TRACE_DEFERRED;
	(void)note(trace, &event);
}

static enum soma_status
materialize(struct soma_resource *resource, struct soma__call *call)
{
	enum soma_status status = soma__resource_next(resource, call);
	struct trace *trace = trace_of(resource);
	struct soma__trace_event event;

	if (status != SOMA_STATUS_OK)
		return status;
	event = block_event(call->record, SOMA__TRACE_ALLOC, SOMA__TRACE_PLAIN);
	if (!note(trace, &event))
		call->record->untraced |= trace->bit;
	return SOMA_STATUS_OK;
}

static void
trace_failed(struct soma_resource *resource, const struct soma__call *call)
{
	struct soma__trace_event event = {
		.stream = call->stream,
		.size = call->bytes,
		.tag = (uint16_t)call->tag,
		.op = SOMA__TRACE_ALLOC_FAILED,
	};

	(void)note(trace_of(resource), &event);
}

static void
trace_used(struct soma_resource *resource, const struct soma__used *used)
{
	static const enum soma__trace_detail as[] = {
		[SOMA_ACCESS_READ] = SOMA__TRACE_READ,
		[SOMA_ACCESS_WRITE] = SOMA__TRACE_WRITE,
		[SOMA_ACCESS_READ_WRITE] = SOMA__TRACE_READ_WRITE,
	};
	struct soma__trace_event event = {
		.stream = used->stream,
		.ptr = used->ptr,
		.size = used->bytes,
		.generation = used->generation,
		.op = SOMA__TRACE_USE,
		.detail = (uint8_t)as[used->access],
	};

	(void)note(trace_of(resource), &event);
}

static void
trace_synchronized(struct soma_resource *resource, uint64_t stream)
{
	struct soma__trace_event event = { .stream = stream, .op = SOMA__TRACE_SYNC };

	(void)note(trace_of(resource), &event);
}

/* What the stack queues for uses and frees is not to be seen otherwise. */
static void
trace_ordered(struct soma_resource *resource, enum soma__edge edge, uint64_t stream, uint64_t event_number)
{
	static const enum soma__trace_op as[] = {
		[SOMA__RECORDED] = SOMA__TRACE_RECORD,
		[SOMA__WAITED] = SOMA__TRACE_WAIT,
		[SOMA__SEEN] = SOMA__TRACE_SYNC,
	};
	struct soma__trace_event event = {
		.stream = stream,
		.ptr = event_number,
		.op = (uint8_t)as[edge],
		.detail = edge == SOMA__SEEN ? SOMA__TRACE_EVENT : SOMA__TRACE_PLAIN,
	};

	(void)note(trace_of(resource), &event);
}

/* ---- create, destroy ------------------------------------------------------------------- */

static void
close_trace(struct soma_resource *resource)
{
	(void)soma__trace_writer_close(&trace_of(resource)->writer);
}

static void
destroy_trace(struct soma_resource *resource)
{
	struct trace *trace = trace_of(resource);

	soma__trace_writer_fini(&trace->writer);
	soma__arena_free(resource->terminal->arena, trace, sizeof *trace);
}

static const struct soma__resource_ops trace_ops = {
	.materialize = materialize,
	.close = close_trace,
	.destroy = destroy_trace,
	.block = trace_block,
	.failed = trace_failed,
	.used = trace_used,
	.synchronized = trace_synchronized,
	.ordered = trace_ordered,
};

static enum soma_status
check_config(const struct soma_trace_config *config, struct soma_resource *inner, uint8_t *bit)
{
	if (config->size < sizeof *config)
		return soma__resource_bad_size("a trace's configuration", config->size, sizeof *config);
	if (config->ring_events > SOMA__TRACE_RING_EVENTS_MAX)
		return soma__fail(INVALID_VALUE, "a ring of %" PRIu64 " events: expected at most %" PRIu64,
				  config->ring_events, (uint64_t)SOMA__TRACE_RING_EVENTS_MAX);
	*bit = 1;
	for (struct soma_resource *o = inner->observer; o != NULL; o = o->next->observer)
		*bit = (uint8_t)(*bit << 1);
	if (*bit == 0)
		return soma__fail(INVALID_VALUE, "more than 8 traces above one another");
	return SOMA_STATUS_OK;
}

enum soma_status
soma_trace_create(struct soma_resource *inner, const struct soma_trace_config *config,
		  struct soma_resource **out)
{
	struct soma_trace_config with = *config;
	struct soma__arena *arena = inner->terminal->arena;
	uint8_t bit;
	enum soma_status status = check_config(config, inner, &bit);

	if (status != SOMA_STATUS_OK)
		return status;
	if (with.ring_events == 0)
		with.ring_events = RING_EVENTS_DEFAULT;
	struct trace *trace = soma__arena_calloc(arena, sizeof *trace, 128);
	if (trace == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = soma__trace_writer_open(&trace->writer, arena, soma_resource_device(inner), &with);
	if (status != SOMA_STATUS_OK) {
		soma__arena_free(arena, trace, sizeof *trace);
		return status;
	}
	trace->origin_ns = now_ns();
	trace->bit = bit;
	soma__resource_init(&trace->base, &trace_ops, inner);
	trace->base.observer = &trace->base;
	*out = &trace->base;
	return SOMA_STATUS_OK;
}

/* NULL: none, with the error recorded. */
static struct trace *
find_trace(struct soma_resource *resource)
{
	if (resource->observer == NULL)
		soma__fail(NOT_FOUND, "there is no trace in this stack");
	return (struct trace *)resource->observer;
}

enum soma_status
soma_trace_flush(struct soma_resource *resource)
{
	struct trace *trace = find_trace(resource);

	return trace != NULL ? soma__trace_writer_flush(&trace->writer) : SOMA_STATUS_NOT_FOUND;
}

enum soma_status
soma_trace_stats(struct soma_resource *resource, struct soma_trace_stats *stats)
{
	struct trace *trace = find_trace(resource);

	if (trace == NULL)
		return SOMA_STATUS_NOT_FOUND;
	if (stats->size < sizeof *stats)
		return soma__resource_bad_size("trace statistics", stats->size, sizeof *stats);
	soma__trace_writer_stats(&trace->writer, stats);
	return SOMA_STATUS_OK;
}

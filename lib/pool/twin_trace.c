/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The latest operations of a pool as a soma trace (soma-trace(5)), which begins with what was live before them.
 * Times are the operations' numbers, addresses the model's.  When a free has executed it does not say but by
 * synchronisations (soma replay --complete=sync).  The turn and the mutex are held.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/pool/streams.h"
#include "lib/pool/twin.h"

#define FIRST_SIZE 8192
#define LINE_SIZE 768

struct writer {
	struct soma_pool *pool;
	char *text;
	size_t length, room;
	bool failed;
	uint64_t first, end; /* of the operations; those of the ring */
};

/* ---- text ---------------------------------------------------------------------------------- */

static void
make_room(struct writer *w, size_t length)
{
	size_t room = w->room > 0 ? w->room : FIRST_SIZE;
	char *larger;

	if (w->failed || w->length + length < w->room)
		return;
	while (room <= w->length + length)
		room *= 2;
	larger = soma__arena_alloc(w->pool->arena, room, 0);
	w->failed = larger == NULL;
	if (w->failed)
		return;
	if (w->room > 0)
		memcpy(larger, w->text, w->length);
	soma__arena_free(w->pool->arena, w->text, w->room);
	w->text = larger;
	w->room = room;
}

/* At most LINE_SIZE - 1 bytes. */
__attribute__((format(printf, 2, 3))) static void
put(struct writer *w, const char *format, ...)
{
	char line[LINE_SIZE];
	va_list args;

	va_start(args, format);
	int length = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	make_room(w, (size_t)length);
	if (w->failed)
		return;
	memcpy(w->text + w->length, line, (size_t)length + 1);
	w->length += (size_t)length;
}

/* ---- what was there before ------------------------------------------------------------------- */

static const struct soma__twin_operation *
operation_at(const struct writer *w, uint64_t number)
{
	return &w->pool->twin->ring[number % SOMA__TWIN_OPERATIONS];
}

static bool
is_of_block(const struct soma__twin_operation *operation)
{
	return operation->op == SOMA__TWIN_ALLOC || operation->op == SOMA__TWIN_FREE ||
	       operation->op == SOMA__TWIN_FREE_NOW;
}

/* The first operation on a block at this address, below `end`; `end`: there is none. */
static uint64_t
first_of(const struct writer *w, uint64_t ptr, uint64_t end)
{
	uint64_t at = w->first;

	while (at < end && !(is_of_block(operation_at(w, at)) && operation_at(w, at)->ptr == ptr))
		at++;
	return at;
}

static void
put_earlier_block(struct writer *w, uint64_t stream, uint64_t ptr, uint64_t size, uint64_t generation)
{
	put(w, "%" PRIu64 ",0,alloc,%d,%" PRIu64 ",0x%" PRIx64 ",%" PRIu64 ",,%" PRIu64 ",earlier\n",
	    w->first, w->pool->device, stream, ptr, size, generation);
}

/* What is freed later and was not allocated by then; and what is still live and none of them touched. */
static void
put_earlier_blocks(struct writer *w)
{
	const struct soma_pool *pool = w->pool;
	uint64_t count = 0, left_out = 0;

	for (uint64_t at = w->first; at < w->end; at++) {
		const struct soma__twin_operation *o = operation_at(w, at);
		if (is_of_block(o) && o->op != SOMA__TWIN_ALLOC && first_of(w, o->ptr, at) == at)
			put_earlier_block(w, o->event_stream, o->ptr, o->size, o->generation);
	}
	for (size_t i = 0; i < (size_t)1 << (64 - pool->bucket_shift); i++)
		for (const struct soma_allocation *h = pool->buckets[i]; h != NULL; h = h->chain) {
			if (h->graph)
				continue;
			if (count == SOMA__TWIN_BYSTANDERS)
				left_out++;
			else if (first_of(w, h->ptr, w->end) == w->end && ++count > 0)
				put_earlier_block(w, h->stream, h->ptr, h->size, h->id.generation);
		}
	if (left_out > 0)
		put(w, "%" PRIu64 ",0,mark,%d,0,0,0,soma,,up to %" PRIu64 " more blocks were live\n",
		    w->first, pool->device, left_out);
}

/* ---- streams and events ------------------------------------------------------------------------ */

static uint64_t
event_name(uint64_t stream, uint64_t seq)
{
	return UINT64_C(1) << 63 | (stream & INT32_MAX) << 32 | (seq & UINT32_MAX);
}

static bool
is_on(const struct soma__twin_operation *operation, uint64_t stream)
{
	return operation->op != SOMA__TWIN_TRIM && operation->stream == stream;
}

/* Readers make a stream that is not created, and one that is not blocking. */
static void
put_streams(struct writer *w)
{
	for (uint64_t at = w->first; at < w->end; at++) {
		uint64_t before = w->first, stream = operation_at(w, at)->stream;
		while (!is_on(operation_at(w, before), stream) && before < at)
			before++;
		const struct soma__pool_stream *found = soma__pool_stream_find(w->pool, stream);
		if (before == at && stream != 0 && found != NULL &&
		    soma__order_is_open(found->place, stream) &&
		    soma__order_is_blocking(w->pool->resource, found->place))
			put(w, "%" PRIu64 ",0,stream_create,%d,%" PRIu64 ",0,0,,,blocking\n", w->first,
			    w->pool->device, stream);
	}
}

/* An event that was recorded before covers nothing but what was there before. */
static void
put_earlier_events(struct writer *w)
{
	for (uint64_t at = w->first; at < w->end; at++) {
		const struct soma__twin_operation *o = operation_at(w, at), *other = NULL;
		if (o->op != SOMA__TWIN_WAIT)
			continue;
		for (uint64_t before = w->first; before < at; before++) {
			other = operation_at(w, before);
			if ((other->op == SOMA__TWIN_WAIT || other->op == SOMA__TWIN_RECORD) &&
			    other->event_stream == o->event_stream && other->event_seq == o->event_seq)
				break;
			other = NULL;
		}
		if (other == NULL)
			put(w, "%" PRIu64 ",0,record,%d,%" PRIu64 ",0x%" PRIx64 ",0,,,earlier\n", w->first,
			    w->pool->device, o->event_stream, event_name(o->event_stream, o->event_seq));
	}
}

/* ---- the operations -------------------------------------------------------------------------------- */

static void
put_operation(struct writer *w, uint64_t number)
{
	static const char *const names[] = {
		[SOMA__TWIN_ALLOC] = "alloc",      [SOMA__TWIN_ALLOC_FAILED] = "alloc_failed",
		[SOMA__TWIN_FREE] = "free",        [SOMA__TWIN_FREE_NOW] = "free",
		[SOMA__TWIN_RECORD] = "record",    [SOMA__TWIN_WAIT] = "wait",
		[SOMA__TWIN_SYNCHRONIZE] = "sync", [SOMA__TWIN_TRIM] = "trim",
	};
	const struct soma__twin_operation *o = operation_at(w, number);
	bool event = o->op == SOMA__TWIN_RECORD || o->op == SOMA__TWIN_WAIT;

	put(w,
	    "%" PRIu64 ",0,%s,%d,%" PRIu64 ",0x%" PRIx64 ",%" PRIu64 ",,%" PRIu64 ",used %" PRIu64
	    " reserved %" PRIu64 "\n",
	    number + 1, names[o->op], w->pool->device, o->stream,
	    event ? event_name(o->event_stream, o->event_seq) : o->ptr, o->size, o->generation, o->used,
	    o->reserved);
}

const char *
soma__twin_trace(struct soma_pool *pool, const char *verdict)
{
	uint64_t end = pool->twin->operations;
	struct writer w = { .pool = pool, .end = end };

	w.first = end > SOMA__TWIN_OPERATIONS ? end - SOMA__TWIN_OPERATIONS : 0;
	put(&w, "time,thread,op,device,stream,ptr,size,tag,generation,detail\n");
	put_streams(&w);
	put_earlier_blocks(&w);
	put_earlier_events(&w);
	for (uint64_t at = w.first; at < end; at++)
		put_operation(&w, at);
	put(&w, "%" PRIu64 ",0,mark,%d,0,0,0,soma,,\"%s\"\n", end, pool->device, verdict);
	if (!w.failed)
		return w.text;
	soma__arena_free(pool->arena, w.text, w.room);
	return "";
}

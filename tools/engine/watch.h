/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking on while a trace is replayed: every block that comes and goes, and the memory
 * itself at any moment.  For pictures; the watcher changes nothing.
 *
 * A replay may take two passes (engine.h): begin() is called at the start of each, and what
 * was seen before it is void.
 */
#ifndef SOMA_TOOLS_ENGINE_WATCH_H
#define SOMA_TOOLS_ENGINE_WATCH_H

#include <soma/model.h>

#include "tools/engine/series.h"
#include "tools/trace/trace.h"

struct run;
struct streams;

/* When: an event of the trace that is being replayed. */
struct watch_at {
	uint64_t event; /* or REPLAY_AT_START */
	uint64_t x;     /* on the axis of struct series */
	const struct streams *streams;
};

struct watch_block {
	uint64_t ptr;       /* the model's */
	uint64_t size;      /* requested */
	uint64_t stream;    /* the trace's handle */
	uint64_t pool[2];   /* a private pool, or {0, 0} */
	unsigned size_pool; /* a row of the policy */
	trace_name holder;
};

enum watch_moment {
	WATCH_AFTER,  /* an event */
	WATCH_PEAK,   /* live bytes are higher than before */
	WATCH_LOOK,   /* the same, at the event where the peak is expected: the place to look around */
	WATCH_FAILED, /* the first allocation that found no room here, or in the recording */
	WATCH_END,    /* the last event is done */
};

struct watch {
	void *context;
	/* series: its axis, and the holders that are kept apart. */
	void (*begin)(void *context, const struct series *series, const struct soma_policy *policy);
	void (*enter)(void *context, const struct watch_at *at, const struct watch_block *block);
	/* Freed: its bytes are live no more, whoever may have them. */
	void (*leave)(void *context, const struct watch_at *at, uint64_t ptr);
	void (*moment)(void *context, const struct watch_at *at, enum watch_moment moment);
};

/* Every segment and block in address order, as soma_model_walk() shows them. */
void watch_walk(const struct watch_at *at, bool (*visit)(void *context, const struct soma_extent *extent),
		void *context);

/* The trace's handle of a stream that an extent names; 0 for one that is gone. */
uint64_t watch_handle(const struct watch_at *at, uint64_t stream);

/* Bytes live and reserved. */
uint64_t watch_live(const struct watch_at *at);
uint64_t watch_reserved(const struct watch_at *at);

/* ---- for the engine: they do nothing where nobody watches ---- */

void watch_begin(const struct run *run);
void watch_enter(const struct run *run, uint64_t ptr, uint64_t size, uint64_t stream, trace_name holder);
void watch_leave(const struct run *run, uint64_t ptr);
void watch_tell(const struct run *run, enum watch_moment moment);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host backend's streams: queues of items, which run, in order, when somebody
 * waits for them or steps them, on the thread that does.  Knows nothing of memory but
 * that a finished free goes to heap_put().
 *
 * A lane's record is never given back before the backend is closed, and its positions only grow,
 * also when it serves another stream later: so an event is a lane and a
 * position, and needs no reference.
 *
 * Order with the legacy default stream: items of it and of blocking streams carry
 * tickets of one counter; one runs when no item with a lower ticket waits on the
 * other side.
 *
 * Locks: lane->queue covers putting in and taking out, lane->turn is held by who runs
 * items.  One turn at a time, and turn before queue.
 */
#ifndef SOMA_BACKENDS_HOST_LANES_H
#define SOMA_BACKENDS_HOST_LANES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

#include "backends/host/heap.h"

enum item_kind {
	ITEM_FREE, /* a block's own item; all others are struct op */
	ITEM_RECORD,
	ITEM_WAIT,
	ITEM_FILL8,
	ITEM_FILL32,
	ITEM_COPY,
	ITEM_SCAN,
};

struct soma_backend_event {
	struct soma_backend_event *next;  /* while it is spare */
	pthread_mutex_t mutex;            /* protects what follows */
	struct soma_backend_stream *lane; /* NULL: never recorded */
	uint64_t position;
};

/* An item with arguments. */
struct op {
	struct item item;
	uint64_t to;
	uint64_t from;  /* or the value; or the lane of a wait */
	uint64_t bytes; /* or a count; or the position of a wait */
};

struct soma_backend_stream {
	struct soma_backend_stream *next;       /* in lanes->all; never changes */
	uint64_t native;                        /* its number, given again with the record */
	_Atomic uint64_t id;                    /* never given again */
	_Atomic uint32_t kind;                  /* flags, or a default stream; see below */
	uint64_t thread;                        /* of a per-thread default stream; lanes->mutex */
	unsigned handles;                       /* lanes->mutex */
	struct soma_backend_stream *next_spare; /* the same */
	pthread_mutex_t queue;                  /* protects the next four */
	struct item *head, **tail;
	struct item *ops;        /* unused ones */
	uint64_t base;           /* position where the present stream began */
	_Atomic uint64_t queued; /* items ever put in; written under queue */
	pthread_mutex_t turn;
	struct item *batch;             /* taken out, not run; turn */
	struct item *done, **done_tail; /* run, to become unused; turn */
	_Atomic uint64_t run;           /* items ever run; written under turn */
	_Atomic uint64_t ticket;        /* at most the first waiting item's; UINT64_MAX: none waits */
};

enum lane_kind {
	LANE_BLOCKING = 0,
	LANE_NON_BLOCKING = 1,
	LANE_LEGACY = 2,
	LANE_PER_THREAD = 3, /* blocking */
};

struct lanes {
	const struct soma_backend_host *host;
	struct heap *heap;
	pthread_mutex_t mutex; /* protects handing out lanes and events */
	_Atomic(struct soma_backend_stream *) all;
	struct soma_backend_stream *legacy;
	struct soma_backend_event *events; /* spare ones; mutex */
	uint64_t count;                    /* mutex */
	uint64_t spare;                    /* of these, with no handle: the list, oldest first; mutex */
	struct soma_backend_stream *spare_first, **spare_end;
	uint64_t last_id; /* mutex */
	_Atomic uint64_t ticket;
};

/* Makes the legacy stream. False without memory, recorded. */
bool lanes_init(struct lanes *lanes, const struct soma_backend_host *host, struct heap *heap);
void lanes_fini(struct lanes *lanes);

/* A lane for a new stream, with one handle; NULL without memory, recorded. */
struct soma_backend_stream *lane_open(struct lanes *lanes, enum lane_kind kind);
struct soma_backend_stream *lane_of_thread(struct lanes *lanes);
struct soma_backend_stream *lane_find(struct lanes *lanes, uint64_t native);
void lane_close(struct lanes *lanes, struct soma_backend_stream *lane);

/* Queues; does not fail.  The event of this item is the lane and what is returned. */
uint64_t lane_put(struct lanes *lanes, struct soma_backend_stream *lane, struct item *item);

/* An op of the lane's, to be put into it; NULL without memory, recorded. */
struct op *lane_op(struct lanes *lanes, struct soma_backend_stream *lane);

/* run.c.  Runs the lane up to the position, and others as far as it waits for them. */
void lane_drive(struct lanes *lanes, struct soma_backend_stream *lane, uint64_t position);

/* run.c; the same for any lane: at most `count` items of this lane alone; how many ran. */
uint64_t lane_step(struct lanes *lanes, struct soma_backend_stream *lane, uint64_t count);

/* Everything that is queued now on any lane. */
void lanes_drive_all(struct lanes *lanes);

/* Whether all that is queued now has run. */
bool lane_is_done(const struct soma_backend_stream *lane);

/* The same for the legacy stream and all that blocks with it. */
bool lanes_blocking_done(struct lanes *lanes);

/* NULL without memory, recorded. */
struct soma_backend_event *event_open(struct lanes *lanes);
void event_close(struct lanes *lanes, struct soma_backend_event *event);

/* work.c */
void work_run(struct op *op);
void work_fill8(uint64_t to, uint8_t value, uint64_t bytes);
void work_fill32(uint64_t to, uint32_t value, uint64_t count);
void work_scan(struct soma_backend_scan *ranges, uint64_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks of streams: what runs after what, as far as the program asked for it.
 *
 * A lane is a stream's slot; lane 0 is the host.  An operation ticks its lane's own
 * component; an access is ordered before lane L when L's clock has reached its tick.
 * Nothing here knows of a backend, of memory or of what really ran.
 *
 * Lanes are keyed by the stream's own id, which no other stream ever has.  A lane is
 * reused only when the host has seen the end of everything in it: the ticks go on, so
 * what is new in it is truly after what was.
 *
 * Not safe for concurrent use: the guard's lock protects everything.
 */
#ifndef SOMA_BACKENDS_GUARD_CLOCKS_H
#define SOMA_BACKENDS_GUARD_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

#define CLOCKS_HOST 0u

enum clock_lane_flags {
	CLOCK_LANE_BLOCKING = 1, /* in turn with the legacy stream */
	CLOCK_LANE_LEGACY = 2,
};

/* One operation that touched a block. */
struct clock_access {
	uint64_t tick;   /* of its lane; 0: never happened */
	uint64_t seq;    /* counts all operations of the guard */
	uint64_t stream; /* the stream's name; of no meaning for the host */
	uint32_t lane;
	uint32_t thread;
	uint32_t stack; /* stacks.h */
	uint32_t kind;  /* enum soma_backend_access */
};

struct clock_vector {
	uint64_t *tick;
	uint32_t width;
};

struct clock_lane {
	struct clock_vector now;
	uint64_t id;
	uint64_t name;           /* what reports call it: clocks_name(), else the id */
	uint64_t version;        /* grows with every change of `now` */
	uint64_t seen_host;      /* the host's version that `now` includes */
	uint64_t seen_legacy;    /* blocking: the legacy stream's version that it includes */
	uint64_t seen_by_legacy; /* blocking: the version that the legacy stream includes */
	uint32_t holders;
	uint32_t flags;
	bool used;
};

struct clocks {
	const struct soma_backend_host *host;
	struct clock_lane *lanes; /* `width` of them; `count` were ever used */
	uint32_t count, width;
	uint32_t legacy; /* lane of the legacy stream; 0: none */
	uint64_t seq;
};

/* False without memory. */
bool clocks_init(struct clocks *clocks, const struct soma_backend_host *host);
void clocks_fini(struct clocks *clocks);

/* The lane of stream `id`: the one that it has, or a new one that starts at the host's clock. */
bool clocks_hold(struct clocks *clocks, uint64_t id, uint32_t flags, uint32_t *lane);

/* What reports call the lane's stream from its next operation on. */
void clocks_name(struct clocks *clocks, uint32_t lane, uint64_t name);

/* The stream, or one handle of it, is gone; what was queued still counts. */
void clocks_drop(struct clocks *clocks, uint32_t lane);

/* Whether the lane may go to another stream. */
bool clocks_is_spent(const struct clocks *clocks, uint32_t lane);

/* The lane's next operation: joins what is implied, ticks.  stack, thread, kind are the caller's. */
struct clock_access clocks_op(struct clocks *clocks, uint32_t lane);

/* Joins what is implied, as an operation would, without being one. */
void clocks_catch_up(struct clocks *clocks, uint32_t lane);

/* Whether all that follows in the lane comes after `access`. */
bool clocks_ordered(const struct clocks *clocks, uint32_t lane, const struct clock_access *access);

/* Room for what an event, or a snapshot, will hold; false without memory. */
bool clocks_reserve(struct clocks *clocks, struct clock_vector *vector);
void clocks_release(struct clocks *clocks, struct clock_vector *vector);

/* The lane's clock as of now; `vector` has room (as much as it has is taken). */
void clocks_record(struct clocks *clocks, uint32_t lane, struct clock_vector *vector);

/* The same of the work that the lane was given, for one that is waited for: no operation, so it joins no
 * order of its own. */
void clocks_look(struct clocks *clocks, uint32_t lane, struct clock_vector *vector);

/* All lanes together, for a synchronisation of the device. */
void clocks_record_all(struct clocks *clocks, struct clock_vector *vector);

/* The lane (or the host) continues after what `vector` stands for. */
void clocks_wait(struct clocks *clocks, uint32_t lane, const struct clock_vector *vector);

/* The host continues after everything of the lane up to this tick, and, as far as this says, nothing else. */
void clocks_reach(struct clocks *clocks, uint32_t lane, uint64_t tick);

#endif

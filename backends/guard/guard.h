/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open guard, and the parts of it that several files share.
 *
 * Locks: `lock` protects the clocks, the records, the lists and the lanes; it is held
 * for bookkeeping only: no op of the inner backend, no unwinding, no output and no
 * callback happens under it.  `probe_lock` lets one thread at a time use the guard's own stream
 * and its staging memory; it is held across waits for the guard's own short work, and
 * taken before `lock`.  Whoever needs a stream of the program under no lock borrows its lane, which
 * keeps the stream from being destroyed meanwhile.
 */
#ifndef SOMA_BACKENDS_GUARD_GUARD_H
#define SOMA_BACKENDS_GUARD_GUARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

#include "backends/guard/block.h"
#include "backends/guard/clocks.h"
#include "backends/guard/fail.h"
#include "backends/guard/mapped.h"
#include "backends/guard/options.h"
#include "backends/guard/report.h"
#include "backends/guard/stacks.h"

/* A stream as the program holds it. */
struct soma_backend_stream {
	struct soma_backend_stream *inner;
	struct soma_backend_stream *next, *prev; /* all of them */
	uint32_t lane;
};

struct soma_backend_event {
	struct soma_backend_event *inner;
	struct soma_backend_event *next, *prev;
	struct clock_vector stands_for; /* protected by the guard's lock */
};

/* What the guard keeps for each lane of the clocks. */
struct lane {
	struct block_list retired;          /* freed here, in the stream's order */
	struct soma_backend_stream *stream; /* one of the program's that is still there; NULL: none */
	struct soma_backend_event *marker;  /* inner: ends what was retired up to marker_tick */
	uint64_t marker_tick;               /* 0: not recorded, or seen done */
	uint64_t done_tick;                 /* really over */
	uint64_t filled_tick; /* what dresses blocks is done up to here, for all but the clocks */
	bool borrowed;
	bool per_thread; /* only its own thread may name it */
	bool gone;       /* destroyed; the marker was recorded then */
};

struct soma_backend {
	const struct soma_backend_host *host;
	const struct soma_backend_ops *ops; /* the inner backend's */
	struct soma_backend *inner;
	struct soma_backend_info info; /* the inner one's, at open */
	struct guard_options options;
	int device;
	bool direct;                    /* memory is reached by pointer */
	bool streams;                   /* the inner one has them */
	bool ordered;                   /* its blocks are ready in the order of their stream, else at once */
	bool off;                       /* mode=off */
	_Atomic bool disabled;          /* a forked child's */
	struct soma_backend *next_open; /* fork.h */

	pthread_mutex_t lock;
	pthread_cond_t changed; /* a loan or an eviction ended */
	struct clocks clocks;
	struct lane **lanes;
	uint32_t lane_room;
	struct blocks blocks;
	struct block_list quarantine, condemned, tombstones;
	uint64_t live_count, retired_count, retired_requested;
	uint64_t loose_write_seq; /* of the last fill or copy to the middle of something */
	struct soma_backend_stream *all_streams;
	struct soma_backend_event *all_events;

	pthread_mutex_t probe_lock;
	struct soma_backend_stream *own; /* inner; copies and poison */
	struct soma_backend_event *edge; /* inner; order that the program forgot */
	void *staging;
	size_t staging_size;
	bool staging_busy; /* the inner backend may write there yet: a wait for it has failed */

	struct stacks stacks;
	struct reporter reporter;
	struct mapped mapped;
};

#define GUARD_ALIGNMENT 256u

static inline struct soma_backend_stream *
inner_stream(struct soma_backend_stream *stream)
{
	return stream == NULL ? NULL : stream->inner;
}

static inline uint32_t
lane_of(const struct soma_backend_stream *stream)
{
	return stream == NULL ? CLOCKS_HOST : stream->lane;
}

/* Nothing is guarded: mode=off, or a forked child. */
static inline bool
guard_is_idle(const struct soma_backend *g)
{
	return g->off || atomic_load_explicit(&g->disabled, memory_order_relaxed);
}

/* Whether the stream (inner; NULL: never) is in a capture: nothing of the guard's goes there, and nobody asks
 * about it.  Memory that is reached by pointer is in no graph. */
bool guard_is_capturing(struct soma_backend *g, struct soma_backend_stream *stream);
/* STREAM_MISUSE for an alloc or free there: a graph's memory is not guarded. */
enum soma_status guard_refuse_capturing(struct soma_backend *g, struct soma_backend_stream *stream);

/* The kernel's id of the thread, kept. */
uint32_t guard_thread(void);

/* ---- alloc.c, free.c, use.c, stale.c ---- */
enum soma_status guard_alloc(struct soma_backend *g, uint64_t size, uint64_t alignment,
			     struct soma_backend_stream *stream, uint64_t *ptr);
enum soma_status guard_free(struct soma_backend *g, uint64_t ptr, uint64_t size,
			    struct soma_backend_stream *stream);
enum soma_status guard_use(struct soma_backend *g, uint64_t ptr, enum soma_backend_access access,
			   struct soma_backend_stream *stream);
enum soma_status guard_name(struct soma_backend *g, uint64_t ptr, uint64_t generation, const char *tag);
void guard_stale(struct soma_backend *g, uint64_t ptr, uint64_t generation, enum soma_backend_access access,
		 struct soma_backend_stream *stream);

/* ---- lane.c ---- */

/* Room for what lane `lane` needs; under `lock`.  False without memory. */
bool lane_prepare(struct soma_backend *g, uint32_t lane);
/* A stream of the lane that stays until lane_return(); NULL: there is none (nothing to return). */
struct soma_backend_stream *lane_borrow(struct soma_backend *g, uint32_t lane);
void lane_return(struct soma_backend *g, uint32_t lane);
/* Makes `stream` (inner; NULL: the guard's own) wait for all that is queued in the lane; false:
 * that could not be queued. */
bool lane_follow(struct soma_backend *g, uint32_t lane, struct soma_backend_stream *stream);
/*
 * To the clocks an operation on a stream in turn with the legacy one comes after that one's, and the other way round.
 * The driver orders work alone, and neither a free nor a declared use is any; an event is.  So there is one behind
 * each of these there, and behind what is waited for on the legacy stream.  inner; false: there is none.
 */
bool lane_anchor(struct soma_backend *g, struct soma_backend_stream *stream);
/* After such an operation on the stream; NULL is none. */
void lane_anchor_op(struct soma_backend *g, const struct soma_backend_stream *stream);
/* The same for the stream of lane `home`, another one, which is borrowed for it: the caller has borrowed none. */
bool lane_follow_in(struct soma_backend *g, uint32_t lane, uint32_t home);
/* Takes the lane's retired blocks that are over on to the quarantine.  With `ask` the backend is
 * asked what is over, else only the clocks. */
void lane_settle(struct soma_backend *g, uint32_t lane, bool ask);
void lane_settle_all(struct soma_backend *g, bool ask);
/* The program gives up the stream: leaves a marker if it is the lane's last. */
void lane_leave(struct soma_backend *g, struct soma_backend_stream *stream);
/* A lane whose stream is gone and whose marker is over counts as seen by the host. */
void lane_reclaim(struct soma_backend *g, uint32_t lane);

/* ---- quarantine.c ---- */

/* A block that nothing uses any more and that is in no list (state retired). */
void quarantine_admit(struct soma_backend *g, struct block *block);
struct quarantine_bounds {
	uint64_t bytes; /* of the inner backend */
	uint64_t requested, blocks;
};
/* Lets go of the oldest until at most `keep` stays; counts what was given back. */
uint64_t quarantine_drain(struct soma_backend *g, struct quarantine_bounds keep);
/* Drains to 90 % when it is over its bounds. */
void quarantine_trim(struct soma_backend *g);
/* Marks as damaged and reports; the caller has the block pinned or busy.  False: it was before. */
bool quarantine_accuse(struct soma_backend *g, struct block *block, struct report *report);

/* ---- scan.c ---- */
enum soma_status guard_scan(struct soma_backend *g, uint64_t *damaged);
/* At shutdown: a scan that waits for nothing. */
uint64_t scan_all(struct soma_backend *g, const char *found_by, uint64_t before_generation);

/* ---- stream.c and pass.c: the ops table ---- */
extern const struct soma_backend_ops guard_ops;

/* ---- open.c ---- */
enum soma_status guard_open(const struct soma_backend_open *how, struct soma_backend **self);
void guard_close(struct soma_backend *g);
enum soma_status guard_query(struct soma_backend *g, struct soma_backend_info *info);

/* ---- fork.c ---- */

/* Guards that are open: what a forked child disables and exit reports. */
void fork_enter(struct soma_backend *g);
void fork_leave(struct soma_backend *g);

/* ---- leak.c: reports live blocks from the guard's own records ---- */
void leak_report(struct soma_backend *g);

#endif

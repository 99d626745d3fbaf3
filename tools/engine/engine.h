/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay engine: an allocation trace, driven through a soma_model.
 *
 * Two passes over the trace.  The first (survey.c) finds what must be known before;
 * the second (run.c) drives the model, and looks at every block at the moment where
 * live bytes are highest.  When that moment turns out to be another one, because
 * allocations failed, there is one more pass.
 *
 * Prints nothing; one thread.
 */
#ifndef SOMA_TOOLS_ENGINE_ENGINE_H
#define SOMA_TOOLS_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <soma/model.h>

#include "tools/engine/holders.h"
#include "tools/engine/series.h"
#include "tools/engine/watch.h"
#include "tools/trace/trace.h"

/* When a stream is taken to have executed a free (a trace does not say). */
enum replay_complete {
	REPLAY_COMPLETE_FREE,  /* as soon as the free is complete in the trace */
	REPLAY_COMPLETE_SYNC,  /* at the trace's synchronisations */
	REPLAY_COMPLETE_NEVER, /* not at all */
};

/* Whether the policy `pytorch` has expandable segments. */
enum replay_expandable {
	REPLAY_EXPANDABLE_AUTO, /* as the trace has them */
	REPLAY_EXPANDABLE_ON,
	REPLAY_EXPANDABLE_OFF,
};

#define REPLAY_DEVICE_ANY (-1)

struct autopsy;

struct replay_options {
	const struct soma_policy *policy; /* NULL: what fits the trace */
	uint64_t capacity;                /* 0: unlimited */
	uint64_t release_threshold;
	enum replay_complete complete;
	enum replay_expandable expandable;
	int32_t device;
	size_t columns; /* of the series; 0: none is made */
	bool by_event;  /* the series' axis counts events even where times are known */
	/* Only whether memory suffices: the first allocation without room ends the replay, and of the
	 * result nothing holds but oom.happened, peak_reserved, least_refused and counts.events. */
	bool trial;
	uint64_t (*round)(const void *context, uint64_t size); /* of each request; NULL: as it is */
	const void *round_context;
	/* What the trace itself says failed is tried: allocated, and freed at once.  In a trial and under a
	 * capacity it always is, so that whoever asks what fits has the same answer. */
	bool try_recorded;
	struct autopsy *autopsy; /* filled at the first failure, in the trace or here; or NULL */
	const struct watch *watch; /* who looks on, or NULL */
	void (*progress)(void *context, double done);
	void *context;
};

/* An event's index, where there is none: the state before the first event. */
#define REPLAY_AT_START UINT64_MAX

/* The four numbers, with what they are made of. */
struct replay_moment {
	uint64_t reserved;
	uint64_t live_capacity;
	uint64_t live_requested;
	uint64_t rounding_waste; /* live capacity - live requested */
	uint64_t free_but_held;  /* reserved - live capacity */
	uint64_t largest_free;
	uint64_t stranded_by_stream; /* free, but for other streams than the one that allocated */
};

struct replay_parity {
	bool applies;   /* the trace says where its allocator put things, and the policy is the same */
	/* The capacity made the model give segments back, or what failed was tried: it had to differ. */
	bool disturbed;
	uint64_t recorded, reproduced;
	uint64_t segments_recorded, segments_reproduced;
	bool differs;
	uint64_t event, recorded_ptr, got_ptr; /* the first difference; got 0: the allocation failed */
};

/* X(name, text in JSON and for people) */
#define REPLAY_OOM_MAP(X)                                                                         \
	X(TOO_BIG, "truly too big")                /* not even without any waste */               \
	X(SEGMENT, "the smallest segment for it is larger than the capacity")                     \
	X(FRAGMENTATION, "fragmentation")          /* the bytes are free, but not in one piece */ \
	X(STRANDED, "stranded on other streams")   /* the bytes are free, for others */           \
	X(PENDING, "frees that have not executed") /* the bytes will be free */                   \
	X(ROUNDING, "rounding")                    /* live blocks take more than requested */

enum replay_oom_reason {
#define X(name, text) REPLAY_OOM_##name,
	REPLAY_OOM_MAP(X)
#undef X
};

const char *replay_oom_text(enum replay_oom_reason reason);

/* The first allocation that found no room. */
struct replay_oom {
	bool happened;
	uint64_t event;
	uint64_t x; /* on the series' axis */
	uint64_t requested;
	uint64_t short_by; /* bytes of capacity that were missing at that moment */
	enum replay_oom_reason reason;
	uint64_t live_requested, reserved; /* when it failed */
};

/* The failures that the trace itself tells of, of at least one byte each: the first, and the last. */
struct replay_recorded {
	bool happened;
	bool tried; /* here, too */
	uint64_t event, requested;
	uint64_t count, last_event, last_requested;
};

static inline void
replay_recorded_add(struct replay_recorded *recorded, uint64_t event, uint64_t size)
{
	if (!recorded->happened) {
		recorded->happened = true;
		recorded->event = event;
		recorded->requested = size;
	}
	recorded->count++;
	recorded->last_event = event;
	recorded->last_requested = size;
}

struct replay_counts {
	uint64_t allocs; /* events of the trace, whatever became of them */
	uint64_t frees;
	uint64_t failed;          /* allocations that found no room here */
	uint64_t unknown_frees;   /* of blocks that were not live */
	uint64_t overwritten;     /* allocations at an address that was still live */
	uint64_t ignored;         /* allocations of no bytes, or at no address */
	uint64_t recorded_failed; /* failures that the trace itself tells of */
	uint64_t unknown_events;  /* waits for events that were never recorded */
	uint64_t unreleased;      /* recorded segment frees that the model could not follow */
	uint64_t events, streams, segments;
	uint64_t start_segments, start_blocks;
	uint64_t live_blocks, live_bytes; /* at the end */
	uint64_t maps, unmaps, steals;    /* calls, where the policy maps pages */
	uint64_t pages_stolen;
};

struct replay_result {
	const struct soma_policy *policy;
	const char *format;
	int32_t device;
	size_t device_count; /* in the trace */
	bool truncated;
	struct trace_error truncation; /* where */
	bool expandable;               /* the policy had expandable segments */
	bool start_unknown;            /* truncated, so not rewound: it began with nothing */

	uint64_t peak_live_requested;
	uint64_t peak_event; /* or REPLAY_AT_START */
	uint64_t peak_x;     /* on the series' axis */
	uint64_t peak_reserved;
	uint64_t reserved_event; /* where it was first that high, or REPLAY_AT_START */
	uint64_t last_event;     /* of the device, or REPLAY_AT_START */
	struct replay_moment at_peak;
	uint64_t least_refused; /* the least capacity that would have changed anything; or UINT64_MAX */
	struct replay_counts counts;
	struct replay_parity parity;
	struct replay_oom oom;
	struct replay_recorded recorded_oom;
	uint64_t first_unknown_event, first_unknown_ptr; /* when counts.unknown_frees > 0 */

	struct holder_rank *holders; /* at the peak */
	size_t holder_count;
	struct holder_rank *end_holders; /* of what is live at the end */
	size_t end_holder_count;
	struct series series;
};

/*
 * Replays the whole trace.  On failure `error` says why and the result holds
 * nothing: SOMA_STATUS_INVALID_VALUE for an option that does not fit the trace,
 * SOMA_STATUS_NOT_SUPPORTED for a trace that this policy cannot replay, else what
 * was wrong with the input.
 */
enum soma_status replay_run(struct trace_reader *reader, const struct replay_options *options,
			    struct replay_result *result, struct trace_error *error);
void replay_result_fini(struct replay_result *result);

/* ---- the same trace, many times ---- */

struct replay_session;

/* The first pass, and what was there before the trace.  The reader stays the caller's. */
enum soma_status replay_begin(struct trace_reader *reader, const struct replay_options *options,
			      struct replay_session **session, struct trace_error *error);
enum soma_status replay_again(struct replay_session *session, const struct replay_options *options,
			      struct replay_result *result, struct trace_error *error);
/* Where the trace is truncated, or NULL. */
const struct trace_error *replay_truncation(const struct replay_session *session);
void replay_end(struct replay_session *session);

#endif

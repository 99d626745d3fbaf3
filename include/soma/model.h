/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream-order model: an exact account of a stream-ordered memory pool.
 *
 * A model decides where blocks go, when freed memory may be used again and what
 * is reserved and used at every moment.  It owns no memory (its pointers are
 * virtual unless a segment source gives real ones), starts no thread, reads no
 * clock and no environment, and is deterministic: the same calls give the same
 * pointers and the same counters, in every build and on every machine.
 *
 * Units: every size is in bytes; a position (seq) counts the operations
 * submitted to one stream.
 *
 * Thread safety: a model may be used by one thread at a time.  Different models
 * are independent of each other.
 *
 * Ownership: a model is the caller's, from soma_model_create() to soma_model_destroy(); what
 * it points out, such as its policy, stays its own.
 *
 * Errors: a call that fails changes nothing (soma_model_alloc() says what its
 * attempts may leave), and soma_error_last() says why.
 * Unless a function says otherwise it may return SOMA_STATUS_INVALID_VALUE for
 * a bad argument, SOMA_STATUS_OUT_OF_HOST_MEMORY when the model's own records
 * cannot grow, and SOMA_STATUS_NOT_SUPPORTED when a stream has used up its
 * 2^48 positions.
 *
 * Structs that begin with `size` are read by it: a larger one of a later version
 * is accepted if the part that this version does not know is zero.
 *
 * The exact placement and reuse rules are written in HACKING, "The model".
 *
 * Since 0.1.
 */
#ifndef SOMA_MODEL_H
#define SOMA_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <soma/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct soma_model;

/* ---- policy: where blocks go and when a freed one is used again ---------- */

enum soma_fit {
	SOMA_FIT_GOOD = 0, /* size-class bins by address region; O(1) */
	SOMA_FIT_BEST = 1, /* exact best fit by (size, address); O(log n) */
};

enum soma_segments {
	SOMA_SEGMENTS_RANGE = 0, /* one growing address range with holes */
	SOMA_SEGMENTS_STEP = 1,  /* separate segments, sized by the pool rows */
	/* One address range for each size pool, with pages mapped where blocks are: `reserved`
	 * is what is mapped.  At the maximum, pages move from free ranges to where they are
	 * missing. */
	SOMA_SEGMENTS_MAPPED = 2,
};

/* When may a freed block be used again, beyond "after a synchronisation by the
 * host covered the free", which every policy allows. */
enum soma_reuse {
	SOMA_REUSE_SAME_STREAM = 1,   /* by the stream that freed it, at once */
	SOMA_REUSE_FOLLOW_EVENTS = 2, /* by a stream ordered after the free */
	SOMA_REUSE_OPPORTUNISTIC = 4, /* by any stream, once it has executed */
	SOMA_REUSE_INTERNAL = 8,      /* by any, by inserting a wait, rather than fail */
};

/*
 * One size pool.  A request, rounded up to the alignment, belongs to the first
 * row whose request_max it does not exceed; the last row's must be UINT64_MAX.
 * segment_* are for SOMA_SEGMENTS_STEP; with SOMA_SEGMENTS_MAPPED segment_step is a page
 * (a power of two, the same in every row) and segment_size the pool's address range, a
 * multiple of it; with SOMA_SEGMENTS_RANGE they do not matter.
 */
struct soma_policy_pool {
	uint64_t request_max;
	uint64_t segment_size; /* of a new segment, for a rounded request up to ... (not less than
				* min(segment_max, request_max)) */
	uint64_t segment_max;  /* ... this; a larger request gets a segment ... */
	uint64_t segment_step; /* ... rounded up to a multiple of this */
	uint64_t split_min;    /* split a block when at least this much would be left; up to 2 GiB */
};

#define SOMA_POLICY_POOLS_MAX 2
#define SOMA_POLICY_BATCH_MAX 1024

/* A policy is data; the presets are rows of a table.  Start from a preset. */
struct soma_policy {
	size_t size;             /* sizeof(struct soma_policy) */
	const char *name;        /* for reports; must outlive the model */
	uint64_t alignment;      /* of blocks; a power of two, 256 to 1 MiB */
	enum soma_fit fit;       /* SOMA_SEGMENTS_MAPPED: SOMA_FIT_GOOD */
	enum soma_segments segments;
	unsigned reuse;          /* SOMA_REUSE_* */
	bool per_stream;         /* a segment serves only the stream it was made for; then no
				  * FOLLOW_EVENTS and no INTERNAL, and SOMA_SEGMENTS_STEP */
	bool release_on_failure; /* when growing fails, release idle segments, retry */
	unsigned batch;          /* the blocks of up to twice as many frees, the latest, wait to be joined with
				  * their neighbours, and this many go at a time; until then they serve
				  * requests of their very size, on their own stream.  0: none waits */
	uint64_t batch_above;    /* with more blocks live than this, the latest 8 do not serve yet */
	unsigned pool_count;     /* 1 to SOMA_POLICY_POOLS_MAX */
	struct soma_policy_pool pools[SOMA_POLICY_POOLS_MAX];
	/* With per_stream and SOMA_FIT_BEST only. */
	uint64_t oversize;       /* 0, or: a rounded request of at least this is not split off a block, and
				  * smaller ones take no block of at least this; a multiple of the alignment */
	uint64_t oversize_slack; /* a request of at least `oversize` takes a block only when less than
				  * this would be unused; at most 2 GiB */
	uint64_t collect_above;  /* 0, or: while more than this is reserved, growing first releases
				  * idle segments of the last size pool, those not used for long */
};

/* "strict", "cuda", "pytorch" or "soma"; NULL when there is no such preset, or for NULL.  Presets are
 * constants of the library. */
const struct soma_policy *soma_policy_preset(const char *name);

/* The index-th preset, from 0; NULL past the last. */
const struct soma_policy *soma_policy_at(size_t index);

/* ---- segment source: where a segment's addresses come from --------------- */

/*
 * acquire gives an address for a new segment of exactly `size` bytes; it must be
 * a multiple of the policy's alignment, below SOMA_MODEL_ADDRESS_MAX, not 0, and
 * must not overlap a segment that the model holds.  Any status but OK means
 * "cannot grow" and is what the model reports if nothing else helps.
 * release gives back a whole segment and cannot fail.
 * All are called from inside soma_model_* calls on this model and must not call
 * into it.  An address that breaks these rules is released again, and the call fails
 * with SOMA_STATUS_INVALID_VALUE.  With a source, SOMA_SEGMENTS_RANGE is refused.
 *
 * SOMA_SEGMENTS_MAPPED does not use acquire, which may be NULL, but the rest:
 * reserve, once for each size pool when the model is created, gives an address range
 * without memory, to the same rules as acquire and a multiple of the page; any status but
 * OK is what creating the model returns.  map puts memory behind whole pages of a range, all
 * of which have none: any status but OK means that they still have none.  unmap takes it
 * away again from pages that all have some, and cannot fail.  Both are called before
 * the operation that needs them returns, in the order in which they have to be done; what is unmapped was
 * used by nothing but frees that are known to have executed.  A map that is refused is
 * asked for again after as many pages of free ranges were unmapped, if there are so many.
 * When the model is destroyed everything is unmapped, then each range released.
 */
struct soma_segment_source {
	size_t size; /* sizeof(struct soma_segment_source), or its size without the last three */
	void *context;
	enum soma_status (*acquire)(void *context, uint64_t stream, uint64_t size, uint64_t *address);
	void (*release)(void *context, uint64_t address, uint64_t size);
	enum soma_status (*reserve)(void *context, unsigned pool, uint64_t size, uint64_t *address);
	enum soma_status (*map)(void *context, uint64_t address, uint64_t size);
	void (*unmap)(void *context, uint64_t address, uint64_t size);
};

/* ---- create, destroy ----------------------------------------------------- */

/* Addresses are below this. */
#define SOMA_MODEL_ADDRESS_MAX ((uint64_t)1 << 48)

/* Where the addresses of a model start unless told otherwise. */
#define SOMA_MODEL_BASE_DEFAULT ((uint64_t)1 << 44)

struct soma_model_limits {
	size_t size;                /* sizeof(struct soma_model_limits) */
	uint64_t max_pool_size;     /* reserved never passes it; 0: unlimited */
	uint64_t release_threshold; /* a synchronisation releases free memory down to it */
	uint64_t base;              /* first address, aligned (to pages, where there are any);
				     * 0: SOMA_MODEL_BASE_DEFAULT */
	const struct soma_policy *policy;           /* copied; NULL: the `strict` preset */
	const struct soma_segment_source *segments; /* copied; NULL: virtual addresses */
};

/*
 * Creates a model.  limits may be NULL: no maximum, threshold 0, `strict`.
 * A new model has one stream: 0, the legacy default stream.
 */
enum soma_status soma_model_create(const struct soma_model_limits *limits, struct soma_model **model);

/* Destroys it with all its records; its segments go back to their source. NULL is allowed. */
void soma_model_destroy(struct soma_model *model);

/* Takes effect at the next synchronisation. */
void soma_model_set_release_threshold(struct soma_model *model, uint64_t bytes);

/* The policy in use; valid as long as the model. */
const struct soma_policy *soma_model_policy(const struct soma_model *model);

/* ---- streams and order --------------------------------------------------- */

enum soma_stream_flags {
	SOMA_STREAM_BLOCKING = 0,     /* ordered with the legacy default stream, both ways */
	SOMA_STREAM_NON_BLOCKING = 1, /* ordered by events alone */
};

/*
 * Stream ids are never used twice; 2^20 streams may exist at a time
 * (SOMA_STATUS_NOT_SUPPORTED beyond).  Destroying a stream refuses new work for it
 * (alloc, free, record, wait); what it still has pending stays pending until the
 * stream is advanced or synchronised, which remain allowed until then.  The
 * legacy stream cannot be destroyed.
 */
enum soma_status soma_model_stream_create(struct soma_model *model, unsigned flags, uint64_t *stream);
enum soma_status soma_model_stream_destroy(struct soma_model *model, uint64_t stream);

/*
 * The event recorded here is the pair (stream, *seq): it covers what was
 * submitted to the stream before this call, and, through the waits among that,
 * what those waits covered.  Recording takes no position, except where the legacy
 * stream's implicit order adds a wait (HACKING, "Legacy stream").
 */
enum soma_status soma_model_record_event(struct soma_model *model, uint64_t stream, uint64_t *seq);

/*
 * Later work of `stream` runs after the event (event_stream, event_seq).  Takes
 * one position on `stream`.  An event_seq beyond what event_stream has submitted
 * is an invalid value.  An event of a stream that is gone is complete.
 */
enum soma_status soma_model_wait_event(struct soma_model *model, uint64_t stream, uint64_t event_stream,
				       uint64_t event_seq);

/*
 * The stream has executed everything before position seq (and so has every
 * stream that it waited for, as far as it waited).  seq beyond the submit
 * position is an invalid value; going back is a no-op.
 */
enum soma_status soma_model_advance(struct soma_model *model, uint64_t stream, uint64_t seq);

/*
 * The host waits for the stream: it reaches its submit position, frees it thereby
 * completes are reclaimed, then free memory is released down to the threshold.
 */
enum soma_status soma_model_synchronize(struct soma_model *model, uint64_t stream);

/* The same for all streams at once. */
enum soma_status soma_model_synchronize_all(struct soma_model *model);

struct soma_model_position {
	uint64_t submitted; /* operations submitted: the next one's position */
	uint64_t executed;  /* positions below this are known to have executed */
};

enum soma_status soma_model_position(const struct soma_model *model, uint64_t stream,
				     struct soma_model_position *position);

/* ---- blocks -------------------------------------------------------------- */

struct soma_model_alloc {
	uint64_t ptr;
	uint64_t size;     /* as requested */
	uint64_t capacity; /* what the block holds */
	uint64_t stream;
	uint64_t ready_seq; /* its position on the stream */
	/* Where the policy took a block whose free the stream is not ordered after:
	 * the stream must wait for this event first.  wait_seq 0: nothing to wait for. */
	uint64_t wait_stream;
	uint64_t wait_seq;
};

/*
 * Allocates `size` bytes on the stream and takes one position on it (two where a
 * wait was inserted: first the wait, then the allocation).
 * SOMA_STATUS_INVALID_VALUE: size 0.
 * SOMA_STATUS_OUT_OF_DEVICE_MEMORY: no free block serves, and `reserved` would
 * pass the maximum.  What a segment source answered, if that refused.
 * On failure no block, position or order has changed; but queued frees may have been
 * filed, where the policy says so (release_on_failure) idle memory been released, and where
 * a map was refused free pages been unmapped for it.
 */
enum soma_status soma_model_alloc(struct soma_model *model, uint64_t size, uint64_t stream,
				  struct soma_model_alloc *alloc);

/*
 * Frees a block on a stream (not necessarily the one it was allocated on) and
 * takes one position on that stream.  The block leaves `used` at once and stays in
 * `reserved`; the policy says who may use it again and when.  ptr 0 succeeds and
 * does nothing.  SOMA_STATUS_INVALID_VALUE: ptr is not a live block's (freed
 * before, foreign, or inside a block).
 */
enum soma_status soma_model_free(struct soma_model *model, uint64_t ptr, uint64_t stream);

bool soma_model_is_live(const struct soma_model *model, uint64_t ptr);

/* The allocation's stream has executed past it. */
bool soma_model_is_ready_same_stream(const struct soma_model *model, const struct soma_model_alloc *alloc);

/* Work of `consumer` that waited for the event (alloc->stream, wait_seq) may use
 * it; with consumer == alloc->stream the same-stream rule. */
bool soma_model_is_ready_cross_stream(const struct soma_model *model, const struct soma_model_alloc *alloc,
				      uint64_t consumer, uint64_t wait_seq);

/*
 * Releases free memory down to `keep`; `reserved` never goes below it.  A no-op when
 * reserved <= keep.  Only memory whose free is known to have executed is released:
 * of a range the largest free blocks first, down to exactly `keep` if there is enough;
 * with SOMA_SEGMENTS_STEP whole segments, each time the largest that still fits; with
 * SOMA_SEGMENTS_MAPPED whole pages, as few ranges of them as can be.
 */
enum soma_status soma_model_trim_to(struct soma_model *model, uint64_t keep);

/* ---- a starting state, for replays that begin in mid-run ------------------ */

/* A segment made for `stream` and the size pool `pool` (a row of the policy) at
 * this address, wholly free.  SOMA_SEGMENTS_STEP only.  Not counted against the
 * segment source; released to it like any other.  SOMA_STATUS_OUT_OF_DEVICE_MEMORY:
 * `reserved` would pass the maximum. */
enum soma_status soma_model_adopt_segment(struct soma_model *model, uint64_t stream, unsigned pool,
					  uint64_t address, uint64_t size);

/* Makes [ptr, ptr + capacity) of a free block live with `size` requested bytes; less
 * than 4 GiB of it may be unused.  Takes no position.  Cheap for the blocks of a segment in
 * ascending or descending order. */
enum soma_status soma_model_adopt_block(struct soma_model *model, uint64_t ptr, uint64_t size,
					uint64_t capacity);

/* Releases exactly this segment; SOMA_STATUS_NOT_FOUND when there is none there,
 * SOMA_STATUS_INVALID_VALUE when it is not wholly free. */
enum soma_status soma_model_release_segment(struct soma_model *model, uint64_t address);

/* ---- counters ------------------------------------------------------------ */

/* X(name): one getter soma_model_<name>() and one field each; all O(1). */
#define SOMA_MODEL_COUNTER_MAP(X)                                                                  \
	X(reserved)           /* bytes of segments, or of the ranges without holes */              \
	X(reserved_high)      /* its peak */                                                       \
	X(used)               /* requested bytes of live blocks */                                 \
	X(used_high)          /* its peak */                                                       \
	X(active)             /* capacity of live blocks and of frees not known to have executed */ \
	X(peak_active)        /* its peak */                                                       \
	X(capacity)           /* capacity of live blocks */                                        \
	X(live_count)         /* live blocks */                                                    \
	X(free_block_count)   /* free blocks whose free is known to have executed */               \
	X(pending_free_count) /* free blocks whose free is not known to have executed */           \
	X(segment_count)      /* segments held, or ranges that are not empty */                    \
	X(segments_acquired)  /* times it grew */                                                  \
	X(segments_released)  /* times it released */                                              \
	X(alloc_count)        /* allocations that succeeded */                                     \
	X(free_count)         /* frees that succeeded */                                           \
	X(wait_count)         /* waits the policy inserted */                                      \
	X(map_count)          /* SOMA_SEGMENTS_MAPPED: calls of map, each for one range of pages */ \
	X(unmap_count)        /* the same of unmap */                                              \
	X(steal_count)        /* those of them that moved pages to where a block needed them */    \
	X(pages_mapped)       /* pages that map_count stands for */                                \
	X(pages_unmapped)     /* the same of unmap_count */                                        \
	X(pages_stolen)       /* the same of steal_count */

struct soma_model_stats {
#define SOMA__X(name) uint64_t name;
	SOMA_MODEL_COUNTER_MAP(SOMA__X)
#undef SOMA__X
};

#define SOMA__X(name) uint64_t soma_model_##name(const struct soma_model *model);
SOMA_MODEL_COUNTER_MAP(SOMA__X)
#undef SOMA__X

/* All at once; never fails.  `size` is sizeof *stats as the caller knows it: fields may be
 * added at the end. */
void soma_model_stats(const struct soma_model *model, struct soma_model_stats *stats, size_t size);

/* reserved_high, used_high and peak_active become the current values. */
void soma_model_reset_peaks(struct soma_model *model);

/*
 * The least that `reserved` would have come to by a growth that the maximum refused;
 * UINT64_MAX when it refused none.  With a larger maximum below this, the same calls would have
 * had the same answers: whoever looks for the least maximum can go on from here.
 */
uint64_t soma_model_least_refused(const struct soma_model *model);

/* ---- walking ------------------------------------------------------------- */

enum soma_extent_kind {
	SOMA_EXTENT_SEGMENT, /* comes before the blocks in it */
	SOMA_EXTENT_LIVE,
	SOMA_EXTENT_PENDING, /* freed; not known to have executed */
	SOMA_EXTENT_FREE,
	SOMA_EXTENT_HOLE,    /* released or unmapped part of a range; not in `reserved` */
};

/* Given to visitors; fields may be added at the end. */
struct soma_extent {
	enum soma_extent_kind kind;
	unsigned pool; /* SEGMENT: its size pool */
	uint64_t address;
	uint64_t size;      /* capacity for a block */
	uint64_t requested; /* LIVE: requested bytes */
	uint64_t stream;    /* SEGMENT, FREE of a per-stream policy: its stream; PENDING: the freeing stream */
	uint64_t seq;       /* PENDING: the position of the (latest) free */
	bool stranded;      /* FREE or PENDING: only one stream may use it at present */
};

/* Calls visit for every segment and block in address order, until it returns false.
 * visit must not change the model; the extent is valid during the call. */
void soma_model_walk(const struct soma_model *model,
		     bool (*visit)(void *context, const struct soma_extent *extent), void *context);

/* ---- the model's own records ---------------------------------------------- */

struct soma_memory_info {
	uint64_t mapped;       /* bytes of address space taken for records */
	uint64_t resident;     /* bytes of it in memory */
	uint64_t huge;         /* bytes of it really on huge pages */
	const char *page_kind; /* "explicit huge", "transparent huge" or "plain" */
};

/* Reads /proc/self/smaps: slow; for reports.  `size` is sizeof *info as the caller knows it.
 * SOMA_STATUS_IO: smaps cannot be read. */
enum soma_status soma_model_memory_info(const struct soma_model *model, struct soma_memory_info *info,
					size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

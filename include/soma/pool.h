/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: stream-ordered allocation with caching, thresholds and handles.
 *
 * A pool decides with a model (<soma/model.h>) where blocks go and when freed memory is used again.  It
 * stands over a resource (<soma/resource.h>), which gives the memory, or over nothing: then it is the
 * model's account with a pool's interface, and its addresses are names.
 *
 * Streams.  A pool over a resource knows the resource's streams by their ids.  A pool alone has streams of
 * its own.  An allocation or free on a stream takes effect in that stream's order: its place is after all
 * work that was queued on the stream before the call.  What orders streams must go through the pool
 * (soma_pool_record_event(), soma_pool_wait_event()) for the pool to know of it; those calls also order the
 * real streams.  Order that the pool is not told of is never needed for safety.  Of the streams themselves:
 * one that is ordered with the legacy default stream is known to be.
 *
 * Units: every size is in bytes; a position (seq) counts the pool's operations on one stream.
 *
 * Thread safety: everything here may be called from any thread at any time on the same pool.  A pool has
 * one lock, which is not held while the device or the resource is waited for.  An allocation's handle may
 * be asked by any thread, and must not be used by another one while it is released.
 *
 * Not across fork: as in <soma/resource.h>.
 *
 * Ownership: a pool is the caller's until soma_pool_destroy(), and keeps the resource; a default pool is the
 * library's.  A handle is the caller's from the call that gave it until soma_allocation_release() (or
 * soma_pool_free_ptr()), whatever becomes of its block or of the pool.
 *
 * Errors: outputs are written only on SOMA_STATUS_OK, and soma_error_last() says what went wrong.  A call
 * that fails changes nothing, unless it says otherwise; an allocation for which the resource had no memory
 * leaves the pool's account exactly as it was, but idle segments may have gone back (where the policy has
 * release_on_failure).  Unless it says otherwise a call may return SOMA_STATUS_INVALID_VALUE for a bad
 * argument, SOMA_STATUS_STREAM_MISUSE for a stream of the resource that is not there or is being captured,
 * SOMA_STATUS_OUT_OF_HOST_MEMORY when soma's own records cannot grow, and what the resource returned.
 *
 * Since 0.1.
 */
#ifndef SOMA_POOL_H
#define SOMA_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <soma/model.h>
#include <soma/resource.h>
#include <soma/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct soma_pool;
struct soma_allocation;

/* ---- create, destroy -------------------------------------------------------- */

enum soma_placement {
	/* POOL over a backend that gives memory synchronously or is this machine's, BACKEND over one that
	 * has a pool of its own and over a guard, and for a policy without SOMA_SEGMENTS_STEP. */
	SOMA_PLACEMENT_AUTO = 0,
	/* Every block is the resource's; the model beside it keeps the account. */
	SOMA_PLACEMENT_BACKEND = 1,
	/* The resource gives segments, and blocks are parts of them. */
	SOMA_PLACEMENT_POOL = 2,
};

/*
 * release_threshold: a synchronisation gives back free memory down to it.  initial_size: reserved from the
 * beginning, rounded up to segments (the policy must have them).  Both are at most max_size, where that is not 0.
 * A pool grows by whole segments, with "cuda" of 32 MiB: below that a maximum allows nothing at all.
 * policy: which sizes, which segments, which reuse.  PLACEMENT_POOL takes one with SOMA_SEGMENTS_STEP.
 */
struct soma_pool_config {
	size_t size;                   /* sizeof(struct soma_pool_config) */
	int device;                    /* the ordinal, from 0; over a resource it must be the resource's */
	enum soma_placement placement; /* looked at over a resource only */
	uint64_t initial_size;
	uint64_t max_size; /* `reserved` never passes it; 0: unlimited */
	uint64_t release_threshold;
	const struct soma_policy *policy; /* copied, but for its name; NULL: the preset "cuda" */
	uint32_t tag; /* for what is taken from the resource; SOMA_TAG_NONE: the thread's */
	bool twin;    /* compare the model with the backend's own pool: soma_pool_twin() */
	uint32_t twin_used_unit;          /* see there; 0: SOMA_TWIN_USED_UNIT */
	uint64_t twin_reserved_tolerance; /* see there; 0: none */
};

/*
 * config NULL: device 0 or the resource's, no maximum, threshold 0, "cuda".  resource NULL: a pool alone.
 * The pool keeps the resource.  Pools of a process never have addresses in common.
 * SOMA_STATUS_NOT_SUPPORTED: SOMA_PLACEMENT_POOL over a guard, which would see segments and none of the
 * blocks in them; initial_size without segments; no virtual addresses are left (a process has them for 128 pools
 * that are alone or BACKEND and have no maximum, and for many more that have one).
 */
enum soma_status soma_pool_create(const struct soma_pool_config *config, struct soma_resource *resource,
				  struct soma_pool **pool);

/*
 * Returns at once, as long as blocks are live.  No more is allocated from the pool; its live blocks stay,
 * and can be freed.  With the last of them, and when calls on the pool that other threads had begun are
 * over, everything goes back to the resource, after the work that is queued on its streams (which a backend
 * that is not stream-ordered waits for; if no order after that work can be had, because a stream is being
 * captured or fails, it stays outstanding, which is logged); from then on calls on the pool are
 * SOMA_STATUS_INVALID_VALUE.  The pool's records go with the last handle that is released: without a handle
 * of its own a thread must not use the pool any more.  When the pool was its device's current one, the
 * default pool is.  NULL is allowed.
 * SOMA_STATUS_INVALID_VALUE: a default pool; it was destroyed before.
 */
enum soma_status soma_pool_destroy(struct soma_pool *pool);

int soma_pool_device(const struct soma_pool *pool);

/* What AUTO became; AUTO for a pool alone. */
enum soma_placement soma_pool_placement(const struct soma_pool *pool);

/*
 * The default pool of a device: made by the first call, with the default configuration over `resource`
 * (NULL: alone); later ones give the same, and INVALID_VALUE if they name another resource's stack.  It
 * cannot be destroyed, for others have it, too.  Over a resource it keeps that, and ends, as a destroyed
 * pool does, when the last reference to the resource's runtime is released (<soma/runtime.h>), so that
 * nothing stays open on its account: who uses it has such a reference, or a handle of the pool's.  Alone it
 * is there until soma_pool_end_default().
 */
enum soma_status soma_pool_default(int device, struct soma_resource *resource, struct soma_pool **pool);

/*
 * Ends a device's default pool as soma_pool_destroy() ends others: nothing more is allocated from it, and
 * it goes with its last block.  For a program that is done with it before its runtime is, or made it over a
 * resource that it keeps beyond that, or alone.  The device has none then; soma_pool_default() makes
 * another one.
 * SOMA_STATUS_NOT_FOUND: there is none.
 */
enum soma_status soma_pool_end_default(int device);

/* The current pool of a device: what was set, or the default one.  SOMA_STATUS_NOT_FOUND: there is neither. */
enum soma_status soma_pool_current(int device, struct soma_pool **pool);

/* pool NULL: the default one again.  INVALID_VALUE: it was destroyed, or is another device's. */
enum soma_status soma_pool_set_current(int device, struct soma_pool *pool);

/* ---- blocks ----------------------------------------------------------------- */

/*
 * Allocates a block whose memory work queued on `stream` may use from now on.  The handle is the caller's
 * until soma_allocation_release().  Where the placement is POOL, and with a twin, one allocation of several
 * asks how far two streams are, without waiting (an event is recorded and queried): so what was freed
 * serves whole again though nobody synchronises.
 * SOMA_STATUS_OUT_OF_DEVICE_MEMORY: the maximum does not allow it, or the resource has no memory;
 * SOMA_STATUS_OUT_OF_BUDGET: a budget of the resource's has not.  On a stream that is being captured into a
 * graph, the block is the graph's and outside the pool, in no account of it, where the backend makes such
 * blocks and the placement is BACKEND; else SOMA_STATUS_STREAM_MISUSE.  A capture of another stream is no error
 * here: what was freed on that one and is still pending cannot be waited for, and serves nobody else until it ends.
 */
enum soma_status soma_pool_alloc(struct soma_pool *pool, uint64_t size, uint64_t stream,
				 struct soma_allocation **allocation);

/*
 * Frees the block in the order of the stream, which the caller has ordered after all work on the block.
 * The handle stays, and answers.  NULL succeeds and does nothing.
 * SOMA_STATUS_USE_AFTER_FREE: it was freed before.  SOMA_STATUS_STREAM_MISUSE: also for a stream that is
 * being captured (unless the block is the graph's).
 */
enum soma_status soma_pool_free(struct soma_allocation *allocation, uint64_t stream);

/* Frees it at once, in no order: the caller knows that no work uses the block.  If that is not so it is the
 * caller's error, which a guard reports. */
enum soma_status soma_pool_free_now(struct soma_allocation *allocation);

/*
 * The same as soma_pool_free() by the block's address (soma_allocation_ptr()), for callers that keep
 * addresses alone: the handle is released, too.  ptr 0 succeeds and does nothing.
 * SOMA_STATUS_INVALID_VALUE: there is no live block of this pool at the address (freed before, another
 * pool's, inside a block).
 */
enum soma_status soma_pool_free_ptr(struct soma_pool *pool, uint64_t ptr, uint64_t stream);

/* The handle of the live block at this address; SOMA_STATUS_NOT_FOUND: there is none. */
enum soma_status soma_pool_find(struct soma_pool *pool, uint64_t ptr, struct soma_allocation **allocation);

/* ---- handles ---------------------------------------------------------------- */

/* Gives the handle back; it may name another block at once.  A block that is live is freed first, on the
 * stream that it was allocated on; if that fails the handle is still the caller's.  NULL is allowed. */
enum soma_status soma_allocation_release(struct soma_allocation *allocation);

/* A name of the block that no other live block of the process has; where the placement is POOL, the device
 * address. */
uint64_t soma_allocation_ptr(const struct soma_allocation *allocation);

/* What work may use; 0: there is no memory (a pool alone). */
uint64_t soma_allocation_device_ptr(const struct soma_allocation *allocation);

uint64_t soma_allocation_size(const struct soma_allocation *allocation); /* as requested */
bool soma_allocation_is_freed(const struct soma_allocation *allocation);

/* The driver's handle of the stream that it was allocated on; SOMA_STATUS_NOT_SUPPORTED: there is none. */
enum soma_status soma_allocation_stream(const struct soma_allocation *allocation, uint64_t *native);

uint64_t soma_allocation_stream_id(const struct soma_allocation *allocation);
uint64_t soma_allocation_ready_seq(const struct soma_allocation *allocation); /* its position on the stream */

/*
 * The block's id, for launches (<soma/launch.h>) and uses (<soma/resource.h>) over the pool's resource:
 * later uses, and the block's free, then wait for those that were recorded; soma_pool_free_now() does not.
 * It names this block alone, and is good until the block is freed; freeing it there is not for others than
 * the pool.  The first call takes a few bytes of the resource's records, where the placement is POOL, and
 * each call the pool's lock: so ask once a block.  With POOL the block has no place in the resource's
 * accounts, traces or tags: those have the segment.
 * SOMA_STATUS_NOT_SUPPORTED: a pool alone.  SOMA_STATUS_USE_AFTER_FREE: the block was freed.
 */
enum soma_status soma_allocation_id(struct soma_allocation *allocation, struct soma_block_id *id);

/* The pool may be destroyed already. */
struct soma_pool *soma_allocation_pool(const struct soma_allocation *allocation);

/* ---- order ------------------------------------------------------------------ */

/* Of a pool alone; over a resource they are SOMA_STATUS_NOT_SUPPORTED.  Flags, ids and what destroying
 * leaves are those of <soma/model.h>. */
enum soma_status soma_pool_stream_create(struct soma_pool *pool, unsigned flags, uint64_t *stream);
enum soma_status soma_pool_stream_destroy(struct soma_pool *pool, uint64_t stream);

/* Waits for the stream; then what was freed on it before the call is known to be free, and free memory
 * above the release threshold goes back. */
enum soma_status soma_pool_synchronize(struct soma_pool *pool, uint64_t stream);

/* The allocation's stream is known to be past it.  Asks, and does not wait. */
bool soma_pool_is_ready(struct soma_allocation *allocation);

/* Work of `consumer` may use the block after it waited for the event (the allocation's stream, seq).  On the
 * allocation's own stream it is soma_pool_is_ready(). */
bool soma_pool_is_ready_on(struct soma_allocation *allocation, uint64_t consumer, uint64_t seq);

/*
 * The event is the pair (stream, *seq): it covers all work that was queued on the stream before the call.
 * wait_event: work that is queued on `stream` later runs after it (and possibly after a little
 * more of event_stream: the pool keeps a few events a stream).
 */
enum soma_status soma_pool_record_event(struct soma_pool *pool, uint64_t stream, uint64_t *seq);
enum soma_status soma_pool_wait_event(struct soma_pool *pool, uint64_t stream, uint64_t event_stream,
				      uint64_t event_seq);

/* ---- accounts and attributes -------------------------------------------------- */

/* Gives back free memory down to `keep` bytes of `reserved`, never below. */
enum soma_status soma_pool_trim(struct soma_pool *pool, uint64_t keep);

/* As in <soma/model.h>. */
struct soma_pool_stats {
	size_t size; /* set by the caller: sizeof(struct soma_pool_stats) */
	uint64_t reserved;
	uint64_t reserved_high;
	uint64_t used;
	uint64_t used_high;
	uint64_t active;
	uint64_t peak_active;
	uint64_t live_count;
	uint64_t free_block_count;
	uint64_t pending_free_count;
	uint64_t segment_count;
	uint64_t segments_acquired;
	uint64_t segments_released;
	uint64_t alloc_count;
	uint64_t free_count;
	uint64_t wait_count;
	uint64_t graph_count;  /* live blocks that are a graph's: in no other figure */
	uint64_t handle_count; /* handles that were not released */
};

enum soma_status soma_pool_stats(struct soma_pool *pool, struct soma_pool_stats *stats);

/* reserved_high, used_high and peak_active become the current values. */
void soma_pool_reset_peaks(struct soma_pool *pool);

/*
 * The driver's attributes, with its rules.  REUSE_*:  0 or 1, to begin with what the policy says, which is
 * 1 for "cuda".  HIGH can be set to 0 and nothing else, and then is CURRENT; CURRENT cannot be set.  They
 * govern the model; where the placement is BACKEND the backend's own pool has options of its own.
 */
enum soma_pool_attribute {
	SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
	SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC = 2,
	SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
	SOMA_POOL_RELEASE_THRESHOLD = 4,
	SOMA_POOL_RESERVED_CURRENT = 5,
	SOMA_POOL_RESERVED_HIGH = 6,
	SOMA_POOL_USED_CURRENT = 7,
	SOMA_POOL_USED_HIGH = 8,
};

/* set: SOMA_STATUS_NOT_SUPPORTED for a reuse that the policy excludes (per_stream). */
enum soma_status soma_pool_get_attribute(struct soma_pool *pool, enum soma_pool_attribute attribute,
					 uint64_t *value);
enum soma_status soma_pool_set_attribute(struct soma_pool *pool, enum soma_pool_attribute attribute,
					 uint64_t value);

/* ---- the twin ----------------------------------------------------------------- */

/*
 * A pool with `twin` compares, after each soma_pool_synchronize() and soma_pool_trim(), what its model
 * says of USED and RESERVED (current and highest) with what the backend's own pool says, and keeps the first
 * divergence of either with the operations that led there.  It is for finding out whether the model is right
 * about a driver, not for use: its allocations, frees, events and trims are one at a time.
 *
 * It needs a backend that has a pool of its own and no guard, PLACEMENT_BACKEND, neither initial_size nor
 * max_size, and that pool for itself: nothing may be allocated from it when the pool is made, which trims it,
 * and blocks that others make from it later are a divergence.  Else soma_pool_create() is
 * SOMA_STATUS_NOT_SUPPORTED.
 * The model has the backend's release threshold and reuse attributes, not the config's nor the policy's;
 * setting an attribute sets it in both.
 *
 * What is not known of drivers, and how it is dealt with:
 *   - whether USED counts what was asked for, or that rounded up: twin_used_unit, 1 for unrounded, else the
 *     multiple that each size is rounded up to.  It is taken to fall when a free is called.  If a divergence
 *     is as large as the other answer would make it, the text says so.
 *   - where blocks go within what is reserved: neither the order in which a driver looks at free blocks nor
 *     how it joins them is documented, and RESERVED depends on both, by steps (32 MiB with the policy "cuda").
 *     A difference up to twin_reserved_tolerance bytes is counted, and no divergence.
 *   - what a driver gives back on its way to an allocation that fails, and what happens between a wait
 *     and the comparison when several threads use the pool: `disturbed` counts both; RESERVED may then differ.
 *   - which of two operations came first when one is within an owner's callback and must not wait for the other:
 *     counted there, too, and peaks are not compared after that until both are set to 0.
 */

/* USED is counted as requested: seen by users, not documented. */
#define SOMA_TWIN_USED_UNIT 1u

struct soma_twin_figure {
	uint64_t differences;   /* comparisons in which it was not the same */
	uint64_t largest;       /* the largest of them, in bytes */
	uint64_t first;         /* the comparison with the first, from 1; 0: none */
	uint64_t model, driver; /* at the first */
};

/* The first time that one of two figures differed by more than is allowed. */
struct soma_twin_divergence {
	bool happened;
	enum soma_pool_attribute figure; /* SOMA_POOL_USED_* or SOMA_POOL_RESERVED_* */
	uint64_t model, driver;
	uint64_t comparison; /* its number, from 1 */
	uint64_t operation;  /* of so many operations of the pool */
	const char *text;    /* a sentence or more */
	/* A soma trace (soma-trace(5)): what was live before the latest 512 operations, and those, for
	 * `soma replay --complete=sync`.  "" without memory. */
	const char *trace;
};

struct soma_twin_report {
	size_t size;         /* set by the caller: sizeof(struct soma_twin_report) */
	uint64_t compared;   /* comparisons that were made */
	uint64_t skipped;    /* those that could not: no memory, or the backend did not answer */
	uint64_t disturbed;  /* operations that the model cannot follow exactly */
	uint64_t operations; /* allocations, frees, events, waits, synchronisations and trims */
	struct soma_twin_figure used, used_high, reserved, reserved_high;
	struct soma_twin_divergence used_divergence;
	struct soma_twin_divergence reserved_divergence;
};

/* Until now.  Texts are the pool's, and stay as long as it does.  A divergence is also a warning of the log.
 * SOMA_STATUS_NOT_SUPPORTED: the pool was made without `twin`. */
enum soma_status soma_pool_twin(struct soma_pool *pool, struct soma_twin_report *report);

/* ---- other devices and processes --------------------------------------------- */

/* Lets another device use all memory of the resource's backend, or no more.  SOMA_STATUS_NOT_SUPPORTED: a
 * pool alone, a backend that cannot, a device that cannot reach it. */
enum soma_status soma_pool_peer_access(struct soma_pool *pool, int device, bool enable);

enum soma_pool_handle {
	SOMA_POOL_HANDLE_NONE = 0,
	SOMA_POOL_HANDLE_POSIX_FD = 1,
};

/* A descriptor of the backend's pool, which the caller closes; NONE gives -1.  SOMA_STATUS_NOT_SUPPORTED,
 * with the reason: only a pool with PLACEMENT_BACKEND over a backend that exports has one. */
enum soma_status soma_pool_export(struct soma_pool *pool, enum soma_pool_handle kind, int *descriptor);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

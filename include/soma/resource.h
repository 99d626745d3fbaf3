/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources: device memory in stream order, with an account of every byte.
 *
 * A resource serves one device.  It is a stack: at the bottom (the terminal) a
 * backend, above it budgets (<soma/budget.h>) and traces, each with the same
 * interface.  What a decorator does not do itself it forwards, so any resource of a stack
 * answers any of these calls.  There is one ledger a terminal, and every
 * resource above it answers with that ledger.
 *
 * A block is live until it is deallocated; then it is retired until its stream
 * is known to have passed the free (or, under a guard, until the guard lets go of
 * it); then it is gone.  Live and retired bytes are outstanding: they are what budgets count.
 *
 * Units: every size is in bytes.  Device addresses are uint64_t; they are pointers
 * of this process only where the backend says so.
 *
 * Thread safety: everything here may be called from any thread at any time on the same
 * resource.  No lock is held while the device is waited for.  Not across fork: a child of a process that had
 * something open must leave the library alone, since a thread that is not there any more may hold a lock in it.
 *
 * Ownership: a resource is counted (retain, release); a decorator keeps what is
 * under it.  Blocks may be deallocated through any resource of the stack that
 * made them.  Releasing the last reference to a stack gives up its outstanding blocks with
 * it; that is logged as a warning.
 *
 * Errors: outputs are written only on SOMA_STATUS_OK, and soma_error_last() says
 * what went wrong.  Unless it says otherwise a call may return
 * SOMA_STATUS_INVALID_VALUE for a bad argument, SOMA_STATUS_OUT_OF_HOST_MEMORY when soma's own
 * records cannot grow, and what the backend returned.
 *
 * Since 0.1.
 */
#ifndef SOMA_RESOURCE_H
#define SOMA_RESOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <soma/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct soma_resource;

/* Both take NULL.  retain returns its argument. */
struct soma_resource *soma_resource_retain(struct soma_resource *resource);
void soma_resource_release(struct soma_resource *resource);

/* The device's ordinal. */
int soma_resource_device(const struct soma_resource *resource);

/* ---- tags: who holds memory ------------------------------------------------ */

/*
 * A tag is a name as a small number, the same for the whole process and never
 * forgotten.  There may be SOMA_TAG_COUNT_MAX of them: any further name becomes
 * SOMA_TAG_OVERFLOW, whose name says so.  A name is at most
 * SOMA_TAG_NAME_MAX bytes, and is cut there.
 */
#define SOMA_TAG_COUNT_MAX 1024
#define SOMA_TAG_NAME_MAX 127
#define SOMA_TAG_NONE 0u
#define SOMA_TAG_OVERFLOW 1u

/* The tag of this name; NULL and "" give SOMA_TAG_NONE.  Never fails. */
uint32_t soma_tag_intern(const char *name);

/* "" for SOMA_TAG_NONE and for what is no tag.  The string stays. */
const char *soma_tag_name(uint32_t tag);

/*
 * The calling thread's stack of tags: requests that have no tag of their own take
 * the one on top.  Up to 64 deep: a deeper push counts, but is not remembered.
 * pop on an empty stack does nothing.
 */
void soma_tag_push(uint32_t tag);
void soma_tag_pop(void);

/* ---- blocks ---------------------------------------------------------------- */

struct soma_request {
	size_t size;        /* sizeof(struct soma_request) */
	uint64_t bytes;     /* at least 1 */
	uint64_t alignment; /* a power of two; 0: the backend's own, at least 256 */
	uint64_t stream;    /* a stream's id; 0: the legacy default stream */
	uint32_t tag;       /* SOMA_TAG_NONE: the top of the thread's stack */
	uint64_t pressure;  /* bytes promised to others: budgets must have room for these too */
};

/* Names a block for ever: a stale one is found out. */
struct soma_block_id {
	uint64_t handle;
	uint64_t generation;
};

enum soma_block_state {
	SOMA_BLOCK_FREED = 0,       /* or never a block of this stack */
	SOMA_BLOCK_LIVE = 1,
	SOMA_BLOCK_RETIRED = 2,     /* freed; its stream is not known to be past it */
	SOMA_BLOCK_QUARANTINED = 3, /* freed; a guard holds it */
};

/*
 * A block as it was when it was made.  The caller sets `size` (0 stands for
 * the fields that are here now); materialize fills the rest.
 */
struct soma_block {
	size_t size; /* sizeof(struct soma_block) */
	uint64_t ptr;
	uint64_t bytes; /* as requested: what budgets and the ledger count */
	uint64_t alignment;
	uint64_t stream;
	/* Its generation is greater than that of any earlier block at this address, and of
	 * any block that this thread made before. */
	struct soma_block_id id;
	int device;
	uint32_t tag;
	enum soma_block_state state;
};

/*
 * Makes a block whose memory work queued on the request's stream may use from now on.
 *
 * When the backend is out of memory or a budget is exhausted, it tries, and tries the
 * request again after each: to reap finished frees; to have a guard settle, then drain its
 * quarantine; to trim the backend's pool; short of device memory, all of it again after a
 * synchronisation of the device (it waits); then the owner's callback (below).
 *
 * SOMA_STATUS_OUT_OF_BUDGET: the error has {requested, current, remaining, limit, promised, retired} of
 * the budget that was short; a request larger than a limit is refused at once.  Where requested is more than
 * remaining - promised, but not by more than retired, waiting for the streams helps, else only freeing does.
 * SOMA_STATUS_OUT_OF_DEVICE_MEMORY: the backend had no room.
 * For both the text says what was tried and who holds most.
 */
enum soma_status soma_resource_materialize(struct soma_resource *resource, const struct soma_request *request,
					   struct soma_block *block);

/* materialize with the backend's alignment and the thread's tag. */
enum soma_status soma_resource_allocate(struct soma_resource *resource, uint64_t bytes, uint64_t stream,
					struct soma_block *block);
enum soma_status soma_resource_allocate_with_reservation_pressure(struct soma_resource *resource,
								  uint64_t bytes, uint64_t stream,
								  uint64_t pressure, struct soma_block *block);

/*
 * Ends the block, in the order of its stream, after all uses that were recorded for it on
 * other streams.  The block is retired afterwards, or gone.
 * SOMA_STATUS_USE_AFTER_FREE: it was freed before; whatever is at its address
 * now stays.  SOMA_STATUS_INVALID_VALUE: not a block of this stack.
 * After any other error the block is live as before.
 */
enum soma_status soma_resource_deallocate(struct soma_resource *resource, const struct soma_block *block);

enum soma_block_state soma_resource_block_state(struct soma_resource *resource, struct soma_block_id block);

/* Accounts a live block to another tag from now on. */
enum soma_status soma_resource_set_tag(struct soma_resource *resource, struct soma_block_id block, uint32_t tag);

/* ---- accounts --------------------------------------------------------------- */

/* Live and retired bytes of the whole stack, whoever allocated them. */
uint64_t soma_resource_bytes_outstanding(struct soma_resource *resource);

/* Exact when no call is under way; otherwise some moment's value for each field. */
struct soma_ledger {
	size_t size; /* set by the caller: sizeof(struct soma_ledger) */
	uint64_t live_bytes;
	uint64_t live_count;
	uint64_t retired_bytes; /* freed and not gone, quarantined ones included */
	uint64_t retired_count;
	uint64_t alloc_count; /* ever */
	uint64_t free_count;  /* ever */
};

enum soma_status soma_resource_ledger(struct soma_resource *resource, struct soma_ledger *ledger);

struct soma_tag_account {
	uint32_t tag;
	uint64_t live_bytes;
	uint64_t live_count;
	uint64_t alloc_count; /* ever */
};

/* Calls visit for every tag that was ever used here, until it returns false; the account is valid
 * during the call, which holds no lock. */
void soma_resource_walk_tags(struct soma_resource *resource,
			     bool (*visit)(void *context, const struct soma_tag_account *account),
			     void *context);

struct soma_budget_snapshot {
	size_t size; /* set by the caller: sizeof(struct soma_budget_snapshot) */
	uint64_t limit;
	uint64_t reserved;  /* live and retired bytes that it counts */
	uint64_t remaining; /* limit - reserved, at least 0 */
	uint64_t promised;  /* bytes that reservations hold out of what remains */
};

/* Answered by the outermost budget.  SOMA_STATUS_NOT_FOUND: the stack has none. */
enum soma_status soma_resource_budget_snapshot(struct soma_resource *resource,
					       struct soma_budget_snapshot *snapshot);

/* Completes the frees whose streams are past them, without waiting; a guard takes them into its quarantine, which may
 * find damage.  Never needed for correctness.  Streams of the host run only when they are waited for. */
enum soma_status soma_resource_reap_pending(struct soma_resource *resource);

/* Reaps, then has the backend's pool give back free memory down to `keep` reserved bytes,
 * never below.  A no-op where there is no pool. */
enum soma_status soma_resource_trim_to(struct soma_resource *resource, uint64_t keep);

/*
 * The last resort before a request fails: frees or spills something and returns
 * true to have the request tried again, up to SOMA_PRESSURE_ATTEMPTS_MAX times a request.
 * bytes_needed is what is missing, attempt counts from 1.  One call runs at a time; a request made within it
 * that runs short fails without calling it again, and without calling another stack's callback that is
 * running already.  It must not wait for a thread that may be
 * allocating from this stack.
 */
#define SOMA_PRESSURE_ATTEMPTS_MAX 8
typedef bool soma_pressure_callback(void *context, uint64_t bytes_needed, unsigned attempt);

/* For requests through this resource and through what is above it without a callback of
 * its own.  NULL takes it away.  Waits for a call that is under way, so what the old callback
 * uses may go afterwards; not so from within a callback. */
void soma_resource_set_pressure_callback(struct soma_resource *resource, soma_pressure_callback *callback,
					 void *context);

/* ---- streams ---------------------------------------------------------------- */

/*
 * Streams have ids of soma's own, never used twice, unlike the driver's handles.
 * 0 is the legacy default stream and always there.  flags: SOMA_STREAM_* of <soma/model.h>.
 * wrap: a stream that somebody else made, by the driver's handle; it must stay until
 * destroyed here, which does not destroy it there.
 * destroy: frees that are pending on it are completed as before.
 * synchronize waits for the stream, then reaps.
 */
enum soma_status soma_resource_stream_create(struct soma_resource *resource, unsigned flags, uint64_t *stream);
enum soma_status soma_resource_stream_wrap(struct soma_resource *resource, uint64_t native, uint64_t *stream);
enum soma_status soma_resource_stream_destroy(struct soma_resource *resource, uint64_t stream);
enum soma_status soma_resource_stream_synchronize(struct soma_resource *resource, uint64_t stream);

/* ---- uses on other streams ---------------------------------------------------- */

enum soma_access {
	SOMA_ACCESS_READ = 1,
	SOMA_ACCESS_WRITE = 2,
	SOMA_ACCESS_READ_WRITE = 3, /* counts as a write */
};

/* A use between prepare and finish.  It may be dropped when no work was queued. */
struct soma_use {
	size_t size; /* set by the caller: sizeof(struct soma_use); 0 as in struct soma_block */
	struct soma_block_id block;
	uint64_t stream;
	enum soma_access access;
	uint64_t seen;           /* uses that ended before prepare and that this one waits for */
	enum soma_status status; /* of finish */
};

/* Whether order between streams can be kept here.  Where it cannot, the three calls
 * below fail with SOMA_STATUS_STREAM_MISUSE. */
bool soma_resource_supports_use_tracking(struct soma_resource *resource);

/*
 * Before work on `stream` that uses the block is queued: makes the stream wait for the last
 * write (the allocation counts as the first one) and, for a write, for all reads since.
 * Uses on the same stream need no wait.  SOMA_STATUS_USE_AFTER_FREE: the block was freed.
 */
enum soma_status soma_resource_prepare_use(struct soma_resource *resource, struct soma_block_id block,
					   uint64_t stream, enum soma_access access, struct soma_use *use);

/*
 * After the work was queued: later uses, and the free, wait for it.  All uses must be of one
 * stream, and cost one event together.  Every use is recorded that can be; uses[i].status says which
 * were not (USE_AFTER_FREE: the block was freed meanwhile), and the result is the first such status.
 */
enum soma_status soma_resource_finish_use(struct soma_resource *resource, struct soma_use *uses, size_t count);

/* A use of unknown access by work already queued on the stream, which was not
 * prepared: later uses and the free wait for it. */
enum soma_status soma_resource_record_use(struct soma_resource *resource, struct soma_block_id block,
					  uint64_t stream);

/* ---- traces ------------------------------------------------------------------ */

#define SOMA_TRACE_IMPATIENT UINT32_MAX /* as patience_ms: no waiting */

struct soma_trace_config {
	size_t size;           /* sizeof(struct soma_trace_config) */
	const char *path;      /* written from its beginning; opened within the call; NULL: to `descriptor` */
	int descriptor;        /* the caller's; stays open */
	uint32_t ring_events;  /* room for events on their way; 0: 16384 */
	uint32_t patience_ms;  /* how long a call waits for room before its event is dropped; 0: 1000 */
	uint32_t flush_ms;     /* an event is in the file after at most about this; 0: 100 */
};

/* What was written.  Exact after soma_trace_flush(). */
struct soma_trace_stats {
	size_t size;           /* set by the caller: sizeof(struct soma_trace_stats) */
	uint64_t events;       /* lines written, without the header and remarks */
	uint64_t dropped;      /* events for which there was no room, or that could not be written */
	uint64_t live_bytes;   /* by the events written */
	uint64_t peak_bytes;   /* highest live_bytes, in the order of the trace */
	int error;             /* errno of the first failed write */
};

/*
 * A decorator that writes what happens to blocks made through it, as soma-trace(5).  A thread of its own writes;
 * it starts with the first event and ends with the trace.  An event that is dropped is counted,
 * logged, and said by a `mark` line at its place; and then calls do not wait for room again until there is some.
 * A free is written before it takes effect.  After fork, the child writes nothing.
 * SOMA_STATUS_IO: the file cannot be written.
 */
enum soma_status soma_trace_create(struct soma_resource *inner, const struct soma_trace_config *config,
				   struct soma_resource **trace);

/* For a trace or what is above it: the nearest one.  NOT_FOUND: there is none.  flush: everything
 * up to now is in the file; SOMA_STATUS_IO if it could not be written. */
enum soma_status soma_trace_flush(struct soma_resource *resource);
enum soma_status soma_trace_stats(struct soma_resource *resource, struct soma_trace_stats *stats);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

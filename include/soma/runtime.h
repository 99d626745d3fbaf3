/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtimes: a device opened by one configuration string.
 *
 * A runtime has a backend, the resource stack over it (<soma/resource.h>) and the streams.
 * The string says which backend, and what is stacked on it:
 *
 *   backend=guard:async,budget=8G,trace=run.csv,guard.quarantine_bytes=64M
 *
 * soma.conf(5) has all keys.  Nothing is opened, started or read from the environment before
 * the first call here.
 *
 * Thread safety: everything here may be called from any thread at any time, but not by a forked child of a
 * process that had something open.
 *
 * Ownership: a runtime is counted (retain, release).  It keeps its resource; a caller that retains
 * the resource may go on with that after the runtime is gone.
 *
 * Errors: as in <soma/resource.h>.  A call that fails leaves nothing open.
 *
 * Since 0.1.
 */
#ifndef SOMA_RUNTIME_H
#define SOMA_RUNTIME_H

#include <soma/budget.h>
#include <soma/pool.h>
#include <soma/resource.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct soma_runtime;

/* ---- open, close ------------------------------------------------------------ */

/*
 * Opens a new runtime.  configuration: "" for the defaults; NULL for what the variable SOMA_CONF of
 * the environment says (the defaults where it is not set, and in a set-user-id process).
 *
 * SOMA_STATUS_INVALID_VALUE: an unknown key or a bad value; the text says at which character, and
 * names a key that is near, if there is one.  SOMA_STATUS_NOT_FOUND: there is no such backend or device.
 * SOMA_STATUS_IO: the trace cannot be written.  Others: what the backend returned.
 */
enum soma_status soma_runtime_open(const char *configuration, struct soma_runtime **runtime);

/*
 * The one runtime of the device, with one reference more.  The first call opens it, as SOMA_CONF says, but
 * for `device`; others, from any thread, get the same until the last reference is released.
 */
enum soma_status soma_runtime_for_device(int device, struct soma_runtime **runtime);

/* Both take NULL.  retain returns its argument. */
struct soma_runtime *soma_runtime_retain(struct soma_runtime *runtime);

/*
 * The last release closes: the trace is written to its end, then the backend is closed, which may wait for
 * its work.  A default pool over its resource ends before (soma_pool_default()).  Blocks that are
 * outstanding are given up with it, and so is memory of a guard, which reports leaks then.  What keeps the
 * resource, as pools do that the program made, keeps the backend open until it goes.  A process that ends
 * without it loses what its trace had not written yet: about the last 100 ms.
 */
void soma_runtime_release(struct soma_runtime *runtime);

/* Everything until now is in the trace's file.  Does nothing without a trace. */
enum soma_status soma_runtime_flush(struct soma_runtime *runtime);

/* ---- what it is --------------------------------------------------------------- */

/* The top of the stack: budget over trace over backend, as configured.  Valid as long as the
 * runtime; retain it for longer. */
struct soma_resource *soma_runtime_resource(struct soma_runtime *runtime);

int soma_runtime_device(const struct soma_runtime *runtime);

/* The backend by its name from outside in, "guard:host": what `auto` chose, too.  Valid as long as the runtime. */
const char *soma_runtime_backend(const struct soma_runtime *runtime);

/* What a runtime can do. */
enum soma_capability {
	SOMA_CAPABILITY_STREAM_ORDERED = 1 << 0,  /* alloc and free take effect in stream order */
	SOMA_CAPABILITY_USE_TRACKING = 1 << 1,    /* <soma/launch.h> works */
	SOMA_CAPABILITY_CAPTURE = 1 << 2,         /* allocations on a capturing stream become a graph's */
	SOMA_CAPABILITY_HOST_ACCESSIBLE = 1 << 3, /* a block's ptr is a pointer of this process */
	SOMA_CAPABILITY_LOST = 1 << 5,            /* an error that stays: the device is beyond use */
	SOMA_CAPABILITY_STREAMS = 1 << 16,        /* streams can be made and wrapped */
	SOMA_CAPABILITY_POOL = 1 << 20,           /* the backend keeps freed memory in a pool */
	SOMA_CAPABILITY_EXPORT = 1 << 21,         /* memory can be shared with other processes */
	SOMA_CAPABILITY_PEERS = 1 << 22,          /* ... and with other devices */
	SOMA_CAPABILITY_GUARD = 1 << 24,          /* there is a guard, see below */
};

struct soma_runtime_info {
	size_t size;           /* set by the caller: sizeof(struct soma_runtime_info) */
	uint64_t capabilities; /* of enum soma_capability */
	uint64_t alignment;    /* that every block has, in bytes; as what follows */
	uint64_t granularity;  /* a sensible step for large requests */
	uint64_t total;        /* the device's memory */
	uint64_t free;         /* what of it could be had now, by anybody */
	int device;            /* the ordinal, from 0 */
	int driver_version; /* the driver's own number; 0: there is no driver */
	char device_name[96]; /* for people: "NVIDIA H100", "host memory" */
};

enum soma_status soma_runtime_query(struct soma_runtime *runtime, struct soma_runtime_info *info);

/* soma_reservation_create() at the top of the stack; soma_reservation_destroy() ends it. */
enum soma_status soma_runtime_reserve(struct soma_runtime *runtime, uint64_t bytes,
				      struct soma_reservation **reservation);

/*
 * A pool (<soma/pool.h>) over the top of the stack, with the configuration's placement, max_pool_size and
 * release_threshold (auto: it keeps all).  It keeps the resource, and may outlive the runtime.
 */
enum soma_status soma_runtime_pool_create(struct soma_runtime *runtime, struct soma_pool **pool);

/* ---- streams -------------------------------------------------------------------- */

/*
 * Streams by ids of soma's own, which are never used twice.  A driver's handle is: when a stream is destroyed, a
 * new one may get its value.  So handles are told apart by what the driver knows of them, and a handle stands
 * for the stream that has it at the moment of the call.
 *
 * All fail with SOMA_STATUS_NOT_SUPPORTED where there are no streams, but for stream 0.
 */

/* A new stream.  flags: SOMA_STREAM_* of <soma/model.h>. */
enum soma_status soma_runtime_stream_acquire(struct soma_runtime *runtime, unsigned flags, uint64_t *stream);

/*
 * The id of a stream that somebody else made, by the driver's handle; the same one as long as that stream
 * exists.  It must not be destroyed before it is released here as often as it was wrapped; that does not
 * destroy it there.  The handle of a stream of ours gives its id, and counts as well.
 * The handle of the per-thread default stream is another stream in each thread: its id is for the thread that wrapped
 * it, and what another one asks of it, releasing it included, is SOMA_STATUS_STREAM_MISUSE.
 */
enum soma_status soma_runtime_stream_wrap(struct soma_runtime *runtime, uint64_t native, uint64_t *stream);

/* The same without counting.  SOMA_STATUS_NOT_FOUND: the stream that has this handle now was neither
 * acquired nor wrapped, or is released. */
enum soma_status soma_runtime_stream_resolve(struct soma_runtime *runtime, uint64_t native, uint64_t *stream);

/* The driver's handle. */
enum soma_status soma_runtime_stream_native(struct soma_runtime *runtime, uint64_t stream, uint64_t *native);

/*
 * Ends one acquire or wrap.  With the last one the stream is gone here, and an acquired one altogether:
 * work that is queued still runs, and pending frees are completed as before.  Of stream 0 it does nothing.
 */
enum soma_status soma_runtime_stream_release(struct soma_runtime *runtime, uint64_t stream);

/* ---- the guard --------------------------------------------------------------------- */

/*
 * For a resource of a stack with a guard in it; without one all fail with SOMA_STATUS_NOT_FOUND.
 */

/* Bytes are those that were asked for. */
struct soma_guard_stats {
	size_t size;      /* set by the caller: sizeof(struct soma_guard_stats) */
	uint64_t reports; /* ever, also those that were not written */
	uint64_t live_blocks;
	uint64_t retired_blocks; /* freed, their streams not yet past it */
	uint64_t retired_bytes;
	uint64_t quarantined_blocks;
	uint64_t quarantined_bytes;
	uint64_t condemned_blocks; /* found damaged: never given out again */
	uint64_t condemned_bytes;
};

enum soma_status soma_guard_stats(struct soma_resource *resource, struct soma_guard_stats *stats);

/* Looks at every redzone and at all quarantined memory now; *damaged is the number of new reports.  May
 * wait for the device. */
enum soma_status soma_guard_scan(struct soma_resource *resource, uint64_t *damaged);

struct soma_guard_report {
	size_t size;
	const char *kind; /* "double-free" */
	uint64_t ptr;
	const char *text; /* many lines */
	const char *json; /* one line */
};

/* The report is valid during the call, which may come from any thread, with no lock held. */
typedef void soma_guard_listener(void *context, const struct soma_guard_report *report);

/* Where reports go with guard.on_error=callback; NULL: nowhere.  What a listener uses
 * must stay until the stack is gone, also when another takes its place: a report may be on its way, and the end
 * of the stack reports leaks. */
enum soma_status soma_guard_listen(struct soma_resource *resource, soma_guard_listener *listener,
				   void *context);

/* ---- the configuration's keys --------------------------------------------------------- */

struct soma_option_info {
	const char *name; /* "budget", "guard.mode" */
	const char *default_text;
	const char *doc;    /* one line */
	const char *module; /* the backend that it belongs to; NULL: to all */
};

/*
 * Visits every key, those of the modules that are found last, until visit returns false.  search: folders with
 * colons between them, looked in before the others; NULL: none.  The strings are valid during the call.
 */
enum soma_status
soma_runtime_walk_options(const char *search,
			  bool (*visit)(void *context, const struct soma_option_info *option), void *context);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

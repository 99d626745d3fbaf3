/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of backends: what a module must export so that soma can take
 * device memory from it.  For authors of modules; programs that only use soma
 * need nothing of this.
 *
 * A module is a shared object, NAME.so, with one symbol of interest:
 *
 *   SOMA_BACKEND_EXPORT const struct soma_backend_module soma_backend_module = {
 *           .abi = SOMA_BACKEND_ABI,
 *           .size = sizeof(struct soma_backend_module),
 *           .name = "NAME", .version = "1.0", .description = "one line",
 *           .ops = &ops,
 *   };
 *
 * It links nothing of soma: what it needs from the library comes in a table at
 * open (struct soma_backend_host).  The functions that <soma/status.h> declares
 * are therefore not for modules; its enum soma_status is.  A module is never
 * unloaded once it was opened, so it may have threads.  It must do nothing when
 * it is merely loaded (no constructors, no environment), and may be open several
 * times at once: state belongs into its struct soma_backend.
 *
 * Versions.  SOMA_BACKEND_ABI changes only when something here changes its meaning or
 * its place; a module of another number is refused before anything in it is
 * called.  Within a number, structs only grow at their end:
 *   - a struct that the module gives (module, ops, error) says its size; the library reads it
 *     into a larger zeroed one, or ignores the tail that it does not know;
 *   - a struct that the library gives (open, host, inner) says its size; a field beyond the
 *     ones that came with this number must be looked for with SOMA_BACKEND_HAS();
 *   - a struct that the library has the module fill (info, stream_info) comes with
 *     its size set; the module writes nothing beyond it;
 *   - what comes in arrays without a size of its own (option, option_info, scan) never grows.
 *
 * Threads.  Every function may be called by any number of threads at once, but
 * nothing else runs on a backend during open and close.  A function may wait for work on
 * a stream only where it is said here ("may wait"); the library holds no lock
 * then.
 *
 * Fork.  A child is to leave alone what was open before it (<soma/resource.h>).  What a module does by itself
 * there, at exit for instance, must not touch the device, which is the parent's, nor say anything.
 *
 * Errors.  A function that returns anything but SOMA_STATUS_OK has had no effect, has not
 * written its outputs and has called host->fail() with a text for people, on the
 * same thread, unless it passes on what an inner backend returned.  The synchronising functions
 * differ: they have waited, even if they report an error of the work.  Errors of earlier work are
 * reported once, by the call that met them, with SOMA_BACKEND_ERROR_DEFERRED.  When the device is
 * beyond use (a sticky error), every function but close and query returns
 * SOMA_STATUS_DRIVER at once without calling the driver, and query says SOMA_BACKEND_LOST.
 *
 * Addresses are uint64_t: they are the device's and not to be dereferenced, unless the
 * backend is SOMA_BACKEND_HOST_ACCESSIBLE.  Sizes are bytes.
 *
 * Since 0.1.
 */
#ifndef SOMA_BACKEND_H
#define SOMA_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <soma/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOMA_BACKEND_ABI 1u

/* The name of the symbol, for dlsym. */
#define SOMA_BACKEND_SYMBOL "soma_backend_module"

/* For modules built with -fvisibility=hidden. */
#ifdef __cplusplus
#define SOMA_BACKEND_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define SOMA_BACKEND_EXPORT __attribute__((visibility("default")))
#endif

/* Whether a struct that says its size has this field: SOMA_BACKEND_HAS(host, released). */
#define SOMA_BACKEND_HAS(p, field) \
	((p)->size >= (size_t)((const char *)&(p)->field - (const char *)(p)) + sizeof((p)->field))

/*
 * Each module defines these for itself: an open backend, a stream, an event, an
 * imported pool.  A backend around another one passes the inner one's through,
 * or defines its own.
 */
struct soma_backend;
struct soma_backend_stream;
struct soma_backend_event;
struct soma_backend_import;

/* ---- what the library gives ------------------------------------------------ */

/* The library's arena; see struct soma_backend_host. */
struct soma_backend_arena;

enum soma_backend_log_level {
	SOMA_BACKEND_LOG_ERROR = 0,
	SOMA_BACKEND_LOG_WARNING = 1,
	SOMA_BACKEND_LOG_INFO = 2,
	SOMA_BACKEND_LOG_DEBUG = 3,
};

enum soma_backend_error_flags {
	SOMA_BACKEND_ERROR_DEFERRED = 1, /* it is earlier work's, met by this call */
	SOMA_BACKEND_ERROR_STICKY = 2,   /* the device is beyond use from now on */
};

/* What is known of an error.  A field without a meaning for it is 0. */
struct soma_backend_error {
	size_t size; /* sizeof(struct soma_backend_error) */
	enum soma_status status;
	int driver_code;    /* the driver's own code */
	uint32_t flags;     /* of enum soma_backend_error_flags */
	uint64_t requested; /* bytes asked for */
	uint64_t current;   /* bytes in use when they were refused */
	uint64_t remaining; /* bytes that were left */
	uint64_t limit;     /* the limit that was met */
	const char *text;   /* one sentence that says what, where, what was expected; copied */
};

/* An open backend under another one. */
struct soma_backend_inner {
	size_t size;
	const char *name;
	const struct soma_backend_ops *ops; /* whole: what the module lacks is NULL */
	struct soma_backend *self;
	/* What it said at open, without the groups whose ops it lacks.  Its own query may claim more:
	 * of that only what is here too, and SOMA_BACKEND_LOST, is to be believed. */
	uint64_t capabilities;
};

/*
 * The library's side.  Valid, with all that it points to, until close has returned.
 * Everything in it may be called from any thread, but not from a signal handler.
 * released may call ops, so the caller holds no lock that an op takes; the others call
 * nothing back.
 */
struct soma_backend_host {
	size_t size; /* see "Versions" above */
	void *context;

	/* One line without a newline. */
	void (*log)(void *context, enum soma_backend_log_level level, const char *text);

	/* Records the calling thread's error and returns error->status. */
	enum soma_status (*fail)(void *context, const struct soma_backend_error *error);

	/*
	 * Memory for the backend's records: `alignment` is a power of two or 0 (16
	 * bytes); not cleared; NULL without memory, and then the error is recorded.  free
	 * takes the size that was asked for.  What is left at close is lost with the arena.
	 */
	void *(*alloc)(void *context, size_t size, size_t alignment);
	void (*free)(void *context, void *memory, size_t size);

	/* Another arena, with nothing in it but what the backend puts there; on huge
	 * pages when it is large.  arena_destroy gives back all of it; NULL is allowed. */
	enum soma_status (*arena_create)(void *context, struct soma_backend_arena **arena);
	void (*arena_destroy)(struct soma_backend_arena *arena);
	void *(*arena_alloc)(struct soma_backend_arena *arena, size_t size, size_t alignment);
	void (*arena_free)(struct soma_backend_arena *arena, void *memory, size_t size);

	/* Reads "64M", "1.5GiB", "4096", as everywhere in a configuration string.  On
	 * failure the error says what is wrong with the text, not which option it is. */
	enum soma_status (*parse_size)(void *context, const char *text, uint64_t *bytes);

	/*
	 * Memory that free had taken and kept (SOMA_BACKEND_KEEPS_FREED) has gone back: `ptr`
	 * as alloc gave it, `size` as alloc was told.  Called from within any op, exactly once for each
	 * block that free took, before the same address is given out again; but never for a condemned
	 * one (struct soma_backend_guard_stats), nor for what is left at close: close itself must not call it.
	 */
	void (*released)(void *context, uint64_t ptr, uint64_t size);

	/* What this backend was asked to be around: `guard:host` has host here.  NULL: nothing.
	 * The library closes it after this one. */
	const struct soma_backend_inner *inner;
};

/* One option of the configuration string: for `guard.tombstones=4` {"tombstones", "4"} */
struct soma_backend_option {
	const char *key;
	const char *value;
};

struct soma_backend_open {
	size_t size;
	const struct soma_backend_host *host;
	int device; /* ordinal, from 0 */
	/* Only keys of the module's option table, each once; valid during open. */
	size_t option_count;
	const struct soma_backend_option *options;
};

/* ---- what the backend says of itself ---------------------------------------- */

/*
 * What an open backend can do here.  The bits of groups say that the group's ops work; a
 * group's op must not be called without its bit, whether or not the pointer is there (a
 * backend around another has all pointers and its inner one's bits).
 */
enum soma_backend_capability {
	SOMA_BACKEND_STREAM_ORDERED = 1
				      << 0, /* alloc and free take effect in stream order, without waiting */
	SOMA_BACKEND_USE_TRACKING = 1 << 1, /* events order real work: waits that are queued are kept */
	SOMA_BACKEND_CAPTURE = 1 << 2,      /* alloc and free on a capturing stream make graph-owned memory */
	SOMA_BACKEND_HOST_ACCESSIBLE = 1 << 3, /* an address is a pointer of this process */
	SOMA_BACKEND_KEEPS_FREED = 1 << 4,     /* free may keep the memory and call host->released() later */
	SOMA_BACKEND_LOST = 1 << 5,            /* a sticky error: the device is beyond use */

	/* groups */
	SOMA_BACKEND_STREAMS = 1 << 16,
	SOMA_BACKEND_FILLS = 1 << 17,
	SOMA_BACKEND_SCANS = 1 << 18,
	SOMA_BACKEND_SPANS = 1 << 19,
	SOMA_BACKEND_POOL = 1 << 20,
	SOMA_BACKEND_EXPORTS = 1 << 21,
	SOMA_BACKEND_PEERS = 1 << 22,
	SOMA_BACKEND_USES = 1 << 23,
	SOMA_BACKEND_GUARD = 1 << 24,
	SOMA_BACKEND_STEPS = 1 << 25,
};

struct soma_backend_info {
	size_t size;                   /* set by the caller; nothing beyond it is written */
	uint64_t capabilities;         /* of enum soma_backend_capability */
	uint64_t alignment;            /* of every block, in bytes, at least 256 */
	uint64_t granularity;          /* a sensible step for segments taken from it */
	uint64_t span_granularity;     /* SPANS: of addresses and sizes */
	uint64_t total;                /* the device's memory */
	uint64_t free;                 /* what of it could be had now, by anybody */
	int driver_version;            /* the driver's own number; 0: there is no driver */
	char device_name[96];          /* "NVIDIA H100", "host memory" */
	unsigned char device_uuid[16]; /* zero: unknown */
};

/* ---- streams --------------------------------------------------------------- */

enum soma_backend_stream_flags {
	SOMA_BACKEND_STREAM_NON_BLOCKING = 1, /* no implicit order with the legacy default stream */
	/* stream_info says it, and nobody asks for it: the handle is another stream in another thread, so that
	 * every op but stream_destroy is STREAM_MISUSE there. */
	SOMA_BACKEND_STREAM_OF_THREAD = 2,
};

enum soma_backend_stream_kind {
	SOMA_BACKEND_STREAM_LEGACY = 1,     /* the legacy default stream */
	SOMA_BACKEND_STREAM_PER_THREAD = 2, /* the calling thread's default stream; for that thread alone */
};

enum soma_backend_capture {
	SOMA_BACKEND_CAPTURE_NONE = 0,
	SOMA_BACKEND_CAPTURE_ACTIVE = 1,
	SOMA_BACKEND_CAPTURE_INVALIDATED = 2,
};

struct soma_backend_stream_info {
	size_t size;         /* set by the caller */
	uint64_t id;         /* never given twice by this backend, unlike `native` */
	uint64_t native;     /* the driver's handle */
	uint32_t flags;      /* of enum soma_backend_stream_flags */
	uint32_t capture;    /* enum soma_backend_capture */
	uint64_t capture_id; /* of the capture it is in */
};

/* ---- scans ----------------------------------------------------------------- */

#define SOMA_BACKEND_SCAN_CLEAN UINT64_MAX

/*
 * One range to compare with a pattern: the byte at address a must be byte (a & 3) of `pattern` as
 * it lies in memory, as fill32 would write it.  Lies in staging memory.
 */
struct soma_backend_scan {
	uint64_t ptr;
	uint64_t bytes;
	uint32_t pattern;
	uint32_t reserved;  /* 0 */
	uint64_t first_bad; /* out: offset of the first byte that differs, or SOMA_BACKEND_SCAN_CLEAN */
	uint64_t bad_count; /* out: how many differ */
};

/* ---- pool ------------------------------------------------------------------ */

enum soma_backend_attribute {
	SOMA_BACKEND_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
	SOMA_BACKEND_REUSE_ALLOW_OPPORTUNISTIC = 2,
	SOMA_BACKEND_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
	SOMA_BACKEND_RELEASE_THRESHOLD = 4,
	SOMA_BACKEND_RESERVED_CURRENT = 5, /* read only */
	SOMA_BACKEND_RESERVED_HIGH = 6,    /* may be set to 0: becomes the current value */
	SOMA_BACKEND_USED_CURRENT = 7,     /* read only */
	SOMA_BACKEND_USED_HIGH = 8,        /* may be set to 0 */
};

enum soma_backend_handle_kind {
	SOMA_BACKEND_HANDLE_POSIX_FD = 1,
};

/* Names a block of an exported pool in another process. */
struct soma_backend_exported {
	unsigned char opaque[64];
};

/* Bits: what a device or a use may do. */
enum soma_backend_access {
	SOMA_BACKEND_ACCESS_NONE = 0,
	SOMA_BACKEND_ACCESS_READ = 1,
	SOMA_BACKEND_ACCESS_WRITE = 2,
	SOMA_BACKEND_ACCESS_READ_WRITE = 3, /* and a use of unknown kind */
};

/* ---- guard ----------------------------------------------------------------- */

/*
 * Bytes are what alloc was told, without redzones.  So while no call is under way
 * retired, quarantined and condemned bytes together are what free took and released() was not yet
 * called for; what was released already, though the guard still knows it, counts as no bytes.
 */
struct soma_backend_guard_stats {
	size_t size; /* set by the caller */
	uint64_t reports;
	uint64_t live_blocks;
	uint64_t retired_blocks; /* freed, their streams not yet past it */
	uint64_t retired_bytes;
	uint64_t quarantined_blocks;
	uint64_t quarantined_bytes;
	uint64_t condemned_blocks; /* damaged: reported and never given out again */
	uint64_t condemned_bytes;
};

/* One report; both texts are valid during the call. */
struct soma_backend_guard_report {
	size_t size;
	const char *kind; /* "oob-write-after" */
	uint64_t ptr;
	const char *text; /* many lines */
	const char *json; /* one line */
};

/* ---- ops ------------------------------------------------------------------- */

struct soma_backend_ops {
	size_t size; /* sizeof(struct soma_backend_ops) as the module knows it */

	/* ---- mandatory ---- */

	/* Opens the device.  NOT_FOUND: there is no such device or driver; NOT_SUPPORTED: it
	 * cannot do what this backend is for; INVALID_VALUE: an option's value. */
	enum soma_status (*open)(const struct soma_backend_open *how, struct soma_backend **self);

	/* Waits for what is queued, then gives back everything, live blocks, streams and
	 * events included.  May wait. */
	void (*close)(struct soma_backend *self);

	/* Capabilities do not change while it is open, except LOST. */
	enum soma_status (*query)(struct soma_backend *self, struct soma_backend_info *info);

	/*
	 * `size` bytes, at least 1; `alignment` is 0 or a power of two; one above
	 * info.alignment may be NOT_SUPPORTED.  The memory may be used by work queued on
	 * `stream` from now on, and elsewhere once ordered after this point; its contents are undefined.
	 * stream NULL: ready when the call returns (it may wait).
	 * OUT_OF_DEVICE_MEMORY: also when memory would be there after a synchronisation.
	 * STREAM_MISUSE: the stream is capturing and the backend was not opened for it.
	 */
	enum soma_status (*alloc)(struct soma_backend *self, uint64_t size, uint64_t alignment,
				  struct soma_backend_stream *stream, uint64_t *ptr);

	/*
	 * Ends the block when `stream` gets there: work queued on it before is done with
	 * the memory, and the caller has ordered all other work before.  `size` is what alloc
	 * was told.  stream NULL: the caller knows that nothing uses it any more.
	 * Waits for the stream if the backend is not SOMA_BACKEND_STREAM_ORDERED.
	 * INVALID_VALUE: no block of this backend, or freed before, where it can tell; a
	 * backend is to tell if it can at little cost.  Never fails for want of memory.
	 */
	enum soma_status (*free)(struct soma_backend *self, uint64_t ptr, uint64_t size,
				 struct soma_backend_stream *stream);

	/* ---- devices: alone, may be absent (there is one, 0) ---- */

	/* Before open.  A missing driver is an error, not 0 devices. */
	enum soma_status (*device_count)(const struct soma_backend_host *host, int *count);

	/* ---- streams and events: SOMA_BACKEND_STREAMS ---- */

	enum soma_status (*stream_create)(struct soma_backend *self, unsigned flags,
					  struct soma_backend_stream **stream);

	/* A default stream; to be given back with stream_destroy, which leaves the stream itself alone. */
	enum soma_status (*stream_default)(struct soma_backend *self, enum soma_backend_stream_kind kind,
					   struct soma_backend_stream **stream);

	/* A stream that somebody else made, by the driver's handle; it must outlive its
	 * wrapping, and stream_destroy leaves it alone.  NOT_SUPPORTED is an answer. */
	enum soma_status (*stream_wrap)(struct soma_backend *self, uint64_t native,
					struct soma_backend_stream **stream);

	/* Work that is queued on it still runs.  Does not wait.  Cannot fail. */
	void (*stream_destroy)(struct soma_backend *self, struct soma_backend_stream *stream);

	/* Does not wait.  STREAM_MISUSE, of the legacy default stream: a blocking stream is being captured, which
	 * work of the legacy one would spoil. */
	enum soma_status (*stream_info)(struct soma_backend *self, struct soma_backend_stream *stream,
					struct soma_backend_stream_info *info);

	/* Whether all work queued on it is done.  Does not wait. */
	enum soma_status (*stream_query)(struct soma_backend *self, struct soma_backend_stream *stream,
					 bool *done);

	/* Waits for all work queued on it; and on all streams of the device.  May wait. */
	enum soma_status (*stream_synchronize)(struct soma_backend *self, struct soma_backend_stream *stream);
	enum soma_status (*synchronize)(struct soma_backend *self);

	/*
	 * Events for order, without times.  event_record takes the place of what the event
	 * stood for before; waits that are queued keep what it stood for then.  An event that
	 * was never recorded counts as done.  event_destroy at any time; it cannot fail.
	 * flags: 0; others are NOT_SUPPORTED.
	 * STREAM_MISUSE: query or synchronise of an event recorded in a capture.
	 */
	enum soma_status (*event_create)(struct soma_backend *self, unsigned flags,
					 struct soma_backend_event **event);
	void (*event_destroy)(struct soma_backend *self, struct soma_backend_event *event);
	enum soma_status (*event_record)(struct soma_backend *self, struct soma_backend_event *event,
					 struct soma_backend_stream *stream);
	enum soma_status (*event_wait)(struct soma_backend *self, struct soma_backend_event *event,
				       struct soma_backend_stream *stream);
	/* Does not wait, and does not make anything proceed. */
	enum soma_status (*event_query)(struct soma_backend *self, struct soma_backend_event *event,
					bool *done);
	/* May wait. */
	enum soma_status (*event_synchronize)(struct soma_backend *self, struct soma_backend_event *event);

	/* ---- fill and copy: SOMA_BACKEND_FILLS ---- */

	/* In the stream's order; they do not wait.  With stream NULL they are done at return, and may
	 * wait.  fill32: ptr is aligned to 4 bytes; `count` is of words. */
	enum soma_status (*fill8)(struct soma_backend *self, uint64_t ptr, uint8_t value, uint64_t count,
				  struct soma_backend_stream *stream);
	enum soma_status (*fill32)(struct soma_backend *self, uint64_t ptr, uint32_t value, uint64_t count,
				   struct soma_backend_stream *stream);
	enum soma_status (*copy)(struct soma_backend *self, uint64_t to, uint64_t from, uint64_t bytes,
				 struct soma_backend_stream *stream);

	/* The host's memory must stay as it is, or unread, until the stream is past the copy.
	 * With memory not from staging_alloc the call may wait. */
	enum soma_status (*copy_from_host)(struct soma_backend *self, uint64_t to, const void *from,
					   uint64_t bytes, struct soma_backend_stream *stream);
	enum soma_status (*copy_to_host)(struct soma_backend *self, void *to, uint64_t from, uint64_t bytes,
					 struct soma_backend_stream *stream);

	/* Host memory that the device can reach (pinned).  Slow; at init.  staging_free: no
	 * queued work uses it any more.  May wait. */
	enum soma_status (*staging_alloc)(struct soma_backend *self, size_t size, void **memory);
	void (*staging_free)(struct soma_backend *self, void *memory, size_t size);

	/* ---- scans: SOMA_BACKEND_SCANS, needs FILLS ---- */

	/* Compares `count` ranges; `ranges` is staging memory and holds the answers when
	 * the stream is past it (stream NULL: at return). */
	enum soma_status (*scan)(struct soma_backend *self, struct soma_backend_scan *ranges, size_t count,
				 struct soma_backend_stream *stream);

	/* ---- spans: SOMA_BACKEND_SPANS ---- */

	/*
	 * Address range and memory apart.  reserve gives a range where every access
	 * faults; map puts memory of undefined contents behind a part of it; unmap takes it away, so
	 * that accesses fault again; release gives the range back, wholly unmapped.  Addresses and
	 * sizes are multiples of info.span_granularity; a map's or unmap's part may be any within the
	 * range, of which nothing, or all, is mapped.  alignment is 0 or a power of two.  Not ordered with
	 * streams: the caller sees to it that no work uses what is unmapped.  May wait.
	 */
	enum soma_status (*span_reserve)(struct soma_backend *self, uint64_t size, uint64_t alignment,
					 uint64_t *address);
	enum soma_status (*span_map)(struct soma_backend *self, uint64_t address, uint64_t size);
	enum soma_status (*span_unmap)(struct soma_backend *self, uint64_t address, uint64_t size);
	enum soma_status (*span_release)(struct soma_backend *self, uint64_t address, uint64_t size);

	/* ---- pool: SOMA_BACKEND_POOL ---- */

	/* The backend keeps freed memory in a pool.  An attribute that it has not got is
	 * NOT_SUPPORTED.  trim gives back free memory down to `keep` reserved bytes.  May wait. */
	enum soma_status (*pool_get)(struct soma_backend *self, enum soma_backend_attribute attribute,
				     uint64_t *value);
	enum soma_status (*pool_set)(struct soma_backend *self, enum soma_backend_attribute attribute,
				     uint64_t value);
	enum soma_status (*pool_trim)(struct soma_backend *self, uint64_t keep);

	/* ---- sharing with other processes: SOMA_BACKEND_EXPORTS ---- */

	/* A descriptor of the pool, for another process, which owns its copy; the caller closes it. */
	enum soma_status (*export_pool)(struct soma_backend *self, enum soma_backend_handle_kind kind,
					int *descriptor);
	/* Names a live block.  It must be live for as long as anybody has it imported. */
	enum soma_status (*export_block)(struct soma_backend *self, uint64_t ptr,
					 struct soma_backend_exported *name);
	/* The other side.  The descriptor stays the caller's. */
	enum soma_status (*import_pool)(struct soma_backend *self, enum soma_backend_handle_kind kind,
					int descriptor, struct soma_backend_import **import);
	enum soma_status (*import_block)(struct soma_backend *self, struct soma_backend_import *import,
					 const struct soma_backend_exported *name, uint64_t *ptr);
	/* In stream order, as free.  All blocks before their pool. */
	enum soma_status (*import_free)(struct soma_backend *self, struct soma_backend_import *import,
					uint64_t ptr, struct soma_backend_stream *stream);
	void (*import_close)(struct soma_backend *self, struct soma_backend_import *import);

	/* ---- other devices: SOMA_BACKEND_PEERS ---- */

	enum soma_status (*peer_can_access)(struct soma_backend *self, int device, bool *can);
	/* What `device` may do with this backend's memory, old and new blocks alike: NONE or READ_WRITE. */
	enum soma_status (*peer_set_access)(struct soma_backend *self, int device,
					    enum soma_backend_access access);

	/* ---- declared uses: SOMA_BACKEND_USES ---- */

	/*
	 * The library says what it is about to queue: `access` to the live block `ptr` by the next
	 * work of `stream`.  Called after the waits for it were queued and before the event that ends
	 * it is recorded.  USE_AFTER_FREE, STREAM_MISUSE: the backend objects (and has
	 * reported it), and the work should not be queued.
	 */
	enum soma_status (*block_use)(struct soma_backend *self, uint64_t ptr,
				      enum soma_backend_access access, struct soma_backend_stream *stream);
	/* For reports: the library's generation of a live block, and its tag ("" for none; copied). */
	enum soma_status (*block_name)(struct soma_backend *self, uint64_t ptr, uint64_t generation,
				       const char *tag);

	/* ---- guard: SOMA_BACKEND_GUARD ---- */

	/* Moves every retired block on whose streams are past it, without waiting. */
	enum soma_status (*guard_settle)(struct soma_backend *self);
	/* Lets go of quarantined blocks, oldest first, until at most `keep` bytes, counted as in
	 * guard_stats, are left. May wait. */
	enum soma_status (*guard_drain)(struct soma_backend *self, uint64_t keep);
	/* Looks at every redzone and every quarantined block now; `damaged` counts new reports.
	 * May wait. */
	enum soma_status (*guard_scan)(struct soma_backend *self, uint64_t *damaged);
	enum soma_status (*guard_stats)(struct soma_backend *self, struct soma_backend_guard_stats *stats);
	/* Where reports go from now on (on_error=callback); NULL: nowhere.  Called with no lock held, by any
	 * thread; it may call ops. */
	enum soma_status (*guard_listen)(struct soma_backend *self,
					 void (*listener)(void *context,
							  const struct soma_backend_guard_report *report),
					 void *context);

	/* ---- steps: SOMA_BACKEND_STEPS, for streams that run only when told ---- */

	/* Runs up to `count` queued operations of the stream, as far as it can without
	 * running another stream; `*ran` may be NULL. */
	enum soma_status (*stream_step)(struct soma_backend *self, struct soma_backend_stream *stream,
					uint64_t count, uint64_t *ran);
	/* How many operations were queued on the stream ever, and how many of them have run. */
	enum soma_status (*stream_position)(struct soma_backend *self, struct soma_backend_stream *stream,
					    uint64_t *queued, uint64_t *run);

	/* ---- misuse: alone, may be absent ---- */

	/*
	 * For reports: the library was asked to free (access NONE) or to use a block that is not there, and
	 * refuses.  `generation` is what block_name was told of it; 0: it never was a block here.  What is at
	 * `ptr` now is another one, or none, or this one while another thread's free of it is under way.
	 * ptr 0, stream NULL: unknown.
	 */
	void (*block_stale)(struct soma_backend *self, uint64_t ptr, uint64_t generation,
			    enum soma_backend_access access, struct soma_backend_stream *stream);

	/* ---- names: alone, may be absent ---- */

	/* For reports: the number that the program knows the stream by.  Told before anything is done with the
	 * stream, and anew when it gets another one; until then its id stands for it. */
	void (*stream_name)(struct soma_backend *self, struct soma_backend_stream *stream, uint64_t name);

	/* ---- a free and its end in one: alone, may be absent; STREAM_ORDERED, STREAMS ---- */

	/*
	 * free, and event_record right behind it on the same stream, at less than the cost of both.  The answer is
	 * the free's; *recorded says whether the event was recorded, too.
	 */
	enum soma_status (*free_recorded)(struct soma_backend *self, uint64_t ptr, uint64_t size,
					  struct soma_backend_stream *stream,
					  struct soma_backend_event *event, bool *recorded);
};

/* ---- the module -------------------------------------------------------------- */

/* A row of the module's option table.  The option `key` of the module `name` is
 * `name.key` in a configuration string. */
struct soma_backend_option_info {
	const char *key;
	const char *default_text;
	const char *doc; /* one line */
};

struct soma_backend_module {
	uint32_t abi;            /* SOMA_BACKEND_ABI; stays first for ever */
	uint32_t size;           /* sizeof(struct soma_backend_module) as the module knows it */
	const char *name;        /* the file is NAME.so */
	const char *version;     /* the module's own */
	const char *description; /* one line */
	const struct soma_backend_ops *ops;
	const struct soma_backend_option_info *options; /* ended by a NULL key; NULL: none */
	/* 1: it is around another backend, `name:inner`, and host->inner is never NULL; 0: never. */
	uint32_t wraps;
};

#ifdef __cplusplus
}
#endif
#endif

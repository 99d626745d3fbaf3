/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation traces: one stream of events, whatever the file's format.
 *
 * A reader is found by content (a row of trace_formats[]), opened on a file
 * (through zlib when it is gzipped) and then asked for one event after the other.
 * Memory grows with live blocks and distinct names, not with events, but for formats whose
 * events have to be sorted (Kineto's, placement instances) and for events that are to be
 * kept (trace_keep()).
 * Adding a format is one file and one row.
 *
 * Not thread-safe: a reader belongs to one thread.
 */
#ifndef SOMA_TOOLS_TRACE_H
#define SOMA_TOOLS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, text in soma's own format) */
#define TRACE_OP_MAP(X)                                                                            \
	X(ALLOC, "alloc")                   /* ptr, size, stream */                                \
	X(FREE, "free")                     /* ptr, stream; see `deferred` */                      \
	X(FREE_COMPLETED, "free_completed") /* ptr: a deferred free has executed */                \
	X(ALLOC_FAILED, "alloc_failed")     /* size, stream */                                     \
	X(USE, "use")                       /* ptr, stream, detail: read | write | read_write */   \
	X(RECORD, "record")                 /* stream, ptr: the event's handle */                  \
	X(WAIT, "wait")                     /* stream, ptr: the event's handle */                  \
	X(SYNC, "sync")                     /* stream; detail "device": every stream */            \
	X(TRIM, "trim")                     /* size: bytes to keep */                              \
	X(STREAM_CREATE, "stream_create")   /* stream; detail "blocking" | "non_blocking" */       \
	X(STREAM_DESTROY, "stream_destroy") /* stream */                                           \
	X(SEGMENT_ALLOC, "segment_alloc")   /* ptr, size, stream */                                \
	X(SEGMENT_FREE, "segment_free")     /* ptr, size, stream */                                \
	X(SEGMENT_MAP, "segment_map")       /* ptr, size, stream: part of an expandable segment */ \
	X(SEGMENT_UNMAP, "segment_unmap")   /* ptr, size, stream */                                \
	X(OOM, "oom")                       /* size; detail: bytes free on the device */           \
	X(MARK, "mark")                     /* tag, detail */

enum trace_op {
#define X(name, text) TRACE_##name,
	TRACE_OP_MAP(X)
#undef X
		TRACE_OP_COUNT
};

const char *trace_op_text(enum trace_op op);

/* Names (holders, tags, details) are interned by the reader: 0 is "no name". */
typedef uint32_t trace_name;

struct trace_event {
	enum trace_op op;
	bool deferred;  /* FREE: a FREE_COMPLETED for it comes later */
	int32_t device; /* 0 where the format has none */
	uint32_t thread;
	uint64_t index;   /* 0, 1, ... in the file, over all devices */
	uint64_t time_ns; /* since an origin of the format's; 0 where unknown */
	uint64_t stream;  /* the format's own handle */
	uint64_t ptr;
	uint64_t size;
	uint64_t generation; /* 0 where unknown */
	trace_name holder;   /* frame or tag that made it */
	trace_name detail;
	bool has_pool;    /* the format says whose memory it is: */
	uint64_t pool[2]; /* a private pool, or {0, 0}, the default one */
	bool completed;   /* FREE, not deferred: the format says that it completed, and when: */
	uint64_t completed_ns;
};

/* What there is at the end of the trace, as a PyTorch snapshot says, or at its start, as a soma
 * trace can; empty elsewhere. */
enum trace_block_state {
	TRACE_BLOCK_FREE,
	TRACE_BLOCK_LIVE,
	TRACE_BLOCK_PENDING, /* freed, waiting for streams */
};

struct trace_block {
	uint64_t address;
	uint64_t size; /* 0: it is not said (at the start) */
	uint64_t requested;
	enum trace_block_state state;
	trace_name holder;
};

struct trace_segment {
	int32_t device;
	bool small; /* of the small pool */
	bool expandable;
	uint64_t address;
	uint64_t size;
	uint64_t stream;
	uint64_t pool[2]; /* segment_pool_id: {0, 0} is the default pool */
	size_t block_count;
	struct trace_block
		*blocks; /* in address order, covering the segment; at the start only what is in use */
};

struct trace_snapshot {
	bool at_start; /* of the trace; else at its end */
	size_t segment_count;
	struct trace_segment *segments;
	trace_name settings; /* the allocator's settings, or 0; known when the events have been read */
};

struct trace_reader;

enum trace_result {
	TRACE_OK,
	TRACE_END,
	TRACE_TRUNCATED, /* the input ends in the middle: what was read before is good */
	TRACE_ERROR,     /* malformed or unreadable */
};

/* What went wrong and where: "FILE:LINE: expected ..., got ..." or
 * "FILE: byte OFFSET: ...".  Owned by whoever passed it in. */
struct trace_error {
	char text[512];
};

struct trace_options {
	const char *format; /* a format's name to insist on; NULL: by content */
	/* Of placement instances: whether a block still lives at the moment `upper`. */
	bool upper_inclusive;
	/* The end of a trace is an error where no allocation was before it, neither one that failed nor a
	 * snapshot's segment. */
	bool needs_allocations;
};

/* Opens `path` and finds its format.  On failure *reader is NULL and `error` is
 * filled.  options may be NULL. */
enum trace_result trace_open(const char *path, const struct trace_options *options,
			     struct trace_reader **reader, struct trace_error *error);
void trace_close(struct trace_reader *reader);

/* The next event.  After anything but TRACE_OK the reader is at its end. */
enum trace_result trace_next(struct trace_reader *reader, struct trace_event *event,
			     struct trace_error *error);

/* The address of an event that comes soon, for those who can fetch what they know of it; 0: nobody can tell yet. */
uint64_t trace_ahead(const struct trace_reader *reader);

/* From the first event again, also after the end or a failure; names keep their numbers.
 * Standard input and pipes can be rewound too: they are read from a temporary file. */
enum trace_result trace_rewind(struct trace_reader *reader, struct trace_error *error);

/*
 * Events are kept in memory as they are read, from the first one on (or from the next rewind
 * on), as long as they take no more than `bytes_max`; when they have all been read once, they are
 * read from there.  Without the memory they are read from the file each time.
 */
void trace_keep(struct trace_reader *reader, size_t bytes_max);

/* Another reader of the kept events, at the first one, for another thread; NULL where they are
 * not all kept (yet).  Names, snapshot and events are the first one's, which is closed last and
 * may be read at the same time. */
struct trace_reader *trace_share(const struct trace_reader *reader);

/* "kineto", "nsys-sqlite", "placement-csv", "pytorch-snapshot", "rmm-csv", "soma-csv",
 * "stalloc", "umpire-replay" */
const char *trace_format(const struct trace_reader *reader);

/* Valid until trace_close(); never NULL ("" for 0). */
const char *trace_name_text(const struct trace_reader *reader, trace_name name);

/* The snapshot at the end of the trace, or its start.  Available from trace_open() on for
 * formats that have one, and NULL for others. */
const struct trace_snapshot *trace_snapshot(const struct trace_reader *reader);

/* Of placement instances, how `upper` was read: "inclusive" or "exclusive"; else NULL. */
const char *trace_upper(const struct trace_reader *reader);

/* Whether times are nanoseconds; false: moments in a unit that nobody tells (placement instances). */
bool trace_has_clock(const struct trace_reader *reader);

/* How far the reader is in its input, 0.0 to 1.0; for a progress bar. */
double trace_progress(const struct trace_reader *reader);

/* Whether addresses in this format identify where the recorded allocator put its
 * blocks (false for formats without addresses). */
bool trace_has_addresses(const struct trace_reader *reader);

/* Whether such a file is PyTorch's, of its caching allocator. */
bool trace_is_of_pytorch(const struct trace_reader *reader);

/* ---- writing soma's own format -------------------------------------------- */

struct trace_writer;

/* Writes to `path` ("-": standard output), gzipped when it ends in ".gz". */
enum trace_result trace_writer_open(const char *path, struct trace_writer **writer,
				    struct trace_error *error);

/* Before the first line: lines also say whose memory it is (has_pool). */
void trace_writer_with_pools(struct trace_writer *writer);

/* holder and detail are texts here; either may be NULL.  Errors are kept and
 * reported by trace_writer_close(); a closed pipe is one where SIGPIPE is ignored. */
void trace_writer_put(struct trace_writer *writer, const struct trace_event *event, const char *holder,
		      const char *detail);
enum trace_result trace_writer_close(struct trace_writer *writer, struct trace_error *error);

#endif

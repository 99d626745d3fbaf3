/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the PyTorch snapshot reader share: the words of the format, the
 * fields of a dict, and the reader's state.
 */
#ifndef SOMA_TOOLS_TRACE_SNAPSHOT_H
#define SOMA_TOOLS_TRACE_SNAPSHOT_H

#include "tools/trace/pickle.h"

/* Keys first: only they are fields.  Interned first, so that a name is its word. */
#define SNAPSHOT_KEY_MAP(X)                   \
	X(ACTION, "action")                   \
	X(ADDR, "addr")                       \
	X(SIZE, "size")                       \
	X(STREAM, "stream")                   \
	X(TIME_US, "time_us")                 \
	X(FRAMES, "frames")                   \
	X(DEVICE_FREE, "device_free")         \
	X(USER_METADATA, "user_metadata")     \
	X(DEVICE, "device")                   \
	X(ADDRESS, "address")                 \
	X(TOTAL_SIZE, "total_size")           \
	X(SEGMENT_TYPE, "segment_type")       \
	X(SEGMENT_POOL_ID, "segment_pool_id") \
	X(POOL_ID, "pool_id")                 \
	X(IS_EXPANDABLE, "is_expandable")     \
	X(BLOCKS, "blocks")                   \
	X(REQUESTED_SIZE, "requested_size")   \
	X(STATE, "state")                     \
	X(HISTORY, "history")                 \
	X(REAL_SIZE, "real_size")             \
	X(NAME, "name")                       \
	X(FILENAME, "filename")               \
	X(LINE, "line")                       \
	X(SEGMENTS, "segments")               \
	X(DEVICE_TRACES, "device_traces")     \
	X(ALLOCATOR_SETTINGS, "allocator_settings")

#define SNAPSHOT_WORD_MAP(X)                            \
	X(ALLOC, "alloc")                               \
	X(FREE_REQUESTED, "free_requested")             \
	X(FREE_COMPLETED, "free_completed")             \
	X(SEGMENT_ALLOC, "segment_alloc")               \
	X(SEGMENT_FREE, "segment_free")                 \
	X(SEGMENT_MAP, "segment_map")                   \
	X(SEGMENT_UNMAP, "segment_unmap")               \
	X(SNAPSHOT, "snapshot")                         \
	X(OOM, "oom")                                   \
	X(ANNOTATE, "annotate")                         \
	X(USER_DEFINED, "user_defined")                 \
	X(WORKSPACE_SNAPSHOT, "workspace_snapshot")     \
	X(EMPTY_CACHE, "empty_cache")                   \
	X(LARGE, "large")                               \
	X(SMALL, "small")                               \
	X(ACTIVE_ALLOCATED, "active_allocated")         \
	X(ACTIVE_PENDING_FREE, "active_pending_free")   \
	X(ACTIVE_AWAITING_FREE, "active_awaiting_free") \
	X(INACTIVE, "inactive")

enum snapshot_word {
	KEY_NONE,
#define X(name, text) KEY_##name,
	SNAPSHOT_KEY_MAP(X)
#undef X
		KEY_COUNT,
	WORD_BEFORE = KEY_COUNT - 1,
#define X(name, text) WORD_##name,
	SNAPSHOT_WORD_MAP(X)
#undef X
};

/* What was made of a container (struct pickle_object.use). */
enum snapshot_use {
	USE_PLAIN,
	USE_TAKEN,    /* a trace entry, segment or block: once only */
	USE_FRAME,    /* word: class, name, file, line or 0 */
	USE_HOLDER,   /* a frame list; word[0]: its holder */
	USE_POOL,     /* an entry's pair of integers; word[0]: both as a name */
	USE_DEVICE,   /* a device's trace; word[0]: the device, word[1]: entries so far */
	USE_SEGMENTS, /* the list of segments; word[1]: how many so far */
};

/* A dict's values by key; where there are several, the last counts. */
struct snapshot_fields {
	const struct pickle_value *at[KEY_COUNT];
	uint64_t offset; /* of the dict in the file */
	char place[64];  /* "entry 5 of device 0" */
};

struct snapshot_reader {
	struct trace_reader *reader;
	struct pickle_vm vm;
	bool open;           /* the list of segments is known: do not build it again */
	bool skip_events;    /* looking for segments that come late */
	uint32_t pairs_seen; /* of the top dict: values read so far */
	bool segments_seen, traces_seen;
	struct trace_snapshot snapshot;
	size_t segment_capacity;
	bool has_requests, has_completions; /* of frees: the file has such entries */
	/* The trace so far */
	int32_t device;
	uint64_t entry;          /* number in its device's list */
	struct trace_event held; /* a free that may complete in the next entry */
	bool holding;
	struct trace_event queue[2]; /* to be given out */
	unsigned queued, given;
	enum pickle_flow flow; /* how the machine stopped when events were left to give out */
};

/* Whether `value` is a container of that type that nothing was made of and nobody reads. */
static inline bool
snapshot_plain(const struct pickle_value *value, enum pickle_type type)
{
	return value->type == type && value->object->use == USE_PLAIN && !value->object->busy;
}

/* Collects the fields of `value`, a plain dict, which is busy from then on.  The caller
 * has set fields->place. */
bool snapshot_fields(struct snapshot_reader *sr, const struct pickle_value *value,
		     struct snapshot_fields *fields);

/* The named field as a number: required unless `otherwise` is given. */
bool snapshot_number(struct snapshot_reader *sr, const struct snapshot_fields *fields, enum snapshot_word key,
		     const uint64_t *otherwise, uint64_t *number);

bool snapshot_refuse(struct snapshot_reader *sr, const struct snapshot_fields *fields, const char *format,
		     ...) __attribute__((format(printf, 3, 4)));

const char *snapshot_text(const struct snapshot_reader *sr, uint32_t name);

/* Who made a block, from its frames (NULL: unknown).  frames.c */
bool snapshot_holder(struct snapshot_reader *sr, const struct snapshot_fields *fields,
		     const struct pickle_value *frames, trace_name *holder);

/* The named field as a pair of integers, when it is there.  pools.c */
bool snapshot_pool(struct snapshot_reader *sr, const struct snapshot_fields *fields, enum snapshot_word key,
		   uint64_t pool[2], bool *there);

/* Which entries of frees the file has; the input is at its first byte before and after.  frees.c */
enum trace_result snapshot_find_frees(struct snapshot_reader *sr);
bool snapshot_waits(const struct snapshot_reader *sr, const struct trace_event *event);

/* Takes one segment in.  segments.c */
bool snapshot_segment(struct snapshot_reader *sr, struct pickle_value *value, uint64_t number);
void snapshot_segments_free(struct snapshot_reader *sr);

/* The allocator's settings as one line; none when they are not a dict.  settings.c */
bool snapshot_settings(struct snapshot_reader *sr, const struct pickle_value *value);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that pictures of a replay are drawn from: who held how much at any time, where
 * blocks lay and how long, the memory at chosen moments, and a histogram of sizes.
 *
 * It is filled by looking on (tools/engine/watch.h), and constant afterwards.  It is bounded:
 * memory grows with live blocks, names and SCENE_BLOCKS_MAX, not with events.  What is left out
 * is counted.
 */
#ifndef SOMA_TOOLS_REPORT_SCENE_H
#define SOMA_TOOLS_REPORT_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/engine/engine.h"
#include "tools/engine/table.h"

enum scene_by { SCENE_HOLDER, SCENE_STREAM, SCENE_POOL, SCENE_BY_COUNT };

/* "holder", "stream", "pool" */
extern const char *const scene_by_names[];

/* What can be looked at, besides what lasts. */
enum scene_when { SCENE_PEAK, SCENE_OOM, SCENE_EVENT, SCENE_END, SCENE_WHEN_COUNT };

/* Whom the live bytes are told apart by, the largest at the peak first. */
struct layers {
	enum scene_by by;
	size_t count;
	struct layer {
		uint32_t key;
		uint64_t bytes; /* at the peak */
		char *name;     /* clean; NULL until the end */
	} at[SERIES_LAYERS];
};

/* The layer of what has none of its own. */
#define LAYER_OTHER SERIES_LAYERS

#define SCENE_AT_END UINT64_MAX

struct scene_block {
	uint64_t ptr, size;   /* as the model placed it, as requested */
	uint64_t x0, x1;      /* from the axis' origin; x1 SCENE_AT_END: it was not freed */
	uint64_t event, freed; /* of the trace, or REPLAY_AT_START; SCENE_AT_END */
	double area;           /* bytes times x, when it is over */
	uint32_t key[SCENE_BY_COUNT];
};

struct scene_blocks {
	struct scene_block *at; /* in the order of their beginning */
	size_t count, room;
	uint64_t seen;          /* how many there were */
	double area, seen_area; /* bytes times x, of these and of all */
};

/* Memory without a hole, at a moment: a segment, or a mapped part of a range. */
struct scene_segment {
	uint64_t address, size;
	uint64_t stream; /* the trace's handle */
	unsigned pool;
	size_t first, count; /* of the extents */
};

enum scene_kind { EXTENT_LIVE, EXTENT_PENDING, EXTENT_FREE, EXTENT_SMALL };

struct scene_extent {
	enum scene_kind kind;
	uint64_t address, size;
	uint64_t blocks; /* SMALL: live blocks in it, which were too many to be kept apart */
	struct scene_block block; /* LIVE */
};

struct scene_map {
	bool taken;
	uint64_t event, x, live, reserved;
	struct scene_segment *segments;
	size_t segment_count, segment_room;
	struct scene_extent *extents;
	size_t extent_count, extent_room;
	uint64_t blocks;         /* live */
	uint64_t merged, merged_bytes; /* of them: in extents that are SMALL */
};

/* Reserved memory, and how long it was there. */
struct scene_span {
	uint64_t address, size;
	uint64_t x0, x1;
};

#define SCENE_SIZES 64 /* [i]: from 2^i to less than 2^(i+1) bytes */

struct scene_sizes {
	uint64_t count[SCENE_SIZES], bytes[SCENE_SIZES];
	/* The same by layer. */
	uint64_t layer_count[SCENE_BY_COUNT][SERIES_LAYERS + 1][SCENE_SIZES];
	uint64_t layer_bytes[SCENE_BY_COUNT][SERIES_LAYERS + 1][SCENE_SIZES];
	uint64_t blocks; /* of all of them */
};

struct scene_pool {
	uint64_t pool[2];
	unsigned size_pool;
};

struct scene {
	/* The caller's wishes. */
	const struct trace_reader *reader;
	size_t columns;
	size_t blocks_max, extents_max;
	bool spans;           /* those are wanted */
	uint64_t event;       /* where to look too; REPLAY_AT_START: only where everybody does */
	bool event_is_wanted;

	struct series series[SCENE_BY_COUNT];
	struct layers layers[SCENE_BY_COUNT];
	struct scene_blocks blocks;
	struct scene_map maps[SCENE_WHEN_COUNT];
	struct scene_span *span; /* in the order of their end */
	size_t span_count, span_room;
	struct scene_sizes sizes;
	bool has_failed; /* an allocation found no room, here or in the recording */

	/* While it is filled. */
	bool ranking, ranked; /* only the layers are looked for; they are known */
	const struct soma_policy *policy;
	struct holders held[SCENE_BY_COUNT];
	struct table live; /* of struct scene_live, by ptr */
	double least_area; /* blocks of less are among those left out */
	struct table stream_keys;
	uint64_t *streams; /* by key */
	size_t stream_count, stream_room;
	struct scene_pool *pools; /* by key */
	size_t pool_count, pool_room;
	size_t last_pool;
	struct scene_span *open; /* at the last look, in address order */
	size_t open_count, open_room;
	size_t sample; /* of the axis */
	struct watch watch;
};

/*
 * Replays the trace and fills the scene, whose wishes are set and whose rest is zero.  Layers of
 * streams and pools take a replay before the replay: `all` says that they are wanted.  The
 * result is replay_run()'s.
 */
enum soma_status scene_take(struct scene *scene, struct trace_reader *reader, struct replay_options options,
			    bool all, struct replay_result *result, struct trace_error *error);
void scene_fini(struct scene *scene);

/* The layer of a block's key, or LAYER_OTHER. */
size_t scene_layer(const struct layers *layers, uint32_t key);

/* A clean name, never empty.  The caller frees it. */
char *scene_name(const struct scene *scene, enum scene_by by, uint32_t key);

/* "stream 7", "stream 0x7f0012"; buffer: UNITS_MAX bytes. */
char *scene_stream_text(char *buffer, uint64_t handle);

/* The bucket of a size. */
unsigned scene_bucket(uint64_t size);

/* ---- scene_keys.c ---- */

void scene_keys_of(struct scene *scene, const struct watch_block *block, uint32_t key[SCENE_BY_COUNT]);
void scene_keys_fini(struct scene *scene);

/* ---- scene_map.c ---- */

struct scene_live {
	struct table_key key; /* ptr */
	struct scene_block block;
	uint32_t shown[SCENE_WHEN_COUNT]; /* the extent that shows it, and 1; 0: none */
};

void scene_map_take(struct scene *scene, enum scene_when when, const struct watch_at *at);
void scene_map_freed(struct scene *scene, const struct scene_live *live);
/* Joins what is too small, so that no more than extents_max are left. */
void scene_map_finish(struct scene *scene, struct scene_map *map);
void scene_map_fini(struct scene_map *map);

/* Once in each of SCENE_SAMPLES parts of the axis. */
#define SCENE_SAMPLES 256
void scene_spans_look(struct scene *scene, const struct watch_at *at, uint64_t x);
void scene_spans_finish(struct scene *scene, uint64_t x);

/* ---- scene_blocks.c ---- */

/* A block is over.  Keeps the largest by area. */
void scene_blocks_add(struct scene *scene, const struct scene_block *block, uint64_t end);
void scene_blocks_finish(struct scene *scene, uint64_t end);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns in memory: how a block lies between its redzones, filling, and looking for bytes
 * that changed; by pointer where the memory is the host's, else by the inner backend's
 * fills and copies.
 *
 * Never found: reads, a write that jumps past the redzone, and a write of the very
 * bytes that the pattern has there.
 */
#ifndef SOMA_BACKENDS_GUARD_MEMORY_H
#define SOMA_BACKENDS_GUARD_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

#define DAMAGE_DUMP 64u

struct block;
struct guard_options;

enum pattern_salt { PATTERN_REDZONE = 1, PATTERN_FRESH = 2, PATTERN_FREED = 3 };

/* Every value of it reads as a NaN, in all float sizes. */
uint32_t pattern_of(uint64_t generation, enum pattern_salt salt);

/* Bytes that differ from the pattern. */
struct damage {
	uint64_t first, last; /* addresses */
	uint64_t count;       /* 0: none */
	uint64_t dump_at;
	uint32_t dump_bytes;
	uint8_t dump[DAMAGE_DUMP];
	uint8_t expected, got; /* at `first` */
};

struct layout {
	uint64_t left; /* before the block, in the inner one */
	uint64_t zone; /* what of that is redzone: the end of it */
	uint64_t outer;
};

/* A redzone takes in what a block's alignment leaves before it, up to this: more than that costs more than it finds.
 * Of what is before it nothing is written, so that it takes no memory where that comes when it is touched. */
#define LEFT_ZONE_MAX ((uint64_t)64 << 10)

/* False: the sum is more than 64 bits hold. */
bool layout_of(const struct guard_options *options, uint64_t size, uint64_t alignment, struct layout *layout);

/* Redzones and fresh poison of a new block, in the order of `stream` (inner; NULL: done at return). */
enum soma_status memory_dress(struct soma_backend *g, const struct block *block,
			      struct soma_backend_stream *stream);

/* Poison of a freed one, that nothing uses any more.  Done, or in the order of the guard's stream. */
enum soma_status memory_poison(struct soma_backend *g, const struct block *block);

enum memory_verdict { MEMORY_CLEAN, MEMORY_BEFORE, MEMORY_AFTER, MEMORY_BODY, MEMORY_UNKNOWN };

/* Looks at the redzones, and at the body if it is poisoned.  UNKNOWN: the backend failed. */
enum memory_verdict memory_check(struct soma_backend *g, const struct block *block, struct damage *damage);

#define MEMORY_SIFT_MAX 64u

/*
 * Says in `clean` of which of up to MEMORY_SIFT_MAX blocks memory_check() would find nothing, by one scan of the
 * inner backend; where that has no scans, or fails, of none.
 */
void memory_sift(struct soma_backend *g, const struct block *const *blocks, uint32_t count, bool *clean);

/* Whether nothing was ever written to the block: it is host memory and still as memory_dress() left it. */
bool memory_is_fresh(const struct soma_backend *g, const struct block *block);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caching allocator of PyTorch with expandable segments: what soma_model's policy
 * `pytorch` is without.  It stands in for the model's memory where a replay wants it
 * (struct streams, `expandable`); streams and their order stay the model's.
 *
 * A stream has two pools, small (up to 1 MiB) and large.  Each has a range of addresses of
 * which parts are mapped, in units of 2 or 20 MiB counted from the range's beginning.
 *
 *   Rounding   to 512 bytes; the rest of a block is always split off.
 *   Free       joins both free neighbours; what is not mapped is no neighbour.
 *   Find       the least (size, address) that is large enough; while the next one in that
 *              order could grow less than this one (counting what is not mapped behind
 *              it), the next one: the end of the range comes last.  What is found must not be
 *              oversize for the request (policy->oversize; max_split_size_mb), though it would be split.
 *   Grow       the lowest place where what is free and what is not mapped make up the
 *              request; of that, what is not mapped is, up to the request, in whole units.
 *   Release    whole units that are free are unmapped: all there are, when growing failed.
 *
 * Segments of the other kind may stand beside them: they have an address and a size, and go
 * as a whole.  Recorded addresses are offered, and are where a range begins; where the
 * recording then maps tells whether the replay agrees.
 */
#ifndef SOMA_TOOLS_ENGINE_EXPANDABLE_H
#define SOMA_TOOLS_ENGINE_EXPANDABLE_H

#include <soma/model.h>

struct expandable;

/* Of the policy it takes `oversize` and its slack.  capacity 0: no limit.  Addresses that nobody
 * recorded are above `highest`. */
struct expandable *expandable_create(const struct soma_policy *policy, uint64_t capacity, uint64_t highest);
void expandable_destroy(struct expandable *heap); /* NULL is allowed */

/* OUT_OF_DEVICE_MEMORY: it does not fit, after releasing what can be. */
enum soma_status expandable_alloc(struct expandable *heap, uint64_t size, uint64_t stream, uint64_t *ptr);

/* Freed, and free for others once it is complete: at once, or by another call. */
void expandable_free(struct expandable *heap, uint64_t ptr, bool deferred);
void expandable_complete(struct expandable *heap, uint64_t ptr);

/* The recording mapped this (or allocated it as a segment of its own). */
void expandable_offer(struct expandable *heap, uint64_t stream, uint64_t address, uint64_t size, bool map);
/* What was offered and not taken was mapped all the same, and is free: an allocation
 * failed half way. */
void expandable_take_offers(struct expandable *heap);

/* The recording unmapped this, or freed the segment; false: here it is in use. */
bool expandable_unmap(struct expandable *heap, uint64_t address, uint64_t size);
bool expandable_release_segment(struct expandable *heap, uint64_t address);

/* Unmaps and releases all that is free. */
void expandable_release(struct expandable *heap);

/* A starting state: mapped memory, then the blocks in it.  false: it overlaps, or does
 * not fit the capacity. */
bool expandable_adopt_segment(struct expandable *heap, uint64_t stream, bool small, bool map,
			      uint64_t address, uint64_t size);
bool expandable_adopt_block(struct expandable *heap, uint64_t ptr, uint64_t size, uint64_t capacity);

struct expandable_stats {
	uint64_t reserved, reserved_high;
	uint64_t used;     /* requested bytes of live blocks */
	uint64_t capacity; /* what they hold */
	uint64_t live_count;
	uint64_t maps, unmaps;      /* segments of the other kind included */
	uint64_t reproduced;        /* maps that were where they were recorded */
	uint64_t released_for_room; /* times that growing failed first */
	uint64_t least_refused;     /* what a growth that was refused would have come to */
};

const struct expandable_stats *expandable_stats(const struct expandable *heap);

/* Every mapped part and its blocks in address order, as soma_model_walk() shows them. */
void expandable_walk(const struct expandable *heap,
		     bool (*visit)(void *context, const struct soma_extent *extent), void *context);

/* What would have to be mapped for a request that finds nothing free. */
uint64_t expandable_growth(uint64_t size);

#endif

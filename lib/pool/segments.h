/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments: blocks of the resource that the model cuts up.  They are allocated and freed on a stream of the
 * pool's own, where nothing runs, so that they can be used on any stream at once, and go when the model
 * says that nothing uses them.
 */
#ifndef SOMA_LIB_POOL_SEGMENTS_H
#define SOMA_LIB_POOL_SEGMENTS_H

#include "lib/pool/pool.h"

struct soma__pool_segment {
	struct soma__pool_segment *next;
	struct soma_block block;
	uint64_t stream; /* whom it was made for */
	bool used;       /* the model had it */
};

extern const struct soma_segment_source soma__pool_source; /* without its context */

/* Without the mutex; may wait. */
enum soma_status soma__segment_make(struct soma_pool *pool, uint64_t size, uint64_t stream,
				    struct soma__pool_segment **segment);

/* The mutex is held: it goes with the next flush. */
void soma__segment_leave(struct soma_pool *pool, struct soma__pool_segment *segment);

/* Without the mutex: gives back what has left.  May wait. */
void soma__segments_flush(struct soma_pool *pool);

/* With the mutex, at the end of a call: it is let go, and what has left goes back.  Of a pool that is over that is
 * its end's own business, without the mutex, and afterwards there is no resource any more. */
static inline void
soma__segments_leave(struct soma_pool *pool)
{
	if (__builtin_expect(!pool->ended && pool->leaving != NULL, 0)) {
		soma__pool_step_out(pool);
		soma__segments_flush(pool);
		soma__pool_step_in(pool);
	}
	soma__pool_leave(pool);
}

#endif

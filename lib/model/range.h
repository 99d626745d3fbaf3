/* SPDX-License-Identifier: Apache-2.0 */
/* SOMA_SEGMENTS_RANGE: called by segments.c, but for what says otherwise. */
#ifndef SOMA_LIB_MODEL_RANGE_H
#define SOMA_LIB_MODEL_RANGE_H

#include "lib/model/segments.h"
#include "lib/model/state.h"

/* Makes the range's segment; part of creating a model. */
bool soma__range_create(struct soma_model *model);

/* For alloc.c: the lowest hole that is large enough; the block, live, or 0: then the allocation goes the
 * way of others.  Needs the records of one operation. */
uint32_t soma__range_take_hole(struct soma_model *model, uint64_t granules);

/* Is a hole the first that an allocation looks at?  So it is where pending blocks are not used again,
 * with no complete one on the shelf. */
static inline bool
soma__range_only_grows(const struct soma_model *model)
{
	const unsigned of_pending = SOMA_REUSE_SAME_STREAM | SOMA_REUSE_FOLLOW_EVENTS | SOMA_REUSE_INTERNAL;

	return (model->policy.reuse & of_pending) == 0 && model->stats.free_block_count == 0 &&
	       soma__is_range(model) && !model->held;
}

enum soma__growth soma__range_grow(struct soma_model *model, struct soma__stream *stream, uint64_t granules,
				   uint32_t *block);

/* For order.c: is everything that comes to be complete now released when the range is released down to
 * `keep` bytes?  So it is where nothing is complete yet, and what is live, which stays, is no less. */
static inline bool
soma__range_keeps_none(const struct soma_model *model, uint64_t keep)
{
	return soma__is_range(model) && model->stats.free_block_count == 0 && model->stats.capacity >= keep;
}

/* Then, for each stream whose positions rose: completes the pending frees that are known to have
 * executed, and releases their blocks at once.  Needs a gap for each. */
void soma__range_complete(struct soma_model *model, struct soma__stream *stream);

/* Releases down to `keep` bytes; true if anything went. */
bool soma__range_release(struct soma_model *model, uint64_t keep);

#endif

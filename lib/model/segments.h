/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments: where a model's addresses come from, growing and releasing.
 *
 * A segmented pool gets addresses from the caller's source or from a virtual space of
 * its own (space.h); a range (range.h) is one segment that grows.
 */
#ifndef SOMA_LIB_MODEL_SEGMENTS_H
#define SOMA_LIB_MODEL_SEGMENTS_H

#include "lib/model/state.h"

static inline bool
soma__is_range(const struct soma_model *model)
{
	return model->policy.segments == SOMA_SEGMENTS_RANGE;
}

enum soma__growth {
	SOMA__GROWTH_DONE,
	SOMA__GROWTH_REFUSED,    /* by the maximum, the address space or the source: see
				  * model->refusal */
	SOMA__GROWTH_NO_RECORDS, /* no host memory; recorded, and nothing has changed */
	SOMA__GROWTH_DEFERRED,   /* driven.h: not now; nothing has changed */
};

static inline enum soma_status
soma__growth_status(enum soma__growth growth)
{
	if (growth == SOMA__GROWTH_DEFERRED)
		return SOMA__STATUS_DEFERRED;
	return growth == SOMA__GROWTH_DONE ? SOMA_STATUS_OK : SOMA_STATUS_OUT_OF_HOST_MEMORY;
}

/* Records for growing; growing reserves for itself, this is for doing it earlier. */
bool soma__segments_reserve_growth(struct soma_model *model, const struct soma__stream *stream, unsigned pool,
				   uint64_t granules);

/* Grows for a request.  *block is live and holds `granules` (or more, where the policy
 * does not split). */
enum soma__growth soma__segments_grow(struct soma_model *model, struct soma__stream *stream, unsigned pool,
				      uint64_t granules, uint32_t *block);

/* Records for releasing as much as there is. */
bool soma__segments_reserve_release(struct soma_model *model);

/* Releases free memory down to `keep` bytes; true if anything went. */
bool soma__segments_release(struct soma_model *model, uint64_t keep);

/* Releases one idle segment. */
void soma__segment_release(struct soma_model *model, uint32_t segment);

/* The segment that begins at this granule; 0 if none. */
uint32_t soma__segment_beginning(const struct soma_model *model, uint64_t address);

/* The segment that holds [address, end); 0 if none. */
uint32_t soma__segment_holding(const struct soma_model *model, uint64_t address, uint64_t end);

/* A segment at a given place, wholly free. */
enum soma_status soma__segment_adopt(struct soma_model *model, struct soma__stream *stream, unsigned pool,
				     uint64_t address, uint64_t granules);

/* A segment became, or stops being, one complete free block.  Nothing for a range. */
void soma__segment_set_idle(struct soma_model *model, uint32_t segment, bool idle);

#endif

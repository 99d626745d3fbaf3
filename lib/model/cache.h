/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies with a cache of idle segments for each stream: what is too large for it, and what
 * goes before it grows.
 */
#ifndef SOMA_LIB_MODEL_CACHE_H
#define SOMA_LIB_MODEL_CACHE_H

#include "lib/model/state.h"

/* Is a request of this size not to be split off a larger block? */
static inline bool
soma__cache_is_oversize(const struct soma_model *model, uint64_t granules)
{
	return model->policy.oversize != 0 && soma__bytes(model, granules) >= model->policy.oversize;
}

/* Whether the policy lets the request have a block, which is large enough. */
static inline bool
soma__cache_allows(const struct soma_model *model, uint64_t granules, uint64_t block)
{
	if (model->policy.oversize == 0)
		return true;
	if (!soma__cache_is_oversize(model, granules))
		return !soma__cache_is_oversize(model, block);
	return soma__bytes(model, block - granules) < model->policy.oversize_slack;
}

/* Whether growing has to collect first. */
static inline bool
soma__cache_collects(const struct soma_model *model)
{
	return model->policy.collect_above != 0 && model->stats.reserved > model->policy.collect_above;
}

/* Releases what has been idle for long, while more than collect_above is reserved.  False: no
 * host memory. */
bool soma__cache_collect(struct soma_model *model);

/* Releases the stream's own idle segments of at least `oversize`: one that is as large as the
 * request, else the largest ones, until that much is gone.  True: it is. */
bool soma__cache_make_room(struct soma_model *model, const struct soma__stream *stream, unsigned pool,
			   uint64_t granules);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The account of reserved granules, for segments.c and range.c. */
#ifndef SOMA_LIB_MODEL_RESERVE_H
#define SOMA_LIB_MODEL_RESERVE_H

#include "lib/model/state.h"

static inline void
soma__reserve_add(struct soma_model *model, uint64_t granules)
{
	struct soma_model_stats *stats = &model->stats;

	stats->reserved += soma__bytes(model, granules);
	if (stats->reserved > stats->reserved_high)
		stats->reserved_high = stats->reserved;
}

/* Would growing by this much pass the maximum? */
static inline bool
soma__reserve_exceeds(const struct soma_model *model, uint64_t granules)
{
	return granules > model->max || model->stats.reserved >> model->granule_shift > model->max - granules;
}

/* The same for a growth, which is noted where it is refused. */
static inline bool
soma__reserve_refuses(struct soma_model *model, uint64_t granules)
{
	uint64_t wanted;

	if (!soma__reserve_exceeds(model, granules))
		return false;
	wanted = model->stats.reserved + soma__bytes(model, granules);
	if (wanted < model->least_refused)
		model->least_refused = wanted;
	return true;
}

/* The highest address; regions are an eighth to a quarter of the span below it. */
static inline void
soma__reserve_set_top(struct soma_model *model, uint64_t top)
{
	uint64_t span = top > model->index.base ? top - model->index.base : 1;
	unsigned bits = 63U - (unsigned)__builtin_clzll(span);

	model->top = top;
	model->index.region_shift = bits > 2 ? bits - 2 : 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in a mapped range a request goes that no free block holds: HACKING, "Growing,
 * mapped", up to the choice.  Nothing is changed by looking.
 */
#ifndef SOMA_LIB_MODEL_SITE_H
#define SOMA_LIB_MODEL_SITE_H

#include "lib/model/state.h"

/* Where a request of no free block could go: from the front of `front`, or where `map`
 * begins without one, over pages to be mapped. */
struct soma__site {
	uint32_t hole;        /* 0: at the range's end */
	uint32_t front, back; /* free blocks that become part of it; 0: none */
	uint64_t map;         /* the first granule to be mapped ... */
	uint64_t pages;       /* ... and how many pages */
	uint64_t own;         /* whole pages of front and back: they cannot be stolen for it */
};

static inline uint64_t
soma__pages_up(const struct soma_model *model, uint64_t granules)
{
	return (granules + ((uint64_t)1 << model->mapped.page_shift) - 1) >> model->mapped.page_shift;
}

/* How many of so many pages would have to be stolen. */
uint64_t soma__pages_missing(struct soma_model *model, uint64_t pages);

/* There are so many idle pages besides the site's own. */
static inline bool
soma__site_can_steal(const struct soma_model *model, const struct soma__site *site, uint64_t pages)
{
	return pages <= model->mapped.idle_pages - site->own;
}

/* The fewest pages to be mapped; holes before the end.  False: it can go nowhere. */
bool soma__site_choose(struct soma_model *model, const struct soma__stream *stream, unsigned pool,
		       uint64_t granules, struct soma__site *best);

#endif

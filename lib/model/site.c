/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three sites of a request, and the best of them.  Nothing here fails or takes memory.
 * Not thread-safe, like the model.
 */
#include "lib/model/site.h"

#include "lib/model/mapped.h"

static uint64_t
own_pages(const struct soma_model *model, uint32_t name)
{
	const struct soma__block *block = soma__block_at(model, name);

	if (!soma__is_complete(model, name))
		return 0;
	return soma__whole_pages(model, soma__block_address(block), soma__block_end(model, block));
}

static struct soma__site
place_at_hole(const struct soma_model *model, uint32_t hole, uint64_t granules)
{
	struct soma__reach reach = soma__hole_reach(model, hole);
	struct soma__site site = { .hole = hole, .front = reach.front, .map = reach.hole };
	uint64_t end = reach.start + granules;

	if (end > reach.hole)
		site.pages =
			soma__pages_up(model, (end < reach.hole_end ? end : reach.hole_end) - reach.hole);
	if (end > reach.hole_end)
		site.back = reach.back;
	site.own = own_pages(model, site.front) + own_pages(model, site.back);
	return site;
}

/* The range's last block, if the stream may use it. */
static uint32_t
usable_last(const struct soma_model *model, const struct soma__stream *stream, unsigned pool)
{
	uint32_t last = soma__segment_at(model, model->mapped.range[pool])->last;
	const struct soma__block *block = soma__block_at(model, last);
	uint32_t own = soma__own_shelf(model, soma__stream_slot(stream), pool);

	if (last == 0 || soma__block_kind(block) != SOMA__BLOCK_FREE)
		return 0;
	if (soma__is_complete(model, last) ||
	    soma__node_at(&model->index, block->node)->tag == soma__tag(SOMA__NODE_PENDING, own))
		return last;
	return 0;
}

static struct soma__site
place_at_end(const struct soma_model *model, const struct soma__stream *stream, unsigned pool,
	     uint64_t granules)
{
	struct soma__site site = { .front = usable_last(model, stream, pool),
				   .map = soma__segment_at(model, model->mapped.range[pool])->end };
	uint64_t have = site.front != 0 ? soma__block_granules(model, soma__block_at(model, site.front)) : 0;

	if (granules > have)
		site.pages = soma__pages_up(model, granules - have);
	site.own = own_pages(model, site.front);
	return site;
}

uint64_t
soma__pages_missing(struct soma_model *model, uint64_t pages)
{
	uint64_t reserved = model->stats.reserved >> model->granule_shift;
	uint64_t room = model->max > reserved ? (model->max - reserved) >> model->mapped.page_shift : 0;
	uint64_t wanted = soma__bytes(model, reserved + ((room + 1) << model->mapped.page_shift));

	if (pages <= room)
		return 0;
	/* With room for one page more, one less is missing. */
	if (wanted < model->least_refused)
		model->least_refused = wanted;
	return pages - room;
}

static void
consider(struct soma_model *model, const struct soma__site *site, struct soma__site *best, bool *found)
{
	if (*found && site->pages >= best->pages)
		return;
	if (!soma__site_can_steal(model, site, soma__pages_missing(model, site->pages)))
		return;
	*best = *site;
	*found = true;
}

bool
soma__site_choose(struct soma_model *model, const struct soma__stream *stream, unsigned pool,
		  uint64_t granules, struct soma__site *best)
{
	const uint32_t holes[] = { soma__hole_smallest(model, pool, granules),
				   soma__hole_behind_most(model, pool, granules) };
	struct soma__site site;
	bool found = false;

	for (unsigned i = 0; i < 2; i++) {
		if (holes[i] == 0)
			continue;
		site = place_at_hole(model, holes[i], granules);
		consider(model, &site, best, &found);
	}
	site = place_at_end(model, stream, pool, granules);
	if (site.pages <= (model->mapped.limit[pool] - site.map) >> model->mapped.page_shift)
		consider(model, &site, best, &found);
	return found;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped ranges: choosing a place for what no free block holds, mapping its pages, and
 * unmapping free ones.  What can fail for want of host memory is reserved before anything
 * changes and before the segment source is asked.  Not thread-safe, like the model.
 */
#include "lib/model/mapped.h"

#include "lib/base/error.h"
#include "lib/model/blocks.h"
#include "lib/model/clock.h"
#include "lib/model/reserve.h"
#include "lib/model/unmap.h"

/* ---- blocks beside holes ---- */

void
soma__mapped_complete(struct soma_model *model, uint32_t name)
{
	model->stats.free_block_count++;
	soma__mapped_file(model, name, soma__slab_take(&model->index.nodes, sizeof(struct soma__node)));
}

static void
refresh_beside(struct soma_model *model, uint32_t name, unsigned beside)
{
	const struct soma__block *block = soma__block_at(model, name);

	if (beside & SOMA__BESIDE_HOLE_BEFORE)
		soma__hole_refresh(model, block->previous);
	if (beside & SOMA__BESIDE_HOLE_BEHIND)
		soma__hole_refresh(model, block->next);
}

void
soma__mapped_unshelve(struct soma_model *model, uint32_t name)
{
	const struct soma__block *block = soma__block_at(model, name);
	unsigned beside = 0;

	if (soma__is_complete(model, name)) {
		beside = (unsigned)soma__node_at(&model->index, block->node)->position;
		model->mapped.idle_pages -= soma__whole_pages(model, soma__block_address(block),
							      soma__block_end(model, block));
	}
	soma__block_unshelve(model, name);
	refresh_beside(model, name, beside);
}

void
soma__mapped_taken(struct soma_model *model, uint32_t name, uint32_t node_name, unsigned beside)
{
	uint32_t rest = soma__block_at(model, name)->next;
	const struct soma__block *block = soma__block_at(model, rest);

	refresh_beside(model, name, beside & SOMA__BESIDE_HOLE_BEFORE);
	if (rest != 0 && soma__block_kind(block) == SOMA__BLOCK_FREE && block->node == node_name) {
		beside &= SOMA__BESIDE_HOLE_BEHIND;
		soma__node_at(&model->index, node_name)->position = beside;
		name = rest;
	}
	refresh_beside(model, name, beside & SOMA__BESIDE_HOLE_BEHIND);
}

/* ---- ranges ---- */

static enum soma_status
reserve_range(struct soma_model *model, unsigned pool, uint64_t *address)
{
	const struct soma_segment_source *source = &model->source;
	uint64_t size = model->policy.pools[pool].segment_size, serial = soma__error_serial(), at = 0;
	enum soma_status status = source->reserve(source->context, pool, size, &at);
	bool overlaps = false;

	if (status != SOMA_STATUS_OK && soma__error_serial() != serial)
		return status; /* it has said why itself */
	if (status != SOMA_STATUS_OK)
		return soma__error(status,
				   "the segment source refused an address range of %" PRIu64 " bytes",
				   (struct soma__error_args){ .arg = { size } });
	for (unsigned other = pool + 1; other < model->policy.pool_count; other++) {
		uint64_t begin = soma__segment_at(model, model->mapped.range[other])->address;

		overlaps |= at < soma__bytes(model, model->mapped.limit[other]) &&
			    at + size > soma__bytes(model, begin);
	}
	if (overlaps || at == 0 || at % soma__page_bytes(model) != 0 || at > SOMA_MODEL_ADDRESS_MAX - size) {
		source->release(source->context, at, size);
		return soma__fail(INVALID_VALUE,
				  "the segment source gave 0x%" PRIx64 " for an address range of %" PRIu64
				  " bytes, which is misaligned, out of range or overlaps another one",
				  at, size);
	}
	*address = at >> model->granule_shift;
	return SOMA_STATUS_OK;
}

static void
add_range(struct soma_model *model, unsigned pool, uint64_t address)
{
	struct soma__slab *trees = &model->index.trees;
	uint32_t name = soma__slab_take(&model->segment_slab, sizeof(struct soma__segment));
	struct soma__segment *range = soma__segment_at(model, name);

	*range = (struct soma__segment){ .home = pool,
					 .tree = soma__tree_take(trees),
					 .pool = pool,
					 .address = address,
					 .end = address };
	*soma__tree_at(trees, range->tree) = (struct soma__tree_node){ .record = name, .minor = address };
	soma__tree_insert(trees, &model->segments, range->tree);
	model->mapped.range[pool] = name;
	model->mapped.limit[pool] =
		address + (model->policy.pools[pool].segment_size >> model->granule_shift);
}

/* The last pool's first, which has the large blocks: regions count from its front. */
enum soma_status
soma__mapped_create(struct soma_model *model)
{
	const struct soma_policy *policy = &model->policy;
	uint64_t page = policy->pools[0].segment_step >> model->granule_shift, address = model->index.base;
	enum soma_status status = SOMA_STATUS_OK;

	model->mapped.page_shift = (unsigned)__builtin_ctzll(page);
	if (!soma__slab_reserve(&model->segment_slab, model->arena, policy->pool_count))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	for (unsigned pool = policy->pool_count; pool-- > 0 && status == SOMA_STATUS_OK;) {
		if (model->has_source)
			status = reserve_range(model, pool, &address);
		if (status == SOMA_STATUS_OK) {
			add_range(model, pool, address);
			address = model->mapped.limit[pool];
		}
	}
	if (status != SOMA_STATUS_OK) {
		soma__mapped_destroy(model);
		return status;
	}
	model->index.base = soma__segment_at(model, model->mapped.range[policy->pool_count - 1])->address;
	soma__reserve_set_top(model, model->index.base);
	return SOMA_STATUS_OK;
}

/* Unmaps a range from its front to its end. */
static void
unmap_range(struct soma_model *model, const struct soma__segment *range)
{
	uint64_t from = range->address;

	for (uint32_t name = range->first; from < range->end;) {
		const struct soma__block *block = soma__block_at(model, name);
		uint64_t to = name != 0 ? soma__block_address(block) : range->end;

		if (name == 0 || soma__block_kind(block) == SOMA__BLOCK_HOLE) {
			if (to > from)
				model->source.unmap(model->source.context, soma__bytes(model, from),
						    soma__bytes(model, to - from));
			from = name != 0 ? soma__block_end(model, block) : to;
		}
		name = name != 0 ? block->next : 0;
	}
}

void
soma__mapped_destroy(struct soma_model *model)
{
	if (!model->has_source)
		return;
	for (unsigned pool = model->policy.pool_count; pool-- > 0;) {
		const struct soma__segment *range = soma__segment_at(model, model->mapped.range[pool]);

		if (model->mapped.range[pool] == 0)
			continue;
		unmap_range(model, range);
		model->source.release(model->source.context, soma__bytes(model, range->address),
				      soma__bytes(model, model->mapped.limit[pool] - range->address));
	}
}

/* ---- choosing a place ---- */

/* Where a request of no free block could go: from the front of `front`, or where `map`
 * begins without one, over pages to be mapped. */
struct place {
	uint32_t hole;        /* 0: at the range's end */
	uint32_t front, back; /* free blocks that become part of it; 0: none */
	uint64_t map;         /* the first granule to be mapped ... */
	uint64_t pages;       /* ... and how many pages */
	uint64_t own;         /* whole pages of front and back: they cannot be stolen for it */
};

static uint64_t
pages_up(const struct soma_model *model, uint64_t granules)
{
	return (granules + ((uint64_t)1 << model->mapped.page_shift) - 1) >> model->mapped.page_shift;
}

static uint64_t
own_pages(const struct soma_model *model, uint32_t name)
{
	const struct soma__block *block = soma__block_at(model, name);

	if (!soma__is_complete(model, name))
		return 0;
	return soma__whole_pages(model, soma__block_address(block), soma__block_end(model, block));
}

static struct place
place_at_hole(const struct soma_model *model, uint32_t hole, uint64_t granules)
{
	struct soma__reach reach = soma__hole_reach(model, hole);
	struct place place = { .hole = hole, .front = reach.front, .map = reach.hole };
	uint64_t end = reach.start + granules;

	if (end > reach.hole)
		place.pages = pages_up(model, (end < reach.hole_end ? end : reach.hole_end) - reach.hole);
	if (end > reach.hole_end)
		place.back = reach.back;
	place.own = own_pages(model, place.front) + own_pages(model, place.back);
	return place;
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

static struct place
place_at_end(const struct soma_model *model, const struct soma__stream *stream, unsigned pool,
	     uint64_t granules)
{
	struct place place = { .front = usable_last(model, stream, pool),
			       .map = soma__segment_at(model, model->mapped.range[pool])->end };
	uint64_t have = place.front != 0
				? soma__block_granules(model, soma__block_at(model, place.front))
				: 0;

	if (granules > have)
		place.pages = pages_up(model, granules - have);
	place.own = own_pages(model, place.front);
	return place;
}

/* How many of so many pages would have to be stolen. */
static uint64_t
missing_pages(const struct soma_model *model, uint64_t pages)
{
	uint64_t reserved = model->stats.reserved >> model->granule_shift;
	uint64_t room = model->max > reserved ? (model->max - reserved) >> model->mapped.page_shift : 0;

	return pages > room ? pages - room : 0;
}

static bool
can_steal(const struct soma_model *model, const struct place *place, uint64_t pages)
{
	return pages <= model->mapped.idle_pages - place->own;
}

static void
consider(const struct soma_model *model, const struct place *place, struct place *best, bool *found)
{
	if (*found && place->pages >= best->pages)
		return;
	if (!can_steal(model, place, missing_pages(model, place->pages)))
		return;
	*best = *place;
	*found = true;
}

/* The fewest pages to be mapped; holes before the end.  False: it can go nowhere. */
static bool
choose(const struct soma_model *model, const struct soma__stream *stream, unsigned pool, uint64_t granules,
       struct place *best)
{
	const uint32_t holes[] = { soma__hole_smallest(model, pool, granules),
				   soma__hole_behind_most(model, pool, granules) };
	struct place place;
	bool found = false;

	for (unsigned i = 0; i < 2; i++) {
		if (holes[i] == 0)
			continue;
		place = place_at_hole(model, holes[i], granules);
		consider(model, &place, best, &found);
	}
	place = place_at_end(model, stream, pool, granules);
	if (place.pages <= (model->mapped.limit[pool] - place.map) >> model->mapped.page_shift)
		consider(model, &place, best, &found);
	return found;
}

/* ---- mapping ---- */

static enum soma_status
map(struct soma_model *model, const struct place *place)
{
	uint64_t address = soma__bytes(model, place->map), serial = soma__error_serial();
	uint64_t bytes = place->pages * soma__page_bytes(model);
	enum soma_status status = SOMA_STATUS_OK;

	if (model->has_source)
		status = model->source.map(model->source.context, address, bytes);
	if (status == SOMA_STATUS_OK) {
		model->stats.map_count++;
		model->stats.pages_mapped += place->pages;
		soma__reserve_add(model, place->pages << model->mapped.page_shift);
	} else if (soma__error_serial() == serial) {
		soma__error(status, "the segment source refused to map %" PRIu64 " bytes at 0x%" PRIx64,
			    (struct soma__error_args){ .arg = { bytes, address } });
	}
	return status;
}

/* The free blocks of the place leave their shelves, so that nothing is stolen from them. */
static void
claim(struct soma_model *model, const struct place *place)
{
	if (place->front != 0)
		soma__mapped_unshelve(model, place->front);
	if (place->back != 0)
		soma__mapped_unshelve(model, place->back);
}

/* What was stolen from: only complete blocks; a pending one is never claimed for that. */
static void
unclaim(struct soma_model *model, const struct place *place)
{
	if (place->front != 0)
		soma__mapped_complete(model, place->front);
	if (place->back != 0)
		soma__mapped_complete(model, place->back);
}

/* The mapped part of the hole falls to the block before it, or becomes a block. */
static uint32_t
fill_hole(struct soma_model *model, const struct place *place)
{
	struct soma__block *hole = soma__block_at(model, place->hole);
	uint32_t segment = soma__block_segment(hole), name = place->front;
	uint64_t end = place->map + (place->pages << model->mapped.page_shift);

	if (soma__block_end(model, hole) > end) {
		hole->head = soma__block_head(end, segment, SOMA__BLOCK_HOLE);
		if (name == 0)
			name = soma__block_insert(model, segment, hole->previous, place->map);
		soma__hole_refresh(model, place->hole);
		return name;
	}
	soma__hole_remove(model, place->hole);
	soma__hole_unmark(model, hole->next, SOMA__BESIDE_HOLE_BEFORE);
	if (place->back != 0)
		soma__block_erase(model, place->back);
	if (name == 0)
		return place->hole;
	soma__block_erase(model, place->hole);
	return name;
}

static uint32_t
extend_end(struct soma_model *model, unsigned pool, const struct place *place)
{
	struct soma__segment *range = soma__segment_at(model, model->mapped.range[pool]);
	uint32_t name = place->front;

	if (range->end == range->address)
		model->stats.segment_count++;
	if (name == 0)
		name = soma__block_insert(model, model->mapped.range[pool], range->last, range->end);
	range = soma__segment_at(model, model->mapped.range[pool]);
	range->end += place->pages << model->mapped.page_shift;
	if (pool + 1 == model->policy.pool_count)
		soma__reserve_set_top(model, range->end);
	return name;
}

/* A block of no account, longer than is wanted: what is left becomes free. */
static void
cut(struct soma_model *model, unsigned pool, uint32_t name, uint64_t granules)
{
	const struct soma__block *block = soma__block_at(model, name);
	uint64_t begin = soma__block_address(block), left = soma__block_granules(model, block) - granules;

	if (left == 0 || soma__bytes(model, left) < model->policy.pools[pool].split_min)
		return;
	soma__mapped_complete(model, soma__block_insert(model, soma__block_segment(block), name,
							begin + granules));
}

/* Pages are there: the place becomes the block. */
static uint32_t
occupy(struct soma_model *model, unsigned pool, const struct place *place, uint64_t granules,
       uint64_t pending)
{
	uint32_t name = place->hole != 0 ? fill_hole(model, place) : extend_end(model, pool, place);

	cut(model, pool, name, granules);
	model->stats.active +=
		soma__bytes(model, soma__block_granules(model, soma__block_at(model, name)) - pending);
	return name;
}

/* Needs nothing mapped: the front is large enough. */
static uint32_t
take_front(struct soma_model *model, unsigned pool, const struct place *place, uint64_t granules)
{
	uint32_t node = soma__block_at(model, place->front)->node;

	return soma__is_complete(model, place->front) ? soma__mapped_take(model, pool, node, granules)
						      : soma__block_take(model, node, granules);
}

static bool
reserve_growth(struct soma_model *model, unsigned pool, const struct place *place)
{
	const struct soma__segment *range = soma__segment_at(model, model->mapped.range[pool]);
	uint64_t end = range->end + (place->pages << model->mapped.page_shift);

	/* As many again, in case the source refuses. */
	return soma__mapped_reserve_release(model, place->pages) &&
	       soma__shelf_make(model, pool, end - range->address);
}

/* The granules of a pending block that the place begins with, which leaves its shelf. */
static uint64_t
take_pending(struct soma_model *model, const struct place *place)
{
	struct soma__block *block = soma__block_at(model, place->front);
	const struct soma__node *node = soma__node_at(&model->index, block->node);
	uint64_t granules = soma__block_granules(model, block);

	soma__shelf_at(model, soma__node_shelf(node))->promised -= granules;
	soma__block_unshelve(model, place->front);
	return granules;
}

bool
soma__mapped_reserve_growth(struct soma_model *model, unsigned pool, uint64_t granules)
{
	struct place place = { .pages = pages_up(model, granules) };

	return reserve_growth(model, pool, &place);
}

/* Maps the place's pages, after stealing those that are missing or, once the source
 * refused, all of them. */
static enum soma_status
map_place(struct soma_model *model, unsigned pool, struct place *place, bool pending)
{
	uint64_t stolen = missing_pages(model, place->pages);
	struct place claimed = *place;
	enum soma_status status = SOMA_STATUS_OK;

	if (pending)
		claimed.front = 0;
	if (stolen == 0) {
		status = map(model, place);
		if (status != SOMA_STATUS_OK && !can_steal(model, place, place->pages))
			return status;
		stolen = status != SOMA_STATUS_OK ? place->pages : 0;
	}
	claim(model, &claimed);
	if (stolen == 0)
		return SOMA_STATUS_OK;
	soma__unmap_pages(model, stolen, true);
	/* All that lay behind the hole may have been unmapped: then it is none any more. */
	if (soma__segment_at(model, model->mapped.range[pool])->end == place->map)
		place->hole = 0;
	status = map(model, place);
	if (status != SOMA_STATUS_OK)
		unclaim(model, &claimed);
	return status;
}

enum soma__growth
soma__mapped_grow(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules,
		  uint32_t *block)
{
	struct place place;
	bool pending;

	if (!choose(model, stream, pool, granules, &place))
		return SOMA__GROWTH_REFUSED;
	if (place.pages == 0) {
		*block = take_front(model, pool, &place, granules);
		return SOMA__GROWTH_DONE;
	}
	if (!reserve_growth(model, pool, &place))
		return SOMA__GROWTH_NO_RECORDS;
	pending = place.front != 0 && !soma__is_complete(model, place.front);
	model->refusal = map_place(model, pool, &place, pending);
	if (model->refusal != SOMA_STATUS_OK)
		return SOMA__GROWTH_REFUSED;
	*block = occupy(model, pool, &place, granules, pending ? take_pending(model, &place) : 0);
	model->stats.segments_acquired++;
	return SOMA__GROWTH_DONE;
}

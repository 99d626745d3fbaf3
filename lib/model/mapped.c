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
#include "lib/model/site.h"
#include "lib/model/unmap.h"

/* ---- blocks beside holes ---- */

void
soma__mapped_complete(struct soma_model *model, uint32_t name)
{
	model->stats.free_block_count++;
	soma__mapped_file(model, name, soma__node_take(&model->index));
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
		model->mapped.idle_pages -=
			soma__whole_pages(model, soma__block_address(block), soma__block_end(model, block));
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
		return soma__error(status, "the segment source refused an address range of %" PRIu64 " bytes",
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
	uint32_t name = soma__slab_take(&model->segment_slab, sizeof(struct soma__segment),
					sizeof(struct soma__segment));
	struct soma__segment *range = soma__segment_at(model, name);

	*range = (struct soma__segment){
		.home = pool, .tree = soma__tree_take(trees), .pool = pool, .address = address, .end = address
	};
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

/* ---- mapping ---- */

static enum soma_status
map(struct soma_model *model, const struct soma__site *site)
{
	uint64_t address = soma__bytes(model, site->map), serial = soma__error_serial();
	uint64_t bytes = site->pages * soma__page_bytes(model);
	enum soma_status status = SOMA_STATUS_OK;

	if (model->has_source)
		status = model->source.map(model->source.context, address, bytes);
	if (status == SOMA_STATUS_OK) {
		model->stats.map_count++;
		model->stats.pages_mapped += site->pages;
		soma__reserve_add(model, site->pages << model->mapped.page_shift);
	} else if (soma__error_serial() == serial) {
		soma__error(status, "the segment source refused to map %" PRIu64 " bytes at 0x%" PRIx64,
			    (struct soma__error_args){ .arg = { bytes, address } });
	}
	return status;
}

/* The free blocks of the site leave their shelves, so that nothing is stolen from them. */
static void
claim(struct soma_model *model, const struct soma__site *site)
{
	if (site->front != 0)
		soma__mapped_unshelve(model, site->front);
	if (site->back != 0)
		soma__mapped_unshelve(model, site->back);
}

/* What was stolen from: only complete blocks; a pending one is never claimed for that. */
static void
unclaim(struct soma_model *model, const struct soma__site *site)
{
	if (site->front != 0)
		soma__mapped_complete(model, site->front);
	if (site->back != 0)
		soma__mapped_complete(model, site->back);
}

/* The mapped part of the hole falls to the block before it, or becomes a block. */
static uint32_t
fill_hole(struct soma_model *model, const struct soma__site *site)
{
	struct soma__block *hole = soma__block_at(model, site->hole);
	uint32_t segment = soma__block_segment(hole), name = site->front;
	uint64_t end = site->map + (site->pages << model->mapped.page_shift);

	if (soma__block_end(model, hole) > end) {
		hole->head = soma__block_head(end, segment, SOMA__BLOCK_HOLE);
		if (name == 0)
			name = soma__block_insert(model, segment, hole->previous, site->map);
		soma__hole_refresh(model, site->hole);
		return name;
	}
	soma__hole_remove(model, site->hole);
	soma__hole_unmark(model, hole->next, SOMA__BESIDE_HOLE_BEFORE);
	if (site->back != 0)
		soma__block_erase(model, site->back);
	if (name == 0)
		return site->hole;
	soma__block_erase(model, site->hole);
	return name;
}

static uint32_t
extend_end(struct soma_model *model, unsigned pool, const struct soma__site *site)
{
	struct soma__segment *range = soma__segment_at(model, model->mapped.range[pool]);
	uint32_t name = site->front;

	if (range->end == range->address)
		model->stats.segment_count++;
	if (name == 0)
		name = soma__block_insert(model, model->mapped.range[pool], range->last, range->end);
	range = soma__segment_at(model, model->mapped.range[pool]);
	range->end += site->pages << model->mapped.page_shift;
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
	soma__mapped_complete(model,
			      soma__block_insert(model, soma__block_segment(block), name, begin + granules));
}

/* Pages are there: the site becomes the block. */
static uint32_t
occupy(struct soma_model *model, unsigned pool, const struct soma__site *site, uint64_t granules,
       uint64_t pending)
{
	uint32_t name = site->hole != 0 ? fill_hole(model, site) : extend_end(model, pool, site);

	cut(model, pool, name, granules);
	model->stats.active +=
		soma__bytes(model, soma__block_granules(model, soma__block_at(model, name)) - pending);
	return name;
}

/* Needs nothing mapped: the front is large enough. */
static uint32_t
take_front(struct soma_model *model, unsigned pool, const struct soma__site *site, uint64_t granules)
{
	uint32_t node = soma__block_at(model, site->front)->node;

	return soma__is_complete(model, site->front) ? soma__mapped_take(model, pool, node, granules)
						     : soma__block_take(model, node, granules);
}

static bool
reserve_growth(struct soma_model *model, unsigned pool, const struct soma__site *site)
{
	const struct soma__segment *range = soma__segment_at(model, model->mapped.range[pool]);
	uint64_t end = range->end + (site->pages << model->mapped.page_shift);

	/* As many again, in case the source refuses. */
	return soma__mapped_reserve_release(model, site->pages) &&
	       soma__shelf_make(model, pool, end - range->address);
}

/* The granules of a pending block that the site begins with, which leaves its shelf. */
static uint64_t
take_pending(struct soma_model *model, const struct soma__site *site)
{
	uint64_t granules = soma__block_granules(model, soma__block_at(model, site->front));

	soma__block_unshelve(model, site->front);
	return granules;
}

bool
soma__mapped_reserve_growth(struct soma_model *model, unsigned pool, uint64_t granules)
{
	struct soma__site site = { .pages = soma__pages_up(model, granules) };

	return reserve_growth(model, pool, &site);
}

/* Maps the site's pages, after stealing those that are missing or, once the source
 * refused, all of them. */
static enum soma_status
map_place(struct soma_model *model, unsigned pool, struct soma__site *site, bool pending)
{
	uint64_t stolen = soma__pages_missing(model, site->pages);
	struct soma__site claimed = *site;
	enum soma_status status = SOMA_STATUS_OK;

	if (pending)
		claimed.front = 0;
	if (stolen == 0) {
		status = map(model, site);
		if (status != SOMA_STATUS_OK && !soma__site_can_steal(model, site, site->pages))
			return status;
		stolen = status != SOMA_STATUS_OK ? site->pages : 0;
	}
	claim(model, &claimed);
	if (stolen == 0)
		return SOMA_STATUS_OK;
	soma__unmap_pages(model, stolen, true);
	/* All that lay behind the hole may have been unmapped: then it is none any more. */
	if (soma__segment_at(model, model->mapped.range[pool])->end == site->map)
		site->hole = 0;
	status = map(model, site);
	if (status != SOMA_STATUS_OK)
		unclaim(model, &claimed);
	return status;
}

enum soma__growth
soma__mapped_grow(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules,
		  uint32_t *block)
{
	struct soma__site site;
	bool pending;

	if (!soma__site_choose(model, stream, pool, granules, &site))
		return SOMA__GROWTH_REFUSED;
	if (site.pages == 0) {
		*block = take_front(model, pool, &site, granules);
		return SOMA__GROWTH_DONE;
	}
	if (!reserve_growth(model, pool, &site))
		return SOMA__GROWTH_NO_RECORDS;
	pending = site.front != 0 && !soma__is_complete(model, site.front);
	model->refusal = map_place(model, pool, &site, pending);
	if (model->refusal != SOMA_STATUS_OK)
		return SOMA__GROWTH_REFUSED;
	*block = occupy(model, pool, &site, granules, pending ? take_pending(model, &site) : 0);
	model->stats.segments_acquired++;
	return SOMA__GROWTH_DONE;
}

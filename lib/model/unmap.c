/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unmapping: which free blocks lose pages, and which pages.  Nothing fails once the
 * records are reserved.  Not thread-safe, like the model.
 */
#include "lib/model/unmap.h"

#include "lib/model/blocks.h"
#include "lib/model/mapped.h"
#include "lib/model/reserve.h"

/* ---- which block ---- */

static uint64_t
pages_of(const struct soma_model *model, uint32_t node)
{
	const struct soma__block *block = soma__block_at(model, soma__node_at(&model->index, node)->block);

	return soma__whole_pages(model, soma__block_address(block), soma__block_end(model, block));
}

/* The highest bit below `below` (0 to 64); -1 if none. */
static int
highest_below(uint64_t bits, unsigned below)
{
	if (below < 64)
		bits &= ((uint64_t)1 << below) - 1;
	return bits != 0 ? 63 - __builtin_clzll(bits) : -1;
}

/* The head of the list before that of this class and region, in descending order. */
static uint32_t
head_before(const struct soma__shelf *shelf, unsigned class, unsigned region)
{
	unsigned group = class / SOMA__CLASSES_PER_GROUP, slot = class % SOMA__CLASSES_PER_GROUP;
	const struct soma__bins *bins = shelf->bins[group];
	int found = highest_below(bins->regions[slot], region);

	if (found < 0) {
		found = highest_below(bins->classes, slot);
		if (found < 0) {
			found = highest_below(shelf->groups, group);
			if (found < 0)
				return 0;
			bins = shelf->bins[found];
			found = highest_below(bins->classes, 64);
		}
		slot = (unsigned)found;
		found = highest_below(bins->regions[slot], SOMA__REGIONS);
	}
	return bins->head[slot * SOMA__REGIONS + (unsigned)found];
}

/* The first with a whole page, in descending order of the shelf; 0 if none. */
static uint32_t
largest_on(struct soma_model *model, struct soma__shelf *shelf)
{
	uint32_t name = soma__shelf_last(&model->index, shelf);

	while (name != 0 && pages_of(model, name) == 0) {
		const struct soma__node *node = soma__node_at(&model->index, name);

		name = node->shelf_next;
		if (name == 0)
			name = head_before(shelf, node->place / SOMA__REGIONS, node->place % SOMA__REGIONS);
	}
	return name;
}

/* The smallest that surely has all of the pages, else one of the largest. */
static uint32_t
victim(struct soma_model *model, uint64_t pages)
{
	uint64_t enough = (pages + 1) << model->mapped.page_shift;
	uint32_t node = 0;

	for (unsigned pool = model->policy.pool_count; pool-- > 0 && node == 0;)
		node = soma__bins_find(model->shared[pool], enough);
	for (unsigned pool = model->policy.pool_count; pool-- > 0 && node == 0;)
		node = largest_on(model, model->shared[pool]);
	return node;
}

/* ---- which pages ---- */

/* A block of no account in a range becomes a hole, or part of those beside it, or the end
 * of the range. */
static void
make_hole(struct soma_model *model, uint32_t name)
{
	struct soma__block *block = soma__block_at(model, name);
	struct soma__segment *range = soma__segment_at(model, soma__block_segment(block));
	uint32_t next = block->next;

	if (soma__is_hole(model, next)) {
		soma__hole_remove(model, next);
		soma__block_erase(model, next);
	}
	if (soma__is_hole(model, block->previous)) {
		uint32_t previous = block->previous;

		soma__hole_remove(model, previous);
		soma__block_erase(model, name);
		name = previous;
	}
	block = soma__block_at(model, name);
	if (block->next != 0) {
		soma__hole_add(model, name);
		return;
	}
	range->end = soma__block_address(block);
	soma__block_erase(model, name);
	soma__hole_unmark(model, range->last, SOMA__BESIDE_HOLE_BEHIND);
	if (range->pool + 1 == model->policy.pool_count)
		soma__reserve_set_top(model, range->end);
	if (range->end == range->address)
		model->stats.segment_count--;
}

static void
announce(struct soma_model *model, uint64_t address, uint64_t pages, bool steal)
{
	struct soma_model_stats *stats = &model->stats;
	uint64_t bytes = pages * soma__page_bytes(model);

	if (model->has_source)
		model->source.unmap(model->source.context, soma__bytes(model, address), bytes);
	stats->reserved -= bytes;
	stats->unmap_count++;
	stats->pages_unmapped += pages;
	if (steal) {
		stats->steal_count++;
		stats->pages_stolen += pages;
	} else {
		stats->segments_released++;
	}
}

/* Takes up to `pages` whole pages of a complete block away: its last ones, or its first
 * ones where that makes a hole before it larger and none behind it.  Returns how many. */
static uint64_t
unmap_from(struct soma_model *model, uint32_t name, uint64_t pages, bool steal)
{
	const struct soma__block *block = soma__block_at(model, name);
	unsigned shift = model->mapped.page_shift;
	uint32_t segment = soma__block_segment(block), hole = name, back = 0;
	uint64_t begin = soma__block_address(block), end = soma__block_end(model, block), from, to;
	uint64_t whole = soma__whole_pages(model, begin, end);

	pages = pages < whole ? pages : whole;
	to = end >> shift << shift;
	if (soma__is_hole(model, block->previous) && !soma__is_hole(model, block->next))
		to = begin + (pages << shift);
	from = to - (pages << shift);
	soma__mapped_unshelve(model, name);
	if (begin < from)
		hole = soma__block_insert(model, segment, name, from);
	if (to < end)
		back = soma__block_insert(model, segment, hole, to);
	announce(model, from, pages, steal);
	make_hole(model, hole);
	if (begin < from)
		soma__mapped_complete(model, name);
	if (back != 0)
		soma__mapped_complete(model, back);
	return pages;
}

void
soma__unmap_pages(struct soma_model *model, uint64_t pages, bool steal)
{
	while (pages > 0)
		pages -= unmap_from(model, soma__node_at(&model->index, victim(model, pages))->block, pages,
				    steal);
}

/* ---- releasing ---- */

bool
soma__mapped_reserve_release(struct soma_model *model, uint64_t pages)
{
	uint64_t blocks =
		model->stats.free_block_count + model->stats.pending_free_count + model->queue.length;
	uint32_t count = (uint32_t)(blocks < pages ? blocks : pages) + 4 * SOMA__RECORDS_PER_OPERATION;
	struct soma__arena *arena = model->arena;

	model->headroom = 0; /* the records that operations count on may be taken */
	return soma__slab_reserve(&model->blocks, arena, 2 * count) &&
	       soma__slab_reserve(&model->index.nodes, arena, count + soma__unfiled(model)) &&
	       soma__slab_reserve(&model->index.trees, arena, 2 * (count + soma__unfiled(model)));
}

bool
soma__mapped_release(struct soma_model *model, uint64_t keep)
{
	uint64_t reserved = model->stats.reserved, pages = 0;

	if (reserved > keep)
		pages = (reserved - keep) >> (model->granule_shift + model->mapped.page_shift);
	if (pages > model->mapped.idle_pages)
		pages = model->mapped.idle_pages;
	soma__unmap_pages(model, pages, false);
	return pages > 0;
}

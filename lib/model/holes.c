/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two trees of a range's holes.  A hole's block names its node in by_pages, which
 * names the one in by_front, which names the block.  Not thread-safe, like the model.
 */
#include "lib/model/holes.h"

#include "lib/model/blocks.h"

struct soma__reach
soma__hole_reach(const struct soma_model *model, uint32_t name)
{
	const struct soma__block *hole = soma__block_at(model, name);
	struct soma__reach reach = { .hole = soma__block_address(hole),
				     .hole_end = soma__block_end(model, hole) };

	reach.front = soma__is_complete(model, hole->previous) ? hole->previous : 0;
	reach.back = soma__is_complete(model, hole->next) ? hole->next : 0;
	reach.start = reach.hole;
	reach.end = reach.hole_end;
	if (reach.front != 0)
		reach.start = soma__block_address(soma__block_at(model, reach.front));
	if (reach.back != 0)
		reach.end = soma__block_end(model, soma__block_at(model, reach.back));
	return reach;
}

struct keys {
	uint64_t pages, front; /* the trees' first ones */
	uint64_t second;
	uint64_t value;
};

static struct keys
keys_of(const struct soma_model *model, uint32_t hole, const struct soma__segment *range)
{
	struct soma__reach reach = soma__hole_reach(model, hole);
	unsigned shift = model->mapped.page_shift;

	return (struct keys){
		.pages = (reach.hole_end - reach.hole) >> shift,
		.front = ~((reach.hole - reach.start) >> shift),
		.second = (reach.end - reach.start) >> shift << 32 | (reach.hole - range->address) >> shift,
		.value = ~(reach.end - reach.start),
	};
}

static void
insert(struct soma_model *model, unsigned pool, uint32_t by_pages, const struct keys *keys)
{
	struct soma__slab *trees = &model->index.trees;
	struct soma__tree_node *node = soma__tree_at(trees, by_pages);
	uint32_t by_front = node->record;

	node->major = keys->pages;
	node->minor = keys->second;
	node->value = keys->value;
	soma__tree_insert(trees, &model->mapped.by_pages[pool], by_pages);
	node = soma__tree_at(trees, by_front);
	node->major = keys->front;
	node->minor = keys->second;
	node->value = keys->value;
	soma__tree_insert(trees, &model->mapped.by_front[pool], by_front);
}

static void
take_out(struct soma_model *model, unsigned pool, uint32_t by_pages)
{
	struct soma__slab *trees = &model->index.trees;
	const struct soma__tree_node *pages = soma__tree_at(trees, by_pages);
	const struct soma__tree_node *front = soma__tree_at(trees, pages->record);

	soma__tree_remove(trees, &model->mapped.by_pages[pool], pages->major, pages->minor);
	soma__tree_remove(trees, &model->mapped.by_front[pool], front->major, front->minor);
}

static const struct soma__segment *
range_of(const struct soma_model *model, uint32_t block)
{
	return soma__segment_at(model, soma__block_segment(soma__block_at(model, block)));
}

void
soma__hole_add(struct soma_model *model, uint32_t name)
{
	struct soma__slab *trees = &model->index.trees;
	const struct soma__segment *range = range_of(model, name);
	struct soma__block *block = soma__block_at(model, name);
	uint32_t by_pages = soma__tree_take(trees), by_front = soma__tree_take(trees);
	struct keys keys;

	soma__block_set_kind(block, SOMA__BLOCK_HOLE);
	block->node = by_pages;
	soma__tree_at(trees, by_pages)->record = by_front;
	soma__tree_at(trees, by_front)->record = name;
	keys = keys_of(model, name, range);
	insert(model, range->pool, by_pages, &keys);
}

void
soma__hole_remove(struct soma_model *model, uint32_t name)
{
	struct soma__slab *trees = &model->index.trees;
	struct soma__block *block = soma__block_at(model, name);
	uint32_t by_pages = block->node, by_front = soma__tree_at(trees, by_pages)->record;

	take_out(model, range_of(model, name)->pool, by_pages);
	soma__tree_give(trees, by_pages);
	soma__tree_give(trees, by_front);
	soma__block_set_kind(block, SOMA__BLOCK_LIVE);
}

void
soma__hole_refresh(struct soma_model *model, uint32_t name)
{
	const struct soma__segment *range = range_of(model, name);
	uint32_t by_pages = soma__block_at(model, name)->node;
	struct keys keys = keys_of(model, name, range);

	take_out(model, range->pool, by_pages);
	insert(model, range->pool, by_pages, &keys);
}

/* ---- finding one ---- */

uint32_t
soma__hole_smallest(const struct soma_model *model, unsigned pool, uint64_t granules)
{
	const struct soma__slab *trees = &model->index.trees;
	uint32_t tree = soma__tree_at_least_below(trees, model->mapped.by_pages[pool], 0, 0, ~granules + 1);

	return tree != 0 ? soma__tree_at(trees, soma__tree_at(trees, tree)->record)->record : 0;
}

uint32_t
soma__hole_behind_most(const struct soma_model *model, unsigned pool, uint64_t granules)
{
	const struct soma__slab *trees = &model->index.trees;
	uint32_t tree = soma__tree_at_least_below(trees, model->mapped.by_front[pool], 0, 0, ~granules + 1);

	return tree != 0 ? soma__tree_at(trees, tree)->record : 0;
}

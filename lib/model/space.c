/* SPDX-License-Identifier: Apache-2.0 */
/* Holes and the virtual space.  Nothing here fails.  Not thread-safe, like the model. */
#include "lib/model/space.h"

/* ---- holes: ordered by address, the value being ~size ---- */

void
soma__hole_put(struct soma_model *model, uint64_t address, uint64_t granules, uint32_t block)
{
	struct soma__slab *trees = &model->index.trees;
	uint32_t tree = soma__tree_take(trees);

	*soma__tree_at(trees, tree) =
		(struct soma__tree_node){ .record = block, .minor = address, .value = ~granules };
	soma__tree_insert(trees, &model->holes, tree);
}

void
soma__hole_change(struct soma_model *model, uint64_t address, uint64_t new_address, uint64_t granules)
{
	soma__tree_change(&model->index.trees, &model->holes, 0, address, new_address, ~granules);
}

void
soma__hole_remove_at(struct soma_model *model, uint64_t address)
{
	struct soma__slab *trees = &model->index.trees;

	soma__tree_give(trees, soma__tree_remove(trees, &model->holes, 0, address));
}

uint32_t
soma__hole_lowest(const struct soma_model *model, uint64_t granules)
{
	return soma__tree_at_least_below(&model->index.trees, model->holes, 0, 0, ~granules + 1);
}

void
soma__hole_take(struct soma_model *model, uint32_t hole, uint64_t granules)
{
	uint64_t address = soma__hole_address(model, hole), all = soma__hole_granules(model, hole);

	if (all > granules)
		soma__hole_change(model, address, address + granules, all - granules);
	else
		soma__hole_remove_at(model, address);
}

/* ---- the virtual space of a segmented pool ---- */

bool
soma__space_has(const struct soma_model *model, uint64_t granules)
{
	return soma__hole_lowest(model, granules) != 0 ||
	       granules <= SOMA__ADDRESS_END(model) - model->space_end;
}

uint64_t
soma__space_take(struct soma_model *model, uint64_t granules)
{
	uint32_t hole = soma__hole_lowest(model, granules);
	uint64_t address = model->space_end;

	if (hole == 0) {
		model->space_end += granules;
		return address;
	}
	address = soma__hole_address(model, hole);
	soma__hole_take(model, hole, granules);
	return address;
}

void
soma__space_give(struct soma_model *model, uint64_t address, uint64_t granules)
{
	const struct soma__slab *trees = &model->index.trees;
	uint32_t before = soma__tree_at_most(trees, model->holes, 0, address);
	uint32_t after = soma__tree_at_least(trees, model->holes, 0, address);
	uint64_t start = address;

	if (after != 0 && soma__hole_address(model, after) == address + granules) {
		granules += soma__hole_granules(model, after);
		soma__hole_remove_at(model, soma__hole_address(model, after));
	}
	if (before != 0 && soma__hole_address(model, before) + soma__hole_granules(model, before) == address) {
		start = soma__hole_address(model, before);
		granules += soma__hole_granules(model, before);
	}
	if (start + granules == model->space_end) {
		if (start != address)
			soma__hole_remove_at(model, start);
		model->space_end = start;
	} else if (start != address) {
		soma__hole_change(model, start, start, granules);
	} else {
		soma__hole_put(model, address, granules, 0);
	}
}

void
soma__space_adopt(struct soma_model *model, uint64_t address, uint64_t end)
{
	uint32_t hole;
	uint64_t hole_start, hole_end;

	if (end <= model->index.base)
		return;
	if (address < model->index.base)
		address = model->index.base;
	if (address >= model->space_end) {
		if (address > model->space_end)
			soma__hole_put(model, model->space_end, address - model->space_end, 0);
		model->space_end = end;
		return;
	}
	hole = soma__tree_at_most(&model->index.trees, model->holes, 0, address);
	hole_start = soma__hole_address(model, hole);
	hole_end = hole_start + soma__hole_granules(model, hole);
	soma__hole_remove_at(model, hole_start);
	if (hole_start < address)
		soma__hole_put(model, hole_start, address - hole_start, 0);
	if (end < hole_end)
		soma__hole_put(model, end, hole_end - end, 0);
}

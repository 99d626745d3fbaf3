/* SPDX-License-Identifier: Apache-2.0 */
/* Holes and the virtual space.  Nothing here fails.  Not thread-safe, like the model. */
#include "lib/model/space.h"

/* ---- holes: ordered by address, the value being ~size ---- */

void
soma__hole_put(struct soma_model *model, uint32_t tree, uint64_t address, uint64_t granules, uint32_t block)
{
	*soma__tree_at(&model->index.trees, tree) =
		(struct soma__tree_node){ .record = block, .minor = address, .value = ~granules };
	soma__tree_insert(&model->index.trees, &model->holes, tree);
}

bool
soma__hole_take(struct soma_model *model, uint64_t granules, uint64_t *address, uint64_t *rest,
		uint32_t *block)
{
	uint32_t tree = soma__tree_at_least_below(&model->index.trees, model->holes, 0, 0, ~granules + 1);
	const struct soma__tree_node *node = soma__tree_at(&model->index.trees, tree);

	if (tree == 0)
		return false;
	*address = node->minor;
	*rest = ~node->value - granules;
	*block = node->record;
	soma__tree_remove(&model->index.trees, &model->holes, 0, *address);
	if (*rest != 0)
		soma__hole_put(model, tree, *address + granules, *rest, *block);
	else
		soma__tree_give(&model->index.trees, tree);
	return true;
}

bool
soma__hole_exists(const struct soma_model *model, uint64_t granules)
{
	return soma__tree_at_least_below(&model->index.trees, model->holes, 0, 0, ~granules + 1) != 0;
}

/* ---- the virtual space of a segmented pool ---- */

bool
soma__space_has(const struct soma_model *model, uint64_t granules)
{
	return soma__hole_exists(model, granules) || granules <= SOMA__ADDRESS_END(model) - model->space_end;
}

uint64_t
soma__space_take(struct soma_model *model, uint64_t granules)
{
	uint64_t address, rest;
	uint32_t block;

	if (soma__hole_take(model, granules, &address, &rest, &block))
		return address;
	address = model->space_end;
	model->space_end += granules;
	return address;
}

void
soma__space_give(struct soma_model *model, uint64_t address, uint64_t granules)
{
	struct soma__slab *trees = &model->index.trees;
	uint32_t tree = soma__tree_at_most(trees, model->holes, 0, address);

	if (tree != 0 && soma__tree_at(trees, tree)->minor + ~soma__tree_at(trees, tree)->value == address) {
		granules += ~soma__tree_at(trees, tree)->value;
		address = soma__tree_at(trees, tree)->minor;
		soma__tree_give(trees, soma__tree_remove(trees, &model->holes, 0, address));
	}
	tree = soma__tree_at_least(trees, model->holes, 0, address);
	if (tree != 0 && soma__tree_at(trees, tree)->minor == address + granules) {
		granules += ~soma__tree_at(trees, tree)->value;
		soma__tree_give(
			trees, soma__tree_remove(trees, &model->holes, 0, soma__tree_at(trees, tree)->minor));
	}
	if (address + granules == model->space_end)
		model->space_end = address;
	else
		soma__hole_put(model, soma__tree_take(trees), address, granules, 0);
}

void
soma__space_adopt(struct soma_model *model, uint64_t address, uint64_t end)
{
	struct soma__slab *trees = &model->index.trees;
	uint32_t tree;
	uint64_t hole, hole_end;

	if (end <= model->index.base)
		return;
	if (address < model->index.base)
		address = model->index.base;
	if (address >= model->space_end) {
		if (address > model->space_end)
			soma__hole_put(model, soma__tree_take(trees), model->space_end,
				       address - model->space_end, 0);
		model->space_end = end;
		return;
	}
	tree = soma__tree_at_most(trees, model->holes, 0, address);
	hole = soma__tree_at(trees, tree)->minor;
	hole_end = hole + ~soma__tree_at(trees, tree)->value;
	soma__tree_give(trees, soma__tree_remove(trees, &model->holes, 0, hole));
	if (hole < address)
		soma__hole_put(model, soma__tree_take(trees), hole, address - hole, 0);
	if (end < hole_end)
		soma__hole_put(model, soma__tree_take(trees), end, hole_end - end, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual space.  Nothing here fails.  Not thread-safe, like the model. */
#include "lib/model/space.h"

bool
soma__space_has(const struct soma_model *model, uint64_t granules)
{
	return soma__firstfit_lowest(&model->holes, granules).node != 0 ||
	       granules <= SOMA__ADDRESS_END(model) - model->space_end;
}

uint64_t
soma__space_take(struct soma_model *model, uint64_t granules)
{
	struct soma__firstfit *holes = &model->holes;
	struct soma__spot hole = soma__firstfit_lowest(holes, granules);
	uint64_t address = model->space_end;

	if (hole.node == 0) {
		model->space_end += granules;
		return address;
	}
	address = soma__firstfit_address(holes, hole);
	if (soma__firstfit_granules(holes, hole) > granules)
		soma__firstfit_cut(holes, hole, granules);
	else
		soma__firstfit_remove(holes, hole);
	return address;
}

/* The addresses of a hole, which is none any more. */
static uint64_t
take_all(struct soma_model *model, struct soma__spot hole)
{
	uint64_t granules = soma__firstfit_granules(&model->holes, hole);

	soma__firstfit_remove(&model->holes, hole);
	return granules;
}

void
soma__space_give(struct soma_model *model, uint64_t address, uint64_t granules)
{
	struct soma__firstfit *holes = &model->holes;
	struct soma__spot behind = soma__firstfit_beside(holes, address, true), before;

	if (behind.node != 0 && soma__firstfit_address(holes, behind) == address + granules)
		granules += take_all(model, behind);
	before = soma__firstfit_beside(holes, address, false);
	if (before.node != 0) {
		uint64_t start = soma__firstfit_address(holes, before);
		uint64_t before_granules = soma__firstfit_granules(holes, before);

		if (start + before_granules == address) {
			address = start;
			granules += before_granules;
			if (address + granules != model->space_end) {
				soma__firstfit_extend(holes, before, address, granules);
				return;
			}
			soma__firstfit_remove(holes, before);
		}
	}
	if (address + granules == model->space_end)
		model->space_end = address;
	else
		soma__firstfit_insert(holes, address, granules, 0);
}

void
soma__space_adopt(struct soma_model *model, uint64_t address, uint64_t end)
{
	struct soma__firstfit *holes = &model->holes;
	struct soma__spot hole;
	uint64_t hole_start, hole_end;

	if (end <= model->index.base)
		return;
	if (address < model->index.base)
		address = model->index.base;
	if (address >= model->space_end) {
		if (address > model->space_end)
			soma__firstfit_insert(holes, model->space_end, address - model->space_end, 0);
		model->space_end = end;
		return;
	}
	hole = soma__firstfit_beside(holes, address, false);
	hole_start = soma__firstfit_address(holes, hole);
	hole_end = hole_start + take_all(model, hole);
	if (hole_start < address)
		soma__firstfit_insert(holes, hole_start, address - hole_start, 0);
	if (end < hole_end)
		soma__firstfit_insert(holes, end, hole_end - end, 0);
}

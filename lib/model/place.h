/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the block for an allocation: the ladder of HACKING, "Alloc".  Its first rung, the
 * shelves, is inline: most allocations end there.
 */
#ifndef SOMA_LIB_MODEL_PLACE_H
#define SOMA_LIB_MODEL_PLACE_H

#include "lib/model/cache.h"
#include "lib/model/keep.h"
#include "lib/model/mapped.h"
#include "lib/model/state.h"

struct soma__placement {
	uint32_t block; /* live, its waste not set */
	/* The event to wait for, which the stream's clock has joined; wait_seq 0: none. */
	uint64_t wait_stream;
	uint64_t wait_seq;
};

static HOT bool
soma__reuses(const struct soma_model *model, unsigned rule)
{
	return (model->policy.reuse & rule) != 0;
}

static HOT uint64_t
soma__node_granules(const struct soma_model *model, uint32_t node)
{
	return soma__sized_granules(model, soma__block_at(model, soma__node_at(&model->index, node)->block));
}

static HOT bool
soma__node_holds(const struct soma_model *model, uint32_t node, uint64_t granules)
{
	return soma__node_granules(model, node) >= granules;
}

/* HACKING, "Shelf order". */
static HOT uint32_t
soma__shelf_find(const struct soma_model *model, const struct soma__shelf *shelf, uint64_t granules)
{
	uint32_t node;

	if (shelf == NULL)
		return 0;
	if (shelf->groups == 0)
		return shelf->open != 0 && soma__node_holds(model, shelf->open, granules) ? shelf->open : 0;
	if (shelf->best)
		return soma__trees_find(&model->index, shelf, granules);
	node = soma__bins_latest(&model->index, shelf, granules);
	if (node != 0 && soma__node_holds(model, node, granules))
		return node;
	return soma__bins_find(shelf, granules);
}

/* With per_stream: from the stream's own complete blocks. */
static HOT uint32_t
soma__place_at_home(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules)
{
	const struct soma__keep home = { .shelf = stream->own[pool], .state = SOMA__NODE_COMPLETE };
	uint32_t node = soma__shelf_find(model, home.shelf, granules);

	model->searches += model->policy.collect_above != 0 && pool + 1 == model->policy.pool_count;
	if (node != 0 && model->policy.oversize != 0) {
		uint64_t block = soma__node_granules(model, node);

		if (!soma__cache_allows(model, granules, block))
			return 0;
		if (soma__cache_is_oversize(model, granules))
			granules = block;
	}
	return node != 0 ? soma__keep_take(model, &home, pool, node, granules) : 0;
}

/* The stream's own shelf, then the shared one: the block, or 0. */
static HOT uint32_t
soma__place_shelved(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules)
{
	const struct soma__keep own = { .shelf = stream->own[pool],
					.stream = stream,
					.state = SOMA__NODE_PENDING };
	const struct soma__keep shared = { .shelf = model->shared[pool], .state = SOMA__NODE_COMPLETE };
	uint32_t node = 0;

	if (model->policy.per_stream)
		return soma__place_at_home(model, stream, pool, granules);
	if (soma__reuses(model, SOMA_REUSE_SAME_STREAM))
		node = soma__shelf_find(model, own.shelf, granules);
	if (node != 0)
		return soma__keep_take(model, &own, pool, node, granules);
	node = soma__shelf_find(model, shared.shelf, granules);
	if (node == 0)
		return 0;
	return model->is_mapped ? soma__mapped_take(model, pool, node, granules)
				: soma__keep_take(model, &shared, pool, node, granules);
}

/* What the shelves do not have.  Nothing that an operation can see has changed when this fails.
 * OUT_OF_DEVICE_MEMORY is left for the caller to describe. */
enum soma_status soma__place_elsewhere(struct soma_model *model, struct soma__stream *stream, unsigned pool,
				       uint64_t granules, struct soma__placement *placement);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The lists and trees of pending frees.  Only soma__pending_follow() takes memory. */
#include "lib/model/pending.h"

static unsigned
pool_of(const struct soma_model *model, const struct soma__node *node)
{
	return node->shelf & ((1U << model->pool_shift) - 1);
}

void
soma__pending_link(struct soma_model *model, struct soma__stream *stream, uint32_t name)
{
	struct soma__node *node = soma__node_at(&model->index, name);

	node->older = stream->newest;
	node->newer = 0;
	if (stream->newest != 0)
		soma__node_at(&model->index, stream->newest)->newer = name;
	else
		stream->oldest = name;
	stream->newest = name;
}

void
soma__pending_unlink(struct soma_model *model, struct soma__stream *stream, uint32_t name)
{
	struct soma__node *node = soma__node_at(&model->index, name);

	if (node->older != 0)
		soma__node_at(&model->index, node->older)->newer = node->newer;
	else
		stream->oldest = node->newer;
	if (node->newer != 0)
		soma__node_at(&model->index, node->newer)->older = node->older;
	else
		stream->newest = node->older;
}

void
soma__pending_file(struct soma_model *model, struct soma__stream *stream, uint32_t name, uint64_t address,
		   uint64_t granules)
{
	struct soma__slab *trees = &model->index.trees;
	const struct soma__node *node = soma__node_at(&model->index, name);
	uint32_t tree;

	if (!stream->followed)
		return;
	tree = soma__slab_take(trees);
	*soma__tree_at(trees, tree) = (struct soma__tree_node){
		.record = name, .major = granules, .minor = address, .value = node->position };
	soma__tree_insert(trees, &stream->by_size[pool_of(model, node)], tree);
}

void
soma__pending_unfile(struct soma_model *model, struct soma__stream *stream, uint32_t name, uint64_t address,
		     uint64_t granules)
{
	struct soma__slab *trees = &model->index.trees;
	const struct soma__node *node = soma__node_at(&model->index, name);

	if (stream->followed)
		soma__slab_give(trees, soma__tree_remove(trees, &stream->by_size[pool_of(model, node)],
							 granules, address));
}

bool
soma__pending_follow(struct soma_model *model, struct soma__stream *stream)
{
	if (stream->followed || !(model->policy.reuse & (SOMA_REUSE_FOLLOW_EVENTS | SOMA_REUSE_INTERNAL)))
		return true;
	if (!soma__slab_reserve(&model->index.trees, model->arena,
				stream->pending_count + 2 * model->unfiled + 8))
		return false;
	stream->followed = true;
	for (uint32_t name = stream->oldest; name != 0; name = soma__node_at(&model->index, name)->newer) {
		const struct soma__block *block =
			soma__block_at(model, soma__node_at(&model->index, name)->block);

		soma__pending_file(model, stream, name, soma__block_address(block),
				   soma__block_granules(model, block));
	}
	return true;
}

uint32_t
soma__pending_best(const struct soma_model *model, const struct soma__stream *stream, unsigned pool,
		   uint64_t granules, uint64_t limit)
{
	return soma__tree_at_least_below(&model->index.trees, stream->by_size[pool], granules, 0, limit);
}

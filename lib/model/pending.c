/* SPDX-License-Identifier: Apache-2.0 */
/* The lists and trees of pending frees.  Only soma__pending_follow() takes memory. */
#include "lib/model/pending.h"

void
soma__pending_file_followed(struct soma_model *model, struct soma__stream *stream, uint32_t name,
			    uint64_t address, uint64_t granules)
{
	struct soma__slab *trees = &model->index.trees;
	const struct soma__node *node = soma__node_at(&model->index, name);
	uint32_t tree;

	tree = soma__tree_take(trees);
	*soma__tree_at(trees, tree) = (struct soma__tree_node){
		.record = name, .major = granules, .minor = address, .value = node->position
	};
	soma__tree_insert(trees, &stream->by_size[soma__shelf_pool(model, soma__node_shelf(node))], tree);
}

void
soma__pending_unfile_followed(struct soma_model *model, struct soma__stream *stream, uint32_t name,
			      uint64_t address, uint64_t granules)
{
	struct soma__slab *trees = &model->index.trees;
	const struct soma__node *node = soma__node_at(&model->index, name);

	soma__tree_give(trees,
			soma__tree_remove(trees,
					  &stream->by_size[soma__shelf_pool(model, soma__node_shelf(node))],
					  granules, address));
}

bool
soma__pending_follow(struct soma_model *model, struct soma__stream *stream)
{
	if (stream->followed || !(model->policy.reuse & (SOMA_REUSE_FOLLOW_EVENTS | SOMA_REUSE_INTERNAL)))
		return true;
	if (!soma__slab_reserve(&model->index.trees, model->arena,
				stream->pending_count + 2 * soma__unfiled(model) + 8))
		return false;
	stream->followed = true;
	model->headroom = 0;
	for (uint32_t name = stream->oldest; name != 0; name = soma__node_at(&model->index, name)->newer) {
		const struct soma__block *block =
			soma__block_at(model, soma__node_at(&model->index, name)->block);

		soma__pending_file_followed(model, stream, name, soma__block_address(block),
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

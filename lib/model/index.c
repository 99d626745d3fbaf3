/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shelves: memory, and the `best` fit.  `good` is inline in the header.  No scans:
 * bitmaps and one descent in the tree of a class.
 */
#include "lib/model/index.h"

#include "lib/model/state.h"

_Static_assert(sizeof(struct soma__block) == 24, "a block is 24 bytes");
_Static_assert(sizeof(struct soma__node) == 32, "a node is half a cache line");

bool
soma__shelf_reserve(struct soma__index *index, struct soma__shelf *shelf, uint64_t granules)
{
	uint32_t wanted = soma__class_floor(granules) / SOMA__CLASSES_PER_GROUP + 1;
	size_t size = shelf->best ? sizeof(struct soma__trees) : sizeof(struct soma__bins);

	while (shelf->group_count < wanted) {
		void *group = soma__arena_calloc(index->arena, size, 64);

		if (group == NULL)
			return false;
		if (shelf->best)
			shelf->trees[shelf->group_count++] = group;
		else
			shelf->bins[shelf->group_count++] = group;
	}
	return true;
}

void
soma__trees_put(struct soma__index *index, struct soma__shelf *shelf, uint32_t name, uint64_t address,
		uint64_t granules)
{
	unsigned class = soma__class_floor(granules);
	unsigned group = class / SOMA__CLASSES_PER_GROUP, slot = class % SOMA__CLASSES_PER_GROUP;
	struct soma__trees *trees = shelf->trees[group];
	uint32_t tree = soma__tree_take(&index->trees);

	*soma__tree_at(&index->trees, tree) =
		(struct soma__tree_node){ .record = name, .major = granules, .minor = address };
	soma__tree_insert(&index->trees, &trees->root[slot], tree);
	trees->classes |= (uint64_t)1 << slot;
	shelf->groups |= (uint64_t)1 << group;
}

void
soma__trees_remove(struct soma__index *index, struct soma__shelf *shelf, uint64_t address, uint64_t granules)
{
	unsigned class = soma__class_floor(granules);
	unsigned group = class / SOMA__CLASSES_PER_GROUP, slot = class % SOMA__CLASSES_PER_GROUP;
	struct soma__trees *trees = shelf->trees[group];

	soma__tree_give(&index->trees,
			soma__tree_remove(&index->trees, &trees->root[slot], granules, address));
	if (trees->root[slot] != 0)
		return;
	trees->classes &= ~((uint64_t)1 << slot);
	if (trees->classes == 0)
		shelf->groups &= ~((uint64_t)1 << group);
}

uint32_t
soma__trees_find(const struct soma__index *index, const struct soma__shelf *shelf, uint64_t granules)
{
	unsigned class = soma__class_floor(granules);
	unsigned group = class / SOMA__CLASSES_PER_GROUP, slot = class % SOMA__CLASSES_PER_GROUP;
	uint32_t tree = 0;
	uint64_t classes = 0;

	if (group < shelf->group_count) {
		classes = soma__bits_from(shelf->trees[group]->classes, slot + 1);
		tree = soma__tree_at_least(&index->trees, shelf->trees[group]->root[slot], granules, 0);
	}
	if (tree == 0) {
		if (classes == 0) {
			uint64_t groups = soma__bits_from(shelf->groups, group + 1);

			if (groups == 0)
				return 0;
			group = (unsigned)__builtin_ctzll(groups);
			classes = shelf->trees[group]->classes;
		}
		tree = soma__tree_at_least(&index->trees, shelf->trees[group]->root[__builtin_ctzll(classes)],
					   0, 0);
	}
	return soma__tree_at(&index->trees, tree)->record;
}

uint32_t
soma__shelf_last(struct soma__index *index, struct soma__shelf *shelf)
{
	unsigned group, slot;

	soma__shelf_settle(index, shelf);
	if (shelf->groups == 0)
		return 0;
	group = 63U - (unsigned)__builtin_clzll(shelf->groups);
	if (shelf->best) {
		const struct soma__trees *trees = shelf->trees[group];
		uint32_t tree;

		slot = 63U - (unsigned)__builtin_clzll(trees->classes);
		tree = soma__tree_at_most(&index->trees, trees->root[slot], UINT64_MAX, UINT64_MAX);
		return soma__tree_at(&index->trees, tree)->record;
	} else {
		const struct soma__bins *bins = shelf->bins[group];

		slot = 63U - (unsigned)__builtin_clzll(bins->classes);
		return bins->head[slot * SOMA__REGIONS + 31U - (unsigned)__builtin_clz(bins->regions[slot])];
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shelves: put, remove and find for both fits.  No scans: bitmaps and lists for
 * `good`, bitmaps and one tree descent for `best`.
 */
#include "lib/model/index.h"

#include "lib/model/state.h"

_Static_assert(sizeof(struct soma__block) == 20, "a block is 20 bytes");
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

static unsigned
region_of(const struct soma__index *index, uint64_t address)
{
	uint64_t region;

	if (address < index->base)
		return 0;
	region = (address - index->base) >> index->region_shift;
	return region < SOMA__REGIONS ? (unsigned)region : SOMA__REGIONS - 1;
}

static void
bins_put(struct soma__index *index, struct soma__shelf *shelf, uint32_t name, unsigned class, unsigned region)
{
	unsigned group = class / SOMA__CLASSES_PER_GROUP, slot = class % SOMA__CLASSES_PER_GROUP;
	struct soma__bins *bins = shelf->bins[group];
	struct soma__node *node = soma__node_at(index, name);
	uint32_t *head = &bins->head[slot][region];

	node->place = (uint16_t)(class * SOMA__REGIONS + region);
	node->shelf_previous = 0;
	node->shelf_next = *head;
	if (*head != 0)
		soma__node_at(index, *head)->shelf_previous = name;
	*head = name;
	bins->regions[slot] |= (uint16_t)(1U << region);
	bins->classes |= (uint64_t)1 << slot;
	shelf->groups |= (uint64_t)1 << group;
}

static void
bins_remove(struct soma__index *index, struct soma__shelf *shelf, uint32_t name)
{
	struct soma__node *node = soma__node_at(index, name);
	unsigned class = node->place / SOMA__REGIONS, region = node->place % SOMA__REGIONS;
	unsigned group = class / SOMA__CLASSES_PER_GROUP, slot = class % SOMA__CLASSES_PER_GROUP;
	struct soma__bins *bins = shelf->bins[group];

	if (node->shelf_next != 0)
		soma__node_at(index, node->shelf_next)->shelf_previous = node->shelf_previous;
	if (node->shelf_previous != 0) {
		soma__node_at(index, node->shelf_previous)->shelf_next = node->shelf_next;
		return;
	}
	bins->head[slot][region] = node->shelf_next;
	if (node->shelf_next != 0)
		return;
	bins->regions[slot] &= (uint16_t)~(1U << region);
	if (bins->regions[slot] != 0)
		return;
	bins->classes &= ~((uint64_t)1 << slot);
	if (bins->classes == 0)
		shelf->groups &= ~((uint64_t)1 << group);
}

static void
trees_put(struct soma__index *index, struct soma__shelf *shelf, uint32_t name, uint64_t address,
	  uint64_t granules)
{
	unsigned class = soma__class_floor(granules);
	unsigned group = class / SOMA__CLASSES_PER_GROUP, slot = class % SOMA__CLASSES_PER_GROUP;
	struct soma__trees *trees = shelf->trees[group];
	uint32_t tree = soma__slab_take(&index->trees);

	*soma__tree_at(&index->trees, tree) =
		(struct soma__tree_node){ .record = name, .major = granules, .minor = address };
	soma__tree_insert(&index->trees, &trees->root[slot], tree);
	trees->classes |= (uint64_t)1 << slot;
	shelf->groups |= (uint64_t)1 << group;
}

static void
trees_remove(struct soma__index *index, struct soma__shelf *shelf, uint64_t address, uint64_t granules)
{
	unsigned class = soma__class_floor(granules);
	unsigned group = class / SOMA__CLASSES_PER_GROUP, slot = class % SOMA__CLASSES_PER_GROUP;
	struct soma__trees *trees = shelf->trees[group];

	soma__slab_give(&index->trees,
			soma__tree_remove(&index->trees, &trees->root[slot], granules, address));
	if (trees->root[slot] != 0)
		return;
	trees->classes &= ~((uint64_t)1 << slot);
	if (trees->classes == 0)
		shelf->groups &= ~((uint64_t)1 << group);
}

void
soma__shelf_put(struct soma__index *index, struct soma__shelf *shelf, uint32_t node, uint64_t address,
		uint64_t granules)
{
	if (shelf->best)
		trees_put(index, shelf, node, address, granules);
	else
		bins_put(index, shelf, node, soma__class_floor(granules), region_of(index, address));
}

void
soma__shelf_remove(struct soma__index *index, struct soma__shelf *shelf, uint32_t node, uint64_t address,
		   uint64_t granules)
{
	if (shelf->best)
		trees_remove(index, shelf, address, granules);
	else
		bins_remove(index, shelf, node);
}

/* Bits of `bits` from position `from` (0 to 64) on. */
static uint64_t
bits_from(uint64_t bits, unsigned from)
{
	return from < 64 ? bits & (~(uint64_t)0 << from) : 0;
}

static uint32_t
bins_find(const struct soma__shelf *shelf, uint64_t granules)
{
	unsigned class = soma__class_ceiling(granules);
	unsigned group = class / SOMA__CLASSES_PER_GROUP, slot;
	uint64_t classes = 0;

	if (group < shelf->group_count)
		classes = bits_from(shelf->bins[group]->classes, class % SOMA__CLASSES_PER_GROUP);
	if (classes == 0) {
		uint64_t groups = bits_from(shelf->groups, group + 1);

		if (groups == 0)
			return 0;
		group = (unsigned)__builtin_ctzll(groups);
		classes = shelf->bins[group]->classes;
	}
	slot = (unsigned)__builtin_ctzll(classes);
	return shelf->bins[group]->head[slot][__builtin_ctz(shelf->bins[group]->regions[slot])];
}

static uint32_t
trees_find(const struct soma__index *index, const struct soma__shelf *shelf, uint64_t granules)
{
	unsigned class = soma__class_floor(granules);
	unsigned group = class / SOMA__CLASSES_PER_GROUP, slot = class % SOMA__CLASSES_PER_GROUP;
	uint32_t tree = 0;
	uint64_t classes = 0;

	if (group < shelf->group_count) {
		classes = bits_from(shelf->trees[group]->classes, slot + 1);
		tree = soma__tree_at_least(&index->trees, shelf->trees[group]->root[slot], granules, 0);
	}
	if (tree == 0) {
		if (classes == 0) {
			uint64_t groups = bits_from(shelf->groups, group + 1);

			if (groups == 0)
				return 0;
			group = (unsigned)__builtin_ctzll(groups);
			classes = shelf->trees[group]->classes;
		}
		tree = soma__tree_at_least(&index->trees,
					   shelf->trees[group]->root[__builtin_ctzll(classes)], 0, 0);
	}
	return soma__tree_at(&index->trees, tree)->record;
}

uint32_t
soma__shelf_find(const struct soma__index *index, const struct soma__shelf *shelf, uint64_t granules)
{
	if (shelf->groups == 0)
		return 0;
	return shelf->best ? trees_find(index, shelf, granules) : bins_find(shelf, granules);
}

uint32_t
soma__shelf_last(const struct soma__index *index, const struct soma__shelf *shelf)
{
	unsigned group, slot;

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
		return bins->head[slot][31 - __builtin_clz(bins->regions[slot])];
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Treaps.  Insertion and removal go down once; a removal goes up its path again to
 * renew the least values.  No locking, no allocation.
 */
#include "lib/model/tree.h"

#include <stdbool.h>

/* Deeper than any treap of 2^24 nodes gets: expected 1.4 log2 n = 34, and the chance
 * to double that is below 2^-60. */
#define DEPTH_MAX 192

static uint32_t
priority(uint32_t node)
{
	uint32_t x = node * UINT32_C(0x9e3779b1);

	x ^= x >> 15;
	x *= UINT32_C(0x85ebca77);
	return x ^ x >> 13;
}

static bool
before(const struct soma__tree_node *node, uint64_t major, uint64_t minor)
{
	return node->major < major || (node->major == major && node->minor < minor);
}

static void
renew_least(const struct soma__slab *slab, struct soma__tree_node *node)
{
	uint64_t least = node->value;

	if (node->left != 0 && soma__tree_at(slab, node->left)->least < least)
		least = soma__tree_at(slab, node->left)->least;
	if (node->right != 0 && soma__tree_at(slab, node->right)->least < least)
		least = soma__tree_at(slab, node->right)->least;
	node->least = least;
}

/* Splits the tree at `root` by the key of `node` into node's two subtrees. */
static void
split_below(struct soma__slab *slab, uint32_t root, struct soma__tree_node *node)
{
	uint32_t path[DEPTH_MAX];
	unsigned depth = 0;
	uint32_t *left = &node->left, *right = &node->right;

	while (root != 0) {
		struct soma__tree_node *at = soma__tree_at(slab, root);

		path[depth++] = root;
		if (before(at, node->major, node->minor)) {
			*left = root;
			left = &at->right;
			root = at->right;
		} else {
			*right = root;
			right = &at->left;
			root = at->left;
		}
	}
	*left = 0;
	*right = 0;
	while (depth > 0)
		renew_least(slab, soma__tree_at(slab, path[--depth]));
	renew_least(slab, node);
}

void
soma__tree_insert(struct soma__slab *slab, uint32_t *root, uint32_t index)
{
	struct soma__tree_node *node = soma__tree_at(slab, index);
	uint32_t rank = priority(index);

	while (*root != 0 && priority(*root) >= rank) {
		struct soma__tree_node *at = soma__tree_at(slab, *root);

		if (node->value < at->least)
			at->least = node->value;
		root = before(at, node->major, node->minor) ? &at->right : &at->left;
	}
	split_below(slab, *root, node);
	*root = index;
}

/* Joins two trees, all of the left one before the right one, into *link. */
static void
join_into(struct soma__slab *slab, uint32_t *link, uint32_t left, uint32_t right)
{
	uint32_t path[DEPTH_MAX];
	unsigned depth = 0;

	while (left != 0 && right != 0) {
		if (priority(left) >= priority(right)) {
			*link = path[depth++] = left;
			link = &soma__tree_at(slab, left)->right;
			left = *link;
		} else {
			*link = path[depth++] = right;
			link = &soma__tree_at(slab, right)->left;
			right = *link;
		}
	}
	*link = left != 0 ? left : right;
	while (depth > 0)
		renew_least(slab, soma__tree_at(slab, path[--depth]));
}

uint32_t
soma__tree_remove(struct soma__slab *slab, uint32_t *root, uint64_t major, uint64_t minor)
{
	uint32_t path[DEPTH_MAX];
	unsigned depth = 0;
	struct soma__tree_node *at;
	uint32_t found;

	for (;;) {
		at = soma__tree_at(slab, *root);
		if (at->major == major && at->minor == minor)
			break;
		path[depth++] = *root;
		root = before(at, major, minor) ? &at->right : &at->left;
	}
	found = *root;
	join_into(slab, root, at->left, at->right);
	while (depth > 0)
		renew_least(slab, soma__tree_at(slab, path[--depth]));
	return found;
}

uint32_t
soma__tree_at_least(const struct soma__slab *slab, uint32_t root, uint64_t major, uint64_t minor)
{
	uint32_t found = 0;

	while (root != 0) {
		const struct soma__tree_node *at = soma__tree_at(slab, root);

		if (before(at, major, minor)) {
			root = at->right;
		} else {
			found = root;
			root = at->left;
		}
	}
	return found;
}

/* The first node of this whole subtree whose value is below the limit. */
static uint32_t
first_below(const struct soma__slab *slab, uint32_t root, uint64_t limit)
{
	while (root != 0) {
		const struct soma__tree_node *at = soma__tree_at(slab, root);

		if (at->least >= limit)
			return 0;
		if (at->left != 0 && soma__tree_at(slab, at->left)->least < limit)
			root = at->left;
		else if (at->value < limit)
			return root;
		else
			root = at->right;
	}
	return 0;
}

uint32_t
soma__tree_at_least_below(const struct soma__slab *slab, uint32_t root, uint64_t major, uint64_t minor,
			  uint64_t limit)
{
	uint32_t path[DEPTH_MAX]; /* nodes at or after the key, nearest last */
	unsigned depth = 0;

	while (root != 0) {
		const struct soma__tree_node *at = soma__tree_at(slab, root);

		if (at->least >= limit)
			break;
		if (before(at, major, minor)) {
			root = at->right;
		} else {
			path[depth++] = root;
			root = at->left;
		}
	}
	while (depth > 0) {
		uint32_t index = path[--depth];
		const struct soma__tree_node *at = soma__tree_at(slab, index);
		uint32_t below;

		if (at->value < limit)
			return index;
		below = first_below(slab, at->right, limit);
		if (below != 0)
			return below;
	}
	return 0;
}

uint32_t
soma__tree_at_most(const struct soma__slab *slab, uint32_t root, uint64_t major, uint64_t minor)
{
	uint32_t found = 0;

	while (root != 0) {
		const struct soma__tree_node *at = soma__tree_at(slab, root);

		if (at->major > major || (at->major == major && at->minor > minor)) {
			root = at->left;
		} else {
			found = root;
			root = at->right;
		}
	}
	return found;
}

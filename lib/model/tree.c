/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AVL trees: keys come from callers and from files, so the depth must not depend on
 * them.  Insertion and removal go down once and up again as far as something changes.
 * No locking, no allocation.
 */
#include "lib/model/tree.h"

#include <stdbool.h>

/* An AVL tree of 2^32 nodes is at most 46 deep. */
#define DEPTH_MAX 48

static bool
before(const struct soma__tree_node *node, uint64_t major, uint64_t minor)
{
	return node->major < major || (node->major == major && node->minor < minor);
}

static uint32_t
height(const struct soma__slab *slab, uint32_t root)
{
	return root != 0 ? soma__tree_at(slab, root)->height : 0;
}

/* Height and least value from the children's. */
static void
renew(const struct soma__slab *slab, struct soma__tree_node *node)
{
	uint32_t left = height(slab, node->left), right = height(slab, node->right);
	uint64_t least = node->value;

	node->height = 1 + (left > right ? left : right);
	if (node->left != 0 && soma__tree_at(slab, node->left)->least < least)
		least = soma__tree_at(slab, node->left)->least;
	if (node->right != 0 && soma__tree_at(slab, node->right)->least < least)
		least = soma__tree_at(slab, node->right)->least;
	node->least = least;
}

static uint32_t
rotate_left(struct soma__slab *slab, uint32_t root)
{
	struct soma__tree_node *node = soma__tree_at(slab, root);
	uint32_t top = node->right;

	node->right = soma__tree_at(slab, top)->left;
	soma__tree_at(slab, top)->left = root;
	renew(slab, node);
	renew(slab, soma__tree_at(slab, top));
	return top;
}

static uint32_t
rotate_right(struct soma__slab *slab, uint32_t root)
{
	struct soma__tree_node *node = soma__tree_at(slab, root);
	uint32_t top = node->left;

	node->left = soma__tree_at(slab, top)->right;
	soma__tree_at(slab, top)->right = root;
	renew(slab, node);
	renew(slab, soma__tree_at(slab, top));
	return top;
}

/* The root of this subtree once its two sides differ by at most one. */
static uint32_t
balanced(struct soma__slab *slab, uint32_t root)
{
	struct soma__tree_node *node = soma__tree_at(slab, root);
	uint32_t left = height(slab, node->left), right = height(slab, node->right);

	if (left > right + 1) {
		const struct soma__tree_node *child = soma__tree_at(slab, node->left);

		if (height(slab, child->left) < height(slab, child->right))
			node->left = rotate_left(slab, node->left);
		return rotate_right(slab, root);
	}
	if (right > left + 1) {
		const struct soma__tree_node *child = soma__tree_at(slab, node->right);

		if (height(slab, child->right) < height(slab, child->left))
			node->right = rotate_right(slab, node->right);
		return rotate_left(slab, root);
	}
	renew(slab, node);
	return root;
}

/* Goes up a path of links, to its top or, above the first `all` of them, to where nothing
 * changes any more. */
static void
mend_up(struct soma__slab *slab, uint32_t **path, unsigned depth, unsigned all)
{
	while (depth-- > 0) {
		const struct soma__tree_node *node = soma__tree_at(slab, *path[depth]);
		uint32_t old_height = node->height;
		uint64_t old_least = node->least;

		*path[depth] = balanced(slab, *path[depth]);
		node = soma__tree_at(slab, *path[depth]);
		if (depth <= all && node->height == old_height && node->least == old_least)
			return;
	}
}

void
soma__tree_insert(struct soma__slab *slab, uint32_t *root, uint32_t index)
{
	struct soma__tree_node *node = soma__tree_at(slab, index);
	uint32_t *path[DEPTH_MAX];
	unsigned depth = 0;

	while (*root != 0) {
		struct soma__tree_node *at = soma__tree_at(slab, *root);

		path[depth++] = root;
		root = before(at, node->major, node->minor) ? &at->right : &at->left;
	}
	*root = index;
	node->left = node->right = 0;
	renew(slab, node);
	mend_up(slab, path, depth, depth);
}

/* Puts the next node in order, found under `found`'s right side, into the place of
 * `found`, to which path[depth - 1] leads.  Returns the new depth of the path. */
static unsigned
replace_by_next(struct soma__slab *slab, struct soma__tree_node *found, uint32_t **path, unsigned depth)
{
	unsigned place = depth;
	uint32_t *link = &found->right, next;
	struct soma__tree_node *node;

	while (soma__tree_at(slab, *link)->left != 0) {
		path[depth++] = link;
		link = &soma__tree_at(slab, *link)->left;
	}
	next = *link;
	node = soma__tree_at(slab, next);
	*link = node->right;
	node->left = found->left;
	node->right = found->right;
	node->height = found->height;
	node->least = found->least;
	*path[place - 1] = next;
	if (depth > place)
		path[place] = &node->right; /* it led through `found` */
	return depth;
}

uint32_t
soma__tree_remove(struct soma__slab *slab, uint32_t *root, uint64_t major, uint64_t minor)
{
	uint32_t *path[DEPTH_MAX];
	unsigned depth = 0, place;
	struct soma__tree_node *at;
	uint32_t found;

	for (;;) {
		at = soma__tree_at(slab, *root);
		path[depth++] = root;
		if (at->major == major && at->minor == minor)
			break;
		root = before(at, major, minor) ? &at->right : &at->left;
	}
	found = *root;
	place = depth - 1;
	if (at->left != 0 && at->right != 0) {
		depth = replace_by_next(slab, at, path, depth);
	} else {
		*root = at->left != 0 ? at->left : at->right;
		depth--;
	}
	mend_up(slab, path, depth, place);
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

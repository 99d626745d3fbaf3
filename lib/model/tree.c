/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AVL trees: keys come from callers and from files, so the depth must not depend on
 * them.  Insertion and removal go down once and up again as far as something changes.
 * No locking, no allocation.
 */
#include "lib/model/tree.h"

#include <stdbool.h>

_Static_assert(sizeof(struct soma__tree_node) == 64, "a tree node is a cache line");

/* An AVL tree of 2^32 nodes is at most 46 deep. */
#define DEPTH_MAX 48

/* The way down: at each node, the side that was taken. */
struct step {
	uint32_t node;
	uint32_t side;
};

struct path {
	unsigned depth;
	struct step steps[DEPTH_MAX];
};

static bool
before(const struct soma__tree_node *node, uint64_t major, uint64_t minor)
{
	return node->major < major || (node->major == major && node->minor < minor);
}

static uint16_t
height(const struct soma__tree_node *node)
{
	return (uint16_t)(1 + (node->height[0] > node->height[1] ? node->height[0] : node->height[1]));
}

static uint64_t
least(const struct soma__tree_node *node)
{
	uint64_t below = node->least[0] < node->least[1] ? node->least[0] : node->least[1];

	return node->value < below ? node->value : below;
}

/* Makes `child` the node's subtree on this side; true if anything about it is new. */
static bool
hang(struct soma__slab *slab, struct soma__tree_node *node, unsigned side, uint32_t child)
{
	const struct soma__tree_node *top = soma__tree_at(slab, child);
	uint16_t new_height = child != 0 ? height(top) : 0;
	uint64_t new_least = child != 0 ? least(top) : UINT64_MAX;
	bool changed = node->child[side] != child || node->height[side] != new_height ||
		       node->least[side] != new_least;

	node->child[side] = child;
	node->height[side] = new_height;
	node->least[side] = new_least;
	return changed;
}

/* Lifts the child on `side` above its parent; returns it. */
static uint32_t
rotate(struct soma__slab *slab, uint32_t root, unsigned side)
{
	struct soma__tree_node *node = soma__tree_at(slab, root);
	uint32_t top = node->child[side];
	struct soma__tree_node *lifted = soma__tree_at(slab, top);

	node->child[side] = lifted->child[!side];
	node->height[side] = lifted->height[!side];
	node->least[side] = lifted->least[!side];
	hang(slab, lifted, !side, root);
	return top;
}

/* The root of this subtree once its two sides differ by at most one. */
static uint32_t
balanced(struct soma__slab *slab, uint32_t root)
{
	struct soma__tree_node *node = soma__tree_at(slab, root);
	const struct soma__tree_node *child;
	unsigned high = node->height[1] > node->height[0];

	if (node->height[high] <= node->height[!high] + 1)
		return root;
	child = soma__tree_at(slab, node->child[high]);
	if (child->height[high] < child->height[!high])
		hang(slab, node, high, rotate(slab, node->child[high], !high));
	return rotate(slab, root, high);
}

/* Goes up the path with a new subtree `below` its end: to the top, or, above the first
 * `all` nodes, to where nothing changes any more. */
static void
mend_up(struct soma__slab *slab, uint32_t *root, const struct path *path, unsigned all, uint32_t below)
{
	const struct step *end = path->steps + path->depth;

	while (end != path->steps) {
		bool changed;

		end--;
		changed = hang(slab, soma__tree_at(slab, end->node), end->side, below);

		if (!changed && end < path->steps + all)
			return;
		below = balanced(slab, end->node);
	}
	*root = below;
}

static void
step(struct path *path, uint32_t node, unsigned side)
{
	path->steps[path->depth++] = (struct step){ .node = node, .side = side };
}

void
soma__tree_insert(struct soma__slab *slab, uint32_t *root, uint32_t index)
{
	struct soma__tree_node *node = soma__tree_at(slab, index);
	struct path path;
	uint32_t at = *root;

	path.depth = 0;
	while (at != 0) {
		const struct soma__tree_node *here = soma__tree_at(slab, at);
		unsigned side = before(here, node->major, node->minor);

		step(&path, at, side);
		at = here->child[side];
	}
	for (unsigned side = 0; side < 2; side++) {
		node->child[side] = 0;
		node->height[side] = 0;
		node->least[side] = UINT64_MAX;
	}
	mend_up(slab, root, &path, path.depth, index);
}

/* `found` has two subtrees: the next node in order takes its place.  The path, which ends
 * above `found`, is led down to where that node was; returns what was below it. */
static uint32_t
replace_by_next(struct soma__slab *slab, uint32_t found, struct path *path)
{
	const struct soma__tree_node *old = soma__tree_at(slab, found);
	const unsigned place = path->depth;
	uint32_t next = old->child[1], below;
	struct soma__tree_node *node;

	path->depth++; /* the place of `found` and of who replaces it: filled in below */
	while (soma__tree_at(slab, next)->child[0] != 0) {
		step(path, next, 0);
		next = soma__tree_at(slab, next)->child[0];
	}
	node = soma__tree_at(slab, next);
	below = node->child[1];
	for (unsigned side = 0; side < 2; side++) {
		node->child[side] = old->child[side];
		node->height[side] = old->height[side];
		node->least[side] = old->least[side];
	}
	path->steps[place] = (struct step){ .node = next, .side = 1 };
	return below;
}

/* The node with this key, which is there, and the way to it. */
static uint32_t
way_to(const struct soma__slab *slab, uint32_t root, uint64_t major, uint64_t minor, struct path *path)
{
	path->depth = 0;
	for (;;) {
		const struct soma__tree_node *node = soma__tree_at(slab, root);
		unsigned side;

		if (node->major == major && node->minor == minor)
			return root;
		side = before(node, major, minor);
		step(path, root, side);
		root = node->child[side];
	}
}

uint32_t
soma__tree_remove(struct soma__slab *slab, uint32_t *root, uint64_t major, uint64_t minor)
{
	struct path path;
	uint32_t found = way_to(slab, *root, major, minor, &path), below;
	const struct soma__tree_node *node = soma__tree_at(slab, found);
	unsigned place = path.depth;

	if (node->child[0] != 0 && node->child[1] != 0)
		below = replace_by_next(slab, found, &path);
	else
		below = node->child[node->child[0] == 0];
	mend_up(slab, root, &path, place, below);
	return found;
}

void
soma__tree_change(struct soma__slab *slab, uint32_t *root, uint64_t major, uint64_t minor, uint64_t new_minor,
		  uint64_t new_value)
{
	struct path path;
	uint32_t found = way_to(slab, *root, major, minor, &path);

	soma__tree_at(slab, found)->minor = new_minor;
	soma__tree_at(slab, found)->value = new_value;
	mend_up(slab, root, &path, path.depth, found);
}

uint32_t
soma__tree_at_least(const struct soma__slab *slab, uint32_t root, uint64_t major, uint64_t minor)
{
	uint32_t found = 0;

	while (root != 0) {
		const struct soma__tree_node *at = soma__tree_at(slab, root);
		bool after = before(at, major, minor);

		found = after ? found : root;
		root = at->child[after];
	}
	return found;
}

/* The first node of this whole subtree whose value is below the limit; there is one. */
static uint32_t
first_below(const struct soma__slab *slab, uint32_t root, uint64_t limit)
{
	for (;;) {
		const struct soma__tree_node *at = soma__tree_at(slab, root);

		if (at->least[0] < limit)
			root = at->child[0];
		else if (at->value < limit)
			return root;
		else
			root = at->child[1];
	}
}

uint32_t
soma__tree_at_least_below(const struct soma__slab *slab, uint32_t root, uint64_t major, uint64_t minor,
			  uint64_t limit)
{
	uint32_t later[DEPTH_MAX]; /* nodes at or after the key, nearest last */
	unsigned count = 0;

	while (root != 0) {
		const struct soma__tree_node *at = soma__tree_at(slab, root);
		bool after = before(at, major, minor);

		if (!after)
			later[count++] = root;
		root = at->child[after];
	}
	while (count > 0) {
		const struct soma__tree_node *at = soma__tree_at(slab, later[--count]);

		if (at->value < limit)
			return later[count];
		if (at->least[1] < limit)
			return first_below(slab, at->child[1], limit);
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
			root = at->child[0];
		} else {
			found = root;
			root = at->child[1];
		}
	}
	return found;
}

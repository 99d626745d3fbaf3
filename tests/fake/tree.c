/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Treaps by (key, second).  Priorities come from the keys, so the same keys make the same tree.
 */
#include "tests/fake/state.h"

static bool
before(const struct node *a, uint64_t key, uint64_t second)
{
	return a->key < key || (a->key == key && a->second < second);
}

static uint64_t
mix(uint64_t x)
{
	x ^= x >> 31;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	return x ^ (x >> 32);
}

static void
split(struct node *root, uint64_t key, uint64_t second, struct node **less, struct node **rest)
{
	while (root != NULL) {
		if (before(root, key, second)) {
			*less = root;
			less = &root->right;
			root = root->right;
		} else {
			*rest = root;
			rest = &root->left;
			root = root->left;
		}
	}
	*less = NULL;
	*rest = NULL;
}

void
tree_put(struct node **root, struct node *node)
{
	node->priority = mix(node->key ^ mix(node->second + 1));
	while (*root != NULL && (*root)->priority >= node->priority)
		root = before(*root, node->key, node->second) ? &(*root)->right : &(*root)->left;
	split(*root, node->key, node->second, &node->left, &node->right);
	*root = node;
}

void
tree_drop(struct node **root, struct node *node)
{
	while (*root != node)
		root = before(*root, node->key, node->second) ? &(*root)->right : &(*root)->left;
	struct node *a = node->left, *b = node->right;
	while (a != NULL && b != NULL) {
		if (a->priority >= b->priority) {
			*root = a;
			root = &a->right;
			a = a->right;
		} else {
			*root = b;
			root = &b->left;
			b = b->left;
		}
	}
	*root = a != NULL ? a : b;
}

struct node *
tree_at_most(struct node *root, uint64_t key)
{
	struct node *best = NULL;

	while (root != NULL) {
		if (root->key <= key) {
			best = root;
			root = root->right;
		} else {
			root = root->left;
		}
	}
	return best;
}

struct node *
tree_from(struct node *root, uint64_t key, uint64_t second)
{
	struct node *best = NULL;

	while (root != NULL) {
		if (before(root, key, second)) {
			root = root->right;
		} else {
			best = root;
			root = root->left;
		}
	}
	return best;
}

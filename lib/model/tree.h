/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered trees over a shared slab of nodes.
 *
 * A tree is a root index (0: empty) of nodes ordered by (major, minor), no two the
 * same.  A node also carries a value, and knows the least value below it, so that "the
 * first node from here on whose value is below a limit" is found without a scan.
 * Every operation is logarithmic, whatever the keys.  Nodes are taken from and given back
 * to the slab by the caller.
 */
#ifndef SOMA_LIB_MODEL_TREE_H
#define SOMA_LIB_MODEL_TREE_H

#include <stdint.h>

#include "lib/model/slab.h"

/* A cache line.  What is known of the two subtrees stands here, so that a change goes up
 * its path without looking beside it. */
struct __attribute__((aligned(64))) soma__tree_node {
	uint32_t child[2]; /* before and after this node; 0: none */
	uint32_t record;   /* what the caller wants to find by it */
	uint16_t height[2];
	uint64_t major, minor;
	uint64_t value;
	uint64_t least[2]; /* of the subtrees' values; UINT64_MAX without one */
};

static inline struct soma__tree_node *
soma__tree_at(const struct soma__slab *slab, uint32_t index)
{
	return soma__slab_at(slab, index, SOMA__NAME_UNIT);
}

static inline uint32_t
soma__tree_take(struct soma__slab *slab)
{
	return soma__slab_take(slab, sizeof(struct soma__tree_node), SOMA__NAME_UNIT);
}

static inline void
soma__tree_give(struct soma__slab *slab, uint32_t node)
{
	soma__slab_give(slab, node, SOMA__NAME_UNIT);
}

/* Links in a node whose key, value and record are set. */
void soma__tree_insert(struct soma__slab *slab, uint32_t *root, uint32_t node);

/* Unlinks the node with this key, which must be there, and returns it. */
uint32_t soma__tree_remove(struct soma__slab *slab, uint32_t *root, uint64_t major, uint64_t minor);

/* The node (major, minor), which must be there, gets another minor and value; its place in
 * the order must stay. */
void soma__tree_change(struct soma__slab *slab, uint32_t *root, uint64_t major, uint64_t minor,
		       uint64_t new_minor, uint64_t new_value);

/* The first node with key >= (major, minor); 0 if none. */
uint32_t soma__tree_at_least(const struct soma__slab *slab, uint32_t root, uint64_t major, uint64_t minor);

/* The first node with key >= (major, minor) and value < limit; 0 if none. */
uint32_t soma__tree_at_least_below(const struct soma__slab *slab, uint32_t root, uint64_t major,
				   uint64_t minor, uint64_t limit);

/* The last node with key <= (major, minor); 0 if none. */
uint32_t soma__tree_at_most(const struct soma__slab *slab, uint32_t root, uint64_t major, uint64_t minor);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of gaps: a B+tree whose nodes also know the largest gap below each child.  Every
 * operation takes a few looks at each level, and most of them none above the leaf.  No locking.
 */
#include "lib/model/firstfit.h"

#include "lib/model/words.h"

#define WIDTH SOMA__FIRSTFIT_WIDTH
#define HALF (WIDTH / 2)

/* A node with fewer is merged with the one beside it if both together are no more than that. */
#define FEW 12
#define MERGED_MAX 24

_Static_assert(sizeof(struct soma__firstfit_node) == 576, "a node is nine cache lines");
_Static_assert(((uint64_t)1 << (SOMA__ADDRESS_BITS - SOMA__GAP_REST_BITS)) + SOMA__GAP_COARSE +
			       SOMA__WORD_MIN <=
		       SOMA__WORD_MAX,
	       "every size has a word");

/* The last slot whose place is not behind this one; the first, if that is.  In two steps, each of comparisons
 * that do not wait for each other. */
static inline uint32_t
slot_at_most(const struct soma__firstfit_node *node, uint64_t place)
{
	const uint64_t *places = node->place;
	uint32_t slot = 0, more = 0;

#pragma GCC unroll 8
	for (uint32_t i = 4; i < WIDTH; i += 4)
		slot += places[i] <= place;
	places += 4 * slot;
#pragma GCC unroll 4
	for (uint32_t i = 1; i < 4; i++)
		more += places[i] <= place;
	return 4 * slot + more;
}

/* Where the last gap would be that begins at this address. */
static inline uint64_t
last_place(uint64_t address)
{
	return ((address + 1) << SOMA__GAP_REST_BITS) - 1;
}

/* The leaf's lines that come after the one that is waited for now. */
static inline void
fetch(const void *from, size_t size)
{
#pragma GCC unroll 8
	for (size_t i = 0; i < size; i += 64)
		__builtin_prefetch((const char *)from + i, 1);
}

/* ---- bounds ---- */

/* Something in this node became this large. */
static void
raise_bounds(struct soma__firstfit *gaps, struct soma__firstfit_node *node, uint32_t size)
{
	while (node->bound < size) {
		struct soma__firstfit_node *parent = soma__firstfit_at(gaps, node->parent);

		node->bound = size;
		if (node->parent == 0)
			return;
		parent->most[node->slot] = size;
		node = parent;
	}
}

/* Something in this node became smaller, or went. */
static void
lower_bounds(struct soma__firstfit *gaps, struct soma__firstfit_node *node)
{
	for (;;) {
		struct soma__firstfit_node *parent = soma__firstfit_at(gaps, node->parent);
		uint32_t most = soma__words_most(node->most);

		if (most == node->bound)
			return;
		node->bound = most;
		if (node->parent == 0)
			return;
		soma__words_set(parent->most, node->slot, most);
		node = parent;
	}
}

/* ---- nodes ---- */

void
soma__firstfit_init(struct soma__firstfit *gaps, struct soma__slab *blocks)
{
	*gaps = (struct soma__firstfit){ .blocks = blocks };
	soma__slab_init(&gaps->nodes, sizeof(struct soma__firstfit_node), UINT32_MAX / 16);
}

/*
 * An insertion splits at most one node of each level, and may put a root on top.  Of many,
 * each full node splits once, and another one only after half of its width was inserted.
 */
uint32_t
soma__firstfit_nodes(const struct soma__firstfit *gaps, uint32_t count)
{
	uint64_t nodes = gaps->nodes.fresh - gaps->nodes.free_count;
	uint64_t once = count < nodes ? count : nodes;
	uint64_t few = (uint64_t)count * (gaps->height + 3);
	uint64_t many = once + (once + count + nodes) / 8 + gaps->height + WIDTH;

	return (uint32_t)(few < many ? few : many);
}

bool
soma__firstfit_reserve(struct soma__firstfit *gaps, struct soma__arena *arena, uint32_t count)
{
	return soma__slab_reserve(&gaps->nodes, arena, soma__firstfit_nodes(gaps, count));
}

static uint32_t
new_node(struct soma__firstfit *gaps)
{
	uint32_t name =
		soma__slab_take(&gaps->nodes, sizeof(struct soma__firstfit_node), SOMA__FIRSTFIT_UNIT);
	struct soma__firstfit_node *node = soma__firstfit_at(gaps, name);

	*node = (struct soma__firstfit_node){ 0 };
	memset(node->place, 0xff, sizeof node->place);
	return name;
}

static void
put_in(struct soma__firstfit_node *node, uint32_t slot, uint32_t most, uint32_t below, uint64_t place)
{
	for (uint32_t i = node->count++; i > slot; i--) {
		node->most[i] = node->most[i - 1];
		node->below[i] = node->below[i - 1];
		node->place[i] = node->place[i - 1];
	}
	node->most[slot] = most;
	node->below[slot] = below;
	node->place[slot] = place;
}

static void
take_out(struct soma__firstfit_node *node, uint32_t slot)
{
	uint32_t last = --node->count;

	for (; slot < last; slot++) {
		node->most[slot] = node->most[slot + 1];
		node->below[slot] = node->below[slot + 1];
		node->place[slot] = node->place[slot + 1];
	}
	soma__words_set(node->most, last, 0);
	node->below[last] = 0;
	node->place[last] = UINT64_MAX;
}

/* What is below the node, from this slot on, learns where it is. */
static void
tell(struct soma__firstfit *gaps, uint32_t name, uint32_t from, uint32_t level)
{
	const struct soma__firstfit_node *node = soma__firstfit_at(gaps, name);

	for (uint32_t i = from; i < node->count; i++) {
		if (level == 0) {
			struct soma__block *block =
				soma__slab_at(gaps->blocks, node->below[i], SOMA__NAME_UNIT);

			block->node = name;
		} else {
			struct soma__firstfit_node *child = soma__firstfit_at(gaps, node->below[i]);

			child->parent = name;
			child->slot = i;
		}
	}
}

/* A root above the root. */
static void
lift(struct soma__firstfit *gaps)
{
	uint32_t below = gaps->root, bound = soma__firstfit_at(gaps, below)->bound;
	struct soma__firstfit_node *root;

	gaps->root = new_node(gaps);
	gaps->height++;
	root = soma__firstfit_at(gaps, gaps->root);
	root->bound = bound;
	put_in(root, 0, bound, below, 0);
	tell(gaps, gaps->root, 0, gaps->height);
}

/* The upper half of a full node moves to a new one behind it. */
static uint32_t
split(struct soma__firstfit *gaps, uint32_t name, uint32_t level)
{
	struct soma__firstfit_node *node = soma__firstfit_at(gaps, name), *upper;
	uint32_t upper_name;

	if (node->parent == 0)
		lift(gaps);
	else if (soma__firstfit_at(gaps, node->parent)->count == WIDTH)
		split(gaps, node->parent, level + 1);
	upper_name = new_node(gaps);
	upper = soma__firstfit_at(gaps, upper_name);
	for (uint32_t i = HALF; i < WIDTH; i++)
		put_in(upper, i - HALF, node->most[i], node->below[i], node->place[i]);
	while (node->count > HALF)
		take_out(node, node->count - 1);
	tell(gaps, upper_name, 0, level);
	upper->bound = soma__words_most(upper->most);
	node->bound = soma__words_most(node->most);
	soma__firstfit_at(gaps, node->parent)->most[node->slot] = node->bound;
	put_in(soma__firstfit_at(gaps, node->parent), node->slot + 1, upper->bound, upper_name,
	       upper->place[0]);
	tell(gaps, node->parent, node->slot + 1, level + 1);
	return upper_name;
}

/* Two nodes beside each other become one, if that leaves room in it. */
static bool
merge(struct soma__firstfit *gaps, uint32_t parent_name, uint32_t slot, uint32_t level)
{
	struct soma__firstfit_node *parent = soma__firstfit_at(gaps, parent_name);
	uint32_t name = parent->below[slot], other_name = parent->below[slot + 1];
	struct soma__firstfit_node *node = soma__firstfit_at(gaps, name);
	struct soma__firstfit_node *other = soma__firstfit_at(gaps, other_name);
	uint32_t count = node->count;

	if (count + other->count > MERGED_MAX)
		return false;
	for (uint32_t i = 0; i < other->count; i++)
		put_in(node, count + i, other->most[i], other->below[i], other->place[i]);
	if (level > 0) /* the first was never asked for */
		node->place[count] = parent->place[slot + 1];
	tell(gaps, name, count, level);
	if (node->bound < other->bound)
		node->bound = parent->most[slot] = other->bound;
	take_out(parent, slot + 1);
	tell(gaps, parent_name, slot + 1, level + 1);
	soma__slab_give(&gaps->nodes, other_name, SOMA__FIRSTFIT_UNIT);
	return true;
}

/* The node has come to have few: it is merged with one beside it, or goes if it has none.  Then so
 * may its parent have. */
static void
thin_out(struct soma__firstfit *gaps, uint32_t name)
{
	for (uint32_t level = 0;; level++) {
		const struct soma__firstfit_node *node = soma__firstfit_at(gaps, name);
		uint32_t parent_name = node->parent, slot = node->slot;
		struct soma__firstfit_node *parent = soma__firstfit_at(gaps, parent_name);

		if (node->count >= FEW || parent_name == 0)
			break;
		if (node->count == 0) {
			soma__slab_give(&gaps->nodes, name, SOMA__FIRSTFIT_UNIT);
			take_out(parent, slot);
			tell(gaps, parent_name, slot, level + 1);
		} else if (!(slot + 1 < parent->count && merge(gaps, parent_name, slot, level)) &&
			   !(slot > 0 && merge(gaps, parent_name, slot - 1, level))) {
			return;
		}
		name = parent_name;
	}
	/* A root with one child, or nothing, is none. */
	while (soma__firstfit_at(gaps, gaps->root)->count <= (gaps->height > 0)) {
		name = gaps->root;
		gaps->root = soma__firstfit_at(gaps, name)->below[0];
		soma__slab_give(&gaps->nodes, name, SOMA__FIRSTFIT_UNIT);
		if (gaps->height == 0)
			return;
		gaps->height--;
		soma__firstfit_at(gaps, gaps->root)->parent = 0;
	}
}

/* ---- places of nodes ---- */

/* The first gap of a leaf begins here now: so does what is said of the leaf. */
static void
lower_place(struct soma__firstfit *gaps, const struct soma__firstfit_node *node, uint64_t place)
{
	uint32_t slot = 0;

	while (slot == 0 && node->parent != 0) {
		struct soma__firstfit_node *parent = soma__firstfit_at(gaps, node->parent);

		slot = node->slot;
		parent->place[slot] = place;
		node = parent;
	}
}

/* The last gap of a leaf ends here now: what is said of the next leaf is not before it.  (What the
 * next one has begins behind it, but may have been said to begin before; and this one, once its front is
 * taken, would then begin where the next one does.) */
static void
raise_next(struct soma__firstfit *gaps, const struct soma__firstfit_node *node, uint64_t place)
{
	while (node->parent != 0) {
		struct soma__firstfit_node *parent = soma__firstfit_at(gaps, node->parent);
		uint32_t next = node->slot + 1;

		if (next < parent->count) {
			if (parent->place[next] < place)
				parent->place[next] = place;
			return;
		}
		node = parent;
	}
}

/* ---- gaps ---- */

/* The leaf where a gap at this place is, or would be. */
static uint32_t
leaf_at(const struct soma__firstfit *gaps, uint64_t place)
{
	uint32_t name = gaps->root;

	for (uint32_t level = gaps->height; level > 0; level--) {
		const struct soma__firstfit_node *node = soma__firstfit_at(gaps, name);

		name = node->below[slot_at_most(node, place)];
	}
	return name;
}

void
soma__firstfit_insert(struct soma__firstfit *gaps, uint64_t address, uint64_t granules, uint32_t record)
{
	uint64_t place = soma__gap_place(address, granules);
	uint32_t size = soma__gap_size(granules), name, slot;
	struct soma__firstfit_node *leaf;

	if (__builtin_expect(gaps->root == 0, 0))
		gaps->root = new_node(gaps);
	name = leaf_at(gaps, place);
	leaf = soma__firstfit_at(gaps, name);
	fetch(leaf->most, sizeof leaf->most + sizeof leaf->below);
	fetch(&leaf->parent, 1);
	if (__builtin_expect(leaf->count == WIDTH, 0)) {
		uint32_t upper = split(gaps, name, 0);

		if (place >= soma__firstfit_at(gaps, upper)->place[0]) {
			name = upper;
			leaf = soma__firstfit_at(gaps, name);
		}
	}
	slot = slot_at_most(leaf, place);
	slot += leaf->place[slot] <= place;
	put_in(leaf, slot, size, record, place);
	if (slot + 1 == leaf->count)
		raise_next(gaps, leaf, soma__gap_place(address + granules, 0));
	((struct soma__block *)soma__slab_at(gaps->blocks, record, SOMA__NAME_UNIT))->node = name;
	raise_bounds(gaps, leaf, size);
}

void
soma__firstfit_remove(struct soma__firstfit *gaps, struct soma__spot spot)
{
	struct soma__firstfit_node *leaf = soma__firstfit_at(gaps, spot.node);

	take_out(leaf, spot.slot);
	lower_bounds(gaps, leaf);
	if (__builtin_expect(leaf->count < FEW, 0))
		thin_out(gaps, spot.node);
}

void
soma__firstfit_cut(struct soma__firstfit *gaps, struct soma__spot spot, uint64_t granules)
{
	struct soma__firstfit_node *leaf = soma__firstfit_at(gaps, spot.node);
	uint64_t left = soma__firstfit_granules(gaps, spot) - granules;

	leaf->place[spot.slot] = soma__gap_place(soma__firstfit_address(gaps, spot) + granules, left);
	soma__words_set(leaf->most, spot.slot, soma__gap_size(left));
	lower_bounds(gaps, leaf);
}

void
soma__firstfit_extend(struct soma__firstfit *gaps, struct soma__spot spot, uint64_t address,
		      uint64_t granules)
{
	struct soma__firstfit_node *leaf = soma__firstfit_at(gaps, spot.node);
	uint64_t place = soma__gap_place(address, granules);

	if (spot.slot == 0 && place < leaf->place[0])
		lower_place(gaps, leaf, place);
	if (spot.slot + 1 == leaf->count)
		raise_next(gaps, leaf, soma__gap_place(address + granules, 0));
	leaf->place[spot.slot] = place;
	leaf->most[spot.slot] = soma__gap_size(granules);
	raise_bounds(gaps, leaf, leaf->most[spot.slot]);
}

struct soma__spot
soma__firstfit_of(const struct soma__firstfit *gaps, uint32_t node, uint64_t address)
{
	const struct soma__firstfit_node *leaf = soma__firstfit_at(gaps, node);

	fetch(leaf->most, sizeof leaf->most);
	fetch(&leaf->parent, 1);
	return (struct soma__spot){ .node = node, .slot = slot_at_most(leaf, last_place(address)) };
}

/* ---- searching ---- */

/* A size of which two are the same word: looks at the gaps themselves.  Few can be so large. */
static struct soma__spot
lowest_coarse(const struct soma__firstfit *gaps, uint32_t name, uint32_t level, uint64_t granules)
{
	struct soma__spot found = { 0 };
	uint32_t bits = soma__words_at_least(soma__firstfit_at(gaps, name)->most, soma__gap_size(granules));

	for (; bits != 0 && found.node == 0; bits &= bits - 1) {
		struct soma__spot spot = { .node = name, .slot = (uint32_t)__builtin_ctz(bits) };

		if (level > 0)
			found = lowest_coarse(gaps, soma__firstfit_record(gaps, spot), level - 1, granules);
		else if (soma__firstfit_granules(gaps, spot) >= granules)
			found = spot;
	}
	return found;
}

struct soma__spot
soma__firstfit_lowest(const struct soma__firstfit *gaps, uint64_t granules)
{
	uint32_t name = gaps->root, size = soma__gap_size(granules), slot;
	const struct soma__firstfit_node *node;

	if (name == 0 || soma__firstfit_at(gaps, name)->bound < size)
		return (struct soma__spot){ 0 };
	if (__builtin_expect(granules >= SOMA__GAP_COARSE, 0))
		return lowest_coarse(gaps, name, gaps->height, granules);
	for (uint32_t level = gaps->height; level > 0; level--) {
		node = soma__firstfit_at(gaps, name);
		name = node->below[__builtin_ctz(soma__words_at_least(node->most, size))];
	}
	node = soma__firstfit_at(gaps, name);
	fetch(node->below, sizeof node->below + sizeof node->place);
	fetch(&node->parent, 1);
	slot = (uint32_t)__builtin_ctz(soma__words_at_least(node->most, size));
	return (struct soma__spot){ .node = name, .slot = slot };
}

/* The first gap of the leaf behind this one, or the last of the one before it. */
static struct soma__spot
in_next_leaf(const struct soma__firstfit *gaps, uint32_t name, bool behind)
{
	const struct soma__firstfit_node *node = soma__firstfit_at(gaps, name);
	uint32_t level = 0, slot;

	do {
		if (node->parent == 0)
			return (struct soma__spot){ 0 };
		slot = node->slot;
		node = soma__firstfit_at(gaps, node->parent);
		level++;
	} while (slot == (behind ? node->count - 1 : 0));
	slot = behind ? slot + 1 : slot - 1;
	while (level-- > 0) {
		name = node->below[slot];
		node = soma__firstfit_at(gaps, name);
		slot = behind ? 0 : node->count - 1;
	}
	return (struct soma__spot){ .node = name, .slot = slot };
}

struct soma__spot
soma__firstfit_beside(const struct soma__firstfit *gaps, uint64_t address, bool behind)
{
	uint64_t last = last_place(address);
	struct soma__spot spot = { .node = gaps->root };
	const struct soma__firstfit_node *leaf;

	if (gaps->root == 0)
		return spot;
	spot.node = leaf_at(gaps, last);
	leaf = soma__firstfit_at(gaps, spot.node);
	spot.slot = slot_at_most(leaf, last);
	if (!behind)
		return leaf->place[spot.slot] <= last ? spot : in_next_leaf(gaps, spot.node, false);
	spot.slot += leaf->place[spot.slot] <= last;
	return spot.slot < leaf->count ? spot : in_next_leaf(gaps, spot.node, true);
}

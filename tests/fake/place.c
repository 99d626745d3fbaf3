/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in a pool an allocation goes: segments, blocks cut from them, and the five rules by which a
 * freed block may be used again.
 *
 * A free block whose free the host has not seen end remembers where it was freed.  Neighbours join
 * when both are seen, or both were freed on one lane with no event recorded between.
 */
#include "tests/fake/state.h"

#include <stdlib.h>
#include <unistd.h>

static void
shelve(struct pool *pool, struct block *b)
{
	b->free = true;
	b->node.key = b->bytes;
	b->node.second = b->address;
	tree_put(&pool->free, &b->node);
	if (b->freed.lane == NULL)
		return;
	b->pending_next = pool->pending;
	b->pending_link = &pool->pending;
	if (pool->pending != NULL)
		pool->pending->pending_link = &b->pending_next;
	pool->pending = b;
}

static void
unshelve(struct pool *pool, struct block *b)
{
	tree_drop(&pool->free, &b->node);
	b->free = false;
	if (b->pending_link == NULL)
		return;
	*b->pending_link = b->pending_next;
	if (b->pending_next != NULL)
		b->pending_next->pending_link = b->pending_link;
	b->pending_link = NULL;
}

static bool
can_join(const struct block *a, const struct block *b)
{
	if (a == NULL || b == NULL || !a->free || !b->free || a->freed.lane != b->freed.lane)
		return false;
	return a->freed.lane == NULL ||
	       (a->freed.pos > a->freed.lane->barrier && b->freed.pos > b->freed.lane->barrier);
}

/* Both off the shelves but `with`; `b` stays. */
static void
swallow(struct pool *pool, struct block *b, struct block *with)
{
	unshelve(pool, with);
	if (with->address < b->address)
		b->address = with->address;
	b->bytes += with->bytes;
	if (with->freed.pos > b->freed.pos)
		b->freed.pos = with->freed.pos;
	if (with == b->before) {
		b->before = with->before;
		*(b->before != NULL ? &b->before->after : &b->segment->first) = b;
	} else {
		b->after = with->after;
		if (b->after != NULL)
			b->after->before = b;
	}
	free(with);
}

static void
file(struct pool *pool, struct block *b)
{
	b->free = true;
	if (can_join(b, b->before))
		swallow(pool, b, b->before);
	if (can_join(b, b->after))
		swallow(pool, b, b->after);
	shelve(pool, b);
	if (b->freed.lane == NULL && b->before == NULL && b->after == NULL)
		pool->idle = true;
}

/* Frees that the host has seen end. */
void
pool_settle(struct pool *pool)
{
	struct block *b = pool->pending;

	while (b != NULL) {
		struct block *next = b->pending_next;
		if (b->freed.lane->observed >= b->freed.pos) {
			unshelve(pool, b);
			b->freed = (struct dep){ NULL, 0 };
			file(pool, b); /* joins only what is not pending */
		}
		b = next;
	}
}

/* ---- growing and shrinking -------------------------------------------------------------- */

static struct block *
block_new(struct segment *segment, uint64_t address, uint64_t bytes)
{
	struct block *b = calloc(1, sizeof *b);

	if (b == NULL)
		abort();
	b->segment = segment;
	b->address = address;
	b->bytes = bytes;
	return b;
}

static bool
may_grow(const struct pool *pool, uint64_t bytes)
{
	const struct device *d = &world.devices[pool->device];
	uint64_t max = pool->max;

	if (FAKE_MAX_SIZE_IS_ROUNDED)
		max = (max + pool->step - 1) / pool->step * pool->step;
	if (max != 0 && (bytes > max || pool->reserved > max - bytes))
		return false;
	return bytes <= d->total && d->taken <= d->total - bytes;
}

static struct block *
grow(struct pool *pool, uint64_t bytes)
{
	uint64_t size = (bytes + pool->step - 1) / pool->step * pool->step;

	if (size < bytes || !may_grow(pool, size))
		return NULL;
	struct segment *s = calloc(1, sizeof *s);
	if (s == NULL)
		abort();
	if (pool->fd >= 0 && ftruncate(pool->fd, (off_t)(pool->fd_end + size)) != 0) {
		free(s);
		return NULL;
	}
	if (!region_map(&s->region, size, pool->fd, pool->fd_end)) {
		free(s);
		return NULL;
	}
	pool->fd_end += pool->fd >= 0 ? size : 0;
	s->link = &pool->segments;
	s->next = pool->segments;
	if (s->next != NULL)
		s->next->link = &s->next;
	pool->segments = s;
	s->first = block_new(s, s->region.address, size);
	pool->reserved += size;
	if (pool->reserved_high < pool->reserved)
		pool->reserved_high = pool->reserved;
	world.devices[pool->device].taken += size;
	file(pool, s->first);
	return s->first;
}

static void
segment_release(struct pool *pool, struct segment *s)
{
	struct block *b = s->first;

	unshelve(pool, b);
	free(b);
	pool->reserved -= s->region.bytes;
	world.devices[pool->device].taken -= s->region.bytes;
	*s->link = s->next;
	if (s->next != NULL)
		s->next->link = s->link;
	region_unmap(&s->region);
	free(s);
}

static bool
is_idle(const struct segment *s)
{
	const struct block *b = s->first;

	return b->free && b->after == NULL &&
	       (b->freed.lane == NULL ||
		(FAKE_TRIM_RELEASES_UNOBSERVED && b->freed.lane->executed >= b->freed.pos));
}

/* Down to `keep` reserved bytes, never below it; the largest first. */
void
pool_release(struct pool *pool, uint64_t keep)
{
	while (pool->reserved > keep && (pool->idle || FAKE_TRIM_RELEASES_UNOBSERVED)) {
		struct segment *best = NULL;
		bool any = false;
		for (struct segment *s = pool->segments; s != NULL; s = s->next) {
			if (!is_idle(s))
				continue;
			any = true;
			if (s->region.bytes <= pool->reserved - keep &&
			    (best == NULL || s->region.bytes > best->region.bytes ||
			     (s->region.bytes == best->region.bytes &&
			      s->region.address > best->region.address)))
				best = s;
		}
		pool->idle = any;
		if (best == NULL)
			return;
		segment_release(pool, best);
	}
}

/* ---- taking and giving --------------------------------------------------------------------- */

enum rule { RULE_FREE, RULE_FOLLOW, RULE_ANY };

/* Rules 1, 2 and 4 are RULE_FREE, 3 is RULE_FOLLOW, and 5 takes any. */
static bool
allows(const struct pool *pool, const struct block *b, const struct lane *lane, enum rule rule)
{
	struct dep freed = b->freed;

	if (freed.lane == NULL || freed.lane == lane || freed.lane->observed >= freed.pos || rule == RULE_ANY)
		return true;
	if (pool->opportunistic && freed.lane->executed >= freed.pos)
		return true;
	return rule == RULE_FOLLOW && lane != NULL && lane_clock(lane, freed.lane->index) >= freed.pos;
}

/* The smallest, lowest block. */
static struct block *
find(const struct pool *pool, const struct lane *lane, uint64_t bytes, enum rule rule)
{
	struct node *node = tree_from(pool->free, bytes, 0);

	while (node != NULL) {
		struct block *b = TREE_OF(node, struct block);
		if (allows(pool, b, lane, rule))
			return b;
		node = tree_from(pool->free, b->bytes, b->address + 1);
	}
	return NULL;
}

static struct block *
choose(struct pool *pool, struct lane *lane, uint64_t bytes, struct dep *wait)
{
	struct block *b = find(pool, lane, bytes, RULE_FREE);

	if (b == NULL && pool->follow)
		b = find(pool, lane, bytes, RULE_FOLLOW);
	if (b == NULL)
		b = grow(pool, bytes);
	if (b == NULL && FAKE_FAILED_GROWTH_RELEASES) {
		pool_settle(pool);
		b = find(pool, lane, bytes, RULE_FREE);
		if (b == NULL) {
			pool_release(pool, 0);
			b = grow(pool, bytes);
		}
	}
	if (b == NULL && pool->internal && lane != NULL) {
		b = find(pool, lane, bytes, RULE_ANY);
		if (b != NULL)
			*wait = b->freed;
	}
	return b;
}

/* What is left stays as the block was. */
static void
cut(struct pool *pool, struct block *b, uint64_t bytes)
{
	if (b->bytes - bytes < FAKE_SPLIT_MIN)
		return;
	struct block *rest = block_new(b->segment, b->address + bytes, b->bytes - bytes);
	rest->freed = b->freed;
	rest->before = b;
	rest->after = b->after;
	if (rest->after != NULL)
		rest->after->before = rest;
	b->after = rest;
	b->bytes = bytes;
	shelve(pool, rest);
}

CUresult
place_take(struct pool *pool, struct lane *lane, uint64_t bytes, struct block **block, struct dep *wait)
{
	uint64_t rounded = (bytes + FAKE_ALIGNMENT - 1) / FAKE_ALIGNMENT * FAKE_ALIGNMENT;

	*wait = (struct dep){ NULL, 0 };
	if (rounded < bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct block *b = choose(pool, lane, rounded, wait);
	if (b == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	unshelve(pool, b);
	cut(pool, b, rounded);
	b->freed = (struct dep){ NULL, 0 };
	*block = b;
	return CUDA_SUCCESS;
}

/* lane NULL: at once. */
void
place_give(struct pool *pool, struct block *block, struct lane *lane, uint64_t pos)
{
	block->freed = (struct dep){ lane, pos };
	file(pool, block);
}

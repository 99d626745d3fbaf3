/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ladder of an allocation behind its first rung: the queue, followed events, growing, and
 * what is tried only when growing failed.  Each rung is a function; the order is in
 * soma__place_elsewhere().  Not thread-safe, like the model.
 */
#include "lib/model/place.h"

#include "lib/model/blocks.h"
#include "lib/model/cache.h"
#include "lib/model/clock.h"
#include "lib/model/keep.h"
#include "lib/model/mapped.h"
#include "lib/model/pending.h"
#include "lib/model/queue.h"
#include "lib/model/segments.h"

/* The lesser of two tree nodes by (size, address); 0 is none. */
static uint32_t
lesser(const struct soma_model *model, uint32_t a, uint32_t b)
{
	const struct soma__tree_node *first = soma__tree_at(&model->index.trees, a);
	const struct soma__tree_node *second = soma__tree_at(&model->index.trees, b);

	if (a == 0 || b == 0)
		return a != 0 ? a : b;
	if (first->major != second->major)
		return first->major < second->major ? a : b;
	return first->minor < second->minor ? a : b;
}

/* The best of the pending frees that events put before this stream. */
static uint32_t
find_followed(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules)
{
	uint32_t best = 0;

	if (stream->clock.entry_count == 0)
		return 0;
	soma__clock_drop_moot(model, stream);
	for (uint32_t i = 0; i < stream->clock.entry_count; i++) {
		const struct soma__clock_entry *entry = &stream->clock.entries[i];
		const struct soma__stream *other = soma__stream_find(model, entry->id);

		if (other->oldest != 0)
			best = lesser(model, best,
				      soma__pending_best(model, other, pool, granules, entry->seq));
	}
	return best != 0 ? soma__tree_at(&model->index.trees, best)->record : 0;
}

/* ---- when growing failed ---- */

/* How many blocks of a list are looked at for one that is large enough. */
#define NEAR_MAX 32

/* A block of the request's own class, rounding down, that is large enough after all: 0 if
 * none is among the first of its lists. */
static uint32_t
find_near(struct soma_model *model, struct soma__shelf *shelf, uint64_t granules)
{
	unsigned class = soma__class_floor(granules), group = class / SOMA__CLASSES_PER_GROUP;
	const uint32_t *heads;

	if (shelf == NULL || shelf->best || group >= shelf->group_count)
		return 0;
	soma__shelf_settle(&model->index, shelf);
	heads = &shelf->bins[group]->head[class % SOMA__CLASSES_PER_GROUP * SOMA__REGIONS];
	for (unsigned region = 0; region < SOMA__REGIONS; region++) {
		uint32_t node = heads[region];

		for (unsigned i = 0; node != 0 && i < NEAR_MAX; i++) {
			if (soma__node_holds(model, node, granules))
				return node;
			node = soma__node_at(&model->index, node)->shelf_next;
		}
	}
	return 0;
}

/* The same, on the shelves of steps 1 and 2. */
static uint32_t
find_near_shelved(struct soma_model *model, const struct soma__stream *stream, unsigned pool,
		  uint64_t granules)
{
	uint32_t node = 0;

	if (model->policy.per_stream || soma__reuses(model, SOMA_REUSE_SAME_STREAM))
		node = find_near(model, stream->own[pool], granules);
	if (node == 0 && !model->policy.per_stream)
		node = find_near(model, model->shared[pool], granules);
	return node;
}

/* Whose pending frees may be taken by a wait: INTERNAL, or only those whose streams the driver orders with the
 * stream's work. */
enum reach { REACH_ALL, REACH_IMPLICIT };

static bool
reaches(const struct soma_model *model, const struct soma__stream *stream, const struct soma__stream *other,
	enum reach reach)
{
	const struct soma__stream *legacy = model->streams[0];

	if (other == stream)
		return false;
	return reach == REACH_ALL ||
	       (stream->blocking && other->blocking && (stream == legacy || other == legacy));
}

/* Makes sure of what taking another stream's pending free needs. */
static bool
reserve_wait(struct soma_model *model, struct soma__stream *stream, enum reach reach)
{
	for (uint32_t slot = model->with_pending; slot != 0; slot = model->streams[slot - 1]->pending_next) {
		struct soma__stream *other = model->streams[slot - 1];

		if (reaches(model, stream, other, reach) && !soma__clock_reserve_event(model, stream, other))
			return false;
	}
	return true;
}

/* The best of the other streams' pending frees; their trees are there. */
static uint32_t
find_pending(const struct soma_model *model, const struct soma__stream *stream, unsigned pool,
	     uint64_t granules, enum reach reach)
{
	uint32_t best = 0;

	for (uint32_t slot = model->with_pending; slot != 0; slot = model->streams[slot - 1]->pending_next) {
		const struct soma__stream *other = model->streams[slot - 1];
		uint64_t limit = UINT64_MAX;

		if (!reaches(model, stream, other, reach))
			continue;
		if (model->driver.reach != NULL)
			limit = model->driver.reach(model->driver.context, stream->id, other->id,
						    soma__node_at(&model->index, other->newest)->position);
		best = lesser(model, best, soma__pending_best(model, other, pool, granules, limit));
	}
	return best != 0 ? soma__tree_at(&model->index.trees, best)->record : 0;
}

static enum soma_status
take_by_wait(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules,
	     struct soma__placement *placement, enum reach reach)
{
	uint32_t best = find_pending(model, stream, pool, granules, reach);
	const struct soma__node *node;
	struct soma__stream *other;

	if (best == 0)
		return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	node = soma__node_at(&model->index, best);
	other = model->streams[soma__shelf_slot(model, soma__node_shelf(node))];
	if (model->driver.wait != NULL) {
		enum soma_status status =
			model->driver.wait(model->driver.context, stream->id, other->id, node->position + 1);

		if (status != SOMA_STATUS_OK)
			return status;
	}
	placement->wait_stream = other->id;
	placement->wait_seq = node->position + 1;
	soma__clock_join_event(model, stream, other, placement->wait_seq);
	placement->block = soma__block_take(model, best, granules);
	return SOMA_STATUS_OK;
}

/* Releases what is idle, then grows again. */
static enum soma__growth
grow_after_release(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules,
		   uint32_t *block)
{
	if (!soma__segments_reserve_growth(model, stream, pool, granules) ||
	    !soma__segments_reserve_release(model))
		return SOMA__GROWTH_NO_RECORDS;
	if (!soma__segments_release(model, 0))
		return SOMA__GROWTH_REFUSED;
	return soma__segments_grow(model, stream, pool, granules, block);
}

/* The same, first with as little released as may do. */
static enum soma__growth
grow_after_room(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules,
		uint32_t *block)
{
	if (!soma__segments_reserve_growth(model, stream, pool, granules) ||
	    !soma__segments_reserve_release(model))
		return SOMA__GROWTH_NO_RECORDS;
	if (!soma__cache_make_room(model, stream, pool, granules))
		return SOMA__GROWTH_REFUSED;
	return soma__segments_grow(model, stream, pool, granules, block);
}

/* What could fail for want of records is reserved before anything is released. */
static enum soma_status
place_without_growing(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules,
		      struct soma__placement *placement)
{
	bool internal = soma__reuses(model, SOMA_REUSE_INTERNAL);
	uint32_t near = find_near_shelved(model, stream, pool, granules);

	if (near != 0) {
		placement->block = soma__block_take(model, near, granules);
		return SOMA_STATUS_OK;
	}
	if (internal && !reserve_wait(model, stream, REACH_ALL))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (model->policy.oversize != 0) {
		enum soma__growth growth = grow_after_room(model, stream, pool, granules, &placement->block);

		if (growth != SOMA__GROWTH_REFUSED)
			return soma__growth_status(growth);
	}
	if (model->policy.release_on_failure) {
		enum soma__growth growth =
			grow_after_release(model, stream, pool, granules, &placement->block);

		if (growth != SOMA__GROWTH_REFUSED)
			return soma__growth_status(growth);
	}
	if (internal)
		return take_by_wait(model, stream, pool, granules, placement, REACH_ALL);
	return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
}

enum soma_status
soma__place_elsewhere(struct soma_model *model, struct soma__stream *stream, unsigned pool, uint64_t granules,
		      struct soma__placement *placement)
{
	enum soma__growth growth;
	uint32_t node;

	if (model->queue.length != 0) {
		soma__queue_file_all(model);
		placement->block = soma__place_shelved(model, stream, pool, granules);
		if (placement->block != 0)
			return SOMA_STATUS_OK;
	}
	if (model->is_mapped) {
		node = find_near_shelved(model, stream, pool, granules);
		if (node != 0) {
			placement->block = soma__block_take(model, node, granules);
			return SOMA_STATUS_OK;
		}
	}
	node = soma__reuses(model, SOMA_REUSE_FOLLOW_EVENTS) ? find_followed(model, stream, pool, granules)
							     : 0;
	if (node != 0) {
		placement->block = soma__block_take(model, node, granules);
		return SOMA_STATUS_OK;
	}
	if (soma__cache_collects(model) &&
	    !(soma__segments_reserve_growth(model, stream, pool, granules) && soma__cache_collect(model)))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	/* Growing serves as well where the wait cannot be had. */
	if (stream->blocking && soma__reuses(model, SOMA_REUSE_FOLLOW_EVENTS) &&
	    reserve_wait(model, stream, REACH_IMPLICIT) &&
	    take_by_wait(model, stream, pool, granules, placement, REACH_IMPLICIT) == SOMA_STATUS_OK)
		return SOMA_STATUS_OK;
	growth = soma__segments_grow(model, stream, pool, granules, &placement->block);
	if (growth != SOMA__GROWTH_REFUSED)
		return soma__growth_status(growth);
	return place_without_growing(model, stream, pool, granules, placement);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a model tells of itself: counters, the walk, its memory.  Changes nothing but
 * the peaks when asked to. */
#include <soma/model.h>
#include <string.h>

#include "lib/model/driven.h"
#include "lib/model/queue.h"
#include "lib/model/state.h"

/* ---- counters ---- */

void
soma_model_stats(const struct soma_model *model, struct soma_model_stats *stats, size_t size)
{
	struct soma_model_stats now = model->stats;
	uint64_t used, capacity;

	soma__queue_unsettled(model, &used, &capacity);
	now.used -= used;
	now.capacity -= capacity;
	now.pending_free_count += model->queue.length;
	memset(stats, 0, size);
	memcpy(stats, &now, size < sizeof now ? size : sizeof now);
}

uint64_t
soma_model_least_refused(const struct soma_model *model)
{
	return model->least_refused;
}

/* What the queue still holds is counted in these two alone. */
static uint64_t
settled_used(const struct soma_model *model)
{
	uint64_t used, capacity;

	soma__queue_unsettled(model, &used, &capacity);
	return model->stats.used - used;
}

static uint64_t
settled_capacity(const struct soma_model *model)
{
	uint64_t used, capacity;

	soma__queue_unsettled(model, &used, &capacity);
	return model->stats.capacity - capacity;
}

bool
soma__model_pends(const struct soma_model *model, uint64_t least, unsigned shift)
{
	uint64_t pending = model->stats.active - model->stats.capacity;

	return pending >= least && pending > model->stats.capacity >> shift;
}

#define IS(name, other) (offsetof(struct soma_model_stats, name) == offsetof(struct soma_model_stats, other))
#define GETTER(name)                                                    \
	uint64_t soma_model_##name(const struct soma_model *model)      \
	{                                                               \
		if (IS(name, used))                                     \
			return settled_used(model);                     \
		if (IS(name, capacity))                                 \
			return settled_capacity(model);                 \
		if (IS(name, pending_free_count))                       \
			return model->stats.name + model->queue.length; \
		return model->stats.name;                               \
	}
SOMA_MODEL_COUNTER_MAP(GETTER)
#undef GETTER
#undef IS

void
soma_model_reset_peaks(struct soma_model *model)
{
	struct soma_model_stats *stats = &model->stats;

	soma__queue_settle(model);
	stats->reserved_high = stats->reserved;
	stats->used_high = stats->used;
	stats->peak_active = stats->active;
}

void
soma__model_reset_peak(struct soma_model *model, bool reserved)
{
	struct soma_model_stats *stats = &model->stats;

	soma__queue_settle(model);
	if (reserved)
		stats->reserved_high = stats->reserved;
	else
		stats->used_high = stats->used;
}

enum soma_status
soma_model_memory_info(const struct soma_model *model, struct soma_memory_info *info, size_t size)
{
	struct soma_memory_info now;
	enum soma_status status = soma__arena_info(model->arena, &now);

	if (status != SOMA_STATUS_OK)
		return status;
	memset(info, 0, size);
	memcpy(info, &now, size < sizeof now ? size : sizeof now);
	return SOMA_STATUS_OK;
}

/* ---- the walk ---- */

struct walk {
	const struct soma_model *model;
	bool (*visit)(void *context, const struct soma_extent *extent);
	void *context;
};

/* The queue entry of a block that was freed and is not filed, or NULL.  The lookup tells
 * them from live ones without looking through the queue. */
static const struct soma__queued *
queued(const struct soma_model *model, uint32_t block)
{
	const struct soma__queue *queue = &model->queue;
	uint64_t address = soma__block_address(soma__block_at(model, block));

	if (soma__lookup_live(&model->lookup, &model->blocks, address) != NULL)
		return NULL;
	for (uint32_t number = queue->oldest; number != queue->next; number++)
		if (soma__queue_at(queue, number)->block == block &&
		    soma__queue_at(queue, number)->key != SOMA__QUEUE_SERVED)
			return soma__queue_at(queue, number);
	return NULL;
}

static void
describe_free(const struct soma_model *model, const struct soma__block *block, struct soma_extent *extent)
{
	const struct soma__node *node = soma__node_at(&model->index, block->node);
	const struct soma__segment *segment = soma__segment_at(model, soma__block_segment(block));

	if (soma__node_state(node) == SOMA__NODE_COMPLETE) {
		extent->kind = SOMA_EXTENT_FREE;
		extent->stranded = model->policy.per_stream;
		if (extent->stranded)
			extent->stream = segment->stream;
		return;
	}
	extent->kind = SOMA_EXTENT_PENDING;
	extent->stranded = soma__node_state(node) == SOMA__NODE_PENDING;
	extent->stream = model->streams[soma__shelf_slot(model, soma__node_shelf(node))]->id;
	extent->seq = node->position;
}

static void
describe(const struct soma_model *model, uint32_t name, struct soma_extent *extent)
{
	const struct soma__block *block = soma__block_at(model, name);
	const struct soma__queued *free;

	*extent = (struct soma_extent){
		.address = soma__bytes(model, soma__block_address(block)),
		.size = soma__bytes(model, soma__block_granules(model, block)),
	};
	switch (soma__block_kind(block)) {
	case SOMA__BLOCK_HOLE:
		extent->kind = SOMA_EXTENT_HOLE;
		return;
	case SOMA__BLOCK_FREE:
		describe_free(model, block, extent);
		return;
	case SOMA__BLOCK_LIVE:
		break;
	}
	free = queued(model, name);
	if (free == NULL) {
		extent->kind = SOMA_EXTENT_LIVE;
		extent->requested = extent->size - block->waste;
		return;
	}
	extent->kind = SOMA_EXTENT_PENDING;
	extent->stream = model->streams[soma__queued_slot(free)]->id;
	extent->seq = free->position;
	extent->stranded = true;
}

/* False when the visitor wants no more. */
static bool
walk_segment(const struct walk *walk, uint32_t name)
{
	const struct soma__segment *segment = soma__segment_at(walk->model, name);
	struct soma_extent extent = {
		.kind = SOMA_EXTENT_SEGMENT,
		.pool = segment->pool,
		.address = soma__bytes(walk->model, segment->address),
		.size = soma__bytes(walk->model, segment->end - segment->address),
		.stream = walk->model->policy.per_stream ? segment->stream : 0,
	};

	if (!walk->visit(walk->context, &extent))
		return false;
	for (uint32_t block = segment->first; block != 0; block = soma__block_at(walk->model, block)->next) {
		describe(walk->model, block, &extent);
		if (!walk->visit(walk->context, &extent))
			return false;
	}
	return true;
}

void
soma_model_walk(const struct soma_model *model,
		bool (*visit)(void *context, const struct soma_extent *extent), void *context)
{
	const struct walk walk = { .model = model, .visit = visit, .context = context };
	uint64_t from = 0;
	uint32_t tree;

	if (model->range != 0) {
		if (model->stats.segment_count != 0)
			walk_segment(&walk, model->range);
		return;
	}
	while ((tree = soma__tree_at_least(&model->index.trees, model->segments, 0, from)) != 0) {
		uint32_t segment = soma__tree_at(&model->index.trees, tree)->record;

		if (soma__segment_at(model, segment)->first != 0 && !walk_segment(&walk, segment))
			return;
		from = soma__segment_at(model, segment)->address + 1;
	}
}

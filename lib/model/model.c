/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating and destroying models.  The other entry points are in alloc.c, order.c, adopt.c
 * and report.c.  A model has no lock: one thread at a time.
 */
#include <soma/model.h>

#include "lib/base/error.h"
#include "lib/model/blocks.h"
#include "lib/model/clock.h"
#include "lib/model/limits.h"
#include "lib/model/mapped.h"
#include "lib/model/queue.h"
#include "lib/model/range.h"
#include "lib/model/segments.h"
#include "lib/model/state.h"

/* So that names fit 32 bits; those of blocks 31, beside the lookup's mark. */
#define RECORDS_MAX(type) (((uint32_t)1 << 31) / (uint32_t)(sizeof(type) / SOMA__NAME_UNIT))

static bool
batches(const struct soma_policy *policy)
{
	return policy->batch > 0 && (policy->reuse & SOMA_REUSE_SAME_STREAM) != 0 && !policy->per_stream;
}

static void
init(struct soma_model *model, struct soma__arena *arena, const struct soma__limits *limits)
{
	uint64_t base = limits->base ? limits->base : SOMA_MODEL_BASE_DEFAULT;

	*model = (struct soma_model){ .policy = limits->policy,
				      .arena = arena,
				      .source = limits->source,
				      .has_source = limits->has_source,
				      .is_mapped = limits->policy.segments == SOMA_SEGMENTS_MAPPED };
	model->granule_shift = (unsigned)__builtin_ctzll(limits->policy.alignment);
	model->pool_shift = limits->policy.pool_count > 1;
	model->threshold = limits->release_threshold;
	model->max = (limits->max_pool_size ? limits->max_pool_size : UINT64_MAX) >> model->granule_shift;
	model->max_pool_size = limits->max_pool_size;
	model->ceiling = SOMA_MODEL_ADDRESS_MAX >> model->granule_shift;
	model->least_refused = UINT64_MAX;
	model->index.arena = arena;
	model->index.base = model->space_end = model->top = base >> model->granule_shift;
	soma__slab_init(&model->index.nodes, sizeof(struct soma__node), RECORDS_MAX(struct soma__node));
	soma__slab_init(&model->index.trees, sizeof(struct soma__tree_node),
			RECORDS_MAX(struct soma__tree_node));
	soma__slab_init(&model->blocks, sizeof(struct soma__block), RECORDS_MAX(struct soma__block));
	soma__slab_init(&model->segment_slab, sizeof(struct soma__segment),
			(uint32_t)1 << SOMA__SEGMENT_BITS);
	soma__firstfit_init(&model->holes, &model->blocks);
}

static enum soma_status
make_tables(struct soma_model *model)
{
	struct soma__stream *legacy;
	enum soma_status status = soma__stream_add(model, SOMA_STREAM_BLOCKING, &legacy);

	if (status != SOMA_STATUS_OK)
		return status;
	if (!soma__blocks_reserve(model) ||
	    !soma__lookup_reserve(&model->lookup, &model->blocks, model->arena))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (batches(&model->policy) && !soma__queue_create(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (soma__is_range(model) && !soma__range_create(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	for (unsigned pool = 0; pool < model->policy.pool_count; pool++)
		if (!soma__shelf_make(model, pool, 1))
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	/* The last thing that can fail: it tells the source. */
	return model->is_mapped ? soma__mapped_create(model) : SOMA_STATUS_OK;
}

enum soma_status
soma_model_create(const struct soma_model_limits *given, struct soma_model **created)
{
	struct soma__limits limits;
	struct soma__arena *arena;
	struct soma_model *model;
	enum soma_status status = soma__limits_read(given, &limits);

	if (status == SOMA_STATUS_OK)
		status = soma__arena_create(&arena);
	if (status != SOMA_STATUS_OK)
		return status;
	model = soma__arena_alloc(arena, sizeof *model, 64);
	if (model == NULL) {
		soma__arena_destroy(arena);
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	init(model, arena, &limits);
	status = make_tables(model);
	if (status != SOMA_STATUS_OK) {
		soma__arena_destroy(arena);
		return status;
	}
	*created = model;
	return SOMA_STATUS_OK;
}

static void
give_back_segments(struct soma_model *model)
{
	uint64_t from = 0;
	uint32_t tree;

	while ((tree = soma__tree_at_least(&model->index.trees, model->segments, 0, from)) != 0) {
		const struct soma__segment *segment =
			soma__segment_at(model, soma__tree_at(&model->index.trees, tree)->record);

		model->source.release(model->source.context, soma__bytes(model, segment->address),
				      soma__bytes(model, segment->end - segment->address));
		from = segment->end;
	}
}

void
soma_model_destroy(struct soma_model *model)
{
	if (model == NULL)
		return;
	if (model->is_mapped)
		soma__mapped_destroy(model);
	else if (model->has_source)
		give_back_segments(model);
	soma__arena_destroy(model->arena);
}

void
soma_model_set_release_threshold(struct soma_model *model, uint64_t bytes)
{
	model->threshold = bytes;
}

const struct soma_policy *
soma_model_policy(const struct soma_model *model)
{
	return &model->policy;
}

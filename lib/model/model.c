/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's entry points: arguments are checked, records reserved, then the parts
 * called in the order that HACKING, "The model", gives.  A model has no lock: one
 * thread at a time.
 */
#include <soma/model.h>

#include "lib/base/error.h"
#include "lib/model/blocks.h"
#include "lib/model/clock.h"
#include "lib/model/keep.h"
#include "lib/model/pending.h"
#include "lib/model/place.h"
#include "lib/model/queue.h"
#include "lib/model/segments.h"
#include "lib/model/state.h"

/* Of one kind; a block at a time takes 24 bytes. */
#define RECORDS_MAX ((uint32_t)1 << 30)

/* ---- create, destroy ---- */

static enum soma_status
check_pool_row(const struct soma_policy *policy, unsigned pool)
{
	const struct soma_policy_pool *row = &policy->pools[pool];
	uint64_t served = row->segment_max < row->request_max ? row->segment_max : row->request_max;

	if (pool > 0 && row->request_max <= policy->pools[pool - 1].request_max)
		return soma__fail(INVALID_VALUE, "policy: size pool %" PRIu64 " does not reach beyond the one before",
				  pool);
	if (row->split_min > (uint64_t)1 << 31)
		return soma__fail(INVALID_VALUE, "policy: split_min %" PRIu64 " is above 2 GiB", row->split_min);
	if (policy->segments == SOMA_SEGMENTS_RANGE)
		return SOMA_STATUS_OK;
	if (row->segment_step == 0 || row->segment_step % policy->alignment != 0)
		return soma__fail(INVALID_VALUE,
				  "policy: segment_step %" PRIu64 " is no multiple of the alignment %" PRIu64,
				  row->segment_step, policy->alignment);
	if (row->segment_size % policy->alignment != 0 || row->segment_size < served)
		return soma__fail(INVALID_VALUE,
				  "policy: segment_size %" PRIu64 " is no multiple of the alignment %" PRIu64
				  ", or too small for requests up to %" PRIu64,
				  row->segment_size, policy->alignment, served);
	return SOMA_STATUS_OK;
}

static enum soma_status
check_policy(const struct soma_policy *policy)
{
	const unsigned ordered = SOMA_REUSE_FOLLOW_EVENTS | SOMA_REUSE_INTERNAL;

	if (policy->size != sizeof *policy)
		return soma__fail(INVALID_VALUE, "policy: size is %" PRIu64 ", expected %" PRIu64, policy->size,
				  sizeof *policy);
	if (policy->alignment < 256 || policy->alignment > 1U << 20 ||
	    (policy->alignment & (policy->alignment - 1)) != 0)
		return soma__fail(INVALID_VALUE,
				  "policy: alignment %" PRIu64 " is no power of two from 256 to 1048576",
				  policy->alignment);
	if ((unsigned)policy->fit > SOMA_FIT_BEST || (unsigned)policy->segments > SOMA_SEGMENTS_STEP ||
	    policy->reuse > 15)
		return soma__fail(INVALID_VALUE, "policy: unknown fit, segments or reuse");
	if (policy->per_stream && (policy->segments == SOMA_SEGMENTS_RANGE || (policy->reuse & ordered) != 0))
		return soma__fail(INVALID_VALUE,
				  "policy: per_stream goes with separate segments, and without FOLLOW_EVENTS and INTERNAL");
	if (policy->pool_count < 1 || policy->pool_count > SOMA_POLICY_POOLS_MAX ||
	    (policy->segments == SOMA_SEGMENTS_RANGE && policy->pool_count != 1))
		return soma__fail(INVALID_VALUE, "policy: pool_count %" PRIu64 " (a range has 1, segments 1 to 2)",
				  policy->pool_count);
	if (policy->batch > SOMA_POLICY_BATCH_MAX)
		return soma__fail(INVALID_VALUE, "policy: batch %" PRIu64 " is above %" PRIu64, policy->batch,
				  SOMA_POLICY_BATCH_MAX);
	for (unsigned pool = 0; pool < policy->pool_count; pool++) {
		enum soma_status status = check_pool_row(policy, pool);

		if (status != SOMA_STATUS_OK)
			return status;
	}
	if (policy->pools[policy->pool_count - 1].request_max != UINT64_MAX)
		return soma__fail(INVALID_VALUE, "policy: the last size pool's request_max must be UINT64_MAX");
	return SOMA_STATUS_OK;
}

static enum soma_status
check_limits(const struct soma_model_limits *limits)
{
	const struct soma_policy *policy = limits->policy ? limits->policy : soma_policy_preset("strict");
	enum soma_status status;

	if (limits->size != sizeof *limits)
		return soma__fail(INVALID_VALUE, "limits: size is %" PRIu64 ", expected %" PRIu64, limits->size,
				  sizeof *limits);
	status = check_policy(policy);
	if (status != SOMA_STATUS_OK)
		return status;
	if (limits->base % policy->alignment != 0 || limits->base >= SOMA_MODEL_ADDRESS_MAX)
		return soma__fail(INVALID_VALUE,
				  "limits: base 0x%" PRIx64 " is misaligned or not below 0x%" PRIx64, limits->base,
				  SOMA_MODEL_ADDRESS_MAX);
	if (limits->segments == NULL)
		return SOMA_STATUS_OK;
	if (limits->segments->size != sizeof *limits->segments || limits->segments->acquire == NULL ||
	    limits->segments->release == NULL)
		return soma__fail(INVALID_VALUE, "limits: the segment source is incomplete");
	if (policy->segments == SOMA_SEGMENTS_RANGE)
		return soma__fail(INVALID_VALUE, "limits: a range takes no segment source");
	return SOMA_STATUS_OK;
}

static bool
batches(const struct soma_policy *policy)
{
	return policy->batch > 0 && (policy->reuse & SOMA_REUSE_SAME_STREAM) != 0 && !policy->per_stream;
}

static void
init(struct soma_model *model, struct soma__arena *arena, const struct soma_model_limits *limits)
{
	const struct soma_policy *policy = limits->policy ? limits->policy : soma_policy_preset("strict");
	uint64_t base = limits->base ? limits->base : SOMA_MODEL_BASE_DEFAULT;

	*model = (struct soma_model){ .policy = *policy, .arena = arena };
	model->granule_shift = (unsigned)__builtin_ctzll(policy->alignment);
	model->pool_shift = policy->pool_count > 1;
	if (limits->segments != NULL) {
		model->source = *limits->segments;
		model->has_source = true;
	}
	model->threshold = limits->release_threshold;
	model->max = (limits->max_pool_size ? limits->max_pool_size : UINT64_MAX) >> model->granule_shift;
	model->max_pool_size = limits->max_pool_size;
	model->index.arena = arena;
	model->index.base = model->space_end = model->top = base >> model->granule_shift;
	soma__slab_init(&model->index.nodes, sizeof(struct soma__node), RECORDS_MAX);
	soma__slab_init(&model->index.trees, sizeof(struct soma__tree_node), UINT32_MAX);
	soma__slab_init(&model->blocks, sizeof(struct soma__block), RECORDS_MAX);
	soma__slab_init(&model->segment_slab, sizeof(struct soma__segment), (uint32_t)1 << SOMA__SEGMENT_BITS);
}

static enum soma_status
make_tables(struct soma_model *model)
{
	struct soma__stream *legacy;
	enum soma_status status = soma__stream_add(model, SOMA_STREAM_BLOCKING, &legacy);

	if (status != SOMA_STATUS_OK)
		return status;
	if (!soma__blocks_reserve(model) || !soma__lookup_reserve(&model->lookup, &model->blocks, model->arena))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (batches(&model->policy)) {
		model->queue_slots = 2;
		while (model->queue_slots < 2 * model->policy.batch)
			model->queue_slots *= 2;
		model->queue =
			soma__arena_alloc(model->arena, model->queue_slots * sizeof *model->queue, 64);
		if (model->queue == NULL)
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	if (soma__is_range(model) && !soma__range_create(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	for (unsigned pool = 0; pool < model->policy.pool_count; pool++)
		if (!soma__shelf_make(model, pool, 1))
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_create(const struct soma_model_limits *limits, struct soma_model **created)
{
	const struct soma_model_limits defaults = { .size = sizeof defaults };
	struct soma__arena *arena;
	struct soma_model *model;
	enum soma_status status;

	if (limits == NULL)
		limits = &defaults;
	status = check_limits(limits);
	if (status == SOMA_STATUS_OK)
		status = soma__arena_create(&arena);
	if (status != SOMA_STATUS_OK)
		return status;
	model = soma__arena_alloc(arena, sizeof *model, 64);
	if (model == NULL) {
		soma__arena_destroy(arena);
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	init(model, arena, limits);
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
	if (model->has_source)
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

/* ---- streams and order ---- */

static void
file_queue(struct soma_model *model)
{
	soma__queue_file(model, soma__queue_length(model));
}

enum soma_status
soma_model_stream_create(struct soma_model *model, unsigned flags, uint64_t *id)
{
	struct soma__stream *stream;
	enum soma_status status;

	if ((flags & ~(unsigned)SOMA_STREAM_NON_BLOCKING) != 0)
		return soma__fail(INVALID_VALUE, "unknown stream flags 0x%" PRIx64, flags);
	status = soma__stream_add(model, flags, &stream);
	if (status == SOMA_STATUS_OK)
		*id = stream->id;
	return status;
}

enum soma_status
soma_model_stream_destroy(struct soma_model *model, uint64_t id)
{
	struct soma__stream *stream = soma__stream_find(model, id);

	if (id == 0)
		return soma__fail(INVALID_VALUE, "the legacy default stream cannot be destroyed");
	if (stream == NULL || !stream->accepts)
		return soma__fail(INVALID_VALUE, "there is no stream %" PRIu64 " to destroy", id);
	if (!soma__blocks_reserve(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	file_queue(model);
	stream->accepts = false;
	soma__stream_settle(model, stream);
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_record_event(struct soma_model *model, uint64_t id, uint64_t *seq)
{
	struct soma__stream *stream;
	enum soma_status status = soma__stream_accepting(model, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (!soma__blocks_reserve(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (stream->ordered) {
		uint32_t joins;

		if (!soma__clock_reserve_legacy(model, stream))
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
		joins = stream->clock.join_count;
		soma__clock_join_legacy(model, stream);
		file_queue(model);
		if (stream->clock.join_count != joins)
			soma__clock_submit(model, stream);
	} else {
		file_queue(model);
	}
	if (model->policy.reuse & SOMA_REUSE_FOLLOW_EVENTS)
		stream->barrier = stream->submitted;
	*seq = stream->submitted;
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_wait_event(struct soma_model *model, uint64_t id, uint64_t event_stream, uint64_t event_seq)
{
	struct soma__stream *stream, *from = soma__stream_find(model, event_stream);
	enum soma_status status = soma__stream_accepting(model, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (from == NULL && !soma__stream_is_gone(model, event_stream))
		return soma__fail(INVALID_VALUE, "there is no stream %" PRIu64 " to wait for", event_stream);
	if (from != NULL && event_seq > from->submitted)
		return soma__fail(INVALID_VALUE,
				  "stream %" PRIu64 " has submitted %" PRIu64 " operations, not %" PRIu64,
				  event_stream, from->submitted, event_seq);
	if ((stream->ordered && !soma__clock_reserve_legacy(model, stream)))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (stream->ordered) {
		uint32_t joins = stream->clock.join_count;

		soma__clock_join_legacy(model, stream);
		joins = stream->clock.join_count - joins;
		if (from != NULL && !soma__clock_reserve_event(model, stream, from)) {
			soma__clock_undo(stream, joins);
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
		}
	} else if (from != NULL && !soma__clock_reserve_event(model, stream, from)) {
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	if (from != NULL)
		soma__clock_join_event(model, stream, from, event_seq);
	soma__clock_submit(model, stream);
	return SOMA_STATUS_OK;
}

/* Streams whose positions rose: completes what that proves, in ascending id. */
static void
complete_raised(struct soma_model *model)
{
	uint32_t count = model->raised_count;

	for (uint32_t i = 1; i < count; i++) {
		uint32_t slot = model->raised[i], j = i;

		for (; j > 0 && model->streams[model->raised[j - 1]]->id > model->streams[slot]->id; j--)
			model->raised[j] = model->raised[j - 1];
		model->raised[j] = slot;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct soma__stream *stream = model->streams[model->raised[i]];

		stream->raised = false;
		soma__stream_complete(model, stream);
		soma__stream_settle(model, stream);
	}
	model->raised_count = 0;
}

static enum soma_status
find_for_progress(struct soma_model *model, uint64_t id, struct soma__stream **stream)
{
	*stream = soma__stream_find(model, id);
	if (*stream == NULL)
		return soma__fail(INVALID_VALUE, "there is no stream %" PRIu64 ", or it was destroyed and is done",
				  id);
	return soma__blocks_reserve(model) ? SOMA_STATUS_OK : SOMA_STATUS_OUT_OF_HOST_MEMORY;
}

enum soma_status
soma_model_advance(struct soma_model *model, uint64_t id, uint64_t seq)
{
	struct soma__stream *stream;
	enum soma_status status = find_for_progress(model, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (seq > stream->submitted)
		return soma__fail(INVALID_VALUE,
				  "stream %" PRIu64 " has submitted %" PRIu64 " operations, not %" PRIu64, id,
				  stream->submitted, seq);
	file_queue(model);
	if (seq > stream->executed)
		soma__clock_raise(model, stream, seq, false);
	complete_raised(model);
	return SOMA_STATUS_OK;
}

/* Synchronising may release as well. */
static bool
reserve_synchronize(struct soma_model *model)
{
	return model->stats.reserved <= model->threshold || soma__segments_reserve_release(model);
}

static void
finish_synchronize(struct soma_model *model)
{
	complete_raised(model);
	if (model->stats.reserved > model->threshold)
		soma__segments_release(model, model->threshold);
}

enum soma_status
soma_model_synchronize(struct soma_model *model, uint64_t id)
{
	struct soma__stream *stream;
	enum soma_status status = find_for_progress(model, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (!reserve_synchronize(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	file_queue(model);
	soma__clock_raise(model, stream, stream->submitted, true);
	finish_synchronize(model);
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_synchronize_all(struct soma_model *model)
{
	if (!soma__blocks_reserve(model) || !reserve_synchronize(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	file_queue(model);
	for (uint32_t slot = 0; slot < model->stream_slots; slot++)
		if (model->streams[slot]->exists)
			soma__clock_raise(model, model->streams[slot], model->streams[slot]->submitted, true);
	finish_synchronize(model);
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_position(const struct soma_model *model, uint64_t id, struct soma_model_position *position)
{
	const struct soma__stream *stream = soma__stream_find(model, id);

	if (stream == NULL)
		return soma__fail(INVALID_VALUE, "there is no stream %" PRIu64 ", or it was destroyed and is done",
				  id);
	*position = (struct soma_model_position){ .submitted = stream->submitted,
						  .executed = stream->executed };
	return SOMA_STATUS_OK;
}

/* ---- blocks ---- */

static unsigned
pool_of(const struct soma_model *model, uint64_t bytes)
{
	unsigned pool = 0;

	while (bytes > model->policy.pools[pool].request_max)
		pool++;
	return pool;
}

static enum soma_status
out_of_device_memory(const struct soma_model *model, uint64_t size)
{
	uint64_t limit = model->max_pool_size, reserved = model->stats.reserved;
	uint64_t remaining = limit > reserved ? limit - reserved : 0;

	soma__fail(OUT_OF_DEVICE_MEMORY,
		   "%" PRIu64 " bytes do not fit: %" PRIu64 " reserved, %" PRIu64 " left of %" PRIu64, size,
		   reserved, remaining, limit);
	soma__error_sizes(size, reserved, remaining, limit);
	return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
}

/* The placement became an allocation: marks it, counts it and takes its positions. */
static HOT void
commit(struct soma_model *model, struct soma__stream *stream, uint64_t size,
       const struct soma__placement *placement, struct soma_model_alloc *alloc)
{
	struct soma_model_stats *stats = &model->stats;
	struct soma__block *block = soma__block_at(model, placement->block);
	uint64_t address = soma__block_address(block);
	uint64_t capacity = soma__bytes(model, soma__block_end(model, block) - address);

	soma__lookup_put(&model->lookup, block, address, placement->block);
	block->waste = (uint32_t)(capacity - size);
	stats->used += size;
	stats->capacity += capacity;
	stats->live_count++;
	stats->alloc_count++;
	if (stats->used > stats->used_high) {
		soma__queue_settle(model);
		if (stats->used > stats->used_high)
			stats->used_high = stats->used;
	}
	if (stats->active > stats->peak_active)
		stats->peak_active = stats->active;
	if (placement->wait_seq != 0) {
		soma__clock_submit(model, stream);
		stats->wait_count++;
	}
	*alloc = (struct soma_model_alloc){
		.ptr = soma__bytes(model, address),
		.size = size,
		.capacity = capacity,
		.stream = stream->id,
		.ready_seq = soma__clock_submit(model, stream),
		.wait_stream = placement->wait_stream,
		.wait_seq = placement->wait_seq,
	};
}

static HOT enum soma_status
place(struct soma_model *model, struct soma__stream *stream, uint64_t size, struct soma__placement *placement)
{
	uint64_t granules = (size + (model->policy.alignment - 1)) >> model->granule_shift;
	uint32_t joins;
	enum soma_status status;

	if (!stream->ordered)
		return soma__place(model, stream, pool_of(model, soma__bytes(model, granules)), granules, placement);
	if (!soma__clock_reserve_legacy(model, stream))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	joins = stream->clock.join_count;
	soma__clock_join_legacy(model, stream);
	joins = stream->clock.join_count - joins;
	status = soma__place(model, stream, pool_of(model, soma__bytes(model, granules)), granules, placement);
	if (status != SOMA_STATUS_OK)
		soma__clock_undo(stream, joins);
	return status;
}

enum soma_status
soma_model_alloc(struct soma_model *model, uint64_t size, uint64_t id, struct soma_model_alloc *alloc)
{
	struct soma__placement placement = { 0 };
	struct soma__stream *stream;
	enum soma_status status;

	if (size == 0)
		return soma__fail(INVALID_VALUE, "an allocation of 0 bytes");
	status = soma__stream_accepting(model, id, &stream);
	if (status != SOMA_STATUS_OK)
		return status;
	if (size > SOMA_MODEL_ADDRESS_MAX)
		return out_of_device_memory(model, size);
	if (!soma__blocks_reserve(model) || !soma__lookup_reserve(&model->lookup, &model->blocks, model->arena))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = place(model, stream, size, &placement);
	if (status == SOMA_STATUS_OK) {
		commit(model, stream, size, &placement, alloc);
		return SOMA_STATUS_OK;
	}
	if (status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY && model->refusal == SOMA_STATUS_OUT_OF_DEVICE_MEMORY)
		return out_of_device_memory(model, size);
	return status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY ? model->refusal : status;
}

/* The live block at this pointer; 0 if there is none. */
static HOT uint32_t
find_live(const struct soma_model *model, uint64_t ptr)
{
	if (ptr >= SOMA_MODEL_ADDRESS_MAX || (ptr & (model->policy.alignment - 1)) != 0)
		return 0;
	return soma__lookup_find(&model->lookup, &model->blocks, ptr >> model->granule_shift);
}

static void
charge_free(struct soma_model *model, const struct soma__block *block, uint64_t granules)
{
	uint64_t capacity = soma__bytes(model, granules);

	model->stats.capacity -= capacity;
	model->stats.used -= capacity - block->waste;
}

/* Room on the own shelf for whatever this block may join there. */
static HOT bool
reserve_own_shelf(struct soma_model *model, const struct soma__stream *stream, unsigned pool,
		  uint64_t granules)
{
	const struct soma__shelf *own = stream->own[pool];

	if (own != NULL) {
		granules += own->promised;
		if (soma__class_floor(granules) / SOMA__CLASSES_PER_GROUP < own->group_count)
			return true;
	}
	return soma__shelf_make(model, soma__own_shelf(model, soma__stream_slot(stream), pool), granules);
}

static void
count_pending(struct soma_model *model, struct soma__stream *stream)
{
	stream->pending_count++;
	model->stats.pending_free_count++;
}

/* The free joins the queue, and as much of the queue is filed as is due. */
static __attribute__((noinline)) enum soma_status
free_queued(struct soma_model *model, struct soma__stream *stream, uint64_t ptr, uint32_t block, bool batch)
{
	/* The block's size and pool are not known yet: they are a cache miss away. */
	for (unsigned pool = 0; pool < model->policy.pool_count; pool++)
		if (!reserve_own_shelf(model, stream, pool, model->stats.reserved >> model->granule_shift))
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	soma__lookup_mark_freed(&model->lookup, &model->blocks, ptr >> model->granule_shift);
	count_pending(model, stream);
	soma__queue_push(model, stream, block, soma__clock_submit(model, stream));
	if (!batch)
		soma__queue_file(model, soma__queue_length(model));
	else if (soma__queue_length(model) == 2 * model->policy.batch)
		soma__queue_file(model, model->policy.batch);
	return SOMA_STATUS_OK;
}

static HOT enum soma_status
free_now(struct soma_model *model, struct soma__stream *stream, uint32_t name)
{
	const struct soma__block *block = soma__block_at(model, name);
	const struct soma__segment *segment = soma__segment_at(model, soma__block_segment(block));
	uint64_t address = soma__block_address(block), end = soma__block_end(model, block);
	uint64_t granules = end - address, position;
	bool same = (model->policy.reuse & SOMA_REUSE_SAME_STREAM) != 0;
	bool own = model->policy.per_stream && same && segment->stream == stream->id;

	if (!own && !reserve_own_shelf(model, stream, segment->pool, granules))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	charge_free(model, block, granules);
	soma__lookup_remove(&model->lookup, &model->blocks, address, name);
	position = soma__clock_submit(model, stream);
	if (own) {
		model->stats.active -= soma__bytes(model, granules);
		soma__block_complete(model, name);
		return SOMA_STATUS_OK;
	}
	count_pending(model, stream);
	if (same && !model->policy.per_stream) {
		soma__keep_pending(model, stream, segment->pool, name, address, end, position);
	} else {
		model->unfiled++;
		soma__block_park(model, stream, name, position);
	}
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_free(struct soma_model *model, uint64_t ptr, uint64_t id)
{
	struct soma__stream *stream;
	enum soma_status status;
	uint32_t block;
	bool batch;

	if (ptr == 0)
		return SOMA_STATUS_OK;
	status = soma__stream_accepting(model, id, &stream);
	if (status != SOMA_STATUS_OK)
		return status;
	block = find_live(model, ptr);
	if (block == 0)
		return soma__fail(INVALID_VALUE, "0x%" PRIx64 " is not the address of a live block", ptr);
	if (!soma__blocks_reserve(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (stream->ordered) {
		if (!soma__clock_reserve_legacy(model, stream))
			return SOMA_STATUS_OUT_OF_HOST_MEMORY;
		soma__clock_join_legacy(model, stream);
	}
	batch = model->queue_slots != 0 && model->stats.live_count - 1 > model->policy.batch_above;
	if (batch || soma__queue_length(model) != 0)
		status = free_queued(model, stream, ptr, block, batch);
	else
		status = free_now(model, stream, block);
	if (status != SOMA_STATUS_OK)
		return status;
	model->stats.live_count--;
	model->stats.free_count++;
	return SOMA_STATUS_OK;
}

bool
soma_model_is_live(const struct soma_model *model, uint64_t ptr)
{
	return find_live(model, ptr) != 0;
}

bool
soma_model_is_ready_same_stream(const struct soma_model *model, const struct soma_model_alloc *alloc)
{
	const struct soma__stream *stream = soma__stream_find(model, alloc->stream);

	if (stream == NULL)
		return soma__stream_is_gone(model, alloc->stream);
	return stream->executed > alloc->ready_seq;
}

bool
soma_model_is_ready_cross_stream(const struct soma_model *model, const struct soma_model_alloc *alloc,
				 uint64_t consumer, uint64_t wait_seq)
{
	if (consumer == alloc->stream)
		return soma_model_is_ready_same_stream(model, alloc);
	return wait_seq > alloc->ready_seq;
}

enum soma_status
soma_model_trim_to(struct soma_model *model, uint64_t keep)
{
	if (!soma__segments_reserve_release(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	file_queue(model);
	soma__segments_release(model, keep);
	return SOMA_STATUS_OK;
}

/* ---- a starting state ---- */

enum soma_status
soma_model_adopt_segment(struct soma_model *model, uint64_t id, unsigned pool, uint64_t address, uint64_t size)
{
	struct soma__stream *stream;
	enum soma_status status = soma__stream_accepting(model, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (soma__is_range(model) || pool >= model->policy.pool_count)
		return soma__fail(INVALID_VALUE, "the policy has no segments of a size pool %" PRIu64, pool);
	if (address == 0 || size == 0 || (address | size) % model->policy.alignment != 0 ||
	    size > SOMA_MODEL_ADDRESS_MAX || address > SOMA_MODEL_ADDRESS_MAX - size)
		return soma__fail(INVALID_VALUE,
				  "a segment at 0x%" PRIx64 " of %" PRIu64
				  " bytes is empty, misaligned or out of range",
				  address, size);
	return soma__segment_adopt(model, stream, pool, address >> model->granule_shift,
				   size >> model->granule_shift);
}

/* The free block that holds [address, end); looked for from the segment's end, where it
 * is when blocks are adopted in address order. */
static uint32_t
free_block_holding(const struct soma_model *model, uint64_t address, uint64_t end)
{
	uint32_t segment = soma__segment_holding(model, address, end), name;
	const struct soma__block *block;

	if (segment == 0)
		return 0;
	name = soma__segment_at(model, segment)->last;
	while (soma__block_address(soma__block_at(model, name)) > address)
		name = soma__block_at(model, name)->previous;
	block = soma__block_at(model, name);
	if (soma__block_kind(block) != SOMA__BLOCK_FREE || soma__block_end(model, block) < end ||
	    soma__node_state(soma__node_at(&model->index, block->node)) != SOMA__NODE_COMPLETE)
		return 0;
	return name;
}

/* Cuts [address, address + granules) out of a complete free block. */
static uint32_t
carve(struct soma_model *model, uint32_t name, uint64_t address, uint64_t granules)
{
	uint32_t segment = soma__block_segment(soma__block_at(model, name)), carved = name;
	uint64_t begin = soma__block_address(soma__block_at(model, name));
	uint64_t end = soma__block_end(model, soma__block_at(model, name));

	soma__block_unshelve(model, name);
	if (begin < address) {
		carved = soma__block_insert(model, segment, name, address);
		soma__block_complete(model, name);
	}
	if (address + granules < end)
		soma__block_complete(model, soma__block_insert(model, segment, carved, address + granules));
	return carved;
}

enum soma_status
soma_model_adopt_block(struct soma_model *model, uint64_t ptr, uint64_t size, uint64_t capacity)
{
	uint64_t address = ptr >> model->granule_shift, granules = capacity >> model->granule_shift;
	struct soma_model_stats *stats = &model->stats;
	uint32_t name = 0;

	if ((ptr | capacity) % model->policy.alignment == 0 && size >= 1 && size <= capacity &&
	    capacity - size <= UINT32_MAX && ptr < SOMA_MODEL_ADDRESS_MAX && capacity <= SOMA_MODEL_ADDRESS_MAX)
		name = free_block_holding(model, address, address + granules);
	if (name == 0)
		return soma__fail(INVALID_VALUE,
				  "0x%" PRIx64 ": %" PRIu64 " bytes in a block of %" PRIu64
				  " are not part of one free block",
				  ptr, size, capacity);
	if (!soma__blocks_reserve(model) || !soma__lookup_reserve(&model->lookup, &model->blocks, model->arena))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	name = carve(model, name, address, granules);
	soma__lookup_put(&model->lookup, soma__block_at(model, name), address, name);
	soma__block_at(model, name)->waste = (uint32_t)(capacity - size);
	stats->live_count++;
	stats->active += capacity;
	stats->capacity += capacity;
	stats->used += size;
	soma__queue_settle(model);
	if (stats->used > stats->used_high)
		stats->used_high = stats->used;
	if (stats->active > stats->peak_active)
		stats->peak_active = stats->active;
	return SOMA_STATUS_OK;
}

enum soma_status
soma_model_release_segment(struct soma_model *model, uint64_t address)
{
	uint32_t segment = 0;

	if (address % model->policy.alignment == 0)
		segment = soma__segment_beginning(model, address >> model->granule_shift);
	if (segment == 0)
		return soma__fail(NOT_FOUND, "there is no segment at 0x%" PRIx64, address);
	if (!soma__segment_at(model, segment)->idle)
		return soma__fail(INVALID_VALUE, "the segment at 0x%" PRIx64 " is not wholly free", address);
	if (!soma__segments_reserve_release(model))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	soma__segment_release(model, segment);
	return SOMA_STATUS_OK;
}

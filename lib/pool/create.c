/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making pools and taking them apart.  A pool that is made or that is over is nobody else's, so no locks;
 * but its handles may be given back meanwhile.
 */
#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/model/driven.h"
#include "lib/pool/handles.h"
#include "lib/pool/segments.h"
#include "lib/pool/streams.h"
#include "lib/pool/twin.h"
#include "lib/resource/order.h"

/* A config that was checked. */
struct checked {
	struct soma_pool_config config;
	struct soma_policy policy;
	enum soma_placement placement; /* AUTO: alone */
};

/* ---- the config --------------------------------------------------------------------------- */

static enum soma_status
check_sizes(const struct soma_pool_config *config)
{
	if (config->max_size == 0)
		return SOMA_STATUS_OK;
	if (config->initial_size > config->max_size)
		return soma__fail(INVALID_VALUE,
				  "an initial size of %" PRIu64 " is above the maximum, %" PRIu64,
				  config->initial_size, config->max_size);
	if (config->release_threshold > config->max_size)
		return soma__fail(INVALID_VALUE,
				  "a release threshold of %" PRIu64 " is above the maximum, %" PRIu64,
				  config->release_threshold, config->max_size);
	return SOMA_STATUS_OK;
}

static enum soma_status
check_config(const struct soma_pool_config *config, const struct soma_resource *resource)
{
	if (config->device < 0)
		return soma__fail(INVALID_VALUE, "device %" PRId64 ": expected 0 or more",
				  (uint64_t)config->device);
	if (resource != NULL && config->device != soma_resource_device(resource))
		return soma__fail(INVALID_VALUE,
				  "the pool's device is %" PRId64 " and the resource's %" PRId64
				  ": expected the same",
				  (uint64_t)config->device, (uint64_t)soma_resource_device(resource));
	if ((unsigned)config->placement > SOMA_PLACEMENT_POOL)
		return soma__fail(INVALID_VALUE, "placement %" PRIu64 ": expected SOMA_PLACEMENT_*",
				  (uint64_t)config->placement);
	if (config->tag >= SOMA_TAG_COUNT_MAX)
		return soma__fail(INVALID_VALUE, "tag %" PRIu64 ": expected one that soma_tag_intern() gave",
				  config->tag);
	return check_sizes(config);
}

/* Where the backend has a pool of its own, in stream order, a second one on top only keeps memory from it;
 * but what is this machine's memory is reached by no driver. */
static enum soma_placement
choose_placement(uint64_t can, const struct soma_policy *policy)
{
	const uint64_t pools = SOMA_BACKEND_POOL | SOMA_BACKEND_STREAM_ORDERED;

	if ((can & SOMA_BACKEND_GUARD) != 0 || policy->segments != SOMA_SEGMENTS_STEP)
		return SOMA_PLACEMENT_BACKEND;
	if ((can & pools) == pools && (can & SOMA_BACKEND_HOST_ACCESSIBLE) == 0)
		return SOMA_PLACEMENT_BACKEND;
	return SOMA_PLACEMENT_POOL;
}

/* After the placement was chosen. */
static enum soma_status
check_twin(const struct checked *checked, const struct soma_resource *resource)
{
	uint64_t can = resource != NULL ? soma__order_capabilities(resource) : 0;

	if (!checked->config.twin)
		return SOMA_STATUS_OK;
	if ((can & SOMA_BACKEND_GUARD) != 0)
		return soma__fail(NOT_SUPPORTED,
				  "twin over a guard: what it adds to blocks and keeps of them "
				  "is in the backend's figures");
	if ((can & SOMA_BACKEND_POOL) == 0)
		return soma__fail(NOT_SUPPORTED,
				  "twin: a backend with a pool of its own was expected, such as async");
	if (checked->placement != SOMA_PLACEMENT_BACKEND)
		return soma__fail(NOT_SUPPORTED,
				  "twin with placement=pool: its blocks are none of the backend's "
				  "pool; placement=backend was expected");
	if (checked->config.max_size != 0 || checked->config.initial_size != 0)
		return soma__fail(NOT_SUPPORTED,
				  "twin: neither a maximum nor an initial size was expected: the "
				  "backend's pool has its own");
	return SOMA_STATUS_OK;
}

static enum soma_status
place(struct checked *checked, const struct soma_resource *resource)
{
	uint64_t can;

	if (resource == NULL)
		return SOMA_STATUS_OK;
	can = soma__order_capabilities(resource);
	checked->placement = checked->config.placement;
	if (checked->placement == SOMA_PLACEMENT_AUTO)
		checked->placement = choose_placement(can, &checked->policy);
	if (checked->placement != SOMA_PLACEMENT_POOL)
		return SOMA_STATUS_OK;
	if ((can & SOMA_BACKEND_GUARD) != 0)
		return soma__fail(NOT_SUPPORTED,
				  "placement=pool over a guard: it would see segments and none of "
				  "the blocks in them; placement=backend was expected");
	if (checked->policy.segments != SOMA_SEGMENTS_STEP)
		return soma__fail(NOT_SUPPORTED,
				  "placement=pool needs a policy with segments: an address range cannot be "
				  "made of a resource's blocks");
	return SOMA_STATUS_OK;
}

static enum soma_status
read_config(const struct soma_pool_config *given, const struct soma_resource *resource,
	    struct checked *checked)
{
	struct soma_pool_config *config = &checked->config;
	enum soma_status status = SOMA_STATUS_OK;

	*checked = (struct checked){ .config = { .size = sizeof *config },
				     .policy = *soma_policy_preset("cuda") };
	if (resource != NULL)
		config->device = soma_resource_device(resource);
	if (given != NULL)
		status = soma__struct_read("pool config", given, given->size, config, sizeof *config);
	if (status == SOMA_STATUS_OK && config->policy != NULL)
		status = soma__struct_read("policy", config->policy, config->policy->size, &checked->policy,
					   sizeof checked->policy);
	if (status == SOMA_STATUS_OK)
		status = check_config(config, resource);
	if (status == SOMA_STATUS_OK)
		status = place(checked, resource);
	return status == SOMA_STATUS_OK ? check_twin(checked, resource) : status;
}

/* ---- making -------------------------------------------------------------------------------- */

/* What a policy takes whatever the pool's size. */
static uint64_t
fixed_addresses(const struct soma_policy *policy)
{
	uint64_t addresses = 0;

	if (policy->segments == SOMA_SEGMENTS_MAPPED)
		for (unsigned i = 0; i < policy->pool_count && i < SOMA_POLICY_POOLS_MAX; i++)
			addresses += policy->pools[i].segment_size;
	return addresses;
}

static enum soma_status
make_model(struct soma_pool *pool, const struct checked *checked)
{
	struct soma_segment_source source = soma__pool_source;
	const struct soma__model_driver driver = { .context = pool,
						   .wait = soma__pool_driver_wait,
						   .reach = soma__pool_driver_reach,
						   .legacy_by_wait = true };
	struct soma_model_limits limits = {
		.size = sizeof limits,
		.max_pool_size = checked->config.max_size,
		.release_threshold = checked->config.release_threshold,
		.policy = &checked->policy,
	};
	enum soma_status status = SOMA_STATUS_OK;

	source.context = pool;
	if (pool->placed)
		limits.segments = &source;
	else
		status = soma__window_take(checked->config.max_size, fixed_addresses(&checked->policy),
					   &pool->window);
	limits.base = pool->window.base;
	if (status == SOMA_STATUS_OK)
		status = soma_model_create(&limits, &pool->model);
	if (status == SOMA_STATUS_OK)
		status = soma_model_stream_create(pool->model, SOMA_STREAM_NON_BLOCKING, &pool->host_stream);
	if (status != SOMA_STATUS_OK)
		return status;
	if (!pool->placed)
		soma__model_set_ceiling(pool->model, pool->window.end);
	if (pool->resource != NULL)
		soma__model_drive(pool->model, &driver);
	return status;
}

static enum soma_status
make_stream(struct soma_pool *pool)
{
	enum soma_status status;

	if (!pool->placed || (soma__order_capabilities(pool->resource) & SOMA_BACKEND_STREAMS) == 0)
		return SOMA_STATUS_OK;
	status = soma_resource_stream_create(pool->resource, SOMA_STREAM_NON_BLOCKING, &pool->segment_stream);
	pool->own_stream = status == SOMA_STATUS_OK;
	return status;
}

static enum soma_status
init_pool(struct soma_pool *pool, const struct checked *checked, struct soma_resource *resource)
{
	uint64_t can = resource != NULL ? soma__order_capabilities(resource) : 0;
	enum soma_status status;

	pool->resource = soma_resource_retain(resource);
	pool->device = checked->config.device;
	pool->tag = checked->config.tag;
	pool->threshold = checked->config.release_threshold;
	pool->max_size = checked->config.max_size;
	pool->placement = checked->placement;
	pool->placed = checked->placement == SOMA_PLACEMENT_POOL;
	pool->per_stream = checked->policy.per_stream;
	pool->leave = checked->policy.per_stream ? SOMA__LEAVE_OWN : SOMA__LEAVE_NOW;
	pool->alignment = checked->policy.alignment;
	pool->ordered = (can & SOMA_BACKEND_STREAM_ORDERED) != 0 && (can & SOMA_BACKEND_STREAMS) != 0;
	pool->captures = (can & SOMA_BACKEND_STREAMS) != 0 && (can & SOMA_BACKEND_HOST_ACCESSIBLE) == 0;
	pool->learns = pool->placed || checked->config.twin;
	pool->patience = 1;
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_mutex_init(&pool->growing, NULL);
	if (!soma__handles_init(pool))
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = make_stream(pool);
	if (status == SOMA_STATUS_OK)
		status = make_model(pool, checked);
	if (status == SOMA_STATUS_OK && checked->config.initial_size > 0)
		status = soma__pool_reserve(pool, &checked->policy, checked->config.initial_size);
	if (status == SOMA_STATUS_OK && checked->config.twin)
		status = soma__twin_create(pool, &checked->config);
	if (status == SOMA_STATUS_OK && resource != NULL)
		soma__model_hold(pool->model, true);
	return status;
}

/* ---- taking apart ------------------------------------------------------------------------------ */

/* Everything goes back; what is queued on the pool's streams comes first. */
static void
give_back(struct soma_pool *pool)
{
	struct soma_model *model = pool->model;

	if (pool->resource != NULL)
		soma__pool_streams_end(pool);
	soma_model_destroy(model);
	if (pool->resource != NULL)
		soma__segments_flush(pool);
	/* Where streams run only when told nobody else would tell this one. */
	if (pool->leave == SOMA__LEAVE_ON && pool->leave_stream == pool->segment_stream &&
	    (soma__order_capabilities(pool->resource) & SOMA_BACKEND_STEPS) != 0)
		(void)soma_resource_stream_synchronize(pool->resource, pool->segment_stream);
	if (pool->own_stream)
		(void)soma_resource_stream_destroy(pool->resource, pool->segment_stream);
	soma__window_give(&pool->window);
	soma_resource_release(pool->resource);
}

void
soma__pool_bury(struct soma_pool *pool)
{
	pthread_mutex_destroy(&pool->mutex);
	pthread_mutex_destroy(&pool->growing);
	soma__twin_bury(pool);
	soma__arena_destroy(pool->arena);
}

/* There will be no model to be told. */
static void
forgive_owed(struct soma_pool *pool)
{
	struct soma_allocation *next;

	pthread_mutex_lock(&pool->mutex);
	for (struct soma_allocation *handle = pool->owed; handle != NULL; handle = next) {
		next = handle->next;
		handle->owed = false;
		if (handle->released)
			soma__handle_put(pool, handle);
	}
	pool->owed = NULL;
	pthread_mutex_unlock(&pool->mutex);
}

void
soma__pool_finish(struct soma_pool *pool)
{
	bool last;

	forgive_owed(pool);
	give_back(pool);
	pthread_mutex_lock(&pool->mutex);
	pool->gone = true;
	soma__handles_collect(pool);
	last = pool->spare_count == pool->carved;
	pthread_mutex_unlock(&pool->mutex);
	if (last)
		soma__pool_bury(pool);
}

enum soma_status
soma_pool_create(const struct soma_pool_config *given, struct soma_resource *resource, struct soma_pool **out)
{
	struct checked checked;
	struct soma__arena *arena;
	struct soma_pool *pool;
	enum soma_status status = read_config(given, resource, &checked);

	if (status == SOMA_STATUS_OK)
		status = soma__arena_create(&arena);
	if (status != SOMA_STATUS_OK)
		return status;
	pool = soma__arena_calloc(arena, sizeof *pool, 64);
	if (pool == NULL) {
		soma__arena_destroy(arena);
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	pool->arena = arena;
	status = init_pool(pool, &checked, resource);
	if (status != SOMA_STATUS_OK) {
		give_back(pool);
		soma__pool_bury(pool);
		return status;
	}
	*out = pool;
	return SOMA_STATUS_OK;
}

/* ---- ending -------------------------------------------------------------------------------------- */

enum soma_status
soma__pool_refuse_destroyed(void)
{
	return soma__fail(INVALID_VALUE, "the pool was destroyed: nothing can be allocated from it");
}

enum soma_status
soma__pool_enter(struct soma_pool *pool)
{
	soma__pool_lock(pool);
	if (!pool->ended)
		return SOMA_STATUS_OK;
	soma__pool_unlock(pool);
	return soma__fail(INVALID_VALUE, "the pool was destroyed, and has no block any more");
}

enum soma_status
soma__pool_close(struct soma_pool *pool)
{
	bool before;

	soma__pool_lock(pool);
	before = pool->destroyed;
	pool->destroyed = true;
	atomic_fetch_or(&pool->returned, SOMA__HANDLES_CLOSED);
	soma__handles_collect(pool);
	if (!before)
		pool->users++;
	soma__pool_unlock(pool);
	return before ? soma__fail(INVALID_VALUE, "the pool was destroyed before") : SOMA_STATUS_OK;
}

void
soma__pool_end(struct soma_pool *pool)
{
	soma__pool_step_in(pool);
	soma__pool_leave(pool);
}

enum soma_status
soma_pool_destroy(struct soma_pool *pool)
{
	enum soma_status status;

	if (pool == NULL)
		return SOMA_STATUS_OK;
	status = soma__registry_close(pool);
	if (status == SOMA_STATUS_OK)
		soma__pool_end(pool);
	return status;
}

int
soma_pool_device(const struct soma_pool *pool)
{
	return pool->device;
}

enum soma_placement
soma_pool_placement(const struct soma_pool *pool)
{
	return pool->placement;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Pools as a runtime's configuration wants them.  What a pool does is lib/pool's.  No locks. */
#include "lib/base/error.h"
#include "lib/runtime/runtime.h"

#define SAME(name) \
	_Static_assert((int)SOMA__##name == (int)SOMA_##name, "the key's choices are passed on as they are")
SAME(PLACEMENT_AUTO);
SAME(PLACEMENT_BACKEND);
SAME(PLACEMENT_POOL);

enum soma_status
soma_runtime_pool_create(struct soma_runtime *runtime, struct soma_pool **pool)
{
	if (runtime == NULL || pool == NULL)
		return soma__fail(INVALID_VALUE, "expected a runtime and where to put the pool, got NULL");

	const struct soma__runtime_config *config = &runtime->config;
	/* A threshold above the maximum is refused by pools; "all" and "auto" mean whatever there is. */
	uint64_t most = config->max_pool_size != 0 ? config->max_pool_size : UINT64_MAX;
	uint64_t threshold = config->release_threshold.given ? config->release_threshold.bytes : UINT64_MAX;
	const struct soma_pool_config with = {
		.size = sizeof with,
		.device = (int)config->device,
		.placement = (enum soma_placement)config->placement,
		.max_size = config->max_pool_size,
		.release_threshold = threshold == UINT64_MAX ? most : threshold,
		.twin = config->twin,
		.twin_used_unit = config->twin_used_unit,
		.twin_reserved_tolerance = config->twin_reserved_tolerance,
	};

	return soma_pool_create(&with, runtime->resource, pool);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The presets: rows of a table.  Where a rule comes from stands beside it; what has
 * not been measured on a GPU yet is one named constant.
 */
#include <soma/model.h>

#include <string.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

/* The driver's pools reserve in these steps (open: measured by users, not by us). */
#define CUDA_SEGMENT_STEP (32 * MIB)

/* What devices map at a time; and more addresses than any device has memory, so that a
 * range does not come to its end. */
#define MAPPED_PAGE (2 * MIB)
#define MAPPED_RANGE ((uint64_t)1 << 40)

/* Of the latest frees twice so many wait, and so many are filed at a time: what a loop frees and
 * allocates again comes back whole.  Above so many live blocks a free's records are no longer in the
 * cache when they are needed: from there on they are fetched ahead. */
#define BATCH 256
#define BATCH_ABOVE 20000

static const struct soma_policy presets[] = {
	{
		.size = sizeof(struct soma_policy),
		.name = "strict",
		.alignment = 512,
		.fit = SOMA_FIT_GOOD,
		.segments = SOMA_SEGMENTS_RANGE,
		.reuse = SOMA_REUSE_OPPORTUNISTIC,
		.pool_count = 1,
		.pools = { { .request_max = UINT64_MAX, .segment_step = 512, .split_min = 1 } },
	},
	{
		.size = sizeof(struct soma_policy),
		.name = "cuda",
		.alignment = 512,
		.fit = SOMA_FIT_GOOD,
		.segments = SOMA_SEGMENTS_STEP,
		.reuse = SOMA_REUSE_SAME_STREAM | SOMA_REUSE_FOLLOW_EVENTS | SOMA_REUSE_OPPORTUNISTIC |
			 SOMA_REUSE_INTERNAL,
		.release_on_failure = true,
		.batch = BATCH,
		.batch_above = BATCH_ABOVE,
		.pool_count = 1,
		.pools = { { .request_max = UINT64_MAX, .segment_step = CUDA_SEGMENT_STEP, .split_min = 1 } },
	},
	{
		.size = sizeof(struct soma_policy),
		.name = "pytorch",
		.alignment = 512,
		.fit = SOMA_FIT_BEST,
		.segments = SOMA_SEGMENTS_STEP,
		.reuse = SOMA_REUSE_SAME_STREAM | SOMA_REUSE_OPPORTUNISTIC,
		.per_stream = true,
		.release_on_failure = true,
		.pool_count = 2,
		.pools = {
			{ .request_max = MIB, .segment_size = 2 * MIB, .segment_max = MIB,
			  .segment_step = 2 * MIB, .split_min = 512 },
			{ .request_max = UINT64_MAX, .segment_size = 20 * MIB, .segment_max = 10 * MIB - 1,
			  .segment_step = 2 * MIB, .split_min = MIB + 1 },
		},
	},
	{
		.size = sizeof(struct soma_policy),
		.name = "soma",
		.alignment = 512,
		.fit = SOMA_FIT_GOOD,
		.segments = SOMA_SEGMENTS_MAPPED,
		.reuse = SOMA_REUSE_SAME_STREAM | SOMA_REUSE_FOLLOW_EVENTS | SOMA_REUSE_OPPORTUNISTIC |
			 SOMA_REUSE_INTERNAL,
		.batch = BATCH,
		.batch_above = BATCH_ABOVE,
		.pool_count = 2,
		.pools = {
			{ .request_max = MIB, .segment_size = MAPPED_RANGE,
			  .segment_step = MAPPED_PAGE, .split_min = 1 },
			{ .request_max = UINT64_MAX, .segment_size = MAPPED_RANGE,
			  .segment_step = MAPPED_PAGE, .split_min = 1 },
		},
	},
};

const struct soma_policy *
soma_policy_at(size_t index)
{
	return index < sizeof presets / sizeof presets[0] ? &presets[index] : NULL;
}

const struct soma_policy *
soma_policy_preset(const char *name)
{
	const struct soma_policy *policy;

	for (size_t i = 0; (policy = soma_policy_at(i)) != NULL; i++)
		if (name != NULL && strcmp(policy->name, name) == 0)
			return policy;
	return NULL;
}

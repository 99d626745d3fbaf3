/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model is created with: read into structs of this version and checked.  Pure; any
 * thread.
 */
#include "lib/model/limits.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"

static enum soma_status
check_pool_row(const struct soma_policy *policy, unsigned pool)
{
	const struct soma_policy_pool *row = &policy->pools[pool];
	uint64_t served = row->segment_max < row->request_max ? row->segment_max : row->request_max;

	if (pool > 0 && row->request_max <= policy->pools[pool - 1].request_max)
		return soma__fail(INVALID_VALUE,
				  "policy: size pool %" PRIu64 " does not reach beyond the one before", pool);
	if (row->split_min > (uint64_t)1 << 31)
		return soma__fail(INVALID_VALUE, "policy: split_min %" PRIu64 " is above 2 GiB",
				  row->split_min);
	if (policy->segments == SOMA_SEGMENTS_RANGE)
		return SOMA_STATUS_OK;
	if (row->segment_step == 0 || row->segment_step % policy->alignment != 0 ||
	    row->segment_step > SOMA_MODEL_ADDRESS_MAX)
		return soma__fail(INVALID_VALUE,
				  "policy: segment_step %" PRIu64 " is no multiple of the alignment %" PRIu64
				  ", or above %" PRIu64,
				  row->segment_step, policy->alignment, SOMA_MODEL_ADDRESS_MAX);
	if (row->segment_size % policy->alignment != 0 || row->segment_size < served ||
	    row->segment_size > SOMA_MODEL_ADDRESS_MAX)
		return soma__fail(INVALID_VALUE,
				  "policy: segment_size %" PRIu64 " is no multiple of the alignment %" PRIu64
				  ", too small for requests up to %" PRIu64 ", or above %" PRIu64,
				  row->segment_size, policy->alignment, served, SOMA_MODEL_ADDRESS_MAX);
	return SOMA_STATUS_OK;
}

static enum soma_status
check_policy(const struct soma_policy *policy)
{
	const unsigned ordered = SOMA_REUSE_FOLLOW_EVENTS | SOMA_REUSE_INTERNAL;

	if (policy->alignment < 256 || policy->alignment > 1U << 20 ||
	    (policy->alignment & (policy->alignment - 1)) != 0)
		return soma__fail(INVALID_VALUE,
				  "policy: alignment %" PRIu64 " is no power of two from 256 to 1048576",
				  policy->alignment);
	if ((unsigned)policy->fit > SOMA_FIT_BEST || (unsigned)policy->segments > SOMA_SEGMENTS_STEP ||
	    policy->reuse > 15)
		return soma__fail(INVALID_VALUE, "policy: unknown fit, segments or reuse");
	if (policy->per_stream && (policy->segments == SOMA_SEGMENTS_RANGE || (policy->reuse & ordered) != 0))
		return soma__fail(INVALID_VALUE, "policy: per_stream goes with separate segments, and "
						 "without FOLLOW_EVENTS and INTERNAL");
	if (policy->pool_count < 1 || policy->pool_count > SOMA_POLICY_POOLS_MAX ||
	    (policy->segments == SOMA_SEGMENTS_RANGE && policy->pool_count != 1))
		return soma__fail(INVALID_VALUE,
				  "policy: pool_count %" PRIu64 " (a range has 1, segments 1 to 2)",
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
		return soma__fail(INVALID_VALUE,
				  "policy: the last size pool's request_max must be UINT64_MAX");
	return SOMA_STATUS_OK;
}

static enum soma_status
check_limits(const struct soma__limits *limits)
{
	const struct soma_policy *policy = &limits->policy;
	enum soma_status status = check_policy(policy);

	if (status != SOMA_STATUS_OK)
		return status;
	if (limits->base % policy->alignment != 0 || limits->base >= SOMA_MODEL_ADDRESS_MAX)
		return soma__fail(INVALID_VALUE,
				  "limits: base 0x%" PRIx64 " is misaligned or not below 0x%" PRIx64,
				  limits->base, SOMA_MODEL_ADDRESS_MAX);
	if (!limits->has_source)
		return SOMA_STATUS_OK;
	if (limits->source.acquire == NULL || limits->source.release == NULL)
		return soma__fail(INVALID_VALUE, "limits: the segment source lacks acquire or release");
	if (policy->segments == SOMA_SEGMENTS_RANGE)
		return soma__fail(INVALID_VALUE, "limits: a range takes no segment source");
	return SOMA_STATUS_OK;
}

enum soma_status
soma__limits_read(const struct soma_model_limits *given, struct soma__limits *limits)
{
	struct soma_model_limits read = { .size = sizeof read };
	enum soma_status status = SOMA_STATUS_OK;

	*limits = (struct soma__limits){ .policy = *soma_policy_preset("strict") };
	if (given != NULL)
		status = soma__struct_read("limits", given, given->size, &read, sizeof read);
	if (status == SOMA_STATUS_OK && read.policy != NULL)
		status = soma__struct_read("policy", read.policy, read.policy->size, &limits->policy,
					   sizeof limits->policy);
	if (status == SOMA_STATUS_OK && read.segments != NULL) {
		limits->has_source = true;
		status = soma__struct_read("segment source", read.segments, read.segments->size,
					   &limits->source, sizeof limits->source);
	}
	if (status != SOMA_STATUS_OK)
		return status;
	limits->max_pool_size = read.max_pool_size;
	limits->release_threshold = read.release_threshold;
	limits->base = read.base;
	return check_limits(limits);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model is created with: read into structs of this version and checked.  Pure; any
 * thread.
 */
#include "lib/model/limits.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"

/* So that what orders the holes of a range fits 64 bits. */
#define SOMA__PAGES_MAX ((uint64_t)1 << 31)

/* The pages and address ranges of SOMA_SEGMENTS_MAPPED. */
static enum soma_status
check_mapped_row(const struct soma_policy *policy, unsigned pool)
{
	const struct soma_policy_pool *row = &policy->pools[pool];
	uint64_t page = row->segment_step;

	if (page < policy->alignment || page > SOMA_MODEL_ADDRESS_MAX || (page & (page - 1)) != 0 ||
	    page != policy->pools[0].segment_step)
		return soma__fail(INVALID_VALUE,
				  "policy: pages of %" PRIu64
				  " bytes (segment_step) are no power of two from "
				  "the alignment %" PRIu64 " on, or not those of every size pool",
				  page, policy->alignment);
	if (row->segment_size == 0 || row->segment_size % page != 0 ||
	    row->segment_size > SOMA_MODEL_ADDRESS_MAX || row->segment_size / page > SOMA__PAGES_MAX)
		return soma__fail(INVALID_VALUE,
				  "policy: an address range of %" PRIu64 " bytes (segment_size) is empty, no "
				  "multiple of the page %" PRIu64 ", or of more than %" PRIu64 " pages",
				  row->segment_size, page, SOMA__PAGES_MAX);
	return SOMA_STATUS_OK;
}

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
	if (policy->segments == SOMA_SEGMENTS_MAPPED)
		return check_mapped_row(policy, pool);
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
	if ((unsigned)policy->fit > SOMA_FIT_BEST || (unsigned)policy->segments > SOMA_SEGMENTS_MAPPED ||
	    policy->reuse > 15)
		return soma__fail(INVALID_VALUE, "policy: unknown fit, segments or reuse");
	if (policy->segments == SOMA_SEGMENTS_MAPPED && policy->fit != SOMA_FIT_GOOD)
		return soma__fail(INVALID_VALUE, "policy: mapped pages go with the good fit");
	if (policy->per_stream && (policy->segments != SOMA_SEGMENTS_STEP || (policy->reuse & ordered) != 0))
		return soma__fail(INVALID_VALUE, "policy: per_stream goes with separate segments, and "
						 "without FOLLOW_EVENTS and INTERNAL");
	if (policy->pool_count < 1 || policy->pool_count > SOMA_POLICY_POOLS_MAX ||
	    (policy->segments == SOMA_SEGMENTS_RANGE && policy->pool_count != 1))
		return soma__fail(INVALID_VALUE,
				  "policy: pool_count %" PRIu64 " (a range has 1, segments 1 to 2)",
				  policy->pool_count);
	if ((policy->oversize != 0 || policy->collect_above != 0) &&
	    (!policy->per_stream || policy->fit != SOMA_FIT_BEST))
		return soma__fail(INVALID_VALUE,
				  "policy: oversize and collect_above go with per_stream and the best fit");
	if (policy->oversize % policy->alignment != 0 || policy->oversize_slack > (uint64_t)1 << 31)
		return soma__fail(INVALID_VALUE,
				  "policy: oversize %" PRIu64 " is no multiple of the alignment %" PRIu64
				  ", or oversize_slack %" PRIu64 " is above 2 GiB",
				  policy->oversize, policy->alignment, policy->oversize_slack);
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

/* The ranges lie one behind the other from the base on, unless a source has them. */
static enum soma_status
check_mapped(const struct soma__limits *limits)
{
	const struct soma_policy *policy = &limits->policy;
	uint64_t base = limits->base != 0 ? limits->base : SOMA_MODEL_BASE_DEFAULT, end = base;

	if (limits->has_source) {
		if (limits->source.reserve == NULL || limits->source.map == NULL ||
		    limits->source.unmap == NULL || limits->source.release == NULL)
			return soma__fail(INVALID_VALUE,
					  "limits: the segment source lacks reserve, map, unmap or release");
		return SOMA_STATUS_OK;
	}
	for (unsigned pool = 0; pool < policy->pool_count; pool++)
		end += policy->pools[pool].segment_size;
	if (base % policy->pools[0].segment_step != 0 || end > SOMA_MODEL_ADDRESS_MAX)
		return soma__fail(INVALID_VALUE,
				  "limits: from the base 0x%" PRIx64
				  ", the address ranges are misaligned or end "
				  "above 0x%" PRIx64,
				  base, SOMA_MODEL_ADDRESS_MAX);
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
	if (policy->segments == SOMA_SEGMENTS_MAPPED)
		return check_mapped(limits);
	if (!limits->has_source)
		return SOMA_STATUS_OK;
	if (limits->source.acquire == NULL || limits->source.release == NULL)
		return soma__fail(INVALID_VALUE, "limits: the segment source lacks acquire or release");
	if (policy->segments == SOMA_SEGMENTS_RANGE)
		return soma__fail(INVALID_VALUE, "limits: a range takes no segment source");
	return SOMA_STATUS_OK;
}

/* Before mapped pages it ended with release. */
static enum soma_status
read_source(const struct soma_segment_source *given, struct soma_segment_source *source)
{
	size_t known = sizeof *source;

	if (given->size == offsetof(struct soma_segment_source, reserve))
		known = given->size;
	return soma__struct_read("segment source", given, given->size, source, known);
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
		status = read_source(read.segments, &limits->source);
	}
	if (status != SOMA_STATUS_OK)
		return status;
	limits->max_pool_size = read.max_pool_size;
	limits->release_threshold = read.release_threshold;
	limits->base = read.base;
	return check_limits(limits);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Creating and destroying the oracle: which limits and policies are valid; what is set later. */
#include <stddef.h>
#include <string.h>

#include "tests/oracle_state.h"

static bool
is_valid_row(const struct soma_policy *p, const struct soma_policy_pool *row)
{
	uint64_t largest = row->segment_max < row->request_max ? row->segment_max : row->request_max;

	if (row->split_min > (uint64_t)1 << 31)
		return false;
	if (p->segments == SOMA_SEGMENTS_RANGE)
		return true;
	if (p->segments == SOMA_SEGMENTS_MAPPED)
		return row->segment_step == p->pools[0].segment_step && row->segment_step >= p->alignment &&
		       row->segment_step <= SOMA_MODEL_ADDRESS_MAX &&
		       (row->segment_step & (row->segment_step - 1)) == 0 && row->segment_size > 0 &&
		       row->segment_size <= SOMA_MODEL_ADDRESS_MAX &&
		       row->segment_size % row->segment_step == 0 &&
		       row->segment_size / row->segment_step <= (uint64_t)1 << 31;
	if (row->segment_step == 0 || row->segment_step % p->alignment != 0 ||
	    row->segment_step > SOMA_MODEL_ADDRESS_MAX || row->segment_size > SOMA_MODEL_ADDRESS_MAX)
		return false;
	return row->segment_size % p->alignment == 0 && row->segment_size >= largest;
}

static bool
is_valid_policy(const struct soma_policy *p)
{
	const unsigned forbidden = SOMA_REUSE_FOLLOW_EVENTS | SOMA_REUSE_INTERNAL;

	if (p->size != sizeof *p || p->fit > SOMA_FIT_BEST || p->segments > SOMA_SEGMENTS_MAPPED ||
	    p->reuse > 15)
		return false;
	if (p->alignment < 256 || p->alignment > 1 << 20 || (p->alignment & (p->alignment - 1)) != 0)
		return false;
	if ((p->oversize != 0 || p->collect_above != 0) && (!p->per_stream || p->fit != SOMA_FIT_BEST))
		return false;
	if (p->oversize % p->alignment != 0 || p->oversize_slack > (uint64_t)1 << 31)
		return false;
	if (p->batch > SOMA_POLICY_BATCH_MAX)
		return false;
	if (p->pool_count < 1 || p->pool_count > SOMA_POLICY_POOLS_MAX)
		return false;
	if (p->pools[p->pool_count - 1].request_max != UINT64_MAX)
		return false;
	for (unsigned i = 0; i < p->pool_count; i++)
		if (!is_valid_row(p, &p->pools[i]) ||
		    (i > 0 && p->pools[i].request_max <= p->pools[i - 1].request_max))
			return false;
	if (p->segments == SOMA_SEGMENTS_RANGE && (p->per_stream || p->pool_count > 1))
		return false;
	if (p->segments == SOMA_SEGMENTS_MAPPED && (p->per_stream || p->fit != SOMA_FIT_GOOD))
		return false;
	return !p->per_stream || (p->reuse & forbidden) == 0;
}

static bool
is_valid_source(const struct soma_segment_source *source, const struct soma_policy *policy)
{
	const size_t without_pages = offsetof(struct soma_segment_source, reserve);
	bool has_pages = source->size == sizeof *source;

	if ((!has_pages && source->size != without_pages) || source->release == NULL)
		return false;
	if (policy->segments != SOMA_SEGMENTS_MAPPED)
		return source->acquire != NULL && policy->segments != SOMA_SEGMENTS_RANGE;
	return has_pages && source->reserve != NULL && source->map != NULL && source->unmap != NULL;
}

/* The ranges of a mapped policy without a source. */
static bool
has_room_for_ranges(const struct soma_policy *policy, uint64_t base)
{
	uint64_t room = SOMA_MODEL_ADDRESS_MAX - base;

	for (unsigned i = 0; i < policy->pool_count; i++) {
		if (policy->pools[i].segment_size > room)
			return false;
		room -= policy->pools[i].segment_size;
	}
	return base % policy->pools[0].segment_step == 0;
}

static bool
is_valid_limits(const struct soma_model_limits *l, const struct soma_policy *policy)
{
	if (l->size != sizeof *l || !is_valid_policy(policy))
		return false;
	if (l->base % policy->alignment != 0 || l->base >= SOMA_MODEL_ADDRESS_MAX)
		return false;
	if (l->segments != NULL)
		return is_valid_source(l->segments, policy);
	return policy->segments != SOMA_SEGMENTS_MAPPED ||
	       has_room_for_ranges(policy, l->base != 0 ? l->base : SOMA_MODEL_BASE_DEFAULT);
}

enum soma_status
oracle_create(const struct soma_model_limits *limits, struct oracle **result)
{
	static const struct soma_model_limits defaults = { .size = sizeof defaults };
	const struct soma_model_limits *l = limits != NULL ? limits : &defaults;
	const struct soma_policy *policy = l->policy != NULL ? l->policy : soma_policy_preset("strict");
	enum soma_status status = SOMA_STATUS_OK;
	struct oracle *o;

	if (!is_valid_limits(l, policy))
		return SOMA_STATUS_INVALID_VALUE;
	o = grown(NULL, 0, sizeof *o);
	*o = (struct oracle){
		.policy = *policy,
		.max = l->max_pool_size,
		.threshold = l->release_threshold,
		.base = l->base != 0 ? l->base : SOMA_MODEL_BASE_DEFAULT,
		.has_source = l->segments != NULL,
	};
	if (o->has_source)
		memcpy(&o->source, l->segments, l->segments->size);
	if (policy->segments == SOMA_SEGMENTS_RANGE)
		oracle__add_segment(o, 0, 0, o->base, 0);
	oracle__add_stream(o, 0, SOMA_STREAM_BLOCKING);
	if (is_mapped(o))
		status = oracle__reserve_ranges(o);
	if (status == SOMA_STATUS_OK)
		*result = o;
	else
		oracle_destroy(o);
	return status;
}

void
oracle_destroy(struct oracle *o)
{
	if (o == NULL)
		return;
	if (is_mapped(o))
		oracle__give_back_ranges(o);
	for (size_t i = 0; i < o->segment_count; i++) {
		if (o->has_source && !is_mapped(o))
			o->source.release(o->source.context, o->segments[i]->address, o->segments[i]->size);
		free(o->segments[i]);
	}
	for (size_t i = 0; i < o->block_count; i++)
		free(o->blocks[i]);
	for (size_t s = 0; s < o->stream_count; s++) {
		for (uint64_t p = 0; p <= o->streams[s].submitted; p++)
			free(o->streams[s].history[p].seq);
		free(o->streams[s].history);
	}
	free(o->segments);
	free(o->blocks);
	free(o->streams);
	free(o->queue);
	free(o->latest);
	free(o);
}

void
oracle_set_release_threshold(struct oracle *o, uint64_t bytes)
{
	o->threshold = bytes;
}

void
oracle_set_fault(struct oracle *o, enum oracle_fault fault)
{
	o->fault = fault;
}

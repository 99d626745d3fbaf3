/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random policies and limits, small enough that growth fails often; and odd ones, most
 * of which are to be refused.
 */
#include <stddef.h>

#include "tests/generate.h"

static void
random_row(struct generator *g, struct soma_policy *p, unsigned i)
{
	struct soma_policy_pool *row = &p->pools[i];
	uint64_t a = p->alignment;

	row->request_max =
		i + 1 == p->pool_count ? UINT64_MAX : a * (1 + generate_below(g, 8)) - generate_below(g, 2);
	row->segment_step = a * generate_log_uniform(g, 64);
	if (!generate_one_in(g, 3)) {
		row->segment_size = row->segment_step * (1 + generate_below(g, 8));
		row->segment_max = generate_below(g, row->segment_size + 1);
	}
	switch (generate_below(g, 4)) {
	case 0:
		row->split_min = 0;
		break;
	case 1:
		row->split_min = 1;
		break;
	case 2:
		row->split_min = a + generate_below(g, 2);
		break;
	default:
		row->split_min = a * generate_log_uniform(g, 8) + 1;
		break;
	}
}

/* Pages of a few granules, the same in every row, and now and then a range that is full soon. */
static void
mapped_rows(struct generator *g, struct soma_policy *p)
{
	uint64_t page = p->alignment << generate_below(g, 8);
	uint64_t most = ((uint64_t)1 << 45) / page; /* sources have room for that */

	for (unsigned i = 0; i < p->pool_count; i++) {
		p->pools[i].segment_step = page;
		p->pools[i].segment_size = page * generate_log_uniform(g, generate_one_in(g, 3) ? 200
									  : most < 1000000      ? most
												: 1000000);
	}
}

/* From numbers of its own: what else a seed gives does not depend on it. */
static void
random_cache(const struct generator *g, struct soma_policy *p)
{
	uint64_t step = p->pools[p->pool_count - 1].segment_step;
	struct generator own = *g;

	if (generate_one_in(&own, 2)) {
		p->oversize = p->alignment * generate_log_uniform(&own, 64);
		p->oversize_slack = generate_below(&own, 3) * p->alignment * generate_log_uniform(&own, 16);
	}
	if (generate_one_in(&own, 2))
		p->collect_above = 1 + generate_below(&own, 8 * step);
}

void
generate_policy(struct generator *g, struct soma_policy *p)
{
	static const uint64_t alignments[] = { 256, 256, 512, 512, 4096, (uint64_t)1 << 20 };

	*p = (struct soma_policy){
		.size = sizeof *p,
		.name = "custom",
		.alignment = alignments[generate_below(g, 6)],
		.fit = (enum soma_fit)generate_below(g, 2),
		.segments = (enum soma_segments)generate_below(g, 3),
		.reuse = (unsigned)generate_below(g, 16),
		.release_on_failure = generate_one_in(g, 2),
		.pool_count = 1,
	};
	if (generate_one_in(g, 2)) {
		p->batch = 1 + (unsigned)generate_below(g, generate_one_in(g, 4) ? 40 : 4);
		p->batch_above = generate_below(g, 11);
	}
	if (p->segments != SOMA_SEGMENTS_RANGE)
		p->pool_count = 1 + (unsigned)generate_below(g, 2);
	if (p->segments == SOMA_SEGMENTS_STEP)
		p->per_stream = generate_one_in(g, 4);
	if (p->segments == SOMA_SEGMENTS_MAPPED)
		p->fit = SOMA_FIT_GOOD;
	if (p->per_stream)
		p->reuse &= SOMA_REUSE_SAME_STREAM | SOMA_REUSE_OPPORTUNISTIC;
	for (unsigned i = 0; i < p->pool_count; i++)
		random_row(g, p, i);
	if (p->segments == SOMA_SEGMENTS_MAPPED)
		mapped_rows(g, p);
	if (p->per_stream && p->fit == SOMA_FIT_BEST)
		random_cache(g, p);
}

/* Of a large request: about what a segment holds, or a few pages. */
uint64_t
generate_typical_granules(struct generator *g, const struct soma_policy *p)
{
	const struct soma_policy_pool *last = &p->pools[p->pool_count - 1];
	uint64_t segment = last->segment_size > last->segment_step ? last->segment_size : last->segment_step;

	if (p->segments == SOMA_SEGMENTS_RANGE)
		return generate_log_uniform(g, generate_one_in(g, 4) ? 100000 : 300);
	if (p->segments == SOMA_SEGMENTS_MAPPED)
		return generate_log_uniform(g, 16 * last->segment_step / p->alignment) + 4;
	if (segment / p->alignment > 1000 && generate_one_in(g, 2))
		return segment / p->alignment / 64;
	return segment / p->alignment * (1 + generate_below(g, 2)) + 1;
}

static void
generate_base(struct generator *g, struct sequence *sequence)
{
	const struct soma_policy *p = &sequence->policy;
	uint64_t step = p->alignment, end = SOMA_MODEL_ADDRESS_MAX;

	if (p->segments == SOMA_SEGMENTS_MAPPED) {
		step = p->pools[0].segment_step;
		for (unsigned i = 0; i < p->pool_count; i++)
			end -= p->pools[i].segment_size;
	}
	if (generate_one_in(g, 4))
		sequence->limits.base = step * (1 + generate_below(g, 1000));
	if (!generate_one_in(g, 40))
		return;
	/* The end of the addresses is near. */
	if (p->segments == SOMA_SEGMENTS_MAPPED)
		sequence->limits.base = end - step * generate_below(g, 3);
	else
		sequence->limits.base = end - step * (1 + generate_below(g, 4 * g->granules));
}

void
generate_limits(struct generator *g, struct sequence *sequence)
{
	const struct soma_policy *p = &sequence->policy;
	uint64_t mean = g->granules * p->alignment / 4 + p->alignment;
	uint64_t step =
		p->segments != SOMA_SEGMENTS_RANGE ? p->pools[p->pool_count - 1].segment_step : 2 * mean;

	sequence->limits = (struct soma_model_limits){ .size = sizeof sequence->limits };
	if (generate_one_in(g, 4))
		sequence->limits.max_pool_size =
			step * (1 + generate_below(g, 4)) + g->granules / 2 * p->alignment;
	else if (generate_one_in(g, 2))
		sequence->limits.max_pool_size = step + generate_below(g, mean * g->live_target);
	generate_base(g, sequence);
	if (!generate_one_in(g, 3))
		sequence->limits.release_threshold =
			generate_one_in(g, 2) ? UINT64_MAX : generate_below(g, mean * g->live_target);
	if (p->segments != SOMA_SEGMENTS_RANGE &&
	    generate_one_in(g, p->segments == SOMA_SEGMENTS_MAPPED ? 2 : 4))
		sequence->refuse_every = 2 + (unsigned)generate_below(g, 30);
}

static void
make_row_odd(struct generator *g, struct soma_policy *p)
{
	struct soma_policy_pool *row = &p->pools[generate_below(g, 2)];
	static const uint64_t odd[] = { 0, 1, 255, 256, 4096, 4097, UINT64_MAX };
	uint64_t value = odd[generate_below(g, 7)];

	switch (generate_below(g, 5)) {
	case 0:
		row->request_max = value;
		break;
	case 1:
		row->segment_step = value;
		break;
	case 2:
		row->segment_size = value;
		break;
	case 3:
		row->segment_max = value;
		break;
	default:
		row->split_min = value;
		break;
	}
}

static void
make_policy_odd(struct generator *g, struct soma_policy *p)
{
	static const uint64_t alignments[] = { 0, 1, 128, 256, 384, (uint64_t)1 << 20, (uint64_t)1 << 21 };

	switch (generate_below(g, 10)) {
	case 0:
		p->size = generate_one_in(g, 2) ? 0 : sizeof *p - 1;
		break;
	case 1:
		p->alignment = alignments[generate_below(g, 7)];
		break;
	case 2:
		p->fit = (enum soma_fit)generate_below(g, 4);
		break;
	case 3:
		p->segments = (enum soma_segments)generate_below(g, 4);
		break;
	case 4:
		p->reuse = (unsigned)generate_below(g, 64);
		break;
	case 5:
		p->per_stream = !p->per_stream;
		break;
	case 6:
		p->batch = SOMA_POLICY_BATCH_MAX + (unsigned)generate_below(g, 2);
		break;
	case 7:
		p->pool_count = (unsigned)generate_below(g, 4);
		break;
	default:
		make_row_odd(g, p);
		break;
	}
}

static void
make_limits_odd(struct generator *g, struct soma_segment_source *source, struct soma_model_limits *limits)
{
	switch (generate_below(g, 10)) {
	case 0:
		limits->size = generate_one_in(g, 2) ? 0 : sizeof *limits - 1;
		break;
	case 1:
		limits->base = limits->policy->alignment / 2 + 1;
		break;
	case 2:
		limits->base = SOMA_MODEL_ADDRESS_MAX - generate_below(g, 2) * limits->policy->alignment;
		break;
	case 3:
		limits->segments = limits->segments == NULL ? source : NULL;
		break;
	case 4:
		source->size = sizeof *source - 1;
		break;
	case 5:
		source->acquire = NULL;
		break;
	case 6:
		source->size = offsetof(struct soma_segment_source, reserve);
		break;
	case 7:
		source->map = NULL;
		break;
	case 8:
		source->unmap = NULL;
		break;
	default:
		source->release = NULL;
		break;
	}
}

void
generate_odd_limits(struct generator *g, uint64_t seed, struct soma_policy *policy,
		    struct soma_segment_source *source, struct soma_model_limits *limits)
{
	*g = (struct generator){ .state = seed };
	generate_policy(g, policy);
	*limits = (struct soma_model_limits){ .size = sizeof *limits, .policy = policy };
	if (policy->segments != SOMA_SEGMENTS_RANGE && generate_one_in(g, 2))
		limits->segments = source;
	for (uint64_t i = generate_below(g, 3); i > 0; i--) {
		if (generate_one_in(g, 3))
			make_limits_odd(g, source, limits);
		else
			make_policy_odd(g, policy);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One walk over a model's extents, and what it means.
 */
#include "tools/engine/moment.h"

#include "tools/engine/expandable.h"

struct sums {
	const struct streams *streams;
	uint64_t stream;      /* who looks */
	uint64_t free_usable; /* by that stream, at once */
	uint64_t stranded;    /* only others may use it */
	uint64_t pending;     /* nobody may yet */
	uint64_t largest;
	uint64_t largest_hole;
	uint64_t tail; /* the last extent before the end, when it is free and usable */

	/* Mapped pages; page is 0 where there are none. */
	uint64_t page;
	unsigned pool;     /* of the request */
	bool in_pool;      /* now */
	uint64_t idle;     /* bytes of pages that are wholly free */
	uint64_t end;      /* like `tail`, of the pool's range ... */
	uint64_t end_idle; /* ... and its part of `idle` */
};

static void
add_free(struct sums *sums, const struct soma_extent *extent)
{
	if (extent->size > sums->largest)
		sums->largest = extent->size;
	if (extent->stranded && !streams_are_one(sums->streams, extent->stream, sums->stream)) {
		sums->stranded += extent->size;
	} else if (extent->kind == SOMA_EXTENT_PENDING && !extent->stranded) {
		sums->pending += extent->size;
	} else {
		sums->free_usable += extent->size;
		sums->tail = extent->size;
	}
}

/* What growing at the end of the pool's range, and stealing, would find. */
static void
add_pages(struct sums *sums, const struct soma_extent *extent)
{
	uint64_t end = (extent->address + extent->size) / sums->page;
	uint64_t first = (extent->address + sums->page - 1) / sums->page;
	uint64_t idle = 0;

	if (extent->kind == SOMA_EXTENT_SEGMENT) {
		sums->in_pool = extent->pool == sums->pool;
		return;
	}
	if (extent->kind == SOMA_EXTENT_FREE && end > first)
		idle = (end - first) * sums->page;
	sums->idle += idle;
	if (!sums->in_pool)
		return;
	sums->end = sums->tail;
	sums->end_idle = idle;
}

static bool
visit(void *context, const struct soma_extent *extent)
{
	struct sums *sums = context;

	sums->tail = 0;
	switch (extent->kind) {
	case SOMA_EXTENT_HOLE:
		if (extent->size > sums->largest_hole)
			sums->largest_hole = extent->size;
		break;
	case SOMA_EXTENT_PENDING:
	case SOMA_EXTENT_FREE:
		add_free(sums, extent);
		break;
	case SOMA_EXTENT_SEGMENT:
	case SOMA_EXTENT_LIVE:
		break;
	}
	if (sums->page != 0)
		add_pages(sums, extent);
	return true;
}

static unsigned
pool_of(const struct soma_policy *policy, uint64_t rounded)
{
	unsigned pool = 0;

	while (rounded > policy->pools[pool].request_max)
		pool++;
	return pool;
}

/* As a request of `rounded` bytes sees it. */
static struct sums
walk(const struct streams *streams, uint64_t stream, uint64_t rounded)
{
	const struct soma_policy *policy = soma_model_policy(streams->model);
	struct sums sums = { .streams = streams, .stream = stream, .pool = pool_of(policy, rounded) };

	if (policy->segments == SOMA_SEGMENTS_MAPPED)
		sums.page = policy->pools[0].segment_step;
	if (streams->expandable != NULL)
		expandable_walk(streams->expandable, visit, &sums);
	else
		soma_model_walk(streams->model, visit, &sums);
	return sums;
}

void
moment_take(const struct streams *streams, uint64_t stream, uint64_t padding, struct replay_moment *moment)
{
	struct sums sums = walk(streams, stream, 0);

	moment->reserved = streams_reserved(streams);
	moment->live_capacity = streams_capacity(streams);
	moment->live_requested = streams_used(streams) - padding;
	moment->rounding_waste = moment->live_capacity - moment->live_requested;
	moment->free_but_held = moment->reserved - moment->live_capacity;
	moment->largest_free = sums.largest;
	moment->stranded_by_stream = sums.stranded;
}

/* ---- why an allocation failed -------------------------------------------- */

static uint64_t
saturating_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t
round_up(uint64_t size, uint64_t step)
{
	uint64_t over = size % step;

	return over == 0 ? size : saturating_add(size, step - over);
}

/* The pages to be mapped at the end of the range, less those that could be stolen. */
static uint64_t
missing_pages(uint64_t rounded, const struct sums *sums)
{
	uint64_t wanted = rounded > sums->end ? round_up(rounded - sums->end, sums->page) : 0;
	uint64_t idle = sums->idle - sums->end_idle;

	return wanted > idle ? wanted - idle : 0;
}

/* What the model would have to grow by for this request (HACKING, "Growing").  A free end
 * of the range that is large enough, and was passed over, does not count. */
static uint64_t
growth_for(const struct soma_policy *policy, uint64_t rounded, const struct sums *sums)
{
	const struct soma_policy_pool *pool = &policy->pools[sums->pool];

	if (policy->segments == SOMA_SEGMENTS_RANGE && sums->largest_hole >= rounded)
		return rounded;
	if (policy->segments == SOMA_SEGMENTS_RANGE)
		return sums->tail < rounded ? rounded - sums->tail : rounded;
	if (policy->segments == SOMA_SEGMENTS_MAPPED)
		return missing_pages(rounded, sums);
	return rounded <= pool->segment_max ? pool->segment_size : round_up(rounded, pool->segment_step);
}

/* In the order of what would help: with all waste gone; with smaller segments; with what
 * is free in one piece; with what others keep; with what is about to be free. */
static enum replay_oom_reason
reason_for(uint64_t rounded, uint64_t missing_without_waste, bool segment_fits, uint64_t room,
	   const struct sums *sums)
{
	uint64_t within_reach = saturating_add(room, sums->free_usable);

	if (missing_without_waste > 0)
		return REPLAY_OOM_TOO_BIG;
	if (!segment_fits)
		return REPLAY_OOM_SEGMENT;
	if (within_reach >= rounded)
		return REPLAY_OOM_FRAGMENTATION;
	within_reach = saturating_add(within_reach, sums->stranded);
	if (within_reach >= rounded)
		return REPLAY_OOM_STRANDED;
	within_reach = saturating_add(within_reach, sums->pending);
	return within_reach >= rounded ? REPLAY_OOM_PENDING : REPLAY_OOM_ROUNDING;
}

static uint64_t
excess(uint64_t needed, uint64_t limit)
{
	return needed > limit ? needed - limit : 0;
}

void
moment_verdict(const struct streams *streams, uint64_t stream, uint64_t size, uint64_t capacity,
	       struct replay_oom *oom)
{
	const struct soma_policy *policy = soma_model_policy(streams->model);
	uint64_t limit = capacity > 0 ? capacity : SOMA_MODEL_ADDRESS_MAX;
	uint64_t reserved = streams_reserved(streams), used = streams_used(streams);
	uint64_t rounded = round_up(size, policy->alignment);
	uint64_t without_waste = excess(saturating_add(used, size), limit);
	struct sums sums = walk(streams, stream, rounded);
	uint64_t growth =
		streams->expandable != NULL ? expandable_growth(rounded) : growth_for(policy, rounded, &sums);
	bool segment_fits = policy->segments != SOMA_SEGMENTS_STEP || growth <= limit;

	oom->happened = true;
	oom->requested = size;
	oom->live_requested = used;
	oom->reserved = reserved;
	oom->reason = reason_for(rounded, without_waste, segment_fits, excess(limit, reserved), &sums);
	oom->short_by = excess(saturating_add(reserved, growth), limit);
}

const char *
replay_oom_text(enum replay_oom_reason reason)
{
	switch (reason) {
#define X(name, text)           \
	case REPLAY_OOM_##name: \
		return text;
		REPLAY_OOM_MAP(X)
#undef X
	}
	return "unknown";
}

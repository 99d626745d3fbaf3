/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks.  Joins are skipped where nothing changed since the last one, by
 * version numbers; all lanes have the same width, so that a join never needs memory.
 * Does not lock.
 */
#include "backends/guard/clocks.h"

#include <string.h>

#define FIRST_WIDTH 8u

static bool
widen(struct clocks *clocks, struct clock_vector *vector, uint32_t width)
{
	const struct soma_backend_host *host = clocks->host;

	if (vector->width >= width)
		return true;
	uint64_t *tick = host->alloc(host->context, width * sizeof *tick, 0);
	if (tick == NULL)
		return false;
	memset(tick, 0, width * sizeof *tick);
	if (vector->tick != NULL) {
		memcpy(tick, vector->tick, vector->width * sizeof *tick);
		host->free(host->context, vector->tick, vector->width * sizeof *tick);
	}
	*vector = (struct clock_vector){ .tick = tick, .width = width };
	return true;
}

void
clocks_release(struct clocks *clocks, struct clock_vector *vector)
{
	if (vector->tick != NULL)
		clocks->host->free(clocks->host->context, vector->tick, vector->width * sizeof *vector->tick);
	*vector = (struct clock_vector){ 0 };
}

/* The clocks of lanes that are there may be wider than `width` after a failure: no harm. */
static bool
grow(struct clocks *clocks, uint32_t width)
{
	const struct soma_backend_host *host = clocks->host;

	for (uint32_t i = 0; i < clocks->width; i++)
		if (!widen(clocks, &clocks->lanes[i].now, width))
			return false;
	struct clock_lane *lanes = host->alloc(host->context, width * sizeof *lanes, 0);
	if (lanes == NULL)
		return false;
	memset(lanes, 0, width * sizeof *lanes);
	for (uint32_t i = clocks->width; i < width; i++) {
		if (widen(clocks, &lanes[i].now, width))
			continue;
		while (i-- > clocks->width)
			clocks_release(clocks, &lanes[i].now);
		host->free(host->context, lanes, width * sizeof *lanes);
		return false;
	}
	if (clocks->lanes != NULL) {
		memcpy(lanes, clocks->lanes, clocks->width * sizeof *lanes);
		host->free(host->context, clocks->lanes, clocks->width * sizeof *lanes);
	}
	clocks->lanes = lanes;
	clocks->width = width;
	return true;
}

bool
clocks_init(struct clocks *clocks, const struct soma_backend_host *host)
{
	*clocks = (struct clocks){ .host = host };
	if (!grow(clocks, FIRST_WIDTH))
		return false;
	clocks->lanes[CLOCKS_HOST].used = true;
	clocks->lanes[CLOCKS_HOST].holders = 1;
	clocks->lanes[CLOCKS_HOST].version = 1;
	clocks->count = 1;
	return true;
}

void
clocks_fini(struct clocks *clocks)
{
	if (clocks->lanes == NULL)
		return;
	for (uint32_t i = 0; i < clocks->width; i++)
		clocks_release(clocks, &clocks->lanes[i].now);
	clocks->host->free(clocks->host->context, clocks->lanes, clocks->width * sizeof *clocks->lanes);
	*clocks = (struct clocks){ 0 };
}

static void
join(struct clock_lane *lane, const struct clock_vector *from)
{
	uint32_t width = from->width < lane->now.width ? from->width : lane->now.width;
	uint64_t *now = lane->now.tick;
	bool grew = false;

	for (uint32_t i = 0; i < width; i++) {
		if (from->tick[i] > now[i]) {
			now[i] = from->tick[i];
			grew = true;
		}
	}
	lane->version += grew;
}

bool
clocks_is_spent(const struct clocks *clocks, uint32_t lane)
{
	const struct clock_lane *l = &clocks->lanes[lane];

	return l->used && l->holders == 0 && lane != CLOCKS_HOST &&
	       clocks->lanes[CLOCKS_HOST].now.tick[lane] >= l->now.tick[lane];
}

/* A lane for a new stream: spent, or never used. */
static bool
find_lane(struct clocks *clocks, uint32_t *lane)
{
	for (uint32_t i = 1; i < clocks->count; i++) {
		if (clocks_is_spent(clocks, i)) {
			*lane = i;
			return true;
		}
	}
	if (clocks->count == clocks->width && !grow(clocks, clocks->width * 2))
		return false;
	*lane = clocks->count++;
	return true;
}

bool
clocks_hold(struct clocks *clocks, uint64_t id, uint32_t flags, uint32_t *lane)
{
	for (uint32_t i = 1; i < clocks->count; i++) {
		if (clocks->lanes[i].used && clocks->lanes[i].id == id) {
			clocks->lanes[i].holders++;
			*lane = i;
			return true;
		}
	}
	if (!find_lane(clocks, lane))
		return false;
	struct clock_lane *l = &clocks->lanes[*lane];
	uint64_t tick = l->now.tick[*lane], version = l->version;
	memset(l->now.tick, 0, l->now.width * sizeof *l->now.tick);
	l->now.tick[*lane] = tick;
	*l = (struct clock_lane){ .now = l->now,
				  .id = id,
				  .name = id,
				  .version = version + 1,
				  .holders = 1,
				  .flags = flags,
				  .used = true };
	join(l, &clocks->lanes[CLOCKS_HOST].now);
	if (flags & CLOCK_LANE_LEGACY)
		clocks->legacy = *lane;
	return true;
}

void
clocks_name(struct clocks *clocks, uint32_t lane, uint64_t name)
{
	clocks->lanes[lane].name = name;
}

void
clocks_drop(struct clocks *clocks, uint32_t lane)
{
	clocks->lanes[lane].holders--;
	if (clocks->legacy == lane && clocks->lanes[lane].holders == 0)
		clocks->lanes[lane].holders++; /* the stream itself is never gone */
}

static void
join_blocking(struct clocks *clocks, struct clock_lane *legacy)
{
	for (uint32_t i = 1; i < clocks->count; i++) {
		struct clock_lane *l = &clocks->lanes[i];
		if (!l->used || !(l->flags & CLOCK_LANE_BLOCKING) || l->seen_by_legacy == l->version)
			continue;
		join(legacy, &l->now);
		l->seen_by_legacy = l->version;
	}
}

void
clocks_catch_up(struct clocks *clocks, uint32_t lane)
{
	struct clock_lane *l = &clocks->lanes[lane], *host = &clocks->lanes[CLOCKS_HOST];

	if (lane == CLOCKS_HOST)
		return;
	if (l->seen_host != host->version) {
		join(l, &host->now);
		l->seen_host = host->version;
	}
	if (l->flags & CLOCK_LANE_LEGACY) {
		join_blocking(clocks, l);
	} else if ((l->flags & CLOCK_LANE_BLOCKING) && clocks->legacy != 0) {
		struct clock_lane *legacy = &clocks->lanes[clocks->legacy];
		if (l->seen_legacy != legacy->version) {
			join(l, &legacy->now);
			l->seen_legacy = legacy->version;
		}
	}
}

struct clock_access
clocks_op(struct clocks *clocks, uint32_t lane)
{
	struct clock_lane *l = &clocks->lanes[lane];

	clocks_catch_up(clocks, lane);
	l->version++;
	return (struct clock_access){
		.tick = ++l->now.tick[lane], .seq = ++clocks->seq, .stream = l->name, .lane = lane
	};
}

bool
clocks_ordered(const struct clocks *clocks, uint32_t lane, const struct clock_access *access)
{
	return access->tick <= clocks->lanes[lane].now.tick[access->lane];
}

bool
clocks_reserve(struct clocks *clocks, struct clock_vector *vector)
{
	return widen(clocks, vector, clocks->width);
}

static void
copy(struct clock_vector *to, const struct clock_vector *from)
{
	uint32_t width = to->width < from->width ? to->width : from->width;

	memcpy(to->tick, from->tick, width * sizeof *to->tick);
	memset(to->tick + width, 0, (to->width - width) * sizeof *to->tick);
}

void
clocks_record(struct clocks *clocks, uint32_t lane, struct clock_vector *vector)
{
	clocks_catch_up(clocks, lane);
	if (vector->tick != NULL)
		copy(vector, &clocks->lanes[lane].now);
}

/* A blocking stream that is waited for says nothing of what the legacy stream was given since its latest
 * work; the legacy stream is waited for with all that blocks with it. */
void
clocks_look(struct clocks *clocks, uint32_t lane, struct clock_vector *vector)
{
	if (clocks->lanes[lane].flags & CLOCK_LANE_LEGACY)
		clocks_catch_up(clocks, lane);
	if (vector->tick != NULL)
		copy(vector, &clocks->lanes[lane].now);
}

void
clocks_record_all(struct clocks *clocks, struct clock_vector *vector)
{
	for (uint32_t i = 0; i < vector->width; i++)
		vector->tick[i] = i < clocks->count ? clocks->lanes[i].now.tick[i] : 0;
}

void
clocks_reach(struct clocks *clocks, uint32_t lane, uint64_t tick)
{
	struct clock_lane *host = &clocks->lanes[CLOCKS_HOST];

	if (host->now.tick[lane] >= tick)
		return;
	host->now.tick[lane] = tick;
	host->version++;
}

void
clocks_wait(struct clocks *clocks, uint32_t lane, const struct clock_vector *vector)
{
	clocks_catch_up(clocks, lane);
	if (vector->tick != NULL)
		join(&clocks->lanes[lane], vector);
}

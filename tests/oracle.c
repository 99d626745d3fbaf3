/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The naive model; see oracle.h.  Read it beside HACKING, "The model": each function
 * is a sentence or two of that.  Nothing is kept that can be counted: reserved, used,
 * holes and shelves are found by looking at every block, each time.
 */
#include "tests/oracle_state.h"

/* ---- allocating --------------------------------------------------------- */

/* a serves before b; both are large enough. */
static bool
serves_before(const struct oracle *o, const struct block *a, const struct block *b)
{
	if (o->policy.fit == SOMA_FIT_BEST)
		return a->size != b->size ? a->size < b->size : a->address < b->address;
	if (a->class != b->class)
		return a->class < b->class;
	if (a->region != b->region)
		return a->region < b->region;
	return o->fault == ORACLE_FAULT_OLDEST_FIRST ? a->stamp < b->stamp : a->stamp > b->stamp;
}

static bool
serves(const struct oracle *o, const struct block *b, uint64_t rounded)
{
	if (o->policy.fit == SOMA_FIT_BEST)
		return b->size >= rounded;
	return b->class >= oracle__class_wanted(rounded / o->policy.alignment);
}

static bool
is_on(const struct oracle *o, const struct block *b, unsigned pool, size_t shelf)
{
	return shelf == SHARED ? oracle__on_shared_shelf(o, b, pool)
			       : oracle__on_own_shelf(o, b, pool, shelf);
}

/* The block put last into the request's own class, if that is not the one it looks for. */
static struct block *
find_latest_on(const struct oracle *o, uint64_t rounded, unsigned pool, size_t shelf)
{
	uint64_t n = rounded / o->policy.alignment, class = oracle__class_of(n);
	uint64_t stamp = oracle__latest(o, shelf, pool, class);

	if (o->policy.fit == SOMA_FIT_BEST || class == oracle__class_wanted(n))
		return NULL;
	for (size_t i = 0; i < o->block_count; i++)
		if (is_on(o, o->blocks[i], pool, shelf) && o->blocks[i]->class == class &&
		    o->blocks[i]->stamp == stamp)
			return o->blocks[i]->size >= rounded ? o->blocks[i] : NULL;
	return NULL;
}

static struct block *
find_on(const struct oracle *o, uint64_t rounded, unsigned pool, size_t shelf)
{
	struct block *best = find_latest_on(o, rounded, pool, shelf);

	if (best != NULL)
		return best;
	for (size_t i = 0; i < o->block_count; i++) {
		struct block *b = o->blocks[i];

		if (is_on(o, b, pool, shelf) && serves(o, b, rounded) &&
		    (best == NULL || serves_before(o, b, best)))
			best = b;
	}
	return best;
}

/* "Oversize". */
static bool
is_allowed(const struct oracle *o, const struct block *b, uint64_t rounded)
{
	uint64_t limit = o->policy.oversize;

	if (limit == 0)
		return true;
	if (rounded < limit)
		return b->size < limit;
	return b->size - rounded < o->policy.oversize_slack;
}

/* Steps 1 and 2. */
static struct block *
find_on_shelves(const struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	struct block *b = find_on(o, rounded, pool, s);

	if (b != NULL && !is_allowed(o, b, rounded))
		b = NULL;
	return b != NULL ? b : find_on(o, rounded, pool, SHARED);
}

/* How many blocks of this one's class, region and shelf were put there after it. */
static unsigned
put_after(const struct oracle *o, const struct block *b, unsigned pool, size_t shelf)
{
	unsigned count = 0;

	for (size_t i = 0; i < o->block_count; i++)
		if (is_on(o, o->blocks[i], pool, shelf) && o->blocks[i]->class == b->class &&
		    o->blocks[i]->region == b->region && o->blocks[i]->stamp > b->stamp)
			count++;
	return count;
}

/* Step 6. */
static struct block *
find_near(const struct oracle *o, uint64_t rounded, unsigned pool, size_t shelf)
{
	uint64_t class = oracle__class_of(rounded / o->policy.alignment);
	struct block *best = NULL;

	for (size_t i = 0; i < o->block_count; i++) {
		struct block *b = o->blocks[i];

		if (is_on(o, b, pool, shelf) && b->class == class && b->size >= rounded &&
		    put_after(o, b, pool, shelf) < 32 && (best == NULL || serves_before(o, b, best)))
			best = b;
	}
	return best;
}

static struct block *
find_near_on_shelves(const struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	struct block *b = find_near(o, rounded, pool, s);

	return b != NULL ? b : find_near(o, rounded, pool, SHARED);
}

/* Steps 4 and 8: the least (size, address) of what other streams freed; with a
 * clock, only of what is below it. */
static struct block *
find_foreign(const struct oracle *o, uint64_t rounded, unsigned pool, size_t s, const struct row *clock)
{
	struct block *best = NULL;

	for (size_t i = 0; i < o->block_count; i++) {
		struct block *b = o->blocks[i];

		if (b->state != PENDING || b->segment->pool != pool || b->stream == s || b->size < rounded)
			continue;
		if (clock != NULL && b->position >= oracle__component(clock, b->stream))
			continue;
		if (best == NULL || b->size < best->size)
			best = b;
	}
	return best;
}

static struct block *
find_block(struct oracle *o, uint64_t rounded, unsigned pool, size_t s, const struct row *clock)
{
	struct block *b;

	o->searches += pool + 1 == o->policy.pool_count;
	b = oracle__take_queued(o, rounded, pool, s);
	if (b == NULL)
		b = find_on_shelves(o, rounded, pool, s);
	if (b == NULL && oracle__has_queued(o)) {
		oracle__file_queue(o);
		b = find_on_shelves(o, rounded, pool, s);
	}
	if (b == NULL && is_mapped(o))
		b = find_near_on_shelves(o, rounded, pool, s);
	if (b == NULL && follows(o))
		b = find_foreign(o, rounded, pool, s, clock);
	if (b == NULL) {
		oracle__collect(o);
		b = oracle__grow(o, rounded, pool, s);
	}
	if (b == NULL && o->policy.oversize != 0 && oracle__make_room(o, rounded, pool, s))
		b = oracle__grow(o, rounded, pool, s);
	if (b == NULL && o->policy.fit == SOMA_FIT_GOOD)
		b = find_near_on_shelves(o, rounded, pool, s);
	if (b == NULL && o->policy.release_on_failure && oracle__release_down_to(o, 0)) {
		oracle__look_for_gone_streams(o);
		b = oracle__grow(o, rounded, pool, s);
	}
	return b;
}

void
oracle__split(struct oracle *o, struct block *b, uint64_t rounded, uint64_t split_min)
{
	uint64_t left = b->size - rounded;
	struct block *rest;

	if (left == 0 || left < split_min)
		return;
	rest = oracle__add_block(o, b->segment, b->address + rounded, left);
	rest->state = b->state;
	rest->stream = b->stream;
	rest->position = b->position;
	b->size = rounded;
	if (b->state == COMPLETE || b->place == SHELF) {
		oracle__put_on_shelf(o, rest);
		oracle__open_on_shelf(o, rest);
	}
}

void
oracle__make_live(struct block *b, uint64_t requested)
{
	b->state = LIVE;
	b->place = NOWHERE;
	b->requested = requested;
	b->stream = 0;
	b->position = 0;
}

static bool
round_up(const struct oracle *o, uint64_t size, uint64_t *rounded)
{
	if (size > SOMA_MODEL_ADDRESS_MAX)
		return false;
	*rounded = (size + o->policy.alignment - 1) / o->policy.alignment * o->policy.alignment;
	return true;
}

static unsigned
pool_of(const struct oracle *o, uint64_t rounded)
{
	unsigned pool = 0;

	while (rounded > o->policy.pools[pool].request_max)
		pool++;
	return pool;
}

/* Step 8: sets what the stream waits for. */
static struct block *
find_by_wait(struct oracle *o, uint64_t rounded, unsigned pool, size_t s, struct soma_model_alloc *alloc)
{
	struct block *b = find_foreign(o, rounded, pool, s, NULL);

	if (b == NULL)
		return NULL;
	alloc->wait_stream = o->streams[b->stream].id;
	alloc->wait_seq = b->position + (o->fault != ORACLE_FAULT_WAIT_SHORT);
	oracle__wait_for(o, s, b->stream, alloc->wait_seq);
	o->kept.wait_count++;
	return b;
}

enum soma_status
oracle_alloc(struct oracle *o, uint64_t size, uint64_t stream, struct soma_model_alloc *alloc)
{
	size_t s = oracle__find_working_stream(o, stream);
	struct soma_model_alloc result = { .size = size, .stream = stream };
	uint64_t rounded;
	unsigned pool;
	struct row clock;
	struct block *b;

	if (s == NO_STREAM || size == 0 || alloc == NULL)
		return SOMA_STATUS_INVALID_VALUE;
	if (!round_up(o, size, &rounded))
		return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	pool = pool_of(o, rounded);
	clock = oracle__begin(o, s);
	b = find_block(o, rounded, pool, s, &clock);
	free(clock.seq);
	if (b == NULL && (o->policy.reuse & SOMA_REUSE_INTERNAL))
		b = find_by_wait(o, rounded, pool, s, &result);
	if (b == NULL)
		return o->refusal;
	if (o->policy.oversize == 0 || rounded < o->policy.oversize)
		oracle__split(o, b, rounded, o->policy.pools[pool].split_min);
	oracle__make_live(b, size);
	result.ptr = b->address;
	result.capacity = b->size;
	result.ready_seq = o->streams[s].submitted;
	oracle__take_position(o, s, oracle__begin(o, s));
	oracle__look_for_gone_streams(o);
	o->kept.alloc_count++;
	oracle__note_peaks(o);
	*alloc = result;
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_free(struct oracle *o, uint64_t ptr, uint64_t stream)
{
	size_t s = oracle__find_working_stream(o, stream);
	struct block *b = oracle__block_at(o, ptr);

	if (ptr == 0)
		return SOMA_STATUS_OK;
	if (s == NO_STREAM || b == NULL || b->state != LIVE)
		return SOMA_STATUS_INVALID_VALUE;
	b->state = PENDING;
	b->stream = s;
	b->position = o->streams[s].submitted;
	oracle__take_position(o, s, oracle__begin(o, s));
	o->kept.free_count++;
	if (shelves_pending(o))
		oracle__queue_or_file(o, b);
	else if ((o->policy.reuse & SOMA_REUSE_SAME_STREAM) && b->segment->stream == s)
		oracle__complete(o, b);
	oracle__note_peaks(o);
	return SOMA_STATUS_OK;
}

bool
oracle_is_live(const struct oracle *o, uint64_t ptr)
{
	const struct block *b = oracle__block_at(o, ptr);

	return b != NULL && b->state == LIVE;
}

bool
oracle_is_ready_same_stream(const struct oracle *o, const struct soma_model_alloc *alloc)
{
	size_t s = oracle__find_stream(o, alloc->stream);

	return s == NO_STREAM ? oracle__was_stream(o, alloc->stream)
			      : o->streams[s].executed > alloc->ready_seq;
}

bool
oracle_is_ready_cross_stream(const struct oracle *o, const struct soma_model_alloc *alloc, uint64_t consumer,
			     uint64_t wait_seq)
{
	if (consumer == alloc->stream)
		return oracle_is_ready_same_stream(o, alloc);
	return wait_seq > alloc->ready_seq;
}

enum soma_status
oracle_trim_to(struct oracle *o, uint64_t keep)
{
	oracle__file_queue(o);
	oracle__release_down_to(o, keep);
	oracle__look_for_gone_streams(o);
	return SOMA_STATUS_OK;
}

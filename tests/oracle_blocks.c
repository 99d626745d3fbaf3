/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle's blocks: where they lie, which shelf they are on, how they are joined
 * and counted.  All in one array by address.
 */
#include "tests/oracle_state.h"

#include <string.h>

/* ---- blocks and shelves ------------------------------------------------- */

static size_t
index_of(const struct oracle *o, const struct block *b)
{
	size_t i = 0;

	while (o->blocks[i] != b)
		i++;
	return i;
}

struct block *
oracle__block_at(const struct oracle *o, uint64_t address)
{
	for (size_t i = 0; i < o->block_count; i++)
		if (o->blocks[i]->address == address)
			return o->blocks[i];
	return NULL;
}

struct block *
oracle__add_block(struct oracle *o, struct segment *segment, uint64_t address, uint64_t size)
{
	struct block *b = grown(NULL, 0, sizeof *b);
	size_t i = o->block_count;

	*b = (struct block){ .address = address, .size = size, .segment = segment, .state = COMPLETE };
	o->blocks = grown(o->blocks, o->block_count++, sizeof(struct block *));
	for (; i > 0 && o->blocks[i - 1]->address > address; i--)
		o->blocks[i] = o->blocks[i - 1];
	o->blocks[i] = b;
	return b;
}

void
oracle__remove_block(struct oracle *o, struct block *b)
{
	o->block_count--;
	for (size_t i = index_of(o, b); i < o->block_count; i++)
		o->blocks[i] = o->blocks[i + 1];
	free(b);
}

uint64_t
oracle__reserved(const struct oracle *o)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < o->block_count; i++)
		sum += o->blocks[i]->size;
	return sum;
}

uint64_t
oracle__range_end(const struct oracle *o)
{
	const struct block *last;

	if (o->block_count == 0)
		return o->base;
	last = o->blocks[o->block_count - 1];
	return last->address + last->size;
}

static uint64_t
floor_log2(uint64_t n)
{
	uint64_t log = 0;

	while (n >>= 1)
		log++;
	return log;
}

uint64_t
oracle__class_of(uint64_t n)
{
	uint64_t d;

	if (n < 64)
		return n;
	d = floor_log2(n) - 6;
	return 64 * (d + 1) + ((n >> d) & 63);
}

uint64_t
oracle__class_wanted(uint64_t n)
{
	return n < 64 ? n : oracle__class_of(n + ((uint64_t)1 << (floor_log2(n) - 6)) - 1);
}

static uint64_t
region_of(const struct oracle *o, uint64_t address)
{
	uint64_t end = is_mapped(o) ? oracle__mapped_end(o, oracle__range_of(o, o->policy.pool_count - 1))
		       : o->policy.segments == SOMA_SEGMENTS_RANGE ? oracle__range_end(o)
								   : o->top;
	uint64_t t = end > o->base ? (end - o->base) / o->policy.alignment : 0;
	uint64_t log = floor_log2(max_of(t, 1));
	uint64_t region;

	if (address < o->base)
		return 0;
	region = ((address - o->base) / o->policy.alignment) >> (log > 2 ? log - 2 : 0);
	return region > 7 ? 7 : region;
}

static struct latest *
find_latest(const struct oracle *o, size_t stream, unsigned pool, uint64_t class)
{
	for (size_t i = 0; i < o->latest_count; i++)
		if (o->latest[i].stream == stream && o->latest[i].pool == pool && o->latest[i].class == class)
			return &o->latest[i];
	return NULL;
}

/* The stamp of the block put last into this class of a shelf; 0 if there never was one. */
uint64_t
oracle__latest(const struct oracle *o, size_t stream, unsigned pool, uint64_t class)
{
	const struct latest *latest = find_latest(o, stream, pool, class);

	return latest != NULL ? latest->stamp : 0;
}

static void
note_latest(struct oracle *o, const struct block *b)
{
	size_t stream = b->state == PENDING ? b->stream : o->policy.per_stream ? b->segment->stream : SHARED;
	struct latest *latest = find_latest(o, stream, b->segment->pool, b->class);

	if (latest == NULL) {
		o->latest = grown(o->latest, o->latest_count, sizeof *o->latest);
		latest = &o->latest[o->latest_count++];
		*latest = (struct latest){ .stream = stream, .pool = b->segment->pool, .class = b->class };
	}
	latest->stamp = b->stamp;
}

void
oracle__put_on_shelf(struct oracle *o, struct block *b)
{
	b->place = SHELF;
	b->open = false;
	b->stamp = ++o->stamp;
	b->since = o->searches;
	b->class = oracle__class_of(b->size / o->policy.alignment);
	b->region = region_of(o, b->address);
	note_latest(o, b);
}

/* The rest of a split, on a shelf already. */
void
oracle__open_on_shelf(struct oracle *o, struct block *b)
{
	if (b->state != PENDING || o->policy.fit != SOMA_FIT_GOOD)
		return;
	for (size_t i = 0; i < o->block_count; i++)
		if (oracle__on_own_shelf(o, o->blocks[i], b->segment->pool, b->stream))
			o->blocks[i]->open = false;
	b->open = true;
}

bool
oracle__on_shared_shelf(const struct oracle *o, const struct block *b, unsigned pool)
{
	return !o->policy.per_stream && b->segment->pool == pool && b->place == SHELF && b->state == COMPLETE;
}

bool
oracle__on_own_shelf(const struct oracle *o, const struct block *b, unsigned pool, size_t s)
{
	if (b->segment->pool != pool || b->place != SHELF)
		return false;
	if (b->state == COMPLETE)
		return o->policy.per_stream && b->segment->stream == s;
	return b->state == PENDING && b->stream == s;
}

/* ---- filing ------------------------------------------------------------- */

static bool
joins(const struct oracle *o, const struct block *b, const struct block *neighbour)
{
	if (neighbour->segment != b->segment || neighbour->place != SHELF || neighbour->state != b->state)
		return false;
	if (b->state == COMPLETE)
		return true;
	return neighbour->stream == b->stream &&
	       (neighbour->position >= o->streams[b->stream].barrier || o->fault == ORACLE_FAULT_NO_BARRIER);
}

void
oracle__absorb(struct oracle *o, struct block *b, struct block *neighbour)
{
	b->address = neighbour->address < b->address ? neighbour->address : b->address;
	b->size += neighbour->size;
	b->position = max_of(b->position, neighbour->position);
	oracle__remove_block(o, neighbour);
}

/* The neighbour behind, if the block can join it. */
static struct block *
joining_next(const struct oracle *o, const struct block *b)
{
	size_t i = index_of(o, b) + 1;
	struct block *next = i < o->block_count ? o->blocks[i] : NULL;

	return next != NULL && next->address == b->address + b->size && joins(o, b, next) ? next : NULL;
}

static void
file(struct oracle *o, struct block *b)
{
	size_t i = index_of(o, b);
	struct block *next = joining_next(o, b);
	struct block *previous = i > 0 ? o->blocks[i - 1] : NULL;

	if (next != NULL)
		oracle__absorb(o, b, next);
	if (previous != NULL && previous->address + previous->size == b->address && joins(o, b, previous))
		oracle__absorb(o, b, previous);
	oracle__put_on_shelf(o, b);
}

/* The oldest places go. */
static void
file_oldest(struct oracle *o, size_t count)
{
	if (count == 0)
		return; /* there may be no queue at all */
	for (size_t i = 0; i < count; i++)
		if (o->queue[i] != NULL)
			file(o, o->queue[i]);
	o->queue_count -= count;
	memmove(o->queue, o->queue + count, o->queue_count * sizeof(struct block *));
}

void
oracle__file_queue(struct oracle *o)
{
	file_oldest(o, o->queue_count);
}

bool
oracle__has_queued(const struct oracle *o)
{
	for (size_t i = 0; i < o->queue_count; i++)
		if (o->queue[i] != NULL)
			return true;
	return false;
}

void
oracle__complete(struct oracle *o, struct block *b)
{
	b->state = COMPLETE;
	b->place = NOWHERE;
	b->position = 0;
	file(o, b);
}

static uint64_t
live_count(const struct oracle *o)
{
	uint64_t count = 0;

	for (size_t i = 0; i < o->block_count; i++)
		count += o->blocks[i]->state == LIVE;
	return count;
}

/* What is in so many of the latest places is not offered yet. */
static size_t
held_back(const struct oracle *o)
{
	return live_count(o) <= o->policy.batch_above ? 0 : 8;
}

/* Is it what was taken from the open block, and nothing waits? */
static bool
is_filed_at_once(const struct oracle *o, const struct block *b)
{
	const struct block *next = joining_next(o, b);

	return next != NULL && next->open && o->queue_count == 0 && held_back(o) == 0 &&
	       o->fault != ORACLE_FAULT_QUEUE_ALWAYS;
}

void
oracle__queue_or_file(struct oracle *o, struct block *b)
{
	size_t full = 2 * (size_t)o->policy.batch - (o->fault == ORACLE_FAULT_QUEUE_EARLY);

	if (o->policy.batch == 0) {
		file(o, b);
		return;
	}
	if (is_filed_at_once(o, b)) {
		file(o, b);
		oracle__open_on_shelf(o, b);
		return;
	}
	b->place = QUEUE;
	o->queue = grown(o->queue, o->queue_count, sizeof(struct block *));
	o->queue[o->queue_count++] = b;
	b->offered = false;
	for (size_t i = 0; i + held_back(o) < o->queue_count; i++)
		if (o->queue[i] != NULL)
			o->queue[i]->offered = true;
	if (o->queue_count >= full)
		file_oldest(o, o->policy.batch);
}

struct block *
oracle__take_queued(struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	struct block **found = NULL, *b;

	for (size_t i = 0; i < o->queue_count; i++) {
		b = o->queue[i];
		if (b != NULL && b->offered && b->stream == s && b->segment->pool == pool &&
		    b->size == rounded && (found == NULL || o->fault != ORACLE_FAULT_QUEUE_OLDEST))
			found = &o->queue[i];
	}
	if (found == NULL)
		return NULL;
	b = *found;
	*found = NULL;
	return b;
}

/* ---- counters ----------------------------------------------------------- */

static void
count_block(struct soma_model_stats *stats, const struct block *b)
{
	switch (b->state) {
	case LIVE:
		stats->used += b->requested;
		stats->capacity += b->size;
		stats->active += b->size;
		stats->live_count++;
		break;
	case PENDING:
		stats->active += b->size;
		stats->pending_free_count++;
		break;
	case COMPLETE:
		stats->free_block_count++;
		break;
	}
}

void
oracle_stats(const struct oracle *o, struct soma_model_stats *stats, size_t size)
{
	(void)size; /* of this version */
	*stats = o->kept;
	stats->reserved = oracle__reserved(o);
	stats->segment_count =
		o->policy.segments == SOMA_SEGMENTS_RANGE ? o->block_count > 0 : o->segment_count;
	for (size_t i = 0; is_mapped(o) && i < o->segment_count; i++)
		stats->segment_count -= oracle__mapped_end(o, o->segments[i]) == o->segments[i]->address;
	for (size_t i = 0; i < o->block_count; i++)
		count_block(stats, o->blocks[i]);
}

void
oracle__note_peaks(struct oracle *o)
{
	struct soma_model_stats now;

	oracle_stats(o, &now, sizeof now);
	o->kept.reserved_high = max_of(o->kept.reserved_high, now.reserved);
	o->kept.used_high = max_of(o->kept.used_high, now.used);
	o->kept.peak_active = max_of(o->kept.peak_active, now.active);
}

void
oracle_reset_peaks(struct oracle *o)
{
	o->kept.reserved_high = o->kept.used_high = o->kept.peak_active = 0;
	oracle__note_peaks(o);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The naive model; see oracle.h.  Read it beside HACKING, "The model": the order of
 * the functions is the order of that section.  Nothing is kept that can be counted:
 * reserved, used, holes and shelves are found by looking at every block, each time.
 */
#include "tests/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clock[F], for every stream by index, when the owner's `submitted` was the row's
 * index: what its waits at positions below that had joined. */
struct row {
	size_t count;
	uint64_t *seq;
};

struct stream {
	uint64_t id;
	unsigned flags;
	bool destroyed;
	bool gone;
	uint64_t submitted;
	uint64_t executed;
	uint64_t observed;
	uint64_t barrier;
	struct row *history; /* submitted + 1 rows */
};

struct segment {
	uint64_t address;
	uint64_t size; /* a range: of no meaning */
	size_t stream;
	unsigned pool;
};

enum state { LIVE, PENDING, COMPLETE };
enum place { NOWHERE, SHELF, QUEUE };

struct block {
	uint64_t address;
	uint64_t size;
	struct segment *segment;
	enum state state;
	enum place place;
	uint64_t requested;
	size_t stream; /* PENDING: that of the free */
	uint64_t position;
	uint64_t stamp; /* on a shelf: when it was put there, and under what */
	uint64_t class;
	uint64_t region;
};

struct oracle {
	struct soma_policy policy;
	struct soma_segment_source source;
	bool has_source;
	enum oracle_fault fault;
	uint64_t max;
	uint64_t threshold;
	uint64_t base;
	uint64_t top; /* the highest segment end ever reached */
	struct stream *streams; /* every stream there ever was */
	size_t stream_count;
	struct segment **segments; /* by address */
	size_t segment_count;
	struct block **blocks; /* by address */
	size_t block_count;
	struct block **queue; /* oldest first */
	size_t queue_count;
	uint64_t stamp;
	enum soma_status refusal; /* why it could not grow */
	struct soma_model_stats kept; /* the peaks and the counts of events */
};

static void *
grown(void *memory, size_t count, size_t size)
{
	memory = realloc(memory, (count + 1) * size);
	if (memory == NULL) {
		fputs("oracle: out of memory\n", stderr);
		abort();
	}
	return memory;
}

static uint64_t
max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool
follows(const struct oracle *o)
{
	return o->policy.reuse & SOMA_REUSE_FOLLOW_EVENTS;
}

/* A stream has an own shelf for what it freed itself. */
static bool
shelves_pending(const struct oracle *o)
{
	return (o->policy.reuse & SOMA_REUSE_SAME_STREAM) && !o->policy.per_stream;
}

/* ---- positions, order, the legacy stream ---------------------------------- */

#define NO_STREAM SIZE_MAX

/* The index of a stream that is not gone. */
static size_t
find_stream(const struct oracle *o, uint64_t id)
{
	for (size_t i = 0; i < o->stream_count; i++)
		if (o->streams[i].id == id && !o->streams[i].gone)
			return i;
	return NO_STREAM;
}

static size_t
find_working_stream(const struct oracle *o, uint64_t id)
{
	size_t i = find_stream(o, id);

	return i == NO_STREAM || o->streams[i].destroyed ? NO_STREAM : i;
}

static bool
was_stream(const struct oracle *o, uint64_t id)
{
	for (size_t i = 0; i < o->stream_count; i++)
		if (o->streams[i].id == id)
			return true;
	return false;
}

static uint64_t
released(const struct oracle *o, size_t f)
{
	const struct stream *s = &o->streams[f];

	if (s->gone)
		return s->submitted;
	return o->policy.reuse & SOMA_REUSE_OPPORTUNISTIC ? s->executed : s->observed;
}

static uint64_t
component(const struct row *row, size_t f)
{
	return f < row->count ? row->seq[f] : 0;
}

static const struct row *
clock_at(const struct oracle *o, size_t s, uint64_t submitted)
{
	return &o->streams[s].history[submitted];
}

static const struct row *
clock_now(const struct oracle *o, size_t s)
{
	return clock_at(o, s, o->streams[s].submitted);
}

static void
join(const struct oracle *o, struct row *row, size_t f, uint64_t seq)
{
	if (seq > released(o, f))
		row->seq[f] = max_of(row->seq[f], seq);
}

static void
join_event(const struct oracle *o, struct row *row, size_t f, uint64_t seq)
{
	const struct row *clock = clock_at(o, f, seq);

	join(o, row, f, seq);
	if (o->fault == ORACLE_FAULT_NOT_TRANSITIVE)
		return;
	for (size_t g = 0; g < clock->count; g++)
		join(o, row, g, clock->seq[g]);
}

/* The clock of the stream's next operation, the legacy order joined. */
static struct row
begin(const struct oracle *o, size_t s)
{
	const struct row *now = clock_now(o, s);
	struct row row = { o->stream_count, grown(NULL, o->stream_count, sizeof(uint64_t)) };

	for (size_t f = 0; f < row.count; f++)
		row.seq[f] = component(now, f);
	if (s != 0 && o->streams[s].flags == SOMA_STREAM_BLOCKING)
		join_event(o, &row, 0, o->streams[0].submitted);
	for (size_t f = 1; s == 0 && f < o->stream_count; f++)
		if (!o->streams[f].gone && o->streams[f].flags == SOMA_STREAM_BLOCKING)
			join_event(o, &row, f, o->streams[f].submitted);
	return row;
}

/* The operation takes its position; the row becomes the clock from there on. */
static void
take_position(struct oracle *o, size_t s, struct row row)
{
	struct stream *stream = &o->streams[s];

	stream->submitted++;
	stream->history = grown(stream->history, stream->submitted, sizeof *stream->history);
	stream->history[stream->submitted] = row;
}

static bool
adds_something(const struct oracle *o, size_t s, const struct row *row)
{
	for (size_t f = 0; f < row->count; f++)
		if (row->seq[f] > component(clock_now(o, s), f))
			return true;
	return false;
}

static void
wait_for(struct oracle *o, size_t s, size_t f, uint64_t seq)
{
	struct row row = begin(o, s);

	if (f != s && f != NO_STREAM)
		join_event(o, &row, f, seq);
	take_position(o, s, row);
}

/* ---- blocks and shelves ---------------------------------------------------- */

static size_t
index_of(const struct oracle *o, const struct block *b)
{
	size_t i = 0;

	while (o->blocks[i] != b)
		i++;
	return i;
}

static struct block *
block_at(const struct oracle *o, uint64_t address)
{
	for (size_t i = 0; i < o->block_count; i++)
		if (o->blocks[i]->address == address)
			return o->blocks[i];
	return NULL;
}

static struct block *
add_block(struct oracle *o, struct segment *segment, uint64_t address, uint64_t size)
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

static void
remove_block(struct oracle *o, struct block *b)
{
	o->block_count--;
	for (size_t i = index_of(o, b); i < o->block_count; i++)
		o->blocks[i] = o->blocks[i + 1];
	free(b);
}

static uint64_t
reserved(const struct oracle *o)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < o->block_count; i++)
		sum += o->blocks[i]->size;
	return sum;
}

static uint64_t
range_end(const struct oracle *o)
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

static uint64_t
class_of(uint64_t n)
{
	uint64_t d;

	if (n < 64)
		return n;
	d = floor_log2(n) - 6;
	return 64 * (d + 1) + ((n >> d) & 63);
}

static uint64_t
class_wanted(uint64_t n)
{
	return n < 64 ? n : class_of(n + ((uint64_t)1 << (floor_log2(n) - 6)) - 1);
}

static uint64_t
region_of(const struct oracle *o, uint64_t address)
{
	uint64_t end = o->policy.segments == SOMA_SEGMENTS_RANGE ? range_end(o) : o->top;
	uint64_t t = end > o->base ? (end - o->base) / o->policy.alignment : 0;
	uint64_t log = floor_log2(max_of(t, 1));
	uint64_t region;

	if (address < o->base)
		return 0;
	region = ((address - o->base) / o->policy.alignment) >> (log > 3 ? log - 3 : 0);
	return region > 15 ? 15 : region;
}

static void
put_on_shelf(struct oracle *o, struct block *b)
{
	b->place = SHELF;
	b->stamp = ++o->stamp;
	b->class = class_of(b->size / o->policy.alignment);
	b->region = region_of(o, b->address);
}

static bool
on_shared_shelf(const struct oracle *o, const struct block *b, unsigned pool)
{
	return !o->policy.per_stream && b->segment->pool == pool && b->place == SHELF && b->state == COMPLETE;
}

static bool
on_own_shelf(const struct oracle *o, const struct block *b, unsigned pool, size_t s)
{
	if (b->segment->pool != pool || b->place != SHELF)
		return false;
	if (b->state == COMPLETE)
		return o->policy.per_stream && b->segment->stream == s;
	return b->state == PENDING && b->stream == s;
}

/* ---- filing ---------------------------------------------------------------- */

static bool
joins(const struct oracle *o, const struct block *b, const struct block *neighbour)
{
	if (neighbour->segment != b->segment || neighbour->place != SHELF || neighbour->state != b->state)
		return false;
	if (b->state == COMPLETE)
		return true;
	return neighbour->stream == b->stream && (neighbour->position >= o->streams[b->stream].barrier ||
						  o->fault == ORACLE_FAULT_NO_BARRIER);
}

static void
absorb(struct oracle *o, struct block *b, struct block *neighbour)
{
	b->address = neighbour->address < b->address ? neighbour->address : b->address;
	b->size += neighbour->size;
	b->position = max_of(b->position, neighbour->position);
	remove_block(o, neighbour);
}

static void
file(struct oracle *o, struct block *b)
{
	size_t i = index_of(o, b);
	struct block *next = i + 1 < o->block_count ? o->blocks[i + 1] : NULL;
	struct block *previous = i > 0 ? o->blocks[i - 1] : NULL;

	if (next != NULL && next->address == b->address + b->size && joins(o, b, next))
		absorb(o, b, next);
	if (previous != NULL && previous->address + previous->size == b->address && joins(o, b, previous))
		absorb(o, b, previous);
	put_on_shelf(o, b);
}

static void
file_oldest(struct oracle *o, size_t count)
{
	for (; count > 0; count--) {
		struct block *b = o->queue[0];

		o->queue_count--;
		memmove(o->queue, o->queue + 1, o->queue_count * sizeof(struct block *));
		file(o, b);
	}
}

static void
file_queue(struct oracle *o)
{
	file_oldest(o, o->queue_count);
}

static void
complete(struct oracle *o, struct block *b)
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

static void
queue_or_file(struct oracle *o, struct block *b)
{
	size_t full = 2 * (size_t)o->policy.batch - (o->fault == ORACLE_FAULT_QUEUE_EARLY);

	if (o->policy.batch == 0) {
		file(o, b);
		return;
	}
	b->place = QUEUE;
	o->queue = grown(o->queue, o->queue_count, sizeof(struct block *));
	o->queue[o->queue_count++] = b;
	if (live_count(o) <= o->policy.batch_above)
		file_queue(o);
	else if (o->queue_count == full)
		file_oldest(o, o->policy.batch);
}

/* ---- counters -------------------------------------------------------------- */

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
oracle_stats(const struct oracle *o, struct soma_model_stats *stats)
{
	*stats = o->kept;
	stats->reserved = reserved(o);
	stats->segment_count = o->policy.segments == SOMA_SEGMENTS_RANGE ? o->block_count > 0 : o->segment_count;
	for (size_t i = 0; i < o->block_count; i++)
		count_block(stats, o->blocks[i]);
}

static void
note_peaks(struct oracle *o)
{
	struct soma_model_stats now;

	oracle_stats(o, &now);
	o->kept.reserved_high = max_of(o->kept.reserved_high, now.reserved);
	o->kept.used_high = max_of(o->kept.used_high, now.used);
	o->kept.peak_active = max_of(o->kept.peak_active, now.active);
}

void
oracle_reset_peaks(struct oracle *o)
{
	o->kept.reserved_high = o->kept.used_high = o->kept.peak_active = 0;
	note_peaks(o);
}

/* ---- growing --------------------------------------------------------------- */

static struct segment *
add_segment(struct oracle *o, size_t stream, unsigned pool, uint64_t address, uint64_t size)
{
	struct segment *segment = grown(NULL, 0, sizeof *segment);
	size_t i = o->segment_count;

	*segment = (struct segment){ address, size, stream, pool };
	o->segments = grown(o->segments, o->segment_count++, sizeof(struct segment *));
	for (; i > 0 && o->segments[i - 1]->address > address; i--)
		o->segments[i] = o->segments[i - 1];
	o->segments[i] = segment;
	o->top = max_of(o->top, address + size);
	return segment;
}

static void
remove_segment(struct oracle *o, struct segment *segment)
{
	size_t i = 0;

	while (o->segments[i] != segment)
		i++;
	o->segment_count--;
	for (; i < o->segment_count; i++)
		o->segments[i] = o->segments[i + 1];
	free(segment);
}

/* The lowest gap between segments, else the end. */
static bool
virtual_address(const struct oracle *o, uint64_t size, uint64_t *address)
{
	*address = o->base;
	for (size_t i = 0; i < o->segment_count; i++) {
		const struct segment *s = o->segments[i];

		if (s->address >= *address && s->address - *address >= size)
			return true;
		*address = max_of(*address, s->address + s->size);
	}
	return *address <= SOMA_MODEL_ADDRESS_MAX && size <= SOMA_MODEL_ADDRESS_MAX - *address;
}

static bool
segment_size(const struct oracle *o, uint64_t rounded, unsigned pool, uint64_t *size)
{
	const struct soma_policy_pool *row = &o->policy.pools[pool];

	if (rounded <= row->segment_max) {
		*size = row->segment_size;
		return true;
	}
	*size = (rounded / row->segment_step + (rounded % row->segment_step != 0)) * row->segment_step;
	return *size >= rounded;
}

static struct block *
grow_step(struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	uint64_t size, address;

	if (!segment_size(o, rounded, pool, &size))
		return NULL;
	if (o->max > 0 && (size > o->max || reserved(o) > o->max - size))
		return NULL;
	if (o->has_source) {
		o->refusal = o->source.acquire(o->source.context, o->streams[s].id, size, &address);
		if (o->refusal != SOMA_STATUS_OK)
			return NULL;
	} else if (!virtual_address(o, size, &address)) {
		return NULL;
	}
	o->kept.segments_acquired++;
	return add_block(o, add_segment(o, s, pool, address, size), address, size);
}

static struct block *
grow_range(struct oracle *o, uint64_t rounded, size_t s)
{
	struct block *last = o->block_count > 0 ? o->blocks[o->block_count - 1] : NULL;
	uint64_t address = o->base;
	uint64_t growth = rounded;
	bool hole = false;

	for (size_t i = 0; i < o->block_count && !hole; i++) {
		hole = o->blocks[i]->address - address >= rounded;
		if (!hole)
			address = o->blocks[i]->address + o->blocks[i]->size;
	}
	if (hole || last == NULL || last->size >= rounded || last->place != SHELF ||
	    (last->state == PENDING && last->stream != s))
		last = NULL;
	if (last != NULL)
		growth -= last->size;
	if (o->max > 0 && (growth > o->max || reserved(o) > o->max - growth))
		return NULL;
	if (!hole && growth > SOMA_MODEL_ADDRESS_MAX - address)
		return NULL;
	o->kept.segments_acquired++;
	if (last == NULL)
		return add_block(o, o->segments[0], address, growth);
	last->size += growth;
	return last;
}

static struct block *
grow(struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	o->refusal = SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	if (o->policy.segments == SOMA_SEGMENTS_RANGE)
		return grow_range(o, rounded, s);
	return grow_step(o, rounded, pool, s);
}

/* ---- releasing ------------------------------------------------------------- */

static bool
wholly_free(const struct block *b)
{
	return b->state == COMPLETE && b->address == b->segment->address && b->size == b->segment->size;
}

static void
release_segment(struct oracle *o, struct block *b)
{
	if (o->has_source)
		o->source.release(o->source.context, b->segment->address, b->segment->size);
	remove_segment(o, b->segment);
	remove_block(o, b);
	o->kept.segments_released++;
}

static bool
release_one_segment(struct oracle *o, uint64_t keep)
{
	uint64_t excess = reserved(o) - keep;
	struct block *best = NULL;

	for (size_t i = 0; i < o->block_count; i++) {
		struct block *b = o->blocks[i];

		if (!wholly_free(b) || (b->size > excess && o->fault != ORACLE_FAULT_TRIM_OVERSHOOT))
			continue;
		if (best == NULL || b->size >= best->size)
			best = b;
	}
	if (best == NULL)
		return false;
	release_segment(o, best);
	return true;
}

/* a goes before b when a range is made smaller. */
static bool
releases_before(const struct oracle *o, const struct block *a, const struct block *b)
{
	if (o->policy.fit == SOMA_FIT_BEST)
		return a->size != b->size ? a->size > b->size : a->address > b->address;
	if (a->class != b->class)
		return a->class > b->class;
	return a->region != b->region ? a->region > b->region : a->stamp > b->stamp;
}

static bool
release_from_range(struct oracle *o, uint64_t keep)
{
	uint64_t excess = reserved(o) - keep;
	struct block *best = NULL;

	excess -= excess % o->policy.alignment;
	for (size_t i = 0; i < o->block_count; i++)
		if (on_shared_shelf(o, o->blocks[i], 0) &&
		    (best == NULL || releases_before(o, o->blocks[i], best)))
			best = o->blocks[i];
	if (excess == 0 || best == NULL)
		return false;
	if (best->size > excess) {
		best->size -= excess;
		put_on_shelf(o, best);
	} else {
		remove_block(o, best);
	}
	o->kept.segments_released++;
	return true;
}

/* Tells whether anything was released. */
static bool
release_down_to(struct oracle *o, uint64_t keep)
{
	bool any = false;

	while (reserved(o) > keep) {
		if (o->policy.segments == SOMA_SEGMENTS_RANGE ? !release_from_range(o, keep) :
								!release_one_segment(o, keep))
			break;
		any = true;
	}
	return any;
}

/* ---- streams that are gone ------------------------------------------------- */

static bool
has_something_left(const struct oracle *o, size_t s)
{
	if (o->streams[s].executed < o->streams[s].submitted)
		return true;
	for (size_t i = 0; i < o->block_count; i++)
		if (o->blocks[i]->state == PENDING && o->blocks[i]->stream == s)
			return true;
	for (size_t i = 0; o->policy.per_stream && i < o->segment_count; i++)
		if (o->segments[i]->stream == s)
			return true;
	return false;
}

static void
look_for_gone_streams(struct oracle *o)
{
	for (size_t s = 1; s < o->stream_count; s++)
		if (o->streams[s].destroyed && !has_something_left(o, s))
			o->streams[s].gone = true;
}

/* ---- allocating ------------------------------------------------------------ */

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
	return b->class >= class_wanted(rounded / o->policy.alignment);
}

/* Steps 1 and 2. */
static struct block *
find_on_shelves(const struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	struct block *best = NULL;

	for (size_t i = 0; i < o->block_count; i++) {
		struct block *b = o->blocks[i];

		if (on_own_shelf(o, b, pool, s) && serves(o, b, rounded) &&
		    (best == NULL || serves_before(o, b, best)))
			best = b;
	}
	for (size_t i = 0; best == NULL && i < o->block_count; i++) {
		struct block *b = NULL;

		for (; i < o->block_count; i++)
			if (on_shared_shelf(o, o->blocks[i], pool) && serves(o, o->blocks[i], rounded) &&
			    (b == NULL || serves_before(o, o->blocks[i], b)))
				b = o->blocks[i];
		best = b;
	}
	return best;
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
		if (clock != NULL && b->position >= component(clock, b->stream))
			continue;
		if (best == NULL || b->size < best->size)
			best = b;
	}
	return best;
}

static bool
in_run(const struct block *b, unsigned pool, size_t s)
{
	return b->segment->pool == pool && b->place == SHELF &&
	       (b->state == COMPLETE || (b->state == PENDING && b->stream == s));
}

/* The run that begins with block i: how many blocks, 0 if it has no pending one. */
static size_t
run_length(const struct oracle *o, size_t i, unsigned pool, size_t s, uint64_t *size)
{
	size_t first = i;
	bool pending = false;

	*size = 0;
	for (; i < o->block_count && in_run(o->blocks[i], pool, s); i++) {
		const struct block *b = o->blocks[i];

		if (b->segment != o->blocks[first]->segment || b->address != o->blocks[first]->address + *size)
			break;
		pending = pending || b->state == PENDING;
		*size += b->size;
	}
	return pending ? i - first : 0;
}

static bool
begins_run(const struct oracle *o, size_t i, unsigned pool, size_t s)
{
	const struct block *b = o->blocks[i];
	const struct block *previous = i > 0 ? o->blocks[i - 1] : NULL;

	return previous == NULL || !in_run(previous, pool, s) || previous->segment != b->segment ||
	       previous->address + previous->size != b->address;
}

/* Step 7. */
static struct block *
gather(struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	size_t best = 0, best_length = 0;
	uint64_t best_size = 0, size;
	struct block *b;

	for (size_t i = 0; i < o->block_count; i++) {
		size_t length = begins_run(o, i, pool, s) ? run_length(o, i, pool, s, &size) : 0;

		if (length == 0 || size < rounded || (best_length > 0 && size >= best_size))
			continue;
		best = i;
		best_length = length;
		best_size = size;
	}
	if (best_length == 0)
		return NULL;
	b = o->blocks[best];
	for (size_t i = 1; i < best_length; i++)
		absorb(o, b, o->blocks[best + 1]);
	b->state = PENDING;
	b->stream = s;
	b->place = SHELF;
	return b;
}

static struct block *
find_block(struct oracle *o, uint64_t rounded, unsigned pool, size_t s, const struct row *clock)
{
	struct block *b = find_on_shelves(o, rounded, pool, s);

	if (b == NULL && o->queue_count > 0) {
		file_queue(o);
		b = find_on_shelves(o, rounded, pool, s);
	}
	if (b == NULL && follows(o))
		b = find_foreign(o, rounded, pool, s, clock);
	if (b == NULL)
		b = grow(o, rounded, pool, s);
	if (b == NULL && o->policy.release_on_failure && release_down_to(o, 0)) {
		look_for_gone_streams(o);
		b = grow(o, rounded, pool, s);
	}
	if (b == NULL && shelves_pending(o))
		b = gather(o, rounded, pool, s);
	return b;
}

static void
split(struct oracle *o, struct block *b, uint64_t rounded, uint64_t split_min)
{
	uint64_t left = b->size - rounded;
	struct block *rest;

	if (left == 0 || left < split_min)
		return;
	rest = add_block(o, b->segment, b->address + rounded, left);
	rest->state = b->state;
	rest->stream = b->stream;
	rest->position = b->position;
	b->size = rounded;
	if (b->state == COMPLETE || b->place == SHELF)
		put_on_shelf(o, rest);
}

static void
make_live(struct block *b, uint64_t requested)
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
	wait_for(o, s, b->stream, alloc->wait_seq);
	o->kept.wait_count++;
	return b;
}

enum soma_status
oracle_alloc(struct oracle *o, uint64_t size, uint64_t stream, struct soma_model_alloc *alloc)
{
	size_t s = find_working_stream(o, stream);
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
	clock = begin(o, s);
	b = find_block(o, rounded, pool, s, &clock);
	free(clock.seq);
	if (b == NULL && (o->policy.reuse & SOMA_REUSE_INTERNAL))
		b = find_by_wait(o, rounded, pool, s, &result);
	if (b == NULL)
		return o->refusal;
	split(o, b, rounded, o->policy.pools[pool].split_min);
	make_live(b, size);
	result.ptr = b->address;
	result.capacity = b->size;
	result.ready_seq = o->streams[s].submitted;
	take_position(o, s, begin(o, s));
	look_for_gone_streams(o);
	o->kept.alloc_count++;
	note_peaks(o);
	*alloc = result;
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_free(struct oracle *o, uint64_t ptr, uint64_t stream)
{
	size_t s = find_working_stream(o, stream);
	struct block *b = block_at(o, ptr);

	if (ptr == 0)
		return SOMA_STATUS_OK;
	if (s == NO_STREAM || b == NULL || b->state != LIVE)
		return SOMA_STATUS_INVALID_VALUE;
	b->state = PENDING;
	b->stream = s;
	b->position = o->streams[s].submitted;
	take_position(o, s, begin(o, s));
	o->kept.free_count++;
	if (shelves_pending(o))
		queue_or_file(o, b);
	else if ((o->policy.reuse & SOMA_REUSE_SAME_STREAM) && b->segment->stream == s)
		complete(o, b);
	note_peaks(o);
	return SOMA_STATUS_OK;
}

bool
oracle_is_live(const struct oracle *o, uint64_t ptr)
{
	const struct block *b = block_at(o, ptr);

	return b != NULL && b->state == LIVE;
}

bool
oracle_is_ready_same_stream(const struct oracle *o, const struct soma_model_alloc *alloc)
{
	size_t s = find_stream(o, alloc->stream);

	return s == NO_STREAM ? was_stream(o, alloc->stream) : o->streams[s].executed > alloc->ready_seq;
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
	file_queue(o);
	release_down_to(o, keep);
	look_for_gone_streams(o);
	return SOMA_STATUS_OK;
}

/* ---- streams --------------------------------------------------------------- */

/* How often the slot was used before, or UINT64_MAX while it is in use. */
static uint64_t
times_used(const struct oracle *o, uint64_t slot)
{
	uint64_t times = 0;

	for (size_t i = 0; i < o->stream_count; i++) {
		if (o->streams[i].id % (1 << 20) != slot)
			continue;
		if (!o->streams[i].gone)
			return UINT64_MAX;
		times++;
	}
	return times;
}

static void
add_stream(struct oracle *o, uint64_t id, unsigned flags)
{
	struct stream *s;

	o->streams = grown(o->streams, o->stream_count, sizeof *o->streams);
	s = &o->streams[o->stream_count++];
	*s = (struct stream){ .id = id, .flags = flags, .history = grown(NULL, 0, sizeof(struct row)) };
	s->history[0] = (struct row){ 0 };
}

enum soma_status
oracle_stream_create(struct oracle *o, unsigned flags, uint64_t *stream)
{
	uint64_t slot = 1;

	if (flags > SOMA_STREAM_NON_BLOCKING || stream == NULL)
		return SOMA_STATUS_INVALID_VALUE;
	while (times_used(o, slot) == UINT64_MAX)
		slot++;
	*stream = slot + ((uint64_t)1 << 20) * times_used(o, slot);
	add_stream(o, *stream, flags);
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_stream_destroy(struct oracle *o, uint64_t stream)
{
	size_t s = find_working_stream(o, stream);

	if (s == NO_STREAM || s == 0)
		return SOMA_STATUS_INVALID_VALUE;
	file_queue(o);
	o->streams[s].destroyed = true;
	look_for_gone_streams(o);
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_record_event(struct oracle *o, uint64_t stream, uint64_t *seq)
{
	size_t s = find_working_stream(o, stream);
	struct row row;

	if (s == NO_STREAM || seq == NULL)
		return SOMA_STATUS_INVALID_VALUE;
	file_queue(o);
	row = begin(o, s);
	if (adds_something(o, s, &row))
		take_position(o, s, row);
	else
		free(row.seq);
	*seq = o->streams[s].submitted;
	if (follows(o))
		o->streams[s].barrier = *seq;
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_wait_event(struct oracle *o, uint64_t stream, uint64_t event_stream, uint64_t event_seq)
{
	size_t s = find_working_stream(o, stream);
	size_t f = find_stream(o, event_stream);

	if (s == NO_STREAM || !was_stream(o, event_stream))
		return SOMA_STATUS_INVALID_VALUE;
	if (f != NO_STREAM && event_seq > o->streams[f].submitted)
		return SOMA_STATUS_INVALID_VALUE;
	wait_for(o, s, f, event_seq);
	return SOMA_STATUS_OK;
}

/* ---- progress -------------------------------------------------------------- */

static void
reach(struct oracle *o, size_t s, uint64_t seq, bool observe)
{
	struct stream *stream = &o->streams[s];
	const struct row *joined;

	stream->executed = max_of(stream->executed, seq);
	if (observe)
		stream->observed = max_of(stream->observed, seq);
	joined = clock_at(o, s, stream->executed);
	for (size_t f = 0; f < joined->count; f++) {
		struct stream *other = &o->streams[f];

		other->executed = max_of(other->executed, joined->seq[f]);
		if (observe)
			other->observed = max_of(other->observed, joined->seq[f]);
	}
}

/* The pending free of the lowest stream id, then position, that may be completed. */
static struct block *
first_released(const struct oracle *o)
{
	struct block *first = NULL;

	for (size_t i = 0; i < o->block_count; i++) {
		struct block *b = o->blocks[i];
		uint64_t id = b->state == PENDING ? o->streams[b->stream].id : 0;

		if (b->state != PENDING || b->position >= released(o, b->stream))
			continue;
		if (first == NULL || id < o->streams[first->stream].id ||
		    (id == o->streams[first->stream].id && b->position < first->position))
			first = b;
	}
	return first;
}

static void
reclaim(struct oracle *o)
{
	struct block *b;

	file_queue(o);
	while ((b = first_released(o)) != NULL)
		complete(o, b);
}

enum soma_status
oracle_advance(struct oracle *o, uint64_t stream, uint64_t seq)
{
	size_t s = find_stream(o, stream);

	if (s == NO_STREAM || seq > o->streams[s].submitted)
		return SOMA_STATUS_INVALID_VALUE;
	reach(o, s, seq, false);
	reclaim(o);
	look_for_gone_streams(o);
	note_peaks(o);
	return SOMA_STATUS_OK;
}

static void
settle(struct oracle *o)
{
	reclaim(o);
	release_down_to(o, o->threshold);
	look_for_gone_streams(o);
}

enum soma_status
oracle_synchronize(struct oracle *o, uint64_t stream)
{
	size_t s = find_stream(o, stream);

	if (s == NO_STREAM)
		return SOMA_STATUS_INVALID_VALUE;
	reach(o, s, o->streams[s].submitted, true);
	settle(o);
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_synchronize_all(struct oracle *o)
{
	for (size_t s = 0; s < o->stream_count; s++)
		reach(o, s, o->streams[s].submitted, true);
	settle(o);
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_position(const struct oracle *o, uint64_t stream, struct soma_model_position *position)
{
	size_t s = find_stream(o, stream);

	if (s == NO_STREAM)
		return SOMA_STATUS_INVALID_VALUE;
	*position = (struct soma_model_position){ o->streams[s].submitted, o->streams[s].executed };
	return SOMA_STATUS_OK;
}

/* ---- a starting state ------------------------------------------------------ */

static bool
is_aligned(const struct oracle *o, uint64_t value)
{
	return value % o->policy.alignment == 0;
}

static bool
is_room_for_segment(const struct oracle *o, uint64_t address, uint64_t size)
{
	if (address == 0 || size == 0 || !is_aligned(o, address) || !is_aligned(o, size))
		return false;
	if (address > SOMA_MODEL_ADDRESS_MAX || size > SOMA_MODEL_ADDRESS_MAX - address)
		return false;
	for (size_t i = 0; i < o->segment_count; i++)
		if (address < o->segments[i]->address + o->segments[i]->size &&
		    o->segments[i]->address < address + size)
			return false;
	return true;
}

enum soma_status
oracle_adopt_segment(struct oracle *o, uint64_t stream, unsigned pool, uint64_t address, uint64_t size)
{
	size_t s = find_working_stream(o, stream);

	if (o->policy.segments == SOMA_SEGMENTS_RANGE || s == NO_STREAM || pool >= o->policy.pool_count ||
	    !is_room_for_segment(o, address, size))
		return SOMA_STATUS_INVALID_VALUE;
	if (o->max > 0 && (size > o->max || reserved(o) > o->max - size))
		return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	put_on_shelf(o, add_block(o, add_segment(o, s, pool, address, size), address, size));
	note_peaks(o);
	return SOMA_STATUS_OK;
}

static struct block *
complete_block_around(const struct oracle *o, uint64_t ptr, uint64_t capacity)
{
	for (size_t i = 0; i < o->block_count; i++) {
		struct block *b = o->blocks[i];

		if (b->state == COMPLETE && ptr >= b->address && ptr - b->address < b->size &&
		    capacity <= b->size - (ptr - b->address))
			return b;
	}
	return NULL;
}

enum soma_status
oracle_adopt_block(struct oracle *o, uint64_t ptr, uint64_t size, uint64_t capacity)
{
	struct block *b = complete_block_around(o, ptr, capacity);
	uint64_t front;

	if (b == NULL || size == 0 || size > capacity || !is_aligned(o, ptr) || !is_aligned(o, capacity))
		return SOMA_STATUS_INVALID_VALUE;
	front = ptr - b->address;
	if (front > 0) {
		struct block *before = b;

		b = add_block(o, b->segment, ptr, b->size - front);
		before->size = front;
		put_on_shelf(o, before);
	}
	split(o, b, capacity, 1);
	make_live(b, size);
	note_peaks(o);
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_release_segment(struct oracle *o, uint64_t address)
{
	struct block *b = block_at(o, address);

	if (o->policy.segments == SOMA_SEGMENTS_RANGE || b == NULL || b->segment->address != address)
		return SOMA_STATUS_NOT_FOUND;
	if (!wholly_free(b))
		return SOMA_STATUS_INVALID_VALUE;
	release_segment(o, b);
	look_for_gone_streams(o);
	return SOMA_STATUS_OK;
}

/* ---- walking --------------------------------------------------------------- */

static struct soma_extent
segment_extent(const struct oracle *o, const struct segment *segment)
{
	return (struct soma_extent){
		.kind = SOMA_EXTENT_SEGMENT,
		.pool = segment->pool,
		.address = segment->address,
		.size = o->policy.segments == SOMA_SEGMENTS_RANGE ? range_end(o) - o->base : segment->size,
		.stream = o->policy.per_stream ? o->streams[segment->stream].id : 0,
	};
}

static struct soma_extent
block_extent(const struct oracle *o, const struct block *b)
{
	struct soma_extent extent = { .address = b->address, .size = b->size };

	switch (b->state) {
	case LIVE:
		extent.kind = SOMA_EXTENT_LIVE;
		extent.requested = b->requested;
		break;
	case PENDING:
		extent.kind = SOMA_EXTENT_PENDING;
		extent.stream = o->streams[b->stream].id;
		extent.seq = b->position;
		extent.stranded = shelves_pending(o);
		break;
	case COMPLETE:
		extent.kind = SOMA_EXTENT_FREE;
		extent.stream = o->policy.per_stream ? o->streams[b->segment->stream].id : 0;
		extent.stranded = o->policy.per_stream;
		break;
	}
	return extent;
}

void
oracle_walk(const struct oracle *o, bool (*visit)(void *context, const struct soma_extent *extent), void *context)
{
	const struct segment *segment = NULL;
	uint64_t end = 0;

	for (size_t i = 0; i < o->block_count; i++) {
		const struct block *b = o->blocks[i];
		struct soma_extent extent;

		if (b->segment != segment) {
			segment = b->segment;
			end = segment->address;
			extent = segment_extent(o, segment);
			if (!visit(context, &extent))
				return;
		}
		extent = (struct soma_extent){ .kind = SOMA_EXTENT_HOLE, .address = end, .size = b->address - end };
		if (extent.size > 0 && !visit(context, &extent))
			return;
		end = b->address + b->size;
		extent = block_extent(o, b);
		if (!visit(context, &extent))
			return;
	}
}

/* ---- create, destroy ------------------------------------------------------- */

static bool
is_valid_row(const struct soma_policy *p, const struct soma_policy_pool *row)
{
	uint64_t largest = row->segment_max < row->request_max ? row->segment_max : row->request_max;

	if (row->split_min > (uint64_t)1 << 31)
		return false;
	if (p->segments == SOMA_SEGMENTS_RANGE)
		return true;
	if (row->segment_step == 0 || row->segment_step % p->alignment != 0)
		return false;
	return row->segment_size % p->alignment == 0 && row->segment_size >= largest;
}

static bool
is_valid_policy(const struct soma_policy *p)
{
	const unsigned forbidden = SOMA_REUSE_FOLLOW_EVENTS | SOMA_REUSE_INTERNAL;

	if (p->size != sizeof *p || p->fit > SOMA_FIT_BEST || p->segments > SOMA_SEGMENTS_STEP || p->reuse > 15)
		return false;
	if (p->alignment < 256 || p->alignment > 1 << 20 || (p->alignment & (p->alignment - 1)) != 0)
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
	return !p->per_stream || (p->reuse & forbidden) == 0;
}

static bool
is_valid_limits(const struct soma_model_limits *l, const struct soma_policy *policy)
{
	if (l->size != sizeof *l || !is_valid_policy(policy))
		return false;
	if (l->base % policy->alignment != 0 || l->base >= SOMA_MODEL_ADDRESS_MAX)
		return false;
	if (l->segments == NULL)
		return true;
	return l->segments->size == sizeof *l->segments && l->segments->acquire != NULL &&
	       l->segments->release != NULL && policy->segments != SOMA_SEGMENTS_RANGE;
}

enum soma_status
oracle_create(const struct soma_model_limits *limits, struct oracle **result)
{
	static const struct soma_model_limits defaults = { .size = sizeof defaults };
	const struct soma_model_limits *l = limits != NULL ? limits : &defaults;
	const struct soma_policy *policy = l->policy != NULL ? l->policy : soma_policy_preset("strict");
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
		o->source = *l->segments;
	if (policy->segments == SOMA_SEGMENTS_RANGE)
		add_segment(o, 0, 0, o->base, 0);
	add_stream(o, 0, SOMA_STREAM_BLOCKING);
	*result = o;
	return SOMA_STATUS_OK;
}

void
oracle_destroy(struct oracle *o)
{
	if (o == NULL)
		return;
	for (size_t i = 0; i < o->segment_count; i++) {
		if (o->has_source)
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

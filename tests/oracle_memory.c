/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle's memory: growing, releasing, adopting, walking.  Holes are what lies
 * between blocks or segments; nothing is kept about them.
 */
#include "tests/oracle_state.h"

/* ---- growing ------------------------------------------------------------ */

struct segment *
oracle__add_segment(struct oracle *o, size_t stream, unsigned pool, uint64_t address, uint64_t size)
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
	return *size >= rounded && *size <= SOMA_MODEL_ADDRESS_MAX;
}

static struct block *
grow_step(struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	uint64_t size, address;

	if (!segment_size(o, rounded, pool, &size))
		return NULL;
	if (o->max > 0 && (size > o->max || oracle__reserved(o) > o->max - size))
		return NULL;
	if (o->has_source) {
		o->refusal = o->source.acquire(o->source.context, o->streams[s].id, size, &address);
		if (o->refusal != SOMA_STATUS_OK)
			return NULL;
	} else if (!virtual_address(o, size, &address)) {
		return NULL;
	}
	o->kept.segments_acquired++;
	return oracle__add_block(o, oracle__add_segment(o, s, pool, address, size), address, size);
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
	if (o->max > 0 && (growth > o->max || oracle__reserved(o) > o->max - growth))
		return NULL;
	if (!hole && growth > SOMA_MODEL_ADDRESS_MAX - address)
		return NULL;
	o->kept.segments_acquired++;
	if (last == NULL)
		return oracle__add_block(o, o->segments[0], address, growth);
	last->size += growth;
	return last;
}

struct block *
oracle__grow(struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	o->refusal = SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	if (o->policy.segments == SOMA_SEGMENTS_RANGE)
		return grow_range(o, rounded, s);
	if (is_mapped(o))
		return oracle__grow_mapped(o, rounded, pool, s);
	return grow_step(o, rounded, pool, s);
}

/* ---- releasing ---------------------------------------------------------- */

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
	oracle__remove_block(o, b);
	o->kept.segments_released++;
}

static bool
release_one_segment(struct oracle *o, uint64_t keep)
{
	uint64_t excess = oracle__reserved(o) - keep;
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
	uint64_t excess = oracle__reserved(o) - keep;
	struct block *best = NULL;

	excess -= excess % o->policy.alignment;
	for (size_t i = 0; i < o->block_count; i++)
		if (oracle__on_shared_shelf(o, o->blocks[i], 0) &&
		    (best == NULL || releases_before(o, o->blocks[i], best)))
			best = o->blocks[i];
	if (excess == 0 || best == NULL)
		return false;
	if (best->size > excess) {
		best->size -= excess;
		oracle__put_on_shelf(o, best);
	} else {
		oracle__remove_block(o, best);
	}
	o->kept.segments_released++;
	return true;
}

/* Tells whether anything was released. */
bool
oracle__release_down_to(struct oracle *o, uint64_t keep)
{
	bool any = false;

	if (is_mapped(o))
		return oracle__mapped_release(o, keep);
	while (oracle__reserved(o) > keep) {
		if (o->policy.segments == SOMA_SEGMENTS_RANGE ? !release_from_range(o, keep)
							      : !release_one_segment(o, keep))
			break;
		any = true;
	}
	return any;
}

/* ---- a cache of segments ------------------------------------------------- */

/* What may be collected, and how old it is. */
static bool
age_of(const struct oracle *o, const struct block *b, uint64_t *age)
{
	*age = o->searches - b->since;
	return wholly_free(b) && b->segment->pool + 1 == o->policy.pool_count;
}

/* The least (size, address) of those that go. */
static struct block *
next_collected(const struct oracle *o, uint64_t sum, uint64_t count)
{
	struct block *best = NULL;
	uint64_t age;

	for (size_t i = 0; i < o->block_count; i++) {
		struct block *b = o->blocks[i];

		if (age_of(o, b, &age) && age * count >= sum && (best == NULL || b->size < best->size))
			best = b;
	}
	return best;
}

/* Releases all that are at least as old as the average; the bytes of it. */
static uint64_t
collect_once(struct oracle *o)
{
	uint64_t sum = 0, count = 0, released = 0, age;
	struct block *b;

	for (size_t i = 0; i < o->block_count; i++) {
		if (age_of(o, o->blocks[i], &age)) {
			sum += age;
			count++;
		}
	}
	while ((b = next_collected(o, sum, count)) != NULL) {
		released += b->size;
		release_segment(o, b);
	}
	return released;
}

void
oracle__collect(struct oracle *o)
{
	uint64_t above = o->policy.collect_above;

	if (above == 0)
		return;
	while (oracle__reserved(o) > above && collect_once(o) > 0)
		;
	oracle__look_for_gone_streams(o);
}

/* The stream's own idle segment that comes first: the smallest, or the largest. */
static struct block *
own_idle(const struct oracle *o, unsigned pool, size_t s, uint64_t least, bool largest)
{
	struct block *best = NULL;

	for (size_t i = 0; i < o->block_count; i++) {
		struct block *b = o->blocks[i];

		if (!wholly_free(b) || b->segment->pool != pool || b->segment->stream != s || b->size < least)
			continue;
		if (best == NULL || (largest ? b->size >= best->size : b->size < best->size))
			best = b;
	}
	return best;
}

bool
oracle__make_room(struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	uint64_t wanted = max_of(rounded, o->policy.oversize), released = 0;
	struct block *b = own_idle(o, pool, s, wanted, false);

	if (b != NULL) {
		release_segment(o, b);
		return true;
	}
	while (released < wanted && (b = own_idle(o, pool, s, o->policy.oversize, true)) != NULL) {
		released += b->size;
		release_segment(o, b);
	}
	return released >= wanted;
}

/* ---- a starting state --------------------------------------------------- */

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
	size_t s = oracle__find_working_stream(o, stream);

	if (o->policy.segments != SOMA_SEGMENTS_STEP || s == NO_STREAM || pool >= o->policy.pool_count ||
	    !is_room_for_segment(o, address, size))
		return SOMA_STATUS_INVALID_VALUE;
	if (o->max > 0 && (size > o->max || oracle__reserved(o) > o->max - size))
		return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	oracle__put_on_shelf(
		o, oracle__add_block(o, oracle__add_segment(o, s, pool, address, size), address, size));
	oracle__note_peaks(o);
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

		b = oracle__add_block(o, b->segment, ptr, b->size - front);
		before->size = front;
		oracle__put_on_shelf(o, before);
	}
	oracle__split(o, b, capacity, 1);
	oracle__make_live(b, size);
	oracle__note_peaks(o);
	return SOMA_STATUS_OK;
}

enum soma_status
oracle_release_segment(struct oracle *o, uint64_t address)
{
	struct block *b = oracle__block_at(o, address);

	if (o->policy.segments != SOMA_SEGMENTS_STEP || b == NULL || b->segment->address != address)
		return SOMA_STATUS_NOT_FOUND;
	if (!wholly_free(b))
		return SOMA_STATUS_INVALID_VALUE;
	release_segment(o, b);
	oracle__look_for_gone_streams(o);
	return SOMA_STATUS_OK;
}

/* ---- walking ------------------------------------------------------------ */

static struct soma_extent
segment_extent(const struct oracle *o, const struct segment *segment)
{
	return (struct soma_extent){
		.kind = SOMA_EXTENT_SEGMENT,
		.pool = segment->pool,
		.address = segment->address,
		.size = is_mapped(o) ? oracle__mapped_end(o, segment) - segment->address
			: o->policy.segments == SOMA_SEGMENTS_RANGE ? oracle__range_end(o) - o->base
								    : segment->size,
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
oracle_walk(const struct oracle *o, bool (*visit)(void *context, const struct soma_extent *extent),
	    void *context)
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
		extent = (struct soma_extent){ .kind = SOMA_EXTENT_HOLE,
					       .address = end,
					       .size = b->address - end };
		if (extent.size > 0 && !visit(context, &extent))
			return;
		end = b->address + b->size;
		extent = block_extent(o, b);
		if (!visit(context, &extent))
			return;
	}
}

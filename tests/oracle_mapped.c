/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle's mapped ranges: HACKING, "Mapped pages".  What is mapped is what blocks
 * cover; holes are what lies between them.  Everything is found by looking at every block.
 */
#include "tests/oracle_state.h"

static uint64_t
page_of(const struct oracle *o)
{
	return o->policy.pools[0].segment_step;
}

static uint64_t
pages_up(const struct oracle *o, uint64_t bytes)
{
	return (bytes + page_of(o) - 1) / page_of(o);
}

/* The pages that lie wholly in [address, end). */
static uint64_t
whole_pages(const struct oracle *o, uint64_t address, uint64_t end)
{
	uint64_t first = pages_up(o, address), last = end / page_of(o);

	return last > first ? last - first : 0;
}

static uint64_t
whole_pages_of(const struct oracle *o, const struct block *b)
{
	return b != NULL && b->state == COMPLETE ? whole_pages(o, b->address, b->address + b->size) : 0;
}

static uint64_t
idle_pages(const struct oracle *o)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < o->block_count; i++)
		sum += whole_pages_of(o, o->blocks[i]);
	return sum;
}

struct segment *
oracle__range_of(const struct oracle *o, unsigned pool)
{
	for (size_t i = 0; i < o->segment_count; i++)
		if (o->segments[i]->pool == pool)
			return o->segments[i];
	return NULL;
}

static struct block *
last_block(const struct oracle *o, const struct segment *range)
{
	struct block *last = NULL;

	for (size_t i = 0; i < o->block_count; i++)
		if (o->blocks[i]->segment == range)
			last = o->blocks[i];
	return last;
}

uint64_t
oracle__mapped_end(const struct oracle *o, const struct segment *range)
{
	const struct block *last = last_block(o, range);

	return last != NULL ? last->address + last->size : range->address;
}

/* ---- places --------------------------------------------------------------- */

struct site {
	uint64_t start, hole, pages;
	struct block *front, *back;
	uint64_t own;
	bool exists;
};

/* A hole, with the complete free blocks at its sides. */
struct hole {
	uint64_t begin, end;
	struct block *front, *back;
};

static uint64_t
reach_begin(const struct hole *h)
{
	return h->front != NULL ? h->front->address : h->begin;
}

static uint64_t
reach_end(const struct hole *h)
{
	return h->back != NULL ? h->back->address + h->back->size : h->end;
}

static struct block *
if_complete(struct block *b)
{
	return b != NULL && b->state == COMPLETE ? b : NULL;
}

/* The hole before the index-th block, if there is one. */
static bool
hole_before(const struct oracle *o, size_t i, struct hole *h)
{
	struct block *b = o->blocks[i];
	struct block *previous = i > 0 && o->blocks[i - 1]->segment == b->segment ? o->blocks[i - 1] : NULL;

	*h = (struct hole){
		.begin = previous != NULL ? previous->address + previous->size : b->segment->address,
		.end = b->address,
		.front = if_complete(previous),
		.back = if_complete(b),
	};
	return h->begin < h->end;
}

static uint64_t
front_pages(const struct oracle *o, const struct hole *h)
{
	return (h->begin - reach_begin(h)) / page_of(o);
}

/* Candidates a and b. */
static bool
is_better(const struct oracle *o, const struct hole *h, const struct hole *best, bool by_front)
{
	uint64_t reach = (reach_end(h) - reach_begin(h)) / page_of(o);
	uint64_t best_reach = (reach_end(best) - reach_begin(best)) / page_of(o);

	if (by_front && front_pages(o, h) != front_pages(o, best))
		return front_pages(o, h) > front_pages(o, best);
	if (!by_front && h->end - h->begin != best->end - best->begin)
		return h->end - h->begin < best->end - best->begin;
	return reach < best_reach; /* the lower address was seen first */
}

static struct site
place_at_hole(const struct oracle *o, uint64_t rounded, unsigned pool, bool by_front)
{
	struct hole h, best = { 0 };
	struct site place = { 0 };
	uint64_t end;

	for (size_t i = 0; i < o->block_count; i++) {
		if (o->blocks[i]->segment->pool != pool || !hole_before(o, i, &h) ||
		    reach_end(&h) - reach_begin(&h) < rounded)
			continue;
		if (best.end == 0 || is_better(o, &h, &best, by_front))
			best = h;
	}
	if (best.end == 0)
		return place;
	place = (struct site){
		.start = reach_begin(&best), .hole = best.begin, .front = best.front, .exists = true
	};
	end = place.start + rounded;
	if (end > best.end)
		place.back = best.back;
	if (end > best.begin)
		place.pages = pages_up(o, (end < best.end ? end : best.end) - best.begin);
	place.own = whole_pages_of(o, place.front) + whole_pages_of(o, place.back);
	return place;
}

static struct site
place_at_end(const struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	struct segment *range = oracle__range_of(o, pool);
	uint64_t end = oracle__mapped_end(o, range);
	struct site place = { .start = end, .hole = end, .front = last_block(o, range) };
	uint64_t have = 0;

	if (place.front != NULL &&
	    (place.front->place != SHELF || (place.front->state == PENDING && place.front->stream != s)))
		place.front = NULL;
	if (place.front != NULL) {
		place.start = place.front->address;
		have = place.front->size;
	}
	place.pages = rounded > have ? pages_up(o, rounded - have) : 0;
	place.own = whole_pages_of(o, place.front);
	place.exists = place.pages <= (range->address + range->size - end) / page_of(o);
	return place;
}

static uint64_t
missing_pages(const struct oracle *o, uint64_t pages)
{
	uint64_t reserved = oracle__reserved(o), room;

	if (o->max == 0)
		return 0;
	room = o->max > reserved ? (o->max - reserved) / page_of(o) : 0;
	return pages > room ? pages - room : 0;
}

static struct site
choose(const struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	const struct site places[] = { place_at_hole(o, rounded, pool, false),
				       place_at_hole(o, rounded, pool, true),
				       place_at_end(o, rounded, pool, s) };
	struct site best = { 0 };

	for (unsigned i = 0; i < 3; i++) {
		const struct site *p = &places[i];

		if (p->exists && missing_pages(o, p->pages) <= idle_pages(o) - p->own &&
		    (!best.exists || p->pages < best.pages))
			best = *p;
	}
	return best;
}

/* ---- unmapping -------------------------------------------------------------- */

/* The least that surely holds the pages; `any`: the greatest that holds one. */
static struct block *
victim_in(const struct oracle *o, unsigned pool, uint64_t pages, bool any)
{
	uint64_t class = oracle__class_wanted((pages + 1) * page_of(o) / o->policy.alignment);
	struct block *best = NULL;

	for (size_t i = 0; i < o->block_count; i++) {
		struct block *b = o->blocks[i];
		bool less, same;

		if (!oracle__on_shared_shelf(o, b, pool) ||
		    (any ? whole_pages_of(o, b) == 0 : b->class < class))
			continue;
		less = best != NULL &&
		       (b->class != best->class ? b->class < best->class : b->region < best->region);
		same = best != NULL && b->class == best->class && b->region == best->region;
		if (best == NULL || (same ? b->stamp > best->stamp : less != any))
			best = b;
	}
	return best;
}

static struct block *
victim(const struct oracle *o, uint64_t pages)
{
	struct block *b = NULL;

	for (unsigned any = 0; any < 2; any++)
		for (unsigned pool = o->policy.pool_count; pool-- > 0 && b == NULL;)
			b = victim_in(o, pool, pages, any);
	return b;
}

/* Is [address, address + 1) unmapped, and before the end of its range? */
static bool
is_hole_at(const struct oracle *o, const struct segment *range, uint64_t address)
{
	if (address < range->address || address >= oracle__mapped_end(o, range))
		return false;
	for (size_t i = 0; i < o->block_count; i++)
		if (o->blocks[i]->address <= address && address - o->blocks[i]->address < o->blocks[i]->size)
			return false;
	return true;
}

static uint64_t
unmap_from(struct oracle *o, struct block *b, uint64_t pages, bool steal)
{
	uint64_t begin = b->address, end = b->address + b->size, page = page_of(o), from, to;
	struct segment *range = b->segment;

	if (pages > whole_pages_of(o, b))
		pages = whole_pages_of(o, b);
	to = end / page * page;
	if (is_hole_at(o, range, begin - 1) && !is_hole_at(o, range, end) &&
	    o->fault != ORACLE_FAULT_STEAL_BEHIND)
		to = begin + pages * page;
	from = to - pages * page;
	oracle__remove_block(o, b);
	if (o->has_source)
		o->source.unmap(o->source.context, from, pages * page);
	o->kept.unmap_count++;
	o->kept.pages_unmapped += pages;
	o->kept.steal_count += steal;
	o->kept.pages_stolen += steal ? pages : 0;
	o->kept.segments_released += !steal;
	/* Both are there before one is put on its shelf: its region depends on the range's end. */
	if (to < end)
		oracle__add_block(o, range, to, end - to)->place = NOWHERE;
	if (begin < from)
		oracle__complete(o, oracle__add_block(o, range, begin, from - begin));
	if (to < end)
		oracle__complete(o, oracle__block_at(o, to));
	return pages;
}

static void
unmap_pages(struct oracle *o, uint64_t pages, bool steal)
{
	while (pages > 0)
		pages -= unmap_from(o, victim(o, pages), pages, steal);
}

bool
oracle__mapped_release(struct oracle *o, uint64_t keep)
{
	uint64_t reserved = oracle__reserved(o);
	uint64_t pages = reserved > keep ? (reserved - keep) / page_of(o) : 0;

	if (pages > idle_pages(o))
		pages = idle_pages(o);
	unmap_pages(o, pages, false);
	return pages > 0;
}

/* ---- growing ---------------------------------------------------------------- */

static bool
map(struct oracle *o, const struct site *p)
{
	o->refusal = SOMA_STATUS_OK;
	if (o->has_source)
		o->refusal = o->source.map(o->source.context, p->hole, p->pages * page_of(o));
	if (o->refusal != SOMA_STATUS_OK)
		return false;
	o->kept.map_count++;
	o->kept.pages_mapped += p->pages;
	return true;
}

static void
set_aside(struct block *b)
{
	if (b != NULL && b->state == COMPLETE) {
		b->state = LIVE; /* nobody joins it or takes pages of it */
		b->place = NOWHERE;
	}
}

static void
put_back(struct oracle *o, struct block *b)
{
	if (b != NULL)
		oracle__complete(o, b);
}

static bool
map_with_stealing(struct oracle *o, const struct site *p, uint64_t missing)
{
	bool front = p->front != NULL && p->front->state == COMPLETE;

	set_aside(p->front);
	set_aside(p->back);
	unmap_pages(o, missing, true);
	if (map(o, p))
		return true;
	put_back(o, front ? p->front : NULL);
	put_back(o, p->back);
	return false;
}

static bool
map_place(struct oracle *o, const struct site *p)
{
	uint64_t missing = missing_pages(o, p->pages);

	if (missing > 0)
		return map_with_stealing(o, p, missing);
	if (map(o, p))
		return true;
	return p->pages <= idle_pages(o) - p->own && map_with_stealing(o, p, p->pages);
}

/* The block: front, pages and back in one. */
static struct block *
merged(struct oracle *o, const struct site *p, struct segment *range)
{
	uint64_t end = p->hole + p->pages * page_of(o);

	if (p->back != NULL) {
		end = p->back->address + p->back->size;
		oracle__remove_block(o, p->back);
	}
	if (p->front == NULL)
		return oracle__add_block(o, range, p->hole, end - p->hole);
	p->front->size = end - p->front->address;
	return p->front;
}

struct block *
oracle__grow_mapped(struct oracle *o, uint64_t rounded, unsigned pool, size_t s)
{
	struct site p = choose(o, rounded, pool, s);
	struct block *b;
	uint64_t left;

	if (!p.exists)
		return NULL;
	if (p.pages == 0)
		return p.front;
	if (!map_place(o, &p))
		return NULL;
	o->kept.segments_acquired++;
	b = merged(o, &p, oracle__range_of(o, pool));
	oracle__make_live(b, 0);
	left = b->size - rounded;
	if (left > 0 && left >= o->policy.pools[pool].split_min) {
		b->size = rounded;
		oracle__complete(o, oracle__add_block(o, b->segment, b->address + rounded, left));
	}
	return b;
}

/* ---- create, destroy ---------------------------------------------------------- */

enum soma_status
oracle__reserve_ranges(struct oracle *o)
{
	uint64_t address = o->base;

	for (unsigned pool = o->policy.pool_count; pool-- > 0;) {
		uint64_t size = o->policy.pools[pool].segment_size;
		enum soma_status status = SOMA_STATUS_OK;

		if (o->has_source)
			status = o->source.reserve(o->source.context, pool, size, &address);
		if (status != SOMA_STATUS_OK)
			return status;
		oracle__add_segment(o, 0, pool, address, size);
		if (pool + 1 == o->policy.pool_count)
			o->base = address;
		address += size;
	}
	return SOMA_STATUS_OK;
}

void
oracle__give_back_ranges(struct oracle *o)
{
	for (unsigned pool = o->policy.pool_count; o->has_source && pool-- > 0;) {
		const struct segment *range = oracle__range_of(o, pool);
		uint64_t begin = 0, end = 0;

		for (size_t i = 0; range != NULL && i < o->block_count; i++) {
			if (o->blocks[i]->segment != range)
				continue;
			if (o->blocks[i]->address != end && end > begin)
				o->source.unmap(o->source.context, begin, end - begin);
			if (o->blocks[i]->address != end)
				begin = o->blocks[i]->address;
			end = o->blocks[i]->address + o->blocks[i]->size;
		}
		if (end > begin)
			o->source.unmap(o->source.context, begin, end - begin);
		if (range != NULL)
			o->source.release(o->source.context, range->address, range->size);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges: where they are, what of them is mapped, and what the recording says of that.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/engine/expandable_heap.h"
#include "tools/xalloc.h"

static size_t
range_position(const struct expandable *heap, uint64_t address)
{
	size_t low = 0, high = heap->range_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (heap->ranges[middle]->base <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct range *
heap_range_at(const struct expandable *heap, uint64_t address)
{
	size_t at = range_position(heap, address);

	return at > 0 ? heap->ranges[at - 1] : NULL;
}

struct piece *
heap_piece_at(const struct expandable *heap, uint64_t address)
{
	struct range *range = heap_range_at(heap, address);
	struct piece *piece = range != NULL ? range->first : NULL;

	while (piece != NULL && address - piece->address >= piece->size)
		piece = piece->next;
	return piece;
}

/* Whether [address, address + size) is free to be claimed: nothing is mapped there, nor may
 * be, but for the end of one range. */
static bool
is_vacant(const struct expandable *heap, uint64_t address, uint64_t size)
{
	const struct piece *piece = heap_piece_at(heap, address);
	size_t above = range_position(heap, address);

	if (above < heap->range_count && heap->ranges[above]->base - address < size)
		return false;
	return piece == NULL || (piece->state == PIECE_UNMAPPED && piece->next == NULL);
}

void
heap_remove_range(struct expandable *heap, struct range *range)
{
	size_t at = range_position(heap, range->base) - 1; /* bases differ */

	heap->range_count--;
	memmove(&heap->ranges[at], &heap->ranges[at + 1], (heap->range_count - at) * sizeof(struct range *));
	free(range->first);
	free(range);
}

/* The address is another range's from now on: the one that had it ends before. */
static void
claim(struct expandable *heap, uint64_t address)
{
	struct piece *end = heap_piece_at(heap, address);

	if (end == NULL)
		return;
	heap_take(end);
	if (address > end->address) {
		end->size = address - end->address;
		heap_enter(end);
	} else if (end->previous != NULL) {
		end->previous->next = NULL;
		free(end);
	} else {
		heap_remove_range(heap, end->range);
	}
}

/* One unmapped piece of that size, in no list; the place is vacant. */
static struct piece *
add_range(struct expandable *heap, struct area *area, uint64_t base, uint64_t unit, uint64_t size)
{
	struct range *range = xcalloc(1, sizeof *range);
	struct piece *piece = xcalloc(1, sizeof *piece);
	size_t at;

	claim(heap, base);
	at = range_position(heap, base);
	*range = (struct range){ .base = base, .unit = unit, .area = area, .first = piece };
	*piece = (struct piece){ .address = base, .size = size, .range = range, .state = PIECE_UNMAPPED };
	heap->ranges = xgrow(heap->ranges, &heap->range_room, heap->range_count, sizeof(struct range *));
	memmove(&heap->ranges[at + 1], &heap->ranges[at], (heap->range_count - at) * sizeof(struct range *));
	heap->ranges[at] = range;
	heap->range_count++;
	return piece;
}

static uint64_t
unit_of(const struct area *area)
{
	return area->small ? SMALL_UNIT : LARGE_UNIT;
}

/* ---- the recording's addresses --------------------------------------------------- */

void
expandable_offer(struct expandable *heap, uint64_t stream, uint64_t address, uint64_t size, bool map)
{
	bool usable = address != 0 && address % ALIGNMENT == 0 && size > 0 && size % ALIGNMENT == 0 &&
		      size <= SOMA_MODEL_ADDRESS_MAX && address <= SOMA_MODEL_ADDRESS_MAX - size &&
		      (!map || size % SMALL_UNIT == 0);

	if (!usable)
		return;
	heap->offers = xgrow(heap->offers, &heap->offer_room, heap->offer_count, sizeof *heap->offers);
	heap->offers[heap->offer_count++] =
		(struct offer){ .stream = stream, .address = address, .size = size, .map = map };
	if (address + size > heap->next)
		heap->next = round_up_to(address + size, SMALL_UNIT);
}

static void
remove_offer(struct expandable *heap, size_t index)
{
	heap->offer_count--;
	memmove(&heap->offers[index], &heap->offers[index + 1],
		(heap->offer_count - index) * sizeof *heap->offers);
}

static bool
is_for(const struct offer *offer, const struct area *area)
{
	if (offer->stream != area->stream)
		return false;
	return !offer->map || (area->small ? offer->size == SMALL_UNIT : offer->size % LARGE_UNIT == 0);
}

/* The area's oldest offer; the number of offers: none. */
static size_t
first_offer(const struct expandable *heap, const struct area *area)
{
	size_t i = 0;

	while (i < heap->offer_count && !is_for(&heap->offers[i], area))
		i++;
	return i;
}

bool
heap_has_offer(const struct expandable *heap, const struct area *area)
{
	return first_offer(heap, area) < heap->offer_count;
}

static void
count_map(struct expandable *heap, uint64_t address, uint64_t size)
{
	heap->stats.maps++;
	heap->stats.reserved += size;
	if (heap->stats.reserved > heap->stats.reserved_high)
		heap->stats.reserved_high = heap->stats.reserved;
	for (size_t i = 0; i < heap->offer_count; i++) {
		if (heap->offers[i].address == address && heap->offers[i].size == size) {
			heap->stats.reproduced++;
			remove_offer(heap, i);
			break;
		}
	}
}

static bool
has_room(struct expandable *heap, uint64_t size)
{
	uint64_t wanted = heap->stats.reserved + size;

	if (size <= heap->limit && heap->stats.reserved <= heap->limit - size)
		return true;
	if (wanted < heap->stats.least_refused)
		heap->stats.least_refused = wanted;
	return false;
}

/* ---- mapping ------------------------------------------------------------------------ */

/* Maps the front of an unmapped piece, in whole units; NULL: there is no room. */
static struct piece *
map(struct expandable *heap, struct piece *piece, uint64_t size)
{
	uint64_t bytes = round_up_to(size, piece->range->unit);

	if (bytes > piece->size)
		bytes = piece->size;
	if (!has_room(heap, bytes))
		return NULL;
	piece = heap_carve(piece, piece->address, bytes, PIECE_FREE);
	count_map(heap, piece->address, bytes);
	return heap_settle(piece);
}

static bool
is_open(const struct piece *piece)
{
	return piece != NULL && (piece->state == PIECE_FREE || piece->state == PIECE_UNMAPPED);
}

static bool
has_space(const struct piece *piece, uint64_t size)
{
	uint64_t bytes = 0;

	for (; bytes < size && is_open(piece); piece = piece->next)
		bytes += piece->size;
	return bytes >= size;
}

/* The lowest place: what is not mapped, or the free block right before it. */
static struct piece *
find_space(const struct area *area, uint64_t size)
{
	for (size_t i = 0; i < area->unmapped.count; i++) {
		struct piece *piece = area->unmapped.at[i];

		if (is_open(piece->previous))
			piece = piece->previous;
		if (has_space(piece, size))
			return piece;
	}
	return NULL;
}

/* Whether the area knows what is at this address: mapped or not, it is in a range. */
static bool
knows(const struct expandable *heap, const struct area *area, uint64_t address)
{
	const struct range *range = heap_range_at(heap, address);

	return range != NULL && range->area == area && range->unit != 0 && address - range->base < RANGE_SIZE;
}

static struct piece *
new_space(struct expandable *heap, struct area *area, uint64_t base, uint64_t size)
{
	size_t above = range_position(heap, base);
	uint64_t unit = unit_of(area);

	if (above < heap->range_count && size > heap->ranges[above]->base - base)
		size = heap->ranges[above]->base - base;
	if (size > SOMA_MODEL_ADDRESS_MAX - base)
		size = SOMA_MODEL_ADDRESS_MAX - base;
	size = size / unit * unit;
	return size > 0 && is_vacant(heap, base, size) ? heap_settle(add_range(heap, area, base, unit, size))
						       : NULL;
}

/* Where no range was recorded: behind all others.  There are no more than 2^48 addresses, so when a quarter of them
 * is left ranges are smaller: any number of streams has some. */
static struct piece *
new_space_behind(struct expandable *heap, struct area *area, uint64_t wanted)
{
	uint64_t base = heap->next, left = SOMA_MODEL_ADDRESS_MAX - base, size = RANGE_SIZE;

	if (left <= SOMA_MODEL_ADDRESS_MAX / 4) {
		size = left / RANGES_AT_THE_END;
		size = round_up_to(size > wanted ? size : wanted, LARGE_UNIT);
	}
	if (size > left)
		size = left;
	heap->next = base + size;
	return new_space(heap, area, base, size);
}

/* A range whose beginning was not mapped when it was adopted begins lower. */
static bool
extend_down(struct expandable *heap, struct area *area, uint64_t address)
{
	size_t at = range_position(heap, address);
	struct range *range = at < heap->range_count ? heap->ranges[at] : NULL;
	struct piece *piece;

	if (range == NULL || range->area != area || range->unit == 0 || range->base - address >= RANGE_SIZE ||
	    (range->base - address) % range->unit != 0 || !is_vacant(heap, address, range->base - address))
		return false;
	claim(heap, address);
	piece = xcalloc(1, sizeof *piece);
	*piece = (struct piece){ .address = address,
				 .size = range->base - address,
				 .next = range->first,
				 .range = range,
				 .state = PIECE_UNMAPPED };
	range->first->previous = piece;
	range->first = piece;
	range->base = address;
	heap_settle(piece);
	return true;
}

/* Where mapping would begin. */
static uint64_t
map_address(const struct piece *space)
{
	return space->state == PIECE_UNMAPPED ? space->address : space->address + space->size;
}

/* Where the recording maps outside of what is known, a range begins: the first one, or the
 * next one when the first is full.  That shows when it should have grown and did not. */
static struct piece *
choose_space(struct expandable *heap, struct area *area, uint64_t size)
{
	size_t first = first_offer(heap, area);
	const struct offer *offer = first < heap->offer_count ? &heap->offers[first] : NULL;
	bool recorded = offer != NULL && offer->map && is_vacant(heap, offer->address, offer->size);
	struct piece *space, *there;

	if (recorded && !knows(heap, area, offer->address) && !extend_down(heap, area, offer->address))
		return new_space(heap, area, offer->address, RANGE_SIZE);
	space = find_space(area, size);
	there = recorded ? heap_piece_at(heap, offer->address) : NULL;
	if (space != NULL && there != NULL && there->next == NULL && there->range->area == area &&
	    map_address(space) == there->address && offer->address > there->address)
		return new_space(heap, area, offer->address, RANGE_SIZE);
	return space != NULL ? space : new_space_behind(heap, area, size);
}

/* A segment of the other kind is taken only from the recording. */
static struct piece *
take_segment(struct expandable *heap, struct area *area, uint64_t size)
{
	size_t first = first_offer(heap, area);
	const struct offer *offer = first < heap->offer_count ? &heap->offers[first] : NULL;
	uint64_t bytes = area->small ? SMALL_UNIT : size < 10 * MIB ? LARGE_UNIT : round_up_to(size, 2 * MIB);
	struct piece *piece;

	if (offer == NULL || offer->map || offer->size != bytes || !has_room(heap, bytes) ||
	    !is_vacant(heap, offer->address, bytes))
		return NULL;
	piece = add_range(heap, area, offer->address, 0, bytes);
	piece->state = PIECE_FREE;
	count_map(heap, piece->address, bytes);
	return heap_settle(piece);
}

struct piece *
heap_grow(struct expandable *heap, struct area *area, uint64_t size)
{
	struct piece *piece = take_segment(heap, area, size);

	if (piece != NULL)
		return piece;
	piece = choose_space(heap, area, size);
	if (piece != NULL && piece->state == PIECE_UNMAPPED)
		piece = map(heap, piece, size < piece->size ? size : piece->size);
	while (piece != NULL && piece->size < size) {
		struct piece *next = piece->next;
		uint64_t missing = size - piece->size;

		piece = next != NULL && next->state == PIECE_UNMAPPED
				? map(heap, next, missing < next->size ? missing : next->size)
				: NULL;
	}
	return piece;
}

uint64_t
expandable_growth(uint64_t size)
{
	return round_up_to(size, size <= SMALL_MAX ? SMALL_UNIT : LARGE_UNIT);
}

/* ---- what was there -------------------------------------------------------------------- */

/* The unmapped piece that holds it all is split around it. */
static bool
map_exactly(struct expandable *heap, struct piece *piece, uint64_t address, uint64_t size)
{
	if (piece->state != PIECE_UNMAPPED || size > piece->size - (address - piece->address))
		return false;
	heap_settle(heap_carve(piece, address, size, PIECE_FREE));
	heap->stats.reserved += size;
	if (heap->stats.reserved > heap->stats.reserved_high)
		heap->stats.reserved_high = heap->stats.reserved;
	return true;
}

bool
expandable_adopt_segment(struct expandable *heap, uint64_t stream, bool small, bool by_map, uint64_t address,
			 uint64_t size)
{
	struct area *area = heap_area(heap, stream, small);
	uint64_t unit = by_map ? unit_of(area) : 0;
	struct piece *piece = heap_piece_at(heap, address);

	if (!has_room(heap, size) || (by_map && size % unit != 0))
		return false;
	if (by_map && !knows(heap, area, address) && extend_down(heap, area, address))
		piece = heap_piece_at(heap, address);
	if (piece != NULL && by_map && knows(heap, area, address) &&
	    (address - piece->range->base) % unit == 0)
		return map_exactly(heap, piece, address, size);
	if (!is_vacant(heap, address, size))
		return false;
	if (by_map)
		piece = new_space(heap, area, address, RANGE_SIZE);
	else
		heap_settle(piece = add_range(heap, area, address, 0, size));
	return piece != NULL && map_exactly(heap, piece, address, size);
}

void
expandable_take_offers(struct expandable *heap)
{
	while (heap->offer_count > 0) {
		struct offer offer = heap->offers[0];

		remove_offer(heap, 0);
		expandable_adopt_segment(heap, offer.stream, offer.size == SMALL_UNIT, offer.map,
					 offer.address, offer.size);
	}
}

/* ---- walking ------------------------------------------------------------------------------ */

static bool
walk_piece(const struct piece *piece, bool (*visit)(void *context, const struct soma_extent *extent),
	   void *context)
{
	static const enum soma_extent_kind kinds[] = { SOMA_EXTENT_FREE, SOMA_EXTENT_LIVE,
						       SOMA_EXTENT_PENDING };
	struct soma_extent extent = { .pool = piece->range->area->small ? 0 : 1,
				      .address = piece->address,
				      .size = piece->size,
				      .stream = piece->range->area->stream };

	if (piece->previous == NULL || piece->previous->state == PIECE_UNMAPPED) {
		struct soma_extent segment = extent;

		segment.kind = SOMA_EXTENT_SEGMENT;
		for (const struct piece *next = piece->next; next != NULL && next->state != PIECE_UNMAPPED;
		     next = next->next)
			segment.size += next->size;
		if (!visit(context, &segment))
			return false;
	}
	extent.kind = kinds[piece->state];
	extent.requested = piece->state == PIECE_LIVE ? piece->requested : 0;
	extent.stranded = piece->state == PIECE_FREE;
	return visit(context, &extent);
}

void
expandable_walk(const struct expandable *heap, bool (*visit)(void *context, const struct soma_extent *extent),
		void *context)
{
	for (size_t i = 0; i < heap->range_count; i++)
		for (const struct piece *piece = heap->ranges[i]->first; piece != NULL; piece = piece->next)
			if (piece->state != PIECE_UNMAPPED && !walk_piece(piece, visit, context))
				return;
}

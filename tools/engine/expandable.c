/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding, splitting and joining blocks.  Ranges and mapping are in expandable_map.c.
 */
#include "tools/engine/expandable_heap.h"

#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

/* ---- sorted lists ------------------------------------------------------------- */

static struct pieces *
list_of(struct piece *piece)
{
	return piece->state == PIECE_FREE ? &piece->range->area->free : &piece->range->area->unmapped;
}

/* Where (size, address) is or would be; by address alone: size 0 for all. */
static size_t
position(const struct pieces *list, bool by_size, uint64_t size, uint64_t address)
{
	size_t low = 0, high = list->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct piece *piece = list->at[middle];
		uint64_t other = by_size ? piece->size : 0;

		if (other < size || (other == size && piece->address < address))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static size_t
position_of(const struct pieces *list, const struct piece *piece)
{
	bool by_size = piece->state == PIECE_FREE;

	return position(list, by_size, by_size ? piece->size : 0, piece->address);
}

void
heap_enter(struct piece *piece)
{
	struct pieces *list = list_of(piece);
	size_t at = position_of(list, piece);

	list->at = xgrow(list->at, &list->room, list->count, sizeof(struct piece *));
	memmove(&list->at[at + 1], &list->at[at], (list->count - at) * sizeof(struct piece *));
	list->at[at] = piece;
	list->count++;
}

void
heap_take(struct piece *piece)
{
	struct pieces *list = list_of(piece);
	size_t at = position_of(list, piece);

	list->count--;
	memmove(&list->at[at], &list->at[at + 1], (list->count - at) * sizeof(struct piece *));
}

/* ---- pieces ---------------------------------------------------------------------- */

static void
join_next(struct piece *piece)
{
	struct piece *next = piece->next;

	piece->size += next->size;
	piece->next = next->next;
	if (piece->next != NULL)
		piece->next->previous = piece;
	free(next);
}

struct piece *
heap_settle(struct piece *piece)
{
	struct piece *previous = piece->previous, *next = piece->next;

	if (next != NULL && next->state == piece->state) {
		heap_take(next);
		join_next(piece);
	}
	if (previous != NULL && previous->state == piece->state) {
		heap_take(previous);
		join_next(previous);
		piece = previous;
	}
	heap_enter(piece);
	return piece;
}

/* The piece keeps `size` bytes; the rest becomes a piece of the same state, in no list. */
static struct piece *
split(struct piece *piece, uint64_t size)
{
	struct piece *rest = xcalloc(1, sizeof *rest);

	*rest = (struct piece){ .address = piece->address + size,
				.size = piece->size - size,
				.previous = piece,
				.next = piece->next,
				.range = piece->range,
				.state = piece->state };
	if (rest->next != NULL)
		rest->next->previous = rest;
	piece->next = rest;
	piece->size = size;
	return rest;
}

struct piece *
heap_carve(struct piece *piece, uint64_t address, uint64_t size, enum piece_state state)
{
	heap_take(piece);
	if (address > piece->address) {
		struct piece *behind = split(piece, address - piece->address);

		heap_enter(piece);
		piece = behind;
	}
	if (piece->size > size)
		heap_enter(split(piece, size));
	piece->state = state;
	return piece;
}

struct area *
heap_area(struct expandable *heap, uint64_t stream, bool small)
{
	struct area *area;

	for (size_t i = 0; i < heap->area_count; i++)
		if (heap->areas[i]->stream == stream && heap->areas[i]->small == small)
			return heap->areas[i];
	area = xcalloc(1, sizeof *area);
	area->stream = stream;
	area->small = small;
	heap->areas = xgrow(heap->areas, &heap->area_room, heap->area_count, sizeof(struct area *));
	heap->areas[heap->area_count++] = area;
	return area;
}

/* ---- allocating -------------------------------------------------------------------- */

/* What a free block could grow to where it is. */
static uint64_t
extended(const struct piece *piece)
{
	bool grows = piece->next != NULL && piece->next->state == PIECE_UNMAPPED;

	return piece->size + (grows ? piece->next->size : 0);
}

/* The rules of segments that cannot grow are asked of every free block, also of ones that grew
 * together and will be split: what is above the limit is for requests about as large. */
static bool
is_oversize(const struct expandable *heap, uint64_t free_size, uint64_t size)
{
	if (size < heap->oversize)
		return free_size >= heap->oversize;
	return free_size - size >= heap->oversize_slack;
}

static struct piece *
find(const struct expandable *heap, const struct area *area, uint64_t size)
{
	const struct pieces *list = &area->free;
	size_t at = position(list, true, size, 0);

	if (at == list->count)
		return NULL;
	while (list->at[at]->range->unit != 0 && at + 1 < list->count &&
	       extended(list->at[at + 1]) < extended(list->at[at]))
		at++;
	return is_oversize(heap, list->at[at]->size, size) ? NULL : list->at[at];
}

static void
note_block(struct expandable *heap, struct piece *piece, uint64_t requested)
{
	struct heap_entry *entry = table_add(&heap->blocks, piece->address);

	entry->piece = piece;
	piece->requested = requested;
	heap->stats.used += requested;
	heap->stats.capacity += piece->size;
	heap->stats.live_count++;
}

/* The front of a free piece becomes a block. */
static void
use(struct expandable *heap, struct piece *piece, uint64_t size, uint64_t requested)
{
	note_block(heap, heap_carve(piece, piece->address, size, PIECE_LIVE), requested);
}

enum soma_status
expandable_alloc(struct expandable *heap, uint64_t size, uint64_t stream, uint64_t *ptr)
{
	uint64_t rounded = round_up_to(size, ALIGNMENT);
	struct piece *piece;
	struct area *area;

	if (size > SOMA_MODEL_ADDRESS_MAX)
		return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	area = heap_area(heap, stream, rounded <= SMALL_MAX);
	/* Once memory was given back for want of room, it grows without another look. */
	piece = heap->made_room && heap_has_offer(heap, area) ? NULL : find(heap, area, rounded);
	heap->made_room = false;
	if (piece == NULL)
		piece = heap_grow(heap, area, rounded);
	if (piece == NULL) {
		heap->stats.released_for_room++;
		expandable_release(heap);
		piece = heap_grow(heap, area, rounded);
	}
	if (piece == NULL)
		return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	use(heap, piece, rounded, size);
	*ptr = piece->address;
	return SOMA_STATUS_OK;
}

/* ---- freeing -------------------------------------------------------------------------- */

static void
complete(struct expandable *heap, struct heap_entry *entry)
{
	struct piece *piece = entry->piece;

	table_remove(&heap->blocks, entry);
	piece->state = PIECE_FREE;
	heap_settle(piece);
}

void
expandable_free(struct expandable *heap, uint64_t ptr, bool deferred)
{
	struct heap_entry *entry = table_find(&heap->blocks, ptr);
	struct piece *piece = entry->piece;

	heap->stats.used -= piece->requested;
	heap->stats.capacity -= piece->size;
	heap->stats.live_count--;
	piece->state = PIECE_PENDING;
	if (!deferred)
		complete(heap, entry);
}

void
expandable_complete(struct expandable *heap, uint64_t ptr)
{
	struct heap_entry *entry = table_find(&heap->blocks, ptr);

	if (entry != NULL && entry->piece->state == PIECE_PENDING)
		complete(heap, entry);
}

bool
expandable_adopt_block(struct expandable *heap, uint64_t ptr, uint64_t size, uint64_t capacity)
{
	struct piece *piece = heap_piece_at(heap, ptr);

	if (piece == NULL || piece->state != PIECE_FREE || capacity > piece->size - (ptr - piece->address))
		return false;
	piece = heap_carve(piece, ptr, capacity, PIECE_LIVE);
	note_block(heap, piece, size);
	return true;
}

/* ---- the heap --------------------------------------------------------------------------- */

struct expandable *
expandable_create(const struct soma_policy *policy, uint64_t capacity, uint64_t highest)
{
	struct expandable *heap = xcalloc(1, sizeof *heap);

	heap->oversize = policy->oversize > 0 ? policy->oversize : UINT64_MAX;
	heap->oversize_slack = policy->oversize_slack;
	heap->limit = capacity > 0 ? capacity : UINT64_MAX;
	heap->stats.least_refused = UINT64_MAX;
	heap->next = SOMA_MODEL_BASE_DEFAULT;
	if (highest > 0 && highest <= SOMA_MODEL_ADDRESS_MAX - 2 * RANGE_SIZE)
		heap->next = round_up_to(highest + RANGE_SIZE, SMALL_UNIT);
	table_init(&heap->blocks, sizeof(struct heap_entry));
	return heap;
}

static void
free_range(struct range *range)
{
	struct piece *piece;

	while ((piece = range->first) != NULL) {
		range->first = piece->next;
		free(piece);
	}
	free(range);
}

void
expandable_destroy(struct expandable *heap)
{
	if (heap == NULL)
		return;
	for (size_t i = 0; i < heap->range_count; i++)
		free_range(heap->ranges[i]);
	for (size_t i = 0; i < heap->area_count; i++) {
		free(heap->areas[i]->free.at);
		free(heap->areas[i]->unmapped.at);
		free(heap->areas[i]);
	}
	free(heap->ranges);
	free(heap->areas);
	free(heap->offers);
	table_fini(&heap->blocks);
	free(heap);
}

const struct expandable_stats *
expandable_stats(const struct expandable *heap)
{
	return &heap->stats;
}

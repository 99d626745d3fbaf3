/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving memory back: whole units of ranges, and whole segments of the other kind.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/engine/expandable_heap.h"
#include "tools/xalloc.h"

/* A part of a free piece, in whole units. */
static void
unmap(struct expandable *heap, struct piece *piece, uint64_t address, uint64_t size)
{
	piece = heap_carve(piece, address, size, PIECE_UNMAPPED);
	heap->stats.unmaps++;
	heap->stats.reserved -= size;
	piece = heap_settle(piece);
	if (piece->previous == NULL && piece->next == NULL) {
		heap_take(piece);
		heap_remove_range(heap, piece->range);
	}
}

static void
release_segment(struct expandable *heap, struct piece *piece)
{
	heap_take(piece);
	heap->stats.unmaps++;
	heap->stats.reserved -= piece->size;
	heap_remove_range(heap, piece->range);
}

bool
expandable_unmap(struct expandable *heap, uint64_t address, uint64_t size)
{
	struct piece *piece = heap_piece_at(heap, address);
	uint64_t unit = piece != NULL ? piece->range->unit : 0;

	if (unit == 0 || piece->state != PIECE_FREE || size > piece->size - (address - piece->address) ||
	    (address - piece->range->base) % unit != 0 || size % unit != 0 || size == 0)
		return false;
	unmap(heap, piece, address, size);
	heap->made_room = true;
	return true;
}

bool
expandable_release_segment(struct expandable *heap, uint64_t address)
{
	struct piece *piece = heap_piece_at(heap, address);

	if (piece == NULL || piece->range->unit != 0 || piece->range->base != address ||
	    piece->state != PIECE_FREE || piece->next != NULL)
		return false;
	release_segment(heap, piece);
	heap->made_room = true;
	return true;
}

/* All units that are wholly in the free piece. */
static void
release_piece(struct expandable *heap, struct piece *piece)
{
	const struct range *range = piece->range;
	uint64_t begin, end;

	if (range->unit == 0) {
		if (piece->previous == NULL && piece->next == NULL)
			release_segment(heap, piece);
		return;
	}
	begin = range->base + round_up_to(piece->address - range->base, range->unit);
	end = range->base + (piece->address + piece->size - range->base) / range->unit * range->unit;
	if (begin < end)
		unmap(heap, piece, begin, end - begin);
}

void
expandable_release(struct expandable *heap)
{
	for (size_t i = 0; i < heap->area_count; i++) {
		const struct pieces *list = &heap->areas[i]->free;
		size_t count = list->count;
		struct piece **pieces = xcalloc(count, sizeof(struct piece *));

		if (count > 0)
			memcpy(pieces, list->at, count * sizeof(struct piece *));
		for (size_t j = 0; j < count; j++)
			release_piece(heap, pieces[j]);
		free(pieces);
	}
}

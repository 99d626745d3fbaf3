/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of trace events; lock-free for those who put.  Who takes is the caller's business: one at a time.
 */
#include "lib/resource/trace_ring.h"

enum soma_status
soma__trace_ring_init(struct soma__trace_ring *ring, struct soma__arena *arena, uint32_t events)
{
	uint64_t size = 2;

	while (size < events)
		size *= 2;
	ring->cells = soma__arena_calloc(arena, size * sizeof *ring->cells, 64);
	if (ring->cells == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	ring->mask = size - 1;
	for (uint64_t i = 0; i < size; i++)
		atomic_init(&ring->cells[i].turn, i);
	atomic_init(&ring->head, 0);
	atomic_init(&ring->tail, 0);
	return SOMA_STATUS_OK;
}

void
soma__trace_ring_fini(struct soma__trace_ring *ring, struct soma__arena *arena)
{
	soma__arena_free(arena, ring->cells, (ring->mask + 1) * sizeof *ring->cells);
}

bool
soma__trace_ring_put(struct soma__trace_ring *ring, const struct soma__trace_event *event, uint64_t *place)
{
	uint64_t at = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	for (;;) {
		struct soma__trace_cell *cell = &ring->cells[at & ring->mask];
		int64_t ahead = (int64_t)(atomic_load_explicit(&cell->turn, memory_order_acquire) - at);
		if (ahead < 0)
			return false;
		if (ahead > 0) {
			at = atomic_load_explicit(&ring->tail, memory_order_relaxed);
			continue;
		}
		if (!atomic_compare_exchange_weak(&ring->tail, &at, at + 1))
			continue;
		cell->event = *event;
		atomic_store_explicit(&cell->turn, at + 1, memory_order_release);
		*place = at;
		return true;
	}
}

bool
soma__trace_ring_take(struct soma__trace_ring *ring, struct soma__trace_event *event)
{
	uint64_t at = atomic_load_explicit(&ring->head, memory_order_relaxed);
	struct soma__trace_cell *cell = &ring->cells[at & ring->mask];

	if (atomic_load_explicit(&cell->turn, memory_order_acquire) != at + 1)
		return false;
	*event = cell->event;
	atomic_store_explicit(&cell->turn, at + ring->mask + 1, memory_order_release);
	atomic_store_explicit(&ring->head, at + 1, memory_order_release);
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running what is queued.  Who waits for a lane runs it; where its next item waits for
 * another lane, that one is run first.  Every item waits only for items that were queued before
 * it, so this ends.
 *
 * A lane's turn is held while its items run, one turn at a time; its queue only to take
 * all of it out.
 */
#include "backends/host/lanes.h"

#include <stddef.h>

/* What somebody waits for: this position of a lane, or all items with lower tickets. */
struct need {
	struct soma_backend_stream *lane;
	uint64_t position;
	uint64_t ticket;
};

/* Takes in what was queued, and gives back what was done. The turn is held. */
static void
exchange(struct soma_backend_stream *lane)
{
	pthread_mutex_lock(&lane->queue);
	lane->batch = lane->head;
	lane->head = NULL;
	lane->tail = &lane->head;
	*lane->done_tail = lane->ops;
	lane->ops = lane->done;
	lane->done = NULL;
	lane->done_tail = &lane->done;
	bool tickets = lane->batch != NULL && lane->batch->ticket != 0;
	atomic_store(&lane->ticket, tickets ? lane->batch->ticket : UINT64_MAX);
	pthread_mutex_unlock(&lane->queue);
}

static bool
waits_for_ticket(const struct item *item, struct soma_backend_stream *other, struct need *need)
{
	if (atomic_load(&other->ticket) >= item->ticket)
		return false;
	*need = (struct need){ .lane = other, .ticket = item->ticket };
	return true;
}

/* The order with the legacy stream. */
static bool
waits_for_legacy(struct lanes *lanes, struct soma_backend_stream *lane, const struct item *item,
		 struct need *need)
{
	if (item->ticket == 0)
		return false;
	if (lane != lanes->legacy)
		return waits_for_ticket(item, lanes->legacy, need);
	for (struct soma_backend_stream *other = atomic_load(&lanes->all); other != NULL; other = other->next)
		if (other != lane && waits_for_ticket(item, other, need))
			return true;
	return false;
}

static bool
must_wait(struct lanes *lanes, struct soma_backend_stream *lane, const struct item *item, struct need *need)
{
	const struct op *op = (const struct op *)item;

	if (waits_for_legacy(lanes, lane, item, need))
		return true;
	if (item->kind != ITEM_WAIT)
		return false;
	struct soma_backend_stream *other = (struct soma_backend_stream *)(uintptr_t)op->from;
	*need = (struct need){ .lane = other, .position = op->bytes };
	return atomic_load_explicit(&other->run, memory_order_acquire) < op->bytes;
}

static void
finish(struct lanes *lanes, struct soma_backend_stream *lane, struct item *item)
{
	if (item->kind == ITEM_FREE) {
		heap_put(lanes->heap, item);
		return;
	}
	work_run((struct op *)item);
	item->next = NULL;
	*lane->done_tail = item;
	lane->done_tail = &item->next;
}

/* The turn is held, and batch is not empty. */
static void
run_first(struct lanes *lanes, struct soma_backend_stream *lane)
{
	struct item *item = lane->batch;

	lane->batch = item->next;
	finish(lanes, lane, item);
	if (lane->batch != NULL && lane->batch->ticket != 0)
		atomic_store(&lane->ticket, lane->batch->ticket);
	atomic_store_explicit(&lane->run, atomic_load_explicit(&lane->run, memory_order_relaxed) + 1,
			      memory_order_release);
	if (lane->batch == NULL)
		exchange(lane);
}

static bool
is_needed(const struct soma_backend_stream *lane, const struct need *need)
{
	return atomic_load_explicit(&lane->run, memory_order_relaxed) < need->position ||
	       (lane->batch->ticket != 0 && lane->batch->ticket < need->ticket);
}

/* Runs what is needed and not more than `count`.  False: an item waits for what is in `blocked`. */
static bool
run_lane(struct lanes *lanes, const struct need *need, uint64_t *count, struct need *blocked)
{
	struct soma_backend_stream *lane = need->lane;
	struct need found;
	bool free_to_run = true;

	pthread_mutex_lock(&lane->turn);
	if (lane->batch == NULL)
		exchange(lane);
	while (*count > 0 && lane->batch != NULL && is_needed(lane, need)) {
		if (must_wait(lanes, lane, lane->batch, &found)) {
			*blocked = found;
			free_to_run = false;
			break;
		}
		run_first(lanes, lane);
		--*count;
	}
	pthread_mutex_unlock(&lane->turn);
	return free_to_run;
}

void
lane_drive(struct lanes *lanes, struct soma_backend_stream *lane, uint64_t position)
{
	while (atomic_load_explicit(&lane->run, memory_order_acquire) < position) {
		struct need need = { .lane = lane, .position = position }, blocked;
		uint64_t count = UINT64_MAX;
		while (!run_lane(lanes, &need, &count, &blocked))
			need = blocked;
	}
}

uint64_t
lane_step(struct lanes *lanes, struct soma_backend_stream *lane, uint64_t count)
{
	struct need need = { .lane = lane, .position = UINT64_MAX }, blocked;
	uint64_t left = count;

	run_lane(lanes, &need, &left, &blocked);
	return count - left;
}

void
lanes_drive_all(struct lanes *lanes)
{
	for (struct soma_backend_stream *lane = atomic_load(&lanes->all); lane != NULL; lane = lane->next)
		lane_drive(lanes, lane, atomic_load_explicit(&lane->queued, memory_order_acquire));
}

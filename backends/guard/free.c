/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's end as the program sees it: whether it is one, whether the stream is past
 * everything; then it is retired in its stream's lane.  Needs no memory.
 *
 * Two threads that free one block at once meet at the lock: one retires it, the other
 * is told.
 */
#include <inttypes.h>
#include <string.h>

#include "backends/guard/guard.h"

/* After this many frees the backend is asked what is over, without waiting for the host. */
#define ASK_BLOCKS 16u
#define STRAYS_AT_ONCE 16u

/* Lanes that the free is not ordered after, though it should be: some of them at a time. */
struct strays {
	uint32_t count;
	uint32_t lane[STRAYS_AT_ONCE];
	uint32_t at;   /* where the next ones are looked for */
	bool begun;    /* the allocation was looked at */
	bool followed; /* the order of some was queued */
	bool missed;   /* that of some could not be */
};

static enum soma_status
refuse(struct soma_backend *g, const struct report *report)
{
	report_emit(g, report);
	return guard_fail(g->host, SOMA_STATUS_INVALID_VALUE, "guard: %s of 0x%" PRIx64,
			  report_kind_text(report->kind), report->ptr);
}

/* Under the lock; false: the report says why not. */
static bool
may_free(struct soma_backend *g, const struct block *block, uint64_t ptr, uint64_t size,
	 struct report *report)
{
	report->found_by = "free";
	if (block == NULL) {
		report->kind = REPORT_FOREIGN_FREE;
		report_about_address(g, report, ptr);
		return false;
	}
	if (block->state != BLOCK_LIVE)
		report->kind = REPORT_DOUBLE_FREE;
	else if (block->size != size)
		report->kind = REPORT_WRONG_SIZE;
	else
		return true;
	report->given_size = size;
	report_about(g, report, block);
	return false;
}

/* Under the lock.  The next ones. */
static void
find_strays(const struct soma_backend *g, const struct block *block, uint32_t lane, struct strays *strays)
{
	struct clock_access use;

	strays->count = 0;
	if (!strays->begun && !clocks_ordered(&g->clocks, lane, &block->uses.alloc))
		strays->lane[strays->count++] = block->uses.alloc.lane;
	strays->begun = true;
	while (strays->count < STRAYS_AT_ONCE &&
	       uses_unordered(&block->uses, &g->clocks, lane, &strays->at, &use))
		strays->lane[strays->count++] = use.lane;
}

/* Under the lock.  Whether the free is out of order, which the report then says. */
static bool
check_order(struct soma_backend *g, const struct block *block, uint32_t lane,
	    const struct clock_access *freed, struct report *report)
{
	struct use_verdict verdict = { 0 };

	if (g->options.race != GUARD_RACE_OFF)
		verdict = uses_check_free(&block->uses, &g->clocks, lane);
	if (verdict.fault == USE_FINE)
		return false;
	report->kind = REPORT_FREE_UNORDERED;
	report->first = verdict.first;
	report->first_is_alloc = verdict.first.seq == block->uses.alloc.seq;
	report->now = *freed;
	report_about(g, report, block);
	return true;
}

/* Under the lock. */
static void
retire(struct soma_backend *g, struct block *block, uint32_t lane)
{
	block->state = BLOCK_RETIRED;
	g->live_count--;
	if (block->range != 0)
		mapped_slot_freed(g, block);
	block_list_push(&g->lanes[lane]->retired, block);
	g->retired_count++;
	g->retired_requested += block_requested(block);
}

static bool
suspect_is_over(struct soma_backend *g, const struct report *report)
{
	struct soma_backend_stream *stream;
	bool done = false;

	if (g->options.race != GUARD_RACE_CONFIRM || (stream = lane_borrow(g, report->first.lane)) == NULL)
		return false;
	if (guard_is_capturing(g, stream) || g->ops->stream_query(g->inner, stream, &done) != SOMA_STATUS_OK)
		done = false;
	lane_return(g, report->first.lane);
	return done;
}

/* Under the lock.  A free that the host vouches for, though work that it should be after may still run:
 * once more in the lane of that work, so that the memory stays until it is over. */
static uint32_t
lane_to_retire_in(const struct soma_backend *g, const struct block *block, uint32_t lane)
{
	struct strays strays = { 0 };

	if (lane != CLOCKS_HOST)
		return lane;
	do {
		find_strays(g, block, lane, &strays);
		for (uint32_t i = 0; i < strays.count; i++)
			if (strays.lane[i] != CLOCKS_HOST && !g->lanes[strays.lane[i]]->per_thread)
				return strays.lane[i];
	} while (strays.count > 0);
	return lane;
}

/* `to` NULL: a free that the host vouches for, in the lane `home` for want of a stream of its own. */
static bool
follow(struct soma_backend *g, uint32_t lane, uint32_t home, struct soma_backend_stream *to)
{
	if (to != NULL)
		return lane_follow(g, lane, to);
	return home != CLOCKS_HOST && lane_follow_in(g, lane, home);
}

static void
follow_strays(struct soma_backend *g, struct strays *strays, uint32_t home, struct soma_backend_stream *to)
{
	for (uint32_t i = 0; i < strays->count; i++) {
		if (strays->lane[i] == home || strays->lane[i] == CLOCKS_HOST)
			continue;
		if (follow(g, strays->lane[i], home, to))
			strays->followed = true;
		else
			strays->missed = true;
	}
}

/* The block is pinned: nothing is recorded of it any more, so the place in its uses stays good. */
static void
follow_all_strays(struct soma_backend *g, const struct block *block, uint32_t home,
		  struct soma_backend_stream *stream, struct strays *strays)
{
	while (strays->count > 0) {
		follow_strays(g, strays, home, stream);
		pthread_mutex_lock(&g->lock);
		find_strays(g, block, block->freed.lane, strays);
		pthread_mutex_unlock(&g->lock);
	}
}

static void
settle_after(struct soma_backend *g, uint32_t lane)
{
	pthread_mutex_lock(&g->lock);
	bool ask = g->lanes[lane]->retired.count >= ASK_BLOCKS || g->lanes[lane]->per_thread;
	pthread_mutex_unlock(&g->lock);
	lane_settle(g, lane, ask);
	quarantine_trim(g);
}

/* What the guard does not know is the inner backend's own: allocated by a forked child, or with mode=off. */
static enum soma_status
free_idle(struct soma_backend *g, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	pthread_mutex_lock(&g->lock);
	struct block *block = g->off ? NULL : blocks_find(&g->blocks, ptr);
	if (block != NULL && block->state == BLOCK_LIVE) {
		ptr = block->outer;
		size = block->outer_size;
		block->state = BLOCK_TOMBSTONE;
	} else {
		block = NULL;
	}
	pthread_mutex_unlock(&g->lock);
	enum soma_status status = SOMA_STATUS_OK;
	if (block == NULL || block->range == 0)
		status = g->ops->free(g->inner, ptr, size, stream);
	if (status == SOMA_STATUS_OK && !g->off && g->host->released != NULL)
		g->host->released(g->host->context, block != NULL ? block->ptr : ptr,
				  block != NULL ? block->size : size);
	return status;
}

/* Under the lock.  Retires the block, pinned, and says in which lane. */
static uint32_t
end_block(struct soma_backend *g, struct block *block, const struct clock_access *freed,
	  struct strays *strays)
{
	find_strays(g, block, freed->lane, strays);
	uint32_t home = lane_to_retire_in(g, block, freed->lane);
	block->freed = *freed;
	if (home != freed->lane)
		block->freed.tick = clocks_op(&g->clocks, home).tick;
	block->pins++; /* until the order that is missing has been queued */
	retire(g, block, home);
	return home;
}

/* A marker, or a synchronisation, that got in before the missing order was queued does not stand for
 * that: the block is freed once more behind it. */
static void
unpin(struct soma_backend *g, struct block *block, uint32_t home, const struct strays *strays)
{
	pthread_mutex_lock(&g->lock);
	if (strays->followed) {
		block->freed.tick = clocks_op(&g->clocks, home).tick;
		block_list_remove(&g->lanes[home]->retired, block);
		block_list_push(&g->lanes[home]->retired, block);
	}
	block->strayed = strays->missed;
	block->pins--;
	pthread_mutex_unlock(&g->lock);
}

enum soma_status
guard_free(struct soma_backend *g, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	struct report report = { 0 };
	struct strays strays = { 0 };

	if (ptr == 0)
		return SOMA_STATUS_OK;
	if (guard_is_idle(g))
		return free_idle(g, ptr, size, inner_stream(stream));
	enum soma_status status = guard_refuse_capturing(g, inner_stream(stream));
	if (status != SOMA_STATUS_OK)
		return status;
	uint32_t stack = STACKS_HERE(&g->stacks);
	pthread_mutex_lock(&g->lock);
	struct block *block = blocks_find(&g->blocks, ptr);
	struct clock_access freed = clocks_op(&g->clocks, lane_of(stream));
	freed.stack = stack;
	freed.thread = guard_thread();
	report.now = freed;
	if (!may_free(g, block, ptr, size, &report)) {
		pthread_mutex_unlock(&g->lock);
		return refuse(g, &report);
	}
	bool unordered = check_order(g, block, freed.lane, &freed, &report);
	uint32_t home = end_block(g, block, &freed, &strays);
	pthread_mutex_unlock(&g->lock);
	lane_anchor_op(g, stream);
	follow_all_strays(g, block, home, inner_stream(stream), &strays);
	unpin(g, block, home, &strays);
	if (unordered) {
		report.warning = suspect_is_over(g, &report);
		report_emit(g, &report);
	}
	settle_after(g, home);
	return SOMA_STATUS_OK;
}

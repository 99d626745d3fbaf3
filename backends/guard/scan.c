/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at all blocks, on demand and at shutdown.  Blocks are pinned in batches and
 * looked at under no lock; a pinned one is not settled or evicted meanwhile, and nobody
 * waits for it: a report's listener may call any op.
 */
#include "backends/guard/guard.h"

#define BATCH MEMORY_SIFT_MAX

/* Under the lock.  Whether the fills that dress the block are done: else its redzones are nothing yet. */
static bool
is_dressed(const struct soma_backend *g, const struct block *block)
{
	const struct clock_access *alloc = &block->uses.alloc;

	return g->direct || alloc->lane == CLOCKS_HOST ||
	       alloc->tick <= g->clocks.lanes[CLOCKS_HOST].now.tick[alloc->lane] ||
	       (alloc->lane < g->lane_room && g->lanes[alloc->lane] != NULL &&
		alloc->tick <= g->lanes[alloc->lane]->filled_tick);
}

/* Under the lock.  Live blocks, and freed ones that lie in their list; not the damaged. */
static bool
wanted(const struct soma_backend *g, const struct block *block, uint64_t before)
{
	if (!is_dressed(g, block))
		return false;
	if (block->busy || block->damaged || block->generation >= before)
		return false;
	if (block->range != 0 && !block->resident)
		return false;
	return block->state == BLOCK_LIVE || block->state == BLOCK_RETIRED ||
	       block->state == BLOCK_QUARANTINED;
}

/* Under the lock: pins up to BATCH blocks from `at` on; `at` becomes the one to go on with,
 * pinned too, so that it is still there then (a tombstone might not be). */
static uint32_t
pin(const struct soma_backend *g, struct block **at, uint64_t before, struct block **batch)
{
	uint32_t count = 0;

	for (; *at != NULL; *at = (*at)->newer) {
		if (!wanted(g, *at, before))
			continue;
		(*at)->pins++;
		if (count == BATCH)
			break;
		batch[count++] = *at;
	}
	return count;
}

static bool
look(struct soma_backend *g, struct block *block, bool clean, const char *found_by)
{
	struct report report = { .found_by = found_by };
	enum memory_verdict verdict = clean ? MEMORY_CLEAN : memory_check(g, block, &report.damage);

	if (verdict == MEMORY_UNKNOWN)
		return false;
	if (verdict == MEMORY_CLEAN) {
		pthread_mutex_lock(&g->lock);
		block->clean_seq = g->clocks.seq;
		pthread_mutex_unlock(&g->lock);
		return false;
	}
	report.kind = verdict == MEMORY_BODY     ? REPORT_WRITE_AFTER_FREE
		      : verdict == MEMORY_BEFORE ? REPORT_OOB_BEFORE
						 : REPORT_OOB_AFTER;
	return quarantine_accuse(g, block, &report);
}

/* All at once as far as the inner backend can. */
static uint64_t
look_at_batch(struct soma_backend *g, struct block **batch, uint32_t count, const char *found_by)
{
	bool clean[BATCH];
	uint64_t damaged = 0;

	memory_sift(g, (const struct block *const *)batch, count, clean);
	for (uint32_t i = 0; i < count; i++)
		damaged += look(g, batch[i], clean[i], found_by);
	return damaged;
}

uint64_t
scan_all(struct soma_backend *g, const char *found_by, uint64_t before)
{
	struct block *batch[BATCH], *at;
	uint64_t damaged = 0;

	pthread_mutex_lock(&g->lock);
	at = g->blocks.oldest;
	uint32_t count = pin(g, &at, before, batch);
	while (count > 0) {
		pthread_mutex_unlock(&g->lock);
		damaged += look_at_batch(g, batch, count, found_by);
		pthread_mutex_lock(&g->lock);
		for (uint32_t i = 0; i < count; i++)
			batch[i]->pins--;
		if (at != NULL)
			at->pins--;
		count = pin(g, &at, before, batch);
	}
	pthread_mutex_unlock(&g->lock);
	lane_settle(g, CLOCKS_HOST, false); /* what was freed meanwhile */
	return damaged;
}

/* The guard's stream waits for the lane, if that can be followed: a stream in a capture cannot, nor another
 * thread's own.  False: it was not. */
static bool
follow_fills(struct soma_backend *g, uint32_t number, uint64_t *tick)
{
	pthread_mutex_lock(&g->lock);
	*tick = g->clocks.lanes[number].now.tick[number];
	bool there = number < g->lane_room && g->lanes[number] != NULL;
	pthread_mutex_unlock(&g->lock);
	return there && lane_follow(g, number, NULL);
}

/* At most BATCH of them. */
static enum soma_status
wait_for_lanes(struct soma_backend *g, uint32_t from, uint32_t to)
{
	uint64_t tick[BATCH];
	bool followed[BATCH];

	for (uint32_t i = from; i < to; i++)
		followed[i - from] = follow_fills(g, i, &tick[i - from]);
	enum soma_status status = g->ops->stream_synchronize(g->inner, g->own);
	pthread_mutex_lock(&g->lock);
	for (uint32_t i = from; i < to && status == SOMA_STATUS_OK; i++)
		if (followed[i - from])
			g->lanes[i]->filled_tick = tick[i - from];
	pthread_mutex_unlock(&g->lock);
	return status;
}

/* In memory that is reached by copies, what dresses a block is queued on its stream. */
static enum soma_status
wait_for_fills(struct soma_backend *g)
{
	enum soma_status status = SOMA_STATUS_OK;

	if (g->direct || !g->streams)
		return SOMA_STATUS_OK;
	pthread_mutex_lock(&g->lock);
	uint32_t count = g->clocks.count;
	pthread_mutex_unlock(&g->lock);
	for (uint32_t i = 1; i < count && status == SOMA_STATUS_OK; i += BATCH)
		status = wait_for_lanes(g, i, count < i + BATCH ? count : i + BATCH);
	return status;
}

enum soma_status
guard_scan(struct soma_backend *g, uint64_t *damaged)
{
	if (guard_is_idle(g)) {
		*damaged = 0;
		return SOMA_STATUS_OK;
	}
	pthread_mutex_lock(&g->lock);
	uint64_t before = g->blocks.generation + 1;
	pthread_mutex_unlock(&g->lock);
	enum soma_status status = wait_for_fills(g);
	if (status != SOMA_STATUS_OK)
		return status;
	*damaged = scan_all(g, "scan on demand", before);
	return SOMA_STATUS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at all blocks, on demand and at shutdown.  Blocks are pinned in batches and
 * looked at under no lock; a pinned one is not settled or evicted meanwhile, and nobody
 * waits for it: a report's listener may call any op.
 */
#include "backends/guard/guard.h"

#define BATCH MEMORY_SIFT_MAX

/* Under the lock.  Live blocks, and freed ones that lie in their list; not the damaged. */
static bool
wanted(const struct block *block, uint64_t before)
{
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
pin(struct block **at, uint64_t before, struct block **batch)
{
	uint32_t count = 0;

	for (; *at != NULL; *at = (*at)->newer) {
		if (!wanted(*at, before))
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
	uint32_t count = pin(&at, before, batch);
	while (count > 0) {
		pthread_mutex_unlock(&g->lock);
		damaged += look_at_batch(g, batch, count, found_by);
		pthread_mutex_lock(&g->lock);
		for (uint32_t i = 0; i < count; i++)
			batch[i]->pins--;
		if (at != NULL)
			at->pins--;
		count = pin(&at, before, batch);
	}
	pthread_mutex_unlock(&g->lock);
	lane_settle(g, CLOCKS_HOST, false); /* what was freed meanwhile */
	return damaged;
}

/* In memory that is reached by copies, what dresses a block is queued on its stream. */
static enum soma_status
wait_for_fills(struct soma_backend *g)
{
	if (g->direct || !g->streams)
		return SOMA_STATUS_OK;
	pthread_mutex_lock(&g->lock);
	uint32_t count = g->clocks.count;
	pthread_mutex_unlock(&g->lock);
	for (uint32_t i = 1; i < count; i++)
		lane_follow(g, i, NULL);
	return g->ops->stream_synchronize(g->inner, g->own);
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to a block after its free: looked at and poisoned, kept back, looked
 * at again, given to the inner backend.  Damaged ones are condemned: kept for ever.
 *
 * A block in no list belongs to the thread that took it out.  Memory is looked at and the
 * inner backend called under no lock.
 */
#include "backends/guard/guard.h"

static enum report_kind
kind_of(enum memory_verdict verdict)
{
	switch (verdict) {
	case MEMORY_BODY:
		return REPORT_WRITE_AFTER_FREE;
	case MEMORY_BEFORE:
		return REPORT_OOB_BEFORE;
	default:
		return REPORT_OOB_AFTER;
	}
}

bool
quarantine_accuse(struct soma_backend *g, struct block *block, struct report *report)
{
	pthread_mutex_lock(&g->lock);
	bool new = !block->damaged;
	block->damaged = true;
	if (new)
		report_about(g, report, block);
	pthread_mutex_unlock(&g->lock);
	if (new)
		report_emit(g, report);
	return new;
}

static void
condemn(struct soma_backend *g, struct block *block)
{
	pthread_mutex_lock(&g->lock);
	block->state = BLOCK_CONDEMNED;
	block->busy = false;
	block_list_push(&g->condemned, block);
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

/* Whether the block may go on; else it was condemned (or, without an answer, kept). */
static bool
passes(struct soma_backend *g, struct block *block, const char *found_by)
{
	struct report report = { .found_by = found_by };
	enum memory_verdict verdict = MEMORY_CLEAN;

	if (!block->damaged && (block->range == 0 || block->resident))
		verdict = memory_check(g, block, &report.damage);
	if (verdict == MEMORY_CLEAN && !block->damaged) {
		pthread_mutex_lock(&g->lock);
		block->clean_seq = g->clocks.seq;
		pthread_mutex_unlock(&g->lock);
		return true;
	}
	if (verdict == MEMORY_UNKNOWN)
		return false;
	report.kind = kind_of(verdict);
	if (!block->damaged)
		quarantine_accuse(g, block, &report);
	condemn(g, block);
	return false;
}

static void
keep_back(struct soma_backend *g, struct block *block)
{
	pthread_mutex_lock(&g->lock);
	block->state = BLOCK_QUARANTINED;
	block->busy = false;
	block_list_push(&g->quarantine, block);
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

/* Under the lock. */
static void
forget(struct soma_backend *g, struct block *block)
{
	blocks_remove(&g->blocks, block);
	blocks_give(&g->blocks, block);
}

static void
bury(struct soma_backend *g, struct block *block)
{
	pthread_mutex_lock(&g->lock);
	if (block->range != 0)
		mapped_slot_give(g, block);
	if (block->orphaned) {
		blocks_give(&g->blocks, block);
		pthread_mutex_unlock(&g->lock);
		return;
	}
	block->state = BLOCK_TOMBSTONE;
	block->busy = false;
	block_list_push(&g->tombstones, block);
	while (g->tombstones.count > g->options.tombstones) {
		struct block *oldest = g->tombstones.head;
		block_list_remove(&g->tombstones, oldest);
		forget(g, oldest);
	}
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

static void
tell_released(struct soma_backend *g, const struct block *block)
{
	if (g->host->released != NULL)
		g->host->released(g->host->context, block->ptr, block->size);
}

/* Of a block that is busy: a scan that passes it over reads the flags beside this one, in one word with it. */
static void
set_flag(struct soma_backend *g, bool *flag, bool value)
{
	pthread_mutex_lock(&g->lock);
	*flag = value;
	pthread_mutex_unlock(&g->lock);
}

static bool
vacate(struct soma_backend *g, struct block *block)
{
	if (!block->resident)
		return true;
	if (!mapped_vacate(g, block))
		return false;
	set_flag(g, &block->resident, false);
	tell_released(g, block);
	return true;
}

/* The address may be given out again before this returns, by the inner backend: whoever gets it waits
 * in alloc.c until the block is no longer evicting. */
static bool
give_back(struct soma_backend *g, struct block *block)
{
	pthread_mutex_lock(&g->lock);
	block->state = BLOCK_EVICTING;
	block->evictor = guard_thread();
	pthread_mutex_unlock(&g->lock);
	if (block->range != 0) {
		if (!vacate(g, block) || !mapped_release(g, block))
			return false;
	} else {
		if (g->ops->free(g->inner, block->outer, block->outer_size, NULL) != SOMA_STATUS_OK)
			return false;
		tell_released(g, block);
	}
	bury(g, block);
	return true;
}

/* Where poison is queued it is waited for: a write that comes later must not be covered by poison that comes
 * later still.  It cannot go before the look, which one wait would be enough for: it ends in the redzone's
 * first word. */
static void
poison(struct soma_backend *g, struct block *block)
{
	bool poisoned = memory_poison(g, block) == SOMA_STATUS_OK;

	if (poisoned && !g->direct && g->own != NULL)
		(void)g->ops->stream_synchronize(g->inner, g->own);
	set_flag(g, &block->poisoned, poisoned);
}

void
quarantine_admit(struct soma_backend *g, struct block *block)
{
	if (!passes(g, block, "scan at the free")) {
		if (block->state != BLOCK_CONDEMNED)
			keep_back(g, block);
		return;
	}
	if (block->outer_size > g->options.quarantine_max_block && block->range == 0) {
		if (!give_back(g, block))
			keep_back(g, block);
		return;
	}
	if (block->range != 0)
		vacate(g, block);
	else if (g->options.poison_free)
		poison(g, block);
	keep_back(g, block);
}

/* False: it could not be given back. */
static bool
evict(struct soma_backend *g, struct block *block)
{
	if (!passes(g, block, "scan at the eviction"))
		return block->state == BLOCK_CONDEMNED;
	return give_back(g, block);
}

/* Under the lock: the oldest that nobody looks at. */
static struct block *
oldest(struct soma_backend *g)
{
	struct block *block = g->quarantine.head;

	while (block != NULL && block->pins > 0)
		block = block->next;
	return block;
}

static bool
exceeds(const struct block_list *list, const struct quarantine_bounds *bounds)
{
	return list->bytes > bounds->bytes || list->requested > bounds->requested ||
	       list->count > bounds->blocks;
}

uint64_t
quarantine_drain(struct soma_backend *g, struct quarantine_bounds keep)
{
	struct block *block;
	uint64_t gone = 0;
	bool more = true;

	pthread_mutex_lock(&g->lock);
	while (more && exceeds(&g->quarantine, &keep) && (block = oldest(g)) != NULL) {
		block_list_remove(&g->quarantine, block);
		block->busy = true;
		pthread_mutex_unlock(&g->lock);
		more = evict(g, block);
		gone += more;
		if (!more)
			keep_back(g, block);
		pthread_mutex_lock(&g->lock);
	}
	pthread_mutex_unlock(&g->lock);
	return gone;
}

void
quarantine_trim(struct soma_backend *g)
{
	struct quarantine_bounds most = { g->options.quarantine_bytes, UINT64_MAX,
					  g->options.quarantine_blocks };

	pthread_mutex_lock(&g->lock);
	bool over = exceeds(&g->quarantine, &most);
	pthread_mutex_unlock(&g->lock);
	if (over)
		quarantine_drain(g, (struct quarantine_bounds){ most.bytes - most.bytes / 10, UINT64_MAX,
								most.blocks - most.blocks / 10 });
}

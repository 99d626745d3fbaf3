/* SPDX-License-Identifier: Apache-2.0 */
/* Leaks: the blocks that are live when the guard is closed or the process exits, from the guard's
 * own records alone; no op of the inner backend is called. */
#include "backends/guard/guard.h"

/* Under the lock: the next live block, pinned: other threads may still run at exit. */
static struct block *
next_live(struct block *block)
{
	while (block != NULL && block->state != BLOCK_LIVE)
		block = block->newer;
	if (block != NULL)
		block->pins++;
	return block;
}

void
leak_report(struct soma_backend *g)
{
	pthread_mutex_lock(&g->lock);
	struct block *block = next_live(g->blocks.oldest);
	while (block != NULL) {
		struct report report = { .kind = REPORT_LEAK, .found_by = "shutdown" };
		report_about(g, &report, block);
		pthread_mutex_unlock(&g->lock);
		report_emit(g, &report);
		pthread_mutex_lock(&g->lock);
		block->pins--;
		block = next_live(block->newer);
	}
	pthread_mutex_unlock(&g->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Leaks: the blocks that are live when the guard is closed or the process exits, from the guard's
 * own records alone; no op of the inner backend is called. */
#include "backends/guard/guard.h"

void
leak_report(struct soma_backend *g)
{
	struct block *block = NULL;

	for (bool first = true;; first = false) {
		struct report report = { .kind = REPORT_LEAK, .found_by = "shutdown" };
		pthread_mutex_lock(&g->lock);
		block = first ? g->blocks.oldest : block->newer;
		while (block != NULL && block->state != BLOCK_LIVE)
			block = block->newer;
		if (block != NULL) {
			block->pins++; /* other threads may still run at exit */
			report_about(g, &report, block);
		}
		pthread_mutex_unlock(&g->lock);
		if (block == NULL)
			return;
		report_emit(g, &report);
		pthread_mutex_lock(&g->lock);
		block->pins--;
		pthread_cond_broadcast(&g->changed);
		pthread_mutex_unlock(&g->lock);
	}
}

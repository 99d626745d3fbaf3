/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library refuses before it comes here: frees and uses of blocks that are not there any more.
 * Each refused call is one report.
 */
#include "backends/guard/guard.h"

/* Under the lock.  The record, if it is still kept; NULL: it is not, or not for certain.  Generations
 * are an address's and a thread's own: without an address there may be several. */
static const struct block *
find_record(const struct soma_backend *g, uint64_t ptr, uint64_t generation)
{
	const struct block *found = NULL;

	if (ptr != 0) {
		found = blocks_find(&g->blocks, ptr);
		return found != NULL && found->given_generation == generation ? found : NULL;
	}
	for (const struct block *block = g->blocks.oldest; block != NULL; block = block->newer) {
		if (block->given_generation != generation || block->state == BLOCK_LIVE)
			continue;
		if (found != NULL)
			return NULL;
		found = block;
	}
	return found;
}

static void
name_fault(struct report *report, bool free, bool by_address, uint64_t generation)
{
	if (generation == 0)
		report->kind = free ? REPORT_FOREIGN_FREE : REPORT_FOREIGN_USE;
	else
		report->kind = free ? REPORT_DOUBLE_FREE : REPORT_USE_AFTER_FREE;
	if (by_address || generation == 0)
		report->found_by = free ? "free" : "declared use";
	else
		report->found_by = free ? "free; the block by its generation alone"
					: "declared use; the block by its generation alone";
}

void
guard_stale(struct soma_backend *g, uint64_t ptr, uint64_t generation, enum soma_backend_access access,
	    struct soma_backend_stream *stream)
{
	const struct block *block = NULL;
	struct report report = { 0 };

	if (guard_is_idle(g))
		return;
	uint32_t stack = STACKS_HERE(&g->stacks);
	pthread_mutex_lock(&g->lock);
	report.now = clocks_op(&g->clocks, lane_of(stream));
	report.now.stack = stack;
	report.now.thread = guard_thread();
	report.now.kind = access;
	if (generation != 0)
		block = find_record(g, ptr, generation);
	name_fault(&report, access == SOMA_BACKEND_ACCESS_NONE, ptr != 0 || block == NULL, generation);
	if (block != NULL)
		report_about(g, &report, block);
	else
		report_about_gone(g, &report, ptr, generation);
	pthread_mutex_unlock(&g->lock);
	lane_anchor_op(g, stream);
	report_emit(g, &report);
}

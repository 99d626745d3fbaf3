/* SPDX-License-Identifier: Apache-2.0 */
/* Declared uses of blocks, and what the library tells of them for reports. */
#include <inttypes.h>
#include <stdio.h>

#include "backends/guard/guard.h"

static enum report_kind
kind_of(enum use_fault fault)
{
	switch (fault) {
	case USE_BEFORE_READY:
		return REPORT_USE_BEFORE_READY;
	case USE_UNINITIALISED:
		return REPORT_UNINITIALISED_READ;
	default:
		return REPORT_STREAM_RACE;
	}
}

/* Under the lock.  A read of what nobody declared to have written is one of what was never written only if
 * that can be seen in memory, or cannot be looked at. */
static bool
excused(struct soma_backend *g, struct block *block, enum use_fault fault)
{
	if (fault != USE_UNINITIALISED)
		return g->options.race == GUARD_RACE_OFF;
	if (!block->unread)
		return true;
	block->unread = false;
	if (g->loose_write_seq > block->uses.alloc.seq)
		return true;
	return g->direct && !memory_is_fresh(g, block);
}

/* Under the lock.  False: the report says what is wrong. */
static bool
check_use(struct soma_backend *g, struct block *block, uint64_t ptr, struct clock_access *now,
	  struct report *report)
{
	report->found_by = "declared use";
	report->now = *now;
	if (block == NULL) {
		report->kind = REPORT_FOREIGN_USE;
		report_about_address(g, report, ptr);
		return false;
	}
	if (block->state != BLOCK_LIVE) {
		report->kind = REPORT_USE_AFTER_FREE;
		report_about(g, report, block);
		return false;
	}
	struct use_verdict verdict = uses_check(&block->uses, &g->clocks, now->lane, now->kind);
	if (verdict.fault == USE_FINE || excused(g, block, verdict.fault))
		return true;
	report->kind = kind_of(verdict.fault);
	report->first = verdict.first;
	report->first_is_alloc = verdict.first.seq == block->uses.alloc.seq;
	/* On a device nobody looked: a kernel may have written it without saying so. */
	report->warning = verdict.fault == USE_UNINITIALISED && !g->direct;
	report_about(g, report, block);
	return false;
}

/* With race=confirm: the earlier work is over, so this time nothing happened. */
static bool
was_over(struct soma_backend *g, const struct report *report)
{
	struct soma_backend_stream *stream;
	bool done = false;

	if (g->options.race != GUARD_RACE_CONFIRM ||
	    (report->kind != REPORT_STREAM_RACE && report->kind != REPORT_USE_BEFORE_READY))
		return false;
	if ((stream = lane_borrow(g, report->first.lane)) == NULL)
		return false;
	if (guard_is_capturing(g, stream) || g->ops->stream_query(g->inner, stream, &done) != SOMA_STATUS_OK)
		done = false;
	lane_return(g, report->first.lane);
	return done;
}

static enum soma_status
status_of(struct soma_backend *g, const struct report *report)
{
	enum soma_status status = SOMA_STATUS_STREAM_MISUSE;

	if (report->warning || report->kind == REPORT_UNINITIALISED_READ)
		return SOMA_STATUS_OK;
	if (report->kind == REPORT_FOREIGN_USE)
		status = SOMA_STATUS_INVALID_VALUE;
	else if (report->kind == REPORT_USE_AFTER_FREE)
		status = SOMA_STATUS_USE_AFTER_FREE;
	return guard_fail(g->host, status, "guard: %s of 0x%" PRIx64, report_kind_text(report->kind),
			  report->ptr);
}

/* A use that was found fault with and is let through all the same: the free has to wait for it too.  False
 * without memory; of a block that was freed meanwhile nothing is recorded. */
static bool
record_late(struct soma_backend *g, const struct report *report, const struct clock_access *now)
{
	bool room = true;

	pthread_mutex_lock(&g->lock);
	struct block *block = blocks_find(&g->blocks, report->block.ptr);
	if (block != NULL && block->state == BLOCK_LIVE && block->generation == report->block.generation) {
		room = uses_reserve(&block->uses, g->host);
		if (room)
			uses_record(&block->uses, &g->clocks, now);
	}
	pthread_mutex_unlock(&g->lock);
	return room;
}

enum soma_status
guard_use(struct soma_backend *g, uint64_t ptr, enum soma_backend_access access,
	  struct soma_backend_stream *stream)
{
	struct report report = { 0 };

	if (guard_is_idle(g) || access == SOMA_BACKEND_ACCESS_NONE)
		return SOMA_STATUS_OK;
	uint32_t stack = STACKS_HERE(&g->stacks);
	pthread_mutex_lock(&g->lock);
	struct block *block = blocks_find(&g->blocks, ptr);
	struct clock_access now = clocks_op(&g->clocks, lane_of(stream));
	now.stack = stack;
	now.thread = guard_thread();
	now.kind = access;
	bool room = block == NULL || uses_reserve(&block->uses, g->host);
	bool fine = room && check_use(g, block, ptr, &now, &report);
	bool soft = room && !fine && report.kind == REPORT_UNINITIALISED_READ;
	if (fine || soft)
		uses_record(&block->uses, &g->clocks, &now);
	pthread_mutex_unlock(&g->lock);
	lane_anchor_op(g, stream);
	if (!room)
		return guard_fail(g->host, SOMA_STATUS_OUT_OF_HOST_MEMORY, "guard: no memory for a use");
	if (fine)
		return SOMA_STATUS_OK;
	if (!soft)
		report.warning = was_over(g, &report);
	if (!soft && report.warning)
		room = record_late(g, &report, &now);
	report_emit(g, &report);
	if (!room)
		return guard_fail(g->host, SOMA_STATUS_OUT_OF_HOST_MEMORY, "guard: no memory for a use");
	return status_of(g, &report);
}

enum soma_status
guard_name(struct soma_backend *g, uint64_t ptr, uint64_t generation, const char *tag)
{
	if (guard_is_idle(g))
		return SOMA_STATUS_OK;
	pthread_mutex_lock(&g->lock);
	struct block *block = blocks_find(&g->blocks, ptr);
	bool live = block != NULL && block->state == BLOCK_LIVE;
	if (live) {
		block->given_generation = generation;
		snprintf(block->tag, sizeof block->tag, "%s", tag);
	}
	pthread_mutex_unlock(&g->lock);
	if (live)
		return SOMA_STATUS_OK;
	return guard_fail(g->host, SOMA_STATUS_INVALID_VALUE, "guard: 0x%" PRIx64 " is no live block", ptr);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's beginning: a record, memory with redzones from the inner backend (or a mapping of
 * its own), its place in the table.  Memory pressure: settle, drain the quarantine, try again.
 *
 * The inner backend is called under no lock; until the last step nobody else knows the block.
 */
#include <inttypes.h>

#include "backends/guard/guard.h"

static enum soma_status
check_arguments(struct soma_backend *g, uint64_t size, uint64_t alignment)
{
	if (size == 0)
		return guard_fail(g->host, SOMA_STATUS_INVALID_VALUE,
				  "guard: a size of at least 1 byte was expected, not 0");
	if ((alignment & (alignment - 1)) != 0)
		return guard_fail(g->host, SOMA_STATUS_INVALID_VALUE,
				  "guard: an alignment of %" PRIu64 " is no power of two", alignment);
	return SOMA_STATUS_OK;
}

static struct block *
take_record(struct soma_backend *g, uint64_t size)
{
	pthread_mutex_lock(&g->lock);
	struct block *block = blocks_take(&g->blocks);
	pthread_mutex_unlock(&g->lock);
	if (block != NULL) {
		block->size = size;
		block->fault_slot = FAULT_NO_SLOT;
	}
	return block;
}

static void
give_record(struct soma_backend *g, struct block *block)
{
	pthread_mutex_lock(&g->lock);
	blocks_give(&g->blocks, block);
	pthread_mutex_unlock(&g->lock);
}

/* Drains first what may be enough, then everything. */
static enum soma_status
alloc_inner(struct soma_backend *g, struct block *block, uint64_t alignment,
	    struct soma_backend_stream *stream)
{
	uint64_t bytes = block->outer_size;
	enum soma_status status = g->ops->alloc(g->inner, bytes, alignment, stream, &block->outer);

	for (int attempt = 0; attempt < 2 && status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY; attempt++) {
		lane_settle_all(g, true);
		pthread_mutex_lock(&g->lock);
		uint64_t held = g->quarantine.bytes;
		pthread_mutex_unlock(&g->lock);
		struct quarantine_bounds keep = { 0 };
		if (attempt == 0 && held > bytes)
			keep = (struct quarantine_bounds){ held - bytes, UINT64_MAX, UINT64_MAX };
		if (attempt == 1 && held == 0)
			break;
		quarantine_drain(g, keep);
		status = g->ops->alloc(g->inner, bytes, alignment, stream, &block->outer);
	}
	return status;
}

static enum soma_status
take_canaried(struct soma_backend *g, struct block *block, uint64_t alignment,
	      struct soma_backend_stream *stream)
{
	struct layout layout;

	if (!layout_of(&g->options, block->size, alignment, &layout))
		return guard_fail(g->host, SOMA_STATUS_OUT_OF_DEVICE_MEMORY,
				  "guard: %" PRIu64 " bytes and their redzones are more than 64 bits count",
				  block->size);
	block->outer_size = layout.outer;
	enum soma_status status = alloc_inner(g, block, alignment, stream);
	if (status == SOMA_STATUS_OK) {
		block->ptr = block->outer + layout.left;
		block->front = block->ptr - layout.zone;
	}
	return status;
}

/* Nobody knows the block yet. */
static void
undo(struct soma_backend *g, struct block *block, struct soma_backend_stream *stream)
{
	if (block->range != 0) {
		mapped_vacate(g, block);
		mapped_release(g, block);
	} else if (g->ops->free(g->inner, block->outer, block->outer_size, stream) != SOMA_STATUS_OK) {
		g->host->log(g->host->context, SOMA_BACKEND_LOG_ERROR,
			     "guard: the inner backend lost a block: it took no fill and no free");
	}
	give_record(g, block);
}

/* Under the lock: makes room at the address.  A record there is a tombstone, or a block whose memory is on
 * its way back; or the inner backend gives out what is still in use, and then the answer is false. */
static bool
shadow(struct soma_backend *g, const struct block *block, struct report *report)
{
	struct block *old;

	while ((old = blocks_find(&g->blocks, block->ptr)) != NULL) {
		if (old->state == BLOCK_EVICTING && old->evictor == guard_thread()) {
			/* This is host->released(), called for it, allocating. */
			blocks_remove(&g->blocks, old);
			old->orphaned = true;
		} else if (old->state == BLOCK_EVICTING) {
			pthread_cond_wait(&g->changed, &g->lock);
		} else if (old->state == BLOCK_TOMBSTONE) {
			block_list_remove(&g->tombstones, old);
			blocks_remove(&g->blocks, old);
			blocks_give(&g->blocks, old);
		} else {
			report->kind = REPORT_OVERLAP;
			report->found_by = "alloc";
			report_about(g, report, old);
			return false;
		}
	}
	return true;
}

static bool
publish(struct soma_backend *g, struct block *block, struct soma_backend_stream *stream, uint32_t stack,
	struct report *report)
{
	pthread_mutex_lock(&g->lock);
	bool free_address = shadow(g, block, report);
	if (free_address) {
		struct clock_access alloc = clocks_op(&g->clocks, lane_of(stream));
		alloc.stack = stack;
		alloc.thread = guard_thread();
		uses_init(&block->uses, &alloc);
		block->clean_seq = alloc.seq;
		block->unread = true;
		block->state = BLOCK_LIVE;
		blocks_insert(&g->blocks, block);
		g->live_count++;
		if (block->range != 0)
			mapped_slot_take(g, block);
	}
	pthread_mutex_unlock(&g->lock);
	return free_address;
}

/* Memory and redzones for the record; on failure nothing is left of either. */
static enum soma_status
furnish(struct soma_backend *g, struct block *block, uint64_t alignment, struct soma_backend_stream *inner)
{
	enum soma_status status = SOMA_STATUS_OK;

	if (g->mapped.on)
		fault_prepare_thread();
	if (!mapped_wants(g, block->size) || !mapped_alloc(g, block, alignment))
		status = take_canaried(g, block, alignment, inner);
	if (status != SOMA_STATUS_OK) {
		give_record(g, block);
		return status;
	}
	status = memory_dress(g, block, inner);
	if (status != SOMA_STATUS_OK)
		undo(g, block, inner);
	return status;
}

enum soma_status
guard_alloc(struct soma_backend *g, uint64_t size, uint64_t alignment, struct soma_backend_stream *stream,
	    uint64_t *ptr)
{
	struct report report = { 0 };

	if (guard_is_idle(g))
		return g->ops->alloc(g->inner, size, alignment, inner_stream(stream), ptr);
	enum soma_status status = check_arguments(g, size, alignment);
	if (status == SOMA_STATUS_OK)
		status = guard_refuse_capturing(g, inner_stream(stream));
	if (status != SOMA_STATUS_OK)
		return status;
	/* What is ready at once, for every stream, is the host's. */
	if (!g->ordered)
		stream = NULL;
	uint32_t stack = STACKS_HERE(&g->stacks);
	struct block *block = take_record(g, size);
	if (block == NULL)
		return guard_fail(g->host, SOMA_STATUS_OUT_OF_HOST_MEMORY, "guard: no memory for a record");
	status = furnish(g, block, alignment, inner_stream(stream));
	if (status != SOMA_STATUS_OK)
		return status;
	uint64_t address = block->ptr;
	if (!publish(g, block, stream, stack, &report)) {
		report_emit(g, &report);
		give_record(g, block);
		return guard_fail(g->host, SOMA_STATUS_DRIVER,
				  "guard: the inner backend gave out 0x%" PRIx64 ", which is in use",
				  address);
	}
	*ptr = address;
	return SOMA_STATUS_OK;
}

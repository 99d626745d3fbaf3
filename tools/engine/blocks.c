/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What allocations and frees of a trace do to the model.
 */
#include "tools/engine/blocks.h"

#include "tools/engine/autopsy.h"
#include "tools/engine/expandable.h"
#include "tools/engine/moment.h"
#include "tools/xalloc.h"

void
run_note_peak(struct run *run, uint64_t event, uint64_t stream)
{
	struct replay_result *result = run->result;
	uint64_t used;

	if (run->plan->options->trial)
		return;
	used = run_used(run);
	if (used <= result->peak_live_requested && event != REPLAY_AT_START)
		return;
	result->peak_live_requested = used;
	result->peak_event = event;
	result->peak_x = run->x;
	holders_mark_peak(&run->holders);
	if (event == run->plan->peak_event)
		moment_take(&run->streams, stream, run->padding, &result->at_peak);
	watch_tell(run, event == run->plan->peak_event ? WATCH_LOOK : WATCH_PEAK);
}

static struct run_block *
enter(struct run *run, uint64_t ptr, enum block_state state)
{
	struct run_block *block = table_add(&run->blocks, ptr);

	block->state = state;
	return block;
}

void
run_enter(struct run *run, uint64_t ptr, uint64_t model_ptr, uint64_t size, trace_name holder)
{
	struct run_block *block = enter(run, ptr, BLOCK_LIVE);

	block->key.tag = holder;
	block->ptr = model_ptr;
	block->size = size;
	if (!run->plan->options->trial)
		holders_add(&run->holders, holder, size, 1);
}

static void
compare_address(struct run *run, uint64_t event, uint64_t recorded, uint64_t got)
{
	struct replay_parity *parity = &run->result->parity;

	parity->recorded++;
	if (got == recorded) {
		parity->reproduced++;
	} else if (!parity->differs) {
		if (run->plan->start_unknown && !run->plan->expandable &&
		    !source_holds(&run->source, recorded))
			run->begins_in_midrun = true;
		parity->differs = true;
		parity->event = event;
		parity->recorded_ptr = recorded;
		parity->got_ptr = got;
	}
}

static uint64_t
rounded(const struct run *run, uint64_t size)
{
	const struct replay_options *options = run->plan->options;

	return options->round != NULL ? options->round(options->round_context, size) : size;
}

static void
note_failure(struct run *run, uint64_t event, uint64_t size, uint64_t stream)
{
	struct replay_result *result = run->result;
	struct autopsy *autopsy = run->plan->options->autopsy;

	result->counts.failed++;
	if (result->oom.happened)
		return;
	result->oom.event = event;
	if (run->plan->options->trial) {
		result->oom.happened = true;
		return;
	}
	result->oom.x = run->x;
	moment_verdict(&run->streams, stream, rounded(run, size), run->plan->options->capacity, &result->oom);
	result->oom.requested = size;
	if (autopsy != NULL && !autopsy->taken)
		autopsy_take(autopsy, run, event, size, stream);
	result->oom.live_requested -= run->padding;
	watch_tell(run, WATCH_FAILED);
}

void
run_no_room(struct run *run, uint64_t event, uint64_t ptr, uint64_t size, uint64_t stream)
{
	enter(run, ptr, BLOCK_FAILED);
	note_failure(run, event, size, stream);
}

/* Whether the capacity made the allocator give memory back. */
static uint64_t
given_back(const struct run *run)
{
	const struct expandable *expandable = run->streams.expandable;

	return expandable != NULL ? expandable_stats(expandable)->released_for_room : run->source.released;
}

static enum soma_status
alloc_in_model(struct run *run, uint64_t size, uint64_t stream, uint64_t *ptr)
{
	struct soma_model_alloc alloc = { 0 };
	enum soma_status status;

	if (run->streams.expandable != NULL)
		return expandable_alloc(run->streams.expandable, size, stream, ptr);
	status = soma_model_alloc(run->model, size, stream, &alloc);
	*ptr = alloc.ptr;
	return status;
}

enum soma_status
run_alloc(struct run *run, uint64_t event, uint64_t ptr, uint64_t size, uint64_t stream, trace_name holder)
{
	uint64_t got = 0, released = given_back(run), wanted = rounded(run, size);
	enum soma_status status = alloc_in_model(run, wanted, stream, &got);

	if (given_back(run) != released)
		run->result->parity.disturbed = true;
	if (run->result->parity.applies && event != REPLAY_AT_START &&
	    (status == SOMA_STATUS_OK || status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY))
		compare_address(run, event, ptr, got);
	if (status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY) {
		run_no_room(run, event, ptr, size, stream);
		return SOMA_STATUS_OK;
	}
	if (status == SOMA_STATUS_OK) {
		run->padding += wanted - size;
		run_enter(run, ptr, got, size, holder);
		watch_enter(run, got, size, stream, holder);
	}
	return status;
}

/* Under `free`, a stream is never behind its completed frees. */
static enum soma_status
advance_to_end(struct run *run, uint64_t stream)
{
	struct soma_model_position position;
	enum soma_status status = soma_model_position(run->model, stream, &position);

	if (status != SOMA_STATUS_OK)
		return status;
	return soma_model_advance(run->model, stream, position.submitted);
}

static enum soma_status
free_in_model(struct run *run, struct run_block *block, uint64_t stream, bool deferred)
{
	const struct replay_options *options = run->plan->options;
	bool rounds = options->round != NULL && !options->trial;
	uint64_t before = rounds ? streams_used(&run->streams) : 0;
	enum soma_status status = SOMA_STATUS_OK;

	if (run->streams.expandable != NULL)
		expandable_free(run->streams.expandable, block->ptr, deferred);
	else
		status = soma_model_free(run->model, block->ptr, stream);
	if (status == SOMA_STATUS_OK && rounds)
		run->padding -= before - streams_used(&run->streams) - block->size;
	if (status == SOMA_STATUS_OK && !options->trial) {
		holders_add(&run->holders, block->key.tag, block->size, -1);
		watch_leave(run, block->ptr);
	}
	return status;
}

enum soma_status
run_free(struct run *run, struct run_block *block, uint64_t stream)
{
	enum soma_status status = SOMA_STATUS_OK;

	if (block->state == BLOCK_LIVE) {
		status = free_in_model(run, block, stream, false);
		if (status == SOMA_STATUS_OK && run->streams.expandable == NULL &&
		    run->plan->options->complete == REPLAY_COMPLETE_FREE)
			status = advance_to_end(run, stream);
	}
	table_remove(&run->blocks, block);
	return status;
}

/* The block stays where it is until its completion is recorded. */
static enum soma_status
free_expandable(struct run *run, struct run_block *block)
{
	uint64_t ptr = block->ptr;
	enum soma_status status = free_in_model(run, block, 0, true);

	block->state = BLOCK_KEPT;
	block->ptr = ptr;
	return status;
}

/*
 * A free that completes later.  A stream that may reuse its own frees at once must
 * not see this one before: with segments per stream it is freed on a stream made
 * for it, which nobody allocates from.
 */
enum soma_status
run_free_later(struct run *run, uint64_t ptr, uint64_t stream)
{
	struct run_block *block = table_find(&run->blocks, ptr);
	bool apart = run->plan->policy->per_stream && run->streams.expandable == NULL;
	struct soma_model_position position;
	enum soma_status status = SOMA_STATUS_OK;

	if (block->state == BLOCK_FAILED) {
		block->state = BLOCK_PASSED;
		return SOMA_STATUS_OK;
	}
	if (apart)
		status = soma_model_stream_create(run->model, SOMA_STREAM_NON_BLOCKING, &stream);
	if (status == SOMA_STATUS_OK && run->streams.expandable != NULL)
		return free_expandable(run, block);
	if (status == SOMA_STATUS_OK)
		status = free_in_model(run, block, stream, true);
	if (status == SOMA_STATUS_OK)
		status = soma_model_position(run->model, stream, &position);
	if (status != SOMA_STATUS_OK)
		return status;
	block->state = apart ? BLOCK_APART : BLOCK_PENDING;
	block->stream = stream;
	block->seq = position.submitted;
	return SOMA_STATUS_OK;
}

static enum soma_status
end_stream(struct run *run, uint64_t stream)
{
	enum soma_status status = advance_to_end(run, stream);

	return status == SOMA_STATUS_OK ? soma_model_stream_destroy(run->model, stream) : status;
}

/* A stream that is gone has executed everything. */
static enum soma_status
advance_to(struct run *run, uint64_t stream, uint64_t seq)
{
	enum soma_status status = soma_model_advance(run->model, stream, seq);

	return status == SOMA_STATUS_INVALID_VALUE ? SOMA_STATUS_OK : status;
}

enum soma_status
run_complete(struct run *run, const struct run_block *block)
{
	enum replay_complete mode = run->plan->options->complete;

	if (mode == REPLAY_COMPLETE_FREE && block->state == BLOCK_KEPT)
		expandable_complete(run->streams.expandable, block->ptr);
	if (mode == REPLAY_COMPLETE_FREE && block->state == BLOCK_APART)
		return end_stream(run, block->stream);
	if (mode == REPLAY_COMPLETE_FREE && block->state == BLOCK_PENDING)
		return advance_to(run, block->stream, block->seq);
	if (mode == REPLAY_COMPLETE_SYNC && (block->state == BLOCK_APART || block->state == BLOCK_KEPT)) {
		run->executed =
			xgrow(run->executed, &run->executed_room, run->executed_count, sizeof *run->executed);
		run->executed[run->executed_count++] =
			block->state == BLOCK_KEPT ? block->ptr : block->stream;
	}
	return SOMA_STATUS_OK;
}

enum soma_status
run_end_executed(struct run *run)
{
	enum soma_status status = SOMA_STATUS_OK;

	while (run->streams.expandable != NULL && run->executed_count > 0)
		expandable_complete(run->streams.expandable, run->executed[--run->executed_count]);
	while (status == SOMA_STATUS_OK && run->executed_count > 0)
		status = end_stream(run, run->executed[--run->executed_count]);
	return status;
}

/* Frees what was never entered. */
static enum soma_status
give_back(struct run *run, uint64_t ptr, uint64_t stream)
{
	enum soma_status status;

	if (run->streams.expandable != NULL) {
		expandable_free(run->streams.expandable, ptr, false);
		return SOMA_STATUS_OK;
	}
	status = soma_model_free(run->model, ptr, stream);
	if (status == SOMA_STATUS_OK && run->plan->options->complete == REPLAY_COMPLETE_FREE)
		status = advance_to_end(run, stream);
	return status;
}

enum soma_status
run_try(struct run *run, const struct trace_event *event, uint64_t stream)
{
	uint64_t ptr = 0;
	enum soma_status status = alloc_in_model(run, rounded(run, event->size), stream, &ptr);

	run->result->recorded_oom.tried = true;
	run->result->parity.disturbed = true;
	if (status == SOMA_STATUS_OK)
		return give_back(run, ptr, stream);
	if (status != SOMA_STATUS_OUT_OF_DEVICE_MEMORY)
		return status;
	note_failure(run, event->index, event->size, stream);
	return SOMA_STATUS_OK;
}

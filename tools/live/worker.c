/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps as calls of a resource.  What the trace frees on another stream than the block's is first used there,
 * since a free is in the order of the block's own stream.
 */
#include "tools/live/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/resource/open.h"
#include "tools/xalloc.h"

#define NO_STREAM UINT64_MAX
/* Beside others the outstanding bytes are looked at now and then: they belong to all. */
#define SAMPLE_EVERY 64u

void
worker_init(struct worker *w)
{
	const struct program *program = w->program;

	w->streams = xcalloc(program->stream_count, sizeof *w->streams);
	w->markers = xcalloc(program->marker_count, sizeof *w->markers);
	w->blocks = xcalloc(program->block_count, sizeof *w->blocks);
	for (uint32_t i = program->legacy; i < program->stream_count; i++)
		w->streams[i] = NO_STREAM;
}

void
worker_fini(struct worker *w)
{
	free(w->streams);
	free(w->markers);
	free(w->blocks);
}

static bool
has_streams(const struct worker *w)
{
	return (w->stack->backend->capabilities & SOMA_BACKEND_STREAMS) != 0;
}

/* ---- streams and events -------------------------------------------------------- */

static enum soma_status
create(struct worker *w, const struct step *step)
{
	w->streams[step->stream] = 0;
	if (!has_streams(w))
		return SOMA_STATUS_OK;
	return soma_resource_stream_create(w->stack->top, step->flags, &w->streams[step->stream]);
}

static enum soma_status
destroy(struct worker *w, uint32_t number)
{
	uint64_t stream = w->streams[number];

	if (stream == NO_STREAM || stream == 0)
		return SOMA_STATUS_OK;
	w->streams[number] = NO_STREAM;
	return soma_resource_stream_destroy(w->stack->top, stream);
}

/* A stream that is gone runs to its end by itself. */
static enum soma_status
synchronize(struct worker *w, uint64_t stream)
{
	if (stream == NO_STREAM)
		return SOMA_STATUS_OK;
	uint64_t before = times_now();
	enum soma_status status = soma_resource_stream_synchronize(w->stack->top, stream);
	times_add(&w->sync, times_now() - before);
	return status;
}

enum soma_status
worker_settle(struct worker *w)
{
	enum soma_status status = SOMA_STATUS_OK;

	if (w->stack == NULL)
		return w->twin != NULL ? soma_model_synchronize_all(w->twin->model) : status;
	for (uint32_t i = 0; status == SOMA_STATUS_OK && i < w->program->stream_count; i++)
		status = synchronize(w, w->streams[i]);
	if (status == SOMA_STATUS_OK && w->twin != NULL)
		status = soma_model_synchronize_all(w->twin->model);
	return status;
}

static enum soma_status
synchronize_step(struct worker *w, const struct step *step)
{
	enum soma_status status = SOMA_STATUS_OK;

	w->counts.synchronisations++;
	if (w->complete == REPLAY_COMPLETE_NEVER)
		return status;
	if (step->op == STEP_SYNC)
		return synchronize(w, w->streams[step->stream]);
	for (uint32_t i = 0; status == SOMA_STATUS_OK && i < w->program->stream_count; i++)
		status = synchronize(w, w->streams[i]);
	return status;
}

static enum soma_status
record(struct worker *w, const struct step *step)
{
	const struct soma__backend *backend = w->stack->backend;
	struct soma_backend_event **marker = &w->markers[step->marker];
	enum soma_status status = SOMA_STATUS_OK;

	if (!has_streams(w))
		return status;
	w->counts.records++;
	if (*marker == NULL)
		status = backend->ops->event_create(backend->self, 0, marker);
	if (status != SOMA_STATUS_OK)
		return status;
	return backend->ops->event_record(
		backend->self, *marker, soma__resource_stream(w->stack->top, w->streams[step->stream]));
}

static enum soma_status
wait(struct worker *w, const struct step *step)
{
	const struct soma__backend *backend = w->stack->backend;

	if (!has_streams(w) || w->markers[step->marker] == NULL)
		return SOMA_STATUS_OK;
	w->counts.waits++;
	return backend->ops->event_wait(backend->self, w->markers[step->marker],
					soma__resource_stream(w->stack->top, w->streams[step->stream]));
}

/* ---- blocks ----------------------------------------------------------------------- */

void
live_note_refusal(struct live_refusal *refusal, uint64_t event, enum soma_status status)
{
	const struct soma_error *error = soma_error_last();

	if (refusal->happened)
		return;
	*refusal = (struct live_refusal){
		.happened = true,
		.status = status,
		.event = event,
		.requested = error->requested,
		.current = error->current,
		.remaining = error->remaining,
		.limit = error->limit,
	};
	snprintf(refusal->text, sizeof refusal->text, "%s", error->text);
}

static void
note_live(struct worker *w, uint64_t bytes)
{
	w->live_bytes += bytes;
	w->live_blocks++;
	if (w->live_bytes > w->peak_live) {
		w->peak_live = w->live_bytes;
		w->at_peak = true;
	}
	if (!w->alone && w->counts.allocs % SAMPLE_EVERY != 0)
		return;
	uint64_t outstanding = soma_resource_bytes_outstanding(w->stack->top);
	if (outstanding > w->peak_outstanding)
		w->peak_outstanding = outstanding;
}

static enum soma_status
alloc(struct worker *w, const struct step *step)
{
	struct live_block *block = &w->blocks[step->block];
	const struct soma_request request = { .size = sizeof request,
					      .bytes = step->size,
					      .stream = w->streams[step->stream],
					      .tag = step->tag };

	block->block = (struct soma_block){ .size = sizeof block->block };
	w->counts.allocs++;
	uint64_t before = times_now();
	enum soma_status status = soma_resource_materialize(w->stack->top, &request, &block->block);
	times_add(&w->alloc, times_now() - before);
	if (status == SOMA_STATUS_OUT_OF_BUDGET || status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY) {
		w->counts.refused++;
		live_note_refusal(&w->refusal, step->event, status);
		return SOMA_STATUS_OK;
	}
	if (status != SOMA_STATUS_OK)
		return status;
	block->mark = (uint8_t)(block->block.id.generation * 31 + w->number * 7 + 1);
	note_live(w, step->size);
	return stack_touch(w->stack, &block->block, block->mark);
}

/* What a guard objects to it has reported, and goes on. */
static enum soma_status
use_on(struct worker *w, const struct live_block *block, uint64_t stream, unsigned access)
{
	struct soma_use use = { .size = sizeof use };

	w->counts.uses++;
	enum soma_status status = soma_resource_prepare_use(w->stack->top, block->block.id, stream,
							    (enum soma_access)access, &use);
	if (status == SOMA_STATUS_OK)
		status = soma_resource_finish_use(w->stack->top, &use, 1);
	if (status != SOMA_STATUS_STREAM_MISUSE && status != SOMA_STATUS_USE_AFTER_FREE)
		return status;
	w->counts.misuses++;
	return SOMA_STATUS_OK;
}

static enum soma_status
use(struct worker *w, const struct step *step)
{
	const struct live_block *block = &w->blocks[step->block];

	if (block->block.state != SOMA_BLOCK_LIVE || !w->stack->tracks)
		return SOMA_STATUS_OK;
	return use_on(w, block, w->streams[step->stream], step->access);
}

static enum soma_status
end_block(struct worker *w, struct live_block *block)
{
	w->counts.damaged += !stack_is_marked(w->stack, &block->block, block->mark);
	w->counts.frees++;
	uint64_t before = times_now();
	enum soma_status status = soma_resource_deallocate(w->stack->top, &block->block);
	times_add(&w->free, times_now() - before);
	if (status != SOMA_STATUS_OK)
		return status;
	block->block.state = SOMA_BLOCK_RETIRED;
	w->live_bytes -= block->block.bytes;
	w->live_blocks--;
	return status;
}

/* Streams that run only when told are told; the others run. */
static enum soma_status
complete(struct worker *w, const struct live_block *block)
{
	if (w->complete != REPLAY_COMPLETE_FREE || !w->stack->logical || block->block.ptr == 0)
		return SOMA_STATUS_OK;
	if (soma__resource_stream(w->stack->top, block->block.stream) == NULL)
		return SOMA_STATUS_OK; /* destroyed: it runs to its end by itself */
	return soma_resource_stream_synchronize(w->stack->top, block->block.stream);
}

static void
compare_at_peak(struct worker *w, uint64_t event)
{
	struct soma_model_stats stats;

	if (!w->at_peak || !w->alone || w->twin == NULL)
		return;
	soma_model_stats(w->twin->model, &stats, sizeof stats);
	const struct live_expected expected = { stats.used, stats.live_count, false };
	live_compare(w->stack, &expected, false, event, &w->difference);
	w->at_peak = false;
	w->compared++;
}

static enum soma_status
free_step(struct worker *w, const struct step *step)
{
	struct live_block *block = &w->blocks[step->block];
	uint64_t stream = w->streams[step->stream];
	enum soma_status status = SOMA_STATUS_OK;

	if (block->block.state != SOMA_BLOCK_LIVE)
		return status;
	compare_at_peak(w, step->event);
	if (stream != block->block.stream && w->stack->tracks && stream != NO_STREAM)
		status = use_on(w, block, stream, SOMA_ACCESS_READ_WRITE);
	if (status == SOMA_STATUS_OK)
		status = end_block(w, block);
	return status == SOMA_STATUS_OK && !step->later ? complete(w, block) : status;
}

/* ---- the way ------------------------------------------------------------------------- */

static enum soma_status
run_step(struct worker *w, const struct step *step)
{
	switch ((enum step_op)step->op) {
	case STEP_ALLOC:
		return alloc(w, step);
	case STEP_FREE:
		return free_step(w, step);
	case STEP_COMPLETED:
		return complete(w, &w->blocks[step->block]);
	case STEP_USE:
		return use(w, step);
	case STEP_RECORD:
		return record(w, step);
	case STEP_WAIT:
		return wait(w, step);
	case STEP_SYNC:
	case STEP_SYNC_ALL:
		return synchronize_step(w, step);
	case STEP_TRIM:
		return soma_resource_trim_to(w->stack->top, step->size);
	case STEP_CREATE:
		return create(w, step);
	case STEP_DESTROY:
		return destroy(w, step->stream);
	}
	return SOMA_STATUS_OK;
}

static enum soma_status
run_both(struct worker *w, const struct step *step)
{
	enum soma_status status = w->stack != NULL ? run_step(w, step) : SOMA_STATUS_OK;
	bool absent = w->stack != NULL && step->op == STEP_ALLOC &&
		      w->blocks[step->block].block.state != SOMA_BLOCK_LIVE;

	if (status != SOMA_STATUS_OK || w->twin == NULL || absent)
		return status;
	if (w->stack == NULL) {
		w->counts.allocs += step->op == STEP_ALLOC;
		w->counts.frees += step->op == STEP_FREE;
	}
	return twin_step(w->twin, step);
}

enum soma_status
worker_run(struct worker *w)
{
	const struct program *program = w->program;

	w->status = SOMA_STATUS_OK;
	for (size_t i = 0; i < program->step_count; i++) {
		const struct step *step = &program->steps[i];
		w->status = run_both(w, step);
		if (w->status != SOMA_STATUS_OK) {
			snprintf(w->error, sizeof w->error, "event %" PRIu64 ": %s", step->event,
				 soma_error_last()->text);
			return w->status;
		}
	}
	w->counts.steps += program->step_count;
	if (program->step_count > 0 && w->stack != NULL)
		compare_at_peak(w, program->steps[program->step_count - 1].event);
	return w->status;
}

static enum soma_status
clear_stack(struct worker *w)
{
	const struct soma__backend *backend = w->stack->backend;
	enum soma_status status = SOMA_STATUS_OK;

	for (uint32_t i = 0; status == SOMA_STATUS_OK && i < w->program->block_count; i++)
		if (w->blocks[i].block.state == SOMA_BLOCK_LIVE)
			status = end_block(w, &w->blocks[i]);
	if (status == SOMA_STATUS_OK)
		status = worker_settle(w);
	for (uint32_t i = 0; i < w->program->marker_count; i++) {
		if (w->markers[i] != NULL)
			backend->ops->event_destroy(backend->self, w->markers[i]);
		w->markers[i] = NULL;
	}
	for (uint32_t i = 0; status == SOMA_STATUS_OK && i < w->program->stream_count; i++)
		status = destroy(w, i);
	return status;
}

enum soma_status
worker_clear(struct worker *w)
{
	enum soma_status status = w->stack != NULL ? clear_stack(w) : SOMA_STATUS_OK;

	if (status == SOMA_STATUS_OK && w->twin != NULL)
		status = twin_clear(w->twin);
	if (status != SOMA_STATUS_OK)
		snprintf(w->error, sizeof w->error, "after the last event: %s", soma_error_last()->text);
	return w->status = status;
}

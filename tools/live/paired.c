/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps as calls of a pool.  Blocks are not written: what is compared is how many bytes there are.  A free on
 * another stream than the block's own first waits for that one, as programs do.
 */
#include "tools/live/paired.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/xalloc.h"

#define NO_STREAM UINT64_MAX

struct paired {
	const struct program *program;
	const struct live_options *options;
	struct live_result *result;
	struct stack *stack;
	struct soma_pool *pool;
	uint64_t *streams; /* by the program's number */
	struct paired_marker {
		bool recorded;
		uint64_t stream, seq;
	} * markers;
	struct paired_block {
		struct soma_allocation *allocation; /* NULL: it is not there */
		uint64_t free_stream;
	} * blocks;
};

/* ---- noticing ------------------------------------------------------------------------- */

static void
notice_one(struct live_divergence *known, const struct soma_twin_divergence *now, const struct step *step)
{
	if (known->what.happened || !now->happened)
		return;
	known->what = *now;
	known->at_end = step == NULL;
	known->event = step != NULL ? step->event : 0;
	known->text = xstrdup(now->text);
	known->trace = xstrdup(now->trace);
	known->what.text = known->text;
	known->what.trace = known->trace;
}

/* step NULL: after the last. */
static enum soma_status
notice(struct paired *p, const struct step *step)
{
	struct live_twin *twin = &p->result->twin;

	twin->report.size = sizeof twin->report;
	enum soma_status status = soma_pool_twin(p->pool, &twin->report);
	if (status != SOMA_STATUS_OK)
		return status;
	notice_one(&twin->used, &twin->report.used_divergence, step);
	notice_one(&twin->reserved, &twin->report.reserved_divergence, step);
	return SOMA_STATUS_OK;
}

/* ---- streams and events ------------------------------------------------------------------ */

static enum soma_status
synchronize(struct paired *p, uint64_t stream)
{
	if (stream == NO_STREAM)
		return SOMA_STATUS_OK;
	uint64_t before = times_now();
	enum soma_status status = soma_pool_synchronize(p->pool, stream);
	times_add(&p->result->sync_times, times_now() - before);
	return status;
}

static enum soma_status
synchronize_all(struct paired *p)
{
	enum soma_status status = SOMA_STATUS_OK;

	for (uint32_t i = 0; status == SOMA_STATUS_OK && i < p->program->stream_count; i++)
		status = synchronize(p, p->streams[i]);
	return status;
}

static enum soma_status
synchronize_step(struct paired *p, const struct step *step)
{
	p->result->synchronisations++;
	if (p->options->complete == REPLAY_COMPLETE_NEVER)
		return SOMA_STATUS_OK;
	return step->op == STEP_SYNC ? synchronize(p, p->streams[step->stream]) : synchronize_all(p);
}

static enum soma_status
record(struct paired *p, const struct step *step)
{
	struct paired_marker *marker = &p->markers[step->marker];

	p->result->records++;
	marker->recorded = true;
	marker->stream = p->streams[step->stream];
	return soma_pool_record_event(p->pool, marker->stream, &marker->seq);
}

static enum soma_status
wait(struct paired *p, const struct step *step)
{
	const struct paired_marker *marker = &p->markers[step->marker];

	if (!marker->recorded)
		return SOMA_STATUS_OK;
	p->result->waits++;
	return soma_pool_wait_event(p->pool, p->streams[step->stream], marker->stream, marker->seq);
}

static enum soma_status
destroy(struct paired *p, uint32_t number)
{
	uint64_t stream = p->streams[number];

	if (stream == NO_STREAM || stream == 0)
		return SOMA_STATUS_OK;
	p->streams[number] = NO_STREAM;
	return soma_resource_stream_destroy(p->stack->top, stream);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static enum soma_status
alloc(struct paired *p, const struct step *step)
{
	struct paired_block *block = &p->blocks[step->block];

	*block = (struct paired_block){ 0 };
	p->result->allocs++;
	uint64_t before = times_now();
	enum soma_status status =
		soma_pool_alloc(p->pool, step->size, p->streams[step->stream], &block->allocation);
	times_add(&p->result->alloc_times, times_now() - before);
	if (status == SOMA_STATUS_OUT_OF_BUDGET || status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY) {
		p->result->refused++;
		live_note_refusal(&p->result->refusal, step->event, status);
		return SOMA_STATUS_OK;
	}
	uint64_t outstanding = soma_resource_bytes_outstanding(p->stack->top);
	if (outstanding > p->result->peak_outstanding)
		p->result->peak_outstanding = outstanding;
	return status;
}

/* The block's stream may be gone; then all its work is, or is waited for by the free. */
static enum soma_status
order_behind(struct paired *p, uint64_t own, uint64_t stream)
{
	uint64_t seq;

	if (own == stream)
		return SOMA_STATUS_OK;
	enum soma_status status = soma_pool_record_event(p->pool, own, &seq);
	if (status == SOMA_STATUS_STREAM_MISUSE)
		return SOMA_STATUS_OK;
	return status == SOMA_STATUS_OK ? soma_pool_wait_event(p->pool, stream, own, seq) : status;
}

static enum soma_status
end_block(struct paired *p, struct paired_block *block, uint64_t stream)
{
	struct soma_allocation *allocation = block->allocation;
	enum soma_status status = SOMA_STATUS_OK;

	if (stream != NO_STREAM)
		status = order_behind(p, soma_allocation_stream_id(allocation), stream);
	if (status != SOMA_STATUS_OK)
		return status;
	p->result->frees++;
	uint64_t before = times_now();
	status = stream != NO_STREAM ? soma_pool_free(allocation, stream) : soma_pool_free_now(allocation);
	times_add(&p->result->free_times, times_now() - before);
	if (status != SOMA_STATUS_OK)
		return status;
	block->allocation = NULL;
	block->free_stream = stream;
	return soma_allocation_release(allocation);
}

/* What the trace says has executed, the host sees, so that both pools know of it. */
static enum soma_status
complete(struct paired *p, const struct paired_block *block)
{
	if (p->options->complete != REPLAY_COMPLETE_FREE || block->allocation != NULL)
		return SOMA_STATUS_OK;
	for (uint32_t i = 0; i < p->program->stream_count; i++)
		if (p->streams[i] == block->free_stream)
			return synchronize(p, block->free_stream);
	return SOMA_STATUS_OK;
}

static enum soma_status
free_step(struct paired *p, const struct step *step)
{
	struct paired_block *block = &p->blocks[step->block];

	if (block->allocation == NULL)
		return SOMA_STATUS_OK;
	enum soma_status status = end_block(p, block, p->streams[step->stream]);
	return status == SOMA_STATUS_OK && !step->later ? complete(p, block) : status;
}

/* ---- the way ---------------------------------------------------------------------------------- */

static enum soma_status
run_step(struct paired *p, const struct step *step)
{
	switch ((enum step_op)step->op) {
	case STEP_ALLOC:
		return alloc(p, step);
	case STEP_FREE:
		return free_step(p, step);
	case STEP_COMPLETED:
		return complete(p, &p->blocks[step->block]);
	case STEP_USE:
		return SOMA_STATUS_OK;
	case STEP_RECORD:
		return record(p, step);
	case STEP_WAIT:
		return wait(p, step);
	case STEP_SYNC:
	case STEP_SYNC_ALL:
		return synchronize_step(p, step);
	case STEP_TRIM:
		return soma_pool_trim(p->pool, step->size);
	case STEP_CREATE:
		return soma_resource_stream_create(p->stack->top, step->flags, &p->streams[step->stream]);
	case STEP_DESTROY:
		return destroy(p, step->stream);
	}
	return SOMA_STATUS_OK;
}

static enum soma_status
run_steps(struct paired *p, struct trace_error *error)
{
	const struct program *program = p->program;

	for (size_t i = 0; i < program->step_count; i++) {
		const struct step *step = &program->steps[i];
		enum soma_status status = run_step(p, step);
		if (status == SOMA_STATUS_OK)
			status = notice(p, step);
		if (status != SOMA_STATUS_OK) {
			snprintf(error->text, sizeof error->text, "event %" PRIu64 ": %s", step->event,
				 soma_error_last()->text);
			return status;
		}
	}
	p->result->steps = program->step_count;
	return SOMA_STATUS_OK;
}

/* With what the trace leaves live, and with nothing. */
static enum soma_status
settle(struct paired *p)
{
	struct soma_pool_stats stats = { .size = sizeof stats };
	enum soma_status status = synchronize_all(p);

	if (status == SOMA_STATUS_OK)
		status = soma_pool_stats(p->pool, &stats);
	p->result->peak_live = stats.used_high;
	p->result->end_live_bytes = stats.used;
	p->result->end_live_blocks = stats.live_count;
	for (uint32_t i = 0; status == SOMA_STATUS_OK && i < p->program->block_count; i++)
		if (p->blocks[i].allocation != NULL) {
			status = soma_allocation_release(p->blocks[i].allocation);
			p->blocks[i].allocation = NULL;
		}
	if (status == SOMA_STATUS_OK)
		status = synchronize_all(p);
	if (status == SOMA_STATUS_OK)
		status = soma_pool_trim(p->pool, 0);
	return status == SOMA_STATUS_OK ? notice(p, NULL) : status;
}

static enum soma_status
open_pool(struct paired *p)
{
	const struct live_options *options = p->options;
	const struct soma_pool_config config = {
		.size = sizeof config,
		.device = soma_resource_device(p->stack->top),
		.policy = options->policy,
		.twin = true,
		.twin_used_unit = options->twin_used_unit,
		.twin_reserved_tolerance = options->twin_tolerance,
	};
	enum soma_status status = soma_pool_create(&config, p->stack->top, &p->pool);

	if (status == SOMA_STATUS_OK)
		status = soma_pool_set_attribute(p->pool, SOMA_POOL_RELEASE_THRESHOLD,
						 options->release_threshold);
	return status;
}

static void
init(struct paired *p)
{
	const struct program *program = p->program;

	p->streams = xcalloc(program->stream_count, sizeof *p->streams);
	p->markers = xcalloc(program->marker_count, sizeof *p->markers);
	p->blocks = xcalloc(program->block_count, sizeof *p->blocks);
	for (uint32_t i = program->legacy; i < program->stream_count; i++)
		p->streams[i] = NO_STREAM;
}

/* After a failure there are still blocks. */
static void
fini(struct paired *p)
{
	for (uint32_t i = 0; i < p->program->block_count; i++)
		(void)soma_allocation_release(p->blocks[i].allocation);
	(void)soma_pool_destroy(p->pool);
	for (uint32_t i = 0; i < p->program->stream_count; i++)
		(void)destroy(p, i);
	free(p->streams);
	free(p->markers);
	free(p->blocks);
}

static enum soma_status
say(struct trace_error *error, const char *when, enum soma_status status)
{
	if (status != SOMA_STATUS_OK)
		snprintf(error->text, sizeof error->text, "%s%s", when, soma_error_last()->text);
	return status;
}

enum soma_status
paired_run(struct stack *stack, const struct program *program, const struct live_options *options,
	   struct live_result *result, struct trace_error *error)
{
	struct paired p = { .program = program, .options = options, .result = result, .stack = stack };
	enum soma_status status;

	init(&p);
	status = say(error, "", open_pool(&p));
	uint64_t before = times_now();
	if (status == SOMA_STATUS_OK)
		status = run_steps(&p, error);
	result->wall_ns = times_now() - before;
	if (status == SOMA_STATUS_OK)
		status = say(error, "after the last event: ", settle(&p));
	fini(&p);
	if (status != SOMA_STATUS_OK)
		live_result_fini(result);
	return status;
}

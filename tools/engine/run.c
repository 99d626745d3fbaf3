/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace events as calls of a soma_model: one small function for each kind of event.
 *
 * What the trace says wrongly (a free of a block that is not live, a wait for an
 * event that was never recorded) is counted and passed over; only a model without
 * memory for its records ends a replay.
 */
#include "tools/engine/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/engine/moment.h"
#include "tools/xalloc.h"

#define PROGRESS_EVERY 65536

enum block_state {
	BLOCK_LIVE,
	BLOCK_FAILED,  /* the trace has it, the model had no room */
	BLOCK_PENDING, /* freed; its completion is still to come */
	BLOCK_APART,   /* the same, freed on a stream made for that */
};

struct run_block {
	struct table_key key; /* the trace's address; the tag is the holder */
	enum block_state state;
	union {
		uint64_t ptr;    /* LIVE: the model's */
		uint64_t stream; /* PENDING, APART: the one that frees it, ... */
	};
	union {
		uint64_t size; /* LIVE: requested */
		uint64_t seq;  /* PENDING, APART: ... and its position after the free */
	};
};

enum soma_status
run_fail(struct run *run, uint64_t event, enum soma_status status)
{
	if (event == REPLAY_AT_START)
		snprintf(run->error->text, sizeof run->error->text, "before the first event: %s",
			 soma_error_last()->text);
	else
		snprintf(run->error->text, sizeof run->error->text, "event %" PRIu64 ": %s", event,
			 soma_error_last()->text);
	return status;
}

/* ---- peaks --------------------------------------------------------------- */

void
run_note_peak(struct run *run, uint64_t event, uint64_t stream)
{
	struct replay_result *result = run->result;
	uint64_t used = soma_model_used(run->model);

	if (used <= result->peak_live_requested && event != REPLAY_AT_START)
		return;
	result->peak_live_requested = used;
	result->peak_event = event;
	result->peak_x = run->x;
	holders_mark_peak(&run->holders);
	if (event == run->plan->peak_event)
		moment_take(run->model, stream, &result->at_peak);
}

/* ---- blocks -------------------------------------------------------------- */

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
		parity->differs = true;
		parity->event = event;
		parity->recorded_ptr = recorded;
		parity->got_ptr = got;
	}
}

void
run_no_room(struct run *run, uint64_t event, uint64_t ptr, uint64_t size, uint64_t stream)
{
	struct replay_result *result = run->result;

	enter(run, ptr, BLOCK_FAILED);
	result->counts.failed++;
	if (result->oom.happened)
		return;
	result->oom.event = event;
	result->oom.x = run->x;
	moment_verdict(run->model, stream, size, run->plan->options->capacity, &result->oom);
}

enum soma_status
run_alloc(struct run *run, uint64_t event, uint64_t ptr, uint64_t size, uint64_t stream, trace_name holder)
{
	struct soma_model_alloc alloc = { 0 };
	uint64_t released = run->source.released;
	enum soma_status status = soma_model_alloc(run->model, size, stream, &alloc);

	if (run->source.released != released)
		run->result->parity.disturbed = true;
	if (run->result->parity.applies && event != REPLAY_AT_START &&
	    (status == SOMA_STATUS_OK || status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY))
		compare_address(run, event, ptr, alloc.ptr);
	if (status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY) {
		run_no_room(run, event, ptr, size, stream);
		return SOMA_STATUS_OK;
	}
	if (status == SOMA_STATUS_OK)
		run_enter(run, ptr, alloc.ptr, size, holder);
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
free_in_model(struct run *run, struct run_block *block, uint64_t stream)
{
	enum soma_status status = soma_model_free(run->model, block->ptr, stream);

	if (status == SOMA_STATUS_OK)
		holders_add(&run->holders, block->key.tag, block->size, -1);
	return status;
}

static enum soma_status
free_now(struct run *run, struct run_block *block, uint64_t stream)
{
	enum soma_status status = SOMA_STATUS_OK;

	if (block->state == BLOCK_LIVE) {
		status = free_in_model(run, block, stream);
		if (status == SOMA_STATUS_OK && run->plan->options->complete == REPLAY_COMPLETE_FREE)
			status = advance_to_end(run, stream);
	}
	table_remove(&run->blocks, block);
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
	bool apart = run->plan->policy->per_stream;
	struct soma_model_position position;
	enum soma_status status = SOMA_STATUS_OK;

	if (block->state == BLOCK_FAILED)
		return SOMA_STATUS_OK;
	if (apart)
		status = soma_model_stream_create(run->model, SOMA_STREAM_NON_BLOCKING, &stream);
	if (status == SOMA_STATUS_OK)
		status = free_in_model(run, block, stream);
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

static enum soma_status
complete(struct run *run, const struct run_block *block)
{
	enum replay_complete mode = run->plan->options->complete;

	if (mode == REPLAY_COMPLETE_FREE && block->state == BLOCK_APART)
		return end_stream(run, block->stream);
	if (mode == REPLAY_COMPLETE_FREE && block->state == BLOCK_PENDING)
		return advance_to(run, block->stream, block->seq);
	if (mode == REPLAY_COMPLETE_SYNC && block->state == BLOCK_APART) {
		run->executed = xgrow(run->executed, &run->executed_room, run->executed_count,
				      sizeof *run->executed);
		run->executed[run->executed_count++] = block->stream;
	}
	return SOMA_STATUS_OK;
}

static enum soma_status
end_executed(struct run *run)
{
	enum soma_status status = SOMA_STATUS_OK;

	while (status == SOMA_STATUS_OK && run->executed_count > 0)
		status = end_stream(run, run->executed[--run->executed_count]);
	return status;
}

/* ---- events -------------------------------------------------------------- */

static enum soma_status
on_alloc(struct run *run, const struct trace_event *event)
{
	struct run_block *block;
	uint64_t stream;
	enum soma_status status;

	run->result->counts.allocs++;
	if (event->size == 0 || event->ptr == 0) {
		run->result->counts.ignored++;
		return SOMA_STATUS_OK;
	}
	status = streams_get(&run->streams, event->stream, streams_group(&run->streams, event->ptr), &stream);
	block = table_find(&run->blocks, event->ptr);
	if (status == SOMA_STATUS_OK && block != NULL) {
		run->result->counts.overwritten++;
		status = free_now(run, block, stream);
	}
	if (status == SOMA_STATUS_OK)
		status = run_alloc(run, event->index, event->ptr, event->size, stream, event->holder);
	if (status == SOMA_STATUS_OK)
		run_note_peak(run, event->index, stream);
	return status;
}

static void
note_unknown_free(struct run *run, const struct trace_event *event)
{
	struct replay_result *result = run->result;

	if (result->counts.unknown_frees++ > 0)
		return;
	result->first_unknown_event = event->index;
	result->first_unknown_ptr = event->ptr;
}

static enum soma_status
on_free(struct run *run, const struct trace_event *event)
{
	struct run_block *block = table_find(&run->blocks, event->ptr);
	uint64_t stream;
	enum soma_status status;

	run->result->counts.frees++;
	if (event->ptr == 0)
		return SOMA_STATUS_OK;
	if (block == NULL || block->state == BLOCK_PENDING || block->state == BLOCK_APART) {
		note_unknown_free(run, event);
		return SOMA_STATUS_OK;
	}
	status = streams_get(&run->streams, event->stream, streams_group(&run->streams, event->ptr), &stream);
	if (status != SOMA_STATUS_OK)
		return status;
	return event->deferred ? run_free_later(run, event->ptr, stream) : free_now(run, block, stream);
}

/* A completion without a free before it is that of an unknown free: counted there. */
static enum soma_status
on_free_completed(struct run *run, const struct trace_event *event)
{
	struct run_block *block = table_find(&run->blocks, event->ptr);
	enum soma_status status;

	if (block == NULL || block->state == BLOCK_LIVE)
		return SOMA_STATUS_OK;
	status = complete(run, block);
	table_remove(&run->blocks, block);
	return status;
}

static enum soma_status
on_alloc_failed(struct run *run, const struct trace_event *event)
{
	(void)event;
	run->result->counts.recorded_failed++;
	return SOMA_STATUS_OK;
}

static enum soma_status
on_record(struct run *run, const struct trace_event *event)
{
	return streams_record(&run->streams, event->stream, event->ptr);
}

static enum soma_status
on_wait(struct run *run, const struct trace_event *event)
{
	enum soma_status status = streams_wait(&run->streams, event->stream, event->ptr);

	if (status != SOMA_STATUS_NOT_FOUND)
		return status;
	run->result->counts.unknown_events++;
	return SOMA_STATUS_OK;
}

static bool
has_detail(const struct run *run, const struct trace_event *event, const char *text)
{
	return strcmp(trace_name_text(run->reader, event->detail), text) == 0;
}

static enum soma_status
on_sync(struct run *run, const struct trace_event *event)
{
	enum soma_status status;

	if (run->plan->options->complete == REPLAY_COMPLETE_NEVER)
		return SOMA_STATUS_OK;
	status = end_executed(run);
	if (status != SOMA_STATUS_OK)
		return status;
	return has_detail(run, event, "device") ? soma_model_synchronize_all(run->model)
						: streams_synchronize(&run->streams, event->stream);
}

static enum soma_status
on_trim(struct run *run, const struct trace_event *event)
{
	return soma_model_trim_to(run->model, event->size);
}

static enum soma_status
on_stream_create(struct run *run, const struct trace_event *event)
{
	return streams_create(&run->streams, event->stream, has_detail(run, event, "blocking"));
}

static enum soma_status
on_stream_destroy(struct run *run, const struct trace_event *event)
{
	return streams_destroy(&run->streams, event->stream);
}

static enum soma_status
on_segment_alloc(struct run *run, const struct trace_event *event)
{
	uint64_t stream;
	enum soma_status status;

	if (!run->plan->follow_segments)
		return SOMA_STATUS_OK;
	run->result->parity.segments_recorded++;
	status = streams_get(&run->streams, event->stream, streams_group(&run->streams, event->ptr), &stream);
	if (status == SOMA_STATUS_OK)
		source_offer(&run->source, stream, event->ptr, event->size);
	return status;
}

/* Where the replay differs from the recording, the model may not have the segment,
 * or not wholly free. */
static enum soma_status
on_segment_free(struct run *run, const struct trace_event *event)
{
	enum soma_status status;

	if (!run->plan->follow_segments)
		return SOMA_STATUS_OK;
	source_withdraw(&run->source, event->ptr);
	status = soma_model_release_segment(run->model, event->ptr);
	if (status != SOMA_STATUS_NOT_FOUND && status != SOMA_STATUS_INVALID_VALUE)
		return status;
	run->result->counts.unreleased++;
	return SOMA_STATUS_OK;
}

typedef enum soma_status event_function(struct run *run, const struct trace_event *event);

static event_function *const functions[TRACE_OP_COUNT] = {
	[TRACE_ALLOC] = on_alloc,
	[TRACE_FREE] = on_free,
	[TRACE_FREE_COMPLETED] = on_free_completed,
	[TRACE_ALLOC_FAILED] = on_alloc_failed,
	[TRACE_RECORD] = on_record,
	[TRACE_WAIT] = on_wait,
	[TRACE_SYNC] = on_sync,
	[TRACE_TRIM] = on_trim,
	[TRACE_STREAM_CREATE] = on_stream_create,
	[TRACE_STREAM_DESTROY] = on_stream_destroy,
	[TRACE_SEGMENT_ALLOC] = on_segment_alloc,
	[TRACE_SEGMENT_FREE] = on_segment_free,
	[TRACE_OOM] = on_alloc_failed,
};

/* ---- the pass ------------------------------------------------------------ */

static enum soma_status
replay_event(struct run *run, const struct trace_event *event)
{
	struct series *series = &run->result->series;
	enum soma_status status = SOMA_STATUS_OK;

	run->x = series->by_time ? event->time_ns : run->ordinal;
	run->ordinal++;
	series_reach(series, run->x, &run->holders);
	if (functions[event->op] != NULL)
		status = functions[event->op](run, event);
	if (status != SOMA_STATUS_OK)
		return run_fail(run, event->index, status);
	series_put(series, soma_model_used(run->model), soma_model_reserved(run->model), &run->holders);
	return SOMA_STATUS_OK;
}

static enum soma_status
replay_events(struct run *run)
{
	const struct replay_options *options = run->plan->options;
	struct trace_event event;
	enum trace_result got;
	enum soma_status status = SOMA_STATUS_OK;

	for (uint64_t n = 1; (got = trace_next(run->reader, &event, run->error)) == TRACE_OK; n++) {
		if (event.device == run->plan->device->device)
			status = replay_event(run, &event);
		if (status != SOMA_STATUS_OK)
			return status;
		if (n % PROGRESS_EVERY == 0 && options->progress != NULL)
			options->progress(options->context, 0.5 + 0.5 * trace_progress(run->reader));
	}
	return got == TRACE_ERROR ? SOMA_STATUS_PARSE : SOMA_STATUS_OK;
}

static void
sum_up(struct run *run)
{
	struct replay_result *result = run->result;
	struct soma_model_stats stats;

	soma_model_stats(run->model, &stats);
	result->peak_reserved = stats.reserved_high;
	result->counts.events = run->ordinal;
	result->counts.streams = run->streams.seen;
	result->counts.segments = run->plan->policy->segments == SOMA_SEGMENTS_RANGE ? stats.segment_count
										     : stats.segments_acquired;
	result->counts.live_blocks = stats.live_count;
	result->counts.live_bytes = stats.used;
	result->parity.segments_reproduced = run->source.reproduced;
	result->holders = holders_rank_at_peak(&run->holders, &result->holder_count);
	series_finish(&result->series, &run->holders);
}

static enum soma_status
make_model(struct run *run)
{
	const struct replay_options *options = run->plan->options;
	struct soma_segment_source functions_of_source = source_functions(&run->source);
	struct soma_model_limits limits = {
		.size = sizeof limits,
		.max_pool_size = options->capacity,
		.release_threshold = options->release_threshold,
		.policy = run->plan->policy,
		.segments = run->plan->follow_segments ? &functions_of_source : NULL,
	};
	enum soma_status status = soma_model_create(&limits, &run->model);

	return status == SOMA_STATUS_OK ? status : run_fail(run, REPLAY_AT_START, status);
}

static void
init_series(struct run *run)
{
	const struct survey_device *device = run->plan->device;
	struct series *series = &run->result->series;
	bool has_times = !device->time_goes_back && device->last_time > device->first_time;
	bool by_time = has_times && !run->plan->options->by_event;
	uint64_t first = by_time ? device->first_time : 0, last = by_time ? device->last_time : device->events;

	series_init(series, run->plan->options->columns, by_time, first, last);
	memcpy(series->layers, run->plan->layers, sizeof series->layers);
	series->layer_count = run->plan->layer_count;
	run->x = first;
}

static void
fini(struct run *run)
{
	streams_fini(&run->streams);
	table_fini(&run->blocks);
	holders_fini(&run->holders);
	free(run->executed);
	soma_model_destroy(run->model);
	source_fini(&run->source);
}

enum soma_status
run_trace(const struct run_plan *plan, struct trace_reader *reader, struct replay_result *result,
	  struct trace_error *error)
{
	const struct survey_device *device = plan->device;
	struct run run = { .plan = plan, .reader = reader, .error = error, .result = result };
	enum soma_status status;

	*result = (struct replay_result){ .parity.applies = plan->follow_segments && device->allocs > 0 };
	source_init(&run.source, device->lowest, device->highest);
	table_init(&run.blocks, sizeof(struct run_block));
	init_series(&run);
	status = make_model(&run);
	if (status == SOMA_STATUS_OK) {
		streams_init(&run.streams, run.model, device->has_blocking, device->device,
			     trace_snapshot(reader));
		status = run_begin(&run);
	}
	if (status == SOMA_STATUS_OK) {
		series_reach(&result->series, run.x, &run.holders);
		series_put(&result->series, soma_model_used(run.model), soma_model_reserved(run.model),
			   &run.holders);
		status = replay_events(&run);
	}
	if (status == SOMA_STATUS_OK)
		sum_up(&run);
	fini(&run);
	return status;
}

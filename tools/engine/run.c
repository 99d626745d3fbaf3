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

#include "tools/engine/autopsy.h"
#include "tools/engine/blocks.h"
#include "tools/engine/expandable.h"

#define PROGRESS_EVERY 65536

enum soma_status
run_fail(struct run *run, uint64_t event, enum soma_status status)
{
	if (event == REPLAY_AT_START)
		snprintf(run->error->text, sizeof run->error->text, "before the first event: %s",
			 soma_error_last()->text);
	else
		snprintf(run->error->text, sizeof run->error->text, "event %" PRIu64 ": %s", event,
			 soma_error_last()->text);
	return status == SOMA_STATUS_INVALID_VALUE ? SOMA_STATUS_NOT_SUPPORTED : status;
}

uint64_t
run_used(const struct run *run)
{
	return streams_used(&run->streams) - run->padding;
}

/* ---- events -------------------------------------------------------------- */

static enum soma_status
stream_of_event(struct run *run, const struct trace_event *event, uint64_t *stream)
{
	return streams_get(&run->streams, event->stream, streams_group_of_event(&run->streams, event),
			   stream);
}

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
	status = stream_of_event(run, event, &stream);
	block = table_find(&run->blocks, event->ptr);
	if (status == SOMA_STATUS_OK && block != NULL) {
		run->result->counts.overwritten++;
		status = run_free(run, block, stream);
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
	if (block == NULL || !run_is_live(block)) {
		note_unknown_free(run, event);
		return SOMA_STATUS_OK;
	}
	status = stream_of_event(run, event, &stream);
	if (status != SOMA_STATUS_OK)
		return status;
	return event->deferred ? run_free_later(run, event->ptr, stream) : run_free(run, block, stream);
}

/* A completion without a free before it is that of an unknown free: counted there. */
static enum soma_status
on_free_completed(struct run *run, const struct trace_event *event)
{
	struct run_block *block = table_find(&run->blocks, event->ptr);
	enum soma_status status;

	if (block == NULL || run_is_live(block))
		return SOMA_STATUS_OK;
	status = run_complete(run, block);
	table_remove(&run->blocks, block);
	return status;
}

static void
note_recorded_failure(struct run *run, const struct trace_event *event)
{
	struct replay_recorded *recorded = &run->result->recorded_oom;

	replay_recorded_add(recorded, event->index, event->size);
	if (recorded->count == 1)
		watch_tell(run, WATCH_FAILED);
}

/* Whoever asks whether memory suffices asks it for what failed, too. */
static bool
tries_recorded(const struct replay_options *options)
{
	return options->trial || options->capacity > 0 || options->try_recorded;
}

static enum soma_status
on_alloc_failed(struct run *run, const struct trace_event *event)
{
	const struct replay_options *options = run->plan->options;
	uint64_t stream;
	enum soma_status status;

	run->result->counts.recorded_failed++;
	if (event->size == 0)
		return SOMA_STATUS_OK;
	note_recorded_failure(run, event);
	if (!tries_recorded(options) && options->autopsy == NULL)
		return SOMA_STATUS_OK;
	status = stream_of_event(run, event, &stream);
	if (status == SOMA_STATUS_OK && options->autopsy != NULL && !options->autopsy->taken)
		autopsy_take_recorded(options->autopsy, run, event, stream);
	if (status == SOMA_STATUS_OK && tries_recorded(options))
		status = run_try(run, event, stream);
	return status;
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

	/* Of an event the model cannot tell the host. */
	if (run->plan->options->complete == REPLAY_COMPLETE_NEVER || has_detail(run, event, "event"))
		return SOMA_STATUS_OK;
	status = run_end_executed(run);
	if (status != SOMA_STATUS_OK)
		return status;
	return has_detail(run, event, "device") ? soma_model_synchronize_all(run->model)
						: streams_synchronize(&run->streams, event->stream);
}

static enum soma_status
on_trim(struct run *run, const struct trace_event *event)
{
	if (run->streams.expandable == NULL)
		return soma_model_trim_to(run->model, event->size);
	if (streams_reserved(&run->streams) > event->size)
		expandable_release(run->streams.expandable);
	return SOMA_STATUS_OK;
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
	status = stream_of_event(run, event, &stream);
	if (status == SOMA_STATUS_OK && run->streams.expandable != NULL)
		expandable_offer(run->streams.expandable, stream, event->ptr, event->size,
				 event->op == TRACE_SEGMENT_MAP);
	else if (status == SOMA_STATUS_OK)
		source_offer(&run->source, stream, event->ptr, event->size);
	return status;
}

/* Parts of expandable segments are nothing to another allocator. */
static enum soma_status
on_segment_map(struct run *run, const struct trace_event *event)
{
	return run->streams.expandable != NULL ? on_segment_alloc(run, event) : SOMA_STATUS_OK;
}

static enum soma_status
on_segment_unmap(struct run *run, const struct trace_event *event)
{
	if (run->plan->follow_segments && run->streams.expandable != NULL)
		run->result->counts.unreleased +=
			!expandable_unmap(run->streams.expandable, event->ptr, event->size);
	return SOMA_STATUS_OK;
}

/* Where the replay differs from the recording, the model may not have the segment,
 * or not wholly free. */
static enum soma_status
on_segment_free(struct run *run, const struct trace_event *event)
{
	enum soma_status status;

	if (!run->plan->follow_segments)
		return SOMA_STATUS_OK;
	if (run->streams.expandable != NULL) {
		run->result->counts.unreleased +=
			!expandable_release_segment(run->streams.expandable, event->ptr);
		return SOMA_STATUS_OK;
	}
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
	[TRACE_SEGMENT_MAP] = on_segment_map,
	[TRACE_SEGMENT_UNMAP] = on_segment_unmap,
	[TRACE_OOM] = on_alloc_failed,
};

/* ---- the pass ------------------------------------------------------------ */

/* Whether it may come between the mapping for an allocation and the allocation. */
static bool
may_be_between(enum trace_op op)
{
	return op == TRACE_ALLOC || op == TRACE_SEGMENT_MAP || op == TRACE_SEGMENT_ALLOC || op == TRACE_MARK;
}

static void
note_reserved(struct run *run, uint64_t event)
{
	uint64_t reserved = streams_reserved(&run->streams);

	if (reserved <= run->most_reserved)
		return;
	run->most_reserved = reserved;
	run->result->reserved_event = event;
}

static enum soma_status
replay_event(struct run *run, const struct trace_event *event)
{
	struct series *series = &run->result->series;
	bool trial = run->plan->options->trial;
	enum soma_status status = SOMA_STATUS_OK;

	run->x = series->by_time ? event->time_ns : run->ordinal;
	run->event = event->index;
	run->ordinal++;
	if (!trial)
		series_reach(series, run->x, &run->holders);
	if (run->streams.expandable != NULL && !may_be_between(event->op))
		expandable_take_offers(run->streams.expandable);
	if (functions[event->op] != NULL)
		status = functions[event->op](run, event);
	if (status != SOMA_STATUS_OK)
		return run_fail(run, event->index, status);
	if (trial)
		return SOMA_STATUS_OK;
	note_reserved(run, event->index);
	series_put(series, run_used(run), streams_reserved(&run->streams), &run->holders);
	watch_tell(run, WATCH_AFTER);
	return SOMA_STATUS_OK;
}

static enum soma_status
replay_events(struct run *run)
{
	const struct replay_options *options = run->plan->options;
	struct trace_event event;
	enum trace_result got;
	enum soma_status status = SOMA_STATUS_OK;
	bool segment_last = false;

	if (run_is_over(run))
		return SOMA_STATUS_OK;
	for (uint64_t n = 1; (got = trace_next(run->reader, &event, run->error)) == TRACE_OK; n++) {
		table_prefetch(&run->blocks, trace_ahead(run->reader));
		if (event.device == run->plan->device->device)
			status = replay_event(run, &event);
		segment_last = event.op == TRACE_SEGMENT_ALLOC || event.op == TRACE_SEGMENT_MAP;
		if (status != SOMA_STATUS_OK)
			return status;
		if (run_is_over(run))
			return SOMA_STATUS_OK;
		if (n % PROGRESS_EVERY == 0 && options->progress != NULL)
			options->progress(options->context, 0.5 + 0.5 * trace_progress(run->reader));
	}
	/* The allocation that it was made for is behind the cut. */
	if (got == TRACE_TRUNCATED && segment_last && run->result->parity.segments_recorded > 0)
		run->result->parity.segments_recorded--;
	return got == TRACE_ERROR ? SOMA_STATUS_PARSE : SOMA_STATUS_OK;
}

static void
sum_up_expandable(struct run *run)
{
	const struct expandable_stats *stats = expandable_stats(run->streams.expandable);
	struct replay_result *result = run->result;

	result->peak_reserved = stats->reserved_high;
	if (stats->least_refused < result->least_refused)
		result->least_refused = stats->least_refused;
	result->counts.segments = stats->maps;
	result->counts.live_blocks = stats->live_count;
	result->counts.live_bytes = stats->used - run->padding;
	result->parity.segments_reproduced = stats->reproduced;
}

static void
sum_up(struct run *run)
{
	struct replay_result *result = run->result;
	struct soma_model_stats stats;

	soma_model_stats(run->model, &stats, sizeof stats);
	result->peak_reserved = stats.reserved_high;
	result->last_event = run->event;
	result->counts.events = run->ordinal;
	result->counts.streams = run->streams.seen;
	result->counts.segments = run->plan->policy->segments == SOMA_SEGMENTS_STEP ? stats.segments_acquired
										    : stats.segment_count;
	result->counts.maps = stats.map_count;
	result->counts.unmaps = stats.unmap_count;
	result->counts.steals = stats.steal_count;
	result->counts.pages_stolen = stats.pages_stolen;
	result->counts.live_blocks = stats.live_count;
	result->counts.live_bytes = stats.used - run->padding;
	result->least_refused = soma_model_least_refused(run->model);
	if (run->least_refused < result->least_refused)
		result->least_refused = run->least_refused;
	result->parity.segments_reproduced = run->source.reproduced;
	if (run->streams.expandable != NULL)
		sum_up_expandable(run);
	if (run->begins_in_midrun)
		result->parity = (struct replay_parity){ 0 };
	result->holders = holders_rank_at_peak(&run->holders, &result->holder_count);
	result->end_holders = holders_rank_now(&run->holders, &result->end_holder_count);
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
	uint64_t first = by_time ? device->first_time : 0,
		 last = by_time ? device->last_time : device->events;

	series_init(series, run->plan->options->columns, by_time, first, last);
	memcpy(series->layers, run->plan->layers, sizeof series->layers);
	series->layer_count = run->plan->layer_count;
	run->x = first;
}

static void
fini(struct run *run)
{
	expandable_destroy(run->streams.expandable);
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
	struct run run = { .plan = plan,
			   .reader = reader,
			   .error = error,
			   .result = result,
			   .least_refused = UINT64_MAX,
			   .event = REPLAY_AT_START,
			   .begins_in_midrun = plan->start_unknown && device->frees_unknown };
	enum soma_status status;

	*result = (struct replay_result){ .parity.applies = plan->follow_segments && device->allocs > 0 &&
							    !plan->options->trial,
					  .reserved_event = REPLAY_AT_START };
	source_init(&run.source, device->highest);
	table_init(&run.blocks, sizeof(struct run_block));
	init_series(&run);
	status = make_model(&run);
	if (status == SOMA_STATUS_OK) {
		streams_init(&run.streams, run.model, device->has_blocking, device->device,
			     trace_snapshot(reader));
		if (plan->expandable)
			run.streams.expandable = expandable_create(plan->policy, plan->options->capacity,
								   device->highest);
		watch_begin(&run);
		status = run_begin(&run);
	}
	if (status == SOMA_STATUS_OK) {
		note_reserved(&run, REPLAY_AT_START);
		series_reach(&result->series, run.x, &run.holders);
		series_put(&result->series, run_used(&run), streams_reserved(&run.streams), &run.holders);
		watch_tell(&run, WATCH_AFTER);
		status = replay_events(&run);
	}
	if (status == SOMA_STATUS_OK) {
		watch_tell(&run, WATCH_END);
		sum_up(&run);
	}
	fini(&run);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans the passes of a replay.
 */
#include "tools/engine/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/engine/gaps.h"
#include "tools/engine/run.h"
#include "tools/engine/session.h"
#include "tools/xalloc.h"

/* The preset that is the recorded allocator's own, for traces that show its segments or that PyTorch wrote. */
#define RECORDED_POLICY "pytorch"
#define OTHER_POLICY "cuda"

/* A holder of less than this part of the peak gets no layer of its own. */
#define LAYER_LEAST_SHARE 200

static enum soma_status
no_such_device(const struct survey *survey, int32_t device, struct trace_error *error)
{
	size_t length = (size_t)snprintf(error->text, sizeof error->text,
					 "the trace has no device %" PRId32 "; it has", device);

	for (size_t i = 0; i < survey->device_count && length < sizeof error->text - 16; i++)
		length += (size_t)snprintf(error->text + length, sizeof error->text - length, "%s %" PRId32,
					   i > 0 ? "," : "", survey->devices[i].device);
	return SOMA_STATUS_INVALID_VALUE;
}

/* Devices that only a snapshot knows have segments and no events; and segments may lie
 * above all events. */
static void
add_snapshot(struct survey *survey, const struct trace_snapshot *snapshot)
{
	for (size_t i = 0; snapshot != NULL && i < snapshot->segment_count; i++) {
		const struct trace_segment *segment = &snapshot->segments[i];
		struct survey_device *device = survey_need(survey, segment->device);

		if (segment->address + segment->size > device->highest)
			device->highest = segment->address + segment->size;
	}
}

enum soma_status
replay_choose_device(struct survey *survey, const struct trace_snapshot *snapshot, int32_t wanted,
		     struct survey_device **device, struct trace_error *error)
{
	add_snapshot(survey, snapshot);
	if (wanted != REPLAY_DEVICE_ANY && survey_find(survey, wanted) == NULL && survey->device_count > 0)
		return no_such_device(survey, wanted, error);
	if (survey->device_count == 0)
		survey_need(survey, wanted != REPLAY_DEVICE_ANY ? wanted : 0);
	*device = wanted != REPLAY_DEVICE_ANY ? survey_find(survey, wanted) : survey_busiest(survey);
	return SOMA_STATUS_OK;
}

enum soma_status
session_device(struct replay_session *session, int32_t wanted, struct survey_device **device,
	       struct trace_error *error)
{
	return replay_choose_device(&session->survey, trace_snapshot(session->reader), wanted, device, error);
}

static const struct trace_segment *
expandable_segment(const struct trace_snapshot *snapshot, int32_t device)
{
	for (size_t i = 0; snapshot != NULL && i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device && snapshot->segments[i].expandable)
			return &snapshot->segments[i];
	return NULL;
}

static bool
records_expandable(const struct survey_device *device, const struct trace_snapshot *snapshot)
{
	return device->expandable_event != SURVEY_NO_EVENT ||
	       expandable_segment(snapshot, device->device) != NULL;
}

/* A snapshot may tell of segments by their release alone: they can be rewound. */
static bool
records_segments(const struct survey_device *device, const struct trace_snapshot *snapshot)
{
	if (device->segment_allocs > 0 || device->expandable_event != SURVEY_NO_EVENT ||
	    (snapshot != NULL && device->segments.count > 0))
		return true;
	for (size_t i = 0; snapshot != NULL && i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device->device)
			return true;
	return false;
}

const struct soma_policy *
replay_auto_policy(const struct survey_device *device, const struct trace_reader *reader)
{
	const struct trace_snapshot *snapshot = trace_snapshot(reader);
	bool segments = trace_has_addresses(reader) && records_segments(device, snapshot);
	bool recorded = snapshot != NULL || segments || trace_is_of_pytorch(reader);

	return soma_policy_preset(recorded ? RECORDED_POLICY : OTHER_POLICY);
}

/* What the recorded allocator did is followed where the replay is by its rules. */
static void
choose_policy(struct run_plan *plan, struct trace_reader *reader)
{
	const struct trace_snapshot *snapshot = trace_snapshot(reader);
	bool segments = trace_has_addresses(reader) && records_segments(plan->device, snapshot);
	bool expandable = records_expandable(plan->device, snapshot);

	plan->policy = plan->options->policy;
	if (plan->policy == NULL)
		plan->policy = replay_auto_policy(plan->device, reader);
	if (strcmp(plan->policy->name, RECORDED_POLICY) != 0)
		return;
	plan->expandable = plan->options->expandable == REPLAY_EXPANDABLE_ON ||
			   (plan->options->expandable == REPLAY_EXPANDABLE_AUTO && expandable);
	plan->follow_segments = segments && plan->expandable == expandable;
}

/* Those that can be seen in a picture. */
static void
choose_layers(struct run_plan *plan, const struct holder_rank *ranks, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += ranks[i].bytes;
	plan->layer_count = 0;
	for (size_t i = 0; i < count && i < SERIES_LAYERS && ranks[i].bytes >= sum / LAYER_LEAST_SHARE; i++)
		plan->layers[plan->layer_count++] = ranks[i].name;
}

static void
plan_peak(struct run_plan *plan, struct survey_device *device)
{
	struct holder_rank *ranks;
	size_t count;

	for (size_t i = 0; i < plan->start->block_count && !device->start_held; i++)
		holders_add_always(&device->holders, plan->start->blocks[i].holder,
				   plan->start->blocks[i].pending ? 0 : plan->start->blocks[i].size);
	device->start_held = true;
	ranks = holders_rank_at_peak(&device->holders, &count);
	plan->peak_event = plan->device->peak_event;
	choose_layers(plan, ranks, count);
	free(ranks);
}

/* The first pass' account has no failures: when the model's peak is elsewhere, what
 * was looked at was not the peak, and the pass is made again. */
static enum soma_status
run_passes(struct run_plan *plan, struct trace_reader *reader, struct replay_result *result,
	   struct trace_error *error)
{
	enum soma_status status;

	for (bool again = false;; again = true) {
		if (trace_rewind(reader, error) != TRACE_OK)
			return SOMA_STATUS_IO;
		status = run_trace(plan, reader, result, error);
		if (status != SOMA_STATUS_OK || result->peak_event == plan->peak_event || again ||
		    plan->options->trial)
			return status;
		plan->peak_event = result->peak_event;
		choose_layers(plan, result->holders, result->holder_count);
		replay_result_fini(result);
	}
}

static void
describe(struct replay_result *result, const struct run_plan *plan, const struct survey *survey,
	 struct trace_reader *reader)
{
	result->policy = plan->policy;
	result->format = trace_format(reader);
	result->device = plan->device->device;
	result->device_count = survey->device_count;
	result->truncated = survey->truncated;
	result->truncation = survey->truncation;
	result->expandable = plan->expandable;
	result->start_unknown = plan->start_unknown;
}

/* What was there before the trace, and where the peak will be. */
static enum soma_status
plan_start(struct run_plan *plan, struct start *start, struct survey_device *device,
	   struct trace_reader *reader, struct trace_error *error)
{
	struct soma_policy policy = *soma_policy_preset(RECORDED_POLICY);

	/* With expandable segments every block is split: nothing hides behind one. */
	for (unsigned i = 0; plan->expandable && i < policy.pool_count; i++)
		policy.pools[i].split_min = policy.alignment;
	start_rebuild(start, device, plan->start_unknown ? NULL : trace_snapshot(reader), &policy);
	if (plan->follow_segments && !start_check(start, policy.alignment, error))
		return SOMA_STATUS_NOT_SUPPORTED;
	if (plan->follow_segments && gaps_find(start, device->device, &policy, reader, error) != TRACE_OK)
		return SOMA_STATUS_IO;
	plan->start = start;
	plan_peak(plan, device);
	return SOMA_STATUS_OK;
}

enum soma_status
session_plan(struct replay_session *session, const struct replay_options *options, struct session_plan *plan,
	     struct trace_error *error)
{
	struct survey *survey = &session->survey;
	struct survey_device *device = NULL;
	enum soma_status status;

	*plan = (struct session_plan){ .run.options = options };
	status = session_device(session, options->device, &device, error);
	if (status != SOMA_STATUS_OK)
		return status;
	plan->run.device = device;
	plan->run.start_unknown = survey->rewinds && !survey_is_whole(survey, device->device);
	choose_policy(&plan->run, session->reader);
	return plan_start(&plan->run, &plan->start, device, session->reader, error);
}

void
session_plan_fini(struct session_plan *plan)
{
	start_fini(&plan->start);
}

static enum soma_status
plan_and_run(struct replay_session *session, const struct replay_options *options,
	     struct replay_result *result, struct trace_error *error)
{
	struct session_plan plan;
	enum soma_status status = session_plan(session, options, &plan, error);

	if (status == SOMA_STATUS_OK)
		status = run_passes(&plan.run, session->reader, result, error);
	if (status == SOMA_STATUS_OK)
		describe(result, &plan.run, &session->survey, session->reader);
	else
		replay_result_fini(result);
	session_plan_fini(&plan);
	return status;
}

static void
half_progress(void *context, double done)
{
	const struct replay_options *options = context;

	if (options->progress != NULL)
		options->progress(options->context, done / 2);
}

enum soma_status
replay_begin(struct trace_reader *reader, const struct replay_options *options,
	     struct replay_session **session, struct trace_error *error)
{
	struct replay_options wanted = *options;
	struct replay_session *begun = xcalloc(1, sizeof *begun);

	*session = NULL;
	begun->reader = reader;
	if (survey_run(&begun->survey, reader, half_progress, &wanted, error) != TRACE_OK) {
		replay_end(begun);
		return SOMA_STATUS_PARSE;
	}
	*session = begun;
	return SOMA_STATUS_OK;
}

enum soma_status
replay_again(struct replay_session *session, const struct replay_options *options,
	     struct replay_result *result, struct trace_error *error)
{
	*result = (struct replay_result){ 0 };
	return plan_and_run(session, options, result, error);
}

const struct trace_error *
replay_truncation(const struct replay_session *session)
{
	return session->survey.truncated ? &session->survey.truncation : NULL;
}

void
replay_end(struct replay_session *session)
{
	if (session == NULL)
		return;
	survey_fini(&session->survey);
	free(session);
}

enum soma_status
replay_run(struct trace_reader *reader, const struct replay_options *options, struct replay_result *result,
	   struct trace_error *error)
{
	struct replay_session *session;
	enum soma_status status = replay_begin(reader, options, &session, error);

	*result = (struct replay_result){ 0 };
	if (status == SOMA_STATUS_OK)
		status = replay_again(session, options, result, error);
	replay_end(session);
	return status;
}

void
replay_result_fini(struct replay_result *result)
{
	free(result->holders);
	free(result->end_holders);
	series_fini(&result->series);
	*result = (struct replay_result){ 0 };
}

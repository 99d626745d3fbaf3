/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass of a trace through a model.
 */
#ifndef SOMA_TOOLS_ENGINE_RUN_H
#define SOMA_TOOLS_ENGINE_RUN_H

#include "tools/engine/engine.h"
#include "tools/engine/rewind.h"
#include "tools/engine/source.h"
#include "tools/engine/streams.h"
#include "tools/engine/survey.h"

/* What the pass is to do, settled before it. */
struct run_plan {
	const struct replay_options *options;
	const struct soma_policy *policy;
	const struct survey_device *device;
	const struct start *start;
	bool start_unknown;   /* the trace is truncated: it begins with nothing */
	bool expandable;      /* in place of the model's memory: expandable.h */
	bool follow_segments; /* the recorded segments are the model's, addresses are compared */
	uint64_t peak_event;  /* where to look at every block */
	trace_name layers[SERIES_LAYERS];
	size_t layer_count;
};

struct run {
	const struct run_plan *plan;
	struct trace_reader *reader;
	struct trace_error *error;
	struct replay_result *result; /* is filled */

	struct soma_model *model;
	struct source source;
	struct streams streams;
	struct table blocks; /* by the trace's address */
	uint64_t *
		executed; /* (or blocks of expandable memory:) streams made for deferred frees that completed, until a
			      * synchronisation is recorded (REPLAY_COMPLETE_SYNC) */
	size_t executed_count, executed_room;
	struct holders holders;
	uint64_t padding; /* what rounding added to the requests of live blocks */
	uint64_t least_refused; /* of the capacity, outside of the model */
	uint64_t most_reserved; /* after any event */
	bool begins_in_midrun; /* and nothing says with what: addresses cannot be compared */
	uint64_t ordinal;      /* of the event among the device's */
	uint64_t event;        /* its index in the file, or REPLAY_AT_START */
	uint64_t x;            /* of the event, on the series' axis */
};

/* The device to replay: the wanted one, or that with the most allocations.  snapshot may be NULL.
 * SOMA_STATUS_INVALID_VALUE: the trace has not got it. */
enum soma_status replay_choose_device(struct survey *survey, const struct trace_snapshot *snapshot,
				      int32_t wanted, struct survey_device **device,
				      struct trace_error *error);

/* What auto is for a device of the trace: the recorded allocator's own policy, where the trace shows its segments or is
 * PyTorch's; else another. */
const struct soma_policy *replay_auto_policy(const struct survey_device *device, const struct trace_reader *reader);

/* The reader is at the trace's beginning.  Fills the result but for what the plan
 * knows; the series and the holders in it are the caller's, also on failure. */
enum soma_status run_trace(const struct run_plan *plan, struct trace_reader *reader,
			   struct replay_result *result, struct trace_error *error);

/* Whether a trial knows its answer. */
static inline bool
run_is_over(const struct run *run)
{
	return run->plan->options->trial && run->result->oom.happened;
}

/* Puts what was there before the trace into the model (begin.c). */
enum soma_status run_begin(struct run *run);

/* Requested bytes that are live in the model. */
uint64_t run_used(const struct run *run);

/* Records "event N: TEXT" and passes the status on, but for an invalid value, which
 * to a caller of the engine means an option. */
enum soma_status run_fail(struct run *run, uint64_t event, enum soma_status status);

#endif

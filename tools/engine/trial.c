/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials: a plan of the session's, and a reader of kept events.
 */
#include "tools/engine/trial.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "tools/engine/session.h"
#include "tools/xalloc.h"

/* What it costs to make and destroy a model, and a stream in it, in events. */
#define COST_OF_NONE 200
#define COST_OF_STREAM 10

struct trial {
	struct replay_options options;
	struct session_plan plan;    /* keeps a pointer to the options */
	struct trace_reader *reader; /* of its own, or the session's */
	bool apart;
	_Atomic uint64_t count, cost;
};

enum soma_status
trial_create(struct replay_session *session, const struct replay_options *options, struct trial **trial,
	     struct trace_error *error)
{
	struct trial *created = xcalloc(1, sizeof *created);
	enum soma_status status;

	*trial = NULL;
	created->options = *options;
	created->options.trial = true;
	created->options.columns = 0;
	status = session_plan(session, &created->options, &created->plan, error);
	if (status != SOMA_STATUS_OK) {
		trial_destroy(created);
		return status;
	}
	created->reader = trace_share(session->reader);
	created->apart = created->reader != NULL;
	if (!created->apart)
		created->reader = session->reader;
	*trial = created;
	return SOMA_STATUS_OK;
}

enum soma_status
trial_run(struct trial *trial, uint64_t capacity, struct trial_result *result, struct trace_error *error)
{
	struct replay_result replayed;
	enum soma_status status;

	trial->options.capacity = capacity;
	if (trace_rewind(trial->reader, error) != TRACE_OK)
		return SOMA_STATUS_IO;
	status = run_trace(&trial->plan.run, trial->reader, &replayed, error);
	*result = (struct trial_result){ .passed = !replayed.oom.happened,
					 .reserved = replayed.peak_reserved,
					 .refused = replayed.least_refused };
	trial->count++;
	trial->cost += replayed.counts.events + replayed.counts.start_blocks +
		       COST_OF_STREAM * replayed.counts.streams + COST_OF_NONE;
	replay_result_fini(&replayed);
	return status;
}

void
trial_destroy(struct trial *trial)
{
	if (trial == NULL)
		return;
	if (trial->apart)
		trace_close(trial->reader);
	session_plan_fini(&trial->plan);
	free(trial);
}

bool
trial_is_apart(const struct trial *trial)
{
	return trial->apart;
}

uint64_t
trial_count(const struct trial *trial)
{
	return trial->count;
}

uint64_t
trial_cost(const struct trial *trial)
{
	return trial->cost;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a trace passes at a capacity, asked many times: what is the same each time is
 * made once, and nothing is kept but the answer.
 *
 * Trials are created by one thread, one after the other.  Where a trial is apart it reads
 * kept events alone (trace_keep()), and may be run by a thread of its own, beside others of the
 * same session.
 */
#ifndef SOMA_TOOLS_ENGINE_TRIAL_H
#define SOMA_TOOLS_ENGINE_TRIAL_H

#include "tools/engine/engine.h"

struct trial;

struct trial_result {
	bool passed;
	uint64_t reserved; /* at most */
	/* Every capacity below it gives this result, too; UINT64_MAX: all do, or nothing is known
	 * but that more would be needed. */
	uint64_t refused;
};

/* options: the policy and what it points to outlive the trial; the capacity is ignored. */
enum soma_status trial_create(struct replay_session *session, const struct replay_options *options,
			      struct trial **trial, struct trace_error *error);
enum soma_status trial_run(struct trial *trial, uint64_t capacity, struct trial_result *result,
			   struct trace_error *error);
void trial_destroy(struct trial *trial);

bool trial_is_apart(const struct trial *trial);

/* How many there were, and what they cost, in events; any thread may ask. */
uint64_t trial_count(const struct trial *trial);
uint64_t trial_cost(const struct trial *trial);

#endif

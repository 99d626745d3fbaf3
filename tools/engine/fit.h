/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest capacity at which a trace passes under a policy.
 *
 * With less memory an allocator acts otherwise, so it may pass at one capacity and fail at
 * a larger one: halving the interval would be wrong.  But a replay at capacity c is the
 * same for every capacity up to the least growth that it was refused: so each replay that
 * fails rules out all of these at once, and the search goes up from the bound, skipping
 * nothing.  Where that takes too many replays, it looks for an edge by halves.
 */
#ifndef SOMA_TOOLS_ENGINE_FIT_H
#define SOMA_TOOLS_ENGINE_FIT_H

#include "tools/engine/trial.h"

enum fit_claim {
	FIT_LEAST,  /* it passes here, and at nothing less */
	FIT_LOCAL,  /* it passes here, and one byte less fails; something smaller may pass */
	FIT_NEVER,  /* it passes at no capacity */
};

struct fit {
	enum fit_claim claim;
	uint64_t capacity;
	uint64_t enough; /* at this and above it passes: it is what is reserved without a limit */
	uint64_t replays;
};

/* What trials that look for the least may cost (trial_cost()): a second or two. */
#define FIT_COST_DEFAULT ((uint64_t)4 * 1000 * 1000)

/* bound: nothing below it passes.  cost: what is spent for the least, or one trial more; an edge takes a
 * few more. */
enum soma_status fit_find(struct trial *trial, uint64_t bound, uint64_t cost, struct fit *fit,
			  struct trace_error *error);

#endif

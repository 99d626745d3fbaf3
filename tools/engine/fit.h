/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest capacity at which a trace passes under a policy.
 *
 * With less memory an allocator acts otherwise, so it may pass at one capacity and fail at
 * a larger one: halving the interval would be wrong.  But a replay at capacity c is the
 * same for every capacity up to the least growth that it was refused: so each replay that
 * fails rules out all of these at once, and the search goes up from the bound, skipping
 * nothing.  Where that takes too many replays, it comes down from what passes.
 */
#ifndef SOMA_TOOLS_ENGINE_FIT_H
#define SOMA_TOOLS_ENGINE_FIT_H

#include "tools/engine/engine.h"

enum fit_claim {
	FIT_LEAST,  /* it passes here, and at nothing less */
	FIT_LOCAL,  /* it passes here, and one byte less fails; something smaller may pass */
	FIT_NEVER,  /* it passes at no capacity */
};

struct fit {
	enum fit_claim claim;
	uint64_t capacity;
	uint64_t replays;
};

/* Events that may be replayed to find the least: a few seconds. */
#define FIT_EVENTS_DEFAULT ((uint64_t)4 * 1000 * 1000)

/* options: capacity is ignored.  bound: nothing below it passes. */
enum soma_status fit_find(struct replay_session *session, const struct replay_options *options, uint64_t bound,
			  uint64_t events, struct fit *fit, struct trace_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials at one capacity after the other.
 */
#include "tools/engine/fit.h"

struct search {
	struct trial *trial;
	struct trace_error *error;
	uint64_t ruled_out; /* it fails here; on the way up, everywhere below, too */
	uint64_t passes;    /* it passes here */
	bool is_blind;      /* the latest one failed, and does not say what it wanted */
	bool passed;        /* the latest one */
};

/* What a replay reserves is enough for it, and until there is room for the least growth that it was
 * refused it does not change. */
static enum soma_status
try_capacity(struct search *search, uint64_t capacity)
{
	struct trial_result result;
	enum soma_status status = trial_run(search->trial, capacity, &result, search->error);

	if (status != SOMA_STATUS_OK)
		return status;
	search->passed = result.passed;
	search->is_blind = !result.passed && result.refused == UINT64_MAX;
	if (result.passed)
		search->passes = result.reserved > 0 ? result.reserved : 1;
	else
		search->ruled_out = search->is_blind ? capacity : result.refused - 1;
	return SOMA_STATUS_OK;
}

/* The least that is not ruled out, again and again. */
static enum soma_status
go_up(struct search *search, uint64_t cost)
{
	enum soma_status status = SOMA_STATUS_OK;

	search->passed = search->is_blind = false;
	while (status == SOMA_STATUS_OK && search->ruled_out + 1 < search->passes && !search->passed &&
	       !search->is_blind && trial_cost(search->trial) < cost)
		status = try_capacity(search, search->ruled_out + 1);
	return status;
}

/* Some edge between what fails and what passes, by halves.  Where trials are dear, what passes is
 * often the edge already. */
static enum soma_status
narrow(struct search *search, bool is_dear)
{
	enum soma_status status = SOMA_STATUS_OK;

	if (is_dear && search->ruled_out + 1 < search->passes)
		status = try_capacity(search, search->passes - 1);
	while (status == SOMA_STATUS_OK && search->ruled_out + 1 < search->passes)
		status = try_capacity(search,
				      search->ruled_out + (search->passes - search->ruled_out) / 2);
	return status;
}

enum soma_status
fit_find(struct trial *trial, uint64_t bound, uint64_t cost, struct fit *fit, struct trace_error *error)
{
	struct search search = { .trial = trial, .error = error, .ruled_out = bound > 0 ? bound - 1 : 0 };
	enum soma_status status = try_capacity(&search, 0);

	*fit = (struct fit){ .claim = FIT_NEVER };
	if (status != SOMA_STATUS_OK || !search.passed)
		return status;
	fit->enough = search.passes;
	status = go_up(&search, cost);
	fit->claim = search.ruled_out + 1 >= search.passes || search.passed ? FIT_LEAST : FIT_LOCAL;
	if (status == SOMA_STATUS_OK && fit->claim == FIT_LOCAL)
		status = narrow(&search, trial_cost(trial) > cost / 2 * trial_count(trial));
	fit->capacity = search.passes;
	fit->replays = trial_count(trial);
	return status;
}

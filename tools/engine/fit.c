/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays at one capacity after the other.
 */
#include "tools/engine/fit.h"

/* What a replay of nothing costs, in events. */
#define REPLAY_COST 200

struct search {
	struct replay_session *session;
	struct replay_options options;
	struct trace_error *error;
	struct fit *fit;
	uint64_t events; /* replayed */
	/* of the latest replay */
	bool passed;
	uint64_t next; /* the next capacity at which anything differs; UINT64_MAX: none */
	uint64_t reserved;
};

static enum soma_status
try_capacity(struct search *search, uint64_t capacity)
{
	struct replay_result result;
	enum soma_status status;

	search->options.capacity = capacity;
	status = replay_again(search->session, &search->options, &result, search->error);
	if (status != SOMA_STATUS_OK)
		return status;
	search->fit->replays++;
	search->passed = !result.oom.happened;
	search->next = result.least_refused;
	search->reserved = result.peak_reserved;
	search->events += result.counts.events + result.counts.start_blocks + REPLAY_COST;
	replay_result_fini(&result);
	return SOMA_STATUS_OK;
}

static void
found(struct search *search, enum fit_claim claim, uint64_t capacity)
{
	search->fit->claim = claim;
	search->fit->capacity = capacity;
}

/* From the bound: sets the answer, or leaves it at `top`, when events are used up. */
static enum soma_status
go_up(struct search *search, uint64_t bound, uint64_t top, uint64_t events)
{
	uint64_t capacity = bound > 0 ? bound : 1;

	while (search->events < events) {
		enum soma_status status = SOMA_STATUS_OK;

		if (capacity >= top) {
			found(search, FIT_LEAST, top);
			return SOMA_STATUS_OK;
		}
		status = try_capacity(search, capacity);
		if (status != SOMA_STATUS_OK)
			return status;
		if (search->passed) {
			found(search, FIT_LEAST, capacity);
			return SOMA_STATUS_OK;
		}
		if (search->next == UINT64_MAX)
			return SOMA_STATUS_OK; /* what refused it does not say what it wanted */
		capacity = search->next;
	}
	return SOMA_STATUS_OK;
}

/* From what passes: one byte less either fails, or passes with less reserved. */
static enum soma_status
go_down(struct search *search, uint64_t *top)
{
	for (;;) {
		enum soma_status status;

		if (*top <= 1)
			return SOMA_STATUS_OK;
		status = try_capacity(search, *top - 1);
		if (status != SOMA_STATUS_OK || !search->passed)
			return status;
		*top = search->reserved;
	}
}

enum soma_status
fit_find(struct replay_session *session, const struct replay_options *options, uint64_t bound, uint64_t events,
	 struct fit *fit, struct trace_error *error)
{
	struct search search = { .session = session, .options = *options, .error = error, .fit = fit };
	enum soma_status status;
	uint64_t top;

	*fit = (struct fit){ .claim = FIT_NEVER };
	search.options.columns = 0;
	search.options.stop_at_failure = true;
	status = try_capacity(&search, 0);
	if (status != SOMA_STATUS_OK || !search.passed)
		return status;
	/* At what it reserves anyway, no growth is refused: the same replay.  A trace that
	 * allocates nothing has no least capacity; 0 would mean "no limit". */
	top = search.reserved > 0 ? search.reserved : 1;
	status = go_down(&search, &top);
	if (status == SOMA_STATUS_OK) {
		found(&search, FIT_LOCAL, top);
		status = go_up(&search, bound, top, search.events + events);
	}
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread's way through a program: over a stack, over a model, or over both side by side.
 *
 * Its streams, events and blocks are its own, so workers share nothing but the stack.
 */
#ifndef SOMA_TOOLS_LIVE_WORKER_H
#define SOMA_TOOLS_LIVE_WORKER_H

#include "tools/live/stack.h"
#include "tools/live/times.h"
#include "tools/live/twin.h"

#define LIVE_TEXT_MAX 512

/* The first request that found no room. */
struct live_refusal {
	bool happened;
	enum soma_status status;
	uint64_t event;
	uint64_t requested, current, remaining, limit;
	char text[LIVE_TEXT_MAX];
};

/* The last error of this thread is the event's; kept when it is the first one. */
void live_note_refusal(struct live_refusal *refusal, uint64_t event, enum soma_status status);

/* The first figure that differs. */
struct live_difference {
	bool happened;
	bool at_end;
	uint64_t event;
	const char *what;
	uint64_t got, expected;
};

struct live_counts {
	uint64_t steps, allocs, frees, records, waits, synchronisations;
	uint64_t uses;    /* with frees on another stream than the block's */
	uint64_t refused; /* allocations */
	uint64_t misuses; /* uses that the backend objected to */
	uint64_t damaged; /* blocks whose first or last byte was another one's in the end */
};

struct live_block {
	struct soma_block block; /* state LIVE: it is */
	uint8_t mark;
};

struct worker {
	/* set by the caller */
	const struct program *program;
	struct stack *stack; /* NULL: the model alone */
	struct twin *twin;   /* NULL: none */
	enum replay_complete complete;
	unsigned number, repeat;
	bool alone; /* no other worker runs: figures can be compared on the way */

	uint64_t *streams; /* by the program's number */
	struct soma_backend_event **markers;
	struct live_block *blocks;
	uint64_t live_bytes, live_blocks;
	uint64_t peak_live, peak_outstanding;
	bool at_peak; /* live bytes are at their highest so far, and were not compared there */
	uint64_t compared;
	struct live_counts counts;
	struct live_refusal refusal;
	struct live_difference difference;
	struct times alloc, free, sync;
	enum soma_status status; /* of the last run: what ended it */
	char error[LIVE_TEXT_MAX + 64];
};

void worker_init(struct worker *w);
void worker_fini(struct worker *w);

/* The whole program once.  On failure `error` has the event. */
enum soma_status worker_run(struct worker *w);

/* Waits for all streams, so that what was freed is over. */
enum soma_status worker_settle(struct worker *w);

/* Frees what is live, settles, and gives back streams and events. */
enum soma_status worker_clear(struct worker *w);

/* ---- compare.c ---- */

/* What a stack should count. */
struct live_expected {
	uint64_t live_bytes, live_blocks;
	bool over; /* all frees are: nothing is retired but what a guard has condemned */
};

/* No call is under way on the stack.  Notes the first difference. */
void live_compare(const struct stack *stack, const struct live_expected *expected, bool at_end, uint64_t event,
		  struct live_difference *difference);

#endif

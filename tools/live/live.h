/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaying a trace with real memory: through a resource stack, by one thread with a model beside
 * it that says what the stack should count, or by many, for load; or by many models.
 *
 * Prints nothing.
 */
#ifndef SOMA_TOOLS_LIVE_LIVE_H
#define SOMA_TOOLS_LIVE_LIVE_H

#include <soma/pool.h>

#include "tools/live/worker.h"

#define LIVE_THREADS_MAX 200u

struct live_options {
	const char *backend; /* NULL: models alone */
	const char *search;  /* folders of backends, or NULL */
	uint64_t budget;     /* 0: none */
	uint64_t scale;
	unsigned threads, repeat;
	enum replay_complete complete;
	const struct soma_policy *policy; /* of the models; NULL: cuda */
	uint64_t release_threshold;       /* of the models, and of the backend's pool with `twin` */
	bool twin;                        /* through a pool with a twin: paired.h */
	uint32_t twin_used_unit;          /* 0: as <soma/pool.h> has it */
	uint64_t twin_tolerance;
};

/* Where the first divergence of USED, or of RESERVED, was noticed. */
struct live_divergence {
	struct soma_twin_divergence what; /* its texts are those here */
	uint64_t event;
	bool at_end;
	char *text, *trace;
};

struct live_twin {
	struct soma_twin_report report; /* without texts */
	struct live_divergence used, reserved;
};

struct live_result {
	char backend[128]; /* "" for models alone */
	char device[96];
	uint64_t total, free; /* bytes of the backend before the start */
	bool guarded, compared_on_the_way;
	uint64_t wall_ns;
	uint64_t steps, allocs, frees, uses, records, waits, synchronisations;
	uint64_t refused, misuses, damaged;
	uint64_t end_live_bytes, end_live_blocks; /* before what was left was freed */
	uint64_t peak_live;                       /* of one thread, or the sum of all */
	uint64_t peak_outstanding;
	uint64_t model_peak; /* of one thread with a model */
	uint64_t compared;   /* how often */
	uint64_t guard_reports, condemned_blocks;
	struct live_refusal refusal;
	struct live_difference difference;
	struct live_twin twin; /* with options.twin */
	struct times alloc_times, free_times, sync_times;
};

/*
 * Runs it.  On failure `error` says why: OUT_OF_DEVICE_MEMORY: the trace needs more memory than the machine
 * has, and nothing was started; else what the backend answered.  What the trace's requests
 * meet is no failure but in the result.
 */
enum soma_status live_run(const struct program *program, const struct live_options *options,
			  struct live_result *result, struct trace_error *error);

/* After success. */
void live_result_fini(struct live_result *result);

/* Whether something in the result is bad news. */
bool live_is_bad(const struct live_result *result);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The course of it: the stack, the workers, the account at the end.  Threads share the stack alone.
 */
#include "tools/live/live.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/live/paired.h"
#include "tools/units.h"
#include "tools/xalloc.h"

struct live {
	const struct program *program;
	const struct live_options *options;
	struct live_result *result;
	struct stack stack;
	struct worker *workers;
	struct twin *twins; /* NULL: none */
	pthread_t *threads;
};

/* ---- before it starts ----------------------------------------------------------- */

/* What all threads may need at once; a budget bounds it. */
static uint64_t
needed(const struct live *live)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(live->program->peak_bytes, (uint64_t)live->options->threads, &bytes))
		bytes = UINT64_MAX;
	return live->options->budget > 0 && live->options->budget < bytes ? live->options->budget : bytes;
}

static enum soma_status
check_room(const struct live *live, struct trace_error *error)
{
	const struct soma_backend_info *info = &live->stack.info;
	const struct live_options *options = live->options;
	uint64_t bytes = needed(live), times;
	char need[UNITS_MAX], has[UNITS_MAX], all[UNITS_MAX];

	/* A backend that does not say how much it has will refuse what it has not. */
	if (info->total == 0 || bytes <= info->free)
		return SOMA_STATUS_OK;
	times = info->free > 0 ? bytes / info->free + 1 : 0;
	if (__builtin_mul_overflow(times, options->scale, &times) || times > INT32_MAX)
		times = 0;
	int length = snprintf(error->text, sizeof error->text,
			      "%s at the peak (%u thread%s, sizes divided by %llu), but backend %s has %s free of %s",
			      units_bytes(need, bytes), options->threads, options->threads == 1 ? "" : "s",
			      (unsigned long long)options->scale, live->stack.name,
			      units_bytes(has, info->free), units_bytes(all, info->total));
	if (times > 0)
		snprintf(error->text + length, sizeof error->text - (size_t)length, "; --scale %llu divides by enough",
			 (unsigned long long)times);
	return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
}

static enum soma_status
fail(struct trace_error *error, enum soma_status status)
{
	snprintf(error->text, sizeof error->text, "%s", soma_error_last()->text);
	return status;
}

static enum soma_status
open_stack(struct live *live, struct trace_error *error)
{
	const struct live_options *options = live->options;
	struct live_result *result = live->result;

	if (options->backend == NULL)
		return SOMA_STATUS_OK;
	enum soma_status status =
		stack_open(&live->stack, options->backend, options->search, options->budget);
	if (status != SOMA_STATUS_OK)
		return fail(error, status);
	memcpy(result->backend, live->stack.name, sizeof result->backend);
	memcpy(result->device, live->stack.info.device_name, sizeof result->device);
	result->total = live->stack.info.total;
	result->free = live->stack.info.free;
	result->guarded = live->stack.guarded;
	status = check_room(live, error);
	if (status != SOMA_STATUS_OK)
		stack_close(&live->stack);
	return status;
}

static enum soma_status
make_twins(struct live *live, struct trace_error *error)
{
	const struct live_options *options = live->options;
	enum soma_status status = SOMA_STATUS_OK;

	live->result->compared_on_the_way =
		options->backend != NULL && options->threads == 1 && options->repeat == 1;
	if (options->backend != NULL && !live->result->compared_on_the_way)
		return status;
	live->twins = xcalloc(options->threads, sizeof *live->twins);
	for (unsigned i = 0; status == SOMA_STATUS_OK && i < options->threads; i++)
		status = twin_init(&live->twins[i], live->program, options->policy,
				   options->release_threshold, options->complete);
	return status == SOMA_STATUS_OK ? status : fail(error, status);
}

static void
make_workers(struct live *live)
{
	const struct live_options *options = live->options;

	live->workers = xcalloc(options->threads, sizeof *live->workers);
	live->threads = xcalloc(options->threads, sizeof *live->threads);
	for (unsigned i = 0; i < options->threads; i++) {
		live->workers[i] = (struct worker){
			.program = live->program,
			.stack = options->backend != NULL ? &live->stack : NULL,
			.twin = live->twins != NULL ? &live->twins[i] : NULL,
			.complete = options->complete,
			.number = i,
			.alone = options->threads == 1,
			.repeat = options->repeat,
		};
		worker_init(&live->workers[i]);
	}
}

/* ---- running ----------------------------------------------------------------------- */

/* The last time leaves what is live, for the account. */
static void *
work(void *argument)
{
	struct worker *w = argument;

	for (unsigned i = 0; i < w->repeat; i++)
		if (worker_run(w) != SOMA_STATUS_OK || (i + 1 < w->repeat && worker_clear(w) != SOMA_STATUS_OK))
			break;
	return NULL;
}

static enum soma_status
first_failure(const struct live *live, unsigned started, struct trace_error *error)
{
	for (unsigned i = 0; i < started; i++) {
		const struct worker *w = &live->workers[i];
		if (w->status == SOMA_STATUS_OK)
			continue;
		snprintf(error->text, sizeof error->text, "%.*s", (int)sizeof error->text - 1, w->error);
		return w->status;
	}
	return SOMA_STATUS_OK;
}

static enum soma_status
run_workers(struct live *live, struct trace_error *error)
{
	unsigned count = live->options->threads, started = 1;
	int problem = 0;

	for (; started < count && problem == 0; started += problem == 0)
		problem = pthread_create(&live->threads[started], NULL, work, &live->workers[started]);
	if (problem == 0)
		work(&live->workers[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(live->threads[i], NULL);
	if (problem == 0)
		return first_failure(live, count, error);
	snprintf(error->text, sizeof error->text, "thread %u of %u cannot be started: %s", started + 1, count,
		 strerror(problem));
	return SOMA_STATUS_OUT_OF_HOST_MEMORY;
}

static enum soma_status
for_all(struct live *live, enum soma_status (*call)(struct worker *w), struct trace_error *error)
{
	for (unsigned i = 0; i < live->options->threads; i++) {
		enum soma_status status = call(&live->workers[i]);
		if (status != SOMA_STATUS_OK)
			return fail(error, status);
	}
	return SOMA_STATUS_OK;
}

/* ---- the account ------------------------------------------------------------------------ */

static void
add_up(struct live *live)
{
	struct live_result *r = live->result;

	for (unsigned i = 0; i < live->options->threads; i++) {
		const struct worker *w = &live->workers[i];
		r->steps += w->counts.steps;
		r->allocs += w->counts.allocs;
		r->frees += w->counts.frees;
		r->uses += w->counts.uses;
		r->records += w->counts.records;
		r->waits += w->counts.waits;
		r->synchronisations += w->counts.synchronisations;
		r->refused += w->counts.refused;
		r->misuses += w->counts.misuses;
		r->peak_live += w->peak_live;
		r->compared += w->compared;
		r->end_live_bytes += w->live_bytes;
		r->end_live_blocks += w->live_blocks;
		if (w->peak_outstanding > r->peak_outstanding)
			r->peak_outstanding = w->peak_outstanding;
		if (!r->refusal.happened)
			r->refusal = w->refusal;
		if (!r->difference.happened)
			r->difference = w->difference;
		times_merge(&r->alloc_times, &w->alloc);
		times_merge(&r->free_times, &w->free);
		times_merge(&r->sync_times, &w->sync);
	}
}

/* With a model, what it says; else what the threads themselves counted. */
static struct live_expected
expect_end(const struct live *live)
{
	struct live_expected expected = { live->result->end_live_bytes, live->result->end_live_blocks, true };
	struct soma_model_stats stats;

	if (live->twins == NULL)
		return expected;
	soma_model_stats(live->twins[0].model, &stats, sizeof stats);
	expected.live_bytes = stats.used;
	expected.live_blocks = stats.live_count;
	return expected;
}

static void
note_difference(struct live_difference *difference, const char *what, uint64_t got, uint64_t expected)
{
	if (got != expected && !difference->happened)
		*difference = (struct live_difference){ .happened = true,
							.at_end = true,
							.what = what,
							.got = got,
							.expected = expected };
}

static void
compare_peaks(struct live *live)
{
	struct live_result *r = live->result;

	if (live->twins == NULL)
		return;
	r->model_peak = soma_model_used_high(live->twins[0].model);
	note_difference(&r->difference, "the highest live bytes", r->peak_live, r->model_peak);
}

/* Models alone must come out as the trace does. */
static void
compare_models(struct live *live)
{
	struct live_result *r = live->result;

	for (unsigned i = 0; i < live->options->threads; i++) {
		struct soma_model *model = live->twins[i].model;
		r->peak_live += soma_model_used_high(model);
		r->end_live_bytes += soma_model_used(model);
		note_difference(&r->difference, "a model's live bytes", soma_model_used(model),
				live->program->end_bytes);
		note_difference(&r->difference, "a model's highest live bytes", soma_model_used_high(model),
				live->program->peak_bytes);
	}
	r->compared = live->options->threads;
}

/* First with what the trace leaves live, then with nothing. */
static enum soma_status
settle_accounts(struct live *live, struct trace_error *error)
{
	struct live_result *r = live->result;
	const struct live_expected nothing = { 0, 0, true };

	add_up(live);
	enum soma_status status = for_all(live, worker_settle, error);
	if (status != SOMA_STATUS_OK)
		return status;
	stack_settle(&live->stack);
	struct live_expected expected = expect_end(live);
	live_compare(&live->stack, &expected, true, 0, &r->difference);
	compare_peaks(live);
	status = for_all(live, worker_clear, error);
	if (status != SOMA_STATUS_OK)
		return status;
	stack_settle(&live->stack);
	live_compare(&live->stack, &nothing, true, 0, &r->difference);
	r->compared += 2;
	for (unsigned i = 0; i < live->options->threads; i++)
		r->damaged += live->workers[i].counts.damaged;
	struct soma_backend_guard_stats guard = stack_guard_stats(&live->stack);
	r->guard_reports = guard.reports;
	r->condemned_blocks = guard.condemned_blocks;
	return status;
}

static void
fini(struct live *live)
{
	for (unsigned i = 0; i < live->options->threads; i++) {
		if (live->workers != NULL)
			worker_fini(&live->workers[i]);
		if (live->twins != NULL)
			twin_fini(&live->twins[i]);
	}
	free(live->workers);
	free(live->twins);
	free(live->threads);
	if (live->stack.terminal != NULL)
		stack_close(&live->stack);
}

enum soma_status
live_run(const struct program *program, const struct live_options *options, struct live_result *result,
	 struct trace_error *error)
{
	struct live live = { .program = program, .options = options, .result = result };

	*result = (struct live_result){ 0 };
	enum soma_status status = open_stack(&live, error);
	if (options->twin) {
		if (status == SOMA_STATUS_OK)
			status = paired_run(&live.stack, program, options, result, error);
		fini(&live);
		return status;
	}
	if (status == SOMA_STATUS_OK)
		status = make_twins(&live, error);
	if (status == SOMA_STATUS_OK) {
		make_workers(&live);
		uint64_t before = times_now();
		status = run_workers(&live, error);
		result->wall_ns = times_now() - before;
	}
	if (status == SOMA_STATUS_OK && options->backend != NULL)
		status = settle_accounts(&live, error);
	else if (status == SOMA_STATUS_OK) {
		add_up(&live);
		compare_models(&live);
	}
	fini(&live);
	return status;
}

void
live_result_fini(struct live_result *result)
{
	free(result->twin.used.text);
	free(result->twin.used.trace);
	free(result->twin.reserved.text);
	free(result->twin.reserved.trace);
	result->twin = (struct live_twin){ 0 };
}

bool
live_is_bad(const struct live_result *result)
{
	return result->refused > 0 || result->difference.happened || result->damaged > 0 ||
	       result->guard_reports > 0 || result->twin.used.what.happened ||
	       result->twin.reserved.what.happened;
}

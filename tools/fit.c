/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma fit`: how much memory a trace needs, under each policy and at best.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/engine/fit.h"
#include "tools/engine/lives.h"
#include "tools/fit_packing.h"
#include "tools/jobs.h"
#include "tools/progress.h"
#include "tools/report/report.h"
#include "tools/units.h"

/* The alignment of every preset. */
#define ALIGNMENT 512
#define POLICIES_MAX 16

/* Packing more blocks than this takes longer than anybody wants to wait. */
#define PACK_COUNT_MAX 200000

struct fit_values {
	uint64_t capacity;
	unsigned policy, complete, upper;
	int32_t device;
	bool json;
};

const char *const fit_paragraphs[] = {
	"Finds the smallest capacity at which the trace passes under each policy, and how small it could be: "
	"the largest sum of live sizes, which nothing can be below, and an offline packing, which "
	"knows every lifetime beforehand.",
	"With less memory an allocator acts otherwise, so that passing at one capacity says nothing of a "
	"larger one. The search therefore rules out capacities from the bound upwards, skipping none. The "
	"answer is the least that passes, and one byte less fails; where that took too many replays the answer "
	"is marked: it passes, and one byte less fails, but something smaller may pass, too. Between the answer "
	"and what is reserved without a limit there may be capacities that fail: --capacity asks for one.",
	"A request that the trace says failed, as PyTorch's out-of-memory events do, counts as if it had been granted, "
	"and freed at once: every capacity that is given has room for it, and so has the packing.",
	"The packing gives each block one address for its life, which ends when its free has completed. It is "
	"the best of several orders, improved for a fixed number of steps, so that the answer "
	"is the same everywhere; or what the policy strict did, where that is smaller. It need not be the best "
	"there is. It is checked for overlaps before it is shown. Sizes are rounded up to "
	"512 bytes for it, but for those of placement instances.",
	"A policy can be below the packing: soma moves pages, and with soma and cuda a stream uses what it freed "
	"before the free has completed.",
	NULL,
};

const struct option_row fit_options[] = {
	{ "capacity", 'c', OPTION_SIZE, offsetof(struct fit_values, capacity), "SIZE", NULL,
	  "Also say whether the trace passes at this capacity, for each policy. The exit status is 1 when "
	  "it passes under none." },
	{ "policy", 'p', OPTION_CHOICE, offsetof(struct fit_values, policy), "auto|strict|cuda|pytorch|soma",
	  replay_policy_names, "Only this policy. The default, auto, is all of them." },
	{ "complete", 'k', OPTION_CHOICE, offsetof(struct fit_values, complete), "free|sync|never",
	  replay_complete_names, "When a stream has executed a free; see soma replay." },
	{ "device", 'd', OPTION_NUMBER, offsetof(struct fit_values, device), "N", NULL,
	  "The device. The default is the one with the most allocations." },
	{ "upper", 'u', OPTION_CHOICE, offsetof(struct fit_values, upper), "exclusive|inclusive", upper_names,
	  "Of placement instances: whether a block is gone at the moment upper (exclusive, the default) or "
	  "lives through it." },
	{ "json", 'j', OPTION_FLAG, offsetof(struct fit_values, json), NULL, NULL,
	  "Print one JSON object instead of the report; sizes in it are bytes." },
	{ .name = NULL },
};

struct policy_row {
	const struct soma_policy *policy;
	struct trial *trial;     /* NULL: it cannot be replayed */
	enum soma_status status; /* not OK: `error` says why */
	struct trace_error error;
	uint64_t bound, asked; /* asked: a capacity, or 0 */
	struct fit fit;
	bool passes; /* at the capacity asked for */
	_Atomic bool found;
};

struct answer {
	const char *path;
	const struct trace_reader *reader;
	const struct fit_values *values;
	struct policy_row rows[POLICIES_MAX];
	size_t row_count;
	struct lives lives;
	struct fit_packing packing;
	struct progress progress;
};

/* ---- finding ------------------------------------------------------------------ */

static struct replay_options
options_of(const struct answer *answer, const struct soma_policy *policy)
{
	struct replay_options options = answer_options();

	options.policy = policy;
	options.complete = (enum replay_complete)answer->values->complete;
	options.device = answer->values->device;
	return options;
}

/* What the search has seen already is not tried again. */
static void
try_asked(struct policy_row *row)
{
	struct trial_result result;

	if (row->fit.claim != FIT_NEVER && row->asked >= row->fit.enough) {
		row->passes = true;
	} else if (row->fit.claim != FIT_NEVER &&
		   (row->fit.claim != FIT_LEAST || row->asked > row->fit.capacity)) {
		row->status = trial_run(row->trial, row->asked, &result, &row->error);
		row->passes = row->status == SOMA_STATUS_OK && result.passed;
	} else {
		row->passes = row->fit.claim == FIT_LEAST && row->asked == row->fit.capacity;
	}
}

static void
find(void *context)
{
	struct policy_row *row = context;

	row->status = fit_find(row->trial, row->bound, FIT_COST_DEFAULT, &row->fit, &row->error);
	if (row->status == SOMA_STATUS_OK && row->asked > 0)
		try_asked(row);
	row->found = true;
}

/* Trials that share the session's reader, one after the other; without memory some may be apart and some not. */
static void
find_shared(void *context)
{
	struct answer *answer = context;

	for (size_t i = 0; i < answer->row_count; i++)
		if (answer->rows[i].trial != NULL && !trial_is_apart(answer->rows[i].trial))
			find(&answer->rows[i]);
}

static void
pack(void *context)
{
	struct answer *answer = context;
	/* What a placement instance says is exact. */
	fit_packing_run(&answer->packing, &answer->lives,
			trace_upper(answer->reader) != NULL ? 1 : ALIGNMENT);
}

/* The least may be found sooner, and what just fits takes a few trials more. */
static double
part_done(const struct policy_row *row)
{
	double cost, count;

	if (row->trial == NULL || row->found)
		return 1;
	cost = (double)trial_cost(row->trial);
	count = (double)trial_count(row->trial);
	return count > 0 ? cost / (cost + FIT_COST_DEFAULT / 4 + 4 * cost / count) : 0;
}

static void
show_progress(void *context)
{
	struct answer *answer = context;
	double done = 0, count = 0;

	for (size_t i = 0; i < answer->row_count; i++)
		done += part_done(&answer->rows[i]);
	count = (double)answer->row_count;
	if (answer->lives.complete) {
		done += fit_packing_part_done(&answer->packing);
		count++;
	}
	progress_show(&answer->progress, done < count ? done / count : 1);
}

/* The policies and the packing, side by side. */
static void
run_jobs(struct answer *answer)
{
	struct job jobs[POLICIES_MAX + 2];
	size_t count = 0;
	bool shared = false;

	if (answer->lives.complete)
		jobs[count++] = (struct job){ .run = pack, .context = answer };
	for (size_t i = 0; i < answer->row_count; i++) {
		struct policy_row *row = &answer->rows[i];

		if (row->trial != NULL && trial_is_apart(row->trial))
			jobs[count++] = (struct job){ .run = find, .context = row };
		else if (row->trial != NULL)
			shared = true;
	}
	if (shared)
		jobs[count++] = (struct job){ .run = find_shared, .context = answer };
	progress_start(&answer->progress, "fitting", true);
	jobs_run(jobs, count, show_progress, answer);
	progress_end(&answer->progress);
}

static bool
row_passes(const struct policy_row *row)
{
	return row->status == SOMA_STATUS_OK && row->fit.claim != FIT_NEVER;
}

/* A policy that cannot replay this trace is a row that says so; other failures end it. */
static enum soma_status
add_row(struct replay_session *session, struct answer *answer, const struct soma_policy *policy,
	struct trace_error *error)
{
	struct policy_row *row = &answer->rows[answer->row_count++];
	struct replay_options options = options_of(answer, policy);

	row->policy = policy;
	row->bound = answer->lives.peak_wanted;
	row->asked = answer->values->capacity;
	row->status = trial_create(session, &options, &row->trial, &row->error);
	if (row->status == SOMA_STATUS_OK || row->status == SOMA_STATUS_NOT_SUPPORTED)
		return SOMA_STATUS_OK;
	*error = row->error;
	return row->status;
}

static enum soma_status
add_rows(struct replay_session *session, struct answer *answer, struct trace_error *error)
{
	const struct soma_policy *policy = answer_policy(answer->values->policy);
	enum soma_status status = SOMA_STATUS_OK;

	if (policy != NULL)
		return add_row(session, answer, policy, error);
	for (size_t i = 0; status == SOMA_STATUS_OK && (policy = soma_policy_at(i)) != NULL && i < POLICIES_MAX;
	     i++)
		status = add_row(session, answer, policy, error);
	return status;
}

static enum soma_status
find_all(struct replay_session *session, struct answer *answer, struct trace_error *error)
{
	enum soma_status status = lives_read(session, answer->values->device, ALIGNMENT, PACK_COUNT_MAX,
					     &answer->lives, error);

	if (status == SOMA_STATUS_OK)
		status = add_rows(session, answer, error);
	if (status == SOMA_STATUS_OK)
		run_jobs(answer);
	for (size_t i = 0; status == SOMA_STATUS_OK && i < answer->row_count; i++) {
		const struct policy_row *row = &answer->rows[i];

		if (row_passes(row))
			fit_packing_policy(&answer->packing, row->policy, row->fit.capacity);
		if (row->status == SOMA_STATUS_OK || row->status == SOMA_STATUS_NOT_SUPPORTED)
			continue;
		*error = row->error;
		status = row->status;
	}
	return status;
}

/* ---- text --------------------------------------------------------------------- */

static const char *
claim_text(enum fit_claim claim)
{
	switch (claim) {
	case FIT_LEAST:
		return "least: nothing smaller passes";
	case FIT_LOCAL:
		return "passes, and one byte less fails; something smaller may pass";
	case FIT_NEVER:
		return "passes at no capacity";
	}
	return "";
}

static void
bound_line(const char *label, uint64_t bytes, uint64_t least, const char *note)
{
	char size[UNITS_MAX], over[UNITS_MAX];

	printf("  %-26s %10s %15" PRIu64 " %9s  %s\n", label, units_bytes(size, bytes), bytes,
	       fit_over(over, bytes, least), note);
}

static void
print_row(const struct policy_row *row, uint64_t least)
{
	char label[64];

	snprintf(label, sizeof label, "Policy %s", row->policy->name);
	if (row->status != SOMA_STATUS_OK)
		printf("  %-26s not replayed: %s\n", label, row->error.text);
	else if (row->fit.claim == FIT_NEVER)
		printf("  %-26s %s\n", label, claim_text(FIT_NEVER));
	else
		bound_line(label, row->fit.capacity, least, claim_text(row->fit.claim));
}

/* What is below the packing, and why it can be. */
static void
print_notes(const struct answer *answer)
{
	if (!answer->packing.result.packed)
		return;
	putchar('\n');
	fit_packing_note(&answer->packing);
	for (size_t i = 0; i < answer->row_count; i++)
		if (row_passes(&answer->rows[i]))
			fit_packing_note_policy(&answer->packing, answer->rows[i].policy,
						answer->rows[i].fit.capacity);
}

static void
print_recorded(const struct replay_recorded *recorded)
{
	char text[ANSWER_RECORDED_MAX];

	if (recorded->happened)
		printf("\nEach capacity, and the packing, has room for %s.\n", answer_recorded(text, recorded));
}

static void
print_text(const struct answer *answer)
{
	const struct lives *lives = &answer->lives;
	char *shown = report_clean(answer->path), size[UNITS_MAX], note[FIT_HOW_MAX];

	printf("%s\n  %s\n\n", shown, trace_format(answer->reader));
	free(shown);
	bound_line("Live bytes at most", lives->peak_requested, 0, "as requested: nothing is below this");
	bound_line("Live bytes, rounded", lives->peak_rounded, lives->peak_requested,
		   "each block rounded up to 512 B");
	if (lives->recorded.happened)
		bound_line("With what failed, rounded", lives->peak_wanted, lives->peak_requested,
			   "each request that failed, beside what was live then");
	if (answer->packing.result.packed) {
		bound_line("Offline packing", answer->packing.low, lives->peak_requested,
			   fit_packing_how(&answer->packing, note));
	} else {
		printf("  %-26s too many blocks, or too large\n", "Offline packing");
	}
	for (size_t i = 0; i < answer->row_count; i++)
		print_row(&answer->rows[i], lives->peak_requested);
	print_recorded(&lives->recorded);
	print_notes(answer);
	if (answer->values->capacity == 0)
		return;
	printf("\nAt %s:\n", units_bytes(size, answer->values->capacity));
	for (size_t i = 0; i < answer->row_count; i++)
		if (answer->rows[i].status == SOMA_STATUS_OK)
			printf("  %-10s %s\n", answer->rows[i].policy->name,
			       answer->rows[i].passes ? "passes" : "runs out of memory");
}

/* ---- JSON ----------------------------------------------------------------------- */

static json_t *
row_object(const struct policy_row *row)
{
	static const char *const claims[] = { "least", "local", "never" };
	json_t *object = json_object();

	report_put(object, "policy", json_string(row->policy->name));
	report_put(object, "error", row->status != SOMA_STATUS_OK ? answer_text(row->error.text) : json_null());
	if (row->status != SOMA_STATUS_OK)
		return object;
	report_put(object, "claim", json_string(claims[row->fit.claim]));
	report_put(object, "capacity",
		   row->fit.claim != FIT_NEVER ? report_number(row->fit.capacity) : json_null());
	report_put(object, "replays", report_number(row->fit.replays));
	report_put(object, "passes", row->asked > 0 ? json_boolean(row->passes) : json_null());
	return object;
}

static json_t *
answer_object(const struct answer *answer, bool truncated)
{
	json_t *object = json_object(), *rows = json_array();

	for (size_t i = 0; i < answer->row_count; i++)
		json_array_append_new(rows, row_object(&answer->rows[i]));
	report_put(object, "trace", answer_text(answer->path));
	report_put(object, "truncated", json_boolean(truncated));
	report_put(object, "peak_live_requested", report_number(answer->lives.peak_requested));
	report_put(object, "peak_live_rounded", report_number(answer->lives.peak_rounded));
	report_put(object, "peak_wanted_rounded", report_number(answer->lives.peak_wanted));
	report_put(object, "recorded_oom", report_recorded(&answer->lives.recorded));
	report_put(object, "packing", fit_packing_object(&answer->packing, answer->lives.count));
	report_put(object, "capacity",
		   answer->values->capacity > 0 ? report_number(answer->values->capacity) : json_null());
	report_put(object, "policies", rows);
	return object;
}

static int
verdict(const struct answer *answer)
{
	bool any = answer->values->capacity == 0;

	for (size_t i = 0; i < answer->row_count; i++)
		any |= answer->rows[i].passes;
	return any ? EXIT_FINE : EXIT_BAD_NEWS;
}

static int
show(const struct command *command, struct answer *answer, bool truncated)
{
	int status = truncated ? EXIT_BAD_NEWS : verdict(answer);

	if (!fit_packing_check(command, &answer->packing, &answer->lives))
		return EXIT_INPUT;
	if (answer->values->json)
		return answer_print(command, answer_object(answer, truncated), status);
	print_text(answer);
	return status;
}

/* The pass is the first half of a replay. */
static void
show_reading(void *context, double done)
{
	progress_show(context, 2 * done);
}

static int
fit_reader(const struct command *command, struct answer *answer, struct trace_reader *reader)
{
	struct replay_options options = options_of(answer, NULL);
	struct replay_session *session;
	struct trace_error error;
	enum soma_status status;
	int end;

	answer_keep(reader);
	progress_start(&answer->progress, "reading", true);
	options.progress = show_reading;
	options.context = &answer->progress;
	status = replay_begin(reader, &options, &session, &error);
	progress_end(&answer->progress);
	if (status == SOMA_STATUS_OK)
		status = find_all(session, answer, &error);
	if (status != SOMA_STATUS_OK)
		end = answer_engine_error(command, answer->path, status, &error);
	else
		end = show(command, answer, answer_session_truncated(command, session));
	lives_fini(&answer->lives);
	for (size_t i = 0; i < answer->row_count; i++)
		trial_destroy(answer->rows[i].trial);
	replay_end(session);
	return end;
}

int
command_fit(const struct command *command, int argc, char **argv)
{
	struct fit_values values = { .device = REPLAY_DEVICE_ANY };
	struct answer answer = { .values = &values };
	struct trace_reader *reader;
	int first, status = options_parse(command, argc, argv, &values, &first);

	if (status < 0)
		status = answer_check_size(command, "capacity", values.capacity);
	if (status >= 0)
		return status;
	answer.path = answer_operand(command, argc, argv, first, &status);
	if (answer.path == NULL)
		return status;
	reader = answer_open_upper(command, answer.path, values.upper);
	if (reader == NULL)
		return EXIT_INPUT;
	answer.reader = reader;
	status = fit_reader(command, &answer, reader);
	trace_close(reader);
	return status;
}

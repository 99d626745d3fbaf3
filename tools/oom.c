/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma oom`: why memory ran out, and what would have helped.  What is found is shown by oom_report.c.
 */
#include "tools/oom.h"

#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/engine/lives.h"
#include "tools/engine/session.h"
#include "tools/engine/settings.h"
#include "tools/report/report.h"

const char *const oom_paragraphs[] = {
	"Explains why the trace ran out of memory: by the first out-of-memory event that it records, or, with "
	"--capacity, by where a replay under that capacity fails first. Says how many bytes were short, "
	"which live blocks keep segments that are mostly free, and who held the most. Addresses are the "
	"recorded ones: a segment of the replay that is not also one of the recording has none. Where the "
	"trace records no addresses, they are the model's.",
	"The reason is one of: truly too big (not even without any waste); the smallest segment for it is "
	"larger than the capacity; fragmentation (the bytes are free, but not in one piece); stranded on "
	"other "
	"streams; frees that have not executed; rounding; cached but not released (segments that are wholly "
	"free would have been enough); outside (other memory on the device, when --capacity tells its size); "
	"there was room (what the trace says was free would have been enough: it was another limit, such as "
	"a memory fraction, which --capacity can tell).",
	"Whatever is said to help was replayed, and passed: a capacity, settings of the allocator, another "
	"policy. Of PyTorch it is said as PYTORCH_CUDA_ALLOC_CONF has it, which soma whatif --set takes as it is. A "
	"recorded failure knows what there was for the process: what it had reserved, and what was free on "
	"the device. With --capacity as the size of the device, the rest is outside; what is said to help is then said "
	"for the process, and for the device as well. Where the replay passes in what there was, too, nothing is said "
	"to help: the model does not show what the recorded allocator ran into. The exit status is 1 when memory ran "
	"out, 0 when it did not.",
	NULL,
};

#define FIELD(name) offsetof(struct oom_values, name)

const struct option_row oom_options[] = {
	{ "capacity", 'c', OPTION_SIZE, FIELD(capacity), "SIZE", NULL,
	  "The most that may be reserved; for a trace with an out-of-memory event, the size of the device, "
	  "or a limit below it. The default is what was reserved and free at that event." },
	{ "policy", 'p', OPTION_CHOICE, FIELD(policy), "auto|strict|cuda|pytorch|soma", replay_policy_names,
	  "The allocator; see soma replay." },
	{ "complete", 'k', OPTION_CHOICE, FIELD(complete), "free|sync|never", replay_complete_names,
	  "When a stream has executed a free; see soma replay." },
	{ "device", 'd', OPTION_NUMBER, FIELD(device), "N", NULL,
	  "The device. The default is that of the first out-of-memory event, else the one with the most "
	  "allocations." },
	{ "limit", 'n', OPTION_NUMBER, FIELD(limit), "N", NULL,
	  "Show at most N segments, N blocks in each of them, and N holders; 0 is all. The default is 10, 3 and 8. With "
	  "--json it is all segments and all holders, unless this is given." },
	{ "json", 'j', OPTION_FLAG, FIELD(json), NULL, NULL,
	  "Print one JSON object instead of the report; sizes in it are bytes." },
	{ .name = NULL },
};

/* ---- what happened --------------------------------------------------------------- */

static struct replay_options
options_of(const struct oom *oom, uint64_t capacity)
{
	struct replay_options options = answer_options();

	options.policy = oom->policy;
	options.complete = (enum replay_complete)oom->values->complete;
	options.device = oom->device;
	options.capacity = capacity;
	return options;
}

/* The device of the first failure that the trace tells of; and how many there are of others. */
static enum soma_status
find_device(struct oom *oom)
{
	struct trace_event event;
	enum trace_result result = TRACE_OK;

	oom->device = oom->values->device;
	if (oom->device != REPLAY_DEVICE_ANY)
		return SOMA_STATUS_OK;
	if (trace_rewind(oom->reader, &oom->error) != TRACE_OK)
		return SOMA_STATUS_IO;
	while ((result = trace_next(oom->reader, &event, &oom->error)) == TRACE_OK) {
		if ((event.op != TRACE_OOM && event.op != TRACE_ALLOC_FAILED) || event.size == 0)
			continue;
		if (oom->device == REPLAY_DEVICE_ANY)
			oom->device = event.device;
		oom->elsewhere += event.device != oom->device;
	}
	return result == TRACE_ERROR ? SOMA_STATUS_PARSE : SOMA_STATUS_OK;
}

/* One replay with an autopsy of its first failure: under the capacity, or what is recorded. */
static enum soma_status
examine(struct oom *oom, uint64_t capacity)
{
	struct replay_options options = options_of(oom, capacity);
	struct replay_result result;
	enum soma_status status;

	autopsy_fini(&oom->autopsy);
	options.autopsy = &oom->autopsy;
	status = replay_again(oom->session, &options, &result, &oom->error);
	if (status != SOMA_STATUS_OK)
		return status;
	oom->policy = result.policy;
	oom->reproduced = result.oom.happened;
	oom->recorded = result.recorded_oom;
	replay_result_fini(&result);
	return SOMA_STATUS_OK;
}

static bool
fails_at(struct oom *oom, uint64_t capacity, enum soma_status *status)
{
	struct replay_options options = options_of(oom, capacity);
	struct replay_result result;
	bool failed;

	options.trial = true;
	*status = replay_again(oom->session, &options, &result, &oom->error);
	if (*status != SOMA_STATUS_OK)
		return false;
	failed = result.oom.happened;
	replay_result_fini(&result);
	return failed;
}

/* The trace's own failure, unless the capacity makes the replay fail before it. */
static enum soma_status
find_failure(struct oom *oom)
{
	uint64_t given = oom->values->capacity;
	enum soma_status status = examine(oom, given);
	const struct autopsy *autopsy = &oom->autopsy;

	oom->capacity = given;
	if (status != SOMA_STATUS_OK || !autopsy->taken)
		return status;
	if (!autopsy->recorded || (!autopsy->has_device_free && given == 0))
		return SOMA_STATUS_OK;
	oom->capacity = autopsy->limit;
	oom->of_process = oom->capacity != given;
	if (given > oom->capacity)
		oom->outside = given - oom->capacity;
	oom->reproduced = fails_at(oom, oom->capacity, &status);
	return status;
}

static void
find_reason(struct oom *oom)
{
	const struct autopsy *autopsy = &oom->autopsy;

	oom->short_by = autopsy->verdict.short_by;
	oom->reason = replay_oom_text(autopsy->verdict.reason);
	if (autopsy->recorded && oom->capacity > 0 && oom->short_by == 0)
		oom->reason = "there was room";
	else if (oom->outside >= oom->short_by && oom->outside > 0)
		oom->reason = "outside the library";
	else if (autopsy->verdict.reason != REPLAY_OOM_TOO_BIG && autopsy->idle >= oom->short_by &&
		 oom->short_by > 0)
		oom->reason = "cached but not released";
}

/* ---- what would have helped --------------------------------------------------------- */

static bool
is_pytorch(const struct oom *oom)
{
	return strcmp(oom->policy->name, "pytorch") == 0;
}

static enum soma_status
try_remedy(struct oom *oom, const struct replay_options *options, const char *text, const char *policy)
{
	struct replay_options wanted = *options;
	struct replay_result result;
	enum soma_status status;

	wanted.trial = true;
	oom->tried++;
	status = replay_again(oom->session, &wanted, &result, &oom->error);
	if (status == SOMA_STATUS_NOT_SUPPORTED)
		return SOMA_STATUS_OK;
	if (status != SOMA_STATUS_OK)
		return status;
	if (!result.oom.happened && oom->remedy_count < OOM_REMEDIES_MAX) {
		struct oom_remedy *remedy = &oom->remedies[oom->remedy_count++];

		snprintf(remedy->text, sizeof remedy->text, "%s", text);
		remedy->policy = policy;
		remedy->capacity = wanted.capacity;
		remedy->reserved = result.peak_reserved;
	}
	replay_result_fini(&result);
	return SOMA_STATUS_OK;
}

static enum soma_status
try_settings(struct oom *oom)
{
	static const char *const candidates[] = {
		"max_split_size_mb:32",
		"max_split_size_mb:64",
		"max_split_size_mb:128",
		"max_split_size_mb:256",
		"max_split_size_mb:512",
		"max_split_size_mb:128,max_non_split_rounding_mb:512",
		"garbage_collection_threshold:0.8",
		"max_split_size_mb:128,garbage_collection_threshold:0.8",
		"roundup_power2_divisions:4",
		"roundup_power2_divisions:8",
		"roundup_power2_divisions:16",
		"expandable_segments:True",
		"backend:cudaMallocAsync",
	};
	enum soma_status status = SOMA_STATUS_OK;

	for (size_t i = 0; status == SOMA_STATUS_OK && i < sizeof candidates / sizeof candidates[0]; i++) {
		struct replay_options options = options_of(oom, oom->capacity);
		struct settings settings;
		struct soma_policy policy;
		char buffer[256], text[sizeof oom->remedies[0].text];

		if (settings_parse(candidates[i], &settings, buffer, sizeof buffer) != NULL)
			continue;
		settings_apply(&settings, &policy, &options);
		snprintf(text, sizeof text, "PYTORCH_CUDA_ALLOC_CONF=%s", candidates[i]);
		status = try_remedy(oom, &options, text, NULL);
	}
	return status;
}

static enum soma_status
try_policies(struct oom *oom)
{
	const struct soma_policy *policy;
	enum soma_status status = SOMA_STATUS_OK;

	for (size_t i = 0; status == SOMA_STATUS_OK && (policy = soma_policy_at(i)) != NULL; i++) {
		struct replay_options options = options_of(oom, oom->capacity);
		char text[64];

		/* Of a program that uses PyTorch, cuda is one of the settings. */
		if (strcmp(policy->name, oom->policy->name) == 0 ||
		    (is_pytorch(oom) && strcmp(policy->name, "cuda") == 0))
			continue;
		options.policy = policy;
		snprintf(text, sizeof text, "the policy %s", policy->name);
		status = try_remedy(oom, &options, text, policy->name);
	}
	return status;
}

static enum soma_status
try_waiting(struct oom *oom)
{
	struct replay_options options = options_of(oom, oom->capacity);

	if (options.complete == REPLAY_COMPLETE_FREE)
		return SOMA_STATUS_OK;
	options.complete = REPLAY_COMPLETE_FREE;
	return try_remedy(oom, &options, "waiting until frees have executed", NULL);
}

static void
find_later(struct oom *oom, const struct lives *lives)
{
	uint64_t failed = oom->autopsy.event, highest = lives->peak_rounded_event;

	if (oom->capacity == 0 || lives->peak_rounded <= oom->capacity || highest == REPLAY_AT_START)
		return;
	if (failed != REPLAY_AT_START && highest <= failed)
		return;
	oom->later_live = lives->peak_rounded;
	oom->later_event = highest;
	oom->later_requested = lives->peak_requested > oom->capacity;
}

static enum soma_status
find_capacity(struct oom *oom)
{
	struct replay_options options = options_of(oom, 0);
	struct lives lives;
	struct fit fit = { 0 };
	struct trial *trial = NULL;
	enum soma_status status =
		lives_read(oom->session, oom->device, oom->policy->alignment, 0, &lives, &oom->error);
	uint64_t bound = oom->capacity > lives.peak_wanted ? oom->capacity : lives.peak_wanted;

	if (status == SOMA_STATUS_OK)
		status = trial_create(oom->session, &options, &trial, &oom->error);
	if (status == SOMA_STATUS_OK)
		status = fit_find(trial, bound, FIT_COST_DEFAULT, &fit, &oom->error);
	trial_destroy(trial);
	find_later(oom, &lives);
	lives_fini(&lives);
	if (status != SOMA_STATUS_OK || fit.claim == FIT_NEVER)
		return status;
	oom->fits = fit.capacity;
	oom->claim = fit.claim;
	return SOMA_STATUS_OK;
}

static enum soma_status
find_remedies(struct oom *oom)
{
	enum soma_status status;

	/* Whatever passes in less than there was is no advice: the recording failed in more. */
	if (oom->capacity > 0 && !oom->reproduced)
		return SOMA_STATUS_OK;
	status = find_capacity(oom);
	/* What is live is no less under other settings or policies: there is nothing to try. */
	if (oom->capacity == 0 || oom->later_live > 0)
		return status;
	if (status == SOMA_STATUS_OK)
		status = try_waiting(oom);
	if (status == SOMA_STATUS_OK && is_pytorch(oom))
		status = try_settings(oom);
	if (status == SOMA_STATUS_OK)
		status = try_policies(oom);
	return status;
}

/* ---- the command --------------------------------------------------------------------- */

static int
show(struct oom *oom)
{
	bool truncated = answer_session_truncated(oom->command, oom->session);
	int status = oom->autopsy.taken || truncated ? EXIT_BAD_NEWS : EXIT_FINE;

	if (oom->values->json)
		return answer_print(oom->command, oom_object(oom, truncated), status);
	oom_print(oom);
	return status;
}

static int
explain(struct oom *oom)
{
	struct replay_options options = answer_options();
	enum soma_status status;
	int end;

	answer_keep(oom->reader);
	status = replay_begin(oom->reader, &options, &oom->session, &oom->error);
	oom->policy = answer_policy(oom->values->policy);
	if (status == SOMA_STATUS_OK)
		status = find_device(oom);
	if (status == SOMA_STATUS_OK)
		status = find_failure(oom);
	if (status == SOMA_STATUS_OK && oom->autopsy.taken) {
		find_reason(oom);
		status = find_remedies(oom);
	}
	end = status == SOMA_STATUS_OK ? show(oom)
				       : answer_engine_error(oom->command, oom->path, status, &oom->error);
	autopsy_fini(&oom->autopsy);
	replay_end(oom->session);
	return end;
}

int
command_oom(const struct command *command, int argc, char **argv)
{
	struct oom_values values = { .device = REPLAY_DEVICE_ANY, .limit = -1 };
	struct oom oom = { .command = command, .values = &values };
	int first, status = options_parse(command, argc, argv, &values, &first);

	if (status < 0)
		status = answer_check_size(command, "capacity", values.capacity);
	if (status >= 0)
		return status;
	oom.path = answer_operand(command, argc, argv, first, &status);
	if (oom.path == NULL)
		return status;
	oom.reader = answer_open(command, oom.path);
	if (oom.reader == NULL)
		return EXIT_INPUT;
	status = explain(&oom);
	trace_close(oom.reader);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma check`: limits on a trace's memory, for continuous integration.
 */
#define _GNU_SOURCE /* asprintf */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/junit.h"
#include "tools/report/report.h"
#include "tools/units.h"

struct check_values {
	uint64_t max_peak, max_reserved, max_leak; /* UINT64_MAX: not given */
	double max_frag;                           /* below 0: not given */
	unsigned policy, upper;
	uint64_t capacity;
	int32_t device;
	const char *junit;
	bool json, partial;
};

const char *const check_paragraphs[] = {
	"Replays the trace and compares it with limits, for continuous integration. Each limit is shown with "
	"what was measured, where that was, and who held the most then. The exit status is 0 when all are "
	"kept "
	"and 1 when one is passed; a measured value that equals its limit keeps it.",
	"At least one limit must be given. Running out of memory is a violation, too: of --capacity, or of the 256 TiB that there are addresses for. With "
	"--capacity a request that the trace says failed is made here, too, and freed at once.",
	NULL,
};

#define FIELD(name) offsetof(struct check_values, name)

const struct option_row check_options[] = {
	{ "max-peak", 'm', OPTION_SIZE, FIELD(max_peak), "SIZE", NULL,
	  "The most requested bytes that may be live at once." },
	{ "max-reserved", 'R', OPTION_SIZE, FIELD(max_reserved), "SIZE", NULL,
	  "The most bytes that the allocator may reserve." },
	{ "max-leak", 'l', OPTION_SIZE, FIELD(max_leak), "SIZE", NULL,
	  "The most requested bytes that may be live at the end of the trace." },
	{ "max-frag", 'f', OPTION_SHARE, FIELD(max_frag), "FRACTION", NULL,
	  "The highest fragmentation: 1 - peak of live requested bytes / peak of reserved bytes, such as "
	  "0.15." },
	{ "policy", 'p', OPTION_CHOICE, FIELD(policy), "auto|strict|cuda|pytorch|soma", replay_policy_names,
	  "The allocator; see soma replay." },
	{ "capacity", 'c', OPTION_SIZE, FIELD(capacity), "SIZE", NULL,
	  "The most that may be reserved; allocations fail beyond. The default, 0, is no limit." },
	{ "device", 'd', OPTION_NUMBER, FIELD(device), "N", NULL,
	  "The device. The default is the one with the most allocations." },
	{ "upper", 'u', OPTION_CHOICE, FIELD(upper), "exclusive|inclusive", upper_names,
	  "Of placement instances: whether a block is gone at the moment upper (exclusive, the default) or "
	  "lives through it." },
	{ "junit", 'J', OPTION_TEXT, FIELD(junit), "FILE", NULL,
	  "Also write the result as JUnit XML: a test case for each limit, and an error when the trace "
	  "cannot "
	  "be read or is truncated." },
	{ "json", 'j', OPTION_FLAG, FIELD(json), NULL, NULL,
	  "Print one JSON object instead of the report; sizes in it are bytes." },
	{ "partial", 'P', OPTION_FLAG, FIELD(partial), NULL, NULL,
	  "Take a truncated trace as it is: without this it gives exit status 1." },
	{ .name = NULL },
};

/* One limit, judged. */
struct judged {
	const char *name;
	bool violated, is_share;
	uint64_t limit, measured; /* bytes */
	double limit_share, share;
	char where[128];
	uint64_t event; /* of `where`, or REPLAY_AT_START */
	char *holder;   /* the biggest there, or NULL */
	uint64_t holder_bytes;
};

#define JUDGED_MAX 5

struct checked {
	char *path;        /* clean */
	const char *error; /* why the answer is not whole, or NULL */
	struct judged at[JUDGED_MAX];
	size_t count, violated;
	struct replay_recorded recorded;
};

/* ---- judging -------------------------------------------------------------------- */

static struct judged *
add(struct checked *checked, const char *name, bool violated)
{
	struct judged *judged = &checked->at[checked->count++];

	*judged = (struct judged){ .name = name, .violated = violated, .event = REPLAY_AT_START };
	checked->violated += violated;
	return judged;
}

static struct judged *
judge_size(struct checked *checked, const char *name, uint64_t limit, uint64_t measured)
{
	struct judged *judged = add(checked, name, measured > limit);

	judged->limit = limit;
	judged->measured = measured;
	return judged;
}

static void
at_event(struct judged *judged, uint64_t event)
{
	char text[ANSWER_EVENT_MAX];

	judged->event = event;
	snprintf(judged->where, sizeof judged->where, "%s%s", event == REPLAY_AT_START ? "" : "at ",
		 answer_event_text(text, event));
}

static void
biggest(struct judged *judged, const struct trace_reader *reader, const struct holder_rank *holders,
	size_t count)
{
	if (count == 0)
		return;
	judged->holder = answer_holder(reader, holders[0].name);
	judged->holder_bytes = holders[0].bytes;
}

static void
judge_frag(struct checked *checked, double limit, const struct trace_reader *reader,
	   const struct replay_result *result)
{
	double live = (double)result->peak_live_requested, reserved = (double)result->peak_reserved;
	double share = reserved > 0 ? 1 - live / reserved : 0;
	struct judged *judged = add(checked, "max-frag", share > limit);
	char a[ANSWER_EVENT_MAX], b[ANSWER_EVENT_MAX];

	judged->is_share = true;
	judged->limit_share = limit;
	judged->share = share;
	judged->event = result->reserved_event;
	snprintf(judged->where, sizeof judged->where, "live bytes peak: %s; reserved bytes: %s",
		 answer_event_text(a, result->peak_event), answer_event_text(b, result->reserved_event));
	biggest(judged, reader, result->holders, result->holder_count);
}

/* Without a capacity there are still only so many addresses: what did not fit in them is in no peak. */
static void
judge_oom(struct checked *checked, uint64_t capacity, const struct replay_result *result)
{
	const struct replay_oom *oom = &result->oom;
	struct judged *judged = add(checked, "capacity", oom->happened);

	judged->limit = capacity > 0 ? capacity : SOMA_MODEL_ADDRESS_MAX;
	judged->measured = result->peak_reserved;
	if (oom->happened && __builtin_add_overflow(judged->limit, oom->short_by, &judged->measured))
		judged->measured = UINT64_MAX;
	at_event(judged, oom->happened ? oom->event : result->reserved_event);
}

static void
judge(struct checked *checked, const struct check_values *values, const struct trace_reader *reader,
      const struct replay_result *result)
{
	struct judged *judged;

	if (values->max_peak != UINT64_MAX) {
		judged = judge_size(checked, "max-peak", values->max_peak, result->peak_live_requested);
		at_event(judged, result->peak_event);
		biggest(judged, reader, result->holders, result->holder_count);
	}
	if (values->max_reserved != UINT64_MAX) {
		judged = judge_size(checked, "max-reserved", values->max_reserved, result->peak_reserved);
		at_event(judged, result->reserved_event);
	}
	if (values->max_leak != UINT64_MAX) {
		judged = judge_size(checked, "max-leak", values->max_leak, result->counts.live_bytes);
		snprintf(judged->where, sizeof judged->where, "at the end, %" PRIu64 " %s",
			 result->counts.live_blocks, result->counts.live_blocks == 1 ? "block" : "blocks");
		if (result->last_event != REPLAY_AT_START)
			judged->event = result->last_event;
		biggest(judged, reader, result->end_holders, result->end_holder_count);
	}
	if (values->max_frag >= 0)
		judge_frag(checked, values->max_frag, reader, result);
	if (values->capacity > 0 || result->oom.happened)
		judge_oom(checked, values->capacity, result);
}

/* ---- output ---------------------------------------------------------------------- */

static void
measured_text(const struct judged *judged, char *text, size_t size)
{
	char a[UNITS_MAX], b[UNITS_MAX];

	if (judged->is_share)
		snprintf(text, size, "%.4f, limit %.4f; %s", judged->share, judged->limit_share,
			 judged->where);
	else
		snprintf(text, size, "%s, limit %s; %s", units_exact(a, judged->measured),
			 units_exact(b, judged->limit), judged->where);
}

/* "most by NAME: 12 MiB"; NULL without a holder.  The caller frees it. */
static char *
holder_text(const struct judged *judged)
{
	char bytes[UNITS_MAX], *text = NULL;

	if (judged->holder != NULL &&
	    asprintf(&text, "most by %s: %s", judged->holder, units_bytes(bytes, judged->holder_bytes)) < 0)
		return NULL;
	return text;
}

static void
print_text(const struct checked *checked)
{
	char text[384], kept[UNITS_MAX], recorded[ANSWER_RECORDED_MAX];

	printf("%s\n", checked->path);
	if (checked->recorded.happened)
		printf("The trace records that memory ran out: %s%s.\n", answer_recorded(recorded, &checked->recorded),
		       checked->recorded.tried ? "; --capacity must have room for that" : "");
	for (size_t i = 0; i < checked->count; i++) {
		const struct judged *judged = &checked->at[i];
		char *holder = holder_text(judged);

		measured_text(judged, text, sizeof text);
		printf("%-9s %-13s %s\n", judged->violated ? "VIOLATED" : "ok", judged->name, text);
		if (holder != NULL)
			printf("%23s %s\n", "", holder);
		free(holder);
	}
	printf("%s kept\n", units_part(kept, checked->count - checked->violated, checked->count, "limit"));
}

static json_t *
judged_object(const struct judged *judged)
{
	json_t *object = json_object(), *holder = json_null();

	report_put(object, "name", json_string(judged->name));
	report_put(object, "violated", json_boolean(judged->violated));
	report_put(object, "limit",
		   judged->is_share ? json_real(judged->limit_share) : report_number(judged->limit));
	report_put(object, "measured",
		   judged->is_share ? json_real(judged->share) : report_number(judged->measured));
	report_put(object, "event", report_event(judged->event));
	report_put(object, "where", json_string(judged->where));
	if (judged->holder != NULL) {
		holder = json_object();
		report_put(holder, "name", json_string(judged->holder));
		report_put(holder, "bytes", report_number(judged->holder_bytes));
	}
	report_put(object, "holder", holder);
	return object;
}

static json_t *
checked_object(const struct checked *checked, const struct replay_result *result)
{
	json_t *object = json_object(), *limits = json_array();

	for (size_t i = 0; i < checked->count; i++)
		json_array_append_new(limits, judged_object(&checked->at[i]));
	report_put(object, "trace", json_string(checked->path));
	report_put(object, "device", json_integer(result->device));
	report_put(object, "policy", json_string(result->policy->name));
	report_put(object, "truncated", json_boolean(result->truncated));
	report_put(object, "violated", report_number(checked->violated));
	report_put(object, "recorded_oom", report_recorded(&checked->recorded));
	report_put(object, "limits", limits);
	return object;
}

static bool
write_junit(const char *path, const struct checked *checked)
{
	struct junit_case cases[JUDGED_MAX];
	char failures[JUDGED_MAX][384], *details[JUDGED_MAX];
	bool written;

	for (size_t i = 0; i < checked->count; i++) {
		const struct judged *judged = &checked->at[i];

		measured_text(judged, failures[i], sizeof failures[i]);
		details[i] = holder_text(judged);
		cases[i] = (struct junit_case){ judged->name, judged->violated ? failures[i] : NULL,
						details[i] };
	}
	written = junit_write(path, checked->path, cases, checked->count, checked->error);
	for (size_t i = 0; i < checked->count; i++)
		free(details[i]);
	return written;
}

/* Passes the status on, unless the file could not be written. */
static int
junit(const struct command *command, const struct check_values *values, const struct checked *checked,
      int status)
{
	char *shown;
	int problem;

	if (values->junit == NULL || write_junit(values->junit, checked))
		return status;
	problem = errno;
	shown = report_clean(values->junit);
	fprintf(stderr, "soma %s: %s: cannot write: %s\n", command->name, shown, strerror(problem));
	free(shown);
	return EXIT_INPUT;
}

static int
show(const struct command *command, const struct check_values *values, struct checked *checked,
     const struct replay_result *result)
{
	int status = answer_truncated(command, result->truncated, &result->truncation, values->partial);

	if (status != EXIT_FINE)
		checked->error = result->truncation.text;
	if (checked->violated > 0)
		status = EXIT_BAD_NEWS;
	if (values->json)
		status = answer_print(command, checked_object(checked, result), status);
	else
		print_text(checked);
	return junit(command, values, checked, status);
}

static int
check_reader(const struct command *command, const struct check_values *values, struct checked *checked,
	     const char *path, struct trace_reader *reader)
{
	struct replay_options options = answer_options();
	struct replay_result result;
	struct trace_error error;
	enum soma_status status;
	int end;

	options.policy = answer_policy(values->policy);
	options.capacity = values->capacity;
	options.device = values->device;
	status = replay_run(reader, &options, &result, &error);
	if (status != SOMA_STATUS_OK) {
		end = answer_engine_error(command, path, status, &error);
		checked->error = error.text;
		return junit(command, values, checked, end);
	}
	judge(checked, values, reader, &result);
	checked->recorded = result.recorded_oom;
	end = show(command, values, checked, &result);
	replay_result_fini(&result);
	return end;
}

static int
check_path(const struct command *command, const struct check_values *values, const char *path)
{
	struct checked checked = { .path = report_clean(path) };
	struct trace_error error;
	struct trace_reader *reader = answer_try_open(path, values->upper, &error);
	int status;

	if (reader != NULL) {
		status = check_reader(command, values, &checked, path, reader);
	} else {
		checked.error = error.text;
		status = junit(command, values, &checked, answer_error(command, error.text));
	}
	for (size_t i = 0; i < checked.count; i++)
		free(checked.at[i].holder);
	free(checked.path);
	trace_close(reader);
	return status;
}

int
command_check(const struct command *command, int argc, char **argv)
{
	struct check_values values = { .max_peak = UINT64_MAX,
				       .max_reserved = UINT64_MAX,
				       .max_leak = UINT64_MAX,
				       .max_frag = -1,
				       .device = REPLAY_DEVICE_ANY };
	int first, status = options_parse(command, argc, argv, &values, &first);
	const char *path;

	if (status < 0)
		status = answer_check_size(command, "capacity", values.capacity);
	if (status >= 0)
		return status;
	path = answer_operand(command, argc, argv, first, &status);
	if (path == NULL)
		return status;
	if (values.max_peak == UINT64_MAX && values.max_reserved == UINT64_MAX &&
	    values.max_leak == UINT64_MAX && values.max_frag < 0 && values.capacity == 0)
		return usage_error(command, "expected a limit, such as --max-peak");
	if (values.junit != NULL && strcmp(values.junit, "-") == 0)
		return usage_error(command,
				   "--junit: expected a file, got '-': the report is on standard output");
	if (values.junit != NULL && answer_is_same_file(values.junit, path))
		return usage_error(command, "--junit: '%s' is the trace itself", values.junit);
	return check_path(command, &values, path);
}

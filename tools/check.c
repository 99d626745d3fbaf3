/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma check`: limits on a trace's memory, for continuous integration.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/report/report.h"
#include "tools/units.h"

struct check_values {
	uint64_t max_peak, max_reserved, max_leak; /* UINT64_MAX: not given */
	double max_frag;                           /* below 0: not given */
	unsigned policy;
	uint64_t capacity;
	int32_t device;
	const char *junit;
	bool json;
};

const char *const check_paragraphs[] = {
	"Replays the trace and compares it with limits, for continuous integration. The exit status is 1 when "
	"a limit is passed, and each limit is shown with what was measured, where that was, and who held the "
	"most then.",
	"At least one limit must be given. Out of memory under --capacity is a violation, too.",
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
	  "The highest fragmentation: 1 - peak of live requested bytes / peak of reserved bytes." },
	{ "policy", 'p', OPTION_CHOICE, FIELD(policy), "auto|strict|cuda|pytorch|soma", answer_policies,
	  "The allocator; see soma replay." },
	{ "capacity", 'c', OPTION_SIZE, FIELD(capacity), "SIZE", NULL,
	  "The most that may be reserved; allocations fail beyond. The default, 0, is no limit." },
	{ "device", 'd', OPTION_NUMBER, FIELD(device), "N", NULL,
	  "The device. The default is the one with the most allocations." },
	{ "junit", 'u', OPTION_TEXT, FIELD(junit), "FILE", NULL,
	  "Also write the result as JUnit XML, a test case for each limit." },
	{ "json", 'j', OPTION_FLAG, FIELD(json), NULL, NULL,
	  "Print one JSON object instead of the report; sizes in it are bytes." },
	{ .name = NULL },
};

/* One limit, judged. */
struct judged {
	const char *name;
	bool violated, is_share;
	uint64_t limit, measured; /* bytes */
	double limit_share, share;
	bool has_event;
	uint64_t event; /* where it was measured; REPLAY_AT_START */
	char *holder;   /* the biggest there, or NULL */
	uint64_t holder_bytes;
};

#define JUDGED_MAX 5

struct checked {
	const char *path;
	struct judged at[JUDGED_MAX];
	size_t count, violated;
};

/* ---- judging -------------------------------------------------------------------- */

static struct judged *
add(struct checked *checked, const char *name, bool violated)
{
	struct judged *judged = &checked->at[checked->count++];

	*judged = (struct judged){ .name = name, .violated = violated };
	checked->violated += violated;
	return judged;
}

static void
judge_size(struct checked *checked, const char *name, uint64_t limit, uint64_t measured)
{
	struct judged *judged;

	if (limit == UINT64_MAX)
		return;
	judged = add(checked, name, measured > limit);
	judged->limit = limit;
	judged->measured = measured;
}

static void
add_peak_holder(struct judged *judged, const struct trace_reader *reader, const struct replay_result *result)
{
	judged->has_event = true;
	judged->event = result->peak_event;
	if (result->holder_count == 0)
		return;
	judged->holder = answer_holder(reader, result->holders[0].name);
	judged->holder_bytes = result->holders[0].bytes;
}

static void
add_leaker(struct judged *judged, const struct trace_reader *reader, const struct replay_result *result)
{
	if (result->end_holder_count == 0)
		return;
	judged->holder = answer_holder(reader, result->end_holders[0].name);
	judged->holder_bytes = result->end_holders[0].bytes;
}

static void
judge_frag(struct checked *checked, double limit, const struct replay_result *result)
{
	double share = result->peak_reserved > 0 ? 1 - (double)result->peak_live_requested /
								(double)result->peak_reserved
						 : 0;
	struct judged *judged;

	if (limit < 0)
		return;
	judged = add(checked, "max-frag", share > limit);
	judged->is_share = true;
	judged->limit_share = limit;
	judged->share = share;
}

static void
judge_oom(struct checked *checked, uint64_t capacity, const struct replay_result *result)
{
	struct judged *judged;

	if (capacity == 0)
		return;
	judged = add(checked, "capacity", result->oom.happened);
	judged->limit = capacity;
	judged->measured = result->oom.happened ? capacity + result->oom.short_by : result->peak_reserved;
	judged->has_event = result->oom.happened;
	judged->event = result->oom.event;
}

static void
judge(struct checked *checked, const struct check_values *values, const struct trace_reader *reader,
      const struct replay_result *result)
{
	judge_size(checked, "max-peak", values->max_peak, result->peak_live_requested);
	if (values->max_peak != UINT64_MAX)
		add_peak_holder(&checked->at[0], reader, result);
	judge_size(checked, "max-reserved", values->max_reserved, result->peak_reserved);
	judge_size(checked, "max-leak", values->max_leak, result->counts.live_bytes);
	if (values->max_leak != UINT64_MAX)
		add_leaker(&checked->at[checked->count - 1], reader, result);
	judge_frag(checked, values->max_frag, result);
	judge_oom(checked, values->capacity, result);
}

/* ---- output ---------------------------------------------------------------------- */

static void
measured_text(const struct judged *judged, char *text, size_t size)
{
	char a[UNITS_MAX], b[UNITS_MAX], where[64] = "";

	if (judged->has_event && judged->event == REPLAY_AT_START)
		snprintf(where, sizeof where, ", before the first event");
	else if (judged->has_event)
		snprintf(where, sizeof where, ", at event %" PRIu64, judged->event);
	if (judged->is_share)
		snprintf(text, size, "%.4f, limit %.4f", judged->share, judged->limit_share);
	else
		snprintf(text, size, "%s (%" PRIu64 "), limit %s%s", units_bytes(a, judged->measured),
			 judged->measured, units_bytes(b, judged->limit), where);
}

static void
print_text(const struct checked *checked)
{
	char text[256], bytes[UNITS_MAX];

	for (size_t i = 0; i < checked->count; i++) {
		const struct judged *judged = &checked->at[i];

		measured_text(judged, text, sizeof text);
		printf("%-9s %-13s %s\n", judged->violated ? "VIOLATED" : "ok", judged->name, text);
		if (judged->violated && judged->holder != NULL)
			printf("%23s the most by %s: %s\n", "", judged->holder,
			       units_bytes(bytes, judged->holder_bytes));
	}
	printf("%zu of %zu limits kept\n", checked->count - checked->violated, checked->count);
}

static json_t *
judged_object(const struct judged *judged)
{
	json_t *object = json_object(), *holder = json_null();

	answer_put(object, "name", json_string(judged->name));
	answer_put(object, "violated", json_boolean(judged->violated));
	answer_put(object, "limit",
		   judged->is_share ? json_real(judged->limit_share) : answer_number(judged->limit));
	answer_put(object, "measured",
		   judged->is_share ? json_real(judged->share) : answer_number(judged->measured));
	answer_put(object, "event", judged->has_event ? answer_event(judged->event) : json_null());
	if (judged->holder != NULL) {
		holder = json_object();
		answer_put(holder, "name", json_string(judged->holder));
		answer_put(holder, "bytes", answer_number(judged->holder_bytes));
	}
	answer_put(object, "holder", holder);
	return object;
}

static json_t *
checked_object(const struct checked *checked, bool truncated)
{
	json_t *object = json_object(), *limits = json_array();

	for (size_t i = 0; i < checked->count; i++)
		json_array_append_new(limits, judged_object(&checked->at[i]));
	answer_put(object, "trace", answer_text(checked->path));
	answer_put(object, "truncated", json_boolean(truncated));
	answer_put(object, "violated", answer_number(checked->violated));
	answer_put(object, "limits", limits);
	return object;
}

static void
write_xml(FILE *out, const char *text)
{
	for (; *text != '\0'; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*text, out);
		}
	}
}

static void
write_case(FILE *out, const struct judged *judged)
{
	char text[256];

	measured_text(judged, text, sizeof text);
	fprintf(out, "    <testcase classname=\"soma.check\" name=\"%s\"", judged->name);
	if (!judged->violated) {
		fprintf(out, "/>\n");
		return;
	}
	fprintf(out, ">\n      <failure message=\"%s\">", text);
	if (judged->holder != NULL) {
		fprintf(out, "the most by ");
		write_xml(out, judged->holder);
		fprintf(out, ": %" PRIu64 " bytes", judged->holder_bytes);
	}
	fprintf(out, "</failure>\n    </testcase>\n");
}

static bool
write_junit(const char *path, const struct checked *checked)
{
	FILE *out = fopen(path, "w");
	bool failed;

	if (out == NULL)
		return false;
	fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"");
	write_xml(out, checked->path);
	fprintf(out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"0\">\n", checked->count, checked->violated);
	for (size_t i = 0; i < checked->count; i++)
		write_case(out, &checked->at[i]);
	fprintf(out, "  </testsuite>\n</testsuites>\n");
	failed = ferror(out) != 0;
	return fclose(out) == 0 && !failed;
}

static int
show(const struct command *command, const struct check_values *values, const struct checked *checked,
     bool truncated)
{
	int status = checked->violated > 0 || truncated ? EXIT_BAD_NEWS : EXIT_FINE;

	if (values->junit != NULL && !write_junit(values->junit, checked)) {
		char *shown = report_clean(values->junit);

		fprintf(stderr, "soma %s: %s: could not be written\n", command->name, shown);
		free(shown);
		return EXIT_INPUT;
	}
	if (values->json)
		return answer_print(command, checked_object(checked, truncated), status);
	print_text(checked);
	return status;
}

static int
check_reader(const struct command *command, const struct check_values *values, const char *path,
	     struct trace_reader *reader)
{
	struct replay_options options = answer_options();
	struct checked checked = { .path = report_clean(path) };
	struct replay_result result;
	struct trace_error error;
	enum soma_status status;
	int end;

	options.policy = answer_policy(values->policy);
	options.capacity = values->capacity;
	options.device = values->device;
	status = replay_run(reader, &options, &result, &error);
	if (status == SOMA_STATUS_OK) {
		judge(&checked, values, reader, &result);
		if (result.truncated)
			fprintf(stderr, "soma %s: warning: %s\n", command->name, result.truncation.text);
		end = show(command, values, &checked, result.truncated);
		replay_result_fini(&result);
	} else {
		end = answer_engine_error(command, path, status, &error);
	}
	for (size_t i = 0; i < checked.count; i++)
		free(checked.at[i].holder);
	free((char *)checked.path);
	return end;
}

int
command_check(const struct command *command, int argc, char **argv)
{
	struct check_values values = { .max_peak = UINT64_MAX,
				       .max_reserved = UINT64_MAX,
				       .max_leak = UINT64_MAX,
				       .max_frag = -1,
				       .device = REPLAY_DEVICE_ANY };
	struct trace_reader *reader;
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
	reader = answer_open(command, path);
	if (reader == NULL)
		return EXIT_INPUT;
	status = check_reader(command, &values, path, reader);
	trace_close(reader);
	return status;
}

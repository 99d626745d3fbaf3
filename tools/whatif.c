/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma whatif`: one trace under several settings.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/engine/settings.h"
#include "tools/report/report.h"
#include "tools/units.h"

struct whatif_values {
	unsigned policy;
	uint64_t capacity;
	int32_t device;
	struct option_list sets;
	bool json;
};

const char *const whatif_paragraphs[] = {
	"Replays the trace under the policy as it is, and once for each --set, and compares peaks, utilisation, "
	"segments and whether memory runs out. What the plain policy reproduces of the recorded addresses is "
	"said first: it tells how far the rest can be trusted.",
	"The settings are PyTorch's, of PYTORCH_CUDA_ALLOC_CONF, for the policy pytorch. A --set is one or more "
	"of them with commas between, as KEY=VALUE or, so that the variable's text can be taken as it is, as "
	"KEY:VALUE: --set max_split_size_mb:128,garbage_collection_threshold:0.8 is one row. The variable's name and a = "
	"may stand before them. The keys:",
	"max_split_size_mb=N, above 20: a free block of N MiB or more is not split; it serves only requests of N MiB "
	"or more, which take the whole of it. As in PyTorch, free memory of expandable segments is kept for them, "
	"too.",
	"max_non_split_rounding_mb=N, above 20: such a request takes no free block that is larger by N MiB or more. "
	"The default is 20.",
	"garbage_collection_threshold=F: above this fraction of the capacity, segments that have long been free are "
	"released before new memory is asked for. It does nothing without a capacity, nor to expandable "
	"segments.",
	"roundup_power2_divisions=N: a request is rounded up to one of N equal steps between two powers of two, N "
	"a power of two. A list such as [256:1,512:2,>:4] has an N for each size in MiB.",
	"expandable_segments=True or False: segments grow and shrink by pages instead of being allocated whole.",
	"backend=native or cudaMallocAsync: this row is of the policy pytorch, or of cuda, where nothing else holds but "
	"the capacity, as in PyTorch.",
	"capacity=SIZE: not PyTorch's; the most that may be reserved, in this row. It suits every policy.",
	"The exit status is 1 when any row runs out of memory.",
	"The segments are counted as often as the driver is asked for one, and those that are held when the trace "
	"begins as well; of expandable segments and mapped pages, the calls that map.",
	"A request that the trace says failed is made in every row, and freed at once: what a row reserves has room for "
	"it.",
	"Recorded segments are reused where they fit. Segments that the trace releases are released here, too, "
	"where they are free.",
	NULL,
};

#define FIELD(name) offsetof(struct whatif_values, name)

const struct option_row whatif_options[] = {
	{ "policy", 'p', OPTION_CHOICE, FIELD(policy), "auto|strict|cuda|pytorch|soma", replay_policy_names,
	  "The allocator; see soma replay. Only pytorch has settings beside the capacity." },
	{ "set", 's', OPTION_LIST, FIELD(sets), "KEY=VALUE[,KEY=VALUE]", NULL,
	  "A row of the table: one or more settings that hold together; KEY:VALUE is the same. May be given more "
	  "than once. The keys are above." },
	{ "capacity", 'c', OPTION_SIZE, FIELD(capacity), "SIZE", NULL,
	  "The most that may be reserved, in every row. The default, 0, is no limit." },
	{ "device", 'd', OPTION_NUMBER, FIELD(device), "N", NULL,
	  "The device. The default is the one with the most allocations." },
	{ "json", 'j', OPTION_FLAG, FIELD(json), NULL, NULL,
	  "Print one JSON object instead of the report; sizes in it are bytes." },
	{ .name = NULL },
};

struct row {
	const char *text;
	struct settings settings;
	struct soma_policy policy;
	struct replay_result result;
};

struct table_of_rows {
	const char *path;
	const struct trace_reader *reader;
	struct row rows[OPTION_LIST_MAX + 1]; /* [0]: the baseline */
	size_t count;
};

/* ---- replaying ------------------------------------------------------------------- */

/* Where a request that failed in the recording is made, the addresses behind it must differ: what is reproduced is
 * asked without it. */
static enum soma_status
replay_parity(struct replay_session *session, const struct replay_options *options, struct replay_result *baseline,
	      struct trace_error *error)
{
	struct replay_options wanted = *options;
	struct replay_result result;
	enum soma_status status;

	wanted.capacity = 0;
	wanted.try_recorded = false;
	status = replay_again(session, &wanted, &result, error);
	if (status == SOMA_STATUS_OK)
		baseline->parity = result.parity;
	replay_result_fini(&result);
	return status;
}

/* The policy that the baseline took; with settings it must be theirs. */
static enum soma_status
replay_row(struct replay_session *session, const struct whatif_values *values,
	   const struct soma_policy *baseline, struct row *row, struct trace_error *error)
{
	struct replay_options options = answer_options();
	enum soma_status status;

	options.policy = baseline != NULL ? baseline : answer_policy(values->policy);
	options.capacity = values->capacity;
	options.device = values->device;
	options.try_recorded = true;
	if (row->text != NULL && (row->settings.policy != NULL || strcmp(options.policy->name, "pytorch") == 0))
		settings_apply(&row->settings, &row->policy, &options);
	else if (row->text != NULL && row->settings.capacity > 0)
		options.capacity = row->settings.capacity;
	status = replay_again(session, &options, &row->result, error);
	if (status == SOMA_STATUS_OK && baseline == NULL && row->result.recorded_oom.happened)
		status = replay_parity(session, &options, &row->result, error);
	return status;
}

static bool
has_pytorch_settings(const struct settings *settings)
{
	return settings->max_split > 0 || settings->collect_threshold > 0 || settings->rounds ||
	       settings->expandable;
}

static enum soma_status
replay_rows(struct replay_session *session, const struct whatif_values *values, struct table_of_rows *table,
	    struct trace_error *error)
{
	enum soma_status status = replay_row(session, values, NULL, &table->rows[0], error);
	const struct soma_policy *policy = table->rows[0].result.policy;

	for (size_t i = 1; status == SOMA_STATUS_OK && i < table->count; i++) {
		struct row *row = &table->rows[i];

		if (strcmp(policy->name, "pytorch") != 0 && row->settings.policy == NULL &&
		    has_pytorch_settings(&row->settings)) {
			snprintf(error->text, sizeof error->text,
				 "the settings of '%s' are those of the policy pytorch, and this replay is "
				 "under %s; --policy pytorch",
				 row->text, policy->name);
			return SOMA_STATUS_INVALID_VALUE;
		}
		status = replay_row(session, values, policy, row, error);
	}
	return status;
}

/* ---- text ------------------------------------------------------------------------- */

static void
print_parity(const struct replay_parity *parity)
{
	if (!parity->applies)
		printf("Baseline: the trace records no addresses of this policy to compare with.\n");
	else
		printf("Baseline: %" PRIu64 " of %" PRIu64 " recorded addresses reproduced%s.\n",
		       parity->reproduced, parity->recorded,
		       parity->disturbed ? " (the capacity made segments go)" : "");
}

/* How often the driver was asked for memory.  What is held when the trace begins was asked for, too, which some rows
 * adopt and others make anew; and of pages that are mapped it is each call. */
static uint64_t
segments_of(const struct replay_result *result)
{
	const struct replay_counts *counts = &result->counts;

	return counts->maps > 0 ? counts->maps : counts->start_segments + counts->segments;
}

static void
print_row(const struct row *row, const struct replay_result *baseline)
{
	const struct replay_result *result = &row->result;
	char reserved[UNITS_MAX], share[UNITS_MAX], change[UNITS_MAX] = "", missing[UNITS_MAX];

	if (result != baseline && baseline->peak_reserved > 0)
		snprintf(change, sizeof change, "%+.1f %%",
			 100 * ((double)result->peak_reserved / (double)baseline->peak_reserved - 1));
	printf("%10s %8s %8s %8" PRIu64 "  %-40s", units_bytes(reserved, result->peak_reserved), change,
	       units_percent(share, result->peak_live_requested, result->peak_reserved),
	       segments_of(result), row->text != NULL ? row->text : "(as it is)");
	if (result->oom.happened)
		printf("  out of memory at event %" PRIu64 ", %s short", result->oom.event,
		       units_bytes(missing, result->oom.short_by));
	putchar('\n');
}

static void
print_text(const struct table_of_rows *table, uint64_t capacity)
{
	const struct replay_result *baseline = &table->rows[0].result;
	char *shown = report_clean(table->path), size[UNITS_MAX], recorded[ANSWER_RECORDED_MAX];

	printf("%s\n  %s, policy %s, capacity %s\n", shown, trace_format(table->reader),
	       baseline->policy->name, capacity > 0 ? units_bytes(size, capacity) : "unlimited");
	free(shown);
	print_parity(&baseline->parity);
	printf("\n%10s %8s %8s %8s  %s\n", "reserved", "", "used", "segments", "settings");
	for (size_t i = 0; i < table->count; i++)
		print_row(&table->rows[i], baseline);
	if (baseline->recorded_oom.happened)
		printf("\nIn every row there must be room for %s.\n",
		       answer_recorded(recorded, &baseline->recorded_oom));
	if (baseline->counts.start_segments > 0)
		printf("\n%s %s held when the trace begins, and counted.\n",
		       units_plural(size, baseline->counts.start_segments, "segment"),
		       baseline->counts.start_segments == 1 ? "is" : "are");
}

/* ---- JSON -------------------------------------------------------------------------- */

static json_t *
row_object(const struct row *row)
{
	const struct replay_result *result = &row->result;
	json_t *object = json_object();

	report_put(object, "settings", row->text != NULL ? answer_text(row->text) : json_null());
	report_put(object, "peak_live_requested", report_number(result->peak_live_requested));
	report_put(object, "peak_reserved", report_number(result->peak_reserved));
	report_put(object, "utilisation",
		   json_real(result->peak_reserved > 0 ? (double)result->peak_live_requested /
								 (double)result->peak_reserved
						       : 0));
	report_put(object, "segments", report_number(segments_of(result)));
	report_put(object, "segments_at_start", report_number(result->counts.start_segments));
	report_put(object, "failed", report_number(result->counts.failed));
	report_put(object, "oom", report_oom(&result->oom));
	return object;
}

static json_t *
table_object(const struct table_of_rows *table, uint64_t capacity, bool truncated)
{
	const struct replay_result *baseline = &table->rows[0].result;
	json_t *object = json_object(), *rows = json_array(), *parity = json_null();

	for (size_t i = 0; i < table->count; i++)
		json_array_append_new(rows, row_object(&table->rows[i]));
	if (baseline->parity.applies) {
		parity = json_object();
		report_put(parity, "recorded", report_number(baseline->parity.recorded));
		report_put(parity, "reproduced", report_number(baseline->parity.reproduced));
	}
	report_put(object, "trace", answer_text(table->path));
	report_put(object, "policy", json_string(baseline->policy->name));
	report_put(object, "capacity", capacity > 0 ? report_number(capacity) : json_null());
	report_put(object, "truncated", json_boolean(truncated));
	report_put(object, "parity", parity);
	report_put(object, "recorded_oom", report_recorded(&baseline->recorded_oom));
	report_put(object, "rows", rows);
	return object;
}

/* ---- the command --------------------------------------------------------------------- */

static bool
runs_out(const struct table_of_rows *table)
{
	bool any = false;

	for (size_t i = 0; i < table->count; i++)
		any |= table->rows[i].result.oom.happened;
	return any;
}

static int
whatif_reader(const struct command *command, const struct whatif_values *values, struct table_of_rows *table,
	      struct trace_reader *reader)
{
	struct replay_options options = answer_options();
	struct replay_session *session;
	struct trace_error error;
	enum soma_status status;
	int end = EXIT_FINE;

	answer_keep(reader);
	status = replay_begin(reader, &options, &session, &error);
	if (status == SOMA_STATUS_OK)
		status = replay_rows(session, values, table, &error);
	if (status != SOMA_STATUS_OK) {
		end = answer_engine_error(command, table->path, status, &error);
	} else {
		bool truncated = answer_session_truncated(command, session);

		end = truncated || runs_out(table) ? EXIT_BAD_NEWS : EXIT_FINE;
		if (values->json)
			end = answer_print(command, table_object(table, values->capacity, truncated), end);
		else
			print_text(table, values->capacity);
	}
	for (size_t i = 0; i < table->count; i++)
		replay_result_fini(&table->rows[i].result);
	replay_end(session);
	return end;
}

static int
parse_sets(const struct command *command, const struct option_list *sets, struct table_of_rows *table)
{
	char buffer[512];

	table->count = 1;
	for (size_t i = 0; i < sets->count; i++) {
		struct row *row = &table->rows[table->count++];
		const char *problem =
			settings_parse(sets->at[i], &row->settings, buffer, sizeof buffer);

		if (problem != NULL)
			return usage_error(command, "--set: %s", problem);
		row->text = sets->at[i];
	}
	return -1;
}

int
command_whatif(const struct command *command, int argc, char **argv)
{
	struct whatif_values values = { .device = REPLAY_DEVICE_ANY };
	struct table_of_rows table = { 0 };
	struct trace_reader *reader;
	int first, status = options_parse(command, argc, argv, &values, &first);

	if (status < 0)
		status = answer_check_size(command, "capacity", values.capacity);
	if (status < 0)
		status = parse_sets(command, &values.sets, &table);
	if (status >= 0)
		return status;
	table.path = answer_operand(command, argc, argv, first, &status);
	if (table.path == NULL)
		return status;
	reader = answer_open(command, table.path);
	if (reader == NULL)
		return EXIT_INPUT;
	table.reader = reader;
	status = whatif_reader(command, &values, &table, reader);
	trace_close(reader);
	return status;
}

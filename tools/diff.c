/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma diff`: what grew between two runs.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/report/report.h"
#include "tools/units.h"
#include "tools/xalloc.h"

#define NAME_WIDTH 48

struct diff_values {
	unsigned by; /* index in by_names */
	int32_t limit, device;
	bool json;
};

static const char *const by_names[] = { "frame", "tag", NULL };

enum { BY_FRAME, BY_TAG };

const char *const diff_paragraphs[] = {
	"Compares two traces: what each holder, a frame or a tag, holds at the peak of live bytes and at the "
	"end, sorted by how much it grew. A holder that only one of them has is new, or gone.",
	"Each trace is replayed with no limit, under the recorded allocator's policy where it shows one.",
	NULL,
};

const struct option_row diff_options[] = {
	{ "by", 'b', OPTION_CHOICE, offsetof(struct diff_values, by), "frame|tag", by_names,
	  "frame (the default): holders as the trace names them. tag: without a file and line in "
	  "parentheses at their end, so that code which only moved is not new." },
	{ "limit", 'n', OPTION_NUMBER, offsetof(struct diff_values, limit), "N", NULL,
	  "Show this many holders. The default is 20; 0 is all. (--json has all of them.)" },
	{ "device", 'd', OPTION_NUMBER, offsetof(struct diff_values, device), "N", NULL,
	  "The device, of both. The default is the one with the most allocations." },
	{ "json", 'j', OPTION_FLAG, offsetof(struct diff_values, json), NULL, NULL,
	  "Print one JSON object instead of the report; sizes in it are bytes." },
	{ .name = NULL },
};

enum side { A, B };

struct entry {
	char *name;
	uint64_t peak[2], peak_blocks[2], end[2], end_blocks[2];
};

struct run {
	const char *path;
	struct trace_reader *reader;
	struct replay_result result;
	bool replayed;
};

struct comparison {
	struct run runs[2];
	struct entry *entries;
	size_t count, room;
};

/* ---- comparing ----------------------------------------------------------------- */

static struct entry *
add_entry(struct comparison *comparison, enum side side, trace_name name, unsigned by)
{
	struct entry *entry;

	comparison->entries = xgrow(comparison->entries, &comparison->room, comparison->count,
				    sizeof *comparison->entries);
	entry = &comparison->entries[comparison->count++];
	*entry = (struct entry){ .name = answer_holder(comparison->runs[side].reader, name) };
	if (by == BY_TAG)
		answer_drop_place(entry->name);
	return entry;
}

static void
add_run(struct comparison *comparison, enum side side, unsigned by)
{
	const struct replay_result *result = &comparison->runs[side].result;

	for (size_t i = 0; i < result->holder_count; i++) {
		struct entry *entry = add_entry(comparison, side, result->holders[i].name, by);

		entry->peak[side] = result->holders[i].bytes;
		entry->peak_blocks[side] = result->holders[i].blocks;
	}
	for (size_t i = 0; i < result->end_holder_count; i++) {
		struct entry *entry = add_entry(comparison, side, result->end_holders[i].name, by);

		entry->end[side] = result->end_holders[i].bytes;
		entry->end_blocks[side] = result->end_holders[i].blocks;
	}
}

static int
by_name(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	return strcmp(a->name, b->name);
}

static void
join_equal(struct comparison *comparison)
{
	struct entry *entries = comparison->entries;
	size_t kept = 0;

	if (comparison->count > 0)
		qsort(entries, comparison->count, sizeof *entries, by_name);
	for (size_t i = 0; i < comparison->count; i++) {
		if (kept == 0 || strcmp(entries[kept - 1].name, entries[i].name) != 0) {
			entries[kept++] = entries[i];
			continue;
		}
		for (enum side side = A; side <= B; side++) {
			entries[kept - 1].peak[side] += entries[i].peak[side];
			entries[kept - 1].peak_blocks[side] += entries[i].peak_blocks[side];
			entries[kept - 1].end[side] += entries[i].end[side];
			entries[kept - 1].end_blocks[side] += entries[i].end_blocks[side];
		}
		free(entries[i].name);
	}
	comparison->count = kept;
}

static int64_t
growth(const uint64_t values[2])
{
	return (int64_t)(values[B] - values[A]);
}

static int
by_growth(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (growth(a->peak) != growth(b->peak))
		return growth(a->peak) > growth(b->peak) ? -1 : 1;
	if (growth(a->end) != growth(b->end))
		return growth(a->end) > growth(b->end) ? -1 : 1;
	return strcmp(a->name, b->name);
}

static bool
is_in(const struct entry *entry, enum side side)
{
	return entry->peak_blocks[side] > 0 || entry->end_blocks[side] > 0;
}

static const char *
change(const struct entry *entry)
{
	if (!is_in(entry, A))
		return "new";
	if (!is_in(entry, B))
		return "gone";
	return "";
}

/* ---- output --------------------------------------------------------------------- */

static char *
signed_bytes(char *buffer, int64_t bytes)
{
	char size[UNITS_MAX];

	snprintf(buffer, UNITS_MAX, "%s%s", bytes > 0 ? "+" : bytes < 0 ? "-" : "",
		 units_bytes(size, bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes));
	return buffer;
}

static void
total_line(const char *label, uint64_t a, uint64_t b)
{
	char ta[UNITS_MAX], tb[UNITS_MAX], td[UNITS_MAX];

	printf("  %-24s %10s %10s %11s\n", label, units_bytes(ta, a), units_bytes(tb, b),
	       signed_bytes(td, (int64_t)(b - a)));
}

static void
print_entry(const struct entry *entry)
{
	char a[UNITS_MAX], b[UNITS_MAX], d[UNITS_MAX], e[UNITS_MAX], name[4 * NAME_WIDTH + 1];

	printf("  %11s %10s %10s %11s  %-4s %s\n", signed_bytes(d, growth(entry->peak)),
	       units_bytes(a, entry->peak[A]), units_bytes(b, entry->peak[B]),
	       signed_bytes(e, growth(entry->end)), change(entry),
	       report_shorten(name, sizeof name, entry->name, NAME_WIDTH));
}

static bool
is_shown(const struct entry *entry)
{
	return growth(entry->peak) != 0 || growth(entry->end) != 0;
}

static void
print_text(const struct comparison *comparison, size_t limit)
{
	const struct replay_result *a = &comparison->runs[A].result, *b = &comparison->runs[B].result;
	size_t shown = 0, left = 0, count_new = 0, count_gone = 0;

	printf("%28s%10s %10s %11s\n", "", "A", "B", "growth");
	total_line("Peak live requested", a->peak_live_requested, b->peak_live_requested);
	total_line("Peak reserved", a->peak_reserved, b->peak_reserved);
	total_line("Live at the end", a->counts.live_bytes, b->counts.live_bytes);
	printf("\n  %11s %10s %10s %11s\n", "at the peak", "A", "B", "at the end");
	for (size_t i = 0; i < comparison->count; i++) {
		const struct entry *entry = &comparison->entries[i];

		count_new += !is_in(entry, A);
		count_gone += !is_in(entry, B);
		if (!is_shown(entry))
			continue;
		if (limit == 0 || shown < limit) {
			print_entry(entry);
			shown++;
		} else {
			left++;
		}
	}
	if (shown == 0)
		printf("  no holder changed\n");
	if (left > 0)
		printf("  and %zu more that changed\n", left);
	printf("\n%zu holders, %zu new, %zu gone\n", comparison->count, count_new, count_gone);
}

static json_t *
pair(const uint64_t values[2])
{
	return json_pack("[I, I]", (json_int_t)values[A], (json_int_t)values[B]);
}

static json_t *
entry_object(const struct entry *entry)
{
	json_t *object = json_object();
	const char *text = change(entry);

	answer_put(object, "name", json_string(entry->name));
	answer_put(object, "change", text[0] != '\0' ? json_string(text) : json_null());
	answer_put(object, "growth_at_peak", json_integer(growth(entry->peak)));
	answer_put(object, "growth_at_end", json_integer(growth(entry->end)));
	answer_put(object, "at_peak", pair(entry->peak));
	answer_put(object, "blocks_at_peak", pair(entry->peak_blocks));
	answer_put(object, "at_end", pair(entry->end));
	answer_put(object, "blocks_at_end", pair(entry->end_blocks));
	return object;
}

static json_t *
comparison_object(const struct comparison *comparison, bool truncated)
{
	const struct replay_result *a = &comparison->runs[A].result, *b = &comparison->runs[B].result;
	json_t *object = json_object(), *entries = json_array();
	uint64_t peaks[2] = { a->peak_live_requested, b->peak_live_requested },
		 reserved[2] = { a->peak_reserved, b->peak_reserved },
		 ends[2] = { a->counts.live_bytes, b->counts.live_bytes };

	for (size_t i = 0; i < comparison->count; i++)
		json_array_append_new(entries, entry_object(&comparison->entries[i]));
	answer_put(object, "a", answer_text(comparison->runs[A].path));
	answer_put(object, "b", answer_text(comparison->runs[B].path));
	answer_put(object, "truncated", json_boolean(truncated));
	answer_put(object, "peak_live_requested", pair(peaks));
	answer_put(object, "peak_reserved", pair(reserved));
	answer_put(object, "live_bytes_at_end", pair(ends));
	answer_put(object, "holders", entries);
	return object;
}

/* ---- the command ------------------------------------------------------------------ */

static int
replay(const struct command *command, const struct diff_values *values, struct run *run)
{
	struct replay_options options = answer_options();
	struct trace_error error;
	enum soma_status status;

	run->reader = answer_open(command, run->path);
	if (run->reader == NULL)
		return EXIT_INPUT;
	options.device = values->device;
	status = replay_run(run->reader, &options, &run->result, &error);
	if (status == SOMA_STATUS_NOT_SUPPORTED) {
		/* Its own policy cannot follow it; holders do not depend on the policy. */
		options.policy = soma_policy_preset("cuda");
		if (trace_rewind(run->reader, &error) == TRACE_OK)
			status = replay_run(run->reader, &options, &run->result, &error);
	}
	if (status != SOMA_STATUS_OK)
		return answer_engine_error(command, run->path, status, &error);
	run->replayed = true;
	if (!run->result.truncated)
		return EXIT_FINE;
	fprintf(stderr, "soma %s: warning: %s\n", command->name, run->result.truncation.text);
	return EXIT_BAD_NEWS;
}

static void
end_comparison(struct comparison *comparison)
{
	for (size_t i = 0; i < comparison->count; i++)
		free(comparison->entries[i].name);
	free(comparison->entries);
	for (enum side side = A; side <= B; side++) {
		if (comparison->runs[side].replayed)
			replay_result_fini(&comparison->runs[side].result);
		trace_close(comparison->runs[side].reader);
	}
}

static int
compare(const struct command *command, const struct diff_values *values, struct comparison *comparison)
{
	int status = EXIT_FINE;

	for (enum side side = A; side <= B; side++) {
		int end = replay(command, values, &comparison->runs[side]);

		if (end != EXIT_FINE && end != EXIT_BAD_NEWS)
			return end;
		status = end > status ? end : status;
		add_run(comparison, side, values->by);
	}
	join_equal(comparison);
	if (comparison->count > 0)
		qsort(comparison->entries, comparison->count, sizeof *comparison->entries, by_growth);
	if (values->json)
		return answer_print(command, comparison_object(comparison, status != EXIT_FINE), status);
	print_text(comparison, (size_t)values->limit);
	return status;
}

int
command_diff(const struct command *command, int argc, char **argv)
{
	struct diff_values values = { .limit = 20, .device = REPLAY_DEVICE_ANY };
	struct comparison comparison = { 0 };
	int first, status = options_parse(command, argc, argv, &values, &first);

	if (status >= 0)
		return status;
	if (argc - first != 2)
		return usage_error(command, "expected two traces, got %d", argc - first);
	if (strcmp(argv[first], "-") == 0 && strcmp(argv[first + 1], "-") == 0)
		return usage_error(command, "only one of the traces can be standard input");
	comparison.runs[A].path = argv[first];
	comparison.runs[B].path = argv[first + 1];
	status = compare(command, &values, &comparison);
	end_comparison(&comparison);
	return status;
}

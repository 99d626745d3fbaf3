/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma diff`: what grew and what shrank from one trace to another.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/engine/growth.h"
#include "tools/report/report.h"
#include "tools/units.h"

#define NAME_WIDTH 56

struct diff_values {
	unsigned by; /* enum growth_by */
	unsigned upper;
	int32_t device, limit;
	bool ignore_lines, json, partial;
};

static const char *const by_names[] = {
#define X(name, text) text,
	GROWTH_BY_MAP(X)
#undef X
		NULL
};

const char *const diff_paragraphs[] = {
	"Compares the traces A (before) and B (after), which may be of different formats: what every frame, "
	"tag "
	"or stream held at the peak of live bytes and at the end, what grew or shrank the most first; which are "
	"new and which are gone; and the counts of both. Those that hold the same are counted, and are rows of "
	"--json alone.",
	"No allocator is asked. The exit status is 0 when nothing that is compared differs, which is said, "
	"and 1 "
	"when anything does.",
	NULL,
};

#define FIELD(name) offsetof(struct diff_values, name)

const struct option_row diff_options[] = {
	{ "by", 'b', OPTION_CHOICE, FIELD(by), "frame|tag|stream", by_names,
	  "What is compared: frames or tags, which are the same here, the name that a trace has for who made "
	  "a "
	  "block; or the streams of the allocations." },
	{ "ignore-lines", 'i', OPTION_FLAG, FIELD(ignore_lines), NULL, NULL,
	  "Take frames as one that differ in their line number alone, as they do between two versions of a "
	  "program." },
	{ "limit", 'n', OPTION_NUMBER, FIELD(limit), "N", NULL,
	  "Show at most N of them; 0 is all. The default is 20. With --json it is all, unless this is "
	  "given." },
	{ "device", 'd', OPTION_NUMBER, FIELD(device), "N", NULL,
	  "The device, of both traces. The default is in each the one with the most allocations." },
	{ "upper", 'u', OPTION_CHOICE, FIELD(upper), "exclusive|inclusive", upper_names,
	  "Of placement instances: whether a block is gone at the moment upper (exclusive, the default) or "
	  "lives through it." },
	{ "json", 'j', OPTION_FLAG, FIELD(json), NULL, NULL,
	  "Print one JSON object instead of the report; sizes in it are bytes." },
	{ "partial", 'P', OPTION_FLAG, FIELD(partial), NULL, NULL,
	  "Take truncated traces as they are: without this they give exit status 1." },
	{ .name = NULL },
};

#define LIMIT_DEFAULT 20

/* One of the two, read. */
struct side {
	const char *path;
	struct trace_reader *reader;
	struct census census;
};

/* ---- text ---------------------------------------------------------------------- */

static char *
change(char *buffer, uint64_t before, uint64_t after, char *(*show)(char *buffer, uint64_t value))
{
	if (before == after)
		return strcpy(buffer, "=");
	buffer[0] = after > before ? '+' : '-';
	show(buffer + 1, after > before ? after - before : before - after);
	return buffer;
}

static void
total_line(const char *label, uint64_t before, uint64_t after, char *(*show)(char *buffer, uint64_t value))
{
	char a[UNITS_MAX], b[UNITS_MAX], c[UNITS_MAX + 1];

	printf("  %-24s%12s%12s%13s\n", label, show(a, before), show(b, after),
	       change(c, before, after, show));
}

static void
print_totals(const struct census *before, const struct census *after)
{
	printf("\n%38s%12s%13s\n", "A", "B", "change");
	total_line("Peak live requested", before->peak_bytes, after->peak_bytes, units_bytes);
	total_line("Live bytes at the end", before->live_bytes, after->live_bytes, units_bytes);
	total_line("Live blocks at most", before->most_live, after->most_live, units_count);
	total_line("Live blocks at the end", before->live, after->live, units_count);
	total_line("Allocations", before->allocs, after->allocs, units_count);
	total_line("Frees", before->frees, after->frees, units_count);
	total_line("Bytes allocated", before->bytes, after->bytes, units_bytes);
}

static char *
row_name(const struct growth_row *row, char *buffer, size_t size)
{
	char stream[ANSWER_STREAM_MAX], *clean;

	if (row->name == NULL) {
		snprintf(buffer, size, "stream %s", answer_stream_text(stream, row->stream));
		return buffer;
	}
	clean = report_holder(row->name);
	report_shorten(buffer, size, clean, NAME_WIDTH);
	free(clean);
	return buffer;
}

static void
print_row(const struct growth_row *row)
{
	const struct growth_side *before = &row->before, *after = &row->after;
	char name[4 * NAME_WIDTH + 1], a[UNITS_MAX], b[UNITS_MAX], c[UNITS_MAX + 1], d[UNITS_MAX + 1];

	printf("  %11s%11s%11s%13s  %-4s  %s\n",
	       change(c, before->peak_bytes, after->peak_bytes, units_bytes),
	       units_bytes(a, before->peak_bytes), units_bytes(b, after->peak_bytes),
	       change(d, before->live_bytes, after->live_bytes, units_bytes),
	       !before->there  ? "new"
	       : !after->there ? "gone"
			       : "",
	       row_name(row, name, sizeof name));
}

static void
print_rows(const struct growth *growth, size_t limit)
{
	size_t changed = growth->grew + growth->shrank, shown = changed < limit ? changed : limit;

	if (changed == 0)
		return;
	printf("\n  at the peak          A          B   at the end\n");
	for (size_t i = 0; i < shown; i++)
		print_row(&growth->rows[i]);
	if (changed > shown)
		printf("  and %zu more that changed less\n", changed - shown);
}

static void
print_side(const char *label, const struct side *side)
{
	char *path = report_clean(side->path), events[UNITS_MAX];

	printf("%s  %s: %s, device %" PRId32 ", %s\n", label, path, trace_format(side->reader),
	       side->census.device, units_plural(events, side->census.events, "event"));
	free(path);
}

static void
print_text(const struct side *before, const struct side *after, const struct growth *growth, size_t limit)
{
	print_side("A", before);
	print_side("B", after);
	if (growth->identical) {
		printf("\nIdentical: the same counts, sizes, peaks and holders\n");
		return;
	}
	print_totals(&before->census, &after->census);
	print_rows(growth, limit);
	printf("\n%zu grew, %zu shrank, %zu hold the same; %zu of them new, %zu gone\n", growth->grew,
	       growth->shrank, growth->same, growth->added, growth->gone);
}

/* ---- JSON ---------------------------------------------------------------------- */

static json_t *
side_object(const struct growth_side *side)
{
	json_t *object;

	if (!side->there)
		return json_null();
	object = json_object();
	report_put(object, "allocs", report_number(side->allocs));
	report_put(object, "frees", report_number(side->frees));
	report_put(object, "bytes", report_number(side->bytes));
	report_put(object, "live_blocks_at_peak", report_number(side->peak_live));
	report_put(object, "live_bytes_at_peak", report_number(side->peak_bytes));
	report_put(object, "live_blocks_at_end", report_number(side->live));
	report_put(object, "live_bytes_at_end", report_number(side->live_bytes));
	report_put(object, "most_live_bytes", report_number(side->most_bytes));
	return object;
}

static json_t *
row_object(const struct growth_row *row)
{
	json_t *object = json_object();

	if (row->name == NULL)
		report_put(object, "stream", report_address(row->stream));
	else
		report_put(object, "name", row->name[0] != '\0' ? answer_text(row->name) : json_null());
	report_put(object, "status",
		   json_string(!row->before.there  ? "new"
			       : !row->after.there ? "gone"
						   : "both"));
	report_put(object, "growth_at_peak",
		   answer_difference(row->after.peak_bytes, row->before.peak_bytes));
	report_put(object, "growth_at_end", answer_difference(row->after.live_bytes, row->before.live_bytes));
	report_put(object, "before", side_object(&row->before));
	report_put(object, "after", side_object(&row->after));
	return object;
}

static json_t *
trace_object(const struct side *side)
{
	const struct census *census = &side->census;
	json_t *object = json_object();

	report_put(object, "trace", answer_text(side->path));
	report_put(object, "format", json_string(trace_format(side->reader)));
	report_put(object, "device", json_integer(census->device));
	report_put(object, "truncated", json_boolean(census->truncated));
	report_put(object, "events", report_number(census->events));
	report_put(object, "allocs", report_number(census->allocs));
	report_put(object, "frees", report_number(census->frees));
	report_put(object, "allocated_bytes", report_number(census->bytes));
	report_put(object, "peak_live_requested", report_number(census->peak_bytes));
	report_put(object, "peak_event", report_event(census->peak_event));
	report_put(object, "most_live_blocks", report_number(census->most_live));
	report_put(object, "live_blocks_at_end", report_number(census->live));
	report_put(object, "live_bytes_at_end", report_number(census->live_bytes));
	return object;
}

static json_t *
growth_object(const struct side *before, const struct side *after, const struct growth *growth, unsigned by,
	      size_t limit)
{
	json_t *object = json_object(), *rows = json_array();

	for (size_t i = 0; i < growth->count && i < limit; i++)
		json_array_append_new(rows, row_object(&growth->rows[i]));
	report_put(object, "identical", json_boolean(growth->identical));
	report_put(object, "before", trace_object(before));
	report_put(object, "after", trace_object(after));
	report_put(object, "growth_at_peak",
		   answer_difference(after->census.peak_bytes, before->census.peak_bytes));
	report_put(object, "growth_at_end",
		   answer_difference(after->census.live_bytes, before->census.live_bytes));
	report_put(object, "by", json_string(by_names[by]));
	report_put(object, "grew", report_number(growth->grew));
	report_put(object, "shrank", report_number(growth->shrank));
	report_put(object, "same", report_number(growth->same));
	report_put(object, "new", report_number(growth->added));
	report_put(object, "gone", report_number(growth->gone));
	report_put(object, "rows", rows);
	return object;
}

/* ---- the command ---------------------------------------------------------------- */

static size_t
limit_of(const struct diff_values *values)
{
	if (values->limit > 0)
		return (size_t)values->limit;
	return values->limit == 0 || values->json ? SIZE_MAX : LIMIT_DEFAULT;
}

static int
compare(const struct command *command, const struct diff_values *values, const struct side *before,
	const struct side *after)
{
	const struct growth_trace a = { before->reader, &before->census },
				  b = { after->reader, &after->census };
	struct growth growth;
	int status;

	growth_compare(&a, &b, (enum growth_by)values->by, values->ignore_lines, &growth);
	status = growth.identical ? EXIT_FINE : EXIT_BAD_NEWS;
	if (answer_truncated(command, a.census->truncated, &a.census->truncation, values->partial) !=
	    EXIT_FINE)
		status = EXIT_BAD_NEWS;
	if (answer_truncated(command, b.census->truncated, &b.census->truncation, values->partial) !=
	    EXIT_FINE)
		status = EXIT_BAD_NEWS;
	if (values->json)
		status = answer_print(
			command, growth_object(before, after, &growth, values->by, limit_of(values)), status);
	else
		print_text(before, after, &growth, limit_of(values));
	growth_fini(&growth);
	return status;
}

/* -1, or the exit status after the error was said. */
static int
read_side(const struct command *command, const struct diff_values *values, const char *path,
	  struct side *side)
{
	struct trace_error error;
	enum trace_result result;

	*side = (struct side){ .path = path };
	side->reader = answer_open_upper(command, path, values->upper);
	if (side->reader == NULL)
		return EXIT_INPUT;
	result = census_take(side->reader, values->device, &side->census, &error);
	if (result == TRACE_ERROR)
		return answer_error(command, error.text);
	return result == TRACE_END ? usage_error(command, "--device: %s: %s", path, error.text) : -1;
}

static void
close_side(struct side *side)
{
	census_fini(&side->census);
	trace_close(side->reader);
}

static int
read_and_compare(const struct command *command, const struct diff_values *values, char **paths)
{
	struct side before, after = { 0 };
	int status = read_side(command, values, paths[0], &before);

	if (status < 0)
		status = read_side(command, values, paths[1], &after);
	if (status < 0)
		status = compare(command, values, &before, &after);
	close_side(&before);
	close_side(&after);
	return status;
}

int
command_diff(const struct command *command, int argc, char **argv)
{
	struct diff_values values = { .device = CENSUS_DEVICE_ANY, .limit = -1 };
	int first, status = options_parse(command, argc, argv, &values, &first);

	if (status >= 0)
		return status;
	if (argc - first < 2)
		return usage_error(command, "expected two traces");
	if (argc - first > 2)
		return usage_error(command, "expected two traces, got '%s' too", argv[first + 2]);
	if (strcmp(argv[first], "-") == 0 && strcmp(argv[first + 1], "-") == 0)
		return usage_error(command, "standard input can be one of the two traces only");
	return read_and_compare(command, &values, argv + first);
}

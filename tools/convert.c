/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma convert`: a trace read in any format and written in another one.
 *
 * Two passes: the first one finds whether all of it can be read, before anything is
 * written, and what the header of the output has to know.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/command.h"
#include "tools/engine/table.h"
#include "tools/progress.h"
#include "tools/report/report.h"
#include "tools/starts.h"
#include "tools/trace/output.h"
#include "tools/trace/trace.h"

#define PROGRESS_EVERY 65536

struct convert_values {
	unsigned to; /* index in format_names */
	unsigned upper;
	int32_t device;
	bool partial, quiet;
};

static const char *const format_names[] = { "auto", "soma", "rmm", "placement", "chrome", "json", NULL };

const char *const convert_paragraphs[] = {
	"Reads the trace IN, in any format that soma replay reads, and writes it to OUT in the format that "
	"OUT's ending tells: .csv is soma's own trace, .rmm.csv an RMM log, .placement.csv placement "
	"instances, .trace.json Chrome trace events (for Perfetto), and .json all of it as JSON. With a "
	"further .gz the file is gzipped. The name - stands for standard input or output.",
	"What was there before the first event of a PyTorch snapshot, soma's own trace holds, too: so a "
	"replay "
	"of it gives the same answers.",
	"What the output's format cannot hold is said, kind by kind, with how often it was there.",
	NULL,
};

#define FIELD(name) offsetof(struct convert_values, name)

const struct option_row convert_options[] = {
	{ "to", 't', OPTION_CHOICE, FIELD(to), TRACE_OUTPUT_NAMES, format_names,
	  "The format to write, whatever OUT's name. For standard output the default is soma." },
	{ "device", 'd', OPTION_NUMBER, FIELD(device), "N", NULL,
	  "Of formats that hold one device (rmm, placement): which. The default is the one with the most "
	  "allocations." },
	{ "upper", 'u', OPTION_CHOICE, FIELD(upper), "exclusive|inclusive", upper_names,
	  "Of placement instances: whether a block is gone at the moment upper (exclusive, the default) or "
	  "lives through it." },
	{ "quiet", 'q', OPTION_FLAG, FIELD(quiet), NULL, NULL,
	  "Do not say what the output cannot hold, or what .json is, and show no progress." },
	{ "partial", 'P', OPTION_FLAG, FIELD(partial), NULL, NULL,
	  "Take a truncated trace as it is: without this it gives exit status 1." },
	{ .name = NULL },
};

/* What the first pass finds. */
struct census {
	struct table devices; /* by number; the tag counts allocations */
	bool pools, times;
	bool truncated;
	struct trace_error truncation;
};

static int
input_error(const struct trace_error *error)
{
	fprintf(stderr, "soma convert: %s\n", error->text);
	return EXIT_INPUT;
}

static void
count_event(struct census *census, const struct trace_event *event)
{
	uint64_t key = (uint64_t)event->device;
	struct table_key *device = table_find(&census->devices, key);

	if (device == NULL)
		device = table_add(&census->devices, key);
	if (event->op == TRACE_ALLOC && device->tag < UINT32_MAX)
		device->tag++;
	census->pools |= event->has_pool;
	census->times |= event->time_ns != 0;
}

static enum trace_result
take_census(struct census *census, struct trace_reader *reader, struct progress *progress,
	    struct trace_error *error)
{
	struct trace_event event;
	enum trace_result result;

	for (uint64_t n = 1; (result = trace_next(reader, &event, error)) == TRACE_OK; n++) {
		count_event(census, &event);
		if (n % PROGRESS_EVERY == 0)
			progress_show(progress, trace_progress(reader) / 2);
	}
	census->truncated = result == TRACE_TRUNCATED;
	census->truncation = *error;
	return result == TRACE_ERROR ? TRACE_ERROR : TRACE_OK;
}

static int32_t
busiest_device(const struct census *census)
{
	const struct table_key *device, *best = NULL;
	size_t cursor = 0;

	while ((device = table_next(&census->devices, &cursor)) != NULL)
		if (best == NULL || device->tag > best->tag ||
		    (device->tag == best->tag && device->key < best->key))
			best = device;
	return best != NULL ? (int32_t)best->key : 0;
}

static enum trace_result
write_events(struct trace_output *output, struct trace_reader *reader, const struct starts *starts,
	     struct progress *progress, struct trace_error *error)
{
	struct trace_event event;
	enum trace_result result;

	for (uint64_t n = 1; (result = trace_next(reader, &event, error)) == TRACE_OK; n++) {
		starts_fill_pool(starts, &event);
		trace_output_put(output, &event);
		if (n % PROGRESS_EVERY == 0)
			progress_show(progress, 0.5 + trace_progress(reader) / 2);
	}
	return result == TRACE_ERROR ? TRACE_ERROR : TRACE_OK;
}

static void
say_losses(const struct trace_output *output)
{
	for (int i = 0; i < TRACE_LOSS_COUNT; i++)
		if (output->lost[i] > 0)
			fprintf(stderr, "soma convert: not in the output: %" PRIu64 " %s\n", output->lost[i],
				trace_loss_text((enum trace_loss)i));
}

static enum trace_result
write_output(const struct convert_values *values, const struct census *census, const struct starts *starts,
	     struct trace_output *output, const char *path, struct progress *progress,
	     struct trace_error *error)
{
	struct trace_reader *reader = (struct trace_reader *)(uintptr_t)output->reader;
	struct trace_error closing;
	enum trace_result result = trace_rewind(reader, error), closed;

	output->pools = census->pools || starts->pools;
	output->start = &starts->snapshot;
	output->start_lost = starts->unknown;
	output->has_times = census->times;
	output->device = values->device >= 0 ? values->device : busiest_device(census);
	if (result == TRACE_OK)
		result = trace_output_open(output, output->format, path, error);
	if (result != TRACE_OK)
		return result;
	result = write_events(output, reader, starts, progress, error);
	closed = trace_output_close(output, result == TRACE_OK ? error : &closing);
	return result == TRACE_OK ? closed : result;
}

static enum trace_result
find_starts(struct starts *starts, struct trace_reader *reader, struct trace_error *error)
{
	enum trace_result result = trace_rewind(reader, error);

	return result == TRACE_OK ? starts_find(starts, reader, error) : result;
}

static int
convert(const struct convert_values *values, const struct trace_output_format *format, const char *path,
	struct trace_reader *reader)
{
	struct trace_output output = { .format = format, .reader = reader };
	struct census census = { .pools = false };
	struct starts starts = { .unknown = 0 };
	struct progress progress;
	struct trace_error error = { .text = "" };
	enum trace_result result;

	table_init(&census.devices, sizeof(struct table_key));
	progress_start(&progress, "converting", !values->quiet);
	result = take_census(&census, reader, &progress, &error);
	if (result == TRACE_OK && format->holds_start)
		result = find_starts(&starts, reader, &error);
	if (result == TRACE_OK)
		result = write_output(values, &census, &starts, &output, path, &progress, &error);
	progress_end(&progress);
	table_fini(&census.devices);
	starts_fini(&starts);
	if (result != TRACE_OK)
		return input_error(&error);
	if (!values->quiet)
		say_losses(&output);
	if (census.truncated && !(values->partial && values->quiet))
		fprintf(stderr, "soma convert: warning: %s\n", census.truncation.text);
	return census.truncated && !values->partial ? EXIT_BAD_NEWS : EXIT_FINE;
}

/* What a person who wrote x.json for a viewer is told. */
static void
say_json(const struct convert_values *values, const struct trace_output_format *format, const char *path)
{
	if (values->quiet || values->to > 0 || format != trace_output_named("json"))
		return;
	fprintf(stderr,
		"soma convert: '%s' is soma's own JSON; for Perfetto the name ends in .trace.json, or say "
		"--to=chrome\n",
		path);
}

static const struct trace_output_format *
format_of(const struct convert_values *values, const char *path)
{
	if (values->to > 0)
		return trace_output_named(format_names[values->to]);
	return strcmp(path, "-") == 0 ? trace_output_named("soma") : trace_output_of_path(path);
}

int
command_convert(const struct command *command, int argc, char **argv)
{
	struct convert_values values = { .device = -1 };
	const struct trace_output_format *format;
	struct trace_reader *reader;
	int first, end = options_parse(command, argc, argv, &values, &first);

	if (end >= 0)
		return end;
	if (argc - first < 2)
		return usage_error(command, argc == first
						    ? "expected a trace and a file to write"
						    : "expected a file to write, or - for standard output");
	if (argc - first > 2)
		return usage_error(command, "expected one trace and one file, got '%s' too", argv[first + 2]);
	format = format_of(&values, argv[first + 1]);
	if (format == NULL)
		return usage_error(
			command,
			"'%s' has none of the endings .csv, .rmm.csv, .placement.csv, .trace.json and "
			".json: say --to",
			argv[first + 1]);
	if (answer_is_same_file(argv[first + 1], argv[first]))
		return usage_error(command, "'%s' is the trace itself", argv[first + 1]);
	reader = answer_open_upper(command, argv[first], values.upper);
	if (reader == NULL)
		return EXIT_INPUT;
	end = convert(&values, format, argv[first + 1], reader);
	if (end == EXIT_FINE)
		say_json(&values, format, argv[first + 1]);
	trace_close(reader);
	return end;
}

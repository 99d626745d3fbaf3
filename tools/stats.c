/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma stats`: what a trace does, before any question of where blocks go.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/engine/census.h"
#include "tools/report/report.h"
#include "tools/units.h"

#define ROWS_SHOWN 10
#define NAME_WIDTH 56
#define BAR_WIDTH 40

struct stats_values {
	int32_t device;
	bool json;
};

const char *const stats_paragraphs[] = {
	"Counts what the trace does: sizes, lifetimes, rates, blocks and bytes for each stream, and which "
	"frames or tags allocate the most in all. No allocator is asked; the trace is read once.",
	"Percentiles come from a histogram of logarithmic buckets, 32 to a power of two: they are at most "
	"3.2 % above the exact ones.",
	"A lifetime is from the allocation to its free. Where the trace has deferred frees, the time until "
	"they completed is counted apart. What was live before the trace began is not seen.",
	NULL,
};

const struct option_row stats_options[] = {
	{ "device", 'd', OPTION_NUMBER, offsetof(struct stats_values, device), "N", NULL,
	  "The device to count. The default is the one with the most allocations." },
	{ "json", 'j', OPTION_FLAG, offsetof(struct stats_values, json), NULL, NULL,
	  "Print one JSON object instead of the report; sizes in it are bytes, times nanoseconds." },
	{ .name = NULL },
};

static const double percents[] = { 0, 10, 50, 90, 99, 100 };

#define PERCENTS (sizeof percents / sizeof percents[0])

/* ---- text ---------------------------------------------------------------------- */

static char *
duration(char *buffer, uint64_t ns)
{
	static const struct {
		double unit;
		const char *name;
	} units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" } };

	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		if ((double)ns < units[i].unit)
			continue;
		snprintf(buffer, UNITS_MAX, "%.3g %s", (double)ns / units[i].unit, units[i].name);
		return buffer;
	}
	snprintf(buffer, UNITS_MAX, "%" PRIu64 " ns", ns);
	return buffer;
}

static void
spread_line(const char *label, const struct spread *spread, char *(*show)(char *buffer, uint64_t value))
{
	char text[UNITS_MAX];

	if (spread->count == 0)
		return;
	printf("  %-22s", label);
	for (size_t i = 0; i < PERCENTS; i++)
		printf(" %10s", show(text, spread_percentile(spread, percents[i])));
	putchar('\n');
}

static void
print_counts(const struct census *census)
{
	char a[UNITS_MAX], b[UNITS_MAX];
	double seconds = (double)(census->last_ns - census->first_ns) / 1e9;

	printf("  Allocations  %12s of %s\n", units_count(a, census->allocs), units_bytes(b, census->bytes));
	printf("  Frees        %12s\n", units_count(a, census->frees));
	printf("  Live at most %12s\n", units_plural(b, census->most_live, "block"));
	printf("  Live at end  %12s of %s\n", units_count(a, census->live), units_bytes(b, census->live_bytes));
	if (census->unknown_frees > 0)
		printf("  Unknown frees %11s of blocks that were not live\n",
		       units_count(a, census->unknown_frees));
	if (census->recorded_failed > 0)
		printf("  Recorded failures %7s\n", units_count(a, census->recorded_failed));
	if (census->has_times)
		printf("  Over %s: %.3g allocations and %.3g MiB a second\n",
		       duration(a, census->last_ns - census->first_ns), (double)census->allocs / seconds,
		       (double)census->bytes / seconds / 1048576);
}

static void
print_sizes(const struct spread *sizes)
{
	uint64_t most = 1;
	char low[UNITS_MAX], count[UNITS_MAX];

	if (sizes->count == 0)
		return;
	printf("\nSizes, by power of two\n");
	for (unsigned p = 0; p < 60; p++)
		most = spread_power(sizes, p) > most ? spread_power(sizes, p) : most;
	for (unsigned p = 0; p < 60; p++) {
		uint64_t n = spread_power(sizes, p);
		int width = (int)((double)n / (double)most * BAR_WIDTH + 0.5);

		if (n > 0)
			printf("  from %9s %12s  %.*s\n", units_bytes(low, (uint64_t)1 << p),
			       units_count(count, n), width, "########################################");
	}
}

static void
print_spreads(const struct census *census)
{
	printf("\nPercentiles                    least       10 %%       50 %%       90 %%       99 %%       most\n");
	spread_line("Size", &census->sizes, units_bytes);
	spread_line("Lifetime, events", &census->life_events, units_count);
	if (census->has_times)
		spread_line("Lifetime, time", &census->life_ns, duration);
	spread_line("Free to done, events", &census->delay_events, units_count);
	if (census->has_times)
		spread_line("Free to done, time", &census->delay_ns, duration);
}

static void
print_streams(const struct census *census)
{
	char a[UNITS_MAX], b[UNITS_MAX], c[UNITS_MAX];

	printf("\nStreams                allocations        frees   allocated\n");
	for (size_t i = 0; i < census->stream_count && i < ROWS_SHOWN; i++)
		printf("  0x%-18" PRIx64 " %12s %12s %11s\n", census->streams[i].key.key,
		       units_count(a, census->streams[i].allocs), units_count(b, census->streams[i].frees),
		       units_bytes(c, census->streams[i].bytes));
	if (census->stream_count > ROWS_SHOWN)
		printf("  and %zu more\n", census->stream_count - ROWS_SHOWN);
}

static void
print_holders(const struct trace_reader *reader, const struct census *census)
{
	char a[UNITS_MAX], b[UNITS_MAX], name_text[4 * NAME_WIDTH + 1];

	printf("\nWho allocates the most, in all\n");
	for (size_t i = 0; i < census->holder_count && i < ROWS_SHOWN; i++) {
		char *name = answer_holder(reader, census->holders[i].name);

		printf("  %9s in %14s  %s\n", units_bytes(a, census->holders[i].bytes),
		       units_plural(b, census->holders[i].allocs, "block"),
		       report_shorten(name_text, sizeof name_text, name, NAME_WIDTH));
		free(name);
	}
	if (census->holder_count > ROWS_SHOWN)
		printf("  and %zu more\n", census->holder_count - ROWS_SHOWN);
}

static void
print_text(const char *path, const struct trace_reader *reader, const struct census *census)
{
	char *shown = report_clean(path), events[UNITS_MAX];

	printf("%s\n  %s, device %" PRId32 ", %s\n\n", shown, trace_format(reader), census->device,
	       units_plural(events, census->events, "event"));
	free(shown);
	print_counts(census);
	print_sizes(&census->sizes);
	if (census->sizes.count > 0)
		print_spreads(census);
	if (census->stream_count > 0)
		print_streams(census);
	if (census->holder_count > 0)
		print_holders(reader, census);
}

/* ---- JSON ---------------------------------------------------------------------- */

static json_t *
spread_object(const struct spread *spread)
{
	static const char *const names[PERCENTS] = { "least", "p10", "p50", "p90", "p99", "most" };
	json_t *object;

	if (spread->count == 0)
		return json_null();
	object = json_object();
	answer_put(object, "count", answer_number(spread->count));
	answer_put(object, "mean", json_real(spread->sum / (double)spread->count));
	for (size_t i = 0; i < PERCENTS; i++)
		answer_put(object, names[i], answer_number(spread_percentile(spread, percents[i])));
	return object;
}

static json_t *
histogram(const struct spread *sizes)
{
	json_t *array = json_array();

	for (unsigned p = 0; p < 60; p++) {
		json_t *row;

		if (spread_power(sizes, p) == 0)
			continue;
		row = json_object();
		answer_put(row, "from", answer_number(p > 0 ? (uint64_t)1 << p : 0));
		answer_put(row, "count", answer_number(spread_power(sizes, p)));
		json_array_append_new(array, row);
	}
	return array;
}

static json_t *
streams_array(const struct census *census)
{
	json_t *array = json_array();

	for (size_t i = 0; i < census->stream_count; i++) {
		json_t *row = json_object();

		answer_put(row, "stream", answer_address(census->streams[i].key.key));
		answer_put(row, "allocs", answer_number(census->streams[i].allocs));
		answer_put(row, "frees", answer_number(census->streams[i].frees));
		answer_put(row, "bytes", answer_number(census->streams[i].bytes));
		json_array_append_new(array, row);
	}
	return array;
}

static json_t *
holders_array(const struct trace_reader *reader, const struct census *census)
{
	json_t *array = json_array();

	for (size_t i = 0; i < census->holder_count; i++) {
		const struct census_holder *holder = &census->holders[i];
		json_t *row = json_object();

		answer_put(row, "name", answer_name(reader, holder->name));
		answer_put(row, "allocs", answer_number(holder->allocs));
		answer_put(row, "bytes", answer_number(holder->bytes));
		answer_put(row, "live_blocks_at_end", answer_number(holder->live));
		answer_put(row, "live_bytes_at_end", answer_number(holder->live_bytes));
		json_array_append_new(array, row);
	}
	return array;
}

static json_t *
census_object(const char *path, const struct trace_reader *reader, const struct census *census, bool truncated)
{
	json_t *object = json_object();

	answer_put(object, "trace", answer_text(path));
	answer_put(object, "format", json_string(trace_format(reader)));
	answer_put(object, "device", json_integer(census->device));
	answer_put(object, "truncated", json_boolean(truncated));
	answer_put(object, "events", answer_number(census->events));
	answer_put(object, "allocs", answer_number(census->allocs));
	answer_put(object, "frees", answer_number(census->frees));
	answer_put(object, "ignored", answer_number(census->ignored));
	answer_put(object, "unknown_frees", answer_number(census->unknown_frees));
	answer_put(object, "overwritten", answer_number(census->overwritten));
	answer_put(object, "recorded_failed", answer_number(census->recorded_failed));
	answer_put(object, "allocated_bytes", answer_number(census->bytes));
	answer_put(object, "most_live_blocks", answer_number(census->most_live));
	answer_put(object, "live_blocks_at_end", answer_number(census->live));
	answer_put(object, "live_bytes_at_end", answer_number(census->live_bytes));
	answer_put(object, "duration_ns",
		   census->has_times ? answer_number(census->last_ns - census->first_ns) : json_null());
	answer_put(object, "size", spread_object(&census->sizes));
	answer_put(object, "sizes", histogram(&census->sizes));
	answer_put(object, "lifetime_events", spread_object(&census->life_events));
	answer_put(object, "lifetime_ns", census->has_times ? spread_object(&census->life_ns) : json_null());
	answer_put(object, "free_delay_events", spread_object(&census->delay_events));
	answer_put(object, "free_delay_ns",
		   census->has_times ? spread_object(&census->delay_ns) : json_null());
	answer_put(object, "streams", streams_array(census));
	answer_put(object, "holders", holders_array(reader, census));
	return object;
}

static int
count(const struct command *command, const struct stats_values *values, const char *path,
      struct trace_reader *reader)
{
	struct trace_error error;
	struct census census;
	enum trace_result result = census_take(reader, values->device, &census, &error);
	int status = result == TRACE_TRUNCATED ? EXIT_BAD_NEWS : EXIT_FINE;

	if (result == TRACE_ERROR)
		return answer_error(command, error.text);
	if (result == TRACE_END)
		return usage_error(command, "--device: the trace has no device %" PRId32, values->device);
	if (result == TRACE_TRUNCATED)
		fprintf(stderr, "soma %s: warning: %s\n", command->name, error.text);
	if (values->json)
		status = answer_print(command, census_object(path, reader, &census, status != EXIT_FINE),
				      status);
	else
		print_text(path, reader, &census);
	census_fini(&census);
	return status;
}

int
command_stats(const struct command *command, int argc, char **argv)
{
	struct stats_values values = { .device = CENSUS_DEVICE_ANY };
	struct trace_reader *reader;
	int first, status = options_parse(command, argc, argv, &values, &first);
	const char *path;

	if (status >= 0)
		return status;
	path = answer_operand(command, argc, argv, first, &status);
	if (path == NULL)
		return status;
	reader = answer_open(command, path);
	if (reader == NULL)
		return EXIT_INPUT;
	status = count(command, &values, path, reader);
	trace_close(reader);
	return status;
}

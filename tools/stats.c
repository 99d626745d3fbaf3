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
	unsigned upper;
	bool json, partial;
};

const char *const stats_paragraphs[] = {
	"Counts what the trace does: sizes, lifetimes, rates, how much is live, how long deferred frees take "
	"to complete, the same for each stream, and which frames or tags allocate the most in all. No "
	"allocator "
	"is asked, and memory grows with what is live at once, not with the trace.",
	"Percentiles come from exact counts in logarithmic buckets, 32 to a power of two: a percentile is at "
	"most 3.2 % above the exact one, never below it, and one of the values that were there. The least, "
	"the "
	"most and the mean are exact.",
	"A lifetime is from the allocation to its free, in events of the device and, where the trace has "
	"times, in time. Where the trace tells when frees have completed, as PyTorch snapshots and soma's own "
	"traces do, the time from each such free to its completion is counted apart; one that completes at once "
	"is 0 events. What was live before the trace begins, which a snapshot tells, is live here, too, and so "
	"in all that is live at most, at the peak and at the end; it is in no number of allocations or sum of what "
	"was allocated, and has no lifetime.",
	NULL,
};

#define FIELD(name) offsetof(struct stats_values, name)

const struct option_row stats_options[] = {
	{ "device", 'd', OPTION_NUMBER, FIELD(device), "N", NULL,
	  "The device to count. The default is the one with the most allocations." },
	{ "upper", 'u', OPTION_CHOICE, FIELD(upper), "exclusive|inclusive", upper_names,
	  "Of placement instances: whether a block is gone at the moment upper (exclusive, the default) or "
	  "lives through it." },
	{ "json", 'j', OPTION_FLAG, FIELD(json), NULL, NULL,
	  "Print one JSON object instead of the report; sizes in it are bytes, times nanoseconds." },
	{ "partial", 'P', OPTION_FLAG, FIELD(partial), NULL, NULL,
	  "Take a truncated trace as it is: without this it gives exit status 1." },
	{ .name = NULL },
};

static const double percents[] = { 0, 10, 50, 90, 99, 100 };

#define PERCENTS (sizeof percents / sizeof percents[0])

/* ---- text ---------------------------------------------------------------------- */

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
count_line(const char *label, uint64_t count, const char *note)
{
	char text[UNITS_MAX];

	printf("  %-24s%10s%s%s\n", label, units_count(text, count), note[0] != '\0' ? "  " : "", note);
}

static void
bytes_note(char *note, size_t size, uint64_t bytes)
{
	char text[UNITS_MAX];

	snprintf(note, size, "of %s", units_bytes(text, bytes));
}

static void
print_live(const struct census *census)
{
	char note[2 * UNITS_MAX], where[ANSWER_EVENT_MAX], text[UNITS_MAX];

	snprintf(note, sizeof note, "%s, %s%s", census->most_live == 1 ? "block" : "blocks",
		 census->most_live_event == CENSUS_AT_START ? "" : "at ",
		 answer_event_text(where, census->most_live_event));
	count_line("Live at most", census->most_live, note);
	printf("  %-24s%10s  %s%s\n", "Peak live requested", units_bytes(text, census->peak_bytes),
	       census->peak_event == CENSUS_AT_START ? "" : "at ",
	       answer_event_text(where, census->peak_event));
	bytes_note(note, sizeof note, census->live_bytes);
	count_line("Live at the end", census->live, note);
}

static void
exception_line(const char *label, uint64_t count, const char *note)
{
	if (count > 0)
		count_line(label, count, note);
}

static void
print_exceptions(const struct census *census)
{
	char note[2 * UNITS_MAX + 64], text[UNITS_MAX];

	snprintf(note, sizeof note, "of %s, allocated before the trace begins",
		 units_bytes(text, census->start_bytes - census->start_pending_bytes));
	exception_line("Live at the start", census->start_blocks - census->start_pending, note);
	snprintf(note, sizeof note, "of %s, before the trace begins, and not completed: not live",
		 units_bytes(text, census->start_pending_bytes));
	exception_line("Freed before the start", census->start_pending, note);
	exception_line("Frees not completed", census->pending, "at the end, of those that complete later");
	exception_line("Frees elsewhere", census->stray_frees, "on another stream than the allocation's");
	exception_line("Unknown frees", census->unknown_frees, "of what was not live");
	exception_line("Overwritten blocks", census->overwritten,
		       "allocated again while live; taken as freed");
	exception_line("Ignored allocations", census->ignored, "of no bytes, or at no address");
	exception_line("Beyond any memory", census->too_big, "above 256 TiB: counted as nothing here");
	exception_line("Recorded failures", census->recorded_failed, "that the trace itself tells of");
	exception_line("Times that go back", census->backwards,
		       "left out where a span would end before it began");
}

static double
a_second(const struct census *census, uint64_t count)
{
	return (double)count / ((double)(census->last_ns - census->first_ns) / 1e9);
}

static void
print_rates(const struct census *census)
{
	char time[UNITS_MAX], text[UNITS_MAX];
	double rate;

	if (!census_has_times(census))
		return;
	rate = a_second(census, census->bytes);
	printf("\nRates, over %s\n", units_time(time, census->last_ns - census->first_ns));
	printf("  %-24s%10s a second\n", "Allocations", units_rate(text, a_second(census, census->allocs)));
	printf("  %-24s%10s a second\n", "Frees", units_rate(text, a_second(census, census->frees)));
	printf("  %-24s%10s a second\n", "Bytes allocated",
	       units_bytes(text, rate < 0x1p63 ? (uint64_t)rate : INT64_MAX));
}

static void
print_counts(const struct census *census)
{
	char note[2 * UNITS_MAX];

	bytes_note(note, sizeof note, census->bytes);
	count_line("Allocations", census->allocs, note);
	bytes_note(note, sizeof note, census->freed_bytes);
	count_line("Frees", census->frees, note);
	print_live(census);
	print_exceptions(census);
	print_rates(census);
}

static void
print_sizes(const struct spread *sizes)
{
	uint64_t most = 1;
	char low[UNITS_MAX], count[UNITS_MAX];

	if (sizes->count == 0)
		return;
	printf("\nSizes, by power of two\n");
	for (unsigned p = 0; p < 64; p++)
		most = spread_power(sizes, p) > most ? spread_power(sizes, p) : most;
	for (unsigned p = 0; p < 64; p++) {
		uint64_t n = spread_power(sizes, p);
		int width = (int)((double)n / (double)most * BAR_WIDTH + 0.999);

		if (n > 0)
			printf("  from %9s %12s  %.*s\n", units_bytes(low, (uint64_t)1 << p),
			       units_count(count, n), width, "########################################");
	}
}

static void
print_spreads(const struct census *census)
{
	printf("\nPercentiles                    least       10 %%       50 %%       90 %%       99 %%       "
	       "most\n");
	spread_line("Size", &census->sizes, units_bytes);
	spread_line("Lifetime, events", &census->life_events, units_count);
	if (census_has_times(census))
		spread_line("Lifetime, time", &census->life_ns, units_time);
	spread_line("Free to done, events", &census->delay_events, units_count);
	if (census_has_times(census))
		spread_line("Free to done, time", &census->delay_ns, units_time);
}

static void
more(size_t count)
{
	if (count > ROWS_SHOWN)
		printf("  and %zu more\n", count - ROWS_SHOWN);
}

static void
print_streams(const struct accounts *streams)
{
	char a[UNITS_MAX], b[UNITS_MAX], c[UNITS_MAX], d[UNITS_MAX], e[UNITS_MAX], f[UNITS_MAX],
		name[ANSWER_STREAM_MAX];

	printf("\nStreams                allocations        frees   allocated  live at most  at the end  "
	       "free to done, mean\n");
	for (size_t i = 0; i < streams->count && i < ROWS_SHOWN; i++) {
		const struct account *stream = &streams->at[i];

		printf("  %-18s %13s %12s %11s %13s %11s  %s\n", answer_stream_text(name, stream->key),
		       units_count(a, stream->allocs), units_count(b, stream->frees),
		       units_bytes(c, stream->bytes), units_bytes(d, stream->most_bytes),
		       units_bytes(e, stream->live_bytes),
		       stream->delays > 0 ? units_time(f, stream->delay_ns / stream->delays) : "-");
	}
	more(streams->count);
}

static void
print_holders(const struct trace_reader *reader, const struct accounts *holders)
{
	char a[UNITS_MAX], b[UNITS_MAX], c[UNITS_MAX], shown[4 * NAME_WIDTH + 1];

	printf("\nWho allocates the most, in all\n"
	       "  allocated   allocations  live at most\n");
	for (size_t i = 0; i < holders->count && i < ROWS_SHOWN; i++) {
		const struct account *holder = &holders->at[i];
		char *name = answer_holder(reader, (trace_name)holder->key);

		printf("  %9s  %12s  %12s  %s\n", units_bytes(a, holder->bytes),
		       units_count(b, holder->allocs), units_bytes(c, holder->most_bytes),
		       report_shorten(shown, sizeof shown, name, NAME_WIDTH));
		free(name);
	}
	more(holders->count);
}

static void
print_text(const char *path, const struct trace_reader *reader, const struct census *census)
{
	char *shown = report_clean(path), events[UNITS_MAX];

	printf("%s\n  %s, device %" PRId32, shown, trace_format(reader), census->device);
	if (census->device_count > 1)
		printf(" (one of %zu; the others: --device)", census->device_count);
	printf(", %s\n\n", units_plural(events, census->events, "event"));
	free(shown);
	print_counts(census);
	print_sizes(&census->sizes);
	if (census->sizes.count > 0)
		print_spreads(census);
	if (census->streams.count > 0)
		print_streams(&census->streams);
	if (census->holders.count > 0)
		print_holders(reader, &census->holders);
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
	report_put(object, "count", report_number(spread->count));
	report_put(object, "mean", json_real(spread->sum / (double)spread->count));
	for (size_t i = 0; i < PERCENTS; i++)
		report_put(object, names[i], report_number(spread_percentile(spread, percents[i])));
	return object;
}

static json_t *
histogram(const struct spread *sizes)
{
	json_t *array = json_array();

	for (unsigned p = 0; p < 64; p++) {
		json_t *row;

		if (spread_power(sizes, p) == 0)
			continue;
		row = json_object();
		report_put(row, "from", report_number(p > 0 ? (uint64_t)1 << p : 0));
		report_put(row, "count", report_number(spread_power(sizes, p)));
		json_array_append_new(array, row);
	}
	return array;
}

static void
put_account(json_t *row, const struct account *account)
{
	report_put(row, "allocs", report_number(account->allocs));
	report_put(row, "frees", report_number(account->frees));
	report_put(row, "bytes", report_number(account->bytes));
	report_put(row, "most_live_bytes", report_number(account->most_bytes));
	report_put(row, "live_blocks_at_peak", report_number(account->peak_live));
	report_put(row, "live_bytes_at_peak", report_number(account->peak_bytes));
	report_put(row, "live_blocks_at_end", report_number(account->live));
	report_put(row, "live_bytes_at_end", report_number(account->live_bytes));
}

static json_t *
streams_array(const struct accounts *streams)
{
	json_t *array = json_array();

	for (size_t i = 0; i < streams->count; i++) {
		const struct account *stream = &streams->at[i];
		json_t *row = json_object();

		report_put(row, "stream", report_address(stream->key));
		put_account(row, stream);
		report_put(row, "completed_frees", report_number(stream->delays));
		report_put(row, "free_delay_ns_mean",
			   stream->delays > 0 ? report_number(stream->delay_ns / stream->delays)
					      : json_null());
		report_put(row, "free_delay_ns_most",
			   stream->delays > 0 ? report_number(stream->delay_most_ns) : json_null());
		json_array_append_new(array, row);
	}
	return array;
}

static json_t *
holders_array(const struct trace_reader *reader, const struct accounts *holders)
{
	json_t *array = json_array();

	for (size_t i = 0; i < holders->count; i++) {
		json_t *row = json_object();

		report_put(row, "name", answer_name(reader, (trace_name)holders->at[i].key));
		put_account(row, &holders->at[i]);
		json_array_append_new(array, row);
	}
	return array;
}

static json_t *
counts_object(const struct census *census)
{
	json_t *object = json_object();

	report_put(object, "events", report_number(census->events));
	report_put(object, "uses", report_number(census->uses));
	report_put(object, "ignored", report_number(census->ignored));
	report_put(object, "too_big", report_number(census->too_big));
	report_put(object, "unknown_frees", report_number(census->unknown_frees));
	report_put(object, "overwritten", report_number(census->overwritten));
	report_put(object, "recorded_failed", report_number(census->recorded_failed));
	report_put(object, "frees_on_other_streams", report_number(census->stray_frees));
	report_put(object, "frees_pending_at_end", report_number(census->pending));
	report_put(object, "start_blocks", report_number(census->start_blocks));
	report_put(object, "start_bytes", report_number(census->start_bytes));
	report_put(object, "start_pending_blocks", report_number(census->start_pending));
	report_put(object, "start_pending_bytes", report_number(census->start_pending_bytes));
	report_put(object, "backward_times", report_number(census->backwards));
	report_put(object, "truncated", json_boolean(census->truncated));
	return object;
}

static json_t *
rates_object(const struct census *census)
{
	json_t *object;

	if (!census_has_times(census))
		return json_null();
	object = json_object();
	report_put(object, "duration_ns", report_number(census->last_ns - census->first_ns));
	report_put(object, "allocs_per_second", json_real(a_second(census, census->allocs)));
	report_put(object, "frees_per_second", json_real(a_second(census, census->frees)));
	report_put(object, "bytes_per_second", json_real(a_second(census, census->bytes)));
	return object;
}

static json_t *
census_object(const char *path, const struct trace_reader *reader, const struct census *census)
{
	json_t *object = json_object();
	bool times = census_has_times(census);

	report_put(object, "trace", answer_text(path));
	report_put(object, "format", json_string(trace_format(reader)));
	report_put(object, "device", json_integer(census->device));
	report_put(object, "allocs", report_number(census->allocs));
	report_put(object, "frees", report_number(census->frees));
	report_put(object, "allocated_bytes", report_number(census->bytes));
	report_put(object, "freed_bytes", report_number(census->freed_bytes));
	report_put(object, "peak_live_requested", report_number(census->peak_bytes));
	report_put(object, "peak_event", report_event(census->peak_event));
	report_put(object, "most_live_blocks", report_number(census->most_live));
	report_put(object, "most_live_blocks_event", report_event(census->most_live_event));
	report_put(object, "live_blocks_at_end", report_number(census->live));
	report_put(object, "live_bytes_at_end", report_number(census->live_bytes));
	report_put(object, "size", spread_object(&census->sizes));
	report_put(object, "sizes", histogram(&census->sizes));
	report_put(object, "lifetime_events", spread_object(&census->life_events));
	report_put(object, "lifetime_ns", times ? spread_object(&census->life_ns) : json_null());
	report_put(object, "free_delay_events", spread_object(&census->delay_events));
	report_put(object, "free_delay_ns", times ? spread_object(&census->delay_ns) : json_null());
	report_put(object, "rates", rates_object(census));
	report_put(object, "streams", streams_array(&census->streams));
	report_put(object, "holders", holders_array(reader, &census->holders));
	report_put(object, "counts", counts_object(census));
	return object;
}

static int
count(const struct command *command, const struct stats_values *values, const char *path,
      struct trace_reader *reader)
{
	struct trace_error error;
	struct census census;
	enum trace_result result = census_take(reader, values->device, &census, &error);
	int status;

	if (result == TRACE_ERROR)
		return answer_error(command, error.text);
	if (result == TRACE_END)
		return usage_error(command, "--device: %s", error.text);
	status = answer_truncated(command, census.truncated, &census.truncation, values->partial);
	if (values->json)
		status = answer_print(command, census_object(path, reader, &census), status);
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
	reader = answer_open_upper(command, path, values.upper);
	if (reader == NULL)
		return EXIT_INPUT;
	status = count(command, &values, path, reader);
	trace_close(reader);
	return status;
}

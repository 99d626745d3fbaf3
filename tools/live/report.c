/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report for people.  The verdict stands last.
 */
#include "tools/live/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/engine/engine.h"
#include "tools/report/report.h"
#include "tools/units.h"

#define LABEL_WIDTH 24

static void
label(FILE *out, const char *text)
{
	fprintf(out, "  %-*s", LABEL_WIDTH, text);
}

static void
bytes_line(FILE *out, const char *text, uint64_t bytes, const char *note)
{
	char size[UNITS_MAX];

	label(out, text);
	fprintf(out, "%10s%s%s\n", units_bytes(size, bytes), note[0] != '\0' ? "  " : "", note);
}

static void
count_line(FILE *out, const char *text, uint64_t count)
{
	char number[UNITS_MAX];

	label(out, text);
	fprintf(out, "%10s\n", units_count(number, count));
}

static void
heading(FILE *out, const struct live_report *report)
{
	const struct live_options *options = report->options;
	const struct live_result *result = report->result;
	const struct program *program = report->program;
	char events[UNITS_MAX], size[UNITS_MAX], threads[UNITS_MAX];

	fprintf(out, "%s\n  %s, device %" PRId32, report->path, program->format, program->device);
	if (program->device_count > 1)
		fprintf(out, " (one of %zu; the others: --device)", program->device_count);
	fprintf(out, ", %s\n  ", units_plural(events, program->counts.events, "event"));
	if (options->backend != NULL)
		fprintf(out, "backend %s (%s), budget %s", result->backend, result->device,
			options->budget > 0 ? units_bytes(size, options->budget) : "none");
	else
		fprintf(out, "a model in each thread, policy %s",
			options->policy != NULL ? options->policy->name : "cuda");
	fprintf(out, ", %s, %s\n  sizes divided by %" PRIu64 ", frees complete: %s\n",
		units_plural(threads, options->threads, "thread"), units_plural(size, options->repeat, "run"),
		options->scale, replay_complete_names[options->complete]);
}

static void
time_line(FILE *out, const char *text, const struct times *times)
{
	char count[UNITS_MAX], half[UNITS_MAX], most[UNITS_MAX], longest[UNITS_MAX];

	if (times->count == 0)
		return;
	label(out, text);
	fprintf(out, "%10s  p50 %s, p99 %s, longest %s\n", units_count(count, times->count),
		units_time(half, times_at(times, 500)), units_time(most, times_at(times, 990)),
		units_time(longest, times->max_ns));
}

static void
calls(FILE *out, const struct live_report *report)
{
	const struct live_result *result = report->result;

	if (report->options->backend == NULL) {
		count_line(out, "Allocations", result->allocs);
		count_line(out, "Frees", result->frees);
		return;
	}
	fprintf(out, "\nCalls, with the host's time for each (not the device's)\n");
	time_line(out, "Allocations", &result->alloc_times);
	time_line(out, "Frees", &result->free_times);
	time_line(out, "Synchronisations", &result->sync_times);
	count_line(out, "Uses on other streams", result->uses);
	count_line(out, "Events recorded", result->records);
	count_line(out, "Events waited for", result->waits);
}

static void
memory(FILE *out, const struct live_report *report)
{
	const struct live_result *result = report->result;
	char size[UNITS_MAX], note[UNITS_MAX + 64] = "";
	bool beside = result->compared_on_the_way;

	fprintf(out, "\nMemory\n");
	if (beside)
		snprintf(note, sizeof note, "(the model: %s)", units_bytes(size, result->model_peak));
	else if (report->options->threads > 1)
		snprintf(note, sizeof note, "(the sum of the threads' own peaks)");
	bytes_line(out, "Peak live", result->peak_live, note);
	if (report->options->backend != NULL)
		bytes_line(out, "Peak outstanding", result->peak_outstanding,
			   report->options->threads > 1 ? "live and freed but not gone; sampled"
							: "live and freed but not gone");
	bytes_line(out, "Live at the end", result->end_live_bytes, "");
	if (result->guarded)
		count_line(out, "Guard reports", result->guard_reports);
}

static void
speed(FILE *out, const struct live_report *report)
{
	const struct live_result *result = report->result;
	double seconds = (double)result->wall_ns / 1e9;
	char number[UNITS_MAX];

	if (report->options->threads == 1 && report->options->repeat == 1)
		return;
	fprintf(out, "\nLoad\n");
	count_line(out, "Steps", result->steps);
	label(out, "Elapsed");
	fprintf(out, "%10.3f s\n", seconds);
	label(out, "Allocations and frees");
	fprintf(out, "%10s a second\n",
		units_count(number, seconds > 0 ? (uint64_t)((double)(result->allocs + result->frees) / seconds)
						: 0));
}

static void
event_text(char *buffer, size_t size, uint64_t event)
{
	if (event == REPLAY_AT_START)
		snprintf(buffer, size, "before the first event");
	else
		snprintf(buffer, size, "at event %" PRIu64, event);
}

static void
refusal(FILE *out, const struct live_result *result)
{
	const struct live_refusal *r = &result->refusal;
	char where[64], count[UNITS_MAX];

	const char *status = soma_status_text(r->status), *text = r->text;

	event_text(where, sizeof where, r->event);
	/* It begins with what stands before it here. */
	if (strncmp(text, status, strlen(status)) == 0 && strncmp(text + strlen(status), ": ", 2) == 0)
		text += strlen(status) + 2;
	char *clean = report_clean(text); /* holders' names are the trace's */
	fprintf(out, "%s %s: %s\n  (%s in all)\n",
		r->status == SOMA_STATUS_OUT_OF_BUDGET ? "Out of budget" : "Out of memory", where, clean,
		units_plural(count, result->refused, "allocation"));
	free(clean);
}

static void
divergence(FILE *out, const char *name, const struct live_divergence *d)
{
	char where[64] = "at the end";

	if (!d->at_end)
		event_text(where, sizeof where, d->event);
	fprintf(out, "%s differs %s: %" PRIu64 " in the model, %" PRIu64 " in the driver.\n  %s\n", name, where,
		d->what.model, d->what.driver, d->text);
}

/* Differences that are allowed are said, too. */
static void
reserved_line(FILE *out, const struct live_report *report)
{
	const struct soma_twin_report *twin = &report->result->twin.report;
	const struct soma_twin_figure *now = &twin->reserved, *high = &twin->reserved_high;
	uint64_t largest = now->largest > high->largest ? now->largest : high->largest;
	char size[UNITS_MAX], allowed[UNITS_MAX], count[UNITS_MAX];

	if (largest == 0)
		return;
	fprintf(out, "RESERVED was not the same %s, its peak by then %s",
		units_plural(count, now->differences, "time"), units_plural(size, high->differences, "time"));
	fprintf(out, "; by %s at most (allowed: %s).\n", units_bytes(size, largest),
		units_bytes(allowed, report->options->twin_tolerance));
}

static void
twin_verdict(FILE *out, const struct live_report *report)
{
	const struct live_twin *twin = &report->result->twin;
	char count[UNITS_MAX];

	fprintf(out, "The model and the backend's pool were compared %s",
		units_plural(count, twin->report.compared, "time"));
	if (twin->report.skipped > 0)
		fprintf(out, " (and %s could not be)", units_plural(count, twin->report.skipped, "time"));
	fprintf(out, "%s.\n", twin->used.what.happened || twin->reserved.what.happened ? "" : ", and agree");
	if (twin->used.what.happened)
		divergence(out, "USED", &twin->used);
	if (twin->reserved.what.happened)
		divergence(out, "RESERVED", &twin->reserved);
	reserved_line(out, report);
}

static void
differences(FILE *out, const struct live_result *result)
{
	const struct live_difference *d = &result->difference;
	char where[64] = "at the end", count[UNITS_MAX];

	if (d->happened) {
		if (!d->at_end)
			event_text(where, sizeof where, d->event);
		fprintf(out, "The accounts differ %s: %s are %" PRIu64 ", and %" PRIu64 " were expected.\n", where,
			d->what, d->got, d->expected);
	} else {
		fprintf(out, "All accounts agree to the byte: compared %s.\n",
			units_plural(count, result->compared, "time"));
	}
	if (result->damaged > 0)
		fprintf(out, "%s did not keep what was written to the first and last byte.\n",
			units_plural(count, result->damaged, "block"));
}

static void
verdict(FILE *out, const struct live_report *report)
{
	const struct live_result *result = report->result;
	char count[UNITS_MAX], size[UNITS_MAX];

	fputc('\n', out);
	if (report->program->truncated)
		fprintf(out, "The trace is truncated: this is what was read before its end.\n");
	if (report->options->twin)
		twin_verdict(out, report);
	else
		differences(out, result);
	if (result->guard_reports > 0)
		fprintf(out, "The guard made %s (on standard error).\n",
			units_plural(count, result->guard_reports, "report"));
	if (result->refusal.happened)
		refusal(out, result);
	else if (report->options->budget > 0)
		fprintf(out, "Fits in a budget of %s.\n", units_bytes(size, report->options->budget));
}

void
live_report_text(FILE *out, const struct live_report *report)
{
	heading(out, report);
	calls(out, report);
	memory(out, report);
	speed(out, report);
	verdict(out, report);
}

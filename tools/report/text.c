/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replay's result for people.  The verdict stands last, where a terminal leaves
 * the eye.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/report/report.h"
#include "tools/units.h"

#define LABEL_WIDTH 24
#define HOLDERS_SHOWN 10
#define NAME_WIDTH 56

static void
label(FILE *out, const char *text)
{
	fprintf(out, "  %-*s", LABEL_WIDTH, text);
}

static void
bytes_line(FILE *out, const char *text, uint64_t bytes)
{
	char size[UNITS_MAX];

	label(out, text);
	fprintf(out, "%10s\n", units_bytes(size, bytes));
}

static void
count_line(FILE *out, const char *text, uint64_t count, const char *note)
{
	char number[UNITS_MAX];

	label(out, text);
	fprintf(out, "%10s%s%s\n", units_count(number, count), note[0] != '\0' ? "  " : "", note);
}

/* A count that is only worth a line when it is not 0. */
static void
exception_line(FILE *out, const char *text, uint64_t count, const char *note)
{
	if (count > 0)
		count_line(out, text, count, note);
}

static void
heading(FILE *out, const struct report *report)
{
	const struct replay_result *result = report->result;
	char events[UNITS_MAX], streams[UNITS_MAX];

	fprintf(out, "%s\n", report->path);
	fprintf(out, "  %s", result->format);
	if (trace_upper(report->reader) != NULL)
		fprintf(out, " (upper is %s)", trace_upper(report->reader));
	fprintf(out, ", device %" PRId32, result->device);
	if (result->device_count > 1)
		fprintf(out, " (one of %zu; the others: --device)", result->device_count);
	fprintf(out, ", %s on %s\n", units_plural(events, result->counts.events, "event"),
		units_plural(streams, result->counts.streams, "stream"));
}

static const char *
size_or(char *buffer, uint64_t bytes, uint64_t none, const char *text)
{
	return bytes == none ? text : units_bytes(buffer, bytes);
}

static void
settings(FILE *out, const struct report *report)
{
	const struct replay_options *options = report->options;
	char capacity[UNITS_MAX], threshold[UNITS_MAX];

	fprintf(out, "  policy %s%s, capacity %s, release threshold %s, frees complete: %s\n",
		report->result->policy->name, report->result->expandable ? " with expandable segments" : "",
		size_or(capacity, options->capacity, 0, "unlimited"),
		size_or(threshold, options->release_threshold, UINT64_MAX, "keep everything"),
		replay_complete_names[options->complete]);
}

static void
peaks(FILE *out, const struct replay_result *result)
{
	char size[UNITS_MAX];

	label(out, "Peak live requested");
	fprintf(out, "%10s", units_bytes(size, result->peak_live_requested));
	if (result->peak_event == REPLAY_AT_START)
		fprintf(out, "  before the first event\n");
	else
		fprintf(out, "  at event %" PRIu64 "\n", result->peak_event);
	bytes_line(out, "Peak reserved", result->peak_reserved);
	label(out, "Utilisation");
	fprintf(out, "%10s\n", units_percent(size, result->peak_live_requested, result->peak_reserved));
}

static void
four_numbers(FILE *out, const struct replay_moment *moment)
{
	fprintf(out, "\nAt the peak of live bytes\n");
	bytes_line(out, "Rounding waste", moment->rounding_waste);
	bytes_line(out, "Free but held", moment->free_but_held);
	bytes_line(out, "Largest free block", moment->largest_free);
	bytes_line(out, "Stranded by stream", moment->stranded_by_stream);
}

static void
counts(FILE *out, const struct replay_result *result)
{
	const struct replay_counts *c = &result->counts;
	char note[UNITS_MAX + 64] = "", size[UNITS_MAX];

	fprintf(out, "\nCounts\n");
	count_line(out, "Allocations", c->allocs, "");
	count_line(out, "Frees", c->frees, "");
	if (c->start_segments > 0)
		snprintf(note, sizeof note, "and %s at the start",
			 units_plural(size, c->start_segments, "segment"));
	count_line(out, "Segments", c->segments, note);
	exception_line(out, "Maps", c->maps, "a call for each range of pages");
	exception_line(out, "Unmaps", c->unmaps, "");
	snprintf(note, sizeof note, "of those, for %s needed elsewhere",
		 units_plural(size, c->pages_stolen, "page"));
	exception_line(out, "Steals", c->steals, note);
	exception_line(out, "Live at the start", c->start_blocks, "allocated before the trace begins");
	snprintf(note, sizeof note, "%s of %s", c->live_blocks == 1 ? "block" : "blocks",
		 units_bytes(size, c->live_bytes));
	count_line(out, "Live at the end", c->live_blocks, note);
	exception_line(out, "Failed allocations", c->failed, "");
	exception_line(out, "Recorded failures", c->recorded_failed, "that the trace itself tells of");
}

static void
oddities(FILE *out, const struct replay_result *result)
{
	const struct replay_counts *c = &result->counts;
	char note[96];

	snprintf(note, sizeof note, "of what was not live; the first: event %" PRIu64 ", 0x%" PRIx64,
		 result->first_unknown_event, result->first_unknown_ptr);
	exception_line(out, "Unknown frees", c->unknown_frees, note);
	exception_line(out, "Overwritten blocks", c->overwritten,
		       "allocated again while live; taken as freed");
	exception_line(out, "Ignored allocations", c->ignored, "of no bytes, or at no address");
	exception_line(out, "Unknown events", c->unknown_events, "waited for, never recorded");
	exception_line(out, "Segments not released", c->unreleased, "that the recording released");
}

static void
holders(FILE *out, const struct report *report)
{
	const struct replay_result *result = report->result;
	size_t shown = result->holder_count < HOLDERS_SHOWN ? result->holder_count : HOLDERS_SHOWN;
	char size[UNITS_MAX], share[UNITS_MAX], blocks[UNITS_MAX], shown_name[4 * NAME_WIDTH + 1];

	if (shown == 0)
		return;
	fprintf(out, "\nBiggest holders at the peak\n");
	for (size_t i = 0; i < shown; i++) {
		const struct holder_rank *rank = &result->holders[i];
		char *name = report_holder(trace_name_text(report->reader, rank->name));

		fprintf(out, "  %9s  %7s  %12s  %s\n", units_bytes(size, rank->bytes),
			units_percent(share, rank->bytes, result->peak_live_requested),
			units_plural(blocks, rank->blocks, "block"),
			report_shorten(shown_name, sizeof shown_name, name, NAME_WIDTH));
		free(name);
	}
	if (result->holder_count > shown)
		fprintf(out, "  and %zu more\n", result->holder_count - shown);
}

static void
parity(FILE *out, const struct replay_result *result)
{
	const struct replay_parity *parity = &result->parity;
	const char *why = result->recorded_oom.tried ? " (the request that failed was made, too)"
						     : " (the capacity made segments go)";
	char part[UNITS_MAX];

	if (!parity->applies)
		return;
	fprintf(out, "\n%" PRIu64 " of %" PRIu64 " recorded %s reproduced", parity->reproduced, parity->recorded,
		parity->recorded == 1 ? "address" : "addresses");
	if (parity->segments_recorded > 0)
		fprintf(out, ", %s", units_part(part, parity->segments_reproduced, parity->segments_recorded,
						"recorded segment"));
	fprintf(out, "%s\n", parity->disturbed ? why : "");
	if (parity->differs && parity->got_ptr != 0)
		fprintf(out,
			"  first difference at event %" PRIu64 ": recorded 0x%" PRIx64 ", got 0x%" PRIx64
			"\n",
			parity->event, parity->recorded_ptr, parity->got_ptr);
	else if (parity->differs)
		fprintf(out,
			"  first difference at event %" PRIu64 ": recorded 0x%" PRIx64 ", got no memory\n",
			parity->event, parity->recorded_ptr);
}

static void
out_of_memory(FILE *out, const struct replay_oom *oom)
{
	char requested[UNITS_MAX], missing[UNITS_MAX], live[UNITS_MAX], reserved[UNITS_MAX];

	if (oom->event == REPLAY_AT_START)
		fprintf(out, "Out of memory before the first event: ");
	else
		fprintf(out, "Out of memory at event %" PRIu64 ": ", oom->event);
	fprintf(out, "%s requested, %s short: %s\n  (%s live and %s reserved at that moment)\n",
		units_bytes(requested, oom->requested), units_bytes(missing, oom->short_by),
		replay_oom_text(oom->reason), units_bytes(live, oom->live_requested),
		units_bytes(reserved, oom->reserved));
}

static void
recorded_failure(FILE *out, const struct replay_recorded *recorded)
{
	char size[UNITS_MAX], last[UNITS_MAX];

	if (recorded->happened)
		fprintf(out,
			"The trace records a failure at event %" PRIu64 ": out of memory, %s requested "
			"(soma oom says why).\n",
			recorded->event, units_bytes(size, recorded->requested));
	if (recorded->count > 1)
		fprintf(out, "And %s more, the last at event %" PRIu64 ": %s requested.\n",
			units_count(size, recorded->count - 1), recorded->last_event,
			units_bytes(last, recorded->last_requested));
}

static const char *
recorded_too(const struct replay_recorded *recorded)
{
	if (!recorded->tried)
		return "";
	return recorded->count == 1 ? ", and so does the request that failed"
				    : ", and so do the requests that failed";
}

static void
verdict(FILE *out, const struct report *report)
{
	const struct replay_result *result = report->result;
	char capacity[UNITS_MAX];

	fputc('\n', out);
	if (result->truncated)
		fprintf(out, "The trace is truncated: this is what was read before its end%s.\n",
			result->start_unknown
				? ",\nfrom an empty start: what was there before it began is not known"
				: "");
	recorded_failure(out, &result->recorded_oom);
	if (result->oom.happened)
		out_of_memory(out, &result->oom);
	else if (report->options->capacity > 0)
		fprintf(out, "Fits in %s%s.\n", units_bytes(capacity, report->options->capacity),
			recorded_too(&result->recorded_oom));
	else
		fprintf(out, "No capacity was set, and nothing failed%s.\n",
			result->recorded_oom.happened ? " in the replay" : "");
}

void
report_text(FILE *out, const struct report *report)
{
	heading(out, report);
	settings(out, report);
	fputc('\n', out);
	peaks(out, report->result);
	four_numbers(out, &report->result->at_peak);
	counts(out, report->result);
	oddities(out, report->result);
	holders(out, report);
	parity(out, report->result);
	verdict(out, report);
}

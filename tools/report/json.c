/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replay's result as one JSON object.  Every key is always there; sizes are exact
 * bytes.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/report/report.h"
#include "tools/report/values.h"

static json_t *
first_difference(const struct replay_parity *parity)
{
	json_t *object;

	if (!parity->differs)
		return json_null();
	object = json_object();
	report_put(object, "event", report_number(parity->event));
	report_put(object, "recorded", report_address(parity->recorded_ptr));
	report_put(object, "got", parity->got_ptr != 0 ? report_address(parity->got_ptr) : json_null());
	return object;
}

static json_t *
parity_object(const struct replay_parity *parity)
{
	json_t *object;

	if (!parity->applies)
		return json_null();
	object = json_object();
	report_put(object, "recorded", report_number(parity->recorded));
	report_put(object, "reproduced", report_number(parity->reproduced));
	report_put(object, "segments_recorded", report_number(parity->segments_recorded));
	report_put(object, "segments_reproduced", report_number(parity->segments_reproduced));
	report_put(object, "first_difference", first_difference(parity));
	return object;
}

static json_t *
name_string(const char *text)
{
	char *clean = report_clean(text);
	json_t *string = json_string(clean);

	free(clean);
	return string;
}

static json_t *
holders_array(const struct report *report)
{
	json_t *array = json_array();

	for (size_t i = 0; i < report->result->holder_count; i++) {
		const struct holder_rank *rank = &report->result->holders[i];
		const char *name = trace_name_text(report->reader, rank->name);
		json_t *object = json_object();

		report_put(object, "name", name[0] != '\0' ? name_string(name) : json_null());
		report_put(object, "bytes", report_number(rank->bytes));
		report_put(object, "blocks", report_number(rank->blocks));
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *
settings_object(const struct report *report)
{
	const struct replay_options *options = report->options;
	const char *upper = trace_upper(report->reader);
	json_t *object = json_object();

	report_put(object, "trace", json_string(report->path));
	report_put(object, "format", json_string(report->result->format));
	report_put(object, "upper", upper != NULL ? json_string(upper) : json_null());
	report_put(object, "device", json_integer(report->result->device));
	report_put(object, "policy", json_string(report->result->policy->name));
	report_put(object, "expandable_segments", json_boolean(report->result->expandable));
	report_put(object, "capacity",
		   options->capacity > 0 ? report_number(options->capacity) : json_null());
	report_put(object, "release_threshold",
		   options->release_threshold != UINT64_MAX ? report_number(options->release_threshold)
							    : json_null());
	report_put(object, "complete", json_string(replay_complete_names[options->complete]));
	return object;
}

static json_t *
counts_object(const struct replay_result *result)
{
	const struct replay_counts *counts = &result->counts;
	json_t *object = json_object();

	report_put(object, "events", report_number(counts->events));
	report_put(object, "streams", report_number(counts->streams));
	report_put(object, "failed", report_number(counts->failed));
	report_put(object, "recorded_failed", report_number(counts->recorded_failed));
	report_put(object, "unknown_frees", report_number(counts->unknown_frees));
	report_put(object, "overwritten", report_number(counts->overwritten));
	report_put(object, "ignored", report_number(counts->ignored));
	report_put(object, "start_segments", report_number(counts->start_segments));
	report_put(object, "start_blocks", report_number(counts->start_blocks));
	report_put(object, "live_blocks_at_end", report_number(counts->live_blocks));
	report_put(object, "live_bytes_at_end", report_number(counts->live_bytes));
	report_put(object, "maps", report_number(counts->maps));
	report_put(object, "unmaps", report_number(counts->unmaps));
	report_put(object, "steals", report_number(counts->steals));
	report_put(object, "pages_stolen", report_number(counts->pages_stolen));
	report_put(object, "peak_event", report_event(result->peak_event));
	report_put(object, "truncated", json_boolean(result->truncated));
	report_put(object, "start_unknown", json_boolean(result->start_unknown));
	return object;
}

static json_t *
result_object(const struct report *report)
{
	const struct replay_result *result = report->result;
	double utilisation = result->peak_reserved > 0
				     ? (double)result->peak_live_requested / (double)result->peak_reserved
				     : 0;
	json_t *object = json_object();

	report_put(object, "peak_live_requested", report_number(result->peak_live_requested));
	report_put(object, "peak_reserved", report_number(result->peak_reserved));
	report_put(object, "utilisation", json_real(utilisation));
	report_put(object, "allocs", report_number(result->counts.allocs));
	report_put(object, "frees", report_number(result->counts.frees));
	report_put(object, "segments", report_number(result->counts.segments));
	report_put(object, "rounding_waste", report_number(result->at_peak.rounding_waste));
	report_put(object, "free_but_held", report_number(result->at_peak.free_but_held));
	report_put(object, "largest_free", report_number(result->at_peak.largest_free));
	report_put(object, "stranded_by_stream", report_number(result->at_peak.stranded_by_stream));
	report_put(object, "parity", parity_object(&result->parity));
	report_put(object, "oom", report_oom(&result->oom));
	report_put(object, "recorded_oom", report_recorded(&result->recorded_oom));
	report_put(object, "holders", holders_array(report));
	report_put(object, "counts", counts_object(result));
	report_put(object, "settings", settings_object(report));
	return object;
}

bool
report_json(FILE *out, const struct report *report)
{
	json_t *object = result_object(report);
	bool written = json_dumpf(object, out, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) == 0 &&
		       fputc('\n', out) != EOF;

	json_decref(object);
	return written;
}

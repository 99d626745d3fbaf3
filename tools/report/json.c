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

/* JSON integers of jansson are signed; a value beyond them is one that no real trace
 * has, and is given as the largest. */
static json_t *
number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* Addresses and streams are names, not quantities: readers of JSON round above 2^53. */
static json_t *
address(uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "0x%" PRIx64, value);
	return json_string(text);
}

static json_t *
event(uint64_t index)
{
	return index == REPLAY_AT_START ? json_null() : number(index);
}

static void
put(json_t *object, const char *key, json_t *value)
{
	json_object_set_new(object, key, value);
}

static json_t *
first_difference(const struct replay_parity *parity)
{
	json_t *object;

	if (!parity->differs)
		return json_null();
	object = json_object();
	put(object, "event", number(parity->event));
	put(object, "recorded", address(parity->recorded_ptr));
	put(object, "got", parity->got_ptr != 0 ? address(parity->got_ptr) : json_null());
	return object;
}

static json_t *
parity_object(const struct replay_parity *parity)
{
	json_t *object;

	if (!parity->applies)
		return json_null();
	object = json_object();
	put(object, "recorded", number(parity->recorded));
	put(object, "reproduced", number(parity->reproduced));
	put(object, "segments_recorded", number(parity->segments_recorded));
	put(object, "segments_reproduced", number(parity->segments_reproduced));
	put(object, "first_difference", first_difference(parity));
	return object;
}

static json_t *
oom_object(const struct replay_oom *oom)
{
	json_t *object;

	if (!oom->happened)
		return json_null();
	object = json_object();
	put(object, "event", event(oom->event));
	put(object, "requested", number(oom->requested));
	put(object, "short_by", number(oom->short_by));
	put(object, "reason", json_string(replay_oom_text(oom->reason)));
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

		put(object, "name", name[0] != '\0' ? name_string(name) : json_null());
		put(object, "bytes", number(rank->bytes));
		put(object, "blocks", number(rank->blocks));
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

	put(object, "trace", json_string(report->path));
	put(object, "format", json_string(report->result->format));
	put(object, "upper", upper != NULL ? json_string(upper) : json_null());
	put(object, "device", json_integer(report->result->device));
	put(object, "policy", json_string(report->result->policy->name));
	put(object, "expandable_segments", json_boolean(report->result->expandable));
	put(object, "capacity", options->capacity > 0 ? number(options->capacity) : json_null());
	put(object, "release_threshold",
	    options->release_threshold != UINT64_MAX ? number(options->release_threshold) : json_null());
	put(object, "complete", json_string(replay_complete_names[options->complete]));
	return object;
}

static json_t *
counts_object(const struct replay_result *result)
{
	const struct replay_counts *counts = &result->counts;
	json_t *object = json_object();

	put(object, "events", number(counts->events));
	put(object, "streams", number(counts->streams));
	put(object, "failed", number(counts->failed));
	put(object, "recorded_failed", number(counts->recorded_failed));
	put(object, "unknown_frees", number(counts->unknown_frees));
	put(object, "overwritten", number(counts->overwritten));
	put(object, "ignored", number(counts->ignored));
	put(object, "start_segments", number(counts->start_segments));
	put(object, "start_blocks", number(counts->start_blocks));
	put(object, "live_blocks_at_end", number(counts->live_blocks));
	put(object, "live_bytes_at_end", number(counts->live_bytes));
	put(object, "maps", number(counts->maps));
	put(object, "unmaps", number(counts->unmaps));
	put(object, "steals", number(counts->steals));
	put(object, "pages_stolen", number(counts->pages_stolen));
	put(object, "peak_event", event(result->peak_event));
	put(object, "truncated", json_boolean(result->truncated));
	put(object, "start_unknown", json_boolean(result->start_unknown));
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

	put(object, "peak_live_requested", number(result->peak_live_requested));
	put(object, "peak_reserved", number(result->peak_reserved));
	put(object, "utilisation", json_real(utilisation));
	put(object, "allocs", number(result->counts.allocs));
	put(object, "frees", number(result->counts.frees));
	put(object, "segments", number(result->counts.segments));
	put(object, "rounding_waste", number(result->at_peak.rounding_waste));
	put(object, "free_but_held", number(result->at_peak.free_but_held));
	put(object, "largest_free", number(result->at_peak.largest_free));
	put(object, "stranded_by_stream", number(result->at_peak.stranded_by_stream));
	put(object, "parity", parity_object(&result->parity));
	put(object, "oom", oom_object(&result->oom));
	put(object, "holders", holders_array(report));
	put(object, "counts", counts_object(result));
	put(object, "settings", settings_object(report));
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

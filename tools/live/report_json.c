/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same as one JSON object; sizes are bytes, times are nanoseconds of the host's monotonic clock.
 */
#include <jansson.h>
#include <stdlib.h>

#include "tools/engine/engine.h"
#include "tools/live/report.h"
#include "tools/report/report.h"

static json_t *
number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
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
settings_object(const struct live_report *report)
{
	const struct live_options *options = report->options;
	const struct live_result *result = report->result;
	bool real = options->backend != NULL;
	json_t *object = json_object();

	put(object, "trace", json_string(report->path));
	put(object, "format", json_string(report->program->format));
	put(object, "device", json_integer(report->program->device));
	put(object, "backend", real ? json_string(result->backend) : json_null());
	put(object, "device_name", real ? json_string(result->device) : json_null());
	put(object, "device_total", number(result->total));
	put(object, "device_free", number(result->free));
	put(object, "budget", options->budget > 0 ? number(options->budget) : json_null());
	put(object, "scale", number(options->scale));
	put(object, "threads", json_integer(options->threads));
	put(object, "repeat", json_integer(options->repeat));
	put(object, "complete", json_string(replay_complete_names[options->complete]));
	return object;
}

static json_t *
times_object(const struct times *times)
{
	json_t *object = json_object();

	put(object, "count", number(times->count));
	put(object, "p50", number(times_at(times, 500)));
	put(object, "p99", number(times_at(times, 990)));
	put(object, "longest", number(times->max_ns));
	return object;
}

static json_t *
host_times_object(const struct live_result *result)
{
	json_t *object = json_object();

	put(object, "alloc", times_object(&result->alloc_times));
	put(object, "free", times_object(&result->free_times));
	put(object, "synchronize", times_object(&result->sync_times));
	return object;
}

static json_t *
counts_object(const struct live_report *report)
{
	const struct program_counts *counts = &report->program->counts;
	const struct live_result *result = report->result;
	json_t *object = json_object();

	put(object, "events", number(counts->events));
	put(object, "steps", number(result->steps));
	put(object, "allocs", number(result->allocs));
	put(object, "frees", number(result->frees));
	put(object, "uses", number(result->uses));
	put(object, "records", number(result->records));
	put(object, "waits", number(result->waits));
	put(object, "synchronisations", number(result->synchronisations));
	put(object, "refused", number(result->refused));
	put(object, "misuses", number(result->misuses));
	put(object, "damaged", number(result->damaged));
	put(object, "unknown_frees", number(counts->unknown_frees));
	put(object, "unknown_uses", number(counts->unknown_uses));
	put(object, "unknown_events", number(counts->unknown_markers));
	put(object, "overwritten", number(counts->overwritten));
	put(object, "ignored", number(counts->ignored));
	put(object, "start_blocks", number(counts->start_blocks));
	put(object, "truncated", json_boolean(report->program->truncated));
	return object;
}

static json_t *
refusal_object(const struct live_refusal *refusal)
{
	json_t *object = json_object();
	char *clean;

	if (!refusal->happened) {
		json_decref(object);
		return json_null();
	}
	clean = report_clean(refusal->text);
	put(object, "status", json_string(soma_status_name(refusal->status)));
	put(object, "event", event(refusal->event));
	put(object, "requested", number(refusal->requested));
	put(object, "current", number(refusal->current));
	put(object, "remaining", number(refusal->remaining));
	put(object, "limit", number(refusal->limit));
	put(object, "text", json_string(clean));
	free(clean);
	return object;
}

static json_t *
difference_object(const struct live_difference *difference)
{
	json_t *object;

	if (!difference->happened)
		return json_null();
	object = json_object();
	put(object, "what", json_string(difference->what));
	put(object, "at_end", json_boolean(difference->at_end));
	put(object, "event", difference->at_end ? json_null() : event(difference->event));
	put(object, "got", number(difference->got));
	put(object, "expected", number(difference->expected));
	return object;
}

static json_t *
figure_object(const struct soma_twin_figure *figure)
{
	json_t *object = json_object();

	put(object, "differences", number(figure->differences));
	put(object, "largest", number(figure->largest));
	put(object, "first", figure->first > 0 ? number(figure->first) : json_null());
	put(object, "model", figure->first > 0 ? number(figure->model) : json_null());
	put(object, "driver", figure->first > 0 ? number(figure->driver) : json_null());
	return object;
}

static json_t *
divergence_object(const struct live_divergence *divergence)
{
	const struct soma_twin_divergence *what = &divergence->what;
	bool high = what->figure == SOMA_POOL_USED_HIGH || what->figure == SOMA_POOL_RESERVED_HIGH;
	json_t *object;

	if (!what->happened)
		return json_null();
	object = json_object();
	put(object, "at_end", json_boolean(divergence->at_end));
	put(object, "event", divergence->at_end ? json_null() : event(divergence->event));
	put(object, "highest", json_boolean(high));
	put(object, "model", number(what->model));
	put(object, "driver", number(what->driver));
	put(object, "comparison", number(what->comparison));
	put(object, "operation", number(what->operation));
	put(object, "text", json_string(divergence->text));
	put(object, "trace", json_string(divergence->trace));
	return object;
}

static json_t *
twin_object(const struct live_report *report)
{
	const struct live_twin *twin = &report->result->twin;
	json_t *object;

	if (!report->options->twin)
		return json_null();
	object = json_object();
	put(object, "compared", number(twin->report.compared));
	put(object, "skipped", number(twin->report.skipped));
	put(object, "disturbed", number(twin->report.disturbed));
	put(object, "operations", number(twin->report.operations));
	put(object, "used_unit", number(report->options->twin_used_unit));
	put(object, "reserved_tolerance", number(report->options->twin_tolerance));
	put(object, "used", figure_object(&twin->report.used));
	put(object, "used_high", figure_object(&twin->report.used_high));
	put(object, "reserved", figure_object(&twin->report.reserved));
	put(object, "reserved_high", figure_object(&twin->report.reserved_high));
	put(object, "used_divergence", divergence_object(&twin->used));
	put(object, "reserved_divergence", divergence_object(&twin->reserved));
	return object;
}

static json_t *
result_object(const struct live_report *report)
{
	const struct live_result *result = report->result;
	json_t *object = json_object();

	put(object, "peak_live", number(result->peak_live));
	put(object, "peak_outstanding", number(result->peak_outstanding));
	put(object, "model_peak_live", result->compared_on_the_way ? number(result->model_peak) : json_null());
	put(object, "live_bytes_at_end", number(result->end_live_bytes));
	put(object, "live_blocks_at_end", number(result->end_live_blocks));
	put(object, "compared", number(result->compared));
	put(object, "difference", difference_object(&result->difference));
	put(object, "twin", twin_object(report));
	put(object, "refusal", refusal_object(&result->refusal));
	put(object, "guard_reports", result->guarded ? number(result->guard_reports) : json_null());
	put(object, "elapsed_ns", number(result->wall_ns));
	put(object, "host_times_ns", host_times_object(result));
	put(object, "counts", counts_object(report));
	put(object, "settings", settings_object(report));
	return object;
}

bool
live_report_json(FILE *out, const struct live_report *report)
{
	json_t *object = result_object(report);
	bool written = json_dumpf(object, out, JSON_INDENT(2)) == 0 && fputc('\n', out) != EOF;

	json_decref(object);
	return written;
}

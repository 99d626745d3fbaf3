/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same as one JSON object; sizes are bytes, times are nanoseconds of the host's monotonic clock.
 */
#include <jansson.h>
#include <stdlib.h>

#include "tools/engine/engine.h"
#include "tools/live/report.h"
#include "tools/report/report.h"
#include "tools/report/values.h"

static json_t *
settings_object(const struct live_report *report)
{
	const struct live_options *options = report->options;
	const struct live_result *result = report->result;
	bool real = options->backend != NULL;
	json_t *object = json_object();

	report_put(object, "trace", json_string(report->path));
	report_put(object, "format", json_string(report->program->format));
	report_put(object, "device", json_integer(report->program->device));
	report_put(object, "backend", real ? json_string(result->backend) : json_null());
	report_put(object, "device_name", real ? json_string(result->device) : json_null());
	report_put(object, "device_total", report_number(result->total));
	report_put(object, "device_free", report_number(result->free));
	report_put(object, "budget", options->budget > 0 ? report_number(options->budget) : json_null());
	report_put(object, "scale", report_number(options->scale));
	report_put(object, "threads", json_integer(options->threads));
	report_put(object, "repeat", json_integer(options->repeat));
	report_put(object, "complete", json_string(replay_complete_names[options->complete]));
	return object;
}

static json_t *
times_object(const struct times *times)
{
	json_t *object = json_object();

	report_put(object, "count", report_number(times->count));
	report_put(object, "p50", report_number(times_at(times, 500)));
	report_put(object, "p99", report_number(times_at(times, 990)));
	report_put(object, "longest", report_number(times->max_ns));
	return object;
}

static json_t *
host_times_object(const struct live_result *result)
{
	json_t *object = json_object();

	report_put(object, "alloc", times_object(&result->alloc_times));
	report_put(object, "free", times_object(&result->free_times));
	report_put(object, "synchronize", times_object(&result->sync_times));
	return object;
}

static json_t *
counts_object(const struct live_report *report)
{
	const struct program_counts *counts = &report->program->counts;
	const struct live_result *result = report->result;
	json_t *object = json_object();

	report_put(object, "events", report_number(counts->events));
	report_put(object, "steps", report_number(result->steps));
	report_put(object, "allocs", report_number(result->allocs));
	report_put(object, "frees", report_number(result->frees));
	report_put(object, "uses", report_number(result->uses));
	report_put(object, "records", report_number(result->records));
	report_put(object, "waits", report_number(result->waits));
	report_put(object, "synchronisations", report_number(result->synchronisations));
	report_put(object, "refused", report_number(result->refused));
	report_put(object, "misuses", report_number(result->misuses));
	report_put(object, "damaged", report_number(result->damaged));
	report_put(object, "unknown_frees", report_number(counts->unknown_frees));
	report_put(object, "unknown_uses", report_number(counts->unknown_uses));
	report_put(object, "unknown_events", report_number(counts->unknown_markers));
	report_put(object, "overwritten", report_number(counts->overwritten));
	report_put(object, "ignored", report_number(counts->ignored));
	report_put(object, "start_blocks", report_number(counts->start_blocks));
	report_put(object, "truncated", json_boolean(report->program->truncated));
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
	report_put(object, "status", json_string(soma_status_name(refusal->status)));
	report_put(object, "event", report_event(refusal->event));
	report_put(object, "requested", report_number(refusal->requested));
	report_put(object, "current", report_number(refusal->current));
	report_put(object, "remaining", report_number(refusal->remaining));
	report_put(object, "limit", report_number(refusal->limit));
	report_put(object, "text", json_string(clean));
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
	report_put(object, "what", json_string(difference->what));
	report_put(object, "at_end", json_boolean(difference->at_end));
	report_put(object, "event", difference->at_end ? json_null() : report_event(difference->event));
	report_put(object, "got", report_number(difference->got));
	report_put(object, "expected", report_number(difference->expected));
	return object;
}

static json_t *
figure_object(const struct soma_twin_figure *figure)
{
	json_t *object = json_object();

	report_put(object, "differences", report_number(figure->differences));
	report_put(object, "largest", report_number(figure->largest));
	report_put(object, "first", figure->first > 0 ? report_number(figure->first) : json_null());
	report_put(object, "model", figure->first > 0 ? report_number(figure->model) : json_null());
	report_put(object, "driver", figure->first > 0 ? report_number(figure->driver) : json_null());
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
	report_put(object, "at_end", json_boolean(divergence->at_end));
	report_put(object, "event", divergence->at_end ? json_null() : report_event(divergence->event));
	report_put(object, "highest", json_boolean(high));
	report_put(object, "model", report_number(what->model));
	report_put(object, "driver", report_number(what->driver));
	report_put(object, "comparison", report_number(what->comparison));
	report_put(object, "operation", report_number(what->operation));
	report_put(object, "text", json_string(divergence->text));
	report_put(object, "trace", json_string(divergence->trace));
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
	report_put(object, "compared", report_number(twin->report.compared));
	report_put(object, "skipped", report_number(twin->report.skipped));
	report_put(object, "disturbed", report_number(twin->report.disturbed));
	report_put(object, "operations", report_number(twin->report.operations));
	report_put(object, "used_unit", report_number(report->options->twin_used_unit));
	report_put(object, "reserved_tolerance", report_number(report->options->twin_tolerance));
	report_put(object, "used", figure_object(&twin->report.used));
	report_put(object, "used_high", figure_object(&twin->report.used_high));
	report_put(object, "reserved", figure_object(&twin->report.reserved));
	report_put(object, "reserved_high", figure_object(&twin->report.reserved_high));
	report_put(object, "used_divergence", divergence_object(&twin->used));
	report_put(object, "reserved_divergence", divergence_object(&twin->reserved));
	return object;
}

static json_t *
result_object(const struct live_report *report)
{
	const struct live_result *result = report->result;
	json_t *object = json_object();

	report_put(object, "peak_live", report_number(result->peak_live));
	report_put(object, "peak_outstanding", report_number(result->peak_outstanding));
	report_put(object, "model_peak_live",
		   result->compared_on_the_way ? report_number(result->model_peak) : json_null());
	report_put(object, "live_bytes_at_end", report_number(result->end_live_bytes));
	report_put(object, "live_blocks_at_end", report_number(result->end_live_blocks));
	report_put(object, "compared", report_number(result->compared));
	report_put(object, "difference", difference_object(&result->difference));
	report_put(object, "twin", twin_object(report));
	report_put(object, "refusal", refusal_object(&result->refusal));
	report_put(object, "guard_reports",
		   result->guarded ? report_number(result->guard_reports) : json_null());
	report_put(object, "elapsed_ns", report_number(result->wall_ns));
	report_put(object, "host_times_ns", host_times_object(result));
	report_put(object, "counts", counts_object(report));
	report_put(object, "settings", settings_object(report));
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the trace into a program, runs it, reports.
 */
#include "tools/load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/backends.h"
#include "tools/live/report.h"
#include "tools/report/report.h"

bool
load_is_wanted(const struct load_values *values)
{
	return values->backend != NULL || values->repeat != 1 || values->threads != 1;
}

int
load_check(const struct command *command, const struct load_values *values)
{
	const struct {
		const char *name;
		int32_t value, most;
	} counts[] = { { "scale", values->scale, INT32_MAX },
		       { "repeat", values->repeat, INT32_MAX },
		       { "threads", values->threads, LIVE_THREADS_MAX } };

	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
		if (counts[i].value < 1 || counts[i].value > counts[i].most)
			return usage_error(command,
					   "--%s: expected a number from 1 to %" PRId32 ", got %" PRId32,
					   counts[i].name, counts[i].most, counts[i].value);
	if (values->backend == NULL && values->budget > 0)
		return usage_error(command, "--budget needs a --backend to allocate from");
	if (values->backend == NULL && values->backend_path != NULL)
		return usage_error(command, "--backend-path says where a --backend is, and there is none");
	if (!values->twin &&
	    (values->twin_tolerance > 0 || values->twin_used_unit != 1 || values->twin_trace != NULL))
		return usage_error(command,
				   "--twin-tolerance, --twin-used-unit and --twin-trace go with --twin");
	if (values->twin && values->backend == NULL)
		return usage_error(command, "--twin needs a --backend with a pool of its own, such as async");
	if (values->twin && (values->repeat != 1 || values->threads != 1))
		return usage_error(command, "--twin goes with neither --repeat nor --threads");
	if (values->twin_used_unit < 1)
		return usage_error(command,
				   "--twin-used-unit: expected a number from 1 to %" PRId32 ", got %" PRId32,
				   INT32_MAX, values->twin_used_unit);
	if (!load_is_wanted(values) && values->scale != 1)
		return usage_error(command, "--scale goes with --backend, --repeat or --threads");
	return -1;
}

static int
input_error(const char *path, const char *text)
{
	fprintf(stderr, "soma replay: %s%s%s\n", path, path[0] != '\0' ? ": " : "", text);
	return EXIT_INPUT;
}

static int
read_error(const char *path, enum soma_status status, const struct trace_error *error)
{
	/* The readers' messages begin with the file's name. */
	if (status == SOMA_STATUS_PARSE || status == SOMA_STATUS_IO)
		return input_error("", error->text);
	input_error(path, error->text);
	return status == SOMA_STATUS_INVALID_VALUE ? EXIT_USAGE : EXIT_INPUT;
}

/* It could not be opened: the trace has nothing to do with that. */
static bool
is_about_backend(enum soma_status status)
{
	return status == SOMA_STATUS_INVALID_VALUE || status == SOMA_STATUS_NOT_FOUND ||
	       status == SOMA_STATUS_ABI;
}

static int
backend_error(const struct load_values *values, enum soma_status status, const char *text)
{
	char *shown = report_clean(values->backend);

	fprintf(stderr, "soma replay: --backend %s: %s\n", shown, text);
	free(shown);
	if (status == SOMA_STATUS_NOT_FOUND)
		backends_suggest(values->backend_path, values->backend);
	return EXIT_INPUT;
}

static int
verdict(const struct load_values *values, const struct live_report *report)
{
	const struct program *program = report->program;

	if (program->truncated && !(values->partial && values->quiet))
		fprintf(stderr, "soma replay: warning: %s\n", program->truncation.text);
	if (program->truncated && !values->partial)
		return EXIT_BAD_NEWS;
	return live_is_bad(report->result) ? EXIT_BAD_NEWS : EXIT_FINE;
}

/* The one of USED before the one of RESERVED; an empty trace where there is none. */
static bool
write_twin_trace(const char *path, const struct live_twin *twin)
{
	const char *text = twin->used.what.happened ? twin->used.trace : twin->reserved.trace;
	FILE *file = fopen(path, "w");

	if (file == NULL)
		return false;
	bool written = fputs(text != NULL ? text : LIVE_TRACE_HEADER, file) != EOF;
	return fclose(file) == 0 && written;
}

static int
write_reports(const struct load_values *values, const struct live_report *report)
{
	if (values->twin_trace != NULL && !write_twin_trace(values->twin_trace, &report->result->twin)) {
		const char *problem = strerror(errno);
		char *shown = report_clean(values->twin_trace);
		int end = EXIT_INPUT;

		fprintf(stderr, "soma replay: %s: cannot write: %s\n", shown, problem);
		free(shown);
		return end;
	}
	if (values->json && !live_report_json(stdout, report))
		return input_error("", "the report could not be written");
	if (!values->json && !values->quiet)
		live_report_text(stdout, report);
	return verdict(values, report);
}

static int
run_program(const struct load_values *values, const char *path, const struct program *program)
{
	const struct live_options options = {
		.backend = values->backend,
		.search = values->backend_path,
		.budget = values->budget,
		.scale = (uint64_t)values->scale,
		.threads = (unsigned)values->threads,
		.repeat = (unsigned)values->repeat,
		.complete = values->complete,
		/* A model on its own is as in a plain replay; one beside a backend has the rules of stream order. */
		.policy = values->policy == NULL && values->backend == NULL ? program->auto_policy
									   : values->policy,
		.release_threshold = values->release_threshold,
		.twin = values->twin,
		.twin_used_unit = (uint32_t)values->twin_used_unit,
		.twin_tolerance = values->twin_tolerance,
	};
	struct live_result result;
	struct trace_error error;
	const struct live_report report = { path, program, &options, &result };

	enum soma_status status = live_run(program, &options, &result, &error);
	if (status != SOMA_STATUS_OK && values->backend != NULL && is_about_backend(status))
		return backend_error(values, status, error.text);
	if (status != SOMA_STATUS_OK)
		return input_error(path, error.text);
	int end = write_reports(values, &report);
	live_result_fini(&result);
	return end;
}

int
load_run(const struct load_values *values, const char *path, struct trace_reader *reader)
{
	struct program program;
	struct trace_error error;
	enum soma_status status =
		program_read(&program, reader, values->device, (uint64_t)values->scale, &error);

	if (status != SOMA_STATUS_OK)
		return read_error(path, status, &error);
	int end = run_program(values, path, &program);
	program_fini(&program);
	return end;
}

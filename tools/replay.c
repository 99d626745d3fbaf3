/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma replay`: options, the trace, the engine, the reports, the exit status.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/command.h"
#include "tools/engine/engine.h"
#include "tools/load.h"
#include "tools/progress.h"
#include "tools/report/picture.h"
#include "tools/trace/trace.h"

struct replay_values {
	unsigned policy; /* index in replay_policy_names */
	unsigned complete;
	unsigned axis; /* index in replay_axis_names */
	uint64_t capacity;
	uint64_t release_threshold;
	int32_t device;
	unsigned upper;      /* index in upper_names */
	unsigned expandable; /* index in replay_expandable_names */
	bool json, quiet, partial;
	const char *plot;
	const char *backend, *backend_path;
	uint64_t budget;
	int32_t scale, repeat, threads;
	bool twin;
	uint64_t twin_tolerance;
	int32_t twin_used_unit;
	const char *twin_trace;
};

/* "auto" first; the presets as lib/model/policy.c has them (a test compares). */
const char *const replay_policy_names[] = { "auto", "strict", "cuda", "pytorch", "soma", NULL };

const char *const upper_names[] = { "exclusive", "inclusive", NULL };

/* As enum replay_expandable has them. */
const char *const replay_expandable_names[] = { "auto", "on", "off", NULL };

const char *const replay_axis_names[] = { "time", "events", NULL };

const char *const replay_paragraphs[] = {
	"Replays the trace through a model of a memory allocator, and reports how much memory it takes: the "
	"peak of live bytes and of reserved bytes, where the difference goes at that moment, who holds the "
	"bytes, and whether it fits in a capacity.",
	"The trace may be a PyTorch memory snapshot (pickle), an RMM log (CSV), soma's own format (CSV), an "
	"Umpire replay log (JSON lines), a Kineto trace (JSON), an Nsight Systems export (SQLite), an "
	"STAlloc "
	"trace (text) or placement instances (CSV), "
	"gzipped or not; which one it is, is found by its content. The name - stands for standard input. A "
	"PyTorch snapshot that begins in mid-run "
	"is rewound: what was there before is rebuilt from what was there at the end.",
	"A trace may record that a request failed, as PyTorch's out-of-memory events do. With --capacity such a request "
	"is made here, too, and freed at once; where there is no room for it memory has run out.",
	"Where the trace records addresses and the policy is the recorded allocator's, every address is "
	"compared with the model's. The memory of one device is replayed.",
	"With --backend every allocation of the trace is really made, in the order of real streams with the "
	"trace's events and waits, and the first and the last byte of every block are written. A model runs beside "
	"it, and at every peak and at the end the bytes that the ledger, the budget and a guard count are "
	"compared with the model's. A trace that needs more memory than the machine has is refused "
	"before it starts. With --repeat and --threads it is a load: what is compared then is the end. "
	"Without --backend each thread has a model.",
	NULL,
};

#define FIELD(name) offsetof(struct replay_values, name)

const struct option_row replay_options[] = {
	{ "policy", 'p', OPTION_CHOICE, FIELD(policy), "auto|strict|cuda|pytorch|soma", replay_policy_names,
	  "Where blocks go, and when a freed one is used again. strict: only once its stream has executed "
	  "the "
	  "free; cuda: as stream-ordered pools do; pytorch: as the caching allocator does; soma: as cuda, on "
	  "pages "
	  "that are mapped where blocks are and moved when memory runs short. The default, auto, "
	  "is pytorch for a trace that records that allocator's segments and for those of PyTorch's profiler (Kineto), "
	  "else cuda. With --backend it is cuda." },
	{ "capacity", 'c', OPTION_SIZE, FIELD(capacity), "SIZE", NULL,
	  "The most that may be reserved, such as 24G. The default, 0, is no limit." },
	{ "release-threshold", 'r', OPTION_SIZE, FIELD(release_threshold), "SIZE", NULL,
	  "A synchronisation releases free memory down to this. The default is to keep everything." },
	{ "complete", 'k', OPTION_CHOICE, FIELD(complete), "free|sync|never", replay_complete_names,
	  "When a stream has executed a free, which a trace does not say. free (the default): as soon as the "
	  "trace has completed it; sync: at the synchronisations that the trace records; never: not at "
	  "all, which does for up to a million deferred frees." },
	{ "device", 'd', OPTION_NUMBER, FIELD(device), "N", NULL,
	  "The device to replay. The default is the one with the most allocations." },
	{ "expandable", 'e', OPTION_CHOICE, FIELD(expandable), "auto|on|off", replay_expandable_names,
	  "Whether policy pytorch has expandable segments. The default, auto, is as the trace has them." },
	{ "upper", 'u', OPTION_CHOICE, FIELD(upper), "exclusive|inclusive", upper_names,
	  "Of placement instances: whether a block is gone at the moment upper (exclusive, the default) or "
	  "lives through it." },
	{ "json", 'j', OPTION_FLAG, FIELD(json), NULL, NULL,
	  "Print one JSON object instead of the report; sizes in it are bytes." },
	{ "plot", 'o', OPTION_TEXT, FIELD(plot), "FILE.svg|FILE.png|FILE.html", NULL,
	  "Draw live and reserved memory over the trace, stacked by the largest holders; soma plot draws more "
	  "than that." },
	{ "axis", 'x', OPTION_CHOICE, FIELD(axis), "time|events", replay_axis_names,
	  "What the picture's horizontal axis counts: time (the default, where the trace has times) or "
	  "events." },
	{ "quiet", 'q', OPTION_FLAG, FIELD(quiet), NULL, NULL,
	  "Print no text and no progress: the exit status is the answer. (--json still prints its object, "
	  "and "
	  "that a trace is truncated is said unless it is taken as --partial.)" },
	{ "partial", 'P', OPTION_FLAG, FIELD(partial), NULL, NULL,
	  "Take a truncated trace as it is: without this it gives exit status 1." },
	{ "backend", 'b', OPTION_TEXT, FIELD(backend), "NAME", NULL,
	  "Allocate from this backend, such as host, guard:host or auto (soma info lists them). A guard's "
	  "reports go to standard error, and are counted." },
	{ "budget", 'B', OPTION_SIZE, FIELD(budget), "SIZE", NULL,
	  "With --backend: at most so many bytes at once. The first request that is refused is reported with "
	  "what was tried and who holds most." },
	{ "backend-path", 0, OPTION_TEXT, FIELD(backend_path), "FOLDERS", NULL,
	  "Folders to look for backends in first, with colons between them." },
	{ "scale", 's', OPTION_NUMBER, FIELD(scale), "N", NULL,
	  "Divide all sizes by N; what becomes less than 1 byte is 1." },
	{ "repeat", 'n', OPTION_NUMBER, FIELD(repeat), "N", NULL,
	  "Replay the trace N times, one after the other. The default is 1." },
	{ "threads", 't', OPTION_NUMBER, FIELD(threads), "N", NULL,
	  "Replay it in N threads at once, each with streams of its own over one stack. The default is 1." },
	{ "twin", 0, OPTION_FLAG, FIELD(twin), NULL, NULL,
	  "With --backend: replay through a pool whose model is compared with the backend's own pool (async has one) "
	  "after every synchronisation: the bytes in use and reserved, now and at the highest. A free "
	  "that the trace completes is followed by a synchronisation (--complete=free). Nothing is written into blocks." },
	{ "twin-tolerance", 0, OPTION_SIZE, FIELD(twin_tolerance), "SIZE", NULL,
	  "By so much the reserved bytes may differ, such as 32M: where a driver places blocks is its own. "
	  "The default is 0; what was the largest difference is always said." },
	{ "twin-used-unit", 0, OPTION_NUMBER, FIELD(twin_used_unit), "N", NULL,
	  "The driver counts bytes in use rounded up to a multiple of N for each block. The default is 1." },
	{ "twin-trace", 0, OPTION_TEXT, FIELD(twin_trace), "FILE", NULL,
	  "Write the operations that led to the first divergence to this file, as a trace." },
	{ .name = NULL },
};

static struct replay_options
options_of(const struct replay_values *values, struct progress *progress)
{
	return (struct replay_options){
		.policy = values->policy > 0 ? soma_policy_preset(replay_policy_names[values->policy]) : NULL,
		.capacity = values->capacity,
		.release_threshold = values->release_threshold,
		.complete = (enum replay_complete)values->complete,
		.expandable = (enum replay_expandable)values->expandable,
		.device = values->device,
		.by_event = values->axis == 1,
		.progress = progress_show,
		.context = progress,
	};
}

static int
input_error(const char *text)
{
	fprintf(stderr, "soma replay: %s\n", text);
	return EXIT_INPUT;
}

static int
picture_error(const char *path, const char *problem)
{
	fprintf(stderr, "soma replay: %s: cannot write: %s\n", path, problem);
	return EXIT_INPUT;
}

static int
engine_error(const char *path, enum soma_status status, const struct trace_error *error)
{
	/* The readers' messages begin with the file's name. */
	if (status == SOMA_STATUS_PARSE || status == SOMA_STATUS_IO)
		return input_error(error->text);
	fprintf(stderr, "soma replay: %s: %s\n", path, error->text);
	return status == SOMA_STATUS_INVALID_VALUE ? EXIT_USAGE : EXIT_INPUT;
}

static int
write_picture(const struct replay_values *values, const struct report *report, const struct scene *scene)
{
	const struct picture picture = { .report = report, .scene = scene };
	const char *problem = picture_write(values->plot, &picture);
	char *shown = report_clean(values->plot);
	int status = EXIT_FINE;

	if (problem != NULL)
		status = picture_error(shown, problem);
	else if (!values->json && !values->quiet)
		printf("Picture: %s\n", shown);
	free(shown);
	return status;
}

static int
write_reports(const struct replay_values *values, const struct report *report, const struct scene *scene)
{
	if (values->json && !report_json(stdout, report))
		return input_error("the report could not be written");
	if (!values->json && !values->quiet)
		report_text(stdout, report);
	return values->plot != NULL ? write_picture(values, report, scene) : EXIT_FINE;
}

static int
verdict(const struct replay_values *values, const struct replay_result *result)
{
	const struct replay_parity *parity = &result->parity;

	if (result->truncated && !(values->partial && values->quiet))
		fprintf(stderr, "soma replay: warning: %s\n", result->truncation.text);
	if (result->truncated && !values->partial)
		return EXIT_BAD_NEWS;
	if (result->oom.happened)
		return EXIT_BAD_NEWS;
	if (!parity->applies || parity->disturbed)
		return EXIT_FINE;
	if (parity->reproduced < parity->recorded || parity->segments_reproduced < parity->segments_recorded)
		return EXIT_BAD_NEWS;
	return EXIT_FINE;
}

static enum soma_status
replay(const struct replay_values *values, struct trace_reader *reader, const struct replay_options *options,
       struct replay_result *result, struct scene *scene, struct trace_error *error)
{
	enum picture_format format = values->plot != NULL ? picture_format_of(values->plot) : PICTURE_NONE;

	if (format == PICTURE_NONE)
		return replay_run(reader, options, result, error);
	picture_wish(scene, format, PICTURE_TIMELINE, NULL);
	return scene_take(scene, reader, *options, format == PICTURE_HTML, result, error);
}

static int
replay_reader(const struct replay_values *values, const char *path, struct trace_reader *reader)
{
	struct progress progress;
	struct replay_options options = options_of(values, &progress);
	struct scene scene = { .reader = NULL };
	struct replay_result result;
	struct trace_error error;
	enum soma_status status;
	int end;

	progress_start(&progress, "replaying", !values->quiet);
	status = replay(values, reader, &options, &result, &scene, &error);
	progress_end(&progress);
	if (status == SOMA_STATUS_OK) {
		end = write_reports(values, &(struct report){ path, reader, &options, &result }, &scene);
		if (end == EXIT_FINE)
			end = verdict(values, &result);
		replay_result_fini(&result);
	} else {
		end = engine_error(path, status, &error);
	}
	scene_fini(&scene);
	return end;
}

/* No model reserves more than there are addresses, and no report has to show more. */
static int
check_sizes(const struct command *command, struct replay_values *values)
{
	if (values->release_threshold > SOMA_MODEL_ADDRESS_MAX)
		values->release_threshold = UINT64_MAX;
	if (values->capacity <= SOMA_MODEL_ADDRESS_MAX)
		return -1;
	return usage_error(command, "--capacity: expected at most %" PRIu64 " (256 TiB), got %" PRIu64,
			   SOMA_MODEL_ADDRESS_MAX, values->capacity);
}

static int
check_plot(const struct command *command, const char *plot, const char *trace)
{
	if (picture_format_of(plot) == PICTURE_NONE)
		return usage_error(command,
				   "--plot: expected a file name that ends in .svg, .png or .html, got '%s'", plot);
	if (answer_is_same_file(plot, trace))
		return usage_error(command, "--plot: '%s' is the trace itself", plot);
	return -1;
}

static struct load_values
load_of(const struct replay_values *values)
{
	return (struct load_values){
		.backend = values->backend,
		.backend_path = values->backend_path,
		.budget = values->budget,
		.scale = values->scale,
		.repeat = values->repeat,
		.threads = values->threads,
		.twin = values->twin,
		.twin_tolerance = values->twin_tolerance,
		.twin_used_unit = values->twin_used_unit,
		.twin_trace = values->twin_trace,
		.policy = values->policy > 0 ? soma_policy_preset(replay_policy_names[values->policy]) : NULL,
		.release_threshold = values->release_threshold,
		.complete = (enum replay_complete)values->complete,
		.device = values->device,
		.json = values->json,
		.quiet = values->quiet,
		.partial = values->partial,
	};
}

/* Of the options that ask for a replay with memory, or for a load. */
static int
check_load(const struct command *command, const struct replay_values *values)
{
	const struct load_values load = load_of(values);
	int end = load_check(command, &load);

	if (end >= 0 || !load_is_wanted(&load))
		return end;
	if (values->capacity > 0)
		return usage_error(command, "--capacity is the model's alone; a backend takes --budget");
	if (values->plot != NULL)
		return usage_error(command, "--plot draws what the model alone does");
	return -1;
}

static int
replay_any(const struct replay_values *values, const char *path, struct trace_reader *reader)
{
	const struct load_values load = load_of(values);

	return load_is_wanted(&load) ? load_run(&load, path, reader) : replay_reader(values, path, reader);
}

int
command_replay(const struct command *command, int argc, char **argv)
{
	struct replay_values values = { .release_threshold = UINT64_MAX,
					.device = REPLAY_DEVICE_ANY,
					.scale = 1,
					.repeat = 1,
					.threads = 1,
					.twin_used_unit = 1 };
	struct trace_reader *reader;
	char *shown;
	int first, end = options_parse(command, argc, argv, &values, &first);

	if (end < 0)
		end = check_sizes(command, &values);
	if (end < 0)
		end = check_load(command, &values);
	if (end >= 0)
		return end;
	if (argc - first != 1)
		return argc == first
			       ? usage_error(command, "expected a trace")
			       : usage_error(command, "expected one trace, got '%s' too", argv[first + 1]);
	if (values.plot != NULL)
		end = check_plot(command, values.plot, argv[first]);
	if (end < 0 && values.twin_trace != NULL && strcmp(values.twin_trace, "-") == 0)
		end = usage_error(command,
				  "--twin-trace: expected a file, got '-': the report is on standard output");
	if (end < 0 && values.twin_trace != NULL && answer_is_same_file(values.twin_trace, argv[first]))
		end = usage_error(command, "--twin-trace: '%s' is the trace itself", values.twin_trace);
	if (end >= 0)
		return end;
	reader = answer_open_upper(command, argv[first], values.upper);
	if (reader == NULL)
		return EXIT_INPUT;
	shown = report_clean(argv[first]);
	end = replay_any(&values, shown, reader);
	free(shown);
	trace_close(reader);
	return end;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma plot`: a replay as a picture.  What is drawn is tools/report's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/report/picture.h"

struct plot_values {
	const char *output;
	unsigned kind; /* enum picture_kind */
	unsigned by;   /* enum scene_by */
	const char *when;
	unsigned policy;
	uint64_t capacity;
	int32_t device;
	unsigned expandable, axis, upper;
	bool quiet, partial;
};

const char *const plot_paragraphs[] = {
	"Replays the trace, as soma replay does, and draws what its memory did: as an SVG or PNG picture, or "
	"as a page for a browser. The page has all kinds of picture in it, needs nothing but itself, and can be "
	"zoomed, searched for holders, and asked what each block is.",
	"The kinds are: timeline, live and reserved bytes over time, stacked by who holds them; memory, every "
	"block as a rectangle of its addresses by its lifetime; map, the segments and the blocks in them at a "
	"moment, a bar for each segment; sizes, a histogram of the sizes of all blocks.",
	"Of more blocks than a picture can hold it shows those with the most bytes times time, and says so.",
	NULL,
};

#define FIELD(name) offsetof(struct plot_values, name)

const struct option_row plot_options[] = {
	{ "output", 'o', OPTION_TEXT, FIELD(output), "FILE.svg|FILE.png|FILE.html", NULL, "The file to write." },
	{ "kind", 'k', OPTION_CHOICE, FIELD(kind), "timeline|map|memory|sizes", picture_kind_names,
	  "What to draw; of a page, what it shows first. The default is timeline." },
	{ "by", 'b', OPTION_CHOICE, FIELD(by), "holder|stream|pool", scene_by_names,
	  "Whose bytes are told apart by colour: the frame or tag that made a block (the default), the stream "
	  "that it was made on, or the pool that it is in, private or by size. The largest at the peak have a "
	  "colour of their own." },
	{ "at", 'a', OPTION_TEXT, FIELD(when), "peak|end|oom|EVENT", NULL,
	  "The moment of a map, which other kinds mark: the peak of live bytes (the default), the end, the first "
	  "allocation that found no room (in the replay, or when the trace was recorded), or after the event "
	  "of that number." },
	{ "policy", 'p', OPTION_CHOICE, FIELD(policy), "auto|strict|cuda|pytorch|soma", replay_policy_names,
	  "Where blocks go, as for soma replay." },
	{ "capacity", 'c', OPTION_SIZE, FIELD(capacity), "SIZE", NULL,
	  "The most that may be reserved, such as 24G. The default, 0, is no limit." },
	{ "device", 'd', OPTION_NUMBER, FIELD(device), "N", NULL,
	  "The device to draw. The default is the one with the most allocations." },
	{ "expandable", 'e', OPTION_CHOICE, FIELD(expandable), "auto|on|off", replay_expandable_names,
	  "Whether policy pytorch has expandable segments. The default, auto, is as the trace has them." },
	{ "axis", 'x', OPTION_CHOICE, FIELD(axis), "time|events", replay_axis_names,
	  "What the horizontal axis counts: time (the default, where the trace has times) or events." },
	{ "upper", 'u', OPTION_CHOICE, FIELD(upper), "exclusive|inclusive", upper_names,
	  "Of placement instances: whether a block is gone at the moment upper (exclusive, the default) or "
	  "lives through it." },
	{ "quiet", 'q', OPTION_FLAG, FIELD(quiet), NULL, NULL, "Print nothing but errors." },
	{ "partial", 'P', OPTION_FLAG, FIELD(partial), NULL, NULL,
	  "Take a truncated trace as it is: without this it gives exit status 1." },
	{ .name = NULL },
};

static int
plot_error(const char *path, const char *problem)
{
	if (path != NULL)
		fprintf(stderr, "soma plot: %s: %s\n", path, problem);
	else
		fprintf(stderr, "soma plot: %s\n", problem);
	return EXIT_INPUT;
}

static int
cannot_write(const char *path, const char *problem)
{
	fprintf(stderr, "soma plot: %s: cannot write: %s\n", path, problem);
	return EXIT_INPUT;
}

/* *event is set for SCENE_EVENT.  -1, or the exit status. */
static int
read_when(const struct command *command, const char *text, enum scene_when *when, uint64_t *event)
{
	char *rest;

	*when = SCENE_PEAK;
	if (text == NULL || strcmp(text, "peak") == 0)
		return -1;
	*when = SCENE_END;
	if (strcmp(text, "end") == 0)
		return -1;
	*when = SCENE_OOM;
	if (strcmp(text, "oom") == 0)
		return -1;
	*when = SCENE_EVENT;
	*event = strtoull(text, &rest, 10);
	if (text[0] >= '0' && text[0] <= '9' && *rest == '\0' && *event < REPLAY_AT_START)
		return -1;
	return usage_error(command, "--at: expected peak, end, oom or the number of an event, got '%s'", text);
}

/* What is asked for and was not met. */
static int
no_moment(const struct command *command, const struct plot_values *values, enum scene_when when)
{
	if (when == SCENE_OOM)
		return usage_error(command, "--at oom: nothing ran out of memory on this device; under a --capacity it may");
	return usage_error(command, "--at: the trace has no event %s of this device", values->when);
}

static int
write_picture(const struct plot_values *values, const struct picture *picture)
{
	const char *problem = picture_write(values->output, picture);
	char *shown = report_clean(values->output);
	int status = EXIT_FINE;

	if (problem != NULL)
		status = cannot_write(shown, problem);
	else if (!values->quiet)
		printf("Picture: %s\n", shown);
	free(shown);
	return status;
}

static int
verdict(const struct plot_values *values, const struct replay_result *result)
{
	if (result->truncated && !(values->partial && values->quiet))
		fprintf(stderr, "soma plot: warning: %s\n", result->truncation.text);
	return result->truncated && !values->partial ? EXIT_BAD_NEWS : EXIT_FINE;
}

struct plotting {
	const struct command *command;
	const struct plot_values *values;
	const char *path; /* clean */
	enum scene_when when;
	uint64_t event;
};

static int
draw(const struct plotting *plotting, const struct scene *scene, const struct report *report)
{
	const struct plot_values *values = plotting->values;
	const struct picture picture = {
		.report = report,
		.scene = scene,
		.kind = (enum picture_kind)values->kind,
		.by = (enum scene_by)values->by,
		.when = plotting->when,
	};
	int status;

	if (!scene->maps[plotting->when].taken)
		return no_moment(plotting->command, values, plotting->when);
	status = write_picture(values, &picture);
	return status == EXIT_FINE ? verdict(values, report->result) : status;
}

static int
engine_error(const char *path, enum soma_status status, const struct trace_error *error)
{
	/* The readers' messages begin with the file's name. */
	if (status == SOMA_STATUS_PARSE || status == SOMA_STATUS_IO)
		return plot_error(NULL, error->text);
	plot_error(path, error->text);
	return status == SOMA_STATUS_INVALID_VALUE ? EXIT_USAGE : EXIT_INPUT;
}

static int
plot_reader(const struct plotting *plotting, struct trace_reader *reader)
{
	const struct plot_values *values = plotting->values;
	enum picture_format format = picture_format_of(values->output);
	struct progress progress;
	struct replay_options options = {
		.policy = values->policy > 0 ? soma_policy_preset(replay_policy_names[values->policy]) : NULL,
		.capacity = values->capacity,
		.release_threshold = UINT64_MAX,
		.expandable = (enum replay_expandable)values->expandable,
		.device = values->device,
		.by_event = values->axis == 1,
		.progress = progress_show,
		.context = &progress,
	};
	struct scene scene = { .reader = NULL };
	struct replay_result result;
	struct trace_error error;
	enum soma_status status;
	int end;

	picture_wish(&scene, format, (enum picture_kind)values->kind,
		     plotting->when == SCENE_EVENT ? &plotting->event : NULL);
	progress_start(&progress, "replaying", !values->quiet);
	status = scene_take(&scene, reader, options, format == PICTURE_HTML || values->by != SCENE_HOLDER, &result,
			    &error);
	progress_end(&progress);
	if (status == SOMA_STATUS_OK) {
		end = draw(plotting, &scene, &(struct report){ plotting->path, reader, &options, &result });
		replay_result_fini(&result);
	} else {
		end = engine_error(plotting->path, status, &error);
	}
	scene_fini(&scene);
	return end;
}

static int
check(const struct command *command, const struct plot_values *values, int operands, char **argv)
{
	if (operands != 1)
		return operands == 0 ? usage_error(command, "expected a trace")
				     : usage_error(command, "expected one trace, got '%s' too", argv[1]);
	if (values->output == NULL)
		return usage_error(command, "expected --output, the file to write");
	if (picture_format_of(values->output) == PICTURE_NONE)
		return usage_error(command,
				   "--output: expected a file name that ends in .svg, .png or .html, got '%s'",
				   values->output);
	if (answer_is_same_file(values->output, argv[0]))
		return usage_error(command, "--output: '%s' is the trace itself", values->output);
	if (values->capacity > SOMA_MODEL_ADDRESS_MAX)
		return usage_error(command, "--capacity: expected at most %" PRIu64 " (256 TiB), got %" PRIu64,
				   SOMA_MODEL_ADDRESS_MAX, values->capacity);
	return -1;
}

int
command_plot(const struct command *command, int argc, char **argv)
{
	struct plot_values values = { .device = REPLAY_DEVICE_ANY };
	struct plotting plotting = { .command = command, .values = &values };
	struct trace_reader *reader;
	char *shown;
	int first, end = options_parse(command, argc, argv, &values, &first);

	if (end < 0)
		end = check(command, &values, argc - first, argv + first);
	if (end < 0)
		end = read_when(command, values.when, &plotting.when, &plotting.event);
	if (end >= 0)
		return end;
	reader = answer_open_upper(command, argv[first], values.upper);
	if (reader == NULL)
		return EXIT_INPUT;
	shown = report_clean(argv[first]);
	plotting.path = shown;
	end = plot_reader(&plotting, reader);
	free(shown);
	trace_close(reader);
	return end;
}

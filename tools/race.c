/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma race`: memory that is used, freed or reused without an order between streams.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/engine/races.h"
#include "tools/engine/session.h"
#include "tools/report/report.h"

#define RACES_MAX 100000

struct race_values {
	int32_t limit, device;
	bool json;
};

const char *const race_paragraphs[] = {
	"Looks for operations on the same memory that nothing in the trace puts in order: a use that is not "
	"after the allocation, two accesses of which one writes, a free that is not after the uses, memory "
	"that another stream allocates before the free is over. Both operations are named, and the missing "
	"edge. The exit status is 1 when there are any.",
	"Order is what the trace tells: streams by themselves, events that were recorded and waited for, "
	"synchronisations by the host, completed frees, and the legacy default stream in traces that say which "
	"streams are blocking. A trace without uses and without any of these has nothing to judge. "
	"What a program did and the trace does not tell, this cannot see.",
	NULL,
};

const struct option_row race_options[] = {
	{ "limit", 'n', OPTION_NUMBER, offsetof(struct race_values, limit), "N", NULL,
	  "Show this many. The default is 20; 0 is all. (--json has up to 100000.)" },
	{ "device", 'd', OPTION_NUMBER, offsetof(struct race_values, device), "N", NULL,
	  "The device. The default is the one with the most allocations." },
	{ "json", 'j', OPTION_FLAG, offsetof(struct race_values, json), NULL, NULL,
	  "Print one JSON object instead of the report." },
	{ .name = NULL },
};

static void
side_text(const struct trace_reader *reader, const struct race_side *side, char *text, size_t size)
{
	char *detail = report_clean(trace_name_text(reader, side->detail));
	bool use = side->op == TRACE_USE && detail[0] != '\0';

	snprintf(text, size, "%s%s%s%s at event %" PRIu64 " on stream 0x%" PRIx64, trace_op_text(side->op),
		 use ? " (" : "", use ? detail : "", use ? ")" : "", side->event, side->stream);
	free(detail);
}

static void
edge_text(const struct race *race, char *text, size_t size)
{
	if (race->kind == RACE_USE_AFTER_FREE)
		snprintf(text, size, "the use must come before the free at event %" PRIu64, race->first.event);
	else
		snprintf(text, size,
			 "stream 0x%" PRIx64 " never waited for stream 0x%" PRIx64
			 " at or after event %" PRIu64 ", before event %" PRIu64,
			 race->second.stream, race->first.stream, race->first.event, race->second.event);
}

static void
print_race(const struct trace_reader *reader, const struct race *race)
{
	char *holder = answer_holder(reader, race->holder);
	char first[160], second[160], edge[200];

	side_text(reader, &race->first, first, sizeof first);
	side_text(reader, &race->second, second, sizeof second);
	edge_text(race, edge, sizeof edge);
	printf("%s: block 0x%" PRIx64 " of %s\n  %s\n  %s %s\n  missing: %s\n", race_text(race->kind), race->ptr,
	       holder, first, second, race_problem(race->kind), edge);
	free(holder);
}

static void
print_text(const struct trace_reader *reader, const struct races *races, size_t limit)
{
	size_t shown = limit == 0 || races->kept < limit ? races->kept : limit;

	for (size_t i = 0; i < shown; i++)
		print_race(reader, &races->at[i]);
	if (races->count > shown)
		printf("and %" PRIu64 " more\n", races->count - shown);
	if (races->unknown_events > 0)
		printf("%" PRIu64 " waits for events that were never recorded order nothing.\n",
		       races->unknown_events);
	if (!races->judged)
		printf("Nothing to judge: the trace tells of no uses, and of nothing that orders streams.\n");
	else if (races->count == 0)
		printf("No races among %" PRIu64 " uses and %" PRIu64 " records, waits and synchronisations.\n",
		       races->uses, races->edges);
	else
		printf("%" PRIu64 " races.\n", races->count);
}

static json_t *
side_object(const struct trace_reader *reader, const struct race_side *side)
{
	json_t *object = json_object();

	answer_put(object, "op", json_string(trace_op_text(side->op)));
	answer_put(object, "event", answer_number(side->event));
	answer_put(object, "stream", answer_address(side->stream));
	answer_put(object, "detail", answer_name(reader, side->detail));
	return object;
}

static json_t *
race_object(const struct trace_reader *reader, const struct race *race)
{
	json_t *object = json_object();
	char edge[200];

	edge_text(race, edge, sizeof edge);
	answer_put(object, "kind", json_string(race_text(race->kind)));
	answer_put(object, "ptr", answer_address(race->ptr));
	answer_put(object, "holder", answer_name(reader, race->holder));
	answer_put(object, "first", side_object(reader, &race->first));
	answer_put(object, "second", side_object(reader, &race->second));
	answer_put(object, "missing", json_string(edge));
	return object;
}

static json_t *
races_object(const char *path, const struct trace_reader *reader, const struct races *races, bool truncated)
{
	json_t *object = json_object(), *array = json_array();

	for (size_t i = 0; i < races->kept; i++)
		json_array_append_new(array, race_object(reader, &races->at[i]));
	answer_put(object, "trace", answer_text(path));
	answer_put(object, "truncated", json_boolean(truncated));
	answer_put(object, "judged", json_boolean(races->judged));
	answer_put(object, "uses", answer_number(races->uses));
	answer_put(object, "edges", answer_number(races->edges));
	answer_put(object, "unknown_events", answer_number(races->unknown_events));
	answer_put(object, "unknown_uses", answer_number(races->unknown_uses));
	answer_put(object, "count", answer_number(races->count));
	answer_put(object, "races", array);
	return object;
}

static int
show(const struct command *command, const struct race_values *values, const char *path,
     struct trace_reader *reader, int32_t device)
{
	struct trace_error error;
	struct races races;
	enum trace_result result = races_find(reader, device, RACES_MAX, &races, &error);
	int status = races.count > 0 || result == TRACE_TRUNCATED ? EXIT_BAD_NEWS : EXIT_FINE;

	if (result == TRACE_ERROR) {
		races_fini(&races);
		return answer_error(command, error.text);
	}
	if (values->json)
		status = answer_print(command, races_object(path, reader, &races, result == TRACE_TRUNCATED),
				      status);
	else
		print_text(reader, &races, (size_t)values->limit);
	races_fini(&races);
	return status;
}

static int
race_reader(const struct command *command, const struct race_values *values, const char *path,
	    struct trace_reader *reader)
{
	struct replay_options options = answer_options();
	struct replay_session *session;
	struct survey_device *device;
	struct trace_error error;
	enum soma_status status = replay_begin(reader, &options, &session, &error);
	int end;

	if (status == SOMA_STATUS_OK)
		status = session_device(session, values->device, &device, &error);
	if (status == SOMA_STATUS_OK && trace_rewind(reader, &error) != TRACE_OK)
		status = SOMA_STATUS_IO;
	if (status == SOMA_STATUS_OK) {
		answer_session_truncated(command, session);
		end = show(command, values, path, reader, device->device);
	} else {
		end = answer_engine_error(command, path, status, &error);
	}
	replay_end(session);
	return end;
}

int
command_race(const struct command *command, int argc, char **argv)
{
	struct race_values values = { .limit = 20, .device = REPLAY_DEVICE_ANY };
	struct trace_reader *reader;
	int first, status = options_parse(command, argc, argv, &values, &first);
	const char *path;

	if (status >= 0)
		return status;
	path = answer_operand(command, argc, argv, first, &status);
	if (path == NULL)
		return status;
	reader = answer_open(command, path);
	if (reader == NULL)
		return EXIT_INPUT;
	status = race_reader(command, &values, path, reader);
	trace_close(reader);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma race`: what in a trace nothing puts in order.
 */
#include <stdlib.h>

#include "tools/answer.h"
#include "tools/engine/order.h"
#include "tools/engine/races.h"
#include "tools/report/report.h"
#include "tools/units.h"

#define NAME_WIDTH 56
#define LIMIT_DEFAULT 20

struct race_values {
	int32_t limit;
	bool json, partial;
};

const char *const race_paragraphs[] = {
	"Finds uses, frees and reuses of memory that nothing in the trace puts in order, and names for each "
	"the two operations, their streams and the edge that is missing. The exit status is 1 when there "
	"are any.",
	"Operations of one stream run in order. Between streams, a wait for an event orders what follows it "
	"after all that was before the record of that event; a synchronisation orders what is queued after "
	"it; and streams that the trace creates as blocking take turns with stream 0 of their device. A "
	"stream that it does not create so is ordered by events alone.",
	"A use (one that does not say that it only reads may write) must be after the allocation, after the "
	"last write and, when it writes, after the reads since; a free must be after all of that; and an "
	"allocation must be after the free of what was at its addresses. For a deferred free the recorder "
	"answers: it waits for the uses, and once the free has completed anybody may have the memory; and "
	"so it does for the reuse of memory whose free is marked as ordered.",
	"soma's own traces have the waits that the library queues for uses and frees, so that uses which "
	"were prepared are in order; a use that was only recorded waits for nothing. What a program orders "
	"with the driver's own events is in no trace.",
	"A pair of operations is reported once. A trace with neither uses nor records, waits, "
	"synchronisations or created streams has nothing to judge: that is said, and the exit status is 0. "
	"A recorder that notes uses but not what it waits for makes races where there are none, so that is "
	"said, too.",
	NULL,
};

#define FIELD(name) offsetof(struct race_values, name)

const struct option_row race_options[] = {
	{ "limit", 'n', OPTION_NUMBER, FIELD(limit), "N", NULL,
	  "Show at most N of them; 0 is all. The default is 20. All are counted." },
	{ "json", 'j', OPTION_FLAG, FIELD(json), NULL, NULL, "Print one JSON object instead of the report." },
	{ "partial", 'P', OPTION_FLAG, FIELD(partial), NULL, NULL,
	  "Take a truncated trace as it is: without this it gives exit status 1." },
	{ .name = NULL },
};

/* ---- the missing edge --------------------------------------------------------- */

static void
edge_text(const struct race *race, char *text, size_t size)
{
	char a[ANSWER_STREAM_MAX], b[ANSWER_STREAM_MAX];
	const char *first = answer_stream_text(a, race->first.stream),
		   *second = answer_stream_text(b, race->second.stream);
	int length = 0;

	if (race->reason == RACE_FREED_BEFORE) {
		snprintf(text, size, "the block was freed at event %" PRIu64, race->first.event);
		return;
	}
	if (race->reason == RACE_OTHER_STREAM)
		length = snprintf(text, size,
				  "stream %s of event %" PRIu64
				  " is a later stream of that handle, and never waited for the earlier one "
				  "at or after event %" PRIu64,
				  second, race->second.event, race->first.event);
	else if (race->first.device != race->second.device)
		length = snprintf(text, size,
				  "stream %s of device %" PRId32
				  " never waited for stream %s of device %" PRId32
				  " at or after event %" PRIu64,
				  second, race->second.device, first, race->first.device, race->first.event);
	else
		length = snprintf(text, size,
				  "stream %s never waited for stream %s at or after event %" PRIu64, second,
				  first, race->first.event);
	if (race->reason == RACE_LEGACY_UNKNOWN && length > 0 && (size_t)length < size)
		snprintf(text + length, size - (size_t)length,
			 ", and the trace does not say that stream %s is blocking",
			 race->first.stream == 0 ? second : first);
}

/* ---- text ---------------------------------------------------------------------- */

static void
print_access(const struct race_access *access)
{
	char stream[ANSWER_STREAM_MAX];

	printf("  event %-10" PRIu64 " %-10s on stream %s\n", access->event, race_op_text(access->op),
	       answer_stream_text(stream, access->stream));
}

static void
print_race(const struct trace_reader *reader, const struct race *race)
{
	char size[UNITS_MAX], shown[4 * NAME_WIDTH + 1], edge[256];
	char *name = answer_holder(reader, race->holder);

	printf("\n%s: block 0x%" PRIx64 " of %s, %s\n", race_kind_text(race->kind), race->ptr,
	       units_bytes(size, race->size), report_shorten(shown, sizeof shown, name, NAME_WIDTH));
	free(name);
	print_access(&race->first);
	print_access(&race->second);
	edge_text(race, edge, sizeof edge);
	printf("  %s\n", edge);
}

static void
note(uint64_t count, const char *noun, const char *text)
{
	char number[UNITS_MAX];

	if (count > 0)
		printf("  %s %s\n", units_plural(number, count, noun), text);
}

static void
print_notes(const struct races *races)
{
	note(races->unknown_waits, "wait", "for what was never recorded: nothing is ordered by that");
	note(races->unknown_uses, "use", "of no block that the trace allocated");
	note(races->unknown_frees, "free", "of what was not live");
	note(races->overwritten, "block", "allocated over while live: not judged");
	note(races->forgotten, "freed block", "forgotten: the reuse of that memory was not judged");
	if (races->lost)
		printf("  Events are missing, says the recorder: what is found may be due to that\n");
	if (races->total > 0 && races->records + races->waits == 0)
		printf("  No event was recorded or waited for: either nothing is in order, or the recorder "
		       "does not note it\n");
}

static void
print_heading(const char *path, const struct trace_reader *reader, const struct races *races)
{
	char *shown = report_clean(path), a[UNITS_MAX], b[UNITS_MAX], c[UNITS_MAX], d[UNITS_MAX],
	     e[UNITS_MAX], f[UNITS_MAX];

	printf("%s\n  %s, %s on %s: %s, %s, %s, ", shown, trace_format(reader),
	       units_plural(a, races->events, "event"), units_plural(b, races->streams, "stream"),
	       units_plural(c, races->uses, "use"), units_plural(d, races->records, "record"),
	       units_plural(e, races->waits, "wait"));
	printf("%s\n", units_plural(f, races->syncs, "synchronisation"));
	free(shown);
}

static void
print_verdict(const struct races *races)
{
	char number[UNITS_MAX];

	if (!races->judged) {
		printf("\nNothing to judge: the trace has neither uses nor anything that orders streams\n");
		return;
	}
	if (races->total == 0) {
		printf("\nNo race found\n");
		return;
	}
	if (races->total > races->count)
		printf("\nand %s more\n", units_count(number, races->total - races->count));
	putchar('\n');
	for (int kind = 0; kind < RACE_KINDS; kind++)
		if (races->of_kind[kind] > 0)
			printf("  %-18s%10s  %s\n", race_kind_text((enum race_kind)kind),
			       units_count(number, races->of_kind[kind]),
			       race_kind_what((enum race_kind)kind));
	printf("%s found\n", units_plural(number, races->total, "race"));
}

static void
print_text(const char *path, const struct trace_reader *reader, const struct races *races)
{
	print_heading(path, reader, races);
	if (races->judged)
		print_notes(races);
	for (size_t i = 0; i < races->count; i++)
		print_race(reader, &races->found[i]);
	print_verdict(races);
}

/* ---- JSON ---------------------------------------------------------------------- */

static json_t *
access_object(const struct race_access *access)
{
	json_t *object = json_object();

	report_put(object, "event", report_number(access->event));
	report_put(object, "op", json_string(race_op_text(access->op)));
	report_put(object, "device", json_integer(access->device));
	report_put(object, "stream", report_address(access->stream));
	return object;
}

static json_t *
race_object(const struct trace_reader *reader, const struct race *race)
{
	json_t *object = json_object(), *block = json_object();
	char edge[256];

	report_put(block, "device", json_integer(race->device));
	report_put(block, "ptr", report_address(race->ptr));
	report_put(block, "size", report_number(race->size));
	report_put(block, "name", answer_name(reader, race->holder));
	edge_text(race, edge, sizeof edge);
	report_put(object, "kind", json_string(race_kind_text(race->kind)));
	report_put(object, "block", block);
	report_put(object, "first", access_object(&race->first));
	report_put(object, "second", access_object(&race->second));
	report_put(object, "missing", json_string(edge));
	return object;
}

static json_t *
counts_object(const struct races *races)
{
	json_t *object = json_object();

	report_put(object, "events", report_number(races->events));
	report_put(object, "allocs", report_number(races->allocs));
	report_put(object, "frees", report_number(races->frees));
	report_put(object, "uses", report_number(races->uses));
	report_put(object, "records", report_number(races->records));
	report_put(object, "waits", report_number(races->waits));
	report_put(object, "syncs", report_number(races->syncs));
	report_put(object, "streams", report_number(races->streams));
	report_put(object, "unknown_waits", report_number(races->unknown_waits));
	report_put(object, "unknown_uses", report_number(races->unknown_uses));
	report_put(object, "unknown_frees", report_number(races->unknown_frees));
	report_put(object, "overwritten", report_number(races->overwritten));
	report_put(object, "forgotten", report_number(races->forgotten));
	report_put(object, "events_lost", json_boolean(races->lost));
	report_put(object, "truncated", json_boolean(races->truncated));
	return object;
}

static json_t *
races_object(const char *path, const struct trace_reader *reader, const struct races *races)
{
	json_t *object = json_object(), *found = json_array(), *kinds = json_object();

	for (size_t i = 0; i < races->count; i++)
		json_array_append_new(found, race_object(reader, &races->found[i]));
	for (int kind = 0; kind < RACE_KINDS; kind++)
		report_put(kinds, race_kind_text((enum race_kind)kind), report_number(races->of_kind[kind]));
	report_put(object, "trace", answer_text(path));
	report_put(object, "format", json_string(trace_format(reader)));
	report_put(object, "judged", json_boolean(races->judged));
	report_put(object, "total", report_number(races->total));
	report_put(object, "kinds", kinds);
	report_put(object, "races", found);
	report_put(object, "counts", counts_object(races));
	return object;
}

/* ---- the command ---------------------------------------------------------------- */

static int
show(const struct command *command, const struct race_values *values, const char *path,
     const struct trace_reader *reader, const struct races *races)
{
	int status = answer_truncated(command, races->truncated, &races->truncation, values->partial);

	if (races->total > 0)
		status = EXIT_BAD_NEWS;
	if (values->json)
		return answer_print(command, races_object(path, reader, races), status);
	print_text(path, reader, races);
	return status;
}

static int
too_many(const struct command *command, const char *path)
{
	char *shown = report_clean(path);

	fprintf(stderr, "soma %s: %s: expected at most %d streams at once\n", command->name, shown,
		ORDER_LANES_MAX - 1);
	free(shown);
	return EXIT_INPUT;
}

static int
find(const struct command *command, const struct race_values *values, const char *path,
     struct trace_reader *reader)
{
	struct races races;
	struct trace_error error;
	size_t limit = values->limit > 0 ? (size_t)values->limit : SIZE_MAX;
	int status;

	if (races_find(reader, limit, &races, &error) != TRACE_OK)
		return answer_error(command, error.text);
	status = races.crowded ? too_many(command, path) : show(command, values, path, reader, &races);
	races_fini(&races);
	return status;
}

int
command_race(const struct command *command, int argc, char **argv)
{
	struct race_values values = { .limit = LIMIT_DEFAULT };
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
	status = find(command, &values, path, reader);
	trace_close(reader);
	return status;
}

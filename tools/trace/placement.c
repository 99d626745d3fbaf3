/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offline placement instances: id,lower,upper,size, a line a block that lives from lower
 * to upper.  A fifth column, offset, is somebody's answer and is not read.
 *
 * The blocks stand in no order, so all are read before the first event.  At one moment
 * frees come before allocations: an exclusive upper is the moment of the free, an
 * inclusive one the last moment before it.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/trace/csv.h"
#include "tools/trace/memory.h"

#define ADDRESS_FIRST ((uint64_t)1 << 44)
#define SIZE_LIMIT ((uint64_t)1 << 48)
#define GRANULE ((uint64_t)512)

static const char *const columns[] = { "id", "lower", "upper", "size", "offset" };

#define COLUMN_COUNT 4

struct instance {
	uint64_t size;
	uint64_t address; /* an invented one: they are apart */
	trace_name id;
};

struct moment {
	uint64_t time;
	uint32_t instance;
	bool alloc;
};

struct placement_reader {
	struct csv csv;
	bool has_offset;
	struct instance *instances;
	size_t count, room;
	struct moment *moments; /* two for each, in the order of events */
	size_t next, moment_room;
	bool truncated;
	uint64_t address;
};

static bool
placement_probe(const uint8_t *data, size_t size)
{
	return csv_probe(data, size, columns);
}

static enum trace_result
read_header(struct placement_reader *placement)
{
	struct csv *csv = &placement->csv;
	struct csv_field field;
	enum trace_result result = csv_record(csv);

	for (size_t i = 0; result == TRACE_OK && (i < COLUMN_COUNT || (i == COLUMN_COUNT && csv->more));
	     i++) {
		result = csv_field(csv, columns[i], &field);
		if (result == TRACE_OK && !csv_is(&field, columns[i], strlen(columns[i])))
			result = csv_expected(csv, "its name", columns[i], &field);
		placement->has_offset = i == COLUMN_COUNT;
	}
	return result == TRACE_OK ? csv_end(csv, COLUMN_COUNT + 1) : result;
}

static enum trace_result
required(struct csv *csv, const char *column, uint64_t limit, uint64_t *number)
{
	struct csv_field field;
	enum trace_result result = csv_field(csv, column, &field);

	if (result != TRACE_OK)
		return result;
	if (!csv_number(field.text, field.length, number))
		return csv_expected(csv, "a number", column, &field);
	return *number <= limit ? TRACE_OK : csv_expected(csv, "a smaller number", column, &field);
}

static enum trace_result
read_id(struct placement_reader *placement, trace_name *id)
{
	struct trace_reader *reader = placement->csv.reader;
	struct csv_field field;
	enum trace_result result = csv_field(&placement->csv, columns[0], &field);

	if (result != TRACE_OK)
		return result;
	if (memchr(field.text, '\0', field.length) != NULL)
		return csv_expected(&placement->csv, "text without zero bytes", columns[0], &field);
	return trace_names_add(&reader->names, field.text, field.length, id) ? TRACE_OK
									     : trace_no_memory(reader);
}

static enum trace_result
add(struct placement_reader *placement, struct instance instance, uint64_t lower, uint64_t upper)
{
	uint32_t number = (uint32_t)placement->count;

	if (placement->count >= UINT32_MAX / 2 ||
	    !trace_reserve((void **)&placement->instances, &placement->room, placement->count + 1,
			   sizeof instance) ||
	    !trace_reserve((void **)&placement->moments, &placement->moment_room, 2 * (placement->count + 1),
			   sizeof *placement->moments))
		return trace_no_memory(placement->csv.reader);
	instance.address = ADDRESS_FIRST + placement->address;
	placement->address += (instance.size + GRANULE - 1) / GRANULE * GRANULE;
	if (placement->address > UINT64_MAX - ADDRESS_FIRST - 2 * SIZE_LIMIT)
		return trace_fail_line(placement->csv.reader, placement->csv.line,
				       "the blocks together are larger than 2^64 bytes");
	placement->instances[placement->count++] = instance;
	placement->moments[2 * number] = (struct moment){ .time = lower, .instance = number, .alloc = true };
	placement->moments[2 * number + 1] = (struct moment){ .time = upper, .instance = number };
	return TRACE_OK;
}

static enum trace_result
read_instance(struct placement_reader *placement)
{
	struct csv *csv = &placement->csv;
	bool inclusive = csv->reader->upper_inclusive;
	struct instance instance = { 0 };
	uint64_t lower = 0, upper = 0;
	struct csv_field offset;
	enum trace_result result = read_id(placement, &instance.id);

	if (result == TRACE_OK)
		result = required(csv, columns[1], UINT64_MAX, &lower);
	if (result == TRACE_OK)
		result = required(csv, columns[2], UINT64_MAX - 1, &upper);
	if (result == TRACE_OK)
		result = required(csv, columns[3], SIZE_LIMIT, &instance.size);
	if (result == TRACE_OK && placement->has_offset)
		result = csv_field(csv, columns[4], &offset);
	if (result == TRACE_OK)
		result = csv_end(csv, COLUMN_COUNT + (size_t)placement->has_offset);
	if (result != TRACE_OK)
		return result;
	if (inclusive ? upper < lower : upper <= lower)
		return trace_fail_line(
			csv->reader, csv->line, "expected an upper %s lower (upper is %s), got %llu and %llu",
			inclusive ? "of at least" : "above", inclusive ? "inclusive" : "exclusive",
			(unsigned long long)upper, (unsigned long long)lower);
	return instance.size > 0 ? add(placement, instance, lower, upper + inclusive) : TRACE_OK;
}

static int
by_time(const void *left, const void *right)
{
	const struct moment *a = left, *b = right;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	if (a->alloc != b->alloc)
		return a->alloc ? 1 : -1;
	return a->instance < b->instance ? -1 : a->instance > b->instance;
}

/* Of a truncated file, what was read is good. */
static enum trace_result
read_all(struct placement_reader *placement)
{
	enum trace_result result = TRACE_OK;

	while (result == TRACE_OK) {
		result = csv_record(&placement->csv);
		if (result == TRACE_OK)
			result = read_instance(placement);
	}
	if (placement->count > 0)
		qsort(placement->moments, 2 * placement->count, sizeof *placement->moments, by_time);
	placement->truncated = result == TRACE_TRUNCATED;
	return result == TRACE_END || result == TRACE_TRUNCATED ? TRACE_OK : result;
}

static enum trace_result
placement_rewind(struct trace_reader *reader)
{
	struct placement_reader *placement = reader->state;

	placement->next = 0;
	return TRACE_OK;
}

static enum trace_result
placement_open(struct trace_reader *reader)
{
	struct placement_reader *placement = trace_zeroed(sizeof *placement);
	enum trace_result result;

	if (placement == NULL)
		return trace_no_memory(reader);
	reader->state = placement;
	csv_init(&placement->csv, reader);
	result = read_header(placement);
	return result == TRACE_OK ? read_all(placement) : result;
}

static void
placement_close(struct trace_reader *reader)
{
	struct placement_reader *placement = reader->state;

	if (placement == NULL)
		return;
	trace_release(placement->instances);
	trace_release(placement->moments);
	trace_release(placement);
}

static enum trace_result
placement_next(struct trace_reader *reader, struct trace_event *event)
{
	struct placement_reader *placement = reader->state;
	const struct instance *instance;
	const struct moment *moment;

	if (placement->next == 2 * placement->count)
		return placement->truncated ? trace_truncated_line(reader, placement->csv.line) : TRACE_END;
	moment = &placement->moments[placement->next++];
	instance = &placement->instances[moment->instance];
	event->op = moment->alloc ? TRACE_ALLOC : TRACE_FREE;
	event->time_ns = moment->time;
	event->ptr = instance->address;
	event->size = instance->size;
	event->holder = instance->id;
	return TRACE_OK;
}

const struct trace_format trace_format_placement = {
	.name = "placement-csv",
	.hint = "placement instances (id,lower,upper,...)",
	.probe = placement_probe,
	.open = placement_open,
	.next = placement_next,
	.rewind = placement_rewind,
	.close = placement_close,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offline placement instances: id,lower,upper,size, a line a block that lives from lower
 * to upper.  The columns stand in any order, and the first files have other names for them,
 * with `end`, the last moment, for upper.  Somebody's answers, offset and hint, are not read;
 * an alignment and gaps in a block's life are refused, for no block here has them.
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

enum role { ID, LOWER, UPPER, SIZE, ALIGNMENT, GAPS, UNREAD, ROLES, REQUIRED = ALIGNMENT };

static const struct {
	const char *name;
	enum role role;
} names[] = {
	{ "id", ID },       { "lower", LOWER }, { "upper", UPPER },         { "size", SIZE },
	{ "buffer", ID },   { "start", LOWER }, { "end", UPPER },           { "buffer_id", ID },
	{ "begin", LOWER }, { "gaps", GAPS },   { "alignment", ALIGNMENT }, { "offset", UNREAD },
	{ "hint", UNREAD },
};

#define NAMES (sizeof names / sizeof names[0])
#define COLUMNS_MAX 16

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
	size_t columns, column[COLUMNS_MAX]; /* which name each has */
	bool inclusive;                      /* the header says so */
	struct instance *instances;
	size_t count, room;
	struct moment *moments; /* two for each, in the order of events */
	size_t next, moment_room;
	bool truncated;
	uint64_t address;
};

/* Up to the comma or the line's end. */
static size_t
name_length(const char *text, const char *end)
{
	const char *comma = memchr(text, ',', (size_t)(end - text));

	return (size_t)((comma != NULL ? comma : end) - text);
}

/* Also in quotes, and with a carriage return behind it. */
static bool
is_name(const char *text, size_t length, const char *name)
{
	size_t quoted = length > 1 && text[0] == '"';

	while (length > 0 && text[length - 1] == '\r')
		length--;
	if (quoted && (length < 2 || text[length - 1] != '"'))
		return false;
	return length - 2 * quoted == strlen(name) && memcmp(text + quoted, name, strlen(name)) == 0;
}

/* Whether the first line has the names, perhaps but for the size. */
static bool
placement_probe(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *end = memchr(text, '\n', size);
	unsigned seen = 0, known = 1u << ID | 1u << LOWER | 1u << UPPER;

	end = end != NULL ? end : text + size;
	while (text < end) {
		size_t length = name_length(text, end);

		for (size_t i = 0; i < NAMES; i++)
			if (is_name(text, length, names[i].name))
				seen |= 1u << names[i].role;
		text += length + 1;
	}
	return (seen & known) == known;
}

/* Which name it is, or NAMES. */
static size_t
find_name(const struct csv_field *field)
{
	size_t i = 0;

	while (i < NAMES && !csv_is(field, names[i].name, strlen(names[i].name)))
		i++;
	return i;
}

static enum trace_result
read_name(struct placement_reader *placement, unsigned *seen)
{
	struct csv_field field;
	enum trace_result result = csv_field(&placement->csv, "(header)", &field);
	size_t name = result == TRACE_OK ? find_name(&field) : 0;

	if (result != TRACE_OK)
		return result;
	if (name == NAMES || (names[name].role < UNREAD && (*seen & 1u << names[name].role) != 0))
		return csv_expected(&placement->csv, "one of id, lower, upper, size and offset, each once,",
				    "(header)", &field);
	*seen |= 1u << names[name].role;
	placement->inclusive |= strcmp(names[name].name, "end") == 0;
	placement->column[placement->columns++] = name;
	return TRACE_OK;
}

static enum trace_result
read_header(struct placement_reader *placement)
{
	struct csv *csv = &placement->csv;
	enum trace_result result = csv_record(csv);
	unsigned seen = 0;

	while (result == TRACE_OK && csv->more && placement->columns < COLUMNS_MAX)
		result = read_name(placement, &seen);
	for (size_t role = 0; result == TRACE_OK && role < REQUIRED; role++)
		if ((seen & 1u << role) == 0)
			return csv->cut ? trace_truncated_line(csv->reader, csv->line)
					: trace_fail_line(csv->reader, csv->line, "expected a column %s",
							  names[role].name);
	return result == TRACE_OK ? csv_end(csv, COLUMNS_MAX) : result;
}

static enum trace_result
read_number(struct csv *csv, const char *name, const struct csv_field *field, uint64_t limit,
	    uint64_t *number)
{
	if (!csv_number(field->text, field->length, number))
		return csv_expected(csv, "a number", name, field);
	return *number <= limit ? TRACE_OK : csv_expected(csv, "a smaller number", name, field);
}

static enum trace_result
read_id(struct csv *csv, const char *name, const struct csv_field *field, trace_name *id)
{
	if (memchr(field->text, '\0', field->length) != NULL)
		return csv_expected(csv, "text without zero bytes", name, field);
	return trace_names_add(&csv->reader->names, field->text, field->length, id)
		       ? TRACE_OK
		       : trace_no_memory(csv->reader);
}

/* What a line says. */
struct row {
	trace_name id;
	uint64_t lower, upper, size;
};

static enum trace_result
read_field(struct csv *csv, size_t name, struct row *row)
{
	const char *text = names[name].name;
	struct csv_field field;
	uint64_t alignment;
	enum trace_result result = csv_field(csv, text, &field);

	if (result != TRACE_OK)
		return result;
	switch (names[name].role) {
	case ID:
		return read_id(csv, text, &field, &row->id);
	case LOWER:
		return read_number(csv, text, &field, UINT64_MAX, &row->lower);
	case UPPER:
		return read_number(csv, text, &field, UINT64_MAX - 1, &row->upper);
	case SIZE:
		return read_number(csv, text, &field, SIZE_LIMIT, &row->size);
	case ALIGNMENT:
		result = read_number(csv, text, &field, UINT64_MAX, &alignment);
		return result == TRACE_OK && alignment > 1 ? csv_expected(csv, "1 (none)", text, &field)
							   : result;
	case GAPS:
		return field.length == 0 ? TRACE_OK : csv_expected(csv, "none", text, &field);
	case UNREAD:
	case ROLES:
		break;
	}
	return TRACE_OK;
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
	struct row row = { 0 };
	enum trace_result result = TRACE_OK;

	for (size_t i = 0; result == TRACE_OK && i < placement->columns; i++)
		result = read_field(csv, placement->column[i], &row);
	if (result == TRACE_OK)
		result = csv_end(csv, placement->columns);
	if (result != TRACE_OK)
		return result;
	if (inclusive ? row.upper < row.lower : row.upper <= row.lower)
		return trace_fail_line(
			csv->reader, csv->line, "expected an upper %s lower (upper is %s), got %llu and %llu",
			inclusive ? "of at least" : "above", inclusive ? "inclusive" : "exclusive",
			(unsigned long long)row.upper, (unsigned long long)row.lower);
	return row.size > 0 ? add(placement, (struct instance){ .size = row.size, .id = row.id }, row.lower,
				  row.upper + inclusive)
			    : TRACE_OK;
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
	reader->upper_inclusive |= placement->inclusive;
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
	.allocations = "a line for each block",
	.has_moments = true,
	.probe = placement_probe,
	.open = placement_open,
	.next = placement_next,
	.rewind = placement_rewind,
	.close = placement_close,
};

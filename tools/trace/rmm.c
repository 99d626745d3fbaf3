/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of RMM's logging resource: Thread,Time,Action,Pointer,Size,Stream.
 *
 * The time of day has no date, so a step back by more than half a day is a midnight.
 */
#include <string.h>

#include "tools/trace/csv.h"
#include "tools/trace/memory.h"

#define SECOND ((uint64_t)1000000000)
#define DAY (86400 * SECOND)

static const char *const columns[] = { "Thread", "Time", "Action", "Pointer", "Size", "Stream" };

#define COLUMN_COUNT (sizeof columns / sizeof columns[0])

struct rmm_reader {
	struct csv csv;
	uint64_t last; /* time of day */
	uint64_t day;  /* begin of the present one */
};

static bool
rmm_probe(const uint8_t *data, size_t size)
{
	return csv_probe(data, size, columns);
}

static enum trace_result
rmm_rewind(struct trace_reader *reader)
{
	struct rmm_reader *rmm = reader->state;

	csv_init(&rmm->csv, reader);
	rmm->last = rmm->day = 0;
	return csv_header(&rmm->csv, columns, COLUMN_COUNT);
}

static enum trace_result
rmm_open(struct trace_reader *reader)
{
	reader->state = trace_zeroed(sizeof(struct rmm_reader));
	return reader->state != NULL ? rmm_rewind(reader) : trace_no_memory(reader);
}

static void
rmm_close(struct trace_reader *reader)
{
	trace_release(reader->state);
}

/* Digits behind the point as nanoseconds; those behind the ninth are dropped. */
static bool
fraction(const char *text, size_t length, uint64_t *ns)
{
	uint64_t unit = SECOND / 10;

	*ns = 0;
	for (size_t i = 0; i < length; i++, unit /= 10) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		*ns += (uint64_t)(text[i] - '0') * unit;
	}
	return length > 0;
}

/* HH:MM:SS.ffffff, also with a colon before the fraction, or without one. */
static bool
time_of_day(const char *text, size_t length, uint64_t *ns)
{
	static const uint64_t limit[] = { 23, 59, 60 }, unit[] = { 3600 * SECOND, 60 * SECOND, SECOND };
	uint64_t number, part = 0;

	*ns = 0;
	for (size_t i = 0; i < 3; i++) {
		const char *at = text + 3 * i;
		if (length < 3 * i + 2 || (i > 0 && at[-1] != ':') || at[1] < '0' || at[1] > '9' ||
		    !csv_number(at, 2, &number) || number > limit[i])
			return false;
		*ns += number * unit[i];
	}
	if (length > 8 && ((text[8] != '.' && text[8] != ':') || !fraction(text + 9, length - 9, &part)))
		return false;
	*ns += part;
	return true;
}

/* An epoch: seconds, perhaps with a fraction, or a whole number of ms, us or ns, which
 * its size tells. */
static bool
epoch(const char *text, size_t length, uint64_t *ns)
{
	const char *point = memchr(text, '.', length);
	size_t whole = point != NULL ? (size_t)(point - text) : length;
	uint64_t number, part = 0, unit = SECOND;

	if (!csv_number(text, whole, &number) ||
	    (point != NULL && !fraction(point + 1, length - whole - 1, &part)))
		return false;
	for (uint64_t limit = 100000000000u; point == NULL && unit > 1 && number >= limit; limit *= 1000)
		unit /= 1000;
	if (number > UINT64_MAX / unit - 1)
		return false;
	*ns = number * unit + part;
	return true;
}

static uint64_t
unwrap(struct rmm_reader *rmm, uint64_t time)
{
	uint64_t day = rmm->day;

	if (time + DAY / 2 < rmm->last)
		day = rmm->day += DAY;
	else if (time > rmm->last + DAY / 2 && rmm->day > 0)
		return day - DAY + time; /* a thread that was late over midnight */
	rmm->last = time;
	return day + time;
}

static enum trace_result
read_time(struct rmm_reader *rmm, uint64_t *time)
{
	struct csv_field field;
	enum trace_result result = csv_field(&rmm->csv, columns[1], &field);

	if (result != TRACE_OK)
		return result;
	if (time_of_day(field.text, field.length, time))
		*time = unwrap(rmm, *time);
	else if (!epoch(field.text, field.length, time))
		return csv_expected(&rmm->csv, "HH:MM:SS.ffffff or an epoch number", columns[1], &field);
	return TRACE_OK;
}

static enum trace_result
read_action(struct rmm_reader *rmm, enum trace_op *op)
{
	struct csv_field field;
	enum trace_result result = csv_field(&rmm->csv, columns[2], &field);

	if (result != TRACE_OK)
		return result;
	if (csv_is(&field, "allocate", 8))
		*op = TRACE_ALLOC;
	else if (csv_is(&field, "free", 4) || csv_is(&field, "deallocate", 10))
		*op = TRACE_FREE;
	else if (csv_is(&field, "allocate failure", 16))
		*op = TRACE_ALLOC_FAILED;
	else
		return csv_expected(&rmm->csv, "allocate, free, deallocate or allocate failure", columns[2],
				    &field);
	return TRACE_OK;
}

/* Pointers are hexadecimal with or without 0x. */
static enum trace_result
read_pointer(struct rmm_reader *rmm, uint64_t *pointer)
{
	struct csv_field field;
	enum trace_result result = csv_field(&rmm->csv, columns[3], &field);
	bool prefix;

	if (result != TRACE_OK || csv_is(&field, "(nil)", 5))
		return result;
	prefix = field.length > 2 && field.text[0] == '0' && (field.text[1] | 0x20) == 'x';
	if (!csv_hex(field.text + 2 * prefix, field.length - 2 * prefix, pointer))
		return csv_expected(&rmm->csv, "a hexadecimal address or (nil)", columns[3], &field);
	return TRACE_OK;
}

static enum trace_result
read_stream(struct rmm_reader *rmm, uint64_t *stream)
{
	struct csv_field field;
	enum trace_result result = csv_field(&rmm->csv, columns[5], &field);

	if (result != TRACE_OK || csv_is(&field, "(nil)", 5))
		return result;
	if (!csv_number(field.text, field.length, stream) && !csv_hex(field.text, field.length, stream))
		return csv_expected(&rmm->csv, "a decimal or hexadecimal number", columns[5], &field);
	return TRACE_OK;
}

static enum trace_result
read_size(struct rmm_reader *rmm, uint64_t *size)
{
	struct csv_field field;
	enum trace_result result = csv_field(&rmm->csv, columns[4], &field);

	if (result == TRACE_OK && !csv_number(field.text, field.length, size))
		result = csv_expected(&rmm->csv, "a number", columns[4], &field);
	return result;
}

/* Threads are numbers of any size; only the lower half and the upper together are kept. */
static enum trace_result
rmm_next(struct trace_reader *reader, struct trace_event *event)
{
	struct rmm_reader *rmm = reader->state;
	enum trace_result result = csv_record(&rmm->csv);
	uint64_t thread = 0;

	if (result == TRACE_OK)
		result = csv_number_field(&rmm->csv, columns[0], UINT64_MAX, &thread);
	if (result == TRACE_OK)
		result = read_time(rmm, &event->time_ns);
	if (result == TRACE_OK)
		result = read_action(rmm, &event->op);
	if (result == TRACE_OK)
		result = read_pointer(rmm, &event->ptr);
	if (result == TRACE_OK)
		result = read_size(rmm, &event->size);
	if (result == TRACE_OK)
		result = read_stream(rmm, &event->stream);
	event->thread = (uint32_t)(thread ^ thread >> 32);
	return result == TRACE_OK ? csv_end(&rmm->csv, COLUMN_COUNT) : result;
}

const struct trace_format trace_format_rmm = {
	.name = "rmm-csv",
	.hint = "an RMM log (Thread,Time,Action,...)",
	.allocations = "lines with the action allocate",
	.has_addresses = true,
	.probe = rmm_probe,
	.open = rmm_open,
	.next = rmm_next,
	.rewind = rmm_rewind,
	.close = rmm_close,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kineto's trace, what PyTorch's profiler writes: of the Chrome trace events in it, the
 * "[memory]" and "[OutOfMemory]" ones of devices.  Memory of the host is not a device's and is
 * passed over.
 *
 * Older traces know sizes and no addresses: see pairs.h.  Newer ones have the events of each
 * thread together, so all are read before the first is given out, in the order of their times.
 */
#include "config.h" /* first: memmem */

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/json.h"
#include "tools/trace/kineto_items.h"
#include "tools/trace/memory.h"
#include "tools/trace/pairs.h"

#define SIZE_LIMIT ((json_int_t)TRACE_PAIRS_SIZE)
#define MEMORY "[memory]"
#define OUT_OF_MEMORY "[OutOfMemory]"

/* What is kept of an event. */
struct moment {
	uint64_t time_ns, ptr, size;
	uint64_t number; /* in the file */
	int32_t device;
	uint32_t thread;
	uint8_t op;
	bool has_ptr;
};

struct kineto_reader {
	struct trace_reader *reader;
	struct moment *moments;
	size_t count, room, next;
	uint64_t items; /* of the file; those that are no moment are passed over */
	enum trace_result result; /* how the file ended */
	struct trace_error failure;
	struct trace_pairs pairs;
};

static bool
kineto_probe(const uint8_t *data, size_t size)
{
	size_t at = 0;

	while (at < size && memchr(" \n\t\r", data[at], 4) != NULL)
		at++;
	if (at < size && data[at] == '[')
		return memmem(data, size, "\"ph\"", 4) != NULL;
	return at < size && data[at] == '{' &&
	       (memmem(data, size, KINETO_EVENTS, sizeof KINETO_EVENTS - 1) != NULL ||
		memmem(data, size, "\"schemaVersion\"", 15) != NULL ||
		memmem(data, size, "\"deviceProperties\"", 18) != NULL);
}

/* ---- events ------------------------------------------------------------------------- */

static enum trace_result
fail(struct kineto_reader *kineto, const char *key, const char *what)
{
	return trace_fail_byte(kineto->reader, trace_input_offset(&kineto->reader->input),
			       "a " MEMORY " event: expected \"%s\" to be %s", key, what);
}

static bool
read_integer(const json_t *object, const char *key, json_int_t otherwise, json_int_t *number)
{
	const json_t *value = json_object_get(object, key);

	*number = value != NULL ? json_integer_value(value) : otherwise;
	return value == NULL || json_is_integer(value);
}

/* Microseconds, with or without a fraction. */
static bool
read_time(const json_t *item, uint64_t *time_ns)
{
	const json_t *time = json_object_get(item, "ts");
	double us;

	if (json_is_integer(time) && json_integer_value(time) >= 0 &&
	    json_integer_value(time) < INT64_MAX / 1000) {
		*time_ns = (uint64_t)json_integer_value(time) * 1000;
		return true;
	}
	us = json_is_real(time) ? json_real_value(time) : -1;
	if (!(us >= 0 && us < 9e15))
		return false;
	*time_ns = (uint64_t)us * 1000 + (uint64_t)((us - (double)(uint64_t)us) * 1000 + 0.5);
	return true;
}

/* PyTorch prints addresses as signed numbers, and some devices have them in the upper half. */
static bool
read_address(const json_t *value, struct moment *moment)
{
	moment->has_ptr = value != NULL;
	if (json_is_integer(value))
		moment->ptr = (uint64_t)json_integer_value(value);
	return value == NULL || json_is_integer(value) || trace_json_number(value, &moment->ptr);
}

static enum trace_result
read_block(struct kineto_reader *kineto, const json_t *args, bool failed, struct moment *moment)
{
	json_int_t bytes;

	if (!read_integer(args, "Bytes", 0, &bytes) || bytes == 0 || bytes >= SIZE_LIMIT ||
	    bytes <= -SIZE_LIMIT)
		return fail(kineto, "Bytes", "a number of bytes");
	moment->op = failed ? TRACE_ALLOC_FAILED : bytes > 0 ? TRACE_ALLOC : TRACE_FREE;
	moment->size = (uint64_t)(bytes > 0 ? bytes : -bytes);
	if (!read_address(json_object_get(args, "Addr"), moment))
		return fail(kineto, "Addr", "an address");
	return TRACE_OK;
}

static enum trace_result
keep(struct kineto_reader *kineto, const struct moment *moment)
{
	if (!trace_reserve((void **)&kineto->moments, &kineto->room, kineto->count + 1, sizeof *moment))
		return trace_no_memory(kineto->reader);
	kineto->moments[kineto->count] = *moment;
	kineto->moments[kineto->count].number = kineto->count;
	kineto->count++;
	return TRACE_OK;
}

/* Those that are not of a device are passed over. */
static enum trace_result
read_memory(struct kineto_reader *kineto, const json_t *item, bool failed)
{
	const json_t *args = json_object_get(item, "args");
	json_int_t type, device, thread;
	struct moment moment = { 0 };
	enum trace_result result;

	if (!json_is_object(args))
		return fail(kineto, "args", "an object");
	if (!read_integer(args, "Device Type", 0, &type))
		return fail(kineto, "Device Type", "a number");
	if (!read_integer(args, "Device Id", -1, &device) || device >= TRACE_PAIRS_DEVICES)
		return fail(kineto, "Device Id", "the number of a device");
	if (type == 0 || device < 0)
		return TRACE_OK;
	if (!read_time(item, &moment.time_ns))
		return fail(kineto, "ts", "a time in microseconds");
	if (read_integer(item, "tid", 0, &thread))
		moment.thread = (uint32_t)thread;
	moment.device = (int32_t)device;
	result = read_block(kineto, args, failed, &moment);
	return result == TRACE_OK ? keep(kineto, &moment) : result;
}

static enum trace_result
read_item(struct kineto_reader *kineto, const char *text, size_t length)
{
	struct trace_reader *reader = kineto->reader;
	enum trace_result result = TRACE_OK;
	const char *name;
	json_error_t error;
	bool no_memory;
	json_t *item;

	if (memmem(text, length, MEMORY, sizeof MEMORY - 1) == NULL &&
	    memmem(text, length, OUT_OF_MEMORY, sizeof OUT_OF_MEMORY - 1) == NULL)
		return TRACE_OK;
	item = trace_json_parse(text, length, &error, &no_memory);
	if (no_memory)
		return trace_no_memory(reader);
	if (item == NULL)
		return trace_fail_byte(
			reader, trace_input_offset(&reader->input) + (uint64_t)(unsigned)error.position,
			"not JSON: %s", error.text);
	name = trace_json_text(item, "name");
	if (name != NULL && (strcmp(name, MEMORY) == 0 || strcmp(name, OUT_OF_MEMORY) == 0))
		result = read_memory(kineto, item, strcmp(name, OUT_OF_MEMORY) == 0);
	json_decref(item);
	return result;
}

/* ---- the reader ---------------------------------------------------------------------- */

static int
by_time(const void *left, const void *right)
{
	const struct moment *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

/* What stands before the file's end, or what is wrong in it, is good. */
static void
read_all(struct kineto_reader *kineto)
{
	struct kineto_items items = { .reader = kineto->reader };
	enum trace_result result = TRACE_OK;
	const char *text;
	size_t length;

	while (result == TRACE_OK) {
		result = kineto_item(&items, &text, &length);
		kineto->items += result == TRACE_OK;
		if (result == TRACE_OK)
			result = read_item(kineto, text, length);
	}
	kineto->result = result;
	kineto->failure = kineto->reader->failure;
	if (kineto->count > 0)
		qsort(kineto->moments, kineto->count, sizeof *kineto->moments, by_time);
}

static enum trace_result
kineto_rewind(struct trace_reader *reader)
{
	struct kineto_reader *kineto = reader->state;

	trace_pairs_fini(&kineto->pairs);
	kineto->next = 0;
	return TRACE_OK;
}

static enum trace_result
kineto_open(struct trace_reader *reader)
{
	struct kineto_reader *kineto = trace_zeroed(sizeof *kineto);

	if (kineto == NULL)
		return trace_no_memory(reader);
	reader->state = kineto;
	kineto->reader = reader;
	read_all(kineto);
	return TRACE_OK;
}

static void
kineto_close(struct trace_reader *reader)
{
	struct kineto_reader *kineto = reader->state;

	if (kineto == NULL)
		return;
	trace_pairs_fini(&kineto->pairs);
	trace_release(kineto->moments);
	trace_release(kineto);
}

static enum trace_result
pair(struct kineto_reader *kineto, struct trace_event *event)
{
	if (event->op == TRACE_ALLOC && !trace_pairs_alloc(&kineto->pairs, event))
		return trace_no_memory(kineto->reader);
	if (event->op == TRACE_FREE)
		trace_pairs_free(&kineto->pairs, event);
	return TRACE_OK;
}

static enum trace_result
kineto_next(struct trace_reader *reader, struct trace_event *event)
{
	struct kineto_reader *kineto = reader->state;
	const struct moment *moment;

	if (kineto->next == kineto->count) {
		reader->failure = kineto->failure;
		reader->passed_over = kineto->items - kineto->count;
		return kineto->result;
	}
	moment = &kineto->moments[kineto->next++];
	event->op = (enum trace_op)moment->op;
	event->time_ns = moment->time_ns;
	event->device = moment->device;
	event->thread = moment->thread;
	event->ptr = moment->ptr;
	event->size = moment->size;
	return moment->has_ptr ? TRACE_OK : pair(kineto, event);
}

const struct trace_format trace_format_kineto = {
	.name = "kineto",
	.hint = "a Kineto trace (JSON)",
	.allocations = "\"[memory]\" events of a device, which PyTorch's profiler writes with profile_memory=True "
		       "(what soma convert writes for Perfetto is not to be read again)",
	.others = "entries",
	.is_of_pytorch = true,
	.probe = kineto_probe,
	.open = kineto_open,
	.next = kineto_next,
	.rewind = kineto_rewind,
	.close = kineto_close,
};

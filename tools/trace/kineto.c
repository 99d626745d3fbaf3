/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kineto's trace, what PyTorch's profiler writes: of the Chrome trace events in it, the
 * "[memory]" ones of devices.  Memory of the host is not a device's and is passed over.
 *
 * Older traces know sizes and no addresses: see pairs.h.
 *
 * The events are taken out of the file one by one; what is not looked at is only
 * followed by its brackets.
 */
#include "config.h" /* first: memmem */

#include <limits.h>
#include <string.h>

#include "tools/trace/json.h"
#include "tools/trace/memory.h"
#include "tools/trace/pairs.h"

#define SIZE_LIMIT ((json_int_t)TRACE_PAIRS_SIZE)
#define MEMORY "[memory]"
#define EVENTS "\"traceEvents\""

struct kineto_reader {
	struct trace_reader *reader;
	bool begun;  /* the file's first byte was read */
	bool bare;   /* the events' array is all there is */
	bool inside; /* in the array of events */
	bool over;   /* the array was read */
	struct trace_pairs pairs;
};

/* How far into the input a value was followed. */
struct follow {
	size_t at;
	size_t depth;
	bool text, escaped;
};

static enum trace_result
cut(struct kineto_reader *kineto)
{
	struct trace_input *in = &kineto->reader->input;

	return trace_truncated_byte(kineto->reader, trace_input_offset(in) + (uint64_t)(in->end - in->pos));
}

/* Whether there is another byte, which *byte then is; pos stays before it. */
static bool
peek(struct kineto_reader *kineto, char *byte)
{
	struct trace_input *in = &kineto->reader->input;

	while (trace_input_have(in, 1)) {
		*byte = (char)*in->pos;
		if (*byte != ' ' && *byte != '\n' && *byte != '\t' && *byte != '\r')
			return true;
		in->pos++;
	}
	return false;
}

static enum trace_result
expect(struct kineto_reader *kineto, const char *what, char byte)
{
	char got;

	if (!peek(kineto, &got))
		return cut(kineto);
	if (got != byte)
		return trace_fail_byte(kineto->reader, trace_input_offset(&kineto->reader->input),
				       "expected %s", what);
	kineto->reader->input.pos++;
	return TRACE_OK;
}

static enum trace_result
expect_end(struct kineto_reader *kineto)
{
	struct trace_input *in = &kineto->reader->input;
	char byte;

	if (peek(kineto, &byte))
		return trace_fail_byte(kineto->reader, trace_input_offset(in),
				       "expected the end of the file");
	return in->state == TRACE_END ? TRACE_END : cut(kineto);
}

/* One byte of a value; true: the value ends before it (a scalar) or with it. */
static bool
follow_byte(struct follow *follow, char byte, bool *behind)
{
	*behind = true;
	if (follow->text) {
		follow->text = follow->escaped || byte != '"';
		follow->escaped = !follow->escaped && byte == '\\';
		return !follow->text && follow->depth == 0;
	}
	switch (byte) {
	case '"':
		follow->text = true;
		return false;
	case '{':
	case '[':
		follow->depth++;
		return false;
	case '}':
	case ']':
		*behind = follow->depth > 0;
		return follow->depth == 0 || --follow->depth == 0;
	case ',':
	case ':':
	case ' ':
	case '\n':
	case '\t':
	case '\r':
		*behind = false;
		return follow->depth == 0;
	default:
		return false;
	}
}

/* Follows the value at pos to its end.  Kept: it all stands in the buffer then, *length
 * bytes long, and pos is still before it; else it is consumed. */
static enum trace_result
follow_value(struct kineto_reader *kineto, bool keep, size_t *length)
{
	struct trace_input *in = &kineto->reader->input;
	struct follow follow = { 0 };

	for (;;) {
		bool behind, ends = false;

		while (!ends && follow.at < (size_t)(in->end - in->pos)) {
			ends = follow_byte(&follow, (char)in->pos[follow.at], &behind);
			follow.at += !ends || behind;
		}
		*length = follow.at;
		if (!keep) {
			in->pos += follow.at;
			follow.at = 0;
		}
		if (ends)
			return TRACE_OK;
		if (!trace_input_more(in))
			return in->state == TRACE_ERROR ? TRACE_ERROR : cut(kineto);
	}
}

/* ---- the file around the events --------------------------------------------------- */

/* The next member of the top object: its value stands at pos, unless it is the end. */
static enum trace_result
next_member(struct kineto_reader *kineto, bool *events, bool *end)
{
	struct trace_input *in = &kineto->reader->input;
	enum trace_result result = TRACE_OK;
	size_t length;
	char byte;

	if (!peek(kineto, &byte))
		return cut(kineto);
	*end = byte == '}';
	if (*end) {
		in->pos++;
		return TRACE_OK;
	}
	if (byte == ',') {
		in->pos++;
		if (!peek(kineto, &byte))
			return cut(kineto);
	}
	if (byte != '"')
		return trace_fail_byte(kineto->reader, trace_input_offset(in),
				       "expected the name of a member");
	result = follow_value(kineto, true, &length);
	if (result != TRACE_OK)
		return result;
	*events = length == sizeof EVENTS - 1 && memcmp(in->pos, EVENTS, length) == 0;
	in->pos += length;
	result = expect(kineto, "a colon", ':');
	return result == TRACE_OK && !peek(kineto, &byte) ? cut(kineto) : result;
}

/* Up to the array of events, or to the end of the object. */
static enum trace_result
find_events(struct kineto_reader *kineto)
{
	for (;;) {
		bool events = false, end = false;
		size_t length;
		enum trace_result result = next_member(kineto, &events, &end);

		if (result != TRACE_OK)
			return result;
		if (end)
			return expect_end(kineto);
		if (events && !kineto->over) {
			kineto->inside = true;
			return expect(kineto, "the array of events", '[');
		}
		result = follow_value(kineto, false, &length);
		if (result != TRACE_OK)
			return result;
	}
}

static bool
kineto_probe(const uint8_t *data, size_t size)
{
	size_t at = 0;

	while (at < size && memchr(" \n\t\r", data[at], 4) != NULL)
		at++;
	if (at < size && data[at] == '[')
		return memmem(data, size, "\"ph\"", 4) != NULL;
	return at < size && data[at] == '{' &&
	       (memmem(data, size, EVENTS, sizeof EVENTS - 1) != NULL ||
		memmem(data, size, "\"schemaVersion\"", 15) != NULL ||
		memmem(data, size, "\"deviceProperties\"", 18) != NULL);
}

static enum trace_result
kineto_rewind(struct trace_reader *reader)
{
	struct kineto_reader *kineto = reader->state;

	trace_pairs_fini(&kineto->pairs);
	*kineto = (struct kineto_reader){ .reader = reader };
	return TRACE_OK;
}

static enum trace_result
kineto_open(struct trace_reader *reader)
{
	reader->state = trace_zeroed(sizeof(struct kineto_reader));
	return reader->state != NULL ? kineto_rewind(reader) : trace_no_memory(reader);
}

static void
kineto_close(struct trace_reader *reader)
{
	if (reader->state != NULL)
		kineto_rewind(reader);
	trace_release(reader->state);
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

static enum trace_result
read_block(struct kineto_reader *kineto, const json_t *args, struct trace_event *event)
{
	const json_t *address = json_object_get(args, "Addr");
	json_int_t bytes;

	if (!read_integer(args, "Bytes", 0, &bytes) || bytes == 0 || bytes >= SIZE_LIMIT ||
	    bytes <= -SIZE_LIMIT)
		return fail(kineto, "Bytes", "a number of bytes");
	event->op = bytes > 0 ? TRACE_ALLOC : TRACE_FREE;
	event->size = (uint64_t)(bytes > 0 ? bytes : -bytes);
	if (address != NULL && !trace_json_number(address, &event->ptr))
		return fail(kineto, "Addr", "an address");
	if (address != NULL)
		return TRACE_OK;
	if (bytes > 0)
		return trace_pairs_alloc(&kineto->pairs, event) ? TRACE_OK : trace_no_memory(kineto->reader);
	trace_pairs_free(&kineto->pairs, event);
	return TRACE_OK;
}

/* *made: it is one of a device. */
static enum trace_result
read_memory(struct kineto_reader *kineto, const json_t *item, struct trace_event *event, bool *made)
{
	const json_t *args = json_object_get(item, "args");
	json_int_t type, device, thread;

	if (!json_is_object(args))
		return fail(kineto, "args", "an object");
	if (!read_integer(args, "Device Type", 0, &type))
		return fail(kineto, "Device Type", "a number");
	if (!read_integer(args, "Device Id", -1, &device) || device >= TRACE_PAIRS_DEVICES)
		return fail(kineto, "Device Id", "the number of a device");
	if (type == 0 || device < 0)
		return TRACE_OK;
	if (!read_time(item, &event->time_ns))
		return fail(kineto, "ts", "a time in microseconds");
	if (read_integer(item, "tid", 0, &thread))
		event->thread = (uint32_t)thread;
	event->device = (int32_t)device;
	*made = true;
	return read_block(kineto, args, event);
}

static enum trace_result
read_item(struct kineto_reader *kineto, const char *text, size_t length, struct trace_event *event,
	  bool *made)
{
	struct trace_reader *reader = kineto->reader;
	enum trace_result result = TRACE_OK;
	const char *name;
	json_error_t error;
	bool no_memory;
	json_t *item;

	if (memmem(text, length, MEMORY, sizeof MEMORY - 1) == NULL)
		return TRACE_OK;
	item = trace_json_parse(text, length, &error, &no_memory);
	if (no_memory)
		return trace_no_memory(reader);
	if (item == NULL)
		return trace_fail_byte(
			reader, trace_input_offset(&reader->input) + (uint64_t)(unsigned)error.position,
			"not JSON: %s", error.text);
	name = trace_json_text(item, "name");
	if (name != NULL && strcmp(name, MEMORY) == 0)
		result = read_memory(kineto, item, event, made);
	json_decref(item);
	return result;
}

static enum trace_result
next_item(struct kineto_reader *kineto, struct trace_event *event, bool *made)
{
	struct trace_input *in = &kineto->reader->input;
	enum trace_result result;
	size_t length;
	char byte;

	if (!peek(kineto, &byte))
		return cut(kineto);
	if (byte == ',' || byte == ']') {
		in->pos++;
		kineto->inside = byte == ',';
		kineto->over = byte == ']';
		return TRACE_OK;
	}
	if (byte == '}' || byte == ':')
		return trace_fail_byte(kineto->reader, trace_input_offset(in), "expected an event");
	result = follow_value(kineto, true, &length);
	if (result == TRACE_OK)
		result = read_item(kineto, (const char *)in->pos, length, event, made);
	in->pos += length;
	return result;
}

/* Before the first event, and behind the last. */
static enum trace_result
outside(struct kineto_reader *kineto)
{
	struct trace_input *in = &kineto->reader->input;
	bool begun = kineto->begun;
	char byte;

	kineto->begun = true;
	if (kineto->bare)
		return expect_end(kineto);
	if (begun)
		return find_events(kineto);
	if (!peek(kineto, &byte))
		return cut(kineto);
	in->pos++;
	kineto->bare = kineto->inside = byte == '[';
	return kineto->bare ? TRACE_OK : find_events(kineto);
}

static enum trace_result
kineto_next(struct trace_reader *reader, struct trace_event *event)
{
	struct kineto_reader *kineto = reader->state;
	enum trace_result result = TRACE_OK;
	bool made = false;

	while (result == TRACE_OK && !made)
		result = kineto->inside ? next_item(kineto, event, &made) : outside(kineto);
	return result;
}

const struct trace_format trace_format_kineto = {
	.name = "kineto",
	.hint = "a Kineto trace (JSON)",
	.probe = kineto_probe,
	.open = kineto_open,
	.next = kineto_next,
	.rewind = kineto_rewind,
	.close = kineto_close,
};

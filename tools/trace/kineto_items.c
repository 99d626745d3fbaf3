/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file around the events: what is not looked at is only followed by its brackets.
 */
#include "tools/trace/kineto_items.h"

#include <string.h>

/* How far into the input a value was followed. */
struct follow {
	size_t at;
	size_t depth;
	bool text, escaped;
};

static enum trace_result
cut(struct kineto_items *items)
{
	struct trace_input *in = &items->reader->input;

	return trace_truncated_byte(items->reader, trace_input_offset(in) + (uint64_t)(in->end - in->pos));
}

/* Whether there is another byte, which *byte then is; pos stays before it. */
static bool
peek(struct kineto_items *items, char *byte)
{
	struct trace_input *in = &items->reader->input;

	while (trace_input_have(in, 1)) {
		*byte = (char)*in->pos;
		if (*byte != ' ' && *byte != '\n' && *byte != '\t' && *byte != '\r')
			return true;
		in->pos++;
	}
	return false;
}

static enum trace_result
expect(struct kineto_items *items, const char *what, char byte)
{
	char got;

	if (!peek(items, &got))
		return cut(items);
	if (got != byte)
		return trace_fail_byte(items->reader, trace_input_offset(&items->reader->input),
				       "expected %s", what);
	items->reader->input.pos++;
	return TRACE_OK;
}

static enum trace_result
expect_end(struct kineto_items *items)
{
	struct trace_input *in = &items->reader->input;
	char byte;

	if (peek(items, &byte))
		return trace_fail_byte(items->reader, trace_input_offset(in), "expected the end of the file");
	return in->state == TRACE_END ? TRACE_END : cut(items);
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
follow_value(struct kineto_items *items, bool keep, size_t *length)
{
	struct trace_input *in = &items->reader->input;
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
			return in->state == TRACE_ERROR ? TRACE_ERROR : cut(items);
	}
}

/* ---- the file around the events --------------------------------------------------- */

/* The next member of the top object: its value stands at pos, unless it is the end. */
static enum trace_result
next_member(struct kineto_items *items, bool *events, bool *end)
{
	struct trace_input *in = &items->reader->input;
	enum trace_result result = TRACE_OK;
	size_t length;
	char byte;

	if (!peek(items, &byte))
		return cut(items);
	*end = byte == '}';
	if (*end) {
		in->pos++;
		return TRACE_OK;
	}
	if (byte == ',') {
		in->pos++;
		if (!peek(items, &byte))
			return cut(items);
	}
	if (byte != '"')
		return trace_fail_byte(items->reader, trace_input_offset(in),
				       "expected the name of a member");
	result = follow_value(items, true, &length);
	if (result != TRACE_OK)
		return result;
	*events = length == sizeof KINETO_EVENTS - 1 && memcmp(in->pos, KINETO_EVENTS, length) == 0;
	in->pos += length;
	result = expect(items, "a colon", ':');
	return result == TRACE_OK && !peek(items, &byte) ? cut(items) : result;
}

/* Up to the array of events, or to the end of the object. */
static enum trace_result
find_events(struct kineto_items *items)
{
	for (;;) {
		bool events = false, end = false;
		size_t length;
		enum trace_result result = next_member(items, &events, &end);

		if (result != TRACE_OK)
			return result;
		if (end)
			return expect_end(items);
		if (events && !items->over) {
			items->inside = true;
			return expect(items, "the array of events", '[');
		}
		result = follow_value(items, false, &length);
		if (result != TRACE_OK)
			return result;
	}
}

static enum trace_result
next_item(struct kineto_items *items)
{
	struct trace_input *in = &items->reader->input;
	enum trace_result result;
	size_t length;
	char byte;

	if (!peek(items, &byte))
		return cut(items);
	if (byte == ',' || byte == ']') {
		in->pos++;
		items->inside = byte == ',';
		items->over = byte == ']';
		return TRACE_OK;
	}
	if (byte == '}' || byte == ':')
		return trace_fail_byte(items->reader, trace_input_offset(in), "expected an event");
	result = follow_value(items, true, &length);
	if (result == TRACE_OK)
		items->taken = length;
	return result;
}

/* Before the first event, and behind the last. */
static enum trace_result
outside(struct kineto_items *items)
{
	struct trace_input *in = &items->reader->input;
	bool begun = items->begun;
	char byte;

	items->begun = true;
	if (items->bare)
		return expect_end(items);
	if (begun)
		return find_events(items);
	if (!peek(items, &byte))
		return cut(items);
	in->pos++;
	items->bare = items->inside = byte == '[';
	return items->bare ? TRACE_OK : find_events(items);
}

enum trace_result
kineto_item(struct kineto_items *items, const char **text, size_t *length)
{
	enum trace_result result = TRACE_OK;

	items->reader->input.pos += items->taken;
	items->taken = 0;
	while (result == TRACE_OK && items->taken == 0)
		result = items->inside ? next_item(items) : outside(items);
	*text = (const char *)items->reader->input.pos;
	*length = items->taken;
	return result;
}

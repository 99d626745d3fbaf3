/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading files that were cut or changed: they are read or refused with a place, and
 * every allocation is given back.  The random changes are the same in every run.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/check_trace_support.h"

static uint64_t
next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Parse errors say where; the others are about the whole file. */
static bool
names_a_place(const char *text)
{
	const char *colon;

	if (strstr(text, ": byte ") != NULL || strstr(text, "of the gzip file") != NULL ||
	    strstr(text, "not a trace in a known format") != NULL || strstr(text, "is empty") != NULL ||
	    strstr(text, "the gzip file ends in the middle, after ") != NULL ||
	    strstr(text, "holds nothing when unpacked") != NULL || strstr(text, ": row ") != NULL ||
	    strstr(text, "a database without a table ") != NULL ||
	    strstr(text, "expected a column ") != NULL || strstr(text, "cannot open the database: ") != NULL)
		return true;
	for (colon = text; (colon = strchr(colon, ':')) != NULL; colon++)
		if (colon[1] >= '0' && colon[1] <= '9')
			return true;
	return false;
}

static void
read_or_refused(const struct events *events)
{
	MUST(events->result == TRACE_END || events->result == TRACE_TRUNCATED ||
	     events->result == TRACE_ERROR);
	if (events->result != TRACE_END && !names_a_place(events->error.text))
		ck_abort_msg("\"%s\" names no place", events->error.text);
}

/* What a cut file gives is the beginning of what the whole file gives. */
static void
is_beginning(const struct events *part, const struct events *whole)
{
	size_t sure = part->result == TRACE_END || part->count == 0 ? part->count : part->count - 1;

	MUST(part->count <= whole->count);
	for (size_t i = 0; i < sure; i++) {
		MUST(part->event[i].op == whole->event[i].op);
		MUST(part->event[i].ptr == whole->event[i].ptr);
		MUST(part->event[i].size == whole->event[i].size);
	}
}

void
check_cut_everywhere(const struct bytes *bytes, size_t step)
{
	struct events whole = events_of(bytes);
	struct counting counting = { 0 };

	ck_assert_msg(whole.result == TRACE_END, "%s", whole.error.text);
	for (size_t size = 0; size < bytes->size; size += step) {
		struct bytes part = { .data = bytes->data, .size = size };
		struct events events;
		counting_start(&counting);
		events = events_of(&part);
		read_or_refused(&events);
		is_beginning(&events, &whole);
		events_free(&events);
		counting_stop();
		MUST(counting.live == 0);
	}
	events_free(&whole);
}

/* How many allocations it takes, or 0 when it needed more than it got. */
static size_t
read_within(const struct bytes *bytes, size_t fail_at)
{
	struct counting counting = { .fail_at = fail_at };
	struct events events;
	bool whole;

	counting_start(&counting);
	events = events_of(bytes);
	whole = events.result == TRACE_END;
	if (!whole)
		ck_assert_msg(strstr(events.error.text, "out of memory") != NULL, "allocation %zu: \"%s\"",
			      fail_at, events.error.text);
	events_free(&events);
	counting_stop();
	MUST(counting.live == 0);
	return whole ? counting.calls : 0;
}

void
check_every_allocation(const struct bytes *bytes)
{
	size_t needed = read_within(bytes, 0);

	ck_assert_uint_gt(needed, 3);
	for (size_t n = 1; n <= needed; n++)
		ck_assert_uint_eq(read_within(bytes, n), 0);
}

/* One to four changes: a bit, a byte, an interesting byte, a piece copied elsewhere. */
static void
change(struct bytes *bytes, uint64_t *random)
{
	static const uint8_t interesting[] =
		"\x80.(}]eausthqjrX\x8c\x8aKMJG\x94\x95\x85\x86\x87\xff\x00\x7f,\"\n\r0x9";
	size_t changes = 1 + next_random(random) % 4;

	while (changes-- > 0) {
		size_t at = next_random(random) % bytes->size, from, length;
		switch (next_random(random) % 5) {
		case 0:
			bytes->data[at] ^= (uint8_t)(1u << next_random(random) % 8);
			break;
		case 1:
			bytes->data[at] = (uint8_t)next_random(random);
			break;
		case 2:
			bytes->data[at] = interesting[next_random(random) % (sizeof interesting - 1)];
			break;
		default:
			from = next_random(random) % bytes->size;
			length = next_random(random) % 64;
			if (length > bytes->size - from)
				length = bytes->size - from;
			if (length > bytes->size - at)
				length = bytes->size - at;
			memmove(bytes->data + at, bytes->data + from, length);
			break;
		}
	}
}

void
check_changed(const struct bytes *source, uint64_t *random)
{
	struct bytes changed = { 0 };
	struct counting counting = { 0 };
	struct events events;

	bytes_put(&changed, source->data, source->size);
	change(&changed, random);
	counting_start(&counting);
	events = events_of(&changed);
	read_or_refused(&events);
	events_free(&events);
	counting_stop();
	MUST(counting.live == 0);
	bytes_free(&changed);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was there at the start, from lines.  What cannot have been in any memory is refused here; sizes
 * and addresses that an allocator does not give are the replay's to judge.
 */
#include "tools/trace/somastart.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/memory.h"
#include "tools/trace/somacsv.h"

static bool
is_segment(enum trace_op op)
{
	return op == TRACE_SEGMENT_ALLOC || op == TRACE_SEGMENT_MAP;
}

static bool
has_starts(enum trace_op op)
{
	return op == TRACE_ALLOC || is_segment(op);
}

bool
soma_start_is(enum trace_op op, const struct csv_field *detail)
{
	const size_t length = sizeof TRACE_SOMA_START - 1;

	return has_starts(op) && detail->length >= length &&
	       memcmp(detail->text, TRACE_SOMA_START, length) == 0 &&
	       (detail->length == length || detail->text[length] == ';');
}

bool
soma_start_might_be(const struct soma_start *start, enum trace_op op, const char *detail)
{
	return has_starts(op) && strncmp(detail, TRACE_SOMA_START, strlen(detail)) == 0 &&
	       (detail[0] != '\0' || start->snapshot.segment_count > 0);
}

static bool
read_word(enum trace_op op, const struct csv_field *word, struct soma_start_words *words)
{
	if (is_segment(op))
		return words->small = csv_is(word, TRACE_SOMA_SMALL, sizeof TRACE_SOMA_SMALL - 1);
	if (!csv_is(word, TRACE_SOMA_PENDING, sizeof TRACE_SOMA_PENDING - 1))
		return csv_number(word->text, word->length, &words->capacity) && words->capacity > 0;
	return words->pending = true;
}

enum trace_result
soma_start_read(struct csv *csv, enum trace_op op, const struct csv_field *detail,
		struct soma_start_words *words)
{
	char *end = detail->text + detail->length, *at = detail->text + sizeof TRACE_SOMA_START - 1;

	*words = (struct soma_start_words){ .capacity = 0 };
	while (at < end) {
		struct csv_field word = { .text = ++at };

		while (at < end && *at != ';')
			at++;
		word.length = (size_t)(at - word.text);
		if (!read_word(op, &word, words))
			return csv_expected(csv,
					    is_segment(op) ? "start or start;small"
							   : "start, and behind semicolons the bytes that "
							     "the block takes, and pending",
					    "detail", detail);
	}
	return TRACE_OK;
}

static enum trace_result
put_segment(struct soma_start *start, struct csv *csv, const struct trace_event *event, bool small)
{
	struct trace_snapshot *snapshot = &start->snapshot;

	if (event->size == 0)
		return trace_fail_line(csv->reader, csv->line,
				       "a segment at 0x%" PRIx64
				       " of 0 bytes: expected its size in column \"size\"",
				       event->ptr);
	if (event->size > UINT64_MAX - event->ptr)
		return trace_fail_line(csv->reader, csv->line,
				       "a segment at 0x%" PRIx64 " of %" PRIu64
				       " bytes, past the end of the address space",
				       event->ptr, event->size);
	if (!trace_reserve((void **)&snapshot->segments, &start->segment_room, snapshot->segment_count + 1,
			   sizeof *snapshot->segments) ||
	    !trace_reserve((void **)&start->lines, &start->line_room, snapshot->segment_count + 1,
			   sizeof *start->lines))
		return trace_no_memory(csv->reader);
	start->block_room = 0;
	start->lines[snapshot->segment_count] = csv->line;
	snapshot->segments[snapshot->segment_count++] = (struct trace_segment){
		.device = event->device,
		.small = small,
		.expandable = event->op == TRACE_SEGMENT_MAP,
		.address = event->ptr,
		.size = event->size,
		.stream = event->stream,
		.pool = { event->pool[0], event->pool[1] },
	};
	return TRACE_OK;
}

/* Where the blocks that were read end: they stand in address order. */
static uint64_t
end_of_blocks(const struct trace_segment *segment)
{
	const struct trace_block *last;

	if (segment->block_count == 0)
		return segment->address;
	last = &segment->blocks[segment->block_count - 1];
	return last->address + (last->size > 0 ? last->size : last->requested);
}

static bool
holds(const struct trace_segment *segment, const struct trace_event *event, uint64_t size)
{
	uint64_t before = event->ptr - segment->address;

	return segment->device == event->device && event->ptr >= end_of_blocks(segment) &&
	       before < segment->size && size <= segment->size - before;
}

static bool
is_alike(const struct trace_segment *segment, const struct trace_event *event)
{
	return segment->stream == event->stream && (!event->has_pool || (segment->pool[0] == event->pool[0] &&
									 segment->pool[1] == event->pool[1]));
}

static enum trace_result
put_block(struct soma_start *start, struct csv *csv, const struct trace_event *event,
	  const struct soma_start_words *words)
{
	struct trace_snapshot *snapshot = &start->snapshot;
	struct trace_segment *segment =
		snapshot->segment_count > 0 ? &snapshot->segments[snapshot->segment_count - 1] : NULL;
	uint64_t size = words->capacity > 0 ? words->capacity : event->size;

	if (segment == NULL || !holds(segment, event, size))
		return trace_fail_line(
			csv->reader, csv->line,
			"the block at 0x%" PRIx64 " is not where it can have been at the start: "
			"expected it in the segment before it, behind that segment's last block",
			event->ptr);
	if (!is_alike(segment, event))
		return trace_fail_line(csv->reader, csv->line,
				       "the block at 0x%" PRIx64 " is on stream %" PRIu64 " of pool %" PRIu64
				       ":%" PRIu64 ": expected its segment's, stream %" PRIu64
				       " of pool %" PRIu64 ":%" PRIu64,
				       event->ptr, event->stream, event->pool[0], event->pool[1],
				       segment->stream, segment->pool[0], segment->pool[1]);
	if (size == 0)
		return trace_fail_line(csv->reader, csv->line,
				       "the block at 0x%" PRIx64
				       " is of 0 bytes: expected its size, or how many bytes it takes",
				       event->ptr);
	if (!trace_reserve((void **)&segment->blocks, &start->block_room, segment->block_count + 1,
			   sizeof *segment->blocks))
		return trace_no_memory(csv->reader);
	segment->blocks[segment->block_count++] = (struct trace_block){
		.address = event->ptr,
		.size = words->capacity,
		.requested = event->size,
		.state = words->pending ? TRACE_BLOCK_PENDING : TRACE_BLOCK_LIVE,
		.holder = event->holder,
	};
	return TRACE_OK;
}

enum trace_result
soma_start_put(struct soma_start *start, struct csv *csv, const struct trace_event *event,
	       const struct soma_start_words *words)
{
	return event->op == TRACE_ALLOC ? put_block(start, csv, event, words)
					: put_segment(start, csv, event, words->small);
}

/* ---- all of it ----------------------------------------------------------------------- */

struct place {
	int32_t device;
	uint64_t from, to;
	uint64_t line;
};

static int
by_place(const void *left, const void *right)
{
	const struct place *a = left, *b = right;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}

static enum trace_result
find_overlap(const struct place *places, size_t count, struct csv *csv)
{
	for (size_t i = 1; i < count; i++) {
		const struct place *a = &places[i - 1], *b = &places[i];
		bool in_order = a->line < b->line;

		if (a->device == b->device && b->from < a->to)
			return trace_fail_line(csv->reader, in_order ? b->line : a->line,
					       "the segment at 0x%" PRIx64 " overlaps the one at 0x%" PRIx64
					       " in line %" PRIu64
					       ": expected segments that were there together",
					       in_order ? b->from : a->from, in_order ? a->from : b->from,
					       in_order ? a->line : b->line);
	}
	return TRACE_OK;
}

enum trace_result
soma_start_check(const struct soma_start *start, struct csv *csv)
{
	size_t count = start->snapshot.segment_count, room = 0;
	struct place *places = NULL;
	enum trace_result result;

	if (count < 2)
		return TRACE_OK;
	if (!trace_reserve((void **)&places, &room, count, sizeof *places))
		return trace_no_memory(csv->reader);
	for (size_t i = 0; i < count; i++) {
		const struct trace_segment *segment = &start->snapshot.segments[i];

		places[i] = (struct place){ .device = segment->device,
					    .from = segment->address,
					    .to = segment->address + segment->size,
					    .line = start->lines[i] };
	}
	qsort(places, count, sizeof *places, by_place);
	result = find_overlap(places, count, csv);
	trace_release(places);
	return result;
}

void
soma_start_clear(struct soma_start *start)
{
	for (size_t i = 0; i < start->snapshot.segment_count; i++)
		trace_release(start->snapshot.segments[i].blocks);
	trace_release(start->snapshot.segments);
	trace_release(start->lines);
	*start = (struct soma_start){ .snapshot.at_start = true };
}

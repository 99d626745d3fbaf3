/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was there at the start, from lines.  Whether it can have been (what overlaps, sizes
 * that no allocator gives) is the replay's to judge.
 */
#include "tools/trace/somastart.h"

#include <inttypes.h>
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

	if (event->size > UINT64_MAX - event->ptr)
		return trace_fail_line(csv->reader, csv->line,
				       "a segment at 0x%" PRIx64 " of %" PRIu64
				       " bytes, past the end of the address space",
				       event->ptr, event->size);
	if (!trace_reserve((void **)&snapshot->segments, &start->segment_room, snapshot->segment_count + 1,
			   sizeof *snapshot->segments))
		return trace_no_memory(csv->reader);
	start->block_room = 0;
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

void
soma_start_clear(struct soma_start *start)
{
	for (size_t i = 0; i < start->snapshot.segment_count; i++)
		trace_release(start->snapshot.segments[i].blocks);
	trace_release(start->snapshot.segments);
	*start = (struct soma_start){ .snapshot.at_start = true };
}

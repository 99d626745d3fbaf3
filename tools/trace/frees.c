/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch was told not to record of frees.  A free is two entries, and a program may
 * ask for traces without the one or the other (skip_actions): what is left of it is then
 * the whole free, and not one that waits for streams.
 *
 * A pickle spells out a text where it first comes, so the file says which of the two it has.
 */
#include "config.h" /* first: memmem */

#include <string.h>

#include "tools/trace/snapshot.h"

/* Whether the text stands in what is there; the last bytes may be the beginning of one. */
static bool
has_text(const struct trace_input *in, const char *text)
{
	return memmem(in->pos, (size_t)(in->end - in->pos), text, strlen(text)) != NULL;
}

/* Reads until both are found.  What is wrong with the file is met again by who reads it. */
enum trace_result
snapshot_find_frees(struct snapshot_reader *sr)
{
	static const char requested[] = "free_requested", completed[] = "free_completed";
	struct trace_input *in = &sr->reader->input;
	size_t keep = sizeof requested - 2;

	sr->has_requests = sr->has_completions = false;
	do {
		sr->has_requests |= has_text(in, requested);
		sr->has_completions |= has_text(in, completed);
		if ((size_t)(in->end - in->pos) > keep)
			in->pos = in->end - keep;
	} while (!(sr->has_requests && sr->has_completions) && trace_input_more(in));
	return trace_input_rewind(in);
}

static bool
is_pending(const struct trace_segment *segment, uint64_t address)
{
	size_t low = 0, high = segment->block_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (segment->blocks[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < segment->block_count && segment->blocks[low].address == address &&
	       segment->blocks[low].state == TRACE_BLOCK_PENDING;
}

/* Whether a requested free whose completion is not the next entry waits for one.  In a trace
 * without completions only those do that still wait at its end. */
bool
snapshot_waits(const struct snapshot_reader *sr, const struct trace_event *event)
{
	const struct trace_snapshot *snapshot = &sr->snapshot;

	for (size_t i = 0; !sr->has_completions && i < snapshot->segment_count; i++) {
		const struct trace_segment *segment = &snapshot->segments[i];

		if (segment->device == event->device && event->ptr - segment->address < segment->size)
			return is_pending(segment, event->ptr);
	}
	return sr->has_completions;
}

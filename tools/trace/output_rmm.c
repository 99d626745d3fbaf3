/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RMM's log.  A time of the first day is written as the time of day, a later one as
 * seconds, which readers tell apart; nanoseconds are kept.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/trace/output.h"

#define SECOND ((uint64_t)1000000000)
#define DAY (86400 * SECOND)

static enum trace_result
rmm_open(struct trace_output *output, const char *path, struct trace_error *error)
{
	return trace_output_open_blocks(output, path, "Thread,Time,Action,Pointer,Size,Stream\n", error);
}

static void
put_time(struct trace_output *output, uint64_t time_ns)
{
	uint64_t seconds = time_ns / SECOND, part = time_ns % SECOND;
	unsigned day = (unsigned)(seconds % 86400);
	int digits = part % 1000 == 0 ? 6 : 9;
	char text[64];

	if (time_ns < DAY)
		snprintf(text, sizeof text, ",%02u:%02u:%02u.%0*" PRIu64 ",", day / 3600, day / 60 % 60,
			 day % 60, digits, digits == 6 ? part / 1000 : part);
	else
		snprintf(text, sizeof text, ",%" PRIu64 ".%09" PRIu64 ",", seconds, part);
	trace_sink_string(output->sink, text);
}

static void
put_line(struct trace_output *output, const struct trace_event *event, const char *action, uint64_t size)
{
	char text[96];

	trace_sink_number(output->sink, event->thread, 10);
	put_time(output, event->time_ns);
	trace_sink_string(output->sink, action);
	if (event->ptr != 0)
		snprintf(text, sizeof text, ",0x%" PRIx64 ",%" PRIu64 ",0x%" PRIx64 "\n", event->ptr, size,
			 event->stream);
	else
		snprintf(text, sizeof text, ",(nil),%" PRIu64 ",0x%" PRIx64 "\n", size, event->stream);
	trace_sink_string(output->sink, text);
}

/* A free's size, where it does not say it itself. */
static uint64_t
size_of_free(struct trace_output *output, const struct trace_event *event)
{
	struct trace_map_entry *entry = trace_map_find(&output->live, event->ptr);
	uint64_t size = event->size;

	if (entry == NULL)
		return size;
	if (size == 0)
		size = entry->number;
	trace_map_remove(&output->live, entry);
	return size;
}

static void
note_alloc(struct trace_output *output, const struct trace_event *event)
{
	struct trace_map_entry *entry = trace_map_need(&output->live, event->ptr);

	if (entry != NULL)
		entry->number = event->size;
	else
		output->no_memory = true;
}

static void
lose(struct trace_output *output, const struct trace_event *event)
{
	trace_output_lose(output, LOSS_TAGS, event->holder != 0);
	trace_output_lose(output, LOSS_DETAILS, event->detail != 0);
	trace_output_lose(output, LOSS_GENERATIONS, event->generation != 0);
	trace_output_lose(output, LOSS_POOLS,
			  event->has_pool && (event->pool[0] != 0 || event->pool[1] != 0));
	trace_output_lose(output, LOSS_DEFERRED, event->deferred);
}

static void
rmm_put(struct trace_output *output, const struct trace_event *event, const char *holder, const char *detail)
{
	(void)holder;
	(void)detail;
	switch (event->op) {
	case TRACE_ALLOC:
		note_alloc(output, event);
		put_line(output, event, "allocate", event->size);
		lose(output, event);
		break;
	case TRACE_FREE:
		put_line(output, event, "free", size_of_free(output, event));
		lose(output, event);
		break;
	case TRACE_ALLOC_FAILED:
	case TRACE_OOM:
		put_line(output, event, "allocate failure", event->size);
		lose(output, event);
		break;
	case TRACE_FREE_COMPLETED:
		break; /* with its deferred free */
	case TRACE_SEGMENT_ALLOC:
	case TRACE_SEGMENT_FREE:
	case TRACE_SEGMENT_MAP:
	case TRACE_SEGMENT_UNMAP:
	case TRACE_TRIM:
		output->lost[LOSS_SEGMENTS]++;
		break;
	case TRACE_MARK:
		output->lost[LOSS_MARKS]++;
		break;
	default:
		output->lost[LOSS_ORDER]++;
	}
}

const struct trace_output_format trace_output_rmm = {
	.name = "rmm",
	.ending = ".rmm.csv",
	.one_device = true,
	.open = rmm_open,
	.put = rmm_put,
	.close = trace_output_close_sink,
};

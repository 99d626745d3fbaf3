/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement instances: id,lower,upper,size, upper exclusive.  lower and upper count the
 * events, so that the order is exact where times are equal or missing.  A block lives
 * until its memory may be used again: a deferred free ends it when it takes effect.
 */
#include "tools/trace/output.h"

/* number: lower; other: size; name: the id less 1 */

static enum trace_result
placement_open(struct trace_output *output, const char *path, struct trace_error *error)
{
	return trace_output_open_blocks(output, path, "id,lower,upper,size\n", error);
}

static void
put_block(struct trace_output *output, const struct trace_map_entry *block)
{
	const uint64_t numbers[] = { block->name, block->number, output->events, block->other };

	for (int i = 0; i < 4; i++) {
		trace_sink_number(output->sink, numbers[i], 10);
		trace_sink_bytes(output->sink, i < 3 ? "," : "\n", 1);
	}
}

static void
end_block(struct trace_output *output, const struct trace_event *event)
{
	struct trace_map_entry *block = trace_map_find(&output->live, event->ptr);

	trace_output_lose(output, LOSS_UNKNOWN, block == NULL && event->ptr != 0 && event->op == TRACE_FREE);
	if (block == NULL)
		return;
	put_block(output, block);
	trace_map_remove(&output->live, block);
}

static void
begin_block(struct trace_output *output, const struct trace_event *event)
{
	struct trace_map_entry *block = trace_map_find(&output->live, event->ptr);
	uint32_t *count = (uint32_t *)(void *)&output->state;

	if (event->ptr == 0 || event->size == 0)
		return;
	if (block != NULL)
		put_block(output, block); /* its free is missing */
	block = trace_map_need(&output->live, event->ptr);
	if (block == NULL) {
		output->no_memory = true;
		return;
	}
	block->number = output->events;
	block->other = event->size;
	block->name = (*count)++;
}

static void
lose(struct trace_output *output, const struct trace_event *event)
{
	trace_output_lose(output, LOSS_TAGS, event->holder != 0);
	trace_output_lose(output, LOSS_STREAMS, event->stream != 0);
	trace_output_lose(output, LOSS_THREADS, event->thread != 0);
	trace_output_lose(output, LOSS_TIMES, event->time_ns != 0);
	trace_output_lose(output, LOSS_GENERATIONS, event->generation != 0);
	trace_output_lose(output, LOSS_POOLS,
			  event->has_pool && (event->pool[0] != 0 || event->pool[1] != 0));
}

static void
placement_put(struct trace_output *output, const struct trace_event *event, const char *holder,
	      const char *detail)
{
	(void)holder;
	(void)detail;
	switch (event->op) {
	case TRACE_ALLOC:
		begin_block(output, event);
		lose(output, event);
		break;
	case TRACE_FREE:
		if (!event->deferred)
			end_block(output, event);
		break;
	case TRACE_FREE_COMPLETED:
		end_block(output, event);
		break;
	case TRACE_ALLOC_FAILED:
	case TRACE_OOM:
		output->lost[LOSS_FAILED]++;
		break;
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

/* What lives at the end lives until then. */
static enum trace_result
placement_close(struct trace_output *output, struct trace_error *error)
{
	for (size_t i = 0; i < output->live.room; i++)
		if (output->live.at[i].used)
			put_block(output, &output->live.at[i]);
	return trace_output_close_sink(output, error);
}

const struct trace_output_format trace_output_placement = {
	.name = "placement",
	.ending = ".placement.csv",
	.one_device = true,
	.open = placement_open,
	.put = placement_put,
	.close = placement_close,
};

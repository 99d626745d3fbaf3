/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine tells those who look on.
 */
#include "tools/engine/watch.h"

#include "tools/engine/expandable.h"
#include "tools/engine/run.h"

static struct watch_at
now(const struct run *run)
{
	return (struct watch_at){ run->event, run->x, &run->streams };
}

void
watch_begin(const struct run *run)
{
	const struct watch *watch = run->plan->options->watch;

	if (watch != NULL)
		watch->begin(watch->context, &run->result->series, run->plan->policy);
}

static unsigned
size_pool(const struct soma_policy *policy, uint64_t size)
{
	uint64_t over = size % policy->alignment;
	unsigned row = 0;

	if (over != 0 && size <= UINT64_MAX - policy->alignment)
		size += policy->alignment - over;
	while (row + 1 < policy->pool_count && size > policy->pools[row].request_max)
		row++;
	return row;
}

void
watch_enter(const struct run *run, uint64_t ptr, uint64_t size, uint64_t stream, trace_name holder)
{
	const struct watch *watch = run->plan->options->watch;
	const struct watch_at at = now(run);
	struct watch_block block = { .ptr = ptr, .size = size, .holder = holder };

	if (watch == NULL)
		return;
	block.stream = streams_handle(&run->streams, stream, block.pool);
	block.size_pool = size_pool(run->plan->policy, size);
	watch->enter(watch->context, &at, &block);
}

void
watch_leave(const struct run *run, uint64_t ptr)
{
	const struct watch *watch = run->plan->options->watch;
	const struct watch_at at = now(run);

	if (watch != NULL)
		watch->leave(watch->context, &at, ptr);
}

void
watch_tell(const struct run *run, enum watch_moment moment)
{
	const struct watch *watch = run->plan->options->watch;
	const struct watch_at at = now(run);

	if (watch != NULL)
		watch->moment(watch->context, &at, moment);
}

void
watch_walk(const struct watch_at *at, bool (*visit)(void *context, const struct soma_extent *extent),
	   void *context)
{
	if (at->streams->expandable != NULL)
		expandable_walk(at->streams->expandable, visit, context);
	else
		soma_model_walk(at->streams->model, visit, context);
}

uint64_t
watch_handle(const struct watch_at *at, uint64_t stream)
{
	uint64_t pool[2];

	return streams_handle(at->streams, stream, pool);
}

uint64_t
watch_live(const struct watch_at *at)
{
	return streams_used(at->streams);
}

uint64_t
watch_reserved(const struct watch_at *at)
{
	return streams_reserved(at->streams);
}

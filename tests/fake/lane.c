/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: the queues underneath streams, and what is ordered before what.
 *
 * A lane's positions only grow, also when it serves another stream later, so a (lane, position)
 * stays meaningful for ever and lanes are never given back.  Position p is the p-th operation.
 */
#include "tests/fake/state.h"

#include <stdlib.h>
#include <string.h>

static unsigned lane_count;
static struct lane **by_index;

static struct lane *
lane_new(void)
{
	struct lane *lane = calloc(1, sizeof *lane);
	struct lane **grown = realloc(by_index, (lane_count + 1) * sizeof *grown);

	if (lane == NULL || grown == NULL)
		abort();
	by_index = grown;
	lane->index = lane_count;
	by_index[lane_count++] = lane;
	lane->tail = &lane->head;
	lane->next = world.lanes;
	world.lanes = lane;
	return lane;
}

struct lane *
lane_by_index(unsigned index)
{
	return by_index[index];
}

/* A lane is used again only when the host has seen all of it end: until then its blocks and
 * events may still be told from the new stream's. */
struct lane *
lane_open(struct fake_context *context, bool blocking)
{
	struct lane *lane = world.lanes;

	while (lane != NULL && (lane->in_use || lane->busy || lane->observed < lane->submitted ||
				lane->known < lane->submitted))
		lane = lane->next;
	if (lane == NULL)
		lane = lane_new();
	lane->context = context;
	lane->blocking = blocking;
	lane->legacy = false;
	lane->in_use = true;
	lane->capture = NULL;
	lane->id = ++world.serial;
	lane->barrier = lane->submitted;
	for (unsigned i = 0; i < lane->clocks; i++)
		lane->clock[i] = 0;
	return lane;
}

/* Its work goes on. */
void
lane_close(struct lane *lane)
{
	capture_leave(lane);
	lane->in_use = false;
}

uint64_t
lane_clock(const struct lane *lane, unsigned index)
{
	return index < lane->clocks ? lane->clock[index] : 0;
}

void
clock_raise(uint64_t **clock, unsigned *clocks, unsigned index, uint64_t pos)
{
	if (index >= *clocks) {
		uint64_t *grown = realloc(*clock, (index + 1) * sizeof *grown);
		if (grown == NULL)
			abort();
		memset(grown + *clocks, 0, (index + 1 - *clocks) * sizeof *grown);
		*clock = grown;
		*clocks = index + 1;
	}
	if ((*clock)[index] < pos)
		(*clock)[index] = pos;
}

/* What the lane does next comes after the other's position and what that came after. */
void
lane_join(struct lane *lane, struct lane *other, uint64_t pos, const uint64_t *clock, unsigned clocks)
{
	for (unsigned i = 0; i < clocks; i++)
		if (clock[i] != 0 && i != lane->index)
			clock_raise(&lane->clock, &lane->clocks, i, clock[i]);
	if (other != lane)
		clock_raise(&lane->clock, &lane->clocks, other->index, pos);
}

static void
raise_seen(struct lane *lane, uint64_t pos, bool waited)
{
	if (pos > lane->executed)
		pos = lane->executed;
	if (lane->known < pos)
		lane->known = pos;
	if ((waited || FAKE_QUERY_OBSERVES) && lane->observed < pos)
		lane->observed = pos;
}

/* The host learned that the position, and what it came after, is done. */
void
lane_seen(struct lane *lane, uint64_t pos, const uint64_t *clock, unsigned clocks, bool waited)
{
	for (unsigned i = 0; i < clocks; i++)
		if (clock[i] != 0)
			raise_seen(by_index[i], clock[i], waited);
	raise_seen(lane, pos, waited);
}

/* ---- from a stream --------------------------------------------------------------------- */

static struct lane *
default_lane(struct fake_context *context, bool own)
{
	struct thread *self = thread_self();
	struct lane **lane = own ? &self->own[context->device] : &context->legacy;

	if (*lane == NULL) {
		*lane = lane_open(context, own);
		(*lane)->legacy = !own;
	}
	return *lane;
}

CUresult
lane_find(CUstream stream, bool own, struct lane **lane)
{
	if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
		struct fake_context *context = context_current();
		if (context == NULL)
			return CUDA_ERROR_INVALID_CONTEXT;
		*lane = default_lane(context, stream == CU_STREAM_PER_THREAD || (stream == NULL && own));
		return CUDA_SUCCESS;
	}
	struct fake_stream *record = handle_find(stream, KIND_STREAM);
	if (record == NULL)
		return FAKE_STALE_HANDLE;
	*lane = record->lane;
	return record->lane->context->sticky;
}

void
lanes_restart(void)
{
	while (world.lanes != NULL) {
		struct lane *lane = world.lanes;
		world.lanes = lane->next;
		while (lane->head != NULL) {
			struct op *op = lane->head;
			lane->head = op->next;
			op_free(op);
		}
		free(lane->clock);
		free(lane);
	}
	free(by_index);
	by_index = NULL;
	lane_count = 0;
	ops_restart();
}

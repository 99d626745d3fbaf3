/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events.  Recording is an operation of its own, and what the event stands for is its position
 * and what the stream had waited for until then; recording again replaces both.
 */
#include "tests/fake/state.h"

#include <stdlib.h>
#include <string.h>

static CUresult
create(CUevent *event, unsigned flags)
{
	if (event == NULL || flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	*event = handle_new(KIND_EVENT, sizeof **event, context_current());
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuEventCreate(CUevent *event, unsigned flags)
{
	CALL(cuEventCreate, create(event, flags));
}

void
event_fini(struct fake_event *event)
{
	free(event->clock);
	event->clock = NULL;
	event->clocks = 0;
}

static CUresult
destroy(CUevent event)
{
	if (handle_find(event, KIND_EVENT) == NULL)
		return FAKE_STALE_HANDLE;
	event_fini(event);
	handle_drop(event);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuEventDestroy_v2(CUevent event)
{
	CALL(cuEventDestroy_v2, destroy(event));
}

/* Whether it was recorded in a capture that is going on still. */
static bool
is_captured(const struct fake_event *event)
{
	return event->capture_id != 0;
}

static struct capture *
capture_of(const struct fake_event *event)
{
	for (struct capture *c = world.captures; c != NULL; c = c->next)
		if (c->id == event->capture_id)
			return c;
	return NULL;
}

static void
take_clock(struct fake_event *event, const struct lane *lane)
{
	if (event->clocks < lane->clocks) {
		uint64_t *grown = realloc(event->clock, lane->clocks * sizeof *grown);
		if (grown == NULL)
			abort();
		event->clock = grown;
	}
	event->clocks = lane->clocks;
	if (lane->clocks != 0)
		memcpy(event->clock, lane->clock, lane->clocks * sizeof *lane->clock);
}

static CUresult
record(CUevent event, CUstream stream, bool own)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	if (handle_find(event, KIND_EVENT) == NULL)
		return FAKE_STALE_HANDLE;
	if (event->handle.context != lane->context)
		return CUDA_ERROR_INVALID_HANDLE;
	bool captured = lane->capture != NULL;
	result = submit(lane, op_new(OP_RECORD, "cuEventRecord"));
	if (result != CUDA_SUCCESS)
		return result;
	event->capture_id = captured && lane->capture != NULL ? lane->capture->id : 0;
	event->captured_on = lane;
	if (captured)
		return CUDA_SUCCESS;
	event->at = (struct dep){ lane, lane->submitted };
	lane->barrier = lane->submitted;
	take_clock(event, lane);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuEventRecord(CUevent event, CUstream stream)
{
	CALL(cuEventRecord, record(event, stream, false));
}

EXPORT CUresult
cuEventRecord_ptsz(CUevent event, CUstream stream)
{
	CALL(cuEventRecord, record(event, stream, true));
}

/* A stream that waits for a captured event takes part in the capture from then on. */
static CUresult
join_capture(struct lane *lane, struct capture *capture, struct lane *from)
{
	if (capture == NULL)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (lane->legacy) {
		capture_invalidate(capture);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (lane->capture == NULL) {
		lane->capture = capture;
		capture->lanes++;
	} else if (lane->capture != capture) {
		capture_invalidate(capture);
		capture_invalidate(lane->capture);
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	} else if (lane == capture->origin && from != lane && !from->joined) {
		from->joined = true;
		capture->joined++;
	}
	return CUDA_SUCCESS;
}

static CUresult
wait_in_capture(struct lane *lane, struct fake_event *event)
{
	if (is_captured(event))
		return join_capture(lane, capture_of(event), event->captured_on);
	if (event->at.lane == NULL)
		return CUDA_SUCCESS;
	capture_invalidate(lane->capture);
	return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

static CUresult
wait_for(CUstream stream, CUevent event, unsigned flags, bool own)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	if (handle_find(event, KIND_EVENT) == NULL)
		return FAKE_STALE_HANDLE;
	if (lane->capture != NULL || is_captured(event))
		return wait_in_capture(lane, event);
	struct op *op = op_new(OP_WAIT, "cuStreamWaitEvent");
	if (event->at.lane != NULL && event->at.lane != lane) {
		op_wait_for(op, event->at.lane, event->at.pos);
		lane_join(lane, event->at.lane, event->at.pos, event->clock, event->clocks);
	}
	return submit(lane, op);
}

EXPORT CUresult
cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	CALL(cuStreamWaitEvent, wait_for(stream, event, flags, false));
}

EXPORT CUresult
cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags)
{
	CALL(cuStreamWaitEvent, wait_for(stream, event, flags, true));
}

/* ---- the host's side ------------------------------------------------------------------- */

static CUresult
check(struct fake_event *event)
{
	if (handle_find(event, KIND_EVENT) == NULL)
		return FAKE_STALE_HANDLE;
	if (!is_captured(event))
		return event->handle.context->sticky;
	struct capture *capture = capture_of(event);
	if (capture != NULL)
		capture_invalidate(capture);
	return CUDA_ERROR_CAPTURED_EVENT;
}

static CUresult
seen(struct fake_event *event, struct dep at, const uint64_t *clock, unsigned clocks, bool waited)
{
	struct fake_context *context = event->handle.context;

	lane_seen(at.lane, at.pos, clock, clocks, waited);
	if (waited || FAKE_QUERY_OBSERVES)
		pools_synchronized(waited || FAKE_QUERY_RELEASES);
	CUresult result = context->sticky != CUDA_SUCCESS ? context->sticky : context->deferred;
	context->deferred = CUDA_SUCCESS;
	return result;
}

static CUresult
query(CUevent event)
{
	CUresult result = check(event);

	if (result != CUDA_SUCCESS || event->at.lane == NULL)
		return result;
	if (event->at.lane->executed < event->at.pos)
		return CUDA_ERROR_NOT_READY;
	return seen(event, event->at, event->clock, event->clocks, false);
}

EXPORT CUresult
cuEventQuery(CUevent event)
{
	CALL(cuEventQuery, query(event));
}

/* Another thread may record the event anew meanwhile. */
static CUresult
synchronize(CUevent event)
{
	CUresult result = check(event);
	struct fake_event was;

	if (result != CUDA_SUCCESS || event->at.lane == NULL)
		return result;
	was = *event;
	was.clock = malloc((was.clocks + 1) * sizeof *was.clock);
	if (was.clock == NULL)
		abort();
	if (was.clocks != 0)
		memcpy(was.clock, event->clock, was.clocks * sizeof *was.clock);
	drive(was.at.lane, was.at.pos);
	result = seen(&was, was.at, was.clock, was.clocks, true);
	free(was.clock);
	return result;
}

EXPORT CUresult
cuEventSynchronize(CUevent event)
{
	CALL(cuEventSynchronize, synchronize(event));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures: streams whose operations go into a graph instead of running, and what may not be
 * called meanwhile.
 */
#include "tests/fake/state.h"

#include <stdlib.h>

void
capture_invalidate(struct capture *capture)
{
	capture->invalid = true;
}

/* Queries and waits are illegal on a capturing stream. */
CUresult
capture_status(struct lane *lane)
{
	if (lane->legacy)
		return capture_legacy(lane->context, false);
	if (lane->capture == NULL)
		return CUDA_SUCCESS;
	if (lane->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	capture_invalidate(lane->capture);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/*
 * A call that may be unsafe: not while any thread captures globally, unless this thread said
 * RELAXED; nor while this thread captures, unless one of the two is RELAXED.
 */
CUresult
captures_forbid(struct thread *thread)
{
	CUresult result = CUDA_SUCCESS;

	if (thread->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	for (struct capture *c = world.captures; c != NULL; c = c->next) {
		bool concerned =
			c->thread == thread || (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
						thread->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
		if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED || !concerned)
			continue;
		capture_invalidate(c);
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return result;
}

/* Waiting for a whole context conflicts with a capture in it, in whatever mode. */
CUresult
captures_conflict(struct fake_context *context)
{
	CUresult result = CUDA_SUCCESS;

	for (struct capture *c = world.captures; c != NULL; c = c->next) {
		if (c->origin->context != context)
			continue;
		capture_invalidate(c);
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return result;
}

/* The legacy stream would wait for blocking streams that are capturing. */
CUresult
capture_legacy(struct fake_context *context, bool asks)
{
	CUresult result = CUDA_SUCCESS;

	for (struct lane *lane = world.lanes; lane != NULL; lane = lane->next) {
		if (lane->context != context || !lane->blocking || lane->capture == NULL)
			continue;
		if (!asks)
			capture_invalidate(lane->capture);
		result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	return result;
}

CUresult
capture_add(struct capture *capture, struct op *op)
{
	struct lane *lane = op->lane;

	if (capture->invalid) {
		op_free(op);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	if (lane->joined) {
		lane->joined = false;
		capture->joined--;
	}
	op->next = NULL;
	*capture->graph->tail = op;
	capture->graph->tail = &op->next;
	capture->graph->count++;
	return CUDA_SUCCESS;
}

static void
capture_drop(struct capture *capture)
{
	struct capture **link = &world.captures;

	while (*link != capture)
		link = &(*link)->next;
	*link = capture->next;
	for (struct lane *lane = world.lanes; lane != NULL; lane = lane->next) {
		if (lane->capture == capture) {
			lane->capture = NULL;
			lane->joined = false;
		}
	}
	free(capture);
}

/* The stream or the thread is gone.  A capture that nobody can end any more is over. */
void
capture_leave(struct lane *lane)
{
	struct capture *c = lane->capture;

	if (c == NULL)
		return;
	if (c->origin == lane) {
		graph_handle_drop(c->handle);
		capture_drop(c);
		return;
	}
	capture_invalidate(c);
	lane->capture = NULL;
}

/* ---- beginning and ending ------------------------------------------------------------------- */

static CUresult
begin(CUstream stream, CUstreamCaptureMode mode, bool own)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	if ((unsigned)mode > 2)
		return CUDA_ERROR_INVALID_VALUE;
	if (lane->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (lane->capture != NULL)
		return CUDA_ERROR_ILLEGAL_STATE;
	struct capture *c = calloc(1, sizeof *c);
	if (c == NULL)
		abort();
	c->id = ++world.serial;
	c->mode = mode;
	c->thread = thread_self();
	c->origin = lane;
	c->graph = graph_new();
	c->handle = graph_handle(c->graph);
	c->lanes = 1;
	c->next = world.captures;
	world.captures = c;
	lane->capture = c;
	lane->joined = false;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	CALL(cuStreamBeginCapture_v2, begin(stream, mode, false));
}

EXPORT CUresult
cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	CALL(cuStreamBeginCapture_v2, begin(stream, mode, true));
}

static CUresult
end(CUstream stream, CUgraph *graph, bool own)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	if (graph == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	struct capture *c = lane->capture;
	if (c == NULL)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != thread_self())
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (lane != c->origin) {
		capture_invalidate(c);
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (c->invalid)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (c->joined != c->lanes - 1)
		result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	*graph = result == CUDA_SUCCESS ? c->handle : NULL;
	if (result != CUDA_SUCCESS)
		graph_handle_drop(c->handle);
	capture_drop(c);
	return result;
}

EXPORT CUresult
cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CALL(cuStreamEndCapture, end(stream, graph, false));
}

EXPORT CUresult
cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	CALL(cuStreamEndCapture, end(stream, graph, true));
}

void
captures_restart(void)
{
	while (world.captures != NULL)
		capture_drop(world.captures);
	graphs_restart();
}

/* ---- asking ------------------------------------------------------------------------------------ */

static CUstreamCaptureStatus
status_of(const struct lane *lane)
{
	if (lane->capture == NULL)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return lane->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
				      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static CUresult
find(CUstream stream, bool own, struct lane **lane)
{
	CUresult result = lane_find(stream, own, lane);

	if (result == CUDA_SUCCESS && (*lane)->legacy)
		result = capture_legacy((*lane)->context, true);
	return result;
}

static CUresult
is_capturing(CUstream stream, CUstreamCaptureStatus *status, bool own)
{
	struct lane *lane;
	CUresult result = find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	if (status == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*status = status_of(lane);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	CALL(cuStreamIsCapturing, is_capturing(stream, status, false));
}

EXPORT CUresult
cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus *status)
{
	CALL(cuStreamIsCapturing, is_capturing(stream, status, true));
}

/* Nodes are not told. */
static CUresult
get_info(CUstream stream, bool own, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph,
	 const CUgraphNode **dependencies, size_t *count)
{
	struct lane *lane;
	CUresult result = find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	if (status == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*status = status_of(lane);
	if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (id != NULL)
		*id = lane->capture->id;
	if (graph != NULL)
		*graph = lane->capture->handle;
	if (dependencies != NULL)
		*dependencies = NULL;
	if (count != NULL)
		*count = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph,
			  const CUgraphNode **dependencies, size_t *count)
{
	CALL(cuStreamGetCaptureInfo_v2, get_info(stream, false, status, id, graph, dependencies, count));
}

EXPORT CUresult
cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph,
			       const CUgraphNode **dependencies, size_t *count)
{
	CALL(cuStreamGetCaptureInfo_v2, get_info(stream, true, status, id, graph, dependencies, count));
}

EXPORT CUresult
cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph,
			  const CUgraphNode **dependencies, const void **edges, size_t *count)
{
	if (edges != NULL)
		*edges = NULL;
	CALL(cuStreamGetCaptureInfo_v3, get_info(stream, false, status, id, graph, dependencies, count));
}

EXPORT CUresult
cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph,
			       const CUgraphNode **dependencies, const void **edges, size_t *count)
{
	if (edges != NULL)
		*edges = NULL;
	CALL(cuStreamGetCaptureInfo_v3, get_info(stream, true, status, id, graph, dependencies, count));
}

static CUresult
exchange(CUstreamCaptureMode *mode)
{
	struct thread *self = thread_self();

	if (mode == NULL || (unsigned)*mode > 2)
		return CUDA_ERROR_INVALID_VALUE;
	CUstreamCaptureMode was = self->capture_mode;
	self->capture_mode = *mode;
	*mode = was;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CALL(cuThreadExchangeStreamCaptureMode, exchange(mode));
}

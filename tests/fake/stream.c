/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and waiting for them.
 */
#include "tests/fake/state.h"

static CUresult
create(CUstream *stream, unsigned flags)
{
	struct fake_context *context = context_current();

	if (stream == NULL || flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	struct fake_stream *s = handle_new(KIND_STREAM, sizeof *s, context);
	s->lane = lane_open(context, flags != CU_STREAM_NON_BLOCKING);
	s->flags = flags;
	*stream = s;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuStreamCreate(CUstream *stream, unsigned flags)
{
	CALL(cuStreamCreate, create(stream, flags));
}

EXPORT CUresult
cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
	(void)priority;
	CALL(cuStreamCreateWithPriority, create(stream, flags));
}

static CUresult
destroy(CUstream stream)
{
	struct fake_stream *s = handle_find(stream, KIND_STREAM);

	if (s == NULL)
		return FAKE_STALE_HANDLE;
	lane_close(s->lane);
	handle_drop(s);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuStreamDestroy_v2(CUstream stream)
{
	CALL(cuStreamDestroy_v2, destroy(stream));
}

/* What an executed lane left behind, told once. */
static CUresult
error_of(struct fake_context *context)
{
	if (context->sticky != CUDA_SUCCESS)
		return context->sticky;
	CUresult deferred = context->deferred;
	context->deferred = CUDA_SUCCESS;
	return deferred;
}

/* The blocking streams count with the legacy one. */
static bool
is_done(const struct lane *lane)
{
	if (lane->executed < lane->submitted)
		return false;
	for (const struct lane *l = world.lanes; lane->legacy && l != NULL; l = l->next)
		if (l->context == lane->context && l->blocking && l->executed < l->submitted)
			return false;
	return true;
}

static void
see(struct lane *lane, uint64_t pos, bool waited)
{
	lane_seen(lane, pos, lane->clock, lane->clocks, waited);
	for (struct lane *l = world.lanes; lane->legacy && l != NULL; l = l->next)
		if (l->context == lane->context && l->blocking)
			lane_seen(l, l->executed, NULL, 0, waited);
	if (waited || FAKE_QUERY_OBSERVES)
		pools_synchronized(waited || FAKE_QUERY_RELEASES);
}

static CUresult
query(CUstream stream, bool own)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);

	if (result == CUDA_SUCCESS)
		result = capture_status(lane);
	if (result != CUDA_SUCCESS)
		return result;
	if (!is_done(lane))
		return CUDA_ERROR_NOT_READY;
	see(lane, lane->submitted, false);
	return error_of(lane->context);
}

EXPORT CUresult
cuStreamQuery(CUstream stream)
{
	CALL(cuStreamQuery, query(stream, false));
}

EXPORT CUresult
cuStreamQuery_ptsz(CUstream stream)
{
	CALL(cuStreamQuery, query(stream, true));
}

static CUresult
synchronize(CUstream stream, bool own)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);

	if (result == CUDA_SUCCESS)
		result = capture_status(lane);
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t pos = lane->submitted;
	for (struct lane *l = world.lanes; lane->legacy && l != NULL; l = l->next)
		if (l->context == lane->context && l->blocking)
			drive(l, l->submitted);
	drive(lane, pos);
	see(lane, pos, true);
	return error_of(lane->context);
}

EXPORT CUresult
cuStreamSynchronize(CUstream stream)
{
	CALL(cuStreamSynchronize, synchronize(stream, false));
}

EXPORT CUresult
cuStreamSynchronize_ptsz(CUstream stream)
{
	CALL(cuStreamSynchronize, synchronize(stream, true));
}

/* ---- asking ------------------------------------------------------------------------------- */

enum question { STREAM_ID, STREAM_FLAGS, STREAM_CONTEXT };

static CUresult
ask(CUstream stream, bool own, enum question question, void *answer)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	if (answer == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	switch (question) {
	case STREAM_ID:
		*(unsigned long long *)answer = lane->id;
		break;
	case STREAM_FLAGS:
		*(unsigned *)answer =
			lane->legacy || lane->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
		break;
	case STREAM_CONTEXT:
		*(CUcontext *)answer = lane->context;
		break;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuStreamGetId(CUstream stream, unsigned long long *id)
{
	CALL(cuStreamGetId, ask(stream, false, STREAM_ID, id));
}

EXPORT CUresult
cuStreamGetId_ptsz(CUstream stream, unsigned long long *id)
{
	CALL(cuStreamGetId, ask(stream, true, STREAM_ID, id));
}

EXPORT CUresult
cuStreamGetFlags(CUstream stream, unsigned *flags)
{
	CALL(cuStreamGetFlags, ask(stream, false, STREAM_FLAGS, flags));
}

EXPORT CUresult
cuStreamGetFlags_ptsz(CUstream stream, unsigned *flags)
{
	CALL(cuStreamGetFlags, ask(stream, true, STREAM_FLAGS, flags));
}

EXPORT CUresult
cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	CALL(cuStreamGetCtx, ask(stream, false, STREAM_CONTEXT, context));
}

EXPORT CUresult
cuStreamGetCtx_ptsz(CUstream stream, CUcontext *context)
{
	CALL(cuStreamGetCtx, ask(stream, true, STREAM_CONTEXT, context));
}

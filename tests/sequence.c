/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a sequence; see sequence.h.  What the two engines answer is compared after
 * every operation, field by field.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "tests/sequence_state.h"

/* ---- operations ------------------------------------------------------------ */

bool
run_stream_of(const struct run *run, unsigned label, uint64_t *stream)
{
	if (label == LABEL_UNKNOWN)
		*stream = 0xabcde12345;
	else if (label == 0 || (label < run->labels && run->streams[label] != 0))
		*stream = label == 0 ? 0 : run->streams[label];
	else
		return false;
	return true;
}

static void
remember_alloc(struct run *run, unsigned label, const struct soma_model_alloc *alloc)
{
	run->allocs[label] = *alloc;
	run->recent[run->recent_count++ % RECENT] = label;
}

static bool
run_alloc(struct run *run, const struct op *op, uint64_t stream)
{
	struct soma_model_alloc a[2] = { 0 };
	enum soma_status status[2];

	EACH (i)
		status[i] = CALL(i, alloc, op->size, stream, &a[i]);
	if (!run_same_status(run, status) || !run_same(run, "ptr", a[0].ptr, a[1].ptr) ||
	    !run_same(run, "capacity", a[0].capacity, a[1].capacity) ||
	    !run_same(run, "ready_seq", a[0].ready_seq, a[1].ready_seq) ||
	    !run_same(run, "wait_stream", a[0].wait_stream, a[1].wait_stream) ||
	    !run_same(run, "wait_seq", a[0].wait_seq, a[1].wait_seq) ||
	    !run_same(run, "alloc size", a[0].size, a[1].size) ||
	    !run_same(run, "stream", a[0].stream, a[1].stream))
		return false;
	if (run->status == SOMA_STATUS_OK && run->maps &&
	    source_mapped(&run->source[0], a[0].ptr, a[0].capacity) != a[0].capacity)
		return run_differs(run, "the block at 0x%" PRIx64 " is not wholly mapped", a[0].ptr);
	if (run->status == SOMA_STATUS_OK)
		remember_alloc(run, op->label, &a[0]);
	return true;
}

static bool
run_free(struct run *run, uint64_t ptr, uint64_t stream)
{
	enum soma_status status[2];

	EACH (i)
		status[i] = CALL(i, free, ptr, stream);
	return run_same_status(run, status);
}

static bool
run_stream_create(struct run *run, const struct op *op)
{
	enum soma_status status[2];
	uint64_t id[2] = { 0, 0 };

	EACH (i)
		status[i] = CALL(i, stream_create, op->flags, &id[i]);
	if (!run_same_status(run, status) || !run_same(run, "stream id", id[0], id[1]))
		return false;
	run->streams[op->label] = id[0];
	return true;
}

static bool
run_record(struct run *run, const struct op *op, uint64_t stream)
{
	enum soma_status status[2];
	uint64_t seq[2] = { 0, 0 };

	EACH (i)
		status[i] = CALL(i, record_event, stream, &seq[i]);
	if (!run_same_status(run, status) || !run_same(run, "seq", seq[0], seq[1]))
		return false;
	if (run->status == SOMA_STATUS_OK)
		run->events[op->label] = (struct known_event){ stream, seq[0], true };
	return true;
}

static bool
run_wait(struct run *run, uint64_t stream, uint64_t event_stream, uint64_t seq)
{
	enum soma_status status[2];

	EACH (i)
		status[i] = CALL(i, wait_event, stream, event_stream, seq);
	return run_same_status(run, status);
}

/* submitted - back of a stream, by the second engine. */
static uint64_t
seq_back(struct run *run, uint64_t stream, int64_t back)
{
	struct soma_model_position position = { 0 };

	CALL(1, position, stream, &position);
	if (back > 0 && (uint64_t)back > position.submitted)
		return 0;
	return position.submitted - (uint64_t)back;
}

static bool
run_on_stream(struct run *run, const struct op *op, uint64_t stream)
{
	enum soma_status status[2] = { SOMA_STATUS_OK, SOMA_STATUS_OK };
	uint64_t seq;

	switch (op->kind) {
	case OP_STREAM_DESTROY:
		EACH (i)
			status[i] = CALL(i, stream_destroy, stream);
		break;
	case OP_ADVANCE:
		seq = seq_back(run, stream, op->back);
		EACH (i)
			status[i] = CALL(i, advance, stream, seq);
		break;
	case OP_SYNCHRONIZE:
		EACH (i)
			status[i] = CALL(i, synchronize, stream);
		break;
	case OP_ADOPT_SEGMENT:
		EACH (i)
			status[i] = CALL(i, adopt_segment, stream, op->flags, op->address, op->size);
		break;
	default:
		abort();
	}
	return run_same_status(run, status);
}

static bool
run_adopt_block(struct run *run, const struct op *op)
{
	enum soma_status status[2];

	EACH (i)
		status[i] = CALL(i, adopt_block, op->address, op->size, op->capacity);
	if (!run_same_status(run, status))
		return false;
	if (run->status == SOMA_STATUS_OK)
		run->allocs[op->label] = (struct soma_model_alloc){ .ptr = op->address, .size = op->size };
	return true;
}

static bool
run_on_pool(struct run *run, const struct op *op)
{
	enum soma_status status[2] = { SOMA_STATUS_OK, SOMA_STATUS_OK };

	EACH (i) {
		const struct engine *engine = run->pair->engine[i];
		void *handle = run->handle[i];

		if (op->kind == OP_SYNCHRONIZE_ALL)
			status[i] = engine->synchronize_all(handle);
		else if (op->kind == OP_TRIM)
			status[i] = engine->trim_to(handle, op->size);
		else if (op->kind == OP_RELEASE_SEGMENT)
			status[i] = engine->release_segment(handle, op->address);
		else if (op->kind == OP_THRESHOLD)
			engine->set_release_threshold(handle, op->size);
		else
			engine->reset_peaks(handle);
	}
	return run_same_status(run, status);
}

static bool
dispatch(struct run *run, const struct op *op, uint64_t stream)
{
	uint64_t other;

	switch (op->kind) {
	case OP_ALLOC:
		return run_alloc(run, op, stream);
	case OP_FREE:
		return run->allocs[op->other].ptr == 0 ||
		       run_free(run, run->allocs[op->other].ptr + op->size, stream);
	case OP_FREE_ADDRESS:
		return run_free(run, op->address, stream);
	case OP_STREAM_CREATE:
		return run_stream_create(run, op);
	case OP_RECORD:
		return run_record(run, op, stream);
	case OP_WAIT:
		return !run->events[op->other].known ||
		       run_wait(run, stream, run->events[op->other].stream, run->events[op->other].seq);
	case OP_WAIT_BACK:
		return !run_stream_of(run, op->other, &other) ||
		       run_wait(run, stream, other, seq_back(run, other, op->back));
	case OP_STREAM_DESTROY:
	case OP_ADVANCE:
	case OP_SYNCHRONIZE:
	case OP_ADOPT_SEGMENT:
		return run_on_stream(run, op, stream);
	case OP_ADOPT_BLOCK:
		return run_adopt_block(run, op);
	default:
		return run_on_pool(run, op);
	}
}

bool
run_op(struct run *run, const struct op *op)
{
	uint64_t stream;

	run->status = SOMA_STATUS_NOT_FOUND;
	if (!run_stream_of(run, op->stream, &stream))
		return true;
	return dispatch(run, op, stream) && run_same_stats(run);
}

/* ---- create, destroy ------------------------------------------------------- */

static enum soma_status
create_side(struct run *run, const struct sequence *sequence, unsigned i)
{
	struct soma_model_limits limits = sequence->limits;
	struct soma_segment_source segments = {
		.size = sizeof segments,
		.context = &run->source[i],
		.acquire = source_acquire,
		.release = source_release,
		.reserve = source_reserve,
		.map = source_map,
		.unmap = source_unmap,
	};

	source_init(&run->source[i], sequence);
	limits.policy = &sequence->policy;
	limits.segments = sequence->refuse_every > 0 ? &segments : NULL;
	return run->pair->engine[i]->create(&limits, run->pair->fault[i], &run->handle[i]);
}

bool
run_create(struct run *run, const struct sequence *sequence, const struct pair *pair)
{
	enum soma_status status[2];

	*run = (struct run){
		.pair = pair,
		.labels = sequence->labels,
		.maps = sequence->policy.segments == SOMA_SEGMENTS_MAPPED && sequence->refuse_every > 0,
		.allocs = calloc(sequence->labels + 1, sizeof *run->allocs),
		.streams = calloc(sequence->labels + 1, sizeof *run->streams),
		.events = calloc(sequence->labels + 1, sizeof *run->events),
	};
	if (run->allocs == NULL || run->streams == NULL || run->events == NULL)
		abort();
	EACH (i)
		status[i] = create_side(run, sequence, i);
	return run_same_status(run, status);
}

void
run_destroy(struct run *run)
{
	EACH (i)
		if (run->handle[i] != NULL)
			run->pair->engine[i]->destroy(run->handle[i]);
	free(run->allocs);
	free(run->streams);
	free(run->events);
	EACH (i)
		free(run->source[i].parts);
}

bool
run_gave_back(struct run *run)
{
	if (run->source[0].broken || run->source[0].part_count > 0)
		return run_differs(run, "%zu parts are still mapped", run->source[0].part_count);
	return run_same(run, "calls of the segment source (digest) until the end", run->source[0].digest,
			run->source[1].digest);
}

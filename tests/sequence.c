/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a sequence; see sequence.h.  What the two engines answer is compared after
 * every operation, field by field, and the first difference is put into words.
 */
#include "tests/sequence.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void *
grown(void *memory, size_t count, size_t size)
{
	memory = realloc(memory, (count + 1) * size);
	if (memory == NULL)
		abort();
	return memory;
}

/* ---- differences ----------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool
differs(struct run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(run->difference, sizeof run->difference, format, args);
	va_end(args);
	return false;
}

static bool
same(struct run *run, const char *what, uint64_t a, uint64_t b)
{
	if (a == b)
		return true;
	return differs(run, "%s: %s %" PRIu64 " (0x%" PRIx64 "), %s %" PRIu64 " (0x%" PRIx64 ")", what,
		       run->pair->engine[0]->name, a, a, run->pair->engine[1]->name, b, b);
}

static bool
same_status(struct run *run, const enum soma_status status[2])
{
	run->status = status[1];
	if (status[0] != status[1])
		return differs(run, "status: %s %s, %s %s (last error: %s)", run->pair->engine[0]->name,
			       soma_status_name(status[0]), run->pair->engine[1]->name,
			       soma_status_name(status[1]), soma_error_last()->text);
	for (unsigned i = 0; i < 2 && status[i] != SOMA_STATUS_OK; i++)
		if (run->pair->engine[i]->records_errors && soma_error_last()->status != status[i])
			return differs(run, "soma_error_last() says %s after %s",
				       soma_status_name(soma_error_last()->status),
				       soma_status_name(status[i]));
	return true;
}

static bool
same_stats(struct run *run)
{
	struct soma_model_stats s[2];

	for (unsigned i = 0; i < 2; i++)
		run->pair->engine[i]->stats(run->handle[i], &s[i]);
#define X(name)                                      \
	if (!same(run, #name, s[0].name, s[1].name)) \
		return false;
	SOMA_MODEL_COUNTER_MAP(X)
#undef X
	if (run->source[0].broken)
		return differs(run, "pages were mapped twice, or unmapped that were not mapped");
	return same(run, "calls of the segment source (digest)", run->source[0].digest,
		    run->source[1].digest);
}

/* ---- operations ------------------------------------------------------------ */

#define EACH(i) for (unsigned i = 0; i < 2; i++)
#define CALL(i, function, ...) run->pair->engine[i]->function(run->handle[i], __VA_ARGS__)

static bool
stream_of(const struct run *run, unsigned label, uint64_t *stream)
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
	if (!same_status(run, status) || !same(run, "ptr", a[0].ptr, a[1].ptr) ||
	    !same(run, "capacity", a[0].capacity, a[1].capacity) ||
	    !same(run, "ready_seq", a[0].ready_seq, a[1].ready_seq) ||
	    !same(run, "wait_stream", a[0].wait_stream, a[1].wait_stream) ||
	    !same(run, "wait_seq", a[0].wait_seq, a[1].wait_seq) ||
	    !same(run, "alloc size", a[0].size, a[1].size) || !same(run, "stream", a[0].stream, a[1].stream))
		return false;
	if (run->status == SOMA_STATUS_OK && run->maps &&
	    source_mapped(&run->source[0], a[0].ptr, a[0].capacity) != a[0].capacity)
		return differs(run, "the block at 0x%" PRIx64 " is not wholly mapped", a[0].ptr);
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
	return same_status(run, status);
}

static bool
run_stream_create(struct run *run, const struct op *op)
{
	enum soma_status status[2];
	uint64_t id[2] = { 0, 0 };

	EACH (i)
		status[i] = CALL(i, stream_create, op->flags, &id[i]);
	if (!same_status(run, status) || !same(run, "stream id", id[0], id[1]))
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
	if (!same_status(run, status) || !same(run, "seq", seq[0], seq[1]))
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
	return same_status(run, status);
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
	return same_status(run, status);
}

static bool
run_adopt_block(struct run *run, const struct op *op)
{
	enum soma_status status[2];

	EACH (i)
		status[i] = CALL(i, adopt_block, op->address, op->size, op->capacity);
	if (!same_status(run, status))
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
	return same_status(run, status);
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
		return !stream_of(run, op->other, &other) ||
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
	if (!stream_of(run, op->stream, &stream))
		return true;
	return dispatch(run, op, stream) && same_stats(run);
}

/* ---- everything that can be asked ------------------------------------------ */

static void
of_stream(struct run *run, unsigned label)
{
	char what[sizeof run->difference];

	snprintf(what, sizeof what, "%s", run->difference);
	snprintf(run->difference, sizeof run->difference, "position of s%u: %.400s", label, what);
}

static bool
check_positions(struct run *run)
{
	for (unsigned label = 0; label < run->labels; label++) {
		struct soma_model_position p[2] = { 0 };
		enum soma_status status[2];
		uint64_t stream;

		if (!stream_of(run, label, &stream))
			continue;
		EACH (i)
			status[i] = CALL(i, position, stream, &p[i]);
		if (!same_status(run, status) || !same(run, "submitted", p[0].submitted, p[1].submitted) ||
		    !same(run, "executed", p[0].executed, p[1].executed)) {
			of_stream(run, label);
			return false;
		}
	}
	return true;
}

static bool
check_ready(struct run *run, const struct soma_model_alloc *alloc, uint64_t consumer)
{
	bool r[2];

	EACH (i)
		r[i] = CALL(i, is_ready_same_stream, alloc);
	if (!same(run, "is_ready_same_stream", r[0], r[1]))
		return false;
	for (uint64_t seq = alloc->ready_seq; seq < alloc->ready_seq + 2; seq++) {
		EACH (i)
			r[i] = CALL(i, is_ready_cross_stream, alloc, consumer, seq);
		if (!same(run, "is_ready_cross_stream", r[0], r[1]))
			return false;
	}
	return true;
}

static bool
check_allocs(struct run *run)
{
	for (unsigned n = 0; n < RECENT && n < run->recent_count; n++) {
		const struct soma_model_alloc *alloc = &run->allocs[run->recent[n]];
		bool r[2];

		if (!check_ready(run, alloc, alloc->stream) || !check_ready(run, alloc, alloc->stream + 1))
			return false;
		for (uint64_t ptr = alloc->ptr - 256; ptr <= alloc->ptr + 256; ptr += 256) {
			EACH (i)
				r[i] = CALL(i, is_live, ptr);
			if (!same(run, "is_live", r[0], r[1]))
				return false;
		}
	}
	return true;
}

struct extents {
	struct soma_extent *at;
	size_t count;
};

static bool
collect(void *context, const struct soma_extent *extent)
{
	struct extents *e = context;

	if (e->count % 256 == 0)
		e->at = grown(e->at, e->count + 256, sizeof *e->at);
	e->at[e->count++] = *extent;
	return true;
}

static bool
same_extent(struct run *run, const struct soma_extent *a, const struct soma_extent *b)
{
	char where[64];

#define FIELD(name)                                                                              \
	do {                                                                                     \
		snprintf(where, sizeof where, "walk, extent 0x%" PRIx64 ", " #name, b->address); \
		if (a->name != b->name)                                                          \
			return same(run, where, a->name, b->name);                               \
	} while (0)
	FIELD(address);
	FIELD(kind);
	FIELD(size);
	FIELD(pool);
	FIELD(requested);
	FIELD(stream);
	FIELD(seq);
	FIELD(stranded);
#undef FIELD
	return true;
}

static bool
check_walk(struct run *run)
{
	struct extents e[2] = { 0 };
	bool equal = true;

	EACH (i)
		CALL(i, walk, collect, &e[i]);
	for (size_t n = 0; equal && n < e[0].count && n < e[1].count; n++)
		equal = same_extent(run, &e[0].at[n], &e[1].at[n]);
	equal = equal && same(run, "walk: extents", e[0].count, e[1].count);
	free(e[0].at);
	free(e[1].at);
	return equal;
}

static bool
check_getters(struct run *run)
{
	struct soma_model_stats s[2];

	EACH (i) {
		memset(s, 0, sizeof s);
		CALL(i, stats, &s[0]);
		CALL(i, getters, &s[1]);
		if (memcmp(&s[0], &s[1], sizeof s[0]) != 0)
			return differs(run, "the getters differ from soma_model_stats()");
	}
	return true;
}

bool
run_check(struct run *run)
{
	return check_positions(run) && check_allocs(run) && check_walk(run) && check_getters(run);
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
	return same_status(run, status);
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
		return differs(run, "%zu parts are still mapped", run->source[0].part_count);
	return same(run, "calls of the segment source (digest) until the end", run->source[0].digest,
		    run->source[1].digest);
}

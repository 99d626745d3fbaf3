/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that can be asked of the two engines between operations; see sequence.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sequence_state.h"

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

		if (!run_stream_of(run, label, &stream))
			continue;
		EACH (i)
			status[i] = CALL(i, position, stream, &p[i]);
		if (!run_same_status(run, status) ||
		    !run_same(run, "submitted", p[0].submitted, p[1].submitted) ||
		    !run_same(run, "executed", p[0].executed, p[1].executed)) {
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
	if (!run_same(run, "is_ready_same_stream", r[0], r[1]))
		return false;
	for (uint64_t seq = alloc->ready_seq; seq < alloc->ready_seq + 2; seq++) {
		EACH (i)
			r[i] = CALL(i, is_ready_cross_stream, alloc, consumer, seq);
		if (!run_same(run, "is_ready_cross_stream", r[0], r[1]))
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
			if (!run_same(run, "is_live", r[0], r[1]))
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
		e->at = sequence_grown(e->at, e->count + 256, sizeof *e->at);
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
			return run_same(run, where, a->name, b->name);                           \
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
	equal = equal && run_same(run, "walk: extents", e[0].count, e[1].count);
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
			return run_differs(run, "the getters differ from soma_model_stats()");
	}
	return true;
}

bool
run_check(struct run *run)
{
	return check_positions(run) && check_allocs(run) && check_walk(run) && check_getters(run);
}

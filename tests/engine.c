/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two rows of the table: each function of an engine calls the function of the
 * same name.  WRAP(prefix) defines them all.
 */
#include "tests/engine.h"

#define WRAP(prefix)                                                                                       \
	static void prefix##_w_destroy(void *h)                                                            \
	{                                                                                                  \
		prefix##_destroy(h);                                                                       \
	}                                                                                                  \
	static void prefix##_w_set_release_threshold(void *h, uint64_t bytes)                              \
	{                                                                                                  \
		prefix##_set_release_threshold(h, bytes);                                                  \
	}                                                                                                  \
	static enum soma_status prefix##_w_stream_create(void *h, unsigned flags, uint64_t *stream)        \
	{                                                                                                  \
		return prefix##_stream_create(h, flags, stream);                                           \
	}                                                                                                  \
	static enum soma_status prefix##_w_stream_destroy(void *h, uint64_t stream)                        \
	{                                                                                                  \
		return prefix##_stream_destroy(h, stream);                                                 \
	}                                                                                                  \
	static enum soma_status prefix##_w_record_event(void *h, uint64_t stream, uint64_t *seq)           \
	{                                                                                                  \
		return prefix##_record_event(h, stream, seq);                                              \
	}                                                                                                  \
	static enum soma_status prefix##_w_wait_event(void *h, uint64_t stream, uint64_t of, uint64_t seq) \
	{                                                                                                  \
		return prefix##_wait_event(h, stream, of, seq);                                            \
	}                                                                                                  \
	static enum soma_status prefix##_w_advance(void *h, uint64_t stream, uint64_t seq)                 \
	{                                                                                                  \
		return prefix##_advance(h, stream, seq);                                                   \
	}                                                                                                  \
	static enum soma_status prefix##_w_synchronize(void *h, uint64_t stream)                           \
	{                                                                                                  \
		return prefix##_synchronize(h, stream);                                                    \
	}                                                                                                  \
	static enum soma_status prefix##_w_synchronize_all(void *h)                                        \
	{                                                                                                  \
		return prefix##_synchronize_all(h);                                                        \
	}                                                                                                  \
	static enum soma_status prefix##_w_position(void *h, uint64_t stream,                              \
						    struct soma_model_position *position)                  \
	{                                                                                                  \
		return prefix##_position(h, stream, position);                                             \
	}                                                                                                  \
	static enum soma_status prefix##_w_alloc(void *h, uint64_t size, uint64_t stream,                  \
						 struct soma_model_alloc *alloc)                           \
	{                                                                                                  \
		return prefix##_alloc(h, size, stream, alloc);                                             \
	}                                                                                                  \
	static enum soma_status prefix##_w_free(void *h, uint64_t ptr, uint64_t stream)                    \
	{                                                                                                  \
		return prefix##_free(h, ptr, stream);                                                      \
	}                                                                                                  \
	static bool prefix##_w_is_live(void *h, uint64_t ptr)                                              \
	{                                                                                                  \
		return prefix##_is_live(h, ptr);                                                           \
	}                                                                                                  \
	static bool prefix##_w_is_ready_same_stream(void *h, const struct soma_model_alloc *alloc)         \
	{                                                                                                  \
		return prefix##_is_ready_same_stream(h, alloc);                                            \
	}                                                                                                  \
	static bool prefix##_w_is_ready_cross_stream(void *h, const struct soma_model_alloc *alloc,        \
						     uint64_t consumer, uint64_t wait_seq)                 \
	{                                                                                                  \
		return prefix##_is_ready_cross_stream(h, alloc, consumer, wait_seq);                       \
	}                                                                                                  \
	static enum soma_status prefix##_w_trim_to(void *h, uint64_t keep)                                 \
	{                                                                                                  \
		return prefix##_trim_to(h, keep);                                                          \
	}                                                                                                  \
	static enum soma_status prefix##_w_adopt_segment(void *h, uint64_t stream, unsigned pool,          \
							 uint64_t address, uint64_t size)                  \
	{                                                                                                  \
		return prefix##_adopt_segment(h, stream, pool, address, size);                             \
	}                                                                                                  \
	static enum soma_status prefix##_w_adopt_block(void *h, uint64_t ptr, uint64_t size,               \
						       uint64_t capacity)                                  \
	{                                                                                                  \
		return prefix##_adopt_block(h, ptr, size, capacity);                                       \
	}                                                                                                  \
	static enum soma_status prefix##_w_release_segment(void *h, uint64_t address)                      \
	{                                                                                                  \
		return prefix##_release_segment(h, address);                                               \
	}                                                                                                  \
	static void prefix##_w_stats(void *h, struct soma_model_stats *stats)                              \
	{                                                                                                  \
		prefix##_stats(h, stats, sizeof *stats);                                                   \
	}                                                                                                  \
	static void prefix##_w_reset_peaks(void *h)                                                        \
	{                                                                                                  \
		prefix##_reset_peaks(h);                                                                   \
	}                                                                                                  \
	static void prefix##_w_walk(void *h, bool (*visit)(void *, const struct soma_extent *),            \
				    void *context)                                                         \
	{                                                                                                  \
		prefix##_walk(h, visit, context);                                                          \
	}

#define ROW(prefix)                                                                               \
	.create = prefix##_w_create, .destroy = prefix##_w_destroy,                               \
	.set_release_threshold = prefix##_w_set_release_threshold,                                \
	.stream_create = prefix##_w_stream_create, .stream_destroy = prefix##_w_stream_destroy,   \
	.record_event = prefix##_w_record_event, .wait_event = prefix##_w_wait_event,             \
	.advance = prefix##_w_advance, .synchronize = prefix##_w_synchronize,                     \
	.synchronize_all = prefix##_w_synchronize_all, .position = prefix##_w_position,           \
	.alloc = prefix##_w_alloc, .free = prefix##_w_free, .is_live = prefix##_w_is_live,        \
	.is_ready_same_stream = prefix##_w_is_ready_same_stream,                                  \
	.is_ready_cross_stream = prefix##_w_is_ready_cross_stream, .trim_to = prefix##_w_trim_to, \
	.adopt_segment = prefix##_w_adopt_segment, .adopt_block = prefix##_w_adopt_block,         \
	.release_segment = prefix##_w_release_segment, .stats = prefix##_w_stats,                 \
	.getters = prefix##_w_getters, .reset_peaks = prefix##_w_reset_peaks, .walk = prefix##_w_walk

WRAP(oracle)

static enum soma_status
oracle_w_create(const struct soma_model_limits *limits, enum oracle_fault fault, void **handle)
{
	struct oracle *o;
	enum soma_status status = oracle_create(limits, &o);

	if (status == SOMA_STATUS_OK) {
		oracle_set_fault(o, fault);
		*handle = o;
	}
	return status;
}

static void
oracle_w_getters(void *h, struct soma_model_stats *stats)
{
	oracle_stats(h, stats, sizeof *stats);
}

const struct engine engine_oracle = { .name = "oracle", ROW(oracle) };

#ifndef WITHOUT_MODEL
WRAP(soma_model)

static enum soma_status
soma_model_w_create(const struct soma_model_limits *limits, enum oracle_fault fault, void **handle)
{
	struct soma_model *model;
	enum soma_status status = soma_model_create(limits, &model);

	(void)fault;
	if (status == SOMA_STATUS_OK)
		*handle = model;
	return status;
}

static void
soma_model_w_getters(void *h, struct soma_model_stats *stats)
{
#define X(name) stats->name = soma_model_##name(h);
	SOMA_MODEL_COUNTER_MAP(X)
#undef X
}

const struct engine engine_model = { .name = "model", .records_errors = true, ROW(soma_model) };
#endif

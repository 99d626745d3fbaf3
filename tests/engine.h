/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table of functions over the model and over the oracle, so that a sequence of
 * operations can be driven through either, or through both side by side.
 */
#ifndef SOMA_TESTS_ENGINE_H
#define SOMA_TESTS_ENGINE_H

#include <stdbool.h>

#include <soma/model.h>

#include "tests/oracle.h"

struct engine {
	const char *name;
	bool records_errors; /* soma_error_last() tells of its failures */
	enum soma_status (*create)(const struct soma_model_limits *limits, enum oracle_fault fault,
				   void **handle);
	void (*destroy)(void *handle);
	void (*set_release_threshold)(void *handle, uint64_t bytes);
	enum soma_status (*stream_create)(void *handle, unsigned flags, uint64_t *stream);
	enum soma_status (*stream_destroy)(void *handle, uint64_t stream);
	enum soma_status (*record_event)(void *handle, uint64_t stream, uint64_t *seq);
	enum soma_status (*wait_event)(void *handle, uint64_t stream, uint64_t event_stream,
				       uint64_t event_seq);
	enum soma_status (*advance)(void *handle, uint64_t stream, uint64_t seq);
	enum soma_status (*synchronize)(void *handle, uint64_t stream);
	enum soma_status (*synchronize_all)(void *handle);
	enum soma_status (*position)(void *handle, uint64_t stream, struct soma_model_position *position);
	enum soma_status (*alloc)(void *handle, uint64_t size, uint64_t stream,
				  struct soma_model_alloc *alloc);
	enum soma_status (*free)(void *handle, uint64_t ptr, uint64_t stream);
	bool (*is_live)(void *handle, uint64_t ptr);
	bool (*is_ready_same_stream)(void *handle, const struct soma_model_alloc *alloc);
	bool (*is_ready_cross_stream)(void *handle, const struct soma_model_alloc *alloc, uint64_t consumer,
				      uint64_t wait_seq);
	enum soma_status (*trim_to)(void *handle, uint64_t keep);
	enum soma_status (*adopt_segment)(void *handle, uint64_t stream, unsigned pool, uint64_t address,
					  uint64_t size);
	enum soma_status (*adopt_block)(void *handle, uint64_t ptr, uint64_t size, uint64_t capacity);
	enum soma_status (*release_segment)(void *handle, uint64_t address);
	void (*stats)(void *handle, struct soma_model_stats *stats);
	void (*getters)(void *handle, struct soma_model_stats *stats); /* one by one */
	void (*reset_peaks)(void *handle);
	void (*walk)(void *handle, bool (*visit)(void *context, const struct soma_extent *extent),
		     void *context);
};

extern const struct engine engine_oracle;
extern const struct engine engine_model;

#endif

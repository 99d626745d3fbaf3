/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short words for calls of a backend that must succeed.  Included where OK(call), which ends the test otherwise, and
 * `ops` and `self` are defined: tests/cuda_fixture.h for unit tests, tests/gpu/rows.c for the GPU kit, which has no
 * test library.
 */
#ifndef SOMA_TESTS_BACKEND_WORDS_H
#define SOMA_TESTS_BACKEND_WORDS_H

#include <soma/backend.h>

static inline struct soma_backend_stream *
stream_new(void)
{
	struct soma_backend_stream *stream;

	OK(ops->stream_create(self, SOMA_BACKEND_STREAM_NON_BLOCKING, &stream));
	return stream;
}

static inline struct soma_backend_event *
event_new(void)
{
	struct soma_backend_event *event;

	OK(ops->event_create(self, 0, &event));
	return event;
}

static inline struct soma_backend_stream_info
info_of(struct soma_backend_stream *stream)
{
	struct soma_backend_stream_info info = { .size = sizeof info };

	OK(ops->stream_info(self, stream, &info));
	return info;
}

static inline uint64_t
take(uint64_t size, struct soma_backend_stream *stream)
{
	uint64_t ptr;

	OK(ops->alloc(self, size, 0, stream, &ptr));
	return ptr;
}

static inline void
give(uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	OK(ops->free(self, ptr, size, stream));
}

static inline void
order(struct soma_backend_stream *first, struct soma_backend_stream *then)
{
	struct soma_backend_event *event = event_new();

	OK(ops->event_record(self, event, first));
	OK(ops->event_wait(self, event, then));
	ops->event_destroy(self, event);
}

static inline uint64_t
attribute(enum soma_backend_attribute which)
{
	uint64_t value;

	OK(ops->pool_get(self, which, &value));
	return value;
}

static inline struct soma_backend_info
query(void)
{
	struct soma_backend_info info = { .size = sizeof info };

	OK(ops->query(self, &info));
	return info;
}

#endif

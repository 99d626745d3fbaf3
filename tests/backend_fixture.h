/* SPDX-License-Identifier: Apache-2.0 */
/* The host backend, opened, and short names for what its tests do all the time. */
#ifndef SOMA_TESTS_BACKEND_FIXTURE_H
#define SOMA_TESTS_BACKEND_FIXTURE_H

#include <stdint.h>

#include "lib/plugin/backend.h"
#include "tests/unit.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

#define OK(call) ck_assert_int_eq(call, SOMA_STATUS_OK)

static struct soma__backend *backend;
static const struct soma_backend_ops *ops;
static struct soma_backend *host;

static inline enum soma_status
try_open(const char *key, const char *value)
{
	const struct soma_backend_option option = { key, value };
	const struct soma__backend_config config = {
		.name = "host", .search = BACKENDS_FOLDER, .option_count = key != NULL, .options = &option
	};

	enum soma_status status = soma__backend_open(&config, &backend);
	if (status == SOMA_STATUS_OK) {
		ops = backend->ops;
		host = backend->self;
	}
	return status;
}

static inline void
open_host(const char *key, const char *value)
{
	OK(try_open(key, value));
}

static inline void
close_host(void)
{
	soma__backend_close(backend);
}

static inline struct soma_backend_stream *
stream_new(void)
{
	struct soma_backend_stream *stream;

	OK(ops->stream_create(host, SOMA_BACKEND_STREAM_NON_BLOCKING, &stream));
	return stream;
}

static inline struct soma_backend_event *
event_new(void)
{
	struct soma_backend_event *event;

	OK(ops->event_create(host, 0, &event));
	return event;
}

/* A new event that is recorded on the stream. */
static inline struct soma_backend_event *
record(struct soma_backend_stream *stream)
{
	struct soma_backend_event *event = event_new();

	OK(ops->event_record(host, event, stream));
	return event;
}

static inline bool
is_done(struct soma_backend_event *event)
{
	bool done;

	OK(ops->event_query(host, event, &done));
	return done;
}

static inline uint64_t
take(uint64_t size, struct soma_backend_stream *stream)
{
	uint64_t ptr;

	OK(ops->alloc(host, size, 0, stream, &ptr));
	return ptr;
}

/* The memory itself: a pointer here. */
static inline unsigned char *
at(uint64_t ptr)
{
	return (unsigned char *)(uintptr_t)ptr;
}

static inline uint64_t
attribute(enum soma_backend_attribute which)
{
	uint64_t value;

	OK(ops->pool_get(host, which, &value));
	return value;
}

#endif

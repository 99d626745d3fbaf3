/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools for tests: over nothing, over the host backend in both placements, over guard:host; with calls that
 * must succeed.  The host's streams run only when somebody waits for them, or a test steps them.
 */
#ifndef SOMA_TESTS_POOL_FIXTURE_H
#define SOMA_TESTS_POOL_FIXTURE_H

#include <soma/budget.h>
#include <soma/pool.h>

#include "lib/model/driven.h"
#include "lib/pool/pool.h"
#include "lib/resource/open.h"
#include "lib/resource/terminal.h"
#include "tests/unit.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define SEGMENT (32 * MIB) /* what the `cuda` preset grows by */

#define ck_ok(call)                                                                                          \
	do {                                                                                                 \
		enum soma_status ck_status = (call);                                                         \
		ck_assert_msg(ck_status == SOMA_STATUS_OK, "%s: %s: %s", #call, soma_status_name(ck_status), \
			      soma_error_last()->text);                                                      \
	} while (0)
#define ck_is(call, code) ck_assert_int_eq(call, SOMA_STATUS_##code)

static inline struct soma_resource *
open_backend(const char *name)
{
	const struct soma__backend_config config = { .name = name, .search = STACK_FOLDERS };
	struct soma_resource *resource;

	ck_ok(soma__resource_open(&config, &resource));
	return resource;
}

static inline struct soma_pool *
pool_over(struct soma_resource *resource, struct soma_pool_config config)
{
	struct soma_pool *pool;

	config.size = sizeof config;
	ck_ok(soma_pool_create(&config, resource, &pool));
	return pool;
}

/* The kinds that a test of behaviour runs over. */
enum kind { ALONE, POOL_OVER_HOST, BACKEND_OVER_HOST, OVER_GUARD, KINDS };

struct setup {
	struct soma_resource *resource;
	struct soma_pool *pool;
};

static inline struct setup
set_up(enum kind kind, struct soma_pool_config config)
{
	struct setup setup = { 0 };

	if (kind != ALONE)
		setup.resource = open_backend(kind == OVER_GUARD ? "guard:host" : "host");
	config.placement = kind == POOL_OVER_HOST      ? SOMA_PLACEMENT_POOL
			   : kind == BACKEND_OVER_HOST ? SOMA_PLACEMENT_BACKEND
						       : SOMA_PLACEMENT_AUTO;
	setup.pool = pool_over(setup.resource, config);
	return setup;
}

/* Everything is freed. */
static inline void
take_down(struct setup setup)
{
	ck_ok(soma_pool_destroy(setup.pool));
	if (setup.resource == NULL)
		return;
	ck_ok(soma_resource_reap_pending(setup.resource));
	soma_resource_release(setup.resource);
}

static inline uint64_t
stream_of(struct setup setup)
{
	uint64_t stream;

	if (setup.resource != NULL)
		ck_ok(soma_resource_stream_create(setup.resource, SOMA_STREAM_NON_BLOCKING, &stream));
	else
		ck_ok(soma_pool_stream_create(setup.pool, SOMA_STREAM_NON_BLOCKING, &stream));
	return stream;
}

static inline struct soma_allocation *
alloc(struct soma_pool *pool, uint64_t size, uint64_t stream)
{
	struct soma_allocation *allocation = NULL;

	ck_ok(soma_pool_alloc(pool, size, stream, &allocation));
	return allocation;
}

static inline enum soma_status
try_alloc(struct soma_pool *pool, uint64_t size, uint64_t stream)
{
	struct soma_allocation *allocation = NULL;

	return soma_pool_alloc(pool, size, stream, &allocation);
}

/* Frees and releases; the block's name. */
static inline uint64_t
drop(struct soma_allocation *allocation, uint64_t stream)
{
	uint64_t ptr = soma_allocation_ptr(allocation);

	ck_ok(soma_pool_free(allocation, stream));
	ck_assert(soma_allocation_is_freed(allocation));
	ck_ok(soma_allocation_release(allocation));
	return ptr;
}

static inline uint64_t
record(struct soma_pool *pool, uint64_t stream)
{
	uint64_t seq = UINT64_MAX;

	ck_ok(soma_pool_record_event(pool, stream, &seq));
	return seq;
}

/* Later work of `stream` runs after all that `other` was given so far. */
static inline void
order_after(struct soma_pool *pool, uint64_t stream, uint64_t other)
{
	ck_ok(soma_pool_wait_event(pool, stream, other, record(pool, other)));
}

static inline struct soma_pool_stats
stats_of(struct soma_pool *pool)
{
	struct soma_pool_stats stats = { .size = sizeof stats };

	ck_ok(soma_pool_stats(pool, &stats));
	return stats;
}

static inline uint64_t
attribute(struct soma_pool *pool, enum soma_pool_attribute which)
{
	uint64_t value = UINT64_MAX;

	ck_ok(soma_pool_get_attribute(pool, which, &value));
	return value;
}

/* ---- real streams of the host ---- */

static inline struct soma_backend_stream *
real(struct soma_resource *resource, uint64_t stream)
{
	struct soma__stream *found = soma__stream_find(&resource->terminal->streams, stream);

	ck_assert_ptr_nonnull(found);
	return found->handle;
}

/* Runs what the stream can run by itself; no stream that it waits for. */
static inline void
step(struct soma_resource *resource, uint64_t stream)
{
	ck_ok(resource->terminal->ops->stream_step(resource->terminal->self, real(resource, stream),
						   UINT64_MAX, NULL));
}

static inline void
fill(struct soma_resource *resource, uint64_t ptr, uint8_t value, uint64_t count, uint64_t stream)
{
	ck_ok(resource->terminal->ops->fill8(resource->terminal->self, ptr, value, count,
					     real(resource, stream)));
}

static inline uint64_t
queued(struct soma_resource *resource, uint64_t stream)
{
	uint64_t put, run;

	ck_ok(resource->terminal->ops->stream_position(resource->terminal->self, real(resource, stream), &put,
						       &run));
	return put;
}

#endif

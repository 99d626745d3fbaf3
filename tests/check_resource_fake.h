/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend for the tests of lib/resource that does what it is told: streams run when a test says
 * so, any call can be made to fail or to run a test's hook in its middle, and the order that was queued can
 * be asked for.  Addresses are virtual; a freed one is the next to be given out for its size.
 */
#ifndef SOMA_TESTS_CHECK_RESOURCE_FAKE_H
#define SOMA_TESTS_CHECK_RESOURCE_FAKE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <soma/backend.h>
#include <soma/budget.h>

#include "tests/unit.h"

#define FAKE_STREAMS 64
#define FAKE_BLOCKS 8192

enum fake_op {
	FAKE_ALLOC,
	FAKE_FREE,
	FAKE_STREAM_CREATE,
	FAKE_STREAM_SYNCHRONIZE,
	FAKE_EVENT_CREATE,
	FAKE_EVENT_RECORD,
	FAKE_EVENT_WAIT,
	FAKE_EVENT_QUERY,
	FAKE_EVENT_SYNCHRONIZE,
	FAKE_BLOCK_USE,
	FAKE_POOL_TRIM,
	FAKE_POOL_GET,
	FAKE_POOL_SET,
	FAKE_GUARD_SETTLE,
	FAKE_GUARD_DRAIN,
	FAKE_SYNCHRONIZE,
	FAKE_EXPORT_POOL,
	FAKE_STREAM_INFO, /* fails by fail_with alone, and is none of `calls` */
	FAKE_OPS,
};

struct soma_backend_stream {
	int index;
	bool used;
	bool gone;
	uint64_t queued, run;
	uint64_t clock[FAKE_STREAMS]; /* what is ordered before the next operation */
};

struct soma_backend_event {
	int stream; /* -1: never recorded */
	uint64_t position;
	uint64_t clock[FAKE_STREAMS];
};

struct fake_block {
	uint64_t ptr, size;
	bool live;
	bool kept; /* freed and in quarantine */
	int free_stream;
	uint64_t free_position;
	uint64_t free_clock[FAKE_STREAMS]; /* of the stream at the free */
};

struct soma_backend {
	uint64_t capabilities;
	uint64_t limit;   /* bytes; 0: none */
	bool blocking;    /* what stream_info says of every stream */
	bool streams_run; /* work is done as soon as it is queued */
	int keep_max;     /* KEEPS_FREED: so many blocks in quarantine; more release the oldest */
	bool release_within_free;

	/* Called with no lock held, at the beginning (before) or the end (after) of an op. */
	void (*before)(struct soma_backend *fake, enum fake_op op, void *context);
	void (*after)(struct soma_backend *fake, enum fake_op op, void *context);
	void *context;

	_Atomic uint64_t calls;   /* of ops that can fail */
	_Atomic uint64_t fail_at; /* the call of this number fails; 0: none */
	_Atomic uint64_t counts[FAKE_OPS];
	enum soma_status fail_with[FAKE_OPS]; /* every call of this op fails; OK: not */

	pthread_mutex_t mutex; /* what follows */
	struct soma_backend_stream streams[FAKE_STREAMS];
	int stream_count;
	struct fake_block blocks[FAKE_BLOCKS];
	int block_count;
	uint64_t next_ptr;
	uint64_t live_bytes;
	uint64_t peak_bytes; /* live and kept */
	uint64_t kept_bytes;
	int live_count;
	int events;
	uint64_t trim_keep;
	uint64_t drain_keep;
	uint64_t last_free_ptr;
	struct soma_resource *resource;
	bool closed;
	uint64_t stale_ptr, stale_generation; /* of the last block_stale */
	enum soma_backend_access stale_access;
	bool captures[FAKE_STREAMS]; /* the stream is being captured */
	int peer;                    /* the device that can reach it; 0: none */
	enum soma_backend_access peer_access;
	/* The pool's figures.  Sizes count in USED rounded up to the unit (0: 1); RESERVED grows by 32 MiB. */
	uint64_t used_unit;
	uint64_t used, used_high, reserved, reserved_high;
	uint64_t attributes[SOMA_BACKEND_RELEASE_THRESHOLD + 1];
	int64_t lies[SOMA_BACKEND_USED_HIGH + 1]; /* added to what is answered */
	bool bad_free; /* something was freed that was not live, or with another size */
};

#define FAKE_ORDERED (SOMA_BACKEND_STREAM_ORDERED | SOMA_BACKEND_USE_TRACKING | SOMA_BACKEND_STREAMS)

/* Not of the interface: the backend has the op free_recorded. */
#define FAKE_RECORDS ((uint64_t)1 << 63)

/* An open fake and a terminal on it. */
struct soma_backend *fake_create(uint64_t capabilities, struct soma_resource **resource);
/* Releases the terminal if there is one yet, and checks that the fake is as it should be in the end. */
void fake_destroy(struct soma_backend *fake);

/* All work queued until now runs: on the stream of this id, or on all. */
void fake_run(struct soma_backend *fake, struct soma_resource *resource, uint64_t stream);
void fake_run_all(struct soma_backend *fake);

struct soma_backend_stream *fake_stream(struct soma_resource *resource, uint64_t stream);

/* Queues n operations of no consequence. */
void fake_work(struct soma_backend_stream *stream, uint64_t n);

/* Whether the next operation of `later` comes after the first `position` operations of `earlier`. */
bool fake_ordered(const struct soma_backend_stream *later, const struct soma_backend_stream *earlier,
		  uint64_t position);

/* The block that has or had this address, latest first. */
struct fake_block *fake_block(struct soma_backend *fake, uint64_t ptr);

uint64_t fake_count(struct soma_backend *fake, enum fake_op op);

/* ---- calls that must succeed ---- */

static inline struct soma_block
allocate(struct soma_resource *resource, uint64_t bytes, uint64_t stream)
{
	struct soma_block block = { .size = sizeof block };

	ck_assert_int_eq(soma_resource_allocate(resource, bytes, stream, &block), SOMA_STATUS_OK);
	return block;
}

static inline void
deallocate(struct soma_resource *resource, const struct soma_block *block)
{
	ck_assert_int_eq(soma_resource_deallocate(resource, block), SOMA_STATUS_OK);
}

static inline uint64_t
new_stream(struct soma_resource *resource)
{
	uint64_t stream;

	ck_assert_int_eq(soma_resource_stream_create(resource, 0, &stream), SOMA_STATUS_OK);
	return stream;
}

static inline struct soma_use
prepare(struct soma_resource *resource, const struct soma_block *block, uint64_t stream,
	enum soma_access access)
{
	struct soma_use use = { .size = sizeof use };

	ck_assert_int_eq(soma_resource_prepare_use(resource, block->id, stream, access, &use),
			 SOMA_STATUS_OK);
	return use;
}

#endif

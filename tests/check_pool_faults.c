/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every host allocation and every call of the backend made to fail, one at a time, in a scenario that uses
 * all of a pool.  Whatever fails, each call says so or succeeds, accounts agree, and in the end nothing is
 * left.
 */
#include <limits.h>
#include <string.h>

#include <soma/launch.h>

#include "lib/arena/arena.h"
#include "tests/check_resource_fake.h"
#include "tests/pool_fixture.h"

#define BLOCKS 12

struct scene {
	struct soma_backend *fake; /* NULL: a pool alone */
	struct soma_resource *resource;
	struct soma_pool *pool;
	uint64_t a, b, c;
	struct soma_allocation *held[BLOCKS];
	unsigned failures;
};

/* A step's result: a failure is one of those that were made, and its detail was recorded. */
static bool
went_well(struct scene *s, enum soma_status status)
{
	if (status == SOMA_STATUS_OK)
		return true;
	ck_assert_msg(status == SOMA_STATUS_OUT_OF_HOST_MEMORY || status == SOMA_STATUS_DRIVER ||
			      status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY,
		      "%s: %s", soma_status_name(status), soma_error_last()->text);
	s->failures++;
	return false;
}

static uint64_t
make_stream(struct scene *s)
{
	uint64_t stream;

	if (s->fake != NULL && went_well(s, soma_resource_stream_create(s->resource, 1, &stream)))
		return stream;
	if (s->fake == NULL && went_well(s, soma_pool_stream_create(s->pool, 1, &stream)))
		return stream;
	return 0;
}

static void
take(struct scene *s, unsigned i, uint64_t size, uint64_t stream)
{
	struct soma_pool_stats before = stats_of(s->pool), after;

	if (s->held[i] != NULL || went_well(s, soma_pool_alloc(s->pool, size, stream, &s->held[i])))
		return;
	s->held[i] = NULL;
	after = stats_of(s->pool);
	ck_assert_uint_eq(after.live_count, before.live_count);
	ck_assert_uint_eq(after.used, before.used);
	ck_assert_uint_eq(after.alloc_count, before.alloc_count);
	ck_assert_uint_eq(after.handle_count, before.handle_count);
	ck_assert_uint_le(after.reserved, before.reserved);
}

static void
give(struct scene *s, unsigned i, uint64_t stream)
{
	if (s->held[i] == NULL)
		return;
	if (!went_well(s, soma_pool_free(s->held[i], stream))) {
		ck_assert(!soma_allocation_is_freed(s->held[i]));
		return;
	}
	ck_assert(soma_allocation_is_freed(s->held[i]));
	ck_ok(soma_allocation_release(s->held[i]));
	s->held[i] = NULL;
}

static void
order(struct scene *s, uint64_t later, uint64_t earlier)
{
	uint64_t seq;

	if (went_well(s, soma_pool_record_event(s->pool, earlier, &seq)))
		(void)went_well(s, soma_pool_wait_event(s->pool, later, earlier, seq));
}

static void
work(struct scene *s, uint64_t stream)
{
	if (s->fake != NULL)
		fake_work(fake_stream(s->resource, stream), 1);
}

/* Work on the stream that writes the block. */
static void
launch(struct scene *s, unsigned i, uint64_t stream)
{
	struct soma_block_id id;
	struct soma_launch launch;

	if (s->fake == NULL || s->held[i] == NULL || !went_well(s, soma_allocation_id(s->held[i], &id)))
		return;
	ck_assert_int_eq(soma_resource_block_state(s->resource, id), SOMA_BLOCK_LIVE);
	ck_ok(soma_launch_begin(&launch, s->resource, stream));
	ck_ok(soma_launch_write(&launch, id));
	if (went_well(s, soma_launch_preflight(&launch))) {
		work(s, stream);
		(void)went_well(s, soma_launch_commit(&launch));
	}
	soma_launch_abandon(&launch);
}

static void
play(struct scene *s)
{
	s->a = make_stream(s);
	s->b = make_stream(s);
	for (unsigned i = 0; i < 6; i++) {
		take(s, i, (1 + i) * MIB, i % 2 ? s->a : s->b);
		work(s, s->a);
	}
	order(s, s->b, s->a);
	launch(s, 1, s->a);
	launch(s, 1, s->b);
	launch(s, 5, s->b);
	for (unsigned i = 0; i < 4; i++)
		give(s, i, s->b);
	take(s, 6, SEGMENT, s->a);
	take(s, 7, SEGMENT + MIB, s->b);
	s->c = make_stream(s);
	give(s, 6, s->a);
	launch(s, 7, s->a);
	take(s, 8, SEGMENT, s->c); /* waits for a, or grows */
	if (s->held[4] != NULL)
		(void)soma_pool_is_ready(s->held[4]);
	(void)went_well(s, soma_pool_set_attribute(s->pool, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC, 0));
	(void)went_well(s, soma_pool_synchronize(s->pool, s->a));
	(void)went_well(s, soma_pool_set_attribute(s->pool, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC, 1));
	if (s->held[5] != NULL && went_well(s, soma_pool_free_now(s->held[5]))) {
		ck_ok(soma_allocation_release(s->held[5]));
		s->held[5] = NULL;
	}
	give(s, 7, s->b);
	(void)went_well(s, soma_pool_synchronize(s->pool, s->b));
	(void)went_well(s, soma_pool_trim(s->pool, MIB));
	take(s, 9, 2 * SEGMENT, s->a);
}

/* With nothing failing any more. */
static void
end(struct scene *s)
{
	uint64_t live = 0;

	for (unsigned i = 0; i < BLOCKS; i++)
		live += s->held[i] != NULL;
	ck_assert_uint_eq(stats_of(s->pool).live_count, live);
	ck_assert_uint_eq(stats_of(s->pool).handle_count, live);
	for (unsigned i = 0; i < BLOCKS; i++)
		give(s, i, i % 2 ? s->a : s->b);
	ck_assert_uint_eq(stats_of(s->pool).used, 0);
	ck_ok(soma_pool_destroy(s->pool));
	if (s->fake == NULL)
		return;
	fake_run_all(s->fake);
	ck_ok(soma_resource_reap_pending(s->resource));
	ck_assert_uint_eq(soma_resource_bytes_outstanding(s->resource), 0);
	ck_assert_int_eq(s->fake->live_count, 0);
	ck_assert(soma__records_none(&s->resource->terminal->ledger, NULL));
	soma_resource_release(s->resource);
	fake_destroy(s->fake);
}

enum over { NOTHING, SYNCHRONOUS, ORDERED, BLOCKS_OF_THE_BACKEND, OVERS };

/* False: the pool could not be made, for want of what failed. */
static bool
start(struct scene *s, enum over over, unsigned long nth_host, uint64_t nth_call)
{
	struct soma_pool_config config = {
		.size = sizeof config,
		.max_size = 5 * SEGMENT,
		.release_threshold = SEGMENT,
		.initial_size = SEGMENT,
		.placement = over == BLOCKS_OF_THE_BACKEND ? SOMA_PLACEMENT_BACKEND : SOMA_PLACEMENT_POOL,
	};
	enum soma_status status;

	memset(s, 0, sizeof *s);
	if (over != NOTHING)
		s->fake = fake_create(over == SYNCHRONOUS ? SOMA_BACKEND_USE_TRACKING | SOMA_BACKEND_STREAMS
							  : FAKE_ORDERED,
				      &s->resource);
	soma__arena_fail_nth(nth_host);
	if (s->fake != NULL && nth_call != 0)
		s->fake->fail_at = s->fake->calls + nth_call;
	status = soma_pool_create(&config, s->resource, &s->pool);
	if (went_well(s, status))
		return true;
	soma__arena_fail_nth(0);
	if (s->fake == NULL)
		return false;
	fake_run_all(s->fake);
	ck_ok(soma_resource_reap_pending(s->resource));
	ck_assert_uint_eq(soma_resource_bytes_outstanding(s->resource), 0);
	ck_assert_int_eq(s->fake->live_count, 0);
	soma_resource_release(s->resource);
	fake_destroy(s->fake);
	return false;
}

START_TEST(every_host_allocation_may_fail)
{
	for (enum over over = NOTHING; over < OVERS; over++) {
		unsigned long made, nth = 0;
		unsigned failures = 0;
		do {
			struct scene s;
			made = ULONG_MAX;
			if (start(&s, over, ++nth, 0)) {
				play(&s);
				made = soma__arena_fail_nth(0);
				end(&s);
			}
			failures += s.failures > 0;
		} while (nth <= made);
		ck_assert_uint_gt(nth, 10);
		ck_assert_uint_gt(failures, 3);
	}
}
END_TEST

START_TEST(every_call_of_the_backend_may_fail)
{
	for (enum over over = SYNCHRONOUS; over < OVERS; over++) {
		uint64_t nth = 0;
		unsigned failures = 0;
		bool reached;
		do {
			struct scene s;
			reached = true;
			if (start(&s, over, 0, ++nth)) {
				play(&s);
				reached = s.fake->calls >= s.fake->fail_at;
				s.fake->fail_at = 0;
				end(&s);
			}
			failures += s.failures > 0;
		} while (reached);
		ck_assert_uint_gt(nth, 10);
		ck_assert_uint_gt(failures, 3);
	}
}
END_TEST

/* The model cannot take a free that the resource has taken: it hears of it later, and the caller of
 * nothing. */
START_TEST(a_free_is_never_lost_for_want_of_memory)
{
	for (unsigned long nth = 1; nth < 60; nth++) {
		struct scene s;
		ck_assert(start(&s, BLOCKS_OF_THE_BACKEND, 0, 0));
		s.a = make_stream(&s);
		struct soma_allocation *x[40];
		for (unsigned i = 0; i < 40; i++)
			x[i] = alloc(s.pool, 1000 + 512 * i, s.a);
		soma__arena_fail_nth(nth);
		unsigned freed = 0;
		for (unsigned i = 0; i < 40; i += 2) {
			enum soma_status status = soma_pool_free(x[i], s.a);
			ck_assert(status == SOMA_STATUS_OK || status == SOMA_STATUS_OUT_OF_HOST_MEMORY);
			ck_assert_int_eq(soma_allocation_is_freed(x[i]), status == SOMA_STATUS_OK);
			if (status != SOMA_STATUS_OK)
				ck_ok(soma_pool_free_now(x[i]));
			ck_ok(soma_allocation_release(x[i]));
			freed++;
		}
		soma__arena_fail_nth(0);
		ck_assert_uint_eq(stats_of(s.pool).live_count, 40 - freed);
		ck_assert_uint_eq(stats_of(s.pool).handle_count, 40 - freed);
		for (unsigned i = 1; i < 40; i += 2)
			drop(x[i], s.a);
		end(&s);
	}
}
END_TEST

/* Nor does it matter when there is no model any more that could be told. */
START_TEST(the_last_free_of_a_destroyed_pool_may_lack_memory)
{
	for (unsigned long nth = 1; nth < 12; nth++) {
		struct scene s;
		struct soma_allocation *x;
		ck_assert(start(&s, BLOCKS_OF_THE_BACKEND, 0, 0));
		s.a = make_stream(&s);
		x = alloc(s.pool, 1000, s.a);
		ck_ok(soma_pool_destroy(s.pool));
		soma__arena_fail_nth(nth);
		enum soma_status status = soma_pool_free(x, s.a);
		soma__arena_fail_nth(0);
		if (status != SOMA_STATUS_OK)
			ck_ok(soma_pool_free(x, s.a));
		ck_assert(soma_allocation_is_freed(x));
		ck_ok(soma_allocation_release(x));
		fake_run_all(s.fake);
		ck_ok(soma_resource_reap_pending(s.resource));
		ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), 0);
		soma_resource_release(s.resource);
		fake_destroy(s.fake);
	}
}
END_TEST

UNIT_MAIN("pool_faults", every_host_allocation_may_fail, every_call_of_the_backend_may_fail,
	  a_free_is_never_lost_for_want_of_memory, the_last_free_of_a_destroyed_pool_may_lack_memory)

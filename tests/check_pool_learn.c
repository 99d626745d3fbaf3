/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a pool that places its blocks learns of executed frees when nobody synchronises: by asking on its way, of
 * few streams, seldom, and without waiting.
 */
#include "lib/pool/streams.h"
#include "tests/pool_fake.h"

#define LIVE 64

/* Blocks of many sizes, so that what does not join in time costs segments. */
static uint64_t
reserved_by_a_program(uint64_t seed, bool synchronises)
{
	struct soma_allocation *live[LIVE] = { NULL };
	uint64_t reserved;

	open_fake(SYNCHRONOUS, POOL);
	fake->streams_run = true;
	for (unsigned i = 0; i < 4000; i++) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		struct soma_allocation **slot = &live[(seed >> 33) % LIVE];
		if (*slot != NULL) {
			drop(*slot, a);
			*slot = NULL;
			if (synchronises)
				ck_ok(soma_pool_synchronize(p, a));
		} else {
			*slot = alloc(p, (KIB << (seed >> 40) % 15) + (seed >> 50), a);
		}
	}
	reserved = stats_of(p).reserved_high;
	for (unsigned i = 0; i < LIVE; i++)
		if (live[i] != NULL)
			drop(live[i], a);
	close_fake();
	return reserved;
}

START_TEST(without_synchronising_little_more_is_reserved_than_with_it)
{
	uint64_t with = 0, without = 0;

	for (uint64_t seed = 1; seed <= 8; seed++) {
		with += reserved_by_a_program(seed, true);
		without += reserved_by_a_program(seed, false);
	}
	ck_assert_uint_le(without, with + with / 16);
}
END_TEST

START_TEST(an_allocation_that_fits_learns_what_has_executed)
{
	open_fake(SYNCHRONOUS, POOL);
	fake_work(fake_stream(resource, a), 1);
	drop(alloc(p, 4 * MIB, a), a);
	struct soma_allocation *x = alloc(p, 1000, a), *y = alloc(p, 1000, a);
	ck_assert_uint_eq(stats_of(p).pending_free_count, 1);
	fake_run(fake, resource, a);
	struct soma_allocation *z = alloc(p, 1000, a), *z2 = alloc(p, 1000, a);
	ck_assert_uint_eq(stats_of(p).pending_free_count, 0);
	ck_assert_uint_eq(stats_of(p).segments_acquired, 1);
	ck_assert_uint_eq(fake_count(fake, FAKE_STREAM_SYNCHRONIZE), 0);
	ck_assert_uint_eq(fake_count(fake, FAKE_EVENT_SYNCHRONIZE), 0);
	drop(x, a), drop(y, a), drop(z, a), drop(z2, a);
	close_fake();
}
END_TEST

/* What is pending on a stream on which nothing is allocated any more is found, too. */
START_TEST(an_allocation_learns_of_other_streams)
{
	open_fake(SYNCHRONOUS, POOL);
	fake->streams_run = true;
	drop(alloc(p, 4 * MIB, a), a);
	struct soma_allocation *x = alloc(p, 1000, b), *y = alloc(p, 1000, b);
	ck_assert_uint_eq(stats_of(p).pending_free_count, 0);
	drop(x, b), drop(y, b);
	close_fake();
}
END_TEST

/* Of 64 allocations one asks: of the stream, which is marked and asked again. */
START_TEST(where_little_is_pending_few_allocations_ask)
{
	open_fake(SYNCHRONOUS, POOL);
	fake->streams_run = true;
	drop(alloc(p, 1000, a), a);
	uint64_t calls = fake->calls;
	for (unsigned i = 0; i < 6400; i++)
		drop(alloc(p, 1000 + i, a), a);
	ck_assert_uint_gt(fake->calls, calls);
	ck_assert_uint_le(fake->calls - calls, 6400 / 64 * 3 + 3);
	close_fake();
}
END_TEST

START_TEST(a_stream_that_gets_nowhere_is_asked_rarely_and_has_few_events)
{
	open_fake(SYNCHRONOUS, POOL);
	fake_work(fake_stream(resource, a), 1);
	struct soma_allocation *x = alloc(p, 1000, a);
	uint64_t records = fake_count(fake, FAKE_EVENT_RECORD), queries = fake_count(fake, FAKE_EVENT_QUERY);
	for (unsigned i = 0; i < 1600; i++)
		drop(alloc(p, 2 * MIB + i, a), a);
	ck_assert_uint_gt(fake_count(fake, FAKE_EVENT_RECORD), records);
	ck_assert_uint_le(fake_count(fake, FAKE_EVENT_RECORD) - records, SOMA__POOL_MARKS / 2);
	ck_assert_uint_le(fake_count(fake, FAKE_EVENT_QUERY) - queries, 1600 / 16 + 16);
	drop(x, a);
	close_fake();
}
END_TEST

/* The host's streams run when they are told, so what is queued on one that is never told stays. */
START_TEST(a_stream_of_the_host_that_nobody_runs_is_not_filled)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ KEEP });
	uint64_t stream = stream_of(s);

	for (unsigned i = 0; i < 10000; i++)
		drop(alloc(s.pool, MIB + 512 * (i % 512), stream), stream);
	ck_assert_uint_le(queued(s.resource, stream), SOMA__POOL_MARKS / 2);
	take_down(s);
}
END_TEST

/* An allocation on one stream must not end another's capture. */
START_TEST(a_captured_stream_gets_no_event)
{
	open_fake(SYNCHRONOUS, POOL);
	drop(alloc(p, 4 * MIB, a), a);
	fake->captures[fake_stream(resource, a)->index] = true;
	uint64_t before = fake_stream(resource, a)->queued;
	for (unsigned i = 0; i < 100; i++)
		drop(alloc(p, 8 * MIB, b), b);
	ck_assert_uint_eq(fake_stream(resource, a)->queued, before);
	fake->captures[fake_stream(resource, a)->index] = false;
	close_fake();
}
END_TEST

/* The resource has another stream in its place, so there is nothing to wait for, and the frees have executed.  That
 * comes to light when the model has chosen a block, which must not join its neighbours then. */
START_TEST(the_legacy_stream_takes_what_a_stream_left_that_is_no_more)
{
	open_fake(ORDERED, POOL);
	fake->blocking = true;
	struct soma_allocation *x = alloc(p, 256 * KIB, a), *complete = alloc(p, 64 * KIB, a),
			       *y = alloc(p, 256 * KIB, a), *rest = alloc(p, SEGMENT - 576 * KIB, b);
	drop(complete, a);
	ck_ok(soma_pool_synchronize(p, a));
	uint64_t ptr = drop(x, a);
	drop(y, a);
	ck_ok(soma_resource_stream_destroy(resource, a));
	fake_run_all(fake);
	a = new_stream(resource);
	x = alloc(p, 256 * KIB, 0);
	ck_assert_uint_eq(soma_allocation_ptr(x), ptr);
	ck_assert_uint_eq(stats_of(p).pending_free_count, 1);
	ck_ok(soma_pool_trim(p, SEGMENT));
	ck_assert_uint_eq(stats_of(p).pending_free_count, 0);
	ck_assert_uint_eq(stats_of(p).free_block_count, 1);
	y = alloc(p, 320 * KIB, a);
	ck_assert_uint_eq(stats_of(p).used, SEGMENT);
	ck_assert_uint_eq(stats_of(p).active, SEGMENT);
	ck_assert_uint_eq(stats_of(p).reserved, SEGMENT);
	drop(x, 0), drop(y, a), drop(rest, b);
	ck_ok(soma_pool_trim(p, SEGMENT));
	ck_assert_uint_eq(stats_of(p).pending_free_count, 0);
	ck_assert_uint_eq(stats_of(p).free_block_count, 1);
	drop(alloc(p, SEGMENT, b), b);
	ck_assert_uint_eq(stats_of(p).reserved, SEGMENT);
	close_fake();
}
END_TEST

UNIT_MAIN("pool_learn", without_synchronising_little_more_is_reserved_than_with_it,
	  an_allocation_that_fits_learns_what_has_executed, an_allocation_learns_of_other_streams,
	  where_little_is_pending_few_allocations_ask,
	  a_stream_that_gets_nowhere_is_asked_rarely_and_has_few_events,
	  a_stream_of_the_host_that_nobody_runs_is_not_filled, a_captured_stream_gets_no_event,
	  the_legacy_stream_takes_what_a_stream_left_that_is_no_more)

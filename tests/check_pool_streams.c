/* SPDX-License-Identifier: Apache-2.0 */
/* Pools and streams: whose streams there are, readiness, and the order that the driver keeps by itself. */
#include "tests/pool_fixture.h"

START_TEST(a_pool_alone_has_streams_of_its_own)
{
	struct setup s = set_up(ALONE, (struct soma_pool_config){ 0 });
	uint64_t a = stream_of(s), seq;

	ck_is(try_alloc(s.pool, 100, a + 5), INVALID_VALUE);
	ck_is(soma_pool_record_event(s.pool, a + 5, &seq), INVALID_VALUE);
	ck_is(soma_pool_synchronize(s.pool, a + 5), INVALID_VALUE);
	ck_is(soma_pool_stream_destroy(s.pool, 0), INVALID_VALUE);
	ck_is(soma_pool_stream_destroy(s.pool, a + 5), INVALID_VALUE);
	ck_is(soma_pool_stream_create(s.pool, 99, &seq), INVALID_VALUE);
	drop(alloc(s.pool, 100, a), a);
	ck_ok(soma_pool_stream_destroy(s.pool, a));
	ck_is(try_alloc(s.pool, 100, a), INVALID_VALUE);
	ck_ok(soma_pool_synchronize(s.pool, a));
	ck_assert_uint_eq(stats_of(s.pool).pending_free_count, 0);
	take_down(s);
}
END_TEST

/* It has one for its own use, which is no user's. */
START_TEST(no_stream_can_be_guessed)
{
	struct setup s = set_up(ALONE, (struct soma_pool_config){ 0 });
	struct soma_allocation *x = alloc(s.pool, 100, 0);
	uint64_t seq;

	for (uint64_t stream = 1; stream < 100; stream++) {
		ck_is(soma_pool_stream_destroy(s.pool, stream), INVALID_VALUE);
		ck_is(try_alloc(s.pool, 100, stream), INVALID_VALUE);
		ck_is(soma_pool_free(x, stream), INVALID_VALUE);
		ck_is(soma_pool_record_event(s.pool, stream, &seq), INVALID_VALUE);
		ck_is(soma_pool_wait_event(s.pool, stream, 0, 0), INVALID_VALUE);
		ck_is(soma_pool_wait_event(s.pool, 0, stream, 0), INVALID_VALUE);
		ck_is(soma_pool_synchronize(s.pool, stream), INVALID_VALUE);
	}
	drop(x, 0);
	take_down(s);
}
END_TEST

START_TEST(a_pool_over_a_resource_has_that_ones_streams)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ 0 });
	uint64_t a = stream_of(s), b = stream_of(s), stream, seq;

	ck_is(soma_pool_stream_create(s.pool, 0, &stream), NOT_SUPPORTED);
	ck_is(soma_pool_stream_destroy(s.pool, a), NOT_SUPPORTED);
	ck_is(try_alloc(s.pool, 100, b + 77), STREAM_MISUSE);
	ck_is(soma_pool_synchronize(s.pool, b + 77), STREAM_MISUSE);
	ck_is(soma_pool_record_event(s.pool, b + 77, &seq), STREAM_MISUSE);
	ck_is(soma_pool_wait_event(s.pool, a, b + 77, 0), STREAM_MISUSE);
	ck_is(soma_pool_wait_event(s.pool, a, UINT64_MAX, 0), STREAM_MISUSE);
	ck_is(soma_pool_wait_event(s.pool, a, b, 0), INVALID_VALUE);
	seq = record(s.pool, b);
	ck_is(soma_pool_wait_event(s.pool, a, b, seq + 1), INVALID_VALUE);
	ck_ok(soma_pool_wait_event(s.pool, a, b, seq));
	ck_ok(soma_pool_wait_event(s.pool, b, b, record(s.pool, b)));
	take_down(s);
}
END_TEST

START_TEST(readiness_follows_the_real_streams)
{
	for (enum kind kind = POOL_OVER_HOST; kind < OVER_GUARD; kind++) {
		struct setup s = set_up(kind, (struct soma_pool_config){ 0 });
		uint64_t a = stream_of(s), b = stream_of(s);
		struct soma_allocation *x = alloc(s.pool, 1000, a);
		fill(s.resource, soma_allocation_device_ptr(x), 1, 1000, a);
		ck_assert(!soma_pool_is_ready(x));
		uint64_t early = soma_allocation_ready_seq(x), seq = record(s.pool, a);
		ck_assert(!soma_pool_is_ready_on(x, b, early));
		ck_assert(soma_pool_is_ready_on(x, b, seq));
		ck_assert(!soma_pool_is_ready_on(x, a, seq));
		/* Asking again and again queues nothing further. */
		uint64_t before = queued(s.resource, a);
		for (int i = 0; i < 10; i++)
			ck_assert(!soma_pool_is_ready(x));
		ck_assert_uint_eq(queued(s.resource, a), before);
		step(s.resource, a);
		ck_assert(soma_pool_is_ready(x));
		ck_assert(soma_pool_is_ready_on(x, a, 0));
		drop(x, a);
		take_down(s);
	}
}
END_TEST

/* Order with the legacy default stream is the driver's, and the pool knows it. */
START_TEST(blocking_streams_and_the_legacy_stream_share_blocks_without_events)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t blocking, apart = stream_of(s);

	ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &blocking));
	uint64_t first = drop(alloc(s.pool, SEGMENT, blocking), blocking);
	struct soma_allocation *x = alloc(s.pool, SEGMENT, apart);
	ck_assert_uint_ne(soma_allocation_ptr(x), first);
	struct soma_allocation *y = alloc(s.pool, SEGMENT, 0);
	ck_assert_uint_eq(soma_allocation_ptr(y), first);
	drop(x, apart), drop(y, 0);
	take_down(s);
}
END_TEST

/* Allocates all that is free on `stream`, writes there, lets every stream run, this one first; the byte. */
static uint8_t
byte_after_reuse(struct setup s, uint64_t stream, const uint64_t *others, unsigned count)
{
	struct soma_allocation *x = alloc(s.pool, SEGMENT, stream);
	const uint8_t *byte = (const uint8_t *)(uintptr_t)soma_allocation_device_ptr(x);

	fill(s.resource, soma_allocation_device_ptr(x), 2, 1, stream);
	for (unsigned round = 0; round <= count; round++) {
		step(s.resource, stream);
		for (unsigned i = 0; i < count; i++)
			step(s.resource, others[i]);
	}
	drop(x, stream);
	return *byte;
}

/* The driver orders the work of two blocking streams only if the legacy stream has work between them, and an
 * allocation is none. */
START_TEST(blocking_streams_are_not_ordered_by_an_allocation_on_the_legacy_stream)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t first, second;

	ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &first));
	ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &second));
	struct soma_allocation *small = alloc(s.pool, KIB, first), *x = alloc(s.pool, SEGMENT, first);
	fill(s.resource, soma_allocation_device_ptr(x), 1, 1, first);
	drop(x, first);
	struct soma_allocation *between = alloc(s.pool, KIB, 0);
	ck_assert_uint_eq(byte_after_reuse(s, second, &first, 1), 2);
	drop(small, first), drop(between, 0);
	take_down(s);
}
END_TEST

/* Nor does waiting for a stream on which nothing is queued say anything of the legacy stream's work. */
START_TEST(synchronising_an_idle_blocking_stream_does_not_complete_the_legacy_streams_frees)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t blocking, apart = stream_of(s), legacy = 0;

	ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &blocking));
	struct soma_allocation *small = alloc(s.pool, KIB, blocking), *x = alloc(s.pool, SEGMENT, 0);
	fill(s.resource, soma_allocation_device_ptr(x), 1, 1, 0);
	drop(x, 0);
	struct soma_allocation *after = alloc(s.pool, KIB, blocking);
	ck_ok(soma_pool_synchronize(s.pool, blocking));
	ck_assert_uint_eq(byte_after_reuse(s, apart, &legacy, 1), 2);
	drop(small, blocking), drop(after, blocking);
	take_down(s);
}
END_TEST

START_TEST(a_block_is_not_ready_because_an_idle_blocking_stream_was_waited_for)
{
	for (enum kind kind = POOL_OVER_HOST; kind <= BACKEND_OVER_HOST; kind++) {
		struct setup s = set_up(kind, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
		uint64_t blocking;
		ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &blocking));
		struct soma_allocation *x = alloc(s.pool, KIB, 0);
		fill(s.resource, soma_allocation_device_ptr(x), 1, 1, 0);
		struct soma_allocation *y = alloc(s.pool, KIB, blocking);
		ck_ok(soma_pool_synchronize(s.pool, blocking));
		ck_assert(!soma_pool_is_ready(x));
		drop(x, 0), drop(y, blocking);
		ck_ok(soma_pool_synchronize(s.pool, 0));
		take_down(s);
	}
}
END_TEST

START_TEST(a_free_may_count_on_the_order_with_the_legacy_stream)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t blocking, apart = stream_of(s), legacy = 0;

	ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &blocking));
	struct soma_allocation *x = alloc(s.pool, SEGMENT, 0);
	fill(s.resource, soma_allocation_device_ptr(x), 1, 1, 0);
	drop(x, blocking);
	ck_ok(soma_pool_synchronize(s.pool, blocking));
	ck_assert_uint_eq(stats_of(s.pool).pending_free_count, 0);
	ck_assert_uint_eq(byte_after_reuse(s, apart, &legacy, 1), 2);
	take_down(s);
}
END_TEST

/* The pool's own operations on it are done; what the event covers beyond them is not. */
START_TEST(an_event_of_a_destroyed_stream_stands_for_work_that_is_still_queued)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t a = stream_of(s), b = stream_of(s), c = stream_of(s);
	struct soma_allocation *x = alloc(s.pool, KIB, a), *y = alloc(s.pool, KIB, c);
	const uint8_t *byte = (const uint8_t *)(uintptr_t)soma_allocation_device_ptr(x);

	drop(alloc(s.pool, KIB, a), a);
	ck_ok(soma_pool_trim(s.pool, UINT64_MAX));
	step(s.resource, a);
	ck_ok(soma_pool_trim(s.pool, UINT64_MAX));
	ck_assert_uint_eq(stats_of(s.pool).pending_free_count, 0);
	fill(s.resource, soma_allocation_device_ptr(x), 1, 1, a);
	uint64_t seq = record(s.pool, a);
	ck_ok(soma_resource_stream_destroy(s.resource, a));
	fill(s.resource, soma_allocation_device_ptr(y), 1, 1, c);
	drop(y, c);
	ck_ok(soma_pool_trim(s.pool, UINT64_MAX));
	ck_ok(soma_pool_wait_event(s.pool, b, a, seq));
	fill(s.resource, soma_allocation_device_ptr(x), 2, 1, b);
	step(s.resource, b);
	ck_ok(s.resource->terminal->ops->synchronize(s.resource->terminal->self));
	ck_assert_uint_eq(*byte, 2);
	drop(x, b);
	take_down(s);
}
END_TEST

START_TEST(what_is_freed_while_a_synchronisation_runs_is_not_taken_as_done)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t a = stream_of(s);
	struct soma_allocation *x = alloc(s.pool, SEGMENT, a);

	fill(s.resource, soma_allocation_device_ptr(x), 1, 1, a);
	struct soma_model *model = s.pool->model;
	struct soma_model_position position;
	uint64_t id = x->model_stream;
	drop(x, a);
	/* As if the wait had begun before the free. */
	ck_ok(soma__model_observe(model, id, 1, true));
	ck_ok(soma_model_position(model, id, &position));
	ck_assert_uint_eq(position.executed, 1);
	ck_assert_uint_eq(stats_of(s.pool).pending_free_count, 1);
	ck_ok(soma_pool_synchronize(s.pool, a));
	ck_assert_uint_eq(stats_of(s.pool).pending_free_count, 0);
	take_down(s);
}
END_TEST

UNIT_MAIN("pool streams", a_pool_alone_has_streams_of_its_own, no_stream_can_be_guessed,
	  a_pool_over_a_resource_has_that_ones_streams, readiness_follows_the_real_streams,
	  blocking_streams_and_the_legacy_stream_share_blocks_without_events,
	  blocking_streams_are_not_ordered_by_an_allocation_on_the_legacy_stream,
	  synchronising_an_idle_blocking_stream_does_not_complete_the_legacy_streams_frees,
	  a_block_is_not_ready_because_an_idle_blocking_stream_was_waited_for,
	  a_free_may_count_on_the_order_with_the_legacy_stream,
	  an_event_of_a_destroyed_stream_stands_for_work_that_is_still_queued,
	  what_is_freed_while_a_synchronisation_runs_is_not_taken_as_done)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order between streams: what an event proves and what it does not, and what the
 * legacy stream adds by itself; when a block is ready.
 */
#include "lib/model/driven.h"
#include "tests/model_fixture.h"
#include "tests/unit.h"

#define SAME SOMA_REUSE_SAME_STREAM
#define FOLLOW SOMA_REUSE_FOLLOW_EVENTS

/* ---- events ---------------------------------------------------------------- */

START_TEST(an_event_beyond_what_was_submitted_is_refused)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t a = stream_of(m), b = stream_of(m);

	alloc(m, 512, a);
	ck_ok(soma_model_wait_event(m, b, a, 1));
	ck_invalid(soma_model_wait_event(m, b, a, 2));
	ck_invalid(soma_model_wait_event(m, b, 99, 0));
	ck_invalid(soma_model_wait_event(m, 99, a, 0));
	ck_assert_uint_eq(submitted(m, b), 1);
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_stale_event_proves_only_what_came_before_it)
{
	struct soma_model *m = model_reusing(SAME | FOLLOW, 0);
	uint64_t a = stream_of(m), b = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a), second = alloc(m, SEGMENT, a);
	uint64_t between;

	release(m, first, a);
	between = record(m, a);
	release(m, second, a);
	record(m, a);
	ck_ok(soma_model_wait_event(m, b, a, between));
	ck_assert_uint_eq(alloc(m, SEGMENT, b).ptr, first.ptr);
	ck_assert_uint_ne(alloc(m, SEGMENT, b).ptr, second.ptr);
	soma_model_destroy(m);
}
END_TEST

START_TEST(an_event_keeps_proving_the_frees_before_it_when_neighbours_follow)
{
	struct soma_model *m = model_reusing(SAME | FOLLOW, 0);
	uint64_t a = stream_of(m), b = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT / 4, a), second = alloc(m, SEGMENT / 4, a);
	uint64_t event;

	alloc(m, SEGMENT / 2, a);
	release(m, first, a);
	event = record(m, a);
	release(m, second, a);
	ck_assert_uint_eq(soma_model_pending_free_count(m), 2);
	ck_ok(soma_model_wait_event(m, b, a, event));
	ck_assert_uint_eq(alloc(m, SEGMENT / 4, b).ptr, first.ptr);
	soma_model_destroy(m);
}
END_TEST

START_TEST(what_a_stream_waited_for_later_is_not_in_its_earlier_event)
{
	struct soma_model *m = model_reusing(FOLLOW, 0);
	uint64_t a = stream_of(m), b = stream_of(m), c = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a);
	uint64_t early;

	release(m, first, a);
	alloc(m, SEGMENT, b);
	early = record(m, b);
	order_after(m, b, a);
	ck_ok(soma_model_wait_event(m, c, b, early));
	ck_assert_uint_ne(alloc(m, SEGMENT, c).ptr, first.ptr);
	soma_model_destroy(m);
}
END_TEST

START_TEST(waiting_for_an_own_event_takes_a_position_and_proves_nothing)
{
	struct soma_model *m = model_reusing(FOLLOW, 0);
	uint64_t a = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a);

	release(m, first, a);
	order_after(m, a, a);
	ck_assert_uint_eq(submitted(m, a), 3);
	ck_assert_uint_ne(alloc(m, SEGMENT, a).ptr, first.ptr);
	soma_model_destroy(m);
}
END_TEST

START_TEST(advancing_a_stream_advances_what_it_waited_for)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t a = stream_of(m), b = stream_of(m), c = stream_of(m);

	alloc(m, 512, a);
	alloc(m, 512, a);
	ck_ok(soma_model_wait_event(m, b, a, 1));
	order_after(m, c, b);
	alloc(m, 512, c);
	ck_ok(soma_model_advance(m, c, 0));
	ck_assert_uint_eq(executed(m, a), 0);
	ck_ok(soma_model_advance(m, c, 1));
	ck_assert_uint_eq(executed(m, c), 1);
	ck_assert_uint_eq(executed(m, b), 1);
	ck_assert_uint_eq(executed(m, a), 1);
	ck_ok(soma_model_advance(m, a, 0));
	ck_assert_uint_eq(executed(m, a), 1);
	ck_invalid(soma_model_advance(m, a, 3));
	ck_invalid(soma_model_advance(m, 99, 0));
	soma_model_destroy(m);
}
END_TEST

/* ---- the legacy stream ----------------------------------------------------- */

static uint64_t
blocking_stream_of(struct soma_model *m)
{
	uint64_t stream = 0;

	ck_ok(soma_model_stream_create(m, SOMA_STREAM_BLOCKING, &stream));
	return stream;
}

START_TEST(the_legacy_stream_runs_after_blocking_streams)
{
	struct soma_model *m = model_reusing(FOLLOW, 0);
	uint64_t blocking = blocking_stream_of(m), other = stream_of(m);
	struct soma_model_alloc a = alloc(m, SEGMENT, blocking), b = alloc(m, 2 * SEGMENT, other);

	release(m, b, other);
	release(m, a, blocking);
	ck_assert_uint_ne(alloc(m, 2 * SEGMENT, 0).ptr, b.ptr);
	ck_assert_uint_eq(alloc(m, SEGMENT, 0).ptr, a.ptr);
	soma_model_destroy(m);
}
END_TEST

START_TEST(blocking_streams_run_after_the_legacy_stream_and_so_after_each_other)
{
	struct soma_model *m = model_reusing(FOLLOW, 0);
	uint64_t first = blocking_stream_of(m), second = blocking_stream_of(m), other = stream_of(m);
	struct soma_model_alloc a = alloc(m, SEGMENT, first);

	release(m, a, first);
	ck_assert_uint_ne(alloc(m, SEGMENT, second).ptr, a.ptr);
	alloc(m, 2 * SEGMENT, 0);
	ck_assert_uint_ne(alloc(m, SEGMENT, other).ptr, a.ptr);
	ck_assert_uint_eq(alloc(m, SEGMENT, second).ptr, a.ptr);
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_legacy_event_takes_a_position_only_when_its_order_adds_something)
{
	struct soma_model *m = model_reusing(FOLLOW, 0);
	uint64_t blocking = blocking_stream_of(m);

	ck_assert_uint_eq(record(m, 0), 0);
	alloc(m, 512, blocking);
	ck_assert_uint_eq(record(m, 0), 1);
	ck_assert_uint_eq(record(m, 0), 1);
	ck_assert_uint_eq(submitted(m, 0), 1);
	ck_ok(soma_model_advance(m, 0, 1));
	ck_assert_uint_eq(executed(m, blocking), 1);
	soma_model_destroy(m);
}
END_TEST

/* ---- readiness ------------------------------------------------------------- */

START_TEST(a_block_is_ready_on_its_stream_once_that_executed_past_it)
{
	struct soma_model *m = model_of("strict", 0);
	uint64_t s = stream_of(m);
	struct soma_model_alloc a, b;

	a = alloc(m, 512, s);
	b = alloc(m, 512, s);
	ck_assert_uint_eq(b.ready_seq, 1);
	ck_assert(!soma_model_is_ready_same_stream(m, &a));
	ck_ok(soma_model_advance(m, s, 1));
	ck_assert(soma_model_is_ready_same_stream(m, &a));
	ck_assert(!soma_model_is_ready_same_stream(m, &b));
	ck_assert(!soma_model_is_ready_cross_stream(m, &b, s, 2));
	ck_ok(soma_model_synchronize(m, s));
	ck_assert(soma_model_is_ready_same_stream(m, &b));
	ck_assert(soma_model_is_ready_cross_stream(m, &b, s, 0));
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_block_is_ready_elsewhere_after_waiting_past_its_allocation)
{
	struct soma_model *m = model_of("strict", 0);
	uint64_t s = stream_of(m), t = stream_of(m);
	struct soma_model_alloc a;

	alloc(m, 512, s);
	a = alloc(m, 512, s);
	ck_assert_uint_gt(record(m, s), a.ready_seq);
	ck_assert(!soma_model_is_ready_cross_stream(m, &a, t, 0));
	ck_assert(!soma_model_is_ready_cross_stream(m, &a, t, a.ready_seq));
	ck_assert(soma_model_is_ready_cross_stream(m, &a, t, a.ready_seq + 1));
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_free_that_was_just_made_pends)
{
	struct soma_model *m = model_of("strict", 0);
	struct soma_model_alloc a[4];

	for (int i = 0; i < 4; i++)
		a[i] = alloc(m, MIB, 0);
	ck_assert(!soma__model_pends(m, 1, 63));
	release(m, a[1], 0);
	ck_assert(soma__model_pends(m, MIB, 2));
	ck_assert(!soma__model_pends(m, MIB + 1, 2));
	ck_assert(!soma__model_pends(m, MIB, 1));
	ck_assert(!soma_model_is_live(m, a[1].ptr));
	ck_invalid(soma_model_free(m, a[1].ptr, 0));
	ck_assert_uint_eq(soma_model_capacity(m), 3 * MIB);
	ck_assert_uint_eq(soma_model_pending_free_count(m), 1);
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_rule_that_comes_later_finds_a_free_that_was_just_made)
{
	struct soma_model *m = model_of("strict", MIB);
	uint64_t s = stream_of(m), t = stream_of(m);
	struct soma_model_alloc a = alloc(m, MIB, s), b;

	release(m, a, s);
	ck_assert_int_eq(try_alloc(m, MIB, t), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_ok(soma__model_set_reuse(m, SOMA_REUSE_INTERNAL));
	b = alloc(m, MIB, t);
	ck_assert_uint_eq(b.ptr, a.ptr);
	ck_assert_uint_eq(b.wait_stream, s);
	ck_assert_uint_eq(b.wait_seq, 2);
	soma_model_destroy(m);
}
END_TEST

UNIT_MAIN("order", a_free_that_was_just_made_pends,
	  a_rule_that_comes_later_finds_a_free_that_was_just_made,
	  a_block_is_ready_on_its_stream_once_that_executed_past_it,
	  a_block_is_ready_elsewhere_after_waiting_past_its_allocation,
	  an_event_beyond_what_was_submitted_is_refused, a_stale_event_proves_only_what_came_before_it,
	  an_event_keeps_proving_the_frees_before_it_when_neighbours_follow,
	  what_a_stream_waited_for_later_is_not_in_its_earlier_event,
	  waiting_for_an_own_event_takes_a_position_and_proves_nothing,
	  advancing_a_stream_advances_what_it_waited_for, the_legacy_stream_runs_after_blocking_streams,
	  blocking_streams_run_after_the_legacy_stream_and_so_after_each_other,
	  a_legacy_event_takes_a_position_only_when_its_order_adds_something)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's edges: what is refused and leaves no trace, events and streams that
 * are old or gone, the legacy stream, exact trims, counters, readiness, the source.
 */
#include "tests/model_fixture.h"

#include <stdlib.h>
#include <string.h>

#define SAME SOMA_REUSE_SAME_STREAM
#define FOLLOW SOMA_REUSE_FOLLOW_EVENTS

/* ---- what is refused leaves no trace --------------------------------------- */

struct picture {
	struct soma_model_stats stats;
	struct soma_extent extents[64];
	unsigned count;
};

static bool
draw(void *context, const struct soma_extent *extent)
{
	struct picture *picture = context;

	ck_assert_uint_lt(picture->count, 64);
	picture->extents[picture->count++] = *extent;
	return true;
}

static void
take_picture(const struct soma_model *m, struct picture *picture)
{
	memset(picture, 0, sizeof *picture);
	soma_model_stats(m, &picture->stats);
	soma_model_walk(m, draw, picture);
}

static void
assert_unchanged(const struct soma_model *m, const struct picture *before)
{
	struct picture now;

	take_picture(m, &now);
	ck_assert_mem_eq(&now.stats, &before->stats, sizeof now.stats);
	ck_assert_uint_eq(now.count, before->count);
	for (unsigned i = 0; i < now.count; i++) {
		ck_assert_uint_eq(now.extents[i].kind, before->extents[i].kind);
		ck_assert_uint_eq(now.extents[i].address, before->extents[i].address);
		ck_assert_uint_eq(now.extents[i].size, before->extents[i].size);
		ck_assert_uint_eq(now.extents[i].seq, before->extents[i].seq);
	}
}

START_TEST(a_bad_free_is_refused_and_changes_nothing)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t s = stream_of(m);
	struct soma_model_alloc a = alloc(m, 2000, s), freed = alloc(m, 4096, s);
	struct picture before;

	release(m, freed, s);
	take_picture(m, &before);
	ck_invalid(soma_model_free(m, freed.ptr, s));
	ck_invalid(soma_model_free(m, a.ptr + 512, s));
	ck_invalid(soma_model_free(m, a.ptr + 1, s));
	ck_invalid(soma_model_free(m, a.ptr - 512, s));
	ck_invalid(soma_model_free(m, 0x1234, s));
	ck_invalid(soma_model_free(m, UINT64_MAX, s));
	ck_invalid(soma_model_free(m, a.ptr, 77));
	assert_unchanged(m, &before);
	ck_assert_uint_eq(submitted(m, s), 3);
	soma_model_destroy(m);
}
END_TEST

START_TEST(freeing_nothing_succeeds_and_takes_no_position)
{
	struct soma_model *m = model_of("strict", 0);
	uint64_t s = stream_of(m);

	ck_ok(soma_model_free(m, 0, s));
	ck_assert_uint_eq(submitted(m, s), 0);
	ck_assert_uint_eq(soma_model_free_count(m), 0);
	soma_model_destroy(m);
}
END_TEST

START_TEST(an_alloc_that_fails_changes_nothing)
{
	static const char *const presets[] = { "strict", "cuda", "pytorch" };
	struct soma_model *m = model_of(presets[_i], 3 * SEGMENT);
	uint64_t s = stream_of(m), t = stream_of(m);
	struct soma_model_alloc a = alloc(m, SEGMENT, s);
	struct picture before;

	alloc(m, SEGMENT, s);
	release(m, a, t);
	take_picture(m, &before);
	ck_assert_int_eq(try_alloc(m, 3 * SEGMENT, t), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_int_eq(try_alloc(m, SOMA_MODEL_ADDRESS_MAX + 1, t), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_int_eq(try_alloc(m, UINT64_MAX, t), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_invalid(try_alloc(m, 0, t));
	ck_invalid(try_alloc(m, 512, 99));
	assert_unchanged(m, &before);
	ck_assert_uint_eq(submitted(m, t), 1);
	soma_model_destroy(m);
}
END_TEST

START_TEST(an_outcome_is_written_only_on_success)
{
	struct soma_model *m = model_of("strict", SEGMENT);
	struct soma_model_alloc a = { .ptr = 1, .ready_seq = 2 };
	uint64_t stream = 3, seq = 4;
	struct soma_model_position position = { 5, 6 };

	ck_assert_int_eq(soma_model_alloc(m, 2 * SEGMENT, 0, &a), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_invalid(soma_model_alloc(m, 0, 0, &a));
	ck_invalid(soma_model_stream_create(m, 2, &stream));
	ck_invalid(soma_model_record_event(m, 99, &seq));
	ck_invalid(soma_model_position(m, 99, &position));
	ck_assert_uint_eq(a.ptr, 1);
	ck_assert_uint_eq(a.ready_seq, 2);
	ck_assert_uint_eq(stream, 3);
	ck_assert_uint_eq(seq, 4);
	ck_assert_uint_eq(position.submitted, 5);
	soma_model_destroy(m);
}
END_TEST

START_TEST(out_of_memory_says_how_much_was_asked_held_left_and_allowed)
{
	struct soma_model *m = model_of("cuda", 2 * SEGMENT + 1000);
	const struct soma_error *e;

	alloc(m, SEGMENT, 0);
	ck_assert_int_eq(try_alloc(m, 2 * SEGMENT - 100, 0), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	e = soma_error_last();
	ck_assert_int_eq(e->status, SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_uint_eq(e->requested, 2 * SEGMENT - 100);
	ck_assert_uint_eq(e->current, SEGMENT);
	ck_assert_uint_eq(e->remaining, SEGMENT + 1000);
	ck_assert_uint_eq(e->limit, 2 * SEGMENT + 1000);
	ck_assert_uint_gt(strlen(e->text), 10);
	soma_model_destroy(m);
}
END_TEST

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

/* ---- streams --------------------------------------------------------------- */

START_TEST(a_destroyed_stream_refuses_work_and_stays_until_it_has_nothing_pending)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t s = stream_of(m), seq, next;
	struct soma_model_alloc a = alloc(m, 512, s), b = alloc(m, 512, s);

	release(m, a, s);
	ck_ok(soma_model_stream_destroy(m, s));
	ck_invalid(try_alloc(m, 512, s));
	ck_invalid(soma_model_free(m, b.ptr, s));
	ck_invalid(soma_model_record_event(m, s, &seq));
	ck_invalid(soma_model_wait_event(m, s, 0, 0));
	ck_invalid(soma_model_stream_destroy(m, s));
	ck_assert_uint_eq(soma_model_pending_free_count(m), 1);
	ck_assert_uint_eq(submitted(m, s), 3);
	next = stream_of(m);
	ck_assert_uint_eq(next, s + 1);
	ck_ok(soma_model_synchronize(m, s));
	ck_assert_uint_eq(soma_model_pending_free_count(m), 0);
	ck_invalid(soma_model_synchronize(m, s));
	ck_ok(soma_model_wait_event(m, next, s, 3)); /* of a stream that is gone */
	ck_assert_uint_eq(stream_of(m), s + (1 << 20));
	release(m, b, next);
	soma_model_destroy(m);
}
END_TEST

START_TEST(stream_ids_are_never_used_twice)
{
	struct soma_model *m = model_of("strict", 0);

	for (uint64_t i = 0; i < 5; i++) {
		uint64_t s = stream_of(m);

		ck_assert_uint_eq(s, 1 + (i << 20));
		ck_ok(soma_model_stream_destroy(m, s));
	}
	ck_invalid(soma_model_stream_destroy(m, 0));
	ck_invalid(soma_model_stream_destroy(m, 1));
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_block_of_a_stream_that_is_gone_is_ready)
{
	struct soma_model *m = model_of("strict", 0);
	uint64_t s = stream_of(m);
	struct soma_model_alloc a = alloc(m, 512, s);

	ck_ok(soma_model_stream_destroy(m, s));
	ck_assert(!soma_model_is_ready_same_stream(m, &a));
	ck_ok(soma_model_synchronize_all(m));
	ck_assert(soma_model_is_ready_same_stream(m, &a));
	ck_assert(soma_model_is_live(m, a.ptr));
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

/* ---- sizes, counters, trims ------------------------------------------------ */

START_TEST(used_counts_what_was_asked_for_and_capacity_what_is_held)
{
	struct soma_model *m = model_of("strict", 0);
	struct soma_model_alloc a = alloc(m, 1, 0), b = alloc(m, 513, 0);

	ck_assert_uint_eq(a.capacity, 512);
	ck_assert_uint_eq(b.capacity, 1024);
	ck_assert_uint_eq(b.ptr, a.ptr + 512);
	ck_assert_uint_eq(a.ptr, SOMA_MODEL_BASE_DEFAULT);
	ck_assert_uint_eq(soma_model_used(m), 514);
	ck_assert_uint_eq(soma_model_capacity(m), 1536);
	ck_assert_uint_eq(soma_model_active(m), 1536);
	ck_assert_uint_eq(soma_model_reserved(m), 1536);
	release(m, b, 0);
	ck_assert_uint_eq(soma_model_used(m), 1);
	ck_assert_uint_eq(soma_model_capacity(m), 512);
	ck_assert_uint_eq(soma_model_active(m), 1536);
	ck_ok(soma_model_synchronize(m, 0));
	ck_assert_uint_eq(soma_model_active(m), 512);
	ck_assert_uint_eq(soma_model_used_high(m), 514);
	ck_assert_uint_eq(soma_model_peak_active(m), 1536);
	ck_assert_uint_eq(soma_model_live_count(m), 1);
	ck_assert_uint_eq(soma_model_alloc_count(m), 2);
	ck_assert_uint_eq(soma_model_free_count(m), 1);
	soma_model_destroy(m);
}
END_TEST

START_TEST(only_the_start_of_a_live_block_is_live)
{
	struct soma_model *m = model_of("strict", 0);
	struct soma_model_alloc a = alloc(m, 2000, 0);

	ck_assert(soma_model_is_live(m, a.ptr));
	ck_assert(!soma_model_is_live(m, a.ptr + 1));
	ck_assert(!soma_model_is_live(m, a.ptr + 512));
	ck_assert(!soma_model_is_live(m, a.ptr - 512));
	ck_assert(!soma_model_is_live(m, 0));
	ck_assert(!soma_model_is_live(m, UINT64_MAX));
	release(m, a, 0);
	ck_assert(!soma_model_is_live(m, a.ptr));
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_range_is_trimmed_to_the_granule_above_what_is_kept)
{
	struct soma_model *m = model_of("strict", 0);
	struct soma_model_alloc a = alloc(m, 10 * KIB, 0);

	alloc(m, 512, 0);
	release(m, a, 0);
	ck_ok(soma_model_synchronize(m, 0));
	ck_ok(soma_model_trim_to(m, 5000));
	ck_assert_uint_eq(soma_model_reserved(m), 5120);
	ck_assert_uint_eq(soma_model_segments_released(m), 1);
	ck_assert_uint_eq(soma_model_segment_count(m), 1);
	/* The hole is at the end of the freed block and is grown into again. */
	ck_assert_uint_eq(alloc(m, 5 * KIB, 0).ptr, a.ptr + 10 * KIB - 5632);
	ck_assert_uint_eq(soma_model_reserved(m), 10240);
	soma_model_destroy(m);
}
END_TEST

START_TEST(segments_are_trimmed_largest_first_without_overshooting)
{
	struct soma_model *m = model_of("cuda", 0);
	struct soma_model_alloc a[3];

	for (unsigned i = 0; i < 3; i++)
		a[i] = alloc(m, (i + 1) * SEGMENT, 0);
	for (unsigned i = 0; i < 3; i++)
		release(m, a[i], 0);
	ck_ok(soma_model_synchronize(m, 0));
	ck_ok(soma_model_trim_to(m, 3 * SEGMENT + 1));
	ck_assert_uint_eq(soma_model_reserved(m), 4 * SEGMENT);
	ck_assert_uint_eq(soma_model_segments_released(m), 1);
	ck_ok(soma_model_trim_to(m, SEGMENT));
	ck_assert_uint_eq(soma_model_reserved(m), SEGMENT);
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_threshold_takes_effect_at_the_next_synchronisation)
{
	struct soma_model *m = model_of("cuda", 0);

	release(m, alloc(m, SEGMENT, 0), 0);
	ck_ok(soma_model_synchronize(m, 0));
	soma_model_set_release_threshold(m, 0);
	ck_assert_uint_eq(soma_model_reserved(m), SEGMENT);
	ck_ok(soma_model_synchronize_all(m));
	ck_assert_uint_eq(soma_model_reserved(m), 0);
	ck_assert_uint_eq(soma_model_reserved_high(m), SEGMENT);
	soma_model_destroy(m);
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("rules");
	TCase *tc = tcase_create("edges");

	tcase_add_test(tc, a_bad_free_is_refused_and_changes_nothing);
	tcase_add_test(tc, freeing_nothing_succeeds_and_takes_no_position);
	tcase_add_loop_test(tc, an_alloc_that_fails_changes_nothing, 0, 3);
	tcase_add_test(tc, an_outcome_is_written_only_on_success);
	tcase_add_test(tc, out_of_memory_says_how_much_was_asked_held_left_and_allowed);
	tcase_add_test(tc, an_event_beyond_what_was_submitted_is_refused);
	tcase_add_test(tc, a_stale_event_proves_only_what_came_before_it);
	tcase_add_test(tc, an_event_keeps_proving_the_frees_before_it_when_neighbours_follow);
	tcase_add_test(tc, what_a_stream_waited_for_later_is_not_in_its_earlier_event);
	tcase_add_test(tc, waiting_for_an_own_event_takes_a_position_and_proves_nothing);
	tcase_add_test(tc, advancing_a_stream_advances_what_it_waited_for);
	tcase_add_test(tc, a_block_is_ready_on_its_stream_once_that_executed_past_it);
	tcase_add_test(tc, a_block_is_ready_elsewhere_after_waiting_past_its_allocation);
	tcase_add_test(tc, a_destroyed_stream_refuses_work_and_stays_until_it_has_nothing_pending);
	tcase_add_test(tc, stream_ids_are_never_used_twice);
	tcase_add_test(tc, a_block_of_a_stream_that_is_gone_is_ready);
	tcase_add_test(tc, the_legacy_stream_runs_after_blocking_streams);
	tcase_add_test(tc, blocking_streams_run_after_the_legacy_stream_and_so_after_each_other);
	tcase_add_test(tc, a_legacy_event_takes_a_position_only_when_its_order_adds_something);
	tcase_add_test(tc, used_counts_what_was_asked_for_and_capacity_what_is_held);
	tcase_add_test(tc, only_the_start_of_a_live_block_is_live);
	tcase_add_test(tc, a_range_is_trimmed_to_the_granule_above_what_is_kept);
	tcase_add_test(tc, segments_are_trimmed_largest_first_without_overshooting);
	tcase_add_test(tc, a_threshold_takes_effect_at_the_next_synchronisation);
	suite_add_tcase(s, tc);
	return s;
}

int
main(void)
{
	SRunner *runner = srunner_create(suite());
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

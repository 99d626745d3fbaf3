/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The behaviours of stream-ordered allocation, by their numbers, on the public
 * interface.  Blocks are as large as a segment of the `cuda` preset, so that a new
 * block means growth and a reused one means the same pointer.
 */
#include "tests/model_fixture.h"
#include "tests/unit.h"

#define SAME SOMA_REUSE_SAME_STREAM
#define FOLLOW SOMA_REUSE_FOLLOW_EVENTS
#define OPPORTUNISTIC SOMA_REUSE_OPPORTUNISTIC
#define INTERNAL SOMA_REUSE_INTERNAL

START_TEST(behaviour_01_a_stream_reuses_its_own_free_without_synchronising)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t s = stream_of(m);
	struct soma_model_alloc a = alloc(m, 3 * MIB, s), b;

	release(m, a, s);
	b = alloc(m, 3 * MIB, s);
	ck_assert_uint_eq(b.ptr, a.ptr);
	ck_assert_uint_eq(b.wait_seq, 0);
	ck_assert_uint_eq(executed(m, s), 0);
	ck_assert_uint_eq(soma_model_segments_acquired(m), 1);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_02_an_unrelated_stream_grows_with_all_policies_off)
{
	struct soma_model *m = model_reusing(0, 0);
	uint64_t a = stream_of(m), b = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a);

	release(m, first, a);
	ck_assert_uint_ne(alloc(m, SEGMENT, b).ptr, first.ptr);
	ck_assert_uint_eq(soma_model_reserved(m), 2 * SEGMENT);
	ck_assert_uint_eq(soma_model_pending_free_count(m), 1);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_03_a_stream_that_waited_for_the_free_reuses_it)
{
	struct soma_model *m = model_reusing(FOLLOW, 0);
	uint64_t a = stream_of(m), b = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a), second;

	release(m, first, a);
	order_after(m, b, a);
	second = alloc(m, SEGMENT, b);
	ck_assert_uint_eq(second.ptr, first.ptr);
	ck_assert_uint_eq(second.wait_seq, 0);
	ck_assert_uint_eq(soma_model_segments_acquired(m), 1);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_04_an_event_from_before_the_free_does_not_prove_it)
{
	struct soma_model *m = model_reusing(SAME | FOLLOW | OPPORTUNISTIC, 0);
	uint64_t a = stream_of(m), b = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a);
	uint64_t early = record(m, a);

	release(m, first, a);
	ck_ok(soma_model_wait_event(m, b, a, early));
	ck_assert_uint_ne(alloc(m, SEGMENT, b).ptr, first.ptr);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_05_order_goes_through_a_chain_of_events)
{
	struct soma_model *m = model_reusing(FOLLOW, 0);
	uint64_t a = stream_of(m), b = stream_of(m), c = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a);

	release(m, first, a);
	order_after(m, b, a);
	order_after(m, c, b);
	ck_assert_uint_eq(alloc(m, SEGMENT, c).ptr, first.ptr);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_06_without_follow_events_a_waiting_stream_grows)
{
	struct soma_model *m = model_reusing(SAME | OPPORTUNISTIC | INTERNAL, 0);
	uint64_t a = stream_of(m), b = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a);

	release(m, first, a);
	order_after(m, b, a);
	ck_assert_uint_ne(alloc(m, SEGMENT, b).ptr, first.ptr);
	ck_assert_uint_eq(soma_model_reserved(m), 2 * SEGMENT);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_07_opportunistic_any_stream_reuses_an_executed_free)
{
	struct soma_model *m = model_reusing(SAME | OPPORTUNISTIC, 0);
	uint64_t a = stream_of(m), b = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a);

	release(m, first, a);
	ck_ok(soma_model_advance(m, a, 2));
	ck_assert_uint_eq(soma_model_free_block_count(m), 1);
	ck_assert_uint_eq(alloc(m, SEGMENT, b).ptr, first.ptr);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_08_not_opportunistic_only_a_host_synchronisation_proves_it)
{
	struct soma_model *m = model_reusing(SAME, 0);
	uint64_t a = stream_of(m), b = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a);

	release(m, first, a);
	ck_ok(soma_model_advance(m, a, 2));
	ck_assert_uint_eq(soma_model_pending_free_count(m), 1);
	ck_assert_uint_ne(alloc(m, SEGMENT, b).ptr, first.ptr);
	ck_ok(soma_model_synchronize(m, a));
	ck_assert_uint_eq(soma_model_free_block_count(m), 1);
	ck_assert_uint_eq(alloc(m, SEGMENT, b).ptr, first.ptr);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_09_internal_a_failing_growth_waits_for_another_streams_free)
{
	struct soma_model *m = model_reusing(INTERNAL, SEGMENT);
	uint64_t a = stream_of(m), b = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a), second;

	ck_ok(soma_model_wait_event(m, a, a, 0));
	release(m, first, a); /* position 2 */
	second = alloc(m, SEGMENT, b);
	ck_assert_uint_eq(second.ptr, first.ptr);
	ck_assert_uint_eq(second.wait_stream, a);
	ck_assert_uint_eq(second.wait_seq, 3);
	ck_assert_uint_eq(second.ready_seq, 1); /* the wait took 0 */
	ck_assert_uint_eq(submitted(m, b), 2);
	ck_assert_uint_eq(soma_model_wait_count(m), 1);
	/* The wait is real: whoever proves b's work proves the free. */
	ck_ok(soma_model_advance(m, b, 1));
	ck_assert_uint_eq(executed(m, a), 3);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_10_not_internal_the_same_is_out_of_memory)
{
	struct soma_model *m = model_reusing(SAME | FOLLOW | OPPORTUNISTIC, SEGMENT);
	uint64_t a = stream_of(m), b = stream_of(m);

	release(m, alloc(m, SEGMENT, a), a);
	ck_assert_int_eq(try_alloc(m, SEGMENT, b), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_uint_eq(submitted(m, b), 0);
	ck_assert_uint_eq(soma_model_wait_count(m), 0);
	ck_assert_uint_eq(soma_model_pending_free_count(m), 1);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_11_no_wait_is_inserted_while_growth_is_possible)
{
	struct soma_model *m = model_of("cuda", 2 * SEGMENT);
	uint64_t a = stream_of(m), b = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a), second;

	release(m, first, a);
	second = alloc(m, SEGMENT, b);
	ck_assert_uint_ne(second.ptr, first.ptr);
	ck_assert_uint_eq(second.wait_seq, 0);
	ck_assert_uint_eq(submitted(m, b), 1);
	ck_assert_uint_eq(soma_model_wait_count(m), 0);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_12_the_allocating_stream_has_no_right_to_another_streams_free)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t a = stream_of(m), b = stream_of(m);
	struct soma_model_alloc first = alloc(m, SEGMENT, a);

	order_after(m, b, a);
	release(m, first, b);
	ck_assert_uint_ne(alloc(m, SEGMENT, a).ptr, first.ptr);
	order_after(m, a, b);
	ck_assert_uint_eq(alloc(m, SEGMENT, a).ptr, first.ptr);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_13_the_threshold_releases_only_at_a_synchronisation)
{
	struct soma_model *m = model_with_policy(soma_policy_preset("cuda"), 0, SEGMENT);
	uint64_t s = stream_of(m);
	struct soma_model_alloc a = alloc(m, SEGMENT, s), b = alloc(m, SEGMENT, s), c = alloc(m, SEGMENT, s);

	release(m, a, s);
	release(m, b, s);
	ck_ok(soma_model_advance(m, s, submitted(m, s)));
	release(m, alloc(m, SEGMENT, s), s);
	release(m, c, s);
	ck_assert_uint_eq(soma_model_reserved(m), 3 * SEGMENT);
	ck_ok(soma_model_synchronize(m, s));
	ck_assert_uint_eq(soma_model_reserved(m), SEGMENT);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_14_the_greatest_threshold_keeps_everything)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t s = stream_of(m);

	release(m, alloc(m, 7 * SEGMENT, s), s);
	ck_ok(soma_model_synchronize(m, s));
	ck_ok(soma_model_synchronize_all(m));
	ck_assert_uint_eq(soma_model_reserved(m), 7 * SEGMENT);
	ck_assert_uint_eq(soma_model_segments_released(m), 0);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_15_synchronising_one_stream_does_not_prove_anothers_free)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t a = stream_of(m), b = stream_of(m), c = stream_of(m);
	struct soma_model_alloc of_a = alloc(m, SEGMENT, a), of_b = alloc(m, SEGMENT, b), next;

	release(m, of_a, a);
	release(m, of_b, b);
	ck_ok(soma_model_synchronize(m, a));
	ck_assert_uint_eq(soma_model_free_block_count(m), 1);
	ck_assert_uint_eq(soma_model_pending_free_count(m), 1);
	ck_assert_uint_eq(alloc(m, SEGMENT, c).ptr, of_a.ptr);
	next = alloc(m, SEGMENT, c);
	ck_assert_uint_ne(next.ptr, of_b.ptr);
	soma_model_destroy(m);
}
END_TEST

/* Some blocks are free for certain, some live. */
static struct soma_model *
with_free_memory(const char *preset)
{
	struct soma_model *m = model_of(preset, 0);
	struct soma_model_alloc a[8];
	uint64_t s = stream_of(m);

	for (unsigned i = 0; i < 8; i++)
		a[i] = alloc(m, (1 + i % 3) * SEGMENT, s);
	for (unsigned i = 0; i < 8; i++)
		if (i % 4 != 1)
			release(m, a[i], s);
	ck_ok(soma_model_synchronize(m, s));
	return m;
}

static void
check_trimming(const char *preset)
{
	struct soma_model *m = with_free_memory(preset);
	uint64_t all = soma_model_reserved(m), live = soma_model_capacity(m);

	ck_ok(soma_model_trim_to(m, all + 1));
	ck_assert_uint_eq(soma_model_reserved(m), all);
	ck_assert_uint_eq(soma_model_segments_released(m), 0);
	for (uint64_t keep = all; keep > 0; keep -= all / 64) {
		ck_ok(soma_model_trim_to(m, keep));
		ck_assert_uint_ge(soma_model_reserved(m), keep);
		if (keep < all / 32)
			break;
	}
	ck_ok(soma_model_trim_to(m, 0));
	ck_assert_uint_eq(soma_model_reserved(m), live);
	soma_model_destroy(m);
}

START_TEST(behaviour_16_trimming_never_goes_below_what_is_to_be_kept)
{
	check_trimming("strict");
	check_trimming("cuda");
	check_trimming("pytorch");
}
END_TEST

START_TEST(behaviour_17_a_free_that_was_not_observed_cannot_be_trimmed)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t s = stream_of(m);

	release(m, alloc(m, SEGMENT, s), s);
	ck_ok(soma_model_trim_to(m, 0));
	ck_assert_uint_eq(soma_model_reserved(m), SEGMENT);
	ck_ok(soma_model_synchronize(m, s));
	ck_ok(soma_model_trim_to(m, 0));
	ck_assert_uint_eq(soma_model_reserved(m), 0);
	ck_assert_uint_eq(soma_model_segment_count(m), 0);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_18_a_segment_with_one_live_block_is_kept_whole)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t s = stream_of(m);
	struct soma_model_alloc small = alloc(m, 512, s), rest = alloc(m, SEGMENT / 2, s);

	ck_assert_uint_eq(rest.ptr, small.ptr + 512);
	release(m, rest, s);
	ck_ok(soma_model_synchronize(m, s));
	ck_ok(soma_model_trim_to(m, 0));
	ck_assert_uint_eq(soma_model_reserved(m), SEGMENT);
	release(m, small, s);
	ck_ok(soma_model_synchronize(m, s));
	ck_ok(soma_model_trim_to(m, 0));
	ck_assert_uint_eq(soma_model_reserved(m), 0);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_19_resetting_the_peaks_makes_them_the_current_values)
{
	struct soma_model *m = with_free_memory("cuda");

	ck_ok(soma_model_trim_to(m, 0));
	ck_assert_uint_gt(soma_model_reserved_high(m), soma_model_reserved(m));
	ck_assert_uint_gt(soma_model_used_high(m), soma_model_used(m));
	ck_assert_uint_gt(soma_model_peak_active(m), soma_model_active(m));
	soma_model_reset_peaks(m);
	ck_assert_uint_eq(soma_model_reserved_high(m), soma_model_reserved(m));
	ck_assert_uint_eq(soma_model_used_high(m), soma_model_used(m));
	ck_assert_uint_eq(soma_model_peak_active(m), soma_model_active(m));
	soma_model_destroy(m);
}
END_TEST

/* A model has nothing that sets a current value; what sets the others leaves them. */
START_TEST(behaviour_20_current_values_cannot_be_set)
{
	struct soma_model *m = with_free_memory("cuda");
	struct soma_model_stats before, after;

	soma_model_stats(m, &before, sizeof before);
	soma_model_reset_peaks(m);
	soma_model_set_release_threshold(m, 0);
	soma_model_stats(m, &after, sizeof after);
	ck_assert_uint_eq(after.reserved, before.reserved);
	ck_assert_uint_eq(after.used, before.used);
	ck_assert_uint_eq(after.active, before.active);
	ck_assert_uint_eq(after.capacity, before.capacity);
	soma_model_destroy(m);
}
END_TEST

START_TEST(behaviour_21_the_maximum_stops_growth_but_not_reuse)
{
	struct soma_model *m = model_of("cuda", 2 * SEGMENT);
	uint64_t s = stream_of(m);
	struct soma_model_alloc a = alloc(m, SEGMENT, s), b = alloc(m, SEGMENT, s);

	ck_assert_int_eq(try_alloc(m, 512, s), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	release(m, b, s);
	ck_assert_uint_eq(alloc(m, 512, s).ptr, b.ptr);
	ck_assert_int_eq(try_alloc(m, SEGMENT, s), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	release(m, a, s);
	ck_assert_uint_eq(alloc(m, SEGMENT, s).ptr, a.ptr);
	ck_assert_uint_eq(soma_model_reserved(m), 2 * SEGMENT);
	soma_model_destroy(m);
}
END_TEST

/* Sizes between two classes: a block just freed serves them again, whatever else there is. */
START_TEST(a_freed_block_serves_the_same_size_again)
{
	static const uint64_t sizes[] = { 100, 67072, 100864, 1000000, 12345678, 100000000 };

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct soma_model_limits limits = { .size = sizeof limits,
						    .policy = soma_policy_preset("cuda") };
		struct soma_model_alloc a, next, again;
		struct soma_model *m;

		ck_assert_int_eq(soma_model_create(&limits, &m), SOMA_STATUS_OK);
		ck_assert_int_eq(soma_model_alloc(m, sizes[i], 0, &a), SOMA_STATUS_OK);
		ck_assert_int_eq(soma_model_alloc(m, 512, 0, &next), SOMA_STATUS_OK);
		ck_assert_int_eq(soma_model_free(m, a.ptr, 0), SOMA_STATUS_OK);
		ck_assert_int_eq(soma_model_alloc(m, sizes[i], 0, &again), SOMA_STATUS_OK);
		ck_assert_uint_eq(again.ptr, a.ptr);
		soma_model_destroy(m);
	}
}
END_TEST

/* At the maximum, one of several blocks of the class holds the request. */
START_TEST(a_block_that_is_just_large_enough_is_found_at_the_maximum)
{
	const uint64_t larger = 131 * 512, smaller = 130 * 512 + 1;
	struct soma_model_limits limits = { .size = sizeof limits, .max_pool_size = 4 * larger };
	struct soma_model_alloc a[4], wanted;
	struct soma_model *m;

	ck_assert_int_eq(soma_model_create(&limits, &m), SOMA_STATUS_OK);
	soma_model_set_release_threshold(m, UINT64_MAX);
	ck_assert_int_eq(soma_model_alloc(m, larger, 0, &a[0]), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_model_alloc(m, 512, 0, &a[1]), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_model_alloc(m, smaller - 512, 0, &a[2]), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_model_alloc(m, 4 * larger - 512 - larger - 130 * 512, 0, &a[3]),
			 SOMA_STATUS_OK);
	ck_assert_int_eq(soma_model_free(m, a[0].ptr, 0), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_model_free(m, a[2].ptr, 0), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_model_synchronize(m, 0), SOMA_STATUS_OK);
	/* The block of 130 was put last and is too small; the one of 131 is just enough. */
	ck_assert_int_eq(soma_model_alloc(m, larger, 0, &wanted), SOMA_STATUS_OK);
	ck_assert_uint_eq(wanted.ptr, a[0].ptr);
	soma_model_destroy(m);
}
END_TEST

/* One block of 129 granules, then `count` of 128, then the rest of a split, of 128, all in one class and region:
 * what a request of 129 gets when there is nothing else and no growing.  0: nothing. */
static uint64_t
taken_behind(unsigned count, uint64_t *first)
{
	const uint64_t granule = 512;
	struct soma_model *m = model_of("strict", 64 * MIB);
	struct soma_model_alloc blocks[40], last = { 0 }, behind;
	uint64_t granules = 0;

	for (unsigned i = 0; i < count + 2; i++) {
		uint64_t n = i == 0 ? 129 : i <= count ? 128 : 328;

		blocks[i] = alloc(m, n * granule, 0);
		alloc(m, granule, 0); /* keeps neighbours apart */
		granules += n + 1;
	}
	behind = alloc(m, 64 * MIB - granules * granule, 0);
	for (unsigned i = 0; i < count + 2; i++)
		release(m, blocks[i], 0);
	ck_ok(soma_model_synchronize(m, 0));
	ck_assert_uint_eq(alloc(m, 200 * granule, 0).ptr, blocks[count + 1].ptr);
	soma_model_alloc(m, 129 * granule, 0, &last);
	*first = blocks[0].ptr;
	ck_assert_uint_gt(behind.ptr, last.ptr);
	soma_model_destroy(m);
	return last.ptr;
}

/* HACKING, "Alloc", 6: the rest, which was put there last, is one of them. */
START_TEST(of_blocks_of_a_class_rounded_down_the_last_thirty_two_are_looked_at)
{
	uint64_t first;

	ck_assert_uint_eq(taken_behind(30, &first), first);
	ck_assert_uint_eq(taken_behind(31, &first), 0);
}
END_TEST

UNIT_MAIN("behaviours", of_blocks_of_a_class_rounded_down_the_last_thirty_two_are_looked_at,
	  behaviour_01_a_stream_reuses_its_own_free_without_synchronising,
	  behaviour_02_an_unrelated_stream_grows_with_all_policies_off,
	  behaviour_03_a_stream_that_waited_for_the_free_reuses_it,
	  behaviour_04_an_event_from_before_the_free_does_not_prove_it,
	  behaviour_05_order_goes_through_a_chain_of_events,
	  behaviour_06_without_follow_events_a_waiting_stream_grows,
	  behaviour_07_opportunistic_any_stream_reuses_an_executed_free,
	  behaviour_08_not_opportunistic_only_a_host_synchronisation_proves_it,
	  behaviour_09_internal_a_failing_growth_waits_for_another_streams_free,
	  behaviour_10_not_internal_the_same_is_out_of_memory,
	  behaviour_11_no_wait_is_inserted_while_growth_is_possible,
	  behaviour_12_the_allocating_stream_has_no_right_to_another_streams_free,
	  behaviour_13_the_threshold_releases_only_at_a_synchronisation,
	  behaviour_14_the_greatest_threshold_keeps_everything,
	  behaviour_15_synchronising_one_stream_does_not_prove_anothers_free,
	  behaviour_16_trimming_never_goes_below_what_is_to_be_kept,
	  behaviour_17_a_free_that_was_not_observed_cannot_be_trimmed,
	  behaviour_18_a_segment_with_one_live_block_is_kept_whole,
	  behaviour_19_resetting_the_peaks_makes_them_the_current_values,
	  behaviour_20_current_values_cannot_be_set, behaviour_21_the_maximum_stops_growth_but_not_reuse,
	  a_freed_block_serves_the_same_size_again, a_block_that_is_just_large_enough_is_found_at_the_maximum)

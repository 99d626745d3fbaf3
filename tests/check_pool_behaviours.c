/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The behaviours of stream-ordered allocation, by their numbers, through pools of every kind: alone, over
 * the host in both placements, over a guard.  Blocks are as large as a segment of the `cuda` preset, so
 * that a new block means growth and a reused one means the same name.
 */
#include "tests/pool_fixture.h"

#define FOLLOW SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES
#define OPPORTUNISTIC SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC
#define INTERNAL SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES

#define KEEP ((struct soma_pool_config){ .release_threshold = UINT64_MAX })
#define AT_MOST(size) ((struct soma_pool_config){ .max_size = (size), .release_threshold = (size) })

/* The statement runs for each kind of pool: s, its pool p, and two streams. */
static struct soma_pool *p;
static uint64_t a, b;
static enum kind kind;

static struct setup
set_up_kind(struct soma_pool_config config)
{
	struct setup setup = { 0 };

	if (kind == KINDS)
		return setup;
	setup = set_up(kind, config);
	p = setup.pool;
	a = stream_of(setup);
	b = stream_of(setup);
	return setup;
}

static struct setup
set_up_next(struct setup setup, struct soma_pool_config config)
{
	take_down(setup);
	kind++;
	return set_up_kind(config);
}

#define FOR_EACH_KIND(config) \
	for (struct setup s = set_up_kind(config); kind < KINDS; s = set_up_next(s, config))

static void
switch_off(enum soma_pool_attribute which)
{
	ck_ok(soma_pool_set_attribute(p, which, 0));
}

START_TEST(behaviour_01_a_stream_reuses_its_own_free_without_synchronising)
{
	FOR_EACH_KIND(KEEP)
	{
		uint64_t first = drop(alloc(p, 3 * MIB, a), a);
		struct soma_allocation *second = alloc(p, 3 * MIB, a);
		ck_assert_uint_eq(soma_allocation_ptr(second), first);
		ck_assert_uint_eq(stats_of(p).segments_acquired, 1);
		drop(second, a);
	}
}
END_TEST

START_TEST(behaviour_02_an_unrelated_stream_grows_with_all_policies_off)
{
	FOR_EACH_KIND(KEEP)
	{
		switch_off(FOLLOW);
		switch_off(OPPORTUNISTIC);
		switch_off(INTERNAL);
		uint64_t first = drop(alloc(p, SEGMENT, a), a);
		struct soma_allocation *second = alloc(p, SEGMENT, b);
		ck_assert_uint_ne(soma_allocation_ptr(second), first);
		ck_assert_uint_eq(stats_of(p).reserved, 2 * SEGMENT);
		ck_assert_uint_eq(stats_of(p).pending_free_count, 1);
		drop(second, b);
	}
}
END_TEST

START_TEST(behaviour_03_a_stream_that_waited_for_the_free_reuses_it)
{
	FOR_EACH_KIND(KEEP)
	{
		uint64_t first = drop(alloc(p, SEGMENT, a), a);
		order_after(p, b, a);
		struct soma_allocation *second = alloc(p, SEGMENT, b);
		ck_assert_uint_eq(soma_allocation_ptr(second), first);
		ck_assert_uint_eq(stats_of(p).segments_acquired, 1);
		drop(second, b);
	}
}
END_TEST

START_TEST(behaviour_04_an_event_from_before_the_free_does_not_prove_it)
{
	FOR_EACH_KIND(KEEP)
	{
		struct soma_allocation *first = alloc(p, SEGMENT, a);
		uint64_t early = record(p, a), name = drop(first, a);
		ck_ok(soma_pool_wait_event(p, b, a, early));
		struct soma_allocation *second = alloc(p, SEGMENT, b);
		ck_assert_uint_ne(soma_allocation_ptr(second), name);
		drop(second, b);
	}
}
END_TEST

START_TEST(behaviour_05_order_goes_through_a_chain_of_events)
{
	FOR_EACH_KIND(KEEP)
	{
		uint64_t c = stream_of(s), first = drop(alloc(p, SEGMENT, a), a);
		order_after(p, b, a);
		order_after(p, c, b);
		struct soma_allocation *second = alloc(p, SEGMENT, c);
		ck_assert_uint_eq(soma_allocation_ptr(second), first);
		drop(second, c);
	}
}
END_TEST

START_TEST(behaviour_06_without_follow_events_a_waiting_stream_grows)
{
	FOR_EACH_KIND(KEEP)
	{
		switch_off(FOLLOW);
		uint64_t first = drop(alloc(p, SEGMENT, a), a);
		order_after(p, b, a);
		struct soma_allocation *second = alloc(p, SEGMENT, b);
		ck_assert_uint_ne(soma_allocation_ptr(second), first);
		ck_assert_uint_eq(stats_of(p).reserved, 2 * SEGMENT);
		drop(second, b);
	}
}
END_TEST

/* The pool asks its events; nobody synchronises.  A pool alone has nothing to ask. */
START_TEST(behaviour_07_opportunistic_any_stream_reuses_an_executed_free)
{
	FOR_EACH_KIND(KEEP)
	{
		if (kind != ALONE) {
			/* An event behind the free, for there to be something that can run. */
			uint64_t first = drop(alloc(p, SEGMENT, a), a);
			(void)record(p, a);
			struct soma_allocation *second = alloc(p, SEGMENT, b);
			ck_assert_uint_ne(soma_allocation_ptr(second), first);
			step(s.resource, a);
			struct soma_allocation *third = alloc(p, SEGMENT, b);
			ck_assert_uint_eq(soma_allocation_ptr(third), first);
			drop(second, b);
			drop(third, b);
		}
	}
}
END_TEST

START_TEST(behaviour_08_not_opportunistic_only_a_host_synchronisation_proves_it)
{
	FOR_EACH_KIND(KEEP)
	{
		switch_off(OPPORTUNISTIC);
		switch_off(INTERNAL);
		uint64_t first = drop(alloc(p, SEGMENT, a), a);
		(void)record(p, a);
		if (kind != ALONE)
			step(s.resource, a);
		struct soma_allocation *second = alloc(p, SEGMENT, b);
		ck_assert_uint_ne(soma_allocation_ptr(second), first);
		ck_assert_uint_eq(stats_of(p).pending_free_count, 1);
		ck_ok(soma_pool_synchronize(p, a));
		struct soma_allocation *third = alloc(p, SEGMENT, b);
		ck_assert_uint_eq(soma_allocation_ptr(third), first);
		drop(second, b);
		drop(third, b);
	}
}
END_TEST

/* The wait is one of the real streams, too: b gets nowhere before a. */
START_TEST(behaviour_09_internal_a_failing_growth_waits_for_another_streams_free)
{
	FOR_EACH_KIND(AT_MOST(SEGMENT))
	{
		struct soma_allocation *first = alloc(p, SEGMENT, a);
		uint64_t device = soma_allocation_device_ptr(first);
		if (s.resource != NULL)
			fill(s.resource, device, 1, 1, a);
		uint64_t name = drop(first, a);
		struct soma_allocation *second = alloc(p, SEGMENT, b);
		ck_assert_uint_eq(soma_allocation_ptr(second), name);
		ck_assert_uint_eq(stats_of(p).wait_count, 1);
		ck_assert_uint_eq(soma_allocation_ready_seq(second), 1); /* the wait took 0 */
		if (s.resource != NULL) {
			step(s.resource, b);
			ck_assert(!soma_pool_is_ready(second));
			step(s.resource, a);
			step(s.resource, b);
			ck_assert(soma_pool_is_ready(second));
		}
		drop(second, b);
	}
}
END_TEST

START_TEST(behaviour_10_not_internal_the_same_is_out_of_memory)
{
	FOR_EACH_KIND(AT_MOST(SEGMENT))
	{
		switch_off(INTERNAL);
		drop(alloc(p, SEGMENT, a), a);
		ck_is(try_alloc(p, SEGMENT, b), OUT_OF_DEVICE_MEMORY);
		ck_assert_uint_eq(stats_of(p).wait_count, 0);
		ck_assert_uint_eq(stats_of(p).pending_free_count, 1);
		ck_assert_uint_eq(stats_of(p).live_count, 0);
	}
}
END_TEST

START_TEST(behaviour_11_no_wait_is_inserted_while_growth_is_possible)
{
	FOR_EACH_KIND(AT_MOST(2 * SEGMENT))
	{
		uint64_t first = drop(alloc(p, SEGMENT, a), a);
		struct soma_allocation *second = alloc(p, SEGMENT, b);
		ck_assert_uint_ne(soma_allocation_ptr(second), first);
		ck_assert_uint_eq(stats_of(p).wait_count, 0);
		ck_assert_uint_eq(soma_allocation_ready_seq(second), 0);
		drop(second, b);
	}
}
END_TEST

START_TEST(behaviour_12_the_allocating_stream_has_no_right_to_another_streams_free)
{
	FOR_EACH_KIND(KEEP)
	{
		struct soma_allocation *first = alloc(p, SEGMENT, a);
		order_after(p, b, a);
		uint64_t name = drop(first, b);
		struct soma_allocation *second = alloc(p, SEGMENT, a);
		ck_assert_uint_ne(soma_allocation_ptr(second), name);
		order_after(p, a, b);
		struct soma_allocation *third = alloc(p, SEGMENT, a);
		ck_assert_uint_eq(soma_allocation_ptr(third), name);
		drop(second, a);
		drop(third, a);
	}
}
END_TEST

START_TEST(behaviour_13_the_threshold_releases_only_at_a_synchronisation)
{
	FOR_EACH_KIND(((struct soma_pool_config){ .release_threshold = SEGMENT }))
	{
		struct soma_allocation *x = alloc(p, SEGMENT, a), *y = alloc(p, SEGMENT, a),
				       *z = alloc(p, SEGMENT, a);
		drop(x, a);
		drop(y, a);
		drop(z, a);
		(void)record(p, a);
		if (s.resource != NULL)
			step(s.resource, a);
		drop(alloc(p, SEGMENT, a), a);
		ck_assert_uint_eq(stats_of(p).reserved, 3 * SEGMENT);
		ck_ok(soma_pool_synchronize(p, a));
		ck_assert_uint_eq(stats_of(p).reserved, SEGMENT);
		if (kind == POOL_OVER_HOST)
			ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), SEGMENT);
	}
}
END_TEST

START_TEST(behaviour_14_the_greatest_threshold_keeps_everything)
{
	FOR_EACH_KIND(KEEP)
	{
		drop(alloc(p, 7 * SEGMENT, a), a);
		ck_ok(soma_pool_synchronize(p, a));
		ck_assert_uint_eq(stats_of(p).reserved, 7 * SEGMENT);
		if (kind == POOL_OVER_HOST)
			ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), 7 * SEGMENT);
	}
}
END_TEST

START_TEST(behaviour_15_synchronising_one_stream_does_not_prove_anothers_free)
{
	FOR_EACH_KIND(KEEP)
	{
		uint64_t c = stream_of(s);
		struct soma_allocation *of_a = alloc(p, SEGMENT, a), *of_b = alloc(p, SEGMENT, b);
		if (s.resource != NULL)
			fill(s.resource, soma_allocation_device_ptr(of_b), 1, 1, b);
		uint64_t first = drop(of_a, a), second = drop(of_b, b);
		ck_ok(soma_pool_synchronize(p, a));
		struct soma_allocation *x = alloc(p, SEGMENT, c), *y = alloc(p, SEGMENT, c);
		ck_assert_uint_eq(soma_allocation_ptr(x), first);
		ck_assert_uint_ne(soma_allocation_ptr(y), second);
		drop(x, c);
		drop(y, c);
	}
}
END_TEST

START_TEST(behaviour_16_trimming_never_goes_below_what_is_to_be_kept)
{
	FOR_EACH_KIND(KEEP)
	{
		struct soma_allocation *held[6];
		for (unsigned i = 0; i < 6; i++)
			held[i] = alloc(p, (1 + i % 3) * SEGMENT, a);
		for (unsigned i = 0; i < 6; i++)
			if (i != 1)
				drop(held[i], a);
		ck_ok(soma_pool_synchronize(p, a));
		ck_assert_uint_eq(stats_of(p).reserved, 12 * SEGMENT);
		ck_ok(soma_pool_trim(p, 12 * SEGMENT + 1));
		ck_assert_uint_eq(stats_of(p).reserved, 12 * SEGMENT);
		ck_ok(soma_pool_trim(p, 7 * SEGMENT - 1));
		ck_assert_uint_ge(stats_of(p).reserved, 7 * SEGMENT - 1);
		ck_assert_uint_lt(stats_of(p).reserved, 12 * SEGMENT);
		ck_ok(soma_pool_trim(p, 0));
		ck_assert_uint_eq(stats_of(p).reserved, 2 * SEGMENT);
		drop(held[1], a);
	}
}
END_TEST

START_TEST(behaviour_17_a_free_that_was_not_observed_cannot_be_trimmed)
{
	FOR_EACH_KIND(KEEP)
	{
		struct soma_allocation *x = alloc(p, SEGMENT, a);
		if (s.resource != NULL)
			fill(s.resource, soma_allocation_device_ptr(x), 1, 1, a);
		drop(x, a);
		ck_ok(soma_pool_trim(p, 0));
		ck_assert_uint_eq(stats_of(p).reserved, SEGMENT);
		ck_ok(soma_pool_synchronize(p, a));
		ck_ok(soma_pool_trim(p, 0));
		ck_assert_uint_eq(stats_of(p).reserved, 0);
		if (s.resource != NULL && kind != OVER_GUARD)
			ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), 0);
	}
}
END_TEST

START_TEST(behaviour_18_a_segment_with_one_live_block_is_kept_whole)
{
	FOR_EACH_KIND(KEEP)
	{
		struct soma_allocation *small = alloc(p, 512, a), *rest = alloc(p, SEGMENT / 2, a);
		ck_assert_uint_eq(soma_allocation_ptr(rest), soma_allocation_ptr(small) + 512);
		drop(rest, a);
		ck_ok(soma_pool_synchronize(p, a));
		ck_ok(soma_pool_trim(p, 0));
		ck_assert_uint_eq(stats_of(p).reserved, SEGMENT);
		drop(small, a);
		ck_ok(soma_pool_synchronize(p, a));
		ck_ok(soma_pool_trim(p, 0));
		ck_assert_uint_eq(stats_of(p).reserved, 0);
	}
}
END_TEST

START_TEST(behaviour_19_a_peak_can_be_set_to_0_alone_and_becomes_the_current_value)
{
	FOR_EACH_KIND(KEEP)
	{
		struct soma_allocation *kept = alloc(p, SEGMENT, a);
		drop(alloc(p, SEGMENT, a), a);
		ck_ok(soma_pool_synchronize(p, a));
		ck_ok(soma_pool_trim(p, 0));
		ck_is(soma_pool_set_attribute(p, SOMA_POOL_RESERVED_HIGH, 1), INVALID_VALUE);
		ck_is(soma_pool_set_attribute(p, SOMA_POOL_USED_HIGH, SEGMENT), INVALID_VALUE);
		ck_assert_uint_eq(attribute(p, SOMA_POOL_RESERVED_HIGH), 2 * SEGMENT);
		ck_assert_uint_eq(attribute(p, SOMA_POOL_USED_HIGH), 2 * SEGMENT);
		ck_ok(soma_pool_set_attribute(p, SOMA_POOL_RESERVED_HIGH, 0));
		ck_assert_uint_eq(attribute(p, SOMA_POOL_RESERVED_HIGH), SEGMENT);
		ck_assert_uint_eq(attribute(p, SOMA_POOL_USED_HIGH), 2 * SEGMENT);
		ck_ok(soma_pool_set_attribute(p, SOMA_POOL_USED_HIGH, 0));
		ck_assert_uint_eq(attribute(p, SOMA_POOL_USED_HIGH), SEGMENT);
		drop(kept, a);
		soma_pool_reset_peaks(p);
		ck_assert_uint_eq(attribute(p, SOMA_POOL_USED_HIGH), 0);
	}
}
END_TEST

START_TEST(behaviour_20_current_values_cannot_be_set)
{
	FOR_EACH_KIND(KEEP)
	{
		struct soma_allocation *kept = alloc(p, 1000, a);
		ck_is(soma_pool_set_attribute(p, SOMA_POOL_RESERVED_CURRENT, 0), INVALID_VALUE);
		ck_is(soma_pool_set_attribute(p, SOMA_POOL_USED_CURRENT, 0), INVALID_VALUE);
		ck_assert_uint_eq(attribute(p, SOMA_POOL_RESERVED_CURRENT), SEGMENT);
		ck_assert_uint_eq(attribute(p, SOMA_POOL_USED_CURRENT), 1000);
		drop(kept, a);
	}
}
END_TEST

START_TEST(behaviour_21_the_maximum_stops_growth_but_not_reuse)
{
	FOR_EACH_KIND(AT_MOST(2 * SEGMENT))
	{
		struct soma_allocation *x = alloc(p, SEGMENT, a), *y = alloc(p, SEGMENT, a);
		ck_is(try_alloc(p, 512, a), OUT_OF_DEVICE_MEMORY);
		uint64_t name = drop(y, a);
		y = alloc(p, 512, a);
		ck_assert_uint_eq(soma_allocation_ptr(y), name);
		ck_is(try_alloc(p, SEGMENT, a), OUT_OF_DEVICE_MEMORY);
		ck_assert_uint_eq(stats_of(p).reserved, 2 * SEGMENT);
		drop(x, a);
		drop(y, a);
	}
}
END_TEST

UNIT_MAIN("pool_behaviours", behaviour_01_a_stream_reuses_its_own_free_without_synchronising,
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
	  behaviour_19_a_peak_can_be_set_to_0_alone_and_becomes_the_current_value,
	  behaviour_20_current_values_cannot_be_set, behaviour_21_the_maximum_stops_growth_but_not_reuse)

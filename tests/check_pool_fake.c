/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pool asks of its backend, over one that does what it is told: which calls it makes and which it
 * does not, and in what order.
 */
#include "tests/pool_fake.h"

/* ---- placements ------------------------------------------------------------------------- */

static enum soma_placement
chosen(uint64_t capabilities, const char *policy)
{
	enum soma_placement placement;

	open_fake(capabilities, (struct soma_pool_config){ .policy = soma_policy_preset(policy) });
	placement = soma_pool_placement(p);
	close_fake();
	return placement;
}

START_TEST(the_placement_follows_what_the_backend_is)
{
	ck_assert_int_eq(chosen(SYNCHRONOUS, "cuda"), SOMA_PLACEMENT_POOL);
	ck_assert_int_eq(chosen(SYNCHRONOUS, "strict"), SOMA_PLACEMENT_BACKEND);
	ck_assert_int_eq(chosen(SYNCHRONOUS, "soma"), SOMA_PLACEMENT_BACKEND);
	ck_assert_int_eq(chosen(ORDERED, "cuda"), SOMA_PLACEMENT_POOL);
	ck_assert_int_eq(chosen(ORDERED | SOMA_BACKEND_POOL, "cuda"), SOMA_PLACEMENT_BACKEND);
	ck_assert_int_eq(chosen(ORDERED | SOMA_BACKEND_POOL | SOMA_BACKEND_HOST_ACCESSIBLE, "cuda"),
			 SOMA_PLACEMENT_POOL);
	ck_assert_int_eq(chosen(SYNCHRONOUS | SOMA_BACKEND_GUARD, "cuda"), SOMA_PLACEMENT_BACKEND);
}
END_TEST

START_TEST(the_pools_placement_over_a_guard_is_refused_with_the_reason)
{
	struct soma_pool_config config = POOL;
	struct soma_pool *pool;

	open_fake(ORDERED | SOMA_BACKEND_GUARD, BACKEND);
	config.size = sizeof config;
	ck_is(soma_pool_create(&config, resource, &pool), NOT_SUPPORTED);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "guard"));
	close_fake();
}
END_TEST

START_TEST(the_pools_placement_needs_segments)
{
	struct soma_pool_config config = POOL;
	struct soma_pool *pool;

	open_fake(ORDERED, BACKEND);
	config.size = sizeof config;
	config.policy = soma_policy_preset("strict");
	ck_is(soma_pool_create(&config, resource, &pool), NOT_SUPPORTED);
	config.policy = soma_policy_preset("soma");
	ck_is(soma_pool_create(&config, resource, &pool), NOT_SUPPORTED);
	close_fake();
}
END_TEST

/* ---- what is asked of the backend ------------------------------------------------------------ */

/* But for the question whether the stream is being captured. */
START_TEST(a_pair_of_a_placed_pool_is_no_call_of_the_backend)
{
	open_fake(ORDERED, POOL);
	drop(alloc(p, 1000, a), a);
	uint64_t calls = fake->calls;
	for (unsigned i = 0; i < 60; i++)
		drop(alloc(p, 1000 + i, a), a);
	ck_assert_uint_eq(fake->calls, calls);
	close_fake();
	open_fake(ORDERED | SOMA_BACKEND_HOST_ACCESSIBLE, POOL);
	drop(alloc(p, MIB, a), a);
	uint64_t questions = fake_count(fake, FAKE_STREAM_INFO);
	drop(alloc(p, MIB, a), a);
	ck_assert_uint_eq(fake_count(fake, FAKE_STREAM_INFO), questions);
	close_fake();
}
END_TEST

/* As many as there are marks, whatever is recorded. */
START_TEST(events_are_few)
{
	open_fake(SYNCHRONOUS, POOL);
	for (unsigned i = 0; i < 1000; i++) {
		drop(alloc(p, 1000, a), a);
		order_after(p, b, a);
		drop(alloc(p, 1000, b), b);
		order_after(p, a, b);
	}
	ck_assert_int_le(fake->events, 20);
	close_fake();
}
END_TEST

START_TEST(nothing_waits_for_the_device_but_what_synchronises)
{
	open_fake(SYNCHRONOUS, ((struct soma_pool_config){ .placement = SOMA_PLACEMENT_POOL,
							   .max_size = 2 * SEGMENT,
							   .release_threshold = 2 * SEGMENT }));
	struct soma_allocation *x = alloc(p, SEGMENT, a), *y = alloc(p, SEGMENT, a);
	fake_work(fake_stream(resource, a), 1);
	ck_assert(!soma_pool_is_ready(x));
	drop(x, a);
	drop(y, a);
	drop(alloc(p, SEGMENT, b), b);
	ck_ok(soma_pool_trim(p, 0));
	ck_ok(soma_pool_destroy(p));
	ck_assert_uint_eq(fake_count(fake, FAKE_STREAM_SYNCHRONIZE), 0);
	ck_assert_uint_eq(fake_count(fake, FAKE_EVENT_SYNCHRONIZE), 0);
	p = NULL;
	close_fake();
}
END_TEST

START_TEST(a_growing_pool_learns_of_executed_frees_before_it_asks_for_more)
{
	open_fake(SYNCHRONOUS, POOL);
	uint64_t first = drop(alloc(p, SEGMENT, a), a);
	fake_work(fake_stream(resource, a), 1);
	uint64_t second = drop(alloc(p, SEGMENT, b), b);
	ck_assert_uint_ne(first, second);
	fake_run(fake, resource, a);
	struct soma_allocation *x = alloc(p, 2 * SEGMENT, b), *y = alloc(p, SEGMENT, b),
			       *z = alloc(p, SEGMENT, b);
	ck_assert_uint_eq(soma_allocation_ptr(y) < soma_allocation_ptr(z) ? soma_allocation_ptr(y)
									  : soma_allocation_ptr(z),
			  first);
	ck_assert_uint_eq(soma_allocation_ptr(y) + soma_allocation_ptr(z), first + second);
	ck_assert_uint_eq(fake_count(fake, FAKE_ALLOC), 3);
	drop(x, b), drop(y, b), drop(z, b);
	close_fake();
}
END_TEST

START_TEST(the_wait_of_a_reuse_is_queued_before_the_block_is_handed_out)
{
	open_fake(SYNCHRONOUS,
		  ((struct soma_pool_config){ .placement = SOMA_PLACEMENT_POOL, .max_size = SEGMENT }));
	struct soma_backend_stream *on_a = fake_stream(resource, a), *on_b = fake_stream(resource, b);
	struct soma_allocation *x = alloc(p, SEGMENT, a);
	fake_work(on_a, 5);
	drop(x, a);
	ck_assert(!fake_ordered(on_b, on_a, 5));
	x = alloc(p, SEGMENT, b);
	ck_assert(fake_ordered(on_b, on_a, 5));
	drop(x, b);
	close_fake();
}
END_TEST

/* What is queued after the event is not waited for: the event is the one that was recorded. */
START_TEST(a_wait_is_for_the_event_that_was_recorded)
{
	open_fake(SYNCHRONOUS, POOL);
	struct soma_backend_stream *on_a = fake_stream(resource, a), *on_b = fake_stream(resource, b);
	fake_work(on_a, 3);
	uint64_t seq = record(p, a);
	fake_work(on_a, 4);
	ck_ok(soma_pool_wait_event(p, b, a, seq));
	ck_assert(fake_ordered(on_b, on_a, 3));
	ck_assert(!fake_ordered(on_b, on_a, 4));
	/* The same position again, and more work before it. */
	ck_assert_uint_eq(record(p, a), seq);
	ck_ok(soma_pool_wait_event(p, b, a, seq));
	ck_assert(fake_ordered(on_b, on_a, 7));
	close_fake();
}
END_TEST

/* The model knows the position to be done; the work of the later event is not. */
START_TEST(an_event_of_a_position_that_was_passed_before_is_waited_for_all_the_same)
{
	open_fake(SYNCHRONOUS, POOL);
	struct soma_backend_stream *on_a = fake_stream(resource, a), *on_b = fake_stream(resource, b);
	struct soma_allocation *x = alloc(p, 1000, a);
	(void)record(p, a);
	fake_run(fake, resource, a);
	ck_assert(soma_pool_is_ready(x));
	fake_work(on_a, 3);
	ck_ok(soma_pool_wait_event(p, b, a, record(p, a)));
	ck_assert(fake_ordered(on_b, on_a, on_a->queued));
	drop(x, a);
	close_fake();
}
END_TEST

START_TEST(a_block_of_the_resource_is_freed_on_the_stream_that_the_free_names)
{
	open_fake(ORDERED, BACKEND);
	struct soma_allocation *x = alloc(p, 1000, a);
	uint64_t ptr = soma_allocation_device_ptr(x);
	order_after(p, b, a);
	drop(x, b);
	ck_assert_int_eq(fake_block(fake, ptr)->free_stream, fake_stream(resource, b)->index);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 1000);
	fake_run(fake, resource, b);
	ck_ok(soma_resource_reap_pending(resource));
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	close_fake();
}
END_TEST

START_TEST(a_segment_goes_back_only_when_its_work_is_done_and_then_at_once)
{
	open_fake(ORDERED, POOL);
	struct soma_allocation *x = alloc(p, SEGMENT, a);
	uint64_t ptr = soma_allocation_device_ptr(x);
	fake_work(fake_stream(resource, a), 1);
	drop(x, a);
	ck_ok(soma_pool_trim(p, 0));
	ck_assert(fake_block(fake, ptr)->live);
	fake_run(fake, resource, a);
	ck_ok(soma_pool_trim(p, 0));
	ck_assert(!fake_block(fake, ptr)->live);
	ck_assert_int_eq(fake_block(fake, ptr)->free_stream, -1);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	close_fake();
}
END_TEST

/* In a pool for each stream a free is complete on its own stream before it has executed. */
START_TEST(an_unexecuted_segment_of_a_stream_goes_back_in_that_streams_order)
{
	struct soma_pool_config config = POOL;

	config.policy = soma_policy_preset("pytorch");
	open_fake(ORDERED, config);
	struct soma_allocation *x = alloc(p, SEGMENT, a);
	uint64_t ptr = soma_allocation_device_ptr(x);
	drop(x, a);
	ck_ok(soma_pool_trim(p, 0));
	ck_assert_uint_eq(stats_of(p).reserved, 0);
	ck_assert_int_eq(fake_block(fake, ptr)->free_stream, fake_stream(resource, a)->index);
	close_fake();
}
END_TEST

START_TEST(the_last_block_of_a_destroyed_pool_takes_the_segments_with_it_after_all_streams)
{
	open_fake(ORDERED, POOL);
	struct soma_backend_stream *on_a = fake_stream(resource, a), *on_b = fake_stream(resource, b);
	struct soma_allocation *x = alloc(p, 1000, a), *y = alloc(p, 1000, b);
	uint64_t segment = soma_allocation_device_ptr(x);
	fake_work(on_a, 7);
	fake_work(on_b, 9);
	uint64_t queued_a = on_a->queued, queued_b = on_b->queued;
	ck_ok(soma_pool_destroy(p));
	drop(x, a);
	ck_assert(fake_block(fake, segment)->live);
	drop(y, b);
	struct fake_block *block = fake_block(fake, segment);
	ck_assert(!block->live);
	ck_assert_uint_ge(block->free_clock[on_a->index], queued_a);
	ck_assert_uint_ge(block->free_clock[on_b->index], queued_b);
	p = NULL;
	close_fake();
}
END_TEST

START_TEST(a_destroyed_stream_is_refused_and_what_it_had_becomes_free)
{
	open_fake(SYNCHRONOUS, POOL);
	struct soma_allocation *x = alloc(p, SEGMENT, a), *kept = alloc(p, SEGMENT, a);
	uint64_t name = drop(x, a);
	fake_work(fake_stream(resource, a), 1);
	struct soma_backend_stream *on_a = fake_stream(resource, a);
	ck_ok(soma_resource_stream_destroy(resource, a));
	ck_is(try_alloc(p, 1000, a), STREAM_MISUSE);
	ck_is(soma_pool_free(kept, a), STREAM_MISUSE);
	ck_assert(!soma_allocation_is_freed(kept));
	x = alloc(p, SEGMENT, b);
	ck_assert_uint_ne(soma_allocation_ptr(x), name);
	on_a->run = on_a->queued;
	struct soma_allocation *y = alloc(p, SEGMENT, b);
	ck_assert_uint_eq(soma_allocation_ptr(y), name);
	ck_assert(soma_pool_is_ready(kept));
	drop(x, b), drop(y, b), drop(kept, b);
	/* Its slot serves another stream, which the pool does not take for the old one. */
	uint64_t c = new_stream(resource);
	ck_assert_uint_eq(c & 0xfffff, a & 0xfffff);
	drop(alloc(p, 1000, c), c);
	close_fake();
}
END_TEST

/* ---- 24, 25 --------------------------------------------------------------------------------------- */

START_TEST(behaviour_24_a_free_in_no_order_is_immediate_and_unsynchronised)
{
	for (int placed = 0; placed < 2; placed++) {
		open_fake(ORDERED, placed ? POOL : BACKEND);
		struct soma_allocation *x = alloc(p, SEGMENT, a);
		uint64_t name = soma_allocation_ptr(x), device = soma_allocation_device_ptr(x);
		fake_work(fake_stream(resource, a), 3); /* pending use: the caller's bug */
		uint64_t synchronised = fake_count(fake, FAKE_STREAM_SYNCHRONIZE);
		ck_ok(soma_pool_free_now(x));
		ck_assert_uint_eq(fake_count(fake, FAKE_STREAM_SYNCHRONIZE), synchronised);
		ck_assert_uint_eq(stats_of(p).pending_free_count, 0);
		ck_assert_uint_eq(stats_of(p).free_block_count, 1);
		if (!placed) {
			ck_assert_int_eq(fake_block(fake, device)->free_stream, -1);
			ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
		}
		ck_is(soma_pool_free_now(x), USE_AFTER_FREE);
		ck_ok(soma_allocation_release(x));
		struct soma_allocation *y = alloc(p, SEGMENT, b);
		ck_assert_uint_eq(soma_allocation_ptr(y), name);
		drop(y, b);
		close_fake();
	}
}
END_TEST

START_TEST(behaviour_25_a_captured_streams_block_is_the_graphs_and_outside_the_pool)
{
	open_fake(ORDERED | SOMA_BACKEND_CAPTURE, BACKEND);
	struct soma_allocation *ordinary = alloc(p, 1000, a);
	struct soma_pool_stats before = stats_of(p), after;
	bool *captured = &fake->captures[fake_stream(resource, a)->index];
	*captured = true;
	struct soma_allocation *x = alloc(p, 5000, a);
	after = stats_of(p);
	ck_assert_uint_eq(after.graph_count, 1);
	ck_assert_uint_eq(after.used, before.used);
	ck_assert_uint_eq(after.reserved, before.reserved);
	ck_assert_uint_eq(after.alloc_count, before.alloc_count);
	/* Freeing a pool's block there is an error, and nothing changes. */
	ck_is(soma_pool_free(ordinary, a), STREAM_MISUSE);
	ck_assert(!soma_allocation_is_freed(ordinary));
	uint64_t seq;
	ck_is(soma_pool_record_event(p, a, &seq), STREAM_MISUSE);
	drop(x, a);
	ck_assert_uint_eq(stats_of(p).graph_count, 0);
	*captured = false;
	drop(ordinary, a);
	close_fake();
}
END_TEST

START_TEST(behaviour_25_without_graphs_of_the_backend_a_captured_stream_is_refused)
{
	static const uint64_t capabilities[] = { SYNCHRONOUS, ORDERED, ORDERED | SOMA_BACKEND_CAPTURE };
	struct soma_pool_stats before;

	for (int i = 0; i < 3; i++) {
		open_fake(capabilities[i], POOL);
		struct soma_allocation *x = alloc(p, 1000, a);
		before = stats_of(p);
		fake->captures[fake_stream(resource, a)->index] = true;
		ck_is(try_alloc(p, 1000, a), STREAM_MISUSE);
		ck_is(soma_pool_free(x, a), STREAM_MISUSE);
		ck_assert(same(stats_of(p), before));
		drop(x, b);
		fake->captures[fake_stream(resource, a)->index] = false;
		close_fake();
	}
	open_fake(ORDERED, BACKEND);
	before = stats_of(p);
	fake->captures[fake_stream(resource, a)->index] = true;
	ck_is(try_alloc(p, 1000, a), STREAM_MISUSE);
	before.handle_count = stats_of(p).handle_count;
	ck_assert(same(stats_of(p), before));
	close_fake();
}
END_TEST

START_TEST(a_segment_does_not_go_back_on_a_stream_that_is_being_captured)
{
	struct soma_pool_config config = POOL;

	config.policy = soma_policy_preset("pytorch");
	open_fake(ORDERED, config);
	struct soma_allocation *x = alloc(p, SEGMENT, a);
	uint64_t segment = soma_allocation_device_ptr(x);
	fake_work(fake_stream(resource, a), 1);
	drop(x, a);
	fake->captures[fake_stream(resource, a)->index] = true;
	ck_ok(soma_pool_trim(p, 0));
	ck_assert(fake_block(fake, segment)->live);
	fake->captures[fake_stream(resource, a)->index] = false;
	ck_ok(soma_pool_trim(p, 0));
	ck_assert(!fake_block(fake, segment)->live);
	close_fake();
}
END_TEST

START_TEST(where_the_backend_does_not_say_whether_a_stream_is_captured_nothing_is_given_or_taken)
{
	for (int placed = 0; placed < 2; placed++) {
		open_fake(ORDERED, placed ? POOL : BACKEND);
		struct soma_allocation *x = alloc(p, 1000, a);
		struct soma_pool_stats before = stats_of(p);
		fake->fail_with[FAKE_STREAM_INFO] = SOMA_STATUS_DRIVER;
		ck_is(try_alloc(p, 1000, a), DRIVER);
		ck_is(soma_pool_free(x, a), DRIVER);
		ck_assert(!soma_allocation_is_freed(x));
		ck_assert(same(stats_of(p), before));
		fake->fail_with[FAKE_STREAM_INFO] = SOMA_STATUS_OK;
		drop(x, a);
		close_fake();
	}
}
END_TEST

/* The fake refuses an event that would spoil a capture. */
START_TEST(asking_what_is_free_spoils_no_capture_of_another_stream)
{
	open_fake(ORDERED, POOL);
	fake->blocking = true;
	struct soma_allocation *x = alloc(p, SEGMENT, 0), *y = alloc(p, SEGMENT, a),
			       *z = alloc(p, SEGMENT, b);
	bool *captured = &fake->captures[fake_stream(resource, b)->index];
	uint64_t seq;
	drop(x, 0);
	*captured = true;
	struct soma_allocation *more = alloc(p, SEGMENT, a);
	ck_is(soma_pool_record_event(p, 0, &seq), STREAM_MISUSE);
	ck_is(soma_pool_wait_event(p, 0, a, 0), STREAM_MISUSE);
	*captured = false;
	drop(y, a), drop(z, b), drop(more, a);
	close_fake();
}
END_TEST

#define SMALL                                                         \
	((struct soma_pool_config){ .placement = SOMA_PLACEMENT_POOL, \
				    .max_size = 2 * SEGMENT,          \
				    .release_threshold = 2 * SEGMENT })

/* Two segments, which is all there is: one is freed on a, where work is pending; the other. */
static struct soma_allocation *
fill_up(void)
{
	struct soma_allocation *x = alloc(p, SEGMENT, a), *y = alloc(p, SEGMENT, b);

	fake_work(fake_stream(resource, a), 1);
	drop(x, a);
	return y;
}

/* Nothing of this may name a stream that the caller did not. */
static void
expect_shortage(enum soma_status status, uint64_t stream)
{
	struct soma_pool_stats before = stats_of(p), after;

	ck_assert_int_eq(try_alloc(p, SEGMENT, stream), status);
	ck_assert_int_eq(soma_error_last()->status, status);
	ck_assert_msg(strstr(soma_error_last()->text, "stream") == NULL, "%s", soma_error_last()->text);
	after = stats_of(p);
	before.handle_count = after.handle_count;
	ck_assert(same(before, after));
}

START_TEST(memory_pending_on_a_stream_in_a_capture_is_not_there_for_others)
{
	for (int by = 0; by < 3; by++) {
		struct soma_resource *budget = NULL;

		fake = fake_create(ORDERED, &resource);
		fake->limit = by == 1 ? 2 * SEGMENT : 0;
		if (by == 2)
			ck_ok(soma_budget_create(resource, 2 * SEGMENT, &budget));
		p = pool_over(budget != NULL ? budget : resource, by == 0 ? SMALL : POOL);
		a = new_stream(resource);
		b = new_stream(resource);
		struct soma_allocation *y = fill_up();
		bool *captured = &fake->captures[fake_stream(resource, a)->index];
		*captured = true;
		expect_shortage(by == 2 ? SOMA_STATUS_OUT_OF_BUDGET : SOMA_STATUS_OUT_OF_DEVICE_MEMORY, b);
		/* Its own is another matter. */
		ck_is(try_alloc(p, SEGMENT, a), STREAM_MISUSE);
		*captured = false;
		struct soma_allocation *x = alloc(p, SEGMENT, b);
		ck_assert(fake_ordered(fake_stream(resource, b), fake_stream(resource, a), 1));
		drop(x, b), drop(y, b);
		soma_resource_release(budget);
		close_fake();
	}
}
END_TEST

START_TEST(a_free_that_an_event_from_before_the_capture_covers_is_waited_for)
{
	uint64_t seq;

	open_fake(ORDERED, SMALL);
	struct soma_allocation *y = fill_up();
	ck_ok(soma_pool_record_event(p, a, &seq));
	fake->captures[fake_stream(resource, a)->index] = true;
	struct soma_allocation *x = alloc(p, SEGMENT, b);
	ck_assert(fake_ordered(fake_stream(resource, b), fake_stream(resource, a), 1));
	fake->captures[fake_stream(resource, a)->index] = false;
	drop(x, b), drop(y, b);
	close_fake();
}
END_TEST

START_TEST(the_legacy_stream_waits_for_nobody_while_another_one_is_in_a_capture)
{
	open_fake(ORDERED, SMALL);
	fake->blocking = true;
	struct soma_allocation *y = fill_up();
	fake->captures[fake_stream(resource, b)->index] = true;
	expect_shortage(SOMA_STATUS_OUT_OF_DEVICE_MEMORY, 0);
	fake->captures[fake_stream(resource, b)->index] = false;
	struct soma_allocation *x = alloc(p, SEGMENT, 0);
	ck_assert(fake_ordered(fake_stream(resource, 0), fake_stream(resource, a), 1));
	drop(x, 0), drop(y, b);
	close_fake();
}
END_TEST

/* The best of what is pending, the lowest, is on a stream in a capture; the next one serves as well.  So it does on
 * that very stream, if a mark from before the capture covers it. */
START_TEST(a_free_on_another_stream_serves_where_the_best_ones_is_in_a_capture)
{
	uint64_t c;

	open_fake(ORDERED, SMALL);
	c = new_stream(resource);
	struct soma_allocation *x = alloc(p, SEGMENT, a), *y = alloc(p, SEGMENT, b);
	bool a_is_lower = soma_allocation_ptr(x) < soma_allocation_ptr(y);
	uint64_t low = a_is_lower ? a : b, high = a_is_lower ? b : a;
	fake_work(fake_stream(resource, a), 1);
	fake_work(fake_stream(resource, b), 1);
	drop(x, a), drop(y, b);
	bool *captured = &fake->captures[fake_stream(resource, low)->index];
	*captured = true;
	x = alloc(p, SEGMENT, c);
	ck_assert(fake_ordered(fake_stream(resource, c), fake_stream(resource, high), 1));
	ck_assert(!fake_ordered(fake_stream(resource, c), fake_stream(resource, low), 1));
	*captured = false;
	drop(x, c);
	close_fake();
}
END_TEST

START_TEST(an_older_free_serves_that_a_mark_from_before_the_capture_covers)
{
	uint64_t seq;

	open_fake(ORDERED, SMALL);
	struct soma_allocation *x = alloc(p, SEGMENT, a), *y = alloc(p, SEGMENT, a);
	bool x_is_lower = soma_allocation_ptr(x) < soma_allocation_ptr(y);
	struct soma_allocation *low = x_is_lower ? x : y, *high = x_is_lower ? y : x;
	uint64_t place = soma_allocation_ptr(high);
	fake_work(fake_stream(resource, a), 1);
	drop(high, a);
	ck_ok(soma_pool_record_event(p, a, &seq));
	fake_work(fake_stream(resource, a), 1);
	drop(low, a);
	fake->captures[fake_stream(resource, a)->index] = true;
	x = alloc(p, SEGMENT, b);
	ck_assert_uint_eq(soma_allocation_ptr(x), place);
	ck_assert(fake_ordered(fake_stream(resource, b), fake_stream(resource, a), 1));
	ck_assert(!fake_ordered(fake_stream(resource, b), fake_stream(resource, a), 2));
	fake->captures[fake_stream(resource, a)->index] = false;
	drop(x, b);
	close_fake();
}
END_TEST

/* What fails otherwise is told as it is. */
START_TEST(an_event_that_cannot_be_had_for_such_a_wait_is_the_backends_error)
{
	open_fake(ORDERED, SMALL);
	struct soma_allocation *y = fill_up();
	fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_DRIVER;
	ck_is(try_alloc(p, SEGMENT, b), DRIVER);
	fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_OK;
	fake->fail_with[FAKE_EVENT_WAIT] = SOMA_STATUS_DRIVER;
	ck_is(try_alloc(p, SEGMENT, b), DRIVER);
	fake->fail_with[FAKE_EVENT_WAIT] = SOMA_STATUS_OK;
	drop(alloc(p, SEGMENT, b), b), drop(y, b);
	close_fake();
}
END_TEST

/* Work is queued on the stream, and no order can be had that comes after it. */
static void
end_without_order(bool capture)
{
	open_fake(ORDERED, POOL);
	struct soma_allocation *x = alloc(p, SEGMENT, a), *y = alloc(p, SEGMENT, b);
	uint64_t segment = soma_allocation_device_ptr(x);
	struct soma_backend_stream *on_a = fake_stream(resource, a);
	fake_work(on_a, 1);
	fake_work(fake_stream(resource, b), 1);
	ck_ok(soma_pool_free(x, a));
	ck_ok(soma_pool_free(y, b));
	if (capture)
		fake->captures[on_a->index] = true;
	else
		fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_DRIVER;
	fake->fail_with[FAKE_STREAM_SYNCHRONIZE] = SOMA_STATUS_DRIVER;
	ck_ok(soma_allocation_release(x));
	ck_ok(soma_allocation_release(y));
	ck_ok(soma_pool_destroy(p));
	ck_assert(fake_block(fake, segment)->live);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 2 * SEGMENT);
	soma_resource_release(resource);
	fake_destroy(fake);
}

START_TEST(a_pool_that_ends_gives_nothing_back_before_work_that_it_cannot_come_after)
{
	end_without_order(false);
	end_without_order(true);
}
END_TEST

/* What the backend did not take back at the end is nobody's business any more. */
START_TEST(a_pool_that_is_over_asks_nothing_of_its_resource)
{
	open_fake(ORDERED, POOL);
	struct soma_allocation *x = alloc(p, SEGMENT, a);
	fake_work(fake_stream(resource, a), 1);
	ck_ok(soma_pool_free(x, a));
	fake->fail_with[FAKE_FREE] = SOMA_STATUS_DRIVER;
	ck_ok(soma_pool_destroy(p));
	fake->fail_with[FAKE_FREE] = SOMA_STATUS_OK;
	uint64_t frees = fake_count(fake, FAKE_FREE);
	ck_is(try_alloc(p, SEGMENT, a), INVALID_VALUE);
	ck_assert_uint_eq(fake_count(fake, FAKE_FREE), frees);
	soma_resource_release(resource);
	fake_destroy(fake);
	ck_is(try_alloc(p, SEGMENT, a), INVALID_VALUE);
	ck_ok(soma_allocation_release(x));
}
END_TEST

UNIT_MAIN("pool_fake", the_placement_follows_what_the_backend_is,
	  the_pools_placement_over_a_guard_is_refused_with_the_reason, the_pools_placement_needs_segments,
	  a_pair_of_a_placed_pool_is_no_call_of_the_backend, events_are_few,
	  nothing_waits_for_the_device_but_what_synchronises,
	  a_growing_pool_learns_of_executed_frees_before_it_asks_for_more,
	  the_wait_of_a_reuse_is_queued_before_the_block_is_handed_out,
	  a_wait_is_for_the_event_that_was_recorded,
	  an_event_of_a_position_that_was_passed_before_is_waited_for_all_the_same,
	  a_block_of_the_resource_is_freed_on_the_stream_that_the_free_names,
	  a_segment_goes_back_only_when_its_work_is_done_and_then_at_once,
	  an_unexecuted_segment_of_a_stream_goes_back_in_that_streams_order,
	  the_last_block_of_a_destroyed_pool_takes_the_segments_with_it_after_all_streams,
	  a_destroyed_stream_is_refused_and_what_it_had_becomes_free,
	  behaviour_24_a_free_in_no_order_is_immediate_and_unsynchronised,
	  behaviour_25_a_captured_streams_block_is_the_graphs_and_outside_the_pool,
	  behaviour_25_without_graphs_of_the_backend_a_captured_stream_is_refused,
	  a_pool_that_ends_gives_nothing_back_before_work_that_it_cannot_come_after,
	  a_segment_does_not_go_back_on_a_stream_that_is_being_captured,
	  where_the_backend_does_not_say_whether_a_stream_is_captured_nothing_is_given_or_taken,
	  asking_what_is_free_spoils_no_capture_of_another_stream,
	  memory_pending_on_a_stream_in_a_capture_is_not_there_for_others,
	  a_free_that_an_event_from_before_the_capture_covers_is_waited_for,
	  a_free_on_another_stream_serves_where_the_best_ones_is_in_a_capture,
	  an_older_free_serves_that_a_mark_from_before_the_capture_covers,
	  the_legacy_stream_waits_for_nobody_while_another_one_is_in_a_capture,
	  an_event_that_cannot_be_had_for_such_a_wait_is_the_backends_error,
	  a_pool_that_is_over_asks_nothing_of_its_resource)

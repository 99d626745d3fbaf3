/* SPDX-License-Identifier: Apache-2.0 */
/* lib/resource: order between streams that use a block. */
#include <string.h>

#include "lib/resource/terminal.h"
#include "lib/resource/uses.h"
#include "tests/check_resource_fake.h"

/* A stack with three streams. */
struct scene {
	struct soma_backend *fake;
	struct soma_resource *resource;
	uint64_t a, b, c;
	struct soma_block block; /* of a */
};

static struct scene
begin(uint64_t capabilities)
{
	struct scene s = { 0 };

	s.fake = fake_create(capabilities, &s.resource);
	s.a = new_stream(s.resource);
	s.b = new_stream(s.resource);
	s.c = new_stream(s.resource);
	s.block = allocate(s.resource, 100, s.a);
	return s;
}

static void
end(struct scene *s)
{
	soma_resource_release(s->resource);
	fake_destroy(s->fake);
}

static uint64_t
waits(struct scene *s)
{
	return fake_count(s->fake, FAKE_EVENT_WAIT);
}

/* A whole use; the stream's position behind its work. */
static uint64_t
use(struct scene *s, uint64_t stream, enum soma_access access)
{
	struct soma_use use = prepare(s->resource, &s->block, stream, access);

	fake_work(fake_stream(s->resource, stream), 1);
	uint64_t position = fake_stream(s->resource, stream)->queued;
	ck_assert_int_eq(soma_resource_finish_use(s->resource, &use, 1), SOMA_STATUS_OK);
	return position;
}

static bool
ordered(struct scene *s, uint64_t later, uint64_t earlier, uint64_t position)
{
	return fake_ordered(fake_stream(s->resource, later), fake_stream(s->resource, earlier), position);
}

START_TEST(a_first_use_elsewhere_waits_for_the_allocation)
{
	struct scene s = begin(FAKE_ORDERED);
	uint64_t ready = fake_stream(s.resource, s.a)->queued;

	ck_assert(!ordered(&s, s.b, s.a, ready));
	prepare(s.resource, &s.block, s.b, SOMA_ACCESS_READ);
	ck_assert(ordered(&s, s.b, s.a, ready));
	deallocate(s.resource, &s.block);
	end(&s);
}
END_TEST

START_TEST(uses_on_the_blocks_own_stream_wait_for_nothing)
{
	struct scene s = begin(FAKE_ORDERED);

	use(&s, s.a, SOMA_ACCESS_WRITE);
	use(&s, s.a, SOMA_ACCESS_READ);
	use(&s, s.a, SOMA_ACCESS_READ_WRITE);
	deallocate(s.resource, &s.block);
	ck_assert_uint_eq(waits(&s), 0);
	end(&s);
}
END_TEST

START_TEST(a_read_waits_for_the_last_write_and_no_read)
{
	struct scene s = begin(FAKE_ORDERED);
	uint64_t write = use(&s, s.b, SOMA_ACCESS_WRITE);
	uint64_t read = use(&s, s.c, SOMA_ACCESS_READ);

	ck_assert(ordered(&s, s.c, s.b, write));
	uint64_t before = waits(&s);
	use(&s, s.a, SOMA_ACCESS_READ);
	ck_assert_uint_eq(waits(&s) - before, 1);
	ck_assert(ordered(&s, s.a, s.b, write));
	ck_assert(!ordered(&s, s.a, s.c, read));
	deallocate(s.resource, &s.block);
	end(&s);
}
END_TEST

START_TEST(a_write_waits_for_the_last_write_and_all_reads)
{
	struct scene s = begin(FAKE_ORDERED);
	uint64_t d = new_stream(s.resource);
	uint64_t write = use(&s, s.b, SOMA_ACCESS_WRITE);
	uint64_t read_a = use(&s, s.a, SOMA_ACCESS_READ), read_c = use(&s, s.c, SOMA_ACCESS_READ);

	use(&s, d, SOMA_ACCESS_WRITE);
	ck_assert(ordered(&s, d, s.b, write));
	ck_assert(ordered(&s, d, s.a, read_a));
	ck_assert(ordered(&s, d, s.c, read_c));
	/* It replaced them: the free waits for it alone. */
	uint64_t before = waits(&s);
	deallocate(s.resource, &s.block);
	ck_assert_uint_eq(waits(&s) - before, 1);
	end(&s);
}
END_TEST

START_TEST(the_free_waits_for_every_use)
{
	struct scene s = begin(FAKE_ORDERED);
	uint64_t read_b = use(&s, s.b, SOMA_ACCESS_READ);

	fake_work(fake_stream(s.resource, s.c), 3);
	uint64_t unknown_c = fake_stream(s.resource, s.c)->queued;
	ck_assert_int_eq(soma_resource_record_use(s.resource, s.block.id, s.c), SOMA_STATUS_OK);
	deallocate(s.resource, &s.block);
	const struct fake_block *freed = fake_block(s.fake, s.block.ptr);
	ck_assert_uint_ge(freed->free_clock[fake_stream(s.resource, s.b)->index], read_b);
	ck_assert_uint_ge(freed->free_clock[fake_stream(s.resource, s.c)->index], unknown_c);
	end(&s);
}
END_TEST

START_TEST(a_use_of_unknown_access_replaces_nothing)
{
	struct scene s = begin(FAKE_ORDERED);
	uint64_t read = use(&s, s.b, SOMA_ACCESS_READ);

	ck_assert_int_eq(soma_resource_record_use(s.resource, s.block.id, s.c), SOMA_STATUS_OK);
	prepare(s.resource, &s.block, s.a, SOMA_ACCESS_WRITE);
	ck_assert(ordered(&s, s.a, s.b, read));
	deallocate(s.resource, &s.block);
	end(&s);
}
END_TEST

START_TEST(a_dropped_prepare_leaves_nothing_to_wait_for)
{
	struct scene s = begin(FAKE_ORDERED);

	prepare(s.resource, &s.block, s.b, SOMA_ACCESS_WRITE);
	prepare(s.resource, &s.block, s.c, SOMA_ACCESS_READ);
	uint64_t before = waits(&s);
	deallocate(s.resource, &s.block);
	ck_assert_uint_eq(waits(&s), before);
	end(&s);
}
END_TEST

START_TEST(a_freed_block_has_no_uses)
{
	struct scene s = begin(FAKE_ORDERED);
	struct soma_use made = { .size = sizeof made };

	deallocate(s.resource, &s.block);
	ck_assert_int_eq(soma_resource_prepare_use(s.resource, s.block.id, s.b, SOMA_ACCESS_READ, &made),
			 SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_int_eq(soma_resource_record_use(s.resource, s.block.id, s.b), SOMA_STATUS_USE_AFTER_FREE);
	end(&s);
}
END_TEST

START_TEST(bad_uses_are_refused)
{
	struct scene s = begin(FAKE_ORDERED);
	struct soma_use made = { .size = sizeof made }, two[2];

	ck_assert_int_eq(soma_resource_prepare_use(s.resource, s.block.id, s.b, 0, &made),
			 SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_resource_prepare_use(s.resource, s.block.id, s.b, 4, &made),
			 SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_resource_prepare_use(s.resource, s.block.id, 999, SOMA_ACCESS_READ, &made),
			 SOMA_STATUS_STREAM_MISUSE);
	made.size = 3;
	ck_assert_int_eq(soma_resource_prepare_use(s.resource, s.block.id, s.b, SOMA_ACCESS_READ, &made),
			 SOMA_STATUS_INVALID_VALUE);
	two[0] = prepare(s.resource, &s.block, s.b, SOMA_ACCESS_READ);
	two[1] = prepare(s.resource, &s.block, s.c, SOMA_ACCESS_READ);
	ck_assert_int_eq(soma_resource_finish_use(s.resource, two, 2), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_resource_finish_use(s.resource, two, 0), SOMA_STATUS_OK);
	deallocate(s.resource, &s.block);
	end(&s);
}
END_TEST

START_TEST(without_tracking_uses_are_never_a_silent_success)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(SOMA_BACKEND_STREAMS, &resource);
	struct soma_block block = allocate(resource, 8, 0);
	struct soma_use made = { .size = sizeof made, .block = block.id };

	ck_assert(!soma_resource_supports_use_tracking(resource));
	ck_assert_int_eq(soma_resource_prepare_use(resource, block.id, 0, SOMA_ACCESS_READ, &made),
			 SOMA_STATUS_STREAM_MISUSE);
	ck_assert_int_eq(soma_resource_finish_use(resource, &made, 1), SOMA_STATUS_STREAM_MISUSE);
	ck_assert_int_eq(soma_resource_record_use(resource, block.id, 0), SOMA_STATUS_STREAM_MISUSE);
	deallocate(resource, &block);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(decorators_forward_uses)
{
	struct scene s = begin(FAKE_ORDERED);
	struct soma_resource *inner, *budget;

	deallocate(s.resource, &s.block);
	ck_assert_int_eq(soma_resource_stream_synchronize(s.resource, s.a), SOMA_STATUS_OK);
	inner = s.resource;
	ck_assert_int_eq(soma_budget_create(inner, 1000, &budget), SOMA_STATUS_OK);
	ck_assert(soma_resource_supports_use_tracking(budget));
	s.block = allocate(budget, 100, s.a);
	s.resource = budget;
	use(&s, s.b, SOMA_ACCESS_WRITE);
	deallocate(budget, &s.block);
	ck_assert_uint_ge(waits(&s), 2);
	soma_resource_release(inner);
	end(&s);
}
END_TEST

START_TEST(a_synchronous_backend_needs_no_wait_for_the_allocation)
{
	struct scene s = begin(SOMA_BACKEND_STREAMS | SOMA_BACKEND_USE_TRACKING);
	uint64_t write;

	prepare(s.resource, &s.block, s.b, SOMA_ACCESS_READ);
	ck_assert_uint_eq(waits(&s), 0);
	write = use(&s, s.c, SOMA_ACCESS_WRITE);
	deallocate(s.resource, &s.block);
	ck_assert_uint_ge(fake_block(s.fake, s.block.ptr)->free_clock[fake_stream(s.resource, s.c)->index],
			  write);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), 0);
	end(&s);
}
END_TEST

START_TEST(the_backend_is_told_of_uses_and_may_object)
{
	struct scene s = begin(FAKE_ORDERED | SOMA_BACKEND_USES);
	struct soma_use made = { .size = sizeof made };

	use(&s, s.b, SOMA_ACCESS_WRITE);
	ck_assert_uint_eq(fake_count(s.fake, FAKE_BLOCK_USE), 1);
	s.fake->fail_with[FAKE_BLOCK_USE] = SOMA_STATUS_STREAM_MISUSE;
	ck_assert_int_eq(soma_resource_prepare_use(s.resource, s.block.id, s.b, SOMA_ACCESS_READ, &made),
			 SOMA_STATUS_STREAM_MISUSE);
	/* The work of a recorded use is queued whatever the backend thinks of it. */
	fake_work(fake_stream(s.resource, s.c), 2);
	uint64_t position = fake_stream(s.resource, s.c)->queued;
	ck_assert_int_eq(soma_resource_record_use(s.resource, s.block.id, s.c), SOMA_STATUS_STREAM_MISUSE);
	deallocate(s.resource, &s.block);
	ck_assert_uint_ge(fake_block(s.fake, s.block.ptr)->free_clock[fake_stream(s.resource, s.c)->index],
			  position);
	end(&s);
}
END_TEST

START_TEST(the_backend_is_told_of_stale_blocks)
{
	struct scene s = begin(FAKE_ORDERED | SOMA_BACKEND_GUARD | SOMA_BACKEND_KEEPS_FREED);
	struct soma_use made = { .size = sizeof made };

	deallocate(s.resource, &s.block);
	ck_assert_int_eq(soma_resource_deallocate(s.resource, &s.block), SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_uint_eq(s.fake->stale_ptr, s.block.ptr);
	ck_assert_uint_eq(s.fake->stale_generation, s.block.id.generation);
	ck_assert_int_eq(s.fake->stale_access, SOMA_BACKEND_ACCESS_NONE);
	s.fake->stale_ptr = 0;
	ck_assert_int_eq(soma_resource_prepare_use(s.resource, s.block.id, s.b, SOMA_ACCESS_WRITE, &made),
			 SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_uint_eq(s.fake->stale_ptr, s.block.ptr);
	ck_assert_int_eq(s.fake->stale_access, SOMA_BACKEND_ACCESS_WRITE);
	struct soma_block foreign = { .ptr = 4711 };
	ck_assert_int_eq(soma_resource_deallocate(s.resource, &foreign), SOMA_STATUS_INVALID_VALUE);
	ck_assert_uint_eq(s.fake->stale_ptr, 4711);
	end(&s);
}
END_TEST

/* Another thread frees the block when its use has been looked up, and before the backend hears of it. */
static void
free_within(struct soma_backend *fake, enum fake_op op, void *context)
{
	struct scene *s = context;

	if (op != FAKE_BLOCK_USE)
		return;
	fake->before = NULL;
	deallocate(s->resource, &s->block);
}

static void
record_use_of_freed(enum soma_status objection, uint64_t stale_ptr)
{
	struct scene s = begin(FAKE_ORDERED | SOMA_BACKEND_USES);

	s.fake->context = &s;
	s.fake->before = free_within;
	s.fake->fail_with[FAKE_BLOCK_USE] = objection;
	ck_assert_int_eq(soma_resource_record_use(s.resource, s.block.id, s.b), SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_uint_eq(s.fake->stale_ptr, stale_ptr != 0 ? s.block.ptr : 0);
	fake_run_all(s.fake);
	end(&s);
}

START_TEST(a_use_that_meets_a_free_is_reported_once)
{
	record_use_of_freed(SOMA_STATUS_USE_AFTER_FREE, 0); /* by block_use, which saw the free */
	record_use_of_freed(SOMA_STATUS_OK, 1);             /* by block_stale */
}
END_TEST

/* Destroys the stream of the block that is being freed, between the wait for its uses and the free. */
static void
destroy_within(struct soma_backend *fake, enum fake_op op, void *context)
{
	struct scene *s = context;

	if (op != FAKE_FREE)
		return;
	fake->before = NULL;
	ck_assert_int_eq(soma_resource_stream_destroy(s->resource, s->a), SOMA_STATUS_OK);
}

START_TEST(a_stream_that_is_destroyed_within_a_free_orders_the_free)
{
	struct scene s = begin(FAKE_ORDERED);
	struct soma_backend_stream *handle = fake_stream(s.resource, s.a);

	fake_work(handle, 5);
	s.fake->context = &s;
	s.fake->before = destroy_within;
	deallocate(s.resource, &s.block);
	ck_assert_int_eq(fake_block(s.fake, s.block.ptr)->free_stream, handle->index);
	ck_assert(handle->gone);
	ck_assert_int_eq(soma_resource_stream_destroy(s.resource, s.a), SOMA_STATUS_STREAM_MISUSE);
	ck_assert_int_eq(soma_resource_reap_pending(s.resource), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), 100);
	fake_run_all(s.fake);
	ck_assert_int_eq(soma_resource_reap_pending(s.resource), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), 0);
	end(&s);
}
END_TEST

/* Two threads end uses on one stream: the one that recorded its event first comes to the block last. */
START_TEST(an_earlier_event_does_not_replace_a_later_one)
{
	struct scene s = begin(FAKE_ORDERED);
	struct soma__terminal *terminal = s.resource->terminal;
	struct soma_backend_stream *handle = fake_stream(s.resource, s.b);
	struct soma__stream *stream = soma__stream_find(&terminal->streams, s.b);
	struct soma_use first = prepare(s.resource, &s.block, s.b, SOMA_ACCESS_READ), second = first;
	struct soma__mark earlier, later;

	fake_work(handle, 1);
	earlier = soma__stream_mark(&terminal->streams, stream);
	fake_work(handle, 1);
	later = soma__stream_mark(&terminal->streams, stream);
	ck_assert_int_eq(soma__uses_finish(s.resource, &second, &later, false, false), SOMA_STATUS_OK);
	ck_assert_int_eq(soma__uses_finish(s.resource, &first, &earlier, false, false), SOMA_STATUS_OK);
	soma__event_drop(&terminal->events, earlier.event);
	soma__event_drop(&terminal->events, later.event);
	uint64_t position = handle->queued;
	deallocate(s.resource, &s.block);
	ck_assert(ordered(&s, s.a, s.b, position));
	end(&s);
}
END_TEST

START_TEST(an_event_that_somebody_has_is_not_recorded_anew)
{
	struct scene s = begin(FAKE_ORDERED);
	struct soma__terminal *terminal = s.resource->terminal;
	struct soma__stream *stream = soma__stream_find(&terminal->streams, s.b);
	struct soma__mark first = soma__stream_mark(&terminal->streams, stream);
	struct soma__mark second = soma__stream_mark(&terminal->streams, stream);
	struct soma__event *event = second.event;

	ck_assert_ptr_ne(first.event, event);
	soma__event_drop(&terminal->events, first.event);
	soma__event_drop(&terminal->events, event);
	struct soma__mark third = soma__stream_mark(&terminal->streams, stream);
	ck_assert_ptr_eq(third.event, event);
	soma__event_drop(&terminal->events, third.event);
	end(&s);
}
END_TEST

START_TEST(using_one_block_after_another_takes_no_memory)
{
	struct scene s = begin(FAKE_ORDERED);

	s.fake->streams_run = true;
	for (int i = 0; i < 100; i++) {
		struct soma_block block = allocate(s.resource, 100, s.a);
		struct soma_use u = prepare(s.resource, &block, s.b, SOMA_ACCESS_WRITE);
		ck_assert_int_eq(soma_resource_finish_use(s.resource, &u, 1), SOMA_STATUS_OK);
		deallocate(s.resource, &block);
		if (i == 70)
			soma__arena_fail_nth(0);
	}
	ck_assert_uint_eq(soma__arena_fail_nth(0), 0);
	end(&s);
}
END_TEST

START_TEST(a_write_waits_for_more_reads_than_fit_on_the_stack)
{
	enum { READERS = 20 };
	struct scene s = begin(FAKE_ORDERED);
	uint64_t readers[READERS], ends[READERS];

	for (int i = 0; i < READERS; i++) {
		readers[i] = new_stream(s.resource);
		ends[i] = use(&s, readers[i], SOMA_ACCESS_READ);
	}
	use(&s, s.b, SOMA_ACCESS_WRITE);
	for (int i = 0; i < READERS; i++)
		ck_assert(ordered(&s, s.b, readers[i], ends[i]));
	deallocate(s.resource, &s.block);
	end(&s);
}
END_TEST

UNIT_MAIN("resource_uses", an_earlier_event_does_not_replace_a_later_one,
	  a_stream_that_is_destroyed_within_a_free_orders_the_free,
	  a_first_use_elsewhere_waits_for_the_allocation, uses_on_the_blocks_own_stream_wait_for_nothing,
	  a_read_waits_for_the_last_write_and_no_read, a_write_waits_for_the_last_write_and_all_reads,
	  the_free_waits_for_every_use, a_use_of_unknown_access_replaces_nothing,
	  a_dropped_prepare_leaves_nothing_to_wait_for, a_freed_block_has_no_uses, bad_uses_are_refused,
	  without_tracking_uses_are_never_a_silent_success, decorators_forward_uses,
	  a_synchronous_backend_needs_no_wait_for_the_allocation, the_backend_is_told_of_uses_and_may_object,
	  the_backend_is_told_of_stale_blocks, a_use_that_meets_a_free_is_reported_once,
	  an_event_that_somebody_has_is_not_recorded_anew, using_one_block_after_another_takes_no_memory,
	  a_write_waits_for_more_reads_than_fit_on_the_stack)

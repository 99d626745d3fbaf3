/* SPDX-License-Identifier: Apache-2.0 */
/* The launch recorder over the fake backend, which knows every order. */
#include "tests/runtime_fixture.h"

#include "lib/resource/terminal.h"
#include "tests/check_resource_fake.h"

struct scene {
	struct soma_backend *fake;
	struct soma_resource *resource;
	uint64_t a, b;
	struct soma_launch launch;
};

static void
begin(struct scene *s, uint64_t capabilities)
{
	s->fake = fake_create(capabilities, &s->resource);
	OK(soma_resource_stream_create(s->resource, 0, &s->a));
	OK(soma_resource_stream_create(s->resource, 0, &s->b));
}

static void
end(struct scene *s)
{
	soma_resource_release(s->resource);
	fake_destroy(s->fake);
}

static void
start(struct scene *s, uint64_t stream)
{
	OK(soma_launch_begin(&s->launch, s->resource, stream));
}

/* Queues work on the launch's stream; where its end is. */
static uint64_t
work(struct scene *s)
{
	struct soma_backend_stream *stream = fake_stream(s->resource, s->launch.stream);

	fake_work(stream, 1);
	return stream->queued;
}

static uint64_t
launch_write(struct scene *s, uint64_t stream, const struct soma_block *block)
{
	start(s, stream);
	OK(soma_launch_write(&s->launch, block->id));
	OK(soma_launch_preflight(&s->launch));
	uint64_t position = work(s);
	OK(soma_launch_commit(&s->launch));
	return position;
}

/* Whether the next work of stream `later` comes after `earlier`'s up to the position. */
static bool
ordered(struct scene *s, uint64_t later, uint64_t earlier, uint64_t position)
{
	return fake_ordered(fake_stream(s->resource, later), fake_stream(s->resource, earlier), position);
}

/* ---- order --------------------------------------------------------------------------- */

START_TEST(preflight_waits_for_the_last_write)
{
	struct scene s;

	begin(&s, FAKE_ORDERED);
	struct soma_block block = allocate(s.resource, 100, s.a);
	uint64_t written = launch_write(&s, s.a, &block);
	start(&s, s.b);
	OK(soma_launch_read(&s.launch, block.id));
	ck_assert(!ordered(&s, s.b, s.a, written));
	OK(soma_launch_preflight(&s.launch));
	ck_assert(ordered(&s, s.b, s.a, written));
	soma_launch_abandon(&s.launch);
	deallocate(s.resource, &block);
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

START_TEST(a_free_waits_for_a_committed_launch)
{
	struct scene s;

	begin(&s, FAKE_ORDERED);
	struct soma_block block = allocate(s.resource, 100, s.a);
	uint64_t written = launch_write(&s, s.b, &block);
	deallocate(s.resource, &block);
	ck_assert(ordered(&s, s.a, s.b, written));
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

START_TEST(an_abandoned_launch_leaves_no_use)
{
	struct scene s;

	begin(&s, FAKE_ORDERED);
	struct soma_block block = allocate(s.resource, 100, s.a);
	start(&s, s.b);
	OK(soma_launch_write(&s.launch, block.id));
	OK(soma_launch_preflight(&s.launch));
	soma_launch_abandon(&s.launch);
	uint64_t position = fake_stream(s.resource, s.b)->queued;
	deallocate(s.resource, &block);
	ck_assert(!ordered(&s, s.a, s.b, position));
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

/* ---- what is recorded ------------------------------------------------------------------- */

START_TEST(duplicates_merge_to_the_strongest_access)
{
	struct scene s;

	begin(&s, FAKE_ORDERED);
	struct soma_block x = allocate(s.resource, 100, s.a), y = allocate(s.resource, 100, s.a);
	start(&s, s.a);
	OK(soma_launch_read(&s.launch, x.id));
	OK(soma_launch_write(&s.launch, y.id));
	OK(soma_launch_read(&s.launch, x.id));
	ck_assert_uint_eq(soma_launch_count(&s.launch), 2);
	ck_assert_int_eq(soma_launch_use(&s.launch, 0)->access, SOMA_ACCESS_READ);
	OK(soma_launch_write(&s.launch, x.id));
	OK(soma_launch_read(&s.launch, y.id));
	ck_assert_uint_eq(soma_launch_count(&s.launch), 2);
	ck_assert_int_eq(soma_launch_use(&s.launch, 0)->access, SOMA_ACCESS_READ_WRITE);
	ck_assert_int_eq(soma_launch_use(&s.launch, 1)->access, SOMA_ACCESS_READ_WRITE);
	OK(soma_launch_read_write(&s.launch, x.id));
	ck_assert_uint_eq(soma_launch_count(&s.launch), 2);
	ck_assert_ptr_null(soma_launch_use(&s.launch, 2));
	soma_launch_abandon(&s.launch);
	deallocate(s.resource, &x);
	deallocate(s.resource, &y);
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

#define MANY 700

START_TEST(any_number_of_blocks_is_recorded_once_each)
{
	static struct soma_block blocks[MANY];
	struct scene s;

	begin(&s, FAKE_ORDERED);
	for (int i = 0; i < MANY; i++)
		blocks[i] = allocate(s.resource, 100, s.a);
	start(&s, s.b);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < MANY; i++)
			OK(i % 2 == round ? soma_launch_read(&s.launch, blocks[i].id)
					  : soma_launch_write(&s.launch, blocks[i].id));
	ck_assert_uint_eq(soma_launch_count(&s.launch), MANY);
	for (int i = 0; i < MANY; i++) {
		ck_assert_uint_eq(soma_launch_use(&s.launch, (size_t)i)->block.handle, blocks[i].id.handle);
		ck_assert_int_eq(soma_launch_use(&s.launch, (size_t)i)->access, SOMA_ACCESS_READ_WRITE);
	}
	OK(soma_launch_preflight(&s.launch));
	uint64_t events = fake_count(s.fake, FAKE_EVENT_RECORD), position = work(&s);
	OK(soma_launch_commit(&s.launch));
	ck_assert_uint_eq(fake_count(s.fake, FAKE_EVENT_RECORD), events + 1); /* one for all of them */
	for (int i = 0; i < MANY; i++) {
		deallocate(s.resource, &blocks[i]);
		ck_assert(
			fake_block(s.fake, blocks[i].ptr)->free_clock[fake_stream(s.resource, s.b)->index] >=
			position);
	}
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

/* Once the blocks' own lists of uses and a few events are there, a launch of some tens of blocks needs no memory. */
START_TEST(a_launch_of_tens_of_blocks_allocates_nothing)
{
	struct soma_block blocks[SOMA_LAUNCH_INLINE];
	struct scene s;

	begin(&s, FAKE_ORDERED);
	for (int i = 0; i < SOMA_LAUNCH_INLINE; i++)
		blocks[i] = allocate(s.resource, 100, s.a);
	for (int launch = 0; launch < 12; launch++) {
		if (launch == 6)
			(void)soma__arena_fail_nth(1);
		start(&s, launch % 2 == 0 ? s.a : s.b);
		for (int i = 0; i < SOMA_LAUNCH_INLINE; i++)
			OK(i % 3 == 0 ? soma_launch_write(&s.launch, blocks[i].id)
				      : soma_launch_read(&s.launch, blocks[i].id));
		OK(soma_launch_preflight(&s.launch));
		work(&s);
		OK(soma_launch_commit(&s.launch));
		fake_run_all(s.fake);
	}
	ck_assert_uint_eq(soma__arena_fail_nth(0), 0);
	for (int i = 0; i < SOMA_LAUNCH_INLINE; i++)
		deallocate(s.resource, &blocks[i]);
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

START_TEST(a_block_without_memory_for_it_is_not_in_the_launch)
{
	struct soma_block blocks[SOMA_LAUNCH_INLINE + 1];
	struct scene s;

	begin(&s, FAKE_ORDERED);
	start(&s, s.b);
	for (int i = 0; i <= SOMA_LAUNCH_INLINE; i++) {
		blocks[i] = allocate(s.resource, 100, s.a);
		if (i < SOMA_LAUNCH_INLINE)
			OK(soma_launch_read(&s.launch, blocks[i].id));
	}
	(void)soma__arena_fail_nth(1);
	ck_assert_int_eq(soma_launch_read(&s.launch, blocks[SOMA_LAUNCH_INLINE].id),
			 SOMA_STATUS_OUT_OF_HOST_MEMORY);
	ck_assert_uint_eq(soma_launch_count(&s.launch), SOMA_LAUNCH_INLINE);
	OK(soma_launch_read(&s.launch, blocks[SOMA_LAUNCH_INLINE].id));
	ck_assert_uint_eq(soma_launch_count(&s.launch), SOMA_LAUNCH_INLINE + 1);
	soma_launch_abandon(&s.launch);
	for (int i = 0; i <= SOMA_LAUNCH_INLINE; i++)
		deallocate(s.resource, &blocks[i]);
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

/* ---- what goes wrong ------------------------------------------------------------------------ */

/* Known mistake 6: a commit that stops half-way. */
START_TEST(a_commit_records_all_but_what_was_freed)
{
	struct soma_block blocks[5];
	struct scene s;

	begin(&s, FAKE_ORDERED);
	for (int i = 0; i < 5; i++)
		blocks[i] = allocate(s.resource, 100, s.a);
	start(&s, s.b);
	for (int i = 0; i < 5; i++)
		OK(soma_launch_read_write(&s.launch, blocks[i].id));
	OK(soma_launch_preflight(&s.launch));
	uint64_t position = work(&s);
	deallocate(s.resource, &blocks[0]);
	deallocate(s.resource, &blocks[2]);
	ck_assert_int_eq(soma_launch_commit(&s.launch), SOMA_STATUS_USE_AFTER_FREE);
	for (int i = 0; i < 5; i++) {
		const struct soma_use *use = soma_launch_use(&s.launch, (size_t)i);
		ck_assert_uint_eq(use->block.generation, blocks[i].id.generation);
		ck_assert_int_eq(use->status,
				 i % 2 == 0 && i < 4 ? SOMA_STATUS_USE_AFTER_FREE : SOMA_STATUS_OK);
	}
	ck_assert_int_eq(soma_launch_commit(&s.launch), SOMA_STATUS_INVALID_VALUE);
	soma_launch_abandon(&s.launch);
	ck_assert_uint_eq(soma_launch_count(&s.launch), 0);
	deallocate(s.resource, &blocks[1]);
	ck_assert(ordered(&s, s.a, s.b, position));
	deallocate(s.resource, &blocks[3]);
	deallocate(s.resource, &blocks[4]);
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

START_TEST(a_preflight_says_of_every_block_what_is_wrong)
{
	struct soma_block blocks[3];
	struct scene s;

	begin(&s, FAKE_ORDERED);
	for (int i = 0; i < 3; i++)
		blocks[i] = allocate(s.resource, 100, s.a);
	deallocate(s.resource, &blocks[1]);
	start(&s, s.b);
	for (int i = 0; i < 3; i++)
		OK(soma_launch_write(&s.launch, blocks[i].id));
	OK(soma_launch_read(&s.launch, (struct soma_block_id){ .handle = 12345, .generation = 1 }));
	ck_assert_int_eq(soma_launch_preflight(&s.launch), SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_int_eq(soma_launch_use(&s.launch, 0)->status, SOMA_STATUS_OK);
	ck_assert_int_eq(soma_launch_use(&s.launch, 1)->status, SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_int_eq(soma_launch_use(&s.launch, 2)->status, SOMA_STATUS_OK);
	ck_assert_int_eq(soma_launch_use(&s.launch, 3)->status, SOMA_STATUS_INVALID_VALUE);
	ck_assert_uint_eq(soma_launch_use(&s.launch, 1)->block.generation, blocks[1].id.generation);
	soma_launch_abandon(&s.launch);
	deallocate(s.resource, &blocks[0]);
	deallocate(s.resource, &blocks[2]);
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

/* The program went on in spite of the error, or never asked: its work is there. */
START_TEST(what_was_queued_without_a_good_preflight_is_recorded)
{
	struct scene s;

	begin(&s, FAKE_ORDERED);
	struct soma_block x = allocate(s.resource, 100, s.a), y = allocate(s.resource, 100, s.a);
	start(&s, s.b);
	OK(soma_launch_write(&s.launch, x.id));
	uint64_t position = work(&s);
	OK(soma_launch_commit(&s.launch));
	deallocate(s.resource, &x);
	ck_assert(ordered(&s, s.a, s.b, position));
	start(&s, s.b);
	OK(soma_launch_write(&s.launch, y.id));
	s.fake->fail_with[FAKE_EVENT_WAIT] = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(soma_launch_preflight(&s.launch), SOMA_STATUS_DRIVER);
	s.fake->fail_with[FAKE_EVENT_WAIT] = SOMA_STATUS_OK;
	position = work(&s);
	OK(soma_launch_commit(&s.launch));
	deallocate(s.resource, &y);
	ck_assert(ordered(&s, s.a, s.b, position));
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

/* Its work is still queued, so the blocks must not be lost track of. */
START_TEST(a_commit_on_a_stream_that_was_destroyed_is_recorded)
{
	struct scene s;

	begin(&s, FAKE_ORDERED);
	struct soma_block x = allocate(s.resource, 100, s.a), y = allocate(s.resource, 100, s.a);
	struct soma_backend_stream *handle = fake_stream(s.resource, s.b);
	(void)launch_write(&s, s.b, &y); /* y has an older use on that stream */
	start(&s, s.b);
	OK(soma_launch_write(&s.launch, x.id));
	OK(soma_launch_write(&s.launch, y.id));
	OK(soma_launch_preflight(&s.launch));
	uint64_t position = work(&s);
	OK(soma_resource_stream_destroy(s.resource, s.b));
	OK(soma_launch_commit(&s.launch));
	deallocate(s.resource, &x);
	ck_assert(fake_block(s.fake, x.ptr)->free_clock[handle->index] >= position);
	deallocate(s.resource, &y);
	ck_assert(fake_block(s.fake, y.ptr)->free_clock[handle->index] >= position);
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

/* ... and when that stream's number is taken by another one, its work is known to be done. */
START_TEST(a_commit_on_a_stream_that_is_over_records_nothing_to_wait_for)
{
	struct scene s;
	uint64_t next;

	begin(&s, FAKE_ORDERED);
	struct soma_block x = allocate(s.resource, 100, s.a);
	start(&s, s.b);
	OK(soma_launch_write(&s.launch, x.id));
	OK(soma_launch_preflight(&s.launch));
	work(&s);
	OK(soma_resource_stream_destroy(s.resource, s.b));
	fake_run_all(s.fake);
	OK(soma_resource_stream_create(s.resource, 0, &next));
	ck_assert_ptr_null(soma__stream_find(&s.resource->terminal->streams, s.b));
	fake_work(fake_stream(s.resource, next), 1);
	OK(soma_launch_commit(&s.launch));
	uint64_t waits = fake_count(s.fake, FAKE_EVENT_WAIT);
	deallocate(s.resource, &x);
	ck_assert_uint_eq(fake_count(s.fake, FAKE_EVENT_WAIT), waits);
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

START_TEST(a_launch_needs_a_stream_and_an_order)
{
	struct scene s;

	begin(&s, FAKE_ORDERED);
	ck_assert_int_eq(soma_launch_begin(&s.launch, s.resource, 4711), SOMA_STATUS_STREAM_MISUSE);
	ck_assert_int_eq(soma_launch_preflight(&s.launch), SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(soma_error_last()->text, "a launch that is ended cannot be prepared");
	soma_launch_abandon(&s.launch);
	end(&s);
	begin(&s, SOMA_BACKEND_STREAMS);
	ck_assert_int_eq(soma_launch_begin(&s.launch, s.resource, s.a), SOMA_STATUS_STREAM_MISUSE);
	end(&s);
}
END_TEST

START_TEST(the_calls_keep_their_order)
{
	struct scene s;

	begin(&s, FAKE_ORDERED);
	struct soma_block x = allocate(s.resource, 100, s.a);
	start(&s, s.b);
	OK(soma_launch_preflight(&s.launch)); /* of nothing */
	ck_assert_int_eq(soma_launch_read(&s.launch, x.id), SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(soma_error_last()->text, "a launch that is past its preflight cannot be added to");
	ck_assert_int_eq(soma_launch_preflight(&s.launch), SOMA_STATUS_INVALID_VALUE);
	OK(soma_launch_commit(&s.launch));
	ck_assert_int_eq(soma_launch_commit(&s.launch), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_launch_read(&s.launch, x.id), SOMA_STATUS_INVALID_VALUE);
	soma_launch_abandon(&s.launch);
	soma_launch_abandon(&s.launch);
	deallocate(s.resource, &x);
	fake_run_all(s.fake);
	end(&s);
}
END_TEST

/* Every call of the backend, and every allocation, fails in turn: what was committed is waited for. */
static bool
launch_with_failures(uint64_t call, unsigned long allocation)
{
	struct soma_block blocks[40];
	struct scene s;

	begin(&s, FAKE_ORDERED | SOMA_BACKEND_USES);
	for (int i = 0; i < 40; i++)
		blocks[i] = allocate(s.resource, 100, s.a);
	start(&s, s.b);
	uint64_t before = atomic_load(&s.fake->calls);
	atomic_store(&s.fake->fail_at, call != 0 ? before + call : 0);
	(void)soma__arena_fail_nth(allocation);
	bool in[40];
	for (int i = 0; i < 40; i++)
		in[i] = soma_launch_write(&s.launch, blocks[i].id) == SOMA_STATUS_OK;
	bool prepared = soma_launch_preflight(&s.launch) == SOMA_STATUS_OK;
	uint64_t position = work(&s);
	bool committed = soma_launch_commit(&s.launch) == SOMA_STATUS_OK;
	bool met = call != 0 ? atomic_load(&s.fake->calls) - before >= call
			     : soma__arena_fail_nth(0) >= allocation;
	soma_launch_abandon(&s.launch);
	atomic_store(&s.fake->fail_at, 0);
	(void)soma__arena_fail_nth(0);
	ck_assert(met || (prepared && committed));
	for (int i = 0; i < 40; i++) {
		deallocate(s.resource, &blocks[i]);
		const struct fake_block *block = fake_block(s.fake, blocks[i].ptr);
		int stream = fake_stream(s.resource, s.b)->index;
		ck_assert(!in[i] || block->free_clock[stream] >= position ||
			  s.fake->streams[stream].run >= position);
	}
	fake_run_all(s.fake);
	end(&s);
	return met;
}

START_TEST(whatever_fails_no_block_is_left_untracked)
{
	uint64_t call = 1;
	unsigned long allocation = 1;

	while (launch_with_failures(call, 0))
		call++;
	while (launch_with_failures(0, allocation))
		allocation++;
	ck_assert_uint_gt(call, 80);
	ck_assert_uint_gt(allocation, 40);
}
END_TEST

UNIT_MAIN("launch", preflight_waits_for_the_last_write, a_free_waits_for_a_committed_launch,
	  an_abandoned_launch_leaves_no_use, duplicates_merge_to_the_strongest_access,
	  any_number_of_blocks_is_recorded_once_each, a_launch_of_tens_of_blocks_allocates_nothing,
	  a_block_without_memory_for_it_is_not_in_the_launch, a_commit_records_all_but_what_was_freed,
	  a_preflight_says_of_every_block_what_is_wrong, what_was_queued_without_a_good_preflight_is_recorded,
	  a_commit_on_a_stream_that_was_destroyed_is_recorded,
	  a_commit_on_a_stream_that_is_over_records_nothing_to_wait_for, a_launch_needs_a_stream_and_an_order,
	  the_calls_keep_their_order, whatever_fails_no_block_is_left_untracked)

/* SPDX-License-Identifier: Apache-2.0 */
/* Known mistakes in keeping track of uses (4 to 6), each shown absent. */
#include "lib/resource/terminal.h"
#include "tests/check_resource_fake.h"

/* ---- 4 ---------------------------------------------------------------------------------- */

START_TEST(mistake_04_a_finishing_write_keeps_reads_that_it_did_not_wait_for)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t a = new_stream(resource), b = new_stream(resource), c = new_stream(resource);
	struct soma_block block = allocate(resource, 100, a);

	struct soma_use write = prepare(resource, &block, b, SOMA_ACCESS_WRITE);
	struct soma_use read = prepare(resource, &block, c, SOMA_ACCESS_READ);
	fake_work(fake_stream(resource, c), 3);
	uint64_t read_end = fake_stream(resource, c)->queued;
	ck_assert_int_eq(soma_resource_finish_use(resource, &read, 1), SOMA_STATUS_OK);
	fake_work(fake_stream(resource, b), 2);
	uint64_t write_end = fake_stream(resource, b)->queued;
	ck_assert_int_eq(soma_resource_finish_use(resource, &write, 1), SOMA_STATUS_OK);
	deallocate(resource, &block);
	struct fake_block *freed = fake_block(fake, block.ptr);
	ck_assert_uint_ge(freed->free_clock[fake_stream(resource, b)->index], write_end);
	ck_assert_uint_ge(freed->free_clock[fake_stream(resource, c)->index], read_end);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(mistake_04_a_finishing_write_keeps_a_write_that_it_did_not_wait_for)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t a = new_stream(resource), b = new_stream(resource), c = new_stream(resource);
	struct soma_block block = allocate(resource, 100, a);

	struct soma_use first = prepare(resource, &block, b, SOMA_ACCESS_WRITE);
	struct soma_use second = prepare(resource, &block, c, SOMA_ACCESS_READ_WRITE);
	fake_work(fake_stream(resource, b), 3);
	fake_work(fake_stream(resource, c), 3);
	uint64_t b_end = fake_stream(resource, b)->queued, c_end = fake_stream(resource, c)->queued;
	ck_assert_int_eq(soma_resource_finish_use(resource, &first, 1), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_finish_use(resource, &second, 1), SOMA_STATUS_OK);
	prepare(resource, &block, a, SOMA_ACCESS_READ);
	ck_assert(fake_ordered(fake_stream(resource, a), fake_stream(resource, b), b_end));
	ck_assert(fake_ordered(fake_stream(resource, a), fake_stream(resource, c), c_end));
	deallocate(resource, &block);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* ---- 5 ---------------------------------------------------------------------------------- */

START_TEST(mistake_05_outstanding_reads_do_not_grow_with_launches)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t a = new_stream(resource), b = new_stream(resource), c = new_stream(resource);
	struct soma_block block = allocate(resource, 100, a);

	for (int i = 0; i < 1000; i++) {
		struct soma_use use = prepare(resource, &block, i % 2 != 0 ? b : c, SOMA_ACCESS_READ);
		ck_assert_int_eq(soma_resource_finish_use(resource, &use, 1), SOMA_STATUS_OK);
	}
	ck_assert_int_le(fake->events, 6);
	uint64_t waits = fake_count(fake, FAKE_EVENT_WAIT);
	deallocate(resource, &block);
	ck_assert_uint_eq(fake_count(fake, FAKE_EVENT_WAIT) - waits, 2);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(mistake_05_a_launch_of_many_blocks_records_one_event)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t a = new_stream(resource), b = new_stream(resource);
	struct soma_block blocks[20];
	struct soma_use uses[20];

	for (int i = 0; i < 20; i++) {
		blocks[i] = allocate(resource, 100, a);
		uses[i] = prepare(resource, &blocks[i], b, SOMA_ACCESS_READ);
	}
	uint64_t records = fake_count(fake, FAKE_EVENT_RECORD);
	ck_assert_int_eq(soma_resource_finish_use(resource, uses, 20), SOMA_STATUS_OK);
	ck_assert_uint_eq(fake_count(fake, FAKE_EVENT_RECORD) - records, 1);
	for (int i = 0; i < 20; i++)
		deallocate(resource, &blocks[i]);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(mistake_05_streams_that_come_and_go_leave_no_uses_behind)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t a = new_stream(resource);
	struct soma_block block = allocate(resource, 100, a);

	for (int i = 0; i < FAKE_STREAMS - 4; i++) {
		uint64_t stream = new_stream(resource);
		struct soma_use use = prepare(resource, &block, stream, SOMA_ACCESS_READ);
		ck_assert_int_eq(soma_resource_finish_use(resource, &use, 1), SOMA_STATUS_OK);
		fake_run_all(fake);
		ck_assert_int_eq(soma_resource_stream_destroy(resource, stream), SOMA_STATUS_OK);
	}
	ck_assert_int_le(fake->events, 12);
	deallocate(resource, &block);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* ---- 6 ---------------------------------------------------------------------------------- */

START_TEST(mistake_06_a_commit_tracks_all_blocks_that_it_can)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t a = new_stream(resource), b = new_stream(resource);
	struct soma_block blocks[3];
	struct soma_use uses[3];

	for (int i = 0; i < 3; i++) {
		blocks[i] = allocate(resource, 100 * (uint64_t)(i + 1), a);
		uses[i] = prepare(resource, &blocks[i], b, SOMA_ACCESS_WRITE);
	}
	fake_work(fake_stream(resource, b), 5);
	uint64_t end = fake_stream(resource, b)->queued;
	deallocate(resource, &blocks[1]);
	ck_assert_int_eq(soma_resource_finish_use(resource, uses, 3), SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_int_eq(uses[0].status, SOMA_STATUS_OK);
	ck_assert_int_eq(uses[1].status, SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_int_eq(uses[2].status, SOMA_STATUS_OK);
	/* The last one first: another free's wait would order it, too. */
	deallocate(resource, &blocks[2]);
	deallocate(resource, &blocks[0]);
	ck_assert_uint_ge(fake_block(fake, blocks[0].ptr)->free_clock[fake_stream(resource, b)->index], end);
	ck_assert_uint_ge(fake_block(fake, blocks[2].ptr)->free_clock[fake_stream(resource, b)->index], end);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(mistake_06_without_an_event_a_use_is_tracked_all_the_same)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t a = new_stream(resource), b = new_stream(resource);
	struct soma_block block = allocate(resource, 100, a);
	struct soma_use use = prepare(resource, &block, b, SOMA_ACCESS_WRITE);

	fake_work(fake_stream(resource, b), 5);
	uint64_t end = fake_stream(resource, b)->queued;
	fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(soma_resource_finish_use(resource, &use, 1), SOMA_STATUS_OK);
	fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_OK;
	deallocate(resource, &block);
	ck_assert_uint_ge(fake_block(fake, block.ptr)->free_clock[fake_stream(resource, b)->index], end);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(an_array_of_uses_that_is_not_there_is_refused)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);

	ck_assert_int_eq(soma_resource_finish_use(resource, NULL, 1), SOMA_STATUS_INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "1 uses at NULL"));
	ck_assert_int_eq(soma_resource_finish_use(resource, NULL, 0), SOMA_STATUS_OK);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

UNIT_MAIN("resource_mistakes_uses", an_array_of_uses_that_is_not_there_is_refused,
	  mistake_04_a_finishing_write_keeps_reads_that_it_did_not_wait_for,
	  mistake_04_a_finishing_write_keeps_a_write_that_it_did_not_wait_for,
	  mistake_05_outstanding_reads_do_not_grow_with_launches,
	  mistake_05_a_launch_of_many_blocks_records_one_event,
	  mistake_05_streams_that_come_and_go_leave_no_uses_behind,
	  mistake_06_a_commit_tracks_all_blocks_that_it_can,
	  mistake_06_without_an_event_a_use_is_tracked_all_the_same)

/* SPDX-License-Identifier: Apache-2.0 */
/* lib/resource: stacks and how long they last, streams, frees whose stream is gone. */
#include <stdio.h>
#include <string.h>

#include <soma/log.h>

#include "lib/resource/terminal.h"
#include "tests/check_resource_fake.h"

static char logged[512];

static void
hear(void *context, enum soma_log_level level, const char *text)
{
	(void)context, (void)level;
	snprintf(logged, sizeof logged, "%s", text);
}

START_TEST(a_decorator_keeps_what_is_under_it)
{
	struct soma_resource *terminal, *budget, *tenant;
	struct soma_backend *fake = fake_create(0, &terminal);

	ck_assert_int_eq(soma_budget_create(terminal, 1000, &budget), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_budget_create(budget, 1000, &tenant), SOMA_STATUS_OK);
	soma_resource_release(terminal);
	soma_resource_release(budget);
	struct soma_block block = allocate(tenant, 10, 0);
	ck_assert_int_eq(soma_resource_device(tenant), 0);
	deallocate(tenant, &block);
	ck_assert_ptr_eq(soma_resource_retain(tenant), tenant);
	soma_resource_release(tenant);
	ck_assert(!fake->closed);
	soma_resource_release(tenant);
	ck_assert(fake->closed);
	ck_assert_ptr_null(soma_resource_retain(NULL));
	soma_resource_release(NULL);
	fake_destroy(fake);
}
END_TEST

START_TEST(what_is_not_given_is_a_bad_argument)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_request request = { .size = sizeof request, .bytes = 10 };
	struct soma_block block = { .size = sizeof block };

	ck_assert_int_eq(soma_resource_allocate(terminal, 10, 0, NULL), SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(soma_error_last()->text, "block is NULL: expected one to be filled");
	ck_assert_int_eq(soma_resource_allocate_with_reservation_pressure(terminal, 10, 0, 5, NULL),
			 SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_resource_materialize(terminal, &request, NULL), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_resource_materialize(terminal, NULL, &block), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_resource_deallocate(terminal, NULL), SOMA_STATUS_INVALID_VALUE);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(terminal), 0);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(blocks_that_are_given_up_are_said)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &terminal);

	soma_log_set_sink(hear, NULL, SOMA_LOG_WARNING);
	ck_assert_int_eq(soma_budget_create(terminal, 1000, &budget), SOMA_STATUS_OK);
	uint64_t stream = new_stream(budget);
	allocate(budget, 10, stream);
	struct soma_block used = allocate(budget, 20, stream);
	ck_assert_int_eq(soma_resource_record_use(budget, used.id, 0), SOMA_STATUS_OK);
	struct soma_block retired = allocate(budget, 30, stream);
	deallocate(budget, &retired);
	soma_resource_release(terminal);
	soma_resource_release(budget);
	ck_assert_ptr_nonnull(strstr(logged, "2 blocks with 30 bytes"));
	fake_destroy(fake);
}
END_TEST

START_TEST(stream_ids_are_never_used_twice)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t last = 0;

	for (int i = 0; i < 40; i++) {
		uint64_t stream = new_stream(resource);
		ck_assert_uint_ne(stream, last);
		ck_assert_uint_ne(stream, 0);
		fake_run_all(fake);
		ck_assert_int_eq(soma_resource_stream_destroy(resource, stream), SOMA_STATUS_OK);
		ck_assert_int_eq(soma_resource_stream_destroy(resource, stream), SOMA_STATUS_STREAM_MISUSE);
		ck_assert_int_eq(soma_resource_stream_synchronize(resource, stream),
				 SOMA_STATUS_STREAM_MISUSE);
		last = stream;
	}
	ck_assert_uint_le(atomic_load(&resource->terminal->streams.slots), 3);
	ck_assert_int_eq(soma_resource_stream_destroy(resource, 0), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_resource_stream_create(resource, 99, &last), SOMA_STATUS_INVALID_VALUE);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_backend_without_streams_has_the_default_one)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(0, &resource);
	uint64_t stream;

	ck_assert_int_eq(soma_resource_stream_create(resource, 0, &stream), SOMA_STATUS_NOT_SUPPORTED);
	ck_assert_int_eq(soma_resource_stream_synchronize(resource, 0), SOMA_STATUS_OK);
	struct soma_block block = allocate(resource, 8, 0);
	deallocate(resource, &block);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

static void
free_on_destroyed(uint64_t kind)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(kind, &resource);
	uint64_t stream = new_stream(resource);
	struct soma_block before = allocate(resource, 10, stream), after = allocate(resource, 20, stream);
	struct soma_backend_stream *handle = fake_stream(resource, stream);

	deallocate(resource, &before);
	ck_assert_int_eq(soma_resource_stream_destroy(resource, stream), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 30);
	/* Its work is waited for, since nothing can be queued on it. */
	ck_assert_uint_lt(handle->run, handle->queued);
	deallocate(resource, &after);
	ck_assert_uint_eq(handle->run, handle->queued);
	ck_assert_int_eq(soma_resource_block_state(resource, after.id), SOMA_BLOCK_FREED);
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	soma_resource_release(resource);
	fake_destroy(fake);
}

START_TEST(frees_of_a_destroyed_stream_are_completed)
{
	free_on_destroyed(FAKE_ORDERED);
	free_on_destroyed(FAKE_ORDERED | FAKE_RECORDS);
}
END_TEST

static void
free_in_order(uint64_t kind)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(kind, &resource);
	uint64_t stream = new_stream(resource);
	struct soma_block blocks[4];
	uint64_t positions[4];

	for (int i = 0; i < 4; i++)
		blocks[i] = allocate(resource, 100, stream);
	for (int i = 0; i < 4; i++) {
		deallocate(resource, &blocks[i]);
		positions[i] = fake_stream(resource, stream)->queued;
	}
	for (int i = 0; i < 4; i++) {
		fake_stream(resource, stream)->run = positions[i];
		ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
		ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 100 * (uint64_t)(3 - i));
	}
	soma_resource_release(resource);
	fake_destroy(fake);
}

START_TEST(frees_complete_in_the_streams_order_as_far_as_it_ran)
{
	free_in_order(FAKE_ORDERED);
	free_in_order(FAKE_ORDERED | FAKE_RECORDS);
}
END_TEST

static void
free_without_event(uint64_t kind)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(kind, &resource);
	uint64_t stream = new_stream(resource);
	struct soma_block first = allocate(resource, 100, stream), second = allocate(resource, 100, stream);

	fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_DRIVER;
	deallocate(resource, &first);
	fake_run(fake, resource, stream);
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 200);
	fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_OK;
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 100);
	deallocate(resource, &second);
	fake_run(fake, resource, stream);
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	soma_resource_release(resource);
	fake_destroy(fake);
}

START_TEST(a_free_without_an_event_is_completed_with_the_next_one)
{
	free_without_event(FAKE_ORDERED);
	free_without_event(FAKE_ORDERED | FAKE_RECORDS);
}
END_TEST

static void
free_many(uint64_t kind)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(kind, &resource);

	fake->streams_run = true;
	for (int i = 0; i < 2000; i++) {
		struct soma_block block = allocate(resource, 100, 0);
		deallocate(resource, &block);
	}
	ck_assert_uint_le(soma_resource_bytes_outstanding(resource), 64 * 100);
	ck_assert_int_le(fake->events, 65);
	soma_resource_release(resource);
	fake_destroy(fake);
}

START_TEST(pending_frees_do_not_grow_without_a_reap)
{
	free_many(FAKE_ORDERED);
	free_many(FAKE_ORDERED | FAKE_RECORDS);
}
END_TEST

START_TEST(a_free_that_fails_leaves_the_block_live)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(SOMA_BACKEND_KEEPS_FREED | SOMA_BACKEND_GUARD, &resource);
	struct soma_block block = allocate(resource, 100, 0);

	fake->fail_with[FAKE_FREE] = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(soma_resource_deallocate(resource, &block), SOMA_STATUS_DRIVER);
	fake->fail_with[FAKE_FREE] = SOMA_STATUS_OK;
	ck_assert_int_eq(soma_resource_block_state(resource, block.id), SOMA_BLOCK_LIVE);
	deallocate(resource, &block);
	ck_assert_int_eq(soma_resource_block_state(resource, block.id), SOMA_BLOCK_QUARANTINED);
	ck_assert_int_eq(soma_resource_deallocate(resource, &block), SOMA_STATUS_USE_AFTER_FREE);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_free_that_records_its_end_and_fails_leaves_the_block_live)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED | FAKE_RECORDS, &resource);
	uint64_t stream = new_stream(resource);
	struct soma_block block = allocate(resource, 100, stream);

	fake->fail_with[FAKE_FREE] = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(soma_resource_deallocate(resource, &block), SOMA_STATUS_DRIVER);
	fake->fail_with[FAKE_FREE] = SOMA_STATUS_OK;
	ck_assert_int_eq(soma_resource_block_state(resource, block.id), SOMA_BLOCK_LIVE);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 100);
	/* Without an event it is freed all the same. */
	fake->fail_with[FAKE_EVENT_CREATE] = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	struct soma_block other = allocate(resource, 100, 0);
	deallocate(resource, &other);
	fake->fail_with[FAKE_EVENT_CREATE] = SOMA_STATUS_OK;
	deallocate(resource, &block);
	fake_run_all(fake);
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

struct waited {
	struct soma__stream *stream;
	unsigned times;
};

/* While the stream is waited for, others can have its mutex. */
static void
try_mutex(struct soma_backend *fake, enum fake_op op, void *context)
{
	struct waited *waited = context;

	(void)fake;
	if (op != FAKE_STREAM_SYNCHRONIZE)
		return;
	ck_assert_int_eq(pthread_mutex_trylock(&waited->stream->mutex), 0);
	pthread_mutex_unlock(&waited->stream->mutex);
	waited->times++;
}

START_TEST(a_stream_without_an_event_for_its_end_is_waited_for_under_no_lock)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t stream = new_stream(resource);
	struct soma_block block = allocate(resource, 10, stream);
	struct soma_backend_stream *handle = fake_stream(resource, stream);
	struct waited waited = { .stream = soma__stream_find(&resource->terminal->streams, stream) };

	fake_work(handle, 3);
	fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	fake->context = &waited;
	fake->before = try_mutex;
	deallocate(resource, &block);
	ck_assert_int_eq(soma_resource_stream_destroy(resource, stream), SOMA_STATUS_OK);
	ck_assert_uint_ge(waited.times, 1);
	ck_assert_uint_eq(handle->run, handle->queued);
	ck_assert(handle->gone);
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_stream_that_cannot_be_waited_for_stays)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t stream = new_stream(resource);

	fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_DRIVER;
	fake->fail_with[FAKE_STREAM_SYNCHRONIZE] = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(soma_resource_stream_destroy(resource, stream), SOMA_STATUS_DRIVER);
	fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_OK;
	fake->fail_with[FAKE_STREAM_SYNCHRONIZE] = SOMA_STATUS_OK;
	struct soma_block block = allocate(resource, 10, stream);
	deallocate(resource, &block);
	ck_assert_int_eq(soma_resource_stream_destroy(resource, stream), SOMA_STATUS_OK);
	fake_run_all(fake);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* Another thread's free has the stream still pinned, so its end is not marked yet, and cannot be just now. */
START_TEST(a_free_does_not_come_before_work_that_cannot_be_waited_for)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t stream = new_stream(resource);
	struct soma_block block = allocate(resource, 10, stream);
	struct soma__streams *streams = &resource->terminal->streams;
	struct soma__stream *found = soma__stream_find(streams, stream);

	ck_assert(soma__stream_pin(streams, found, stream));
	ck_assert_int_eq(soma_resource_stream_destroy(resource, stream), SOMA_STATUS_OK);
	fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(soma_resource_deallocate(resource, &block), SOMA_STATUS_DRIVER);
	ck_assert_int_eq(soma_resource_block_state(resource, block.id), SOMA_BLOCK_LIVE);
	fake->fail_with[FAKE_EVENT_RECORD] = SOMA_STATUS_OK;
	deallocate(resource, &block);
	soma__stream_unpin(streams, found, stream);
	fake_run_all(fake);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* Those are what a new one may take the place of. */
START_TEST(streams_that_are_destroyed_are_counted)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	struct soma__streams *streams = &resource->terminal->streams;
	uint64_t first = new_stream(resource), unused;

	(void)new_stream(resource);
	ck_assert_uint_eq(streams->closed, 0);
	ck_assert_int_eq(soma_resource_stream_destroy(resource, first), SOMA_STATUS_OK);
	ck_assert_uint_eq(streams->closed, 1);
	ck_assert_int_ne(soma_resource_stream_destroy(resource, first), SOMA_STATUS_OK);
	ck_assert_uint_eq(streams->closed, 1);
	fake_run_all(fake);
	fake->fail_with[FAKE_STREAM_CREATE] = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(soma_resource_stream_create(resource, 0, &unused), SOMA_STATUS_DRIVER);
	ck_assert_uint_eq(streams->closed, 1);
	fake->fail_with[FAKE_STREAM_CREATE] = SOMA_STATUS_OK;
	(void)new_stream(resource);
	ck_assert_uint_eq(streams->closed, 0);
	ck_assert_uint_eq(streams->slots, 3);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* While their work goes on a new one asks some of them, and takes a place of its own. */
START_TEST(destroyed_streams_that_are_at_work_are_not_all_asked_each_time)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	struct soma__streams *streams = &resource->terminal->streams;
	uint64_t stream[40], asked;

	for (int i = 0; i < 40; i++) {
		stream[i] = new_stream(resource);
		fake_work(fake_stream(resource, stream[i]), 1);
	}
	for (int i = 0; i < 40; i++)
		ck_assert_int_eq(soma_resource_stream_destroy(resource, stream[i]), SOMA_STATUS_OK);
	asked = fake_count(fake, FAKE_EVENT_QUERY);
	for (int i = 0; i < 4; i++)
		stream[i] = new_stream(resource);
	ck_assert_uint_le(fake_count(fake, FAKE_EVENT_QUERY) - asked, 4 * 8);
	ck_assert_uint_eq(streams->slots, 45);
	fake_run_all(fake);
	for (int i = 4; i < 14; i++) {
		stream[i] = new_stream(resource);
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(stream[i], stream[j]);
	}
	ck_assert_uint_eq(streams->slots, 45);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

UNIT_MAIN("resource", destroyed_streams_that_are_at_work_are_not_all_asked_each_time,
	  streams_that_are_destroyed_are_counted,
	  a_decorator_keeps_what_is_under_it, what_is_not_given_is_a_bad_argument, blocks_that_are_given_up_are_said,
	  stream_ids_are_never_used_twice, a_backend_without_streams_has_the_default_one,
	  frees_of_a_destroyed_stream_are_completed, frees_complete_in_the_streams_order_as_far_as_it_ran,
	  a_free_without_an_event_is_completed_with_the_next_one, pending_frees_do_not_grow_without_a_reap,
	  a_free_that_fails_leaves_the_block_live,
	  a_free_that_records_its_end_and_fails_leaves_the_block_live,
	  a_stream_without_an_event_for_its_end_is_waited_for_under_no_lock,
	  a_stream_that_cannot_be_waited_for_stays,
	  a_free_does_not_come_before_work_that_cannot_be_waited_for)

/* SPDX-License-Identifier: Apache-2.0 */
/* async and sync: errors of earlier work, those that stay, after which the device is lost, and those that pass. */
#include "tests/cuda_fixture.h"

/* Every op refuses, and the driver hears nothing of it. */
static void
expect_lost(struct soma_backend_stream *stream, struct soma_backend_event *event, uint64_t ptr, void *memory)
{
	uint64_t calls = fake.calls(NULL), value;
	struct soma_backend_stream *new_stream;
	struct soma_backend_event *new_event;
	struct soma_backend_stream_info info = { .size = sizeof info };
	bool flag;

	REFUSED(DRIVER, "beyond use", ops->alloc(self, 10, 0, stream, &value));
	ck_assert_int_eq(soma_error_last()->driver_code, CUDA_ERROR_ILLEGAL_ADDRESS);
	REFUSED(DRIVER, "beyond use", ops->free(self, ptr, 1000, stream));
	REFUSED(DRIVER, "beyond use", ops->stream_create(self, 0, &new_stream));
	REFUSED(DRIVER, "beyond use", ops->stream_info(self, stream, &info));
	REFUSED(DRIVER, "beyond use", ops->stream_query(self, stream, &flag));
	REFUSED(DRIVER, "beyond use", ops->stream_synchronize(self, stream));
	REFUSED(DRIVER, "beyond use", ops->synchronize(self));
	REFUSED(DRIVER, "beyond use", ops->event_create(self, 0, &new_event));
	REFUSED(DRIVER, "beyond use", ops->event_record(self, event, stream));
	REFUSED(DRIVER, "beyond use", ops->event_wait(self, event, stream));
	REFUSED(DRIVER, "beyond use", ops->event_query(self, event, &flag));
	REFUSED(DRIVER, "beyond use", ops->event_synchronize(self, event));
	REFUSED(DRIVER, "beyond use", ops->fill8(self, ptr, 0, 1, NULL));
	REFUSED(DRIVER, "beyond use", ops->fill32(self, ptr, 0, 1, stream));
	REFUSED(DRIVER, "beyond use", ops->copy(self, ptr, ptr + 4, 1, stream));
	REFUSED(DRIVER, "beyond use", ops->copy_to_host(self, memory, ptr, 1, stream));
	REFUSED(DRIVER, "beyond use", ops->copy_from_host(self, ptr, memory, 1, stream));
	REFUSED(DRIVER, "beyond use", ops->scan(self, memory, 0, stream));
	REFUSED(DRIVER, "beyond use", ops->span_reserve(self, 2 * MB, 0, &value));
	if (ops->pool_get != NULL) {
		REFUSED(DRIVER, "beyond use", ops->pool_get(self, SOMA_BACKEND_USED_CURRENT, &value));
		REFUSED(DRIVER, "beyond use", ops->pool_trim(self, 0));
		REFUSED(DRIVER, "beyond use", ops->peer_can_access(self, 0, &flag));
	}
	ck_assert_uint_ne(query().capabilities & SOMA_BACKEND_LOST, 0);
	ck_assert_uint_eq(query().free, 0);
	ops->stream_destroy(self, stream);
	ops->event_destroy(self, event);
	ops->staging_free(self, memory, 100);
	ck_assert_uint_eq(fake.calls(NULL), calls);
}

START_TEST(a_lost_device_is_left_alone)
{
	for (size_t i = 0; i < BOTH; i++) {
		start(both[i], FAKE_IMMEDIATE);
		struct soma_backend_stream *stream = stream_new();
		struct soma_backend_event *event = event_new();
		uint64_t ptr = take(1000, stream);
		void *memory;
		OK(ops->staging_alloc(self, 100, &memory));
		fake.sticky(0, CUDA_ERROR_ILLEGAL_ADDRESS);
		REFUSED(DRIVER, "CUDA_ERROR_ILLEGAL_ADDRESS", ops->synchronize(self));
		ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "beyond use from now on"));
		expect_lost(stream, event, ptr, memory);
		uint64_t calls = fake.calls(NULL);
		soma__backend_close(backend);
		ck_assert_uint_eq(fake.calls(NULL), calls);
		fake.restart();
	}
}
END_TEST

START_TEST(an_error_of_earlier_work_is_told_once)
{
	start("async", FAKE_IMMEDIATE);
	struct soma_backend_stream *stream = stream_new();
	uint64_t ptr = take(1000, stream), more = 0, used = attribute(SOMA_BACKEND_USED_CURRENT);

	fake.deferred(0, 701);
	REFUSED(DRIVER, "of work that was queued before", ops->stream_synchronize(self, stream));
	OK(ops->stream_synchronize(self, stream));
	for (int works = 0; works < 2; works++) {
		fake.deferred_calls_work(works != 0);
		fake.deferred(0, 701);
		REFUSED(DRIVER, "of work that was queued before", ops->alloc(self, 500, 0, stream, &more));
		ck_assert_uint_eq(more, 0);
		OK(ops->synchronize(self));
		ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), used);
	}
	give(ptr, 1000, stream);
	ck_assert_uint_eq(query().capabilities & SOMA_BACKEND_LOST, 0);
	close_backend();
}
END_TEST

CUDA_MAIN("cuda lost", a_lost_device_is_left_alone, an_error_of_earlier_work_is_told_once)

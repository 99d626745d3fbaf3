/* SPDX-License-Identifier: Apache-2.0 */
/* backends/host: threads that share streams, and that free the same block. */
#include <pthread.h>

#include "tests/backend_fixture.h"

enum { THREADS = 3, ROUNDS = 400, HELD = 12 };

static struct soma_backend_stream *streams[THREADS + 1];

struct held {
	uint64_t ptr, size;
	uint32_t value;
};

/* The stream's work fills the block; when the stream is past it, every word is as filled. */
static void
hold(struct held *held, uint64_t size, uint32_t value, struct soma_backend_stream *stream)
{
	*held = (struct held){ take(size, stream), size, value };
	OK(ops->fill32(host, held->ptr, value, size / 4, stream));
}

static void
let_go(struct held *held, struct soma_backend_scan *scan, struct soma_backend_stream *stream)
{
	*scan = (struct soma_backend_scan){ .ptr = held->ptr, .bytes = held->size, .pattern = held->value };
	OK(ops->scan(host, scan, 1, stream));
	OK(ops->free(host, held->ptr, held->size, stream));
}

static void *
churn(void *number)
{
	unsigned me = *(unsigned *)number, seed = me * 7919 + 1;
	struct soma_backend_stream *own = streams[me], *shared = streams[THREADS], *stream = own;
	struct soma_backend_scan scans[HELD] = { 0 };
	struct soma_backend_event *event = event_new();
	struct held held[HELD];

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < HELD; i++)
			hold(&held[i], 4 * (1 + (uint64_t)(rand_r(&seed) % 9000)), me << 24 | round << 4 | i,
			     own);
		/* The other half of the round is on a stream that all threads use. */
		OK(ops->event_record(host, event, own));
		OK(ops->event_wait(host, event, shared));
		stream = round % 2 == 0 ? own : shared;
		for (unsigned i = 0; i < HELD; i++)
			let_go(&held[i], &scans[i], stream);
		if (round % 3 == 0)
			OK(ops->event_wait(host, event, streams[(me + 1) % THREADS]));
		OK(ops->stream_synchronize(host, stream));
		for (unsigned i = 0; i < HELD; i++)
			ck_assert_uint_eq(scans[i].bad_count, 0);
	}
	return NULL;
}

START_TEST(threads_share_streams_and_no_block_is_anothers)
{
	unsigned numbers[THREADS];
	pthread_t threads[THREADS];

	open_host(NULL, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		OK(ops->stream_create(host, i == 0 ? 0 : SOMA_BACKEND_STREAM_NON_BLOCKING, &streams[i]));
	OK(ops->stream_default(host, SOMA_BACKEND_STREAM_LEGACY, &streams[THREADS]));
	for (unsigned i = 0; i < THREADS; i++) {
		numbers[i] = i;
		ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &numbers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	OK(ops->synchronize(host));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 0);
	OK(ops->pool_trim(host, 0));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RESERVED_CURRENT), 0);
	close_host();
}
END_TEST

static void *
free_it(void *ptr)
{
	return (void *)(uintptr_t)ops->free(host, *(uint64_t *)ptr, 64, streams[0]);
}

START_TEST(of_two_frees_at_once_one_succeeds)
{
	open_host(NULL, NULL);
	streams[0] = stream_new();
	for (int i = 0; i < 300; i++) {
		uint64_t ptr = take(64, streams[0]);
		pthread_t thread;
		void *theirs;
		ck_assert_int_eq(pthread_create(&thread, NULL, free_it, &ptr), 0);
		uintptr_t mine = (uintptr_t)free_it(&ptr);
		ck_assert_int_eq(pthread_join(thread, &theirs), 0);
		ck_assert_uint_eq(mine + (uintptr_t)theirs, SOMA_STATUS_INVALID_VALUE);
	}
	OK(ops->stream_synchronize(host, streams[0]));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 0);
	close_host();
}
END_TEST

UNIT_MAIN("host threads", threads_share_streams_and_no_block_is_anothers, of_two_frees_at_once_one_succeeds)

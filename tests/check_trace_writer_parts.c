/* SPDX-License-Identifier: Apache-2.0 */
/* lib/resource: the lines of a trace, the ring that they come through, and a pipe that they go to. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <soma/resource.h>

#include "lib/resource/trace_line.h"
#include "lib/resource/trace_ring.h"
#include "tests/check_resource_fake.h"
#include "tests/unit.h"

/* ---- lines and ring ------------------------------------------------------------------------------ */

START_TEST(the_longest_line_fits)
{
	char name[SOMA_TAG_NAME_MAX + 1], line[SOMA__TRACE_LINE_MAX];
	struct soma__trace_event event = {
		.time_ns = UINT64_MAX,
		.stream = UINT64_MAX,
		.ptr = UINT64_MAX,
		.size = UINT64_MAX,
		.generation = UINT64_MAX,
		.thread = UINT32_MAX,
		.op = SOMA__TRACE_FREE_COMPLETED,
		.detail = SOMA__TRACE_FREE_FAILED,
	};

	memset(name, '"', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	event.tag = (uint16_t)soma_tag_intern(name);
	size_t length = soma__trace_line(line, INT32_MAX, &event);
	ck_assert_uint_lt(length, SOMA__TRACE_LINE_MAX);
	ck_assert_int_eq(line[length - 1], '\n');
	line[length] = '\0';
	ck_assert_ptr_nonnull(strstr(line, ",0xffffffffffffffff,18446744073709551615,\"\"\""));
}
END_TEST

START_TEST(a_ring_gives_what_it_was_given_in_order)
{
	struct soma__trace_ring ring;
	struct soma__trace_event event = { 0 };
	struct soma__arena *arena;
	uint64_t place, put = 0, taken = 0;

	ck_assert_int_eq(soma__arena_create(&arena), SOMA_STATUS_OK);
	ck_assert_int_eq(soma__trace_ring_init(&ring, arena, 5), SOMA_STATUS_OK);
	ck_assert(!soma__trace_ring_take(&ring, &event));
	for (int round = 0; round < 10; round++) {
		for (event.size = put; soma__trace_ring_put(&ring, &event, &place); event.size = ++put)
			ck_assert_uint_eq(place, put);
		ck_assert_uint_eq(put - taken, 8);
		for (int i = 0; i < 5; i++) {
			ck_assert(soma__trace_ring_take(&ring, &event));
			ck_assert_uint_eq(event.size, taken++);
		}
	}
	soma__trace_ring_fini(&ring, arena);
	soma__arena_destroy(arena);
}
END_TEST

/* ---- the pipe ---- */

static void *
empty_the_pipe(void *argument)
{
	char text[4096];
	uint64_t bytes = 0;
	ssize_t got;

	while ((got = read(*(int *)argument, text, sizeof text)) > 0)
		bytes += (uint64_t)got;
	return (void *)(uintptr_t)bytes;
}

START_TEST(a_pipe_that_is_full_for_now_is_waited_for)
{
	struct soma_trace_config config = { .size = sizeof config, .patience_ms = 600000 };
	struct soma_trace_stats stats = { .size = sizeof stats };
	struct soma_resource *terminal, *trace;
	struct soma_backend *fake = fake_create(0, &terminal);
	int ends[2];
	pthread_t reader;
	void *bytes;

	ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
	ck_assert_int_eq(fcntl(ends[0], F_SETFL, 0), 0);
	ck_assert_int_gt(fcntl(ends[0], F_SETPIPE_SZ, 4096), 0); /* much less than what is written at once */
	config.descriptor = ends[1];
	ck_assert_int_eq(soma_trace_create(terminal, &config, &trace), SOMA_STATUS_OK);
	ck_assert_int_eq(pthread_create(&reader, NULL, empty_the_pipe, &ends[0]), 0);
	for (int i = 0; i < 5000; i++) {
		struct soma_block block = allocate(trace, 100, 0);
		deallocate(trace, &block);
	}
	ck_assert_int_eq(soma_trace_flush(trace), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_trace_stats(trace, &stats), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats.events, 10000);
	soma_resource_release(trace);
	soma_resource_release(terminal);
	fake_destroy(fake);
	close(ends[1]);
	pthread_join(reader, &bytes);
	ck_assert_uint_gt((uintptr_t)bytes, 65536);
	close(ends[0]);
}
END_TEST

UNIT_MAIN("trace_writer_parts", a_pipe_that_is_full_for_now_is_waited_for, the_longest_line_fits,
	  a_ring_gives_what_it_was_given_in_order)

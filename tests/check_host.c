/* SPDX-License-Identifier: Apache-2.0 */
/* backends/host: streams and events, what runs when, and whose memory is whose meanwhile. */
#include <pthread.h>
#include <string.h>

#include "tests/backend_fixture.h"

/* One word that queued work writes, so that what has run can be seen. */
static uint32_t
word(uint64_t ptr)
{
	return *(volatile uint32_t *)(uintptr_t)ptr;
}

static void
fill(uint64_t ptr, uint32_t value, struct soma_backend_stream *stream)
{
	OK(ops->fill32(host, ptr, value, 1, stream));
}

static uint64_t
new_word(void)
{
	uint64_t ptr = take(4, NULL);

	fill(ptr, 0, NULL);
	return ptr;
}

/* ---- frees ---------------------------------------------------------------------- */

/* Whether one of many allocations of the size gets the address. */
static bool
comes_back(uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	uint64_t taken[200];
	bool found = false;

	for (int i = 0; i < 200; i++) {
		taken[i] = take(size, stream);
		found |= taken[i] == ptr;
	}
	for (int i = 0; i < 200; i++)
		OK(ops->free(host, taken[i], size, NULL));
	return found;
}

START_TEST(freed_memory_is_used_again_only_when_its_stream_is_past_the_free)
{
	const uint64_t sizes[] = { 100, 5000, 40000, 10 << 20 };

	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new(), *b = stream_new();
	for (unsigned i = 0; i < 3; i++) {
		uint64_t ptr = take(sizes[i], a);
		OK(ops->free(host, ptr, sizes[i], a));
		ck_assert(!comes_back(ptr, sizes[i], a));
		OK(ops->stream_synchronize(host, b));
		ck_assert(!comes_back(ptr, sizes[i], b));
		OK(ops->stream_step(host, a, 1, NULL));
		ck_assert(comes_back(ptr, sizes[i], b));
	}
	uint64_t large = take(sizes[3], a);
	OK(ops->free(host, large, sizes[3], a));
	uint64_t other = take(sizes[3], a);
	ck_assert_uint_ne(other, large);
	OK(ops->stream_synchronize(host, a));
	ck_assert_uint_eq(take(sizes[3], a), large);
	close_host();
}
END_TEST

START_TEST(a_free_waits_for_what_its_stream_waits_for)
{
	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new(), *b = stream_new();
	uint64_t ptr = take(300, a);
	OK(ops->event_wait(host, record(b), a));
	OK(ops->free(host, ptr, 300, a));
	uint64_t ran;
	OK(ops->stream_step(host, a, 100, &ran));
	ck_assert_uint_eq(ran, 0);
	ck_assert(!comes_back(ptr, 300, a));
	OK(ops->stream_synchronize(host, b));
	OK(ops->stream_step(host, a, 100, &ran));
	ck_assert_uint_eq(ran, 2);
	ck_assert(comes_back(ptr, 300, a));
	close_host();
}
END_TEST

START_TEST(a_free_that_is_wrong_is_refused_and_changes_nothing)
{
	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new();
	const uint64_t sizes[] = { 100, 40000, 10 << 20 };
	for (unsigned i = 0; i < 3; i++) {
		uint64_t ptr = take(sizes[i], a), used = attribute(SOMA_BACKEND_USED_CURRENT);
		ck_assert_int_eq(ops->free(host, ptr + 16, sizes[i], a), SOMA_STATUS_INVALID_VALUE);
		ck_assert_int_eq(ops->free(host, ptr + 256, sizes[i], a), SOMA_STATUS_INVALID_VALUE);
		ck_assert_int_eq(ops->free(host, ptr, sizes[i] + 1, a), SOMA_STATUS_INVALID_VALUE);
		ck_assert_int_eq(ops->free(host, (uintptr_t)&ptr, sizes[i], a), SOMA_STATUS_INVALID_VALUE);
		ck_assert_int_eq(ops->free(host, 0, sizes[i], a), SOMA_STATUS_INVALID_VALUE);
		ck_assert_int_eq(ops->free(host, UINT64_MAX - 255, sizes[i], a), SOMA_STATUS_INVALID_VALUE);
		OK(ops->stream_synchronize(host, a));
		ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), used);
		OK(ops->free(host, ptr, sizes[i], a));
		ck_assert_int_eq(ops->free(host, ptr, sizes[i], a), SOMA_STATUS_INVALID_VALUE);
		OK(ops->stream_synchronize(host, a));
		ck_assert_int_eq(ops->free(host, ptr, sizes[i], a), SOMA_STATUS_INVALID_VALUE);
		ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), used - sizes[i]);
	}
	close_host();
}
END_TEST

/* ---- events ---------------------------------------------------------------------- */

START_TEST(a_query_makes_nothing_proceed)
{
	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new();
	uint64_t p = new_word();
	bool done;

	fill(p, 1, a);
	struct soma_backend_event *event = record(a);
	for (int i = 0; i < 3; i++) {
		ck_assert(!is_done(event));
		OK(ops->stream_query(host, a, &done));
		ck_assert(!done);
		ck_assert_uint_eq(word(p), 0);
	}
	OK(ops->event_synchronize(host, event));
	ck_assert(is_done(event));
	OK(ops->stream_query(host, a, &done));
	ck_assert(done);
	ck_assert_uint_eq(word(p), 1);
	close_host();
}
END_TEST

START_TEST(waiting_for_an_event_runs_what_is_before_it_and_no_more)
{
	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new(), *b = stream_new(), *c = stream_new();
	uint64_t p = new_word(), q = new_word(), r = new_word();

	fill(p, 1, a);
	OK(ops->event_wait(host, record(a), b));
	fill(p, 2, a);
	fill(q, 1, b);
	OK(ops->event_wait(host, record(b), c));
	fill(q, 2, b);
	fill(r, 1, c);
	struct soma_backend_event *event = record(c);
	fill(r, 2, c);
	OK(ops->event_synchronize(host, event));
	ck_assert(is_done(event));
	ck_assert_uint_eq(word(p), 1);
	ck_assert_uint_eq(word(q), 1);
	ck_assert_uint_eq(word(r), 1);
	OK(ops->synchronize(host));
	ck_assert_uint_eq(word(p), 2);
	ck_assert_uint_eq(word(q), 2);
	ck_assert_uint_eq(word(r), 2);
	close_host();
}
END_TEST

START_TEST(a_wait_keeps_what_its_event_stood_for)
{
	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new(), *b = stream_new();
	uint64_t p = new_word(), q = new_word();

	fill(p, 1, a);
	struct soma_backend_event *event = record(a);
	OK(ops->event_wait(host, event, b));
	fill(q, 1, b);
	fill(p, 2, a);
	OK(ops->event_record(host, event, a));
	OK(ops->stream_synchronize(host, b));
	ck_assert_uint_eq(word(p), 1);
	ck_assert_uint_eq(word(q), 1);
	ck_assert(!is_done(event));
	ops->event_destroy(host, event);
	OK(ops->stream_synchronize(host, a));
	ck_assert_uint_eq(word(p), 2);
	close_host();
}
END_TEST

START_TEST(a_destroyed_event_leaves_its_waits)
{
	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new(), *b = stream_new();
	uint64_t p = new_word(), ran;

	fill(p, 1, a);
	struct soma_backend_event *event = record(a);
	OK(ops->event_wait(host, event, b));
	ops->event_destroy(host, event);
	ck_assert_ptr_eq(event_new(), event);
	ck_assert(is_done(event));
	OK(ops->stream_step(host, b, 1, &ran));
	ck_assert_uint_eq(ran, 0);
	OK(ops->stream_synchronize(host, b));
	ck_assert_uint_eq(word(p), 1);
	close_host();
}
END_TEST

START_TEST(an_event_that_was_never_recorded_is_done)
{
	open_host(NULL, NULL);
	struct soma_backend_event *event = event_new();
	struct soma_backend_stream *a = stream_new();
	uint64_t ran;

	ck_assert(is_done(event));
	OK(ops->event_synchronize(host, event));
	OK(ops->event_wait(host, event, a));
	fill(new_word(), 1, a);
	OK(ops->stream_step(host, a, 1, &ran));
	ck_assert_uint_eq(ran, 1);
	ck_assert_int_eq(ops->event_create(host, 1, &event), SOMA_STATUS_NOT_SUPPORTED);
	close_host();
}
END_TEST

/* ---- default streams --------------------------------------------------------------- */

START_TEST(the_legacy_stream_and_blocking_streams_are_ordered_both_ways)
{
	open_host(NULL, NULL);
	struct soma_backend_stream *legacy, *blocking, *other = stream_new();
	uint64_t p = new_word(), ran;

	OK(ops->stream_default(host, SOMA_BACKEND_STREAM_LEGACY, &legacy));
	OK(ops->stream_create(host, 0, &blocking));
	fill(p, 1, blocking);
	fill(p, 9, other);
	fill(p, 2, legacy);
	fill(p, 3, blocking);
	OK(ops->stream_step(host, legacy, 10, &ran));
	ck_assert_uint_eq(ran, 0);
	OK(ops->stream_step(host, blocking, 10, &ran));
	ck_assert_uint_eq(ran, 1);
	ck_assert_uint_eq(word(p), 1);
	OK(ops->stream_step(host, legacy, 10, &ran));
	ck_assert_uint_eq(ran, 1);
	ck_assert_uint_eq(word(p), 2);
	OK(ops->stream_synchronize(host, blocking));
	ck_assert_uint_eq(word(p), 3);
	OK(ops->stream_step(host, other, 10, &ran));
	ck_assert_uint_eq(ran, 1);
	close_host();
}
END_TEST

START_TEST(waiting_for_the_legacy_stream_waits_for_blocking_streams)
{
	open_host(NULL, NULL);
	struct soma_backend_stream *legacy, *blocking, *other = stream_new();
	uint64_t p = new_word(), q = new_word();
	bool done;

	OK(ops->stream_default(host, SOMA_BACKEND_STREAM_LEGACY, &legacy));
	OK(ops->stream_create(host, 0, &blocking));
	fill(p, 1, blocking);
	fill(q, 1, other);
	OK(ops->stream_query(host, legacy, &done));
	ck_assert(!done);
	struct soma_backend_event *event = record(legacy);
	ck_assert(!is_done(event));
	OK(ops->stream_synchronize(host, legacy));
	ck_assert(is_done(event));
	ck_assert_uint_eq(word(p), 1);
	ck_assert_uint_eq(word(q), 0);
	OK(ops->stream_query(host, legacy, &done));
	ck_assert(done);
	close_host();
}
END_TEST

static uint64_t
id_of(struct soma_backend_stream *stream)
{
	struct soma_backend_stream_info info = { .size = sizeof info };

	OK(ops->stream_info(host, stream, &info));
	return info.id;
}

static void *
own_default(void *id)
{
	struct soma_backend_stream *stream;

	OK(ops->stream_default(host, SOMA_BACKEND_STREAM_PER_THREAD, &stream));
	*(uint64_t *)id = id_of(stream);
	fill(new_word(), 1, stream);
	ops->stream_destroy(host, stream);
	OK(ops->stream_default(host, SOMA_BACKEND_STREAM_PER_THREAD, &stream));
	ck_assert_uint_eq(id_of(stream), *(uint64_t *)id);
	ops->stream_destroy(host, stream);
	return NULL;
}

START_TEST(each_thread_has_a_default_stream_of_its_own)
{
	open_host(NULL, NULL);
	uint64_t mine, theirs;
	pthread_t thread;

	own_default(&mine);
	ck_assert_int_eq(pthread_create(&thread, NULL, own_default, &theirs), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_ne(mine, theirs);
	struct soma_backend_stream *none;
	ck_assert_int_eq(ops->stream_default(host, (enum soma_backend_stream_kind)7, &none),
			 SOMA_STATUS_INVALID_VALUE);
	close_host();
}
END_TEST

/* ---- streams' lives ------------------------------------------------------------------ */

START_TEST(a_destroyed_streams_work_is_still_done)
{
	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new(), *b = stream_new();
	uint64_t p = new_word();

	fill(p, 1, a);
	OK(ops->event_wait(host, record(a), b));
	ops->stream_destroy(host, a);
	/* Its record is not taken for another stream before that. */
	ck_assert_ptr_ne(stream_new(), a);
	OK(ops->stream_synchronize(host, b));
	ck_assert_uint_eq(word(p), 1);
	fill(p, 2, b);
	ops->stream_destroy(host, b);
	OK(ops->synchronize(host));
	ck_assert_uint_eq(word(p), 2);
	close_host();
}
END_TEST

START_TEST(handles_come_back_and_ids_do_not)
{
	struct soma_backend_stream_info first = { .size = sizeof first }, second = first;

	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new();
	fill(new_word(), 1, a);
	struct soma_backend_event *event = record(a);
	OK(ops->stream_synchronize(host, a));
	OK(ops->stream_info(host, a, &first));
	ops->stream_destroy(host, a);
	OK(ops->stream_create(host, 0, &a));
	OK(ops->stream_info(host, a, &second));
	ck_assert_uint_eq(first.native, second.native);
	ck_assert_uint_ne(first.id, second.id);
	ck_assert_uint_eq(first.flags, SOMA_BACKEND_STREAM_NON_BLOCKING);
	ck_assert_uint_eq(second.flags, 0);
	ck_assert(is_done(event));
	uint64_t queued, run;
	OK(ops->stream_position(host, a, &queued, &run));
	ck_assert_uint_eq(queued, 0);
	ck_assert_uint_eq(run, 0);
	close_host();
}
END_TEST

#define PLACES 40

/* The highest handle among new streams, all with work; they are destroyed then. */
static uint64_t
use_places(int count, bool work)
{
	struct soma_backend_stream *made[PLACES];
	uint64_t highest = 0;

	for (int i = 0; i < count; i++) {
		struct soma_backend_stream_info info = { .size = sizeof info };
		OK(ops->stream_create(host, SOMA_BACKEND_STREAM_NON_BLOCKING, &made[i]));
		OK(ops->stream_info(host, made[i], &info));
		if (info.native > highest)
			highest = info.native;
		if (work)
			fill(new_word(), 1, made[i]);
	}
	for (int i = 0; i < count; i++)
		ops->stream_destroy(host, made[i]);
	return highest;
}

/* However many of those before are at work, and whichever thread's own is taken from among them. */
START_TEST(every_place_is_used_again_when_its_work_is_done)
{
	struct soma_backend_stream *mine;
	uint64_t highest;

	open_host(NULL, NULL);
	(void)use_places(PLACES / 4, true);
	OK(ops->stream_default(host, SOMA_BACKEND_STREAM_PER_THREAD, &mine));
	fill(new_word(), 1, mine);
	uint64_t id = id_of(mine);
	ops->stream_destroy(host, mine);
	highest = use_places(PLACES, true);
	OK(ops->stream_default(host, SOMA_BACKEND_STREAM_PER_THREAD, &mine));
	ck_assert_uint_eq(id_of(mine), id);
	OK(ops->synchronize(host));
	for (int i = 0; i < 3; i++)
		ck_assert_uint_le(use_places(PLACES, false), highest);
	ops->stream_destroy(host, mine);
	ck_assert_uint_le(use_places(PLACES, false), highest);
	close_host();
}
END_TEST

START_TEST(a_wrapped_stream_is_the_same_stream)
{
	struct soma_backend_stream_info info = { .size = sizeof info };
	struct soma_backend_stream *wrapped, *none;

	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new();
	uint64_t p = new_word();
	OK(ops->stream_info(host, a, &info));
	OK(ops->stream_wrap(host, info.native, &wrapped));
	ck_assert_uint_eq(id_of(wrapped), info.id);
	fill(p, 1, wrapped);
	ops->stream_destroy(host, wrapped);
	OK(ops->stream_synchronize(host, a));
	ck_assert_uint_eq(word(p), 1);
	ck_assert_int_eq(ops->stream_wrap(host, 1 << 20, &none), SOMA_STATUS_NOT_FOUND);
	ops->stream_destroy(host, a);
	ck_assert_int_eq(ops->stream_wrap(host, info.native, &none), SOMA_STATUS_NOT_FOUND);
	ck_assert_int_eq(ops->stream_create(host, 6, &none), SOMA_STATUS_NOT_SUPPORTED);
	close_host();
}
END_TEST

START_TEST(a_smaller_callers_struct_is_not_written_beyond)
{
	struct soma_backend_stream_info info;
	struct soma_backend_info about;

	open_host(NULL, NULL);
	memset(&info, 0x5a, sizeof info);
	info.size = offsetof(struct soma_backend_stream_info, native);
	OK(ops->stream_info(host, stream_new(), &info));
	ck_assert_uint_eq(info.native, 0x5a5a5a5a5a5a5a5a);
	memset(&about, 0x5a, sizeof about);
	about.size = offsetof(struct soma_backend_info, total);
	OK(ops->query(host, &about));
	ck_assert_uint_eq(about.total, 0x5a5a5a5a5a5a5a5a);
	ck_assert_uint_eq(about.alignment, 256);
	close_host();
}
END_TEST

/* ---- steps ---------------------------------------------------------------------------- */

START_TEST(steps_run_so_many_operations_and_stop_at_a_wait)
{
	open_host(NULL, NULL);
	struct soma_backend_stream *a = stream_new(), *b = stream_new();
	uint64_t p = new_word(), ran, queued, run;

	for (uint32_t i = 1; i <= 5; i++)
		fill(p, i, a);
	OK(ops->event_wait(host, record(b), a));
	fill(p, 6, a);
	OK(ops->stream_step(host, a, 2, &ran));
	ck_assert_uint_eq(ran, 2);
	ck_assert_uint_eq(word(p), 2);
	OK(ops->stream_position(host, a, &queued, &run));
	ck_assert_uint_eq(queued, 7);
	ck_assert_uint_eq(run, 2);
	OK(ops->stream_step(host, a, 100, &ran));
	ck_assert_uint_eq(ran, 3);
	ck_assert_uint_eq(word(p), 5);
	OK(ops->stream_step(host, a, 0, &ran));
	ck_assert_uint_eq(ran, 0);
	OK(ops->stream_step(host, b, 1, NULL));
	OK(ops->stream_step(host, a, 100, &ran));
	ck_assert_uint_eq(ran, 2);
	ck_assert_uint_eq(word(p), 6);
	close_host();
}
END_TEST

UNIT_MAIN("host", freed_memory_is_used_again_only_when_its_stream_is_past_the_free,
	  a_free_waits_for_what_its_stream_waits_for, a_free_that_is_wrong_is_refused_and_changes_nothing,
	  a_query_makes_nothing_proceed, waiting_for_an_event_runs_what_is_before_it_and_no_more,
	  a_wait_keeps_what_its_event_stood_for, a_destroyed_event_leaves_its_waits,
	  an_event_that_was_never_recorded_is_done,
	  the_legacy_stream_and_blocking_streams_are_ordered_both_ways,
	  waiting_for_the_legacy_stream_waits_for_blocking_streams,
	  each_thread_has_a_default_stream_of_its_own, a_destroyed_streams_work_is_still_done,
	  handles_come_back_and_ids_do_not, every_place_is_used_again_when_its_work_is_done,
	  a_wrapped_stream_is_the_same_stream,
	  a_smaller_callers_struct_is_not_written_beyond, steps_run_so_many_operations_and_stop_at_a_wait)

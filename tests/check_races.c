/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races: each kind in a trace that has just that one, and traces that have none.
 */
#include "tests/replay_fixture.h"
#include "tools/engine/races.h"

static void
find(const char *lines, struct races *races)
{
	struct trace_reader *reader;
	struct trace_error error;
	char path[64];

	write_lines(path, lines);
	trace_open(path, NULL, &reader, &error);
	ck_assert_msg(reader != NULL, "%s", error.text);
	ck_assert_int_eq(races_find(reader, 0, 100, races, &error), TRACE_OK);
	trace_close(reader);
	unlink(path);
}

static void
check_race(const char *lines, enum race_kind kind, uint64_t first, uint64_t second)
{
	struct races races;

	find(lines, &races);
	ck_assert(races.judged);
	ck_assert_uint_eq(races.count, 1);
	ck_assert_str_eq(race_text(races.at[0].kind), race_text(kind));
	ck_assert_uint_eq(races.at[0].first.event, first);
	ck_assert_uint_eq(races.at[0].second.event, second);
	races_fini(&races);
}

static void
check_none(const char *lines)
{
	struct races races;

	find(lines, &races);
	ck_assert(races.judged);
	ck_assert_msg(races.count == 0, "%s", races.count > 0 ? race_text(races.at[0].kind) : "");
	races_fini(&races);
}

#define ALLOC "1,,alloc,0,1,0x1000,512,a,,\n"

START_TEST(a_use_on_another_stream_needs_a_wait_for_the_allocation)
{
	check_race(ALLOC "2,,use,0,2,0x1000,,,,read\n", RACE_USE_BEFORE_READY, 0, 1);
	check_race(ALLOC "2,,sync,0,2,,,,,\n3,,use,0,2,0x1000,,,,read\n", RACE_USE_BEFORE_READY, 0, 2);
	check_none(ALLOC "2,,record,0,1,0x9,,,,\n3,,wait,0,2,0x9,,,,\n4,,use,0,2,0x1000,,,,read\n");
	check_none(ALLOC "2,,sync,0,1,,,,,\n3,,use,0,2,0x1000,,,,read\n");
	check_none(ALLOC "2,,sync,0,9,,,,,device\n3,,use,0,2,0x1000,,,,read\n");
}
END_TEST

START_TEST(an_event_proves_nothing_that_came_after_it)
{
	check_race("1,,record,0,1,0x9,,,,\n2,,alloc,0,1,0x1000,512,a,,\n3,,wait,0,2,0x9,,,,\n"
		   "4,,use,0,2,0x1000,,,,read\n",
		   RACE_USE_BEFORE_READY, 1, 3);
	check_none("1,,record,0,1,0x9,,,,\n2,,alloc,0,1,0x1000,512,a,,\n3,,record,0,1,0x9,,,,\n"
		   "4,,wait,0,2,0x9,,,,\n5,,use,0,2,0x1000,,,,read\n");
}
END_TEST

START_TEST(order_is_transitive)
{
	check_none(ALLOC "2,,record,0,1,0x9,,,,\n3,,wait,0,2,0x9,,,,\n4,,record,0,2,0xa,,,,\n"
			 "5,,wait,0,3,0xa,,,,\n6,,use,0,3,0x1000,,,,write\n");
}
END_TEST

#define SHARED ALLOC "2,,record,0,1,0x9,,,,\n3,,wait,0,2,0x9,,,,\n4,,wait,0,3,0x9,,,,\n"

START_TEST(a_write_and_another_access_need_an_order)
{
	check_race(SHARED "5,,use,0,2,0x1000,,,,write\n6,,use,0,3,0x1000,,,,read\n", RACE_STREAM_RACE, 4, 5);
	check_race(SHARED "5,,use,0,2,0x1000,,,,read\n6,,use,0,3,0x1000,,,,write\n", RACE_STREAM_RACE, 4, 5);
	check_race(SHARED "5,,use,0,2,0x1000,,,,read_write\n6,,use,0,3,0x1000,,,,read_write\n",
		   RACE_STREAM_RACE, 4, 5);
	check_none(SHARED "5,,use,0,2,0x1000,,,,read\n6,,use,0,3,0x1000,,,,read\n");
	check_none(SHARED "5,,use,0,2,0x1000,,,,write\n6,,record,0,2,0xa,,,,\n7,,wait,0,3,0xa,,,,\n"
			  "8,,use,0,3,0x1000,,,,read\n");
}
END_TEST

START_TEST(a_free_comes_after_the_allocation_and_the_uses)
{
	check_race(ALLOC "2,,sync,0,2,,,,,\n3,,free,0,2,0x1000,,,,\n", RACE_FREE_UNORDERED, 0, 2);
	check_race(SHARED "5,,use,0,2,0x1000,,,,read\n6,,free,0,1,0x1000,,,,\n", RACE_FREE_IN_USE, 4, 5);
	check_none(SHARED "5,,use,0,2,0x1000,,,,read\n6,,record,0,2,0xa,,,,\n7,,wait,0,1,0xa,,,,\n"
			  "8,,free,0,1,0x1000,,,,\n");
}
END_TEST

START_TEST(a_deferred_free_waits_for_the_uses_itself)
{
	check_none(SHARED "5,,use,0,2,0x1000,,,,read\n6,,free,0,1,0x1000,,,,deferred\n"
			  "7,,free_completed,0,1,0x1000,,,,\n8,,alloc,0,3,0x1000,512,,,\n");
	check_race(SHARED "5,,use,0,2,0x1000,,,,read\n6,,free,0,1,0x1000,,,,deferred\n"
			  "7,,alloc,0,1,0x1000,512,,,\n",
		   RACE_REUSE_IN_USE, 4, 6);
}
END_TEST

START_TEST(memory_that_another_stream_reuses_needs_the_free_before)
{
	check_race(ALLOC "2,,sync,0,2,,,,,\n3,,free,0,1,0x1000,,,,\n4,,alloc,0,2,0x1000,512,,,\n", RACE_REUSE,
		   2, 3);
	/* The new block lies over the end of the old one. */
	check_race(ALLOC "2,,sync,0,2,,,,,\n3,,free,0,1,0x1000,,,,\n4,,alloc,0,2,0x11ff,512,,,\n", RACE_REUSE,
		   2, 3);
	check_none(ALLOC "2,,sync,0,2,,,,,\n3,,free,0,1,0x1000,,,,\n4,,alloc,0,2,0x1200,512,,,\n");
	check_none(ALLOC "2,,sync,0,2,,,,,\n3,,free,0,1,0x1000,,,,\n4,,alloc,0,1,0x1000,512,,,\n");
	check_none(ALLOC "2,,free,0,1,0x1000,,,,\n3,,record,0,1,0x9,,,,\n4,,wait,0,2,0x9,,,,\n"
			 "5,,alloc,0,2,0x1000,512,,,\n");
}
END_TEST

START_TEST(a_use_after_the_free_is_named)
{
	check_race(ALLOC "2,,free,0,1,0x1000,,,,\n3,,use,0,1,0x1000,,,,read\n", RACE_USE_AFTER_FREE, 1, 2);
}
END_TEST

/* The guard's rows 20 and 26. */
START_TEST(the_legacy_stream_orders_blocking_streams_alone)
{
	check_none("1,,stream_create,0,1,,,,,blocking\n2,,alloc,0,0,0x1000,512,,,\n"
		   "3,,use,0,1,0x1000,,,,write\n4,,use,0,0,0x1000,,,,write\n5,,use,0,1,0x1000,,,,write\n");
	check_race("1,,stream_create,0,1,,,,,blocking\n2,,stream_create,0,2,,,,,non_blocking\n"
		   "3,,alloc,0,0,0x1000,512,,,\n4,,use,0,2,0x1000,,,,write\n",
		   RACE_USE_BEFORE_READY, 2, 3);
}
END_TEST

/* Row 25: a stream that begins after the host has waited. */
START_TEST(a_new_stream_begins_after_what_the_host_waited_for)
{
	check_none(ALLOC "2,,sync,0,1,,,,,\n3,,stream_create,0,2,,,,,non_blocking\n"
			 "4,,use,0,2,0x1000,,,,read\n");
	check_race(ALLOC "2,,stream_create,0,2,,,,,non_blocking\n3,,use,0,2,0x1000,,,,read\n",
		   RACE_USE_BEFORE_READY, 0, 2);
	/* A handle that comes back is another stream. */
	check_race("1,,stream_create,0,2,,,,,non_blocking\n2,,alloc,0,2,0x1000,512,,,\n"
		   "3,,stream_destroy,0,2,,,,,\n4,,stream_create,0,2,,,,,non_blocking\n"
		   "5,,use,0,2,0x1000,,,,read\n",
		   RACE_USE_BEFORE_READY, 1, 4);
}
END_TEST

START_TEST(a_trace_that_tells_of_no_order_has_nothing_to_judge)
{
	struct races races;

	find(ALLOC "2,,free,0,1,0x1000,,,,\n3,,alloc,0,2,0x1000,512,,,\n", &races);
	ck_assert(!races.judged);
	ck_assert_uint_eq(races.count, 0);
	races_fini(&races);
}
END_TEST

START_TEST(no_more_are_kept_than_asked_for_but_all_are_counted)
{
	static char lines[40000];
	struct trace_reader *reader;
	struct trace_error error;
	struct races races;
	char path[64];

	strcpy(lines, ALLOC);
	for (unsigned i = 0; i < 300; i++)
		sprintf(lines + strlen(lines), "%u,,use,0,%u,0x1000,,,,read\n", i + 2, 2 + i);
	write_lines(path, lines);
	trace_open(path, NULL, &reader, &error);
	ck_assert_int_eq(races_find(reader, 0, 7, &races, &error), TRACE_OK);
	ck_assert_uint_eq(races.count, 300);
	ck_assert_uint_eq(races.kept, 7);
	races_fini(&races);
	trace_close(reader);
	unlink(path);
}
END_TEST

START_TEST(too_many_streams_are_an_error_that_says_where)
{
	static char lines[400000];
	struct trace_reader *reader;
	struct trace_error error;
	struct races races;
	char path[64];
	size_t used = 0;

	for (unsigned i = 0; i <= ORDER_STREAMS_MAX; i++)
		used += (size_t)sprintf(lines + used, "%u,,record,0,%u,0x9,,,,\n", i, i);
	write_lines(path, lines);
	trace_open(path, NULL, &reader, &error);
	ck_assert_int_eq(races_find(reader, 0, 7, &races, &error), TRACE_ERROR);
	ck_assert_str_eq(error.text, "event 4096: more than 4096 streams, which is more than this can put in order");
	races_fini(&races);
	trace_close(reader);
	unlink(path);
}
END_TEST

UNIT_MAIN("races", a_use_on_another_stream_needs_a_wait_for_the_allocation,
	  an_event_proves_nothing_that_came_after_it, order_is_transitive,
	  a_write_and_another_access_need_an_order, a_free_comes_after_the_allocation_and_the_uses,
	  a_deferred_free_waits_for_the_uses_itself, memory_that_another_stream_reuses_needs_the_free_before,
	  a_use_after_the_free_is_named, the_legacy_stream_orders_blocking_streams_alone,
	  a_new_stream_begins_after_what_the_host_waited_for,
	  a_trace_that_tells_of_no_order_has_nothing_to_judge,
	  no_more_are_kept_than_asked_for_but_all_are_counted,
	  too_many_streams_are_an_error_that_says_where)

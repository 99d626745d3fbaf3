/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's clocks and rules of use by themselves, with no backend. */
#include "tests/unit.h"

#include "backends/guard/uses.h"

#define READ SOMA_BACKEND_ACCESS_READ
#define WRITE SOMA_BACKEND_ACCESS_WRITE

static int64_t live;
static int fail_in = -1;

static void *
alloc(void *context, size_t size, size_t alignment)
{
	(void)context;
	(void)alignment;
	if (fail_in >= 0 && fail_in-- == 0)
		return NULL;
	live += (int64_t)size;
	return malloc(size);
}

static void
give(void *context, void *memory, size_t size)
{
	(void)context;
	live -= (int64_t)size;
	free(memory);
}

static const struct soma_backend_host host = { .size = sizeof host, .alloc = alloc, .free = give };

static struct clocks clocks;
static uint32_t a, b, c;
static uint64_t next_id = 1;

static uint32_t
lane(uint32_t flags)
{
	uint32_t number;

	ck_assert(clocks_hold(&clocks, next_id++, flags, &number));
	return number;
}

static void
setup(void)
{
	ck_assert(clocks_init(&clocks, &host));
	a = lane(0);
	b = lane(0);
	c = lane(0);
}

static void
teardown(void)
{
	clocks_fini(&clocks);
	ck_assert_int_eq(live, 0);
}

static struct clock_vector
record(uint32_t of)
{
	struct clock_vector vector = { 0 };

	ck_assert(clocks_reserve(&clocks, &vector));
	clocks_record(&clocks, of, &vector);
	return vector;
}

static void
order(uint32_t from, uint32_t to)
{
	struct clock_vector vector = record(from);

	clocks_wait(&clocks, to, &vector);
	clocks_release(&clocks, &vector);
}

static struct clock_access
op(uint32_t on, uint32_t kind)
{
	struct clock_access access = clocks_op(&clocks, on);

	access.kind = kind;
	return access;
}

START_TEST(events_order_what_was_before_them_and_through_others)
{
	setup();
	struct clock_access first = op(a, 0);
	struct clock_vector early = record(a);
	struct clock_access second = op(a, 0);

	ck_assert(!clocks_ordered(&clocks, b, &first));
	clocks_wait(&clocks, b, &early);
	ck_assert(clocks_ordered(&clocks, b, &first));
	ck_assert(!clocks_ordered(&clocks, b, &second));
	order(b, c);
	ck_assert(clocks_ordered(&clocks, c, &first));
	clocks_release(&clocks, &early);
	teardown();
}
END_TEST

START_TEST(a_recorded_again_event_stands_for_the_new_place)
{
	setup();
	struct clock_access first = op(a, 0);
	struct clock_vector event = record(a);

	clocks_record(&clocks, b, &event);
	clocks_wait(&clocks, c, &event);
	ck_assert(!clocks_ordered(&clocks, c, &first));
	clocks_release(&clocks, &event);
	teardown();
}
END_TEST

START_TEST(what_the_host_saw_is_before_all_that_follows)
{
	setup();
	struct clock_access first = op(a, 0);

	order(a, CLOCKS_HOST);
	ck_assert(!clocks_ordered(&clocks, b, &first));
	op(b, 0);
	ck_assert(clocks_ordered(&clocks, b, &first));
	ck_assert(clocks_ordered(&clocks, lane(0), &first));
	/* And what the host itself did. */
	struct clock_access own = op(CLOCKS_HOST, 0);
	op(c, 0);
	ck_assert(clocks_ordered(&clocks, c, &own));
	teardown();
}
END_TEST

START_TEST(legacy_and_blocking_streams_take_turns)
{
	setup();
	uint32_t legacy = lane(CLOCK_LANE_LEGACY), x = lane(CLOCK_LANE_BLOCKING),
		 y = lane(CLOCK_LANE_BLOCKING);
	struct clock_access on_x = op(x, 0);

	op(y, 0);
	ck_assert(!clocks_ordered(&clocks, y, &on_x));
	struct clock_access on_legacy = op(legacy, 0);
	ck_assert(clocks_ordered(&clocks, legacy, &on_x));
	op(y, 0);
	ck_assert(clocks_ordered(&clocks, y, &on_x));
	ck_assert(clocks_ordered(&clocks, y, &on_legacy));
	op(a, 0);
	ck_assert(!clocks_ordered(&clocks, a, &on_legacy));
	ck_assert(!clocks_ordered(&clocks, a, &on_x));
	teardown();
}
END_TEST

START_TEST(a_lane_is_used_again_only_when_the_host_saw_its_end)
{
	setup();
	struct clock_access last = op(a, 0);

	clocks_drop(&clocks, a);
	ck_assert_uint_ne(lane(0), a);
	order(a, CLOCKS_HOST);
	uint32_t again = lane(0);
	ck_assert_uint_eq(again, a);
	struct clock_access next = op(again, 0);
	ck_assert_uint_gt(next.tick, last.tick);
	ck_assert(clocks_ordered(&clocks, again, &last));
	ck_assert(!clocks_ordered(&clocks, b, &next));
	teardown();
}
END_TEST

START_TEST(one_stream_under_two_names_is_one_lane)
{
	setup();
	uint32_t first, second;

	ck_assert(clocks_hold(&clocks, 1000, 0, &first));
	ck_assert(clocks_hold(&clocks, 1000, 0, &second));
	ck_assert_uint_eq(first, second);
	clocks_drop(&clocks, first);
	order(first, CLOCKS_HOST);
	ck_assert(!clocks_is_spent(&clocks, first));
	clocks_drop(&clocks, first);
	ck_assert(clocks_is_spent(&clocks, first));
	teardown();
}
END_TEST

START_TEST(ten_thousand_short_streams_stay_few_lanes)
{
	setup();
	for (int i = 0; i < 10000; i++) {
		uint32_t number = lane(0);
		op(number, 0);
		order(number, CLOCKS_HOST);
		clocks_drop(&clocks, number);
	}
	ck_assert_uint_le(clocks.count, 6);
	teardown();
}
END_TEST

START_TEST(without_memory_a_new_stream_fails_and_nothing_else)
{
	for (int n = 0; n < 40; n++) {
		setup();
		struct clock_access first = op(a, 0);
		uint32_t number, count = 0;
		fail_in = n;
		while (count < 60 && clocks_hold(&clocks, next_id++, 0, &number))
			count++;
		fail_in = -1;
		order(a, b);
		ck_assert(clocks_ordered(&clocks, b, &first));
		op(lane(0), 0);
		teardown();
	}
}
END_TEST

START_TEST(rules_of_use_and_free)
{
	setup();
	struct uses uses;
	struct clock_access made = op(a, 0);

	uses_init(&uses, &made);
	ck_assert_int_eq(uses_check(&uses, &clocks, b, WRITE).fault, USE_BEFORE_READY);
	ck_assert_int_eq(uses_check_free(&uses, &clocks, b).fault, USE_FREE_UNORDERED);
	ck_assert_int_eq(uses_check(&uses, &clocks, a, READ).fault, USE_UNINITIALISED);
	order(a, b);
	order(a, c);
	struct clock_access write = op(b, WRITE);
	ck_assert_int_eq(uses_check(&uses, &clocks, b, WRITE).fault, USE_FINE);
	uses_record(&uses, &clocks, &write);
	struct use_verdict verdict = uses_check(&uses, &clocks, c, READ);
	ck_assert_int_eq(verdict.fault, USE_RACE);
	ck_assert_uint_eq(verdict.first.seq, write.seq);
	ck_assert_int_eq(uses_check_free(&uses, &clocks, a).fault, USE_FREE_UNORDERED);
	order(b, c);
	ck_assert_int_eq(uses_check(&uses, &clocks, c, READ).fault, USE_FINE);
	struct clock_access freed = op(b, 0);
	ck_assert_int_eq(uses_check_reuse(&uses, &freed, &clocks, c).fault, USE_REUSE_UNORDERED);
	order(b, c);
	ck_assert_int_eq(uses_check_reuse(&uses, &freed, &clocks, c).fault, USE_FINE);
	uses_fini(&uses, &host);
	teardown();
}
END_TEST

START_TEST(reads_are_kept_only_while_they_matter)
{
	setup();
	struct uses uses;
	struct clock_access made = op(a, 0);

	uses_init(&uses, &made);
	struct clock_access write = op(a, WRITE);
	uses_record(&uses, &clocks, &write);
	order(a, b);
	order(a, c);
	for (int i = 0; i < 1000; i++) {
		struct clock_access read = op(i % 2 ? b : c, READ);
		ck_assert(uses_reserve(&uses, &host));
		uses_record(&uses, &clocks, &read);
	}
	ck_assert_uint_eq(uses.read_count, 2);
	ck_assert_int_eq(uses_check(&uses, &clocks, b, WRITE).fault, USE_RACE);
	order(c, b);
	ck_assert_int_eq(uses_check(&uses, &clocks, b, WRITE).fault, USE_FINE);
	uses_fini(&uses, &host);
	teardown();
}
END_TEST

/* An access keeps the name that its stream had then; the lane's next stream begins with its own. */
START_TEST(an_access_has_the_streams_name)
{
	setup();
	uint64_t id = next_id;
	uint32_t d = lane(0);
	ck_assert_uint_eq(clocks_op(&clocks, d).stream, id);
	clocks_name(&clocks, d, 77);
	struct clock_access access = clocks_op(&clocks, d);
	ck_assert_uint_eq(access.stream, 77);
	uint32_t again;
	ck_assert(clocks_hold(&clocks, id, 0, &again));
	ck_assert_uint_eq(again, d);
	ck_assert_uint_eq(clocks_op(&clocks, d).stream, 77);
	clocks_drop(&clocks, d);
	clocks_drop(&clocks, d);
	clocks_reach(&clocks, d, UINT64_MAX / 2);
	id = next_id;
	ck_assert_uint_eq(lane(0), d);
	ck_assert_uint_eq(clocks_op(&clocks, d).stream, id);
	ck_assert_uint_eq(access.stream, 77);
	teardown();
}
END_TEST

UNIT_MAIN("guard clocks", events_order_what_was_before_them_and_through_others,
	  a_recorded_again_event_stands_for_the_new_place, what_the_host_saw_is_before_all_that_follows,
	  legacy_and_blocking_streams_take_turns, a_lane_is_used_again_only_when_the_host_saw_its_end,
	  one_stream_under_two_names_is_one_lane, ten_thousand_short_streams_stay_few_lanes,
	  without_memory_a_new_stream_fails_and_nothing_else, rules_of_use_and_free,
	  reads_are_kept_only_while_they_matter, an_access_has_the_streams_name)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting: hand-made traces whose numbers are known, and how exact the percentiles are.
 */
#include "tests/replay_fixture.h"
#include "tools/engine/census.h"

static void
take(const char *lines, int32_t device, struct census *census)
{
	struct trace_reader *reader;
	struct trace_error error;
	char path[64];

	write_lines(path, lines);
	trace_open(path, NULL, &reader, &error);
	ck_assert_msg(reader != NULL, "%s", error.text);
	ck_assert_int_eq(census_take(reader, device, census, &error), TRACE_OK);
	trace_close(reader);
	unlink(path);
}

START_TEST(sizes_lifetimes_and_delays_are_counted)
{
	struct census census;

	take("1000,,alloc,0,1,0x1000,100,a,,\n"
	     "2000,,alloc,0,2,0x2000,3000,b,,\n"
	     "5000,,free,0,1,0x1000,,,,\n"
	     "6000,,free,0,2,0x2000,,,,deferred\n"
	     "6500,,mark,0,,,,,,\n"
	     "9000,,free_completed,0,2,0x2000,,,,\n",
	     CENSUS_DEVICE_ANY, &census);
	ck_assert_uint_eq(census.events, 6);
	ck_assert_uint_eq(census.allocs, 2);
	ck_assert_uint_eq(census.frees, 2);
	ck_assert_uint_eq(census.bytes, 3100);
	ck_assert_uint_eq(census.most_live, 2);
	ck_assert_uint_eq(census.live, 0);
	ck_assert_uint_eq(census.live_bytes, 0);
	ck_assert_uint_eq(census.life_events.count, 2);
	ck_assert_uint_eq(census.life_events.least, 2);
	ck_assert_uint_eq(census.life_events.most, 2);
	ck_assert_uint_eq(census.life_ns.least, 4000);
	ck_assert_uint_eq(census.life_ns.most, 4000);
	ck_assert_uint_eq(census.delay_ns.count, 1);
	ck_assert_uint_eq(census.delay_ns.least, 3000);
	ck_assert_uint_eq(census.delay_events.least, 2);
	ck_assert_uint_eq(spread_power(&census.sizes, 6), 1);
	ck_assert_uint_eq(spread_power(&census.sizes, 11), 1);
	ck_assert_uint_eq(census.stream_count, 2);
	ck_assert_uint_eq(census.streams[0].key.key, 2);
	ck_assert_uint_eq(census.streams[0].bytes, 3000);
	ck_assert_uint_eq(census.holder_count, 2);
	ck_assert_uint_eq(census.holders[0].bytes, 3000);
	census_fini(&census);
}
END_TEST

START_TEST(what_is_wrong_in_a_trace_is_counted)
{
	struct census census;

	take("1,,alloc,0,1,0x1000,100,,,\n2,,alloc,0,1,0x1000,200,,,\n3,,alloc,0,1,,100,,,\n"
	     "4,,alloc,0,1,0x5000,0,,,\n5,,free,0,1,0x9000,,,,\n6,,free,0,1,0x1000,,,,deferred\n"
	     "7,,free,0,1,0x1000,,,,\n8,,alloc_failed,0,1,,5,,,\n",
	     CENSUS_DEVICE_ANY, &census);
	ck_assert_uint_eq(census.overwritten, 1);
	ck_assert_uint_eq(census.ignored, 2);
	ck_assert_uint_eq(census.unknown_frees, 2);
	ck_assert_uint_eq(census.recorded_failed, 1);
	ck_assert_uint_eq(census.most_live, 1);
	census_fini(&census);
}
END_TEST

START_TEST(times_that_go_back_are_no_times)
{
	struct census census;

	take("10,,alloc,0,1,0x1000,100,,,\n5,,free,0,1,0x1000,,,,\n20,,mark,0,,,,,,\n", CENSUS_DEVICE_ANY,
	     &census);
	ck_assert(!census.has_times);
	ck_assert_uint_eq(census.life_ns.count, 0);
	ck_assert_uint_eq(census.life_events.count, 1);
	census_fini(&census);
}
END_TEST

START_TEST(a_device_is_counted_by_itself)
{
	struct census census;

	take("1,,alloc,0,1,0x1000,100,,,\n2,,alloc,3,1,0x1000,7,,,\n3,,alloc,3,1,0x2000,7,,,\n",
	     CENSUS_DEVICE_ANY, &census);
	ck_assert_int_eq(census.device, 3);
	ck_assert_uint_eq(census.allocs, 2);
	census_fini(&census);
	take("1,,alloc,0,1,0x1000,100,,,\n2,,alloc,3,1,0x1000,7,,,\n3,,alloc,3,1,0x2000,7,,,\n", 0, &census);
	ck_assert_uint_eq(census.allocs, 1);
	ck_assert_uint_eq(census.bytes, 100);
	census_fini(&census);
}
END_TEST

/* Of 1 .. n the p-th percentile is n p / 100. */
START_TEST(percentiles_are_at_most_a_32nd_above_the_exact_ones)
{
	static const uint64_t counts[] = { 1, 2, 31, 32, 33, 1000, 100000 };

	for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
		static struct spread spread;
		uint64_t n = counts[c], sum = 0;

		memset(&spread, 0, sizeof spread);
		for (uint64_t value = 1; value <= n; value++)
			spread_add(&spread, value);
		for (unsigned percent = 1; percent <= 100; percent++) {
			uint64_t exact = n * percent / 100 > 0 ? n * percent / 100 : 1;
			uint64_t got = spread_percentile(&spread, percent);

			ck_assert_uint_ge(got, exact);
			ck_assert_uint_le(got, exact + exact / 31);
		}
		for (unsigned power = 0; power < 60; power++)
			sum += spread_power(&spread, power);
		ck_assert_uint_eq(sum, n);
		ck_assert_uint_eq(spread_percentile(&spread, 0), 1);
		ck_assert_uint_eq(spread_percentile(&spread, 100), n);
	}
}
END_TEST

START_TEST(the_largest_values_have_a_bucket)
{
	static struct spread spread;

	spread_add(&spread, UINT64_MAX);
	spread_add(&spread, 0);
	ck_assert_uint_eq(spread_percentile(&spread, 100), UINT64_MAX);
	ck_assert_uint_eq(spread_power(&spread, 0), 1);
	ck_assert_uint_eq(spread_power(&spread, 63), 1);
}
END_TEST

UNIT_MAIN("census", sizes_lifetimes_and_delays_are_counted, what_is_wrong_in_a_trace_is_counted,
	  times_that_go_back_are_no_times, a_device_is_counted_by_itself,
	  percentiles_are_at_most_a_32nd_above_the_exact_ones, the_largest_values_have_a_bucket)

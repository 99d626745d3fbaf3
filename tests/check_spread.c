/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How exact percentiles are.
 */
#include <string.h>

#include "tests/unit.h"
#include "tools/engine/spread.h"

static struct spread spread;

/* Of 1 .. n the p-th percentile is n p / 100, rounded up. */
START_TEST(percentiles_are_at_most_a_32nd_above_the_exact_ones)
{
	static const uint64_t counts[] = { 1, 2, 31, 32, 33, 1000, 100000 };

	for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
		uint64_t n = counts[c], sum = 0;

		memset(&spread, 0, sizeof spread);
		for (uint64_t value = 1; value <= n; value++)
			spread_add(&spread, value);
		for (unsigned percent = 1; percent <= 100; percent++) {
			uint64_t exact = (n * percent + 99) / 100;
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
	memset(&spread, 0, sizeof spread);
	spread_add(&spread, UINT64_MAX);
	spread_add(&spread, 0);
	ck_assert_uint_eq(spread_percentile(&spread, 100), UINT64_MAX);
	ck_assert_uint_eq(spread_power(&spread, 0), 1);
	ck_assert_uint_eq(spread_power(&spread, 63), 1);
	ck_assert_uint_eq(spread.least, 0);
	ck_assert_uint_eq(spread.most, UINT64_MAX);
}
END_TEST

UNIT_MAIN("spread", percentiles_are_at_most_a_32nd_above_the_exact_ones, the_largest_values_have_a_bucket)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in's declarations are the driver's: the same values, sizes and offsets as the
 * table of numbers, and as cuda.h where there is one.
 */
#include "tests/fake/api.h"
#include "tests/fake/values.h"
#include "tests/unit.h"

static const struct fake_value ours[] = { FAKE_VALUE_ROWS };

static const unsigned long long numbers[] = {
#define VALUE(name, value) value,
#define SIZE(type, size) size,
#define OFFSET(type, member, offset) offset,
	FAKE_VALUES(VALUE) FAKE_SIZES(SIZE) FAKE_OFFSETS(OFFSET)
};

#define COUNT (sizeof ours / sizeof ours[0])

START_TEST(our_declarations_are_the_table)
{
	ck_assert_uint_eq(sizeof numbers / sizeof numbers[0], COUNT);
	for (size_t i = 0; i < COUNT; i++)
		ck_assert_msg(ours[i].value == numbers[i], "%s is %llu, not %llu", ours[i].name,
			      ours[i].value, numbers[i]);
}
END_TEST

START_TEST(the_table_is_cuda_h_where_there_is_one)
{
	for (size_t i = 0; i < fake_values_cuda_count; i++) {
		ck_assert_str_eq(fake_values_cuda[i].name, ours[i].name);
		ck_assert_msg(fake_values_cuda[i].value == numbers[i], "%s is %llu in cuda.h, not %llu",
			      ours[i].name, fake_values_cuda[i].value, numbers[i]);
	}
	ck_assert(fake_values_cuda_count == 0 || fake_values_cuda_count == COUNT);
}
END_TEST

UNIT_MAIN("fake_values", our_declarations_are_the_table, the_table_is_cuda_h_where_there_is_one)

/* SPDX-License-Identifier: Apache-2.0 */
/* lib/base/size: sizes as people write and read them. */
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/size.h"
#include "tests/unit.h"

START_TEST(sizes_are_read_exactly)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} rows[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "007", 7 },
		{ "12b", 12 },
		{ "1k", 1024 },
		{ "64M", 64 << 20 },
		{ "64MiB", 64 << 20 },
		{ "64mib", 64 << 20 },
		{ "8G", UINT64_C(8) << 30 },
		{ "1.5GiB", UINT64_C(3) << 29 },
		{ "0.5K", 512 },
		{ "1.1K", 1126 },
		{ "2.000000000000000000000000001K", 2048 },
		{ "3T", UINT64_C(3) << 40 },
		{ "7PiB", UINT64_C(7) << 50 },
		{ "15E", UINT64_C(15) << 60 },
		{ "18446744073709551615", UINT64_MAX },
		{ "15.9999999999E", UINT64_C(18446744073594259465) },
		{ "15.999999999999999999E", UINT64_C(18446744073709551614) },
		{ "0.999999999999999999999E", UINT64_C(1152921504606846974) },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		uint64_t bytes = 1;
		ck_assert_msg(soma__size_parse(rows[i].text, &bytes) == NULL, "\"%s\"", rows[i].text);
		ck_assert_msg(bytes == rows[i].bytes, "\"%s\" gave %" PRIu64, rows[i].text, bytes);
	}
}
END_TEST

START_TEST(what_is_no_size_is_refused_and_nothing_written)
{
	static const char *const bad[] = {
		"",     " ",    "G",   ".5G",  "1.",  "1.G", "-1",   "+1",   " 1",  "1 ",  "1 G", "1x",
		"64MB", "64Mi", "1KK", "0x10", "1e3", "1.5", "1.5B", "1,5G", "nan", "inf", "1G1", "G1",
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		uint64_t bytes = 77;
		const char *problem = soma__size_parse(bad[i], &bytes);
		ck_assert_msg(problem != NULL, "\"%s\" was accepted", bad[i]);
		ck_assert_uint_eq(bytes, 77);
		ck_assert_ptr_nonnull(strstr(problem, "is not a size"));
	}
}
END_TEST

START_TEST(what_64_bits_do_not_hold_is_refused)
{
	static const char *const bad[] = {
		"18446744073709551616", "99999999999999999999999999", "16E",
		"17179869184G",         "99999999999999999999K",
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		uint64_t bytes = 77;
		const char *problem = soma__size_parse(bad[i], &bytes);
		ck_assert_msg(problem != NULL, "\"%s\" was accepted", bad[i]);
		ck_assert_uint_eq(bytes, 77);
		ck_assert_ptr_nonnull(strstr(problem, "more bytes than 64 bits"));
	}
}
END_TEST

START_TEST(sizes_are_printed_with_three_digits)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} rows[] = {
		{ 0, "0 B" },
		{ 512, "512 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.00 KiB" },
		{ 10235, "10.0 KiB" },
		{ 20 << 20, "20.0 MiB" },
		{ 1023 << 20, "1023 MiB" },
		{ (1024 << 20) - 1, "1.00 GiB" },
		{ UINT64_C(1782411264), "1.66 GiB" },
		{ UINT64_C(139) << 30, "139 GiB" },
		{ UINT64_MAX, "16.0 EiB" },
	};
	char buffer[SOMA__SIZE_TEXT_MAX];

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		ck_assert_str_eq(soma__size_format(buffer, rows[i].bytes), rows[i].text);
}
END_TEST

START_TEST(bytes_are_said_too_where_three_digits_hide_them)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} rows[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.00 KiB" },
		{ 1025, "1.00 KiB (1025 bytes)" },
		{ 1536, "1.50 KiB" },
		{ 512 << 20, "512 MiB" },
		{ 3249138, "3.10 MiB (3249138 bytes)" },
		{ (UINT64_C(2) << 30) - 1, "2.00 GiB (2147483647 bytes)" },
		{ UINT64_C(2) << 30, "2.00 GiB" },
		{ UINT64_MAX, "16.0 EiB (18446744073709551615 bytes)" },
	};
	char buffer[SOMA__SIZE_EXACT_MAX];

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		ck_assert_str_eq(soma__size_exact(buffer, rows[i].bytes), rows[i].text);
}
END_TEST

UNIT_MAIN("size", bytes_are_said_too_where_three_digits_hide_them, sizes_are_read_exactly,
	  what_is_no_size_is_refused_and_nothing_written, what_64_bits_do_not_hold_is_refused,
	  sizes_are_printed_with_three_digits)

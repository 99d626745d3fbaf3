/* SPDX-License-Identifier: Apache-2.0 */
/* <soma/status.h> and lib/base/error: names, texts, the detail of the last error. */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include <soma/soma.h>

#include "lib/base/error.h"
#include "tests/unit.h"

START_TEST(every_status_has_its_name_and_text)
{
	/* By value, so that a status that moves is noticed: the values are the ABI. */
	static const char *const names[][2] = {
		{ "OK", "success" },
		{ "INVALID_VALUE", "invalid value" },
		{ "OUT_OF_DEVICE_MEMORY", "out of device memory" },
		{ "OUT_OF_HOST_MEMORY", "out of host memory" },
		{ "OUT_OF_BUDGET", "out of budget" },
		{ "DRIVER", "driver error" },
		{ "STREAM_MISUSE", "stream misuse" },
		{ "USE_AFTER_FREE", "use after free" },
		{ "OUT_OF_BOUNDS", "out of bounds" },
		{ "NOT_SUPPORTED", "not supported" },
		{ "NOT_FOUND", "not found" },
		{ "ABI", "incompatible binary interface" },
		{ "PARSE", "malformed input" },
		{ "IO", "input or output error" },
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		ck_assert_str_eq(soma_status_name((enum soma_status)i), names[i][0]);
		ck_assert_str_eq(soma_status_text((enum soma_status)i), names[i][1]);
	}
	ck_assert_int_eq(SOMA_STATUS_IO, sizeof names / sizeof names[0] - 1);
}
END_TEST

START_TEST(what_is_no_status_is_unknown)
{
	ck_assert_str_eq(soma_status_name((enum soma_status)14), "UNKNOWN");
	ck_assert_str_eq(soma_status_name((enum soma_status) - 1), "UNKNOWN");
	ck_assert_str_eq(soma_status_text((enum soma_status)1000), "unknown status");
}
END_TEST

START_TEST(without_an_error_the_detail_is_success)
{
	const struct soma_error *error = soma_error_last();

	ck_assert_int_eq(error->status, SOMA_STATUS_OK);
	ck_assert_str_eq(error->text, "success");
	ck_assert_uint_eq(error->requested | error->current | error->remaining | error->limit, 0);
}
END_TEST

START_TEST(a_text_is_formatted_from_its_arguments)
{
	ck_assert_int_eq(soma__fail(INVALID_VALUE, "a %" PRIu64 " b %" PRIx64 " c %" PRId64 " d %" PRIu64, 7,
				    255, (uint64_t)-3, UINT64_MAX),
			 SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(soma_error_last()->text, "a 7 b ff c -3 d 18446744073709551615");
	/* Asking twice gives the same. */
	ck_assert_str_eq(soma_error_last()->text, "a 7 b ff c -3 d 18446744073709551615");
}
END_TEST

START_TEST(sizes_are_written_as_people_read_them)
{
	soma__fail_sizes(OUT_OF_BUDGET, "%s requested, %s of %s in use, %s left", 512 << 20, 1025, 2048, 0);
	ck_assert_str_eq(soma_error_last()->text,
			 "512 MiB requested, 1.00 KiB (1025 bytes) of 2.00 KiB in use, 0 B left");
	soma__fail(IO, "then %" PRIu64, 2048);
	ck_assert_str_eq(soma_error_last()->text, "then 2048");
}
END_TEST

START_TEST(a_name_is_copied_and_cut)
{
	char name[400];

	memset(name, 'n', sizeof name);
	name[399] = '\0';
	soma__error(SOMA_STATUS_NOT_FOUND, "no %s at %" PRIu64,
		    (struct soma__error_args){ .name = name, .arg = { 5 } });
	name[0] = 'X';
	const char *text = soma_error_last()->text;
	ck_assert_uint_eq(strlen(text), 95 + strlen("no  at 5"));
	ck_assert(strncmp(text, "no nnn", 6) == 0);
	ck_assert_str_eq(text + strlen(text) - 6, "n at 5");
}
END_TEST

START_TEST(a_text_made_at_once_is_kept_and_cut)
{
	char longer[1000];

	memset(longer, 'x', sizeof longer);
	longer[999] = '\0';
	ck_assert_int_eq(soma__error_text(SOMA_STATUS_PARSE, "%s: \"%s\" 50%%", "file", "key"),
			 SOMA_STATUS_PARSE);
	ck_assert_str_eq(soma_error_last()->text, "file: \"key\" 50%");
	soma__error_text(SOMA_STATUS_PARSE, "%s", longer);
	ck_assert_uint_eq(strlen(soma_error_last()->text), 511);
	/* The next error of the other kind is formatted again. */
	soma__fail(IO, "read %" PRIu64, 3);
	ck_assert_str_eq(soma_error_last()->text, "read 3");
}
END_TEST

START_TEST(quantities_belong_to_the_error_just_recorded)
{
	soma__fail(OUT_OF_BUDGET, "no budget");
	soma__error_sizes(1, 2, 3, 4);
	soma__error_held(6, 7);
	soma__error_driver(999);
	soma__error_generation(5);
	const struct soma_error *error = soma_error_last();
	ck_assert_uint_eq(error->requested, 1);
	ck_assert_uint_eq(error->current, 2);
	ck_assert_uint_eq(error->remaining, 3);
	ck_assert_uint_eq(error->limit, 4);
	ck_assert_uint_eq(error->promised, 6);
	ck_assert_uint_eq(error->retired, 7);
	ck_assert_int_eq(error->driver_code, 999);
	ck_assert_uint_eq(error->generation, 5);
	soma__fail(IO, "another");
	error = soma_error_last();
	ck_assert_uint_eq(
		error->requested | error->current | error->remaining | error->limit | error->generation, 0);
	ck_assert_uint_eq(error->promised | error->retired, 0);
	ck_assert_int_eq(error->driver_code, 0);
}
END_TEST

START_TEST(clearing_forgets)
{
	soma__fail(IO, "gone");
	soma_error_clear();
	ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_OK);
	ck_assert_str_eq(soma_error_last()->text, "success");
}
END_TEST

static void *
fail_elsewhere(void *result)
{
	*(bool *)result = soma_error_last()->status == SOMA_STATUS_OK;
	soma__fail(ABI, "the other thread's");
	*(bool *)result &= strcmp(soma_error_last()->text, "the other thread's") == 0;
	return NULL;
}

START_TEST(each_thread_has_its_own)
{
	pthread_t thread;
	bool good = false;

	soma__fail(IO, "this thread's");
	ck_assert_int_eq(pthread_create(&thread, NULL, fail_elsewhere, &good), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(good);
	ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_IO);
	ck_assert_str_eq(soma_error_last()->text, "this thread's");
}
END_TEST

START_TEST(the_library_is_of_the_headers_version)
{
	ck_assert_str_eq(soma_version(), SOMA_VERSION_STRING);
}
END_TEST

UNIT_MAIN("error", sizes_are_written_as_people_read_them,
	  every_status_has_its_name_and_text, what_is_no_status_is_unknown,
	  without_an_error_the_detail_is_success, a_text_is_formatted_from_its_arguments,
	  a_name_is_copied_and_cut, a_text_made_at_once_is_kept_and_cut,
	  quantities_belong_to_the_error_just_recorded, clearing_forgets, each_thread_has_its_own,
	  the_library_is_of_the_headers_version)

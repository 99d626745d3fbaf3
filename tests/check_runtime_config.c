/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations that are wrong, or that meet a failure: what is said, and that nothing is left open. */
#include "tests/runtime_fixture.h"

#include <unistd.h>

#include <soma/log.h>

/* ---- errors ---------------------------------------------------------------------------- */

#define PATH_LENGTH (sizeof "backend_path=" RUNTIME_FOLDERS "," - 1)

/* `place`: in what follows the path of the modules; 0: the text has none. */
static const struct wrong {
	const char *conf;
	enum soma_status status;
	size_t place;
	const char *text;
} wrongs[] = {
	{ "bakend=host", SOMA_STATUS_INVALID_VALUE, 1,
	  "there is no option \"bakend\"; the nearest is \"backend\"" },
	{ "budget=1G,thrace=x", SOMA_STATUS_INVALID_VALUE, 11,
	  "there is no option \"thrace\"; the nearest is \"trace\"" },
	{ "budget", SOMA_STATUS_INVALID_VALUE, 1, "budget has no value; write budget=VALUE" },
	{ "budget=1G,,device=0", SOMA_STATUS_INVALID_VALUE, 11, "a key=value was expected here" },
	{ "budget=1G,budget=2G", SOMA_STATUS_INVALID_VALUE, 11, "budget is given twice" },
	{ "device=-1", SOMA_STATUS_INVALID_VALUE, 8,
	  "device: \"-1\" is not a device's number, from 0 to 2147483647" },
	{ "device=2147483648", SOMA_STATUS_INVALID_VALUE, 8,
	  "device: \"2147483648\" is not a device's number, from 0 to 2147483647" },
	{ "placement=front", SOMA_STATUS_INVALID_VALUE, 11,
	  "placement: \"front\" is not one of auto, backend, pool" },
	{ "twin=perhaps", SOMA_STATUS_INVALID_VALUE, 6, "twin: \"perhaps\" is not yes or no" },
	{ "twin_used_unit=0", SOMA_STATUS_INVALID_VALUE, 16,
	  "twin_used_unit: \"0\" is not a number from 1 to 4294967295" },
	{ "twin_reserved_tolerance=much", SOMA_STATUS_INVALID_VALUE, 25,
	  "twin_reserved_tolerance: \"much\" is not a size: a number of bytes, or one with K, M, G, T or "
	  "KiB, MiB, GiB, TiB (powers of 1024), such as 64M or 1.5GiB" },
	{ "trace=a%x", SOMA_STATUS_INVALID_VALUE, 7, "trace: \"%x\" in \"a%x\": expected %d, %p or %%" },
	{ "trace=100%", SOMA_STATUS_INVALID_VALUE, 7, "trace: \"%\" in \"100%\": expected %d, %p or %%" },
	{ "trace_ring_events=0", SOMA_STATUS_INVALID_VALUE, 19,
	  "trace_ring_events: \"0\" is not a number from 1 to 16777216" },
	{ "trace_ring_events=16777217", SOMA_STATUS_INVALID_VALUE, 19,
	  "trace_ring_events: \"16777217\" is not a number from 1 to 16777216" },
	{ "trace_patience_ms=soon", SOMA_STATUS_INVALID_VALUE, 19,
	  "trace_patience_ms: \"soon\" is not a whole number from 0 to 4294967295" },
	{ "backend=", SOMA_STATUS_INVALID_VALUE, 1, "\"\" is no backend: NAME or NAME:NAME was expected" },
	{ "budget=1,backend=guard", SOMA_STATUS_INVALID_VALUE, 10,
	  "the backend guard goes around another: write guard:auto or guard:NAME" },
	{ "backend=host:plain", SOMA_STATUS_INVALID_VALUE, 1,
	  "the backend host does not go around another (plain)" },
	{ "backend=host,guard.mode=full", SOMA_STATUS_INVALID_VALUE, 14,
	  "the option \"guard.mode\" is for the backend guard, and the backend is \"host\"; write "
	  "backend=guard:host" },
	{ "backend=guard:plain,host.size=1G", SOMA_STATUS_INVALID_VALUE, 21,
	  "the option \"host.size\" is for the backend host, and the backend is \"guard:plain\"" },
	{ "backend=host,hots.size=1G", SOMA_STATUS_INVALID_VALUE, 14,
	  "the option \"hots.size\" is of no backend in \"host\"; the nearest is \"host.size\"" },
	{ "backend=host,cuda.streams=1", SOMA_STATUS_INVALID_VALUE, 14,
	  "the option \"cuda.streams\" is of no backend in \"host\"" },
	{ "backend=guard:host,guard.frobnicate=1", SOMA_STATUS_INVALID_VALUE, 20,
	  "there is no option \"guard.frobnicate\"; soma info --options lists those of guard" },
	{ "host", SOMA_STATUS_INVALID_VALUE, 1, "a key=value was expected, such as backend=host" },
	{ "budget=1G,guard:auto", SOMA_STATUS_INVALID_VALUE, 11, "a key=value was expected, such as backend=guard:auto" },
	{ "frobnicate=1", SOMA_STATUS_INVALID_VALUE, 1, "there is no option \"frobnicate\"; see soma.conf(5)" },
	{ "backend=guard:host,gaurd.mode=full", SOMA_STATUS_INVALID_VALUE, 20,
	  "the option \"gaurd.mode\" is of no backend in \"guard:host\"; the nearest is \"guard.mode\"" },
	{ "gaurd.mode=off,backend=guard:auto", SOMA_STATUS_INVALID_VALUE, 1,
	  "the option \"gaurd.mode\" is of no backend in \"guard:auto\"; the nearest is \"guard.mode\"" },
	{ "backend=guard:host,guard.race=off,guard.mod=full", SOMA_STATUS_INVALID_VALUE, 35,
	  "there is no option \"guard.mod\"; the nearest is \"guard.mode\"" },
	{ "backend=guard:host,guard.race=off,guard.mode=fulll", SOMA_STATUS_INVALID_VALUE, 35,
	  "backend guard: guard.mode: \"fulll\" is not one of off, canary, full" },
	{ "backend=host,host.huge_pages=off,host.size=1X", SOMA_STATUS_INVALID_VALUE, 34,
	  "backend host: size=1X: a size such as 64M was expected, or all" },
	{ "backend=guard:host,guard.mode", SOMA_STATUS_INVALID_VALUE, 20,
	  "guard.mode has no value; write guard.mode=VALUE" },
	{ "backend=guard:host,guard.mode=off,guard.mode=off", SOMA_STATUS_INVALID_VALUE, 35,
	  "guard.mode is given twice" },
	{ "backend=plain,plain.answer=43", SOMA_STATUS_INVALID_VALUE, 1, "backend plain: answer" },
	{ "backend=host,device=1", SOMA_STATUS_NOT_FOUND, 0,
	  "backend host: there is no device 1: the host is device 0" },
	{ "backend=wrong_abi", SOMA_STATUS_ABI, 0, NULL },
	{ "backend=missing", SOMA_STATUS_NOT_FOUND, 0, NULL },
	{ "backend=plain,trace=/nonexistent/x.csv", SOMA_STATUS_IO, 0, NULL },
	{ "backend=guard:host,trace=/dev/full", SOMA_STATUS_IO, 0, NULL },
};

struct heard {
	int opened, closed;
};

static void
hear(void *context, enum soma_log_level level, const char *text)
{
	struct heard *heard = context;

	(void)level;
	heard->opened += strcmp(text, "backend plain: opened") == 0;
	heard->closed += strcmp(text, "backend plain: closed") == 0;
}

static void
expect_wrong(const struct wrong *wrong)
{
	char text[512];
	struct soma_runtime *runtime = (struct soma_runtime *)&text;

	soma_error_clear();
	ck_assert_msg(try_runtime(wrong->conf, &runtime) == wrong->status, "\"%s\": %s", wrong->conf,
		      soma_error_last()->text);
	ck_assert_ptr_eq(runtime, (struct soma_runtime *)&text);
	ck_assert_int_eq(soma_error_last()->status, wrong->status);
	if (wrong->text == NULL)
		return;
	if (wrong->place != 0)
		snprintf(text, sizeof text, "configuration, character %zu: %s", PATH_LENGTH + wrong->place,
			 wrong->text);
	else
		snprintf(text, sizeof text, "%s", wrong->text);
	ck_assert_str_eq(soma_error_last()->text, text);
}

START_TEST(a_wrong_configuration_says_what_and_where)
{
	for (unsigned i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++)
		expect_wrong(&wrongs[i]);
}
END_TEST

START_TEST(a_wrong_configuration_leaves_nothing_open)
{
	struct heard heard = { 0 };
	int descriptors, threads = count_threads();

	for (unsigned i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++)
		expect_wrong(&wrongs[i]); /* what is loaded stays so */
	descriptors = count_entries("/proc/self/fd");
	soma_log_set_sink(hear, &heard, SOMA_LOG_DEBUG);
	for (unsigned i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++)
		expect_wrong(&wrongs[i]);
	ck_assert_int_eq(heard.opened,
			 2); /* under host, which refuses it; before a trace that cannot be written */
	ck_assert_int_eq(heard.closed, 2);
	ck_assert_int_eq(count_entries("/proc/self/fd"), descriptors);
	expect_threads(threads);
	soma_log_set_sink(NULL, NULL, SOMA_LOG_ERROR);
}
END_TEST

/* Everything that opening allocates, in turn. */
static unsigned long
fail_every_allocation(const char *conf)
{
	enum soma_status status = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	struct soma_runtime *runtime;
	unsigned long nth = 0;

	while (status != SOMA_STATUS_OK) {
		soma__arena_fail_nth(++nth);
		soma_error_clear();
		status = try_runtime(conf, &runtime);
		soma__arena_fail_nth(0);
		ck_assert_msg(status == SOMA_STATUS_OK || status == SOMA_STATUS_OUT_OF_HOST_MEMORY,
			      "allocation %lu: %s", nth, soma_error_last()->text);
		if (status != SOMA_STATUS_OK)
			ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_OUT_OF_HOST_MEMORY);
	}
	soma_runtime_release(runtime);
	return nth - 1;
}

START_TEST(every_allocation_of_an_open_may_fail)
{
	static const char conf[] =
		"backend=guard:host,budget=1G,trace=check_runtime_nth.csv,guard.on_error=report,"
		"guard.race=off,guard.mode=off";
	struct heard heard = { 0 };
	int descriptors, threads = count_threads();

	soma_runtime_release(open_runtime(conf));
	descriptors = count_entries("/proc/self/fd");
	ck_assert_uint_gt(fail_every_allocation(conf), 10);
	ck_assert_int_eq(count_entries("/proc/self/fd"), descriptors);
	expect_threads(threads);
	soma_log_set_sink(hear, &heard, SOMA_LOG_DEBUG);
	ck_assert_uint_gt(fail_every_allocation("backend=plain,budget=1M"), 5);
	ck_assert_int_gt(heard.opened, 2);
	ck_assert_int_eq(heard.closed, heard.opened);
	soma_log_set_sink(NULL, NULL, SOMA_LOG_ERROR);
	unlink("check_runtime_nth.csv");
}
END_TEST

/* ---- the environment --------------------------------------------------------------------- */

START_TEST(soma_conf_is_read_when_no_string_is_given)
{
	struct soma_runtime *runtime;

	setenv("SOMA_CONF", "backend=guard:host,backend_path=" RUNTIME_FOLDERS ",budget=5M", 1);
	OK(soma_runtime_open(NULL, &runtime));
	ck_assert_str_eq(soma_runtime_backend(runtime), "guard:host");
	ck_assert_uint_eq(soma_budget_limit(soma_runtime_resource(runtime)), 5 << 20);
	soma_runtime_release(runtime);
	runtime = open_runtime("backend=host"); /* a string goes alone */
	ck_assert_uint_eq(soma_budget_limit(soma_runtime_resource(runtime)), UINT64_MAX);
	soma_runtime_release(runtime);
	setenv("SOMA_CONF", "budget=5M,guard.mode=full,backend=host,backend_path=" RUNTIME_FOLDERS, 1);
	ck_assert_int_eq(soma_runtime_open(NULL, &runtime), SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(
		soma_error_last()->text,
		"SOMA_CONF, character 11: the option \"guard.mode\" is for the backend guard, and the "
		"backend is \"host\"; write backend=guard:host");
}
END_TEST

UNIT_MAIN("runtime config", a_wrong_configuration_says_what_and_where,
	  a_wrong_configuration_leaves_nothing_open, every_allocation_of_an_open_may_fail,
	  soma_conf_is_read_when_no_string_is_given)

/* SPDX-License-Identifier: Apache-2.0 */
/* The launch recorder over a guard: its reports. */
#include "tests/runtime_fixture.h"

#include <inttypes.h>

START_TEST(a_guard_has_nothing_to_say_of_recorded_launches)
{
	struct soma_runtime *runtime = open_runtime("backend=guard:host,guard.on_error=callback");
	struct soma_resource *resource = soma_runtime_resource(runtime);
	uint64_t streams[3] = { runtime_stream(runtime), runtime_stream(runtime), 0 };
	struct reports reports = { 0 };
	struct soma_block x = take_block(resource, 1000, streams[0]),
			  y = take_block(resource, 1000, streams[1]);
	struct soma_launch launch;

	OK(soma_guard_listen(resource, on_report, &reports));
	for (int i = 0; i < 60; i++) {
		OK(soma_launch_begin(&launch, resource, streams[i % 3]));
		OK(i % 5 == 0 ? soma_launch_write(&launch, x.id) : soma_launch_read(&launch, x.id));
		OK(soma_launch_read_write(&launch, y.id));
		OK(soma_launch_preflight(&launch));
		OK(soma_launch_commit(&launch));
	}
	give_block(resource, &x);
	give_block(resource, &y);
	soma_runtime_release(runtime);
	ck_assert_msg(reports.count == 0, "%u reports, the last: %s", reports.count, reports.kind);
}
END_TEST

START_TEST(a_guard_reports_a_freed_block_in_a_launch_once)
{
	struct soma_runtime *runtime = open_runtime("backend=guard:host,guard.on_error=callback");
	struct soma_resource *resource = soma_runtime_resource(runtime);
	struct soma_block x = take_block(resource, 1000, 0);
	struct reports reports = { 0 };
	struct soma_launch launch;

	OK(soma_guard_listen(resource, on_report, &reports));
	give_block(resource, &x);
	OK(soma_launch_begin(&launch, resource, 0));
	OK(soma_launch_write(&launch, x.id));
	ck_assert_int_eq(soma_launch_preflight(&launch), SOMA_STATUS_USE_AFTER_FREE);
	soma_launch_abandon(&launch);
	ck_assert_uint_eq(reports.count, 1);
	ck_assert_str_eq(reports.kind, "use-after-free");
	soma_runtime_release(runtime);
	ck_assert_uint_eq(reports.count, 1);
}
END_TEST

static void
expect(const char *text, const char *format, uint64_t stream)
{
	char part[80];

	snprintf(part, sizeof part, format, stream);
	ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in:\n%s", part, text);
}

/* Nothing made the order, and the guard hears of that when the work is queued. */
START_TEST(a_guard_reports_a_launch_without_a_preflight)
{
	struct soma_runtime *runtime = open_runtime("backend=guard:host,guard.on_error=callback");
	struct soma_resource *resource = soma_runtime_resource(runtime);
	uint64_t a = runtime_stream(runtime), b = runtime_stream(runtime);
	struct reports reports = { 0 };
	struct soma_block x = take_block(resource, 1 << 20, a), y = take_block(resource, 1000, b);
	struct soma_launch launch;

	OK(soma_guard_listen(resource, on_report, &reports));
	OK(soma_launch_begin(&launch, resource, b));
	OK(soma_launch_write(&launch, y.id));
	OK(soma_launch_write(&launch, x.id));
	ck_assert_int_eq(soma_launch_commit(&launch), SOMA_STATUS_STREAM_MISUSE);
	ck_assert_int_eq(soma_launch_use(&launch, 0)->status, SOMA_STATUS_OK);
	ck_assert_int_eq(soma_launch_use(&launch, 1)->status, SOMA_STATUS_STREAM_MISUSE);
	soma_launch_abandon(&launch);
	ck_assert_uint_eq(reports.count, 1);
	ck_assert_str_eq(reports.kind, "use-before-ready");
	expect(reports.text, " second: stream %" PRIu64 " write", b);
	expect(reports.text, " never waited for stream %" PRIu64 " at or after", a);
	give_block(resource, &x);
	give_block(resource, &y);
	soma_runtime_release(runtime);
	ck_assert_uint_eq(reports.count, 1);
}
END_TEST

START_TEST(a_guard_reports_a_freed_block_once_of_a_launch_that_is_committed)
{
	struct soma_runtime *runtime = open_runtime("backend=guard:host,guard.on_error=callback");
	struct soma_resource *resource = soma_runtime_resource(runtime);
	uint64_t a = runtime_stream(runtime), b = runtime_stream(runtime);
	struct soma_launch launch;

	for (int preflight = 0; preflight < 2; preflight++) {
		struct reports reports = { 0 };
		struct soma_block x = take_block(resource, 1000, a), y = take_block(resource, 1000, b);
		OK(soma_guard_listen(resource, on_report, &reports));
		give_block(resource, &x);
		OK(soma_launch_begin(&launch, resource, b));
		OK(soma_launch_write(&launch, x.id));
		OK(soma_launch_write(&launch, y.id));
		if (preflight)
			ck_assert_int_eq(soma_launch_preflight(&launch), SOMA_STATUS_USE_AFTER_FREE);
		ck_assert_int_eq(soma_launch_commit(&launch), SOMA_STATUS_USE_AFTER_FREE);
		ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_USE_AFTER_FREE);
		ck_assert_int_eq(soma_launch_use(&launch, 0)->status, SOMA_STATUS_USE_AFTER_FREE);
		ck_assert_int_eq(soma_launch_use(&launch, 1)->status, SOMA_STATUS_OK);
		soma_launch_abandon(&launch);
		give_block(resource, &y);
		ck_assert_uint_eq(reports.count, 1);
		ck_assert_str_eq(reports.kind, "use-after-free");
		OK(soma_guard_listen(resource, NULL, NULL));
	}
	soma_runtime_release(runtime);
}
END_TEST

/* Of streams that came and went the backend has counted more than the program sees, and a program's number has the
 * place that it took over in it. */
static void
report_a_race(const char *conf, bool wrapped)
{
	struct soma_runtime *runtime = open_runtime(conf);
	struct soma_resource *resource = soma_runtime_resource(runtime);
	struct reports reports = { 0 };
	uint64_t a = 0, b = 0, native;

	OK(soma_guard_listen(resource, on_report, &reports));
	for (int i = 0; i < 5; i++)
		OK(soma_runtime_stream_release(runtime, runtime_stream(runtime)));
	a = runtime_stream(runtime);
	b = runtime_stream(runtime);
	if (wrapped) {
		OK(soma_runtime_stream_native(runtime, b, &native));
		OK(soma_runtime_stream_wrap(runtime, native, &b));
	}
	struct soma_block x = take_block(resource, 1000, a);
	(void)soma_resource_record_use(resource, x.id, b);
	ck_assert_uint_eq(reports.count, 1);
	expect(reports.text, " second: stream %" PRIu64 " read-write", b);
	expect(reports.text, " missing: stream %" PRIu64 " never waited for", b);
	expect(reports.text, " never waited for stream %" PRIu64 " at or after", a);
	expect(reports.text, " alloc: stream %" PRIu64 " seq", a);
	expect(reports.json, "\"alloc\":{\"stream\":%" PRIu64 ",", a);
	expect(reports.json, "\"now\":{\"stream\":%" PRIu64 ",", b);
	soma_runtime_release(runtime);
}

START_TEST(a_report_has_the_programs_numbers_of_streams)
{
	report_a_race("backend=guard:host,guard.on_error=callback", false);
	report_a_race("backend=guard:host,guard.on_error=callback", true);
}
END_TEST

START_TEST(the_legacy_stream_is_0_in_a_report)
{
	struct soma_runtime *runtime = open_runtime("backend=guard:host,guard.on_error=callback");
	struct soma_resource *resource = soma_runtime_resource(runtime);
	struct reports reports = { 0 };

	OK(soma_guard_listen(resource, on_report, &reports));
	struct soma_block x = take_block(resource, 1000, 0);
	(void)soma_resource_record_use(resource, x.id, runtime_stream(runtime));
	ck_assert_uint_eq(reports.count, 1);
	expect(reports.text, " alloc: stream %" PRIu64 " seq", 0);
	expect(reports.json, "\"alloc\":{\"stream\":%" PRIu64 ",", 0);
	soma_runtime_release(runtime);
}
END_TEST

UNIT_MAIN("launch guard", a_guard_has_nothing_to_say_of_recorded_launches,
	  a_guard_reports_a_freed_block_in_a_launch_once, a_guard_reports_a_launch_without_a_preflight,
	  a_guard_reports_a_freed_block_once_of_a_launch_that_is_committed,
	  a_report_has_the_programs_numbers_of_streams, the_legacy_stream_is_0_in_a_report)

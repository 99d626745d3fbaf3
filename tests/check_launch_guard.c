/* SPDX-License-Identifier: Apache-2.0 */
/* The launch recorder over a guard: its reports. */
#include "tests/runtime_fixture.h"

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

UNIT_MAIN("launch guard", a_guard_has_nothing_to_say_of_recorded_launches,
	  a_guard_reports_a_freed_block_in_a_launch_once)

/* SPDX-License-Identifier: Apache-2.0 */
/* Who hears of a launch: the backend and the trace, each once, whatever came of the preflight. */
#include "tests/runtime_fixture.h"

#include "lib/resource/terminal.h"
#include "tests/check_resource_fake.h"

static unsigned
uses_in(const char *path)
{
	unsigned count = 0;
	char line[256];
	FILE *file = fopen(path, "r");

	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof line, file) != NULL)
		count += strstr(line, ",use,") != NULL;
	fclose(file);
	return count;
}

/* How often the backend and the trace hear of one launch: when the preflight is fine, when there is none, when its
 * wait fails, when the backend objects in it. */
START_TEST(the_backend_and_the_trace_hear_of_a_launch_once)
{
	static const struct {
		bool preflight;
		enum fake_op fails; /* FAKE_OPS: none */
		enum soma_status with;
	} rows[] = {
		{ true, FAKE_OPS, SOMA_STATUS_OK },
		{ false, FAKE_OPS, SOMA_STATUS_OK },
		{ true, FAKE_EVENT_WAIT, SOMA_STATUS_DRIVER },
		{ true, FAKE_BLOCK_USE, SOMA_STATUS_STREAM_MISUSE },
	};
	const char *path = "check_launch_heard.csv";

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct soma_trace_config to = { .size = sizeof to, .path = path };
		struct soma_resource *resource, *trace;
		struct soma_backend *fake = fake_create(FAKE_ORDERED | SOMA_BACKEND_USES, &resource);
		uint64_t a = new_stream(resource), b = new_stream(resource);
		struct soma_backend_stream *on = fake_stream(resource, b);
		struct soma_launch launch;

		OK(soma_trace_create(resource, &to, &trace));
		struct soma_block x = allocate(trace, 100, a);
		OK(soma_launch_begin(&launch, trace, b));
		OK(soma_launch_write(&launch, x.id));
		if (rows[i].fails != FAKE_OPS)
			fake->fail_with[rows[i].fails] = rows[i].with;
		if (rows[i].preflight)
			ck_assert_int_eq(soma_launch_preflight(&launch), rows[i].with);
		if (rows[i].fails != FAKE_OPS)
			fake->fail_with[rows[i].fails] = SOMA_STATUS_OK;
		fake_work(on, 1);
		uint64_t position = on->queued;
		OK(soma_launch_commit(&launch));
		ck_assert_uint_eq(fake_count(fake, FAKE_BLOCK_USE), 1);
		deallocate(trace, &x);
		ck_assert(fake_ordered(fake_stream(resource, a), on, position));
		fake_run_all(fake);
		soma_resource_release(trace);
		soma_resource_release(resource);
		fake_destroy(fake);
		ck_assert_uint_eq(uses_in(path), 1);
	}
	remove(path);
}
END_TEST

UNIT_MAIN("launch heard", the_backend_and_the_trace_hear_of_a_launch_once)

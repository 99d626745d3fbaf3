/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of the guard that end a process: forks, exits.  Each runs in a child. */
#include "config.h"

#include "tests/guard_child.h"

#include <signal.h>
#include <string.h>

#define WRITE SOMA_BACKEND_ACCESS_WRITE

static void
leak_in_child(struct fixture *f)
{
	take(f, 100, NULL);
	pid_t pid = fork();
	if (pid == 0) {
		/* All wrong, and none of it the child's guard's business: a use of what it does not
		 * know, and a leak. */
		ck_assert_int_eq(use(f, output, WRITE, NULL), SOMA_STATUS_OK);
		give(f, take(f, 50, NULL), 50, NULL);
		take(f, 50, NULL);
		exit(0);
	}
	int status;
	_exit(waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1);
}

static void
leak_without_a_driver(struct fixture *f)
{
	take(f, 100, NULL);
	atomic_store(&toy_gone, true);
	exit(0);
}

static void
close_without_a_driver(struct fixture *f)
{
	struct soma_backend_stream *stream = make_stream(f, 0);

	take(f, 100, NULL);
	give(f, take(f, 200, stream), 200, stream);
	atomic_store(&toy_gone, true);
	f->ops->close(f->g);
}

START_TEST(row_31_children_are_silent_and_leaks_are_printed_without_a_driver)
{
	int status;
	const char *text = run_child(leak_in_child, INNER_DIRECT, &status);

	ck_assert_int_eq(status, 0);
	ck_assert_str_eq(text, "");
	static void (*const bodies[])(struct fixture * f) = { leak_without_a_driver, close_without_a_driver };
	for (unsigned i = 0; i < 2; i++) {
		for (int kind = INNER_DIRECT; kind <= INNER_COPIES; kind++) {
			text = run_child(bodies[i], (enum inner_kind)kind, &status);
			ck_assert_msg(status == 0, "%x %s", status, text);
			const char *first = strstr(text, "leak");
			ck_assert_ptr_nonnull(first);
			ck_assert_ptr_null(strstr(first + 1, "ERROR"));
		}
	}
}
END_TEST

#define GUARDS 40
static struct fixture many[GUARDS];

static void *
close_guards(void *context)
{
	(void)context;
	for (int i = GUARDS - 1; i >= 0; i--)
		many[i].ops->close(many[i].g);
	return NULL;
}

static void
exit_while_guards_are_closed(struct fixture *f)
{
	const char *options[] = { "mode", "full", "output", output, "on_error", "report", NULL };
	pthread_t thread;

	(void)f;
	for (int i = 0; i < GUARDS; i++) {
		fixture_open(&many[i], INNER_COPIES, options);
		many[i].ops->guard_listen(many[i].g, NULL, NULL);
		take(&many[i], 100, NULL);
	}
	ck_assert_int_eq(pthread_create(&thread, NULL, close_guards, NULL), 0);
	pthread_detach(thread);
	exit(0);
}

/* The sanitizers see a guard that is looked at when it is gone. */
START_TEST(a_guard_that_is_closed_while_the_process_exits_is_looked_at_before)
{
	int status;

	for (int i = 0; i < 10; i++) {
		const char *text = run_child(exit_while_guards_are_closed, INNER_COPIES, &status);
		ck_assert_msg(status == 0, "%x %s", status, text);
	}
}
END_TEST

START_TEST(an_error_aborts_by_default_and_a_leak_does_not)
{
	struct fixture f;
	const char *options[] = { "on_error", "abort", NULL };

	fixture_open(&f, INNER_DIRECT, options);
	take(&f, 10, NULL);
	fixture_close(&f);
	fixture_open(&f, INNER_DIRECT, options);
	f.ops->free(f.g, 4096, 1, NULL);
}
END_TEST

/* The abort is what is expected of one test; it cannot be in the common list. */
int
main(void)
{
	const TTest *const tests[] = { row_31_children_are_silent_and_leaks_are_printed_without_a_driver,
				       a_guard_that_is_closed_while_the_process_exits_is_looked_at_before };
	Suite *suite = suite_create("guard abort");
	TCase *tcase = tcase_create("abort");

	tcase_set_timeout(tcase, 0);
	tcase_add_test_raise_signal(tcase, an_error_aborts_by_default_and_a_leak_does_not, SIGABRT);
	suite_add_tcase(suite, tcase);
	int failed = unit_run_suite(suite);
	return unit_run("guard ends", tests, sizeof tests / sizeof tests[0]) != 0 || failed != 0;
}

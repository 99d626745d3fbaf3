/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main() of a unit test: every test is its own test case, in its own process.
 *
 *   UNIT_MAIN("arena", alignment_is_honoured, zeroed_memory_reads_zero)
 */
#ifndef SOMA_TESTS_UNIT_H
#define SOMA_TESTS_UNIT_H

#include <check.h>
#include <stdlib.h>

/* What automake takes as "skipped". */
#define UNIT_SKIPPED 77

/* Runs the suite to its end; the exit status of the program. */
static inline int
unit_run_suite(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static inline int
unit_run(const char *name, const TTest *const *tests, size_t count)
{
	Suite *suite = suite_create(name);

	for (size_t i = 0; i < count; i++) {
		TCase *tcase = tcase_create(tests[i]->name);
		tcase_set_timeout(tcase, 0); /* how long a test takes is not what it tests */
		tcase_add_test(tcase, tests[i]);
		suite_add_tcase(suite, tcase);
	}
	return unit_run_suite(suite);
}

#define UNIT_MAIN(name, ...)                                                  \
	int main(void)                                                        \
	{                                                                     \
		const TTest *const tests[] = { __VA_ARGS__ };                 \
		return unit_run(name, tests, sizeof tests / sizeof tests[0]); \
	}

#endif

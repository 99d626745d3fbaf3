/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs: each is run, once, whatever threads there are.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "tests/unit.h"
#include "tools/jobs.h"

#define COUNT 200

static _Atomic unsigned runs[COUNT], waits, elsewhere;
static pthread_t caller;

static void
run(void *context)
{
	(*(_Atomic unsigned *)context)++;
	elsewhere += !pthread_equal(pthread_self(), caller);
}

static void
wait_once(void *context)
{
	(*(_Atomic unsigned *)context)++;
}

static void
run_all(size_t count)
{
	struct job jobs[COUNT];

	caller = pthread_self();
	elsewhere = 0;
	for (size_t i = 0; i < COUNT; i++) {
		runs[i] = 0;
		jobs[i] = (struct job){ run, &runs[i] };
	}
	jobs_run(jobs, count, wait_once, &waits);
	for (size_t i = 0; i < COUNT; i++)
		ck_assert_uint_eq(runs[i], i < count);
}

START_TEST(each_is_run_once)
{
	for (size_t count = 0; count <= COUNT; count += 1 + count / 3)
		run_all(count);
	run_all(COUNT);
	ck_assert_uint_eq(elsewhere, COUNT);
}
END_TEST

/* Holds its worker until the caller has been told that time goes by. */
static void
run_until_waited(void *context)
{
	while (waits == 0)
		;
	run(context);
}

START_TEST(the_caller_is_told_while_it_waits)
{
	struct job job = { run_until_waited, &runs[0] };

	waits = 0;
	runs[0] = 0;
	jobs_run(&job, 1, wait_once, &waits);
	ck_assert_uint_eq(runs[0], 1);
	ck_assert_uint_gt(waits, 0);
}
END_TEST

/* No address space for a stack. */
START_TEST(without_threads_the_caller_runs_them)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	struct rlimit limit = { 1 << 20, 1 << 20 };

	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	run_all(COUNT);
	ck_assert_uint_eq(elsewhere, 0);
#endif
}
END_TEST

UNIT_MAIN("jobs", each_is_run_once, the_caller_is_told_while_it_waits, without_threads_the_caller_runs_them)

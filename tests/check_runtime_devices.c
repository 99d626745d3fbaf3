/* SPDX-License-Identifier: Apache-2.0 */
/* The one runtime of a device, from many threads. */
#include "tests/runtime_fixture.h"

#include <pthread.h>

#include <soma/log.h>

#include "tests/check_resource_sanitizer.h"

#define THREADS 8
#define ROUNDS 40

/* plain has four devices, and says when it is opened and closed. */
#define CONF "backend=plain,backend_path=" RUNTIME_FOLDERS

static _Atomic int opened, closed;

static void
hear(void *context, enum soma_log_level level, const char *text)
{
	(void)context, (void)level;
	if (strcmp(text, "backend plain: opened") == 0)
		atomic_fetch_add(&opened, 1);
	if (strcmp(text, "backend plain: closed") == 0)
		atomic_fetch_add(&closed, 1);
}

static void
configure(const char *conf)
{
	setenv("SOMA_CONF", conf, 1);
	soma_log_set_sink(hear, NULL, SOMA_LOG_INFO);
}

START_TEST(a_device_has_one_runtime)
{
	struct soma_runtime *first, *second, *other;

	configure(CONF ",device=3,budget=1M");
	OK(soma_runtime_for_device(0, &first));
	OK(soma_runtime_for_device(0, &second));
	OK(soma_runtime_for_device(2, &other));
	ck_assert_ptr_eq(first, second);
	ck_assert_ptr_ne(first, other);
	ck_assert_int_eq(soma_runtime_device(first), 0);
	ck_assert_int_eq(soma_runtime_device(other), 2);
	ck_assert_uint_eq(soma_budget_limit(soma_runtime_resource(other)), 1 << 20);
	soma_runtime_release(first);
	ck_assert_int_eq(atomic_load(&closed), 0);
	soma_runtime_release(second);
	ck_assert_int_eq(atomic_load(&closed), 1);
	soma_runtime_release(other);
	ck_assert_int_eq(atomic_load(&opened), 2);
	ck_assert_int_eq(atomic_load(&closed), 2);
}
END_TEST

START_TEST(a_new_one_is_opened_after_the_last_release)
{
	struct soma_runtime *runtime, *own;

	configure(CONF);
	for (int i = 1; i <= 3; i++) {
		OK(soma_runtime_for_device(0, &runtime));
		OK(soma_runtime_open(NULL, &own)); /* not the device's one */
		ck_assert_ptr_ne(own, runtime);
		ck_assert_int_eq(atomic_load(&opened), 2 * i);
		soma_runtime_release(own);
		soma_runtime_retain(runtime);
		soma_runtime_release(runtime);
		soma_runtime_release(runtime);
		ck_assert_int_eq(atomic_load(&closed), 2 * i);
	}
}
END_TEST

START_TEST(a_device_that_is_not_there_is_an_error)
{
	struct soma_runtime *runtime;

	configure(CONF);
	ck_assert_int_eq(soma_runtime_for_device(-1, &runtime), SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(soma_error_last()->text, "device -1: expected 0 or more");
	ck_assert_int_eq(soma_runtime_for_device(4, &runtime), SOMA_STATUS_NOT_FOUND);
	ck_assert_str_eq(soma_error_last()->text, "backend plain: there are 4 devices");
	configure("bugdet=1");
	ck_assert_int_eq(soma_runtime_for_device(0, &runtime), SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(soma_error_last()->text,
			 "SOMA_CONF, character 1: there is no option \"bugdet\"; the nearest is \"budget\"");
	configure(CONF);
	OK(soma_runtime_for_device(0, &runtime));
	soma_runtime_release(runtime);
}
END_TEST

/* ---- threads ---------------------------------------------------------------------- */

struct meeting {
	pthread_barrier_t barrier;
	struct soma_runtime *found[THREADS];
	_Atomic int next;
	int device;
};

static void *
meet(void *context)
{
	struct meeting *meeting = context;
	int me = atomic_fetch_add(&meeting->next, 1);

	pthread_barrier_wait(&meeting->barrier);
	if (soma_runtime_for_device(meeting->device, &meeting->found[me]) != SOMA_STATUS_OK)
		meeting->found[me] = NULL;
	pthread_barrier_wait(&meeting->barrier); /* all have it before one gives it back */
	soma_runtime_release(meeting->found[me]);
	return NULL;
}

static void
run_threads(void *(*run)(void *context), void *context)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run, context), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

START_TEST(threads_that_ask_at_once_get_the_same)
{
	configure(CONF);
	for (int round = 0; round < ROUNDS; round++) {
		struct meeting meeting = { .device = round % 4 };
		pthread_barrier_init(&meeting.barrier, NULL, THREADS);
		run_threads(meet, &meeting);
		for (int i = 0; i < THREADS; i++) {
			ck_assert_ptr_nonnull(meeting.found[i]);
			ck_assert_ptr_eq(meeting.found[i], meeting.found[0]);
		}
		ck_assert_int_eq(atomic_load(&opened), round + 1);
		ck_assert_int_eq(atomic_load(&closed), round + 1);
		pthread_barrier_destroy(&meeting.barrier);
	}
}
END_TEST

static _Atomic int failures;

/* The budget is the runtime's: with two of them for a device both blocks would fit. */
static void *
come_and_go(void *context)
{
	(void)context;
	for (int i = 0; i < 25 * ROUNDS; i++) {
		struct soma_runtime *runtime;
		struct soma_block block = { .size = sizeof block };
		if (soma_runtime_for_device(i % 2, &runtime) != SOMA_STATUS_OK) {
			atomic_fetch_add(&failures, 1);
			continue;
		}
		if (soma_resource_allocate(soma_runtime_resource(runtime), 100, 0, &block) == SOMA_STATUS_OK)
			soma_resource_deallocate(soma_runtime_resource(runtime), &block);
		else
			atomic_fetch_add(&failures, 1);
		soma_runtime_release(runtime);
	}
	return NULL;
}

START_TEST(runtimes_come_and_go_among_threads)
{
	configure(CONF ",budget=1M");
	run_threads(come_and_go, NULL);
	ck_assert_int_eq(atomic_load(&failures), 0);
	ck_assert_int_gt(atomic_load(&opened), 0);
	ck_assert_int_eq(atomic_load(&closed), atomic_load(&opened));
}
END_TEST

static void *
ask_in_vain(void *context)
{
	struct soma_runtime *runtime;
	(void)context;

	for (int i = 0; i < ROUNDS; i++) {
		soma_error_clear();
		if (soma_runtime_for_device(9, &runtime) != SOMA_STATUS_NOT_FOUND ||
		    strcmp(soma_error_last()->text, "backend plain: there are 4 devices") != 0)
			atomic_fetch_add(&failures, 1);
	}
	return NULL;
}

START_TEST(each_thread_gets_the_error_of_a_failing_open)
{
	configure(CONF);
	run_threads(ask_in_vain, NULL);
	ck_assert_int_eq(atomic_load(&failures), 0);
}
END_TEST

UNIT_MAIN("runtime devices", a_device_has_one_runtime, a_new_one_is_opened_after_the_last_release,
	  a_device_that_is_not_there_is_an_error, threads_that_ask_at_once_get_the_same,
	  runtimes_come_and_go_among_threads, each_thread_gets_the_error_of_a_failing_open)

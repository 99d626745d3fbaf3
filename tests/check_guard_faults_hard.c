/* SPDX-License-Identifier: Apache-2.0 */
/* Bad accesses where telling of them is hard: in sandboxes, and by threads that end.  Each ends a child. */
#include "config.h"

#include "tests/guard_child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static volatile unsigned char sink;

static void
touch_freed(struct fixture *f)
{
	unsigned char *p = take(f, 4096, NULL);

	give(f, p, 4096, NULL);
	sink = p[17];
}

static void
end_process(int number)
{
	(void)number;
	syscall(SYS_exit_group, 3); /* _exit() of a sanitizer may open files */
}

/* With a handler of the program's own, which ends it so. */
static const char *
run_ended(void (*body)(struct fixture *f), int *status)
{
	struct sigaction before, own = { .sa_handler = end_process };

	ck_assert_int_eq(sigaction(SIGSEGV, &own, &before), 0);
	const char *text = run_child(body, INNER_DIRECT, status);
	ck_assert_int_eq(sigaction(SIGSEGV, &before, NULL), 0);
	return text;
}

/* From now on that is what comes of opening a file. */
static void
forbid_opening(unsigned answer)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof filter / sizeof filter[0], .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(77);
}

static void
touch_freed_where_opening_fails(struct fixture *f)
{
	forbid_opening(SECCOMP_RET_ERRNO | EACCES);
	touch_freed(f);
}

static void
touch_freed_where_opening_kills(struct fixture *f)
{
	forbid_opening(SECCOMP_RET_KILL_PROCESS);
	touch_freed(f);
}

START_TEST(in_a_sandbox_that_lets_nothing_be_opened_a_fault_is_told)
{
	int status;
	const char *text = run_ended(touch_freed_where_opening_fails, &status);

	if (status == 77 << 8)
		return; /* no filters here */
	ck_assert_int_eq(status, 3 << 8);
	ck_assert_msg(strstr(text, "\n free:\n    #0 0x") != NULL, "%s", text);
	ck_assert_msg(strstr(text, " (/") == NULL, "%s", text);
	text = run_ended(touch_freed_where_opening_kills, &status);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	ck_assert_msg(strstr(text, "ERROR access-after-free  read of 0x") != NULL, "%s", text);
	ck_assert_msg(strstr(text, "offset +17 of block") != NULL, "%s", text);
}
END_TEST

/* All of the report, up to its last line. */
static void
expect_whole(const char *text, int status)
{
	const char *freed = strstr(text, "\n free:\n    #0 0x");

	ck_assert_int_eq(status, 3 << 8);
	ck_assert_msg(freed != NULL && strstr(freed, " (/") != NULL, "%s", text);
	ck_assert_msg(strstr(text, " found by: fault (SIGSEGV), tid ") != NULL, "%s", text);
}

static struct fixture kept; /* for a thread that outlives who opened it */

static void *
touch_cancelled(void *context)
{
	(void)context;
	unsigned char *p = take(&kept, 4096, NULL);

	give(&kept, p, 4096, NULL);
	pthread_cancel(pthread_self());
	sink = p[17];
	return NULL;
}

static void
touch_by_cancelled_thread(struct fixture *f)
{
	pthread_t thread;

	kept = *f;
	ck_assert_int_eq(pthread_create(&thread, NULL, touch_cancelled, NULL), 0);
	pthread_join(thread, NULL);
}

START_TEST(the_fault_of_a_thread_that_is_to_be_cancelled_is_told)
{
	int status;
	const char *text = run_ended(touch_by_cancelled_thread, &status);

	expect_whole(text, status);
}
END_TEST

/* The first thread has ended when the process has no mappings by its number. */
static void *
touch_alone(void *context)
{
	unsigned char *p = take(&kept, 4096, NULL);
	char byte;

	(void)context;
	for (ssize_t n = 1; n > 0;) {
		int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
		n = file >= 0 ? read(file, &byte, 1) : 0;
		if (file >= 0)
			close(file);
		sched_yield();
	}
	give(&kept, p, 4096, NULL);
	sink = p[17];
	return NULL;
}

static void
touch_after_main(struct fixture *f)
{
	pthread_t thread;

	kept = *f;
	ck_assert_int_eq(pthread_create(&thread, NULL, touch_alone, NULL), 0);
	pthread_exit(NULL);
}

START_TEST(a_fault_after_the_first_thread_has_ended_names_files)
{
	int status;
	const char *text = run_ended(touch_after_main, &status);

	expect_whole(text, status);
}
END_TEST

UNIT_MAIN("guard faults, the hard ones", in_a_sandbox_that_lets_nothing_be_opened_a_fault_is_told,
	  the_fault_of_a_thread_that_is_to_be_cancelled_is_told,
	  a_fault_after_the_first_thread_has_ended_names_files)

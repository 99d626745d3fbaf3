/* SPDX-License-Identifier: Apache-2.0 */
/* lib/base/log: who gets which message; and what lib/arena has to say. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/arena/arena.h"
#include "lib/base/log.h"
#include "tests/unit.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

struct heard {
	int count;
	enum soma_log_level level;
	char text[600];
};

static void
hear(void *context, enum soma_log_level level, const char *text)
{
	struct heard *heard = context;

	heard->count++;
	heard->level = level;
	snprintf(heard->text, sizeof heard->text, "%s", text);
	errno = EIO;
}

START_TEST(without_a_sink_nothing_is_formatted)
{
	int length = -1;

	soma__log(SOMA_LOG_ERROR, "text%n", &length);
	ck_assert_int_eq(length, -1);
}
END_TEST

START_TEST(a_sink_gets_messages_up_to_its_level)
{
	struct heard heard = { 0 };

	soma_log_set_sink(hear, &heard, SOMA_LOG_WARNING);
	soma__log(SOMA_LOG_INFO, "info");
	soma__log(SOMA_LOG_DEBUG, "debug");
	ck_assert_int_eq(heard.count, 0);
	soma__log(SOMA_LOG_WARNING, "%s of %d", "one", 3);
	ck_assert_int_eq(heard.count, 1);
	ck_assert_int_eq(heard.level, SOMA_LOG_WARNING);
	ck_assert_str_eq(heard.text, "one of 3");
	soma__log(SOMA_LOG_ERROR, "error");
	ck_assert_int_eq(heard.count, 2);
	ck_assert_int_eq(heard.level, SOMA_LOG_ERROR);
	soma_log_set_sink(hear, &heard, SOMA_LOG_DEBUG);
	soma__log(SOMA_LOG_DEBUG, "debug");
	ck_assert_int_eq(heard.count, 3);
}
END_TEST

START_TEST(null_stops_the_messages)
{
	struct heard heard = { 0 };

	soma_log_set_sink(hear, &heard, SOMA_LOG_DEBUG);
	soma_log_set_sink(NULL, NULL, SOMA_LOG_DEBUG);
	soma__log(SOMA_LOG_ERROR, "unheard");
	ck_assert_int_eq(heard.count, 0);
}
END_TEST

START_TEST(a_long_message_is_cut_and_errno_kept)
{
	struct heard heard = { 0 };
	char longer[2000];

	memset(longer, 'x', sizeof longer);
	longer[1999] = '\0';
	soma_log_set_sink(hear, &heard, SOMA_LOG_DEBUG);
	errno = ENOENT;
	soma__log(SOMA_LOG_INFO, "%s", longer);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_uint_eq(strlen(heard.text), 511);
}
END_TEST

static atomic_int pairs_wrong, calls;
static int left, right;

static void
hear_left(void *context, enum soma_log_level level, const char *text)
{
	(void)level, (void)text;
	calls++;
	pairs_wrong += context != &left;
}

static void
hear_right(void *context, enum soma_log_level level, const char *text)
{
	(void)level, (void)text;
	calls++;
	pairs_wrong += context != &right;
}

static void *
talk(void *stop)
{
	while (!atomic_load((atomic_bool *)stop))
		soma__log(SOMA_LOG_INFO, "talk");
	return NULL;
}

START_TEST(a_sink_never_gets_anothers_context)
{
	atomic_bool stop = false;
	pthread_t thread;

	soma_log_set_sink(hear_left, &left, SOMA_LOG_INFO);
	ck_assert_int_eq(pthread_create(&thread, NULL, talk, &stop), 0);
	while (calls < 1000) {
		soma_log_set_sink(hear_right, &right, SOMA_LOG_INFO);
		soma_log_set_sink(hear_left, &left, SOMA_LOG_INFO);
	}
	atomic_store(&stop, true);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(pairs_wrong, 0);
}
END_TEST

/* ---- what is logged ------------------------------------------------------ */

static struct soma__arena *
new_arena(void)
{
	struct soma__arena *arena;

	ck_assert_int_eq(soma__arena_create(&arena), SOMA_STATUS_OK);
	return arena;
}

START_TEST(the_log_says_once_what_pages_a_large_owner_is_on)
{
	struct soma__arena *arena = new_arena();
	struct heard heard = { 0 };

	soma_log_set_sink(hear, &heard, SOMA_LOG_INFO);
	for (unsigned i = 0; i < 3 * MIB / (100 * KIB); i++)
		ck_assert_ptr_nonnull(soma__arena_alloc(arena, 100 * KIB, 0));
	ck_assert_uint_eq((unsigned)heard.count, 0);
	for (unsigned i = 0; i < 40 * MIB / (100 * KIB); i++)
		ck_assert_ptr_nonnull(soma__arena_alloc(arena, 100 * KIB, 0));
	soma_log_set_sink(NULL, NULL, SOMA_LOG_INFO);
	ck_assert_uint_eq((unsigned)heard.count, 1);
	ck_assert_int_eq(heard.level, SOMA_LOG_INFO);
	ck_assert_ptr_nonnull(strstr(heard.text, "beyond 4 MiB"));
	ck_assert_ptr_nonnull(strstr(heard.text, " pages"));
	soma__arena_destroy(arena);
}
END_TEST

START_TEST(pages_that_cannot_be_looked_at_are_an_error_and_a_warning)
{
	struct soma__arena *arena = new_arena();
	struct rlimit limit = { 0 };
	struct heard heard = { 0 };
	struct soma_memory_info info;

	soma_log_set_sink(hear, &heard, SOMA_LOG_WARNING);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	enum soma_status status = soma__arena_info(arena, &info);
	limit.rlim_cur = limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	soma_log_set_sink(NULL, NULL, SOMA_LOG_INFO);
	ck_assert_int_eq(status, SOMA_STATUS_IO);
	ck_assert_uint_eq((unsigned)heard.count, 1);
	ck_assert_int_eq(heard.level, SOMA_LOG_WARNING);
	ck_assert_ptr_nonnull(strstr(heard.text, "/proc/self/smaps"));
	soma__arena_destroy(arena);
}
END_TEST

UNIT_MAIN("log", without_a_sink_nothing_is_formatted, a_sink_gets_messages_up_to_its_level,
	  null_stops_the_messages, a_long_message_is_cut_and_errno_kept, a_sink_never_gets_anothers_context,
	  the_log_says_once_what_pages_a_large_owner_is_on,
	  pages_that_cannot_be_looked_at_are_an_error_and_a_warning)

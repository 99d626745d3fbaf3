/* SPDX-License-Identifier: Apache-2.0 */
/* A guard in a child that ends with it, and what was written there. */
#ifndef SOMA_TESTS_GUARD_CHILD_H
#define SOMA_TESTS_GUARD_CHILD_H

#include "tests/check_guard_support.h"
#include "tests/unit.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static char output[64], json[64]; /* files of the child's guard */

/* Opens the guard and runs in it. */
static inline void
run_guarded(void (*body)(struct fixture *f), enum inner_kind kind)
{
	const char *options[] = {
		"mode", "full", "output", output, "json", json, "on_error", "report", NULL
	};
	struct fixture f;

	fixture_open(&f, kind, options);
	f.ops->guard_listen(f.g, NULL, NULL);
	body(&f);
	_exit(0);
}

static inline void
take_file(const char *name, char *text, size_t size)
{
	FILE *file = fopen(name, "r");
	size_t n = file == NULL ? 0 : fread(text, 1, size - 1, file);

	text[n] = '\0';
	if (file != NULL)
		fclose(file);
	unlink(name);
}

static char child_json[32768];

/* What the child's guard wrote, and in child_json. */
static inline const char *
end_child(pid_t pid, int *status)
{
	static char text[32768];

	ck_assert_int_eq(waitpid(pid, status, 0), pid);
	take_file(output, text, sizeof text);
	take_file(json, child_json, sizeof child_json);
	return text;
}

static inline void
begin_child(void)
{
	snprintf(output, sizeof output, "guard-rows-%ld.txt", (long)getpid());
	snprintf(json, sizeof json, "guard-rows-%ld.json", (long)getpid());
	unlink(output);
	unlink(json);
	fflush(NULL);
}

static inline const char *
run_child(void (*body)(struct fixture *f), enum inner_kind kind, int *status)
{
	begin_child();
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		run_guarded(body, kind);
	return end_child(pid, status);
}

/* The children end with all that they hold, which is no leak of the tests. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *
__asan_default_options(void)
{
	return "detect_leaks=0";
}

#endif

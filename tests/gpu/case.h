/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases, each in a process of its own: an error of a device that stays does not reach the next one.  The parent never
 * calls the driver.  A result is a line: name, backend, "ok", "FAIL" or "skipped", and the detail, with
 * tabs between them.
 */
#ifndef SOMA_TESTS_GPU_CASE_H
#define SOMA_TESTS_GPU_CASE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/gpu/gpu.h"

enum case_where {
	CASE_PLAIN = 1,   /* async, sync */
	CASE_GUARDED = 2, /* guard:async, guard:sync */
	CASE_WRONG = 4,   /* a kernel of it goes where it must not: not for another checker of memory */
};

struct case_setup {
	const char *backend; /* "guard:async" */
	const char *folders; /* of modules; NULL: where they were installed */
	int device;
	bool is_async;
	bool is_guarded;
	bool quick; /* fewer rounds */
};

struct case_entry {
	const char *name;
	unsigned where; /* of enum case_where */
	void (*run)(struct gpu *gpu, const struct case_setup *setup);
};

/* Ends the case. */
void case_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void case_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* What is said besides "ok". */
void case_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CASE_EXPECT(condition)                                                          \
	do {                                                                            \
		if (!(condition))                                                       \
			case_fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition); \
	} while (0)

/* The main() of a program of cases: usage in case.c.  Returns its exit status. */
int case_main(int argc, char **argv, const struct case_entry *cases, size_t count);

#endif

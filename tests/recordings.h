/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of real runs, which are not part of the tree: tests that need them are in
 * programs of their own, which are skipped where they are not.  The environment's
 * SOMA_TEST_TRACES names their folder; `make check` sets it when it is not set.
 */
#ifndef SOMA_TESTS_RECORDINGS_H
#define SOMA_TESTS_RECORDINGS_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit.h"

/* The path of one of them. */
static inline const char *
recording_path(char *path, size_t size, const char *file)
{
	const char *folder = getenv("SOMA_TEST_TRACES");

	snprintf(path, size, "%s/%s", folder != NULL ? folder : "", file);
	return path;
}

/* UNIT_MAIN() of a program that is skipped without them. */
#define RECORDINGS_MAIN(name, ...)                                                                  \
	int main(void)                                                                              \
	{                                                                                           \
		const TTest *const tests[] = { __VA_ARGS__ };                                       \
		char path[4096];                                                                    \
		if (access(recording_path(path, sizeof path, "finetune-full.pickle"), R_OK) != 0) { \
			printf("skipped: no %s (SOMA_TEST_TRACES)\n", path);                        \
			return UNIT_SKIPPED;                                                        \
		}                                                                                   \
		return unit_run(name, tests, sizeof tests / sizeof tests[0]);                       \
	}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test suite as JUnit XML, which continuous integration shows.
 */
#ifndef SOMA_TOOLS_JUNIT_H
#define SOMA_TOOLS_JUNIT_H

#include <stdbool.h>
#include <stddef.h>

struct junit_case {
	const char *name;
	const char *failure; /* one line; NULL: it passed */
	const char *detail;  /* within the failure; may be NULL */
};

/* error: why there is no answer, or not all of it; NULL: there is.  Texts are any bytes.
 * false: it could not be written. */
bool junit_write(const char *path, const char *suite, const struct junit_case *cases, size_t count,
		 const char *error);

#endif

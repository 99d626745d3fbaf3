/* SPDX-License-Identifier: Apache-2.0 */
/* What the last error says. */
#ifndef SOMA_TESTS_SAID_H
#define SOMA_TESTS_SAID_H

#include <string.h>

#include <soma/status.h>

#include "tests/unit.h"

/* Every part must be in the text of the last error. */
static inline void
assert_said(const char *a, const char *b)
{
	const char *text = soma_error_last()->text;

	ck_assert_msg(strstr(text, a) != NULL, "\"%s\" does not say \"%s\"", text, a);
	ck_assert_msg(strstr(text, b) != NULL, "\"%s\" does not say \"%s\"", text, b);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is near enough for "did you mean".
 */
#include <string.h>

#include "tools/command.h"

/* Beyond this many edits a name is no misspelling of a short one. */
#define NEAR_MAX 4

const char *
nearest_name(const char *text, soma__name_list *name_at, const void *names)
{
	size_t length = strlen(text), limit = length / 3 + 2;

	return soma__name_nearest(text, length, name_at, names, limit < NEAR_MAX ? limit : NEAR_MAX);
}

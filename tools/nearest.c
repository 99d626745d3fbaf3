/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest of some names, for error messages.
 */
#include <string.h>

#include "lib/base/nearest.h"
#include "tools/command.h"

/* Beyond this many edits a name is no misspelling of a short one. */
#define NEAR_MAX 4

const char *
nearest_name(const char *text, const char *(*name_at)(const void *names, size_t index), const void *names)
{
	const char *name, *best = NULL;
	size_t length = strlen(text), best_distance = length / 3 + 2;

	if (best_distance > NEAR_MAX)
		best_distance = NEAR_MAX;
	for (size_t i = 0; (name = name_at(names, i)) != NULL; i++) {
		bool begins = length >= 2 && strncmp(text, name, length) == 0;
		size_t d = begins ? 1 : soma__name_distance(text, length, name);

		if (d < best_distance) {
			best = name;
			best_distance = d;
		}
	}
	return best;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Edit distance with swaps of neighbours, by the usual table, three rows of it. */
#include "lib/base/nearest.h"

#include <stdbool.h>
#include <string.h>

#define LENGTH_MAX 47
#define EDITS_MAX 4

static size_t
least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t
soma__name_distance(const char *a, size_t length, const char *b)
{
	size_t rows[3][LENGTH_MAX + 1];
	size_t *before = rows[0], *above = rows[1], *row = rows[2];
	size_t m = least(length, LENGTH_MAX), n = strnlen(b, LENGTH_MAX);

	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; i <= m; i++) {
		size_t *spare = before;
		before = above;
		above = row;
		row = spare;
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			row[j] =
				least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
	}
	return row[n];
}

size_t
soma__name_limit(size_t length)
{
	return least(length / 3 + 2, EDITS_MAX);
}

const char *
soma__name_near(const char *text, size_t length, soma__name_list *name_at, const void *names)
{
	const char *name, *best = NULL;
	size_t limit = soma__name_limit(length);

	for (size_t i = 0; (name = name_at(names, i)) != NULL; i++) {
		bool begins = length >= 2 && strncmp(text, name, length) == 0;
		size_t distance = begins ? 1 : soma__name_distance(text, length, name);

		if (distance < limit) {
			best = name;
			limit = distance;
		}
	}
	return best;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest of some names by edit distance (insert, delete, replace, swap of
 * neighbours), for error messages.
 */
#include <string.h>

#include "tools/command.h"

#define LENGTH_MAX 40

static unsigned
least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static unsigned
distance(const char *a, const char *b)
{
	size_t m = strlen(a), n = strlen(b);
	unsigned d[LENGTH_MAX + 1][LENGTH_MAX + 1];

	if (m > LENGTH_MAX || n > LENGTH_MAX)
		return LENGTH_MAX;
	for (unsigned i = 0; i <= m; i++)
		d[i][0] = i;
	for (unsigned j = 0; j <= n; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= m; i++) {
		for (size_t j = 1; j <= n; j++) {
			unsigned replaced = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, replaced);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[m][n];
}

const char *
nearest_name(const char *text, const char *(*name_at)(const void *names, size_t index), const void *names)
{
	const char *name, *best = NULL;
	unsigned best_distance = (unsigned)least((unsigned)strlen(text), LENGTH_MAX) / 3 + 2;

	for (size_t i = 0; (name = name_at(names, i)) != NULL; i++) {
		unsigned d = distance(text, name);
		bool prefix = strlen(text) >= 2 && strncmp(text, name, strlen(text)) == 0;

		if (prefix)
			d = 1;
		if (d < best_distance) {
			best = name;
			best_distance = d;
		}
	}
	return best;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs that repeat a measurement make of the rounds. */
#ifndef SOMA_BENCH_ROUNDS_H
#define SOMA_BENCH_ROUNDS_H

#include <stddef.h>
#include <stdlib.h>

static inline int
rounds_ascending(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static inline void
rounds_sort(double *values, size_t count)
{
	qsort(values, count, sizeof values[0], rounds_ascending);
}

/* Sorts them. */
static inline double
rounds_median(double *values, size_t count)
{
	rounds_sort(values, count);
	return values[count / 2];
}

#endif

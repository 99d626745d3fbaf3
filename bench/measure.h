/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running the plan: every repetition is a fresh process of a peer, the contenders of
 * a scenario take turns, and one that cannot run is left out with its reason.
 */
#ifndef SOMA_BENCH_MEASURE_H
#define SOMA_BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/plan.h"

#define REPEATS_MAX 99

struct measure_options {
	const char *peers; /* the directory of the peer executables */
	const char *trace; /* for pattern c; NULL: leave it out */
	const char *only;  /* scenarios whose text begins so; NULL: all */
	unsigned repeats;
	bool quick; /* once, a tenth of the blocks and steps: no figures to quote */
};

struct figures {
	unsigned count;         /* repetitions; 0: not measured */
	double ns[REPEATS_MAX]; /* per pair, ascending */
	double peak_ratio;      /* peak address over peak live; 0: not tracked */
	double bytes_per_block; /* 0: unknown */
};

struct measured {
	struct figures at[SCENARIO_COUNT][CONTENDER_COUNT];
	const char *left_out[CONTENDER_COUNT + SCENARIO_COUNT]; /* lines to print */
	size_t left_out_count;
};

/* False when a peer failed; it said why. */
bool measure_plan(const struct measure_options *options, struct measured *measured);

double figures_median(const struct figures *figures);

#endif

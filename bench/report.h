/* SPDX-License-Identifier: Apache-2.0 */
/* The table that `make bench` prints: for people, or as CSV. */
#ifndef SOMA_BENCH_REPORT_H
#define SOMA_BENCH_REPORT_H

#include "bench/measure.h"

void report_text(const struct measure_options *options, const struct measured *measured);

/* One table: rows "measure" with the figures, rows "target" with the verdicts; cells
 * that do not apply are empty. */
void report_csv(const struct measure_options *options, const struct measured *measured);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorded trace as a cycle of operations: the blocks that are live at its end are
 * freed there, so that it can be repeated.  Streams and events are left out; frees of
 * blocks that the trace does not allocate are skipped.
 */
#ifndef SOMA_BENCH_TRACE_OPS_H
#define SOMA_BENCH_TRACE_OPS_H

#include <stddef.h>

#include "bench/workload.h"

/* Reads `path`.  NULL when it cannot, with the reason on standard error.  The caller
 * frees the array. */
struct bench_op *trace_ops_read(const char *path, size_t *count);

#endif

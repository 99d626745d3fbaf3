/* SPDX-License-Identifier: Apache-2.0 */
/* What the reader and the writer of soma's own trace agree on. */
#ifndef SOMA_TOOLS_TRACE_SOMACSV_H
#define SOMA_TOOLS_TRACE_SOMACSV_H

#define TRACE_SOMA_COLUMNS 10          /* that every file has */
#define TRACE_SOMA_COLUMNS_POOLS 11    /* those and the pool */
#define TRACE_SOMA_DEFERRED "deferred" /* the detail of a free that completes later */
/* The detail of what was there before the first event; behind semicolons: of a segment, that it is
 * of the small pool; of a block, the bytes that it takes, and that it was freed and not complete. */
#define TRACE_SOMA_START "start"
#define TRACE_SOMA_SMALL "small"
#define TRACE_SOMA_PENDING "pending"

extern const char *const trace_soma_columns[TRACE_SOMA_COLUMNS_POOLS];

#endif

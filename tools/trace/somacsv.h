/* SPDX-License-Identifier: Apache-2.0 */
/* What the reader and the writer of soma's own trace agree on. */
#ifndef SOMA_TOOLS_TRACE_SOMACSV_H
#define SOMA_TOOLS_TRACE_SOMACSV_H

#define TRACE_SOMA_COLUMNS 10          /* that every file has */
#define TRACE_SOMA_COLUMNS_POOLS 11    /* those and the pool */
#define TRACE_SOMA_DEFERRED "deferred" /* the detail of a free that completes later */

extern const char *const trace_soma_columns[TRACE_SOMA_COLUMNS_POOLS];

#endif

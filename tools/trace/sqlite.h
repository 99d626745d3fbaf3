/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite databases in traces: opened to be read and nothing else, through the trace's own
 * input, so that neither the file nor its folder is written to, whatever the file says.
 */
#ifndef SOMA_TOOLS_TRACE_SQLITE_H
#define SOMA_TOOLS_TRACE_SQLITE_H

#include <sqlite3.h>

#include "tools/trace/reader.h"

/* Opens the whole input, unpacked if need be.  On failure *database is NULL. */
enum trace_result trace_sqlite_open(struct trace_reader *reader, sqlite3 **database);

/* After trace_sqlite_open() alone; all statements are finalized. */
void trace_sqlite_close(sqlite3 *database);

/* "PATH: WHAT: what SQLite says"; TRACE_ERROR. */
enum trace_result trace_sqlite_fail(struct trace_reader *reader, int status, const char *what);

#endif

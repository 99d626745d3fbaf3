/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving a message to the sink of <soma/log.h>.  Costs one atomic load when nobody
 * listens at that level.  Safe from any thread; not from a signal handler.
 */
#ifndef SOMA_LIB_BASE_LOG_H
#define SOMA_LIB_BASE_LOG_H

#include <soma/log.h>

/* One line without a newline; cut at 511 bytes.  errno is kept. */
void soma__log(enum soma_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

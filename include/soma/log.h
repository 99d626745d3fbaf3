/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the library's messages go.
 *
 * soma prints nothing by itself: without a sink, messages are dropped before they
 * are formatted.
 *
 * Thread safety: soma_log_set_sink() may be called at any time; a sink may be called
 * from any thread, and by two at once.
 *
 * Ownership: the context is the caller's.  A message that is on its way while the sink is
 * replaced may still reach the old one, so what that uses must stay.
 *
 * Since 0.1.
 */
#ifndef SOMA_LOG_H
#define SOMA_LOG_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum soma_log_level {
	SOMA_LOG_ERROR = 0,
	SOMA_LOG_WARNING = 1,
	SOMA_LOG_INFO = 2,
	SOMA_LOG_DEBUG = 3,
};

/* text is one line without a newline, valid during the call.  A sink must not call
 * soma functions. */
typedef void soma_log_sink(void *context, enum soma_log_level level, const char *text);

/* Messages up to and including `level` go to the sink; NULL stops them. */
void soma_log_set_sink(soma_log_sink *sink, void *context, enum soma_log_level level);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

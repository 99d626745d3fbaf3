/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program through a pool whose model has a twin: the backend's own pool (<soma/pool.h>).  One thread.
 */
#ifndef SOMA_TOOLS_LIVE_PAIRED_H
#define SOMA_TOOLS_LIVE_PAIRED_H

#include "tools/live/live.h"

/* The stack is open, and nothing is allocated from it.  On failure `error` says why. */
enum soma_status paired_run(struct stack *stack, const struct program *program,
			    const struct live_options *options, struct live_result *result,
			    struct trace_error *error);

#endif
